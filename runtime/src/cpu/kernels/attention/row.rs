//! One row of scores.

use crate::cpu::kernels::real::Real;
use crate::cpu::math::{Lane, Simd, SimdTask, functions as f};

/// The exponentials of a row of scores, and what that means for the sums so far.
pub(super) struct Row<'a, W> {
    pub(super) scores: *mut W,
    pub(super) mask: Option<*const W>,
    /// Scores that the product of weights and values will read.
    pub(super) n: usize,
    /// Scores that count; the others become 0.
    pub(super) visible: usize,
    pub(super) largest: &'a mut W,
    pub(super) total: &'a mut W,
    pub(super) sums: *mut W,
    pub(super) features: usize,
    pub(super) first: bool,
}

impl<W: Lane + Real> SimdTask<W> for Row<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = W>>(self, mut s: S) {
        let Row { scores, n, .. } = self;
        let whole = self.visible - self.visible % S::LANES;
        let tail = self.visible - whole;
        let inside = s.first(tail);
        let lowest = s.f(f64::NEG_INFINITY);
        let zero = s.f(0.0);
        // SAFETY: all within the row of n scores, the mask of as many, and the sums of the row.
        unsafe {
            if let Some(mask) = self.mask {
                let mut j = 0;
                while j < self.visible {
                    let count = (self.visible - j).min(S::LANES);
                    let x = s.load_partial(scores.add(j), count);
                    let y = s.load_partial(mask.add(j), count);
                    let x = s.add(x, y);
                    s.store_partial(scores.add(j), count, x);
                    j += count;
                }
            }
            let mut max = s.splat(*self.largest);
            let mut max2 = max;
            let mut j = 0;
            while j + 2 * S::LANES <= whole {
                let (x, y) = (s.load(scores.add(j)), s.load(scores.add(j + S::LANES)));
                max = f::maximum(&mut s, max, x);
                max2 = f::maximum(&mut s, max2, y);
                j += 2 * S::LANES;
            }
            if j < whole {
                let x = s.load(scores.add(j));
                max = f::maximum(&mut s, max, x);
            }
            if tail > 0 {
                let x = s.load_partial(scores.add(whole), tail);
                let x = s.select(inside, x, lowest);
                max2 = f::maximum(&mut s, max2, x);
            }
            let max = f::maximum(&mut s, max, max2);
            let new = s.reduce_max(max);
            let shift = if new.wide() == f64::NEG_INFINITY { W::narrow(0.0) } else { new };
            let shift_all = s.splat(shift);
            let (mut sum, mut sum2) = (zero, zero);
            let mut j = 0;
            while j + 2 * S::LANES <= whole {
                let (x, y) = (s.load(scores.add(j)), s.load(scores.add(j + S::LANES)));
                let (x, y) = (s.sub(x, shift_all), s.sub(y, shift_all));
                let (x, y) = (f::exp(&mut s, x), f::exp(&mut s, y));
                sum = s.add(sum, x);
                sum2 = s.add(sum2, y);
                s.store(scores.add(j), x);
                s.store(scores.add(j + S::LANES), y);
                j += 2 * S::LANES;
            }
            if j < whole {
                let x = s.load(scores.add(j));
                let x = s.sub(x, shift_all);
                let x = f::exp(&mut s, x);
                sum = s.add(sum, x);
                s.store(scores.add(j), x);
            }
            if tail > 0 {
                let x = s.load_partial(scores.add(whole), tail);
                let x = s.sub(x, shift_all);
                let x = f::exp(&mut s, x);
                let x = s.select(inside, x, zero);
                sum2 = s.add(sum2, x);
                s.store_partial(scores.add(whole), tail, x);
            }
            for j in self.visible..n {
                *scores.add(j) = W::narrow(0.0);
            }
            let sum = s.add(sum, sum2);
            let sum = s.reduce_add(sum);
            let old = *self.largest;
            *self.largest = new;
            if self.first {
                *self.total = sum;
                return;
            }
            // NaN differs from itself and takes this way
            if old.wide() != shift.wide() {
                let factor = s.splat(old);
                let factor = s.sub(factor, shift_all);
                let factor = f::exp(&mut s, factor);
                let mut j = 0;
                while j < self.features {
                    let count = (self.features - j).min(S::LANES);
                    let x = s.load_partial(self.sums.add(j), count);
                    let x = s.mul(x, factor);
                    s.store_partial(self.sums.add(j), count, x);
                    j += count;
                }
                let factor = s.to_array(factor)[0];
                *self.total = W::narrow(self.total.wide() * factor.wide());
            }
            *self.total = self.total.plus(sum);
        }
    }
}
