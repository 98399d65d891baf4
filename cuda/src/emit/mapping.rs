//! How a kernel lies on the threads of a GPU.

use straightline_passes::schedule::loops::{Axis, Kernel, Mem, Op, Vectorize};

/// Threads of a warp.
pub(super) const WARP: i64 = 32;
/// Threads of a block, where nothing else decides.
const THREADS: i64 = 256;
/// A row of more elements has a block for itself, a shorter one a warp.
const LONG_ROW: i64 = 1024;
/// Shared memory that a block has without asking for more.
const SHARED: i64 = 48 << 10;
/// The most threads that compute points one after the other, each with scratch memory of its own.
const SCRATCH_THREADS: i64 = 1 << 16;

/// Which threads compute a grid point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// One.
    Points,
    /// A group of so many neighbouring ones: 32, or the whole block.
    Rows {
        /// How many.
        threads: u32,
    },
}

/// How a kernel is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Which threads compute a grid point.
    pub mapping: Mapping,
    /// Blocks. The kernel's points are shared among those that there are, so fewer do as well.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory beyond what the function declares, in bytes.
    pub shared_bytes: u32,
    /// Global memory that the launch needs for itself, in bytes.
    pub scratch_bytes: u64,
}

/// Where the scratch rows of a grid point are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    Shared,
    /// In memory of the launch: row after row for each group of threads.
    Global,
}

/// A kernel's mapping, and where its scratch rows are.
pub(super) struct Layout {
    pub(super) shape: Shape,
    pub(super) rows: Rows,
}

fn product(axes: &[Axis]) -> i64 {
    axes.iter().map(|a| a.extent).product()
}

/// Blocks of so many points each.
fn blocks_of(points: i64, each: i64) -> i64 {
    points / each + i64::from(points % each != 0)
}

impl Layout {
    pub(super) fn of(kernel: &Kernel) -> Layout {
        let points = kernel.points().max(0);
        let longest = kernel.stages.iter().map(|s| product(&s.axes)).max().unwrap_or(1);
        let scratch: i64 =
            kernel.scratch.iter().map(|s| (s.len * s.dtype.size() as i64 + 15) & !15).sum();
        if is_by_rows(kernel, longest) {
            let (threads, in_block) = match longest <= LONG_ROW {
                true => (WARP, THREADS / WARP),
                false => (THREADS, 1),
            };
            let shared = scratch * in_block;
            let rows = if shared <= SHARED { Rows::Shared } else { Rows::Global };
            let most = match rows {
                Rows::Shared => MOST_BLOCKS,
                // what they need of it does not grow with the points
                Rows::Global => SCRATCH_THREADS / (threads * in_block),
            };
            let blocks = blocks_of(points, in_block).clamp(1, most);
            let (shared, global) = match rows {
                Rows::Shared => (shared, 0),
                Rows::Global => (0, scratch * in_block * blocks),
            };
            let mapping = Mapping::Rows { threads: threads as u32 };
            let threads = (threads * in_block) as u32;
            return Layout { shape: Shape::new(mapping, blocks, threads, shared, global), rows };
        }
        let most = if scratch == 0 { MOST_BLOCKS } else { SCRATCH_THREADS / THREADS };
        let blocks = blocks_of(points, THREADS).clamp(1, most);
        let global = scratch * blocks * THREADS;
        let shape = Shape::new(Mapping::Points, blocks, THREADS as u32, 0, global);
        Layout { shape, rows: Rows::Global }
    }
}

/// Blocks are numbered by 31 bits.
const MOST_BLOCKS: i64 = (1 << 31) - 1;

impl Shape {
    fn new(mapping: Mapping, blocks: i64, threads: u32, shared: i64, scratch: i64) -> Shape {
        Shape {
            mapping,
            blocks: blocks as u32,
            threads,
            shared_bytes: shared as u32,
            scratch_bytes: scratch as u64,
        }
    }
}

/// Whether several threads share a grid point: its stages have enough elements, their innermost axis
/// is the one that lies in memory without gaps, and nothing asks for their order.
fn is_by_rows(kernel: &Kernel, longest: i64) -> bool {
    let ordered = kernel.stages.iter().any(|stage| {
        let scatters = |op: &Op| match op {
            Op::Update { .. } => true,
            Op::Store { mem: Mem::Buffer(_), index, .. } => !index.dynamic.is_empty(),
            _ => false,
        };
        stage.body.iter().any(|i| scatters(&i.op))
    });
    kernel.vectorize == Vectorize::Stage && longest >= WARP / 2 && !ordered
}
