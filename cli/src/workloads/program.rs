//! A workload ready to run: a function with its inputs, eager and compiled.

use crate::error::CliError;
use std::hint::black_box;
use std::sync::Arc;
use straightline::{CompileOptions, Compiled, Explanation, Traced};
use straightline::{Result, Tensor, TensorTree, compile_with};

/// Why a workload could not be built.
pub(crate) enum Unready {
    /// It cannot run here, and that is not a failure.
    Unavailable(String),
    Failed(CliError),
}

impl<E: Into<CliError>> From<E> for Unready {
    fn from(e: E) -> Self {
        Unready::Failed(e.into())
    }
}

pub(super) type Built = std::result::Result<Box<dyn Program>, Unready>;

/// A function and its inputs, of any type.
pub(crate) trait Program {
    /// Calls it eagerly this many times; each output is dropped before the next call.
    fn run(&self, times: usize) -> Result<()>;
    /// What it gives, eagerly: of a training the losses of its first steps.
    fn outputs(&self) -> Result<Vec<Tensor>>;
    /// Wraps it in `compile()`; nothing is compiled before the first call.
    fn compile(&self) -> Box<dyn CompiledProgram> {
        self.compile_with(CompileOptions::default())
    }
    /// The same with options.
    fn compile_with(&self, options: CompileOptions) -> Box<dyn CompiledProgram>;
}

/// The same after `compile()`.
pub(crate) trait CompiledProgram {
    /// Calls it this many times.
    fn run(&self, times: usize) -> Result<()>;
    /// What [`Program::outputs`] gives, compiled.
    fn outputs(&self) -> Result<Vec<Tensor>>;
    /// The stages of its compilation.
    fn trace(&self) -> Result<Traced>;
    /// What was compiled, and why so.
    fn explain(&self) -> Explanation;
}

/// Calls before which tensors that the function writes get the values that they began with.
pub(super) trait Start: Fn() -> Result<()> + Send + Sync {}
impl<T: Fn() -> Result<()> + Send + Sync> Start for T {}

struct Function<I, F> {
    inputs: I,
    function: Arc<F>,
    training: Option<Training>,
}

#[derive(Clone)]
struct Training {
    start: Arc<dyn Start>,
    /// How many calls the outputs are those of.
    steps: usize,
}

impl Training {
    fn outputs<O: TensorTree>(
        training: Option<&Training>,
        call: impl Fn() -> Result<O>,
    ) -> Result<Vec<Tensor>> {
        let Some(Training { start, steps }) = training else {
            return Ok(leaves(&call()?));
        };
        start()?;
        let each = (0..*steps).map(|_| Ok(leaves(&call()?)));
        let each: Vec<Vec<Tensor>> = each.collect::<Result<_>>()?;
        let stacked = |i: usize| {
            let of: Vec<&Tensor> = each.iter().filter_map(|step| step.get(i)).collect();
            Tensor::stack(&of, 0)
        };
        (0..each.first().map_or(0, Vec::len)).map(stacked).collect()
    }
}

fn leaves<O: TensorTree>(of: &O) -> Vec<Tensor> {
    let mut all = Vec::new();
    of.visit(&mut |t| all.push(t.clone()));
    all
}

struct CompiledFunction<I, O> {
    inputs: I,
    compiled: Compiled<I, O>,
    training: Option<Training>,
}

/// A program from inputs and a function of them.
pub(super) fn function<I, O, F>(inputs: I, function: F) -> Built
where
    I: TensorTree + Send + Sync + 'static,
    O: TensorTree + 'static,
    F: Fn(&I) -> Result<O> + Send + Sync + 'static,
{
    let function = Arc::new(function);
    Ok(Box::new(Function { inputs, function, training: None }))
}

/// A program that trains: its outputs are those of `steps` calls after `start`.
pub(super) fn training<I, O, F>(
    inputs: I,
    steps: usize,
    start: impl Start + 'static,
    function: F,
) -> Built
where
    I: TensorTree + Send + Sync + 'static,
    O: TensorTree + 'static,
    F: Fn(&I) -> Result<O> + Send + Sync + 'static,
{
    let (function, start) = (Arc::new(function), Arc::new(start));
    Ok(Box::new(Function { inputs, function, training: Some(Training { start, steps }) }))
}

impl<I, O, F> Program for Function<I, F>
where
    I: TensorTree + Send + Sync + 'static,
    O: TensorTree + 'static,
    F: Fn(&I) -> Result<O> + Send + Sync + 'static,
{
    fn run(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            black_box((self.function)(&self.inputs)?);
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<Tensor>> {
        Training::outputs(self.training.as_ref(), || (self.function)(&self.inputs))
    }

    fn compile_with(&self, options: CompileOptions) -> Box<dyn CompiledProgram> {
        let function = Arc::clone(&self.function);
        Box::new(CompiledFunction {
            inputs: self.inputs.map(&mut Tensor::clone),
            compiled: compile_with(options, move |inputs: &I| function(inputs)),
            training: self.training.clone(),
        })
    }
}

impl<I, O> CompiledProgram for CompiledFunction<I, O>
where
    I: TensorTree + Send + Sync + 'static,
    O: TensorTree + 'static,
{
    fn run(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            black_box(self.compiled.call(&self.inputs)?);
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<Tensor>> {
        Training::outputs(self.training.as_ref(), || self.compiled.call(&self.inputs))
    }

    fn trace(&self) -> Result<Traced> {
        self.compiled.trace(&self.inputs)
    }

    fn explain(&self) -> Explanation {
        self.compiled.explain()
    }
}
