//! A model file as a workload.

use super::program::{Built, CompiledProgram, Program};
use super::workload::{Agreement, Workload};
use crate::model::{self, Model, Start};
use std::hint::black_box;
use straightline::program::Leaf;
use straightline::{CompileOptions, Explanation, Result, Tensor, Traced};

/// How many calls the outputs are those of where one call changes what the next one finds.
const STEPS: usize = 2;

/// The workload of a model file; nothing is read before it is built.
pub(super) fn workload(path: &str) -> Workload {
    let file = path.to_owned();
    Workload::new(path, Agreement::ByDType, move |setting| -> Built {
        let program = model::load(&file, &setting.model)?;
        Ok(Box::new(Model::new(program, &setting.model)?))
    })
}

impl Program for Model {
    fn run(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            black_box(self.program.run(&self.inputs)?);
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<Tensor>> {
        outputs(&self.start, || self.program.run(&self.inputs))
    }

    fn compile_with(&self, options: CompileOptions) -> Box<dyn CompiledProgram> {
        Box::new(CompiledModel {
            inputs: self.inputs.clone(),
            compiled: self.program.compile(options),
            start: self.start.clone(),
        })
    }
}

struct CompiledModel {
    inputs: Vec<Leaf>,
    compiled: straightline::program::CompiledProgram,
    start: Start,
}

impl CompiledProgram for CompiledModel {
    fn run(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            black_box(self.compiled.call(&self.inputs)?);
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<Tensor>> {
        outputs(&self.start, || self.compiled.call(&self.inputs))
    }

    fn trace(&self) -> Result<Traced> {
        self.compiled.trace(&self.inputs)
    }

    fn explain(&self) -> Explanation {
        self.compiled.explain()
    }
}

/// The results of calls from the start on, and what they have written.
fn outputs(start: &Start, call: impl Fn() -> Result<Vec<Leaf>>) -> Result<Vec<Tensor>> {
    start.restore()?;
    let mut all = Vec::new();
    for _ in 0..if start.is_written() { STEPS } else { 1 } {
        for leaf in call()? {
            match leaf {
                // a result may be what the next call writes
                Leaf::Tensor(t) if start.is_written() => all.push(t.detach()?.copied()?),
                Leaf::Tensor(t) => all.push(t),
                Leaf::Int(n) => all.push(Tensor::scalar(n)?),
                Leaf::Float(x) => all.push(Tensor::scalar(x)?),
                Leaf::Bool(b) => all.push(Tensor::scalar(b)?),
                _ => {}
            }
        }
    }
    all.extend(start.written()?.into_iter().map(|(_, t)| t));
    Ok(all)
}
