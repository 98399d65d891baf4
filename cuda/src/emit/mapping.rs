//! How a kernel lies on the threads of a GPU: the cost model that chooses.

use super::kept::Kept;
use super::lanes::widest;
use super::turned;
use crate::driver::{self, Device, Launch};
use std::sync::OnceLock;
use straightline_passes::schedule::loops::{Axis, AxisId, Inst, Kernel, Scratch, Stage, Vectorize};

/// Threads of a warp.
pub(super) const WARP: i64 = 32;
/// Threads of a block, where nothing else decides.
const THREADS: i64 = 256;
/// The most threads that share a grid point.
const MOST_THREADS: i64 = 1024;
/// Shared memory for rows and tiles: a block has 48 KiB without asking for more, and totals take some.
const SHARED: i64 = 40 << 10;
/// The most threads that compute points one after the other, each with scratch memory of its own.
const SCRATCH_THREADS: i64 = 1 << 16;
/// Shorter rows are a thread's.
const SHORT_ROW: i64 = 8;
/// A thread takes about this many accesses of a row before more threads share it.
const TURNS: i64 = 4;
/// The most accesses of a row that a thread keeps.
const MOST_KEPT: i64 = 8;
/// Registers for what is kept; a thread of a full multiprocessor has 32, of a half full one 64.
const REGISTERS: i64 = 64;
/// Blocks are numbered by 31 bits.
const MOST_BLOCKS: i64 = (1 << 31) - 1;

/// Which threads compute a grid point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// One, and `width` neighbouring points.
    Points {
        /// How many.
        width: u32,
    },
    /// One, for each element of the stage too: what is scattered is combined by atomic operations.
    Elements,
    /// One; a block computes tiles of two axes, whose operands that lie the other way round it turns in
    /// shared memory.
    Tiles,
    /// A group of neighbouring ones.
    Rows {
        /// How many: a part of a warp, a warp, or a block.
        threads: u32,
        /// Neighbouring elements that a thread takes at once.
        width: u32,
        /// How often a thread does so at most, if its elements stay in registers; 0 if they do not.
        kept: u32,
    },
    /// Those of a block that have the same place in their group of `lanes`: neighbouring threads compute
    /// neighbouring points.
    Columns {
        /// Points of a block.
        lanes: u32,
        /// Threads of a point.
        members: u32,
    },
}

/// What the cost model knows of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Threads that it holds at once: with fewer it waits for memory.
    pub threads: i64,
}

impl Machine {
    /// 132 multiprocessors of 2,048 threads.
    pub const LARGE: Machine = Machine { threads: 132 * 2048 };

    /// A device.
    pub fn of(device: &Device) -> Machine {
        let p = device.properties();
        let threads = i64::from(p.multiprocessors) * i64::from(p.threads_per_multiprocessor);
        Machine { threads }
    }

    /// The first GPU that is here, or a large one.
    ///
    /// ```
    /// use straightline_cuda::emit::Machine;
    /// assert!(Machine::present().threads > 0);
    /// ```
    pub fn present() -> Machine {
        static PRESENT: OnceLock<Machine> = OnceLock::new();
        *PRESENT.get_or_init(|| match driver::device(0) {
            Ok(device) => Machine::of(device),
            Err(_) => Machine::LARGE,
        })
    }
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

impl Shape {
    /// The launch.
    ///
    /// ```
    /// use straightline_cuda::emit::{Mapping, Shape};
    /// let mapping = Mapping::Points { width: 1 };
    /// let shape = Shape { mapping, blocks: 3, threads: 256, shared_bytes: 0, scratch_bytes: 0 };
    /// assert_eq!(shape.launch().blocks, [3, 1, 1]);
    /// ```
    pub fn launch(&self) -> Launch {
        Launch {
            blocks: [self.blocks, 1, 1],
            threads: [self.threads, 1, 1],
            shared_bytes: self.shared_bytes,
        }
    }
}

/// Where the scratch rows of a grid point are that are not in registers.
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
    pub(super) kept: Kept,
}

pub(super) fn product(axes: &[Axis]) -> i64 {
    axes.iter().map(|a| a.extent).product()
}

/// Blocks of so many points each.
fn blocks_of(points: i64, each: i64) -> i64 {
    points / each + i64::from(points % each != 0)
}

/// The bytes of a scratch row of so many points that lie side by side.
pub(super) fn row_bytes(row: &Scratch, points: i64) -> i64 {
    (row.len * points * row.dtype.size() as i64 + 15) & !15
}

impl Layout {
    /// What the cost model chooses, and then what is worth a try.
    pub(super) fn all(kernel: &Kernel, machine: Machine) -> Vec<Layout> {
        let longest = kernel.stages.iter().map(|s| product(&s.axes)).max().unwrap_or(1);
        let plain = !kernel.stages.iter().any(Stage::scatters);
        if let [stage] = &kernel.stages[..]
            && kernel.in_any_order
            && !plain
            && kernel.scratch.is_empty()
        {
            let points = kernel.points().max(0) * product(&stage.axes).max(0);
            let blocks = blocks_of(points, THREADS);
            return vec![Layout::new(Mapping::Elements, blocks, THREADS, kernel)];
        }
        if plain && kernel.vectorize == Vectorize::Stage && longest >= SHORT_ROW {
            return Layout::by_rows(kernel, longest, machine);
        }
        let columns = match plain {
            true => Layout::by_columns(kernel, longest, machine),
            false => Vec::new(),
        };
        if columns.is_empty() { Layout::by_points(kernel, machine) } else { columns }
    }

    fn new(mapping: Mapping, blocks: i64, threads: i64, kernel: &Kernel) -> Layout {
        let shape = Shape {
            mapping,
            blocks: blocks.clamp(1, MOST_BLOCKS) as u32,
            threads: threads as u32,
            shared_bytes: 0,
            scratch_bytes: 0,
        };
        let kept = Kept { rows: vec![false; kernel.scratch.len()], loads: Vec::new() };
        Layout { shape, rows: Rows::Global, kept }
    }

    /// A thread a point. Fewer elements at once, where that leaves a GPU without work.
    fn by_points(kernel: &Kernel, machine: Machine) -> Vec<Layout> {
        let points = kernel.points().max(0);
        let scratch: i64 = kernel.scratch.iter().map(|s| row_bytes(s, 1)).sum();
        let ([stage], Some(inner)) = (&kernel.stages[..], kernel.grid.last()) else {
            return vec![Layout::one_each(kernel, points, scratch)];
        };
        if !stage.axes.is_empty() || scratch != 0 || stage.scatters() {
            return vec![Layout::one_each(kernel, points, scratch)];
        }
        if let Some(tiles) = turned::tiles(kernel, SHARED) {
            return vec![Layout::new(Mapping::Tiles, tiles, THREADS, kernel)];
        }
        let most = widest(&[(&stage.body, inner.id, inner.extent)]);
        let mut width = most;
        while width > 1 && points / width < machine.threads {
            width /= 2;
        }
        let of = |(width, threads): (i64, i64)| {
            let blocks = blocks_of(points / width, threads);
            Layout::new(Mapping::Points { width: width as u32 }, blocks, threads, kernel)
        };
        let others = [
            (width, THREADS / 2),
            (width, THREADS * 2),
            (width * 2, THREADS),
            (width / 2, THREADS),
        ];
        let others = others.into_iter().filter(|(width, _)| (1..=most).contains(width));
        std::iter::once((width, THREADS)).chain(others).map(of).collect()
    }

    fn one_each(kernel: &Kernel, points: i64, scratch: i64) -> Layout {
        let most = if scratch == 0 { MOST_BLOCKS } else { SCRATCH_THREADS / THREADS };
        let blocks = blocks_of(points, THREADS).clamp(1, most);
        let mut layout = Layout::new(Mapping::Points { width: 1 }, blocks, THREADS, kernel);
        layout.shape.scratch_bytes = (scratch * blocks * THREADS) as u64;
        layout
    }

    /// Threads share a row. What a stage hands to the next stays in their registers if it fits; else a row is
    /// in shared memory, or in that of the launch.
    fn by_rows(kernel: &Kernel, longest: i64, machine: Machine) -> Vec<Layout> {
        let points = kernel.points().max(0);
        let stages: Vec<(&[Inst], AxisId, i64)> = (kernel.stages.iter())
            .filter_map(|s| s.axes.last().map(|a| (&s.body[..], a.id, a.extent)))
            .collect();
        let mut width = widest(&stages);
        // a row that is taken by few threads leaves the others of a warp to other rows
        while width > 1 && longest / width < WARP {
            width /= 2;
        }
        let accesses = blocks_of(longest, width);
        let turns = |threads: i64| blocks_of(accesses, threads);
        let mut threads = 4;
        while threads < MOST_THREADS
            && (turns(threads) > TURNS
                || turns(threads) > 1 && points.max(1) * threads < machine.threads
                || turns(threads) > 1 && threads < WARP)
        {
            threads *= 2;
        }
        let others =
            [threads * 2, threads / 2].into_iter().filter(|n| (4..=MOST_THREADS).contains(n));
        let of = |threads: i64| Layout::rows_of(kernel, longest, width, threads);
        std::iter::once(threads).chain(others).map(of).collect()
    }

    /// Rows that so many threads share, so many elements at once.
    fn rows_of(kernel: &Kernel, longest: i64, width: i64, threads: i64) -> Layout {
        let points = kernel.points().max(0);
        let kept = Kept::of(kernel);
        let turns = blocks_of(blocks_of(longest, width), threads).max(1) as u64;
        let turns = turns.next_power_of_two() as i64;
        let fits =
            |kept: &Kept| turns <= MOST_KEPT && kept.registers(kernel, turns * width) <= REGISTERS;
        let (kept, turns) = match fits(&kept) {
            true => (kept, turns),
            false => match kept.rows_alone() {
                rows if fits(&rows) => (rows, turns),
                _ => (Kept { rows: vec![false; kernel.scratch.len()], loads: Vec::new() }, 0),
            },
        };
        let groups = (THREADS / threads).max(1);
        let groups = if threads > WARP { 1 } else { groups };
        let memory = kernel.scratch.iter().zip(&kept.rows).filter(|(_, kept)| !**kept);
        let scratch: i64 = memory.map(|(s, _)| row_bytes(s, 1)).sum();
        let mapping =
            Mapping::Rows { threads: threads as u32, width: width as u32, kept: turns as u32 };
        let mut layout = Layout::new(mapping, blocks_of(points, groups), threads * groups, kernel);
        layout.kept = kept;
        if scratch * groups <= SHARED {
            layout.rows = Rows::Shared;
            layout.shape.shared_bytes = (scratch * groups) as u32;
        } else {
            // what they need of it does not grow with the points
            let blocks = i64::from(layout.shape.blocks);
            let blocks = blocks.min((SCRATCH_THREADS / (threads * groups)).max(1));
            layout.shape.blocks = blocks as u32;
            layout.shape.scratch_bytes = (scratch * groups * blocks) as u64;
        }
        layout
    }

    /// Few columns: several threads each, so that a GPU has work, and their loads are of whole lines.
    fn by_columns(kernel: &Kernel, longest: i64, machine: Machine) -> Vec<Layout> {
        let points = kernel.points().max(1);
        let lanes = (points as u64).next_power_of_two().min(WARP as u64) as i64;
        let mut members = 1;
        while members < THREADS * 2 / lanes
            && points * members < machine.threads
            && longest / (members * 2) >= SHORT_ROW / 2
        {
            members *= 2;
        }
        let shared: i64 = kernel.scratch.iter().map(|s| row_bytes(s, lanes)).sum();
        if members == 1 || shared > SHARED {
            return Vec::new();
        }
        let of = |members: i64| {
            let mapping = Mapping::Columns { lanes: lanes as u32, members: members as u32 };
            let mut layout =
                Layout::new(mapping, blocks_of(points, lanes), lanes * members, kernel);
            layout.rows = Rows::Shared;
            layout.shape.shared_bytes = shared as u32;
            layout
        };
        // whole warps
        let members = members.max(WARP / lanes);
        let others = [members * 2, members / 2];
        let others = others
            .into_iter()
            .filter(|n| (WARP / lanes..=THREADS * 2 / lanes).contains(n) && *n > 1);
        std::iter::once(members).chain(others).map(of).collect()
    }
}
