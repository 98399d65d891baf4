//! Gradients of Fourier transforms, which are transforms the other way.

use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// The dimension that a transform of real numbers halves: the last one in the list.
fn halved(x: &Tensor, dim: &[i64]) -> Result<usize> {
    wrap_dim(dim.last().copied().unwrap_or(-1), x.dim())
}

pub(crate) fn fft_c2c_backward(
    grad: &Tensor,
    dim: &[i64],
    normalization: i64,
    forward: bool,
) -> Result<Tensor> {
    aten::_fft_c2c(grad, dim, normalization, !forward)
}

/// The gradient of a transform of real numbers: the real part of the inverse one, of the half that
/// there is and zeros.
pub(crate) fn fft_r2c_backward(
    grad: &Tensor,
    dim: &[i64],
    normalization: i64,
    onesided: bool,
    sizes: &[i64],
) -> Result<Tensor> {
    let mut whole = grad.clone();
    if onesided {
        let last = halved(grad, dim)?;
        let missing = sizes[last] - grad.sizes()[last];
        if missing > 0 {
            let mut pad = vec![0; 2 * (grad.dim() - last)];
            if let Some(after) = pad.last_mut() {
                *after = missing;
            }
            whole = aten::constant_pad_nd(grad, &pad, Scalar::Int(0))?;
        }
    }
    aten::real(&aten::_fft_c2c(&whole, dim, normalization, false)?)
}

/// The gradient of a transform to real numbers: the transform of these, in which all but the
/// numbers without a mirror image count twice.
pub(crate) fn fft_c2r_backward(grad: &Tensor, dim: &[i64], normalization: i64) -> Result<Tensor> {
    let half = aten::_fft_r2c(grad, dim, normalization, true)?;
    let last = halved(grad, dim)?;
    let length = half.sizes()[last];
    let twice = grad.sizes()[last] - length;
    if twice <= 0 {
        return Ok(half);
    }
    let times = |n: i64, factor: i64| {
        aten::new_full(grad, &[n], Scalar::Int(factor), None, None, None, None)
    };
    let factors = [times(1, 1)?, times(twice, 2)?, times(length - 1 - twice, 1)?];
    let mut sizes = vec![1; grad.dim()];
    sizes[last] = length;
    aten::mul_tensor(&half, &aten::reshape(&aten::cat(&factors, 0)?, &sizes)?)
}
