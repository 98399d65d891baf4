//! Gradients of copies and of joining.

use crate::autograd::rule::Options;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;

pub(crate) use crate::ops::aten::{tril, triu};

/// The gradient of a conversion: converted back, to the device where the tensor was.
pub(crate) fn to_copy_backward(grad: &Tensor, options: Options) -> Result<Tensor> {
    let real = match grad.dtype().is_complex() && !options.dtype.is_complex() {
        true => aten::real(grad)?,
        false => grad.clone(),
    };
    if (real.dtype(), real.device()) == (options.dtype, options.device) {
        return Ok(real);
    }
    let (dtype, device) = (Some(options.dtype), Some(options.device));
    aten::_to_copy(&real, dtype, None, device, None, false, None)
}

/// The gradients of tensors that are joined: the parts.
pub(crate) fn cat_backward(grad: &Tensor, sizes: &[Vec<i64>], dim: i64) -> Result<Vec<Tensor>> {
    let at = wrap_dim(dim, grad.dim())?;
    let mut start = 0;
    let part = |sizes: &Vec<i64>| match sizes[..] {
        // which joins with tensors of any sizes
        [0] if grad.dim() != 1 => aten::new_zeros(grad, &[0], None, None, None, None),
        _ => {
            let length = sizes[at];
            start += length;
            aten::narrow(grad, at as i64, start - length, length)
        }
    };
    sizes.iter().map(part).collect()
}

/// The gradients of tensors that are stacked.
pub(crate) fn unbind_gradient(grad: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    aten::unbind_int(grad, dim)
}

/// The gradient of a number that went everywhere.
pub(crate) fn sum_all(grad: &Tensor) -> Result<Tensor> {
    aten::sum(grad, None)
}
