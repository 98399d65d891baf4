//! The instructions of a stage as a body.

use super::dtypes::{arg_fold_of, fits, fold_of, format, narrow_width, widens, width_of};
use super::ir::{Body, Fold, FoldOp, Format, Inst, Node};
use super::ranges::lane_dtypes;
use super::vectors::{Vectors, Width};
use super::{Param, Stream, Turned};
use crate::cpu::jit::analyse::{Known, Part, StageFacts, operands};
use crate::cpu::jit::sizes::{Index, Kernel, Op, Sizes, Stage};
use crate::cpu::math::Prims;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{AxisId, Mem, Val, Vectorize};

/// Elements farther apart stay with Cranelift: the addresses of a step are offsets of 32 bits.
const MAX_STRIDE: i64 = 1 << 20;

/// Where the results of reductions are.
#[derive(Clone, Debug)]
enum Results {
    /// In registers: one for each reduction, of lanes that are folded in the end.
    Folded,
    /// In memory, one for each column: what they are now, by the reduction's place in the stage.
    Columns(Vec<Node>),
}

/// A stage on its way to a body.
pub(super) struct Translate<'k> {
    pub(super) body: Body,
    pub(super) streams: Vec<Stream>,
    pub(super) params: Vec<Param>,
    /// What it reads from tiles, as if it ran along the lanes.
    pub(super) turned: Option<Turned>,
    stage: &'k Stage,
    facts: &'k StageFacts,
    lanes: AxisId,
    grid: bool,
    /// By instruction.
    nodes: Vec<Option<Node>>,
    results: Results,
    /// The dtypes of the instructions in lanes.
    dtypes: Vec<DType>,
    /// The lane axis is where the kernel's loops say.
    has_position: bool,
    /// The part of the lane axis that it is of.
    part: Option<&'k Part>,
    /// The row after the current one, along the stage or along the grid, that is being translated.
    row: i64,
}

impl<'k> Translate<'k> {
    /// Of a stage whose lanes run along an axis; `sizes`: a loop of the stage or the kernel is the
    /// strip, otherwise columns with results in memory are.
    pub(super) fn new(
        kernel: &'k Kernel,
        s: usize,
        facts: &'k StageFacts,
        lanes: AxisId,
        vectors: Vectors,
        sizes: Option<&Sizes>,
    ) -> Translate<'k> {
        let stage = &kernel.stages[s];
        let dtypes = match sizes {
            Some(sizes) => lane_dtypes(kernel, stage, facts, sizes),
            None => stage.body.iter().map(|i| i.dtype).collect(),
        };
        let mut t = Translate {
            body: Body::new(vectors, Width::W32),
            streams: Vec::new(),
            params: Vec::new(),
            turned: None,
            stage,
            facts,
            lanes,
            grid: kernel.vectorize == Vectorize::Grid,
            nodes: vec![None; stage.body.len()],
            results: Results::Folded,
            dtypes,
            has_position: sizes.is_some(),
            part: None,
            row: 0,
        };
        t.widen();
        t
    }

    /// Of a part of the lane axis of a kernel of one stage.
    pub(super) fn of_part(
        kernel: &'k Kernel,
        facts: &'k StageFacts,
        lanes: AxisId,
        vectors: Vectors,
        sizes: &Sizes,
        part: &'k Part,
    ) -> Translate<'k> {
        let mut t = Translate::new(kernel, 0, facts, lanes, vectors, Some(sizes));
        t.part = Some(part);
        t.widen();
        t
    }

    /// The instructions whose values differ between lanes.
    fn varying(&self) -> impl Iterator<Item = usize> + Clone + use<'k> {
        let (facts, part) = (self.facts, self.part);
        let computed = move |i: &usize| part.is_none_or(|p| p.needed[*i] && p.known[*i].is_none());
        (0..self.stage.body.len()).filter(move |i| !facts.invariant[*i]).filter(computed)
    }

    /// Takes lanes as wide as the values. Positions are as wide as what they are positions of.
    fn widen(&mut self) {
        let finds = |i: &usize| matches!(self.stage.body[*i].op, Op::ArgReduce { .. });
        let varying = self.varying().filter(|i| !finds(i));
        self.body.width = width_of(varying.map(|i| self.dtypes[i]));
    }

    /// Takes lanes that are as narrow as all values are, if they are and the stage does nothing that
    /// needs longer ones. Rows of `extent` elements that AVX2 would have to copy gain nothing.
    pub(super) fn narrow(&mut self, extent: i64) -> Option<()> {
        let mut varying = self.varying();
        let width = narrow_width(varying.clone().map(|i| self.dtypes[i]))?;
        let fits = |i: usize| match &self.stage.body[i].op {
            Op::Reduce(..) | Op::ArgReduce { .. } | Op::Carry { .. } => false,
            Op::Update { .. } | Op::AxisIndex(_) | Op::Fma(..) => false,
            // a truth value in memory has 8 bits
            Op::Load { .. } | Op::Store { .. } => {
                width == Width::W8 || self.dtypes[i] != DType::Bool
            }
            _ => true,
        };
        self.body.width = width;
        let fills = extent >= i64::from(self.body.lanes()) || self.body.vectors == Vectors::Zmm;
        (fills && varying.all(fits)).then_some(())
    }

    /// All instructions once.
    pub(super) fn stage(&mut self) -> Option<()> {
        for i in 0..self.stage.body.len() {
            if self.facts.invariant[i] {
                continue;
            }
            if let Some(part) = self.part.filter(|p| !p.needed[i] || p.known[i].is_some()) {
                self.known(i, part)?;
                continue;
            }
            self.inst(i)?;
        }
        Some(())
    }

    /// What is known in a part of the lane axis.
    fn known(&mut self, i: usize, part: &Part) -> Option<()> {
        let dtype = self.dtypes[i];
        self.nodes[i] = match part.known[i] {
            Some(Known::Value(v)) if part.needed[i] => Some(self.of(v, dtype)?),
            Some(Known::Same(x)) if part.needed[i] && dtype == DType::Bool => {
                Some(self.number(x, dtype))
            }
            // positions are known to addresses only
            _ => None,
        };
        Some(())
    }

    /// All instructions for each of some rows: each reduction goes on from the results in memory.
    pub(super) fn rows(&mut self, rows: i64) -> Option<()> {
        let places: Vec<u32> =
            (0..self.facts.reduces.len()).map(|k| self.open(Stream::Total(k))).collect();
        let load = |s: &u32| self.body.push(Inst::Load(*s, Format::Lanes));
        self.results = Results::Columns(places.iter().map(load).collect());
        for row in 0..rows {
            self.row = row;
            for i in 0..self.stage.body.len() {
                if !self.facts.invariant[i] {
                    self.nodes[i] = None;
                }
            }
            self.stage()?;
        }
        if let Results::Columns(totals) = &self.results {
            for (&s, &v) in places.iter().zip(totals) {
                self.body.push(Inst::Store(s, Format::Lanes, v));
            }
        }
        Some(())
    }

    /// All instructions for each of some neighbouring grid points along `axis`, each of which has
    /// reductions of its own. What is the same for all of them is there once.
    pub(super) fn grid_rows(&mut self, rows: i64, axis: AxisId) -> Option<()> {
        let mut same: Vec<bool> = Vec::new();
        for inst in &self.stage.body {
            let all = operands(&inst.op).iter().all(|v| same[v.0 as usize]);
            same.push(match &inst.op {
                Op::Store { .. } | Op::Update { .. } => return None,
                Op::Reduce(..) | Op::ArgReduce { .. } | Op::Carry { .. } => false,
                // the others are at a distance from the first that the index says without numbers
                Op::Load { .. } if !all => return None,
                Op::Load { index, .. } => index.term(axis).is_none(),
                Op::AxisIndex(a) => *a != axis,
                _ => all,
            });
        }
        for row in 0..rows {
            self.row = row;
            for i in (0..self.stage.body.len()).filter(|i| !self.facts.invariant[*i]) {
                if row > 0 && same[i] {
                    continue;
                }
                self.inst(i)?;
            }
        }
        let is_same = |p: &Param| match p {
            Param::Value(v) => same[v.0 as usize],
            Param::Begin => true,
        };
        self.params.iter().all(is_same).then_some(())
    }

    pub(super) fn open(&mut self, stream: Stream) -> u32 {
        self.streams.push(stream);
        self.streams.len() as u32 - 1
    }

    fn dtype(&self, v: Val) -> DType {
        self.dtypes[v.0 as usize]
    }

    fn param(&mut self, p: Param) -> Node {
        let at = match self.params.iter().position(|known| *known == p) {
            Some(at) => at,
            None => {
                self.params.push(p);
                self.params.len() - 1
            }
        };
        self.body.push(Inst::Param(at as u32))
    }

    /// The value of the lane axis.
    fn position(&mut self) -> Node {
        let (begin, at) = (self.param(Param::Begin), self.body.push(Inst::Position));
        self.body.iadd(at, begin)
    }

    /// A value.
    fn get(&mut self, v: Val) -> Option<Node> {
        let i = v.0 as usize;
        if let Some(n) = self.nodes[i] {
            return Some(n);
        }
        // an invariant
        let (inst, dtype) = (&self.stage.body[i], self.dtypes[i]);
        if !fits(dtype, self.body.width) {
            return None;
        }
        let known = match inst.op {
            Op::Const(c) => c.number.fixed().map(|n| c.kind.join(n)),
            _ => None,
        };
        let n = match known {
            Some(c) => self.number(c, dtype),
            // parameters are floats of 32 bits
            None if dtype.is_half() && self.body.width.is_narrow() => return None,
            None => {
                let n = self.param(Param::Value(v));
                match dtype {
                    DType::Bool => self.nonzero(n),
                    _ => n,
                }
            }
        };
        self.nodes[i] = Some(n);
        Some(n)
    }

    /// A constant of a dtype.
    fn number(&mut self, c: Scalar, dtype: DType) -> Node {
        let c = c.cast(dtype);
        let narrow = self.body.width.is_narrow();
        match dtype {
            DType::BF16 if narrow => {
                self.body.i(half::bf16::from_f32(c.as_f64() as f32).to_bits().into())
            }
            DType::F16 if narrow => {
                self.body.i(half::f16::from_f32(c.as_f64() as f32).to_bits().into())
            }
            DType::Bool => {
                let (x, zero) = (self.body.i(c.as_bool().into()), self.body.i(0));
                self.body.ilt(zero, x)
            }
            d if d.is_floating() => self.body.f(c.as_f64()),
            _ => self.body.i(c.as_i64()),
        }
    }

    /// Whether an integer is positive: a truth value in memory is 0 or 1.
    fn nonzero(&mut self, n: Node) -> Node {
        let zero = self.body.i(0);
        self.body.ilt(zero, n)
    }

    /// A value of this dtype.
    fn of(&mut self, v: Val, dtype: DType) -> Option<Node> {
        (self.dtype(v) == dtype).then(|| self.get(v)).flatten()
    }

    /// An access that is the same in all lanes, or moves along them: the stream, and how many
    /// elements it moves from one to the next.
    fn stream(&mut self, i: usize, mem: Mem, index: &Index) -> Option<(u32, i64)> {
        let at = |v: Val| v.0 as usize;
        let known = |v: Val| self.part.and_then(|p| p.known[at(v)]);
        let shifts = |v: Val| matches!(known(v), Some(Known::Shift(_)));
        let fixed = |v: Val| self.facts.invariant[at(v)] || known(v).is_some();
        let uniform = index.dynamic.iter().all(|d| fixed(d.0));
        let lanes_apart = self.grid && matches!(mem, Mem::Scratch(_));
        let mut moves = 0;
        let listed = index.dynamic.iter().filter(|d| shifts(d.0)).map(|d| d.1);
        for stride in listed.chain(index.term(self.lanes)) {
            moves += stride.fixed().filter(|n| n.abs() < MAX_STRIDE)?;
        }
        if !uniform || lanes_apart {
            return None;
        }
        Some((self.open(Stream::Access { inst: i, row: self.row }), moves))
    }

    /// An access that runs along the lanes.
    fn running(&mut self, i: usize, mem: Mem, index: &Index) -> Option<u32> {
        self.stream(i, mem, index).filter(|s| s.1 == 1).map(|s| s.0)
    }

    /// Elements of a stream as values.
    fn load(&mut self, s: u32, dtype: DType) -> Node {
        let n = self.body.push(Inst::Load(s, self.format(dtype)));
        match dtype {
            DType::Bool => self.nonzero(n),
            DType::BF16 if !self.body.width.is_narrow() => self.body.ishl(n, 16),
            _ => n,
        }
    }

    fn store(&mut self, s: u32, dtype: DType, v: Node) -> Node {
        let narrow = self.body.width.is_narrow();
        if dtype.is_half()
            && !narrow
            && let Some(bits) = self.bits_of(v, dtype)
        {
            return self.body.push(Inst::Store(s, Format::Word, bits));
        }
        let v = match dtype {
            DType::Bool => self.truth_in_memory(v),
            DType::BF16 if !narrow => self.body.ishr_u(v, 16),
            _ => v,
        };
        self.body.push(Inst::Store(s, self.format(dtype), v))
    }

    /// How elements of a dtype are in memory.
    fn format(&self, dtype: DType) -> Format {
        match self.body.width {
            Width::W8 | Width::W16 => Format::Lanes,
            Width::W64 if dtype == DType::I32 => Format::SignedInt,
            _ => format(dtype),
        }
    }

    /// A truth value as 0 or 1: where it comes from memory, as it is there.
    fn truth_in_memory(&mut self, m: Node) -> Node {
        let at = |n: Node| self.body.insts[n.0 as usize];
        if let Inst::CompareInt(_, x, _) = at(m)
            && let Inst::Load(s, _) = at(x)
            && let Stream::Access { inst, .. } = self.streams[s as usize]
            && self.stage.body[inst].dtype == DType::Bool
        {
            return x;
        }
        self.as_integer(m)
    }

    /// The 16 bits of a number of a half type that is only moved or chosen.
    fn bits_of(&mut self, v: Node, dtype: DType) -> Option<Node> {
        let at = |n: Node, b: &Body| b.insts[n.0 as usize];
        match (at(v, &self.body), dtype) {
            (Inst::Shift(6, 16, x), DType::BF16) => {
                matches!(at(x, &self.body), Inst::Load(_, Format::Word)).then_some(x)
            }
            (Inst::Load(s, Format::Half), DType::F16) => {
                Some(self.body.push(Inst::Load(s, Format::Word)))
            }
            (Inst::Const(bits), DType::BF16) => {
                (bits & 0xffff == 0).then(|| self.body.bits_const(bits >> 16))
            }
            (Inst::Const(bits), DType::F16) => {
                let number = f32::from_bits(bits as u32);
                let short = half::f16::from_f32(number);
                let exact = short.to_f32().to_bits() == number.to_bits();
                exact.then(|| self.body.bits_const(short.to_bits().into()))
            }
            (Inst::Select(m, a, b), _) => {
                let (a, b) = (self.bits_of(a, dtype)?, self.bits_of(b, dtype)?);
                Some(self.body.select(m, a, b))
            }
            _ => None,
        }
    }

    /// A truth value as 0 or 1.
    fn as_integer(&mut self, m: Node) -> Node {
        let (one, zero) = (self.body.i(1), self.body.i(0));
        self.body.select(m, one, zero)
    }

    /// Rounds or wraps a result to the range of its dtype.
    pub(super) fn wrap(&mut self, v: Node, dtype: DType) -> Node {
        let b = &mut self.body;
        if b.width.is_narrow() {
            return v;
        }
        let mut signed = |bits: u32| {
            let high = b.ishl(v, 32 - bits);
            b.ishr_s(high, 32 - bits)
        };
        match dtype {
            DType::I8 => signed(8),
            DType::I16 => signed(16),
            DType::U8 => {
                let low = b.i(0xff);
                b.iand(v, low)
            }
            DType::BF16 => b.round_bf16(v),
            DType::F16 => b.push(Inst::RoundHalf(v)),
            _ => v,
        }
    }

    fn inst(&mut self, i: usize) -> Option<()> {
        let stage = self.stage;
        let (inst, d) = (&stage.body[i], self.dtypes[i]);
        let widened = matches!(inst.op, Op::Load { .. }) && widens(d, self.body.width);
        if !fits(d, self.body.width) && !widened && !matches!(inst.op, Op::ArgReduce { .. }) {
            return None;
        }
        let node = match &inst.op {
            Op::Load { .. } if self.turned.as_ref().is_some_and(|t| t.tile(i).is_some()) => {
                let s = self.open(Stream::Access { inst: i, row: self.row });
                self.load(s, d)
            }
            Op::Load { mem, index } => {
                let (s, moves) = self.stream(i, *mem, index)?;
                match (moves, self.format(d)) {
                    (1, _) => self.load(s, d),
                    (0, Format::Lanes) => {
                        let n = self.body.push(Inst::Spread(s));
                        if d == DType::Bool { self.nonzero(n) } else { n }
                    }
                    (n, Format::Lanes) if !self.body.width.is_narrow() => {
                        self.body.push(Inst::Gather(s, n as i32))
                    }
                    _ => return None,
                }
            }
            Op::Store { mem, index, value } => {
                let v = self.of(*value, d)?;
                let s = self.running(i, *mem, index)?;
                self.store(s, d, v)
            }
            Op::Update { op, mem, index, value } if !d.is_half() => {
                let new = self.of(*value, d)?;
                let s = self.running(i, *mem, index)?;
                let old = self.load(s, d);
                let sum = self.updated(*op, old, new, d)?;
                self.store(s, d, sum)
            }
            Op::AxisIndex(a) if *a == self.lanes && self.has_position => self.position(),
            // one that varies does not change inside of the loop
            Op::Const(c) => self.number(c.kind.join(c.number.fixed()?), d),
            Op::Cast(v) => self.cast(*v, d)?,
            Op::Unary(op, v) => {
                let of = self.dtype(*v);
                let x = self.get(*v)?;
                self.unary(*op, x, of)?
            }
            Op::Binary(op, a, b) => {
                let (x, y) = (self.of(*a, d)?, self.of(*b, d)?);
                match d {
                    DType::Bool => self.logic(*op, x, y)?,
                    d if d.is_floating() => self.binary(*op, x, y, d)?,
                    _ => self.integers(*op, x, y, d)?,
                }
            }
            Op::Fma(a, b, c) => {
                let (x, y, z) = (self.of(*a, d)?, self.of(*b, d)?, self.of(*c, d)?);
                let r = self.body.fma(x, y, z);
                self.wrap(r, d)
            }
            Op::Compare(op, a, b) => {
                let of = self.dtype(*a);
                let (x, y) = (self.get(*a)?, self.of(*b, of)?);
                self.compare(*op, x, y, of)?
            }
            Op::Select(m, a, b) => {
                let m = self.of(*m, DType::Bool)?;
                let (x, y) = (self.of(*a, d)?, self.of(*b, d)?);
                match d {
                    DType::Bool => {
                        let b = &mut self.body;
                        let not = b.not(m);
                        let (x, y) = (b.and(m, x), b.and(not, y));
                        b.or(x, y)
                    }
                    _ => self.body.select(m, x, y),
                }
            }
            Op::Carry { stage, value } if self.grid => {
                let s = self.open(Stream::Carry { stage: *stage as usize, inst: value.0 as usize });
                let n = self.body.push(Inst::Load(s, Format::Lanes));
                match d {
                    DType::Bool => self.nonzero(n),
                    _ => self.wrap(n, d),
                }
            }
            Op::Reduce(op, v) => {
                let x = self.of(*v, d)?;
                let x = if d == DType::Bool { self.as_integer(x) } else { x };
                self.reduced(i, fold_of(*op, d)?, x)?
            }
            Op::ArgReduce { max, value } => {
                let of = self.dtype(*value);
                let x = self.get(*value).filter(|_| of != DType::Bool)?;
                self.reduced(i, arg_fold_of(*max, of)?, x)?
            }
            _ => return None,
        };
        self.nodes[i] = Some(node);
        Some(())
    }

    /// Takes a value into the reduction of instruction `i`.
    fn reduced(&mut self, i: usize, fold: Fold, x: Node) -> Option<Node> {
        let k = self.facts.reduces.iter().position(|r| *r == i)?;
        match &mut self.results {
            Results::Folded => {
                // there is no instruction for the product of 64-bit integers
                if fold.int && fold.op == FoldOp::Prod && self.body.short_of_integers() {
                    return None;
                }
                self.body.folds.push(fold);
                let k = k + self.row as usize * self.facts.reduces.len();
                Some(self.body.push(Inst::Accumulate(k as u32, fold, x)))
            }
            Results::Columns(totals) if fold.results() == 1 => {
                totals[k] = self.body.folded(fold, totals[k], x);
                Some(totals[k])
            }
            Results::Columns(_) => None,
        }
    }

    fn cast(&mut self, v: Val, to: DType) -> Option<Node> {
        let from = self.dtype(v);
        let x = self.get(v)?;
        if from == to {
            return Some(x);
        }
        let floats = from.is_floating() || to.is_floating();
        if floats && self.body.width.is_narrow() {
            return None;
        }
        let r = match (from, to) {
            (DType::Bool, to) if to.is_floating() => {
                let (one, zero) = (self.body.f(1.0), self.body.f(0.0));
                return Some(self.body.select(x, one, zero));
            }
            (DType::Bool, _) => return Some(self.as_integer(x)),
            (from, DType::Bool) => {
                let is = self.is_zero(x, from);
                return Some(self.body.not(is));
            }
            (from, to) if from.is_floating() && to.is_floating() => x,
            // what is out of range is not what the machine gives
            (from, _) if from.is_floating() => return None,
            (from, to) if to.is_floating() && from.size() < 8 => self.body.small_to_float(x),
            (_, to) if to.is_floating() => self.body.to_float(x),
            _ => x,
        };
        let exact = from.is_half() && to == DType::F32;
        Some(if exact { r } else { self.wrap(r, to) })
    }
}
