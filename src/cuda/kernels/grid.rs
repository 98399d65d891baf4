//! Sampling at the points of a grid.

use super::{Call, Kernel, Made, compact, contiguous};
use crate::cuda::copy::program;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Op, args};
use straightline_cuda::grid::{self as kernels, Mode, Padding, Sampling};

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::grid_sampler_2d | Op::grid_sampler_3d => sample,
        Op::grid_sampler_2d_backward | Op::grid_sampler_3d_backward => backward,
        _ => return None,
    })
}

/// What a call's sizes and numbers say; `None` for what there is no kernel for.
fn sampling(x: &Tensor, grid: &Tensor, modes: [i64; 2], aligned: bool) -> Option<Sampling> {
    let (&[batch, channels, ref input @ ..], [_, points @ .., _]) = (x.sizes(), grid.sizes())
    else {
        return None;
    };
    let input = match *input {
        [height, width] => [1, height, width],
        [depth, height, width] => [depth, height, width],
        _ => return None,
    };
    let s = Sampling {
        dtype: x.dtype(),
        batch,
        channels,
        input,
        points: points.iter().product(),
        axes: x.dim() as i64 - 2,
        mode: *[Mode::Linear, Mode::Nearest, Mode::Cubic].get(usize::try_from(modes[0]).ok()?)?,
        padding: match modes[1] {
            1 => Padding::Border,
            2 => Padding::Reflection,
            _ => Padding::Zeros,
        },
        aligned,
    };
    (s.is_served() && grid.dtype() == s.dtype).then_some(s)
}

fn sample(call: &Call<'_>) -> Made {
    // of images and volumes alike, here and below
    let Some(a) = call.read::<args::grid_sampler_2d<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let modes = [a.interpolation_mode, a.padding_mode];
    let s = sampling(&a.input, &a.grid, modes, a.align_corners);
    let (Some(s), Some(wanted)) = (s, wanted.first()) else { return Ok(None) };
    let (x, grid) = (contiguous(&a.input)?, contiguous(&a.grid)?);
    let out = call.dense(wanted.dtype, &wanted.sizes)?;
    {
        let _held = access::read(&[&x, &grid])?;
        let addresses = [x.device_address()?, grid.device_address()?, out.device_address()?];
        // SAFETY: the operands are held, the result is fresh, all without gaps and of these sizes.
        unsafe { kernels::sample(&call.stream()?, &s, addresses) }.map_err(program)?;
    }
    Ok(Some(vec![call.deliver(out, wanted)?]))
}

fn backward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::grid_sampler_2d_backward<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let modes = [a.interpolation_mode, a.padding_mode];
    let s = sampling(&a.input, &a.grid, modes, a.align_corners);
    let (Some(s), [of_input, of_grid]) = (s, &wanted[..]) else { return Ok(None) };
    if a.grad_output.dtype() != s.dtype {
        return Ok(None);
    }
    let (grad, x, grid) =
        (contiguous(&a.grad_output)?, contiguous(&a.input)?, contiguous(&a.grid)?);
    let by_grid = call.dense(of_grid.dtype, &of_grid.sizes)?;
    {
        let _held = access::read(&[&grad, &x, &grid])?;
        let addresses = [
            grad.device_address()?,
            x.device_address()?,
            grid.device_address()?,
            by_grid.device_address()?,
        ];
        // SAFETY: the operands are held, the result is fresh, all without gaps and of these sizes.
        unsafe { kernels::grid_gradient(&call.stream()?, &s, addresses) }.map_err(program)?;
    }
    let by_input = match a.output_mask.first() {
        // nobody looks at it
        Some(false) => aten::zero_(&call.dense(of_input.dtype, &of_input.sizes)?)?,
        _ => by_input(call, &s, &grad, &grid, &of_input.sizes)?,
    };
    Ok(Some(vec![call.deliver(by_input, of_input)?, call.deliver(by_grid, of_grid)?]))
}

/// The gradient by the input: what the points are made of is sorted by where it is, and added in that order.
fn by_input(
    call: &Call<'_>,
    s: &Sampling,
    grad: &Tensor,
    grid: &Tensor,
    sizes: &[i64],
) -> Result<Tensor> {
    let out = call.dense(s.dtype, sizes)?;
    let items = s.batch * s.points * s.taps();
    if items == 0 || out.numel() == 0 {
        return aten::zero_(&out);
    }
    let (keys, weights) = (call.dense(DType::I64, &[items])?, call.dense(s.dtype, &[items])?);
    let stream = call.stream()?;
    let _held = access::read(&[grad, grid])?;
    let addresses = [grid.device_address()?, keys.device_address()?, weights.device_address()?];
    // SAFETY: the grid is held, the others are fresh and of these sizes, here and below.
    unsafe { kernels::places(&stream, s, addresses) }.map_err(program)?;
    let (order, begins) = compact::order_by(call, &keys, s.batch * s.plane())?;
    let addresses = [
        grad.device_address()?,
        weights.device_address()?,
        order.device_address()?,
        begins.device_address()?,
        out.device_address()?,
    ];
    // SAFETY: as above; the order is of the keys, and the begins are of all elements and one more.
    unsafe { kernels::input_gradient(&stream, s, addresses) }.map_err(program)?;
    Ok(out)
}
