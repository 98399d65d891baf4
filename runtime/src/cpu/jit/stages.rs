//! The loops of a stage around its body, and the blocks in which long sums are added up.

use super::JitError;
use super::accumulators::Accumulators;
use super::nest::Nest;
use super::sizes::{Axis, Size};
use cranelift_codegen::ir::Value;
use straightline_passes::schedule::loops::AxisId;

/// A float sum over fewer elements than twice this is one chain of additions per lane.
const SUM_BLOCK: i64 = 128;

impl Nest<'_, '_, '_, '_> {
    /// Loops over `axes` around a body that updates accumulators.
    pub(crate) fn stage_loops(
        &mut self,
        s: usize,
        axes: &[Axis],
        mut accs: Accumulators,
        body: &mut dyn FnMut(&mut Self, &mut Accumulators) -> Result<(), JitError>,
    ) -> Result<Accumulators, JitError> {
        let Some((axis, rest)) = axes.split_first() else {
            body(self, &mut accs)?;
            return Ok(accs);
        };
        match axis.extent {
            Size::Fixed(0) => Ok(accs),
            Size::Fixed(1) => {
                let zero = self.e.i64(0);
                self.axis.insert(axis.id, zero);
                self.stage_loops(s, rest, accs, body)
            }
            n => {
                let sizes = self.e.sizes;
                let varies = n.fixed().is_none();
                let block = sizes.of(|n, _| sum_block(n), n, Size::Fixed(0));
                // long sums are added up in blocks, so that the rounding error does not grow with
                // their length
                let whole = match self.sums_floats(s) {
                    true => sizes.of(in_blocks, n, block),
                    false => Size::Fixed(0),
                };
                if whole.is(0) {
                    return self.stage_axis(s, axis.id, (whole, n), varies, rest, accs, body);
                }
                let (b, e) = (self.e.i64(0), self.e.size(whole));
                let l = self.e.begin_loop(b, e, block, &accs.values(), varies);
                let fresh = self.identities_like(s, &accs);
                let end = self.e.plus_size(l.index, block);
                let range = (l.index, end);
                let part = self.stage_range(s, axis.id, range, false, rest, fresh, body)?;
                let outer = accs.with(&l.carried);
                let sum = self.combine(s, outer, &part);
                let out = self.e.end_loop(&l, &sum.values());
                let accs = sum.with(&out);
                if whole == n {
                    return Ok(accs);
                }
                self.stage_axis(s, axis.id, (whole, n), varies, rest, accs, body)
            }
        }
    }

    /// A part of an axis of [`Self::stage_loops`].
    #[allow(clippy::too_many_arguments)]
    fn stage_axis(
        &mut self,
        s: usize,
        axis: AxisId,
        (begin, end): (Size, Size),
        guarded: bool,
        rest: &[Axis],
        accs: Accumulators,
        body: &mut dyn FnMut(&mut Self, &mut Accumulators) -> Result<(), JitError>,
    ) -> Result<Accumulators, JitError> {
        let range = (self.e.size(begin), self.e.size(end));
        self.stage_range(s, axis, range, guarded, rest, accs, body)
    }

    /// One loop of [`Self::stage_loops`].
    #[allow(clippy::too_many_arguments)]
    fn stage_range(
        &mut self,
        s: usize,
        axis: AxisId,
        (begin, end): (Value, Value),
        guarded: bool,
        rest: &[Axis],
        accs: Accumulators,
        body: &mut dyn FnMut(&mut Self, &mut Accumulators) -> Result<(), JitError>,
    ) -> Result<Accumulators, JitError> {
        let l = self.e.begin_loop(begin, end, Size::Fixed(1), &accs.values(), guarded);
        let saved = self.address.clone();
        self.enter(axis, l.index);
        let inner = self.stage_loops(s, rest, accs.with(&l.carried), body)?;
        self.address = saved;
        let out = self.e.end_loop(&l, &inner.values());
        Ok(inner.with(&out))
    }
}

/// How many of `n` elements are in whole blocks; none if there would be one block only.
pub(crate) fn in_blocks(n: i64, block: i64) -> i64 {
    if n < 2 * block { 0 } else { n / block * block }
}

/// How many of `n` elements a float sum adds up before they go into the total: about the square
/// root, which keeps both chains of additions short.
pub(crate) fn sum_block(n: i64) -> i64 {
    (n.max(0).isqrt() as u64).next_power_of_two().max(SUM_BLOCK as u64) as i64
}
