//! Powers, logic, and what is composed of arithmetic.

use super::binary::{binary, binary_inplace, scalar_inplace, scaled, unary_scalar};
use super::result;
use super::unary::unary;
use crate::error::Result;
use crate::ops::common::{check_can_cast, check_fits, promote, promote_scalar, restrided};
use crate::ops::pointwise::formula::{Call, numbers};
use crate::ops::{aten, copy};
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Dims, Op, Scalar, layout};
use straightline_passes::schedule::loops::{BinaryOp, UnaryOp};

fn check_pow(dtype: DType, negative_exponent: bool) -> Result<DType> {
    ensure_not_implemented!(dtype != DType::Bool, "`pow` is not implemented for bool tensors");
    ensure!(
        dtype.is_floating() || dtype.is_complex() || !negative_exponent,
        "Integers to negative integer powers are not allowed."
    );
    Ok(dtype)
}

pub(crate) fn pow_tensor(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let dtype = check_pow(promote(&[a, b])?, false)?;
    binary(BinaryOp::Pow, a, b, dtype)
}

pub(crate) fn pow_tensor_(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let dtype = check_pow(promote(&[a, b])?, false)?;
    binary_inplace(BinaryOp::Pow, a, b, dtype)
}

/// The exponents that PyTorch computes without `pow`.
fn special_power(a: &Tensor, exponent: Scalar, dtype: DType) -> Option<Result<Tensor>> {
    if exponent.as_complex().1 != 0.0 {
        return None;
    }
    if !dtype.is_floating() && !dtype.is_complex() {
        return (exponent.as_f64() == 2.0).then(|| binary(BinaryOp::Mul, a, a, dtype));
    }
    Some(match exponent.as_f64() {
        0.5 => unary(UnaryOp::Sqrt, a, dtype),
        2.0 => binary(BinaryOp::Mul, a, a, dtype),
        -0.5 => unary(UnaryOp::Rsqrt, a, dtype),
        -1.0 => unary(UnaryOp::Reciprocal, a, dtype),
        _ => return None,
    })
}

/// Exponents 0 and 1, for which even bool tensors have a power.
fn trivial_power(a: &Tensor, exponent: Scalar) -> Option<Result<Tensor>> {
    let e = exponent.as_f64();
    if (e != 0.0 && e != 1.0) || exponent.as_complex().1 != 0.0 {
        return None;
    }
    let dtype = promote_scalar(a, exponent);
    Some(match e {
        0.0 => result(Dims::from_slice(a.sizes()), dtype, &[a])
            .and_then(|out| copy::fill_(&out, Scalar::Int(1))),
        _ => result(Dims::from_slice(a.sizes()), dtype, &[a])
            .and_then(|out| copy::copy_(&out, a, false)),
    })
}

/// The dtype of a power with this exponent, which must fit it; only of wide floats the exponent is
/// a wide number.
fn power_dtype(a: &Tensor, exponent: Scalar) -> Result<DType> {
    let dtype = check_pow(promote_scalar(a, exponent), exponent.as_f64() < 0.0)?;
    if dtype != DType::F32 {
        check_fits(exponent, dtype)?;
    }
    Ok(dtype)
}

pub(crate) fn pow_scalar(a: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if let Some(r) = trivial_power(a, exponent) {
        return r;
    }
    let dtype = power_dtype(a, exponent)?;
    special_power(a, exponent, dtype)
        .unwrap_or_else(|| unary_scalar(BinaryOp::Pow, a, exponent, dtype))
}

pub(crate) fn pow_scalar_(a: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let _whole = access::whole(&[a], &[])?;
    if let Some(r) = trivial_power(a, exponent) {
        let r = r?;
        check_can_cast(r.dtype(), a.dtype())?;
        return copy::copy_(a, &r, false);
    }
    let dtype = power_dtype(a, exponent)?;
    check_can_cast(dtype, a.dtype())?;
    match special_power(a, exponent, dtype) {
        Some(r) => copy::copy_(a, &r?, false),
        None => scalar_inplace(BinaryOp::Pow, a, exponent, dtype),
    }
}

pub(crate) fn pow_base(base: Scalar, exponent: &Tensor) -> Result<Tensor> {
    let dtype = promote_scalar(exponent, base);
    if base.as_complex() == (1.0, 0.0) && dtype != DType::Bool {
        let out = Tensor::allocate_contiguous(dtype, exponent.device(), exponent.sizes())?;
        return copy::fill_(&out, Scalar::Int(1));
    }
    let dtype = check_pow(promote_scalar(exponent, base), false)?;
    let base = Tensor::scalar_of(base, dtype)?.into_wrapped_number();
    let base = crate::ops::create::factory::on_device_of(&base, exponent)?;
    // PyTorch gives this overload a row-major result, whatever the exponent's layout
    let power = copy::to_contiguous(&binary(BinaryOp::Pow, &base, exponent, dtype)?)?;
    let strides = layout::contiguous_strides(power.sizes());
    Ok(restrided(power, strides))
}

macro_rules! logical_functions {
    ($($name:ident $op:ident),* $(,)?) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            binary(BinaryOp::$op, a, b, DType::Bool)
        }
    )*};
}
logical_functions!(logical_and LogicalAnd, logical_or LogicalOr, logical_xor LogicalXor);

/// `addcmul` and `addcdiv`; complex numbers are multiplied and added by the kernels for those.
macro_rules! with_product {
    ($($name:ident $inplace:ident $op:ident $dtype:ident;)*) => {$(
        pub(crate) fn $name(x: &Tensor, a: &Tensor, b: &Tensor, value: Scalar) -> Result<Tensor> {
            let dtype = $dtype(stringify!($name), &[x, a, b])?;
            if !dtype.is_complex() {
                check_fits(value, dtype.opmath())?;
                let (operands, value) = ([(0, x), (1, a), (2, b)], [("value", value.into())]);
                return Call::with_dtype(Op::$name, &operands, &value, dtype).run();
            }
            let _given = access::read(&[x, a, b])?;
            let a = scaled(a, value.cast(dtype), dtype)?;
            let product = binary(BinaryOp::$op, &a, b, dtype)?;
            binary(BinaryOp::Add, x, &product, dtype)
        }
        pub(crate) fn $inplace(x: &Tensor, a: &Tensor, b: &Tensor, value: Scalar) -> Result<Tensor> {
            let dtype = $dtype(stringify!($inplace), &[x, a, b])?;
            if dtype.is_complex() {
                check_can_cast(dtype, x.dtype())?;
                let _whole = access::in_place(x, &[a, b])?;
                return copy::copy_(x, &$name(x, a, b, value)?, false);
            }
            check_fits(value, dtype.opmath())?;
            let (operands, value) = ([(0, x), (1, a), (2, b)], [("value", value.into())]);
            Call::with_dtype(Op::$name, &operands, &value, dtype).run_inplace()
        }
    )*};
}

with_product! {
    addcmul addcmul_ Mul numbers_or_complex;
    addcdiv addcdiv_ Div quotient;
}

fn numbers_or_complex(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    match promote(tensors)? {
        dtype if dtype.is_complex() => Ok(dtype),
        _ => numbers(name, tensors),
    }
}

fn quotient(name: &str, tensors: &[&Tensor]) -> Result<DType> {
    let dtype = promote(tensors)?;
    ensure_dtype!(
        dtype.is_floating() || dtype.is_complex(),
        "Integer division with {name} is no longer supported, and in a future release {name} will \
             perform a true division of tensor1 and tensor2"
    );
    Ok(dtype)
}

// ---- powers in double precision ----------------------------------------------------------------

/// Double precision, complex where either is.
fn float_power_dtype(complex: bool) -> DType {
    if complex { DType::C128 } else { DType::F64 }
}

pub(crate) fn float_power_tensor(a: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let dtype = float_power_dtype(a.dtype().is_complex() || exponent.dtype().is_complex());
    let wide = |t: &Tensor| aten::to_dtype(t, dtype, false, false, None);
    aten::pow_tensor_tensor(&wide(a)?, &wide(exponent)?)
}

pub(crate) fn float_power_tensor_scalar(a: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let dtype = float_power_dtype(a.dtype().is_complex() || exponent.is_complex());
    aten::pow_tensor_scalar(&aten::to_dtype(a, dtype, false, false, None)?, exponent)
}

pub(crate) fn float_power_scalar(a: Scalar, exponent: &Tensor) -> Result<Tensor> {
    let dtype = float_power_dtype(a.is_complex() || exponent.dtype().is_complex());
    aten::pow_scalar(a, &aten::to_dtype(exponent, dtype, false, false, None)?)
}

fn float_power_base(a: &Tensor, complex: bool) -> Result<DType> {
    let dtype = float_power_dtype(a.dtype().is_complex() || complex);
    ensure_dtype!(
        a.dtype() == dtype,
        "the base given to float_power_ has dtype {} but the operation's result requires dtype {}",
        a.dtype().torch_name(),
        dtype.torch_name()
    );
    Ok(dtype)
}

pub(crate) fn float_power_tensor_(a: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let dtype = float_power_base(a, exponent.dtype().is_complex())?;
    aten::pow_tensor_(a, &aten::to_dtype(exponent, dtype, false, false, None)?)
}

pub(crate) fn float_power_scalar_(a: &Tensor, exponent: Scalar) -> Result<Tensor> {
    float_power_base(a, exponent.is_complex())?;
    aten::pow_scalar_(a, exponent)
}
