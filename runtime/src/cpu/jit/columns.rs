//! Kernels whose stages go over the rows of many columns ([`super::x86::Columns`]): the loops around
//! their strips.
//!
//! A unit goes through its stages one after the other, each for all its columns, and keeps the
//! results of reductions in a buffer of its thread. Kernels with several stages over rows take so
//! few columns at a time that these stay in the cache from one stage to the next.

use super::JitError;
use super::nest::{Invariant, Nest};
use super::sizes::{Axis, Size};
use super::stages::{in_blocks, sum_block};
use super::x86::{ColumnStage, Stream, Strip};
use cranelift_codegen::ir::{InstBuilder, Value, types};

/// The elements of one array that several stages go over, at most.
const CACHED: i64 = 1 << 16;
/// Columns are taken in multiples of this, which is one of every step of every strip.
const COLUMNS: i64 = 64;

/// How many of `n` columns with so many rows each are taken at a time.
fn tile(n: i64, rows: i64) -> i64 {
    n.min((CACHED / rows.max(1) / COLUMNS).max(1) * COLUMNS)
}

/// Room for results of so many columns, in elements of 8 bytes.
fn row_room(columns: i64, _: i64) -> i64 {
    (columns * 8 + 63) & !63
}

/// The columns that a unit works on, and its memory.
struct Range {
    /// How many columns.
    n: Value,
    /// Where results are.
    results: Value,
    /// Bytes of the results of one reduction.
    room: Size,
}

impl<'k> Nest<'_, '_, '_, 'k> {
    /// A unit of a kernel that goes over columns.
    pub(crate) fn column_unit(
        &mut self,
        last: Axis,
        range: Option<Value>,
        ranges: Size,
    ) -> Result<(), JitError> {
        let sizes = self.e.sizes;
        let invariants = (0..self.kernel.stages.len())
            .map(|s| self.invariants(s, false))
            .collect::<Result<Vec<_>, _>>()?;
        let kernel = self.kernel;
        let mut over_rows = kernel.stages.iter().filter(|s| !s.axes.is_empty());
        let first = over_rows.next().map_or(&[][..], |s| &s.axes[..]);
        let rows = first.iter().fold(Size::Fixed(1), |n, a| sizes.times(n, a.extent));
        let all = self.unit_columns(last.extent);
        let tile = match over_rows.next() {
            Some(_) => sizes.of(tile, all, rows),
            None => all,
        };
        let room = sizes.of(row_room, tile, Size::Fixed(0));
        let total = sizes.times(room, Size::Fixed(self.result_rows() as i64));
        let results = match total {
            Size::Fixed(0) => self.e.i64(0),
            total => {
                let bytes = self.e.size(total);
                let f = super::scratch::sl_scratch as *const () as usize;
                self.e
                    .call_address(f, &[types::I64], Some(types::I64), &[bytes])
                    .expect("a result was declared")
            }
        };
        let (begin, end) = if ranges.is(1) {
            (self.e.i64(0), self.e.size(last.extent))
        } else {
            self.range_bounds(range, last.extent)
        };
        if tile == all {
            let n = self.e.b.ins().isub(end, begin);
            return self.column_range(last, begin, &Range { n, results, room }, &invariants);
        }
        let l = self.e.begin_loop(begin, end, tile, &[], last.extent.fixed().is_none());
        let left = self.e.b.ins().isub(end, l.index);
        let step = self.e.size(tile);
        let n = self.e.b.ins().smin(left, step);
        self.column_range(last, l.index, &Range { n, results, room }, &invariants)?;
        self.e.end_loop(&l, &[]);
        Ok(())
    }

    /// How many reductions have results at once, those of blocks included.
    fn result_rows(&self) -> usize {
        (0..self.kernel.stages.len())
            .map(|s| self.levels(s) * self.facts.stages[s].reduces.len())
            .sum()
    }

    /// Results of a stage that are made at once: those of all rows, and of the blocks of each axis.
    fn levels(&self, s: usize) -> usize {
        1 + self.kernel.stages[s].axes.len()
    }

    /// All stages for some columns.
    fn column_range(
        &mut self,
        last: Axis,
        begin: Value,
        range: &Range,
        invariants: &[Vec<Option<Invariant>>],
    ) -> Result<(), JitError> {
        let facts = self.facts;
        let columns = facts.columns.as_ref().expect("asked of kernels that have some");
        let saved = self.address.clone();
        self.enter(last.id, begin);
        for (s, stage) in columns.stages.iter().enumerate() {
            let mut at = Stages { s, stage, range, invariants: &invariants[s] };
            self.column_end(&at, 0, 0)?;
            let axes = self.kernel.stages[s].axes.clone();
            self.column_axes(&mut at, &axes, 0)?;
        }
        self.address = saved;
        Ok(())
    }

    /// Where the results of a reduction are.
    fn result(&mut self, range: &Range, s: usize, level: usize, slot: usize) -> Value {
        let before: usize =
            (0..s).map(|s| self.levels(s) * self.facts.stages[s].reduces.len()).sum();
        let row = before + level * self.facts.stages[s].reduces.len() + slot;
        let offset = self.e.sizes.times(range.room, Size::Fixed(row as i64));
        self.e.plus_size(range.results, offset)
    }

    /// Begins the results of a level (`which` is 0), or takes them into those of the level before.
    fn column_end(
        &mut self,
        at: &Stages<'_, 'k>,
        level: usize,
        which: usize,
    ) -> Result<(), JitError> {
        let Some(ends) = &at.stage.ends else {
            return Ok(());
        };
        let strip = &ends[which];
        self.call(strip, at.s, at.invariants, at.range.n, &mut |n, stream| match stream {
            Stream::Total(slot) => n.result(at.range, at.s, level - which, slot),
            Stream::Part(slot) => n.result(at.range, at.s, level, slot),
            _ => unreachable!("the ends of reductions read and write results"),
        })?;
        Ok(())
    }

    /// The rows of a stage: loops over `axes`, into the results of a level.
    fn column_axes(
        &mut self,
        at: &mut Stages<'_, 'k>,
        axes: &[Axis],
        level: usize,
    ) -> Result<(), JitError> {
        let Some((axis, rest)) = axes.split_first() else {
            let strip = &at.stage.passes.last().expect("one row at least").1;
            return self.column_pass(at, strip, level);
        };
        let (axis, rest) = (*axis, rest);
        let sizes = self.e.sizes;
        if axis.extent.is(0) {
            return Ok(());
        }
        // as in the loops of Cranelift, long sums are added up in blocks
        let block = sizes.of(|n, _| sum_block(n), axis.extent, Size::Fixed(0));
        let whole = match self.sums_floats(at.s) {
            true => sizes.of(in_blocks, axis.extent, block),
            false => Size::Fixed(0),
        };
        if !whole.is(0) {
            let varies = axis.extent.fixed().is_none();
            let (b, e) = (self.e.i64(0), self.e.size(whole));
            let l = self.e.begin_loop(b, e, block, &[], varies);
            self.column_end(at, level + 1, 0)?;
            let end = self.e.plus_size(l.index, block);
            self.column_rows(at, axis, rest, (l.index, end), block, level + 1)?;
            self.column_end(at, level + 1, 1)?;
            self.e.end_loop(&l, &[]);
        }
        if whole == axis.extent {
            return Ok(());
        }
        let (b, e) = (self.e.size(whole), self.e.size(axis.extent));
        self.column_rows(at, axis, rest, (b, e), sizes.minus(axis.extent, whole), level)
    }

    /// The rows `begin..end` of an axis, of which there are `count`: several at once along the
    /// innermost one.
    fn column_rows(
        &mut self,
        at: &mut Stages<'_, 'k>,
        axis: Axis,
        rest: &[Axis],
        (mut begin, end): (Value, Value),
        count: Size,
        level: usize,
    ) -> Result<(), JitError> {
        let sizes = self.e.sizes;
        let stage = at.stage;
        if !rest.is_empty() {
            return self.column_loop(axis, (begin, end), 1, |n| n.column_axes(at, rest, level));
        }
        let mut left = count;
        for (rows, strip) in &stage.passes {
            let main = sizes.whole(left, Size::Fixed(*rows));
            if main.is(0) {
                continue;
            }
            let until = self.e.plus_size(begin, main);
            self.column_loop(axis, (begin, until), *rows, |n| n.column_pass(at, strip, level))?;
            begin = until;
            left = sizes.minus(left, main);
        }
        Ok(())
    }

    fn column_loop(
        &mut self,
        axis: Axis,
        (begin, end): (Value, Value),
        step: i64,
        body: impl FnOnce(&mut Self) -> Result<(), JitError>,
    ) -> Result<(), JitError> {
        let l = self.e.begin_loop(begin, end, Size::Fixed(step), &[], true);
        let saved = self.address.clone();
        self.enter(axis.id, l.index);
        body(self)?;
        self.address = saved;
        self.e.end_loop(&l, &[]);
        Ok(())
    }

    /// A strip over the rows at the current values of the axes.
    fn column_pass(
        &mut self,
        at: &Stages<'_, 'k>,
        strip: &'k Strip,
        level: usize,
    ) -> Result<(), JitError> {
        let (s, invariants) = (at.s, at.invariants);
        let mut firsts: Vec<(usize, Value)> = Vec::new();
        self.call(strip, s, invariants, at.range.n, &mut |n, stream| match stream {
            Stream::Access { inst, row } => {
                let first = match firsts.iter().find(|f| f.0 == inst) {
                    Some(f) => f.1,
                    None => {
                        let v = n.access(s, inst, invariants);
                        firsts.push((inst, v));
                        v
                    }
                };
                let Some(axis) = n.kernel.stages[s].axes.last() else {
                    return first;
                };
                let offset = n.e.sizes.times(n.bytes_along(s, inst, axis), Size::Fixed(row));
                n.e.plus_size(first, offset)
            }
            Stream::Carry { stage, inst } => {
                let slot = n.facts.stages[stage].reduces.iter().position(|r| *r == inst);
                n.result(at.range, stage, 0, slot.expect("verified: a reduction"))
            }
            Stream::Total(slot) => n.result(at.range, s, level, slot),
            Stream::Part(_) => unreachable!("rows go into one level of results"),
        })?;
        Ok(())
    }
}

/// The stage that is being emitted.
struct Stages<'r, 'k> {
    s: usize,
    stage: &'k ColumnStage,
    range: &'r Range,
    invariants: &'r [Option<Invariant>],
}
