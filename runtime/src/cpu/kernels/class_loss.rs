//! Losses over classes: negative log likelihood and margins.
//!
//! Operands are row-major slices. Sums are kept in `f64`. A target outside of the classes is an
//! error that names it.

use super::real::Real;
use super::strided::KernelError;

/// How the terms of a loss are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// One value per sample.
    None,
    /// Their mean (weighted, for negative log likelihood).
    Mean,
    /// Their sum.
    Sum,
}

/// The gradient that comes in: one per sample, or one for all.
#[derive(Clone, Copy, Debug)]
pub enum Incoming<'a, T> {
    /// One element per sample.
    Each(&'a [T]),
    /// The same factor for all samples.
    All(f64),
}

impl<T: Real> Incoming<'_, T> {
    fn at(&self, i: usize) -> f64 {
        match self {
            Incoming::Each(g) => g[i].wide(),
            Incoming::All(g) => *g,
        }
    }
}

fn class(target: i64, classes: usize) -> Result<usize, KernelError> {
    usize::try_from(target)
        .ok()
        .filter(|t| *t < classes)
        .ok_or(KernelError::IndexOutOfRange { index: target, size: classes as i64 })
}

/// Negative log likelihood of `[n, classes, inner]` scores at `[n, inner]` targets.
#[derive(Clone, Copy, Debug)]
pub struct Nll<'a, T> {
    /// The class of each sample.
    pub target: &'a [i64],
    /// A factor per class.
    pub weight: Option<&'a [T]>,
    /// The target that does not count.
    pub ignore: i64,
    /// The number of classes.
    pub classes: usize,
    /// Samples that lie side by side (pixels).
    pub inner: usize,
}

impl<T: Real> Nll<'_, T> {
    /// For each sample that counts: its number, the place of its score, the weight of its class.
    fn visit(&self, mut f: impl FnMut(usize, usize, f64)) -> Result<(), KernelError> {
        for (i, &t) in self.target.iter().enumerate() {
            if t == self.ignore {
                continue;
            }
            let c = class(t, self.classes)?;
            let (n, p) = (i / self.inner.max(1), i % self.inner.max(1));
            let weight = self.weight.map_or(1.0, |w| w[c].wide());
            f(i, (n * self.classes + c) * self.inner + p, weight);
        }
        Ok(())
    }

    /// The loss of each sample; 0 where the target is ignored.
    pub fn each(&self, scores: &[T], out: &mut [T]) -> Result<(), KernelError> {
        out.fill(T::narrow(0.0));
        self.visit(|i, at, w| out[i] = T::narrow(-w * scores[at].wide()))
    }

    /// The sum of the losses and the sum of the weights that counted.
    pub fn total(&self, scores: &[T]) -> Result<(f64, f64), KernelError> {
        let (mut loss, mut weight) = (0.0, 0.0);
        self.visit(|_, at, w| {
            loss -= w * scores[at].wide();
            weight += w;
        })?;
        Ok((loss, weight))
    }

    /// The gradient of the scores.
    pub fn backward(&self, incoming: Incoming<'_, T>, out: &mut [T]) -> Result<(), KernelError> {
        out.fill(T::narrow(0.0));
        self.visit(|i, at, w| out[at] = T::narrow(-w * incoming.at(i)))
    }
}

/// Margin loss of `[n, classes]` scores with one class per sample:
/// `sum over d != t of max(0, margin - x[t] + x[d])^p / classes`, times the weight of the class.
#[derive(Clone, Copy, Debug)]
pub struct MultiMargin<'a, T> {
    /// The class of each sample.
    pub target: &'a [i64],
    /// A factor per class.
    pub weight: Option<&'a [T]>,
    /// Whether the terms are squared.
    pub squared: bool,
    /// The margin.
    pub margin: f64,
    /// The number of classes.
    pub classes: usize,
}

impl<T: Real> MultiMargin<'_, T> {
    /// The loss of sample after sample.
    pub fn each(&self, scores: &[T], mut f: impl FnMut(usize, f64)) -> Result<(), KernelError> {
        for (i, &t) in self.target.iter().enumerate() {
            let row = &scores[i * self.classes..][..self.classes];
            let c = class(t, self.classes)?;
            let weight = self.weight.map_or(1.0, |w| w[c].wide());
            let mut sum = 0.0;
            for (d, x) in row.iter().enumerate() {
                let z = self.margin - row[c].wide() + x.wide();
                if d != c && (z > 0.0 || z.is_nan()) {
                    sum += weight * if self.squared { z * z } else { z };
                }
            }
            f(i, sum / self.classes as f64);
        }
        Ok(())
    }

    /// The gradient of the scores; `scale` divides it (the number of samples of a mean).
    pub fn backward(
        &self,
        scores: &[T],
        incoming: Incoming<'_, T>,
        scale: f64,
        out: &mut [T],
    ) -> Result<(), KernelError> {
        for (i, &t) in self.target.iter().enumerate() {
            let row = &scores[i * self.classes..][..self.classes];
            let out = &mut out[i * self.classes..][..self.classes];
            let c = class(t, self.classes)?;
            let weight = self.weight.map_or(1.0, |w| w[c].wide());
            let g = incoming.at(i) * weight / (self.classes as f64 * scale);
            let mut at_class = 0.0;
            for d in (0..self.classes).filter(|d| *d != c) {
                let z = self.margin - row[c].wide() + row[d].wide();
                let h = match (z > 0.0, self.squared) {
                    (false, _) => 0.0,
                    (true, true) => 2.0 * g * z,
                    (true, false) => g,
                };
                at_class -= h;
                out[d] = T::narrow(h);
            }
            out[c] = T::narrow(at_class);
        }
        Ok(())
    }
}

/// Marks the classes of a sample: those before the first negative target.
pub fn mark_targets<T: Real>(target: &[i64], marks: &mut [T]) -> Result<(), KernelError> {
    marks.fill(T::narrow(0.0));
    for &t in target.iter().take_while(|t| **t >= 0) {
        marks[class(t, marks.len())?] = T::narrow(1.0);
    }
    Ok(())
}

/// Margin loss of one sample with several classes: each target class against each non-target class.
pub fn multilabel_margin<T: Real>(scores: &[T], target: &[i64], marks: &[T]) -> f64 {
    let mut sum = 0.0;
    for &t in target.iter().take_while(|t| **t >= 0) {
        for (x, mark) in scores.iter().zip(marks) {
            let z = 1.0 - scores[t as usize].wide() + x.wide();
            if mark.wide() == 0.0 && z > 0.0 {
                sum += z;
            }
        }
    }
    sum / scores.len() as f64
}

/// The gradient of [`multilabel_margin`], times `g`.
pub fn multilabel_margin_backward<T: Real>(
    scores: &[T],
    target: &[i64],
    marks: &[T],
    g: f64,
    out: &mut [T],
) -> Result<(), KernelError> {
    let g = g / scores.len() as f64;
    let mut sums = vec![0.0; scores.len()];
    for &t in target.iter().take_while(|t| **t >= 0) {
        let t = class(t, scores.len())?;
        for d in 0..scores.len() {
            let z = 1.0 - scores[t].wide() + scores[d].wide();
            if marks[d].wide() == 0.0 && z > 0.0 {
                sums[t] -= g;
                sums[d] += g;
            }
        }
    }
    for (o, s) in out.iter_mut().zip(sums) {
        *o = T::narrow(s);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nll_skips_ignored_targets_and_names_bad_ones() {
        let scores = [-1.0f32, -2.0, -3.0, -4.0, -5.0, -6.0];
        let mut nll = Nll {
            target: &[2, -100],
            weight: Some(&[1.0, 1.0, 0.5]),
            ignore: -100,
            classes: 3,
            inner: 1,
        };
        assert_eq!(nll.total(&scores), Ok((1.5, 0.5)));
        let mut grad = [9.0f32; 6];
        nll.backward(Incoming::All(2.0), &mut grad).unwrap();
        assert_eq!(grad, [0.0, 0.0, -1.0, 0.0, 0.0, 0.0]);
        nll.target = &[3, 0];
        let bad = KernelError::IndexOutOfRange { index: 3, size: 3 };
        assert_eq!(nll.total(&scores), Err(bad));
    }

    #[test]
    fn multilabel_stops_at_the_first_negative_target() {
        let mut marks = [0.0f64; 4];
        mark_targets(&[3, 0, -1, 1], &mut marks).unwrap();
        assert_eq!(marks, [1.0, 0.0, 0.0, 1.0]);
        let loss = multilabel_margin(&[0.1, 0.2, 0.4, 0.8], &[3, 0, -1, 1], &marks);
        assert!((loss - 0.85).abs() < 1e-12);
    }
}
