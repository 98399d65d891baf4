//! Counts in bins, sums of segments, and the alignments that connectionist temporal classification
//! adds up: loops over slices.

/// Adds each point (a row of `dims` coordinates) to the bin that it is in, with its weight or 1.
/// `edges` has the bounds of the bins of each coordinate, in ascending order; the last bin has both
/// of its bounds. Bins are in row-major order.
pub fn histogram(points: &[f64], edges: &[&[f64]], weights: Option<&[f64]>, bins: &mut [f64]) {
    let dims = edges.len();
    for (i, point) in points.chunks_exact(dims.max(1)).enumerate() {
        let place = point.iter().zip(edges).try_fold(0, |place, (x, edges)| {
            let (first, last) = (edges.first()?, edges.last()?);
            // NaN is in no bin
            if !(x >= first && x <= last) {
                return None;
            }
            let n = edges.len() - 1;
            let at = edges.partition_point(|e| e <= x).saturating_sub(1);
            Some(place * n + at.min(n.checked_sub(1)?))
        });
        if let Some(bin) = place.and_then(|p| bins.get_mut(p)) {
            *bin += weights.map_or(1.0, |w| w[i]);
        }
    }
}

/// How the elements of a segment become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Their sum.
    Sum,
    /// Their mean; NaN of none.
    Mean,
    /// The largest, NaN if there is one.
    Max,
    /// The least, NaN if there is one.
    Min,
    /// Their product.
    Prod,
}

/// `rows` of `inner` elements each, made one row; `initial` takes part.
pub fn segment(rows: &[f64], inner: usize, how: Segment, initial: Option<f64>, out: &mut [f64]) {
    let start = initial.unwrap_or(match how {
        Segment::Sum | Segment::Mean => 0.0,
        Segment::Max => f64::NEG_INFINITY,
        Segment::Min => f64::INFINITY,
        Segment::Prod => 1.0,
    });
    out.fill(start);
    let mut count = 0;
    for row in rows.chunks_exact(inner.max(1)) {
        count += 1;
        for (o, x) in out.iter_mut().zip(row) {
            *o = match how {
                Segment::Sum | Segment::Mean => *o + x,
                Segment::Prod => *o * x,
                _ if x.is_nan() || o.is_nan() => f64::NAN,
                Segment::Max => o.max(*x),
                Segment::Min => o.min(*x),
            };
        }
    }
    if how == Segment::Mean {
        match count {
            0 if initial.is_none() => out.fill(f64::NAN),
            0 => {}
            n => out.iter_mut().for_each(|o| *o /= f64::from(n)),
        }
    }
}

/// The negative logarithm of the probability of all alignments of `labels` with `steps` rows of
/// `classes` logarithms. `alpha` gets the logarithms of the parts: a row of `2 labels + 1` (of
/// `width`) for each step.
pub fn ctc(
    log_probs: &[f64],
    classes: usize,
    steps: usize,
    labels: &[usize],
    blank: usize,
    alpha: &mut [f64],
    width: usize,
) -> f64 {
    const NEVER: f64 = f64::NEG_INFINITY;
    let n = labels.len();
    // between and around the labels there may be blanks
    let label = |s: usize| {
        if s.is_multiple_of(2) { blank } else { labels[s / 2] }
    };
    if steps == 0 {
        return if n == 0 { 0.0 } else { f64::INFINITY };
    }
    alpha[0] = log_probs[blank];
    if n > 0 {
        alpha[1] = log_probs[labels[0]];
    }
    for t in 1..steps {
        let (before, here) = alpha.split_at_mut(t * width);
        let before = &before[(t - 1) * width..];
        for s in 0..2 * n + 1 {
            let stays = before[s];
            let comes = if s > 0 { before[s - 1] } else { NEVER };
            let skips = match s > 1 && label(s - 2) != label(s) {
                true => before[s - 2],
                false => NEVER,
            };
            here[s] = sum_of_logs(&[stays, comes, skips]) + log_probs[t * classes + label(s)];
        }
    }
    let last = &alpha[(steps - 1) * width..];
    match n {
        0 => -last[0],
        n => -sum_of_logs(&[last[2 * n], last[2 * n - 1]]),
    }
}

/// The gradient of [`ctc`] with respect to the logarithms, if these are a log-softmax: `factor *
/// (exp(x) - share)`, where the share of a class is the probability that it is the one of the step.
/// `grad` has a row for each of `steps` and gets these; `alpha` and `loss` are what [`ctc`] gave.
#[allow(clippy::too_many_arguments, reason = "what the forward pass takes and gives")]
pub fn ctc_gradient(
    log_probs: &[f64],
    classes: usize,
    labels: &[usize],
    blank: usize,
    alpha: &[f64],
    width: usize,
    (loss, factor): (f64, f64),
    grad: &mut [f64],
) {
    const NEVER: f64 = f64::NEG_INFINITY;
    let n = labels.len();
    let label = |s: usize| {
        if s.is_multiple_of(2) { blank } else { labels[s / 2] }
    };
    let states = 2 * n + 1;
    // the logarithms of what is left to do after a step, of the step after this one
    let mut next = vec![NEVER; states];
    let mut here = vec![NEVER; states];
    let steps = grad.len() / classes.max(1);
    for t in (0..steps).rev() {
        let (x, row) = (&log_probs[t * classes..][..classes], &mut grad[t * classes..][..classes]);
        row.fill(NEVER);
        for s in 0..states {
            let rest = if t + 1 == steps {
                // the end is the last label or the blank behind it
                if s + 2 >= states { 0.0 } else { NEVER }
            } else {
                let stays = next[s];
                let goes = if s + 1 < states { next[s + 1] } else { NEVER };
                let skips = match s + 2 < states && label(s + 2) != label(s) {
                    true => next[s + 2],
                    false => NEVER,
                };
                sum_of_logs(&[stays, goes, skips])
            };
            let class = label(s);
            here[s] = rest + x[class];
            row[class] = sum_of_logs(&[row[class], alpha[t * width + s] + here[s]]);
        }
        for (of_class, x) in row.iter_mut().zip(x) {
            *of_class = factor * (x.exp() - (*of_class + loss - x).exp());
        }
        std::mem::swap(&mut next, &mut here);
    }
}

/// `log(sum(exp(x)))`.
fn sum_of_logs(x: &[f64]) -> f64 {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = if top == f64::NEG_INFINITY { 0.0 } else { top };
    x.iter().map(|x| (x - top).exp()).sum::<f64>().ln() + top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_their_lower_bound_and_the_last_one_both() {
        let edges: &[f64] = &[0.0, 1.0, 2.0];
        let mut bins = [0.0; 2];
        histogram(&[0.0, 1.0, 2.0, -0.1, 2.1, f64::NAN], &[edges], None, &mut bins);
        assert_eq!(bins, [1.0, 2.0]);
        let mut plane = [0.0; 4];
        histogram(&[0.5, 1.5], &[edges, edges], Some(&[3.0]), &mut plane);
        assert_eq!(plane, [0.0, 3.0, 0.0, 0.0]);
    }

    #[test]
    fn the_probability_of_one_label_in_two_steps() {
        let half = 0.5f64.ln();
        let mut alpha = vec![f64::NEG_INFINITY; 6];
        // blank label, label blank, label label
        let loss = ctc(&[half; 4], 2, 2, &[1], 0, &mut alpha, 3);
        assert!(((-loss).exp() - 0.75).abs() < 1e-12);
        // of the three alignments two have the label in a step
        let mut grad = [0.0; 4];
        ctc_gradient(&[half; 4], 2, &[1], 0, &alpha, 3, (loss, 1.0), &mut grad);
        let third = 1.0 / 3.0;
        for (found, share) in grad.iter().zip([third, 2.0 * third, third, 2.0 * third]) {
            assert!((found - (0.5 - share)).abs() < 1e-12);
        }
        assert_eq!(ctc(&[], 2, 0, &[1], 0, &mut [], 3), f64::INFINITY);
    }

    #[test]
    fn segments() {
        let mut out = [0.0; 2];
        segment(&[1.0, 2.0, 3.0, f64::NAN], 2, Segment::Max, None, &mut out);
        assert!(out[0] == 3.0 && out[1].is_nan());
        segment(&[], 2, Segment::Mean, None, &mut out);
        assert!(out[0].is_nan());
        segment(&[1.0, 2.0], 2, Segment::Mean, Some(1.0), &mut out);
        assert_eq!(out, [2.0, 3.0]);
    }
}
