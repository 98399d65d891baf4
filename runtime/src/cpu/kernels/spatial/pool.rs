//! Average and maximum pooling.

use super::super::KernelError;
use super::super::nest::Shared;
use super::number::{Number, with_number};
use super::planes::{Planes, each_plane, indices_of};
use super::window::AxisWindows;
use straightline_passes::ir::DType;

/// What the sum of an average pool's window is divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Divisor {
    /// The elements of the input in the window.
    Inside,
    /// The same, padding counted.
    Padded,
    /// This number.
    Fixed(i64),
}

impl Divisor {
    fn of(self, axes: &[AxisWindows; 3], at: [usize; 3]) -> i64 {
        let product = |count: fn(&super::window::Window) -> usize| -> i64 {
            (0..3)
                .map(|d| count(&axes[d].windows[at[d]]) as i64)
                .fold(1, i64::saturating_mul)
        };
        match self {
            Divisor::Inside => product(|w| w.taps),
            Divisor::Padded => product(|w| w.padded),
            Divisor::Fixed(n) => n,
        }
    }
}

/// The sizes of what comes out of the windows.
fn outputs(axes: &[AxisWindows; 3]) -> [usize; 3] {
    [0, 1, 2].map(|d| axes[d].output())
}

fn cost(axes: &[AxisWindows; 3]) -> usize {
    axes.iter().map(|a| a.output() * a.most_taps()).product()
}

/// The rows of the input that one output row sees: offsets into the plane.
fn rows(axes: &[AxisWindows; 3], od: usize, oh: usize) -> impl Iterator<Item = usize> + '_ {
    let (height, width) = (axes[1].input, axes[2].input);
    let (d, h) = (axes[0].windows[od], axes[1].windows[oh]);
    (0..d.taps).flat_map(move |i| {
        (0..h.taps).map(move |j| {
            ((d.start + i * axes[0].step) * height + h.start + j * axes[1].step) * width
        })
    })
}

/// The average of each window; sums in the wide type.
///
/// # Safety
///
/// `input` is `count` planes of the axes' input sizes and may be read; `out` is as many planes of
/// their output sizes, may be written and overlaps nothing.
pub unsafe fn avg_pool(
    count: usize,
    out: Planes,
    input: Planes,
    axes: &[AxisWindows; 3],
    divisor: Divisor,
) -> Result<(), KernelError> {
    with_number!("avg_pool", out.dtype, A => {
        // SAFETY: as promised by the caller.
        unsafe {
            each_plane::<A, 1>(count, cost(axes), [input], out, &|_, [x], y| {
                avg_plane(y, x, axes, divisor);
            });
        }
        Ok(())
    })
}

fn avg_plane<A: Number>(out: &mut [A], x: &[A], axes: &[AxisWindows; 3], divisor: Divisor) {
    let [depth, height, width] = outputs(axes);
    let w = &axes[2];
    for od in 0..depth {
        for oh in 0..height {
            let at = (od * height + oh) * width;
            let to = &mut out[at..at + width];
            for row in rows(axes, od, oh) {
                let from = &x[row..row + w.input];
                match w.by_taps() {
                    Some((r, taps)) => {
                        for k in taps {
                            let (low, high, offset) = w.tap_range(r, k);
                            if low == high {
                                continue;
                            }
                            let first = (offset + (low * r.stride) as i64) as usize;
                            add_row(&mut to[low..high], &from[first..], r.stride);
                        }
                    }
                    None => {
                        for (y, window) in to.iter_mut().zip(&w.windows) {
                            for t in 0..window.taps {
                                *y = y.plus(from[window.start + t * w.step]);
                            }
                        }
                    }
                }
            }
            for (ow, y) in to.iter_mut().enumerate() {
                if w.windows[ow].taps > 0 {
                    *y = y.over(divisor.of(axes, [od, oh, ow]));
                }
            }
        }
    }
}

/// `to[i] += from[i * stride]`.
#[inline]
fn add_row<A: Number>(to: &mut [A], from: &[A], stride: usize) {
    match stride {
        1 => {
            for (y, v) in to.iter_mut().zip(from) {
                *y = y.plus(*v);
            }
        }
        _ => {
            for (y, v) in to.iter_mut().zip(from.iter().step_by(stride)) {
                *y = y.plus(*v);
            }
        }
    }
}

/// The gradient of [`avg_pool`]: each output's share goes to all elements of its window.
///
/// # Safety
///
/// As for [`avg_pool`]: `grad` has the output sizes, `out` the input sizes.
pub unsafe fn avg_pool_backward(
    count: usize,
    out: Planes,
    grad: Planes,
    axes: &[AxisWindows; 3],
    divisor: Divisor,
) -> Result<(), KernelError> {
    let [depth, height, width] = outputs(axes);
    let w = &axes[2];
    // PyTorch sums half types in themselves here
    let (dtype, narrow) = (out.dtype, matches!(out.dtype, DType::F16 | DType::BF16));
    with_number!("avg_pool_backward", out.dtype, A => {
        // SAFETY: as promised by the caller.
        unsafe {
            each_plane::<A, 1>(count, cost(axes), [grad], out, &|_, [g], x| {
                let mut shares = vec![A::ZERO; width];
                for od in 0..depth {
                    for oh in 0..height {
                        let at = (od * height + oh) * width;
                        for ow in 0..width {
                            shares[ow] = share(g[at + ow], [od, oh, ow], dtype, axes, divisor);
                        }
                        for row in rows(axes, od, oh) {
                            let to = &mut x[row..row + w.input];
                            for (share, window) in shares.iter().zip(&w.windows) {
                                for t in 0..window.taps {
                                    let v = &mut to[window.start + t * w.step];
                                    let sum = v.plus(*share);
                                    *v = if narrow { sum.held_as(dtype) } else { sum };
                                }
                            }
                        }
                    }
                }
            });
        }
        Ok(())
    })
}

/// What each element of a window gets of its output's gradient.
fn share<A: Number>(
    g: A,
    at: [usize; 3],
    dtype: DType,
    axes: &[AxisWindows; 3],
    divisor: Divisor,
) -> A {
    if axes[2].regular.is_some() {
        return g.over(divisor.of(axes, at)).held_as(dtype);
    }
    // adaptive windows: by one axis after the other
    (0..3).fold(g, |g, d| {
        g.over(axes[d].windows[at[d]].taps as i64).held_as(dtype)
    })
}

/// The largest element of each window, and its position in its plane. A NaN is larger than
/// everything; of equal elements the first one counts, of NaNs the last.
///
/// # Safety
///
/// As for [`avg_pool`]; `indices` has room for as many aligned `i64` as `out` has elements.
pub unsafe fn max_pool(
    count: usize,
    out: Planes,
    indices: *mut i64,
    input: Planes,
    axes: &[AxisWindows; 3],
) -> Result<(), KernelError> {
    let indices = Shared(indices.cast());
    let len = out.len;
    with_number!("max_pool", out.dtype, A => {
        // SAFETY: as promised by the caller; each plane's indices are taken once.
        unsafe {
            each_plane::<A, 1>(count, cost(axes), [input], out, &|plane, [x], y| {
                max_plane(y, indices_of(indices, plane, len), x, axes);
            });
        }
        Ok(())
    })
}

pub(super) fn max_plane<A: Number>(
    out: &mut [A],
    indices: &mut [i64],
    x: &[A],
    axes: &[AxisWindows; 3],
) {
    let [depth, height, width] = outputs(axes);
    let w = &axes[2];
    for od in 0..depth {
        for oh in 0..height {
            let at = (od * height + oh) * width;
            let to = &mut out[at..at + width];
            let which = &mut indices[at..at + width];
            to.fill(A::LOWEST);
            let mut first_row = true;
            for row in rows(axes, od, oh) {
                if first_row {
                    for (i, window) in which.iter_mut().zip(&w.windows) {
                        *i = (row + window.start) as i64;
                    }
                    first_row = false;
                }
                let from = &x[row..row + w.input];
                match w.by_taps() {
                    Some((r, taps)) => {
                        for k in taps {
                            let (low, high, offset) = w.tap_range(r, k);
                            if low == high {
                                continue;
                            }
                            let first = (offset + (low * r.stride) as i64) as usize;
                            max_row(
                                &mut to[low..high],
                                &mut which[low..high],
                                &from[first..],
                                r.stride,
                                (row + first) as i64,
                            );
                        }
                    }
                    None => {
                        for ((y, i), window) in to.iter_mut().zip(which.iter_mut()).zip(&w.windows)
                        {
                            for t in 0..window.taps {
                                let at = window.start + t * w.step;
                                take(y, i, from[at], (row + at) as i64);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn take<A: Number>(y: &mut A, i: &mut i64, v: A, at: i64) {
    let better = (v > *y) | v.is_nan();
    *y = if better { v } else { *y };
    *i = if better { at } else { *i };
}

#[inline]
fn max_row<A: Number>(to: &mut [A], which: &mut [i64], from: &[A], stride: usize, at: i64) {
    match stride {
        1 => {
            for (o, ((y, i), v)) in to.iter_mut().zip(which).zip(from).enumerate() {
                take(y, i, *v, at + o as i64);
            }
        }
        _ => {
            let strided = from.iter().step_by(stride);
            for (o, ((y, i), v)) in to.iter_mut().zip(which).zip(strided).enumerate() {
                take(y, i, *v, at + (o * stride) as i64);
            }
        }
    }
}
