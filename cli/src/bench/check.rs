//! Check sums of an output, for comparing with other programs, and the comparison of a compiled
//! output with the eager one. The programs of `benches/peers` include this file.

/// `[n, sum, sum of magnitudes, weighted sum]`: the last one depends on the order of the elements.
pub(crate) type Check = (usize, f64, f64, f64);

/// The check sums: the weight of element i is `((i * 2654435761) mod 2^32) / 2^32 - 0.5`.
pub(crate) fn check(x: &[f64]) -> Check {
    let (mut sum, mut magnitudes, mut weighted) = (0.0, 0.0, 0.0);
    for (i, x) in x.iter().enumerate() {
        let hash = (i as u64).wrapping_mul(2_654_435_761) as u32;
        sum += x;
        magnitudes += x.abs();
        weighted += x * (f64::from(hash) / 4_294_967_296.0 - 0.5);
    }
    (x.len(), sum, magnitudes, weighted)
}

/// The worst element of a comparison that failed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Difference {
    pub(crate) index: usize,
    pub(crate) eager: f64,
    pub(crate) compiled: f64,
    pub(crate) allowed: f64,
}

/// Compares element by element: the difference may be `tolerance` of the element plus `tolerance`
/// of the root mean square (where sums cancel, the rest carries the error of the terms). NaN and
/// infinities must be equal. `None` if all agree.
pub(crate) fn compare(eager: &[f64], compiled: &[f64], tolerance: f64) -> Option<Difference> {
    let finite = || eager.iter().filter(|x| x.is_finite());
    let squares: f64 = finite().map(|x| x * x).sum();
    let rms = (squares / finite().count().max(1) as f64).sqrt();
    let mut worst: Option<(f64, Difference)> = None;
    for (index, (&e, &c)) in eager.iter().zip(compiled).enumerate() {
        if e == c || (e.is_nan() && c.is_nan()) {
            continue;
        }
        let allowed = tolerance * (e.abs() + rms);
        let excess = (e - c).abs() - allowed;
        // a NaN or an infinity on one side makes the excess NaN or infinite
        if excess <= 0.0 {
            continue;
        }
        let excess = if excess.is_nan() { f64::INFINITY } else { excess };
        if worst.is_none_or(|(w, _)| excess > w) {
            let difference = Difference { index, eager: e, compiled: c, allowed };
            worst = Some((excess, difference));
        }
    }
    worst.map(|(_, d)| d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let (n, sum, magnitudes, weighted) = check(&[1.0, -2.0]);
        assert_eq!((n, sum, magnitudes), (2, -1.0, 3.0));
        let w1 = 2_654_435_761.0 / 4_294_967_296.0 - 0.5;
        assert!((weighted - (-0.5 - 2.0 * w1)).abs() < 1e-15);
    }

    #[test]
    fn what_is_equal() {
        let x = [1.0, f64::NAN, f64::INFINITY, 0.0];
        assert_eq!(compare(&x, &x, 0.0), None);
        assert_eq!(compare(&[100.0, 0.0], &[100.0, 1e-4], 1e-5), None);
    }

    #[test]
    fn what_is_not() {
        let worst = compare(&[1.0, 2.0, 3.0], &[1.0, 2.1, 3.01], 1e-5).unwrap();
        assert_eq!((worst.index, worst.eager, worst.compiled), (1, 2.0, 2.1));
        assert!(compare(&[1.0], &[f64::NAN], 1e-3).is_some());
        assert!(compare(&[f64::NAN], &[1.0], 1e-3).is_some());
        assert!(compare(&[f64::INFINITY], &[f64::NEG_INFINITY], 1e-3).is_some());
        assert!(compare(&[f64::INFINITY], &[1.0], 1e-3).is_some());
    }
}
