//! The door of the C interface: how an entry point is declared, how it reads and writes what its
//! caller points to, and how often each was called.
//!
//! A panic stops at the door and becomes `CUDA_ERROR_UNKNOWN`.

use crate::code::{Code, Outcome};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// Where a caller wants a result: null, or valid for a write of `T`.
///
/// Only callers of the C interface make one, and the interface asks that of them; so its methods
/// can be safe.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes a result that has to be wanted.
    pub(crate) fn set(&self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so valid for a write (see the type)
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes a result that may be unwanted.
    pub(crate) fn offer(&self, value: T) {
        let _ = self.set(value);
    }

    /// Writes several, for callers that point to an array of at least so many.
    pub(crate) fn set_all(&self, values: impl IntoIterator<Item = T>) -> Outcome {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: the caller said how many there is room for, and is given no more
            unsafe { self.0.add(index).write_unaligned(value) };
        }
        Ok(())
    }
}

impl<T: Copy> Out<T> {
    /// What stands there: for parameters that go both ways.
    pub(crate) fn get(&self) -> Outcome<T> {
        In(self.0.cast_const()).get()
    }
}

/// What a caller passes by address: null, or valid for reads of as many `T` as the call says.
///
/// As for [`Out`], only callers of the C interface make one.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// What stands at an address that a caller gave as a number.
    pub(crate) fn at(address: Address) -> In<T> {
        In(std::ptr::with_exposed_provenance(address))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn address(&self) -> usize {
        self.0.addr()
    }

    pub(crate) fn get(&self) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so valid for a read (see the type)
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The first `count` values.
    pub(crate) fn all(&self, count: usize) -> Outcome<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller said that there are so many
        Ok((0..count).map(|index| unsafe { self.0.add(index).read_unaligned() }).collect())
    }
}

/// A pointer that the caller uses as a number or that is read later: host memory, data of a host
/// function.
pub(crate) type Address = usize;

/// Reads host memory.
///
/// # Safety
///
/// `address` is valid for reads of `bytes`, and nobody writes there meanwhile.
pub(crate) unsafe fn read_host(address: Address, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0_u8; bytes];
    let from = std::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: what the caller promises; `copy` has as many bytes and is our own
    unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes) };
    copy
}

/// Writes host memory.
///
/// # Safety
///
/// `address` is valid for writes of as many bytes, and nobody uses them meanwhile.
pub(crate) unsafe fn write_host(address: Address, bytes: &[u8]) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: what the caller promises; `bytes` is a borrow of other memory
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// Text that ends with a zero, which a caller points to.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Outcome<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so text that ends with a zero: what the C interface asks of callers
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| Code::INVALID_VALUE)
    }
}

/// Writes text with its zero into a buffer of `length` bytes, cut where it is too long.
pub(crate) fn set_text(buffer: &Out<c_char>, length: usize, text: &str) -> Outcome {
    let Some(room) = length.checked_sub(1) else { return Err(Code::INVALID_VALUE) };
    let bytes = &text.as_bytes()[..text.len().min(room)];
    buffer.set_all(bytes.iter().map(|&byte| byte as c_char).chain([0]))
}

static CALLS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// How often an entry point was called since the last reset; without a name, all of them.
pub(crate) fn calls(name: Option<&str>) -> u64 {
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    match name {
        Some(name) => calls.get(name).copied().unwrap_or(0),
        None => {
            calls.iter().filter(|(name, _)| name.starts_with("cu")).map(|(_, count)| count).sum()
        }
    }
}

/// Forgets the counts.
pub(crate) fn forget_calls() {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Counts a call and runs its body; what it panics with becomes `panicked`.
pub(crate) fn enter<R>(name: &'static str, panicked: R, body: impl FnOnce() -> R) -> R {
    let counted = || {
        *CALLS.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_insert(0) += 1;
        body()
    };
    catch_unwind(AssertUnwindSafe(counted)).unwrap_or(panicked)
}

/// An exported function, as `cuGetProcAddress` finds it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) address: usize,
}

/// What entry points return.
pub(crate) trait Status: Copy {
    /// all is well
    const SUCCESS: Self;
    /// the body panicked
    const PANICKED: Self;
}

impl Status for Code {
    const SUCCESS: Code = Code::SUCCESS;
    const PANICKED: Code = Code::UNKNOWN;
}

/// Declares entry points that return the given [`Status`], from bodies that give a `Result`; and
/// `table()`, which lists them.
macro_rules! entries {
    (
        $status:ty;
        $($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*
    ) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the interface of C")]
            pub(crate) extern "C" fn $name($($argument: $type),*) -> $status {
                use $crate::door::Status as _;
                $crate::door::enter(stringify!($name), <$status>::PANICKED, || {
                    let body = || -> Result<(), $status> { $body };
                    body().err().unwrap_or(<$status>::SUCCESS)
                })
            }
        )*

        /// The entry points of this file.
        pub(crate) fn table() -> Vec<$crate::door::Entry> {
            vec![$($crate::door::Entry {
                name: stringify!($name),
                address: ($name as *const ()).addr(),
            }),*]
        }
    };
}
pub(crate) use entries;
