//! Losses: their elements by formulas, and their reduction.

use crate::formula::loss as f;
use crate::ir::Op;
use crate::ir::{DType, Scalar};
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "mse_loss", "the squared error is (x - t)^2, reduced",
        [Op::mse_loss] => One(|s| { let y = f::mse(s); reduce(s, y) });
    "smooth_l1_loss", "smooth L1 is d^2 / (2 beta) where d = |x - t| < beta, else d - beta / 2, reduced",
        [Op::smooth_l1_loss] => One(|s| { let y = f::smooth_l1(s); reduce(s, y) });
    "huber_loss", "Huber is d^2 / 2 where d = |x - t| <= delta, else delta (d - delta / 2), reduced",
        [Op::huber_loss] => One(|s| { let y = f::huber(s); reduce(s, y) });
    "soft_margin_loss", "the soft margin loss is log1p(exp(-t x)), reduced",
        [Op::soft_margin_loss] => One(|s| { let y = f::soft_margin(s); reduce(s, y) });
    "binary_cross_entropy", "binary cross entropy is -(t log x + (1 - t) log(1 - x)) with bounded logarithms, weighted and reduced",
        [Op::binary_cross_entropy] => One(|s| { let y = f::binary_cross_entropy(s); reduce(s, y) });
    "mse_loss_backward", "the squared error's derivative is 2 (x - t)",
        [Op::mse_loss_backward] => One(|s| { let n = share(s, 2.0)?; f::mse_backward(s, n) });
    "smooth_l1_loss_backward", "smooth L1's derivative is (x - t) / beta, between -1 and 1",
        [Op::smooth_l1_loss_backward] => One(|s| { let n = share(s, 1.0)?; f::smooth_l1_backward(s, n) });
    "huber_loss_backward", "Huber's derivative is x - t, between -delta and delta",
        [Op::huber_loss_backward] => One(|s| { let n = share(s, 1.0)?; f::huber_backward(s, n) });
    "soft_margin_loss_backward", "the soft margin loss's derivative is -t sigmoid(-t x)",
        [Op::soft_margin_loss_backward] => One(|s| { let n = share(s, 1.0)?; f::soft_margin_backward(s, n) });
    "binary_cross_entropy_backward", "binary cross entropy's derivative is (x - t) / ((1 - x) x), weighted",
        [Op::binary_cross_entropy_backward]
            => One(|s| { let n = share(s, 1.0)?; f::binary_cross_entropy_backward(s, n) });
    "nll_loss", "the negative log likelihood of [rows, classes] gathers each row's target, ignored rows count nothing",
        [Op::nll_loss_forward] => Many(nll_loss);
}

/// PyTorch's numbers for the `reduction` argument.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// Applies the `reduction` argument to elementwise losses.
fn reduce(s: &mut Site<'_>, loss: Option<Id>) -> Option<Id> {
    let loss = loss?;
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

/// What the gradient of a loss is multiplied by: 1 / n for a mean over the n elements of its operands.
fn share(s: &Site<'_>, whole: f64) -> Option<Scalar> {
    if s.int("reduction").unwrap_or(MEAN) != MEAN {
        return Some(whole.into());
    }
    let n = s.meta(s.tensor(1)?).numel();
    Some((whole / n as f64).into())
}

fn nll_loss(s: &mut Site<'_>) -> Option<Replacements> {
    let (x, target) = (s.tensor(0)?, s.tensor(1)?);
    let simple = s.meta(x).sizes.len() == 2
        && s.meta(target).sizes.len() == 1
        && s.dtype(target) == DType::I64
        && s.tensor(2).is_none();
    if !simple || s.call.results.len() != 2 {
        return None;
    }
    let ignored = s.int("ignore_index").unwrap_or(-100);
    let counts = s.compare_scalar(Op::ne_Scalar, target, ignored);
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
    let reduction = s.int("reduction").unwrap_or(MEAN);
    if reduction == NONE {
        let y = s.convert(loss, out.dtype);
        let w = s.constant_of(0.into(), weight.clone());
        return Some([Some(y), Some(w)].into_iter().collect());
    }
    let ones = s.convert(counts, s.dtype(loss));
    let total = s.sum(ones, &[0], false);
    let mut y = s.sum(loss, &[0], false);
    if reduction == MEAN {
        y = s.div(y, total);
    }
    let y = s.convert(y, out.dtype);
    let total = s.convert(total, weight.dtype);
    Some([Some(y), Some(total)].into_iter().collect())
}
