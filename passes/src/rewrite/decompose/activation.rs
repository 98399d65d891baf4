//! Activation functions whose formulas are of parts of their operands, or that keep more than a
//! result.

use crate::formula::{Builder, activation as f, backward};
use crate::ir::Op;
use crate::ir::args;
use crate::ir::view::wrap_dim;
use crate::rewrite::rule::{Replacements, pair, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "log_sigmoid_forward", "log_sigmoid(x) = min(x, 0) - ln(1 + z) with z = exp(-|x|), which is kept",
        [Op::log_sigmoid_forward] => Many(log_sigmoid_forward);
    "glu", "glu(a ++ b) = a sigmoid(b)",
        [Op::glu] => One(glu);
    "glu_backward", "glu' = sigmoid(b) ++ a (1 - sigmoid(b)) sigmoid(b)",
        [Op::glu_backward] => One(glu_backward);
    "rrelu_backward", "rrelu' = the noise in training, else that of leaky_relu with the mean slope",
        [Op::rrelu_with_noise_backward] => One(rrelu_backward);
}

fn log_sigmoid_forward(s: &mut Site<'_>) -> Option<Replacements> {
    let [y, z] = f::log_sigmoid_forward(s)?;
    let call = s.call.clone();
    let buffer = call.results.get(1)?;
    // the buffer has no elements on devices that recompute it
    let z = if buffer.sizes == call.results[0].sizes {
        z
    } else if buffer.numel() == 0 {
        s.constant_of(0.into(), buffer.clone())
    } else {
        return None;
    };
    pair(Some([y, z]))
}

/// The two halves of a tensor along a dimension, and that dimension counted from the front.
fn halves(s: &mut Site<'_>, x: Id, dim: i64) -> Option<(Id, Id, usize)> {
    let sizes = s.meta(x).sizes.clone();
    let dim = wrap_dim(dim, sizes.len()).ok()?;
    let half = sizes.get(dim)? / 2;
    Some((s.slice(x, dim, 0, half), s.slice(x, dim, half, 2 * half), dim))
}

fn glu(s: &mut Site<'_>) -> Option<Id> {
    let args::glu { self_: x, dim } = s.args()?;
    let (a, b, _) = halves(s, x, dim)?;
    f::glu(s, a, b)
}

fn glu_backward(s: &mut Site<'_>) -> Option<Id> {
    let call: args::glu_backward<Id> = s.args()?;
    let (a, b, dim) = halves(s, call.self_, call.dim)?;
    let parts = backward::glu(s, call.grad_output, a, b)?;
    Some(s.cat(&parts, dim))
}

fn rrelu_backward(s: &mut Site<'_>) -> Option<Id> {
    let call: args::rrelu_with_noise_backward<Id> = s.args()?;
    let (lower, upper) = (call.lower.as_f64(), call.upper.as_f64());
    if call.training && upper - lower > 1e-6 {
        return backward::rrelu_with_noise(s);
    }
    let (g, x) = (s.lifted_float(0)?, s.lifted(1)?);
    let y = backward::leaky(s, g, x, (lower + upper) / 2.0);
    s.rounded(y)
}
