//! Linear algebra that is made of other operators.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_passes::ir::Scalar;

pub(crate) fn cholesky(a: &Tensor, upper: bool) -> Result<Tensor> {
    Ok(aten::linalg_cholesky_ex(a, upper, true)?.0)
}

pub(crate) fn inv(a: &Tensor) -> Result<Tensor> {
    Ok(aten::linalg_inv_ex(a, true)?.0)
}

pub(crate) fn lu_factor(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (lu, pivots, _) = aten::linalg_lu_factor_ex(a, pivot, true)?;
    Ok((lu, pivots))
}

pub(crate) fn solve_ex(
    a: &Tensor,
    b: &Tensor,
    left: bool,
    check: bool,
) -> Result<(Tensor, Tensor)> {
    let (x, _, _, info) = aten::_linalg_solve_ex(a, b, left, check)?;
    Ok((x, info))
}

pub(crate) fn solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    Ok(aten::_linalg_solve_ex(a, b, left, true)?.0)
}

pub(crate) fn det(a: &Tensor) -> Result<Tensor> {
    Ok(aten::_linalg_det(a)?.0)
}

pub(crate) fn slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let (sign, log, _, _) = aten::_linalg_slogdet(a)?;
    Ok((sign, log))
}

/// NaN where the determinant is negative.
pub(crate) fn logdet(a: &Tensor) -> Result<Tensor> {
    let (sign, log) = slogdet(a)?;
    let negative = aten::lt_scalar(&sign, Scalar::Int(0))?;
    aten::masked_fill_scalar(&log, &negative, Scalar::Float(f64::NAN))
}

pub(crate) fn svdvals(a: &Tensor, driver: Option<&str>) -> Result<Tensor> {
    Ok(aten::_linalg_svd(a, false, false, driver)?.1)
}
