//! Pointwise arithmetic of several steps that checks more than its row of the table of formulas
//! says: `addcmul`, `lerp`, clamps in place; and operators that are others by another name.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::promote;
use crate::ops::copy;
use crate::ops::pointwise;
use crate::ops::pointwise::formula::{self, Call, floats};
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Op, Scalar};
use straightline_passes::formula::Attribute;

/// Of `lerp`, whose operands do not promote.
fn lerp_dtype(x: &Tensor, end: &Tensor, weight: Option<&Tensor>) -> Result<DType> {
    for (name, t) in [("end", Some(end)), ("weight", weight)] {
        if let Some(t) = t
            && t.dtype() != x.dtype()
            && (name == "end" || t.dim() > 0)
        {
            return Err(Error::dtype(format!(
                "expected dtype {} for `{name}` but got dtype {}",
                x.dtype().torch_name(),
                t.dtype().torch_name()
            )));
        }
    }
    match x.dtype() {
        dtype if dtype.is_complex() => Ok(dtype),
        _ => floats("lerp", &[x]),
    }
}

/// `lerp` of complex numbers, from the end that is nearer.
fn lerp_complex(x: &Tensor, end: &Tensor, weight: Scalar) -> Result<Tensor> {
    let (one, (re, im)) = (Scalar::Int(1), weight.as_complex());
    let _given = access::read(&[x, end])?;
    let way = pointwise::sub(end, x, one)?;
    if re.hypot(im) < 0.5 {
        return pointwise::add(x, &way, weight);
    }
    pointwise::sub(end, &way, Scalar::Complex(1.0 - re, -im))
}

/// [`lerp_complex`] with a weight for each element.
fn lerp_complex_each(x: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let one = Scalar::Int(1);
    let _given = access::read(&[x, end, weight])?;
    let way = pointwise::sub(end, x, one)?;
    let from_start = pointwise::add(x, &pointwise::mul(&way, weight)?, one)?;
    let rest = pointwise::rsub_scalar(weight, one, one)?;
    let from_end = pointwise::sub(end, &pointwise::mul(&way, &rest)?, one)?;
    let near = pointwise::lt_scalar(&pointwise::abs(weight)?, Scalar::Float(0.5))?;
    pointwise::where_self(&near, &from_start, &from_end)
}

pub(crate) fn lerp_scalar(x: &Tensor, end: &Tensor, weight: Scalar) -> Result<Tensor> {
    if lerp_dtype(x, end, None)?.is_complex() {
        return lerp_complex(x, end, weight);
    }
    formula::run(Op::lerp_Scalar, &[(0, x), (1, end)], &[("weight", weight.into())])
}

pub(crate) fn lerp_scalar_(x: &Tensor, end: &Tensor, weight: Scalar) -> Result<Tensor> {
    if lerp_dtype(x, end, None)?.is_complex() {
        let _whole = access::in_place(x, &[end])?;
        return copy::copy_(x, &lerp_complex(x, end, weight)?, false);
    }
    formula::run_(Op::lerp_Scalar, &[(0, x), (1, end)], &[("weight", weight.into())])
}

pub(crate) fn lerp_tensor(x: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let dtype = lerp_dtype(x, end, Some(weight))?;
    if dtype.is_complex() {
        return lerp_complex_each(x, end, weight);
    }
    let operands = [(0, x), (1, end), (2, weight)];
    Call::with_dtype(Op::lerp_Tensor, &operands, &[], dtype).run()
}

pub(crate) fn lerp_tensor_(x: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let dtype = lerp_dtype(x, end, Some(weight))?;
    if dtype.is_complex() {
        let _whole = access::in_place(x, &[end, weight])?;
        return copy::copy_(x, &lerp_complex_each(x, end, weight)?, false);
    }
    let operands = [(0, x), (1, end), (2, weight)];
    Call::with_dtype(Op::lerp_Tensor, &operands, &[], dtype).run_inplace()
}

/// In-place operators whose functional form has a name that functionalisation does not find.
macro_rules! taken_apart {
    ($($name:ident $type:ty, $functional:path;)*) => {$(
        pub(crate) fn $name(a: &Tensor, b: $type) -> Result<Tensor> {
            crate::ops::pointwise::special::write_back(a, &$functional(a, b)?)
        }
    )*};
}

taken_apart! {
    ilshift_parts &Tensor, aten::__lshift__tensor;
    irshift_parts &Tensor, aten::__rshift__tensor;
    ilshift_scalar_parts Scalar, aten::__lshift__scalar;
    irshift_scalar_parts Scalar, aten::__rshift__scalar;
}

/// Python's `&`, `|`, `^`: the bitwise operators by another name.
macro_rules! python {
    ($($name:ident $type:ty, $of:path;)*) => {$(
        pub(crate) fn $name(a: &Tensor, b: $type) -> Result<Tensor> {
            $of(a, b)
        }
    )*};
}

python! {
    and_tensor &Tensor, aten::bitwise_and_tensor;
    or_tensor &Tensor, aten::bitwise_or_tensor;
    xor_tensor &Tensor, aten::bitwise_xor_tensor;
    and_scalar Scalar, aten::bitwise_and_scalar;
    or_scalar Scalar, aten::bitwise_or_scalar;
    xor_scalar Scalar, aten::bitwise_xor_scalar;
    iand_tensor &Tensor, aten::bitwise_and_tensor_;
    ior_tensor &Tensor, aten::bitwise_or_tensor_;
    ixor_tensor &Tensor, aten::bitwise_xor_tensor_;
    iand_scalar Scalar, aten::bitwise_and_scalar_;
    ior_scalar Scalar, aten::bitwise_or_scalar_;
    ixor_scalar Scalar, aten::bitwise_xor_scalar_;
}

/// Logic in place: the truth of each operand, in the dtype of the first.
macro_rules! logic {
    ($($name:ident $of:ident;)*) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            pointwise::check_inplace_shape(a, b)?;
            let _whole = access::in_place(a, &[b])?;
            copy::copy_(a, &pointwise::$of(a, b)?, false)
        }
    )*};
}

logic! {
    logical_and_ logical_and;
    logical_or_ logical_or;
    logical_xor_ logical_xor;
}

pub(crate) fn logical_not_(a: &Tensor) -> Result<Tensor> {
    let _whole = access::in_place(a, &[])?;
    copy::copy_(a, &pointwise::logical_not(a)?, false)
}

pub(crate) fn clamp_min_tensor(x: &Tensor, min: &Tensor) -> Result<Tensor> {
    pointwise::maximum(x, min)
}

pub(crate) fn clamp_max_tensor(x: &Tensor, max: &Tensor) -> Result<Tensor> {
    pointwise::minimum(x, max)
}

pub(crate) fn clamp_min_(x: &Tensor, min: Scalar) -> Result<Tensor> {
    pointwise::clamp_(x, Some(min), None)
}

pub(crate) fn clamp_max_(x: &Tensor, max: Scalar) -> Result<Tensor> {
    pointwise::clamp_(x, None, Some(max))
}

pub(crate) fn clamp_min_tensor_(x: &Tensor, min: &Tensor) -> Result<Tensor> {
    formula::run_(Op::clamp_min_Tensor, &[(0, x), (1, min)], &[])
}

pub(crate) fn clamp_max_tensor_(x: &Tensor, max: &Tensor) -> Result<Tensor> {
    formula::run_(Op::clamp_max_Tensor, &[(0, x), (1, max)], &[])
}

pub(crate) fn clamp_tensor_(
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let mut operands = vec![(0, x)];
    operands.extend(min.map(|t| (1, t)));
    operands.extend(max.map(|t| (2, t)));
    ensure!(operands.len() != 1, "torch.clamp: At least one of 'min' or 'max' must not be None");
    let tensors: Vec<&Tensor> = operands.iter().map(|(_, t)| *t).collect();
    // with one bound PyTorch takes the greater or the lesser of two truth values
    if let [_, bound] = tensors[..]
        && promote(&tensors)? == DType::Bool
    {
        return crate::ops::pointwise::special::in_place(x, &[bound], || {
            pointwise::clamp_tensor(x, min, max)
        });
    }
    formula::run_(Op::clamp_Tensor, &operands, &[])
}

/// Finite numbers for NaN and the infinities; of complex numbers, part by part. Integers are
/// copied.
pub(crate) fn nan_to_num(
    x: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    if x.dtype().is_complex() {
        let parts = crate::ops::pointwise::complex::view_as_real(x)?;
        let mended = nan_to_num(&parts, nan, posinf, neginf)?;
        return Ok(crate::ops::pointwise::complex::view_as_complex(&mended)?.into_no_view());
    }
    if !x.dtype().is_floating() {
        return copy::clone(x, None);
    }
    let given = [("nan", nan), ("posinf", posinf), ("neginf", neginf)];
    let attributes: Vec<(&str, Attribute)> =
        given.into_iter().filter_map(|(name, v)| Some((name, Attribute::from(v?)))).collect();
    formula::run(Op::nan_to_num, &[(0, x)], &attributes)
}

pub(crate) fn nan_to_num_(
    x: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    // whole numbers stay as they are, wherever they lie
    if !x.dtype().is_floating() && !x.dtype().is_complex() {
        return Ok(x.clone());
    }
    crate::ops::pointwise::special::in_place(x, &[], || nan_to_num(x, nan, posinf, neginf))
}

pub(crate) fn is_nonzero(x: &Tensor) -> Result<bool> {
    match x.numel() {
        0 => Err(Error::runtime("Boolean value of Tensor with no values is ambiguous")),
        1 => Ok(aten::item(x)?.as_bool()),
        _ => Err(Error::runtime("Boolean value of Tensor with more than one value is ambiguous")),
    }
}

/// The tensor itself, which is a number.
pub(crate) fn positive(x: &Tensor) -> Result<Tensor> {
    ensure_dtype!(x.dtype() != DType::Bool, "The `+` operator, on a bool tensor is not supported.");
    Ok(x.clone())
}

/// The part of a normal distribution below: `(1 + erf(x / sqrt(2))) / 2`.
pub(crate) fn ndtr(x: &Tensor) -> Result<Tensor> {
    let scaled = aten::div_scalar(x, Scalar::Float(std::f64::consts::SQRT_2))?;
    let twice = aten::add_scalar(&aten::erf(&scaled)?, Scalar::Int(1), Scalar::Int(1))?;
    aten::mul_scalar(&twice, Scalar::Float(0.5))
}
