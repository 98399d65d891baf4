//! Operators that address elements: gathers, and tensors put together from pieces.

use super::{CallView, Lowerer, wrap_dim};
use crate::ir::Arg;
use crate::ir::Op;
use crate::ir::args;
use crate::ir::view::Affine;
use crate::ir::view::slice_range;
use crate::ir::{DType, Dims, Scalar, layout};
use crate::schedule::program::{Bounds, Def, Piece, V};
use std::cmp::Ordering;

impl Lowerer<'_> {
    pub(super) fn index_op(&mut self, c: &CallView) -> Option<V> {
        match c.op {
            Op::embedding => {
                let a: args::embedding<V> = self.args(c)?;
                let rank = c.sizes().len();
                let ids = self.p.cast(a.indices, DType::I64);
                let ids = self.spread(ids, c.sizes(), 0);
                let dims = vec![None, Some(rank.checked_sub(1)?)];
                self.gather(c, a.weight, ids, dims)
            }
            Op::index_select => {
                let a: args::index_select<V> = self.args(c)?;
                let rank = self.p.sizes(a.self_).len();
                let dim = wrap_dim(a.dim, rank)?;
                if rank == 0 || self.p.sizes(a.index).len() != 1 {
                    return None;
                }
                let ids = self.p.cast(a.index, DType::I64);
                let ids = self.spread(ids, c.sizes(), dim);
                let dims = (0..rank).map(|d| (d != dim).then_some(d)).collect();
                self.gather(c, a.self_, ids, dims)
            }
            Op::gather => {
                let a: args::gather<V> = self.args(c)?;
                let rank = self.p.sizes(a.self_).len();
                let dim = wrap_dim(a.dim, rank)?;
                if rank == 0 {
                    return None;
                }
                let ids = self.p.cast(a.index, DType::I64);
                let dims = (0..rank).map(|d| (d != dim).then_some(d)).collect();
                self.gather(c, a.self_, ids, dims)
            }
            Op::index_Tensor | Op::_unsafe_index_Tensor => self.index_tensor(c),
            Op::cat => self.cat(c),
            Op::slice_scatter => {
                let a: args::slice_scatter<V> = self.args(c)?;
                let dim = wrap_dim(a.dim, c.sizes().len())?;
                let size = *c.sizes().get(dim)?;
                let (start, len) = slice_range(size, a.start, a.end, a.step);
                if self.p.sizes(a.src).get(dim) != Some(&len) {
                    return None;
                }
                Some(self.scatter(a.self_, a.src, dim, start, a.step))
            }
            Op::select_scatter => {
                let a: args::select_scatter<V> = self.args(c)?;
                let dim = wrap_dim(a.dim, c.sizes().len())?;
                let size = *c.sizes().get(dim)?;
                let index = if a.index < 0 { a.index + size } else { a.index };
                let src = self.p.keep_dims(a.src, &[dim]);
                (0..size).contains(&index).then(|| self.scatter(a.self_, src, dim, index, 1))
            }
            Op::diagonal_scatter => self.diagonal_scatter(c),
            Op::as_strided_scatter => self.as_strided_scatter(c),
            Op::constant_pad_nd => {
                let a: args::constant_pad_nd<V> = self.args(c)?;
                self.filled(c, &a).or_else(|| self.pad(c, &a))
            }
            _ => None,
        }
    }

    /// Indexing with integer tensors: successive gathers, each along its own dimension.
    fn index_tensor(&mut self, c: &CallView) -> Option<V> {
        let mut x = self.tensor(c, 0)?;
        let Arg::Tensors(list) = c.args.get(1)? else {
            return None;
        };
        let rank = self.p.sizes(x).len();
        let mut indices: Vec<(usize, V)> = Vec::new();
        let mut places = Dims::new();
        for (dim, ids) in list.iter().enumerate() {
            let Some(ids) = ids else { continue };
            let ids = self.get(*ids);
            if dim >= rank || !matches!(self.p.dtype(ids), DType::I64 | DType::I32) {
                return None;
            }
            places = layout::broadcast(&places, self.p.sizes(ids))?;
            indices.push((dim, ids));
        }
        let (first, last) = (indices.first()?.0, indices.last()?.0);
        if c.sizes().len() + indices.len() != rank + places.len() {
            return None;
        }
        if c.sizes().contains(&0) {
            let none = places.contains(&0);
            return none.then(|| self.p.constant(Scalar::Int(0), c.dtype(), c.sizes()));
        }
        // what the tensors index comes first while there are some left
        let p = places.len();
        for (k, (dim, ids)) in indices.iter().enumerate() {
            let mut sizes = self.p.get(x).sizes.clone();
            let at = match k {
                0 => *dim,
                // the dimensions indexed before are gone
                _ => p + dim - k,
            };
            sizes.remove(at);
            if k == 0 {
                sizes.insert_many(0, places.iter().copied());
            }
            let dims = (0..self.p.sizes(x).len())
                .map(|d| match (d.cmp(&at), k) {
                    (Ordering::Equal, _) => None,
                    (Ordering::Less, 0) => Some(p + d),
                    (Ordering::Greater, 0) => Some(p + d - 1),
                    (Ordering::Less, _) => Some(d),
                    (Ordering::Greater, _) => Some(d - 1),
                })
                .collect();
            let ids = self.p.cast(*ids, DType::I64);
            let ids = self.p.expand(ids, &places);
            let ids = self.spread(ids, &sizes, 0);
            x = self.gathered(x, ids, dims, &sizes, Bounds::Wrapped);
        }
        // neighbours are replaced where they were, others by the first dimensions
        if last - first + 1 == indices.len() {
            let rest = self.p.sizes(x).len() - p;
            let order: Vec<usize> = (p..p + first).chain(0..p).chain(p + first..p + rest).collect();
            x = self.permuted(x, &order)?;
        }
        Some(x)
    }

    /// A gather of the call's result; where that has no elements, the runtime's kernel checks
    /// indices that are there.
    fn gather(&mut self, c: &CallView, src: V, index: V, dims: Vec<Option<usize>>) -> Option<V> {
        if !c.sizes().contains(&0) {
            return Some(self.gathered(src, index, dims, c.sizes(), Bounds::Checked));
        }
        let none = |v: &V| self.p.numel(*v) == 0;
        let ids = (c.args.iter().skip(1)).filter_map(Arg::as_tensor);
        let ids: Vec<V> = ids.map(|v| self.get(*v)).collect();
        (ids.iter().all(none)).then(|| self.p.constant(Scalar::Int(0), c.dtype(), c.sizes()))
    }

    fn gathered(
        &mut self,
        src: V,
        index: V,
        dims: Vec<Option<usize>>,
        sizes: &[i64],
        bounds: Bounds,
    ) -> V {
        let dtype = self.p.dtype(src);
        let def = Def::Gather { src, index, dims, bounds };
        self.p.push(dtype, sizes, def)
    }

    /// Repeats `x` to `sizes`; its dimensions are those from `first` on.
    fn spread(&mut self, x: V, sizes: &[i64], first: usize) -> V {
        let rank = self.p.sizes(x).len();
        if self.p.sizes(x) == sizes {
            return x;
        }
        let map = (0..rank).map(|d| Affine::dim(first + d)).collect();
        self.p.view(x, sizes, map)
    }

    fn pieces(
        &mut self,
        dtype: DType,
        sizes: &[i64],
        mut pieces: Vec<Piece>,
        overlap: bool,
        element: Option<V>,
    ) -> V {
        pieces.retain(|p| self.p.numel(p.src) > 0);
        if pieces.is_empty() {
            return self.p.constant(Scalar::Int(0), dtype, sizes);
        }
        let def = Def::Pieces { pieces, overlap, element };
        self.p.push(dtype, sizes, def)
    }

    fn piece(&self, src: V, dim: usize, start: i64, step: i64) -> Piece {
        let rank = self.p.sizes(src).len();
        let mut piece =
            Piece { src, start: Dims::from_elem(0, rank), step: Dims::from_elem(1, rank) };
        piece.start[dim] = start;
        piece.step[dim] = step;
        piece
    }

    fn cat(&mut self, c: &CallView) -> Option<V> {
        let a: args::cat<V> = self.args(c)?;
        let rank = c.sizes().len();
        let dim = wrap_dim(a.dim, rank)?;
        let (mut at, mut pieces) = (0, Vec::new());
        for src in a.tensors {
            let sizes = self.p.get(src).sizes.clone();
            if sizes.len() != rank {
                // PyTorch skips empty 1-D tensors beside ones of any rank
                if sizes[..] == [0] {
                    continue;
                }
                return None;
            }
            let src = self.p.cast(src, c.dtype());
            pieces.push(self.piece(src, dim, at, 1));
            at += sizes[dim];
        }
        if let Some(v) = self.rejoined(&pieces, dim, at) {
            return Some(v);
        }
        match &pieces[..] {
            [only] => {
                let src = only.src;
                Some(self.copy(src))
            }
            _ => {
                let element = self.joined(&pieces, dim, at);
                Some(self.pieces(c.dtype(), c.sizes(), pieces, false, element))
            }
        }
    }

    /// The part of `x` with positions `start..end` along a dimension.
    pub(super) fn narrow(&mut self, x: V, dim: usize, start: i64, end: i64) -> V {
        let mut sizes = self.p.get(x).sizes.clone();
        let mut map: Vec<Affine> = (0..sizes.len()).map(Affine::dim).collect();
        map[dim].base = start;
        sizes[dim] = end - start;
        self.p.view(x, &sizes, map)
    }

    /// `x` with `src` written from `start` on, each `step`, along a dimension.
    pub(super) fn scatter(&mut self, x: V, src: V, dim: usize, start: i64, step: i64) -> V {
        let (dtype, sizes) = (self.p.dtype(x), self.p.get(x).sizes.clone());
        let size = sizes[dim];
        let src = self.p.cast(src, dtype);
        let len = self.p.sizes(src)[dim];
        // with a single element the step may be arbitrarily large
        if step == 1 || len <= 1 {
            let before = self.narrow(x, dim, 0, start);
            let after = self.narrow(x, dim, start + len, size);
            let pieces = vec![
                self.piece(before, dim, 0, 1),
                self.piece(src, dim, start, 1),
                self.piece(after, dim, start + len, 1),
            ];
            return self.pieces(dtype, &sizes, pieces, false, None);
        }
        let pieces = vec![self.piece(x, dim, 0, 1), self.piece(src, dim, start, step)];
        self.pieces(dtype, &sizes, pieces, true, None)
    }

    /// The numbers of elements before and after each dimension, the last one first, where what they
    /// make of `x` has the result's sizes: those of a graph by hand may be others, which is left to
    /// the kernel to refuse.
    pub(super) fn padding<'a>(
        &self,
        a: &'a args::constant_pad_nd<V>,
        out: &[i64],
    ) -> Option<&'a [i64]> {
        let (pad, sizes) = (&a.pad[..], self.p.sizes(a.self_));
        let padded = pad.len() / 2;
        if pad.len() % 2 != 0 || padded > sizes.len() || sizes.len() != out.len() {
            return None;
        }
        let around = (pad.chunks(2).rev()).map(|p| p[0].checked_add(p[1]));
        let around = std::iter::repeat_n(Some(0), sizes.len() - padded).chain(around);
        let fits = |((size, by), out): ((&i64, Option<i64>), &i64)| {
            by.and_then(|by| size.checked_add(by)) == Some(*out)
        };
        let no_sign = pad.contains(&i64::MIN);
        (!no_sign && sizes.iter().zip(around).zip(out).all(fits)).then_some(pad)
    }

    /// Padding put together from boxes.
    fn pad(&mut self, c: &CallView, a: &args::constant_pad_nd<V>) -> Option<V> {
        let (mut x, value) = (a.self_, a.value);
        let pad = self.padding(a, c.sizes())?;
        let out = Dims::from_slice(c.sizes());
        let rank = out.len();
        let mut start = Dims::from_elem(0, rank);
        for (i, p) in pad.chunks(2).enumerate() {
            let dim = rank - 1 - i;
            let size = self.p.sizes(x)[dim];
            // negative padding crops
            let (lo, hi) = ((-p[0]).max(0), size - (-p[1]).max(0));
            if hi < lo {
                return None;
            }
            if (lo, hi) != (0, size) {
                x = self.narrow(x, dim, lo, hi);
            }
            start[dim] = p[0].max(0);
        }
        // boxes beside the middle along one dimension after the other
        let inner = self.p.get(x).sizes.clone();
        let mut pieces =
            vec![Piece { src: x, start: start.clone(), step: Dims::from_elem(1, rank) }];
        let (mut at, mut sizes) = (Dims::from_elem(0, rank), out.clone());
        for dim in 0..rank {
            let end = start[dim] + inner[dim];
            for (from, to) in [(0, start[dim]), (end, out[dim])] {
                let (mut box_sizes, mut box_at) = (sizes.clone(), at.clone());
                box_sizes[dim] = to - from;
                box_at[dim] = from;
                let src = self.p.constant(value, c.dtype(), &box_sizes);
                pieces.push(Piece { src, start: box_at, step: Dims::from_elem(1, rank) });
            }
            at[dim] = start[dim];
            sizes[dim] = inner[dim];
        }
        Some(self.pieces(c.dtype(), c.sizes(), pieces, false, None))
    }
}
