//! Element-wise operators on each component.

use super::{build, components, map};
use crate::error::{Error, Result};
use crate::ops::pointwise;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// A function of each component.
pub(crate) fn on_components(t: &Tensor, f: fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    map(t, f)
}

pub(crate) fn gelu(t: &Tensor, approximate: &str) -> Result<Tensor> {
    map(t, |p| pointwise::gelu(p, approximate))
}

/// Component with component; or each component with a number, or with its part of a dense `[batch,
/// 1, ..]` tensor.
fn binary(
    name: &str,
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    match (a.is_nested(), b.is_nested()) {
        (true, true) => {
            let (ca, cb) = (components(a)?, components(b)?);
            ensure!(
                ca.len() == cb.len() && a.dim() == b.dim(),
                "{name} does not support broadcasting when given a NestedTensor"
            );
            let fits = |(x, y): (&Tensor, &Tensor)| x.sizes() == y.sizes();
            ensure!(
                ca.iter().zip(cb).all(fits),
                "{name} does not support broadcasting when given a NestedTensor: the components' sizes differ"
            );
            let made: Vec<Tensor> =
                ca.iter().zip(cb).map(|(x, y)| f(x, y)).collect::<Result<_>>()?;
            let dtype = made.first().map_or(a.dtype(), Tensor::dtype);
            Ok(build(made, dtype, a.device()))
        }
        // a number, as a 0-dim tensor or of one element
        (true, false) if b.dim() == 0 => map(a, |p| f(p, b)),
        (false, true) if a.dim() == 0 => map(b, |p| f(a, p)),
        (true, false) => Err(Error::runtime(
            "Expected both self and other to be nested, but got a nested self and non-nested other",
        )),
        _ => Err(Error::runtime(
            "Expected both self and other to be nested, but got a non-nested self and nested other",
        )),
    }
}

pub(crate) fn add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    binary("add", a, b, |x, y| pointwise::add(x, y, alpha))
}

pub(crate) fn sub(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    binary("sub", a, b, |x, y| pointwise::sub(x, y, alpha))
}

pub(crate) fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary("mul", a, b, pointwise::mul)
}

pub(crate) fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary("div", a, b, pointwise::div)
}

pub(crate) fn mul_scalar(a: &Tensor, by: Scalar) -> Result<Tensor> {
    map(a, |p| pointwise::mul_scalar(p, by))
}

pub(crate) fn div_scalar(a: &Tensor, by: Scalar) -> Result<Tensor> {
    map(a, |p| pointwise::div_scalar(p, by))
}
