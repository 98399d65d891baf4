//! Maximum pooling.

use super::super::KernelError;
use super::super::operand::{In, Out, ask};
use super::number::{Number, with_number};
use super::planes::Planes;
use super::pool::{cost, inputs, outputs, rows};
use super::taps::{LANES, Lines, Taps};
use super::window::AxisWindows;
use crate::cpu::math;

const NAME: &str = "max_pool";

/// The largest element of each window, and its position in its plane. A NaN is larger than
/// everything; of equal elements the first one counts, of NaNs the last.
///
/// # Errors
///
/// As for [`super::avg_pool`]; `indices` that are not as many aligned `i64` as `out` has elements.
pub fn max_pool(
    [out, indices]: [Out<'_>; 2],
    input: In<'_>,
    axes: &[AxisWindows; 3],
) -> Result<(), KernelError> {
    let indices = indices_of(NAME, &out, indices)?;
    let p = Planes::new(NAME, out, input, outputs(axes), inputs(axes))?;
    let last = axes[2].windows.iter().map(|w| w.start).max().unwrap_or(0);
    let near = i32::try_from(p.input_len.saturating_add(last)).is_ok();
    with_number!(NAME, p.dtype(), A => {
        // as wide as the elements, so that one mask chooses both
        match near && size_of::<A>() == size_of::<i32>() {
            true => run::<A, i32>(p, axes, indices),
            false => run::<A, i64>(p, axes, indices),
        }
    })
}

/// [`max_pool`] for those who do not ask where.
///
/// # Errors
///
/// As for [`super::avg_pool`].
pub fn max_pool_values(
    out: Out<'_>,
    input: In<'_>,
    axes: &[AxisWindows; 3],
) -> Result<(), KernelError> {
    let p = Planes::new(NAME, out, input, outputs(axes), inputs(axes))?;
    with_number!(NAME, p.dtype(), A => run::<A, ()>(p, axes, &mut []))
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

fn run<A: Number, P: Place>(
    p: Planes<'_>,
    axes: &[AxisWindows; 3],
    indices: &mut [i64],
) -> Result<(), KernelError> {
    let cost = cost(axes);
    let Some(taps) = Taps::new(&axes[2]) else {
        return p.each_with::<A>(cost, indices, &|_, x, y, at| match P::KEPT {
            true => max_plane(y, at, x, axes),
            false => max_plane(y, &mut vec![(); y.len()], x, axes),
        });
    };
    let plane = match math::isa() {
        #[cfg(target_arch = "x86_64")]
        math::Isa::Avx512 | math::Isa::Avx2 => plane_avx2::<A, P>,
        _ => plane_portable::<A, P>,
    };
    p.each_in(cost, indices, &|| Row::<A, P>::new(&taps, &axes[2]), &|_, x, y, at, row| {
        // SAFETY: the machine has the instructions of the set in use.
        unsafe { plane(row, (y, at), x, axes, &taps) }
    })
}

/// Where in its plane an output's element is, as far as anybody wants to know.
pub(super) trait Place: Copy + Send + Sync {
    const KEPT: bool;
    const ZERO: Self;

    fn of(at: isize) -> Self;
    fn plus(self, distance: usize) -> Self;
    fn choose(first: bool, a: Self, b: Self) -> Self;
    fn index(self) -> i64;
}

impl Place for () {
    const KEPT: bool = false;
    const ZERO: () = ();

    #[inline(always)]
    fn of(_: isize) {}
    #[inline(always)]
    fn plus(self, _: usize) {}
    #[inline(always)]
    fn choose(_: bool, (): (), (): ()) {}
    #[inline(always)]
    fn index(self) -> i64 {
        0
    }
}

macro_rules! places {
    ($($t:ty)*) => {$(
        impl Place for $t {
            const KEPT: bool = true;
            const ZERO: $t = 0;

            #[inline(always)]
            fn of(at: isize) -> $t {
                at as $t
            }
            // lanes behind the last output may be further away than there is memory
            #[inline(always)]
            fn plus(self, distance: usize) -> $t {
                self.wrapping_add(distance as $t)
            }
            #[inline(always)]
            fn choose(first: bool, a: $t, b: $t) -> $t {
                if first { a } else { b }
            }
            #[inline(always)]
            fn index(self) -> i64 {
                self.into()
            }
        }
    )*};
}

places!(i32 i64);

#[inline(always)]
fn take<A: Number, P: Place>(y: &mut A, i: &mut P, v: A, at: P) {
    let better = (v > *y) | v.is_nan();
    *y = if better { v } else { *y };
    *i = P::choose(better, at, *i);
}

/// A row of outputs while their windows are walked, in whole groups.
struct Row<A, P> {
    lines: Lines<A>,
    best: Vec<A>,
    places: Vec<P>,
    /// The position in a row that each window begins with.
    starts: Vec<P>,
}

impl<A: Number, P: Place> Row<A, P> {
    fn new(taps: &Taps, windows: &AxisWindows) -> Row<A, P> {
        Row {
            // what is outside is never larger
            lines: Lines::new(taps, A::LOWEST),
            best: vec![A::LOWEST; taps.outputs],
            places: vec![P::ZERO; taps.outputs],
            starts: windows.windows.iter().map(|w| P::of(w.start as isize)).collect(),
        }
    }

    /// Takes a row of the input, which begins at `at` in its plane, into account.
    #[inline(always)]
    fn see(&mut self, row: &[A], at: usize, taps: &Taps) {
        self.lines.fill(taps, row);
        let best = self.best.as_chunks_mut::<LANES>().0;
        let places = self.places.as_chunks_mut::<LANES>().0;
        for (group, (to, which)) in best.iter_mut().zip(places).enumerate() {
            let first = at + group * LANES * taps.stride;
            // copies, which stay in registers
            let (mut y, mut i) = (*to, *which);
            for tap in &taps.taps {
                let v = self.lines.seen(*tap, group);
                let from = P::of(first as isize + tap.position);
                for lane in 0..LANES {
                    take(&mut y[lane], &mut i[lane], v[lane], from.plus(lane * taps.stride));
                }
            }
            (*to, *which) = (y, i);
        }
    }
}

#[inline(always)]
fn plane_body<A: Number, P: Place>(
    line: &mut Row<A, P>,
    (out, indices): (&mut [A], &mut [i64]),
    x: &[A],
    axes: &[AxisWindows; 3],
    taps: &Taps,
) {
    let [depth, height, width] = outputs(axes);
    for od in 0..depth {
        for oh in 0..height {
            line.best.fill(A::LOWEST);
            line.places.fill(P::ZERO);
            for (n, row) in rows(axes, od, oh).enumerate() {
                if n == 0 {
                    for (i, start) in line.places.iter_mut().zip(&line.starts) {
                        *i = start.plus(row);
                    }
                }
                line.see(&x[row..row + axes[2].input], row, taps);
            }
            let at = (od * height + oh) * width;
            out[at..at + width].copy_from_slice(&line.best[..width]);
            if P::KEPT {
                for (i, place) in indices[at..at + width].iter_mut().zip(&line.places) {
                    *i = place.index();
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn plane_avx2<A: Number, P: Place>(
    line: &mut Row<A, P>,
    results: (&mut [A], &mut [i64]),
    x: &[A],
    axes: &[AxisWindows; 3],
    taps: &Taps,
) {
    plane_body(line, results, x, axes, taps);
}

unsafe fn plane_portable<A: Number, P: Place>(
    line: &mut Row<A, P>,
    results: (&mut [A], &mut [i64]),
    x: &[A],
    axes: &[AxisWindows; 3],
    taps: &Taps,
) {
    plane_body(line, results, x, axes, taps);
}

/// One window after the other, which any windows allow.
pub(super) fn max_plane<A: Number, P: Place>(
    out: &mut [A],
    indices: &mut [P],
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
            for (n, row) in rows(axes, od, oh).enumerate() {
                let from = &x[row..row + w.input];
                for ((y, i), window) in to.iter_mut().zip(&mut *which).zip(&w.windows) {
                    if n == 0 {
                        *i = P::of((row + window.start) as isize);
                    }
                    for t in 0..window.taps {
                        let at = window.start + t * w.step;
                        take(y, i, from[at], P::of((row + at) as isize));
                    }
                }
            }
        }
    }
}
