//! The elements of losses, before they are reduced, and of their derivatives.
//!
//! A loss is reduced as its argument `reduction` says. The gradient of a mean over n elements has a
//! factor of 1 / n ([`Builder::share`]).

use super::Builder;
use super::table::formulas;
use crate::ir::Scalar;
use crate::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

formulas! {
    "the squared error is (x - t)^2, reduced"
        mse_loss: [mse_loss] Floats Anything => Reduced(mse);
    "smooth L1 is d^2 / (2 beta) where d = |x - t| < beta, else d - beta / 2, reduced"
        smooth_l1_loss: [smooth_l1_loss] Floats Anything => Reduced(smooth_l1);
    "Huber is d^2 / 2 where d = |x - t| <= delta, else delta (d - delta / 2), reduced"
        huber_loss: [huber_loss] Floats Anything => Reduced(huber);
    "the soft margin loss is ln(1 + exp(-t x)), reduced"
        soft_margin_loss: [soft_margin_loss] Floats Anything => Reduced(soft_margin);
    "binary cross entropy is -(t log x + (1 - t) log(1 - x)) with bounded logarithms, weighted and reduced"
        binary_cross_entropy: [binary_cross_entropy]
        Floats Anything => Reduced(binary_cross_entropy);
    "the squared error's derivative is 2 (x - t)"
        mse_loss_backward: [mse_loss_backward] Numbers Anything => One(mse_backward);
    "smooth L1's derivative is (x - t) / beta, between -1 and 1"
        smooth_l1_loss_backward: [smooth_l1_loss_backward]
        Numbers Anything => One(smooth_l1_backward);
    "Huber's derivative is x - t, between -delta and delta"
        huber_loss_backward: [huber_loss_backward] Floats Anything => One(huber_backward);
    "the soft margin loss's derivative is -t sigmoid(-t x)"
        soft_margin_loss_backward: [soft_margin_loss_backward]
        Floats Anything => One(soft_margin_backward);
    "binary cross entropy's derivative is (x - t) / ((1 - x) x), weighted"
        binary_cross_entropy_backward: [binary_cross_entropy_backward]
        Floats Anything => One(binary_cross_entropy_backward);
}

/// The operands at a position and the next, one less the other.
fn difference<B: Builder>(b: &mut B, at: usize) -> Option<B::Value> {
    let (x, t) = (b.lifted(at)?, b.lifted(at + 1)?);
    Some(b.minus(x, t))
}

fn distance<B: Builder>(b: &mut B) -> Option<B::Value> {
    b.result_dtype().is_floating().then_some(())?;
    let d = difference(b, 0)?;
    Some(b.size_of(d))
}

fn mse<B: Builder>(b: &mut B) -> Option<B::Value> {
    b.result_dtype().is_floating().then_some(())?;
    let d = difference(b, 0)?;
    let y = b.times(d, d);
    b.rounded(y)
}

fn smooth_l1<B: Builder>(b: &mut B) -> Option<B::Value> {
    let d = distance(b)?;
    let beta = b.float("beta", 1.0);
    if beta == 0.0 {
        return b.rounded(d);
    }
    let near = b.lt_n(d, beta);
    let half = b.times_n(d, 0.5);
    let square = b.times(half, d);
    let square = b.over_n(square, beta);
    let linear = b.minus_n(d, 0.5 * beta);
    let y = b.choose(near, square, linear);
    b.rounded(y)
}

fn huber<B: Builder>(b: &mut B) -> Option<B::Value> {
    let d = distance(b)?;
    let delta = b.float("delta", 1.0);
    let near = b.le_n(d, delta);
    let half = b.times_n(d, 0.5);
    let square = b.times(half, d);
    let linear = b.minus_n(d, 0.5 * delta);
    let linear = b.times_n(linear, delta);
    let y = b.choose(near, square, linear);
    b.rounded(y)
}

fn soft_margin<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, t) = (b.lifted_float(0)?, b.lifted(1)?);
    let minus = b.negated(t);
    let product = b.times(minus, x);
    let product = b.lifted_value(product);
    let e = b.exp_of(product);
    let e = b.lifted_value(e);
    let y = b.log1p_of(e);
    b.rounded(y)
}

fn binary_cross_entropy<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, t) = (b.lifted_float(0)?, b.lifted(1)?);
    let log = b.unary_op(UnaryOp::Log, x);
    let log = b.at_least(log, -100.0);
    let minus = b.negated(x);
    let log_rest = b.log1p_of(minus);
    let log_rest = b.at_least(log_rest, -100.0);
    let less = b.minus_n(t, 1.0);
    let absent = b.times(less, log_rest);
    let present = b.times(t, log);
    let mut y = b.minus(absent, present);
    if let Some(w) = b.lifted(2) {
        y = b.times(y, w);
    }
    b.rounded(y)
}

fn mse_backward<B: Builder>(b: &mut B) -> Option<B::Value> {
    let scale = b.share(2.0);
    let g = b.lifted(0)?;
    let d = difference(b, 1)?;
    let y = b.times_n(d, scale.cast(b.dtype_of(d)));
    let y = b.times(y, g);
    b.rounded(y)
}

fn smooth_l1_backward<B: Builder>(b: &mut B) -> Option<B::Value> {
    let scale = b.share(1.0);
    let beta = b.number("beta").unwrap_or(1.0.into());
    slope(b, scale, beta, None)
}

fn huber_backward<B: Builder>(b: &mut B) -> Option<B::Value> {
    let scale = b.share(1.0);
    let delta = b.number("delta").unwrap_or(1.0.into());
    slope(b, scale, delta, Some(delta))
}

/// The slope of a loss that is a parabola within `width`, and straight beyond.
fn slope<B: Builder>(
    b: &mut B,
    scale: Scalar,
    width: Scalar,
    steepness: Option<Scalar>,
) -> Option<B::Value> {
    let g = b.lifted(0)?;
    let d = difference(b, 1)?;
    let dtype = b.dtype_of(d);
    let g = b.times_n(g, scale.cast(dtype));
    let width = width.cast(dtype);
    let edge = b.like(d, width);
    let minus_edge = b.negated(edge);
    let below = b.compare_op(CompareOp::Le, d, minus_edge);
    let above = b.ge_n(d, width);
    let middle = b.times(d, g);
    let (middle, end) = match steepness {
        Some(s) => (middle, b.times_n(g, s.cast(dtype))),
        None if dtype.is_floating() => (b.over(middle, edge), g),
        None => {
            let one = b.like(d, 1);
            // the middle is empty where the width of an integer parabola is 0
            let safe = if width.as_i64() == 0 { one } else { edge };
            (b.binary_op(BinaryOp::TruncDiv, middle, safe), g)
        }
    };
    let minus = b.negated(end);
    let y = b.choose(above, end, middle);
    let y = b.choose(below, minus, y);
    b.rounded(y)
}

fn soft_margin_backward<B: Builder>(b: &mut B) -> Option<B::Value> {
    let scale = b.share(1.0);
    let (g, x) = (b.lifted_float(0)?, b.lifted(1)?);
    let t = b.lifted(2)?;
    let minus = b.negated(t);
    let product = b.times(minus, x);
    let s = b.sigmoid_of(product);
    let y = b.times_n(minus, scale);
    let y = b.times(y, s);
    let y = b.times(y, g);
    b.rounded(y)
}

fn binary_cross_entropy_backward<B: Builder>(b: &mut B) -> Option<B::Value> {
    let scale = b.share(1.0);
    let (g, x) = (b.lifted_float(0)?, b.lifted(1)?);
    let t = b.lifted(2)?;
    let rest = b.n_minus(1.0, x);
    let variance = b.times(rest, x);
    let variance = b.at_least(variance, 1e-12);
    let d = b.minus(x, t);
    let y = b.times(g, d);
    let mut y = b.over(y, variance);
    if let Some(w) = b.lifted(3) {
        y = b.times(y, w);
    }
    let y = b.times_n(y, scale);
    b.rounded(y)
}
