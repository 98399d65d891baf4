//! Pointwise arithmetic with several steps.

use crate::ir::Scalar;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "rsub", "rsub(x, y) = y - alpha x",
        ["aten::rsub.Tensor", "aten::rsub.Scalar"] => One(rsub);
    "addcmul", "addcmul(x, a, b) = x + value a b",
        ["aten::addcmul"] => One(addcmul);
    "addcdiv", "addcdiv(x, a, b) = x + value a / b",
        ["aten::addcdiv"] => One(addcdiv);
    "lerp_scalar", "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5",
        ["aten::lerp.Scalar"] => One(lerp_scalar);
    "lerp_tensor", "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5, elementwise",
        ["aten::lerp.Tensor"] => One(lerp_tensor);
    "square", "the square of x is x x",
        ["aten::square"] => One(square);
    "masked_fill", "masked_fill(x, m, v) = where(m, v, x)",
        ["aten::masked_fill.Scalar", "aten::masked_fill.Tensor"] => One(masked_fill);
    "where_scalar", "where with numbers is where with constants",
        ["aten::where.ScalarSelf", "aten::where.ScalarOther", "aten::where.Scalar"] => One(where_scalar);
    "logaddexp", "logaddexp(a, b) = max(a, b) + log1p(exp(-|a - b|)), and a where both are one infinity",
        ["aten::logaddexp"] => One(logaddexp);
    "xlogy", "xlogy(x, y) = x log y, 0 where x is 0, and NaN where y is NaN",
        ["aten::xlogy.Tensor"] => One(xlogy);
    "heaviside", "heaviside(x, v) is v where x is 0, else whether x is positive",
        ["aten::heaviside"] => One(heaviside);
    "isfinite", "finite is neither infinite nor NaN; every integer is",
        ["aten::isfinite"] => One(isfinite);
    "isposinf", "isposinf(x) = (x == inf)",
        ["aten::isposinf"] => One(isposinf);
    "isneginf", "isneginf(x) = (x == -inf)",
        ["aten::isneginf"] => One(isneginf);
    "frac", "frac(x) = x - trunc(x)",
        ["aten::frac"] => One(frac);
}

fn rounded(s: &mut Site<'_>, y: Id) -> Option<Id> {
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

fn lifted(s: &mut Site<'_>, position: usize) -> Option<Id> {
    let x = s.tensor(position)?;
    Some(s.lift(x))
}

fn rsub(s: &mut Site<'_>) -> Option<Id> {
    let x = lifted(s, 0)?;
    let alpha = s.scalar("alpha").unwrap_or(1.into());
    let x = s.mul_scalar(x, alpha);
    let y = match s.scalar("other") {
        Some(other) => s.constant(other, s.dtype(x)),
        None => lifted(s, 1)?,
    };
    let d = s.sub(y, x);
    rounded(s, d)
}

fn addcmul(s: &mut Site<'_>) -> Option<Id> {
    let (x, a, b) = (lifted(s, 0)?, lifted(s, 1)?, lifted(s, 2)?);
    let value = s.scalar("value").unwrap_or(1.into());
    let a = s.mul_scalar(a, value);
    let product = s.mul(a, b);
    let y = s.add(x, product);
    rounded(s, y)
}

fn addcdiv(s: &mut Site<'_>) -> Option<Id> {
    if !s.out().dtype.is_floating() {
        return None;
    }
    let (x, a, b) = (lifted(s, 0)?, lifted(s, 1)?, lifted(s, 2)?);
    let value = s.scalar("value").unwrap_or(1.into());
    let a = s.mul_scalar(a, value);
    let quotient = s.div(a, b);
    let y = s.add(x, quotient);
    rounded(s, y)
}

fn lerp_scalar(s: &mut Site<'_>) -> Option<Id> {
    let (x, y) = (lifted(s, 0)?, lifted(s, 1)?);
    let w = s.scalar("weight")?.as_f64();
    let d = s.sub(y, x);
    let z = if w.abs() < 0.5 {
        let step = s.mul_scalar(d, w);
        s.add(x, step)
    } else {
        let step = s.mul_scalar(d, 1.0 - w);
        s.sub(y, step)
    };
    rounded(s, z)
}

fn lerp_tensor(s: &mut Site<'_>) -> Option<Id> {
    let (x, y, w) = (lifted(s, 0)?, lifted(s, 1)?, lifted(s, 2)?);
    let d = s.sub(y, x);
    let step = s.mul(w, d);
    let near = s.add(x, step);
    let one = s.constant(1.0, s.dtype(w));
    let rest = s.sub(one, w);
    let step = s.mul(d, rest);
    let far = s.sub(y, step);
    let size = s.unary("aten::abs", w);
    let small = s.compare_scalar("aten::lt.Scalar", size, 0.5);
    let z = s.select(small, near, far);
    rounded(s, z)
}

fn square(s: &mut Site<'_>) -> Option<Id> {
    let x = lifted(s, 0)?;
    let y = s.mul(x, x);
    rounded(s, y)
}

fn masked_fill(s: &mut Site<'_>) -> Option<Id> {
    let (x, mask) = (s.tensor(0)?, s.tensor(1)?);
    let dtype = s.dtype(x);
    let value = match s.scalar("value") {
        Some(v) => s.constant(v, dtype),
        None => {
            let v = s.tensor(2)?;
            s.convert(v, dtype)
        }
    };
    // the mask broadcasts to the tensor, and a mask may also enlarge it
    Some(s.select(mask, value, x))
}

fn where_scalar(s: &mut Site<'_>) -> Option<Id> {
    let condition = s.tensor(0)?;
    let dtype = s.out().dtype;
    let mut value = |name, position| match s.scalar(name) {
        Some(v) => Some(s.constant(v, dtype)),
        None => {
            let v = s.tensor(position)?;
            Some(s.convert(v, dtype))
        }
    };
    let (a, b) = (value("self", 1)?, value("other", 2)?);
    Some(s.select(condition, a, b))
}

fn logaddexp(s: &mut Site<'_>) -> Option<Id> {
    let (a, b) = (lifted(s, 0)?, lifted(s, 1)?);
    let max = s.binary("aten::maximum", a, b);
    let d = s.sub(a, b);
    let d = s.unary("aten::abs", d);
    let d = s.unary("aten::neg", d);
    let e = s.unary("aten::exp", d);
    let log = s.unary("aten::log1p", e);
    let sum = s.add(max, log);
    let infinite = s.test("aten::isinf", a);
    let equal = s.compare("aten::eq.Tensor", a, b);
    let both = s.compare("aten::logical_and", infinite, equal);
    let y = s.select(both, a, sum);
    rounded(s, y)
}

fn xlogy(s: &mut Site<'_>) -> Option<Id> {
    let (x, y) = (lifted(s, 0)?, lifted(s, 1)?);
    if !s.dtype(x).is_floating() {
        return None;
    }
    let log = s.unary("aten::log", y);
    let product = s.mul(x, log);
    let zero = s.constant(0.0, s.dtype(x));
    let is_zero = s.compare_scalar("aten::eq.Scalar", x, 0.0);
    let z = s.select(is_zero, zero, product);
    let is_nan = s.test("aten::isnan", y);
    let nan = s.constant(f64::NAN, s.dtype(x));
    let z = s.select(is_nan, nan, z);
    rounded(s, z)
}

fn heaviside(s: &mut Site<'_>) -> Option<Id> {
    let (x, values) = (s.tensor(0)?, s.tensor(1)?);
    let positive = s.compare_scalar("aten::gt.Scalar", x, Scalar::Int(0));
    let step = s.convert(positive, s.out().dtype);
    let zero = s.compare_scalar("aten::eq.Scalar", x, Scalar::Int(0));
    Some(s.select(zero, values, step))
}

fn isfinite(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    if !s.dtype(x).is_floating() {
        let meta = s.out().clone();
        return Some(s.constant_of(true.into(), meta));
    }
    let nan = s.test("aten::isnan", x);
    let infinite = s.test("aten::isinf", x);
    let either = s.compare("aten::logical_or", nan, infinite);
    Some(s.test("aten::logical_not", either))
}

fn is_infinity(s: &mut Site<'_>, infinity: f64) -> Option<Id> {
    let x = s.tensor(0)?;
    if s.dtype(x).is_floating() {
        return Some(s.compare_scalar("aten::eq.Scalar", x, infinity));
    }
    let meta = s.out().clone();
    Some(s.constant_of(false.into(), meta))
}

fn isposinf(s: &mut Site<'_>) -> Option<Id> {
    is_infinity(s, f64::INFINITY)
}

fn isneginf(s: &mut Site<'_>) -> Option<Id> {
    is_infinity(s, f64::NEG_INFINITY)
}

fn frac(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let whole = s.unary("aten::trunc", x);
    Some(s.sub(x, whole))
}
