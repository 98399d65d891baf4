//! What a captured function does besides calling operators, and what others change under a plan.

mod gradients;
mod questions;
mod reads;
mod settings;
mod settled;
mod state;

use crate::compile::{CompileEvent, CompileOptions, Compiled, TensorTree, compile_with};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;

fn vec(x: &[f32]) -> Tensor {
    Tensor::from_slice(x, &[x.len() as i64]).unwrap()
}

fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>().unwrap()
}

/// With `eager_fallback`.
fn eagerly<I, O, F>(f: F) -> Compiled<I, O>
where
    I: TensorTree,
    O: TensorTree,
    F: Fn(&I) -> Result<O> + Send + Sync + 'static,
{
    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    compile_with(options, f)
}

/// The error names a line of this folder.
fn names_a_line(e: &Error) -> u32 {
    let at = e.location().unwrap_or_else(|| panic!("no line: {e}"));
    assert!(at.file().contains("compile/tests/"), "{e}");
    at.line()
}

fn is_escape(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Escaped { .. })
}

fn is_of_data(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::DataDependent { .. })
}

fn is_not_captured(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NotCaptured { .. })
}

/// How often a plan was made.
fn compiled<I: TensorTree, O: TensorTree>(f: &Compiled<I, O>) -> usize {
    let events = f.events();
    let compiled = |e: &&CompileEvent| matches!(e, CompileEvent::Compiled { .. });
    events.iter().filter(compiled).count()
}
