//! Arithmetic on known values.

use crate::ir::Arg;
use crate::ir::Op;
use crate::ir::args;
use crate::ir::layout::numel;
use crate::ir::prims::{BinaryOp, CompareOp};
use crate::ir::{DType, Scalar};
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Simplify:
    "fold_arithmetic", "a sum, difference, product or quotient of known numbers is a known number",
        [Op::add_Tensor, Op::add_Scalar, Op::sub_Tensor, Op::sub_Scalar,
         Op::mul_Tensor, Op::mul_Scalar, Op::div_Tensor, Op::div_Scalar]
        => One(fold_arithmetic);
    "fold_sign", "the negative or the absolute value of a known number is one",
        [Op::neg, Op::abs] => One(fold_sign);
    "fold_convert", "a known number in another dtype is a known number",
        [Op::prims_convert_element_type, Op::_to_copy] => One(fold_convert);
    "fold_view", "a view of equal elements has those elements",
        [Op::view, Op::_unsafe_view, Op::reshape, Op::expand, Op::t,
         Op::transpose_int, Op::permute, Op::unsqueeze, Op::squeeze,
         Op::squeeze_dim, Op::squeeze_dims, Op::slice_Tensor, Op::select_int,
         Op::clone, Op::alias, Op::detach] => One(fold_view);
    "fold_factory", "a factory of equal elements makes a constant",
        [Op::full, Op::zero, Op::zeros, Op::ones, Op::full_like, Op::zeros_like,
         Op::ones_like, Op::scalar_tensor, Op::fill_Scalar] => One(fold_factory);
    "scalar_operand", "an operator with a constant tensor is the operator with its number",
        [Op::add_Tensor, Op::sub_Tensor, Op::mul_Tensor, Op::div_Tensor,
         Op::eq_Tensor, Op::ne_Tensor, Op::lt_Tensor, Op::le_Tensor,
         Op::gt_Tensor, Op::ge_Tensor] => One(scalar_operand);
}

fn constant(s: &mut Site<'_>, value: Scalar) -> Option<Id> {
    let meta = s.out().clone();
    Some(s.constant_of(value, meta))
}

/// The operation in `f64`, rounded once more to the dtype. For `f32` and narrower types that is
/// what the operation in `f32` gives: `f64` has more than twice their digits.
fn fold_arithmetic(s: &mut Site<'_>) -> Option<Id> {
    let a = s.splat(s.tensor(0)?)?;
    let b = s.number_operand()?;
    let alpha = s.scalar("alpha").unwrap_or(1.into());
    let dtype = s.out().dtype;
    let f = BinaryOp::of(s.op())?;
    let value = if dtype.is_floating() {
        // three roundings, should alpha be another number
        if alpha.as_f64() != 1.0 {
            return None;
        }
        // products and quotients alone take a number as the type of arithmetic has it
        let of_number = match f.keeps_number() {
            true => dtype.opmath(),
            false => dtype,
        };
        let (a, b) = (a.cast(dtype).as_f64(), b.cast(of_number).as_f64());
        Scalar::Float(match f {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            _ => return None,
        })
    } else if dtype.is_integral() {
        let b = b.as_i64().wrapping_mul(alpha.as_i64());
        Scalar::Int(match f {
            BinaryOp::Add => a.as_i64().wrapping_add(b),
            BinaryOp::Sub => a.as_i64().wrapping_sub(b),
            BinaryOp::Mul => a.as_i64().wrapping_mul(b),
            _ => return None,
        })
    } else {
        return None;
    };
    constant(s, value)
}

fn fold_sign(s: &mut Site<'_>) -> Option<Id> {
    let value = s.splat(s.tensor(0)?)?;
    let negate = s.op() == Op::neg;
    let value = match value {
        Scalar::Float(x) => Scalar::Float(if negate { -x } else { x.abs() }),
        Scalar::Int(i) if negate => Scalar::Int(i.wrapping_neg()),
        Scalar::Int(i) => Scalar::Int(i.wrapping_abs()),
        Scalar::Bool(_) | Scalar::Complex(..) => return None,
    };
    constant(s, value)
}

fn fold_convert(s: &mut Site<'_>) -> Option<Id> {
    let value = s.splat(s.tensor(0)?)?;
    constant(s, value)
}

fn fold_view(s: &mut Site<'_>) -> Option<Id> {
    let value = s.splat(s.tensor(0)?)?;
    constant(s, value)
}

fn fold_factory(s: &mut Site<'_>) -> Option<Id> {
    let value = match s.op() {
        Op::zero | Op::zeros | Op::zeros_like => Scalar::Int(0),
        Op::ones | Op::ones_like => Scalar::Int(1),
        Op::full => s.args::<args::full>()?.fill_value,
        Op::full_like => s.args::<args::full_like<Id>>()?.fill_value,
        Op::scalar_tensor => s.args::<args::scalar_tensor>()?.s,
        Op::fill_Scalar => s.args::<args::fill_Scalar<Id>>()?.value,
        _ => return None,
    };
    constant(s, value)
}

fn scalar_operand(s: &mut Site<'_>) -> Option<Id> {
    let (a, b) = (s.tensor(0)?, s.tensor(1)?);
    let arithmetic = BinaryOp::of(s.op());
    // the operator with a number stands beside the one with a tensor
    let forms = match arithmetic {
        Some(f) => f.ops(),
        None => CompareOp::of(s.op())?.ops(),
    };
    let &[_, with_number, ..] = forms else {
        return None;
    };
    let alpha = s.scalar("alpha");
    let commutes = match arithmetic {
        Some(BinaryOp::Mul) => true,
        Some(BinaryOp::Add) => s.float("alpha", 1.0) == 1.0,
        _ => false,
    };
    let (x, value) = match (s.splat(a), s.splat(b)) {
        (None, Some(v)) => (a, v),
        (Some(v), None) if commutes => (b, v),
        _ => return None,
    };
    let comparison = arithmetic.is_none();
    let (m, constant) = (s.meta(x), if x == a { b } else { a });
    let keeps_type = comparison || m.dtype == s.out().dtype;
    // between dtypes the comparison is made in the promoted one
    let same_dtype = m.dtype == s.dtype(constant);
    let promotes_nothing = same_dtype || (!comparison && numel(&s.meta(constant).sizes) == 1);
    let bool_arithmetic = m.dtype == DType::Bool;
    if m.sizes != s.out().sizes || !keeps_type || !promotes_nothing || bool_arithmetic {
        return None;
    }
    let value = value.cast(m.dtype);
    let out = s.out().clone();
    let mut args = vec![Arg::Tensor(x), Arg::Scalar(value)];
    args.extend(alpha.map(Arg::Scalar));
    Some(s.call_op(with_number, &args, &[out]))
}
