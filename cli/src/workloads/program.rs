//! A workload ready to run: a function with its inputs, eager and compiled.

use std::hint::black_box;
use std::sync::Arc;
use straightline::{Compiled, Explanation, Traced};
use straightline::{Result, Tensor, TensorTree, compile};

/// Why a workload could not be built.
pub(crate) enum Unready {
    /// It cannot run here, and that is not a failure.
    Unavailable(String),
    Failed(straightline::Error),
}

impl From<straightline::Error> for Unready {
    fn from(e: straightline::Error) -> Self {
        Unready::Failed(e)
    }
}

pub(super) type Built = std::result::Result<Box<dyn Program>, Unready>;

/// A function and its inputs, of any type.
pub(crate) trait Program {
    /// Calls it eagerly this many times; each output is dropped before the next call.
    fn run(&self, times: usize) -> Result<()>;
    /// Calls it eagerly once.
    fn output(&self) -> Result<Tensor>;
    /// Wraps it in `compile()`; nothing is compiled before the first call.
    fn compile(&self) -> Box<dyn CompiledProgram>;
}

/// The same after `compile()`.
pub(crate) trait CompiledProgram {
    /// Calls it this many times.
    fn run(&self, times: usize) -> Result<()>;
    /// Calls it once.
    fn output(&self) -> Result<Tensor>;
    /// The stages of its compilation.
    fn trace(&self) -> Result<Traced>;
    /// What was compiled, and why so.
    fn explain(&self) -> Explanation;
}

struct Function<I, F> {
    inputs: I,
    function: Arc<F>,
}

struct CompiledFunction<I> {
    inputs: I,
    compiled: Compiled<I, Tensor>,
}

/// A program from inputs and a function of them.
pub(super) fn function<I, F>(inputs: I, function: F) -> Built
where
    I: TensorTree + Send + Sync + 'static,
    F: Fn(&I) -> Result<Tensor> + Send + Sync + 'static,
{
    let function = Arc::new(function);
    Ok(Box::new(Function { inputs, function }))
}

impl<I, F> Program for Function<I, F>
where
    I: TensorTree + Send + Sync + 'static,
    F: Fn(&I) -> Result<Tensor> + Send + Sync + 'static,
{
    fn run(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            black_box((self.function)(&self.inputs)?);
        }
        Ok(())
    }

    fn output(&self) -> Result<Tensor> {
        (self.function)(&self.inputs)
    }

    fn compile(&self) -> Box<dyn CompiledProgram> {
        let function = Arc::clone(&self.function);
        Box::new(CompiledFunction {
            inputs: self.inputs.map(&mut Tensor::clone),
            compiled: compile(move |inputs: &I| function(inputs)),
        })
    }
}

impl<I: TensorTree + Send + Sync + 'static> CompiledProgram for CompiledFunction<I> {
    fn run(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            black_box(self.compiled.call(&self.inputs)?);
        }
        Ok(())
    }

    fn output(&self) -> Result<Tensor> {
        self.compiled.call(&self.inputs)
    }

    fn trace(&self) -> Result<Traced> {
        self.compiled.trace(&self.inputs)
    }

    fn explain(&self) -> Explanation {
        self.compiled.explain()
    }
}
