//! The three products of a convolution, and how they are split over threads.

use super::columns::{BLOCK, Number, product, put, take};
use super::follow::{Follow, Follows};
use super::forward::forward;
use super::packed::Kernel;
use super::split::{Finish, Shared, each, scratch};
use super::{Geometry, winograd};
use crate::cpu::kernels::matmul::{MatMut, MatRef};
use crate::cpu::kernels::operand::{In, Out, apart, ask, row_major, same_dtype};
use crate::cpu::kernels::{KernelError, Strided};
use straightline_passes::ir::DType;

macro_rules! numbers {
    ($dtype:expr, $call:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $call::<f32>($($arg),*),
            DType::F64 => $call::<f64>($($arg),*),
            DType::I64 => $call::<i64>($($arg),*),
            DType::I32 => $call::<i32>($($arg),*),
            DType::I16 => $call::<i16>($($arg),*),
            DType::I8 => $call::<i8>($($arg),*),
            DType::U8 => $call::<u8>($($arg),*),
            dtype => return Err(KernelError::unsupported("convolution", dtype)),
        }
    };
}

pub(super) const NAME: &str = "convolution";

/// The operands are row-major, of one dtype, aligned, and have as many elements as the geometry
/// says.
pub(super) fn check(operands: &[(&Strided<'_>, usize)]) -> Result<DType, KernelError> {
    let (first, _) = operands[0];
    for (t, numel) in operands {
        same_dtype(NAME, &[first, t])?;
        row_major(NAME, &[t])?;
        ask(NAME, t.numel() == *numel, "operands of the sizes of its geometry")?;
        ask(NAME, t.is_aligned(), "aligned elements")?;
    }
    Ok(first.dtype)
}

fn pointer(t: Option<Strided<'_>>) -> *const u8 {
    t.map_or(std::ptr::null(), |t| t.ptr.cast_const())
}

/// `output = input * weight + bias`. Half types are refused: their callers compute in f32.
///
/// All are row-major and of one dtype: `input` (batch, in channels, input), `weight` (out channels,
/// in channels of a group, kernel), `bias` (out channels), `output` (batch, out channels, output).
pub fn convolve(
    g: &Geometry,
    input: In<'_>,
    weight: In<'_>,
    bias: Option<In<'_>>,
    output: Out<'_>,
) -> Result<(), KernelError> {
    apart(NAME, &[input, weight])?;
    apart(NAME, bias.as_slice())?;
    let (input, weight, bias) = (input.raw(), weight.raw(), bias.map(In::raw));
    let output = output.raw();
    let dtype = check(&[
        (&input, g.inputs()),
        (&weight, g.weights()),
        (&output, g.outputs()),
        (bias.as_ref().unwrap_or(&input), bias.map_or(g.inputs(), |_| g.out_channels)),
    ])?;
    let (from, by, plus) = (input.ptr.cast_const(), weight.ptr.cast_const(), pointer(bias));
    let squares = if dtype == DType::F32 { winograd::Shape::forward(g, false) } else { None };
    let way = (dtype, squares);
    // SAFETY: dense operands of the geometry's sizes, as has been checked.
    unsafe { numbers!(dtype, forward(way, g, from, Kernel::At(by), plus, output.ptr, None)) }
    Ok(())
}

/// The transposed convolution: each element of `output` is spread over `input` through the kernel,
/// and `bias` (one element per input channel) added. This is also the gradient of [`convolve`]'s
/// input.
pub fn scatter(
    g: &Geometry,
    output: In<'_>,
    weight: In<'_>,
    bias: Option<In<'_>>,
    input: Out<'_>,
) -> Result<(), KernelError> {
    apart(NAME, &[output, weight])?;
    apart(NAME, bias.as_slice())?;
    let (output, weight, bias) = (output.raw(), weight.raw(), bias.map(In::raw));
    let input = input.raw();
    let dtype = check(&[
        (&output, g.outputs()),
        (&weight, g.weights()),
        (&input, g.inputs()),
        (bias.as_ref().unwrap_or(&input), bias.map_or(g.inputs(), |_| g.in_channels)),
    ])?;
    let (from, by, plus) = (output.ptr.cast_const(), weight.ptr.cast_const(), pointer(bias));
    // SAFETY: as in `convolve`.
    unsafe { numbers!(dtype, backward(dtype, g, from, by, plus, input.ptr)) }
    Ok(())
}

/// The gradient of [`convolve`]'s weight: the inputs of each tap times the gradient of the output.
pub fn weight_gradient(
    g: &Geometry,
    input: In<'_>,
    grad_output: In<'_>,
    weight: Out<'_>,
) -> Result<(), KernelError> {
    apart(NAME, &[input, grad_output])?;
    let (input, grad_output, weight) = (input.raw(), grad_output.raw(), weight.raw());
    let dtype =
        check(&[(&input, g.inputs()), (&grad_output, g.outputs()), (&weight, g.weights())])?;
    let (from, by) = (input.ptr.cast_const(), grad_output.ptr.cast_const());
    // SAFETY: as in `convolve`.
    unsafe { numbers!(dtype, weights(dtype, g, from, by, weight.ptr)) }
    Ok(())
}

/// # Safety
///
/// As [`scatter`].
unsafe fn backward<T: Number>(
    dtype: DType,
    g: &Geometry,
    output: *const u8,
    weight: *const u8,
    bias: *const u8,
    input: *mut u8,
) {
    let shape = if dtype == DType::F32 { winograd::Shape::backward(g) } else { None };
    let Some(shape) = shape else {
        // SAFETY: the caller's contract.
        return unsafe { spread_out::<T>(dtype, g, output, weight, bias, input) };
    };
    let (from, to) = (Shared(output.cast_mut().cast::<f32>()), Shared(input.cast::<f32>()));
    let source = winograd::Source::Taps(shape.backward_taps(weight.cast()));
    let shift = [Follow::Shift(bias)];
    let follows = Follows { each: &shift, channels: g.in_channels, plane: g.input_plane() };
    let finish = |image: usize, channel: usize, run: (usize, usize)| {
        // SAFETY: elements that were just written, and the bias of the channels.
        unsafe { follows.apply(to.at(0), (image, channel), run) }
    };
    let finish: Option<Finish<'_>> = if bias.is_null() { None } else { Some(&finish) };
    // SAFETY: the caller's contract.
    unsafe {
        for n in winograd::run(&shape, from, source, to, finish) {
            let one = Geometry { batch: 1, ..g.clone() };
            let (output, input) = (from.at(n * one.outputs()), to.at(n * one.inputs()));
            spread_out::<T>(dtype, &one, output.cast_const().cast(), weight, bias, input.cast());
        }
    }
}

/// Columns, and their sums at the elements of the input.
///
/// # Safety
///
/// As [`scatter`].
unsafe fn spread_out<T: Number>(
    dtype: DType,
    g: &Geometry,
    output: *const u8,
    weight: *const u8,
    bias: *const u8,
    input: *mut u8,
) {
    let (output, weight) =
        (Shared(output.cast_mut().cast::<T>()), Shared(weight.cast_mut().cast::<T>()));
    let (bias, input) = (Shared(bias.cast_mut().cast::<T>()), Shared(input.cast::<T>()));
    let (plane, positions) = (g.input_plane(), g.output_plane());
    let (inputs, outputs) = (g.group_inputs(), g.group_outputs());
    let taps = g.taps();
    if g.batch * g.in_channels * plane == 0 {
        return;
    }
    let work = g.batch * g.out_channels * positions * inputs * taps;
    // Some channels at a time, so that their columns stay in the cache.
    let chunk = (BLOCK / (taps * positions * size_of::<T>()).max(1)).clamp(1, inputs);
    let chunks = inputs.div_ceil(chunk);
    each(g.batch * g.groups * chunks, work, &|i| {
        let (image, begin) = (i / chunks, i % chunks * chunk);
        let channels = chunk.min(inputs - begin);
        let (n, group) = (image / g.groups, image % g.groups);
        let first = group * inputs + begin;
        let target = input.at((n * g.in_channels + first) * plane);
        // SAFETY: the caller's contract; each call writes channels of its own.
        unsafe {
            for c in 0..channels {
                let value = if bias.0.is_null() { T::default() } else { *bias.at(first + c) };
                for x in 0..plane {
                    *target.add(c * plane + x) = value;
                }
            }
            if positions == 0 || outputs == 0 {
                return;
            }
            let rows = channels * taps;
            // the transposed weight of these channels
            let a = MatRef::new(
                weight.at(group * outputs * inputs * taps + begin * taps).cast_const().cast(),
                (rows, outputs),
                (1, (inputs * taps) as isize),
            );
            let source = output.at((n * g.out_channels + group * outputs) * positions);
            let b = MatRef::row_major(source.cast_const().cast(), outputs, positions);
            scratch(rows * positions, |columns: *mut T| {
                let c = MatMut::row_major(columns.cast(), rows, positions);
                product(dtype, a, b, c, None);
                put(g, columns, channels, (0, positions), target);
            });
        }
    });
}

/// # Safety
///
/// As [`weight_gradient`].
unsafe fn weights<T: Number>(
    dtype: DType,
    g: &Geometry,
    input: *const u8,
    grad_output: *const u8,
    weight: *mut u8,
) {
    let input = Shared(input.cast_mut().cast::<T>());
    let grad = Shared(grad_output.cast_mut().cast::<T>());
    let weight = Shared(weight.cast::<T>());
    let (plane, positions) = (g.input_plane(), g.output_plane());
    let (inputs, outputs) = (g.group_inputs(), g.group_outputs());
    let taps = g.taps();
    let k = inputs * taps;
    if g.out_channels * k == 0 {
        return;
    }
    let work = g.batch * g.out_channels * positions * k;
    let chunk = (BLOCK / (taps * positions * size_of::<T>()).max(1)).clamp(1, inputs);
    let chunks = inputs.div_ceil(chunk);
    each(g.groups * chunks, work, &|i| {
        let (group, begin) = (i / chunks, i % chunks * chunk);
        let channels = chunk.min(inputs - begin);
        let rows = channels * taps;
        let target = weight.at(group * outputs * k + begin * taps);
        let c = MatMut::new(target.cast(), (outputs, rows), (k as isize, 1));
        // SAFETY: the caller's contract; each call writes channels of its own.
        unsafe {
            if g.batch * positions == 0 {
                for o in 0..outputs {
                    for x in 0..rows {
                        *target.add(o * k + x) = T::default();
                    }
                }
                return;
            }
            scratch(rows * positions, |columns: *mut T| {
                for n in 0..g.batch {
                    let source = input.at((n * g.in_channels + group * inputs + begin) * plane);
                    take(g, source, channels, (0, positions), columns);
                    let a = grad.at((n * g.out_channels + group * outputs) * positions);
                    let a = MatRef::row_major(a.cast_const().cast(), outputs, positions);
                    let b = MatRef::row_major(columns.cast_const().cast(), rows, positions).t();
                    product(dtype, a, b, c, (n > 0).then(|| c.as_ref()));
                }
            });
        }
    });
}
