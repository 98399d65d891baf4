//! A stage's body: one pass over its instructions for four lanes or one.

use super::JitError;
use super::accumulators::Accumulators;
use super::analyse::Known;
use super::emit::Emit;
use super::lanes::{Kind, LANES, Lanes};
use super::nest::{Invariant, Nest};
use super::reduce::FailField;
use super::sizes::{Index, Inst, Literal, Op, Size};
use super::status::{INDEX_OUT_OF_RANGE, ZERO_DIVISION};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use smallvec::SmallVec;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{AxisId, Mem, Val, Vectorize};

/// Results of the instructions emitted so far.
pub(crate) struct Values<'v> {
    local: Vec<Option<Lanes>>,
    invariants: &'v [Option<Invariant>],
    vector: bool,
}

impl<'v> Values<'v> {
    /// Nothing emitted yet but what does not change.
    pub(crate) fn uniform_only(len: usize, invariants: &'v [Option<Invariant>]) -> Values<'v> {
        Values { local: vec![None; len], invariants, vector: false }
    }

    fn get(&self, e: &mut Emit<'_, '_>, v: Val) -> Lanes {
        if let Some(l) = self.local[v.0 as usize] {
            return l;
        }
        let i = self.invariants[v.0 as usize].expect("defined before its use");
        match (self.vector, i.vector) {
            (false, _) => i.scalar,
            (true, Some(l)) => l,
            (true, None) => e.splat(i.scalar),
        }
    }

    /// The one value of all lanes, if it is known to be one.
    fn uniform(&self, v: Val) -> Option<Value> {
        match self.local[v.0 as usize] {
            Some(l) if !l.vector => Some(l.one()),
            Some(_) => None,
            None => self.invariants[v.0 as usize].map(|i| i.scalar.one()),
        }
    }
}

impl Nest<'_, '_, '_, '_> {
    /// Computes what does not change inside the stage's loop; splats what vector code will read.
    pub(crate) fn invariants(
        &mut self,
        s: usize,
        vector: bool,
    ) -> Result<Vec<Option<Invariant>>, JitError> {
        let kernel = self.kernel;
        let facts = &self.facts.stages[s];
        let stage = &kernel.stages[s];
        let mut out: Vec<Option<Invariant>> = vec![None; stage.body.len()];
        let was = std::mem::replace(&mut self.vector, false);
        for (i, inst) in stage.body.iter().enumerate() {
            if !facts.invariant[i] {
                continue;
            }
            let values =
                Values { local: vec![None; stage.body.len()], invariants: &out, vector: false };
            let scalar = self.value(s, i, inst, &values, 0, 0)?.expect("an invariant has a value");
            let vector = (vector && facts.broadcast[i]).then(|| self.e.splat(scalar));
            out[i] = Some(Invariant { scalar, vector });
        }
        self.vector = was;
        Ok(out)
    }

    /// Emits the body once. `lane` is the position of its first lane after the lane axis' current
    /// value, `copy` the repetition (which accumulators and carries are its own).
    pub(crate) fn body(
        &mut self,
        s: usize,
        copy: i64,
        lane: i64,
        invariants: &[Option<Invariant>],
        accs: &mut Accumulators,
    ) -> Result<(), JitError> {
        let kernel = self.kernel;
        let stage = &kernel.stages[s];
        let none;
        let invariants = if invariants.is_empty() {
            none = vec![None; stage.body.len()];
            &none
        } else {
            invariants
        };
        let mut values =
            Values { local: vec![None; stage.body.len()], invariants, vector: self.vector };
        for (i, inst) in stage.body.iter().enumerate() {
            if invariants[i].is_some() {
                continue;
            }
            if let Some(part) = self.part.map(|p| &self.facts.stages[s].parts[p]) {
                if !part.needed[i] {
                    continue;
                }
                match part.known[i] {
                    Some(Known::Shift(_)) => continue,
                    Some(Known::Value(v)) => {
                        values.local[i] = Some(values.get(self.e, v));
                        continue;
                    }
                    // positions are the same in all lanes: a register for their address
                    Some(Known::Same(x)) => {
                        let vector = self.vector && inst.dtype == DType::Bool;
                        values.local[i] = Some(self.e.scalar_const(x, inst.dtype, vector));
                        continue;
                    }
                    None => {}
                }
            }
            match &inst.op {
                Op::Reduce(_, v) | Op::ArgReduce { value: v, .. } => {
                    let v = values.get(self.e, *v);
                    self.accumulate(s, copy, i, v, accs);
                }
                Op::Store { mem, index, value } => {
                    let v = values.get(self.e, *value);
                    self.store(s, i, inst.dtype, *mem, index, v, &values, lane);
                }
                Op::Update { op, mem, index, value } => {
                    let v = values.get(self.e, *value);
                    let place = self.locate(s, i, *mem, index, &values, lane);
                    self.update(*op, inst.dtype, &place, v)?;
                }
                _ => {
                    values.local[i] = self.value(s, i, inst, &values, copy, lane)?;
                }
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        s: usize,
        i: usize,
        inst: &Inst,
        values: &Values<'_>,
        copy: i64,
        lane: i64,
    ) -> Result<Option<Lanes>, JitError> {
        let kernel = self.kernel;
        let dtype_of = |v: &Val| kernel.stages[s].body[v.0 as usize].dtype;
        let dtype = inst.dtype;
        let vector = self.vector;
        Ok(Some(match &inst.op {
            Op::Load { mem, index } => self.load(s, i, dtype, *mem, index, values, lane),
            Op::Const(c) => self.e.literal(*c, dtype, vector),
            Op::AxisIndex(axis) => self.axis_index(*axis, lane),
            Op::Cast(v) => {
                let x = values.get(self.e, *v);
                self.e.cast(x, dtype_of(v), dtype)
            }
            Op::Unary(op, v) => {
                let x = values.get(self.e, *v);
                self.e.unary(*op, x, dtype_of(v))?
            }
            Op::Binary(op, a, b) => {
                let (x, y) = (values.get(self.e, *a), values.get(self.e, *b));
                let (status, step) = (self.cx.status, self.step as i64);
                let site = site(inst);
                self.e.binary(*op, x, y, dtype, &mut |e, zero| {
                    let fields = [ZERO_DIVISION, step, 0, 0, site].map(FailField::Const);
                    e.fail_if(zero, status, fields);
                })?
            }
            Op::Fma(a, b, c) => {
                let [x, y, z] = [a, b, c].map(|v| values.get(self.e, *v));
                let regs: SmallVec<[Value; 2]> = (0..x.regs().len())
                    .map(|k| self.e.b.ins().fma(x.regs()[k], y.regs()[k], z.regs()[k]))
                    .collect();
                let r = Lanes::new(x.kind, x.vector, &regs);
                self.e.wrap(r, dtype)
            }
            Op::Compare(op, a, b) => {
                let (x, y) = (values.get(self.e, *a), values.get(self.e, *b));
                self.e.compare(*op, x, y)
            }
            Op::Select(c, a, b) => {
                let [m, x, y] = [c, a, b].map(|v| values.get(self.e, *v));
                self.e.select(m, x, y)
            }
            Op::CheckIndex { index, size, wrap } => {
                let x = values.get(self.e, *index);
                let (status, step) = (self.cx.status, self.step as i64);
                let (size, wrap, site) = (*size, *wrap, site(inst));
                self.e.scalarize(&[x], Kind::I64, |e, x| {
                    let (wrapped, bad) = match wrap {
                        true => e.wrap_index(x[0], size),
                        false => (x[0], e.beyond(x[0], size)),
                    };
                    e.fail_if(
                        bad,
                        status,
                        [
                            FailField::Const(INDEX_OUT_OF_RANGE),
                            FailField::Const(step),
                            FailField::Value(x[0]),
                            FailField::Size(size),
                            FailField::Const(site),
                        ],
                    );
                    wrapped
                })
            }
            Op::Carry { stage, value } => {
                let copies =
                    self.carries.get(&(*stage, value.0)).filter(|c| !c.is_empty()).ok_or_else(
                        || JitError::Invalid {
                            what: format!("stage {s} reads a reduction that stage {stage} lacks"),
                        },
                    )?;
                let v = copies[(copy as usize).min(copies.len() - 1)];
                match (vector, v.vector) {
                    (true, false) => self.e.splat(v),
                    _ => v,
                }
            }
            Op::Reduce(..) | Op::ArgReduce { .. } | Op::Store { .. } | Op::Update { .. } => {
                return Ok(None);
            }
        }))
    }

    fn axis_index(&mut self, axis: AxisId, lane: i64) -> Lanes {
        let at = match self.axis.get(&axis) {
            Some(v) => *v,
            None => self.e.i64(0),
        };
        let lanes = self.lane_axis == Some(axis);
        if !self.vector {
            let at = if lanes && lane != 0 { self.e.b.ins().iadd_imm_s(at, lane) } else { at };
            return Lanes::scalar(Kind::I64, at);
        }
        let all = self.e.splat(Lanes::scalar(Kind::I64, at));
        if !lanes {
            return all;
        }
        let regs: SmallVec<[Value; 2]> = all
            .regs()
            .iter()
            .enumerate()
            .map(|(k, &r)| {
                let first = lane + 2 * k as i64;
                let ramp = self.e.vector_words(types::I64X2, [first, first + 1]);
                self.e.b.ins().iadd(r, ramp)
            })
            .collect();
        Lanes::new(Kind::I64, true, &regs)
    }

    /// Listed positions of an access that are one number in the part being emitted.
    pub(crate) fn same_in_part(&mut self, s: usize, index: &Index, values: &mut Values<'_>) {
        let Some(part) = self.part.map(|p| &self.facts.stages[s].parts[p]) else {
            return;
        };
        for (v, _) in &index.dynamic {
            if let Some(Known::Same(x)) = part.known[v.0 as usize] {
                let dtype = self.kernel.stages[s].body[v.0 as usize].dtype;
                values.local[v.0 as usize] = Some(self.e.scalar_const(x, dtype, false));
            }
        }
    }

    /// The offset of a list of positions from the lane axis, if it is known in the part being
    /// emitted.
    fn shift(&self, s: usize, v: Val) -> Option<i64> {
        let part = &self.facts.stages[s].parts[self.part?];
        match part.known[v.0 as usize] {
            Some(Known::Shift(shift)) => Some(shift),
            _ => None,
        }
    }

    /// The address of the body's first lane: register, byte offset, bytes per lane, and the dynamic
    /// terms that differ from lane to lane.
    fn locate(
        &mut self,
        s: usize,
        i: usize,
        mem: Mem,
        index: &Index,
        values: &Values<'_>,
        lane: i64,
    ) -> Place {
        let key = self.facts.stages[s].key[i].expect("loads and stores have one");
        let unit = self.element_bytes(mem);
        let element = match mem {
            Mem::Buffer(_) => unit,
            Mem::Scratch(r) => self.kernel.scratch[r as usize].dtype.size() as i64,
        };
        let sizes = self.e.sizes;
        let bytes = |n: Size| sizes.times(n, Size::Fixed(unit));
        let mut per_lane = match mem {
            Mem::Scratch(_) if self.kernel.vectorize == Vectorize::Grid => Size::Fixed(element),
            _ => bytes(self.lane_axis.and_then(|a| index.term(a)).unwrap_or(Size::Fixed(0))),
        };
        let mut base = self.address[key];
        let mut first = bytes(index.base);
        let mut varying = SmallVec::new();
        for &(v, stride) in &index.dynamic {
            let bytes = bytes(stride);
            if let Some(shift) = self.shift(s, v) {
                let axis = self.lane_axis.expect("parts are of a lane axis");
                let at = self.axis.get(&axis).copied();
                if let Some(at) = at {
                    let offset = self.e.scaled_by(at, bytes);
                    base = self.e.b.ins().iadd(base, offset);
                }
                first = sizes.plus(first, sizes.times(Size::Fixed(shift), bytes));
                per_lane = sizes.plus(per_lane, bytes);
                continue;
            }
            match values.uniform(v) {
                Some(at) => {
                    let offset = self.e.scaled_by(at, bytes);
                    base = self.e.b.ins().iadd(base, offset);
                }
                None => varying.push((values.get(self.e, v), bytes)),
            }
        }
        let mut offset = 0;
        // immediates have 32 bits; the lanes and halves of a vector add less than this margin
        let reach = 1 << 30;
        for part in [first, sizes.times(Size::Fixed(lane), per_lane)] {
            match part.fixed() {
                Some(bytes) if (-reach..reach).contains(&(offset + bytes)) => offset += bytes,
                _ => base = self.e.plus_size(base, part),
            }
        }
        if per_lane.fixed().is_some_and(|bytes| bytes.abs() >= reach / 8) {
            base = self.e.b.ins().iadd_imm_s(base, offset);
            offset = 0;
        }
        Place { base, offset, per_lane, element, varying }
    }

    /// The address of the body's first lane, of an access whose dynamic terms are the same in all
    /// lanes.
    pub(crate) fn first_address(
        &mut self,
        s: usize,
        i: usize,
        mem: Mem,
        index: &Index,
        values: &Values<'_>,
    ) -> Value {
        let place = self.locate(s, i, mem, index, values, 0);
        debug_assert!(place.varying.is_empty());
        match place.offset {
            0 => place.base,
            offset => self.e.b.ins().iadd_imm_s(place.base, offset),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn load(
        &mut self,
        s: usize,
        i: usize,
        dtype: DType,
        mem: Mem,
        index: &Index,
        values: &Values<'_>,
        lane: i64,
    ) -> Lanes {
        let place = self.locate(s, i, mem, index, values, lane);
        if !self.vector {
            return self.e.load_scalar(dtype, place.base, place.offset as i32);
        }
        if place.varying.is_empty() && place.per_lane.is(0) {
            let one = self.e.load_scalar(dtype, place.base, place.offset as i32);
            return self.e.splat(one);
        }
        if place.is_row() {
            return self.e.load_vector(dtype, place.base, place.offset as i32);
        }
        if place.varying.is_empty() && place.per_lane.is(-place.element) {
            let last = place.offset - (LANES - 1) * place.element;
            let v = self.e.load_vector(dtype, place.base, last as i32);
            return self.e.reversed(v);
        }
        self.e.gather(dtype, |e, k| place.lane(e, k))
    }

    #[allow(clippy::too_many_arguments)]
    fn store(
        &mut self,
        s: usize,
        i: usize,
        dtype: DType,
        mem: Mem,
        index: &Index,
        v: Lanes,
        values: &Values<'_>,
        lane: i64,
    ) {
        let place = self.locate(s, i, mem, index, values, lane);
        if !self.vector {
            self.e.store_scalar(dtype, v.one(), place.base, place.offset as i32);
            return;
        }
        if place.is_row() {
            self.e.store_vector(dtype, v, place.base, place.offset as i32);
            return;
        }
        for k in 0..LANES {
            let (base, offset) = place.lane(self.e, k);
            let x = self.e.lane(v, k);
            self.e.store_scalar(dtype, x, base, offset);
        }
    }
}

/// Where the lanes of an access are.
pub(crate) struct Place {
    pub(crate) base: Value,
    pub(crate) offset: i64,
    per_lane: Size,
    element: i64,
    varying: SmallVec<[(Lanes, Size); 1]>,
}

impl Place {
    /// Whether the lanes are neighbours.
    pub(crate) fn is_row(&self) -> bool {
        self.varying.is_empty() && self.per_lane.is(self.element)
    }

    pub(crate) fn lane(&self, e: &mut Emit<'_, '_>, k: i64) -> (Value, i32) {
        let mut base = self.base;
        for (v, bytes) in &self.varying {
            let at = e.lane(*v, k);
            let at = e.scaled_by(at, *bytes);
            base = e.b.ins().iadd(base, at);
        }
        let Some(per_lane) = self.per_lane.fixed() else {
            let moved = e.sizes.times(Size::Fixed(k), self.per_lane);
            return (e.plus_size(base, moved), self.offset as i32);
        };
        let offset = self.offset + k * per_lane;
        if let Ok(offset) = i32::try_from(offset) {
            return (base, offset);
        }
        (e.b.ins().iadd_imm_s(base, offset), 0)
    }
}

impl Emit<'_, '_> {
    /// A vector of two 64-bit words.
    pub(crate) fn vector_words(
        &mut self,
        ty: cranelift_codegen::ir::Type,
        words: [i64; 2],
    ) -> Value {
        let (chunk, offset) = self.pool.slot(words.map(|w| w as u64));
        let base = self.i64(chunk as i64);
        self.b.ins().load(ty, super::emit::mem().with_aligned(), base, offset)
    }

    /// A constant of a kernel.
    fn literal(&mut self, literal: Literal, dtype: DType, vector: bool) -> Lanes {
        if let Some(number) = literal.number.fixed() {
            return self.scalar_const(literal.kind.join(number), dtype, vector);
        }
        let kind = Kind::of(dtype, false);
        let at = self.sizes.literal(literal, dtype);
        let v = self.entry(kind.ty(false), at);
        let one = Lanes::scalar(kind, v);
        if vector { self.splat(one) } else { one }
    }

    /// A constant of a dtype.
    fn scalar_const(&mut self, c: Scalar, dtype: DType, vector: bool) -> Lanes {
        let kind = Kind::of(dtype, vector);
        let ty = kind.ty(vector);
        let c = c.cast(dtype);
        let v = match kind {
            Kind::F32 | Kind::F64 => self.fconst(ty, c.as_f64()),
            Kind::I32 | Kind::I64 => self.iconst(ty, c.as_i64()),
            Kind::M32 | Kind::M64 => self.iconst(ty, -i64::from(c.as_bool())),
            Kind::Bit => self.iconst(ty, i64::from(c.as_bool())),
        };
        let regs = [v; 2];
        Lanes::new(kind, vector, &regs[..Lanes::count(kind, vector)])
    }
}

/// Whose failure one of the instruction is, as [`Status::site`](super::Status::site) says it.
fn site(inst: &Inst) -> i64 {
    inst.site.map_or(-1, i64::from)
}
