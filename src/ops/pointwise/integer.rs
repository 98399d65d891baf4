//! Rare functions of integers, or of all dtypes: divisors, `fmax`, `heaviside`.

use crate::error::Result;
use crate::ops::common::promote;
use crate::ops::pointwise;
use crate::ops::pointwise::special::{in_place, unsupported, zip};
use crate::ops::pointwise::zip_with;
use crate::tensor::Tensor;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::special as kernels;
use straightline_runtime::cpu::math::special as math;

/// `f` of two tensors of integers or bool.
fn zip_integers(
    a: &Tensor,
    b: &Tensor,
    dtype: DType,
    f: &(dyn Fn(i64, i64) -> i64 + Sync),
) -> Result<Tensor> {
    zip_with(a, b, dtype, |out, [a, b]| Ok(kernels::zip_integers(out, a, b, f)?))
}

/// The common dtype of operands that must be integers.
fn integers(a: &Tensor, b: &Tensor, name: &str) -> Result<DType> {
    let dtype = promote(&[a, b])?;
    if dtype.is_floating() || dtype == DType::Bool {
        return Err(unsupported(name, dtype));
    }
    Ok(dtype)
}

pub(crate) fn gcd(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip_integers(a, b, integers(a, b, "gcd")?, &math::gcd)
}

pub(crate) fn lcm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip_integers(a, b, integers(a, b, "lcm")?, &math::lcm)
}

pub(crate) fn fmax(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let dtype = pointwise::ordered(a, b, "fmax")?;
    if dtype == DType::BF16 {
        // of zeros of either sign PyTorch's gives the second here
        return zip(a, b, dtype, &|x, y| math::fmax(y, x));
    }
    if dtype.is_floating() {
        return zip(a, b, dtype, &math::fmax);
    }
    zip_integers(a, b, dtype, &i64::max)
}

pub(crate) fn fmin(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let dtype = pointwise::ordered(a, b, "fmin")?;
    if dtype == DType::BF16 {
        // of zeros of either sign PyTorch's gives the second here
        return zip(a, b, dtype, &|x, y| math::fmin(y, x));
    }
    if dtype.is_floating() {
        return zip(a, b, dtype, &math::fmin);
    }
    zip_integers(a, b, dtype, &i64::min)
}

pub(crate) fn heaviside(x: &Tensor, at_zero: &Tensor) -> Result<Tensor> {
    ensure!(
        x.dtype() == at_zero.dtype(),
        "heaviside is not yet implemented for tensors with different dtypes."
    );
    if x.dtype().is_floating() {
        return zip(x, at_zero, x.dtype(), &math::heaviside);
    }
    zip_integers(x, at_zero, x.dtype(), &|x, at_zero| match x {
        0 => at_zero,
        _ => i64::from(x > 0),
    })
}

macro_rules! in_place_forms {
    ($($inplace:ident $of:ident),*) => {$(
        pub(crate) fn $inplace(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            in_place(a, &[b], || $of(a, b))
        }
    )*};
}
in_place_forms!(gcd_ gcd, lcm_ lcm, heaviside_ heaviside);
