//! Functions of one operand.

use super::{cast, result};
use crate::error::{Error, Result};
use crate::ops::common::{
    check_can_cast, float_of, laid_out_like, restrided, result_strides, result_strides_with_number,
};
use crate::ops::copy;
use crate::tensor::{Tensor, access};
use straightline_passes::ir::{DType, Dims};
use straightline_passes::schedule::loops::{CompareOp, UnaryOp};
use straightline_runtime::cpu::kernels;

pub(super) fn unary_into(op: UnaryOp, out: &Tensor, x: &Tensor) -> Result<()> {
    if !out.storage().has_data() {
        return Ok(());
    }
    let _reads = access::read(&[x])?;
    // SAFETY: out is fresh (or exclusively held by the caller), x is held shared; both have the
    // same sizes, and their strides stay within their storages.
    unsafe { kernels::unary(op, out.strided_any()?, x.strided_any()?)? };
    Ok(())
}

pub(super) fn unary(op: UnaryOp, x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype && x.is_contiguous() && x.device().is_cpu() && x.storage().has_data() {
        let out = Tensor::allocate_like_contiguous(x, dtype)?;
        unary_into(op, &out, x)?;
        return Ok(out);
    }
    let out = result(Dims::from_slice(x.sizes()), dtype, &[x])?;
    unary_into(op, &out, &cast(x, dtype)?)?;
    Ok(out)
}

fn unary_bool(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    let out = result(Dims::from_slice(x.sizes()), DType::Bool, &[x])?;
    unary_into(op, &out, x)?;
    Ok(out)
}

fn unary_inplace(op: UnaryOp, x: &Tensor, dtype: DType) -> Result<Tensor> {
    check_can_cast(dtype, x.dtype())?;
    access::check_no_internal_overlap(x)?;
    if dtype != x.dtype() {
        let _whole = access::whole(&[x], &[])?;
        return copy::copy_(x, &unary(op, x, dtype)?, false);
    }
    if x.storage().has_data() {
        let _guard = access::write(x, &[])?;
        // SAFETY: x is held exclusively; element i is read before element i is written.
        unsafe { kernels::unary(op, x.strided_any()?, x.strided_any()?)? };
    }
    Ok(x.clone())
}

/// Functions that compute in floating point: integers become `f32`.
macro_rules! float_functions {
    ($($name:ident $inplace:ident $op:ident),* $(,)?) => {$(
        pub(crate) fn $name(x: &Tensor) -> Result<Tensor> {
            unary(UnaryOp::$op, x, float_of(x.dtype()))
        }
        pub(crate) fn $inplace(x: &Tensor) -> Result<Tensor> {
            unary_inplace(UnaryOp::$op, x, float_of(x.dtype()))
        }
    )*};
}
float_functions!(
    sqrt sqrt_ Sqrt, rsqrt rsqrt_ Rsqrt, reciprocal reciprocal_ Reciprocal, exp exp_ Exp,
    exp2 exp2_ Exp2, expm1 expm1_ Expm1, log log_ Log, log2 log2_ Log2, log10 log10_ Log10,
    log1p log1p_ Log1p, sin sin_ Sin, cos cos_ Cos, tan tan_ Tan, asin asin_ Asin,
    acos acos_ Acos, atan atan_ Atan, sinh sinh_ Sinh, cosh cosh_ Cosh, asinh asinh_ Asinh,
    acosh acosh_ Acosh, atanh atanh_ Atanh, tanh tanh_ Tanh, sigmoid sigmoid_ Sigmoid,
    erf erf_ Erf, erfc erfc_ Erfc,
);

/// Functions that keep the dtype; some refuse `bool`.
macro_rules! same_type_functions {
    ($($name:ident $inplace:ident $op:ident $bool_ok:expr),* $(,)?) => {$(
        pub(crate) fn $name(x: &Tensor) -> Result<Tensor> {
            check_bool($bool_ok, x, stringify!($name))?;
            unary(UnaryOp::$op, x, x.dtype())
        }
        pub(crate) fn $inplace(x: &Tensor) -> Result<Tensor> {
            check_bool($bool_ok, x, stringify!($name))?;
            unary_inplace(UnaryOp::$op, x, x.dtype())
        }
    )*};
}
same_type_functions!(
    neg neg_ Neg false, sign sign_ Sign true, floor floor_ Floor false,
    ceil ceil_ Ceil false, round round_ Round false, trunc trunc_ Trunc false,
    relu relu_ Relu false, bitwise_not bitwise_not_ BitwiseNot true,
);

/// Of complex numbers the absolute value is real.
pub(crate) fn abs(x: &Tensor) -> Result<Tensor> {
    check_bool(false, x, "abs")?;
    if !x.dtype().is_complex() {
        return unary(UnaryOp::Abs, x, x.dtype());
    }
    let out = result(Dims::from_slice(x.sizes()), x.dtype().to_real(), &[x])?;
    unary_into(UnaryOp::Abs, &out, x)?;
    Ok(laid_out_like(out, x))
}

pub(crate) fn abs_(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(Error::dtype(
            "In-place abs is not supported for complex tensors.",
        ));
    }
    check_bool(false, x, "abs")?;
    unary_inplace(UnaryOp::Abs, x, x.dtype())
}

fn check_bool(ok: bool, x: &Tensor, name: &str) -> Result<()> {
    if !ok && x.dtype() == DType::Bool {
        return Err(Error::not_implemented(format!(
            "`{name}` on a bool tensor is not supported: use `logical_not`, or convert first"
        )));
    }
    if name == "bitwise_not" && (x.dtype().is_floating() || x.dtype().is_complex()) {
        return Err(Error::not_implemented(
            "`bitwise_not` is for integer and bool tensors".to_string(),
        ));
    }
    Ok(())
}

pub(crate) fn isnan(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_floating() || x.dtype().is_complex() {
        unary_bool(UnaryOp::IsNan, x)
    } else {
        super::select::compare(CompareOp::Ne, x, x)
    }
}

pub(crate) fn isinf(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_floating() || x.dtype().is_complex() {
        // PyTorch compares the absolute value with a number
        let strides = result_strides(x.sizes(), &[x]);
        let size = x.with_geometry(Dims::from_slice(x.sizes()), strides, x.storage_offset());
        let strides = result_strides_with_number(x.sizes(), &[&size]);
        Ok(restrided(unary_bool(UnaryOp::IsInf, x)?, strides))
    } else {
        super::select::compare(CompareOp::Ne, x, x).map(|out| laid_out_like(out, x))
    }
}

pub(crate) fn logical_not(x: &Tensor) -> Result<Tensor> {
    unary_bool(UnaryOp::LogicalNot, x)
}

fn check_floating(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_floating() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "`{name}` takes a floating-point tensor, not {}: convert with `to_dtype` first",
        x.dtype()
    )))
}

fn gelu_op(approximate: &str) -> Result<UnaryOp> {
    match approximate {
        "none" => Ok(UnaryOp::GeluErf),
        "tanh" => Ok(UnaryOp::GeluTanh),
        other => Err(Error::runtime(format!(
            "approximate argument must be either none or tanh, not `{other}`"
        ))),
    }
}

pub(crate) fn gelu(x: &Tensor, approximate: &str) -> Result<Tensor> {
    let op = gelu_op(approximate)?;
    check_floating(x, "gelu")?;
    unary(op, x, x.dtype())
}

pub(crate) fn gelu_(x: &Tensor, approximate: &str) -> Result<Tensor> {
    check_floating(x, "gelu_")?;
    unary_inplace(gelu_op(approximate)?, x, x.dtype())
}

fn check_complex_or_floating(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_complex() {
        return Ok(());
    }
    check_floating(x, name)
}

pub(crate) fn silu(x: &Tensor) -> Result<Tensor> {
    check_complex_or_floating(x, "silu")?;
    unary(UnaryOp::Silu, x, x.dtype())
}

pub(crate) fn silu_(x: &Tensor) -> Result<Tensor> {
    check_complex_or_floating(x, "silu_")?;
    unary_inplace(UnaryOp::Silu, x, x.dtype())
}
