//! Normalisation over channels or groups: moments, scaling, and what their gradients are made of.
//!
//! Everything is f32 or f64 in dense memory, sums are kept in f64. A batch norm over row-major
//! memory, a batch norm over channels-last memory, a group norm and a weight norm differ only in
//! the [`Channels`] they are called with.

use super::nest::Shared;
use super::operand::{In, Out, apart, ask, row_major, same_dtype};
use super::{KernelError, Strided};
use crate::cpu::math::{Lane, Simd, SimdTask};
use crate::cpu::threads;
use straightline_passes::ir::{DType, layout};

/// Dense memory as `outer` blocks of `channels` runs of `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the struct's sentence names each field
pub struct Channels {
    pub outer: usize,
    pub channels: usize,
    pub inner: usize,
}

impl Channels {
    /// Elements of one channel.
    pub fn each(&self) -> usize {
        self.outer * self.inner
    }

    fn len(&self) -> usize {
        self.outer * self.channels * self.inner
    }
}

/// Elements from which work is split over threads.
const PARALLEL: usize = 1 << 15;

trait Real: Lane {
    fn wide(self) -> f64;
    fn narrow(x: f64) -> Self;
    fn times(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

macro_rules! real {
    ($($t:ty),*) => {$(
        impl Real for $t {
            #[inline(always)]
            fn wide(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn narrow(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self - other
            }
        }
    )*};
}
real!(f32, f64);

/// Code compiled for the widest vectors of the machine; the compiler vectorises the loops inside.
struct Wide<F>(F);

impl<E, F: FnOnce() -> R, R> SimdTask<E> for Wide<F> {
    type Out = R;
    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, _: S) -> R {
        (self.0)()
    }
}

#[inline]
fn wide<R>(f: impl FnOnce() -> R) -> R {
    f32::dispatch(Wide(f))
}

macro_rules! real_dtype {
    ($dtype:expr, $call:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $call::<f32>($($arg),*),
            DType::F64 => $call::<f64>($($arg),*),
            dtype => return Err(KernelError::unsupported("normalisation", dtype)),
        }
    };
}

const NAME: &str = "normalisation";

/// The operands fill their memory in one order, and have the elements and the dtype of the first.
fn check(s: Channels, operands: &[&Strided<'_>]) -> Result<DType, KernelError> {
    let first = operands[0];
    for t in operands {
        same_dtype(NAME, &[first, t])?;
        let dense = layout::is_non_overlapping_and_dense(t.sizes, t.strides);
        ask(NAME, dense && t.numel() == s.len(), "dense operands of its channels")?;
        ask(NAME, t.is_aligned(), "aligned elements")?;
    }
    Ok(first.dtype)
}

/// There is a number for each channel.
fn check_numbers<T>(s: Channels, numbers: &[T]) -> Result<(), KernelError> {
    ask(NAME, numbers.len() == s.channels, "a factor for each channel")
}

/// Mean and variance (divided by the count) of each channel of dense memory.
pub fn moments(s: Channels, x: In<'_>) -> Result<Vec<[f64; 2]>, KernelError> {
    apart(NAME, &[x])?;
    let x = x.raw();
    let dtype = check(s, &[&x])?;
    // SAFETY: dense memory of these sizes.
    Ok(unsafe { real_dtype!(dtype, moments_of(s, x.ptr.cast())) })
}

/// The sums of `dy` and of `(x - mean) * dy` over each channel.
pub fn dots(
    s: Channels,
    x: In<'_>,
    dy: In<'_>,
    mean: &[f64],
) -> Result<Vec<[f64; 2]>, KernelError> {
    apart(NAME, &[x, dy])?;
    let (x, dy) = (x.raw(), dy.raw());
    let dtype = check(s, &[&x, &dy])?;
    check_numbers(s, mean)?;
    // SAFETY: dense memory of these sizes.
    Ok(unsafe { real_dtype!(dtype, dots_of(s, x.ptr.cast(), dy.ptr.cast(), mean)) })
}

/// `out = (x - centre) * scale + shift`, these three numbers for each channel.
pub fn affine(
    s: Channels,
    x: In<'_>,
    factors: &[[f64; 3]],
    out: Out<'_>,
) -> Result<(), KernelError> {
    let (x, out) = (x.raw(), out.raw());
    let dtype = check(s, &[&x, &out])?;
    check_numbers(s, factors)?;
    // SAFETY: dense memory of these sizes; the result is `x` or lies apart.
    unsafe { real_dtype!(dtype, affine_of(s, x.ptr.cast(), factors, out.ptr.cast())) }
    Ok(())
}

/// `out = dy * a + (x - m) * b + c`, the numbers `[m, a, b, c]` for each channel.
pub fn combine(
    s: Channels,
    x: In<'_>,
    dy: In<'_>,
    factors: &[[f64; 4]],
    out: Out<'_>,
) -> Result<(), KernelError> {
    apart(NAME, &[x, dy])?;
    let (x, dy, out) = (x.raw(), dy.raw(), out.raw());
    let dtype = check(s, &[&x, &dy, &out])?;
    check_numbers(s, factors)?;
    // SAFETY: dense memory of these sizes; the result lies apart.
    unsafe {
        real_dtype!(dtype, combine_of(s, x.ptr.cast(), dy.ptr.cast(), factors, out.ptr.cast()))
    }
    Ok(())
}

/// The sum of `f(i)` over `n` numbers, in eight parts.
#[inline(always)]
fn sum_of(n: usize, f: impl Fn(usize) -> f64) -> f64 {
    let mut parts = [0.0; 8];
    let whole = n - n % 8;
    let mut i = 0;
    while i < whole {
        for (j, part) in parts.iter_mut().enumerate() {
            *part += f(i + j);
        }
        i += 8;
    }
    let rest: f64 = (whole..n).map(f).sum();
    parts.iter().sum::<f64>() + rest
}

/// One number for each channel by `run`, which sums over the runs of one channel.
fn per_channel<R: Send + Copy + Default>(s: Channels, run: &(dyn Fn(usize) -> R + Sync)) -> Vec<R> {
    let mut all = vec![R::default(); s.channels];
    let to = Shared(all.as_mut_ptr().cast::<u8>());
    let grain = (PARALLEL / s.each().max(1)).max(1);
    threads::parallel_ranges(s.channels, grain, &|begin, end| {
        for c in begin..end {
            // SAFETY: one element of `all` for each channel.
            unsafe { *to.at(0).cast::<R>().add(c) = run(c) };
        }
    });
    all
}

unsafe fn moments_of<T: Real>(s: Channels, x: *const T) -> Vec<[f64; 2]> {
    let x = Shared(x.cast_mut().cast::<u8>());
    let at = move |i: usize| x.at(0).cast::<T>().wrapping_add(i).cast_const();
    let n = s.each() as f64;
    if s.inner != 1 || s.channels == 1 {
        return per_channel(s, &|c| {
            let run = |o: usize| at((o * s.channels + c) * s.inner);
            // SAFETY: the runs of channel `c`.
            wide(|| unsafe {
                let total: f64 = (0..s.outer)
                    .map(|o| {
                        let p = run(o);
                        sum_of(s.inner, |i| (*p.add(i)).wide())
                    })
                    .sum();
                let mean = total / n;
                let squares: f64 = (0..s.outer)
                    .map(|o| {
                        let p = run(o);
                        sum_of(s.inner, |i| {
                            let d = (*p.add(i)).wide() - mean;
                            d * d
                        })
                    })
                    .sum();
                [mean, squares / n]
            })
        });
    }
    let mut all = vec![[0.0; 2]; s.channels];
    // SAFETY: each block holds `channels` elements.
    wide(|| unsafe {
        for o in 0..s.outer {
            for (c, sums) in all.iter_mut().enumerate() {
                sums[0] += (*at(o * s.channels + c)).wide();
            }
        }
        all.iter_mut().for_each(|sums| sums[0] /= n);
        for o in 0..s.outer {
            for (c, sums) in all.iter_mut().enumerate() {
                let d = (*at(o * s.channels + c)).wide() - sums[0];
                sums[1] += d * d;
            }
        }
        all.iter_mut().for_each(|sums| sums[1] /= n);
    });
    all
}

unsafe fn dots_of<T: Real>(s: Channels, x: *const T, dy: *const T, mean: &[f64]) -> Vec<[f64; 2]> {
    let (x, dy) = (Shared(x.cast_mut().cast::<u8>()), Shared(dy.cast_mut().cast::<u8>()));
    let at = move |p: Shared, i: usize| p.at(0).cast::<T>().wrapping_add(i).cast_const();
    if s.inner != 1 || s.channels == 1 {
        return per_channel(s, &|c| {
            // SAFETY: the runs of channel `c`.
            wide(|| unsafe {
                let mut sums = [0.0; 2];
                for o in 0..s.outer {
                    let begin = (o * s.channels + c) * s.inner;
                    let (p, q) = (at(x, begin), at(dy, begin));
                    sums[0] += sum_of(s.inner, |i| (*q.add(i)).wide());
                    sums[1] +=
                        sum_of(s.inner, |i| ((*p.add(i)).wide() - mean[c]) * (*q.add(i)).wide());
                }
                sums
            })
        });
    }
    let mut all = vec![[0.0; 2]; s.channels];
    // SAFETY: each block holds `channels` elements.
    wide(|| unsafe {
        for o in 0..s.outer {
            for (c, sums) in all.iter_mut().enumerate() {
                let i = o * s.channels + c;
                let g = (*at(dy, i)).wide();
                sums[0] += g;
                sums[1] += ((*at(x, i)).wide() - mean[c]) * g;
            }
        }
    });
    all
}

/// Calls `f(channel, begin)` for each run; `f` gets channel 0 and the whole block where runs are
/// single elements.
fn runs(s: Channels, f: &(dyn Fn(usize, usize) + Sync)) {
    let (count, length) =
        if s.inner == 1 { (s.outer, s.channels) } else { (s.outer * s.channels, s.inner) };
    let grain =
        if s.len() < PARALLEL { count.max(1) } else { (PARALLEL / 4 / length.max(1)).max(1) };
    threads::parallel_ranges(count, grain, &|begin, end| {
        for i in begin..end {
            f(if s.inner == 1 { 0 } else { i % s.channels }, i * length);
        }
    });
}

unsafe fn affine_of<T: Real>(s: Channels, x: *const T, factors: &[[f64; 3]], out: *mut T) {
    let factors: Vec<[T; 3]> = factors.iter().map(|f| f.map(T::narrow)).collect();
    let (x, out) = (Shared(x.cast_mut().cast::<u8>()), Shared(out.cast::<u8>()));
    runs(s, &|c, begin| {
        let p = x.at(0).cast::<T>().wrapping_add(begin).cast_const();
        let to = out.at(0).cast::<T>().wrapping_add(begin);
        // SAFETY: this run, of the channel or of all channels.
        wide(|| unsafe {
            if s.inner == 1 {
                for (i, [m, a, b]) in factors.iter().enumerate() {
                    *to.add(i) = (*p.add(i)).minus(*m).times(*a).plus(*b);
                }
            } else {
                let [m, a, b] = factors[c];
                for i in 0..s.inner {
                    *to.add(i) = (*p.add(i)).minus(m).times(a).plus(b);
                }
            }
        });
    });
}

unsafe fn combine_of<T: Real>(
    s: Channels,
    x: *const T,
    dy: *const T,
    factors: &[[f64; 4]],
    out: *mut T,
) {
    let factors: Vec<[T; 4]> = factors.iter().map(|f| f.map(T::narrow)).collect();
    let [x, dy, out] = [x.cast_mut(), dy.cast_mut(), out].map(|p| Shared(p.cast::<u8>()));
    let at = |p: Shared, i: usize| p.at(0).cast::<T>().wrapping_add(i);
    let one = |[m, a, b, c]: [T; 4], x: T, g: T| g.times(a).plus(x.minus(m).times(b)).plus(c);
    runs(s, &|c, begin| {
        let (p, q, to) = (at(x, begin), at(dy, begin), at(out, begin));
        // SAFETY: this run, of the channel or of all channels.
        wide(|| unsafe {
            if s.inner == 1 {
                for (i, f) in factors.iter().enumerate() {
                    *to.add(i) = one(*f, *p.add(i), *q.add(i));
                }
            } else {
                let f = factors[c];
                for i in 0..s.inner {
                    *to.add(i) = one(f, *p.add(i), *q.add(i));
                }
            }
        });
    });
}

/// What [`layer_norm_gradient`] reads and writes; all row-major and of one dtype.
#[derive(Debug)]
pub struct LayerGradient<'a> {
    /// Rows by columns.
    pub dy: In<'a>,
    /// Rows by columns.
    pub x: In<'a>,
    /// One for each row.
    pub mean: In<'a>,
    /// One for each row.
    pub rstd: In<'a>,
    /// One for each column; ones if there is none.
    pub weight: Option<In<'a>>,
    /// Rows by columns.
    pub dx: Option<Out<'a>>,
    /// One for each column.
    pub dweight: Option<Out<'a>>,
    /// One for each column.
    pub dbias: Option<Out<'a>>,
}

/// The addresses of a [`LayerGradient`], null where there is no operand.
struct Addresses {
    dy: *mut u8,
    x: *mut u8,
    mean: *mut u8,
    rstd: *mut u8,
    weight: *mut u8,
    dx: *mut u8,
    dweight: *mut u8,
    dbias: *mut u8,
}

/// The gradients of a layer norm over each of `rows` rows of `cols` columns.
pub fn layer_norm_gradient(
    (rows, cols): (usize, usize),
    g: LayerGradient<'_>,
) -> Result<(), KernelError> {
    let first = g.x.raw();
    let address = |t: Option<Strided<'_>>, numel: usize| -> Result<*mut u8, KernelError> {
        let Some(t) = t else {
            return Ok(std::ptr::null_mut());
        };
        same_dtype(NAME, &[&first, &t])?;
        row_major(NAME, &[&t])?;
        ask(NAME, t.numel() == numel, "operands of its rows and columns")?;
        ask(NAME, t.is_aligned(), "aligned elements")?;
        Ok(t.ptr)
    };
    apart(NAME, &[g.dy, g.x, g.mean, g.rstd])?;
    apart(NAME, g.weight.as_slice())?;
    let written = |o: &Option<Out<'_>>, numel| address(o.as_ref().map(Out::raw), numel);
    let addresses = Addresses {
        dy: address(Some(g.dy.raw()), rows * cols)?,
        x: address(Some(first), rows * cols)?,
        mean: address(Some(g.mean.raw()), rows)?,
        rstd: address(Some(g.rstd.raw()), rows)?,
        weight: address(g.weight.map(In::raw), cols)?,
        dx: written(&g.dx, rows * cols)?,
        dweight: written(&g.dweight, cols)?,
        dbias: written(&g.dbias, cols)?,
    };
    // SAFETY: operands of these sizes; what is written lies apart.
    unsafe { real_dtype!(first.dtype, layer_gradient(rows, cols, addresses)) }
    Ok(())
}

/// # Safety
///
/// The addresses are those of as many elements of `T` as [`LayerGradient`] says, or null.
unsafe fn layer_gradient<T: Real>(rows: usize, cols: usize, g: Addresses) {
    let [dy, x, mean, rstd, weight] = [g.dy, g.x, g.mean, g.rstd, g.weight].map(Shared);
    let [dx, dweight, dbias] = [g.dx, g.dweight, g.dbias].map(Shared);
    let at = |p: Shared, i: usize| p.at(0).cast::<T>().wrapping_add(i);
    let null = |p: Shared| p.at(0).is_null();
    let grain = (PARALLEL / cols.max(1)).max(1);
    if !null(dx) {
        threads::parallel_ranges(rows, grain, &|begin, end| {
            // SAFETY: these rows, and the columns of the weight.
            wide(|| unsafe {
                for r in begin..end {
                    let (x, dy, dx) = (at(x, r * cols), at(dy, r * cols), at(dx, r * cols));
                    let (m, s) = ((*at(mean, r)).wide(), (*at(rstd, r)).wide());
                    let scaled = |i: usize| {
                        let g = (*dy.add(i)).wide();
                        if null(weight) { g } else { g * (*at(weight, i)).wide() }
                    };
                    let sum = sum_of(cols, scaled);
                    let dot = sum_of(cols, |i| scaled(i) * ((*x.add(i)).wide() - m));
                    let n = cols as f64;
                    let (b, c) = (-dot * s * s * s / n, -sum * s / n);
                    for i in 0..cols {
                        let v = scaled(i) * s + ((*x.add(i)).wide() - m) * b + c;
                        *dx.add(i) = T::narrow(v);
                    }
                }
            });
        });
    }
    if null(dweight) && null(dbias) {
        return;
    }
    let grain = (PARALLEL / rows.max(1)).max(64);
    threads::parallel_ranges(cols, grain, &|begin, end| {
        let mut sums = vec![[0.0f64; 2]; end - begin];
        // SAFETY: these columns of each row.
        wide(|| unsafe {
            for r in 0..rows {
                let (m, s) = ((*at(mean, r)).wide(), (*at(rstd, r)).wide());
                let (x, dy) = (at(x, r * cols + begin), at(dy, r * cols + begin));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let g = (*dy.add(i)).wide();
                    sums[0] += g * ((*x.add(i)).wide() - m) * s;
                    sums[1] += g;
                }
            }
            for (i, [w, b]) in sums.iter().enumerate() {
                if !null(dweight) {
                    *at(dweight, begin + i) = T::narrow(*w);
                }
                if !null(dbias) {
                    *at(dbias, begin + i) = T::narrow(*b);
                }
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::super::operand::tests::{input, output};
    use super::*;

    #[test]
    fn operands_of_other_sizes_are_refused() {
        let s = Channels { outer: 1, channels: 2, inner: 3 };
        let (x, mut out) = ([0f32; 6], [0f32; 6]);
        let factors = [[0.0; 3]; 2];
        assert!(affine(s, input(&x), &factors, output(&mut out)).is_ok());
        assert!(affine(s, input(&x[..5]), &factors, output(&mut out)).is_err());
        assert!(affine(s, input(&x), &factors[..1], output(&mut out)).is_err());
        assert!(affine(s, input(&x), &factors, output(&mut out[..5])).is_err());
        assert!(affine(s, input(&[0f64; 6]), &factors, output(&mut out)).is_err());
        assert!(dots(s, input(&x), input(&x), &[0.0]).is_err());
    }

    #[test]
    fn both_layouts_give_the_moments_of_the_channels() {
        let x: Vec<f32> = (0..24).map(|i| (i * i % 7) as f32).collect();
        for s in [
            Channels { outer: 2, channels: 3, inner: 4 },
            Channels { outer: 8, channels: 3, inner: 1 },
        ] {
            let got = moments(s, input(&x)).unwrap();
            for (c, [mean, var]) in got.into_iter().enumerate() {
                let of: Vec<f64> = (0..24)
                    .filter(|i| i / s.inner % s.channels == c)
                    .map(|i| f64::from(x[i]))
                    .collect();
                let m = of.iter().sum::<f64>() / 8.0;
                let v = of.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / 8.0;
                assert!((mean - m).abs() < 1e-12 && (var - v).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn affine_takes_the_factors_of_the_channel() {
        let x = [1f64, 2.0, 3.0, 4.0];
        for (s, want) in [
            (Channels { outer: 1, channels: 2, inner: 2 }, [3.0, 5.0, 20.0, 30.0]),
            (Channels { outer: 2, channels: 2, inner: 1 }, [3.0, 10.0, 7.0, 30.0]),
        ] {
            let mut out = [0f64; 4];
            let factors = [[0.0, 2.0, 1.0], [1.0, 10.0, 0.0]];
            affine(s, input(&x), &factors, output(&mut out)).unwrap();
            assert_eq!(out, want);
        }
    }
}
