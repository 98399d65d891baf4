//! Algebra that is true of real numbers and not of floats: last digits, NaN, infinities and the
//! sign of zero can change. Off unless asked for.

use super::rule::rules;
use super::site::Site;
use crate::ir::Op;
use crate::ir::Scalar;
use crate::ir::args;
use egg::Id;

rules! { FastMath:
    "add_zero", "x + 0 = x", [Op::add_Tensor, Op::add_Scalar] => One(add_zero);
    "mul_zero", "x * 0 = 0", [Op::mul_Tensor, Op::mul_Scalar] => One(mul_zero);
    "sub_self", "x - x = 0", [Op::sub_Tensor] => One(sub_self);
    "exp_log", "exp(log x) = x", [Op::exp] => One(exp_log);
    "log_exp", "log(exp x) = x", [Op::log] => One(log_exp);
    "mul_chain", "(x * a) * b = x * (a b)", [Op::mul_Scalar] => One(mul_chain);
    "add_chain", "(x + a) + b = x + (a + b)", [Op::add_Scalar] => One(add_chain);
    "div_constant", "x / c = x * (1 / c)", [Op::div_Scalar] => One(div_constant);
    "factor", "a x + b x = (a + b) x", [Op::add_Tensor] => One(factor);
    "pow_half", "x^0.5 = sqrt x, x^-0.5 = 1 / sqrt x, x^-1 = 1 / x, x^3 = x x x",
        [Op::pow_Tensor_Scalar] => One(pow_half);
    "rsqrt", "1 / sqrt x = rsqrt x", [Op::reciprocal] => One(rsqrt);
    "div_sqrt", "x / sqrt y = x * rsqrt y", [Op::div_Tensor] => One(div_sqrt);
}

fn floating(s: &Site<'_>) -> Option<()> {
    s.out().dtype.is_floating().then_some(())
}

fn add_zero(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    if s.number_operand()?.as_f64() != 0.0 {
        return None;
    }
    s.exactly(x)
}

fn mul_zero(s: &mut Site<'_>) -> Option<Id> {
    if s.number_operand()?.as_f64() != 0.0 {
        return None;
    }
    let meta = s.out().clone();
    Some(s.constant_of(Scalar::Int(0), meta))
}

fn sub_self(s: &mut Site<'_>) -> Option<Id> {
    let (a, b) = (s.tensor(0)?, s.tensor(1)?);
    if !s.same(a, b) || s.float("alpha", 1.0) != 1.0 {
        return None;
    }
    let meta = s.out().clone();
    Some(s.constant_of(Scalar::Int(0), meta))
}

fn inverse(s: &Site<'_>, of: Op) -> Option<Id> {
    let x = s.producer(s.tensor(0)?, &[of])?.tensor(0)?;
    s.exactly(x)
}

fn exp_log(s: &mut Site<'_>) -> Option<Id> {
    inverse(s, Op::log)
}

fn log_exp(s: &mut Site<'_>) -> Option<Id> {
    inverse(s, Op::exp)
}

/// The tensor and the number of a call that the operand is, for an operator with a number; all of
/// the result's dtype.
fn inner_scalar(s: &Site<'_>, op: Op) -> Option<(Id, f64)> {
    floating(s)?;
    let inner = s.producer(s.tensor(0)?, &[op])?;
    let x = inner.tensor(0)?;
    let alpha = inner.arg("alpha").and_then(|a| a.as_scalar());
    if alpha.is_some_and(|a| a.as_f64() != 1.0) || s.dtype(x) != s.out().dtype {
        return None;
    }
    Some((x, inner.arg("other")?.as_scalar()?.as_f64()))
}

fn mul_chain(s: &mut Site<'_>) -> Option<Id> {
    let (x, a) = inner_scalar(s, Op::mul_Scalar)?;
    let b = s.args::<args::mul_Scalar<Id>>()?.other.as_f64();
    (a * b != 1.0).then(|| s.mul_scalar(x, a * b))
}

fn add_chain(s: &mut Site<'_>) -> Option<Id> {
    let (x, a) = inner_scalar(s, Op::add_Scalar)?;
    let call: args::add_Scalar<Id> = s.args()?;
    let b = call.other.as_f64() * call.alpha.as_f64();
    Some(s.add_scalar(x, a + b))
}

fn div_constant(s: &mut Site<'_>) -> Option<Id> {
    floating(s)?;
    let args::div_Scalar { self_: x, other } = s.args()?;
    let c = other.as_f64();
    if s.dtype(x) != s.out().dtype || c == 1.0 || c == 0.0 {
        return None;
    }
    Some(s.mul_scalar(x, 1.0 / c))
}

fn factor(s: &mut Site<'_>) -> Option<Id> {
    floating(s)?;
    if s.float("alpha", 1.0) != 1.0 {
        return None;
    }
    let a = s.producer(s.tensor(0)?, &[Op::mul_Tensor])?;
    let b = s.producer(s.tensor(1)?, &[Op::mul_Tensor])?;
    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (x, y) = (a.tensor(i)?, b.tensor(j)?);
        let (p, q) = (a.tensor(1 - i)?, b.tensor(1 - j)?);
        let sizes = &s.out().sizes;
        let whole = [x, p, q].iter().all(|v| s.meta(*v).sizes == *sizes);
        if s.same(x, y) && whole && s.dtype(x) == s.out().dtype {
            let sum = s.add(p, q);
            return Some(s.mul(sum, x));
        }
    }
    None
}

fn pow_half(s: &mut Site<'_>) -> Option<Id> {
    floating(s)?;
    let args::pow_Tensor_Scalar { self_: x, exponent } = s.args()?;
    if s.dtype(x) != s.out().dtype {
        return None;
    }
    let exponent = exponent.as_f64();
    if exponent == 3.0 {
        let square = s.mul(x, x);
        return Some(s.mul(square, x));
    }
    let op = match exponent {
        0.5 => Op::sqrt,
        -0.5 => Op::rsqrt,
        -1.0 => Op::reciprocal,
        _ => return None,
    };
    Some(s.unary(op, x))
}

fn rsqrt(s: &mut Site<'_>) -> Option<Id> {
    floating(s)?;
    let x = s.producer(s.tensor(0)?, &[Op::sqrt])?.tensor(0)?;
    Some(s.unary(Op::rsqrt, x))
}

fn div_sqrt(s: &mut Site<'_>) -> Option<Id> {
    floating(s)?;
    let x = s.tensor(0)?;
    let y = s.producer(s.tensor(1)?, &[Op::sqrt])?.tensor(0)?;
    if s.dtype(x) != s.out().dtype || s.dtype(y) != s.out().dtype {
        return None;
    }
    let r = s.unary(Op::rsqrt, y);
    Some(s.mul(x, r))
}
