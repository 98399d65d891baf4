//! Rows that strips reduce: one of a stage, or several of a kernel at once ([`super::x86::Rows`]).

use super::JitError;
use super::accumulators::Accumulators;
use super::lanes::{Kind, Lanes};
use super::nest::{Invariant, Nest};
use super::sizes::{Op, Size};
use super::stages::{in_blocks, sum_block};
use super::x86::{Rows, Strip};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use smallvec::SmallVec;
use straightline_passes::schedule::loops::{AxisId, ReduceOp};

/// How many chains of additions a sum is thought to have when its blocks are made: with fewer, the
/// chains are as long and the blocks are more.
const COUNTED_CHAINS: i64 = 64;

impl<'k> Nest<'_, '_, '_, 'k> {
    /// The units `begin..end` of a kernel, which run along one axis: several at once, and the last
    /// ones one by one.
    pub(crate) fn row_units(
        &mut self,
        rows: &'k Rows,
        axis: AxisId,
        (begin, end): (Value, Value),
    ) -> Result<(), JitError> {
        let saved = self.address.clone();
        let len = self.e.b.ins().isub(end, begin);
        let whole = self.e.b.ins().band_imm_s(len, -rows.count);
        let middle = self.e.b.ins().iadd(begin, whole);
        let l = self.e.begin_loop(begin, middle, Size::Fixed(rows.count), &[], true);
        self.row_group(rows, axis, l.index)?;
        self.e.end_loop(&l, &[]);
        let l = self.e.begin_loop(middle, end, Size::Fixed(1), &[], true);
        self.enter(axis, l.index);
        self.carries.clear();
        for s in 0..self.kernel.stages.len() {
            self.point_stage(s)?;
        }
        self.address = saved;
        self.e.end_loop(&l, &[]);
        Ok(())
    }

    /// All stages for several neighbouring rows.
    fn row_group(&mut self, rows: &'k Rows, axis: AxisId, first: Value) -> Result<(), JitError> {
        let saved = self.address.clone();
        self.carries.clear();
        self.vector = false;
        self.enter(axis, first);
        let axes = self.kernel.stages[0].axes.clone();
        let (inner, outer) = axes.split_last().expect("rows are reduced along an axis");
        self.lane_axis = None;
        let totals = self.identities(0, false, rows.count);
        let totals = self.stage_loops(0, outer, totals, &mut |n, totals| {
            n.lane_axis = Some(inner.id);
            *totals = n.strip_row(&rows.strip, 0, inner.id, inner.extent, totals.clone())?;
            Ok(())
        })?;
        self.finish(0, totals);
        self.lane_axis = None;
        for row in 0..rows.count {
            self.address.clone_from(&saved);
            let at = self.e.b.ins().iadd_imm_s(first, row);
            self.enter(axis, at);
            for s in 1..self.kernel.stages.len() {
                let mut none = Accumulators::default();
                self.body(s, row, 0, &[], &mut none)?;
            }
        }
        self.address = saved;
        Ok(())
    }

    /// The innermost loop of a stage that is a strip; long float sums are added up in blocks.
    pub(crate) fn strip_row(
        &mut self,
        strip: &'k Strip,
        s: usize,
        axis: AxisId,
        extent: Size,
        mut totals: Accumulators,
    ) -> Result<Accumulators, JitError> {
        let sizes = self.e.sizes;
        let invariants = self.invariants(s, false)?;
        let block = sizes.of(
            |n, chains| sum_block(n / COUNTED_CHAINS) * chains,
            extent,
            Size::Fixed(strip.chains),
        );
        let mut done = Size::Fixed(0);
        let in_blocks = sizes.of(in_blocks, extent, block);
        if !in_blocks.is(0) && self.sums_floats(s) {
            done = in_blocks;
            totals = self.strip_blocks(strip, s, axis, &invariants, (done, block), totals)?;
        }
        let rest = sizes.minus(extent, done);
        if !rest.is(0) {
            // a strip of no elements does nothing
            let saved = self.address.clone();
            let at = self.e.size(done);
            self.enter(axis, at);
            self.strip_part(strip, s, &invariants, rest, &mut totals)?;
            self.address = saved;
        }
        Ok(totals)
    }

    /// `0..end` of a row in blocks: their sums are added up in `f64`, of which there are few
    /// enough.
    #[allow(clippy::too_many_arguments)]
    fn strip_blocks(
        &mut self,
        strip: &'k Strip,
        s: usize,
        axis: AxisId,
        invariants: &[Option<Invariant>],
        (end, block): (Size, Size),
        mut totals: Accumulators,
    ) -> Result<Accumulators, JitError> {
        let ops: SmallVec<[ReduceOp; 2]> = (0..strip.folds).map(|k| self.folded_by(s, k)).collect();
        let mut start: SmallVec<[Value; 2]> = SmallVec::new();
        for (k, &op) in ops.iter().enumerate() {
            let v = totals.items[k][0].one();
            let promoted = op == ReduceOp::Sum && self.total_kind(s, k) == Kind::F32;
            start.push(if promoted { self.e.b.ins().fpromote(types::F64, v) } else { v });
        }
        let (b, e) = (self.e.i64(0), self.e.size(end));
        let l = self.e.begin_loop(b, e, block, &start, end.fixed().is_none());
        let saved = self.address.clone();
        self.enter(axis, l.index);
        let n = self.e.size(block);
        let parts = self.call_strip(strip, s, invariants, n)?;
        self.address = saved;
        let mut next: SmallVec<[Value; 2]> = SmallVec::new();
        for (k, ((&op, &part), &total)) in ops.iter().zip(&parts).zip(&l.carried).enumerate() {
            let kind = self.total_kind(s, k);
            next.push(if op == ReduceOp::Sum && kind == Kind::F32 {
                let part = self.e.b.ins().fpromote(types::F64, part);
                self.e.b.ins().fadd(total, part)
            } else {
                let [total, part] = [total, part].map(|v| Lanes::scalar(kind, v));
                self.e.reduce_step(op, total, part).one()
            });
        }
        let out = self.e.end_loop(&l, &next);
        for (k, &op) in ops.iter().enumerate() {
            let kind = self.total_kind(s, k);
            let v = match (op, kind) {
                (ReduceOp::Sum, Kind::F32) => self.e.b.ins().fdemote(types::F32, out[k]),
                _ => out[k],
            };
            totals.items[k][0] = Lanes::scalar(kind, v);
        }
        Ok(totals)
    }

    fn strip_part(
        &mut self,
        strip: &'k Strip,
        s: usize,
        invariants: &[Option<Invariant>],
        len: Size,
        totals: &mut Accumulators,
    ) -> Result<(), JitError> {
        let len = self.e.size(len);
        let parts = self.call_strip(strip, s, invariants, len)?;
        let mut parts = parts.iter().copied();
        for k in 0..strip.folds {
            let inst = self.reduction(s, k);
            let part = Lanes::scalar(self.total_kind(s, k), parts.next().expect("a result"));
            match inst.op {
                Op::ArgReduce { max, .. } => {
                    let place = parts.next().expect("a position");
                    let begin = self.position(s, false).one();
                    let place = self.e.b.ins().iadd(begin, place);
                    let place = Lanes::scalar(Kind::I64, place);
                    self.takes_over(max, [part, place], &mut totals.items[k]);
                }
                _ => {
                    let op = self.folded_by(s, k);
                    let mut total = self.e.reduce_step(op, totals.items[k][0], part);
                    if inst.dtype.is_integral() {
                        total = self.e.wrap(total, inst.dtype);
                    }
                    totals.items[k][0] = total;
                }
            }
        }
        Ok(())
    }

    /// What a reduction of a strip does.
    fn folded_by(&self, s: usize, k: usize) -> ReduceOp {
        match self.reduction(s, k).op {
            Op::Reduce(op, _) => op,
            _ => unreachable!("asked of reductions to one value"),
        }
    }
}
