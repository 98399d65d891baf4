//! Pointwise arithmetic with several steps.

use super::Builder;
use super::table::formulas;
use crate::ir::{DType, Scalar};
use crate::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

formulas! {
    "rsub(x, y) = y - alpha x"
        rsub: [rsub_Tensor, rsub_Scalar] own => One(rsub);
    "addcmul(x, a, b) = x + value a b"
        addcmul: [addcmul] Numbers Anything => One(addcmul);
    "addcdiv(x, a, b) = x + value a / b"
        addcdiv: [addcdiv] Floats Anything => One(addcdiv);
    "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5"
        lerp_scalar: [lerp_Scalar] Floats Arithmetic => One(lerp_scalar);
    "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5, elementwise"
        lerp_tensor: [lerp_Tensor] Floats Anything => One(lerp_tensor);
    "the square of x is x x"
        square: [square] own => One(square);
    "logaddexp(a, b) = max(a, b) + ln(1 + exp(-|a - b|)), and a where both are one infinity"
        logaddexp: [logaddexp] own => One(logaddexp);
    "xlogy(x, y) = x log y, 0 where x is 0, and NaN where y is NaN"
        xlogy: [xlogy_Tensor, xlogy_Scalar_Other, xlogy_Scalar_Self]
        ToFloat Anything => One(xlogy);
    "xlog1py(x, y) = x log(1 + y), 0 where x is 0, and NaN where y is NaN"
        xlog1py: [special_xlog1py, special_xlog1py_other_scalar, special_xlog1py_self_scalar]
        ToFloat Anything => One(xlog1py);
    "nan_to_num(x) is x with finite numbers for NaN and the infinities"
        nan_to_num: [nan_to_num] Floats Anything => One(nan_to_num);
    "heaviside(x, v) is v where x is 0, else whether x is positive"
        heaviside: [heaviside] own => One(heaviside);
    "finite is neither infinite nor NaN; every integer is"
        isfinite: [isfinite] own => One(isfinite);
    "isposinf(x) = (x == inf)"
        isposinf: [isposinf] Test Anything => One(isposinf);
    "isneginf(x) = (x == -inf)"
        isneginf: [isneginf] Test Anything => One(isneginf);
    "frac(x) = x - trunc(x)"
        frac: [frac] Floats Anything => One(frac);
    "sgn of real numbers is sign"
        sgn: [sgn] own => One(sgn);
    "floor_divide(x, y) = floor(x / y)"
        floor_divide: [floor_divide, floor_divide_Scalar] NotBool Anything => One(floor_divide);
    "shifting left by y multiplies by 2^y"
        shift_left: [__lshift___Tensor, __lshift___Scalar, bitwise_left_shift_Tensor_Scalar]
        Any Anything => One(shift_left);
    "shifting right by y divides by 2^y and rounds down"
        shift_right: [__rshift___Tensor, __rshift___Scalar, bitwise_right_shift_Tensor_Scalar]
        Any Anything => One(shift_right);
}

/// `other` as the value it is, a number or a tensor, in the type of computation.
fn number_or_operand<B: Builder>(b: &mut B, name: &str, at: usize) -> Option<B::Value> {
    match b.number(name) {
        Some(v) => {
            let dtype = b.result_dtype();
            let v = b.constant_value(v, dtype.opmath());
            Some(v)
        }
        None => b.lifted(at),
    }
}

/// `other` as an element of the result would have it, a number or a tensor: half types round
/// numbers too.
fn element_or_operand<B: Builder>(b: &mut B, name: &str, at: usize) -> Option<B::Value> {
    let dtype = b.result_dtype();
    match b.number(name) {
        Some(v) => Some(b.constant_value(v.cast(dtype), dtype.opmath())),
        None => b.lifted(at),
    }
}

fn rsub<B: Builder>(b: &mut B) -> Option<B::Value> {
    let dtype = b.result_dtype();
    let x = b.operand(0)?;
    let mut x = b.converted(x, dtype);
    let alpha = b.number("alpha").unwrap_or(1.into());
    if alpha.as_f64() != 1.0 {
        x = b.binary_number(BinaryOp::Mul, x, alpha.cast(dtype));
    }
    let y = match b.number("other") {
        Some(y) => b.constant_value(y.cast(dtype), dtype),
        None => {
            let y = b.operand(1)?;
            b.converted(y, dtype)
        }
    };
    Some(b.minus(y, x))
}

fn addcmul<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, p) = (b.lifted(0)?, b.lifted(1)?);
    let q = b.lifted(2)?;
    let value = b.number("value").unwrap_or(1.into()).cast(b.dtype_of(x));
    let p = b.times_n(p, value);
    let product = b.times(p, q);
    let y = b.plus(x, product);
    b.rounded(y)
}

fn addcdiv<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, p) = (b.lifted_float(0)?, b.lifted(1)?);
    let q = b.lifted(2)?;
    let value = b.number("value").unwrap_or(1.into());
    let p = b.times_n(p, value.as_f64());
    let quotient = b.over(p, q);
    let y = b.plus(x, quotient);
    b.rounded(y)
}

fn lerp_scalar<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, y) = (b.lifted_float(0)?, b.lifted(1)?);
    let w = b.number("weight")?.as_f64();
    let d = b.minus(y, x);
    let z = if w.abs() < 0.5 {
        let step = b.times_n(d, w);
        b.plus(x, step)
    } else {
        let step = b.times_n(d, 1.0 - w);
        b.minus(y, step)
    };
    b.rounded(z)
}

fn lerp_tensor<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, y) = (b.lifted_float(0)?, b.lifted(1)?);
    let w = b.lifted(2)?;
    let d = b.minus(y, x);
    let step = b.times(w, d);
    let near = b.plus(x, step);
    let rest = b.n_minus(1.0, w);
    let step = b.times(d, rest);
    let far = b.minus(y, step);
    let size = b.size_of(w);
    let small = b.lt_n(size, 0.5);
    let z = b.choose(small, near, far);
    b.rounded(z)
}

fn square<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.lifted(0)?;
    let y = b.times(x, x);
    b.rounded(y)
}

fn logaddexp<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, y) = (b.lifted(0)?, b.lifted(1)?);
    let max = b.binary_op(BinaryOp::Maximum, x, y);
    let d = b.minus(x, y);
    let d = b.size_of(d);
    let d = b.negated(d);
    let e = b.exp_of(d);
    let log = b.log1p_of(e);
    let sum = b.plus(max, log);
    let infinite = b.unary_op(UnaryOp::IsInf, x);
    let equal = b.compare_op(CompareOp::Eq, x, y);
    let both = b.both(infinite, equal);
    let z = b.choose(both, x, sum);
    b.rounded(z)
}

/// x f(y), 0 where x is 0, and NaN where y is NaN.
fn times_function<B: Builder>(b: &mut B, f: UnaryOp) -> Option<B::Value> {
    b.result_dtype().is_floating().then_some(())?;
    let (x, y) = (element_or_operand(b, "self", 0)?, element_or_operand(b, "other", 1)?);
    let log = b.unary_op(f, y);
    let product = b.times(x, log);
    let zero = b.like(x, 0.0);
    let is_zero = b.eq_n(x, 0.0);
    let z = b.choose(is_zero, zero, product);
    let is_nan = b.unary_op(UnaryOp::IsNan, y);
    let nan = b.like(x, f64::NAN);
    let z = b.choose(is_nan, nan, z);
    b.rounded(z)
}

fn xlogy<B: Builder>(b: &mut B) -> Option<B::Value> {
    times_function(b, UnaryOp::Log)
}

fn xlog1py<B: Builder>(b: &mut B) -> Option<B::Value> {
    times_function(b, UnaryOp::Log1p)
}

fn nan_to_num<B: Builder>(b: &mut B) -> Option<B::Value> {
    let dtype = b.result_dtype();
    let (least, largest) = dtype.finite_bounds()?;
    let number = |b: &B, name, default| b.number(name).map_or(default, Scalar::as_f64);
    let (nan, above, below) =
        (number(b, "nan", 0.0), number(b, "posinf", largest), number(b, "neginf", least));
    let x = b.lifted_float(0)?;
    let mut y = x;
    for (value, by) in [(f64::INFINITY, above), (f64::NEG_INFINITY, below)] {
        let by = b.like(x, by);
        let there = b.eq_n(x, value);
        y = b.choose(there, by, y);
    }
    let by = b.like(x, nan);
    let there = b.unary_op(UnaryOp::IsNan, x);
    let y = b.choose(there, by, y);
    b.rounded(y)
}

fn heaviside<B: Builder>(b: &mut B) -> Option<B::Value> {
    let (x, values) = (b.operand(0)?, b.operand(1)?);
    let zero = b.like(x, 0);
    let positive = b.compare_op(CompareOp::Gt, x, zero);
    let step = b.rounded(positive)?;
    let values = b.rounded(values)?;
    let zero = b.eq_n(x, 0);
    Some(b.choose(zero, values, step))
}

fn frac<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.operand(0)?;
    let whole = b.unary_op(UnaryOp::Trunc, x);
    Some(b.minus(x, whole))
}

fn sgn<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.operand(0)?;
    Some(b.unary_op(UnaryOp::Sign, x))
}

fn isfinite<B: Builder>(b: &mut B) -> Option<B::Value> {
    let x = b.operand(0)?;
    if !b.dtype_of(x).is_floating() {
        return Some(b.constant_as(x, true.into(), DType::Bool));
    }
    let nan = b.unary_op(UnaryOp::IsNan, x);
    let infinite = b.unary_op(UnaryOp::IsInf, x);
    let either = b.either(nan, infinite);
    Some(b.unary_op(UnaryOp::LogicalNot, either))
}

fn equals<B: Builder>(b: &mut B, infinity: f64) -> Option<B::Value> {
    let x = b.operand(0)?;
    if !b.dtype_of(x).is_floating() {
        return Some(b.constant_as(x, false.into(), DType::Bool));
    }
    Some(b.eq_n(x, infinity))
}

fn isposinf<B: Builder>(b: &mut B) -> Option<B::Value> {
    equals(b, f64::INFINITY)
}

fn isneginf<B: Builder>(b: &mut B) -> Option<B::Value> {
    equals(b, f64::NEG_INFINITY)
}

fn rounded_quotient<B: Builder>(b: &mut B, op: BinaryOp) -> Option<B::Value> {
    let (x, y) = (b.lifted(0)?, number_or_operand(b, "other", 1)?);
    let q = b.binary_op(op, x, y);
    b.rounded(q)
}

fn floor_divide<B: Builder>(b: &mut B) -> Option<B::Value> {
    rounded_quotient(b, BinaryOp::FloorDiv)
}

fn shift<B: Builder>(b: &mut B, op: BinaryOp) -> Option<B::Value> {
    if !b.result_dtype().is_integral() {
        return None;
    }
    let (x, y) = (number_or_operand(b, "self", 0)?, number_or_operand(b, "other", 1)?);
    Some(b.binary_op(op, x, y))
}

fn shift_left<B: Builder>(b: &mut B) -> Option<B::Value> {
    shift(b, BinaryOp::ShiftLeft)
}

fn shift_right<B: Builder>(b: &mut B) -> Option<B::Value> {
    shift(b, BinaryOp::ShiftRight)
}
