//! Eigenvalues and eigenvectors of general matrices of `f64`, column-major: the Hessenberg form and
//! Francis' double-shift QR steps, the vectors by back substitution in the quasi-triangular form.

use super::qr::{reflect, reflector};
use super::{dot, identity, rotate, squarable, two_columns};

/// Steps for one eigenvalue after which the iteration counts as failed.
pub(super) const STEPS: usize = 80;

/// From this order on the eigenvalues are faer's: with vectors, by hand they take 0.3 times as long
/// at 32, 0.6 times at 64, as long at 128, twice as long at 256.
const MULTISHIFT: usize = 256;

/// The eigenvalues of a general matrix: real and imaginary parts, those of a pair next to each
/// other, the positive part first. `a` becomes the vectors where they are wanted: the column of a
/// real one, or for a pair one column of real parts and one of imaginary parts; of length 1, their
/// largest component real. The result is 0, or the number of eigenvalues not found.
pub fn general(a: &mut [f64], n: usize, re: &mut [f64], im: &mut [f64], vectors: bool) -> i32 {
    if n >= MULTISHIFT && squarable(a) && straightline_factor::general(a, n, re, im, vectors) {
        if vectors {
            normalise(a, n, im);
        }
        return 0;
    }
    let mut z = hessenberg(a, n);
    let mut h = Quasi { h: a, z: &mut z, n };
    let left = h.iterate(re, im);
    if left > 0 {
        return left as i32;
    }
    if vectors {
        h.substitute(re, im);
        normalise(&mut z, n, im);
        a.copy_from_slice(&z);
    }
    0
}

/// The Hessenberg form in place, and the orthogonal matrix that leads to it.
fn hessenberg(a: &mut [f64], n: usize) -> Vec<f64> {
    let mut reflectors = Vec::new();
    for j in 0..n.saturating_sub(2) {
        let tau = reflector(&mut a[j * n + j + 1..(j + 1) * n]);
        let v = a[j * n + j + 1..(j + 1) * n].to_vec();
        a[j * n + j + 2..(j + 1) * n].fill(0.0);
        for column in a[(j + 1) * n..].chunks_exact_mut(n) {
            reflect(&v, tau, &mut column[j + 1..]);
        }
        from_the_right(&v, tau, a, n, j + 1);
        reflectors.push((j + 1, tau, v));
    }
    let mut z = identity(n);
    for (at, tau, v) in reflectors.into_iter().rev() {
        for column in z.chunks_exact_mut(n) {
            reflect(&v, tau, &mut column[at..]);
        }
    }
    z
}

/// `a -= tau (a v) v^T` in the columns from `at` on; `v[0]` counts as 1.
fn from_the_right(v: &[f64], tau: f64, a: &mut [f64], n: usize, at: usize) {
    if tau == 0.0 {
        return;
    }
    let mut sums = a[at * n..(at + 1) * n].to_vec();
    for (column, v) in a[(at + 1) * n..].chunks_exact(n).zip(&v[1..]) {
        sums.iter_mut().zip(column).for_each(|(s, x)| *s += v * x);
    }
    for (k, column) in a[at * n..].chunks_exact_mut(n).enumerate() {
        let factor = tau * if k == 0 { 1.0 } else { v[k] };
        column.iter_mut().zip(&sums).for_each(|(x, s)| *x -= factor * s);
    }
}

/// A Hessenberg matrix on its way to quasi-triangular form, and the product of what was done to it.
struct Quasi<'a> {
    h: &'a mut [f64],
    z: &'a mut [f64],
    n: usize,
}

impl Quasi<'_> {
    fn at(&self, i: usize, j: usize) -> f64 {
        self.h[j * self.n + i]
    }

    fn at_mut(&mut self, i: usize, j: usize) -> &mut f64 {
        &mut self.h[j * self.n + i]
    }

    /// The first row of the block that ends at `high`: where the element left of the diagonal is
    /// negligible.
    fn block(&mut self, high: usize, norm: f64) -> usize {
        let mut l = high;
        while l > 0 {
            let mut size = self.at(l - 1, l - 1).abs() + self.at(l, l).abs();
            if size == 0.0 {
                size = norm;
            }
            if self.at(l, l - 1).abs() < f64::EPSILON * size {
                *self.at_mut(l, l - 1) = 0.0;
                break;
            }
            l -= 1;
        }
        l
    }

    /// Deflates one or two eigenvalues after another. The result is how many are left when it stops
    /// converging.
    fn iterate(&mut self, re: &mut [f64], im: &mut [f64]) -> usize {
        let n = self.n;
        let norm: f64 = (0..n)
            .flat_map(|j| (0..n.min(j + 2)).map(move |i| (i, j)))
            .map(|(i, j)| self.at(i, j).abs())
            .sum();
        if !norm.is_finite() {
            return n.max(1);
        }
        let (mut left, mut steps, mut shifted) = (n, 0, 0.0);
        while left > 0 {
            let high = left - 1;
            let low = self.block(high, norm);
            if low == high {
                *self.at_mut(high, high) += shifted;
                (re[high], im[high]) = (self.at(high, high), 0.0);
                (left, steps) = (left - 1, 0);
            } else if low + 1 == high {
                self.pair(high, shifted, re, im);
                (left, steps) = (left - 2, 0);
            } else {
                steps += 1;
                if steps > STEPS {
                    return left;
                }
                self.step(low, high, steps, &mut shifted);
            }
        }
        0
    }

    /// Splits the last 2 by 2 block: a real pair is made triangular.
    fn pair(&mut self, high: usize, shifted: f64, re: &mut [f64], im: &mut [f64]) {
        let (n, low) = (self.n, high - 1);
        let w = self.at(high, low) * self.at(low, high);
        let p = (self.at(low, low) - self.at(high, high)) / 2.0;
        let q = p * p + w;
        let root = q.abs().sqrt();
        *self.at_mut(high, high) += shifted;
        *self.at_mut(low, low) += shifted;
        let x = self.at(high, high);
        if q < 0.0 {
            (re[low], im[low]) = (x + p, root);
            (re[high], im[high]) = (x + p, -root);
            return;
        }
        let y = p + root.copysign(p);
        re[low] = x + y;
        re[high] = if y == 0.0 { x } else { x - w / y };
        (im[low], im[high]) = (0.0, 0.0);
        // the rotation that takes the vector of the first one to the axis
        let below = self.at(high, low);
        let r = below.hypot(y);
        let (s, c) = (below / r, y / r);
        for j in low..n {
            let (a, b) = (self.at(low, j), self.at(high, j));
            *self.at_mut(low, j) = c * a + s * b;
            *self.at_mut(high, j) = c * b - s * a;
        }
        for i in 0..=high {
            let (a, b) = (self.at(i, low), self.at(i, high));
            *self.at_mut(i, low) = c * a + s * b;
            *self.at_mut(i, high) = c * b - s * a;
        }
        let (x, y) = two_columns(self.z, n, low, high);
        rotate(x, y, c, -s);
        *self.at_mut(high, low) = 0.0;
    }

    /// One double-shift step on rows `low..=high`.
    fn step(&mut self, low: usize, high: usize, steps: usize, shifted: &mut f64) {
        let n = self.n;
        let mut x = self.at(high, high);
        let mut y = self.at(high - 1, high - 1);
        let mut w = self.at(high, high - 1) * self.at(high - 1, high);
        if steps.is_multiple_of(10) {
            // an exceptional shift breaks a cycle
            *shifted += x;
            for i in 0..=high {
                *self.at_mut(i, i) -= x;
            }
            let s = self.at(high, high - 1).abs() + self.at(high - 1, high - 2).abs();
            x = 0.75 * s;
            y = x;
            w = -0.4375 * s * s;
        }
        // two small elements below the diagonal that follow each other end the part that is worked
        // on
        let mut m = high - 2;
        let (mut p, mut q, mut r) = loop {
            let d = self.at(m, m);
            let (a, b) = (x - d, y - d);
            let mut p = (a * b - w) / self.at(m + 1, m) + self.at(m, m + 1);
            let mut q = self.at(m + 1, m + 1) - d - a - b;
            let mut r = self.at(m + 2, m + 1);
            let size = p.abs() + q.abs() + r.abs();
            if size != 0.0 {
                (p, q, r) = (p / size, q / size, r / size);
            }
            if m == low {
                break (p, q, r);
            }
            let near = self.at(m - 1, m - 1).abs() + d.abs() + self.at(m + 1, m + 1).abs();
            if self.at(m, m - 1).abs() * (q.abs() + r.abs()) < f64::EPSILON * p.abs() * near {
                break (p, q, r);
            }
            m -= 1;
        };
        for i in m + 2..=high {
            *self.at_mut(i, i - 2) = 0.0;
            if i > m + 2 {
                *self.at_mut(i, i - 3) = 0.0;
            }
        }
        for k in m..high {
            let three = k + 1 < high;
            let mut scale = 1.0;
            if k > m {
                p = self.at(k, k - 1);
                q = self.at(k + 1, k - 1);
                r = if three { self.at(k + 2, k - 1) } else { 0.0 };
                scale = p.abs() + q.abs() + r.abs();
                if scale == 0.0 {
                    continue;
                }
                (p, q, r) = (p / scale, q / scale, r / scale);
            }
            let s = (p * p + q * q + r * r).sqrt().copysign(p);
            if s == 0.0 {
                continue;
            }
            if k > m {
                *self.at_mut(k, k - 1) = -s * scale;
            } else if low != m {
                *self.at_mut(k, k - 1) = -self.at(k, k - 1);
            }
            p += s;
            let (tx, ty, tz) = (p / s, q / s, r / s);
            (q, r) = (q / p, r / p);
            for j in k..n {
                let third = if three { r * self.at(k + 2, j) } else { 0.0 };
                let sum = self.at(k, j) + q * self.at(k + 1, j) + third;
                *self.at_mut(k, j) -= sum * tx;
                *self.at_mut(k + 1, j) -= sum * ty;
                if three {
                    *self.at_mut(k + 2, j) -= sum * tz;
                }
            }
            let columns = |a: &mut [f64], rows: usize| {
                for i in 0..rows {
                    let (c0, c1, c2) = (k * n + i, (k + 1) * n + i, (k + 2) * n + i);
                    let third = if three { tz * a[c2] } else { 0.0 };
                    let sum = tx * a[c0] + ty * a[c1] + third;
                    a[c0] -= sum;
                    a[c1] -= sum * q;
                    if three {
                        a[c2] -= sum * r;
                    }
                }
            };
            columns(self.h, (high + 1).min(k + 4));
            columns(self.z, n);
        }
    }

    /// The vectors of the quasi-triangular form, and by `z` those of the matrix that it came from,
    /// left in `z`.
    fn substitute(&mut self, re: &[f64], im: &[f64]) {
        let n = self.n;
        let norm: f64 = (0..n)
            .flat_map(|j| (0..=j).map(move |i| (i, j)))
            .map(|(i, j)| self.at(i, j).abs())
            .sum();
        let floor = f64::EPSILON * norm.max(f64::MIN_POSITIVE);
        let mut solved = vec![0.0; n * n];
        let mut k = 0;
        while k < n {
            if im[k] == 0.0 {
                let x = self.column(k, (re[k], 0.0), re, im, floor);
                for (i, x) in x.iter().enumerate() {
                    solved[k * n + i] = x.0;
                }
                k += 1;
            } else {
                let x = self.column(k + 1, (re[k], im[k]), re, im, floor);
                for (i, x) in x.iter().enumerate() {
                    solved[k * n + i] = x.0;
                    solved[(k + 1) * n + i] = x.1;
                }
                k += 2;
            }
        }
        let mut out = vec![0.0; n * n];
        for (out, x) in out.chunks_exact_mut(n.max(1)).zip(solved.chunks_exact(n.max(1))) {
            for (column, x) in self.z.chunks_exact(n.max(1)).zip(x) {
                out.iter_mut().zip(column).for_each(|(o, z)| *o += x * z);
            }
        }
        self.z.copy_from_slice(&out);
    }

    /// The vector of an eigenvalue whose block ends in row `last`, in complex numbers.
    fn column(
        &self,
        last: usize,
        value: (f64, f64),
        re: &[f64],
        im: &[f64],
        floor: f64,
    ) -> Vec<(f64, f64)> {
        let mut x = vec![(0.0, 0.0); self.n];
        let start = if value.1 == 0.0 {
            x[last] = (1.0, 0.0);
            last
        } else {
            // of the block itself: (T - value) x = 0
            let low = last - 1;
            let (b, c) = (self.at(low, last), self.at(last, low));
            if b.abs() >= c.abs() {
                x[low] = (1.0, 0.0);
                x[last] = divided((value.0 - self.at(low, low), value.1), (b, 0.0));
            } else {
                x[last] = (1.0, 0.0);
                x[low] = divided((value.0 - self.at(last, last), value.1), (c, 0.0));
            }
            low
        };
        let sum = |x: &[(f64, f64)], i: usize, from: usize| {
            (from..=last).fold((0.0, 0.0), |(a, b), j| {
                let t = self.at(i, j);
                (a + t * x[j].0, b + t * x[j].1)
            })
        };
        let mut i = start;
        while i > 0 {
            i -= 1;
            if im[i] == 0.0 {
                let right = sum(&x, i, i + 1);
                let mut pivot = (value.0 - re[i], value.1);
                if pivot.0.abs() + pivot.1.abs() < floor {
                    pivot = (floor, 0.0);
                }
                x[i] = divided(right, pivot);
            } else {
                // two rows at a time: [a - v, b; c, d - v] (y, z) = -(right)
                let low = i - 1;
                let (r0, r1) = (sum(&x, low, i + 1), sum(&x, i, i + 1));
                let a = (self.at(low, low) - value.0, -value.1);
                let d = (self.at(i, i) - value.0, -value.1);
                let (b, c) = (self.at(low, i), self.at(i, low));
                let mut det = minus(times(a, d), (b * c, 0.0));
                if det.0.abs() + det.1.abs() < floor * floor {
                    det = (floor * floor, 0.0);
                }
                let y = minus(times(r1, (b, 0.0)), times(r0, d));
                let z = minus(times(r0, (c, 0.0)), times(r1, a));
                (x[low], x[i]) = (divided(y, det), divided(z, det));
                i = low;
            }
            let size = x[i].0.abs().max(x[i].1.abs());
            if size > 1e100 {
                x.iter_mut().for_each(|x| *x = (x.0 / size, x.1 / size));
            }
        }
        x
    }
}

fn times(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn minus(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 - b.0, a.1 - b.1)
}

fn divided(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let size = b.0.abs().max(b.1.abs());
    let (c, d) = (b.0 / size, b.1 / size);
    let norm = (c * c + d * d) * size;
    ((a.0 * c + a.1 * d) / norm, (a.1 * c - a.0 * d) / norm)
}

/// Vectors of length 1; of a pair, turned so that the largest component is real.
fn normalise(z: &mut [f64], n: usize, im: &[f64]) {
    let mut k = 0;
    while k < n {
        if im[k] == 0.0 {
            let x = &mut z[k * n..(k + 1) * n];
            let length = dot(x, x).sqrt();
            x.iter_mut().for_each(|x| *x /= length);
            k += 1;
            continue;
        }
        let (x, y) = z[k * n..(k + 2) * n].split_at_mut(n);
        let length = dot(x, x).sqrt().hypot(dot(y, y).sqrt());
        let size = |i: usize| x[i].hypot(y[i]);
        let top = (0..n).fold(0, |b, i| if size(i) > size(b) { i } else { b });
        let (c, s) = (x[top] / size(top), y[top] / size(top));
        for (x, y) in x.iter_mut().zip(&mut *y) {
            (*x, *y) = ((c * *x + s * *y) / length, (c * *y - s * *x) / length);
        }
        y[top] = 0.0;
        k += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 without a pattern.
    fn numbers(n: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
            })
            .collect()
    }

    #[test]
    fn general_matrices_times_their_vectors() {
        let rotation = vec![0.0, 1.0, -1.0, 0.0];
        let triangle = vec![1.0, 0.0, 0.0, 2.0, 3.0, 0.0, 4.0, 5.0, 1.0];
        let cycle: Vec<f64> =
            (0..25).map(|e| f64::from(u8::from(e % 5 == (e / 5 + 1) % 5))).collect();
        let mut all = vec![(2, rotation), (3, triangle), (5, cycle)];
        all.extend([1, 2, 3, 6, 20, 40, 131].map(|n| (n, numbers(n * n, n as u64))));
        for (n, a) in all {
            let (mut v, mut re, mut im) = (a.clone(), vec![0.0; n], vec![0.0; n]);
            assert_eq!(general(&mut v, n, &mut re, &mut im, true), 0, "{n}");
            let trace: f64 = (0..n).map(|i| a[i * n + i]).sum();
            assert!((re.iter().sum::<f64>() - trace).abs() < 1e-10);
            let mut k = 0;
            while k < n {
                let pair = im[k] != 0.0;
                let zero = vec![0.0; n];
                let x = &v[k * n..(k + 1) * n];
                let y = if pair { &v[(k + 1) * n..(k + 2) * n] } else { &zero[..] };
                assert!((dot(x, x) + dot(y, y) - 1.0).abs() < 1e-12);
                for i in 0..n {
                    let row = |z: &[f64]| -> f64 { (0..n).map(|j| a[j * n + i] * z[j]).sum() };
                    let (r, s) = (re[k] * x[i] - im[k] * y[i], im[k] * x[i] + re[k] * y[i]);
                    assert!((row(x) - r).abs() < 1e-7, "{n}: {} {r}", row(x));
                    assert!((row(y) - s).abs() < 1e-7, "{n}: {} {s}", row(y));
                }
                k += if pair { 2 } else { 1 };
            }
        }
        assert!(general(&mut [f64::NAN; 9], 3, &mut [0.0; 3], &mut [0.0; 3], true) > 0);
    }
}
