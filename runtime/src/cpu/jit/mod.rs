//! Loop IR to machine code.
//!
//! [`compile`] turns a [`Schedule`] into one native function for the whole graph: fused loops are
//! emitted inline (or as functions of their own where they are shared among threads or the graph is
//! large), runtime kernels are called by absolute address, and temporaries are at constant offsets
//! from the arena pointer.
//!
//! | file | what is in it |
//! |---|---|
//! | `verify` | what emission relies on |
//! | `analyse` | invariant values, address shapes, unrolling: decided before emission |
//! | `parts` | lists of positions that are known while generating code |
//! | `argument` | the table of what a call is given |
//! | `nest`, `stages`, `reduce`, `body` | loops of a kernel and of its stages; reductions; one pass over a body's instructions |
//! | `update` | values combined with elements in memory |
//! | `arith`, `convert`, `access`, `math` | operations, casts, memory formats, the math functions |
//! | `x86`, `wide`, `rows`, `columns`, `turned` | inner loops in 256 or 512 bits; how they are called; several rows at once; loops over rows of many columns; transposed operands |
//! | `sizes` | numbers that are known, and numbers that code reads from a table |
//! | `emit`, `lanes`, `constants` | registers: what a value is and how it is moved |
//! | `scratch`, `kept` | rows between the passes of a kernel: in memory of their own, in its result |
//! | `isa`, `memory`, `status` | the host, executable memory, error reports |

mod access;
mod accumulators;
mod analyse;
mod argument;
mod arith;
mod body;
mod columns;
mod constants;
mod convert;
mod emit;
mod function;
mod isa;
mod kept;
mod lanes;
mod math;
mod memory;
mod nest;
mod parts;
mod reduce;
mod rows;
mod scratch;
mod sizes;
mod stages;
mod status;
mod turned;
mod update;
mod verify;
mod wide;
mod x86;

#[cfg(test)]
mod interp;
#[cfg(test)]
mod tests;

pub use argument::ArgPtr;
pub use function::{Compiled, ExternCall, JitOptions, LapCall, RunContext, compile};
pub use sizes::Unfit;
pub use status::{EXTERN_FAILED, INDEX_OUT_OF_RANGE, Status, ZERO_DIVISION};
pub(crate) use verify::verify;

#[cfg(doc)]
use straightline_passes::schedule::loops::Schedule;

/// Why code could not be generated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JitError {
    /// Cranelift cannot generate code for this machine.
    #[error("no code generation for this machine: {message}")]
    Host {
        /// Cranelift's reason.
        message: String,
    },
    /// Cranelift rejected a function: a bug of the emitter.
    #[error("code generation of `{function}` failed: {message}")]
    Codegen {
        /// The function.
        function: String,
        /// Cranelift's reason.
        message: String,
    },
    /// The system gave no memory for the code, or would not make it executable.
    #[error("no executable memory for {bytes} bytes of code: {message}")]
    Memory {
        /// The size of the code.
        bytes: usize,
        /// The system's reason.
        message: String,
    },
    /// An operation that no code exists for.
    #[error("no code for {what}")]
    Unsupported {
        /// The operation and dtype.
        what: String,
    },
    /// The loop IR is malformed.
    #[error("malformed loop IR: {what}")]
    Invalid {
        /// What is wrong.
        what: String,
    },
}

impl JitError {
    fn codegen(function: &str, error: &dyn std::fmt::Debug) -> JitError {
        JitError::Codegen { function: function.to_string(), message: format!("{error:#?}") }
    }
}
