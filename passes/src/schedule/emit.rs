//! From a group of values that share a grid to the body of one kernel.
//!
//! Emission asks each stored value for the element at its own symbolic index and recurses into
//! definitions; what the group folds is carried between stages, what lies in memory is loaded.
//! It fails where the group makes no kernel (a fold is needed at another grid point than the one
//! that makes it), and that answer is what fusion is decided on.

use super::index::{self, Unsplit};
use super::layout::resolve;
use super::loops::*;
use super::program::{Def, Program, V};
use crate::ir::{DType, Dims, Scalar, layout};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A body longer than this is no kernel.
const MAX_BODY: usize = 4096;
/// Nested definitions deeper than this are no kernel.
const MAX_DEPTH: usize = 320;
/// Longer rows are recomputed rather than kept.
const MAX_SCRATCH: i64 = 1 << 15;

/// Why a group makes no kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// An axis must be cut: try again.
    Split { axis: AxisId, inner: i64 },
    /// This value must lie in memory first.
    Materialise(V),
    /// This fold is needed at other grid points than the one that computes it.
    Mismatch(V),
    /// Too long or too deep.
    TooBig,
}

/// Where a store goes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Target {
    /// The value whose memory is written.
    pub(crate) buffer: V,
    pub(crate) offset: i64,
    pub(crate) strides: Dims,
}

/// What a kernel computes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Item {
    /// Computes all elements of a value and stores them. `roles`: per dimension of the value, the
    /// dimension of the group; `None` for dimensions of size 1.
    Store {
        value: V,
        target: Target,
        roles: Vec<Option<usize>>,
    },
    /// Folds a value for later stages. `roles`: per dimension of the result.
    Fold { value: V, roles: Vec<Option<usize>> },
}

impl Item {
    pub(crate) fn value(&self) -> V {
        match self {
            Item::Store { value, .. } | Item::Fold { value, .. } => *value,
        }
    }
}

/// Values computed by one kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Group {
    /// Sizes other than 1 of the space.
    pub(crate) dims: Vec<i64>,
    /// Which of them are the grid; the others are swept by stages.
    pub(crate) on_grid: Vec<bool>,
    pub(crate) items: Vec<Item>,
    /// How many definitions were inlined.
    pub(crate) inlined: usize,
}

/// The dimensions of a group for a value of these sizes.
pub(crate) fn roles(sizes: &[i64]) -> (Vec<i64>, Vec<Option<usize>>) {
    let mut dims = Vec::new();
    let roles = sizes
        .iter()
        .map(|s| {
            (*s != 1).then(|| {
                dims.push(*s);
                dims.len() - 1
            })
        })
        .collect();
    (dims, roles)
}

impl Group {
    pub(crate) fn folds(&self, v: V) -> bool {
        self.items
            .iter()
            .any(|i| matches!(i, Item::Fold { value, .. } if *value == v))
    }

    /// The whole value `v` is stored by this group.
    pub(crate) fn stores(&self, v: V) -> bool {
        self.items.iter().any(
            |i| matches!(i, Item::Store { value, target, .. } if *value == v && target.buffer == v),
        )
    }

    fn row(&self) -> Vec<i64> {
        let pairs = self.dims.iter().zip(&self.on_grid);
        pairs.filter(|(_, g)| !**g).map(|(d, _)| *d).collect()
    }
}

/// Which values lie in memory, and how.
pub(crate) struct Memory<'a> {
    pub(crate) p: &'a Program,
    /// Values that some kernel or call stores whole.
    pub(crate) stored: &'a [bool],
    /// Their strides where those are not row-major.
    pub(crate) strides: &'a HashMap<V, Dims>,
}

impl Memory<'_> {
    pub(crate) fn holds(&self, v: V) -> bool {
        self.stored[v.i()] || !self.p.def(v).is_inlinable()
    }

    pub(crate) fn strides(&self, v: V) -> Dims {
        match self.p.def(v) {
            Def::Source { strides, .. } => strides.clone(),
            _ => match self.strides.get(&v) {
                Some(s) => s.clone(),
                None => layout::contiguous_strides(self.p.sizes(v)),
            },
        }
    }
}

/// A kernel's code before its axes are ordered and merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emitted {
    pub(crate) grid: Vec<Axis>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) scratch: Vec<Scratch>,
    /// Values computed in place, and folds.
    pub(crate) inlined: BTreeSet<V>,
    /// Indices at which a fold asked about was needed, with the group dimension of each entry.
    pub(crate) probed: Vec<Option<Vec<Option<usize>>>>,
}

/// Names a value at a row position for keeping it between stages: the index with stage axes
/// replaced by their positions, and the extents of the row.
type RowKey = (V, Vec<Index>, Vec<i64>);

/// How axes are cut: group dimensions, and row spaces of stages by their extents.
#[derive(Default)]
struct Cuts {
    grid: Vec<Vec<i64>>,
    rows: HashMap<Vec<i64>, Vec<Vec<i64>>>,
}

#[derive(Clone)]
enum AxisOrigin {
    Grid {
        dim: usize,
        part: usize,
    },
    Row {
        space: Vec<i64>,
        dim: usize,
        part: usize,
    },
}

struct StageState {
    axes: Vec<Axis>,
    row: Vec<i64>,
    body: Vec<Inst>,
    values: HashMap<(V, Vec<Index>), Val>,
    loads: HashMap<(Mem, Index), Val>,
    consts: HashMap<(u64, DType, bool), Val>,
    checks: HashMap<(Val, i64), Val>,
}

struct Emitter<'a> {
    memory: &'a Memory<'a>,
    p: &'a Program,
    group: &'a Group,
    /// A fold to ask about: where it is needed, without computing it.
    probe: Option<V>,
    axes: Vec<Axis>,
    origins: Vec<AxisOrigin>,
    grid_dims: Vec<Index>,
    stages: Vec<Stage>,
    /// (stage, instruction, canonical index) of folds done.
    done: HashMap<V, (u32, Val, Vec<Index>)>,
    /// Stage in which a store was done.
    stored_in: HashMap<V, usize>,
    now: StageState,
    keep: &'a HashMap<RowKey, u32>,
    kept_in: HashMap<u32, usize>,
    kept_used: BTreeSet<u32>,
    expensive: HashMap<RowKey, BTreeSet<usize>>,
    inlined: BTreeSet<V>,
    probed: Vec<Option<Vec<Option<usize>>>>,
    depth: usize,
}

/// Whether computing an element again costs more than reading it back.
pub(crate) fn is_expensive(def: &Def) -> bool {
    match def {
        Def::Unary(op, _) => unary_cost(*op) > 2,
        Def::Binary(op, ..) => binary_cost(*op) > 2,
        _ => false,
    }
}

fn unary_cost(op: UnaryOp) -> u64 {
    use UnaryOp::*;
    match op {
        Neg | Abs | Floor | Ceil | Round | Trunc | IsNan | IsInf | LogicalNot | BitwiseNot
        | Relu => 1,
        Sign => 2,
        Sqrt | Reciprocal => 4,
        Rsqrt => 6,
        Exp | Exp2 | Sigmoid | Silu => 10,
        Expm1 | Log | Log2 | Log10 | Log1p | Tanh | Sin | Cos => 14,
        _ => 18,
    }
}

fn binary_cost(op: BinaryOp) -> u64 {
    use BinaryOp::*;
    match op {
        Div | FloorDiv | TruncDiv => 4,
        Fmod | Remainder => 10,
        Pow | Atan2 => 24,
        _ => 1,
    }
}

/// Estimated scalar operations of an instruction.
pub(crate) fn cost(op: &Op) -> u64 {
    match op {
        Op::Const(_) | Op::Carry { .. } => 0,
        Op::Unary(op, _) => unary_cost(*op),
        Op::Binary(op, ..) => binary_cost(*op),
        _ => 1,
    }
}

impl Emitter<'_> {
    fn extent(&self, axis: AxisId) -> i64 {
        self.axes.get(axis.0 as usize).map_or(1, |a| a.extent)
    }

    fn new_axis(&mut self, extent: i64, origin: AxisOrigin) -> Axis {
        let id = AxisId(self.axes.len() as u32);
        let axis = Axis { id, extent };
        self.axes.push(axis);
        self.origins.push(origin);
        axis
    }

    fn inst(&mut self, op: Op, dtype: DType) -> Result<Val, Stop> {
        if self.now.body.len() >= MAX_BODY {
            return Err(Stop::TooBig);
        }
        self.now.body.push(Inst { op, dtype });
        Ok(Val(self.now.body.len() as u32 - 1))
    }

    fn constant(&mut self, number: Scalar, dtype: DType) -> Result<Val, Stop> {
        let (bits, float) = match number {
            Scalar::Bool(b) => (u64::from(b), false),
            Scalar::Int(i) => (i as u64, false),
            Scalar::Float(f) => (f.to_bits(), true),
        };
        if let Some(v) = self.now.consts.get(&(bits, dtype, float)) {
            return Ok(*v);
        }
        let v = self.inst(Op::Const(number), dtype)?;
        self.now.consts.insert((bits, dtype, float), v);
        Ok(v)
    }

    fn load(&mut self, mem: Mem, index: Index, dtype: DType) -> Result<Val, Stop> {
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
    fn address(strides: &[i64], offset: i64, index: &[Index]) -> Index {
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
    fn own_index(&self, item_roles: &[Option<usize>]) -> Option<Vec<Index>> {
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
    fn row_dims(&self) -> Vec<Index> {
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

    /// Asks for the element of `v` at `index`.
    fn value(&mut self, v: V, index: &[Index]) -> Result<Val, Stop> {
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
            if let Item::Store {
                value,
                target,
                roles,
            } = item
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
                let op = Op::Store {
                    mem,
                    index: at,
                    value,
                };
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
                self.inst(Op::Binary(*op, a, b), dtype)
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
            Def::Gather {
                src,
                index: ids,
                dims,
            } => {
                let at = self.value(*ids, index)?;
                let which = dims.iter().position(Option::is_none).unwrap_or(0);
                let size = self.p.sizes(*src)[which];
                let checked = match self.now.checks.get(&(at, size)) {
                    Some(v) => *v,
                    None => {
                        let v = self.inst(Op::CheckIndex { index: at, size }, DType::I64)?;
                        self.now.checks.insert((at, size), v);
                        v
                    }
                };
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
            Def::Source { .. }
            | Def::Reduce { .. }
            | Def::ArgReduce { .. }
            | Def::Pieces { .. }
            | Def::Matmul(_)
            | Def::Extern { .. } => Err(Stop::Materialise(v)),
        }
    }

    /// Reads through a chain of views at once where the value below them lies in memory.
    fn strided_load(&mut self, v: V, index: &[Index]) -> Result<Option<Val>, Stop> {
        let mut base = v;
        while let Def::View { src, .. } | Def::Reshape(src) = self.p.def(base) {
            base = *src;
            if self.group.stores(base) || self.probe == Some(base) {
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
        self.load(Mem::Buffer(BufferId(base.0)), at, dtype)
            .map(Some)
    }
}

fn resolve_until(p: &Program, v: V, base: V, stored: &dyn Fn(V) -> Dims) -> Option<(Dims, i64)> {
    if v == base {
        return Some((stored(v), 0));
    }
    match p.def(v) {
        Def::View { src, map } => {
            let (strides, offset) = resolve_until(p, *src, base, stored)?;
            let (out, more) = super::layout::compose(map, &strides, p.sizes(v).len());
            Some((out, offset + more))
        }
        Def::Reshape(src) => {
            let (strides, offset) = resolve_until(p, *src, base, stored)?;
            let out = super::layout::view_strides(p.sizes(*src), &strides, p.sizes(v))?;
            Some((out, offset))
        }
        _ => resolve(p, v, stored).map(|s| (s.strides, s.offset)),
    }
}

/// In which round of stages each item runs: one after the folds that it needs.
fn levels(p: &Program, memory: &Memory, group: &Group) -> HashMap<V, u32> {
    fn level(
        p: &Program,
        memory: &Memory,
        group: &Group,
        v: V,
        memo: &mut HashMap<V, u32>,
        depth: usize,
    ) -> u32 {
        if let Some(l) = memo.get(&v) {
            return *l;
        }
        if depth > MAX_DEPTH {
            return 0; // emission will refuse this group
        }
        let l = if group.folds(v) {
            1 + p
                .operands(v)
                .iter()
                .map(|o| level(p, memory, group, *o, memo, depth + 1))
                .max()
                .unwrap_or(0)
        } else if memory.holds(v) && !group.stores(v) {
            0
        } else {
            p.operands(v)
                .iter()
                .map(|o| level(p, memory, group, *o, memo, depth + 1))
                .max()
                .unwrap_or(0)
        };
        memo.insert(v, l);
        l
    }
    let mut memo = HashMap::new();
    for item in &group.items {
        level(p, memory, group, item.value(), &mut memo, 0);
    }
    memo
}

struct Attempt {
    emitted: Emitted,
    expensive: HashMap<RowKey, BTreeSet<usize>>,
    kept_used: BTreeSet<u32>,
}

fn attempt(
    memory: &Memory,
    group: &Group,
    probe: Option<V>,
    cuts: &mut Cuts,
    keep: &HashMap<RowKey, u32>,
) -> Result<Attempt, (Stop, Option<AxisOrigin>)> {
    let p = memory.p;
    let blank = || StageState {
        axes: Vec::new(),
        row: Vec::new(),
        body: Vec::new(),
        values: HashMap::new(),
        loads: HashMap::new(),
        consts: HashMap::new(),
        checks: HashMap::new(),
    };
    let mut e = Emitter {
        memory,
        p,
        group,
        probe,
        axes: Vec::new(),
        origins: Vec::new(),
        grid_dims: vec![Index::default(); group.dims.len()],
        stages: Vec::new(),
        done: HashMap::new(),
        stored_in: HashMap::new(),
        now: blank(),
        keep,
        kept_in: HashMap::new(),
        kept_used: BTreeSet::new(),
        expensive: HashMap::new(),
        inlined: BTreeSet::new(),
        probed: Vec::new(),
        depth: 0,
    };
    let mut grid = Vec::new();
    for (dim, size) in group.dims.iter().enumerate() {
        if !group.on_grid[dim] {
            continue;
        }
        if cuts.grid.len() <= dim {
            cuts.grid.resize(dim + 1, Vec::new());
        }
        if cuts.grid[dim].is_empty() {
            cuts.grid[dim].push(*size);
        }
        let mut stride = *size;
        for (part, extent) in cuts.grid[dim].clone().into_iter().enumerate() {
            stride /= extent;
            let axis = e.new_axis(extent, AxisOrigin::Grid { dim, part });
            e.grid_dims[dim].add_scaled(&Index::axis(axis.id), stride);
            grid.push(axis);
        }
    }
    // items by round and by the row that they sweep, in the order of their values
    let level = levels(p, memory, group);
    let mut rounds: BTreeMap<(u32, bool, Vec<i64>), Vec<&Item>> = BTreeMap::new();
    for item in &group.items {
        let l = level[&item.value()];
        let (l, row) = match item {
            Item::Store { roles, .. } => {
                let swept = roles.iter().flatten().any(|d| !group.on_grid[*d]);
                (l, if swept { group.row() } else { Vec::new() })
            }
            Item::Fold { value, .. } => {
                let (src, dims) = match p.def(*value) {
                    Def::Reduce { src, dims, .. } | Def::ArgReduce { src, dims, .. } => (src, dims),
                    _ => return Err((Stop::Mismatch(*value), None)),
                };
                let sizes = p.sizes(*src);
                let row = dims.iter().map(|d| sizes[*d]).filter(|s| *s != 1);
                (l - 1, row.collect())
            }
        };
        let pointwise = row.is_empty();
        rounds.entry((l, pointwise, row)).or_default().push(item);
    }
    for ((_, _, row), mut items) in rounds {
        items.sort_by_key(|i| (i.value(), matches!(i, Item::Store { .. })));
        e.now = blank();
        e.now.row = row.clone();
        let parts = cuts
            .rows
            .entry(row.clone())
            .or_insert_with(|| row.iter().map(|s| vec![*s]).collect())
            .clone();
        for (dim, parts) in parts.iter().enumerate() {
            for (part, extent) in parts.iter().enumerate() {
                let space = row.clone();
                let axis = e.new_axis(*extent, AxisOrigin::Row { space, dim, part });
                e.now.axes.push(axis);
            }
        }
        for item in items {
            e.depth = 0;
            let result = emit_item(&mut e, item);
            if let Err(stop) = result {
                let origin = match stop {
                    Stop::Split { axis, .. } => e.origins.get(axis.0 as usize).cloned(),
                    _ => None,
                };
                return Err((stop, origin));
            }
        }
        let now = std::mem::replace(&mut e.now, blank());
        e.stages.push(Stage {
            axes: SmallVec::from_vec(now.axes),
            body: now.body,
        });
    }
    let mut scratch = vec![None; keep.len()];
    for ((v, _, row), slot) in keep {
        scratch[*slot as usize] = Some(Scratch {
            dtype: p.dtype(*v),
            len: row.iter().product::<i64>() as usize,
        });
    }
    Ok(Attempt {
        emitted: Emitted {
            grid,
            stages: e.stages,
            scratch: scratch.into_iter().flatten().collect(),
            inlined: e.inlined,
            probed: e.probed,
        },
        expensive: e.expensive,
        kept_used: e.kept_used,
    })
}

fn emit_item(e: &mut Emitter, item: &Item) -> Result<(), Stop> {
    match item {
        Item::Store {
            value,
            target,
            roles,
        } => {
            let Some(index) = e.own_index(roles) else {
                return Err(Stop::Mismatch(*value));
            };
            let val = e.value(*value, &index)?;
            let at = Emitter::address(&target.strides, target.offset, &index);
            let op = Op::Store {
                mem: Mem::Buffer(BufferId(target.buffer.0)),
                index: at,
                value: val,
            };
            let dtype = e.p.dtype(*value);
            e.inst(op, dtype)?;
            if target.buffer == *value {
                e.stored_in.insert(*value, e.stages.len());
            }
        }
        Item::Fold { value, roles } => {
            let (src, dims) = match e.p.def(*value) {
                Def::Reduce { src, dims, .. } | Def::ArgReduce { src, dims, .. } => {
                    (*src, dims.clone())
                }
                _ => return Err(Stop::Mismatch(*value)),
            };
            let own: Vec<Index> = roles
                .iter()
                .map(|r| r.map_or_else(Index::default, |d| e.grid_dims[d].clone()))
                .collect();
            let rows = e.row_dims();
            let (mut next_own, mut next_row) = (0, 0);
            let sizes = Dims::from_slice(e.p.sizes(src));
            let mut index = Vec::with_capacity(sizes.len());
            for (d, size) in sizes.iter().enumerate() {
                if !dims.contains(&d) {
                    index.push(own[next_own].clone());
                    next_own += 1;
                } else if *size == 1 {
                    index.push(Index::default());
                } else {
                    index.push(rows[next_row].clone());
                    next_row += 1;
                }
            }
            let val = e.value(src, &index)?;
            let op = match e.p.def(*value) {
                Def::Reduce { op, .. } => Op::Reduce(*op, val),
                Def::ArgReduce { max, .. } => Op::ArgReduce {
                    max: *max,
                    value: val,
                },
                _ => return Err(Stop::Mismatch(*value)),
            };
            let dtype = e.p.dtype(*value);
            let fold = e.inst(op, dtype)?;
            let stage = e.stages.len() as u32;
            e.inlined.insert(*value);
            e.done.insert(*value, (stage, fold, own));
        }
    }
    Ok(())
}

/// Emits with axes cut as far as reshapes on the way need it.
fn settle(
    memory: &Memory,
    group: &Group,
    probe: Option<V>,
    cuts: &mut Cuts,
    keep: &HashMap<RowKey, u32>,
) -> Result<Attempt, Stop> {
    for _ in 0..64 {
        match attempt(memory, group, probe, cuts, keep) {
            Ok(done) => return Ok(done),
            Err((Stop::Split { inner, .. }, Some(origin))) => {
                let (parts, part) = match origin {
                    AxisOrigin::Grid { dim, part } => (&mut cuts.grid[dim], part),
                    AxisOrigin::Row { space, dim, part } => match cuts.rows.get_mut(&space) {
                        Some(row) => (&mut row[dim], part),
                        None => return Err(Stop::TooBig),
                    },
                };
                let outer = parts[part] / inner;
                parts.splice(part..=part, [outer, inner]);
            }
            Err((stop, _)) => return Err(stop),
        }
    }
    Err(Stop::TooBig)
}

/// Emits the group's kernel.
pub(crate) fn emit(memory: &Memory, group: &Group) -> Result<Emitted, Stop> {
    let mut cuts = Cuts::default();
    let mut keep = HashMap::new();
    let mut done = settle(memory, group, None, &mut cuts, &keep)?;
    let mut shared: Vec<RowKey> = done
        .expensive
        .into_iter()
        .filter(|(_, stages)| stages.len() > 1)
        .map(|(key, _)| key)
        .collect();
    if shared.is_empty() {
        return Ok(done.emitted);
    }
    shared.sort_by_key(|(v, ..)| *v);
    // keep all of them, then only those that are read: the outermost ones
    for round in 0..2 {
        keep = shared.drain(..).zip(0u32..).collect();
        done = settle(memory, group, None, &mut cuts, &keep)?;
        if round == 0 {
            let used = &done.kept_used;
            let mut read: Vec<(u32, RowKey)> = keep
                .into_iter()
                .filter(|(_, slot)| used.contains(slot))
                .map(|(key, slot)| (slot, key))
                .collect();
            read.sort_by_key(|r| r.0);
            shared = read.into_iter().map(|r| r.1).collect();
        }
    }
    Ok(done.emitted)
}

/// Emits without keeping rows, and asks where `probe` is needed.
pub(crate) fn probe(memory: &Memory, group: &Group, probe: Option<V>) -> Result<Emitted, Stop> {
    let mut cuts = Cuts::default();
    let keep = HashMap::new();
    settle(memory, group, probe, &mut cuts, &keep).map(|a| a.emitted)
}
