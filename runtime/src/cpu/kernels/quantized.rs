//! Quantized arithmetic: integers that stand for `(q - zero_point) * scale`.
//!
//! Rounding is to nearest, ties to even, then saturation. The order of operations is that of
//! PyTorch's scalar kernels (FBGEMM's `Quantize` without its legacy mode): divide by multiplying
//! with the `f32` inverse of the scale, round, and only then add the zero point.

use super::matmul::bytes::PackedBytes;
use crate::cpu::threads;
use std::sync::Arc;

/// Elements below which one thread does an element-wise operation, and multiplications for a
/// product.
const GRAIN: usize = 1 << 15;
const PARALLEL_WORK: usize = 1 << 18;
/// Rows of a product whose sums are worked out at a time.
const ROWS: usize = 32;

/// The integer of a quantized dtype.
pub trait Quantum: Copy + Send + Sync + 'static {
    /// The least value.
    const MIN: i64;
    /// The greatest value.
    const MAX: i64;
    /// The value as a wide integer.
    fn wide(self) -> i64;
    /// From a value in range.
    fn narrow(v: i64) -> Self;
}

macro_rules! quantum {
    ($($t:ty),*) => {$(
        impl Quantum for $t {
            const MIN: i64 = <$t>::MIN as i64;
            const MAX: i64 = <$t>::MAX as i64;
            #[inline(always)]
            fn wide(self) -> i64 { self as i64 }
            #[inline(always)]
            fn narrow(v: i64) -> $t { v.clamp(<Self as Quantum>::MIN, <Self as Quantum>::MAX) as $t }
        }
    )*};
}
quantum!(i8, u8, i32);

/// A scale and a zero point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Affine {
    /// The real step between two integers.
    pub scale: f32,
    /// The integer that stands for 0.
    pub zero_point: i32,
}

impl Affine {
    /// The integer that is nearest to a real number. NaN is the greatest.
    #[inline(always)]
    pub fn quantize<Q: Quantum>(self, x: f32) -> Q {
        self.place(x * (1.0 / self.scale))
    }

    /// A number of steps from zero, as an integer.
    #[inline(always)]
    fn place<Q: Quantum>(self, steps: f32) -> Q {
        if steps.is_nan() {
            return Q::narrow(Q::MAX);
        }
        // the cast saturates, so infinities arrive at the ends
        let rounded = steps.round_ties_even() as i64;
        Q::narrow(rounded.saturating_add(i64::from(self.zero_point)))
    }

    /// The real number that an integer stands for.
    #[inline(always)]
    pub fn dequantize<Q: Quantum>(self, q: Q) -> f32 {
        (q.wide() - i64::from(self.zero_point)) as f32 * self.scale
    }
}

/// A pointer that threads may share: each writes a range of its own.
struct Out<T>(*mut T);

// SAFETY: the ranges that threads write are disjoint.
unsafe impl<T: Send> Sync for Out<T> {}

impl<T> Out<T> {
    /// # Safety
    ///
    /// The range lies within the slice that this was made from, and nobody else has a part of it.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, begin: usize, end: usize) -> &mut [T] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(begin), end - begin) }
    }
}

/// Fills `out`, ranges of it on several threads.
fn map<T: Send>(out: &mut [T], f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let n = out.len();
    let to = Out(out.as_mut_ptr());
    threads::parallel_ranges(n, GRAIN, &|begin, end| {
        // SAFETY: the ranges are disjoint parts of `out`.
        f(begin, unsafe { to.part(begin, end) });
    });
}

/// `out = quantize(x)`.
pub fn quantize<Q: Quantum>(out: &mut [Q], x: &[f32], affine: Affine) {
    map(out, &|at, part| {
        for (o, x) in part.iter_mut().zip(&x[at..]) {
            *o = affine.quantize(*x);
        }
    });
}

/// `out = dequantize(q)`.
pub fn dequantize<Q: Quantum>(out: &mut [f32], q: &[Q], affine: Affine) {
    map(out, &|at, part| {
        for (o, q) in part.iter_mut().zip(&q[at..]) {
            *o = affine.dequantize(*q);
        }
    });
}

/// How the integers of one dimension are spread over a row-major tensor: element `i` has channel
/// `i / inner % channels.len()`.
#[derive(Clone, Copy, Debug)]
pub struct Channels<'a> {
    /// The scale and zero point of each channel.
    pub affine: &'a [Affine],
    /// Elements of the dimensions after the channel's.
    pub inner: usize,
}

impl Channels<'_> {
    fn of(&self, i: usize) -> Affine {
        self.affine[i / self.inner.max(1) % self.affine.len()]
    }
}

/// [`quantize`], each channel with its own scale.
pub fn quantize_channels<Q: Quantum>(out: &mut [Q], x: &[f32], channels: Channels<'_>) {
    map(out, &|at, part| {
        for (i, o) in part.iter_mut().enumerate() {
            *o = channels.of(at + i).quantize(x[at + i]);
        }
    });
}

/// [`dequantize`], each channel with its own scale.
pub fn dequantize_channels<Q: Quantum>(out: &mut [f32], q: &[Q], channels: Channels<'_>) {
    map(out, &|at, part| {
        for (i, o) in part.iter_mut().enumerate() {
            *o = channels.of(at + i).dequantize(q[at + i]);
        }
    });
}

/// `out = a + b`, each side with its own scale, optionally with negative results cut to zero.
pub fn add<Q: Quantum>(
    (out, to): (&mut [Q], Affine),
    (a, of_a): (&[Q], Affine),
    (b, of_b): (&[Q], Affine),
    relu: bool,
) {
    map(out, &|at, part| {
        for ((o, a), b) in part.iter_mut().zip(&a[at..]).zip(&b[at..]) {
            let sum = of_a.dequantize(*a) + of_b.dequantize(*b);
            *o = to.quantize(if relu { sum.max(0.0) } else { sum });
        }
    });
}

/// `out = a * b`: the product of the integers is exact, and rounded once.
pub fn mul<Q: Quantum>(
    (out, to): (&mut [Q], Affine),
    (a, of_a): (&[Q], Affine),
    (b, of_b): (&[Q], Affine),
    relu: bool,
) {
    let multiplier = of_a.scale * of_b.scale * (1.0 / to.scale);
    map(out, &|at, part| {
        for ((o, a), b) in part.iter_mut().zip(&a[at..]).zip(&b[at..]) {
            let product = (a.wide() - i64::from(of_a.zero_point))
                .wrapping_mul(b.wide() - i64::from(of_b.zero_point));
            let q: Q = to.place(product as f32 * multiplier);
            *o = if relu { Q::narrow(q.wide().max(i64::from(to.zero_point))) } else { q };
        }
    });
}

/// Cuts integers to a range.
pub fn clamp<Q: Quantum>(out: &mut [Q], q: &[Q], min: i64, max: i64) {
    map(out, &|at, part| {
        for (o, q) in part.iter_mut().zip(&q[at..]) {
            *o = Q::narrow(q.wide().max(min).min(max));
        }
    });
}

/// The weights of a linear layer, with what a product needs of them worked out once.
#[derive(Clone, Debug)]
pub struct PackedWeights {
    /// `n` rows of `k` weights.
    weights: Vec<i8>,
    /// The same as products take them.
    panels: Arc<PackedBytes>,
    /// The sum of each row's weights, less `k` zero points.
    sums: Vec<i32>,
    /// The scale and zero point of each row.
    affine: Vec<Affine>,
    k: usize,
}

impl PackedWeights {
    /// Takes `affine.len()` rows of `k` weights.
    pub fn new(weights: &[i8], k: usize, affine: Vec<Affine>) -> PackedWeights {
        let row = |n: usize| &weights[n * k..(n + 1) * k];
        let sums = affine
            .iter()
            .enumerate()
            .map(|(n, a)| {
                let sum: i32 = row(n).iter().map(|w| i32::from(*w)).sum();
                sum - k as i32 * a.zero_point
            })
            .collect();
        let panels = Arc::new(PackedBytes::transposed(weights, affine.len(), k));
        let weights = weights[..affine.len() * k].to_vec();
        PackedWeights { weights, panels, sums, affine, k }
    }

    /// Weights per row.
    pub fn inputs(&self) -> usize {
        self.k
    }

    /// The number of rows.
    pub fn outputs(&self) -> usize {
        self.affine.len()
    }

    /// The weights, row by row.
    pub fn weights(&self) -> &[i8] {
        &self.weights
    }

    /// The scale and zero point of each row.
    pub fn affine(&self) -> &[Affine] {
        &self.affine
    }

    /// `sum over k of (x - zero_point) * (w - its zero point)`, exactly, for each row of `x` and
    /// each of the weights. The `m` rows of the result are given to `finish` with the number of the
    /// row.
    fn products(
        &self,
        x: &[u8],
        m: usize,
        zero_point: i32,
        finish: &(dyn Fn(usize, &[i32]) + Sync),
    ) {
        let (n, k) = (self.outputs(), self.k);
        if n == 0 {
            return;
        }
        assert_eq!(x.len(), m * k, "a row of x for each of the result");
        let rows = |begin: usize, end: usize| {
            let mut block = vec![0i32; ROWS.min(end - begin) * n];
            for first in (begin..end).step_by(ROWS) {
                let last = end.min(first + ROWS);
                let x = &x[first * k..last * k];
                let block = &mut block[..(last - first) * n];
                self.panels.rows(x, block);
                for (i, sums) in block.chunks_exact_mut(n).enumerate() {
                    let of_x: i32 = x[i * k..(i + 1) * k].iter().map(|v| i32::from(*v)).sum();
                    for ((s, affine), of_w) in sums.iter_mut().zip(&self.affine).zip(&self.sums) {
                        *s = s
                            .wrapping_sub(affine.zero_point.wrapping_mul(of_x))
                            .wrapping_sub(zero_point.wrapping_mul(*of_w));
                    }
                    finish(first + i, sums);
                }
            }
        };
        let work = m * n * k;
        if work < PARALLEL_WORK {
            rows(0, m);
        } else {
            threads::parallel_ranges(m, (PARALLEL_WORK / 2).div_ceil((n * k).max(1)), &rows);
        }
    }
}

/// `out = quantize(x @ w.T + bias)`.
pub fn linear(
    (out, to): (&mut [u8], Affine),
    (x, of_x): (&[u8], Affine),
    w: &PackedWeights,
    bias: Option<&[f32]>,
    relu: bool,
) {
    let n = w.outputs();
    let scales: Vec<(f32, f32)> = w
        .affine
        .iter()
        .map(|a| {
            let input = of_x.scale * a.scale;
            (input, input / to.scale)
        })
        .collect();
    let m = out.len().checked_div(n).unwrap_or(0);
    let dst = Out(out.as_mut_ptr());
    w.products(x, m, of_x.zero_point, &|i, sums| {
        // SAFETY: row i of the result, which is ours alone.
        let row = unsafe { dst.part(i * n, (i + 1) * n) };
        for (j, o) in row.iter_mut().enumerate() {
            let (input, multiplier) = scales[j];
            let sum = match bias {
                Some(b) => sums[j] as f32 + b[j] / input,
                None => sums[j] as f32,
            };
            let q: u8 = to.place(sum * multiplier);
            *o = if relu { q.max(to.zero_point.clamp(0, 255) as u8) } else { q };
        }
    });
}

/// `out = x @ w.T + bias` in real numbers, of an `x` that has just been quantized.
pub fn linear_dynamic(
    out: &mut [f32],
    (x, of_x): (&[u8], Affine),
    w: &PackedWeights,
    bias: Option<&[f32]>,
) {
    let n = w.outputs();
    let m = out.len().checked_div(n).unwrap_or(0);
    let dst = Out(out.as_mut_ptr());
    w.products(x, m, of_x.zero_point, &|i, sums| {
        // SAFETY: row i of the result, which is ours alone.
        let row = unsafe { dst.part(i * n, (i + 1) * n) };
        for (j, o) in row.iter_mut().enumerate() {
            let y = sums[j] as f32 * (of_x.scale * w.affine[j].scale);
            *o = bias.map_or(y, |b| y + b[j]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_even_before_the_zero_point_and_saturates() {
        let a = Affine { scale: 0.5, zero_point: 3 };
        // 0.25 is half a step: to even, which is 0; the zero point comes after
        let q: Vec<u8> =
            [0.25, -0.25, 0.75, 100.0, 1e9, -1e9, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]
                .map(|x| a.quantize(x))
                .to_vec();
        assert_eq!(q, [3, 3, 5, 203, 255, 0, 255, 0, 255]);
        assert_eq!(a.dequantize(203u8), 100.0);
        let q: i32 = Affine { scale: 0.1, zero_point: 10 }.quantize(f32::INFINITY);
        assert_eq!(q, i32::MAX);
    }

    #[test]
    fn linear_is_the_product_of_what_the_integers_stand_for() {
        let (m, n, k) = (70, 33, 129);
        let of_x = Affine { scale: 0.5, zero_point: 7 };
        let affine: Vec<Affine> =
            (0..n).map(|j| Affine { scale: 0.25, zero_point: j % 5 - 2 }).collect();
        let x: Vec<u8> = (0..m * k).map(|i| (i * 31 % 251) as u8).collect();
        let w: Vec<i8> = (0..n as usize * k).map(|i| (i * 17 % 255) as u8 as i8).collect();
        let packed = PackedWeights::new(&w, k, affine.clone());
        let mut out = vec![0f32; m * n as usize];
        linear_dynamic(&mut out, (&x, of_x), &packed, None);
        for i in [0, m - 1] {
            for j in [0, 1, n as usize - 1] {
                let want: i64 = (0..k)
                    .map(|p| {
                        (i64::from(x[i * k + p]) - 7)
                            * (i64::from(w[j * k + p]) - i64::from(affine[j].zero_point))
                    })
                    .sum();
                assert_eq!(out[i * n as usize + j], want as f32 * 0.125);
            }
        }
    }
}
