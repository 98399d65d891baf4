//! Standard deviation and variance in their other forms, alone and with the mean.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

fn correction(unbiased: bool) -> Option<Scalar> {
    Some(Scalar::Int(i64::from(unbiased)))
}

pub(crate) fn std(x: &Tensor, unbiased: bool) -> Result<Tensor> {
    aten::std_correction(x, None, correction(unbiased), false)
}

pub(crate) fn std_dim(
    x: &Tensor,
    dims: Option<&[i64]>,
    unbiased: bool,
    keepdim: bool,
) -> Result<Tensor> {
    aten::std_correction(x, dims, correction(unbiased), keepdim)
}

fn check(x: &Tensor, op: &str) -> Result<()> {
    if x.dtype().is_floating() || x.dtype().is_complex() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "{op} only support floating point and complex dtypes"
    )))
}

pub(crate) fn std_mean_correction(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    check(x, "std_mean")?;
    let std = aten::std_correction(x, dims, correction, keepdim)?;
    Ok((std, aten::mean_dim(x, dims, keepdim, None)?))
}

pub(crate) fn var_mean_correction(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    check(x, "var_mean")?;
    let var = aten::var_correction(x, dims, correction, keepdim)?;
    Ok((var, aten::mean_dim(x, dims, keepdim, None)?))
}

macro_rules! unbiased_forms {
    ($($all:ident $dim:ident $of:ident),*) => {$(
        pub(crate) fn $all(x: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
            aten::$of(x, None, correction(unbiased), false)
        }
        pub(crate) fn $dim(
            x: &Tensor,
            dims: Option<&[i64]>,
            unbiased: bool,
            keepdim: bool,
        ) -> Result<(Tensor, Tensor)> {
            aten::$of(x, dims, correction(unbiased), keepdim)
        }
    )*};
}
unbiased_forms!(
    std_mean std_mean_dim std_mean_correction,
    var_mean var_mean_dim var_mean_correction
);
