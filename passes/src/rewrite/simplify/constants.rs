//! Arithmetic on known values.

use crate::ir::graph::Arg;
use crate::ir::layout::numel;
use crate::ir::{DType, Scalar};
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Simplify:
    "fold_arithmetic", "a sum, difference, product or quotient of known numbers is a known number",
        ["aten::add.Tensor", "aten::add.Scalar", "aten::sub.Tensor", "aten::sub.Scalar",
         "aten::mul.Tensor", "aten::mul.Scalar", "aten::div.Tensor", "aten::div.Scalar"]
        => One(fold_arithmetic);
    "fold_sign", "the negative or the absolute value of a known number is one",
        ["aten::neg", "aten::abs"] => One(fold_sign);
    "fold_convert", "a known number in another dtype is a known number",
        ["prims::convert_element_type", "aten::_to_copy"] => One(fold_convert);
    "fold_view", "a view of equal elements has those elements",
        ["aten::view", "aten::_unsafe_view", "aten::reshape", "aten::expand", "aten::t",
         "aten::transpose.int", "aten::permute", "aten::unsqueeze", "aten::squeeze",
         "aten::squeeze.dim", "aten::squeeze.dims", "aten::slice.Tensor", "aten::select.int",
         "aten::clone", "aten::alias", "aten::detach"] => One(fold_view);
    "fold_factory", "a factory of equal elements makes a constant",
        ["aten::full", "aten::zero", "aten::zeros", "aten::ones", "aten::full_like", "aten::zeros_like",
         "aten::ones_like", "aten::scalar_tensor", "aten::fill.Scalar"] => One(fold_factory);
    "scalar_operand", "an operator with a constant tensor is the operator with its number",
        ["aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor",
         "aten::eq.Tensor", "aten::ne.Tensor", "aten::lt.Tensor", "aten::le.Tensor",
         "aten::gt.Tensor", "aten::ge.Tensor"] => One(scalar_operand);
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
    let name = s.op().strip_prefix("aten::")?;
    let (name, _) = name.split_once('.')?;
    let value = if dtype.is_floating() {
        // three roundings, should alpha be another number
        if alpha.as_f64() != 1.0 {
            return None;
        }
        // products and quotients alone take a number as the type of arithmetic has it
        let of_number = match name {
            "add" | "sub" => dtype,
            _ => dtype.opmath(),
        };
        let (a, b) = (a.cast(dtype).as_f64(), b.cast(of_number).as_f64());
        Scalar::Float(match name {
            "add" => a + b,
            "sub" => a - b,
            "mul" => a * b,
            _ => a / b,
        })
    } else if dtype.is_integral() {
        let b = b.as_i64().wrapping_mul(alpha.as_i64());
        Scalar::Int(match name {
            "add" => a.as_i64().wrapping_add(b),
            "sub" => a.as_i64().wrapping_sub(b),
            "mul" => a.as_i64().wrapping_mul(b),
            _ => return None,
        })
    } else {
        return None;
    };
    constant(s, value)
}

fn fold_sign(s: &mut Site<'_>) -> Option<Id> {
    let value = s.splat(s.tensor(0)?)?;
    let negate = s.op() == "aten::neg";
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
        "aten::zero" | "aten::zeros" | "aten::zeros_like" => Scalar::Int(0),
        "aten::ones" | "aten::ones_like" => Scalar::Int(1),
        "aten::full" | "aten::full_like" => s.scalar("fill_value")?,
        "aten::scalar_tensor" => s.scalar("s")?,
        _ => s.scalar("value")?,
    };
    constant(s, value)
}

fn scalar_operand(s: &mut Site<'_>) -> Option<Id> {
    let (a, b) = (s.tensor(0)?, s.tensor(1)?);
    let base = s.op().strip_suffix(".Tensor")?.to_string();
    let name = &base["aten::".len()..];
    let alpha = s.scalar("alpha");
    let commutes = name == "mul" || (name == "add" && s.float("alpha", 1.0) == 1.0);
    let (x, value) = match (s.splat(a), s.splat(b)) {
        (None, Some(v)) => (a, v),
        (Some(v), None) if commutes => (b, v),
        _ => return None,
    };
    let comparison = !matches!(name, "add" | "sub" | "mul" | "div");
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
    let op = format!("{base}.Scalar");
    let out = s.out().clone();
    let mut args = vec![Arg::Tensor(x), Arg::Scalar(value)];
    let mut names = vec!["self", "other"];
    if matches!(name, "add" | "sub") {
        args.push(Arg::Scalar(alpha.unwrap_or(1.into())));
        names.push("alpha");
    }
    Some(s.call_op(&op, &names, &args, &[out]))
}
