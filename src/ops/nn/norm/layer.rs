//! Layer norm and rms norm.

use crate::error::{Error, Result};
use crate::ops::copy;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{Dims, layout};
use straightline_runtime::cpu::kernels::{self, RowMajor, RowStatistics};

pub(crate) fn check_normalized(
    x: &Tensor,
    shape: &[i64],
    named: &[(&str, Option<&Tensor>)],
) -> Result<usize> {
    ensure!(
        !shape.is_empty(),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
    );
    let fits = x.dim() >= shape.len() && x.sizes()[x.dim() - shape.len()..] == *shape;
    ensure_shape!(
        fits,
        "Given normalized_shape={shape:?}, expected input with shape [*, {shape:?}], but got input of size {:?}",
        x.sizes()
    );
    for (name, t) in named {
        if let Some(t) = t
            && t.sizes() != shape
        {
            return Err(Error::shape(format!(
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and normalized_shape = {shape:?}",
                t.sizes()
            )));
        }
    }
    Ok(x.dim() - shape.len())
}

/// Layer normalisation with the statistics that its backward needs: `(out, mean, rstd)`.
pub(crate) fn native_layer_norm(
    x: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let axis = check_normalized(x, shape, &[("weight", weight), ("bias", bias)])?;
    for t in [weight, bias].into_iter().flatten() {
        ensure_dtype!(
            t.dtype() == x.dtype(),
            "layer_norm: expected weight and bias of dtype {}, got {}",
            x.dtype(),
            t.dtype()
        );
    }
    ensure_not_implemented!(
        x.dtype().is_floating(),
        "layer_norm is not implemented for {} tensors",
        x.dtype()
    );
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    let mut stat_sizes = Dims::from_slice(&x.sizes()[..axis]);
    stat_sizes.extend(shape.iter().map(|_| 1));
    // the kernel writes the statistics in the type it computes in
    let wide = x.dtype().opmath();
    let mut mean = Tensor::allocate_contiguous(wide, x.device(), &stat_sizes)?;
    let mut rstd = Tensor::allocate_contiguous(wide, x.device(), &stat_sizes)?;
    if out.storage().has_data() {
        let xc = copy::to_contiguous(x)?;
        let weight = weight.map(copy::to_contiguous).transpose()?;
        let bias = bias.map(copy::to_contiguous).transpose()?;
        let (weight, bias) = (weight.as_ref(), bias.as_ref());
        let n = layout::numel(shape);
        let rows = layout::numel(&x.sizes()[..axis]);
        let (rows, row) = (RowMajor::new([rows, n]), RowMajor::new([n]));
        launch::run(
            (&mut out, [&mut mean, &mut rstd]),
            (&xc, [weight, bias]),
            |(out, [mean, rstd]), (x, [weight, bias])| {
                let statistics = RowStatistics { mean: Some(mean), rstd: Some(rstd) };
                let weight = weight.map(|w| row.input(w)).transpose()?;
                let bias = bias.map(|b| row.input(b)).transpose()?;
                let (out, x) = (rows.output(out)?, rows.input(x)?);
                Ok(kernels::layer_norm(out, statistics, x, weight, bias, eps)?)
            },
        )?;
    }
    let (mean, rstd) = (copy::to_dtype(&mean, x.dtype())?, copy::to_dtype(&rstd, x.dtype())?);
    Ok((out, mean, rstd))
}

/// `x * rsqrt(mean(x^2) + eps) * weight`.
pub(crate) fn rms_norm(
    x: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<Tensor> {
    check_normalized(x, shape, &[("weight", weight)])?;
    Ok(crate::ops::nn::norm::composite::fused_rms_norm(x, shape, weight, eps)?.0)
}
