//! Symmetric matrices that need not be positive: `L D L^T` with Bunch and Kaufman's pivots, as LAPACK's `sytrf` numbers them; and the
//! exponential of a matrix. Matrices are column-major.

use super::linalg::Field;

/// The place and the size of the largest of these elements.
fn largest<T: Field>(elements: impl Iterator<Item = (usize, T)>) -> (usize, T) {
    elements.fold((0, T::default()), |best, (i, x)| {
        let size = x.abs();
        if size > best.1 { (i, size) } else { best }
    })
}

/// `L D L^T` of the lower triangle, in place. A positive pivot is the row (from 1) exchanged with this one; two equal negative ones belong
/// to a block of two rows, the second of which was exchanged. The result is the first zero pivot (from 1), or 0.
pub fn ldl<T: Field>(a: &mut [T], n: usize, pivots: &mut [i32]) -> i32 {
    let alpha = T::narrow((1.0 + 17f64.sqrt()) / 8.0);
    let zero = T::default();
    let (mut k, mut info) = (0, 0);
    while k < n {
        let own = a[k * n + k].abs();
        let (imax, colmax) = largest((k + 1..n).map(|i| (i, a[k * n + i])));
        let most = if own > colmax { own } else { colmax };
        let (mut other, mut two) = (k, false);
        // NaN is not above zero
        let usable = most > zero;
        if !usable {
            if info == 0 {
                info = k as i32 + 1;
            }
            pivots[k] = k as i32 + 1;
            k += 1;
            continue;
        }
        if own < alpha * colmax {
            let row = (k..imax).map(|j| (j, a[j * n + imax]));
            let column = (imax + 1..n).map(|i| (i, a[imax * n + i]));
            let (_, rowmax) = largest(row.chain(column));
            if own >= alpha * colmax * (colmax / rowmax) {
                // the pivot is large enough after all
            } else if a[imax * n + imax].abs() >= alpha * rowmax {
                other = imax;
            } else {
                (other, two) = (imax, true);
            }
        }
        let last = if two { k + 1 } else { k };
        if other != last {
            for i in other + 1..n {
                a.swap(last * n + i, other * n + i);
            }
            for i in last + 1..other {
                a.swap(last * n + i, i * n + other);
            }
            a.swap(last * n + last, other * n + other);
            if two {
                a.swap(k * n + k + 1, k * n + other);
            }
        }
        if two {
            eliminate_two(a, n, k);
            (pivots[k], pivots[k + 1]) = (-(other as i32 + 1), -(other as i32 + 1));
            k += 2;
        } else {
            let inverse = T::ONE / a[k * n + k];
            for j in k + 1..n {
                let factor = inverse * a[k * n + j];
                for i in j..n {
                    a[j * n + i] = a[j * n + i] - factor * a[k * n + i];
                }
            }
            for i in k + 1..n {
                a[k * n + i] = inverse * a[k * n + i];
            }
            pivots[k] = other as i32 + 1;
            k += 1;
        }
    }
    info
}

/// Subtracts what the 2 by 2 block at `k` makes of the columns below it.
fn eliminate_two<T: Field>(a: &mut [T], n: usize, k: usize) {
    if k + 2 >= n {
        return;
    }
    let off = a[k * n + k + 1];
    let (d11, d22) = (a[(k + 1) * n + k + 1] / off, a[k * n + k] / off);
    let scale = T::ONE / (d11 * d22 - T::ONE) / off;
    for j in k + 2..n {
        let (x, y) = (a[k * n + j], a[(k + 1) * n + j]);
        let (first, second) = (scale * (d11 * x - y), scale * (d22 * y - x));
        for i in j..n {
            a[j * n + i] = a[j * n + i] - a[k * n + i] * first - a[(k + 1) * n + i] * second;
        }
        (a[k * n + j], a[(k + 1) * n + j]) = (first, second);
    }
}

/// Solves `a x = b` in place from the factors of [`ldl`]; the pivots are within bounds.
pub fn ldl_solve<T: Field>(ld: &[T], n: usize, pivots: &[i32], b: &mut [T]) {
    let at = |i: usize, j: usize| ld[j * n + i];
    for x in b.chunks_exact_mut(n.max(1)) {
        let mut k = 0;
        while k < n {
            let two = pivots[k] < 0 && k + 1 < n;
            let other = pivots[k].unsigned_abs() as usize - 1;
            let last = if two { k + 1 } else { k };
            x.swap(last, other);
            for i in last + 1..n {
                x[i] = x[i] - at(i, k) * x[k];
                if two {
                    x[i] = x[i] - at(i, k + 1) * x[k + 1];
                }
            }
            if two {
                let off = at(k + 1, k);
                let (d1, d2) = (at(k, k) / off, at(k + 1, k + 1) / off);
                let denominator = d1 * d2 - T::ONE;
                let (y, z) = (x[k] / off, x[k + 1] / off);
                x[k] = (d2 * y - z) / denominator;
                x[k + 1] = (d1 * z - y) / denominator;
            } else {
                x[k] = x[k] / at(k, k);
            }
            k = last + 1;
        }
        while k > 0 {
            let last = k - 1;
            let two = pivots[last] < 0 && last > 0;
            let first = if two { last - 1 } else { last };
            for i in k..n {
                if two {
                    x[first] = x[first] - at(i, first) * x[i];
                }
                x[last] = x[last] - at(i, last) * x[i];
            }
            x.swap(last, pivots[last].unsigned_abs() as usize - 1);
            k = first;
        }
    }
}

/// The exponential of an `n` by `n` matrix: the Taylor series of a part of it, squared again and again.
pub fn exponential(a: &mut [f64], n: usize) {
    let norm = (a.chunks_exact(n.max(1)))
        .map(|column| column.iter().map(|x| x.abs()).sum::<f64>())
        .fold(0.0, f64::max);
    // of a matrix with infinities or NaN nothing is left of a smaller one either
    let halvings = match norm.is_finite() && norm > 0.5 {
        true => (norm / 0.5).log2().ceil() as i32,
        false => 0,
    };
    let scale = 0.5f64.powi(halvings);
    a.iter_mut().for_each(|x| *x *= scale);
    // 0.5^16 / 16! is less than the last bit
    let mut sum = vec![0.0; n * n];
    for term in (0..=16).rev() {
        let mut next = product(a, &sum, n);
        next.iter_mut().for_each(|x| *x /= f64::from(term + 1));
        next.iter_mut().step_by(n + 1).for_each(|x| *x += 1.0);
        sum = next;
    }
    for _ in 0..halvings {
        sum = product(&sum, &sum, n);
    }
    a.copy_from_slice(&sum);
}

fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let mut out = vec![0.0; n * n];
    if n == 0 {
        return out;
    }
    for (out, b) in out.chunks_exact_mut(n).zip(b.chunks_exact(n)) {
        for (column, factor) in a.chunks_exact(n).zip(b) {
            out.iter_mut()
                .zip(column)
                .for_each(|(o, x)| *o += x * factor);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_solve_what_they_were_made_of() {
        // a zero diagonal needs blocks of two rows, a mixed one exchanges as well
        let all: [(usize, Vec<f64>); 3] = [
            (1, vec![-2.0]),
            (3, vec![0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 2.0, 3.0, 0.0]),
            (
                4,
                vec![
                    0.1, 5.0, 1.0, -2.0, 5.0, 0.2, 3.0, 1.0, 1.0, 3.0, -4.0, 0.5, -2.0, 1.0, 0.5,
                    7.0,
                ],
            ),
        ];
        for (n, a) in all {
            let (mut ld, mut pivots) = (a.clone(), vec![0; n]);
            assert_eq!(ldl(&mut ld, n, &mut pivots), 0);
            let want: Vec<f64> = (0..n).map(|i| i as f64 - 1.5).collect();
            let mut x: Vec<f64> = (0..n)
                .map(|i| (0..n).map(|j| a[j * n + i] * want[j]).sum())
                .collect();
            ldl_solve(&ld, n, &pivots, &mut x);
            for (x, y) in x.iter().zip(&want) {
                assert!((x - y).abs() < 1e-12, "{n}: {x} {y}");
            }
        }
        assert_eq!(ldl(&mut [0.0f32; 4], 2, &mut [0; 2]), 1);
    }

    #[test]
    fn exponentials() {
        let mut turn = [0.0, 3.0, -3.0, 0.0];
        exponential(&mut turn, 2);
        assert!((turn[0] - 3f64.cos()).abs() < 1e-14 && (turn[1] - 3f64.sin()).abs() < 1e-14);
        let mut large = [-40.0, 0.0, 7.0, 2.0];
        exponential(&mut large, 2);
        assert!((large[3] - 2f64.exp()).abs() < 1e-12);
        assert!(exponential_of(f64::NAN).is_nan() && exponential_of(f64::INFINITY).is_nan());
    }

    fn exponential_of(x: f64) -> f64 {
        let mut a = [x];
        exponential(&mut a, 1);
        a[0]
    }
}
