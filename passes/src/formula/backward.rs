//! The derivatives of activation functions, times the gradient of their result.

use super::Builder;
use super::activation::within;
use super::table::formulas;
use crate::schedule::loops::UnaryOp;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

formulas! {
    "elu' = scale where x > 0, else alpha scale input_scale exp(input_scale x)"
        elu_backward: [elu_backward] Floats Anything => One(elu);
    "leaky_relu' = 1 where x > 0, else slope"
        leaky_relu_backward: [leaky_relu_backward] Floats Anything => One(leaky_relu);
    "prelu' = 1 where x > 0, else w; and of w: 0 where x > 0, else x"
        prelu_backward: [_prelu_kernel_backward] Floats Anything => Two(prelu);
    "hardtanh' = 0 where x <= lo or x >= hi, else 1"
        hardtanh_backward: [hardtanh_backward] Floats Arithmetic => One(hardtanh);
    "hardsigmoid' = 1 / 6 where -3 < x < 3, else 0"
        hardsigmoid_backward: [hardsigmoid_backward] Floats Anything => One(hardsigmoid);
    "hardswish' = 0 where x <= -3, 1 where x >= 3, x / 3 + 1 / 2 between"
        hardswish_backward: [hardswish_backward] Floats Anything => One(hardswish);
    "hardshrink' = 0 where -lambd <= x <= lambd, else 1"
        hardshrink_backward: [hardshrink_backward] Floats Result => One(hardshrink);
    "softshrink' = 0 where -lambd <= x <= lambd, else 1"
        softshrink_backward: [softshrink_backward] Floats Result => One(softshrink);
    "softplus' = z / (z + 1) with z = exp(beta x), 1 above the threshold"
        softplus_backward: [softplus_backward] Floats Arithmetic => One(softplus);
    "mish' = t + x sigmoid(x) (1 - t^2) with t = tanh(ln(1 + exp(x)))"
        mish_backward: [mish_backward] Floats Anything => One(mish);
    "threshold' = 0 where x <= threshold, else 1"
        threshold_backward: [threshold_backward] Numbers Result => One(threshold);
    "gelu' = Phi(x) + x phi(x)"
        gelu_backward: [gelu_backward] Floats Anything => One(gelu);
    "silu' = s (1 + x (1 - s)) with s = sigmoid(x)"
        silu_backward: [silu_backward] Floats Anything => One(silu);
    "sigmoid' = (1 - y) y"
        sigmoid_backward: [sigmoid_backward] Floats Anything => One(sigmoid);
    "tanh' = 1 - y^2"
        tanh_backward: [tanh_backward] Floats Anything => One(tanh);
    "log_sigmoid' = z / (1 + z) with z = exp(-|x|), 1 less that where x < 0"
        log_sigmoid_backward: [log_sigmoid_backward] Floats Anything => One(log_sigmoid);
}

/// The gradient and the other operand, in the type of computation.
fn operands<B: Builder>(b: &mut B, of: usize) -> Option<(B::Value, B::Value)> {
    Some((b.lifted_float(0)?, b.lifted_float(of)?))
}

fn elu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 5)?;
    let (alpha, scale) = (b.float("alpha", 1.0), b.float("scale", 1.0));
    let (input_scale, is_result) = (b.float("input_scale", 1.0), b.flag("is_result"));
    let negative = b.le_n(x, 0.0);
    let scaled = b.times_n(g, input_scale);
    let below = if is_result {
        let shifted = b.plus_n(x, alpha * scale);
        b.times(scaled, shifted)
    } else {
        let scaled = b.times_n(scaled, alpha * scale);
        let x = b.times_n(x, input_scale);
        let e = b.exp_of(x);
        b.times(scaled, e)
    };
    let above = b.times_n(g, scale);
    let y = b.choose(negative, below, above);
    b.rounded(y)
}

fn leaky_relu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let slope = b.float("negative_slope", 0.01);
    let y = leaky(b, g, x, slope);
    b.rounded(y)
}

/// The gradient g where x > 0, else slope g.
pub fn leaky<B: Builder>(b: &mut B, g: B::Value, x: B::Value, slope: f64) -> B::Value {
    let positive = b.gt_n(x, 0.0);
    let scaled = b.times_n(g, slope);
    b.choose(positive, g, scaled)
}

fn prelu<B: Builder>(b: &mut B) -> Option<[B::Value; 2]> {
    let (g, x) = operands(b, 1)?;
    let weight = b.lifted(2)?;
    let positive = b.gt_n(x, 0.0);
    let scaled = b.times(weight, g);
    let dx = b.choose(positive, g, scaled);
    let zero = b.like(g, 0.0);
    let product = b.times(x, g);
    let dw = b.choose(positive, zero, product);
    Some([b.rounded(dx)?, b.rounded(dw)?])
}

fn hardtanh<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let dtype = b.result_dtype();
    let low = b.number("min_val").unwrap_or((-1).into()).cast(dtype);
    let high = b.number("max_val").unwrap_or(1.into()).cast(dtype);
    let (below, above) = (b.le_n(x, low), b.ge_n(x, high));
    let outside = b.either(below, above);
    let zero = b.like(g, 0.0);
    let y = b.choose(outside, zero, g);
    b.rounded(y)
}

fn hardsigmoid<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let (above, below) = (b.gt_n(x, -3.0), b.lt_n(x, 3.0));
    let inside = b.both(above, below);
    let sixth = b.times_n(g, 1.0 / 6.0);
    let zero = b.like(g, 0.0);
    let y = b.choose(inside, sixth, zero);
    b.rounded(y)
}

fn hardswish<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let (low, middle) = (b.le_n(x, -3.0), b.lt_n(x, 3.0));
    let third = b.over_n(x, 3.0);
    let slope = b.plus_n(third, 0.5);
    let between = b.times(g, slope);
    let y = b.choose(middle, between, g);
    let zero = b.like(g, 0.0);
    let y = b.choose(low, zero, y);
    b.rounded(y)
}

fn shrink<B: Builder>(b: &mut B, g: B::Value) -> Option<B::Value> {
    let x = b.lifted(1)?;
    let inside = within(b, x);
    let zero = b.like(g, 0.0);
    let y = b.choose(inside, zero, g);
    b.rounded(y)
}

fn hardshrink<B: Builder>(b: &mut B) -> Option<B::Value> {
    let g = b.lifted_float(0)?;
    shrink(b, g)
}

fn softshrink<B: Builder>(b: &mut B) -> Option<B::Value> {
    let g = b.lifted_float(0)?;
    shrink(b, g)
}

fn softplus<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let (beta, threshold) = (b.float("beta", 1.0), b.float("threshold", 20.0));
    let scaled = b.times_n(x, beta);
    let large = b.gt_n(scaled, threshold);
    let z = b.exp_of(scaled);
    let product = b.times(g, z);
    let one_more = b.plus_n(z, 1.0);
    let soft = b.over(product, one_more);
    let y = b.choose(large, g, soft);
    b.rounded(y)
}

fn mish<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let sigmoid = b.sigmoid_of(x);
    let e = b.exp_of(x);
    let log = b.log1p_of(e);
    let t = b.unary_op(UnaryOp::Tanh, log);
    let square = b.times(t, t);
    let rest = b.n_minus(1.0, square);
    let slope = b.times(x, sigmoid);
    let slope = b.times(slope, rest);
    let slope = b.plus(t, slope);
    let y = b.times(g, slope);
    b.rounded(y)
}

fn threshold<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = (b.operand(0)?, b.operand(1)?);
    let (g, x) = (b.rounded(g)?, b.rounded(x)?);
    let threshold = b.number("threshold")?.cast(b.result_dtype());
    let below = b.le_n(x, threshold);
    let zero = b.like(g, 0);
    Some(b.choose(below, zero, g))
}

fn gelu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let slope = match b.text("approximate") {
        Some("tanh") => gelu_tanh_slope(b, x),
        _ => gelu_slope(b, x),
    };
    let y = b.times(g, slope);
    b.rounded(y)
}

/// Phi(x) + x phi(x).
fn gelu_slope<B: Builder>(b: &mut B, x: B::Value) -> B::Value {
    let scaled = b.times_n(x, FRAC_1_SQRT_2);
    let erf = b.unary_op(UnaryOp::Erf, scaled);
    let cdf = b.plus_n(erf, 1.0);
    let cdf = b.times_n(cdf, 0.5);
    let half = b.times_n(x, -0.5);
    let exponent = b.times(half, x);
    let e = b.exp_of(exponent);
    let pdf = b.times_n(e, FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5);
    let weighted = b.times(x, pdf);
    b.plus(cdf, weighted)
}

fn gelu_tanh_slope<B: Builder>(b: &mut B, x: B::Value) -> B::Value {
    let (beta, kappa) = (SQRT_2 * FRAC_2_SQRT_PI * 0.5, 0.044715);
    let square = b.times(x, x);
    let cube = b.times(square, x);
    let cube = b.times_n(cube, kappa);
    let inner = b.plus(x, cube);
    let inner = b.times_n(inner, beta);
    let t = b.unary_op(UnaryOp::Tanh, inner);
    let right = b.plus_n(t, 1.0);
    let left_slope = b.times_n(right, 0.5);
    let tt = b.times(t, t);
    let tanh_slope = b.n_minus(1.0, tt);
    let inner_slope = b.times_n(square, 3.0 * kappa);
    let inner_slope = b.plus_n(inner_slope, 1.0);
    let inner_slope = b.times_n(inner_slope, beta);
    let left = b.times_n(x, 0.5);
    let right_slope = b.times(left, tanh_slope);
    let right_slope = b.times(right_slope, inner_slope);
    b.plus(left_slope, right_slope)
}

fn silu<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let s = b.sigmoid_of(x);
    let rest = b.n_minus(1.0, s);
    let slope = b.times(x, rest);
    let slope = b.plus_n(slope, 1.0);
    let y = b.times(g, s);
    let y = b.times(y, slope);
    b.rounded(y)
}

fn sigmoid<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, y) = operands(b, 1)?;
    let rest = b.n_minus(1.0, y);
    let dx = b.times(g, rest);
    let dx = b.times(dx, y);
    b.rounded(dx)
}

fn tanh<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, y) = operands(b, 1)?;
    let square = b.times(y, y);
    let rest = b.n_minus(1.0, square);
    let dx = b.times(g, rest);
    b.rounded(dx)
}

fn log_sigmoid<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, x) = operands(b, 1)?;
    let z = b.lifted(2)?;
    let negative = b.lt_n(x, 0.0);
    let one_more = b.plus_n(z, 1.0);
    let part = b.over(z, one_more);
    let rest = b.n_minus(1.0, part);
    let slope = b.choose(negative, rest, part);
    let y = b.times(g, slope);
    b.rounded(y)
}

/// Training: noise times the gradient.
pub fn rrelu_with_noise<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (g, noise) = (b.lifted(0)?, b.lifted(2)?);
    let y = b.times(g, noise);
    b.rounded(y)
}

/// The gradients of the two halves of [`glu`](super::activation::glu)'s operand.
pub fn glu<B: Builder>(
    b: &mut B,
    g: B::Value,
    first: B::Value,
    second: B::Value,
) -> Option<[B::Value; 2]> {
    let g = b.lifted_value(g);
    let (first, second) = (b.lifted_value(first), b.lifted_value(second));
    let s = b.sigmoid_of(second);
    let d_first = b.times(s, g);
    let rest = b.n_minus(1.0, s);
    let d_second = b.times(rest, s);
    let d_second = b.times(d_second, g);
    let d_second = b.times(d_second, first);
    Some([b.rounded(d_first)?, b.rounded(d_second)?])
}
