//! Special functions: gamma and its kin, Bessel functions, inverses of error functions; and rare
//! functions of two operands.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{check_can_cast, float_of, promote};
use crate::ops::copy;
use crate::ops::copy::laid_out_like;
use crate::ops::pointwise;
use crate::ops::pointwise::complex_functions;
use crate::tensor::launch;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::special as kernels;
use straightline_runtime::cpu::math::special as math;

/// `f` of each element, computed in floating point and delivered in `dtype`.
fn map(x: &Tensor, dtype: DType, f: &(dyn Fn(f64) -> f64 + Sync)) -> Result<Tensor> {
    let mut out = pointwise::result(Dims::from_slice(x.sizes()), dtype, &[x])?;
    let x = pointwise::cast(x, float_of(x.dtype()))?;
    launch::run(&mut out, &x, |out, x| Ok(kernels::map(out, x, f)?))?;
    Ok(out)
}

fn unary(x: &Tensor, f: &(dyn Fn(f64) -> f64 + Sync)) -> Result<Tensor> {
    map(x, float_of(x.dtype()), f)
}

/// `f` of two floating-point tensors.
pub(crate) fn zip(
    a: &Tensor,
    b: &Tensor,
    dtype: DType,
    f: &(dyn Fn(f64, f64) -> f64 + Sync),
) -> Result<Tensor> {
    pointwise::zip_with(a, b, dtype, |out, [a, b]| Ok(kernels::zip(out, a, b, f)?))
}

/// Stores the result of other operators in the tensor that it replaces, by an operator.
pub(crate) fn write_back(x: &Tensor, result: &Tensor) -> Result<Tensor> {
    check_can_cast(result.dtype(), x.dtype())?;
    aten::copy_(x, result, false)
}

/// Stores the result of a functional variant, which reads the operands, in the tensor that it
/// replaces.
pub(crate) fn in_place(
    x: &Tensor,
    operands: &[&Tensor],
    result: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    let _whole = access::in_place(x, operands)?;
    let result = &result()?;
    check_can_cast(result.dtype(), x.dtype())?;
    ensure_shape!(
        result.sizes() == x.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        x.sizes(),
        result.sizes()
    );
    copy::copy_(x, result, false)
}

pub(crate) fn unsupported(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{name}_cpu\" not implemented for {}", dtype.torch_name()))
}

/// Of the functions that PyTorch has for `f32` and `f64` only.
fn no_halves(x: &Tensor, name: &str) -> Result<()> {
    match x.dtype() {
        DType::F16 | DType::BF16 => Err(unsupported(name, x.dtype())),
        _ => Ok(()),
    }
}

macro_rules! full_functions {
    ($($name:ident = $f:expr),* $(,)?) => {$(
        pub(crate) fn $name(x: &Tensor) -> Result<Tensor> {
            no_halves(x, stringify!($name))?;
            unary(x, &$f)
        }
    )*};
}
full_functions!(
    bessel_j0 = math::j0,
    bessel_j1 = math::j1,
    spherical_bessel_j0 = math::spherical_j0,
    erfcx = math::erfcx,
    ndtri = math::ndtri,
    log_ndtr = math::log_ndtr,
    airy_ai = math::airy_ai,
    bessel_y0 = math::y0,
    bessel_y1 = math::y1,
    modified_bessel_i0 = math::i0,
    modified_bessel_i1 = math::i1,
    modified_bessel_k0 = math::k0,
    modified_bessel_k1 = math::k1,
    scaled_modified_bessel_k0 = math::k0e,
    scaled_modified_bessel_k1 = math::k1e,
);

macro_rules! unary_functions {
    ($($name:ident $($inplace:ident)? = $f:expr),* $(,)?) => {$(
        pub(crate) fn $name(x: &Tensor) -> Result<Tensor> {
            unary(x, &$f)
        }
        $(pub(crate) fn $inplace(x: &Tensor) -> Result<Tensor> {
            check_can_cast(float_of(x.dtype()), x.dtype())?;
            in_place(x, &[], || $name(x))
        })?
    )*};
}
unary_functions!(
    digamma digamma_ = math::digamma,
    lgamma lgamma_ = math::lgamma,
    erfinv erfinv_ = math::erfinv,
    i0 i0_ = math::i0,
    i0e = math::i0e,
    i1 = math::i1,
    i1e = math::i1e,
    entr = math::entr,
);

pub(crate) fn sinc(x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_complex() {
        true => complex_functions::sinc(x),
        false => unary(x, &math::sinc),
    }
}

pub(crate) fn sinc_(x: &Tensor) -> Result<Tensor> {
    in_place(x, &[], || sinc(x))
}

pub(crate) fn signbit(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return pointwise::lt_scalar(x, Scalar::Int(0));
    }
    map(x, DType::Bool, &|x| f64::from(u8::from(x.is_sign_negative())))
}

pub(crate) fn logit(x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    // the limits are numbers of the result's dtype
    let dtype = float_of(x.dtype());
    let round = |e: f64| Scalar::Float(e).cast(dtype).as_f64();
    if let Some(eps) = eps {
        crate::ops::common::check_fits(Scalar::Float(eps), dtype)?;
    }
    let low = eps.map(round);
    let high = low.map(|e| round(1.0 - e));
    unary(x, &|x| match (low, high) {
        (Some(low), _) if x < low => math::logit(low),
        (_, Some(high)) if x > high => math::logit(high),
        _ => math::logit(x),
    })
}

pub(crate) fn logit_(x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    in_place(x, &[], || logit(x, eps))
}

pub(crate) fn polygamma(n: i64, x: &Tensor) -> Result<Tensor> {
    ensure!(n >= 0, "polygamma(n, x) does not support negative n.");
    match float_of(x.dtype()) {
        DType::F64 => unary(x, &|x| math::polygamma(n, x)),
        _ => unary(x, &|x| math::polygamma_of_single(n, x)),
    }
}

/// [`polygamma_`] for capture: the functional operator takes its arguments in another order.
pub(crate) fn polygamma_composed(x: &Tensor, n: i64) -> Result<Tensor> {
    write_back(x, &aten::polygamma(n, x)?)
}

pub(crate) fn polygamma_(x: &Tensor, n: i64) -> Result<Tensor> {
    in_place(x, &[], || polygamma(n, x))
}

/// A fraction of size `1/2 .. 1` and a power of 2 for each element.
pub(crate) fn frexp(x: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(x.dtype().is_floating(), "torch.frexp() only supports floating-point dtypes");
    let sizes = || Dims::from_slice(x.sizes());
    let mut mantissa = pointwise::result(sizes(), x.dtype(), &[x])?;
    let mut exponent = pointwise::result(sizes(), DType::I32, &[x])?;
    launch::run([&mut mantissa, &mut exponent], x, |[mantissa, exponent], x| {
        Ok(kernels::frexp(mantissa, exponent, x)?)
    })?;
    Ok((laid_out_like(mantissa, x)?, laid_out_like(exponent, x)?))
}

// ---- two operands -----------------------------------------------------------------------------

/// Functions that integers are promoted for, and such that refuse them.
macro_rules! binary_functions {
    ($($name:ident $promotes:literal $($inplace:ident)? = $f:expr),* $(,)?) => {$(
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            let dtype = promote(&[a, b])?;
            let lacks = (!$promotes && !dtype.is_floating())
                || (stringify!($name) == "zeta" && matches!(dtype, DType::F16 | DType::BF16));
            if lacks {
                return Err(unsupported(stringify!($name), dtype));
            }
            zip(a, b, float_of(dtype), &$f)
        }
        $(pub(crate) fn $inplace(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            in_place(a, &[b], || $name(a, b))
        })?
    )*};
}
binary_functions!(
    zeta true = math::zeta,
    igamma false igamma_ = math::igamma,
    igammac false igammac_ = math::igammac,
    hypot false hypot_ = f64::hypot,
    copysign true copysign_ = math::copysign,
    logaddexp2 false = math::logaddexp2,
);

pub(crate) fn logaddexp(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match promote(&[a, b])? {
        dtype if dtype.is_floating() => zip(a, b, dtype, &math::logaddexp),
        dtype if dtype.is_complex() => complex_functions::logaddexp(a, b, dtype),
        dtype => Err(unsupported("logaddexp", dtype)),
    }
}

pub(crate) fn nextafter(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let dtype = promote(&[a, b])?;
    let next = match dtype {
        DType::F64 => math::nextafter,
        DType::F32 => math::nextafter_f32,
        DType::F16 => math::nextafter_f16,
        DType::BF16 => math::nextafter_bf16,
        other => return Err(unsupported("nextafter", other)),
    };
    zip(a, b, dtype, &next)
}

pub(crate) fn nextafter_(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    in_place(a, &[b], || nextafter(a, b))
}

/// A number as an operand of a kernel, on the device of the other.
pub(crate) fn number(s: Scalar, like: &Tensor) -> Result<Tensor> {
    crate::ops::create::factory::on_device_of(&Tensor::wrapped_number(s)?, like)
}

pub(crate) fn copysign_scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
    copysign(a, &number(b, a)?)
}

pub(crate) fn copysign_scalar_(a: &Tensor, b: Scalar) -> Result<Tensor> {
    copysign_(a, &number(b, a)?)
}

pub(crate) fn zeta_other_scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
    zeta(a, &number(b, a)?)
}

pub(crate) fn zeta_self_scalar(a: Scalar, b: &Tensor) -> Result<Tensor> {
    zeta(&number(a, b)?, b)
}

// ---- made of others ---------------------------------------------------------------------------

/// A result that PyTorch allocates as `empty_like` does.
fn like(x: &Tensor, result: Tensor) -> Result<Tensor> {
    let strides = layout::preserved_strides(x.sizes(), x.strides());
    if result.strides() == strides.as_slice() {
        return Ok(result);
    }
    aten::as_strided(&result, x.sizes(), &strides, None)
}

pub(crate) fn deg2rad(x: &Tensor) -> Result<Tensor> {
    like(x, aten::mul_scalar(x, Scalar::Float(std::f64::consts::PI / 180.0))?)
}

pub(crate) fn deg2rad_(x: &Tensor) -> Result<Tensor> {
    aten::mul_scalar_(x, Scalar::Float(std::f64::consts::PI / 180.0))
}

pub(crate) fn rad2deg(x: &Tensor) -> Result<Tensor> {
    like(x, aten::mul_scalar(x, Scalar::Float(180.0 / std::f64::consts::PI))?)
}

pub(crate) fn rad2deg_(x: &Tensor) -> Result<Tensor> {
    aten::mul_scalar_(x, Scalar::Float(180.0 / std::f64::consts::PI))
}

/// Rounded at a decimal place, half to even.
pub(crate) fn round_decimals(x: &Tensor, decimals: i64) -> Result<Tensor> {
    if !x.dtype().is_floating() {
        return Err(unsupported("round", x.dtype()));
    }
    let places = decimals.unsigned_abs().min(400) as i32;
    let ten = Scalar::Float(10f64.powi(places)).cast(x.dtype());
    type ByNumber = fn(&Tensor, Scalar) -> Result<Tensor>;
    let (to, back): (ByNumber, ByNumber) = match decimals < 0 {
        true => (aten::div_scalar, aten::mul_scalar),
        false => (aten::mul_scalar, aten::div_scalar),
    };
    back(&aten::round(&to(x, ten)?)?, ten)
}

pub(crate) fn round_decimals_(x: &Tensor, decimals: i64) -> Result<Tensor> {
    write_back(x, &round_decimals(x, decimals)?)
}

/// The logarithm of the multivariate gamma function of dimension `p`.
pub(crate) fn mvlgamma(x: &Tensor, p: i64) -> Result<Tensor> {
    ensure!(x.dtype() != DType::Bool, "The input tensor may not be a boolean tensor.");
    if p < 1 {
        return Err(Error::runtime("p has to be greater than or equal to 1"));
    }
    let half = -0.5 * (p - 1) as f64;
    let steps = aten::arange_start_step(
        Scalar::Float(half),
        Scalar::Float(0.5),
        Scalar::Float(0.5),
        Some(float_of(x.dtype())),
        None,
        Some(x.device()),
        None,
    )?;
    let arguments = aten::add_tensor(&steps, &aten::unsqueeze(x, -1)?, Scalar::Int(1))?;
    let sum = aten::sum_dim_int_list(&aten::lgamma(&arguments)?, Some(&[-1]), false, None)?;
    let constant = (p as f64) * (p - 1) as f64 * std::f64::consts::PI.ln() * 0.25;
    aten::add_scalar(&sum, Scalar::Float(constant), Scalar::Int(1))
}

pub(crate) fn mvlgamma_(x: &Tensor, p: i64) -> Result<Tensor> {
    write_back(x, &mvlgamma(x, p)?)
}
