//! One element at a symbolic index, as instructions.

use super::emitter::{AxisOrigin, Emitter, MAX_BODY, MAX_DEPTH, MAX_SCRATCH, RowKey};
use crate::ir::view::view_strides;
use crate::ir::{DType, Dims, Scalar};
use crate::schedule::cost::is_expensive;
use crate::schedule::group::{Item, Stop};
use crate::schedule::index::{self, Unsplit};
use crate::schedule::layout::{compose, resolve};
use crate::schedule::loops::*;
use crate::schedule::program::{Bounds, Def, Program, V};
use smallvec::SmallVec;

impl Emitter<'_> {
    fn extent(&self, axis: AxisId) -> i64 {
        self.axes.get(axis.0 as usize).map_or(1, |a| a.extent)
    }

    pub(super) fn new_axis(&mut self, extent: i64, origin: AxisOrigin) -> Axis {
        let id = AxisId(self.axes.len() as u32);
        let axis = Axis { id, extent };
        self.axes.push(axis);
        self.origins.push(origin);
        axis
    }

    pub(super) fn inst(&mut self, op: Op, dtype: DType) -> Result<Val, Stop> {
        if self.now.body.len() >= MAX_BODY {
            return Err(Stop::TooBig);
        }
        self.now.body.push(Inst::new(op, dtype));
        Ok(Val(self.now.body.len() as u32 - 1))
    }

    /// Attributes a failure of the last instruction to the call that `v` comes from.
    fn blame(&mut self, v: V) {
        if let (Some(inst), Some(node)) = (self.now.body.last_mut(), self.p.get(v).node) {
            inst.site = Some(node.index() as u32);
        }
    }

    fn constant(&mut self, number: Scalar, dtype: DType) -> Result<Val, Stop> {
        let (bits, float) = match number {
            Scalar::Bool(b) => (u64::from(b), false),
            Scalar::Int(i) => (i as u64, false),
            Scalar::Float(f) => (f.to_bits(), true),
            // lowering keeps complex values out of loops
            Scalar::Complex(..) => return Err(Stop::TooBig),
        };
        if let Some(v) = self.now.consts.get(&(bits, dtype, float)) {
            return Ok(*v);
        }
        let v = self.inst(Op::Const(number), dtype)?;
        self.now.consts.insert((bits, dtype, float), v);
        Ok(v)
    }

    pub(super) fn load(&mut self, mem: Mem, index: Index, dtype: DType) -> Result<Val, Stop> {
        let key = (mem, index);
        if let Some(v) = self.now.loads.get(&key) {
            return Ok(*v);
        }
        let index = key.1.clone();
        let v = self.inst(Op::Load { mem, index }, dtype)?;
        self.now.loads.insert(key, v);
        Ok(v)
    }

    /// The element's address in a strided tensor.
    pub(super) fn address(strides: &[i64], offset: i64, index: &[Index]) -> Index {
        let mut at = Index::constant(offset);
        for (ix, s) in index.iter().zip(strides) {
            at.add_scaled(ix, *s);
        }
        at
    }

    /// The current value of an index expression, as `i64`.
    fn position(&mut self, index: &Index) -> Result<Val, Stop> {
        let mut sum: Option<Val> = None;
        let mut parts: Vec<(Val, i64)> = Vec::new();
        for (axis, s) in &index.terms {
            parts.push((self.inst(Op::AxisIndex(*axis), DType::I64)?, *s));
        }
        parts.extend(index.dynamic.iter().copied());
        for (mut v, s) in parts {
            if s != 1 {
                let c = self.constant(Scalar::Int(s), DType::I64)?;
                v = self.inst(Op::Binary(BinaryOp::Mul, v, c), DType::I64)?;
            }
            sum = Some(match sum {
                None => v,
                Some(sum) => self.inst(Op::Binary(BinaryOp::Add, sum, v), DType::I64)?,
            });
        }
        let base = Scalar::Int(index.base);
        match sum {
            None => self.constant(base, DType::I64),
            Some(sum) if index.base == 0 => Ok(sum),
            Some(sum) => {
                let c = self.constant(base, DType::I64)?;
                self.inst(Op::Binary(BinaryOp::Add, sum, c), DType::I64)
            }
        }
    }

    fn row_key(&self, v: V, index: &[Index]) -> Option<RowKey> {
        let mut swept = false;
        let first = self.now.axes.first()?.id.0;
        let index = index
            .iter()
            .map(|ix| {
                let mut ix = ix.clone();
                for t in &mut ix.terms {
                    if t.0.0 >= first {
                        swept = true;
                        t.0 = AxisId(t.0.0 - first + (1 << 30));
                    }
                }
                ix.dynamic.is_empty().then_some(ix)
            })
            .collect::<Option<Vec<_>>>()?;
        let len: i64 = self.now.row.iter().product();
        (swept && len <= MAX_SCRATCH).then(|| (v, index, self.now.row.clone()))
    }

    /// The position within the row that the current stage sweeps.
    fn row_position(&self) -> Index {
        let mut at = Index::default();
        let mut stride = 1;
        for axis in self.now.axes.iter().rev() {
            at.add_scaled(&Index::axis(axis.id), stride);
            stride *= axis.extent;
        }
        at
    }

    /// The index of a stored item's own element at the current point, where the current stage
    /// sweeps the row that the item was stored by.
    pub(super) fn own_index(&self, item_roles: &[Option<usize>]) -> Option<Vec<Index>> {
        let rows = self.row_dims();
        item_roles
            .iter()
            .map(|r| match r {
                None => Some(Index::default()),
                Some(d) if self.group.on_grid[*d] => Some(self.grid_dims[*d].clone()),
                Some(d) => {
                    let nth = (0..*d).filter(|k| !self.group.on_grid[*k]).count();
                    let row = self.group.row();
                    (self.now.row == row).then(|| rows[nth].clone())
                }
            })
            .collect()
    }

    /// One index per dimension of the row of the current stage.
    pub(super) fn row_dims(&self) -> Vec<Index> {
        let mut out = vec![Index::default(); self.now.row.len()];
        let mut strides = vec![1; self.now.row.len()];
        for axis in self.now.axes.iter().rev() {
            if let AxisOrigin::Row { dim, .. } = &self.origins[axis.id.0 as usize] {
                out[*dim].add_scaled(&Index::axis(axis.id), strides[*dim]);
                strides[*dim] *= axis.extent;
            }
        }
        out
    }

    /// Emits the element of `v` at `index`.
    pub(super) fn value(&mut self, v: V, index: &[Index]) -> Result<Val, Stop> {
        let key = (v, index.to_vec());
        if let Some(val) = self.now.values.get(&key) {
            return Ok(*val);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Stop::TooBig);
        }
        let val = self.fresh(v, index)?;
        self.depth -= 1;
        self.now.values.insert(key, val);
        Ok(val)
    }

    fn fresh(&mut self, v: V, index: &[Index]) -> Result<Val, Stop> {
        let dtype = self.p.dtype(v);
        if self.probe == Some(v) {
            let dims = index
                .iter()
                .enumerate()
                .map(|(i, ix)| match self.p.sizes(v)[i] {
                    1 => Some(None),
                    _ => self.grid_dims.iter().position(|g| g == ix).map(Some),
                })
                .collect();
            self.probed.push(dims);
            return self.constant(Scalar::Int(0).cast(dtype), dtype);
        }
        if self.group.folds(v) {
            return match self.done.get(&v) {
                Some((stage, value, own)) if own == index => {
                    let (stage, value) = (*stage, *value);
                    self.inst(Op::Carry { stage, value }, dtype)
                }
                _ => Err(Stop::Mismatch(v)),
            };
        }
        if self.group.scatters(v) {
            return self.scattered(v, index);
        }
        if self.group.stores(v) {
            if let Some(val) = self.read_back(v, index)? {
                return Ok(val);
            }
        } else if self.memory.holds(v) {
            let strides = self.memory.strides(v);
            let at = Self::address(&strides, 0, index);
            return self.load(Mem::Buffer(BufferId(v.0)), at, dtype);
        }
        let def = self.p.def(v).clone();
        if is_expensive(&def)
            && let Some(key) = self.row_key(v, index)
        {
            return self.kept(v, index, &def, key);
        }
        self.compute(v, index, &def)
    }

    /// An element that an earlier stage of this kernel stored at this point.
    fn read_back(&mut self, v: V, index: &[Index]) -> Result<Option<Val>, Stop> {
        if !self.stored_in.contains_key(&v) {
            return Ok(None);
        }
        for item in &self.group.items {
            if let Item::Store { value, target, roles } = item
                && *value == v
                && target.buffer == v
                && self.own_index(roles).as_deref() == Some(index)
            {
                let at = Self::address(&target.strides, target.offset, index);
                let dtype = self.p.dtype(v);
                return self.load(Mem::Buffer(BufferId(v.0)), at, dtype).map(Some);
            }
        }
        Ok(None)
    }

    /// An expensive element: computed once and kept in a scratch row where stages share it.
    fn kept(&mut self, v: V, index: &[Index], def: &Def, key: RowKey) -> Result<Val, Stop> {
        let stage = self.stages.len();
        let slot = self.keep.get(&key).copied();
        let dtype = self.p.dtype(v);
        self.expensive.entry(key).or_default().insert(stage);
        let Some(slot) = slot else {
            return self.compute(v, index, def);
        };
        let at = self.row_position();
        match self.kept_in.get(&slot) {
            Some(s) if *s < stage => {
                self.kept_used.insert(slot);
                self.load(Mem::Scratch(slot), at, dtype)
            }
            _ => {
                let value = self.compute(v, index, def)?;
                let mem = Mem::Scratch(slot);
                let op = Op::Store { mem, index: at, value };
                self.inst(op, dtype)?;
                self.kept_in.insert(slot, stage);
                Ok(value)
            }
        }
    }

    fn compute(&mut self, v: V, index: &[Index], def: &Def) -> Result<Val, Stop> {
        let dtype = self.p.dtype(v);
        self.inlined.insert(v);
        match def {
            Def::Const(number) => self.constant(*number, dtype),
            Def::Position(dim) => self.position(&index[*dim]),
            Def::Unary(op, a) => {
                let a = self.value(*a, index)?;
                self.inst(Op::Unary(*op, a), dtype)
            }
            Def::Binary(op, a, b) => {
                let a = self.value(*a, index)?;
                let b = self.value(*b, index)?;
                let made = self.inst(Op::Binary(*op, a, b), dtype)?;
                if op.is_division() && dtype.is_integral() {
                    self.blame(v);
                }
                Ok(made)
            }
            Def::Compare(op, a, b) => {
                let a = self.value(*a, index)?;
                let b = self.value(*b, index)?;
                self.inst(Op::Compare(*op, a, b), dtype)
            }
            Def::Select(c, a, b) => {
                let c = self.value(*c, index)?;
                let a = self.value(*a, index)?;
                let b = self.value(*b, index)?;
                self.inst(Op::Select(c, a, b), dtype)
            }
            Def::Cast(a) => {
                let a = self.value(*a, index)?;
                self.inst(Op::Cast(a), dtype)
            }
            Def::Copy(a) => self.value(*a, index),
            Def::View { src, map } => {
                if let Some(val) = self.strided_load(v, index)? {
                    return Ok(val);
                }
                let at: Vec<Index> = map
                    .iter()
                    .map(|m| {
                        let mut ix = Index::constant(m.base);
                        for (dim, c) in &m.terms {
                            ix.add_scaled(&index[*dim], *c);
                        }
                        ix
                    })
                    .collect();
                self.value(*src, &at)
            }
            Def::Reshape(src) => {
                if let Some(val) = self.strided_load(v, index)? {
                    return Ok(val);
                }
                let extent = |a: AxisId| self.extent(a);
                let at = index::reshape(index, self.p.sizes(v), self.p.sizes(*src), &extent);
                match at {
                    Ok(at) => self.value(*src, &at),
                    Err(Unsplit::SplitAxis { axis, inner }) => Err(Stop::Split { axis, inner }),
                    Err(Unsplit::Never) => Err(Stop::Materialise(*src)),
                }
            }
            Def::Gather { src, index: ids, dims, bounds } => {
                let at = self.value(*ids, index)?;
                let which = dims.iter().position(Option::is_none).unwrap_or(0);
                let size = self.p.sizes(*src)[which];
                let checked = self.checked(at, size, *bounds, v)?;
                let from: Vec<Index> = dims
                    .iter()
                    .map(|d| match d {
                        Some(d) => index[*d].clone(),
                        None => Index {
                            dynamic: SmallVec::from_iter([(checked, 1)]),
                            ..Index::default()
                        },
                    })
                    .collect();
                self.value(*src, &from)
            }
            Def::Pieces { element: Some(element), .. } => self.value(*element, index),
            Def::Source { .. }
            | Def::Reduce { .. }
            | Def::ArgReduce { .. }
            | Def::Pieces { .. }
            | Def::Scatter(_)
            | Def::Matmul(_)
            | Def::Extern { .. } => Err(Stop::Materialise(v)),
        }
    }

    /// A value that is known to be an index of a dimension; `v` is what it is an index for.
    pub(super) fn checked(
        &mut self,
        at: Val,
        size: i64,
        bounds: Bounds,
        v: V,
    ) -> Result<Val, Stop> {
        let wrap = match bounds {
            Bounds::Listed => return Ok(at),
            Bounds::Checked => false,
            Bounds::Wrapped => true,
        };
        if let Some(v) = self.now.checks.get(&(at, size, wrap)) {
            return Ok(*v);
        }
        let check = Op::CheckIndex { index: at, size, wrap };
        let checked = self.inst(check, DType::I64)?;
        self.blame(v);
        self.now.checks.insert((at, size, wrap), checked);
        Ok(checked)
    }

    /// Reads through a whole chain of views if the value below them lies in memory.
    fn strided_load(&mut self, v: V, index: &[Index]) -> Result<Option<Val>, Stop> {
        let mut base = v;
        while let Def::View { src, .. } | Def::Reshape(src) = self.p.def(base) {
            base = *src;
            let here = self.group.stores(base) || self.group.scatters(base);
            if here || self.probe == Some(base) {
                return Ok(None);
            }
            if self.memory.holds(base) {
                break;
            }
        }
        if !self.memory.holds(base) || self.group.folds(base) {
            return Ok(None);
        }
        // views that are stored themselves end the chain
        let memory = self.memory;
        let stored = |b: V| memory.strides(b);
        let Some(s) = resolve_until(self.p, v, base, &stored) else {
            return Ok(None);
        };
        let at = Self::address(&s.0, s.1, index);
        let dtype = self.p.dtype(v);
        self.load(Mem::Buffer(BufferId(base.0)), at, dtype).map(Some)
    }
}

fn resolve_until(p: &Program, v: V, base: V, stored: &dyn Fn(V) -> Dims) -> Option<(Dims, i64)> {
    if v == base {
        return Some((stored(v), 0));
    }
    match p.def(v) {
        Def::View { src, map } => {
            let (strides, offset) = resolve_until(p, *src, base, stored)?;
            let (out, more) = compose(map, &strides, p.sizes(v).len());
            Some((out, offset + more))
        }
        Def::Reshape(src) => {
            let (strides, offset) = resolve_until(p, *src, base, stored)?;
            let out = view_strides(p.sizes(*src), &strides, p.sizes(v))?;
            Some((out, offset))
        }
        _ => resolve(p, v, stored).map(|s| (s.strides, s.offset)),
    }
}
