//! Eigenvalues and eigenvectors of general complex matrices in double precision: the Hessenberg
//! form, whose elements below the diagonal are real, single-shift QR steps, and back substitution
//! in the triangular form.

use super::general::STEPS;
use super::qr::{reflect, reflector};
use super::{Field, identity, squarable, squares, subtract};
use num_complex::Complex;

type C = Complex<f64>;

/// From this order on the eigenvalues are faer's: with vectors, by hand they take 0.6 times as long
/// at 2, as long at 4, 1.3 times at 8, 7 times at 256.
const MULTISHIFT: usize = 8;

/// The eigenvalues of a general matrix; `a` becomes the vectors where they are wanted, in columns
/// of length 1 whose largest component is real. The result is 0, or the number of eigenvalues not
/// found.
pub fn general_complex(a: &mut [C], n: usize, values: &mut [C], vectors: bool) -> i32 {
    if a.iter().any(|x| !Field::is_finite(*x)) {
        return n.max(1) as i32;
    }
    if n >= MULTISHIFT
        && squarable(a)
        && straightline_factor::general_complex(a, n, values, vectors)
    {
        if vectors {
            a.chunks_exact_mut(n).for_each(normalise);
        }
        return 0;
    }
    let z = hessenberg(a, n);
    let mut schur = Schur { h: a, z, n };
    let left = schur.iterate(values);
    if left > 0 {
        return left as i32;
    }
    if vectors {
        let vectors = schur.substitute(values);
        a.copy_from_slice(&vectors);
    }
    0
}

/// The Hessenberg form in place, and the unitary matrix that leads to it.
fn hessenberg(a: &mut [C], n: usize) -> Vec<C> {
    let mut reflectors = Vec::new();
    for j in 0..n.saturating_sub(1) {
        let tau = reflector(&mut a[j * n + j + 1..(j + 1) * n]);
        let mut v = a[j * n + j + 1..(j + 1) * n].to_vec();
        v[0] = C::ONE;
        a[j * n + j + 2..(j + 1) * n].fill(C::default());
        for column in a[(j + 1) * n..].chunks_exact_mut(n) {
            reflect(&v, tau.conj(), &mut column[j + 1..]);
        }
        // a h = a - (tau a v) v^H
        let mut sums = vec![C::default(); n];
        for (column, v) in a[(j + 1) * n..].chunks_exact(n).zip(&v) {
            subtract(&mut sums, -(tau * v), column);
        }
        for (column, v) in a[(j + 1) * n..].chunks_exact_mut(n).zip(&v) {
            subtract(column, v.conj(), &sums);
        }
        reflectors.push((tau, v));
    }
    let mut z = identity(n);
    for (j, (tau, v)) in reflectors.into_iter().enumerate().rev() {
        for column in z.chunks_exact_mut(n) {
            reflect(&v, tau, &mut column[j + 1..]);
        }
    }
    z
}

/// A Hessenberg matrix on its way to triangular form, and the product of what was done to it.
struct Schur<'a> {
    h: &'a mut [C],
    z: Vec<C>,
    n: usize,
}

impl Schur<'_> {
    fn at(&self, i: usize, j: usize) -> C {
        self.h[j * self.n + i]
    }

    fn at_mut(&mut self, i: usize, j: usize) -> &mut C {
        &mut self.h[j * self.n + i]
    }

    /// The first row of the block that ends at `high`: where the element left of the diagonal is
    /// negligible.
    fn block(&mut self, high: usize) -> usize {
        let n = self.n;
        let smallest = f64::MIN_POSITIVE / f64::EPSILON * n as f64;
        for k in (1..=high).rev() {
            let below = self.at(k, k - 1);
            let mut negligible = below.taxi() <= smallest;
            if !negligible {
                let (before, own) = (self.at(k - 1, k - 1), self.at(k, k));
                let mut size = before.taxi() + own.taxi();
                if size == 0.0 {
                    size += if k >= 2 { self.at(k - 1, k - 2).re.abs() } else { 0.0 };
                    size += if k + 1 < n { self.at(k + 1, k).re.abs() } else { 0.0 };
                }
                if below.re.abs() <= f64::EPSILON * size {
                    let (x, y) = (below.taxi(), self.at(k - 1, k).taxi());
                    let (u, v) = (own.taxi(), (before - own).taxi());
                    let s = u.max(v) + x.max(y);
                    negligible = x.min(y) * (x.max(y) / s)
                        <= smallest.max(f64::EPSILON * (u.min(v) * (u.max(v) / s)));
                }
            }
            if negligible {
                *self.at_mut(k, k - 1) = C::default();
                return k;
            }
        }
        0
    }

    /// Deflates one eigenvalue after another. The result is how many are left when it stops
    /// converging.
    fn iterate(&mut self, values: &mut [C]) -> usize {
        let (mut left, mut steps) = (self.n, 0);
        while left > 0 {
            let high = left - 1;
            let low = self.block(high);
            if low == high {
                values[high] = self.at(high, high);
                (left, steps) = (left - 1, 0);
                continue;
            }
            steps += 1;
            if steps > STEPS {
                return left;
            }
            let shift = self.shift(low, high, steps);
            self.step(low, high, shift);
        }
        0
    }

    /// Wilkinson's shift, or one out of line that breaks a cycle.
    fn shift(&self, low: usize, high: usize, steps: usize) -> C {
        if steps % 20 == 10 {
            return self.at(low, low) + 0.75 * self.at(low + 1, low).re.abs();
        }
        let own = self.at(high, high);
        if steps.is_multiple_of(20) {
            return own + 0.75 * self.at(high, high - 1).re.abs();
        }
        let u = self.at(high - 1, high).root() * self.at(high, high - 1).root();
        let mut s = u.taxi();
        if s == 0.0 {
            return own;
        }
        let x = 0.5 * (self.at(high - 1, high - 1) - own);
        let size = x.taxi();
        s = s.max(size);
        let mut y = s * ((x / s).powi(2) + (u / s).powi(2)).root();
        if size > 0.0 && (x / size).re * y.re + (x / size).im * y.im < 0.0 {
            y = -y;
        }
        own - u * u.over(x + y)
    }

    /// One single-shift step on rows `low..=high`.
    fn step(&mut self, low: usize, high: usize, shift: C) {
        let n = self.n;
        // two small elements below the diagonal that follow each other end the part that is worked
        // on
        let mut m = high - 1;
        let mut v = loop {
            let (own, next) = (self.at(m, m), self.at(m + 1, m + 1));
            let (mut first, mut below) = (own - shift, self.at(m + 1, m).re);
            let s = first.taxi() + below.abs();
            (first, below) = (first / s, below / s);
            if m == low {
                break [first, C::of(below)];
            }
            let left = self.at(m, m - 1).re.abs();
            let near = first.taxi() * (own.taxi() + next.taxi());
            if left * below.abs() <= f64::EPSILON * near {
                break [first, C::of(below)];
            }
            m -= 1;
        };
        for k in m..high {
            if k > m {
                v = [self.at(k, k - 1), self.at(k + 1, k - 1)];
            }
            let tau = reflector(&mut v);
            if k > m {
                *self.at_mut(k, k - 1) = v[0];
                *self.at_mut(k + 1, k - 1) = C::default();
            }
            let second = v[1];
            for j in k..n {
                let pair = [C::ONE, second];
                reflect(&pair, tau.conj(), &mut self.h[j * n + k..j * n + k + 2]);
            }
            let columns = |a: &mut [C], rows: usize| {
                for i in 0..rows {
                    let sum = tau * (a[k * n + i] + second * a[(k + 1) * n + i]);
                    a[k * n + i] -= sum;
                    a[(k + 1) * n + i] -= sum * second.conj();
                }
            };
            columns(self.h, (k + 2).min(high) + 1);
            columns(&mut self.z, n);
            if k == m && m > low {
                // the element left of the part has to be real again
                let turn = C::ONE - tau;
                let turn = turn.scaled(1.0 / Field::abs(turn));
                *self.at_mut(m + 1, m) *= turn.conj();
                if m + 2 <= high {
                    *self.at_mut(m + 2, m + 1) *= turn;
                }
                for j in m..=high {
                    if j != m + 1 {
                        self.turn(j, turn);
                    }
                }
            }
        }
        let last = self.at(high, high - 1);
        if last.im != 0.0 {
            let (size, turn) = last.polar();
            *self.at_mut(high, high - 1) = C::of(size);
            self.turn(high, turn.conj());
        }
    }

    /// Row `j` right of the diagonal times a number of size 1, column `j` above it and that of the
    /// product times its conjugate.
    fn turn(&mut self, j: usize, by: C) {
        let n = self.n;
        for c in j + 1..n {
            self.h[c * n + j] *= by;
        }
        let back = by.conj();
        self.h[j * n..j * n + j].iter_mut().for_each(|x| *x *= back);
        self.z[j * n..(j + 1) * n].iter_mut().for_each(|x| *x *= back);
    }

    /// The vectors of the triangular form, and by `z` those of the matrix that it came from.
    fn substitute(&self, values: &[C]) -> Vec<C> {
        let n = self.n;
        let norm: f64 =
            (0..n).flat_map(|j| self.h[j * n..=j * n + j].iter()).map(|x| x.taxi()).sum();
        // whose reciprocal does not overflow
        let floor = (f64::EPSILON * norm).max(f64::MIN_POSITIVE);
        let mut out = vec![C::default(); n * n];
        for (k, out) in out.chunks_exact_mut(n.max(1)).enumerate() {
            let mut x: Vec<C> = self.h[k * n..k * n + k].iter().map(|x| -x).collect();
            x.push(C::ONE);
            for i in (0..k).rev() {
                let mut pivot = self.at(i, i) - values[k];
                if pivot.taxi() < floor {
                    pivot = C::of(floor);
                }
                x[i] = x[i].over(pivot);
                let size = x[i].taxi();
                if size > 1e100 {
                    x.iter_mut().for_each(|x| *x /= size);
                }
                let factor = x[i];
                subtract(&mut x[..i], factor, &self.h[i * n..i * n + i]);
            }
            for (column, x) in self.z.chunks_exact(n).zip(&x) {
                subtract(out, -x, column);
            }
            normalise(out);
        }
        out
    }
}

/// A vector of length 1, its largest component real.
fn normalise(x: &mut [C]) {
    let length = squares(x).sqrt();
    let size = |x: &C| x.norm_sqr();
    let top = (0..x.len()).fold(0, |b, i| if size(&x[i]) > size(&x[b]) { i } else { b });
    let (_, phase) = x[top].polar();
    let by = phase.conj() / length;
    x.iter_mut().for_each(|x| *x *= by);
    x[top].im = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::linalg::dot;

    /// Numbers between -1 and 1 without a pattern.
    fn numbers(n: usize, seed: u64) -> Vec<C> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        (0..n).map(|_| C::new(next(), next())).collect()
    }

    #[test]
    fn matrices_times_their_vectors() {
        let of = |x: &[f64]| x.iter().map(|x| C::of(*x)).collect::<Vec<_>>();
        let turn = of(&[0.0, 1.0, -1.0, 0.0]);
        let triangle = of(&[1.0, 0.0, 0.0, 2.0, 3.0, 0.0, 4.0, 5.0, 1.0]);
        let cycle: Vec<C> =
            (0..25).map(|e| C::of(f64::from(u8::from(e % 5 == (e / 5 + 1) % 5)))).collect();
        let mut all = vec![(2, turn), (3, triangle), (5, cycle), (3, of(&[0.0; 9]))];
        all.extend([1, 2, 3, 6, 7, 8, 20, 40, 131].map(|n| (n, numbers(n * n, n as u64))));
        for (n, a) in all {
            let (mut v, mut w) = (a.clone(), vec![C::default(); n]);
            assert_eq!(general_complex(&mut v, n, &mut w, true), 0, "{n}");
            let trace: C = (0..n).map(|i| a[i * n + i]).sum();
            assert!(Field::abs(w.iter().sum::<C>() - trace) < 1e-10);
            for (x, w) in v.chunks_exact(n).zip(&w) {
                assert!((dot(x, x) - C::ONE).taxi() < 1e-12);
                for i in 0..n {
                    let row: C = (0..n).map(|j| a[j * n + i] * x[j]).sum();
                    assert!((row - w * x[i]).taxi() < 1e-7, "{n}: {row} {}", w * x[i]);
                }
            }
        }
        let mut bad = [C::new(f64::NAN, 0.0); 9];
        assert!(general_complex(&mut bad, 3, &mut [C::default(); 3], true) > 0);
    }
}
