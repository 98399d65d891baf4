//! The reduction of losses, whose elements are formulas, and the negative log likelihood.

use crate::ir::DType;
use crate::ir::Op;
use crate::ir::args;
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "nll_loss", "the negative log likelihood of [rows, classes] gathers each row's target, ignored rows count nothing",
        [Op::nll_loss_forward] => Many(nll_loss);
}

/// PyTorch's numbers for the `reduction` argument.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// Whether the call's loss is a mean.
pub(crate) fn is_mean(s: &Site<'_>) -> bool {
    s.int("reduction").unwrap_or(MEAN) == MEAN
}

/// Applies the `reduction` argument to the elements of a loss.
pub(crate) fn reduced(s: &mut Site<'_>, loss: Id) -> Option<Id> {
    let reduction = s.int("reduction").unwrap_or(MEAN);
    if reduction == NONE {
        return Some(loss);
    }
    let loss = s.lift(loss);
    let m = s.meta(loss);
    let (rank, n) = (m.sizes.len(), m.numel());
    let dims: Vec<usize> = (0..rank).collect();
    let mut y = s.sum(loss, &dims, false);
    if reduction == MEAN {
        y = s.div_scalar(y, n as f64);
    }
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

fn nll_loss(s: &mut Site<'_>) -> Option<Replacements> {
    let a: args::nll_loss_forward<Id> = s.args()?;
    let (x, target) = (a.self_, a.target);
    let simple = s.meta(x).sizes.len() == 2
        && s.meta(target).sizes.len() == 1
        && s.dtype(target) == DType::I64
        && a.weight.is_none();
    if !simple || s.call.results.len() != 2 {
        return None;
    }
    let counts = s.compare_scalar(Op::ne_Scalar, target, a.ignore_index);
    // an ignored target may lie outside the classes: it reads class 0 and is masked
    let first = s.constant(0, DType::I64);
    let safe = s.select(counts, target, first);
    let index = s.unsqueeze(safe, 1);
    let picked = s.gather(x, 1, index);
    let picked = s.squeeze(picked, 1);
    let picked = s.lift(picked);
    let minus = s.unary(Op::neg, picked);
    let zero = s.constant(0.0, s.dtype(minus));
    let loss = s.select(counts, minus, zero);
    let call = s.call.clone();
    let (out, weight) = (&call.results[0], &call.results[1]);
    if a.reduction == NONE {
        let y = s.convert(loss, out.dtype);
        let w = s.constant_of(0.into(), weight.clone());
        return Some([Some(y), Some(w)].into_iter().collect());
    }
    let ones = s.convert(counts, s.dtype(loss));
    let total = s.sum(ones, &[0], false);
    let mut y = s.sum(loss, &[0], false);
    if a.reduction == MEAN {
        y = s.div(y, total);
    }
    let y = s.convert(y, out.dtype);
    let total = s.convert(total, weight.dtype);
    Some([Some(y), Some(total)].into_iter().collect())
}
