//! Discrete Fourier transforms along one dimension, of any length, computed in double precision.
//!
//! Lengths fall apart into their prime factors; one with a factor above `DIRECT` becomes a convolution of a length
//! that is a power of two (Bluestein's algorithm), so that no length costs a square of itself.

use super::nest::{Nest, parallel};
use super::{KernelError, Strided};
use num_complex::Complex;
use straightline_passes::ir::{DType, Dims};

type C = Complex<f64>;

/// The largest prime factor whose terms are summed one by one.
const DIRECT: usize = 31;

/// What a transform of `n` elements needs to know.
struct Plan {
    n: usize,
    factors: Vec<usize>,
    /// `exp(-2 pi i k / n)`.
    roots: Vec<C>,
    long: Option<Box<Convolution>>,
}

/// Bluestein's form: multiplied by a chirp, the sum is a convolution with it.
struct Convolution {
    chirp: Vec<C>,
    /// The transform of the conjugate chirp.
    filter: Vec<C>,
    plan: Plan,
}

fn roots(n: usize) -> Vec<C> {
    (0..n)
        .map(|k| {
            let (sin, cos) = (std::f64::consts::TAU * k as f64 / n as f64).sin_cos();
            C::new(cos, -sin)
        })
        .collect()
}

fn factors(mut n: usize) -> Vec<usize> {
    let mut out = Vec::new();
    let mut p = 2;
    while n > 1 {
        while n.is_multiple_of(p) {
            out.push(p);
            n /= p;
        }
        p += 1;
        if p * p > n && n > 1 {
            p = n;
        }
    }
    out
}

impl Plan {
    fn new(n: usize) -> Plan {
        let factors = factors(n);
        let long = factors.iter().any(|p| *p > DIRECT).then(|| {
            let length = (2 * n - 1).next_power_of_two();
            let plan = Plan::new(length);
            // exp(-pi i k^2 / n), the square taken modulo 2n
            let turns = roots(2 * n);
            let chirp: Vec<C> = (0..n)
                .map(|k| turns[((k as u128 * k as u128) % (2 * n as u128)) as usize])
                .collect();
            let mut filter = vec![C::new(0.0, 0.0); length];
            for (k, c) in chirp.iter().enumerate() {
                filter[k] = c.conj();
                filter[(length - k) % length] = c.conj();
            }
            let filter = plan.run(&filter);
            Box::new(Convolution {
                chirp,
                filter,
                plan,
            })
        });
        Plan {
            n,
            roots: if long.is_some() { Vec::new() } else { roots(n) },
            factors,
            long,
        }
    }

    /// The forward transform.
    fn run(&self, x: &[C]) -> Vec<C> {
        let mut out = vec![C::new(0.0, 0.0); self.n];
        match &self.long {
            None => self.step(x, 1, &mut out, &self.factors),
            Some(c) => {
                let length = c.plan.n;
                let mut a = vec![C::new(0.0, 0.0); length];
                for ((a, x), w) in a.iter_mut().zip(x).zip(&c.chirp) {
                    *a = x * w;
                }
                // the inverse of the product, by conjugates
                let product: Vec<C> = (c.plan.run(&a).iter().zip(&c.filter))
                    .map(|(a, b)| (a * b).conj())
                    .collect();
                let back = c.plan.run(&product);
                for ((out, y), w) in out.iter_mut().zip(&back).zip(&c.chirp) {
                    *out = y.conj() * w / length as f64;
                }
            }
        }
        out
    }

    /// `out` = the transform of every `stride`-th element of `x`.
    fn step(&self, x: &[C], stride: usize, out: &mut [C], factors: &[usize]) {
        let n = out.len();
        let Some((&p, rest)) = factors.split_first() else {
            out[0] = x[0];
            return;
        };
        let m = n / p;
        for (r, part) in out.chunks_mut(m).enumerate() {
            self.step(&x[r * stride..], stride * p, part, rest);
        }
        let turn = self.n / n;
        if p == 2 {
            let (low, high) = out.split_at_mut(m);
            for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let t = *b * self.roots[k * turn];
                (*a, *b) = (*a + t, *a - t);
            }
            return;
        }
        let mut terms = [C::new(0.0, 0.0); DIRECT];
        for k in 0..m {
            for (r, t) in terms[..p].iter_mut().enumerate() {
                *t = out[r * m + k] * self.roots[r * k * turn];
            }
            for q in 0..p {
                let sum = terms[..p]
                    .iter()
                    .enumerate()
                    .fold(C::new(0.0, 0.0), |sum, (r, t)| {
                        sum + t * self.roots[(r * q % p) * (self.n / p)]
                    });
                out[q * m + k] = sum;
            }
        }
    }
}

/// What the elements of a line are and become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names say it
pub enum Transform {
    /// Complex to complex.
    Forward,
    /// Complex to complex, without dividing by the length.
    Inverse,
    /// Real to complex: as many elements of the result as `out` has.
    FromReal,
    /// The first half of a symmetric spectrum to the real signal of the length of `out`, not divided either.
    ToReal,
}

unsafe fn read(p: *const u8, dtype: DType) -> C {
    // SAFETY: as promised by the caller.
    unsafe {
        match dtype {
            DType::C64 => {
                let x = p.cast::<Complex<f32>>().read_unaligned();
                C::new(x.re.into(), x.im.into())
            }
            DType::C128 => p.cast::<C>().read_unaligned(),
            DType::F32 => C::new(p.cast::<f32>().read_unaligned().into(), 0.0),
            _ => C::new(p.cast::<f64>().read_unaligned(), 0.0),
        }
    }
}

unsafe fn write(p: *mut u8, dtype: DType, x: C) {
    // SAFETY: as promised by the caller.
    unsafe {
        match dtype {
            DType::C64 => p
                .cast::<Complex<f32>>()
                .write_unaligned(Complex::new(x.re as f32, x.im as f32)),
            DType::C128 => p.cast::<C>().write_unaligned(x),
            DType::F32 => p.cast::<f32>().write_unaligned(x.re as f32),
            _ => p.cast::<f64>().write_unaligned(x.re),
        }
    }
}

/// `out` = the transform of `a` along `dim`, times `scale`. Sizes are equal but for that of `dim`.
///
/// # Safety
///
/// The memory of both is what they say and may be accessed; the elements of `out` are distinct, and overlap `a` only if
/// they are the very same elements.
pub unsafe fn fft(
    what: Transform,
    out: Strided<'_>,
    a: Strided<'_>,
    dim: usize,
    scale: f64,
) -> Result<(), KernelError> {
    let known = |d: DType| d.is_complex() || matches!(d, DType::F32 | DType::F64);
    for d in [a.dtype, out.dtype] {
        if !known(d) {
            return Err(KernelError::unsupported("fft", d));
        }
    }
    let (to_n, from_n) = (out.sizes[dim] as usize, a.sizes[dim] as usize);
    let n = if what == Transform::ToReal {
        to_n
    } else {
        from_n
    };
    if out.numel() == 0 || n == 0 {
        return Ok(());
    }
    let plan = Plan::new(n);
    let without = |of: &[i64]| -> Dims {
        let mut of = Dims::from_slice(of);
        of[dim] = 1;
        of
    };
    let sizes = without(out.sizes);
    let lines = Nest::new(&[
        Strided {
            sizes: &sizes,
            ..out
        },
        Strided { sizes: &sizes, ..a },
    ]);
    let (to, from) = (out.byte_stride(dim), a.byte_stride(dim));
    let inverse = matches!(what, Transform::Inverse | Transform::ToReal);
    let work = n * (usize::BITS - n.leading_zeros()) as usize;
    parallel(
        sizes.iter().product::<i64>() as usize,
        work,
        &|begin, end| {
            let mut x = vec![C::new(0.0, 0.0); n];
            for index in begin..end {
                let [out_line, a_line] = lines.element(index);
                for (k, x) in x.iter_mut().enumerate() {
                    let mirrored = what == Transform::ToReal && k > n / 2;
                    let at = if mirrored { n - k } else { k };
                    // what the spectrum has too few of is zero
                    let value = if at < from_n {
                        // SAFETY: element `at` of the line.
                        unsafe { read(a_line.wrapping_offset(at as isize * from), a.dtype) }
                    } else {
                        C::new(0.0, 0.0)
                    };
                    // an inverse is the forward transform between two conjugations
                    *x = if inverse != mirrored {
                        value.conj()
                    } else {
                        value
                    };
                }
                let y = plan.run(&x);
                for (k, y) in y.iter().take(to_n).enumerate() {
                    let y = if inverse { y.conj() } else { *y } * scale;
                    // SAFETY: element k of the line.
                    unsafe { write(out_line.wrapping_offset(k as isize * to), out.dtype, y) };
                }
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_agrees_with_the_sum() {
        for n in [1, 2, 3, 4, 5, 6, 8, 12, 30, 31, 37, 64, 74, 101, 210] {
            let x: Vec<C> = (0..n)
                .map(|k| C::new((k as f64 * 0.7).sin(), (k as f64 * 1.3).cos()))
                .collect();
            let got = Plan::new(n).run(&x);
            for (q, y) in got.iter().enumerate() {
                let want: C = (0..n)
                    .map(|k| {
                        let t = -std::f64::consts::TAU * ((q * k) % n) as f64 / n as f64;
                        x[k] * C::new(t.cos(), t.sin())
                    })
                    .sum();
                assert!(
                    (y - want).re.hypot((y - want).im) < 1e-11 * n as f64,
                    "{n} {q}: {y} {want}"
                );
            }
        }
    }
}
