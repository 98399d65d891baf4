//! Pointwise arithmetic of several steps: `addcmul`, `lerp`, `xlogy`, `floor_divide`, shifts, clamps in place, tests.

use super::common::{check_can_cast, check_fits, float_of, promote, promote_scalar};
use super::formula::{Call, floats, numbers};
use super::{copy, pointwise};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Scalar};
use straightline_passes::formula::{Attribute, arithmetic as f, clamp};

/// Operators of three tensors and a factor, with their in-place forms.
macro_rules! ternary {
    ($($dtypes:ident: $name:ident $inplace:ident $formula:path;)*) => {$(
        pub(crate) fn $name(x: &Tensor, a: &Tensor, b: &Tensor, value: Scalar) -> Result<Tensor> {
            let dtype = $dtypes(stringify!($name), &[x, a, b])?;
            let attributes = [("value", Attribute::from(value))];
            Call { name: stringify!($name), operands: &[(0, x), (1, a), (2, b)], attributes: &attributes, dtype }
                .run($formula)
        }
        pub(crate) fn $inplace(x: &Tensor, a: &Tensor, b: &Tensor, value: Scalar) -> Result<Tensor> {
            let dtype = $dtypes(stringify!($inplace), &[x, a, b])?;
            if dtype.is_complex() {
                check_can_cast(dtype, x.dtype())?;
                let _whole = access::in_place(x, &[a, b])?;
                return copy::copy_(x, &pointwise::$name(x, a, b, value)?, false);
            }
            check_fits(value, dtype.opmath())?;
            let attributes = [("value", Attribute::from(value))];
            Call { name: stringify!($inplace), operands: &[(0, x), (1, a), (2, b)], attributes: &attributes, dtype }
                .run_inplace($formula)
        }
    )*};
}

ternary! {
    numbers_or_complex: addcmul addcmul_ f::addcmul;
    quotient: addcdiv addcdiv_ f::addcdiv;
}

fn numbers_or_complex(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    match promote(tensors)? {
        dtype if dtype.is_complex() => Ok(dtype),
        _ => numbers(name, tensors),
    }
}

fn quotient(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    let dtype = promote(tensors)?;
    if !dtype.is_floating() && !dtype.is_complex() {
        return Err(Error::dtype(format!(
            "Integer division with {name} is no longer supported, and in a future release {name} will \
             perform a true division of tensor1 and tensor2"
        )));
    }
    Ok(dtype)
}

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

fn lerp_call<'a>(
    operands: &'a [(usize, &'a Tensor)],
    attributes: &'a [(&'static str, Attribute)],
    dtype: DType,
) -> Call<'a> {
    Call {
        name: "lerp",
        operands,
        attributes,
        dtype,
    }
}

pub(crate) fn lerp_scalar(x: &Tensor, end: &Tensor, weight: Scalar) -> Result<Tensor> {
    let dtype = lerp_dtype(x, end, None)?;
    if dtype.is_complex() {
        return lerp_complex(x, end, weight);
    }
    check_fits(weight, dtype.opmath())?;
    lerp_call(&[(0, x), (1, end)], &[("weight", weight.into())], dtype).run(f::lerp_scalar)
}

pub(crate) fn lerp_scalar_(x: &Tensor, end: &Tensor, weight: Scalar) -> Result<Tensor> {
    let dtype = lerp_dtype(x, end, None)?;
    if dtype.is_complex() {
        let _whole = access::in_place(x, &[end])?;
        return copy::copy_(x, &lerp_complex(x, end, weight)?, false);
    }
    check_fits(weight, dtype.opmath())?;
    lerp_call(&[(0, x), (1, end)], &[("weight", weight.into())], dtype).run_inplace(f::lerp_scalar)
}

pub(crate) fn lerp_tensor(x: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let dtype = lerp_dtype(x, end, Some(weight))?;
    if dtype.is_complex() {
        return lerp_complex_each(x, end, weight);
    }
    lerp_call(&[(0, x), (1, end), (2, weight)], &[], dtype).run(f::lerp_tensor)
}

pub(crate) fn lerp_tensor_(x: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let dtype = lerp_dtype(x, end, Some(weight))?;
    if dtype.is_complex() {
        let _whole = access::in_place(x, &[end, weight])?;
        return copy::copy_(x, &lerp_complex_each(x, end, weight)?, false);
    }
    lerp_call(&[(0, x), (1, end), (2, weight)], &[], dtype).run_inplace(f::lerp_tensor)
}

type Formula =
    fn(&mut straightline_passes::formula::Recorder) -> Option<straightline_passes::formula::Val>;
type DTypeOf = fn(DType) -> Result<DType>;

/// An operator of two tensors, or of one and a number.
struct Two {
    name: &'static str,
    formula: Formula,
    dtype: DTypeOf,
}

impl Two {
    fn tensors(&self, a: &Tensor, b: &Tensor, inplace: bool) -> Result<Tensor> {
        let call = Call {
            name: self.name,
            operands: &[(0, a), (1, b)],
            attributes: &[],
            dtype: (self.dtype)(promote(&[a, b])?)?,
        };
        if inplace {
            call.run_inplace(self.formula)
        } else {
            call.run(self.formula)
        }
    }

    fn scalar(&self, a: &Tensor, b: Scalar, inplace: bool) -> Result<Tensor> {
        let call = Call {
            name: self.name,
            operands: &[(0, a)],
            attributes: &[("other", b.into())],
            dtype: (self.dtype)(promote_scalar(a, b))?,
        };
        if inplace {
            call.run_inplace(self.formula)
        } else {
            call.run_with_number(a, self.formula)
        }
    }

    fn number_first(&self, a: Scalar, b: &Tensor) -> Result<Tensor> {
        let call = Call {
            name: self.name,
            operands: &[(1, b)],
            attributes: &[("self", a.into())],
            dtype: (self.dtype)(promote_scalar(b, a))?,
        };
        call.run_with_number(b, self.formula)
    }
}

fn any(dtype: DType) -> Result<DType> {
    Ok(dtype)
}

fn to_float(dtype: DType) -> Result<DType> {
    Ok(float_of(dtype))
}

fn no_bool(dtype: DType) -> Result<DType> {
    if dtype == DType::Bool {
        return Err(super::formula::not_for("floor_divide", dtype));
    }
    Ok(dtype)
}

const XLOGY: Two = Two {
    name: "xlogy",
    formula: f::xlogy,
    dtype: to_float,
};
const XLOG1PY: Two = Two {
    name: "xlog1py",
    formula: f::xlog1py,
    dtype: to_float,
};
const FLOOR_DIVIDE: Two = Two {
    name: "floor_divide",
    formula: f::floor_divide,
    dtype: no_bool,
};
const LEFT: Two = Two {
    name: "bitwise_left_shift",
    formula: f::shift_left,
    dtype: any,
};
const RIGHT: Two = Two {
    name: "bitwise_right_shift",
    formula: f::shift_right,
    dtype: any,
};

macro_rules! two {
    ($($table:ident: $name:ident $inplace:ident $scalar:ident $scalar_inplace:ident $first:ident;)*) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            $table.tensors(a, b, false)
        }
        #[allow(dead_code, reason = "not every operator has the form")]
        pub(crate) fn $inplace(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            $table.tensors(a, b, true)
        }
        pub(crate) fn $scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
            $table.scalar(a, b, false)
        }
        #[allow(dead_code, reason = "not every operator has the form")]
        pub(crate) fn $scalar_inplace(a: &Tensor, b: Scalar) -> Result<Tensor> {
            $table.scalar(a, b, true)
        }
        #[allow(dead_code, reason = "not every operator has the form")]
        pub(crate) fn $first(a: Scalar, b: &Tensor) -> Result<Tensor> {
            $table.number_first(a, b)
        }
    )*};
}

two! {
    XLOG1PY: xlog1py xlog1py_ xlog1py_scalar xlog1py_scalar_ xlog1py_number;
    XLOGY: xlogy xlogy_ xlogy_scalar xlogy_scalar_ xlogy_number;
    FLOOR_DIVIDE: floor_divide floor_divide_ floor_divide_scalar floor_divide_scalar_ floor_divide_number;
    LEFT: shift_left shift_left_ shift_left_scalar shift_left_scalar_ shift_left_number;
    RIGHT: shift_right shift_right_ shift_right_scalar shift_right_scalar_ shift_right_number;
}

/// In-place operators whose functional form has a name that functionalisation does not find.
macro_rules! taken_apart {
    ($($name:ident $type:ty, $functional:path;)*) => {$(
        pub(crate) fn $name(a: &Tensor, b: $type) -> Result<Tensor> {
            super::special::write_back(a, &$functional(a, b)?)
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

const CLAMP_MIN: Two = Two {
    name: "clamp_min_",
    formula: clamp::clamp_min,
    dtype: any,
};
const CLAMP_MAX: Two = Two {
    name: "clamp_max_",
    formula: clamp::clamp_max,
    dtype: any,
};

pub(crate) fn clamp_min_tensor_(x: &Tensor, min: &Tensor) -> Result<Tensor> {
    CLAMP_MIN.tensors(x, min, true)
}

pub(crate) fn clamp_max_tensor_(x: &Tensor, max: &Tensor) -> Result<Tensor> {
    CLAMP_MAX.tensors(x, max, true)
}

pub(crate) fn clamp_tensor_(
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let mut operands = vec![(0, x)];
    operands.extend(min.map(|t| (1, t)));
    operands.extend(max.map(|t| (2, t)));
    if operands.len() == 1 {
        return Err(Error::runtime(
            "torch.clamp: At least one of 'min' or 'max' must not be None",
        ));
    }
    let tensors: Vec<&Tensor> = operands.iter().map(|(_, t)| *t).collect();
    // with one bound PyTorch takes the greater or the lesser of two truth values
    if let [_, bound] = tensors[..]
        && promote(&tensors)? == DType::Bool
    {
        return super::special::in_place(x, &[bound], || pointwise::clamp_tensor(x, min, max));
    }
    let call = Call {
        name: "clamp_",
        operands: &operands,
        attributes: &[],
        dtype: numbers("clamp_", &tensors)?,
    };
    call.run_inplace(clamp::clamp)
}

fn test(name: &'static str, x: &Tensor, formula: Formula) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(Error::type_error(format!(
            "{name} does not support complex inputs."
        )));
    }
    let call = Call {
        name,
        operands: &[(0, x)],
        attributes: &[],
        dtype: DType::Bool,
    };
    call.run(formula)
}

pub(crate) fn isposinf(x: &Tensor) -> Result<Tensor> {
    test("isposinf", x, f::isposinf)
}

pub(crate) fn isneginf(x: &Tensor) -> Result<Tensor> {
    test("isneginf", x, f::isneginf)
}

/// What follows the point.
pub(crate) fn frac(x: &Tensor) -> Result<Tensor> {
    let call = Call {
        name: "frac",
        operands: &[(0, x)],
        attributes: &[],
        dtype: floats("frac", &[x])?,
    };
    call.run(f::frac)
}

pub(crate) fn frac_(x: &Tensor) -> Result<Tensor> {
    let call = Call {
        name: "frac_",
        operands: &[(0, x)],
        attributes: &[],
        dtype: floats("frac", &[x])?,
    };
    call.run_inplace(f::frac)
}

/// Finite numbers for NaN and the infinities; of complex numbers, part by part. Integers are copied.
pub(crate) fn nan_to_num(
    x: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    if x.dtype().is_complex() {
        let parts = super::complex::view_as_real(x)?;
        return super::complex::view_as_complex(&nan_to_num(&parts, nan, posinf, neginf)?);
    }
    if !x.dtype().is_floating() {
        return copy::clone(x, None);
    }
    let given = [("nan", nan), ("posinf", posinf), ("neginf", neginf)];
    let attributes: Vec<(&str, Attribute)> = given
        .into_iter()
        .filter_map(|(name, v)| Some((name, Attribute::from(v?))))
        .collect();
    let call = Call {
        name: "nan_to_num",
        operands: &[(0, x)],
        attributes: &attributes,
        dtype: x.dtype(),
    };
    call.run(f::nan_to_num)
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
    super::special::in_place(x, &[], || nan_to_num(x, nan, posinf, neginf))
}

pub(crate) fn is_nonzero(x: &Tensor) -> Result<bool> {
    match x.numel() {
        0 => Err(Error::runtime(
            "Boolean value of Tensor with no values is ambiguous",
        )),
        1 => Ok(aten::item(x)?.as_bool()),
        _ => Err(Error::runtime(
            "Boolean value of Tensor with more than one value is ambiguous",
        )),
    }
}
