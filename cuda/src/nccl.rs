//! What several GPUs of this process do together, by NCCL.
//!
//! The functions are those that NCCL has had since 2.0; the library is looked for as the others are, and
//! without it there is an error that says so. A collective is queued on a stream of each GPU, and nothing
//! waits on the host.

use crate::driver::{Device, Stream};
use crate::loader::{Found, availability, nccl_library};
use libloading::os::unix::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use straightline_passes::ir::DType;

/// How elements of the same place are combined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Their mean.
    Mean,
}

/// What the ranks do. `count` elements are what each of them sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collective {
    /// Each gets the combination of all.
    AllReduce(Combine),
    /// Each gets what one of them sends.
    Broadcast {
        /// Which.
        root: usize,
    },
    /// Each gets what all send, one after the other.
    AllGather,
    /// Each gets its part of the combination of all; `count` is a multiple of the ranks.
    ReduceScatter(Combine),
}

/// What a rank sends from and receives in, on its GPU, and the stream on which it does.
#[derive(Clone, Debug)]
pub struct Place {
    /// Address.
    pub send: u64,
    /// Address; `send` itself where as many elements are received.
    pub receive: u64,
    /// Of the rank's GPU.
    pub stream: Stream,
}

/// Why GPUs do nothing together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CollectiveError {
    /// NCCL is not on this machine.
    #[error("GPUs can not work together here: {reason}")]
    Unavailable {
        /// What is missing, and what to do.
        reason: String,
    },
    /// A dtype that NCCL does not have.
    #[error("NCCL does not combine or copy {dtype}")]
    DType {
        /// The dtype.
        dtype: DType,
    },
    /// The ranks do not fit.
    #[error("{given} places for {ranks} ranks")]
    Ranks {
        /// How many there are.
        ranks: usize,
        /// How many were given.
        given: usize,
    },
    /// NCCL has failed.
    #[error("{call} fails: {reason}")]
    Failed {
        /// Which function.
        call: &'static str,
        /// What it says.
        reason: String,
    },
}

type Status = c_int;
type Raw = *mut c_void;
type Reduced = unsafe extern "C" fn(u64, u64, usize, c_int, c_int, Raw, Raw) -> Status;
type Copied = unsafe extern "C" fn(u64, u64, usize, c_int, Raw, Raw) -> Status;

/// NCCL's functions.
struct Functions {
    init_all: Symbol<unsafe extern "C" fn(*mut Raw, c_int, *const c_int) -> Status>,
    destroy: Symbol<unsafe extern "C" fn(Raw) -> Status>,
    group_start: Symbol<unsafe extern "C" fn() -> Status>,
    group_end: Symbol<unsafe extern "C" fn() -> Status>,
    error: Symbol<unsafe extern "C" fn(Status) -> *const c_char>,
    all_reduce: Symbol<Reduced>,
    reduce_scatter: Symbol<Reduced>,
    all_gather: Symbol<Copied>,
    /// With the root between dtype and communicator.
    broadcast: Symbol<Reduced>,
}

impl Functions {
    fn of(library: &'static Library) -> Result<Functions, libloading::Error> {
        // SAFETY: these are the signatures of NCCL 2.
        unsafe {
            Ok(Functions {
                init_all: library.get("ncclCommInitAll")?,
                destroy: library.get("ncclCommDestroy")?,
                group_start: library.get("ncclGroupStart")?,
                group_end: library.get("ncclGroupEnd")?,
                error: library.get("ncclGetErrorString")?,
                all_reduce: library.get("ncclAllReduce")?,
                reduce_scatter: library.get("ncclReduceScatter")?,
                all_gather: library.get("ncclAllGather")?,
                broadcast: library.get("ncclBroadcast")?,
            })
        }
    }

    fn check(&self, call: &'static str, status: Status) -> Result<(), CollectiveError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: it gives a text that stays, for any status.
        let text = unsafe { (self.error)(status) };
        let reason = match text.is_null() {
            true => format!("status {status}"),
            // SAFETY: as above.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        Err(CollectiveError::Failed { call, reason })
    }
}

fn functions() -> Result<&'static Functions, CollectiveError> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    let found = FUNCTIONS.get_or_init(|| {
        let library = nccl_library().ok_or_else(|| match &availability().nccl {
            Found::Missing { reason } => reason.clone(),
            Found::Here { .. } => "libnccl.so.2 was not opened".into(),
        })?;
        Functions::of(library).map_err(|e| e.to_string())
    });
    found.as_ref().map_err(|reason| CollectiveError::Unavailable { reason: reason.clone() })
}

/// GPUs of this process that work together: rank `i` is the `i`-th of them.
pub struct Communicator {
    ranks: Vec<Rank>,
    /// One collective at a time: all ranks have to meet them in one order.
    turns: Mutex<()>,
}

struct Rank {
    device: &'static Device,
    raw: Raw,
}

// SAFETY: a communicator may be used by any thread, by one at a time.
unsafe impl Send for Communicator {}
// SAFETY: `turns` sees to it that it is one at a time.
unsafe impl Sync for Communicator {}

impl Drop for Communicator {
    fn drop(&mut self) {
        let Ok(functions) = functions() else { return };
        for rank in &self.ranks {
            // SAFETY: it was made below; the library waits for what it does.
            if let Err(e) =
                functions.check("ncclCommDestroy", unsafe { (functions.destroy)(rank.raw) })
            {
                tracing::debug!("{e}");
            }
        }
    }
}

impl Communicator {
    /// A communicator of these GPUs, each once.
    ///
    /// ```
    /// use straightline_cuda::driver::{device, device_count};
    /// use straightline_cuda::nccl::{CollectiveError, Communicator};
    /// let devices: Vec<_> = (0..device_count()).filter_map(|i| device(i).ok()).collect();
    /// match Communicator::new(&devices) {
    ///     Ok(all) => assert_eq!(all.ranks(), devices.len()),
    ///     Err(e) => assert!(matches!(e, CollectiveError::Unavailable { .. } | CollectiveError::Ranks { .. })),
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CollectiveError`].
    pub fn new(devices: &[&'static Device]) -> Result<Communicator, CollectiveError> {
        let functions = functions()?;
        if devices.is_empty() {
            return Err(CollectiveError::Ranks { ranks: 1, given: 0 });
        }
        let numbers: Vec<c_int> = devices.iter().map(|d| d.ordinal() as c_int).collect();
        let mut raw: Vec<Raw> = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: there is a place for each.
        let status = unsafe {
            (functions.init_all)(raw.as_mut_ptr(), numbers.len() as c_int, numbers.as_ptr())
        };
        functions.check("ncclCommInitAll", status)?;
        let ranks = devices.iter().zip(raw).map(|(device, raw)| Rank { device, raw }).collect();
        Ok(Communicator { ranks, turns: Mutex::new(()) })
    }

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// The GPU of a rank.
    pub fn device(&self, rank: usize) -> Option<&'static Device> {
        self.ranks.get(rank).map(|r| r.device)
    }

    /// Queues a collective on all ranks, each of which sends `count` elements.
    ///
    /// # Safety
    ///
    /// The addresses are memory of the ranks' GPUs, with so many elements as the collective sends and
    /// receives, until the streams have come so far; streams are of the ranks' GPUs.
    ///
    /// # Errors
    ///
    /// [`CollectiveError`].
    pub unsafe fn queue(
        &self,
        what: Collective,
        dtype: DType,
        count: usize,
        places: &[Place],
    ) -> Result<(), CollectiveError> {
        let functions = functions()?;
        if places.len() != self.ranks.len() {
            return Err(CollectiveError::Ranks { ranks: self.ranks.len(), given: places.len() });
        }
        let dtype = number_of(dtype).ok_or(CollectiveError::DType { dtype })?;
        let _turn = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the calls of a group are made together at its end.
        functions.check("ncclGroupStart", unsafe { (functions.group_start)() })?;
        let mut done = Ok(());
        for (rank, place) in self.ranks.iter().zip(places) {
            let Place { send, receive, stream } = place;
            let (comm, on) = (rank.raw, stream.raw().cast::<c_void>());
            // SAFETY: the caller's contract; the communicator lives.
            let (call, status) = unsafe {
                match what {
                    Collective::AllReduce(how) => {
                        let how = how.number();
                        let f = &functions.all_reduce;
                        ("ncclAllReduce", f(*send, *receive, count, dtype, how, comm, on))
                    }
                    Collective::ReduceScatter(how) => {
                        let (each, how) = (count / self.ranks.len(), how.number());
                        let f = &functions.reduce_scatter;
                        ("ncclReduceScatter", f(*send, *receive, each, dtype, how, comm, on))
                    }
                    Collective::AllGather => {
                        let f = &functions.all_gather;
                        ("ncclAllGather", f(*send, *receive, count, dtype, comm, on))
                    }
                    Collective::Broadcast { root } => {
                        let f = &functions.broadcast;
                        let root = root as c_int;
                        ("ncclBroadcast", f(*send, *receive, count, dtype, root, comm, on))
                    }
                }
            };
            done = functions.check(call, status);
            if done.is_err() {
                break;
            }
        }
        // SAFETY: as above.
        let ended = functions.check("ncclGroupEnd", unsafe { (functions.group_end)() });
        done.and(ended)
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranks.iter().map(|r| r.device)).finish()
    }
}

impl Combine {
    fn number(self) -> c_int {
        match self {
            Combine::Sum => 0,
            Combine::Product => 1,
            Combine::Max => 2,
            Combine::Min => 3,
            Combine::Mean => 4,
        }
    }
}

/// NCCL's number of a dtype.
fn number_of(dtype: DType) -> Option<c_int> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::I64 => 4,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        _ => return None,
    })
}
