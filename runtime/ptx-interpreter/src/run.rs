use crate::execute::Machine;
use crate::execute::calls::{LOCAL, REGISTERS};
use crate::fault::{Fault, FaultKind, Limit};
use crate::memory::DeviceMemory;
use crate::module::{Kernel, Loaded};
use crate::number::{LANES, Lanes};
use crate::program::{Constant, FUNCTION_WINDOW, Program};

/// The shape of a launch and the bytes of its parameters.
///
/// ```
/// use straightline_ptx_interpreter::Launch;
///
/// let params = 0x10_0000_0000u64.to_le_bytes();
/// let launch = Launch { grid: [4, 1, 1], block: [256, 1, 1], dynamic_shared: 0, params: &params };
/// assert_eq!(launch.params.len(), 8);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory on top of what the kernel declares.
    pub dynamic_shared: u32,
    /// The parameters, laid out as [`crate::Kernel::params`] says.
    pub params: &'a [u8],
}

/// The order in which blocks, and the warps of a block between barriers, run.
///
/// A kernel whose result depends on it lacks a barrier or an atomic.
///
/// ```
/// use straightline_ptx_interpreter::{Options, WarpOrder};
///
/// let options = Options { warp_order: WarpOrder::Shuffled(7), ..Options::default() };
/// assert_ne!(options.warp_order, WarpOrder::Forward);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WarpOrder {
    /// From the first to the last.
    #[default]
    Forward,
    /// From the last to the first.
    Reverse,
    /// Another order each time, drawn from the seed.
    Shuffled(u64),
}

/// How a launch runs.
///
/// ```
/// use straightline_ptx_interpreter::Options;
///
/// assert!(Options::default().check_races);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The order of blocks and warps.
    pub warp_order: WarpOrder,
    /// Whether races in shared memory are faults.
    pub check_races: bool,
    /// How many instructions, over all threads, a launch may execute.
    pub max_instructions: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { warp_order: WarpOrder::Forward, check_races: true, max_instructions: 1 << 33 }
    }
}

/// What a launch did, over all threads.
///
/// ```
/// use straightline_ptx_interpreter::Statistics;
///
/// assert_eq!(Statistics::default().instructions, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Instructions of threads: one that 32 lanes execute counts 32.
    pub instructions: u64,
    /// Instructions of warps: one that 32 lanes execute counts 1.
    pub warp_instructions: u64,
    /// Loads from global memory; a vector is one.
    pub global_loads: u64,
    /// Stores to global memory; a vector is one.
    pub global_stores: u64,
    /// Bytes loaded from global memory.
    pub bytes_loaded: u64,
    /// Bytes stored to global memory.
    pub bytes_stored: u64,
    /// Bytes of the widest load from global memory by one thread.
    pub widest_load: u32,
    /// Bytes of the widest store to global memory by one thread.
    pub widest_store: u32,
    /// Sectors of 32 bytes that warps loaded from global memory: 4 for 32 neighbours of four bytes.
    pub sectors_loaded: u64,
    /// Sectors of 32 bytes that warps stored to global memory.
    pub sectors_stored: u64,
    /// Loads from shared memory.
    pub shared_loads: u64,
    /// Stores to shared memory.
    pub shared_stores: u64,
    /// Reads of shared memory that no thread of the block had written, in units of the narrowest
    /// access; counted where races are checked. Such memory holds [`crate::POISON`], which is next to
    /// zero as a floating-point number, so that a sum over it looks right.
    pub uninitialized_reads: u64,
    /// How often the banks of shared memory were used again for one access of a warp.
    pub bank_conflicts: u64,
    /// Barriers that blocks passed: one for a block.
    pub barriers: u64,
    /// Atomic operations of threads, `atom` and `red`.
    pub atomics: u64,
    /// Branches at which the threads of a warp parted.
    pub divergent_branches: u64,
}

/// Runs a kernel over its grid. Memory keeps what was written before a fault.
///
/// ```
/// use straightline_ptx_interpreter::{DeviceMemory, FaultKind, Launch, Module, Options, launch};
///
/// let module = Module::parse(".version 9.0\n.target sm_90\n.address_size 64")?;
/// let mut memory = DeviceMemory::default();
/// let loaded = module.load(&mut memory)?;
/// let grid = Launch { grid: [1; 3], block: [1; 3], dynamic_shared: 0, params: &[] };
/// let fault = launch(&loaded, "none", &grid, &mut memory, &Options::default()).unwrap_err();
/// assert_eq!(fault.kind, FaultKind::UnknownKernel);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn launch(
    module: &Loaded,
    kernel: &str,
    launch: &Launch<'_>,
    memory: &mut DeviceMemory,
    options: &Options,
) -> Result<Statistics, Fault> {
    let refuse = |kind| Fault {
        kernel: kernel.to_owned(),
        block: [0; 3],
        thread: [0; 3],
        line: 0,
        instruction: String::new(),
        kind,
    };
    let Some(found) = module.module().kernel(kernel) else {
        return Err(refuse(FaultKind::UnknownKernel));
    };
    check(found, launch).map_err(refuse)?;
    let program = found.program();
    let constants = constants(program, module, found).map_err(refuse)?;
    let source = module.module().source();
    Machine::new(program, source, constants, memory, *launch, *options).run(kernel)
}

/// Threads of a block on every GPU since 2010.
const THREADS: u64 = 1024;
/// Bytes of shared memory of a block on sm_90.
const SHARED: u64 = 227 << 10;

fn check(kernel: &Kernel, launch: &Launch<'_>) -> Result<(), FaultKind> {
    let bound = |limit, given: u64, most: u64| {
        if given > most { Err(FaultKind::LaunchBounds { limit, given, most }) } else { Ok(()) }
    };
    let product = |sizes: [u32; 3]| sizes.iter().map(|&size| u64::from(size)).product::<u64>();
    if product(launch.block) == 0 || launch.grid.contains(&0) || launch.block.contains(&0) {
        return Err(FaultKind::EmptyLaunch);
    }
    let threads = launch.block.iter().fold(1u64, |all, &size| all.saturating_mul(size.into()));
    bound(Limit::Threads, threads, THREADS)?;
    bound(Limit::ThreadsInZ, launch.block[2].into(), 64)?;
    if let Some(most) = kernel.max_threads() {
        bound(Limit::Threads, threads, product(most))?;
        if kernel.requires_threads() && launch.block != most {
            let (given, most) = (threads, product(most));
            return Err(FaultKind::LaunchBounds { limit: Limit::RequiredThreads, given, most });
        }
    }
    bound(Limit::BlocksInX, launch.grid[0].into(), (1 << 31) - 1)?;
    bound(Limit::Blocks, launch.grid[1].max(launch.grid[2]).into(), 65535)?;
    let shared = u64::from(kernel.static_shared()) + u64::from(launch.dynamic_shared);
    bound(Limit::SharedMemory, shared, SHARED)?;
    let frame = kernel.program().functions.first();
    if frame.is_some_and(|frame| frame.registers as usize > REGISTERS || frame.local > LOCAL) {
        return Err(FaultKind::StackOverflow);
    }
    let (expected, given) = (kernel.param_bytes(), launch.params.len());
    if expected != given {
        return Err(FaultKind::Parameters { expected, given });
    }
    Ok(())
}

fn constants(program: &Program, module: &Loaded, kernel: &Kernel) -> Result<Vec<Lanes>, FaultKind> {
    let resolve = |constant: &Constant| {
        Ok(match *constant {
            Constant::Value(bits) => bits,
            Constant::Variable(index, offset) => match module.place(index) {
                Some(address) => address.wrapping_add_signed(offset),
                None => {
                    let instruction = "an .extern variable that nothing defines".to_owned();
                    return Err(FaultKind::Unsupported { instruction });
                }
            },
            // the dynamic part begins where any type is aligned
            Constant::DynamicShared(offset) => {
                let start = u64::from(kernel.static_shared()).next_multiple_of(16);
                start.wrapping_add_signed(offset)
            }
            Constant::Function(index) => FUNCTION_WINDOW + index as u64,
        })
    };
    program.constants.iter().map(|constant| resolve(constant).map(|value| [value; LANES])).collect()
}
