//! Activation functions and their derivatives, by their formulas.

use crate::formula::{Builder, activation as f, backward};
use crate::ir::Op;
use crate::rewrite::rule::{Replacements, pair, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "leaky_relu", "leaky_relu(x) = x where x > 0, else slope x",
        [Op::leaky_relu] => One(|s| f::leaky_relu(s));
    "prelu", "prelu(x, w) = x where x > 0, else w x",
        [Op::_prelu_kernel] => One(|s| f::prelu(s));
    "elu", "elu(x) = scale x where x > 0, else alpha scale expm1(input_scale x)",
        [Op::elu] => One(|s| f::elu(s));
    "selu", "selu is elu with the constants of self-normalising networks",
        [Op::selu] => One(|s| f::selu(s));
    "celu", "celu is elu with input_scale = 1 / alpha",
        [Op::celu] => One(|s| f::celu(s));
    "softplus", "softplus(x) = log1p(exp(beta x)) / beta, and x where beta x is above the threshold",
        [Op::softplus] => One(|s| f::softplus(s));
    "hardsigmoid", "hardsigmoid(x) = min(max(x + 3, 0), 6) / 6",
        [Op::hardsigmoid] => One(|s| f::hardsigmoid(s));
    "hardswish", "hardswish(x) = x min(max(x + 3, 0), 6) / 6",
        [Op::hardswish] => One(|s| f::hardswish(s));
    "hardshrink", "hardshrink(x) = 0 where -lambd <= x <= lambd, else x",
        [Op::hardshrink] => One(|s| f::hardshrink(s));
    "softshrink", "softshrink(x) = x moved toward 0 by lambd, 0 where it would cross; NaN stays",
        [Op::softshrink] => One(|s| f::softshrink(s));
    "threshold", "threshold(x) = value where x <= threshold, else x",
        [Op::threshold] => One(|s| f::threshold(s));
    "log_sigmoid", "log_sigmoid(x) = min(x, 0) - log1p(exp(-|x|))",
        [Op::log_sigmoid] => One(|s| f::log_sigmoid(s));
    "log_sigmoid_forward", "log_sigmoid(x) = min(x, 0) - log1p(z) with z = exp(-|x|), which is kept",
        [Op::log_sigmoid_forward] => Many(log_sigmoid_forward);
    "mish", "mish(x) = x tanh(log1p(exp(x)))",
        [Op::mish] => One(|s| f::mish(s));
    "glu", "glu(a ++ b) = a sigmoid(b)",
        [Op::glu] => One(glu);
    "elu_backward", "elu' = scale where x > 0, else alpha scale input_scale exp(input_scale x)",
        [Op::elu_backward] => One(|s| backward::elu(s));
    "leaky_relu_backward", "leaky_relu' = 1 where x > 0, else slope",
        [Op::leaky_relu_backward] => One(|s| backward::leaky_relu(s));
    "prelu_backward", "prelu' = 1 where x > 0, else w; and of w: 0 where x > 0, else x",
        [Op::_prelu_kernel_backward] => Many(|s| pair(backward::prelu(s)));
    "hardtanh_backward", "hardtanh' = 0 where x <= lo or x >= hi, else 1",
        [Op::hardtanh_backward] => One(|s| backward::hardtanh(s));
    "hardsigmoid_backward", "hardsigmoid' = 1 / 6 where -3 < x < 3, else 0",
        [Op::hardsigmoid_backward] => One(|s| backward::hardsigmoid(s));
    "hardswish_backward", "hardswish' = 0 where x <= -3, 1 where x >= 3, x / 3 + 1 / 2 between",
        [Op::hardswish_backward] => One(|s| backward::hardswish(s));
    "hardshrink_backward", "hardshrink' = 0 where -lambd <= x <= lambd, else 1",
        [Op::hardshrink_backward] => One(|s| backward::hardshrink(s));
    "softshrink_backward", "softshrink' = 0 where -lambd <= x <= lambd, else 1",
        [Op::softshrink_backward] => One(|s| backward::softshrink(s));
    "softplus_backward", "softplus' = z / (z + 1) with z = exp(beta x), 1 above the threshold",
        [Op::softplus_backward] => One(|s| backward::softplus(s));
    "mish_backward", "mish' = t + x sigmoid(x) (1 - t^2) with t = tanh(log1p(exp(x)))",
        [Op::mish_backward] => One(|s| backward::mish(s));
    "threshold_backward", "threshold' = 0 where x <= threshold, else 1",
        [Op::threshold_backward] => One(|s| backward::threshold(s));
    "gelu_backward", "gelu' = Phi(x) + x phi(x)",
        [Op::gelu_backward] => One(|s| backward::gelu(s));
    "silu_backward", "silu' = s (1 + x (1 - s)) with s = sigmoid(x)",
        [Op::silu_backward] => One(|s| backward::silu(s));
    "sigmoid_backward", "sigmoid' = (1 - y) y",
        [Op::sigmoid_backward] => One(|s| backward::sigmoid(s));
    "tanh_backward", "tanh' = 1 - y^2",
        [Op::tanh_backward] => One(|s| backward::tanh(s));
    "log_sigmoid_backward", "log_sigmoid' = z / (1 + z) with z = exp(-|x|), 1 less that where x < 0",
        [Op::log_sigmoid_backward] => One(|s| backward::log_sigmoid(s));
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

/// The two halves of a tensor along the argument `dim`, and that dimension.
fn halves(s: &mut Site<'_>, x: Id) -> Option<(Id, Id, usize)> {
    let sizes = s.meta(x).sizes.clone();
    let dim = match s.int("dim") {
        Some(_) => s.dim("dim", sizes.len())?,
        None => sizes.len().checked_sub(1)?,
    };
    let half = sizes.get(dim)? / 2;
    Some((
        s.slice(x, dim, 0, half),
        s.slice(x, dim, half, 2 * half),
        dim,
    ))
}

fn glu(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let (a, b, _) = halves(s, x)?;
    f::glu(s, a, b)
}

fn glu_backward(s: &mut Site<'_>) -> Option<Id> {
    let (g, x) = (s.tensor(0)?, s.tensor(1)?);
    let (a, b, dim) = halves(s, x)?;
    let parts = backward::glu(s, g, a, b)?;
    Some(s.cat(&parts, dim))
}

fn rrelu_backward(s: &mut Site<'_>) -> Option<Id> {
    let (lower, upper) = (s.float("lower", 0.0), s.float("upper", 0.0));
    if s.bool("training", false) && upper - lower > 1e-6 {
        return backward::rrelu_with_noise(s);
    }
    let (g, x) = (s.lifted_float(0)?, s.lifted(1)?);
    let y = backward::leaky(s, g, x, (lower + upper) / 2.0);
    s.rounded(y)
}
