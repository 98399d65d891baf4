//! Average pooling.

use super::super::KernelError;
use super::super::operand::{In, Out};
use super::number::{Number, rounding, with_number};
use super::planes::Planes;
use super::taps::{LANES, Lines, Taps};
use super::window::AxisWindows;
use crate::cpu::math;
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
pub(super) fn outputs(axes: &[AxisWindows; 3]) -> [usize; 3] {
    [0, 1, 2].map(|d| axes[d].output())
}

pub(super) fn inputs(axes: &[AxisWindows; 3]) -> [usize; 3] {
    axes.each_ref().map(|a| a.input)
}

pub(super) fn cost(axes: &[AxisWindows; 3]) -> usize {
    axes.iter().map(|a| a.output() * a.most_taps()).product()
}

/// The rows of the input that one output row sees: offsets into the plane.
pub(super) fn rows(
    axes: &[AxisWindows; 3],
    od: usize,
    oh: usize,
) -> impl Iterator<Item = usize> + '_ {
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
    with_number!(NAME, p.dtype(), A => sums::<A>(p, axes, divisor))
}

fn sums<A: Number>(
    p: Planes<'_>,
    axes: &[AxisWindows; 3],
    divisor: Divisor,
) -> Result<(), KernelError> {
    let Some(taps) = Taps::new(&axes[2]) else {
        return p.each::<A>(cost(axes), &|_, x, y| avg_plane(y, x, axes, divisor));
    };
    let plane = match math::isa() {
        #[cfg(target_arch = "x86_64")]
        math::Isa::Avx512 | math::Isa::Avx2 => taps_avx2::<A>,
        _ => taps_portable::<A>,
    };
    // a zero changes no sum, which begins with one
    let start = || (Lines::new(&taps, A::ZERO), vec![A::ZERO; taps.outputs]);
    p.each_in(cost(axes), &mut [], &start, &|_, x, y, _, row| {
        // SAFETY: the machine has the instructions of the set in use.
        unsafe { plane(row, y, x, axes, &taps, divisor) }
    })
}

/// A row of the input as lines, and sums in whole groups.
type Row<A> = (Lines<A>, Vec<A>);

#[inline(always)]
fn taps_body<A: Number>(
    (lines, sums): &mut Row<A>,
    out: &mut [A],
    x: &[A],
    axes: &[AxisWindows; 3],
    taps: &Taps,
    divisor: Divisor,
) {
    let [depth, height, width] = outputs(axes);
    for od in 0..depth {
        for oh in 0..height {
            sums.fill(A::ZERO);
            for row in rows(axes, od, oh) {
                lines.fill(taps, &x[row..row + axes[2].input]);
                for (group, to) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                    // a copy, which stays in registers
                    let mut y = *to;
                    for tap in &taps.taps {
                        let v = lines.seen(*tap, group);
                        for lane in 0..LANES {
                            y[lane] = y[lane].plus(v[lane]);
                        }
                    }
                    *to = y;
                }
            }
            let at = (od * height + oh) * width;
            let to = &mut out[at..at + width];
            to.copy_from_slice(&sums[..width]);
            divide(to, axes, [od, oh], divisor);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn taps_avx2<A: Number>(
    row: &mut Row<A>,
    out: &mut [A],
    x: &[A],
    axes: &[AxisWindows; 3],
    taps: &Taps,
    divisor: Divisor,
) {
    taps_body(row, out, x, axes, taps, divisor);
}

unsafe fn taps_portable<A: Number>(
    row: &mut Row<A>,
    out: &mut [A],
    x: &[A],
    axes: &[AxisWindows; 3],
    taps: &Taps,
    divisor: Divisor,
) {
    taps_body(row, out, x, axes, taps, divisor);
}

/// One window after the other, which any windows allow.
fn avg_plane<A: Number>(out: &mut [A], x: &[A], axes: &[AxisWindows; 3], divisor: Divisor) {
    let [depth, height, width] = outputs(axes);
    let w = &axes[2];
    for od in 0..depth {
        for oh in 0..height {
            let at = (od * height + oh) * width;
            let to = &mut out[at..at + width];
            for row in rows(axes, od, oh) {
                let from = &x[row..row + w.input];
                for (y, window) in to.iter_mut().zip(&w.windows) {
                    for t in 0..window.taps {
                        *y = y.plus(from[window.start + t * w.step]);
                    }
                }
            }
            divide(to, axes, [od, oh], divisor);
        }
    }
}

/// The sums of a row by their divisors.
#[inline(always)]
fn divide<A: Number>(
    row: &mut [A],
    axes: &[AxisWindows; 3],
    [od, oh]: [usize; 2],
    divisor: Divisor,
) {
    for (ow, y) in row.iter_mut().enumerate() {
        if axes[2].windows[ow].taps > 0 {
            *y = y.over(divisor.of(axes, [od, oh, ow]));
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
