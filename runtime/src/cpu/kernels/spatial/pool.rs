//! Average and maximum pooling.

use super::super::KernelError;
use super::super::operand::{In, Out, ask};
use super::number::{Number, rounding, with_number};
use super::planes::Planes;
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
            (0..3).map(|d| count(&axes[d].windows[at[d]]) as i64).fold(1, i64::saturating_mul)
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

fn inputs(axes: &[AxisWindows; 3]) -> [usize; 3] {
    axes.each_ref().map(|a| a.input)
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
/// # Errors
///
/// Operands that are not as many planes of the axes' sizes, not row-major, or not of one dtype.
pub fn avg_pool(
    out: Out<'_>,
    input: In<'_>,
    axes: &[AxisWindows; 3],
    divisor: Divisor,
) -> Result<(), KernelError> {
    const NAME: &str = "avg_pool";
    let p = Planes::new(NAME, out, input, outputs(axes), inputs(axes))?;
    with_number!(NAME, p.dtype(), A => {
        p.each::<A>(cost(axes), &|_, x, y| avg_plane(y, x, axes, divisor))
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
/// # Errors
///
/// As for [`avg_pool`]: `grad` has the output sizes, `out` the input sizes.
pub fn avg_pool_backward(
    out: Out<'_>,
    grad: In<'_>,
    axes: &[AxisWindows; 3],
    divisor: Divisor,
) -> Result<(), KernelError> {
    const NAME: &str = "avg_pool_backward";
    let p = Planes::new(NAME, out, grad, inputs(axes), outputs(axes))?;
    let [depth, height, width] = outputs(axes);
    let w = &axes[2];
    let dtype = p.dtype();
    let rounding = rounding(dtype);
    with_number!(NAME, dtype, A => {
        p.each::<A>(cost(axes), &|_, g, x| {
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
                                *v = v.plus_in(rounding, *share);
                            }
                        }
                    }
                }
            }
        })
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
    (0..3).fold(g, |g, d| g.over(axes[d].windows[at[d]].taps as i64).held_as(dtype))
}

/// The largest element of each window, and its position in its plane. A NaN is larger than
/// everything; of equal elements the first one counts, of NaNs the last.
///
/// # Errors
///
/// As for [`avg_pool`]; `indices` that are not as many aligned `i64` as `out` has elements.
pub fn max_pool(
    [out, indices]: [Out<'_>; 2],
    input: In<'_>,
    axes: &[AxisWindows; 3],
) -> Result<(), KernelError> {
    const NAME: &str = "max_pool";
    let indices = indices_of(NAME, &out, indices)?;
    let p = Planes::new(NAME, out, input, outputs(axes), inputs(axes))?;
    with_number!(NAME, p.dtype(), A => {
        p.each_with::<A>(cost(axes), indices, &|_, x, y, at| max_plane(y, at, x, axes))
    })
}

/// The indices of a result's elements.
pub(super) fn indices_of<'a>(
    kernel: &'static str,
    out: &Out<'_>,
    indices: Out<'a>,
) -> Result<&'a mut [i64], KernelError> {
    let fits = indices.numel() == out.numel();
    ask(kernel, fits, "an index for each element")?;
    indices.slice()
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
