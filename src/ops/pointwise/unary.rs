//! Functions of one operand.

use super::{cast, result};
use crate::error::{Error, Result};
use crate::ops::common::{
    check_can_cast, float_of, restrided, result_strides, result_strides_with_number,
};
use crate::ops::copy;
use crate::ops::copy::laid_out_like;
use crate::tensor::launch;
use crate::tensor::{Tensor, access};
use straightline_catalog::prims::{Class, CompareOp, UnaryOp};
use straightline_catalog::{DType, Dims};
use straightline_runtime::cpu::kernels;

fn unary_into(op: UnaryOp, mut out: Tensor, x: &Tensor) -> Result<Tensor> {
    launch::run(&mut out, x, |out, x| Ok(kernels::unary(op, out, x)?))?;
    Ok(out)
}

pub(super) fn unary(op: UnaryOp, x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype && x.is_contiguous() && x.device().is_cpu() && x.storage().has_data() {
        return unary_into(op, Tensor::allocate_like_contiguous(x, dtype)?, x);
    }
    let out = result(Dims::from_slice(x.sizes()), dtype, &[x])?;
    unary_into(op, out, &cast(x, dtype)?)
}

fn unary_bool(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    let out = result(Dims::from_slice(x.sizes()), DType::Bool, &[x])?;
    unary_into(op, out, x)
}

fn unary_inplace(op: UnaryOp, x: &Tensor, dtype: DType) -> Result<Tensor> {
    check_can_cast(dtype, x.dtype())?;
    if dtype != x.dtype() {
        access::check_no_internal_overlap(x)?;
        let _whole = access::whole(&[x], &[])?;
        return copy::copy_(x, &unary(op, x, dtype)?, false);
    }
    launch::run(launch::Written(x), (), |x, ()| {
        let before = x.as_input();
        Ok(kernels::unary(op, x, before)?)
    })?;
    Ok(x.clone())
}

/// An elementary function: in floating point where it is one of floats, so that integers become
/// `f32`, else in the operand's dtype.
pub(crate) fn elementary(f: UnaryOp, x: &Tensor) -> Result<Tensor> {
    unary(f, x, elementary_dtype(f, x)?)
}

/// [`elementary`], in place.
pub(crate) fn elementary_(f: UnaryOp, x: &Tensor) -> Result<Tensor> {
    unary_inplace(f, x, elementary_dtype(f, x)?)
}

fn elementary_dtype(f: UnaryOp, x: &Tensor) -> Result<DType> {
    match f.class() {
        Class::Float => Ok(float_of(x.dtype())),
        Class::Number if f != UnaryOp::Sign => {
            check_bool(x, f.name())?;
            Ok(x.dtype())
        }
        Class::Bits if x.dtype().is_floating() || x.dtype().is_complex() => {
            Err(Error::not_implemented(format!("`{}` is for integer and bool tensors", f.name())))
        }
        _ => Ok(x.dtype()),
    }
}

/// Of complex numbers the absolute value is real.
pub(crate) fn abs(x: &Tensor) -> Result<Tensor> {
    check_bool(x, "abs")?;
    if !x.dtype().is_complex() {
        return unary(UnaryOp::Abs, x, x.dtype());
    }
    let out = result(Dims::from_slice(x.sizes()), x.dtype().to_real(), &[x])?;
    laid_out_like(unary_into(UnaryOp::Abs, out, x)?, x)
}

pub(crate) fn abs_(x: &Tensor) -> Result<Tensor> {
    ensure_dtype!(!x.dtype().is_complex(), "In-place abs is not supported for complex tensors.");
    check_bool(x, "abs")?;
    unary_inplace(UnaryOp::Abs, x, x.dtype())
}

fn check_bool(x: &Tensor, name: &str) -> Result<()> {
    ensure_not_implemented!(
        x.dtype() != DType::Bool,
        "`{name}` on a bool tensor is not supported: use `logical_not`, or convert first"
    );
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
        super::select::compare(CompareOp::Ne, x, x).and_then(|out| laid_out_like(out, x))
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
