use std::fmt;

use thiserror::Error;

use crate::memory::MemoryError;

/// What stopped a kernel, and where.
///
/// ```
/// use straightline_ptx_interpreter::{DeviceMemory, FaultKind, Launch, Module, Options, launch};
///
/// let module = Module::parse(
///     ".version 9.0\n.target sm_90\n.address_size 64\n.entry wild() {\n.reg .b64 %rd<2>;\n\
///      mov.u64 %rd1, 64;\nst.global.u32 [%rd1], 0;\nret;\n}",
/// )?;
/// let mut memory = DeviceMemory::default();
/// let loaded = module.load(&mut memory)?;
/// let grid = Launch { grid: [1; 3], block: [1; 3], dynamic_shared: 0, params: &[] };
/// let fault = launch(&loaded, "wild", &grid, &mut memory, &Options::default()).unwrap_err();
/// assert!(matches!(fault.kind, FaultKind::Memory(_)));
/// assert_eq!((fault.line, fault.instruction.as_str()), (7, "st.global.u32 [%rd1], 0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Name of the kernel.
    pub kernel: String,
    /// Index of the block in the grid.
    pub block: [u32; 3],
    /// Index of the thread in its block: the first one that is at fault.
    pub thread: [u32; 3],
    /// Line of the PTX text, from 1; 0 if the launch was refused before any thread ran.
    pub line: usize,
    /// The instruction as it stands there.
    pub instruction: String,
    /// What is wrong.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "kernel {}: {}", self.kernel, self.kind);
        }
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(
            f,
            "kernel {}, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), PTX line {}: {}, in `{}`",
            self.kernel, self.line, self.kind, self.instruction
        )
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            FaultKind::Memory(error) => Some(error),
            _ => None,
        }
    }
}

/// The order of two accesses that race.
///
/// ```
/// use straightline_ptx_interpreter::RaceKind;
///
/// assert_eq!(RaceKind::ReadAfterWrite.to_string(), "a read of what was written");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RaceKind {
    /// The value read may be the one before the write.
    #[error("a read of what was written")]
    ReadAfterWrite,
    /// The earlier read may get the later value.
    #[error("a write over what was read")]
    WriteAfterRead,
    /// Different values: which one stays is chance.
    #[error("a write of another value over what was written")]
    WriteAfterWrite,
}

/// A limit of a launch.
///
/// ```
/// use straightline_ptx_interpreter::Limit;
///
/// assert_eq!(Limit::Threads.to_string(), "threads in a block");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Limit {
    /// Threads of a block: 1024, or what `.maxntid` says.
    #[error("threads in a block")]
    Threads,
    /// Threads of a block where `.reqntid` says how many.
    #[error("threads in a block (exactly)")]
    RequiredThreads,
    /// Threads of a block in z.
    #[error("threads of a block in z")]
    ThreadsInZ,
    /// Blocks of a grid in x.
    #[error("blocks of a grid in x")]
    BlocksInX,
    /// Blocks of a grid in y or z.
    #[error("blocks of a grid in y or z")]
    Blocks,
    /// Static and dynamic shared memory of a block.
    #[error("bytes of shared memory in a block")]
    SharedMemory,
}

/// An `assert` of CUDA C that failed.
///
/// ```
/// use straightline_ptx_interpreter::Assertion;
///
/// let (message, file, function) = ("i < n".to_owned(), "k.cu".to_owned(), "k".to_owned());
/// let assertion = Assertion { message, file, line: 7, function };
/// assert_eq!(assertion.to_string(), "assertion `i < n` failed in k, k.cu:7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("assertion `{message}` failed in {function}, {file}:{line}")]
pub struct Assertion {
    /// What does not hold.
    pub message: String,
    /// The file of the CUDA source.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// What is wrong in a [`Fault`].
///
/// ```
/// use straightline_ptx_interpreter::FaultKind;
///
/// let kind = FaultKind::Misaligned { address: 0x1004, bytes: 16 };
/// assert_eq!(kind.to_string(), "an access of 16 bytes at 0x1004, which is no multiple of 16");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// Global memory refuses an access.
    #[error("{0}")]
    Memory(MemoryError),
    /// An address is no multiple of the bytes of the access.
    #[error("an access of {bytes} bytes at {address:#x}, which is no multiple of {bytes}")]
    Misaligned {
        /// First byte of the access: in global memory an address, else an offset.
        address: u64,
        /// Bytes of the access, vectors whole.
        bytes: u32,
    },
    /// An access past the shared memory of the block.
    #[error("{bytes} bytes at offset {offset:#x} of shared memory, which has {size} bytes")]
    SharedOutOfBounds {
        /// Offset in shared memory.
        offset: u64,
        /// Bytes of the access.
        bytes: u32,
        /// Static and dynamic bytes of the launch.
        size: u64,
    },
    /// An access past the local memory of the thread.
    #[error("{bytes} bytes at offset {offset:#x} of local memory, which has {size} bytes")]
    LocalOutOfBounds {
        /// Offset in local memory.
        offset: u64,
        /// Bytes of the access.
        bytes: u32,
        /// Bytes that the thread has.
        size: u64,
    },
    /// An access past the parameters of the kernel, or a write to them.
    #[error(
        "{bytes} bytes at offset {offset:#x} of the parameters, which have {size} bytes and are read only"
    )]
    ParamOutOfBounds {
        /// Offset in the parameters.
        offset: u64,
        /// Bytes of the access.
        bytes: u32,
        /// Bytes of the parameters.
        size: u64,
    },
    /// Two threads use the same shared memory with no barrier between them.
    #[error(
        "a race at offset {offset:#x} of shared memory: {race} by thread ({}, {}, {}) at line {other_line}, with no barrier between",
        other_thread[0], other_thread[1], other_thread[2]
    )]
    SharedRace {
        /// Which of the accesses write.
        race: RaceKind,
        /// Offset in shared memory.
        offset: u64,
        /// The thread of the earlier access.
        other_thread: [u32; 3],
        /// The line of the earlier access; 0 if it is not known.
        other_line: usize,
    },
    /// Shared memory is read while a `cp.async` into it has not been waited for.
    #[error(
        "offset {offset:#x} of shared memory is used before the cp.async of line {copy_line} into it was waited for"
    )]
    PendingCopy {
        /// Offset in shared memory.
        offset: u64,
        /// The line of the copy.
        copy_line: usize,
    },
    /// Some threads wait at a barrier that others do not reach.
    #[error(
        "a barrier that not all threads reach: thread ({}, {}, {}) {}",
        other_thread[0], other_thread[1], other_thread[2], whereabouts(*other_line)
    )]
    DivergentBarrier {
        /// A thread that does not come.
        other_thread: [u32; 3],
        /// The line at which it waits for something else; 0 if it has exited.
        other_line: usize,
    },
    /// A `.sync` instruction names threads that do not take part.
    #[error(
        "the mask {mask:#010x} names threads that do not take part: the active ones are {active:#010x}"
    )]
    DivergentShuffle {
        /// The threads that the instruction waits for.
        mask: u32,
        /// The threads that execute it.
        active: u32,
    },
    /// A value is taken from a lane that does not take part.
    #[error("lane {lane}, from which a value is taken, is not active ({active:#010x})")]
    InactiveLane {
        /// The lane.
        lane: u32,
        /// The threads that execute the instruction.
        active: u32,
    },
    /// The launch asks for more than a limit.
    #[error("{given} {limit}, at most {most}")]
    LaunchBounds {
        /// What is limited.
        limit: Limit,
        /// What the launch asks for.
        given: u64,
        /// The limit.
        most: u64,
    },
    /// A grid or a block of no size.
    #[error("a grid without blocks or a block without threads")]
    EmptyLaunch,
    /// No kernel of the module has the name.
    #[error("the module has no kernel of this name")]
    UnknownKernel,
    /// The bytes of the parameters do not fit the kernel.
    #[error("{given} bytes of parameters, the kernel has {expected}")]
    Parameters {
        /// Bytes that the kernel declares.
        expected: usize,
        /// Bytes given.
        given: usize,
    },
    /// The bound of [`crate::Options`] is reached: an endless loop, most likely.
    #[error("more than {most} instructions: the kernel may never end")]
    TooManyInstructions {
        /// The bound, in instructions of threads.
        most: u64,
    },
    /// Frames need more registers or local memory than a thread has: most often a recursion that does
    /// not end.
    #[error("calls are nested too deep")]
    StackOverflow,
    /// A jump or a call through an address or index that leads nowhere.
    #[error("a jump to {target:#x}, which leads nowhere")]
    BadJump {
        /// The index or address.
        target: u64,
    },
    /// `assert` of CUDA C.
    #[error("{0}")]
    Assertion(Box<Assertion>),
    /// `trap`.
    #[error("the kernel trapped")]
    Trap,
    /// An instruction that is not interpreted.
    #[error("{instruction} is not interpreted")]
    Unsupported {
        /// Its mnemonic with modifiers, or what is unknown in it.
        instruction: String,
    },
}

fn whereabouts(line: usize) -> String {
    if line == 0 { "has exited".to_owned() } else { format!("is at line {line}") }
}
