//! Operators that write where indices say: scatters, and the writing side of indexing.
//!
//! Each becomes a copy of its first operand into which its sources are stored, or with which they
//! are combined, in the order and with the roundings of the eager kernels. As in Inductor a scatter
//! is a store with a loaded index after a copy; as in XLA's expansion into a loop the places that
//! may meet come one after another, so that no atomics are needed and the result is deterministic.

use super::{CallView, Lowerer, wrap_dim};
use crate::ir::Arg;
use crate::ir::Op;
use crate::ir::args;
use crate::ir::view::Affine;
use crate::ir::{DType, Dims, Scalar, layout};
use crate::schedule::Target;
use crate::schedule::loops::{BinaryOp, CompareOp, ReduceOp};
use crate::schedule::program::{Bounds, Def, Place, Scatter, V};
use smallvec::{SmallVec, smallvec};

/// Scatters of fewer elements are a single piece of work.
const SERIAL: i64 = 1 << 16;
/// The largest number of pieces of work.
const PIECES: i64 = 8;
/// Elements of a row that stay together.
const ROW: i64 = 64;

/// Sources, and how they are combined with what is there.
type Passes = SmallVec<[(V, Option<ReduceOp>); 1]>;

/// Makes passes of a source.
type MakePasses<'a, 'g> = dyn FnMut(&mut Lowerer<'g>, V) -> Passes + 'a;

/// Scatters passes into a copy of the operand, or into a tensor of one number.
type Puts<'a, 'g> =
    dyn FnMut(&mut Lowerer<'g>, Option<Scalar>, &mut MakePasses<'_, 'g>) -> Option<V> + 'a;

/// The operation of a named reduction.
struct Reduction {
    op: ReduceOp,
    /// The initial value if the reduction does not include the old elements.
    start: Scalar,
    mean: bool,
}

impl Reduction {
    fn new(name: &str, dtype: DType) -> Option<Reduction> {
        let (op, start, mean) = match name {
            "sum" => (ReduceOp::Sum, Scalar::Int(0), false),
            "prod" => (ReduceOp::Prod, Scalar::Int(1), false),
            "mean" if dtype != DType::Bool => (ReduceOp::Sum, Scalar::Int(0), true),
            "amax" => (ReduceOp::Max, extreme(dtype, false), false),
            "amin" => (ReduceOp::Min, extreme(dtype, true), false),
            _ => return None,
        };
        Some(Reduction { op, start, mean })
    }
}

/// The largest or the smallest number of a dtype.
fn extreme(dtype: DType, largest: bool) -> Scalar {
    if dtype.is_floating() {
        let infinity = f64::INFINITY;
        return Scalar::Float(if largest { infinity } else { -infinity });
    }
    let (low, high) = match dtype {
        DType::Bool => return Scalar::Bool(largest),
        DType::U8 => (0, 255),
        _ => {
            let high = i64::MAX >> (64 - 8 * dtype.size() as u32);
            (-high - 1, high)
        }
    };
    Scalar::Int(if largest { high } else { low })
}

/// In how many blocks a row is cut, so that there are enough pieces of work.
fn blocks(target: Target, row: i64, points: i64, work: i64) -> i64 {
    if target == Target::Gpu || work < SERIAL || points >= PIECES {
        return 1;
    }
    let fits = |b: &i64| row % b == 0 && row / b >= ROW;
    // whole vectors if possible
    let even = (2..=PIECES).rev().find(|b| fits(b) && (row / b) % 16 == 0);
    even.or((2..=PIECES).rev().find(fits)).unwrap_or(1)
}

impl<'g> Lowerer<'g> {
    pub(super) fn scatter_op(&mut self, c: &CallView) -> Option<V> {
        match c.op {
            Op::scatter_src | Op::scatter_value | Op::scatter_reduce | Op::scatter_value_reduce => {
                let op = match c.arg("reduce") {
                    None => None,
                    Some(Arg::Str(s)) if s == "add" => Some(ReduceOp::Sum),
                    Some(Arg::Str(s)) if s == "multiply" => Some(ReduceOp::Prod),
                    Some(_) => return None,
                };
                self.scatter_into(c, c.dtype(), &mut |_, src| smallvec![(src, op)])
            }
            Op::scatter_add => {
                // halves are summed in the wider type and rounded once
                let wide = c.dtype().opmath();
                let sum = self
                    .scatter_into(c, wide, &mut |_, src| smallvec![(src, Some(ReduceOp::Sum))])?;
                Some(self.p.cast(sum, c.dtype()))
            }
            Op::scatter_reduce_two => {
                let a: args::scatter_reduce_two<V> = self.args(c)?;
                let r = Reduction::new(&a.reduce, c.dtype())?;
                self.reduced_into(c, &r, a.include_self, &mut |l, base, passes| {
                    l.scatter_along(c, base, passes)
                })
            }
            Op::index_add
            | Op::index_copy
            | Op::index_reduce
            | Op::index_fill_int_Scalar
            | Op::index_fill_int_Tensor => self.slices_op(c),
            Op::index_put | Op::_unsafe_index_put | Op::_index_put_impl => self.index_put(c),
            Op::embedding_dense_backward => self.embedding_backward(c),
            _ => None,
        }
    }

    /// A reduction of sources into places: what `into` makes of a base and of passes.
    fn reduced_into(
        &mut self,
        c: &CallView,
        r: &Reduction,
        keeps: bool,
        into: &mut Puts<'_, 'g>,
    ) -> Option<V> {
        let dtype = c.dtype();
        let total = into(self, None, &mut |l, src| {
            let mut passes = Passes::new();
            if !keeps {
                let sizes = l.p.get(src).sizes.clone();
                passes.push((l.p.constant(r.start, dtype, &sizes), None));
            }
            passes.push((src, Some(r.op)));
            passes
        })?;
        let empty = (c.args.iter().skip(2).take(1))
            .filter_map(Arg::as_tensor)
            .any(|v| self.graph.meta(*v).numel() == 0);
        if !r.mean || empty {
            return Some(total);
        }
        let count = into(self, Some(Scalar::Int(i64::from(keeps))), &mut |l, src| {
            let sizes = l.p.get(src).sizes.clone();
            let one = l.p.constant(Scalar::Int(1), dtype, &sizes);
            smallvec![(one, Some(ReduceOp::Sum))]
        })?;
        let sizes = self.p.get(total).sizes.clone();
        let zero = self.p.constant(Scalar::Int(0), dtype, &sizes);
        let one = self.p.constant(Scalar::Int(1), dtype, &sizes);
        let none = self.p.compare(CompareOp::Eq, count, zero);
        let count = self.p.select(none, one, count);
        let op = match dtype.is_floating() {
            true => BinaryOp::Div,
            false => BinaryOp::FloorDiv,
        };
        Some(self.p.binary(op, total, count))
    }

    /// The `scatter` family: an index of the sources' sizes along one dimension. `passes` is given
    /// the source.
    fn scatter_into(
        &mut self,
        c: &CallView,
        dtype: DType,
        passes: &mut MakePasses<'_, 'g>,
    ) -> Option<V> {
        let wide = dtype != c.dtype();
        self.scatter_along(c, None, &mut |l, src| {
            let src = if wide { l.p.cast(src, dtype) } else { src };
            passes(l, src)
        })
    }

    /// As [`Self::scatter_into`], in a copy of the operand or in a tensor of one number.
    fn scatter_along(
        &mut self,
        c: &CallView,
        base: Option<Scalar>,
        passes: &mut MakePasses<'_, 'g>,
    ) -> Option<V> {
        let (x, ids) = (self.tensor(c, 0)?, self.tensor(c, 2)?);
        if self.p.numel(ids) == 0 {
            return Some(self.copy(x));
        }
        if self.p.numel(x) == 0 {
            return None;
        }
        let ids = self.positions(ids)?;
        let (x, ids) = (self.vector(x), self.vector(ids));
        let sizes = self.p.get(x).sizes.clone();
        let d = wrap_dim(c.int("dim")?, sizes.len())?;
        let mut from = self.p.get(ids).sizes.clone();
        let outside = |(k, n): (usize, &i64)| k != d && *n > sizes[k];
        if from.len() != sizes.len() || from.iter().enumerate().any(outside) {
            return None;
        }
        let src = match self.tensor(c, 3) {
            Some(src) => {
                let mut src = self.vector(src);
                if self.p.dtype(src) != c.dtype() || self.p.sizes(src).len() != from.len() {
                    return None;
                }
                for (k, n) in from.iter().enumerate() {
                    match self.p.sizes(src)[k] {
                        m if m < *n => return None,
                        m if m > *n => src = self.narrow(src, k, 0, *n),
                        _ => {}
                    }
                }
                src
            }
            None => self.p.constant(c.scalar("value")?, c.dtype(), &from),
        };
        let passes = passes(self, src);
        let base = match base {
            Some(number) => self.p.constant(number, c.dtype(), &sizes),
            None => x,
        };
        let base = self.p.cast(base, self.p.dtype(passes.first()?.0));
        // a row that the index does not run along is cut into blocks
        let last = sizes.len() - 1;
        let others = (0..last).filter(|k| *k != d && sizes[*k] == from[*k]);
        let points: i64 = others.map(|k| sizes[k]).product();
        let work = layout::numel(&sizes) + layout::numel(&from);
        let b = match d != last && sizes[last] == from[last] {
            true => blocks(self.target, sizes[last], points, work),
            false => 1,
        };
        let mut shape = sizes.clone();
        if b > 1 {
            for s in [&mut shape, &mut from] {
                s[last] /= b;
                s.insert(last, b);
            }
        }
        let (base, ids) = (self.shaped(base, &shape), self.shaped(ids, &from));
        let passes = passes.into_iter().map(|(v, op)| (self.shaped(v, &from), op));
        let passes = passes.collect();
        let places = (0..shape.len())
            .map(|k| if k == d { Place::Indexed(ids) } else { Place::Along(k) })
            .collect();
        let v = self.scattered(base, places, Bounds::Checked, from, passes);
        Some(self.p.reshape(v, c.results.first().map_or(&sizes[..], |m| &m.sizes[..])))
    }

    /// Slices along one dimension by a vector of indices.
    fn slices_op(&mut self, c: &CallView) -> Option<V> {
        let dtype = c.dtype();
        let (x, ids) = (self.tensor(c, 0)?, self.tensor(c, 2)?);
        let ids = self.vector(ids);
        if self.p.sizes(ids).len() != 1 {
            return None;
        }
        let (bounds, long) = match c.op {
            Op::index_fill_int_Scalar | Op::index_fill_int_Tensor => (Bounds::Wrapped, true),
            Op::index_copy => (Bounds::Checked, true),
            _ => (Bounds::Checked, false),
        };
        if long && self.p.dtype(ids) != DType::I64 {
            return None;
        }
        let n = self.p.numel(ids);
        if n == 0 {
            return Some(self.copy(x));
        }
        if self.p.numel(x) == 0 {
            return None;
        }
        let ids = self.positions(ids)?;
        let x = self.vector(x);
        let mut sizes = self.p.get(x).sizes.clone();
        let d = wrap_dim(c.int("dim")?, sizes.len())?;
        sizes[d] = n;
        let src = match c.op {
            Op::index_fill_int_Scalar => self.p.constant(c.scalar("value")?, dtype, &sizes),
            Op::index_fill_int_Tensor => {
                let value = self.tensor(c, 3)?;
                let value = self.p.cast(value, dtype);
                if !self.p.sizes(value).is_empty() {
                    return None;
                }
                self.p.expand(value, &sizes)
            }
            _ => {
                let src = self.tensor(c, 3)?;
                // what has no dimensions, and what it goes into, have one element each
                let alike = self.p.sizes(src) == &sizes[..]
                    || (self.p.numel(src) == 1 && layout::numel(&sizes) == 1);
                if self.p.dtype(src) != dtype || !alike {
                    return None;
                }
                self.shaped(src, &sizes)
            }
        };
        let vector = Dims::from_slice(&[n]);
        let put = |l: &mut Self, base: Option<Scalar>, passes: Passes| {
            let base = match base {
                Some(number) => {
                    let sizes = l.p.get(x).sizes.clone();
                    l.p.constant(number, dtype, &sizes)
                }
                None => x,
            };
            let v = l.put(c, base, &[(d, ids)], &vector, passes, bounds);
            Some(l.p.reshape(v, c.sizes()))
        };
        match c.op {
            Op::index_add => {
                let alpha = self.args::<args::index_add<V>>(c)?.alpha;
                let one =
                    matches!(alpha, Scalar::Int(1)) || (dtype == DType::Bool && alpha.as_bool());
                let src = match one {
                    true => src,
                    false => {
                        let factor = self.p.constant(alpha, dtype, &sizes);
                        self.p.binary(BinaryOp::Mul, src, factor)
                    }
                };
                put(self, None, smallvec![(src, Some(ReduceOp::Sum))])
            }
            Op::index_reduce => {
                let a: args::index_reduce<V> = self.args(c)?;
                let r = Reduction::new(&a.reduce, dtype).filter(|_| a.reduce != "sum")?;
                self.reduced_into(c, &r, a.include_self, &mut |l, base, passes| {
                    let passes = passes(l, src);
                    put(l, base, passes)
                })
            }
            _ => put(self, None, smallvec![(src, None)]),
        }
    }

    fn index_put(&mut self, c: &CallView) -> Option<V> {
        let (x, values) = (self.tensor(c, 0)?, self.tensor(c, 2)?);
        let Arg::Tensors(list) = c.args.get(1)? else {
            return None;
        };
        let accumulate = c.bool("accumulate").unwrap_or(false);
        let rank = self.p.sizes(x).len();
        let mut ids: Vec<(usize, V)> = Vec::new();
        let mut places = Dims::new();
        for (dim, index) in list.iter().enumerate() {
            let Some(index) = index else { continue };
            let index = self.get(*index);
            if dim >= rank {
                return None;
            }
            places = layout::broadcast(&places, self.p.sizes(index))?;
            ids.push((dim, index));
        }
        if ids.is_empty() || self.p.dtype(values) != c.dtype() {
            return None;
        }
        for (_, index) in &mut ids {
            *index = self.positions(*index)?;
            *index = self.p.expand(*index, &places);
        }
        let sizes = put_sizes(self.p.sizes(x), &ids, &places);
        if layout::numel(&sizes) == 0 {
            return Some(self.copy(x));
        }
        let wanted = layout::broadcast(self.p.sizes(values), &sizes);
        if self.p.numel(x) == 0 || wanted.as_deref() != Some(&sizes[..]) {
            return None;
        }
        let values = self.p.expand(values, &sizes);
        let op = accumulate.then_some(ReduceOp::Sum);
        let passes = smallvec![(values, op)];
        Some(self.put(c, x, &ids, &places, passes, Bounds::Wrapped))
    }

    /// The gradient of an embedding: each row is added to that of its index.
    fn embedding_backward(&mut self, c: &CallView) -> Option<V> {
        let a: args::embedding_dense_backward<V> = self.args(c)?;
        let (grad, ids) = (a.grad_output, a.indices);
        let (n, width) = (self.p.numel(ids), *c.sizes().get(1)?);
        let dtype = c.dtype();
        if a.scale_grad_by_freq
            || !dtype.is_floating()
            || self.p.numel(grad) != n * width
            || layout::numel(c.sizes()) == 0
        {
            return None;
        }
        let wide = dtype.opmath();
        let base = self.p.constant(Scalar::Int(0), wide, c.sizes());
        if n == 0 {
            return Some(self.p.cast(base, dtype));
        }
        let ids = self.positions(ids)?;
        let ids = self.shaped(ids, &[n]);
        let rows = [n, width];
        let grad = self.shaped(grad, &rows);
        let grad = self.p.cast(grad, wide);
        // rows of the padding index, and of indices beyond the table, add nothing to the first row,
        // whose sums are never -0
        let first = self.p.constant(Scalar::Int(0), DType::I64, &[n]);
        let number = self.p.constant(Scalar::Int(a.padding_idx), DType::I64, &[n]);
        let height = self.p.constant(Scalar::Int(c.sizes()[0]), DType::I64, &[n]);
        let padded = self.p.compare(CompareOp::Eq, ids, number);
        let below = self.p.compare(CompareOp::Lt, ids, first);
        let beyond = self.p.compare(CompareOp::Ge, ids, height);
        let outside = self.p.binary(BinaryOp::LogicalOr, below, beyond);
        let skipped = self.p.binary(BinaryOp::LogicalOr, padded, outside);
        let ids = self.p.select(skipped, first, ids);
        let skipped = self.p.view(skipped, &rows, vec![Affine::dim(0)]);
        let nothing = self.p.constant(Scalar::Int(0), wide, &rows);
        let grad = self.p.select(skipped, nothing, grad);
        let passes = smallvec![(grad, Some(ReduceOp::Sum))];
        let sum = self.put(c, base, &[(0, ids)], &[n], passes, Bounds::Checked);
        Some(self.p.cast(sum, dtype))
    }

    /// Writes into dimensions of `x` where their indices, all of the sizes `places`, say. Sources
    /// have the sizes that indexing has: the places where the dimensions were if those are
    /// neighbours, else in front.
    fn put(
        &mut self,
        c: &CallView,
        x: V,
        ids: &[(usize, V)],
        places: &[i64],
        passes: Passes,
        bounds: Bounds,
    ) -> V {
        let whole = self.p.get(x).sizes.clone();
        let sizes = put_sizes(&whole, ids, places);
        let first = whole.len() - ids.last().map_or(0, |i| i.0 + 1);
        let (head, tail) = whole.split_at(whole.len() - first);
        // a result in another order of memory would have to be copied there
        let result = c.results.first();
        let keeps_dims = result.is_some_and(|m| !layout::is_contiguous(&m.sizes, &m.strides));
        // what follows the indexed dimensions is a row, cut where more pieces of work are wanted
        let free = (head.iter().enumerate()).filter(|(d, _)| ids.iter().all(|i| i.0 != *d));
        let lead: i64 = free.map(|(_, n)| *n).product();
        let work = layout::numel(&whole) + layout::numel(&sizes);
        let tail = match keeps_dims {
            true => tail.to_vec(),
            false => rows(self.target, tail, lead, work),
        };
        let with = |head: &[i64]| -> Dims { head.iter().chain(&tail).copied().collect() };
        let shape = with(head);
        let from = with(&sizes[..sizes.len() - first]);
        let at = match adjacent(ids) {
            true => ids.first().map_or(0, |i| i.0),
            false => 0,
        };
        let mut own = 0;
        let mut to = Vec::with_capacity(shape.len());
        for d in 0..shape.len() {
            to.push(match ids.iter().find(|i| i.0 == d && d < head.len()) {
                Some((_, index)) => {
                    let map = (0..places.len()).map(|k| Affine::dim(at + k)).collect();
                    Place::Indexed(self.p.view(*index, &from, map))
                }
                None => {
                    own += 1;
                    Place::Along(own - 1 + if own > at { places.len() } else { 0 })
                }
            });
        }
        let base = self.shaped(x, &shape);
        let passes = passes.into_iter().map(|(v, op)| (self.shaped(v, &from), op));
        let passes = passes.collect();
        let v = self.scattered(base, to, bounds, from, passes);
        self.p.reshape(v, &whole)
    }

    fn scattered(
        &mut self,
        base: V,
        places: Vec<Place>,
        bounds: Bounds,
        sizes: Dims,
        passes: Passes,
    ) -> V {
        let (dtype, whole) = (self.p.dtype(base), self.p.get(base).sizes.clone());
        let def = Def::Scatter(Box::new(Scatter { base, places, bounds, sizes, passes }));
        self.p.push(dtype, &whole, def)
    }

    /// Indices as `i64`s.
    fn positions(&mut self, ids: V) -> Option<V> {
        let integers = matches!(self.p.dtype(ids), DType::I64 | DType::I32);
        integers.then(|| self.p.cast(ids, DType::I64))
    }

    /// What has no dimensions as a vector of one element.
    fn vector(&mut self, v: V) -> V {
        match self.p.sizes(v).is_empty() {
            true => self.shaped(v, &[1]),
            false => v,
        }
    }

    /// The same elements under other sizes; memory from outside that has no such look at it is
    /// copied on the way.
    fn shaped(&mut self, v: V, sizes: &[i64]) -> V {
        if self.p.sizes(v) == sizes {
            return v;
        }
        let mut below = v;
        while let Def::Reshape(src) = self.p.def(below) {
            below = *src;
        }
        let v = match self.p.def(below) {
            Def::Source { strides, .. } if !layout::is_contiguous(self.p.sizes(below), strides) => {
                self.copy(v)
            }
            Def::Const(c) => return self.p.constant(*c, self.p.dtype(v), sizes),
            _ => v,
        };
        self.p.reshape(v, sizes)
    }
}

/// Whether indexed dimensions are neighbours.
fn adjacent(ids: &[(usize, V)]) -> bool {
    ids.windows(2).all(|w| w[1].0 == w[0].0 + 1)
}

/// The sizes of what indexing dimensions of `whole` gives.
fn put_sizes(whole: &[i64], ids: &[(usize, V)], places: &[i64]) -> Dims {
    let mut sizes: Dims = (whole.iter().enumerate())
        .filter(|(d, _)| ids.iter().all(|i| i.0 != *d))
        .map(|(_, n)| *n)
        .collect();
    let at = match adjacent(ids) {
        true => ids.first().map_or(0, |i| i.0),
        false => 0,
    };
    sizes.insert_many(at, places.iter().copied());
    sizes
}

/// Dimensions that follow the indexed ones, put together to rows: as long as they are pieces of
/// work enough.
fn rows(target: Target, tail: &[i64], lead: i64, work: i64) -> Vec<i64> {
    let (mut kept, mut row) = (tail.len(), 1);
    while kept > 0 {
        let points = lead * layout::numel(&tail[..kept]);
        if work >= SERIAL && row >= ROW && points <= 2 * PIECES {
            break;
        }
        kept -= 1;
        row *= tail[kept];
    }
    let mut out = tail[..kept].to_vec();
    if kept < tail.len() {
        let b = blocks(target, row, lead * layout::numel(&out), work);
        out.extend((b > 1).then_some(b));
        out.push(row / b);
    }
    out
}
