//! Gradients of pooling, padding, resampling, windows and shuffles.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(crate) use crate::ops::aten::{
    _adaptive_avg_pool2d_backward, _adaptive_avg_pool3d_backward, _upsample_bicubic2d_aa,
    _upsample_bicubic2d_aa_backward, _upsample_bilinear2d_aa, _upsample_bilinear2d_aa_backward,
    _upsample_nearest_exact1d, _upsample_nearest_exact1d_backward, _upsample_nearest_exact2d,
    _upsample_nearest_exact2d_backward, _upsample_nearest_exact3d,
    _upsample_nearest_exact3d_backward, adaptive_max_pool2d_backward, adaptive_max_pool3d_backward,
    affine_grid_generator_backward, avg_pool2d, avg_pool2d_backward, avg_pool3d,
    avg_pool3d_backward, fractional_max_pool2d_backward, fractional_max_pool3d_backward,
    grid_sampler_2d_backward, grid_sampler_3d_backward, im2col, max_pool2d_with_indices_backward,
    max_pool3d_with_indices_backward, pixel_shuffle, pixel_unshuffle, reflection_pad1d,
    reflection_pad1d_backward, reflection_pad2d, reflection_pad2d_backward, reflection_pad3d,
    reflection_pad3d_backward, replication_pad1d, replication_pad1d_backward, replication_pad2d,
    replication_pad2d_backward, replication_pad3d, replication_pad3d_backward, unfold,
    upsample_bicubic2d, upsample_bicubic2d_backward, upsample_bilinear2d,
    upsample_bilinear2d_backward, upsample_linear1d, upsample_linear1d_backward,
    upsample_nearest1d, upsample_nearest1d_backward, upsample_nearest2d,
    upsample_nearest2d_backward, upsample_nearest3d, upsample_nearest3d_backward,
    upsample_trilinear3d, upsample_trilinear3d_backward,
};

/// The last `n` of a list of sizes.
fn last(sizes: &[i64], n: usize) -> Result<&[i64]> {
    sizes
        .len()
        .checked_sub(n)
        .and_then(|begin| sizes.get(begin..))
        .ok_or_else(|| Error::shape(format!("expected at least {n} dimensions, got {sizes:?}")))
}

pub(crate) fn adaptive_avg_pool2d_again(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    aten::_adaptive_avg_pool2d(grad, last(sizes, 2)?)
}

pub(crate) fn adaptive_avg_pool3d_again(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    aten::_adaptive_avg_pool3d(grad, last(sizes, 3)?)
}

/// The elements at the places that a pooling or unpooling chose; places count within the last
/// `spatial` dimensions.
pub(crate) fn at_pooled_places(grad: &Tensor, indices: &Tensor, spatial: i64) -> Result<Tensor> {
    if indices.numel() == 0 {
        let (dtype, device) = (Some(grad.dtype()), Some(grad.device()));
        return aten::zeros(indices.sizes(), dtype, None, device, None);
    }
    let rows = |t: &Tensor| aten::flatten_using_ints(t, -spatial, -1);
    let found = aten::gather(&rows(grad)?, -1, &rows(indices)?, false)?;
    aten::reshape(&found, indices.sizes())
}

/// What a pad added is cut off, and what it cut off is zeros.
pub(crate) fn constant_pad_nd_backward(grad: &Tensor, pad: &[i64]) -> Result<Tensor> {
    let back: Vec<i64> = pad.iter().map(|n| n.saturating_neg()).collect();
    aten::constant_pad_nd(grad, &back, Scalar::Int(0))
}

pub(crate) fn im2col_backward(
    grad: &Tensor,
    sizes: &[i64],
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    aten::col2im(grad, last(sizes, 2)?, kernel, dilation, padding, stride)
}

/// Rows of groups become columns, and back with as many groups as there are channels in each.
pub(crate) fn channel_shuffle_backward(grad: &Tensor, groups: i64) -> Result<Tensor> {
    let channels = grad.sizes().get(1).copied().unwrap_or(1);
    aten::channel_shuffle(grad, (channels / groups.max(1)).max(1))
}
