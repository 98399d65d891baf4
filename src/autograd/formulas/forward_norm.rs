//! Forward formulas of norms over batches and groups.

use super::forward::{for_channels, present};
use super::{mul, sub};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ONE: Scalar = Scalar::Int(1);

/// All dimensions but that of the channels.
fn others(x: &Tensor) -> Vec<i64> {
    (0..x.dim() as i64).filter(|d| *d != 1).collect()
}

fn spread(t: &Tensor, x: &Tensor) -> Result<Tensor> {
    for_channels(Some(t), x)
}

/// The mean and the inverse deviation that a batch norm used, spread over its operand.
fn statistics(
    x: &Tensor,
    running: (Option<&Tensor>, Option<&Tensor>),
    own: (&Tensor, &Tensor),
    training: bool,
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let (mean, invstd) = match (training, running) {
        (false, (Some(mean), Some(var))) => {
            (mean.clone(), aten::rsqrt(&aten::add_scalar(var, Scalar::Float(eps), ONE)?)?)
        }
        (false, _) => {
            return Err(Error::runtime("a batch norm that does not train has running statistics"));
        }
        (true, _) => (own.0.clone(), own.1.clone()),
    };
    Ok((spread(&mean, x)?, spread(&invstd, x)?))
}

/// Of a batch norm, in the direction of its operand.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn batch_norm_jvp<'a>(
    t: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    running_mean: impl Into<Option<&'a Tensor>>,
    running_var: impl Into<Option<&'a Tensor>>,
    mean: &Tensor,
    invstd: &Tensor,
    training: bool,
    eps: f64,
) -> Result<Tensor> {
    let running = (running_mean.into(), running_var.into());
    let (mean, invstd) = statistics(x, running, (mean, invstd), training, eps)?;
    let mut change = t.clone();
    if training {
        let average = |t: &Tensor| aten::mean_dim(t, Some(&others(x)), true, None);
        let normal = mul(&sub(x, &mean)?, &invstd)?;
        let along = mul(&normal, &average(&mul(&normal, t)?)?)?;
        change = sub(&sub(t, &average(t)?)?, &along)?;
    }
    let change = mul(&change, &invstd)?;
    match weight {
        Some(weight) => mul(&change, &spread(weight, x)?),
        None => Ok(change),
    }
}

/// In the direction of its weight.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn batch_norm_weight_jvp<'a>(
    t: Option<&Tensor>,
    x: &Tensor,
    running_mean: impl Into<Option<&'a Tensor>>,
    running_var: impl Into<Option<&'a Tensor>>,
    mean: &Tensor,
    invstd: &Tensor,
    training: bool,
    eps: f64,
) -> Result<Tensor> {
    let running = (running_mean.into(), running_var.into());
    let (mean, invstd) = statistics(x, running, (mean, invstd), training, eps)?;
    mul(&mul(&sub(x, &mean)?, &invstd)?, &for_channels(t, x)?)
}

/// Samples and groups as rows.
fn rows(x: &Tensor, mean: &Tensor) -> Result<Tensor> {
    let rows = mean.numel();
    let each = if rows == 0 { 0 } else { x.numel() / rows };
    aten::reshape(x, &[rows, each])
}

fn column(x: &Tensor) -> Result<Tensor> {
    aten::reshape(x, &[x.numel(), 1])
}

fn average(x: &Tensor) -> Result<Tensor> {
    aten::mean_dim(x, Some(&[1]), true, None)
}

fn normal_rows(x: &Tensor, mean: &Tensor, rstd: &Tensor) -> Result<Tensor> {
    mul(&sub(&rows(x, mean)?, &column(mean)?)?, &column(rstd)?)
}

/// Of a group norm, in the direction of its operand.
pub(crate) fn group_norm_jvp(
    t: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    mean: &Tensor,
    rstd: &Tensor,
) -> Result<Tensor> {
    let (normal, t) = (normal_rows(x, mean, rstd)?, rows(t, mean)?);
    let along = mul(&normal, &average(&mul(&normal, &t)?)?)?;
    let change = mul(&sub(&sub(&t, &average(&t)?)?, &along)?, &column(rstd)?)?;
    let change = aten::reshape(&change, x.sizes())?;
    match weight {
        Some(weight) => mul(&change, &spread(weight, x)?),
        None => Ok(change),
    }
}

/// In the direction of its weight.
pub(crate) fn group_norm_weight_jvp(
    t: Option<&Tensor>,
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
) -> Result<Tensor> {
    let normal = aten::reshape(&normal_rows(x, mean, rstd)?, x.sizes())?;
    mul(&normal, &spread(&present(t)?, x)?)
}

/// Of the means of groups.
pub(crate) fn group_mean_jvp(t: &Tensor, mean: &Tensor) -> Result<Tensor> {
    aten::reshape(&average(&rows(t, mean)?)?, mean.sizes())
}

/// Of their inverse deviations.
pub(crate) fn group_rstd_jvp(
    t: &Tensor,
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
) -> Result<Tensor> {
    let normal = normal_rows(x, mean, rstd)?;
    let along = aten::reshape(&average(&mul(&normal, &rows(t, mean)?)?)?, mean.sizes())?;
    aten::neg(&mul(&along, &aten::square(rstd)?)?)
}
