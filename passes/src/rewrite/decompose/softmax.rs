//! The softmax family: shifted by the maximum, so that no exponential overflows.

use crate::ir::Op;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "softmax", "softmax(x) = e (1 / sum(e)) with e = exp(x - max x): one division for a row",
        [Op::_softmax] => One(softmax);
    "log_softmax", "log_softmax(x) = d - log(sum(exp d)) with d = x - max x",
        [Op::_log_softmax] => One(log_softmax);
    "softmax_backward", "the gradient of softmax is y g - y sum(y g)",
        [Op::_softmax_backward_data] => One(softmax_backward);
    "log_softmax_backward", "the gradient of log_softmax is g - exp(y) sum(g)",
        [Op::_log_softmax_backward_data] => One(log_softmax_backward);
}

/// `x - max x` in the type of computation, and the dimension as a list (empty for a tensor without
/// dimensions, which is its own maximum).
fn shifted(s: &mut Site<'_>) -> Option<(Id, Vec<usize>)> {
    let mut x = s.tensor(0)?;
    if s.meta(x).numel() == 0 {
        return None;
    }
    if let Some(dtype) = s.dtype_arg("dtype") {
        x = s.convert(x, dtype);
    }
    let x = s.lift(x);
    let rank = s.meta(x).sizes.len();
    let mut dims = vec![s.dim("dim", rank)?];
    dims.truncate(rank);
    let max = s.reduce(Op::amax, x, &dims, true);
    Some((s.sub(x, max), dims))
}

fn softmax(s: &mut Site<'_>) -> Option<Id> {
    let (d, dims) = shifted(s)?;
    let e = s.unary(Op::exp, d);
    let sum = s.sum(e, &dims, true);
    let share = s.unary(Op::reciprocal, sum);
    let y = s.mul(e, share);
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

fn log_softmax(s: &mut Site<'_>) -> Option<Id> {
    let (d, dims) = shifted(s)?;
    let e = s.unary(Op::exp, d);
    let sum = s.sum(e, &dims, true);
    let log = s.unary(Op::log, sum);
    let y = s.sub(d, log);
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

/// The operands of a gradient, `grad_output` and `output`, with the dimension.
fn backward(s: &mut Site<'_>) -> Option<(Id, Id, Vec<usize>)> {
    let (g, y) = (s.tensor(0)?, s.tensor(1)?);
    let rank = s.meta(g).sizes.len();
    let mut dims = vec![s.dim("dim", rank)?];
    dims.truncate(rank);
    Some((s.lift(g), s.lift(y), dims))
}

fn softmax_backward(s: &mut Site<'_>) -> Option<Id> {
    let (g, y, dims) = backward(s)?;
    let gy = s.mul(g, y);
    let sum = s.sum(gy, &dims, true);
    let share = s.mul(y, sum);
    let dx = s.sub(gy, share);
    let dtype = s.out().dtype;
    Some(s.convert(dx, dtype))
}

fn log_softmax_backward(s: &mut Site<'_>) -> Option<Id> {
    let (g, y, dims) = backward(s)?;
    let sum = s.sum(g, &dims, true);
    let e = s.unary(Op::exp, y);
    let share = s.mul(e, sum);
    let dx = s.sub(g, share);
    let dtype = s.out().dtype;
    Some(s.convert(dx, dtype))
}
