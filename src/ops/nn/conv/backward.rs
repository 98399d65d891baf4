//! Gradients of convolutions.

use crate::error::{Error, Result};
use crate::ops::copy;
use crate::ops::nn::conv::shape::Convolution;
use crate::ops::nn::conv::{Target, operand, unflattened};
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::Dims;
use straightline_runtime::cpu::kernels::conv;

/// The gradients of input, weight and bias, those that were asked for.
pub(crate) type Gradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn convolution_backward(
    grad: &Tensor,
    x: &Tensor,
    w: &Tensor,
    bias_sizes: Option<&[i64]>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    mask: &[bool],
) -> Result<Gradients> {
    let _ = bias_sizes; // PyTorch goes by the gradient's channels
    let &[want_x, want_w, want_b] = mask else {
        return Err(Error::runtime(format!("output_mask must have three elements, got {mask:?}")));
    };
    let c = Convolution::new(w, stride, padding, dilation, transposed, output_padding, groups)?;
    let sizes = c.sizes(x, w, None)?;
    check_gradient(grad, x, w, &sizes)?;
    let order = c.order(x, w);
    let mut grad_x = want_x.then(|| Target::new(x, x.sizes(), order)).transpose()?;
    let mut grad_w = want_w.then(|| Target::new(w, w.sizes(), order)).transpose()?;
    let any = [&grad_x, &grad_w].into_iter().flatten().any(Target::has_data);
    if any {
        let g = c.geometry(x.sizes(), w.sizes(), &sizes);
        let (grad, xc, wc) = (operand(grad)?, operand(x)?, operand(w)?);
        if let Some(t) = &mut grad_x {
            launch::run(&mut t.computed, [&grad, &wc], |out, [grad, w]| {
                let kernel = if transposed { conv::convolve } else { conv::scatter };
                Ok(kernel(&g, grad, w, None, out)?)
            })?;
        }
        if let Some(t) = &mut grad_w {
            let (from, to) = if transposed { (&grad, &xc) } else { (&xc, &grad) };
            launch::run(&mut t.computed, [from, to], |out, [from, to]| {
                Ok(conv::weight_gradient(&g, from, to, out)?)
            })?;
        }
    }
    let grad_b = want_b.then(|| bias_gradient(grad)).transpose()?;
    Ok((grad_x.map(Target::finish).transpose()?, grad_w.map(Target::finish).transpose()?, grad_b))
}

fn check_gradient(grad: &Tensor, x: &Tensor, w: &Tensor, sizes: &[i64]) -> Result<()> {
    ensure!(
        grad.dim() == x.dim(),
        "Expected input and grad_output to have the same number of dimensions, but got: {} and {}",
        x.dim(),
        grad.dim()
    );
    ensure_shape!(
        grad.sizes() == sizes,
        "the convolution's result has sizes {sizes:?}, but grad_output has {:?}",
        grad.sizes()
    );
    ensure_dtype!(
        grad.dtype() == x.dtype() && w.dtype() == x.dtype(),
        "expected one dtype, got {} for grad_output, {} for input and {} for weight",
        grad.dtype(),
        x.dtype(),
        w.dtype()
    );
    ensure_not_implemented!(
        x.dtype().is_floating(),
        "\"convolution_backward\" not implemented for '{}'",
        x.dtype().torch_name()
    );
    Ok(())
}

/// The sum over everything but the channels.
fn bias_gradient(grad: &Tensor) -> Result<Tensor> {
    let dims: Dims = (0..grad.dim() as i64).filter(|d| *d != 1).collect();
    let wide = grad.dtype().opmath();
    let sum = crate::ops::reduce::sum_dim(grad, Some(&dims), false, Some(wide))?;
    copy::to_dtype(&sum, grad.dtype())
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn slow_conv2d_backward(
    grad: &Tensor,
    x: &Tensor,
    w: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    mask: &[bool],
) -> Result<Gradients> {
    let full = unflattened(w, kernel)?;
    let (x_grad, w_grad, b_grad) =
        convolution_backward(grad, x, &full, None, stride, padding, &[1], false, &[0], 1, mask)?;
    let w_grad = match w_grad {
        Some(t) if t.sizes() != w.sizes() => Some(crate::ops::view::reshape(&t, w.sizes())?),
        other => other,
    };
    Ok((x_grad, w_grad, b_grad))
}
