//! Cross-cutting features: each one file, a kernel at a dispatch key registered through the public
//! `Library` interface.
//!
//! Handlers of your own come in three kinds. A [`DispatchMode`] sees every operator call of its
//! thread while it is pushed; a [`TensorSubclass`] is a tensor that handles the calls it takes part
//! in; a [resolver](python_dispatcher) chooses kernels. [`FlopCounter`], [`NanFinder`] and
//! [`CallLogger`] are modes to use as they are.
//!
//! A compiled function that is called while a mode or a resolver is active on the thread runs
//! eagerly, so that the mode misses nothing, and reports it with
//! [`CompileEvent::Intercepted`](crate::CompileEvent::Intercepted). Modes that a captured function
//! itself pushes, and wrapper tensors that it takes, closes over or makes, have their handlers
//! run during capture: what they call is recorded. Replays do not run handlers.
//!
//! | file | key | what |
//! |---|---|---|
//! | `autocast` | `AutocastCPU`, `AutocastCUDA` ... | casts arguments to low precision or to `f32` |
//! | `dispatch_mode` | `Python`, `PythonTLSSnapshot`, `PreDispatch` | modes: handlers of a thread's calls |
//! | `subclass` | `Python` | wrapper tensors that carry a handler |
//! | `call`, `rules`, `show`, `stack`, `depth` | | what handlers get, their registered rules, text, the stacks, a bound on nesting |
//! | `python_dispatcher` | `PythonDispatcher` | a thread chooses its own kernels |
//! | `flop_counter`, `nan_finder`, `call_logger` | | modes to use |
//! | `fake` | `Fake` | tensors of any device without data |
//! | `functionalize` | `Functionalize` | turns in-place operators and views into functional ones |
//! | `math_bits` | `Negative`, `Conjugate` | tensors that stand for the negation or conjugate of their memory |
//! | `zero_tensor` | `ZeroTensor` | zeros without memory |
//! | `tracer` | `Tracer` | records the functional calls into a graph |
//! | `dependent` | none: asked by `tracer` | results whose sizes depend on data |
//! | `outside` | none: asked by what reads data and settings | what a captured function does besides calling operators |
//! | `profiler` | none: an observer of calls | times operators |

pub mod autocast;
mod call;
mod call_logger;
pub(crate) mod dependent;
mod depth;
mod dispatch_mode;
mod error;
pub(crate) mod fake;
mod flop_counter;
pub(crate) mod functionalize;
pub(crate) mod math_bits;
mod nan_finder;
pub(crate) mod outside;
mod per_operator;
pub mod profiler;
pub mod python_dispatcher;
mod rules;
mod show;
mod stack;
pub mod subclass;
#[cfg(test)]
mod tests;
pub(crate) mod tracer;
pub(crate) mod zero_tensor;

pub use call::{Call, Outcome};
pub use call_logger::CallLogger;
pub(crate) use dispatch_mode::{ABOVE_PYTHON, handle_captured, interception};
pub use dispatch_mode::{
    DispatchMode, FromFn, ReentrantGuard, from_fn, push_mode, push_pre_dispatch_mode,
    reentrant_dispatch,
};
pub use error::ModeError;
pub use fake::{FakeTensorGuard, FakeTensorMode};
pub use flop_counter::{FlopCounter, OpCost};
pub use nan_finder::{NanFinder, NonFinite};
pub use rules::{RuleGuard, register_rule};
pub use stack::ModeGuard;
pub use subclass::TensorSubclass;

use crate::dispatch::{DispatchKey, Library};
use crate::error::Result;

/// Registers the fallbacks of the modes, once per process.
pub(crate) fn register() -> Result<()> {
    outside::watch();
    let mut tracer = Library::fallbacks(DispatchKey::Tracer)?;
    tracer.fallback(tracer::kernel())?;
    tracer.leak();
    let mut functionalize = Library::fallbacks(DispatchKey::Functionalize)?;
    functionalize.fallback(functionalize::kernel())?;
    functionalize.leak();
    for (key, kernel) in dispatch_mode::kernels() {
        let mut library = Library::fallbacks(key)?;
        library.fallback(kernel)?;
        library.leak();
    }
    let mut resolver = Library::fallbacks(DispatchKey::PythonDispatcher)?;
    resolver.fallback(python_dispatcher::kernel())?;
    resolver.leak();
    math_bits::register()?;
    fake::register()?;
    zero_tensor::register()
}

/// Registers the modes' kernels for single operators. Operators that are defined later get theirs
/// at that point.
pub(crate) fn register_operators() {
    for kernels in [autocast::kernels_of, math_bits::kernels_of, zero_tensor::kernels_of] {
        per_operator::register(kernels);
    }
}

/// The name of a type without its path.
fn short_type_name<T: ?Sized>() -> String {
    let name = std::any::type_name::<T>();
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path).to_string()
}
