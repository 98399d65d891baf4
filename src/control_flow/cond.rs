//! `cond`: one of two functions.

use super::call::{self, Outcome};
use super::error::ControlFlowError;
use super::function::{
    Named, called, captured, filled, is_captured, located, same_structure, shown, tensors,
};
use crate::compile::{Arguments, TensorTree};
use crate::error::Result;
use crate::modes::functionalize;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::panic::Location;
use straightline_catalog::DType;

const OP: &str = "cond";
const TRUE: Named = Named { op: OP, function: "true_fn" };
const FALSE: Named = Named { op: OP, function: "false_fn" };

/// What a branch depends on: a tensor of one truth value, or one that is known.
///
/// ```
/// use straightline::control_flow::Predicate;
/// use straightline::tensor;
/// let known: Predicate = true.into();
/// assert!(matches!(known, Predicate::Known(true)));
/// let pred: Predicate = (&tensor([1.0])?.gt(0.0)?).into();
/// assert!(matches!(pred, Predicate::Tensor(_)));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Predicate {
    /// It is known: the branch is called, as by `if`, also where a function is captured.
    Known(bool),
    /// One element of dtype `bool`.
    Tensor(Tensor),
}

impl From<bool> for Predicate {
    fn from(known: bool) -> Predicate {
        Predicate::Known(known)
    }
}

impl From<&Tensor> for Predicate {
    fn from(t: &Tensor) -> Predicate {
        Predicate::Tensor(t.clone())
    }
}

impl From<Tensor> for Predicate {
    fn from(t: Tensor) -> Predicate {
        Predicate::Tensor(t)
    }
}

/// Calls `true_fn` on the operands if `pred` is true, else `false_fn` (PyTorch's `torch.cond`).
///
/// Eagerly the predicate is read and the function is called, so autograd records what it does. In a
/// compiled function the predicate is not read: both functions are captured, and each call runs the
/// code of one. There gradients are computed by a branch of the same predicate, which computes again
/// what it needs of the forward branch, but draws no random numbers twice.
///
/// Both functions return the same structure, with tensors of the same dtypes and sizes. They may close
/// over tensors. They must not write what they are given or close over, nor return it: a result is a
/// tensor of its own. Eagerly the branch that is not taken is not looked at.
///
/// Within [`vmap`](crate::func::vmap) a predicate that differs among samples calls both functions and
/// selects from their results, as `where` does.
///
/// ```
/// use straightline::control_flow::cond;
/// use straightline::{Tensor, compile, tensor};
/// let f = compile(|x: &Tensor| cond(&x.sum()?.gt(0.0)?, |x| x.mul(3), |x| x.mul(-1), x));
/// assert_eq!(f.call(&tensor([-1.0, -2.0])?)?.to_vec::<f32>()?, [1.0, 2.0]);
/// assert_eq!(f.call(&tensor([0.0, 1.0])?)?.to_vec::<f32>()?, [0.0, 3.0]);
/// assert_eq!(f.variants(), 1);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// Those of the function; [`ControlFlowError`] for a predicate that is no truth value, for functions
/// that return different things, and for one that returns or writes an operand.
#[track_caller]
pub fn cond<I: TensorTree, O: TensorTree>(
    pred: impl Into<Predicate>,
    true_fn: impl Fn(&I) -> Result<O>,
    false_fn: impl Fn(&I) -> Result<O>,
    operands: impl Arguments<I>,
) -> Result<O> {
    let at = Location::caller();
    let pred = pred.into();
    operands.with(|operands| {
        let all = tensors(operands);
        let yes = || called(at, TRUE, &all, || true_fn(operands));
        let no = || called(at, FALSE, &all, || false_fn(operands));
        let pred = match pred {
            Predicate::Known(true) => return true_fn(operands),
            Predicate::Known(false) => return false_fn(operands),
            Predicate::Tensor(pred) => pred,
        };
        located(at, check_predicate(OP, &pred))?;
        if crate::transforms::is_batched(&pred) {
            return located(at, selected(&pred, yes()?, no()?));
        }
        if pred.is_fake() {
            let (yes, no) = (yes()?, no()?);
            located(at, same_structure(FALSE, TRUE.function, &no, &yes))?;
            return Ok(yes);
        }
        if !located(at, is_captured(OP, &all))? {
            return if located(at, pred.item::<bool>())? { yes() } else { no() };
        }
        let capture = |named: Named, f: &dyn Fn() -> Result<O>| {
            functionalize::subgraph(true, || captured(at, named, f))
        };
        let (true_body, yes) = capture(TRUE, &|| true_fn(operands))?;
        let (false_body, no) = capture(FALSE, &|| false_fn(operands))?;
        located(at, same_structure(FALSE, TRUE.function, &no, &yes))?;
        let outcomes = Outcome::merged(&tensors(&yes), &tensors(&no));
        let results = call::cond(&pred, [true_body, false_body], &outcomes, at);
        Ok(filled(&yes, &located(at, results)?))
    })
}

/// Checks that a tensor is one truth value.
pub(super) fn check_predicate(op: &'static str, pred: &Tensor) -> Result<()> {
    match pred.numel() == 1 && pred.dtype() == DType::Bool {
        true => Ok(()),
        false => Err(ControlFlowError::Predicate { op, found: shown(pred) }.into()),
    }
}

/// What differs among samples is computed for all of them, and selected.
fn selected<O: TensorTree>(pred: &Tensor, yes: O, no: O) -> Result<O> {
    same_structure(FALSE, TRUE.function, &no, &yes)?;
    let pred = aten::reshape(pred, &[])?;
    let pairs = tensors(&yes).into_iter().zip(tensors(&no));
    let each = pairs.map(|(a, b)| aten::where_self(&pred, &a, &b));
    Ok(filled(&yes, &each.collect::<Result<Vec<_>>>()?))
}
