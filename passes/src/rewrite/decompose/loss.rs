//! Losses.

use crate::ir::DType;
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "mse_loss", "the squared error is (x - t)^2, reduced",
        ["aten::mse_loss"] => One(mse_loss);
    "smooth_l1_loss", "smooth L1 is d^2 / (2 beta) where d = |x - t| < beta, else d - beta / 2, reduced",
        ["aten::smooth_l1_loss"] => One(smooth_l1_loss);
    "huber_loss", "Huber is d^2 / 2 where d = |x - t| <= delta, else delta (d - delta / 2), reduced",
        ["aten::huber_loss"] => One(huber_loss);
    "nll_loss", "the negative log likelihood of [rows, classes] gathers each row's target, ignored rows count nothing",
        ["aten::nll_loss_forward"] => Many(nll_loss);
}

/// PyTorch's numbers for the `reduction` argument.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// Applies the `reduction` argument to elementwise losses.
fn reduce(s: &mut Site<'_>, loss: Id) -> Option<Id> {
    let reduction = s.int("reduction").unwrap_or(MEAN);
    let m = s.meta(loss);
    let (rank, n) = (m.sizes.len(), m.numel());
    let y = if reduction == NONE {
        loss
    } else {
        let dims: Vec<usize> = (0..rank).collect();
        let sum = s.sum(loss, &dims, false);
        if reduction == MEAN {
            s.div_scalar(sum, n as f64)
        } else {
            sum
        }
    };
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

fn difference(s: &mut Site<'_>) -> Option<Id> {
    if !s.out().dtype.is_floating() {
        return None;
    }
    let (x, t) = (s.tensor(0)?, s.tensor(1)?);
    let (x, t) = (s.lift(x), s.lift(t));
    Some(s.sub(x, t))
}

fn mse_loss(s: &mut Site<'_>) -> Option<Id> {
    let d = difference(s)?;
    let loss = s.mul(d, d);
    reduce(s, loss)
}

fn smooth_l1_loss(s: &mut Site<'_>) -> Option<Id> {
    let d = difference(s)?;
    let d = s.unary("aten::abs", d);
    let beta = s.float("beta", 1.0);
    if beta == 0.0 {
        return reduce(s, d);
    }
    let near = s.compare_scalar("aten::lt.Scalar", d, beta);
    let half = s.mul_scalar(d, 0.5);
    let square = s.mul(half, d);
    let square = s.div_scalar(square, beta);
    let linear = s.sub_scalar(d, 0.5 * beta);
    let loss = s.select(near, square, linear);
    reduce(s, loss)
}

fn huber_loss(s: &mut Site<'_>) -> Option<Id> {
    let d = difference(s)?;
    let d = s.unary("aten::abs", d);
    let delta = s.float("delta", 1.0);
    let near = s.compare_scalar("aten::le.Scalar", d, delta);
    let half = s.mul_scalar(d, 0.5);
    let square = s.mul(half, d);
    let linear = s.sub_scalar(d, 0.5 * delta);
    let linear = s.mul_scalar(linear, delta);
    let loss = s.select(near, square, linear);
    reduce(s, loss)
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
    let counts = s.compare_scalar("aten::ne.Scalar", target, ignored);
    // an ignored target may lie outside the classes: it reads class 0 and is masked
    let first = s.constant(0, DType::I64);
    let safe = s.select(counts, target, first);
    let index = s.unsqueeze(safe, 1);
    let picked = s.gather(x, 1, index);
    let picked = s.squeeze(picked, 1);
    let picked = s.lift(picked);
    let minus = s.unary("aten::neg", picked);
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
