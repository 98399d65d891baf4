//! Gradients of convolutions.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(crate) use crate::ops::aten::{_slow_conv2d_backward_output_mask, convolution_backward};

/// Of an input, a weight and a bias, or of a gradient, an input and a weight.
type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn mkldnn_convolution_backward(
    grad: &Tensor,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&[i64]>,
    padding: &[i64],
    stride: &[i64],
    dilation: &[i64],
    groups: i64,
    mask: &[bool],
) -> Result<Three> {
    let none = vec![0; padding.len()];
    convolution_backward(grad, x, w, bias, stride, padding, dilation, false, &none, groups, mask)
}

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn slow_conv3d_backward(
    grad: &Tensor,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&[i64]>,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    mask: &[bool],
) -> Result<Three> {
    let (dilation, none) = ([1; 3], [0; 3]);
    let full = unflattened(w, kernel)?;
    let (of_x, of_w, of_b) = convolution_backward(
        grad, x, &full, bias, stride, padding, &dilation, false, &none, 1, mask,
    )?;
    Ok((of_x, flattened(of_w, w)?, of_b))
}

/// A weight of which the last dimensions may have been made one.
fn unflattened(w: &Tensor, kernel: &[i64]) -> Result<Tensor> {
    if w.dim() != 2 {
        return Ok(w.clone());
    }
    let places: i64 = kernel.iter().product();
    let mut sizes = vec![w.sizes()[0], w.sizes()[1] / places.max(1)];
    sizes.extend_from_slice(kernel);
    aten::reshape(w, &sizes)
}

fn flattened(of_w: Option<Tensor>, w: &Tensor) -> Result<Option<Tensor>> {
    match of_w {
        Some(t) if t.sizes() != w.sizes() => Ok(Some(aten::reshape(&t, w.sizes())?)),
        t => Ok(t),
    }
}

/// The sum of those that there are.
fn sum(terms: [Option<Tensor>; 2]) -> Result<Option<Tensor>> {
    match terms {
        [Some(a), Some(b)] => Ok(Some(aten::add_tensor(&a, &b, Scalar::Int(1))?)),
        [a, b] => Ok(a.or(b)),
    }
}

/// Of the three gradients of a convolution with respect to the gradient that came in, the input and
/// the weight. A convolution is linear in each of input, weight and bias, so that these are
/// convolutions and gradients of convolutions again.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn convolution_double_backward(
    grads: &[Option<Tensor>],
    grad_output: &Tensor,
    x: &Tensor,
    w: &Tensor,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    mask: &[bool],
) -> Result<Three> {
    let given = |i: usize| grads.get(i).and_then(Option::as_ref);
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let (by_x, by_w, by_b) = (given(0), given(1), given(2));
    let convolve = |x: &Tensor, w: &Tensor, b: Option<&Tensor>| {
        aten::convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups)
    };
    let back = |x: &Tensor, w: &Tensor, mask: [bool; 3]| {
        aten::convolution_backward(
            grad_output,
            x,
            w,
            None,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            &mask,
        )
    };
    let mut of_grad = None;
    if wanted(0) {
        // the bias goes along with a convolution where there is one
        let first = by_x.map(|v| convolve(v, w, by_b)).transpose()?;
        let rest = by_b.filter(|_| first.is_none());
        let second = by_w.map(|v| convolve(x, v, rest)).transpose()?;
        of_grad = sum([first, second])?;
        if let (None, Some(b)) = (&of_grad, by_b) {
            let mut sizes = vec![1; grad_output.dim()];
            if let Some(channels) = sizes.get_mut(1) {
                *channels = -1;
            }
            let b = aten::reshape(b, &sizes)?;
            of_grad = Some(aten::expand(&b, grad_output.sizes(), false)?);
        }
    }
    let of_x = match by_w.filter(|_| wanted(1)) {
        Some(v) => back(x, v, [true, false, false])?.0,
        None => None,
    };
    let of_w = match by_x.filter(|_| wanted(2)) {
        Some(v) => back(v, w, [false, true, false])?.1,
        None => None,
    };
    Ok((of_grad, of_x, of_w))
}

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn slow_conv2d_double_backward(
    grads: &[Option<Tensor>],
    grad_output: &Tensor,
    x: &Tensor,
    w: &Tensor,
    kernel: &[i64],
    stride: &[i64],
    padding: &[i64],
    mask: &[bool],
) -> Result<Three> {
    let full = unflattened(w, kernel)?;
    let mut grads = grads.to_vec();
    if let Some(Some(by_w)) = grads.get_mut(1) {
        *by_w = unflattened(by_w, kernel)?;
    }
    let (of_grad, of_x, of_w) = convolution_double_backward(
        &grads,
        grad_output,
        x,
        &full,
        stride,
        padding,
        &[1, 1],
        false,
        &[0, 0],
        1,
        mask,
    )?;
    Ok((of_grad, of_x, flattened(of_w, w)?))
}
