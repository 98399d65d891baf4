//! Calls of the functions that a branch or a loop is given, with the checks of what they return.

use super::error::ControlFlowError;
use crate::compile::TensorTree;
use crate::error::Result;
use crate::modes::{fake, functionalize, outside, subclass, tracer};
use crate::tensor::Tensor;
use crate::tensor::watcher::Line;

/// An operator and one of its functions, as errors name them.
#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) op: &'static str,
    pub(super) function: &'static str,
}

/// The tensors of a tree.
pub(super) fn tensors<T: TensorTree>(tree: &T) -> Vec<Tensor> {
    let mut all = Vec::new();
    tree.visit(&mut |t| all.push(t.clone()));
    all
}

/// The tree with other tensors.
pub(super) fn filled<T: TensorTree>(tree: &T, with: &[Tensor]) -> T {
    let mut next = with.iter();
    tree.map(&mut |t| next.next().unwrap_or(t).clone())
}

pub(super) fn shown(t: &Tensor) -> String {
    format!("{}{:?}", t.dtype(), t.sizes())
}

/// Calls a function, which may write none of `operands` and must return new tensors. `at` is the
/// line of the branch or loop.
pub(super) fn called<O: TensorTree>(
    at: Line,
    named: Named,
    operands: &[Tensor],
    f: impl FnOnce() -> Result<O>,
) -> Result<O> {
    let Named { op, function } = named;
    let versions: Vec<u64> = operands.iter().map(|t| t.storage().version()).collect();
    let output = f()?;
    let refused = |e: ControlFlowError| Err(crate::Error::from(e).with_location(at));
    for (at, (t, before)) in operands.iter().zip(versions).enumerate() {
        if t.storage().version() != before {
            return refused(ControlFlowError::Mutated { op, function, at });
        }
    }
    let results = tensors(&output);
    for (at, t) in results.iter().enumerate() {
        let shares = |other: &Tensor| t.same_handle(other) || shares_memory(t, other);
        let operand = operands.iter().position(shares).map(|i| format!("operand {i}"));
        let result = || results[..at].iter().position(shares).map(|i| format!("its tensor {i}"));
        if let Some(with) = operand.or_else(result) {
            return refused(ControlFlowError::Aliased { op, function, at, with });
        }
    }
    Ok(output)
}

fn shares_memory(a: &Tensor, b: &Tensor) -> bool {
    // wrappers, and tensors without elements, have no memory of their own
    a.storage().bytes() > 0 && a.shares_storage_with(b)
}

/// The results of a function whose graph is being captured, as tensors of that graph.
pub(super) fn captured<O: TensorTree>(
    line: Line,
    named: Named,
    f: impl FnOnce() -> Result<O>,
) -> Result<(Vec<Tensor>, O)> {
    let Named { op, function } = named;
    let output = f()?;
    let results = tensors(&output);
    for (at, t) in results.iter().enumerate() {
        if subclass::is_subclass(t) || t.kind_without_memory().is_some() {
            return Err(refused(op, "whose functions return tensors without plain memory"));
        }
        if t.has_tangent() {
            return Err(refused(op, "of dual tensors"));
        }
        let twice = |other: &&Tensor| t.same_handle(other) || functionalize::share_memory(t, other);
        let with = match functionalize::lies_outside(t) {
            true => Some("an operand, or with a tensor that it closes over".to_string()),
            false => results[..at].iter().find(twice).map(|_| "an earlier one".to_string()),
        };
        if let Some(with) = with {
            let e = ControlFlowError::Aliased { op, function, at, with };
            return Err(crate::Error::from(e).with_location(line));
        }
    }
    Ok((results, output))
}

/// Refuses to capture a call of this operator.
#[cold]
pub(super) fn refused(op: &'static str, what: &str) -> crate::Error {
    let why = "a graph has no such call: compute it around the compiled function";
    outside::refuse(&format!("`{op}` {what},"), why, None)
}

/// Whether calls are being captured here.
pub(super) fn is_captured(op: &'static str, operands: &[Tensor]) -> Result<bool> {
    if tracer::current().is_none() || fake::is_pushed() {
        return Ok(false);
    }
    if !crate::transforms::levels().is_empty() {
        return Err(refused(
            op,
            "inside of a transform (`grad`, `jvp`, `vmap`) that is itself compiled",
        ));
    }
    if operands.iter().any(Tensor::has_tangent) {
        return Err(refused(op, "of dual tensors"));
    }
    Ok(true)
}

/// Checks that two functions, or a function and what it is given, have one structure.
pub(super) fn same_structure<T: TensorTree>(
    named: Named,
    other: &'static str,
    found: &T,
    expected: &T,
) -> Result<()> {
    let Named { op, function } = named;
    if let Some(what) = found.matches(expected) {
        return Err(ControlFlowError::Structure { op, function, other, what }.into());
    }
    for (at, (a, b)) in tensors(found).iter().zip(&tensors(expected)).enumerate() {
        if a.dtype() != b.dtype() || a.sizes() != b.sizes() {
            let (found, expected) = (shown(a), shown(b));
            let e = ControlFlowError::Metadata { op, function, other, at, found, expected };
            return Err(e.into());
        }
    }
    Ok(())
}

/// An error with the line of the call, unless it has one.
pub(super) fn located<R>(at: Line, done: Result<R>) -> Result<R> {
    done.map_err(|e| match e.location() {
        Some(_) => e,
        None => e.with_location(at),
    })
}
