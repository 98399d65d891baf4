//! Pools, resampling, padding and columns of windows.

use super::{Call, Kernel, Made, contiguous};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::tensor::{Tensor, access};
use straightline_catalog::{Arg, DType, Op, Scalar, args};
use straightline_cuda::spatial::{
    self as kernels, Interpolation, Operation, Planes, Resampling, Windows,
};

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::max_pool2d_with_indices | Op::max_pool3d_with_indices => max_pool,
        Op::avg_pool2d | Op::avg_pool3d => avg_pool,
        Op::avg_pool2d_backward | Op::avg_pool3d_backward => avg_pool_backward,
        Op::_adaptive_avg_pool2d
        | Op::_adaptive_avg_pool3d
        | Op::adaptive_max_pool2d
        | Op::adaptive_max_pool3d => adaptive,
        Op::_adaptive_avg_pool2d_backward | Op::_adaptive_avg_pool3d_backward => adaptive_backward,
        Op::upsample_linear1d
        | Op::upsample_bilinear2d
        | Op::upsample_trilinear3d
        | Op::upsample_bicubic2d
        | Op::_upsample_bilinear2d_aa
        | Op::_upsample_bicubic2d_aa => resample,
        Op::upsample_linear1d_backward
        | Op::upsample_bilinear2d_backward
        | Op::upsample_trilinear3d_backward
        | Op::upsample_bicubic2d_backward
        | Op::_upsample_bilinear2d_aa_backward
        | Op::_upsample_bicubic2d_aa_backward
        | Op::upsample_nearest1d_backward
        | Op::upsample_nearest2d_backward
        | Op::upsample_nearest3d_backward
        | Op::_upsample_nearest_exact1d_backward
        | Op::_upsample_nearest_exact2d_backward
        | Op::_upsample_nearest_exact3d_backward => resample_backward,
        Op::reflection_pad1d_backward
        | Op::reflection_pad2d_backward
        | Op::reflection_pad3d_backward
        | Op::replication_pad1d_backward
        | Op::replication_pad2d_backward
        | Op::replication_pad3d_backward => pad_backward,
        Op::col2im => fold,
        _ => return None,
    })
}

/// Numbers of the last `rank` dimensions, one for all of them perhaps, as those of three.
fn three(numbers: &[i64], rank: usize, front: i64) -> Option<[i64; 3]> {
    let mut all = [front; 3];
    for (d, to) in all[3 - rank..].iter_mut().enumerate() {
        *to = match numbers {
            [one] => *one,
            _ => *numbers.get(d)?,
        };
    }
    Some(all)
}

fn planes(dtype: DType, input: &[i64], output: &[i64], rank: usize) -> Option<Planes> {
    let lead = input.len().checked_sub(rank)?;
    Some(Planes {
        dtype,
        count: input[..lead].iter().product(),
        input: three(&input[lead..], rank, 1)?,
        output: three(output.get(lead..)?, rank, 1)?,
    })
}

/// How many dimensions an operator pools or resamples.
fn rank_of(op: Op) -> usize {
    let name = op.name().to_string();
    [("1d", 1), ("2d", 2)].iter().find(|(end, _)| name.contains(end)).map_or(3, |(_, n)| *n)
}

/// Runs an operation on a tensor, for results of the call's types.
fn run(
    call: &Call<'_>,
    operation: Operation,
    x: &Tensor,
    planes: impl FnOnce(&[i64]) -> Option<Planes>,
) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(planes) = wanted.first().and_then(|m| planes(&m.sizes)) else { return Ok(None) };
    if !kernels::computes(planes.dtype) || wanted.iter().any(|m| m.sizes.contains(&0)) {
        return Ok(None);
    }
    let x = contiguous(x)?;
    let dense = wanted.iter().map(|m| call.dense(m.dtype, &m.sizes));
    let made = dense.collect::<Result<Vec<Tensor>>>()?;
    {
        let _held = access::read(&[&x])?;
        let address = |t: Option<&Tensor>| t.map_or(Ok(0), Tensor::device_address);
        let (from, results) =
            (x.device_address()?, [address(made.first())?, address(made.get(1))?]);
        // SAFETY: the operand is held, the results are fresh, all without gaps and of the planes' sizes.
        unsafe { kernels::run(&call.stream()?, operation, &planes, from, results) }
            .map_err(program)?;
    }
    let deliver = |(t, m)| call.deliver(t, m);
    made.into_iter().zip(&wanted).map(deliver).collect::<Result<Vec<Value>>>().map(Some)
}

/// The windows of a pool, of lists as its operator has them.
fn windows(
    rank: usize,
    [kernel, stride, pad, dilation]: [&[i64]; 4],
    with_pad: bool,
    divisor: Option<i64>,
) -> Option<Windows> {
    Some(Windows {
        kernel: three(kernel, rank, 1)?,
        stride: three(if stride.is_empty() { kernel } else { stride }, rank, 1)?,
        pad: three(pad, rank, 0)?,
        dilation: three(dilation, rank, 1)?,
        with_pad,
        divisor,
    })
}

fn max_pool(call: &Call<'_>) -> Made {
    let rank = rank_of(call.known);
    // those of two dimensions and of three have the same arguments, here and below
    let read = call.read::<args::max_pool2d_with_indices<Tensor>>();
    let Some(a) = read else { return Ok(None) };
    let (x, lists) = (a.self_, [&a.kernel_size[..], &a.stride, &a.padding, &a.dilation]);
    let Some(w) = windows(rank, lists, true, None) else { return Ok(None) };
    let planes = |out: &[i64]| planes(x.dtype(), x.sizes(), out, rank);
    run(call, Operation::MaxPool(w), &x, planes)
}

fn avg_pool(call: &Call<'_>) -> Made {
    let rank = rank_of(call.known);
    let Some(a) = call.read::<args::avg_pool2d<Tensor>>() else { return Ok(None) };
    let (x, lists) = (a.self_, [&a.kernel_size[..], &a.stride, &a.padding, &[1]]);
    let Some(w) = windows(rank, lists, a.count_include_pad, a.divisor_override) else {
        return Ok(None);
    };
    let planes = |out: &[i64]| planes(x.dtype(), x.sizes(), out, rank);
    run(call, Operation::AvgPool(w), &x, planes)
}

fn avg_pool_backward(call: &Call<'_>) -> Made {
    let rank = rank_of(call.known);
    let Some(a) = call.read::<args::avg_pool2d_backward<Tensor>>() else { return Ok(None) };
    let (grad, lists) = (a.grad_output, [&a.kernel_size[..], &a.stride, &a.padding, &[1]]);
    let Some(w) = windows(rank, lists, a.count_include_pad, a.divisor_override) else {
        return Ok(None);
    };
    let planes = |input: &[i64]| planes(grad.dtype(), input, grad.sizes(), rank);
    run(call, Operation::AvgPoolGradient(w), &grad, planes)
}

fn adaptive(call: &Call<'_>) -> Made {
    let (rank, x) = (rank_of(call.known), &call.tensors[0]);
    let operation = match call.known {
        Op::adaptive_max_pool2d | Op::adaptive_max_pool3d => Operation::AdaptiveMaxPool,
        _ => Operation::AdaptiveAvgPool,
    };
    run(call, operation, x, |out| planes(x.dtype(), x.sizes(), out, rank))
}

fn adaptive_backward(call: &Call<'_>) -> Made {
    let (rank, grad) = (rank_of(call.known), &call.tensors[0]);
    let planes = |input: &[i64]| planes(grad.dtype(), input, grad.sizes(), rank);
    run(call, Operation::AdaptiveGradient, grad, planes)
}

/// What the arguments of a resampling say of it, whose elements and results have these sizes.
fn resampling(call: &Call<'_>, planes: &Planes, rank: usize) -> Resampling {
    let interpolation = match call.known {
        Op::upsample_bicubic2d | Op::upsample_bicubic2d_backward => Interpolation::Cubic,
        Op::_upsample_bilinear2d_aa | Op::_upsample_bilinear2d_aa_backward => {
            Interpolation::Antialiased
        }
        Op::_upsample_bicubic2d_aa | Op::_upsample_bicubic2d_aa_backward => {
            Interpolation::CubicAntialiased
        }
        Op::upsample_nearest1d_backward
        | Op::upsample_nearest2d_backward
        | Op::upsample_nearest3d_backward => Interpolation::Nearest,
        Op::_upsample_nearest_exact1d_backward
        | Op::_upsample_nearest_exact2d_backward
        | Op::_upsample_nearest_exact3d_backward => Interpolation::NearestExact,
        _ => Interpolation::Linear,
    };
    let aligned = call.args.iter().find_map(Arg::as_bool).unwrap_or(false);
    // the factors of the last dimensions are the last arguments
    let given = |d: usize| {
        let at = (d + rank).checked_sub(3)?;
        let factor = call.args.get(call.args.len().checked_sub(rank)? + at)?;
        factor.as_scalar().map(Scalar::as_f64).filter(|s| *s > 0.0)
    };
    let scale = std::array::from_fn(|d| {
        let (input, output) = (planes.input[d] as f64, planes.output[d] as f64);
        match given(d) {
            _ if aligned && output > 1.0 => (input - 1.0) / (output - 1.0),
            _ if aligned => 0.0,
            Some(factor) => 1.0 / factor,
            None => input / output,
        }
    });
    Resampling { interpolation, scale, aligned }
}

fn resample(call: &Call<'_>) -> Made {
    let (rank, x) = (rank_of(call.known), &call.tensors[0]);
    let Some(wanted) = call.results() else { return Ok(None) };
    let planes = |out: &[i64]| planes(x.dtype(), x.sizes(), out, rank);
    let Some(of) = wanted.first().and_then(|m| planes(&m.sizes)) else { return Ok(None) };
    run(call, Operation::Resample(resampling(call, &of, rank)), x, planes)
}

fn resample_backward(call: &Call<'_>) -> Made {
    let (rank, grad) = (rank_of(call.known), &call.tensors[0]);
    let Some(wanted) = call.results() else { return Ok(None) };
    let planes = |input: &[i64]| planes(grad.dtype(), input, grad.sizes(), rank);
    let Some(of) = wanted.first().and_then(|m| planes(&m.sizes)) else { return Ok(None) };
    run(call, Operation::ResampleGradient(resampling(call, &of, rank)), grad, planes)
}

fn pad_backward(call: &Call<'_>) -> Made {
    // all of them have these arguments
    let Some(a) = call.read::<args::reflection_pad1d_backward<Tensor>>() else { return Ok(None) };
    let (rank, grad) = (rank_of(call.known), a.grad_output);
    // the last dimension comes first, each with what is before it and behind
    let before: Vec<i64> = a.padding.chunks(2).rev().map(|p| p[0]).collect();
    let Some(before) = three(&before, rank, 0).filter(|_| before.len() == rank) else {
        return Ok(None);
    };
    let operation = match call.known {
        Op::reflection_pad1d_backward
        | Op::reflection_pad2d_backward
        | Op::reflection_pad3d_backward => Operation::ReflectionGradient(before),
        _ => Operation::ReplicationGradient(before),
    };
    let planes = |input: &[i64]| planes(grad.dtype(), input, grad.sizes(), rank);
    run(call, operation, &grad, planes)
}

fn fold(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::col2im<Tensor>>() else { return Ok(None) };
    let (x, lists) = (a.self_, [&a.kernel_size[..], &a.stride, &a.padding, &a.dilation]);
    let Some(w) = windows(2, lists, true, None) else { return Ok(None) };
    let planes = |image: &[i64]| {
        let mut of = planes(x.dtype(), image, image, 2)?;
        let last = |d: usize| of.input[d] + 2 * w.pad[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
        of.output = [1, last(1) / w.stride[1] + 1, last(2) / w.stride[2] + 1];
        Some(of)
    };
    run(call, Operation::Fold(w), &x, planes)
}
