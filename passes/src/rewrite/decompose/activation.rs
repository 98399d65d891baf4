//! Activation functions. Conditions are written so that NaN takes the branch that keeps it.

use super::clamp::between;
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "leaky_relu", "leaky_relu(x) = x where x > 0, else slope x",
        ["aten::leaky_relu"] => One(leaky_relu);
    "elu", "elu(x) = scale x where x > 0, else alpha scale expm1(input_scale x)",
        ["aten::elu", "aten::selu", "aten::celu"] => One(elu);
    "softplus", "softplus(x) = log1p(exp(beta x)) / beta, and x where beta x is above the threshold",
        ["aten::softplus"] => One(softplus);
    "hardsigmoid", "hardsigmoid(x) = min(max(x + 3, 0), 6) / 6",
        ["aten::hardsigmoid"] => One(hardsigmoid);
    "hardswish", "hardswish(x) = x min(max(x + 3, 0), 6) / 6",
        ["aten::hardswish"] => One(hardswish);
    "hardshrink", "hardshrink(x) = 0 where -lambd <= x <= lambd, else x",
        ["aten::hardshrink"] => One(hardshrink);
    "softshrink", "softshrink(x) = x moved toward 0 by lambd, 0 where it would cross; NaN stays",
        ["aten::softshrink"] => One(softshrink);
    "threshold", "threshold(x) = value where x <= threshold, else x",
        ["aten::threshold"] => One(threshold);
    "log_sigmoid", "log_sigmoid(x) = min(x, 0) - log1p(exp(-|x|))",
        ["aten::log_sigmoid"] => One(log_sigmoid);
    "log_sigmoid_forward", "log_sigmoid(x) = min(x, 0) - log1p(z) with z = exp(-|x|), which is kept",
        ["aten::log_sigmoid_forward"] => Many(log_sigmoid_forward);
    "mish", "mish(x) = x tanh(log1p(exp(x)))",
        ["aten::mish"] => One(mish);
    "glu", "glu(a ++ b) = a sigmoid(b)",
        ["aten::glu"] => One(glu);
}

/// The operand in the type of computation, where that is a float.
fn operand(s: &mut Site<'_>) -> Option<Id> {
    if !s.out().dtype.is_floating() {
        return None;
    }
    let x = s.tensor(0)?;
    Some(s.lift(x))
}

fn rounded(s: &mut Site<'_>, y: Id) -> Option<Id> {
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

fn leaky_relu(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let slope = s.float("negative_slope", 0.01);
    let positive = s.compare_scalar("aten::gt.Scalar", x, 0.0);
    let scaled = s.mul_scalar(x, slope);
    let y = s.select(positive, x, scaled);
    rounded(s, y)
}

fn elu(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let (alpha, scale, input_scale) = match s.op() {
        // the constants of the paper on self-normalising networks
        "aten::selu" => (1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0),
        "aten::celu" => {
            let alpha = s.float("alpha", 1.0);
            (alpha, 1.0, 1.0 / alpha)
        }
        _ => (
            s.float("alpha", 1.0),
            s.float("scale", 1.0),
            s.float("input_scale", 1.0),
        ),
    };
    let negative = s.compare_scalar("aten::lt.Scalar", x, 0.0);
    let scaled = s.mul_scalar(x, input_scale);
    let e = s.unary("aten::expm1", scaled);
    let below = s.mul_scalar(e, alpha * scale);
    let above = s.mul_scalar(x, scale);
    let y = s.select(negative, below, above);
    rounded(s, y)
}

fn softplus(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let (beta, threshold) = (s.float("beta", 1.0), s.float("threshold", 20.0));
    let scaled = s.mul_scalar(x, beta);
    let large = s.compare_scalar("aten::gt.Scalar", scaled, threshold);
    let e = s.unary("aten::exp", scaled);
    let log = s.unary("aten::log1p", e);
    let soft = s.div_scalar(log, beta);
    let y = s.select(large, x, soft);
    rounded(s, y)
}

/// `min(max(x + 3, 0), 6)`.
fn ramp(s: &mut Site<'_>, x: Id) -> Id {
    let shifted = s.add_scalar(x, 3.0);
    between(s, shifted, Some(0.into()), Some(6.into()))
}

fn hardsigmoid(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let ramp = ramp(s, x);
    let y = s.div_scalar(ramp, 6.0);
    rounded(s, y)
}

fn hardswish(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let ramp = ramp(s, x);
    let product = s.mul(x, ramp);
    let y = s.div_scalar(product, 6.0);
    rounded(s, y)
}

fn hardshrink(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let lambd = s.float("lambd", 0.5);
    let above = s.compare_scalar("aten::ge.Scalar", x, -lambd);
    let below = s.compare_scalar("aten::le.Scalar", x, lambd);
    let inside = s.compare("aten::logical_and", above, below);
    let zero = s.constant(0.0, s.dtype(x));
    let y = s.select(inside, zero, x);
    rounded(s, y)
}

fn softshrink(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let lambd = s.float("lambd", 0.5);
    let above = s.compare_scalar("aten::gt.Scalar", x, lambd);
    let below = s.compare_scalar("aten::lt.Scalar", x, -lambd);
    let down = s.sub_scalar(x, lambd);
    let up = s.add_scalar(x, lambd);
    // inside, a zero that is NaN for NaN
    let zero = s.mul_scalar(x, 0.0);
    let y = s.select(below, up, zero);
    let y = s.select(above, down, y);
    rounded(s, y)
}

fn threshold(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let (threshold, value) = (s.scalar("threshold")?, s.scalar("value")?);
    let below = s.compare_scalar("aten::le.Scalar", x, threshold);
    let value = s.constant(value, s.dtype(x));
    Some(s.select(below, value, x))
}

/// `log_sigmoid(x)` and `exp(-|x|)`.
fn log_sigmoid_parts(s: &mut Site<'_>) -> Option<(Id, Id)> {
    let x = operand(s)?;
    let size = s.unary("aten::abs", x);
    let minus = s.unary("aten::neg", size);
    let z = s.unary("aten::exp", minus);
    let log = s.unary("aten::log1p", z);
    let min = between(s, x, None, Some(0.into()));
    Some((s.sub(min, log), z))
}

fn log_sigmoid(s: &mut Site<'_>) -> Option<Id> {
    let (y, _) = log_sigmoid_parts(s)?;
    rounded(s, y)
}

fn log_sigmoid_forward(s: &mut Site<'_>) -> Option<Replacements> {
    let (y, z) = log_sigmoid_parts(s)?;
    let call = s.call.clone();
    let y = s.convert(y, call.results[0].dtype);
    let buffer = call.results.get(1)?;
    // the buffer has no elements on devices that recompute it
    let z = if buffer.sizes == call.results[0].sizes {
        s.convert(z, buffer.dtype)
    } else if buffer.numel() == 0 {
        s.constant_of(0.into(), buffer.clone())
    } else {
        return None;
    };
    Some([Some(y), Some(z)].into_iter().collect())
}

fn mish(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let e = s.unary("aten::exp", x);
    let log = s.unary("aten::log1p", e);
    let tanh = s.unary("aten::tanh", log);
    let y = s.mul(x, tanh);
    rounded(s, y)
}

fn glu(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let sizes = s.meta(x).sizes.clone();
    let dim = match s.int("dim") {
        Some(_) => s.dim("dim", sizes.len())?,
        None => sizes.len().checked_sub(1)?,
    };
    let half = sizes.get(dim)? / 2;
    let a = s.slice(x, dim, 0, half);
    let b = s.slice(x, dim, half, 2 * half);
    let gate = s.unary("aten::sigmoid", b);
    let y = s.mul(a, gate);
    rounded(s, y)
}
