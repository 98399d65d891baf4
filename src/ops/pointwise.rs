//! Element-wise operators: arithmetic, comparison, mathematics, `where`, `clamp`.
//!
//! Each function here is the CPU kernel and, on tensors without data, the shape function: it
//! allocates its result and runs the raw kernel if there is memory to run on. The arithmetic itself
//! is in the runtime's kernels, which share their vocabulary (`UnaryOp`, `BinaryOp` ...) and
//! their mathematics with the code generator.

use super::common::{
    broadcast, check_can_cast, check_devices, float_of, promote, promote_scalar, result_strides,
};
use super::copy;
use crate::error::{Error, Result};
use crate::tensor::{Tensor, access};
use straightline_passes::ir::{DType, Dims, Scalar, layout};
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, UnaryOp};
use straightline_runtime::cpu::kernels::{self, Strided};

/// A number in memory, as a kernel operand that is broadcast to any shape.
pub(crate) struct ScalarCell {
    bytes: [u64; 1],
    dtype: DType,
}

impl ScalarCell {
    pub(crate) fn new(value: Scalar, dtype: DType) -> ScalarCell {
        let bits = match dtype {
            DType::F32 => u64::from((value.as_f64() as f32).to_bits()),
            DType::F64 => value.as_f64().to_bits(),
            DType::F16 => u64::from(half::f16::from_f64(value.as_f64()).to_bits()),
            DType::BF16 => u64::from(half::bf16::from_f64(value.as_f64()).to_bits()),
            DType::Bool => u64::from(value.as_bool()),
            // two's complement: the low bytes are the narrow value (little endian)
            _ => value.as_i64() as u64,
        };
        ScalarCell {
            bytes: [bits.to_le()],
            dtype,
        }
    }

    pub(crate) fn strided<'a>(&self, sizes: &'a [i64], zeros: &'a [i64]) -> Strided<'a> {
        Strided {
            ptr: self.bytes.as_ptr().cast_mut().cast::<u8>(),
            dtype: self.dtype,
            sizes,
            strides: zeros,
        }
    }
}

/// A result tensor for element-wise operands, in PyTorch's layout.
fn result(sizes: Dims, dtype: DType, operands: &[&Tensor]) -> Result<Tensor> {
    let strides = result_strides(&sizes, operands);
    let device = operands
        .iter()
        .find(|t| t.dim() > 0 || !t.device().is_cpu())
        .unwrap_or(&operands[0])
        .device();
    Tensor::allocate(dtype, device, sizes, strides)
}

/// The operand's strides when read as `sizes`.
fn strides_as(t: &Tensor, sizes: &[i64]) -> Dims {
    layout::broadcast_strides(t.sizes(), t.strides(), sizes)
}

fn zeros(rank: usize) -> Dims {
    Dims::from_elem(0, rank)
}

/// The operand in another dtype; wrapped numbers and 0-dim tensors too.
fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype {
        Ok(t.clone())
    } else {
        copy::to_dtype(t, dtype)
    }
}

// ---- one operand ------------------------------------------------------------------------------

fn unary_into(op: UnaryOp, out: &Tensor, x: &Tensor) -> Result<()> {
    if !out.storage().has_data() {
        return Ok(());
    }
    let _reads = access::read(&[x])?;
    // SAFETY: out is fresh (or exclusively held by the caller), x is held shared; both have the
    // same sizes, and their strides stay within their storages.
    unsafe { kernels::unary(op, out.strided()?, x.strided()?)? };
    Ok(())
}

fn unary(op: UnaryOp, x: &Tensor, dtype: DType) -> Result<Tensor> {
    let x = cast(x, dtype)?;
    let out = result(Dims::from_slice(x.sizes()), dtype, &[&x])?;
    unary_into(op, &out, &x)?;
    Ok(out)
}

fn unary_bool(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    let out = result(Dims::from_slice(x.sizes()), DType::Bool, &[x])?;
    unary_into(op, &out, x)?;
    Ok(out)
}

fn unary_inplace(op: UnaryOp, x: &Tensor, dtype: DType) -> Result<Tensor> {
    check_can_cast(dtype, x.dtype())?;
    if dtype != x.dtype() {
        return copy::copy_(x, &unary(op, x, dtype)?, false);
    }
    if x.storage().has_data() {
        let _guard = access::write(x, &[])?;
        // SAFETY: x is held exclusively; element i is read before element i is written.
        unsafe { kernels::unary(op, x.strided()?, x.strided()?)? };
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
    neg neg_ Neg false, abs abs_ Abs true, sign sign_ Sign true, floor floor_ Floor false,
    ceil ceil_ Ceil false, round round_ Round false, trunc trunc_ Trunc false,
    relu relu_ Relu false, bitwise_not bitwise_not_ BitwiseNot true,
);

fn check_bool(ok: bool, x: &Tensor, name: &str) -> Result<()> {
    if !ok && x.dtype() == DType::Bool {
        return Err(Error::dtype(format!(
            "`{name}` on a bool tensor is not supported: use `logical_not`, or convert first"
        )));
    }
    if name == "bitwise_not" && x.dtype().is_floating() {
        return Err(Error::dtype(
            "`bitwise_not` is for integer and bool tensors".to_string(),
        ));
    }
    Ok(())
}

pub(crate) fn isnan(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_floating() {
        unary_bool(UnaryOp::IsNan, x)
    } else {
        compare(CompareOp::Ne, x, x)
    }
}

pub(crate) fn isinf(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_floating() {
        unary_bool(UnaryOp::IsInf, x)
    } else {
        compare(CompareOp::Ne, x, x)
    }
}

pub(crate) fn logical_not(x: &Tensor) -> Result<Tensor> {
    unary_bool(UnaryOp::LogicalNot, x)
}

fn check_floating(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_floating() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "`{name}` takes a floating-point tensor, not {}: convert with `to_dtype` first",
        x.dtype()
    )))
}

fn gelu_op(approximate: &str) -> Result<UnaryOp> {
    match approximate {
        "none" => Ok(UnaryOp::GeluErf),
        "tanh" => Ok(UnaryOp::GeluTanh),
        other => Err(Error::value(format!(
            "approximate argument must be either none or tanh, not `{other}`"
        ))),
    }
}

pub(crate) fn gelu(x: &Tensor, approximate: &str) -> Result<Tensor> {
    check_floating(x, "gelu")?;
    unary(gelu_op(approximate)?, x, x.dtype())
}

pub(crate) fn gelu_(x: &Tensor, approximate: &str) -> Result<Tensor> {
    check_floating(x, "gelu_")?;
    unary_inplace(gelu_op(approximate)?, x, x.dtype())
}

pub(crate) fn silu(x: &Tensor) -> Result<Tensor> {
    check_floating(x, "silu")?;
    unary(UnaryOp::Silu, x, x.dtype())
}

pub(crate) fn silu_(x: &Tensor) -> Result<Tensor> {
    check_floating(x, "silu_")?;
    unary_inplace(UnaryOp::Silu, x, x.dtype())
}

// ---- two operands -----------------------------------------------------------------------------

fn run_binary(op: BinaryOp, out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    let sizes = out.sizes();
    if a.sizes() == sizes && b.sizes() == sizes {
        // SAFETY: operands are held by the caller (out exclusively), have out's sizes and dtype.
        unsafe { kernels::binary(op, out.strided()?, a.strided()?, b.strided()?)? };
    } else {
        let (sa, sb) = (strides_as(a, sizes), strides_as(b, sizes));
        // SAFETY: as above; broadcast strides never reach beyond the operand's own elements.
        unsafe {
            kernels::binary(
                op,
                out.strided()?,
                a.strided_as(sizes, &sa)?,
                b.strided_as(sizes, &sb)?,
            )?;
        }
    }
    Ok(())
}

/// `op` on two tensors, computed and delivered in `dtype`.
#[inline]
fn binary(op: BinaryOp, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    // The common case first: same dtype, same sizes, both row-major.
    if a.dtype() == dtype
        && b.dtype() == dtype
        && a.is_contiguous()
        && b.is_contiguous()
        && a.sizes() == b.sizes()
        && a.device() == b.device()
    {
        let out = Tensor::allocate_contiguous(dtype, a.device(), a.sizes())?;
        if out.storage().has_data() {
            let (ga, gb) = (a.storage().read()?, b.storage().read()?);
            // SAFETY: out is fresh; a and b are held shared; sizes and dtypes are equal.
            unsafe { kernels::binary(op, out.strided()?, a.strided()?, b.strided()?)? };
            drop((ga, gb));
        }
        return Ok(out);
    }
    binary_slow(op, a, b, dtype)
}

fn binary_slow(op: BinaryOp, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    check_devices(&[a, b])?;
    let sizes = broadcast(&[a, b])?;
    let out = result(sizes, dtype, &[a, b])?;
    if out.storage().has_data() {
        let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
        let _reads = access::read(&[&a, &b])?;
        run_binary(op, &out, &a, &b)?;
    }
    Ok(out)
}

fn binary_scalar(op: BinaryOp, a: &Tensor, s: Scalar, dtype: DType) -> Result<Tensor> {
    let out = result(Dims::from_slice(a.sizes()), dtype, &[a])?;
    if out.storage().has_data() {
        let a = cast(a, dtype)?;
        let cell = ScalarCell::new(s, dtype);
        let z = zeros(a.dim());
        let _reads = access::read(&[&a])?;
        // SAFETY: out is fresh, a is held shared, the cell outlives the call and is read only.
        unsafe {
            kernels::binary(
                op,
                out.strided()?,
                a.strided()?,
                cell.strided(a.sizes(), &z),
            )?;
        }
    }
    Ok(out)
}

/// In-place: `a = op(a, b)`, computed in `dtype`.
fn binary_inplace(op: BinaryOp, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    check_can_cast(dtype, a.dtype())?;
    check_devices(&[a, b])?;
    check_inplace_shape(a, b)?;
    if a.dtype() != dtype {
        return copy::copy_(a, &binary(op, a, b, dtype)?, false);
    }
    if a.storage().has_data() {
        let b = access::detach_overlap(a, &cast(b, dtype)?)?;
        let _guard = access::write(a, &[&b])?;
        run_binary(op, a, a, &b)?;
    }
    Ok(a.clone())
}

fn check_inplace_shape(a: &Tensor, b: &Tensor) -> Result<()> {
    let sizes = broadcast(&[a, b])?;
    if sizes.as_slice() != a.sizes() {
        return Err(Error::shape(format!(
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            a.sizes(),
            sizes.as_slice()
        )));
    }
    Ok(())
}

fn scalar_inplace(op: BinaryOp, a: &Tensor, s: Scalar, dtype: DType) -> Result<Tensor> {
    check_can_cast(dtype, a.dtype())?;
    if a.dtype() != dtype {
        return copy::copy_(a, &binary_scalar(op, a, s, dtype)?, false);
    }
    if a.storage().has_data() {
        let cell = ScalarCell::new(s, dtype);
        let z = zeros(a.dim());
        let _guard = access::write(a, &[])?;
        // SAFETY: a is held exclusively, element by element; the cell outlives the call.
        unsafe {
            kernels::binary(op, a.strided()?, a.strided()?, cell.strided(a.sizes(), &z))?;
        }
    }
    Ok(a.clone())
}

fn is_one(s: Scalar) -> bool {
    matches!(s, Scalar::Int(1)) || matches!(s, Scalar::Float(x) if x == 1.0)
}

fn check_alpha(dtype: DType, alpha: Scalar) -> Result<()> {
    if matches!(alpha, Scalar::Float(_)) && !dtype.is_floating() {
        return Err(Error::dtype(
            "For integral input tensors, argument alpha must not be a floating point number.",
        ));
    }
    if matches!(alpha, Scalar::Bool(_)) && dtype != DType::Bool {
        return Err(Error::dtype(
            "Boolean alpha only supported for Boolean results.",
        ));
    }
    Ok(())
}

/// `b * alpha` in the result's dtype.
fn scaled(b: &Tensor, alpha: Scalar, dtype: DType) -> Result<Tensor> {
    check_alpha(dtype, alpha)?;
    binary_scalar(BinaryOp::Mul, b, alpha, dtype)
}

pub(crate) fn add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let dtype = promote(&[a, b])?;
    if is_one(alpha) {
        return binary(BinaryOp::Add, a, b, dtype);
    }
    binary(BinaryOp::Add, a, &scaled(b, alpha, dtype)?, dtype)
}

pub(crate) fn add_(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let dtype = promote(&[a, b])?;
    if is_one(alpha) {
        return binary_inplace(BinaryOp::Add, a, b, dtype);
    }
    binary_inplace(BinaryOp::Add, a, &scaled(b, alpha, dtype)?, dtype)
}

fn scale_scalar(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<(Scalar, DType)> {
    let dtype = promote_scalar(a, b);
    check_alpha(dtype, alpha)?;
    let b = match (b, alpha) {
        (b, alpha) if is_one(alpha) => b,
        (Scalar::Int(b), Scalar::Int(alpha)) => Scalar::Int(b.wrapping_mul(alpha)),
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
    if a == DType::Bool && b == DType::Bool {
        return Err(Error::dtype(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
        ));
    }
    if a == DType::Bool || b == DType::Bool {
        return Err(Error::dtype(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        ));
    }
    Ok(())
}

pub(crate) fn sub(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_sub(a.dtype(), b.dtype())?;
    let dtype = promote(&[a, b])?;
    if is_one(alpha) {
        return binary(BinaryOp::Sub, a, b, dtype);
    }
    binary(BinaryOp::Sub, a, &scaled(b, alpha, dtype)?, dtype)
}

pub(crate) fn sub_(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_sub(a.dtype(), b.dtype())?;
    let dtype = promote(&[a, b])?;
    if is_one(alpha) {
        return binary_inplace(BinaryOp::Sub, a, b, dtype);
    }
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
    sub(&super::factory::on_device_of(&b, a)?, a, alpha)
}

macro_rules! binary_functions {
    ($($name:ident $inplace:ident $scalar:ident $scalar_inplace:ident $op:ident $dtype:expr),* $(,)?) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            binary(BinaryOp::$op, a, b, $dtype(promote(&[a, b])?, stringify!($name))?)
        }
        pub(crate) fn $inplace(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            binary_inplace(BinaryOp::$op, a, b, $dtype(promote(&[a, b])?, stringify!($name))?)
        }
        pub(crate) fn $scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
            binary_scalar(BinaryOp::$op, a, b, $dtype(promote_scalar(a, b), stringify!($name))?)
        }
        pub(crate) fn $scalar_inplace(a: &Tensor, b: Scalar) -> Result<Tensor> {
            scalar_inplace(BinaryOp::$op, a, b, $dtype(promote_scalar(a, b), stringify!($name))?)
        }
    )*};
}

fn any_type(d: DType, _: &str) -> Result<DType> {
    Ok(d)
}

fn to_float(d: DType, _: &str) -> Result<DType> {
    Ok(float_of(d))
}

fn numbers(d: DType, name: &str) -> Result<DType> {
    if d == DType::Bool {
        return Err(Error::dtype(format!(
            "`{name}` is not implemented for bool tensors"
        )));
    }
    Ok(d)
}

fn integers(d: DType, name: &str) -> Result<DType> {
    if d.is_floating() {
        return Err(Error::dtype(format!(
            "`{name}` is for integer and bool tensors, not {d}"
        )));
    }
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

pub(crate) fn maximum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryOp::Maximum, a, b, promote(&[a, b])?)
}

pub(crate) fn minimum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryOp::Minimum, a, b, promote(&[a, b])?)
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

fn check_pow(dtype: DType, negative_exponent: bool) -> Result<DType> {
    if dtype == DType::Bool {
        return Err(Error::dtype("`pow` is not implemented for bool tensors"));
    }
    if !dtype.is_floating() && negative_exponent {
        return Err(Error::runtime(
            "Integers to negative integer powers are not allowed.",
        ));
    }
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
    if !dtype.is_floating() {
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
    if e != 0.0 && e != 1.0 {
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

pub(crate) fn pow_scalar(a: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if let Some(r) = trivial_power(a, exponent) {
        return r;
    }
    let dtype = check_pow(promote_scalar(a, exponent), exponent.as_f64() < 0.0)?;
    special_power(a, exponent, dtype)
        .unwrap_or_else(|| binary_scalar(BinaryOp::Pow, a, exponent, dtype))
}

pub(crate) fn pow_scalar_(a: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if let Some(r) = trivial_power(a, exponent) {
        let r = r?;
        check_can_cast(r.dtype(), a.dtype())?;
        return copy::copy_(a, &r, false);
    }
    let dtype = check_pow(promote_scalar(a, exponent), exponent.as_f64() < 0.0)?;
    check_can_cast(dtype, a.dtype())?;
    match special_power(a, exponent, dtype) {
        Some(r) => copy::copy_(a, &r?, false),
        None => scalar_inplace(BinaryOp::Pow, a, exponent, dtype),
    }
}

pub(crate) fn pow_base(base: Scalar, exponent: &Tensor) -> Result<Tensor> {
    let dtype = promote_scalar(exponent, base);
    if base.as_f64() == 1.0 && dtype != DType::Bool {
        let out = Tensor::allocate_contiguous(dtype, exponent.device(), exponent.sizes())?;
        return copy::fill_(&out, Scalar::Int(1));
    }
    let dtype = check_pow(promote_scalar(exponent, base), false)?;
    let base = Tensor::scalar_of(base, dtype)?.into_wrapped_number();
    let base = super::factory::on_device_of(&base, exponent)?;
    // PyTorch gives this overload a row-major result, whatever the exponent's layout
    copy::to_contiguous(&binary(BinaryOp::Pow, &base, exponent, dtype)?)
}

macro_rules! logical_functions {
    ($($name:ident $op:ident),* $(,)?) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            binary(BinaryOp::$op, &cast(a, DType::Bool)?, &cast(b, DType::Bool)?, DType::Bool)
        }
    )*};
}
logical_functions!(logical_and LogicalAnd, logical_or LogicalOr, logical_xor LogicalXor);

// ---- comparison -------------------------------------------------------------------------------

fn compare(op: CompareOp, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_devices(&[a, b])?;
    let dtype = promote(&[a, b])?;
    let sizes = broadcast(&[a, b])?;
    let out = result(sizes, DType::Bool, &[a, b])?;
    if out.storage().has_data() {
        let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
        let (sa, sb) = (strides_as(&a, out.sizes()), strides_as(&b, out.sizes()));
        let _reads = access::read(&[&a, &b])?;
        // SAFETY: out is fresh; a and b are held shared and of one dtype; strides broadcast.
        unsafe {
            kernels::compare(
                op,
                out.strided()?,
                a.strided_as(out.sizes(), &sa)?,
                b.strided_as(out.sizes(), &sb)?,
            )?;
        }
    }
    Ok(out)
}

fn compare_scalar(op: CompareOp, a: &Tensor, s: Scalar) -> Result<Tensor> {
    let dtype = promote_scalar(a, s);
    let out = result(Dims::from_slice(a.sizes()), DType::Bool, &[a])?;
    if out.storage().has_data() {
        let a = cast(a, dtype)?;
        let cell = ScalarCell::new(s, dtype);
        let z = zeros(a.dim());
        let _reads = access::read(&[&a])?;
        // SAFETY: out is fresh; a is held shared; the cell outlives the call.
        unsafe {
            kernels::compare(
                op,
                out.strided()?,
                a.strided()?,
                cell.strided(a.sizes(), &z),
            )?;
        }
    }
    Ok(out)
}

macro_rules! comparisons {
    ($($name:ident $scalar:ident $op:ident),* $(,)?) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            compare(CompareOp::$op, a, b)
        }
        pub(crate) fn $scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
            compare_scalar(CompareOp::$op, a, b)
        }
    )*};
}
comparisons!(eq eq_scalar Eq, ne ne_scalar Ne, lt lt_scalar Lt, le le_scalar Le, gt gt_scalar Gt,
    ge ge_scalar Ge);

// ---- selection --------------------------------------------------------------------------------

pub(crate) fn where_self(cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if cond.dtype() != DType::Bool && cond.dtype() != DType::U8 {
        return Err(Error::dtype(format!(
            "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
            cond.dtype().torch_name()
        )));
    }
    check_devices(&[cond, a, b])?;
    let dtype = promote(&[a, b])?;
    let sizes = broadcast(&[cond, a, b])?;
    let out = result(sizes, dtype, &[cond, a, b])?;
    if out.storage().has_data() {
        let cond = cast(cond, DType::Bool)?;
        let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
        run_select(&out, &cond, &a, &b)?;
    }
    Ok(out)
}

fn run_select(out: &Tensor, cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    let sizes = out.sizes();
    let (sc, sa, sb) = (
        strides_as(cond, sizes),
        strides_as(a, sizes),
        strides_as(b, sizes),
    );
    let _reads = access::read(&[cond, a, b])?;
    // SAFETY: out is fresh; the others are held shared; a, b and out have one dtype, cond is
    // bool; strides broadcast.
    unsafe {
        kernels::select(
            out.strided()?,
            cond.strided_as(sizes, &sc)?,
            a.strided_as(sizes, &sa)?,
            b.strided_as(sizes, &sb)?,
        )?;
    }
    Ok(())
}

fn wrapped(s: Scalar, like: &Tensor) -> Result<Tensor> {
    let t = Tensor::scalar_of(s, s.default_dtype())?.into_wrapped_number();
    super::factory::on_device_of(&t, like)
}

pub(crate) fn where_scalar_self(cond: &Tensor, a: Scalar, b: &Tensor) -> Result<Tensor> {
    where_self(cond, &wrapped(a, b)?, b)
}

pub(crate) fn where_scalar_other(cond: &Tensor, a: &Tensor, b: Scalar) -> Result<Tensor> {
    where_self(cond, a, &wrapped(b, a)?)
}

pub(crate) fn masked_fill(x: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Err(Error::dtype(format!(
            "masked_fill only supports boolean masks, but got dtype {}",
            mask.dtype().torch_name()
        )));
    }
    check_fits(value, x.dtype())?;
    let sizes = broadcast(&[x, mask])?;
    let out = Tensor::allocate_contiguous(x.dtype(), x.device(), &sizes)?;
    if out.storage().has_data() {
        run_select(&out, mask, &Tensor::scalar_of(value, x.dtype())?, x)?;
    }
    Ok(out)
}

/// A number must be within the range of an integer type; its fraction may be lost.
fn check_fits(value: Scalar, dtype: DType) -> Result<()> {
    if !dtype.is_integral() {
        return Ok(());
    }
    let whole = value.as_f64().trunc();
    if whole.is_nan() || value.cast(dtype).as_f64() != whole {
        return Err(Error::runtime(format!(
            "value cannot be converted to type {} without overflow",
            dtype.torch_name()
        )));
    }
    Ok(())
}

pub(crate) fn masked_fill_(x: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    check_inplace_shape(x, mask)?;
    copy::copy_(x, &masked_fill(x, mask, value)?, false)
}

pub(crate) fn masked_fill_tensor(x: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    if value.dim() != 0 {
        return Err(Error::shape(format!(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.dim()
        )));
    }
    crate::ops::aten::where_self(mask, &crate::ops::copy::to_dtype(value, x.dtype())?, x)
}

fn clamp_dtype(x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<DType> {
    if min.is_none() && max.is_none() {
        return Err(Error::runtime(
            "torch.clamp: At least one of 'min' or 'max' must not be None",
        ));
    }
    let mut dtype = x.dtype();
    for s in [min, max].into_iter().flatten() {
        dtype = DType::promote(dtype, promote_scalar(x, s));
    }
    numbers(dtype, "clamp")
}

pub(crate) fn clamp(x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let dtype = clamp_dtype(x, min, max)?;
    let mut out = cast(x, dtype)?;
    if let Some(min) = min {
        out = binary_scalar(BinaryOp::Maximum, &out, min, dtype)?;
    }
    if let Some(max) = max {
        out = binary_scalar(BinaryOp::Minimum, &out, max, dtype)?;
    }
    Ok(out)
}

pub(crate) fn clamp_(x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let dtype = clamp_dtype(x, min, max)?;
    check_can_cast(dtype, x.dtype())?;
    copy::copy_(x, &clamp(x, min, max)?, false)
}

pub(crate) fn clamp_tensor(
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    let operands: Vec<&Tensor> = [Some(x), min, max].into_iter().flatten().collect();
    if operands.len() == 1 {
        return Err(Error::runtime(
            "torch.clamp: At least one of 'min' or 'max' must not be None",
        ));
    }
    let dtype = numbers(promote(&operands)?, "clamp")?;
    let mut out = x.clone();
    if let Some(min) = min {
        out = binary(BinaryOp::Maximum, &out, min, dtype)?;
    }
    if let Some(max) = max {
        out = binary(BinaryOp::Minimum, &out, max, dtype)?;
    }
    Ok(out)
}

pub(crate) fn clamp_min(x: &Tensor, min: Scalar) -> Result<Tensor> {
    clamp(x, Some(min), None)
}

pub(crate) fn clamp_max(x: &Tensor, max: Scalar) -> Result<Tensor> {
    clamp(x, None, Some(max))
}

// ---- compositions -----------------------------------------------------------------------------

pub(crate) fn square(x: &Tensor) -> Result<Tensor> {
    crate::ops::aten::pow_tensor_scalar(x, Scalar::Int(2))
}

pub(crate) fn addcmul(x: &Tensor, a: &Tensor, b: &Tensor, value: Scalar) -> Result<Tensor> {
    let dtype = promote(&[x, a, b])?;
    let product = binary(BinaryOp::Mul, &scaled(a, value, dtype)?, b, dtype)?;
    binary(BinaryOp::Add, x, &product, dtype)
}

pub(crate) fn addcdiv(x: &Tensor, a: &Tensor, b: &Tensor, value: Scalar) -> Result<Tensor> {
    let dtype = promote(&[x, a, b])?;
    if !dtype.is_floating() {
        return Err(Error::dtype(
            "Integer division with addcdiv is no longer supported",
        ));
    }
    let quotient = binary(BinaryOp::Div, &scaled(a, value, dtype)?, b, dtype)?;
    binary(BinaryOp::Add, x, &quotient, dtype)
}
