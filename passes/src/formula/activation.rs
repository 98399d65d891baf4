//! Activation functions. Conditions are written so that NaN takes the branch that keeps it.

use super::table::formulas;
use super::{Builder, clamp};
use crate::schedule::loops::{BinaryOp, UnaryOp};

formulas! {
    "leaky_relu(x) = x where x > 0, else slope x"
        leaky_relu: [leaky_relu] Floats Arithmetic => One(leaky_relu);
    "prelu(x, w) = x where x > 0, else w x"
        prelu: [_prelu_kernel] Floats Anything => One(prelu);
    "elu(x) = scale x where x > 0, else alpha scale expm1(input_scale x)"
        elu: [elu] Floats Arithmetic => One(elu);
    "selu is elu with the constants of self-normalising networks"
        selu: [selu] own => One(selu);
    "celu is elu with input_scale = 1 / alpha"
        celu: [celu] Floats Arithmetic => One(celu);
    "softplus(x) = ln(1 + exp(beta x)) / beta, and x where beta x is above the threshold"
        softplus: [softplus] Floats Arithmetic => One(softplus);
    "hardsigmoid(x) = min(max(x + 3, 0), 6) / 6"
        hardsigmoid: [hardsigmoid] Floats Anything => One(hardsigmoid);
    "hardswish(x) = x min(max(x + 3, 0), 6) / 6"
        hardswish: [hardswish] Floats Anything => One(hardswish);
    "hardshrink(x) = 0 where -lambd <= x <= lambd, else x"
        hardshrink: [hardshrink] Floats Result => One(hardshrink);
    "softshrink(x) = x moved toward 0 by lambd, 0 where it would cross; NaN stays"
        softshrink: [softshrink] Floats Arithmetic => One(softshrink);
    "threshold(x) = value where x <= threshold, else x"
        threshold: [threshold] Numbers Arithmetic => One(threshold);
    "log_sigmoid(x) = min(x, 0) - ln(1 + exp(-|x|))"
        log_sigmoid: [log_sigmoid] own => One(log_sigmoid);
    "mish(x) = x tanh(ln(1 + exp(x)))"
        mish: [mish] Floats Anything => One(mish);
}

fn leaky_relu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let slope = b.float("negative_slope", 0.01);
    let positive = b.gt_n(x, 0.0);
    let scaled = b.times_n(x, slope);
    let y = b.choose(positive, x, scaled);
    b.rounded(y)
}

fn prelu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, weight) = (b.lifted_float(0)?, b.lifted(1)?);
    let positive = b.gt_n(x, 0.0);
    let scaled = b.times(x, weight);
    let y = b.choose(positive, x, scaled);
    b.rounded(y)
}

/// The noise times x where x <= 0, which is what training noise was drawn for.
pub fn rrelu_with_noise<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, noise) = (b.lifted_float(0)?, b.lifted(1)?);
    let negative = b.le_n(x, 0.0);
    let scaled = b.times(x, noise);
    let y = b.choose(negative, scaled, x);
    b.rounded(y)
}

fn exponential<B: Builder>(
    b: &mut B,
    alpha: f64,
    scale: f64,
    input_scale: f64,
) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let negative = b.lt_n(x, 0.0);
    let scaled = b.times_n(x, input_scale);
    let e = b.unary_op(UnaryOp::Expm1, scaled);
    let below = b.times_n(e, alpha * scale);
    let above = b.times_n(x, scale);
    let y = b.choose(negative, below, above);
    b.rounded(y)
}

fn elu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (alpha, scale) = (b.float("alpha", 1.0), b.float("scale", 1.0));
    let input_scale = b.float("input_scale", 1.0);
    exponential(b, alpha, scale, input_scale)
}

fn celu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let alpha = b.float("alpha", 1.0);
    exponential(b, alpha, 1.0, 1.0 / alpha)
}

/// The `alpha` of self-normalising networks.
pub const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
/// The `scale` of self-normalising networks.
pub const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

fn selu<B: Builder>(b: &mut B) -> Option<B::Value> {
    exponential(b, SELU_ALPHA, SELU_SCALE, 1.0)
}

fn softplus<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let (beta, threshold) = (b.float("beta", 1.0), b.float("threshold", 20.0));
    let scaled = b.times_n(x, beta);
    let large = b.gt_n(scaled, threshold);
    let e = b.exp_of(scaled);
    let log = b.log1p_of(e);
    let soft = b.over_n(log, beta);
    let y = b.choose(large, x, soft);
    b.rounded(y)
}

/// min(max(x + 3, 0), 6).
fn ramp<B: Builder>(b: &mut B, x: B::Value) -> B::Value {
    let shifted = b.plus_n(x, 3.0);
    clamp::between(b, shifted, Some(0.0.into()), Some(6.0.into()))
}

fn hardsigmoid<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let ramp = ramp(b, x);
    let y = b.over_n(ramp, 6.0);
    b.rounded(y)
}

fn hardswish<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let ramp = ramp(b, x);
    let product = b.times(x, ramp);
    let y = b.over_n(product, 6.0);
    b.rounded(y)
}

/// Whether -lambd <= x <= lambd, lambd being a number of the result's dtype.
pub(super) fn within<B: Builder>(b: &mut B, x: B::Value) -> B::Value {
    let lambd = (b.number("lambd").unwrap_or(0.5.into())).cast(b.result_dtype());
    let lambd = lambd.as_f64();
    let above = b.ge_n(x, -lambd);
    let below = b.le_n(x, lambd);
    b.both(above, below)
}

fn hardshrink<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let inside = within(b, x);
    let zero = b.like(x, 0.0);
    let y = b.choose(inside, zero, x);
    b.rounded(y)
}

fn softshrink<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let lambd = b.float("lambd", 0.5);
    let above = b.gt_n(x, lambd);
    let below = b.lt_n(x, -lambd);
    let down = b.minus_n(x, lambd);
    let up = b.plus_n(x, lambd);
    // inside, a zero that is NaN for NaN
    let zero = b.times_n(x, 0.0);
    let y = b.choose(below, up, zero);
    let y = b.choose(above, down, y);
    b.rounded(y)
}

fn threshold<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.operand(0)?;
    let (threshold, value) = (b.number("threshold")?, b.number("value")?);
    let below = b.le_n(x, threshold.cast(b.dtype_of(x)));
    let value = b.like(x, value);
    Some(b.choose(below, value, x))
}

/// `log_sigmoid(x)` and `exp(-|x|)`, unrounded.
fn log_sigmoid_parts<B: Builder>(b: &mut B) -> Option<[B::Value; 2]> {
    let x = b.lifted_float(0)?;
    let size = b.size_of(x);
    let minus = b.negated(size);
    let z = b.exp_of(minus);
    let log = b.log1p_of(z);
    let min = b.at_most(x, 0.0);
    Some([b.minus(min, log), z])
}

fn log_sigmoid<B: Builder>(b: &mut B) -> Option<B::Value> {
    let [y, _] = log_sigmoid_parts(b)?;
    b.rounded(y)
}

/// min(x, 0) - ln(1 + z), and z = exp(-|x|) for the backward.
pub fn log_sigmoid_forward<B: Builder>(b: &mut B) -> Option<[B::Value; 2]> {
    let [y, z] = log_sigmoid_parts(b)?;
    Some([b.rounded(y)?, b.rounded(z)?])
}

fn mish<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted_float(0)?;
    let e = b.exp_of(x);
    let log = b.log1p_of(e);
    let tanh = b.unary_op(UnaryOp::Tanh, log);
    let y = b.times(x, tanh);
    b.rounded(y)
}

/// a sigmoid(b), of the two halves of a tensor.
pub fn glu<B: Builder>(b: &mut B, first: B::Value, second: B::Value) -> Option<B::Value> {
    let (first, second) = (b.lifted_value(first), b.lifted_value(second));
    let gate = b.sigmoid_of(second);
    let y = b.binary_op(BinaryOp::Mul, first, gate);
    b.rounded(y)
}
