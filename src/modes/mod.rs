//! Cross-cutting features: each one file, a kernel at a dispatch key registered through the public
//! `Library` interface.
//!
//! | file | key | what |
//! |---|---|---|
//! | `autocast` | `AutocastCPU`, `AutocastCUDA` ... | casts arguments to low precision or to `f32` |
//! | `functionalize` | `Functionalize` | turns in-place operators and views into functional ones |
//! | `tracer` | `Tracer` | records the functional calls into a graph |
//! | `profiler` | none: an observer of calls | times operators |

pub mod autocast;
pub(crate) mod functionalize;
mod inverse;
pub mod profiler;
pub(crate) mod tracer;

use crate::dispatch::{DispatchKey, Library};
use crate::error::Result;

/// Registers the fallbacks of the modes, once per process.
pub(crate) fn register() -> Result<()> {
    let mut tracer = Library::fallbacks(DispatchKey::Tracer)?;
    tracer.fallback(tracer::kernel())?;
    tracer.leak();
    let mut functionalize = Library::fallbacks(DispatchKey::Functionalize)?;
    functionalize.fallback(functionalize::kernel())?;
    functionalize.leak();
    Ok(())
}

/// Registers the modes' kernels for single operators, which exist by now.
pub(crate) fn register_operators() -> Result<()> {
    autocast::register()
}
