//! The forward convolution: which way it goes, with weights that were brought into the way's order
//! before, and with what follows it.

use super::columns::{BLOCK, Number, product, take};
use super::follow::{Follow, Follows};
use super::packed::{Kernel, Order, PackedForm, PackedKernel};
use super::split::{Finish, Shared, each, scratch};
use super::{Geometry, depthwise, direct, winograd};
use crate::cpu::kernels::matmul::{MatMut, MatRef};
use straightline_passes::ir::DType;

/// Dense operands of a convolution.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names are the concepts
pub struct Operands {
    pub input: *const u8,
    pub weight: *const u8,
    /// May be null.
    pub bias: *const u8,
    pub output: *mut u8,
}

/// [`convolve`](super::convolve) of f32 or f64 with a weight that may have been packed, and with
/// operations on the output while it is in the cache. The bits are those of a plain convolution and
/// the operations one after the other; with `fast_math`, f32 by 3x3 kernels may differ from the sums
/// by some 1e-5 of the sum of their terms' magnitudes.
///
/// # Panics
///
/// If the packed weight is in another form, of another dtype, or not of this `fast_math`.
///
/// # Safety
///
/// The operands are dense, aligned and of the geometry's sizes; nothing overlaps the output. Packed
/// or not, the weight is there.
pub unsafe fn convolve_packed(
    dtype: DType,
    g: &Geometry,
    operands: Operands,
    (packed, fast_math): (Option<&PackedKernel>, bool),
    follow: &[Follow],
) {
    let Operands { input, weight, bias, output } = operands;
    assert!(
        packed.is_none_or(|p| PackedForm::of(dtype, g, fast_math).as_ref() == Some(&p.form)),
        "a weight in another form"
    );
    let kernel = packed.map_or(Kernel::At(weight), |p| Kernel::Packed(weight, p));
    let squares = if dtype == DType::F32 { winograd::Shape::forward(g, fast_math) } else { None };
    let follows = Follows { each: follow, channels: g.out_channels, plane: g.output_plane() };
    let to = Shared(output);
    // SAFETY: the caller's contract; runs that were just written.
    unsafe {
        match dtype {
            DType::F32 => {
                let finish = |image: usize, channel: usize, run: (usize, usize)| {
                    follows.apply::<f32>(to.at(0).cast(), (image, channel), run)
                };
                forward::<f32>((dtype, squares), g, input, kernel, bias, output, Some(&finish));
            }
            DType::F64 => {
                let finish = |image: usize, channel: usize, run: (usize, usize)| {
                    follows.apply::<f64>(to.at(0).cast(), (image, channel), run)
                };
                forward::<f64>((dtype, squares), g, input, kernel, bias, output, Some(&finish));
            }
            _ => panic!("convolve_packed does not compute {dtype}"),
        }
    }
}

/// The convolution by Winograd's algorithm, where there is a shape, or by sums.
///
/// # Safety
///
/// As [`convolve_packed`], for any `T` that is `dtype`; a shape is one of the geometry, and then `T`
/// is f32.
pub(super) unsafe fn forward<T: Number>(
    (dtype, shape): (DType, Option<winograd::Shape>),
    g: &Geometry,
    input: *const u8,
    kernel: Kernel<'_>,
    bias: *const u8,
    output: *mut u8,
    finish: Option<Finish<'_>>,
) {
    let Some(shape) = shape else {
        // SAFETY: the caller's contract.
        return unsafe { written_out::<T>(dtype, g, input, kernel, bias, output, finish) };
    };
    let (from, to) = (Shared(input.cast_mut().cast::<f32>()), Shared(output.cast::<f32>()));
    let source = match kernel {
        Kernel::Packed(_, PackedKernel { order: Order::Squares(all), .. }) => all.source(),
        _ => winograd::Source::Taps(shape.forward_taps(kernel.at().cast())),
    };
    let shift = [Follow::Shift(bias)];
    let follows = Follows {
        each: if bias.is_null() { &[] } else { &shift },
        channels: g.out_channels,
        plane: g.output_plane(),
    };
    let end = |image: usize, channel: usize, run: (usize, usize)| {
        // SAFETY: outputs that were just written, and the bias of the channels.
        unsafe { follows.apply(to.at(0), (image, channel), run) };
        if let Some(finish) = finish {
            finish(image, channel, run);
        }
    };
    let plain = bias.is_null() && finish.is_none();
    // SAFETY: the caller's contract.
    unsafe {
        let end: Option<Finish<'_>> = if plain { None } else { Some(&end) };
        for n in winograd::run(&shape, from, source, to, end) {
            let one = Geometry { batch: 1, ..g.clone() };
            let (input, output) = (from.at(n * one.inputs()), to.at(n * one.outputs()));
            let (input, kernel) = (input.cast_const().cast(), Kernel::At(kernel.at()));
            let end = |_: usize, channel: usize, run: (usize, usize)| {
                if let Some(finish) = finish {
                    finish(n, channel, run);
                }
            };
            written_out::<T>(dtype, &one, input, kernel, bias, output.cast(), Some(&end));
        }
    }
}

/// Output positions of a block of columns.
fn block_of<T>(k: usize, positions: usize) -> usize {
    let fit = BLOCK / (k * size_of::<T>()).max(1);
    (fit / 32 * 32).max(16).min(positions.max(1))
}

/// The sums written out, in one of the ways that fit.
///
/// # Safety
///
/// As [`forward`].
unsafe fn written_out<T: Number>(
    dtype: DType,
    g: &Geometry,
    input: *const u8,
    kernel: Kernel<'_>,
    bias: *const u8,
    output: *mut u8,
    finish: Option<Finish<'_>>,
) {
    let (weight, bias) = (kernel.at().cast::<T>(), bias.cast::<T>());
    let (input, output) = (Shared(input.cast_mut().cast::<T>()), Shared(output.cast::<T>()));
    let (weight, bias) = (Shared(weight.cast_mut()), Shared(bias.cast_mut()));
    let (plane, positions) = (g.input_plane(), g.output_plane());
    let (inputs, outputs) = (g.group_inputs(), g.group_outputs());
    let k = inputs * g.taps();
    if g.batch * g.out_channels * positions == 0 {
        return;
    }
    let work = g.batch * g.out_channels * positions * k;
    let pointwise = g.is_pointwise();
    if !pointwise && direct::fits(g) {
        // SAFETY: the caller's contract; the types are the same where the dtypes are.
        unsafe {
            match dtype {
                DType::F32 => {
                    let [x, w, b, y] = [input, weight, bias, output].map(|p| Shared(p.0.cast()));
                    let w = match kernel {
                        Kernel::Packed(_, PackedKernel { order: Order::F32(packed), .. }) => {
                            (Shared(packed.as_ptr().cast_mut()), true)
                        }
                        _ => (w, false),
                    };
                    return direct::forward::<f32>(g, x, w, b, y, finish);
                }
                DType::F64 => {
                    let [x, w, b, y] = [input, weight, bias, output].map(|p| Shared(p.0.cast()));
                    let w = match kernel {
                        Kernel::Packed(_, PackedKernel { order: Order::F64(packed), .. }) => {
                            (Shared(packed.as_ptr().cast_mut()), true)
                        }
                        _ => (w, false),
                    };
                    return direct::forward::<f64>(g, x, w, b, y, finish);
                }
                _ => {}
            }
        }
    }
    if g.is_depthwise() {
        each(g.batch * g.out_channels, work, &|i| {
            let (n, o) = (i / g.out_channels, i % g.out_channels);
            let c = o / outputs;
            // SAFETY: the caller's contract; each call writes a plane of its own.
            unsafe {
                let bias = if bias.0.is_null() { T::default() } else { *bias.at(o) };
                depthwise::channel(
                    g,
                    input.at((n * g.in_channels + c) * plane),
                    weight.at(o * k),
                    bias,
                    output.at(i * positions),
                );
            }
            if let Some(finish) = finish {
                finish(n, o, (0, positions));
            }
        });
        return;
    }
    let block = if pointwise { positions } else { block_of::<T>(k, positions) };
    let blocks = positions.div_ceil(block);
    each(g.batch * g.groups * blocks, work, &|i| {
        let (image, begin) = (i / blocks, i % blocks * block);
        let end = positions.min(begin + block);
        let (n, group) = (image / g.groups, image % g.groups);
        let source = input.at((n * g.in_channels + group * inputs) * plane);
        let first = group * outputs;
        let a = MatRef::row_major(weight.at(first * k).cast_const().cast(), outputs, k);
        let target = output.at((n * g.out_channels + first) * positions + begin);
        let c = MatMut::new(target.cast(), (outputs, end - begin), (positions as isize, 1));
        let addend = (!bias.0.is_null()).then(|| {
            let bias = bias.at(first).cast_const().cast();
            MatRef::new(bias, (outputs, end - begin), (1, 0))
        });
        // SAFETY: the caller's contract; each call writes positions of its own.
        unsafe {
            if pointwise {
                let b = MatRef::row_major(source.cast_const().cast(), k, positions);
                product(dtype, a, b, c, addend);
            } else {
                scratch(k * (end - begin), |columns: *mut T| {
                    take(g, source, inputs, (begin, end), columns);
                    let b = MatRef::row_major(columns.cast_const().cast(), k, end - begin);
                    product(dtype, a, b, c, addend);
                });
            }
        }
        if let Some(finish) = finish {
            (first..first + outputs).for_each(|o| finish(n, o, (begin, end - begin)));
        }
    });
}
