//! Discrete Fourier transforms along one dimension, of any length, each in its own precision.
//!
//! The transforms are those of `straightline_fourier`. This module moves lines between strided memory
//! and buffers, and keeps the plans.

use super::nest::{Nest, parallel};
use super::operand::{self, In, Out};
use super::{KernelError, Strided};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
pub use straightline_fourier::Transform;
use straightline_fourier::num_traits::Zero;
use straightline_fourier::{Complex, FftNum, Plan};
use straightline_passes::ir::{DType, Dims};

/// Plans that were made before.
///
/// There is one cache per precision in the whole process: the lines of one call are split among
/// the threads of the pool, and a cache per thread would hold every table once for each of them.
/// The lock is held to look a plan up, never while one is made or run.
struct Plans<T> {
    kept: HashMap<(Transform, usize), Plan<T>>,
    /// The sum of the lengths of the plans that are kept; their tables grow with it.
    total: usize,
}

/// The most that [`Plans::total`] becomes: tables of some tens of megabytes. A plan that does not
/// fit empties the cache first; one that is longer by itself is made for each call.
const KEPT: usize = 1 << 21;

impl<T> Default for Plans<T> {
    fn default() -> Self {
        Plans { kept: HashMap::new(), total: 0 }
    }
}

impl<T: FftNum> Plans<T> {
    fn keep(&mut self, what: Transform, n: usize, plan: &Plan<T>) {
        // another thread may have made the same one meanwhile
        if n > KEPT || self.kept.contains_key(&(what, n)) {
            return;
        }
        if self.total + n > KEPT {
            *self = Plans::default();
        }
        self.total += n;
        self.kept.insert((what, n), plan.clone());
    }
}

/// `f32` or `f64`.
trait Precision: straightline_fourier::Precision {
    fn plans() -> &'static Mutex<Plans<Self>>;

    fn plan(what: Transform, n: usize) -> Plan<Self> {
        // nothing panics while the lock is held, and a cache has no state to be broken
        let lock = || Self::plans().lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().kept.get(&(what, n)).cloned();
        known.unwrap_or_else(|| {
            let plan = Self::make(what, n);
            lock().keep(what, n, &plan);
            plan
        })
    }
}

macro_rules! precision {
    ($($t:ident)*) => {$(
        impl Precision for $t {
            fn plans() -> &'static Mutex<Plans<Self>> {
                static PLANS: LazyLock<Mutex<Plans<$t>>> = LazyLock::new(Mutex::default);
                &PLANS
            }
        }
    )*};
}
precision!(f32 f64);

/// Lines that are gathered together: a cache line has elements of that many neighbours.
const LINES: usize = 8;

/// The buffers of one thread stay below this many elements unless a single line is longer.
const BUFFER: usize = 1 << 15;

/// The first elements of some lines of one operand, and the step along them in bytes.
struct Lines<'a> {
    starts: &'a [*mut u8],
    step: isize,
}

impl Lines<'_> {
    /// Calls `body` with each place: `(line, place in the line, pointer)`. Neighbouring lines of
    /// elements that lie apart are walked side by side.
    #[inline(always)]
    fn walk<E>(&self, count: usize, mut body: impl FnMut(usize, usize, *mut E)) {
        let at = |line: usize, k: usize| {
            let bytes = k as isize * self.step;
            self.starts[line].wrapping_offset(bytes).cast::<E>()
        };
        let (lines, dense) = (self.starts.len(), self.step == size_of::<E>() as isize);
        if dense || lines == 1 {
            for line in 0..lines {
                (0..count).for_each(|k| body(line, k, at(line, k)));
            }
        } else {
            for k in 0..count {
                (0..lines).for_each(|line| body(line, k, at(line, k)));
            }
        }
    }

    /// Copies `count` elements of each line to `to`, a line to every `pitch` elements.
    ///
    /// # Safety
    ///
    /// The elements are of type `E`, and may be read.
    unsafe fn gather<E: Copy>(&self, count: usize, to: &mut [E], pitch: usize) {
        self.walk(count, |line, k, p: *mut E| {
            // SAFETY: an element of the line, as the caller promises.
            to[line * pitch + k] = unsafe { p.read_unaligned() };
        });
    }

    /// Writes `count` elements to each line.
    ///
    /// # Safety
    ///
    /// The elements are of type `E`, and may be written.
    unsafe fn scatter<E>(&self, count: usize, value: impl Fn(usize, usize) -> E) {
        self.walk(count, |line, k, p: *mut E| {
            // SAFETY: an element of the line, as the caller promises.
            unsafe { p.write_unaligned(value(line, k)) };
        });
    }
}

/// A plan with the buffers of one thread.
struct Worker<T: FftNum> {
    plan: Plan<T>,
    n: usize,
    /// Elements of a line of the operand and of the result.
    from_n: usize,
    to_n: usize,
    scale: T,
    complex: Vec<Complex<T>>,
    real: Vec<T>,
    scratch: Vec<Complex<T>>,
}

impl<T: FftNum> Worker<T> {
    fn new(plan: Plan<T>, n: usize, from_n: usize, to_n: usize, scale: T, lines: usize) -> Self {
        let (complex, real, scratch) = match &plan {
            Plan::Complex(p) => (n, 0, p.get_inplace_scratch_len()),
            Plan::FromReal(p) => (n / 2 + 1, n, p.get_scratch_len()),
            Plan::ToReal(p) => (n / 2 + 1, n, p.get_scratch_len()),
        };
        let zeros = |n: usize| vec![Complex::zero(); n];
        Worker {
            n,
            from_n,
            to_n,
            scale,
            complex: zeros(complex * lines),
            real: vec![T::zero(); real * lines],
            scratch: zeros(scratch),
            plan,
        }
    }

    /// Transforms some lines.
    ///
    /// # Safety
    ///
    /// The lines have `from_n` and `to_n` elements, of the types of the transform in the precision
    /// `T`, which may be read and written.
    unsafe fn run(&mut self, out: &Lines<'_>, a: &Lines<'_>) {
        let (n, lines, scale) = (self.n, a.starts.len(), self.scale);
        match &self.plan {
            Plan::Complex(plan) => {
                let x = &mut self.complex[..lines * n];
                // SAFETY: complex lines of n elements.
                unsafe { a.gather(n, x, n) };
                plan.process_with_scratch(x, &mut self.scratch);
                // SAFETY: as above.
                unsafe { out.scatter(n, |line, k| x[line * n + k] * scale) };
            }
            Plan::FromReal(plan) => {
                let half = n / 2 + 1;
                // SAFETY: real lines of n elements.
                unsafe { a.gather(n, &mut self.real, n) };
                for (x, y) in (self.real.chunks_exact_mut(n))
                    .zip(self.complex.chunks_exact_mut(half))
                    .take(lines)
                {
                    plan.process_with_scratch(x, y, &mut self.scratch)
                        .expect("the buffers have the lengths of the plan");
                }
                let y = |line: usize, k: usize| self.complex[line * half + k] * scale;
                // the other half of the spectrum of a real signal mirrors the first
                let all = |line: usize, k: usize| match k < half {
                    true => y(line, k),
                    false => y(line, n - k).conj(),
                };
                // SAFETY: complex lines of to_n <= n elements.
                unsafe { out.scatter(self.to_n, all) };
            }
            Plan::ToReal(plan) => {
                let half = n / 2 + 1;
                // what the spectrum has too few of is zero
                let have = half.min(self.from_n);
                self.complex.fill(Complex::zero());
                // SAFETY: complex lines of from_n elements.
                unsafe { a.gather(have, &mut self.complex, half) };
                for (x, y) in (self.complex.chunks_exact_mut(half))
                    .zip(self.real.chunks_exact_mut(n))
                    .take(lines)
                {
                    // a real signal's are real; imaginary parts there have no part in the result
                    x[0].im = T::zero();
                    if n.is_multiple_of(2) {
                        x[half - 1].im = T::zero();
                    }
                    plan.process_with_scratch(x, y, &mut self.scratch)
                        .expect("the buffers have the lengths of the plan, the ends are real");
                }
                // SAFETY: real lines of n elements.
                unsafe { out.scatter(n, |line, k| self.real[line * n + k] * scale) };
            }
        }
    }
}

/// `out` = the transform of `a` along `dim`, times `scale`. Sizes are equal but for that of `dim`:
/// a complex transform keeps it, one of real numbers gives at most as many. Both have the same
/// precision.
///
/// # Errors
///
/// Operands of other sizes or dtypes; a transform from or to real numbers over its own operand.
pub fn fft(
    what: Transform,
    out: Out<'_>,
    a: In<'_>,
    dim: usize,
    scale: f64,
) -> Result<(), KernelError> {
    const NAME: &str = "fft";
    let between_reals = matches!(what, Transform::FromReal | Transform::ToReal);
    if between_reals {
        operand::apart(NAME, &[a])?;
    }
    let (out, a) = (out.raw(), a.raw());
    operand::same_but(NAME, dim, &out, &a)?;
    let fits = match (out.sizes.get(dim), a.sizes.get(dim)) {
        (Some(to), Some(from)) => match what {
            Transform::FromReal => to <= from,
            Transform::ToReal => true,
            _ => to == from,
        },
        _ => false,
    };
    operand::ask(NAME, fits, "as many elements as the transform gives")?;
    let of = |d: DType| match what {
        Transform::FromReal => d.to_complex(),
        Transform::ToReal => d.to_real(),
        _ => d,
    };
    let complex = what != Transform::FromReal;
    if a.dtype.is_complex() != complex || out.dtype != of(a.dtype) {
        return Err(KernelError::unsupported(NAME, a.dtype));
    }
    match a.dtype.to_real() {
        // SAFETY: sizes and dtypes are those of the transform; the operands are apart, or complex
        // and the same elements, which are read line by line before they are written.
        DType::F32 => unsafe { transform::<f32>(what, out, a, dim, scale) },
        // SAFETY: as above.
        DType::F64 => unsafe { transform::<f64>(what, out, a, dim, scale) },
        _ => return Err(KernelError::unsupported(NAME, a.dtype)),
    }
    Ok(())
}

/// [`fft`] in one precision.
///
/// # Safety
///
/// The sizes and dtypes are those that [`fft`] checks, in this precision.
unsafe fn transform<T: Precision>(
    what: Transform,
    out: Strided<'_>,
    a: Strided<'_>,
    dim: usize,
    scale: f64,
) {
    let (to_n, from_n) = (out.sizes[dim] as usize, a.sizes[dim] as usize);
    let n = if what == Transform::ToReal { to_n } else { from_n };
    if out.numel() == 0 || n == 0 {
        return;
    }
    debug_assert!(to_n <= n);
    let plan = T::plan(what, n);
    let without = |of: &[i64]| -> Dims {
        let mut of = Dims::from_slice(of);
        of[dim] = 1;
        of
    };
    let sizes = without(out.sizes);
    let nest = Nest::new(&[Strided { sizes: &sizes, ..out }, Strided { sizes: &sizes, ..a }]);
    let (to, from) = (out.byte_stride(dim), a.byte_stride(dim));
    let together = (BUFFER / n).clamp(1, LINES);
    let work = n * (usize::BITS - n.leading_zeros()) as usize;
    let count = sizes.iter().product::<i64>() as usize;
    parallel(count, work, &|begin, end| {
        let lines = together.min(end - begin);
        let mut worker = Worker::new(plan.clone(), n, from_n, to_n, T::of(scale), lines);
        let mut starts = [(); 2].map(|()| SmallVec::<[*mut u8; LINES]>::new());
        let mut next = begin;
        while next < end {
            starts.iter_mut().for_each(SmallVec::clear);
            let stop = (next + together).min(end);
            for index in next..stop {
                for (starts, p) in starts.iter_mut().zip(nest.element(index)) {
                    starts.push(p);
                }
            }
            let [o, x] = &starts;
            let out = Lines { starts: o, step: to };
            let a = Lines { starts: x, step: from };
            // SAFETY: lines of the two operands, different ones in each range.
            unsafe { worker.run(&out, &a) };
            next = stop;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::operand::Element;
    use super::super::operand::tests::{input, input_of, output, output_of};
    use super::*;
    use std::sync::Arc;
    use straightline_fourier::num_traits::ToPrimitive;

    type C = Complex<f64>;

    const LENGTHS: [usize; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 30, 31, 37, 64, 74, 101, 210, 1009];

    fn numbers(n: usize) -> Vec<C> {
        (0..n).map(|k| C::new((k as f64 * 0.7).sin(), (k as f64 * 1.3).cos())).collect()
    }

    /// The sum itself, with this sign of the exponent.
    fn sum(x: &[C], sign: f64) -> Vec<C> {
        let n = x.len();
        (0..n)
            .map(|q| {
                (0..n)
                    .map(|k| {
                        let t = sign * std::f64::consts::TAU * ((q * k) % n) as f64 / n as f64;
                        x[k] * C::new(t.cos(), t.sin())
                    })
                    .sum()
            })
            .collect()
    }

    fn near(got: C, want: C, within: f64, what: &str) {
        assert!((got - want).re.hypot((got - want).im) < within, "{what}: {got} {want}");
    }

    /// Lines of a matrix of `rows` lines, laid out along rows or (`apart`) along columns.
    fn layout(rows: usize, n: usize, apart: bool) -> ([i64; 2], [i64; 2]) {
        let (rows, n) = (rows as i64, n as i64);
        ([rows, n], if apart { [1, rows] } else { [n, 1] })
    }

    fn complex_lines<T: Precision + ToPrimitive>(within: f64)
    where
        Complex<T>: Element,
    {
        for n in LENGTHS {
            for apart in [false, true] {
                // more than are gathered together, and not a multiple
                let rows = if n < 300 { LINES + 3 } else { 2 };
                let (sizes, strides) = layout(rows, n, apart);
                let at = |r: usize, k: usize| r * strides[0] as usize + k * strides[1] as usize;
                let all = numbers(rows * n);
                let x: Vec<Complex<T>> =
                    all.iter().map(|x| Complex::new(T::of(x.re), T::of(x.im))).collect();
                for (what, sign) in [(Transform::Forward, -1.0), (Transform::Inverse, 1.0)] {
                    let mut y = vec![Complex::<T>::zero(); rows * n];
                    let out = output_of(&mut y, sizes, strides);
                    fft(what, out, input_of(&x, sizes, strides), 1, 0.5).unwrap();
                    for r in 0..rows {
                        let line: Vec<C> = (0..n).map(|k| all[at(r, k)]).collect();
                        for (k, want) in sum(&line, sign).into_iter().enumerate() {
                            let got = y[at(r, k)];
                            let got = C::new(got.re.to_f64().unwrap(), got.im.to_f64().unwrap());
                            near(got, want * 0.5, within * n as f64, &format!("{n} {r} {k}"));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_length_agrees_with_the_sum() {
        complex_lines::<f64>(1e-12);
        complex_lines::<f32>(1e-6);
    }

    #[test]
    fn real_signals_and_half_spectra_agree_with_the_sum() {
        for n in LENGTHS {
            for apart in [false, true] {
                let rows = LINES + 1;
                let (sizes, strides) = layout(rows, n, apart);
                let at = |s: &[i64; 2], r: usize, k: usize| r * s[0] as usize + k * s[1] as usize;
                let x: Vec<f64> = numbers(rows * n).iter().map(|x| x.re).collect();
                let line = |r: usize| -> Vec<C> {
                    (0..n).map(|k| C::from(x[at(&strides, r, k)])).collect()
                };
                let want: Vec<Vec<C>> = (0..rows).map(|r| sum(&line(r), -1.0)).collect();
                let before = x.clone();
                for to_n in [n / 2 + 1, n] {
                    let (out_sizes, out_strides) = layout(rows, to_n, apart);
                    let mut y = vec![C::zero(); rows * to_n];
                    let out = output_of(&mut y, out_sizes, out_strides);
                    let a = input_of(&x, sizes, strides);
                    fft(Transform::FromReal, out, a, 1, 1.0).unwrap();
                    for (r, want) in want.iter().enumerate() {
                        for (k, want) in want[..to_n].iter().enumerate() {
                            let got = y[at(&out_strides, r, k)];
                            near(got, *want, 1e-12 * n as f64, &format!("{n} {r} {k}"));
                        }
                    }
                    if to_n != n / 2 + 1 {
                        continue;
                    }
                    // and back, whatever imaginary parts the ends have
                    for r in 0..rows {
                        y[at(&out_strides, r, 0)].im = 3.0;
                        if n % 2 == 0 {
                            y[at(&out_strides, r, n / 2)].im = f64::NAN;
                        }
                    }
                    let mut back = vec![0.0; rows * n];
                    let out = output_of(&mut back, sizes, strides);
                    let a = input_of(&y, out_sizes, out_strides);
                    fft(Transform::ToReal, out, a, 1, 1.0 / n as f64).unwrap();
                    for (got, want) in back.iter().zip(&before) {
                        near(C::from(*got), C::from(*want), 1e-12, &format!("{n} back"));
                    }
                }
            }
        }
    }

    #[test]
    fn dtypes_that_do_not_belong_together_are_refused() {
        let (x, mut y) = ([0f32; 4], [C::zero(); 4]);
        fn from_real(out: Out<'_>, a: In<'_>, dim: usize) -> Result<(), KernelError> {
            fft(Transform::FromReal, out, a, dim, 1.0)
        }
        assert!(from_real(output_of(&mut y, [3], [1]), input(&x), 0).is_err());
        let (x, mut y) = ([0f64; 2], [C::zero(); 4]);
        // a longer result than its operand, a dimension that there is not, no dimension
        assert!(from_real(output(&mut y), input(&x), 0).is_err());
        assert!(from_real(output_of(&mut y, [2], [1]), input(&x), 1).is_err());
        let (one, mut to) = ([0f64; 1], [C::zero(); 1]);
        assert!(from_real(output_of(&mut to, [], []), input_of(&one, [], []), 0).is_err());
    }

    #[test]
    fn the_cache_stays_within_its_bound() {
        let mut plans = Plans::<f32>::default();
        let plan = <f32 as straightline_fourier::Precision>::make(Transform::Forward, 1);
        plans.keep(Transform::Forward, KEPT + 1, &plan);
        assert!(plans.kept.is_empty());
        for n in 0..5 {
            plans.keep(Transform::Forward, KEPT / 3 + n, &plan);
            plans.keep(Transform::Forward, KEPT / 3 + n, &plan);
            let sum: usize = plans.kept.keys().map(|(_, n)| n).sum();
            assert!(sum == plans.total && sum <= KEPT && !plans.kept.is_empty());
        }
        let n = 24;
        let again = || match f32::plan(Transform::Forward, n) {
            Plan::Complex(p) => p,
            _ => unreachable!("a complex transform"),
        };
        assert!(Arc::ptr_eq(&again(), &again()));
    }
}
