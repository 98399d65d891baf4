//! Symmetric and Hermitian matrices that need not be positive: `L D L^T` and `L D L^H` with Bunch
//! and Kaufman's pivots, as LAPACK's `sytrf` and `hetrf` number them.

use super::Field;
use crate::cpu::kernels::real::Real;

/// The place and the size of the largest of these elements.
fn largest<T: Field>(elements: impl Iterator<Item = (usize, T)>) -> (usize, T::Part) {
    elements.fold((0, Default::default()), |best, (i, x)| {
        let size = x.taxi();
        if size > best.1 { (i, size) } else { best }
    })
}

/// What an element is on the other side of the diagonal.
fn mirrored<T: Field>(hermitian: bool) -> impl Fn(T) -> T + Copy {
    move |x| if hermitian { x.conj() } else { x }
}

/// `L D L^T` (`hermitian`: `L D L^H`) of the lower triangle, in place. A positive pivot is the row
/// (from 1) exchanged with this one; two equal negative ones belong to a block of two rows, the
/// second of which was exchanged. The result is the first zero pivot (from 1), or 0.
pub fn ldl<T: Field>(a: &mut [T], n: usize, pivots: &mut [i32], hermitian: bool) -> i32 {
    let alpha = T::Part::narrow((1.0 + 17f64.sqrt()) / 8.0);
    let zero = <T::Part as Default>::default();
    let mirror = mirrored::<T>(hermitian);
    let on_diagonal = |x: T| if hermitian { T::of(x.re()) } else { x };
    let (mut k, mut info) = (0, 0);
    while k < n {
        let own = on_diagonal(a[k * n + k]).taxi();
        let (imax, colmax) = largest((k + 1..n).map(|i| (i, a[k * n + i])));
        let most = if own > colmax { own } else { colmax };
        let (mut other, mut two) = (k, false);
        // NaN is not above zero
        let usable = most > zero;
        if !usable {
            if info == 0 {
                info = k as i32 + 1;
            }
            a[k * n + k] = on_diagonal(a[k * n + k]);
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
            } else if on_diagonal(a[imax * n + imax]).taxi() >= alpha * rowmax {
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
                let (x, y) = (a[last * n + i], a[i * n + other]);
                (a[last * n + i], a[i * n + other]) = (mirror(y), mirror(x));
            }
            a[last * n + other] = mirror(a[last * n + other]);
            a.swap(last * n + last, other * n + other);
            a[other * n + other] = on_diagonal(a[other * n + other]);
            if two {
                a.swap(k * n + k + 1, k * n + other);
            }
        }
        for i in k..=last {
            a[i * n + i] = on_diagonal(a[i * n + i]);
        }
        if two {
            eliminate_two(a, n, k, hermitian);
            (pivots[k], pivots[k + 1]) = (-(other as i32 + 1), -(other as i32 + 1));
            k += 2;
        } else {
            let inverse = T::ONE.over(a[k * n + k]);
            for j in k + 1..n {
                let factor = inverse * mirror(a[k * n + j]);
                for i in j..n {
                    a[j * n + i] = a[j * n + i] - factor * a[k * n + i];
                }
                a[j * n + j] = on_diagonal(a[j * n + j]);
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
fn eliminate_two<T: Field>(a: &mut [T], n: usize, k: usize, hermitian: bool) {
    if k + 2 >= n {
        return;
    }
    let mirror = mirrored::<T>(hermitian);
    let off = a[k * n + k + 1];
    let (d11, d22) = (a[(k + 1) * n + k + 1].over(off), a[k * n + k].over(mirror(off)));
    let scale = T::ONE.over(d11 * d22 - T::ONE);
    for j in k + 2..n {
        let (x, y) = (a[k * n + j], a[(k + 1) * n + j]);
        // (x, y) times the inverse of the block
        let first = scale * (d11 * x - y).over(mirror(off));
        let second = scale * (d22 * y - x).over(off);
        let (p, q) = (mirror(first), mirror(second));
        for i in j..n {
            a[j * n + i] = a[j * n + i] - a[k * n + i] * p - a[(k + 1) * n + i] * q;
        }
        (a[k * n + j], a[(k + 1) * n + j]) = (first, second);
        if hermitian {
            a[j * n + j] = T::of(a[j * n + j].re());
        }
    }
}

/// Solves `a x = b` in place from the factors of [`ldl`]; the pivots are within bounds.
pub fn ldl_solve<T: Field>(ld: &[T], n: usize, pivots: &[i32], b: &mut [T], hermitian: bool) {
    let at = |i: usize, j: usize| ld[j * n + i];
    let mirror = mirrored::<T>(hermitian);
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
                let (d1, d2) = (at(k, k).over(mirror(off)), at(k + 1, k + 1).over(off));
                let denominator = d1 * d2 - T::ONE;
                let (y, z) = (x[k].over(mirror(off)), x[k + 1].over(off));
                x[k] = (d2 * y - z).over(denominator);
                x[k + 1] = (d1 * z - y).over(denominator);
            } else {
                x[k] = x[k].over(at(k, k));
            }
            k = last + 1;
        }
        while k > 0 {
            let last = k - 1;
            let two = pivots[last] < 0 && last > 0;
            let first = if two { last - 1 } else { last };
            for i in k..n {
                if two {
                    x[first] = x[first] - mirror(at(i, first)) * x[i];
                }
                x[last] = x[last] - mirror(at(i, last)) * x[i];
            }
            x.swap(last, pivots[last].unsigned_abs() as usize - 1);
            k = first;
        }
    }
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
            assert_eq!(ldl(&mut ld, n, &mut pivots, false), 0);
            let want: Vec<f64> = (0..n).map(|i| i as f64 - 1.5).collect();
            let mut x: Vec<f64> =
                (0..n).map(|i| (0..n).map(|j| a[j * n + i] * want[j]).sum()).collect();
            ldl_solve(&ld, n, &pivots, &mut x, false);
            for (x, y) in x.iter().zip(&want) {
                assert!((x - y).abs() < 1e-12, "{n}: {x} {y}");
            }
        }
        assert_eq!(ldl(&mut [0.0f32; 4], 2, &mut [0; 2], false), 1);
    }
}
