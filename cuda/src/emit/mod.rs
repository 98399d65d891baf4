//! CUDA C from loops.
//!
//! A program is the prelude and a function for each kernel of a schedule; it includes nothing, so that
//! NVRTC needs no headers. How a kernel's grid and stages lie on threads is its [`Mapping`]:
//!
//! - [`Mapping::Points`]: a thread computes a grid point and goes through the axes of its stages in
//!   order. Neighbouring threads have neighbouring points of the innermost grid axis. What scatters
//!   goes this way: no two grid points meet, and within one the order is that of the loops.
//! - [`Mapping::Rows`]: a warp, or a block, computes a grid point; its threads share the elements of
//!   each stage, and reductions end in shuffles. (As in Inductor's persistent reductions and XLA's
//!   row reductions, a row stays in shared memory between the stages that read it.)
//!
//! **Numbers.** Extents, strides, offsets, constants and the sizes that indices are checked against are written
//! into the text, or are arguments of the kernel ([`Numbers::Arguments`]), in the order in which the
//! text needs them: two schedules that give one text run one binary. 0, 1 and -1 are always written
//! out, since what they decide is structure.
//!
//! **Exactness.** Programs are to be compiled without contraction of products and sums
//! (`--fmad=false`), and functions are those of CUDA's library: each operation rounds once, as eager
//! code does; elementary functions differ in their last bits from those of the CPU.
//!
//! ```
//! use straightline_cuda::emit::{Numbers, program};
//! use straightline_passes::ir::graph::Graph;
//! use straightline_passes::schedule::{ScheduleOptions, schedule};
//! let text = "graph(%x: f32[64]) {\n  %0: f32[64] = aten::exp(%x)\n  return %0\n}";
//! let graph: Graph = text.parse().unwrap();
//! let schedule = schedule(&graph, &ScheduleOptions::default()).unwrap();
//! let program = program(&schedule, Numbers::Literals).unwrap();
//! assert!(program.text.contains("expf("));
//! assert_eq!(program.kernels.len(), 1);
//! ```

mod body;
mod mapping;
mod numeric;
mod reductions;
#[cfg(test)]
mod tests;
mod types;
mod values;
mod writer;

pub use mapping::{Mapping, Shape};
pub(crate) use numeric::Numeric;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BufferId, Kernel, Schedule};
use writer::Writer;

/// What every program begins with.
const PRELUDE: &str = include_str!("prelude.cu");

/// Where the numbers of a schedule are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// In the text: the quickest code, for these sizes alone.
    Literals,
    /// Arguments: one text for all sizes that do not change its structure.
    Arguments,
}

/// Why a kernel has no CUDA form.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    /// A dtype that loops do not compute with.
    #[error("kernel `{kernel}`: CUDA code for {dtype} is not generated")]
    DType {
        /// The kernel.
        kernel: String,
        /// The dtype.
        dtype: DType,
    },
}

/// CUDA C for the generated kernels of a schedule.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The text. It is the same for all schedules that may run the same binary.
    pub text: String,
    /// The kernels, in the order of the schedule's.
    pub kernels: Vec<Emitted>,
}

/// A kernel of a program, as it is launched.
#[derive(Clone, PartialEq, Debug)]
pub struct Emitted {
    /// The function's name.
    pub name: String,
    /// Its arguments: a pointer for each of these buffers, then the numbers (if there are any, as one
    /// structure of `i64`), a pointer to scratch memory (if `shape.scratch_bytes` is not 0), and one
    /// to the status (if `fails`).
    pub buffers: Vec<BufferId>,
    /// The numbers.
    pub numbers: Vec<i64>,
    /// Whether it reports failures.
    pub fails: bool,
    /// Blocks, threads and memory.
    pub shape: Shape,
}

/// What a copy between two dtypes needs: the prelude, the types of elements of both, and an element
/// `from` as one of the other dtype.
pub(crate) fn conversion(
    to: DType,
    from: DType,
    element: &str,
) -> (&'static str, &'static str, &'static str, String) {
    if to == from {
        let ty = types::of_size(to.size());
        return (PRELUDE, ty, ty, element.to_string());
    }
    let v = types::widened(from, element);
    let value = types::narrowed(to, &values::cast(&v, from, to));
    (PRELUDE, types::element(to), types::element(from), value)
}

/// How elements of a dtype are loaded, computed with and stored.
pub(crate) struct ValueTypes {
    pub(crate) prelude: &'static str,
    pub(crate) element: &'static str,
    pub(crate) value: &'static str,
    dtype: DType,
}

impl ValueTypes {
    pub(crate) fn widened(&self, element: &str) -> String {
        types::widened(self.dtype, element)
    }

    pub(crate) fn narrowed(&self, value: &str) -> String {
        types::narrowed(self.dtype, value)
    }
}

/// `None` for dtypes that loops do not compute with.
pub(crate) fn value_types(dtype: DType) -> Option<ValueTypes> {
    let value = types::Held::of(dtype)?.name();
    Some(ValueTypes { prelude: PRELUDE, element: types::element(dtype), value, dtype })
}

/// The unsigned type of so many bytes.
pub(crate) fn type_of_size(bytes: usize) -> &'static str {
    types::of_size(bytes)
}

/// The program of a schedule's kernels.
///
/// # Errors
///
/// [`EmitError`] if a kernel has no CUDA form.
pub fn program(schedule: &Schedule, numbers: Numbers) -> Result<Program, EmitError> {
    let mut text = String::from(PRELUDE);
    let mut kernels = Vec::new();
    for (i, kernel) in schedule.kernels().enumerate() {
        check(kernel)?;
        let mut writer = Writer::new(schedule, kernel, numbers, i);
        writer.kernel();
        let (source, emitted) = writer.finish();
        text.push_str(&source);
        kernels.push(emitted);
    }
    Ok(Program { text, kernels })
}

fn check(kernel: &Kernel) -> Result<(), EmitError> {
    let dtypes = kernel.stages.iter().flat_map(|s| &s.body).map(|i| i.dtype);
    let mut all = dtypes.chain(kernel.scratch.iter().map(|s| s.dtype));
    match all.find(|d| types::Held::of(*d).is_none()) {
        Some(dtype) => Err(EmitError::DType { kernel: kernel.name.clone(), dtype }),
        None => Ok(()),
    }
}
