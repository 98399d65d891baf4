//! Convolutions and their gradients.

use super::{Call, Made, with_workspace};
use crate::dispatch::Value;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::nn::conv::backward::convolution_backward;
use crate::ops::nn::conv::shape::Convolution as Shape;
use crate::ops::nn::conv::{convolution, unflattened};
use crate::tensor::{Tensor, access};
use straightline_catalog::{Dims, Op, args};
use straightline_cuda::convolution::{
    Convolution, ConvolutionError, Direction, Geometry, Operand, computes, convolve,
    workspace_bytes,
};
use straightline_cuda::products::Vector;

/// The arguments that all of them have.
struct Numbers {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    transposed: bool,
    output_padding: Vec<i64>,
    groups: i64,
}

impl Numbers {
    fn plain(rank: usize, stride: Vec<i64>, padding: Vec<i64>) -> Numbers {
        let (dilation, output_padding) = (vec![1; rank], vec![0; rank]);
        Numbers { stride, padding, dilation, transposed: false, output_padding, groups: 1 }
    }
}

/// The three tensors of a convolution; those of a transposed one are those of which it is the gradient.
struct Tensors<'a> {
    input: &'a Tensor,
    weight: &'a Tensor,
    output: &'a Tensor,
}

/// A convolution's operands, and its numbers; `None` for what the CPU refuses.
fn read(call: &Call<'_>) -> Option<(Tensor, Tensor, Option<Tensor>, Numbers)> {
    match call.known {
        Op::_slow_conv2d_forward | Op::slow_conv3d_forward => {
            // both have these arguments
            let a: args::_slow_conv2d_forward<Tensor> = call.read()?;
            let w = slow_weight(&a.self_, &a.weight, &a.kernel_size)?;
            let numbers = Numbers::plain(a.kernel_size.len(), a.stride, a.padding);
            Some((a.self_, w, a.bias, numbers))
        }
        Op::mkldnn_convolution => {
            let a: args::mkldnn_convolution<Tensor> = call.read()?;
            let numbers = Numbers {
                stride: a.stride,
                padding: a.padding,
                dilation: a.dilation,
                transposed: false,
                output_padding: vec![0],
                groups: a.groups,
            };
            Some((a.self_, a.weight, a.bias, numbers))
        }
        // `_convolution` has settings of libraries behind these
        _ => {
            let a: args::convolution<Tensor> = call.read_first(9)?;
            let numbers = Numbers {
                stride: a.stride,
                padding: a.padding,
                dilation: a.dilation,
                transposed: a.transposed,
                output_padding: a.output_padding,
                groups: a.groups,
            };
            Some((a.input, a.weight, a.bias, numbers))
        }
    }
}

pub(super) fn forward(call: &Call<'_>) -> Made {
    let Some((x, w, bias, numbers)) = read(call) else { return Ok(None) };
    let (x, bias) = (&x, bias.as_ref());
    if !computes(x.dtype()) {
        return Ok(None);
    }
    let n = &numbers;
    let out = convolution(
        x,
        &w,
        bias,
        &n.stride,
        &n.padding,
        &n.dilation,
        n.transposed,
        &n.output_padding,
        n.groups,
    )?;
    let (direction, tensors) = match n.transposed {
        true => (Direction::Input, Tensors { input: &out, weight: &w, output: x }),
        false => (Direction::Output, Tensors { input: x, weight: &w, output: &out }),
    };
    let done = queue(call, direction, &tensors, bias, &shape(&w, n)?)?;
    Ok(done.then(|| vec![Value::Tensor(out)]))
}

/// A weight that may be flat; `None` for what the CPU refuses.
fn slow_weight(x: &Tensor, w: &Tensor, kernel: &[i64]) -> Option<Tensor> {
    unflattened(w, kernel).ok().filter(|_| x.dim() == kernel.len() + 2)
}

fn shape(w: &Tensor, n: &Numbers) -> Result<Shape> {
    let Numbers { transposed, groups, .. } = *n;
    Shape::new(w, &n.stride, &n.padding, &n.dilation, transposed, &n.output_padding, groups)
}

fn values(all: [Option<Tensor>; 3]) -> Vec<Value> {
    all.map(|t| t.map_or(Value::None, Value::Tensor)).into()
}

pub(super) fn backward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::convolution_backward<Tensor>>() else { return Ok(None) };
    let numbers = Numbers {
        stride: a.stride,
        padding: a.padding,
        dilation: a.dilation,
        transposed: a.transposed,
        output_padding: a.output_padding,
        groups: a.groups,
    };
    let of = [&a.grad_output, &a.input, &a.weight];
    Ok(gradients(call, of, &numbers, &a.output_mask)?.map(values))
}

pub(super) fn slow_backward(call: &Call<'_>) -> Made {
    let read = call.read::<args::_slow_conv2d_backward_output_mask<Tensor>>();
    let Some(a) = read else { return Ok(None) };
    let full = unflattened(&a.weight, &a.kernel_size)?;
    let numbers = Numbers::plain(a.kernel_size.len(), a.stride, a.padding);
    let all = gradients(call, [&a.grad_output, &a.self_, &full], &numbers, &a.output_mask)?;
    let Some([x, w, b]) = all else { return Ok(None) };
    let flat = |t: Tensor| aten::reshape(&t, a.weight.sizes());
    Ok(Some(values([x, w.map(flat).transpose()?, b])))
}

fn gradients(
    call: &Call<'_>,
    [grad, x, w]: [&Tensor; 3],
    n: &Numbers,
    mask: &[bool],
) -> Result<Option<[Option<Tensor>; 3]>> {
    // the CPU says what is wrong with the mask
    let &[want_x, want_w, want_b] = mask else { return Ok(None) };
    if !computes(x.dtype()) {
        return Ok(None);
    }
    let (grad_x, grad_w, _) = convolution_backward(
        grad,
        x,
        w,
        None,
        &n.stride,
        &n.padding,
        &n.dilation,
        n.transposed,
        &n.output_padding,
        n.groups,
        &[want_x, want_w, false],
    )?;
    let shape = shape(w, n)?;
    for (result, of_weight) in [(&grad_x, false), (&grad_w, true)] {
        let Some(result) = result else { continue };
        if grad.numel() == 0 || x.numel() == 0 {
            // a sum of nothing
            aten::zero_(result)?;
            continue;
        }
        let (input, weight) = if of_weight { (x, result) } else { (result, w) };
        let (direction, tensors) = match n.transposed {
            true => {
                let tensors = Tensors { input: grad, weight, output: input };
                (if of_weight { Direction::Weight } else { Direction::Output }, tensors)
            }
            false => {
                let tensors = Tensors { input, weight, output: grad };
                (if of_weight { Direction::Weight } else { Direction::Input }, tensors)
            }
        };
        if !queue(call, direction, &tensors, None, &shape)? {
            return Ok(None);
        }
    }
    let grad_b = want_b.then(|| bias_gradient(grad)).transpose()?;
    Ok(Some([grad_x, grad_w, grad_b]))
}

/// The sum over everything but the channels.
fn bias_gradient(grad: &Tensor) -> Result<Tensor> {
    let dims: Dims = (0..grad.dim() as i64).filter(|d| *d != 1).collect();
    aten::sum_dim_int_list(grad, Some(&dims), false, None)
}

/// One number for each of three dimensions; those that are not there come first.
pub(in crate::cuda) fn spatial(numbers: &[i64], fill: i64) -> [i64; 3] {
    let mut all = [fill; 3];
    for (slot, n) in all.iter_mut().rev().zip(numbers.iter().rev()) {
        *slot = *n;
    }
    all
}

fn operand(t: &Tensor) -> Result<Operand> {
    let s = t.strides();
    let [z, y, x] = spatial(&s[2..], 1);
    Ok(Operand { address: t.device_address()?, strides: [s[0], s[1], z, y, x] })
}

/// Queues the computation of one of the tensors, which nobody else has; whether there is a kernel for it.
fn queue(
    call: &Call<'_>,
    direction: Direction,
    t: &Tensors<'_>,
    bias: Option<&Tensor>,
    c: &Shape,
) -> Result<bool> {
    let (input, weight, output) = (t.input.sizes(), t.weight.sizes(), t.output.sizes());
    let results = [input, weight, output][direction as usize];
    if results.contains(&0) {
        return Ok(true);
    }
    let geometry = Geometry {
        batch: input[0],
        channels: input[1],
        filters: output[1],
        groups: c.groups,
        input: spatial(&input[2..], 1),
        kernel: spatial(&weight[2..], 1),
        output: spatial(&output[2..], 1),
        stride: spatial(&c.stride, 1),
        padding: spatial(&c.padding, 0),
        dilation: spatial(&c.dilation, 1),
    };
    let all: Vec<&Tensor> = [t.input, t.weight, t.output].into_iter().chain(bias).collect();
    let _held = access::read(&all)?;
    let bias = match bias {
        Some(b) => Some(Vector { address: b.device_address()?, stride: b.strides()[0] }),
        None => None,
    };
    let work = Convolution {
        dtype: t.input.dtype(),
        direction,
        geometry,
        input: operand(t.input)?,
        weight: operand(t.weight)?,
        output: operand(t.output)?,
        bias,
        follow: Vec::new(),
    };
    let stream = call.stream()?;
    let bytes = match workspace_bytes(&work) {
        Ok(bytes) => bytes,
        Err(ConvolutionError::Geometry { .. } | ConvolutionError::DType { .. }) => {
            return Ok(false);
        }
        Err(e) => return Err(Error::device(e.to_string())),
    };
    with_workspace(&stream, call.device, bytes, |workspace| {
        // SAFETY: operands are held while it is queued, and the result is fresh; their memory serves
        // others on this stream only after it.
        unsafe { convolve(&stream, &work, workspace) }.map_err(|e| Error::device(e.to_string()))
    })?;
    Ok(true)
}
