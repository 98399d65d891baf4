//! Clamping: `maximum` and `minimum` propagate NaN from either operand, as PyTorch's clamps do.

use crate::ir::Scalar;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "clamp", "clamp(x, lo, hi) = min(max(x, lo), hi); a missing bound does nothing",
        ["aten::clamp", "aten::clamp.Tensor"] => One(clamp);
    "clamp_min", "clamp_min(x, lo) = max(x, lo)",
        ["aten::clamp_min", "aten::clamp_min.Tensor"] => One(clamp_min);
    "clamp_max", "clamp_max(x, hi) = min(x, hi)",
        ["aten::clamp_max", "aten::clamp_max.Tensor"] => One(clamp_max);
    "hardtanh", "hardtanh(x, lo, hi) = min(max(x, lo), hi)",
        ["aten::hardtanh"] => One(hardtanh);
    "relu6", "relu6(x) = min(max(x, 0), 6)",
        ["aten::relu6"] => One(relu6);
    "fmax", "fmax(a, b) = max(a, b), but the other where one is NaN",
        ["aten::fmax"] => One(fmax);
    "fmin", "fmin(a, b) = min(a, b), but the other where one is NaN",
        ["aten::fmin"] => One(fmin);
}

/// `min(max(x, lo), hi)` with numbers, in the dtype of `x`.
pub(super) fn between(
    s: &mut Site<'_>,
    mut x: Id,
    low: Option<Scalar>,
    high: Option<Scalar>,
) -> Id {
    if let Some(low) = low {
        let low = s.constant(low, s.dtype(x));
        x = s.binary("aten::maximum", x, low);
    }
    if let Some(high) = high {
        let high = s.constant(high, s.dtype(x));
        x = s.binary("aten::minimum", x, high);
    }
    x
}

/// A bound: a number by its name, or a tensor by its position, in the result's dtype.
fn bound(s: &mut Site<'_>, name: &str, position: usize) -> Option<Id> {
    let dtype = s.out().dtype;
    if let Some(v) = s.scalar(name) {
        return Some(s.constant(v, dtype));
    }
    let v = s.tensor(position)?;
    Some(s.convert(v, dtype))
}

fn operand(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    Some(s.convert(x, s.out().dtype))
}

fn clamp(s: &mut Site<'_>) -> Option<Id> {
    let mut x = operand(s)?;
    if let Some(low) = bound(s, "min", 1) {
        x = s.binary("aten::maximum", x, low);
    }
    if let Some(high) = bound(s, "max", 2) {
        x = s.binary("aten::minimum", x, high);
    }
    Some(x)
}

fn clamp_min(s: &mut Site<'_>) -> Option<Id> {
    let (x, low) = (operand(s)?, bound(s, "min", 1)?);
    Some(s.binary("aten::maximum", x, low))
}

fn clamp_max(s: &mut Site<'_>) -> Option<Id> {
    let (x, high) = (operand(s)?, bound(s, "max", 1)?);
    Some(s.binary("aten::minimum", x, high))
}

fn hardtanh(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    let low = s.scalar("min_val").unwrap_or((-1).into());
    let high = s.scalar("max_val").unwrap_or(1.into());
    Some(between(s, x, Some(low), Some(high)))
}

fn relu6(s: &mut Site<'_>) -> Option<Id> {
    let x = operand(s)?;
    Some(between(s, x, Some(0.into()), Some(6.into())))
}

fn ignoring_nan(s: &mut Site<'_>, op: &str) -> Option<Id> {
    let (a, b) = (s.tensor(0)?, s.tensor(1)?);
    let dtype = s.out().dtype;
    let (a, b) = (s.convert(a, dtype), s.convert(b, dtype));
    let best = s.binary(op, a, b);
    if !dtype.is_floating() {
        return Some(best);
    }
    let (a_nan, b_nan) = (s.test("aten::isnan", a), s.test("aten::isnan", b));
    let best = s.select(b_nan, a, best);
    Some(s.select(a_nan, b, best))
}

fn fmax(s: &mut Site<'_>) -> Option<Id> {
    ignoring_nan(s, "aten::maximum")
}

fn fmin(s: &mut Site<'_>) -> Option<Id> {
    ignoring_nan(s, "aten::minimum")
}
