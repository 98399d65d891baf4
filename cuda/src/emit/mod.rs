//! CUDA C from loops.
//!
//! A program is the prelude and a function for each kernel of a schedule; it includes nothing, so that
//! NVRTC needs no headers. How a kernel's grid and stages lie on threads is its [`Mapping`]:
//!
//! - [`Mapping::Points`]: a thread computes a grid point and goes through the axes of its stages in
//!   order, or a few neighbouring points whose elements it loads and stores at once. Neighbouring
//!   threads have neighbouring points of the innermost grid axis. What scatters in order goes this way:
//!   no two grid points meet, and within one the order is that of the loops.
//! - [`Mapping::Tiles`]: the same, by tiles of two axes, where an operand lies the other way round.
//! - [`Mapping::Rows`]: some threads of a warp, or a block, compute a grid point; they share the
//!   elements of each stage, and reductions end in shuffles. What a stage hands to the next, and what
//!   several of them load, stays in registers (Inductor's persistent reductions do so up to 1,024
//!   elements), else in shared memory (as XLA's row reductions), or in that of the launch.
//! - [`Mapping::Columns`]: the threads of a block share columns, as in PyTorch's reductions of the
//!   outer dimensions.
//! - [`Mapping::Elements`]: a thread scatters one element, by an atomic operation.
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
//! use straightline_cuda::emit::{Machine, Numbers, program};
//! use straightline_passes::ir::graph::Graph;
//! use straightline_passes::schedule::{ScheduleOptions, schedule};
//! let text = "graph(%x: f32[64]) {\n  %0: f32[64] = aten::exp(%x)\n  return %0\n}";
//! let graph: Graph = text.parse().unwrap();
//! let schedule = schedule(&graph, &ScheduleOptions::default()).unwrap();
//! let program = program(&schedule, Numbers::Literals, Machine::LARGE).unwrap();
//! assert!(program.text.contains("expf("));
//! assert_eq!(program.kernels.len(), 1);
//! ```

mod body;
mod kept;
mod lanes;
mod mapping;
mod numeric;
mod reductions;
#[cfg(test)]
mod tests;
mod turned;
mod types;
mod values;
mod writer;

use crate::driver::Argument;
use mapping::Layout;
pub use mapping::{Machine, Mapping, Shape};
pub(crate) use numeric::Numeric;
use std::collections::HashSet;
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
    /// The function's name. Kernels that do the same have one function.
    pub name: String,
    /// Its first [arguments](Emitted::arguments).
    pub buffers: Vec<BufferId>,
    /// The numbers.
    pub numbers: Vec<i64>,
    /// Whether it reports failures.
    pub fails: bool,
    /// Blocks, threads and memory.
    pub shape: Shape,
}

/// Bytes in which a kernel says what it found wrong: what, where, the index, the size.
pub const STATUS_BYTES: usize = 24;

impl Emitted {
    /// The arguments of a launch, by the addresses of buffers, of scratch memory and of the status.
    ///
    /// ```
    /// use straightline_cuda::driver::Argument;
    /// use straightline_cuda::emit::{Machine, Numbers, program};
    /// use straightline_passes::ir::graph::Graph;
    /// use straightline_passes::schedule::{ScheduleOptions, schedule};
    /// let text = "graph(%x: f32[64]) {\n  %0: f32[64] = aten::exp(%x)\n  return %0\n}";
    /// let graph: Graph = text.parse().unwrap();
    /// let schedule = schedule(&graph, &ScheduleOptions::of_gpu()).unwrap();
    /// let program = program(&schedule, Numbers::Arguments, Machine::LARGE).unwrap();
    /// let mut arguments = program.kernels[0].arguments(|buffer| 4096 + u64::from(buffer.0), 0, 0);
    /// assert_eq!(arguments.next(), Some(Argument::Pointer(4096)));
    /// ```
    pub fn arguments<'a>(
        &'a self,
        mut address: impl FnMut(BufferId) -> u64 + 'a,
        scratch: u64,
        status: u64,
    ) -> impl Iterator<Item = Argument<'a>> {
        let numbers = (!self.numbers.is_empty()).then_some(Argument::Numbers(&self.numbers));
        let scratch = (self.shape.scratch_bytes != 0).then_some(Argument::Pointer(scratch));
        let status = self.fails.then_some(Argument::Pointer(status));
        let buffers = self.buffers.iter().map(move |b| Argument::Pointer(address(*b)));
        buffers.chain(numbers).chain(scratch).chain(status)
    }
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

/// The program of a schedule's kernels, for a machine: with another one it is right as well.
///
/// # Errors
///
/// [`EmitError`] if a kernel has no CUDA form.
pub fn program(
    schedule: &Schedule,
    numbers: Numbers,
    machine: Machine,
) -> Result<Program, EmitError> {
    let mut all = Vec::new();
    for kernel in schedule.kernels() {
        all.extend(variants(schedule, kernel, numbers, machine)?.next());
    }
    Ok(assembled(all))
}

/// A program of kernels, with one text for those that do the same.
pub(crate) fn assembled(all: Vec<(String, Emitted)>) -> Program {
    let mut text = String::from(PRELUDE);
    let mut names = HashSet::new();
    for (source, emitted) in &all {
        if names.insert(emitted.name.clone()) {
            text.push_str(source);
        }
    }
    Program { text, kernels: all.into_iter().map(|(_, emitted)| emitted).collect() }
}

/// A kernel in all ways that may be the quickest, the one that the cost model chooses first, and the text
/// of each.
pub(crate) fn variants<'s>(
    schedule: &'s Schedule,
    kernel: &'s Kernel,
    numbers: Numbers,
    machine: Machine,
) -> Result<impl Iterator<Item = (String, Emitted)> + 's, EmitError> {
    check(kernel)?;
    Ok(Layout::all(kernel, machine).into_iter().map(move |layout| {
        let mut writer = Writer::new(schedule, kernel, numbers, layout);
        writer.kernel();
        writer.finish()
    }))
}

fn check(kernel: &Kernel) -> Result<(), EmitError> {
    let dtypes = kernel.stages.iter().flat_map(|s| &s.body).map(|i| i.dtype);
    let mut all = dtypes.chain(kernel.scratch.iter().map(|s| s.dtype));
    match all.find(|d| types::Held::of(*d).is_none()) {
        Some(dtype) => Err(EmitError::DType { kernel: kernel.name.clone(), dtype }),
        None => Ok(()),
    }
}
