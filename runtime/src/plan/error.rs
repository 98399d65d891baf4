//! Why a plan cannot be made or run.

use crate::cpu::jit::JitError;
use crate::cpu::kernels::matmul::MatmulError;
use crate::memory::OutOfMemory;
use std::error::Error;
use std::sync::Arc;

/// The failure of a runtime kernel.
pub type ExternError = Box<dyn Error + Send + Sync>;

/// A runtime kernel panicked: the [`ExternError`] that is made of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Panicked(pub String);

/// An error of [`Plan`](super::Plan).
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// Code generation failed.
    #[error(transparent)]
    Jit(#[from] JitError),
    /// A step calls an operator that no runtime kernel was registered for.
    #[error("step {step} calls {op}, for which there is no runtime kernel")]
    UnsupportedOperator {
        /// The operator's name.
        op: String,
        /// Which step.
        step: usize,
    },
    /// Fewer arguments than the schedule has buffers for.
    #[error(
        "the plan takes {} inputs, {} parameters and {} outputs; it was given {}, {} and {}",
        expected.0, expected.1, expected.2, given.0, given.1, given.2
    )]
    Arguments {
        /// Inputs, parameters, outputs.
        expected: (usize, usize, usize),
        /// The same, as given.
        given: (usize, usize, usize),
    },
    /// An index does not fit the dimension it selects from.
    #[error(
        "index {index} is out of bounds for dimension with size {size} (step {step}, {kernel})"
    )]
    IndexOutOfRange {
        /// Which step.
        step: usize,
        /// The kernel's name.
        kernel: String,
        /// The index found.
        index: i64,
        /// The size of the dimension.
        size: i64,
        /// Whose failure it is, among the schedule's sites.
        site: Option<u32>,
    },
    /// An integer was divided by zero.
    #[error("ZeroDivisionError: integer division by zero (step {step}, {kernel})")]
    ZeroDivision {
        /// Which step.
        step: usize,
        /// The kernel's name.
        kernel: String,
        /// Whose failure it is, among the schedule's sites.
        site: Option<u32>,
    },
    /// No memory for the temporaries.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A matrix product's views do not fit together.
    #[error("step {step}: {source}")]
    Matmul {
        /// Which step.
        step: usize,
        /// What does not fit.
        source: MatmulError,
    },
    /// A plan that is a step of another one was given operands that it was not made for.
    #[error("a graph that a call is given was called with {what}")]
    Body {
        /// What it was given.
        what: String,
    },
    /// A runtime kernel failed.
    #[error("{op} failed (step {step}): {error}")]
    Extern {
        /// Which step.
        step: usize,
        /// The operator.
        op: String,
        /// What the kernel says.
        error: Arc<ExternError>,
        /// Whose failure it is, among the schedule's sites.
        site: Option<u32>,
    },
}
