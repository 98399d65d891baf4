//! Arithmetic and bits of two operands.

use super::{cast, result, result_with_number, zeros};
use crate::error::{Error, Result};
use crate::ops::common::{
    broadcast, check_can_cast, check_devices, check_fits, float_of, promote, promote_scalar,
};
use crate::ops::copy;
use crate::tensor::launch;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Dims, Scalar};
use straightline_passes::schedule::loops::BinaryOp;
use straightline_runtime::cpu::kernels::{self, In, Number, Out};

/// `op` on two tensors, computed and delivered in `dtype`.
#[inline]
pub(super) fn binary(op: BinaryOp, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    match launch::binary_flat(op, dtype, a, b)? {
        Some(out) => Ok(out),
        None => binary_laid_out(op, a, b, dtype, &[a, b]),
    }
}

/// [`binary`] whose result is laid out as these operands say.
fn binary_laid_out(
    op: BinaryOp,
    a: &Tensor,
    b: &Tensor,
    dtype: DType,
    order: &[&Tensor],
) -> Result<Tensor> {
    check_devices(&[a, b])?;
    if keeps_operand(op, b, dtype) {
        let wide = binary_laid_out(op, a, b, dtype.opmath(), order)?;
        return copy::to_dtype(&wide, dtype);
    }
    let mut out = result(broadcast(order)?, dtype, order)?;
    if out.storage().has_data() {
        let _given = (a.dtype() != dtype || b.dtype() != dtype)
            .then(|| access::read(&[a, b]))
            .transpose()?;
        let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
        launch::elementwise(&mut out, [&a, &b], |out, [a, b]| Ok(kernels::binary(op, out, a, b)?))?;
    }
    Ok(out)
}

/// Whether the operator takes the number as the type of arithmetic has it, although the half type
/// of the result would round it: products and quotients do, as in PyTorch.
fn keeps_number(op: BinaryOp, s: Scalar, dtype: DType) -> bool {
    op.keeps_number()
        && dtype.is_half()
        && s.cast(dtype).as_f64() != s.cast(dtype.opmath()).as_f64()
}

/// [`keeps_number`] of a number that is a tensor: a second operand of one element, whose dtype is
/// not the result's.
fn keeps_operand(op: BinaryOp, b: &Tensor, dtype: DType) -> bool {
    dtype.is_half() && op.keeps_number() && b.dtype() != dtype && b.numel() == 1
}

/// `op` on a tensor and a number that is an operand like the tensor: it counts in the result's
/// layout.
pub(super) fn binary_scalar(op: BinaryOp, a: &Tensor, s: Scalar, dtype: DType) -> Result<Tensor> {
    if keeps_number(op, s, dtype) {
        return copy::to_dtype(&binary_scalar(op, a, s, dtype.opmath())?, dtype);
    }
    scalar_into(op, result_with_number(a, dtype)?, a, s, dtype)
}

/// `op` on a tensor and a number that is a parameter of the operator, which to PyTorch's iterator
/// has one operand.
pub(super) fn unary_scalar(op: BinaryOp, a: &Tensor, s: Scalar, dtype: DType) -> Result<Tensor> {
    if keeps_number(op, s, dtype) {
        return copy::to_dtype(&unary_scalar(op, a, s, dtype.opmath())?, dtype);
    }
    let out = result(Dims::from_slice(a.sizes()), dtype, &[a])?;
    scalar_into(op, out, a, s, dtype)
}

fn scalar_into(
    op: BinaryOp,
    mut out: Tensor,
    a: &Tensor,
    s: Scalar,
    dtype: DType,
) -> Result<Tensor> {
    if out.storage().has_data() {
        let a = cast(a, dtype)?;
        launch::run(&mut out, &a, |out, a| with_number(op, out, a, s))?;
    }
    Ok(out)
}

/// `out = op(a, s)`, the number in the dtype of `a`.
fn with_number(op: BinaryOp, out: Out<'_>, a: In<'_>, s: Scalar) -> Result<()> {
    let (number, zeros) = (Number::new(s, a.dtype()), zeros(a.sizes().len()));
    let s = number.operand(a.sizes(), &zeros)?;
    Ok(kernels::binary(op, out, a, s)?)
}

/// In-place: `a = op(a, b)`, computed in `dtype`.
pub(super) fn binary_inplace(op: BinaryOp, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    if launch::binary_flat_(op, dtype, a, b)? {
        return Ok(a.clone());
    }
    check_can_cast(dtype, a.dtype())?;
    check_devices(&[a, b])?;
    check_inplace_shape(a, b)?;
    access::check_no_internal_overlap(a)?;
    access::check_no_partial_overlap(a, b)?;
    if a.dtype() != dtype || keeps_operand(op, b, dtype) {
        let _whole = access::in_place(a, &[b])?;
        return copy::copy_(a, &binary(op, a, b, dtype)?, false);
    }
    if a.storage().has_data() {
        let _whole = (b.dtype() != dtype || access::is_detached(a, b))
            .then(|| access::whole(&[a], &[b]))
            .transpose()?;
        let b = access::detach_overlap(a, &cast(b, dtype)?)?;
        launch::elementwise(launch::Written(a), [&b], |a, [b]| {
            let before = a.as_input();
            Ok(kernels::binary(op, a, before, b)?)
        })?;
    }
    Ok(a.clone())
}

pub(crate) fn check_inplace_shape(a: &Tensor, b: &Tensor) -> Result<()> {
    let sizes = broadcast(&[a, b])?;
    ensure_shape!(
        sizes.as_slice() == a.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        a.sizes(),
        sizes.as_slice()
    );
    Ok(())
}

pub(super) fn scalar_inplace(op: BinaryOp, a: &Tensor, s: Scalar, dtype: DType) -> Result<Tensor> {
    check_can_cast(dtype, a.dtype())?;
    access::check_no_internal_overlap(a)?;
    if a.dtype() != dtype || keeps_number(op, s, dtype) {
        let _whole = access::whole(&[a], &[])?;
        return copy::copy_(a, &binary_scalar(op, a, s, dtype)?, false);
    }
    launch::run(launch::Written(a), (), |a, ()| {
        let before = a.as_input();
        with_number(op, a, before, s)
    })?;
    Ok(a.clone())
}

fn is_one(s: Scalar) -> bool {
    matches!(s, Scalar::Int(1))
        || matches!(s, Scalar::Float(x) if x == 1.0)
        || matches!(s, Scalar::Complex(re, im) if re == 1.0 && im == 0.0)
}

fn check_alpha(dtype: DType, alpha: Scalar) -> Result<()> {
    ensure_dtype!(
        !alpha.is_complex() || dtype.is_complex(),
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    ensure_dtype!(
        !matches!(alpha, Scalar::Float(_)) || dtype.is_floating() || dtype.is_complex(),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    ensure_dtype!(
        !matches!(alpha, Scalar::Bool(_)) || dtype == DType::Bool,
        "Boolean alpha only supported for Boolean results."
    );
    check_fits(alpha, dtype)
}

/// `b * alpha` in the result's dtype, which `alpha` is rounded to.
pub(super) fn scaled(b: &Tensor, alpha: Scalar, dtype: DType) -> Result<Tensor> {
    check_alpha(dtype, alpha)?;
    unary_scalar(BinaryOp::Mul, b, alpha.cast(dtype), dtype)
}

/// Whether `alpha` changes nothing. As in PyTorch, complex numbers are multiplied by 1 all the
/// same, which leaves NaN in the other part of an infinite one.
fn leaves_as_is(alpha: Scalar, dtype: DType) -> bool {
    is_one(alpha) && !dtype.is_complex()
}

/// `op` on a tensor and `alpha` times another.
fn binary_scaled(
    op: BinaryOp,
    a: &Tensor,
    b: &Tensor,
    alpha: Scalar,
    dtype: DType,
) -> Result<Tensor> {
    if leaves_as_is(alpha, dtype) {
        return binary(op, a, b, dtype);
    }
    let _given = access::read(&[a, b])?;
    binary_laid_out(op, a, &scaled(b, alpha, dtype)?, dtype, &[a, b])
}

pub(crate) fn add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let dtype = promote(&[a, b])?;
    binary_scaled(BinaryOp::Add, a, b, alpha, dtype)
}

pub(crate) fn add_(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let dtype = promote(&[a, b])?;
    if leaves_as_is(alpha, dtype) {
        return binary_inplace(BinaryOp::Add, a, b, dtype);
    }
    let _whole = access::in_place(a, &[b])?;
    binary_inplace(BinaryOp::Add, a, &scaled(b, alpha, dtype)?, dtype)
}

fn scale_scalar(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<(Scalar, DType)> {
    let dtype = promote_scalar(a, b);
    check_alpha(dtype, alpha)?;
    let b = match (b, alpha) {
        (b, alpha) if leaves_as_is(alpha, dtype) => b,
        // numbers and their product are elements of the result's dtype
        (b, alpha) if dtype.is_floating() => {
            let (b, alpha) = (b.cast(dtype).as_f64(), alpha.cast(dtype).as_f64());
            let product = match dtype.opmath() {
                DType::F32 => f64::from(b as f32 * alpha as f32),
                _ => b * alpha,
            };
            Scalar::Float(product).cast(dtype)
        }
        (Scalar::Int(b), Scalar::Int(alpha)) => Scalar::Int(b.wrapping_mul(alpha)),
        (b, _) if dtype.is_complex() => {
            let ((a, b), (c, d)) = (b.as_complex(), alpha.as_complex());
            Scalar::Complex(a * c - b * d, a * d + b * c)
        }
        (b, alpha) => Scalar::Float(b.as_f64() * alpha.as_f64()),
    };
    Ok((b, dtype))
}

pub(crate) fn add_scalar(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Tensor> {
    let (b, dtype) = scale_scalar(a, b, alpha)?;
    binary_scalar(BinaryOp::Add, a, b, dtype)
}

pub(crate) fn add_scalar_(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Tensor> {
    let (b, dtype) = scale_scalar(a, b, alpha)?;
    scalar_inplace(BinaryOp::Add, a, b, dtype)
}

fn check_sub(a: DType, b: DType) -> Result<()> {
    ensure_not_implemented!(
        a != DType::Bool || b != DType::Bool,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
    );
    ensure_not_implemented!(
        a != DType::Bool && b != DType::Bool,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
    );
    Ok(())
}

pub(crate) fn sub(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_sub(a.dtype(), b.dtype())?;
    let dtype = promote(&[a, b])?;
    binary_scaled(BinaryOp::Sub, a, b, alpha, dtype)
}

pub(crate) fn sub_(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_sub(a.dtype(), b.dtype())?;
    let dtype = promote(&[a, b])?;
    if leaves_as_is(alpha, dtype) {
        return binary_inplace(BinaryOp::Sub, a, b, dtype);
    }
    let _whole = access::in_place(a, &[b])?;
    binary_inplace(BinaryOp::Sub, a, &scaled(b, alpha, dtype)?, dtype)
}

pub(crate) fn sub_scalar(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_sub(a.dtype(), b.default_dtype())?;
    let (b, dtype) = scale_scalar(a, b, alpha)?;
    binary_scalar(BinaryOp::Sub, a, b, dtype)
}

pub(crate) fn sub_scalar_(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_sub(a.dtype(), b.default_dtype())?;
    let (b, dtype) = scale_scalar(a, b, alpha)?;
    scalar_inplace(BinaryOp::Sub, a, b, dtype)
}

pub(crate) fn rsub(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    sub(b, a, alpha)
}

pub(crate) fn rsub_scalar(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_sub(a.dtype(), b.default_dtype())?;
    let dtype = promote_scalar(a, b);
    let b = Tensor::scalar_of(b, dtype)?.into_wrapped_number();
    sub(&crate::ops::create::factory::on_device_of(&b, a)?, a, alpha)
}

// of several things that are wrong, PyTorch names the shapes before what is not implemented for a
// dtype
macro_rules! binary_functions {
    ($($name:ident $inplace:ident $scalar:ident $scalar_inplace:ident $op:ident $dtype:expr),* $(,)?) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            let dtype = $dtype(promote(&[a, b])?, stringify!($name));
            binary(BinaryOp::$op, a, b, dtype.or_else(|e| broadcast(&[a, b]).and(Err(e)))?)
        }
        pub(crate) fn $inplace(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            let common = promote(&[a, b])?;
            let dtype = $dtype(common, stringify!($name));
            check_can_cast(*dtype.as_ref().unwrap_or(&common), a.dtype())?;
            let dtype = dtype.or_else(|e| check_inplace_shape(a, b).and(Err(e)))?;
            binary_inplace(BinaryOp::$op, a, b, dtype)
        }
        pub(crate) fn $scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
            binary_scalar(BinaryOp::$op, a, b, $dtype(promote_scalar(a, b), stringify!($name))?)
        }
        pub(crate) fn $scalar_inplace(a: &Tensor, b: Scalar) -> Result<Tensor> {
            let common = promote_scalar(a, b);
            let dtype = $dtype(common, stringify!($name));
            check_can_cast(*dtype.as_ref().unwrap_or(&common), a.dtype())?;
            scalar_inplace(BinaryOp::$op, a, b, dtype?)
        }
    )*};
}

fn any_type(d: DType, _: &str) -> Result<DType> {
    Ok(d)
}

fn to_float(d: DType, _: &str) -> Result<DType> {
    Ok(float_of(d))
}

pub(super) fn numbers(d: DType, name: &str) -> Result<DType> {
    ensure_not_implemented!(d != DType::Bool, "`{name}` is not implemented for bool tensors");
    Ok(d)
}

fn integers(d: DType, name: &str) -> Result<DType> {
    ensure_not_implemented!(
        !d.is_floating() && !d.is_complex(),
        "`{name}` is for integer and bool tensors, not {d}"
    );
    Ok(d)
}

binary_functions!(
    mul mul_ mul_scalar mul_scalar_ Mul any_type,
    div div_ div_scalar div_scalar_ Div to_float,
    fmod fmod_ fmod_scalar fmod_scalar_ Fmod numbers,
    remainder remainder_ remainder_scalar remainder_scalar_ Remainder numbers,
    bitwise_and bitwise_and_ bitwise_and_scalar bitwise_and_scalar_ BitwiseAnd integers,
    bitwise_or bitwise_or_ bitwise_or_scalar bitwise_or_scalar_ BitwiseOr integers,
    bitwise_xor bitwise_xor_ bitwise_xor_scalar bitwise_xor_scalar_ BitwiseXor integers,
);

pub(crate) fn atan2(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryOp::Atan2, a, b, float_of(promote(&[a, b])?))
}

pub(crate) fn atan2_(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary_inplace(BinaryOp::Atan2, a, b, float_of(promote(&[a, b])?))
}

/// The dtype that the operands promote to, of operators that order them.
pub(crate) fn ordered(a: &Tensor, b: &Tensor, name: &str) -> Result<DType> {
    let dtype = promote(&[a, b])?;
    ensure_type!(!dtype.is_complex(), "{name} not implemented for complex tensors.");
    Ok(dtype)
}

pub(crate) fn maximum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryOp::Maximum, a, b, ordered(a, b, "maximum")?)
}

pub(crate) fn minimum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryOp::Minimum, a, b, ordered(a, b, "minimum")?)
}

fn rounding(mode: Option<&str>, dtype: DType) -> Result<(BinaryOp, DType)> {
    match mode {
        None => Ok((BinaryOp::Div, float_of(dtype))),
        Some("floor") => Ok((BinaryOp::FloorDiv, numbers(dtype, "div")?)),
        Some("trunc") => Ok((BinaryOp::TruncDiv, numbers(dtype, "div")?)),
        Some(other) => Err(Error::runtime(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ))),
    }
}

pub(crate) fn div_mode(a: &Tensor, b: &Tensor, mode: Option<&str>) -> Result<Tensor> {
    let (op, dtype) = rounding(mode, promote(&[a, b])?)?;
    binary(op, a, b, dtype)
}

pub(crate) fn div_mode_(a: &Tensor, b: &Tensor, mode: Option<&str>) -> Result<Tensor> {
    let (op, dtype) = rounding(mode, promote(&[a, b])?)?;
    binary_inplace(op, a, b, dtype)
}

pub(crate) fn div_scalar_mode(a: &Tensor, b: Scalar, mode: Option<&str>) -> Result<Tensor> {
    let (op, dtype) = rounding(mode, promote_scalar(a, b))?;
    binary_scalar(op, a, b, dtype)
}
