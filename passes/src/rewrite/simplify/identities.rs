//! Neutral elements, involutions and idempotent operators.

use crate::ir::Op;
use crate::ir::args;
use crate::ir::{DType, Scalar};
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Simplify:
    "mul_one", "x * 1 = x", [Op::mul_Tensor, Op::mul_Scalar] => One(mul_one);
    "div_one", "x / 1 = x", [Op::div_Tensor, Op::div_Scalar] => One(div_one);
    "sub_zero", "x - (+0) = x; x - (-0) would turn -0 to +0",
        [Op::sub_Tensor, Op::sub_Scalar] => One(sub_zero);
    "add_negative_zero", "x + (-0) = x; integers: x + 0 = x",
        [Op::add_Tensor, Op::add_Scalar] => One(add_negative_zero);
    "add_neg", "x + (-y) = x - y", [Op::add_Tensor] => One(add_neg);
    "sub_neg", "x - (-y) = x + y", [Op::sub_Tensor] => One(sub_neg);
    "pow_one", "x^1 = x", [Op::pow_Tensor_Scalar] => One(pow_one);
    "pow_two", "x^2 = x * x", [Op::pow_Tensor_Scalar] => One(pow_two);
    "involution", "neg(neg x) = x, and so for bitwise_not, and logical_not of bool",
        [Op::neg, Op::bitwise_not, Op::logical_not] => One(involution);
    "idempotent", "f(f x) = f x for abs, relu, sign and the roundings",
        [Op::abs, Op::relu, Op::sign, Op::floor, Op::ceil, Op::round, Op::trunc]
        => One(idempotent);
    "abs_neg", "|-x| = |x| where there are negative numbers", [Op::abs] => One(abs_neg);
    "where_same", "where(c, x, x) = x", [Op::where_self] => One(where_same);
    "where_known", "where(true, x, y) = x and where(false, x, y) = y",
        [Op::where_self] => One(where_known);
    "both_same", "max(x, x) = x, and so for min and the bitwise and, or",
        [Op::maximum, Op::minimum, Op::bitwise_and_Tensor, Op::bitwise_or_Tensor]
        => One(both_same);
    "dropout_off", "dropout outside training is the identity", [Op::dropout] => One(dropout_off);
}

fn is_one(s: Scalar) -> bool {
    s.as_f64() == 1.0
}

fn mul_one(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    if s.number_operand().is_some_and(is_one) {
        return s.exactly(x);
    }
    s.splat(x).filter(|v| is_one(*v))?;
    s.exactly(s.tensor(1)?)
}

fn div_one(s: &mut Site<'_>) -> Option<Id> {
    s.number_operand().filter(|v| is_one(*v))?;
    s.exactly(s.tensor(0)?)
}

/// `alpha * other` where that is a zero: whether it is a negative one.
fn zero_operand(s: &Site<'_>) -> Option<bool> {
    let dtype = s.out().dtype;
    // both are elements of the result's dtype, where a number may be infinite
    let other = s.number_operand()?.cast(dtype).as_f64();
    let alpha = s.scalar("alpha").unwrap_or(1.into());
    let v = other * alpha.cast(dtype).as_f64();
    (v == 0.0).then(|| v.is_sign_negative())
}

fn sub_zero(s: &mut Site<'_>) -> Option<Id> {
    let negative = zero_operand(s)?;
    if negative && s.out().dtype.is_floating() {
        return None;
    }
    s.exactly(s.tensor(0)?)
}

fn add_negative_zero(s: &mut Site<'_>) -> Option<Id> {
    let negative = zero_operand(s)?;
    if !negative && s.out().dtype.is_floating() {
        return None;
    }
    s.exactly(s.tensor(0)?)
}

/// The operand of a `neg`, for a call whose `alpha` is 1 and whose operands have its dtype.
fn negated(s: &Site<'_>, id: Id) -> Option<Id> {
    let dtype = s.out().dtype;
    if s.float("alpha", 1.0) != 1.0 || s.dtype(id) != dtype || s.dtype(s.tensor(0)?) != dtype {
        return None;
    }
    s.producer(id, &[Op::neg])?.tensor(0)
}

fn add_neg(s: &mut Site<'_>) -> Option<Id> {
    let (x, y) = (s.tensor(0)?, s.tensor(1)?);
    let y = negated(s, y)?;
    Some(s.sub(x, y))
}

fn sub_neg(s: &mut Site<'_>) -> Option<Id> {
    let (x, y) = (s.tensor(0)?, s.tensor(1)?);
    let y = negated(s, y)?;
    Some(s.add(x, y))
}

fn pow_one(s: &mut Site<'_>) -> Option<Id> {
    let a: args::pow_Tensor_Scalar<Id> = s.args()?;
    is_one(a.exponent).then(|| s.exactly(a.self_))?
}

fn pow_two(s: &mut Site<'_>) -> Option<Id> {
    let args::pow_Tensor_Scalar { self_: x, exponent } = s.args()?;
    let two = exponent.as_f64() == 2.0;
    (two && s.dtype(x) == s.out().dtype).then(|| s.mul(x, x))
}

fn involution(s: &mut Site<'_>) -> Option<Id> {
    let op = s.op();
    let inner = s.producer(s.tensor(0)?, &[op])?.tensor(0)?;
    // logical_not of a number forgets the number, which its dtype shows
    s.exactly(inner)
}

fn idempotent(s: &mut Site<'_>) -> Option<Id> {
    let op = s.op();
    let inner = s.tensor(0)?;
    s.producer(inner, &[op])?;
    s.exactly(inner)
}

fn abs_neg(s: &mut Site<'_>) -> Option<Id> {
    let x = s.producer(s.tensor(0)?, &[Op::neg])?.tensor(0)?;
    // -1 of a u8 is 255, and so is what is absolute of it
    (s.dtype(x) != DType::U8).then(|| s.unary(Op::abs, x))
}

fn where_same(s: &mut Site<'_>) -> Option<Id> {
    let (a, b) = (s.tensor(1)?, s.tensor(2)?);
    if s.same(a, b) { s.exactly(a) } else { None }
}

fn where_known(s: &mut Site<'_>) -> Option<Id> {
    let condition = s.splat(s.tensor(0)?)?.as_bool();
    s.exactly(s.tensor(if condition { 1 } else { 2 })?)
}

fn both_same(s: &mut Site<'_>) -> Option<Id> {
    let (a, b) = (s.tensor(0)?, s.tensor(1)?);
    if s.same(a, b) { s.exactly(a) } else { None }
}

fn dropout_off(s: &mut Site<'_>) -> Option<Id> {
    if s.bool("train", true) {
        return None;
    }
    s.exactly(s.tensor(0)?)
}

/// Whether every value of a dtype is a value of another.
pub(super) fn widens(from: DType, to: DType) -> bool {
    use DType::*;
    from == to
        || match from {
            Bool => true,
            U8 => matches!(to, I16 | I32 | I64 | F16 | BF16 | F32 | F64),
            I8 => matches!(to, I16 | I32 | I64 | F16 | BF16 | F32 | F64),
            I16 => matches!(to, I32 | I64 | F32 | F64),
            I32 => matches!(to, I64 | F64),
            F16 | BF16 => matches!(to, F32 | F64),
            F32 => matches!(to, F64),
            C64 => matches!(to, C128),
            I64 | F64 | C128 | QInt8 | QUInt8 | QInt32 => false,
        }
}
