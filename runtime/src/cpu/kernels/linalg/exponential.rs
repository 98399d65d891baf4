//! The exponential of a matrix.

use super::{Field, product};

/// The exponential of an `n` by `n` matrix: the Taylor series of a part of it, squared again and
/// again.
pub fn exponential<T: Field<Part = f64>>(a: &mut [T], n: usize) {
    let norm = (a.chunks_exact(n.max(1)))
        .map(|column| column.iter().map(|x| x.abs()).sum::<f64>())
        .fold(0.0, f64::max);
    // of a matrix with infinities or NaN nothing is left of a smaller one either
    let halvings = match norm.is_finite() && norm > 0.5 {
        true => (norm / 0.5).log2().ceil() as i32,
        false => 0,
    };
    let scale = 0.5f64.powi(halvings);
    a.iter_mut().for_each(|x| *x = x.scaled(scale));
    // 0.5^16 / 16! is less than the last bit
    let mut sum = vec![T::default(); n * n];
    for term in (0..=16).rev() {
        let mut next = product(a, &sum, n);
        let part = T::of(f64::from(term + 1));
        next.iter_mut().for_each(|x| *x = x.over(part));
        (next.iter_mut().step_by(n + 1)).for_each(|x| *x = *x + T::ONE);
        sum = next;
    }
    for _ in 0..halvings {
        sum = product(&sum, &sum, n);
    }
    a.copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn exponentials() {
        let mut turn = [0.0, 3.0, -3.0, 0.0];
        exponential(&mut turn, 2);
        assert!((turn[0] - 3f64.cos()).abs() < 1e-14 && (turn[1] - 3f64.sin()).abs() < 1e-14);
        let mut large = [-40.0, 0.0, 7.0, 2.0];
        exponential(&mut large, 2);
        let mut spin = [Complex::new(0.0, 3.0)];
        exponential(&mut spin, 1);
        assert!((spin[0] - Complex::new(3f64.cos(), 3f64.sin())).taxi() < 1e-14);
        assert!((large[3] - 2f64.exp()).abs() < 1e-12);
        assert!(exponential_of(f64::NAN).is_nan() && exponential_of(f64::INFINITY).is_nan());
    }

    fn exponential_of(x: f64) -> f64 {
        let mut a = [x];
        exponential(&mut a, 1);
        a[0]
    }
}
