//! Reductions: accumulators as loop parameters, lanes folded at the end.

use super::JitError;
use super::accumulators::Accumulators;
use super::analyse::unroll;
use super::arith::accumulator;
use super::lanes::{Kind, LANES, Lanes};
use super::nest::{Invariant, Nest};
use super::sizes::{Op, Size};
use super::stages::{in_blocks, sum_block};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use smallvec::{SmallVec, smallvec};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{AxisId, ReduceOp, Val};

impl Nest<'_, '_, '_, '_> {
    fn reduced_dtype(&self, s: usize, v: Val) -> DType {
        self.kernel.stages[s].body[v.0 as usize].dtype
    }

    /// The state before the first element, for `u` repetitions.
    pub(crate) fn identities(&mut self, s: usize, vector: bool, u: i64) -> Accumulators {
        let kernel = self.kernel;
        let mut items = Vec::new();
        for _ in 0..u {
            for &r in &self.facts.stages[s].reduces {
                let inst = &kernel.stages[s].body[r];
                items.push(match &inst.op {
                    Op::Reduce(op, _) => {
                        smallvec![self.e.reduce_identity(*op, accumulator(inst.dtype), vector)]
                    }
                    Op::ArgReduce { max, value } => {
                        let dtype = self.reduced_dtype(s, *value);
                        let op = if *max { ReduceOp::Max } else { ReduceOp::Min };
                        let best = self.e.reduce_identity(op, accumulator(dtype), vector);
                        let zero = self.e.reduce_identity(ReduceOp::Sum, DType::I64, vector);
                        smallvec![best, zero]
                    }
                    _ => unreachable!("only reductions are listed"),
                });
            }
        }
        Accumulators { items }
    }

    /// Takes one body's value into reduction `r` (an instruction) of repetition `copy`.
    pub(crate) fn accumulate(
        &mut self,
        s: usize,
        copy: i64,
        r: usize,
        v: Lanes,
        accs: &mut Accumulators,
    ) {
        let kernel = self.kernel;
        let reduces = &self.facts.stages[s].reduces;
        let slot = reduces.iter().position(|&x| x == r).expect("listed");
        let at = copy as usize * reduces.len() + slot;
        let inst = &kernel.stages[s].body[r];
        match &inst.op {
            Op::Reduce(op, _) => {
                let acc = accs.items[at][0];
                let v = self.e.convert(v, acc.kind);
                let mut next = self.e.reduce_step(*op, acc, v);
                if inst.dtype.is_integral() {
                    next = self.e.wrap(next, inst.dtype);
                }
                accs.items[at][0] = next;
            }
            Op::ArgReduce { max, .. } => {
                let position = self.position(s, v.vector);
                self.takes_over(*max, [v, position], &mut accs.items[at]);
            }
            _ => unreachable!("only reductions are listed"),
        }
    }

    /// Puts a value and its position in the place of an extreme and its own, where it comes before
    /// it.
    pub(crate) fn takes_over(
        &mut self,
        max: bool,
        [v, position]: [Lanes; 2],
        best: &mut SmallVec<[Lanes; 2]>,
    ) {
        let v = self.e.convert(v, best[0].kind);
        let better = self.better(max, v, best[0]);
        best[0] = self.e.select(better, v, best[0]);
        best[1] = self.e.select(better, position, best[1]);
    }

    /// Whether `v` comes before `best` as an extreme: NaN first, the earlier of equals.
    fn better(&mut self, max: bool, v: Lanes, best: Lanes) -> Lanes {
        use straightline_passes::schedule::loops::CompareOp;
        let cc = if max { CompareOp::Gt } else { CompareOp::Lt };
        let beyond = self.e.compare(cc, v, best);
        if !v.kind.float() {
            return beyond;
        }
        let kind = beyond.kind;
        let nan = self.e.map1(v, kind, |e, x| e.is_nan(x));
        let had = self.e.map1(best, kind, |e, x| e.is_nan(x));
        let had = self.e.bool_not(had);
        let first = self.e.map2(nan, had, kind, |e, a, b| e.b.ins().band(a, b));
        self.e.map2(beyond, first, kind, |e, a, b| e.b.ins().bor(a, b))
    }

    /// The linear position over a stage's axes.
    pub(crate) fn position(&mut self, s: usize, vector: bool) -> Lanes {
        let mut at = self.e.i64(0);
        for axis in &self.kernel.stages[s].axes {
            if let Some(&v) = self.axis.get(&axis.id) {
                let scaled = self.e.scaled_by(at, axis.extent);
                at = self.e.b.ins().iadd(scaled, v);
            }
        }
        let at = Lanes::scalar(Kind::I64, at);
        if vector { self.e.splat(at) } else { at }
    }

    /// Brings the finished reductions of a stage into what later stages read.
    pub(crate) fn finish(&mut self, s: usize, accs: Accumulators) {
        let reduces = &self.facts.stages[s].reduces;
        if reduces.is_empty() {
            return;
        }
        for (at, acc) in accs.items.iter().enumerate() {
            let r = reduces[at % reduces.len()];
            let dtype = self.kernel.stages[s].body[r].dtype;
            let last = *acc.last().expect("one or two values");
            let v = self.e.wrap(last, dtype);
            self.carries.entry((s as u32, r as u32)).or_default().push(v);
        }
    }

    /// A stage at one grid point: its innermost axis is vectorised if that pays.
    pub(crate) fn point_stage(&mut self, s: usize) -> Result<(), JitError> {
        self.vector = false;
        self.lane_axis = None;
        let axes = self.kernel.stages[s].axes.clone();
        let totals = self.identities(s, false, 1);
        let Some((inner, outer)) = axes.split_last() else {
            let mut none = totals;
            return self.body(s, 0, 0, &[], &mut none);
        };
        let inner = *inner;
        let totals = self.stage_loops(s, outer, totals, &mut |n, totals| {
            *totals = n.row(s, inner.id, inner.extent, totals.clone())?;
            Ok(())
        })?;
        self.finish(s, totals);
        Ok(())
    }

    /// The innermost loop of a stage.
    fn row(
        &mut self,
        s: usize,
        axis: AxisId,
        extent: Size,
        totals: Accumulators,
    ) -> Result<Accumulators, JitError> {
        if extent.is(0) {
            return Ok(totals);
        }
        let facts = &self.facts.stages[s];
        let vector = !facts.scalar_only && extent.fixed().is_none_or(|n| n >= LANES);
        self.lane_axis = Some(axis);
        if let Some(strip) = &facts.strip {
            return self.strip_row(strip, s, axis, extent, totals);
        }
        let invariants = self.invariants(s, vector)?;
        let mut totals = totals;
        for (part, begin, end) in self.lane_parts(s, extent) {
            self.part = part;
            totals = self.row_part(s, axis, (begin, end), &invariants, totals)?;
        }
        self.part = None;
        Ok(totals)
    }

    /// A range of the innermost loop of a stage.
    fn row_part(
        &mut self,
        s: usize,
        axis: AxisId,
        (begin, end): (Size, Size),
        invariants: &[Option<Invariant>],
        mut totals: Accumulators,
    ) -> Result<Accumulators, JitError> {
        let sizes = self.e.sizes;
        let extent = sizes.minus(end, begin);
        let varies = extent.fixed().is_none();
        let facts = &self.facts.stages[s];
        let vector = !facts.scalar_only && extent.fixed().is_none_or(|n| n >= LANES);
        let (cost, wide) = (facts.cost, facts.wide);
        let has_reduce = !facts.reduces.is_empty();
        let mut done = Size::Fixed(0);
        if vector {
            let u = unroll(cost, wide, sizes.hint(extent));
            self.vector = true;
            let step = u * LANES;
            let main = sizes.whole(extent, Size::Fixed(step));
            let accs = self.identities(s, true, u);
            let copies = |n: &mut Self, accs: &mut Accumulators| {
                (0..u).try_for_each(|c| n.body(s, c, c * LANES, invariants, accs))
            };
            let block = sizes.of(|n, step| sum_block(n / step) * step, main, Size::Fixed(step));
            let mut accs = accs;
            let in_blocks = sizes.of(in_blocks, main, block);
            if !in_blocks.is(0) && self.sums_floats(s) {
                done = in_blocks;
                let (b, e) = (self.e.size(begin), self.e.size(sizes.plus(begin, done)));
                let l = self.e.begin_loop(b, e, block, &accs.values(), varies);
                let fresh = self.identities(s, true, u);
                let end = self.e.plus_size(l.index, block);
                let part = self.span_loop(axis, (l.index, end), step, false, fresh, copies)?;
                let outer = accs.with(&l.carried);
                let sum = self.combine(s, outer, &part);
                let out = self.e.end_loop(&l, &sum.values());
                accs = sum.with(&out);
            }
            let at = sizes.plus(begin, done);
            accs = self.span(axis, at, sizes.minus(main, done), step, accs, copies)?;
            let mut accs = self.combine_copies(s, u, accs);
            let rest = sizes.whole(sizes.minus(extent, main), Size::Fixed(LANES));
            let at = sizes.plus(begin, main);
            accs = self
                .span(axis, at, rest, LANES, accs, |n, accs| n.body(s, 0, 0, invariants, accs))?;
            done = sizes.plus(main, rest);
            self.vector = false;
            if has_reduce {
                totals = self.fold_into(s, &accs, totals);
            }
        }
        let tail = sizes.minus(extent, done);
        self.span(axis, sizes.plus(begin, done), tail, 1, totals, |n, accs| {
            n.body(s, 0, 0, invariants, accs)
        })
    }

    /// `begin..begin + len` of an axis in steps, accumulators carried.
    fn span(
        &mut self,
        axis: AxisId,
        begin: Size,
        len: Size,
        step: i64,
        mut accs: Accumulators,
        body: impl FnOnce(&mut Self, &mut Accumulators) -> Result<(), JitError>,
    ) -> Result<Accumulators, JitError> {
        if len.is(0) {
            return Ok(accs);
        }
        let b = self.e.size(begin);
        if !len.is(step) {
            let e = self.e.size(self.e.sizes.plus(begin, len));
            return self.span_loop(axis, (b, e), step, len.fixed().is_none(), accs, body);
        }
        let saved = self.address.clone();
        self.enter(axis, b);
        body(self, &mut accs)?;
        self.address = saved;
        Ok(accs)
    }

    fn span_loop(
        &mut self,
        axis: AxisId,
        (begin, end): (Value, Value),
        step: i64,
        guarded: bool,
        accs: Accumulators,
        body: impl FnOnce(&mut Self, &mut Accumulators) -> Result<(), JitError>,
    ) -> Result<Accumulators, JitError> {
        let step = Size::Fixed(step);
        let l = self.e.begin_loop(begin, end, step, &accs.values(), guarded);
        let saved = self.address.clone();
        self.enter(axis, l.index);
        let mut inner = accs.with(&l.carried);
        body(self, &mut inner)?;
        self.address = saved;
        let out = self.e.end_loop(&l, &inner.values());
        Ok(inner.with(&out))
    }

    /// Whether a stage has a float sum (and no arg-reduction, whose state does not combine).
    pub(crate) fn sums_floats(&self, s: usize) -> bool {
        let body = &self.kernel.stages[s].body;
        let reduces = &self.facts.stages[s].reduces;
        reduces.iter().all(|&r| matches!(body[r].op, Op::Reduce(..)))
            && reduces.iter().any(|&r| {
                matches!(body[r].op, Op::Reduce(ReduceOp::Sum, _)) && body[r].dtype.is_floating()
            })
    }

    /// The state before the first element in the shape of `accs`.
    pub(crate) fn identities_like(&mut self, s: usize, accs: &Accumulators) -> Accumulators {
        let u = accs.items.len() / self.facts.stages[s].reduces.len().max(1);
        let vector = accs.items.first().is_some_and(|a| a[0].vector);
        self.identities(s, vector, u as i64)
    }

    /// Adds a partial state into another of the same shape.
    pub(crate) fn combine(
        &mut self,
        s: usize,
        mut into: Accumulators,
        part: &Accumulators,
    ) -> Accumulators {
        let kernel = self.kernel;
        let reduces = &self.facts.stages[s].reduces;
        for (i, (a, b)) in into.items.iter_mut().zip(&part.items).enumerate() {
            let Op::Reduce(op, _) = kernel.stages[s].body[reduces[i % reduces.len()]].op else {
                unreachable!("asked of stages without arg-reductions")
            };
            a[0] = self.e.reduce_step(op, a[0], b[0]);
        }
        into
    }

    /// Adds the accumulators of the repetitions together, pairwise.
    fn combine_copies(&mut self, s: usize, u: i64, accs: Accumulators) -> Accumulators {
        let kernel = self.kernel;
        let reduces = self.facts.stages[s].reduces.clone();
        let n = reduces.len();
        let mut items = accs.items;
        let mut width = u as usize;
        while width > 1 {
            let half = width / 2;
            for c in 0..half {
                for (k, &r) in reduces.iter().enumerate() {
                    let Op::Reduce(op, _) = kernel.stages[s].body[r].op else {
                        unreachable!("arg-reductions run lane by lane")
                    };
                    let (a, b) = (items[c * n + k][0], items[(c + half) * n + k][0]);
                    items[c * n + k][0] = self.e.reduce_step(op, a, b);
                }
            }
            width = half;
        }
        items.truncate(n);
        Accumulators { items }
    }

    /// Folds vector accumulators into scalar totals.
    fn fold_into(&mut self, s: usize, accs: &Accumulators, totals: Accumulators) -> Accumulators {
        let kernel = self.kernel;
        let mut totals = totals;
        for (k, &r) in self.facts.stages[s].reduces.iter().enumerate() {
            let inst = &kernel.stages[s].body[r];
            let Op::Reduce(op, _) = inst.op else {
                unreachable!("arg-reductions run lane by lane")
            };
            let folded = self.e.fold_lanes(op, accs.items[k][0]);
            let mut total = self.e.reduce_step(op, totals.items[k][0], folded);
            if inst.dtype.is_integral() {
                total = self.e.wrap(total, inst.dtype);
            }
            totals.items[k][0] = total;
        }
        totals
    }
}

impl super::emit::Emit<'_, '_> {
    /// `v * factor` for an address.
    pub(crate) fn scaled(&mut self, v: Value, factor: i64) -> Value {
        match factor {
            1 => v,
            f if f > 1 && f & (f - 1) == 0 => {
                self.b.ins().ishl_imm_u(v, i64::from(f.trailing_zeros()))
            }
            f => self.b.ins().imul_imm_s(v, f),
        }
    }

    /// `v * factor` for an address.
    pub(crate) fn scaled_by(&mut self, v: Value, factor: Size) -> Value {
        match factor {
            Size::Fixed(factor) => self.scaled(v, factor),
            factor => {
                let factor = self.size(factor);
                self.b.ins().imul(v, factor)
            }
        }
    }

    /// `v / n`, not negative.
    pub(crate) fn divided(&mut self, v: Value, n: Size) -> Value {
        match n {
            Size::Fixed(n) => self.b.ins().udiv_imm_u(v, n),
            n => {
                let n = self.size(n);
                self.b.ins().udiv(v, n)
            }
        }
    }

    /// `v % n`, not negative.
    pub(crate) fn remainder(&mut self, v: Value, n: Size) -> Value {
        match n {
            Size::Fixed(n) => self.b.ins().urem_imm_u(v, n),
            n => {
                let n = self.size(n);
                self.b.ins().urem(v, n)
            }
        }
    }

    /// Leaves the function with a status where `bad` holds: the fields of
    /// [`Status`](super::Status) in their order.
    pub(crate) fn fail_if(&mut self, bad: Value, status: Value, fields: [FailField; 5]) {
        let cold = self.b.create_block();
        let ok = self.b.create_block();
        self.b.set_cold_block(cold);
        self.b.ins().brif(bad, cold, &[], ok, &[]);
        self.b.seal_block(cold);
        self.b.seal_block(ok);
        self.b.switch_to_block(cold);
        // the code is stored last: a reader that sees it finds the rest
        for (i, f) in fields.iter().enumerate().rev() {
            let v = match *f {
                FailField::Const(c) => self.i64(c),
                FailField::Size(n) => self.size(n),
                FailField::Value(v) => v,
            };
            self.b.ins().store(super::emit::mem().with_aligned(), v, status, i as i32 * 8);
        }
        self.b.ins().return_(&[]);
        self.b.switch_to_block(ok);
    }

    /// Whether an index is outside of `0..size`.
    pub(crate) fn beyond(&mut self, index: Value, size: Size) -> Value {
        let c = self.size(size);
        self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, c)
    }

    /// `index + size` wrapped into `0..size`, and whether it was out of range.
    pub(crate) fn wrap_index(&mut self, index: Value, size: Size) -> (Value, Value) {
        let c = self.size(size);
        let moved = self.b.ins().iadd(index, c);
        let twice = self.size(self.sizes.times(size, Size::Fixed(2)));
        let bad = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, moved, twice);
        let negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, index, 0);
        let wrapped = self.b.ins().select(negative, moved, index);
        (wrapped, bad)
    }
}

/// A field of a failure report.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailField {
    Const(i64),
    Size(Size),
    Value(Value),
}
