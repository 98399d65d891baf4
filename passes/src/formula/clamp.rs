//! Bounds: `maximum` and `minimum` propagate NaN from either operand, as PyTorch's clamps do.

use super::Builder;
use super::table::formulas;
use crate::ir::{DType, Scalar};
use crate::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

formulas! {
    "clamp(x, lo, hi) = min(max(x, lo), hi); a missing bound does nothing"
        clamp: [clamp, clamp_Tensor] Numbers Anything => One(clamp);
    "clamp_min(x, lo) = max(x, lo)"
        clamp_min: [clamp_min, clamp_min_Tensor] Any Anything => One(clamp_min);
    "clamp_max(x, hi) = min(x, hi)"
        clamp_max: [clamp_max, clamp_max_Tensor] Any Anything => One(clamp_max);
    "hardtanh(x, lo, hi) = min(max(x, lo), hi)"
        hardtanh: [hardtanh] Numbers Result => One(hardtanh);
    "relu6(x) = min(max(x, 0), 6)"
        relu6: [relu6] own => One(relu6);
    "fmax(a, b) = max(a, b), but the other where one is NaN"
        fmax: [fmax] own => One(fmax);
    "fmin(a, b) = min(a, b), but the other where one is NaN"
        fmin: [fmin] own => One(fmin);
}

/// min(max(x, low), high) with numbers, in the dtype of x.
pub fn between<B: Builder>(
    b: &mut B,
    mut x: B::Value,
    low: Option<Scalar>,
    high: Option<Scalar>,
) -> B::Value {
    if let Some(low) = low {
        x = b.at_least(x, low);
    }
    if let Some(high) = high {
        x = b.at_most(x, high);
    }
    x
}

/// An operand in the result's dtype. Bounds select one of their operands, so that half types need
/// no wider one.
fn stored<B: Builder>(b: &mut B, at: usize) -> Option<B::Value> {
    let x = b.operand(at)?;
    b.rounded(x)
}

/// A bound, a number or a tensor, in the result's dtype.
fn bound<B: Builder>(b: &mut B, name: &str, at: usize) -> Option<B::Value> {
    match b.number(name) {
        Some(v) => {
            let dtype = b.result_dtype();
            Some(b.constant_value(v.saturate(dtype), dtype))
        }
        None => stored(b, at),
    }
}

fn clamp<B: Builder>(b: &mut B) -> Option<B::Value> {
    let mut x = stored(b, 0)?;
    if let Some(low) = bound(b, "min", 1) {
        x = b.binary_op(BinaryOp::Maximum, x, low);
    }
    if let Some(high) = bound(b, "max", 2) {
        x = b.binary_op(BinaryOp::Minimum, x, high);
    }
    Some(x)
}

fn clamp_min<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, low) = (stored(b, 0)?, bound(b, "min", 1)?);
    Some(b.binary_op(BinaryOp::Maximum, x, low))
}

fn clamp_max<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, high) = (stored(b, 0)?, bound(b, "max", 1)?);
    Some(b.binary_op(BinaryOp::Minimum, x, high))
}

fn hardtanh<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = stored(b, 0)?;
    let low = b.number("min_val").unwrap_or((-1).into());
    let high = b.number("max_val").unwrap_or(1.into());
    let dtype = b.result_dtype();
    let (low, high) = (low.saturate(dtype), high.saturate(dtype));
    Some(between(b, x, Some(low), Some(high)))
}

fn relu6<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = stored(b, 0)?;
    Some(between(b, x, Some(0.into()), Some(6.into())))
}

/// The larger (or smaller) one, but the other where one is NaN. Of zeros of either sign it is the
/// first; of `bf16`, whose kernel in PyTorch asks the other way round, the second.
fn ignoring_nan<B: Builder>(b: &mut B, op: BinaryOp, beyond: CompareOp) -> Option<B::Value> {
    let (x, y) = (stored(b, 0)?, stored(b, 1)?);
    if !b.result_dtype().is_floating() {
        return Some(b.binary_op(op, x, y));
    }
    let (keep, take) = if b.result_dtype() == DType::BF16 { (y, x) } else { (x, y) };
    let nan = b.unary_op(UnaryOp::IsNan, keep);
    let further = b.compare_op(beyond, take, keep);
    let takes = b.either(nan, further);
    Some(b.choose(takes, take, keep))
}

fn fmax<B: Builder>(b: &mut B) -> Option<B::Value> {
    ignoring_nan(b, BinaryOp::Maximum, CompareOp::Gt)
}

fn fmin<B: Builder>(b: &mut B) -> Option<B::Value> {
    ignoring_nan(b, BinaryOp::Minimum, CompareOp::Lt)
}
