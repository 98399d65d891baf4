//! Pools that are made of others: those of sequences, maximum pools without positions, adaptive
//! averages.

use super::check;
use super::layout::{check_floating, check_input};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::MemoryFormat;

fn check_rank(what: &str, x: &Tensor) -> Result<()> {
    check!(
        x.dim() == 2 || x.dim() == 3,
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for {what})",
        x.dim()
    );
    Ok(())
}

fn check_one(what: &str, name: &str, values: &[i64]) -> Result<()> {
    check!(
        values.len() == 1,
        "{what}() argument '{name}' should contain one int (got {})",
        values.len()
    );
    Ok(())
}

/// A row above: the arguments of the two-dimensional operator.
fn with_row(first: i64, values: &[i64]) -> [i64; 2] {
    [first, values.first().copied().unwrap_or(first)]
}

pub(crate) fn avg_pool1d(
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<Tensor> {
    let what = "avg_pool1d";
    let stride = if stride.is_empty() { kernel } else { stride };
    check_rank(what, x)?;
    check_one(what, "kernel_size", kernel)?;
    check_one(what, "stride", stride)?;
    check_one(what, "padding", padding)?;
    let out = aten::avg_pool2d(
        &aten::unsqueeze(x, -2)?,
        &with_row(1, kernel),
        &with_row(1, stride),
        &with_row(0, padding),
        ceil_mode,
        count_include_pad,
        None,
    )?;
    aten::squeeze_dim(&out, -2)
}

pub(crate) fn max_pool1d_with_indices(
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let what = "max_pool1d";
    let stride = if stride.is_empty() { kernel } else { stride };
    check_rank(what, x)?;
    check_one(what, "kernel_size", kernel)?;
    check_one(what, "stride", stride)?;
    check_one(what, "padding", padding)?;
    check_one(what, "dilation", dilation)?;
    let (out, indices) = aten::max_pool2d_with_indices(
        &aten::unsqueeze(x, -2)?,
        &with_row(1, kernel),
        &with_row(1, stride),
        &with_row(0, padding),
        &with_row(1, dilation),
        ceil_mode,
    )?;
    Ok((aten::squeeze_dim(&out, -2)?, aten::squeeze_dim(&indices, -2)?))
}

pub(crate) fn max_pool1d(
    x: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    check_input("max_pool1d", x, 1)?;
    check_floating("max_pool1d", x)?;
    let (out, _) = aten::max_pool1d_with_indices(x, kernel, stride, padding, dilation, ceil_mode)?;
    // PyTorch's kernel of one dimension writes rows whatever the input's layout
    aten::contiguous(&out, MemoryFormat::Contiguous)
}

pub(crate) fn adaptive_avg_pool1d(x: &Tensor, output: &[i64]) -> Result<Tensor> {
    let what = "adaptive_avg_pool1d";
    check_rank(what, x)?;
    check_one(what, "output_size", output)?;
    let out = aten::adaptive_avg_pool2d(&aten::unsqueeze(x, -2)?, &with_row(1, output))?;
    aten::squeeze_dim(&out, -2)
}

pub(crate) fn adaptive_max_pool1d(x: &Tensor, output: &[i64]) -> Result<(Tensor, Tensor)> {
    let what = "adaptive_max_pool1d";
    check_rank(what, x)?;
    check_one(what, "output_size", output)?;
    check!(
        x.sizes().iter().skip(1).all(|s| *s > 0),
        "{what}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {:?}",
        x.sizes()
    );
    let (out, indices) = aten::adaptive_max_pool2d(&aten::unsqueeze(x, -2)?, &with_row(1, output))?;
    Ok((aten::squeeze_dim(&out, -2)?, aten::squeeze_dim(&indices, -2)?))
}

/// One output position is the mean of everything.
fn adaptive_avg_pool(
    what: &str,
    x: &Tensor,
    output: &[i64],
    dims: &[i64],
    pool: fn(&Tensor, &[i64]) -> Result<Tensor>,
) -> Result<Tensor> {
    check!(
        output.len() == dims.len(),
        "{what}: output_size must be {}, got {output:?}",
        dims.len()
    );
    check!(
        output.iter().all(|o| *o >= 0),
        "{what}: elements of output_size must be greater than or equal to 0 but received {output:?}"
    );
    if output.iter().all(|o| *o == 1) {
        return aten::mean_dim(x, Some(dims), true, None);
    }
    pool(x, output)
}

pub(crate) fn adaptive_avg_pool2d(x: &Tensor, output: &[i64]) -> Result<Tensor> {
    let pool = aten::_adaptive_avg_pool2d;
    adaptive_avg_pool("adaptive_avg_pool2d", x, output, &[-1, -2], pool)
}

pub(crate) fn adaptive_avg_pool3d(x: &Tensor, output: &[i64]) -> Result<Tensor> {
    let pool = aten::_adaptive_avg_pool3d;
    adaptive_avg_pool("adaptive_avg_pool3d", x, output, &[-1, -2, -3], pool)
}
