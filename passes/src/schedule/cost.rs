//! The cost model: what computing an element again takes, by which fusion decides, and what a whole
//! step moves and computes, which `explain` shows. All of it is counted in scalar operations, in
//! additions, and in bytes.

use super::loops::{
    Axis, BufferId, BufferView, Extern, Index, Kernel, Mem, Op, Schedule, Stage, Step,
};
use super::program::Def;
use crate::ir::{Dims, layout};
use std::collections::HashMap;
use std::fmt;

/// What storing an element and loading it again costs, about: as much may be computed a second time
/// instead.
const STORE_AND_LOAD: u32 = 4;

/// Operations of a definition, without what it reads.
pub(crate) fn operations(def: &Def) -> u32 {
    match def {
        Def::Unary(op, _) => op.cost(),
        Def::Binary(op, ..) => op.cost(),
        Def::View { .. } | Def::Reshape(_) | Def::Const(_) => 0,
        _ => 1,
    }
}

/// Whether one definition alone costs more than reading its result back from a cache.
pub(crate) fn is_expensive(def: &Def) -> bool {
    matches!(def, Def::Unary(..) | Def::Binary(..)) && operations(def) > 2
}

/// What computing an element again takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Again {
    pub(crate) operations: u32,
    /// Of other elements that are in memory.
    pub(crate) loads: u32,
    /// An element at an index that is itself loaded, or more definitions than are counted.
    pub(crate) unbounded: bool,
}

impl Again {
    /// Whether it costs less than storing the element and loading it where it is needed.
    pub(crate) fn is_cheap(self) -> bool {
        !self.unbounded && self.loads <= 1 && self.operations <= STORE_AND_LOAD
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unbounded {
            true => f.write_str("many operations, or loads by an index"),
            false => write!(f, "{} operations and {} loads", self.operations, self.loads),
        }
    }
}

/// What one run of a step moves and computes: an estimate, from sizes alone.
///
/// ```
/// use straightline_passes::ir::{Arg, DType, Op, TensorMeta, graph::Graph};
/// use straightline_passes::schedule::{ScheduleOptions, schedule};
/// let meta = TensorMeta::contiguous(DType::F32, &[8, 16]);
/// let mut g = Graph::new();
/// let x = g.input("x", meta.clone());
/// let y = g.call(Op::neg, vec![Arg::Tensor(x)], [meta])?;
/// g.set_outputs(&[y]);
/// let plan = schedule(&g, &ScheduleOptions::default()).unwrap();
/// let work = plan.work(&plan.steps[0]);
/// assert_eq!((work.read, work.written, work.operations), (512, 512, 128));
/// # Ok::<(), straightline_passes::ir::ArgumentError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Bytes of the elements that it reads, each counted once.
    pub read: u64,
    /// Bytes of the elements that it writes, each counted once.
    pub written: u64,
    /// Scalar operations, in additions; 0 for a runtime kernel of which it is not known.
    pub operations: u64,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read, {} written", Bytes(self.read), Bytes(self.written))?;
        match self.operations {
            0 => Ok(()),
            n if n < 10_000 => write!(f, ", {n} operations"),
            n if n < 10_000_000 => write!(f, ", {} thousand operations", n / 1000),
            n => write!(f, ", {} million operations", n / 1_000_000),
        }
    }
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 10 << 10 => write!(f, "{n} B"),
            n if n < 10 << 20 => write!(f, "{} KiB", n >> 10),
            n => write!(f, "{} MiB", n >> 20),
        }
    }
}

/// Operations of an instruction; what it loads and stores is counted in bytes.
fn arithmetic(op: &Op) -> u64 {
    u64::from(match op {
        Op::Load { .. } | Op::Store { .. } => 0,
        op => instruction(op),
    })
}

/// Estimated scalar operations of an instruction, a load and a store counted as one.
pub(crate) fn instruction(op: &Op) -> u32 {
    match op {
        Op::Const(_) | Op::Carry { .. } => 0,
        Op::Unary(op, _) => op.cost(),
        Op::Binary(op, ..) => op.cost(),
        _ => 1,
    }
}

fn points<'a>(axes: impl Iterator<Item = &'a Axis>) -> u64 {
    axes.fold(1u64, |n, a| n.saturating_mul(a.extent.max(0) as u64))
}

/// How many elements an index reaches, at most.
fn reached(kernel: &Kernel, stage: &Stage, index: &Index) -> u64 {
    let axes = kernel.grid.iter().chain(&stage.axes);
    points(axes.filter(|a| !index.dynamic.is_empty() || index.stride(a.id) != 0))
}

fn elements(view: &BufferView) -> u64 {
    let own: Dims =
        (view.sizes.iter().zip(&view.strides)).map(|(n, s)| if *s == 0 { 1 } else { *n }).collect();
    layout::numel(&own).max(0) as u64
}

fn bytes<'a>(views: impl Iterator<Item = &'a BufferView>) -> u64 {
    views.map(|v| elements(v) * v.dtype.size() as u64).sum()
}

impl Schedule {
    /// What one run of a step of this schedule moves and computes.
    pub fn work(&self, step: &Step) -> Work {
        match step {
            Step::Kernel(kernel) => self.loops(kernel),
            Step::Extern(Extern::Matmul(m)) => {
                let inner = m.a.sizes.last().copied().unwrap_or(1).max(0) as u64;
                let besides = [m.bias.as_ref(), m.residual.as_ref()].into_iter().flatten();
                Work {
                    read: bytes([&m.a, &m.b].into_iter().chain(besides)),
                    written: bytes([&m.out].into_iter()),
                    operations: 2 * inner * elements(&m.out),
                }
            }
            Step::Extern(Extern::Convolution(c)) => {
                let window = layout::numel(&c.weight.sizes[1..]).max(0) as u64;
                Work {
                    read: bytes(c.reads()),
                    written: bytes([&c.out].into_iter()),
                    operations: 2 * window * elements(&c.out),
                }
            }
            Step::Extern(Extern::Op { inputs, outputs, .. }) => {
                Work { read: bytes(inputs.iter()), written: bytes(outputs.iter()), operations: 0 }
            }
        }
    }

    fn loops(&self, kernel: &Kernel) -> Work {
        let mut operations = 0u64;
        // what the kernel itself has stored is not read from memory
        let (mut read, mut written) = (HashMap::new(), HashMap::new());
        for stage in &kernel.stages {
            let times = points(kernel.grid.iter().chain(&stage.axes));
            for inst in &stage.body {
                operations = operations.saturating_add(times.saturating_mul(arithmetic(&inst.op)));
                let (buffer, index, into) = match &inst.op {
                    Op::Load { mem: Mem::Buffer(b), index } => (*b, index, &mut read),
                    Op::Store { mem: Mem::Buffer(b), index, .. }
                    | Op::Update { mem: Mem::Buffer(b), index, .. } => (*b, index, &mut written),
                    _ => continue,
                };
                let sum: &mut u64 = into.entry(buffer).or_default();
                *sum = sum.saturating_add(reached(kernel, stage, index));
            }
        }
        let bytes = |(buffer, elements): (&BufferId, &u64)| {
            let b = self.buffer(*buffer);
            (*elements).min(b.len as u64) * b.dtype.size() as u64
        };
        Work {
            read: read.iter().filter(|(b, _)| !written.contains_key(b)).map(bytes).sum(),
            written: written.iter().map(bytes).sum(),
            operations,
        }
    }
}
