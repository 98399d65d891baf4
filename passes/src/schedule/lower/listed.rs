//! Operators that copy listed positions: the input position for each result position along a
//! dimension is computed while scheduling. Pads, nearest-neighbour interpolation, rolls and flips.

use super::{CallView, Lowerer, wrap_dim};
use crate::ir::Arg;
use crate::ir::Op;
use crate::ir::args;
use crate::ir::view::Affine;
use crate::ir::{DType, Dims, layout};
use crate::positions::{AxisRatio, Outside};
use crate::schedule::program::{Bounds, Def, Piece, Source, V};

/// Longer lists stay with the runtime's kernels, which copy long runs faster than a list of
/// positions is read.
const MAX_LIST: i64 = 1 << 16;

/// A kernel that selects among more parts than this reads too much.
const MAX_JOINED: usize = 4;

/// Where the innermost dimension is shorter and not itself listed, neighbours are copied faster
/// together with those of the next dimension, which a list along that one keeps apart.
const SHORT_ROW: i64 = 8;

/// Parts with shorter rows are copied faster one by one than selected among.
const LONG_ROW: i64 = 16;

/// The last dimension that has several positions.
fn innermost(sizes: &[i64]) -> Option<usize> {
    sizes.iter().rposition(|n| *n != 1)
}

impl Lowerer<'_> {
    pub(super) fn listed_op(&mut self, c: &CallView) -> Option<V> {
        match c.op {
            Op::flip => self.flip(c),
            Op::reflection_pad1d | Op::reflection_pad2d | Op::reflection_pad3d => {
                self.padded(c, Outside::Mirror)
            }
            Op::replication_pad1d | Op::replication_pad2d | Op::replication_pad3d => {
                self.padded(c, Outside::Edge)
            }
            Op::upsample_nearest1d | Op::upsample_nearest2d | Op::upsample_nearest3d => {
                self.nearest(c, false)
            }
            Op::_upsample_nearest_exact1d
            | Op::_upsample_nearest_exact2d
            | Op::_upsample_nearest_exact3d => self.nearest(c, true),
            _ => None,
        }
    }

    fn flip(&mut self, c: &CallView) -> Option<V> {
        let args::flip { self_: x, dims } = self.args(c)?;
        let sizes = self.p.get(x).sizes.clone();
        let mut map: Vec<Affine> = (0..sizes.len()).map(Affine::dim).collect();
        for d in dims {
            let d = wrap_dim(d, sizes.len())?;
            let Some(at) = map.get_mut(d) else { continue };
            at.base = (sizes[d] - 1).max(0);
            at.terms[0].1 = -1;
        }
        if sizes.contains(&0) {
            return Some(x);
        }
        Some(self.p.view(x, &sizes, map))
    }

    fn padded(&mut self, c: &CallView, outside: Outside) -> Option<V> {
        let mut x = self.tensor(c, 0)?;
        let rank = self.p.sizes(x).len();
        for (k, around) in c.ints("padding")?.chunks(2).enumerate() {
            let &[before, after] = around else {
                return None;
            };
            let dim = rank.checked_sub(k + 1)?;
            let n = self.p.sizes(x)[dim];
            let len = n.checked_add(before)?.checked_add(after)?;
            if (before, after) != (0, 0) {
                x = self.listed(x, dim, len, |o| outside.inside(o - before, n))?;
            }
        }
        Some(x)
    }

    /// Padding with a number: positions outside read the nearest element, which is replaced by the
    /// number.
    pub(super) fn filled(&mut self, c: &CallView, a: &args::constant_pad_nd<V>) -> Option<V> {
        let (mut x, number) = (a.self_, a.value);
        let pad = self.padding(a, c.sizes())?;
        let dtype = self.p.dtype(x);
        if self.p.numel(x) == 0 || c.sizes().contains(&0) {
            return Some(self.p.constant(number, dtype, c.sizes()));
        }
        let rank = self.p.sizes(x).len();
        let touched = |d: usize| (pad.chunks(2).nth(rank - 1 - d)).is_some_and(|p| *p != [0, 0]);
        if !innermost(c.sizes()).is_none_or(|d| touched(d) || c.sizes()[d] >= SHORT_ROW) {
            return None;
        }
        for (k, around) in pad.chunks(2).enumerate() {
            let dim = self.p.sizes(x).len() - 1 - k;
            let (before, n) = (around[0], self.p.sizes(x)[dim]);
            let len = n.checked_add(before)?.checked_add(around[1])?;
            x = self.listed(x, dim, len, |o| (o - before).clamp(0, n - 1))?;
            if before <= 0 && around[1] <= 0 {
                continue;
            }
            let inside: Vec<u8> =
                (0..len).map(|o| u8::from((0..n).contains(&(o - before)))).collect();
            let sizes = self.p.get(x).sizes.clone();
            let inside = self.marks(inside);
            let inside = self.p.view(inside, &sizes, vec![Affine::dim(dim)]);
            let fill = self.p.constant(number, dtype, &sizes);
            x = self.p.select(inside, x, fill);
        }
        Some(x)
    }

    /// A concatenation of parts that follow one dimension of one tensor: rolled, or padded in a
    /// circle.
    pub(super) fn rejoined(&mut self, pieces: &[Piece], dim: usize, len: i64) -> Option<V> {
        let mut from: Option<V> = None;
        let mut list = Vec::new();
        let sizes = self.p.sizes(pieces.first()?.src);
        let short = innermost(sizes).is_some_and(|d| d > dim && sizes[d] < SHORT_ROW);
        if len > MAX_LIST || pieces.len() < 2 || short {
            return None;
        }
        for piece in pieces {
            let size = self.p.sizes(piece.src)[dim];
            if size == 0 {
                continue;
            }
            let (base, start) = self.narrowed(piece.src, dim);
            if *from.get_or_insert(base) != base {
                return None;
            }
            list.extend(start..start + size);
        }
        self.listed(from?, dim, len, |o| list[o as usize])
    }

    /// A concatenation as a selection among its parts, each read at the position nearest to its
    /// own.
    pub(super) fn joined(&mut self, pieces: &[Piece], dim: usize, len: i64) -> Option<V> {
        let full = |p: &&Piece| self.p.numel(p.src) > 0;
        let pieces: Vec<Piece> = pieces.iter().filter(full).cloned().collect();
        if !(2..=MAX_JOINED).contains(&pieces.len()) {
            return None;
        }
        let rows_fit = |p: &Piece| {
            let sizes = self.p.sizes(p.src);
            sizes[dim..].iter().any(|n| *n >= LONG_ROW)
                && innermost(sizes).is_none_or(|d| d < dim || sizes[d] >= LONG_ROW)
        };
        if !pieces.iter().all(rows_fit) {
            return None;
        }
        let mut joined: Option<V> = None;
        for piece in pieces.iter().rev() {
            let (start, n) = (piece.start[dim], self.p.sizes(piece.src)[dim]);
            let part = self.listed(piece.src, dim, len, |o| (o - start).clamp(0, n - 1))?;
            joined = Some(match joined {
                None => part,
                Some(rest) => {
                    let sizes = self.p.get(part).sizes.clone();
                    let own = (0..len).map(|o| u8::from((start..start + n).contains(&o)));
                    let own = self.marks(own.collect());
                    let own = self.p.view(own, &sizes, vec![Affine::dim(dim)]);
                    self.p.select(own, part, rest)
                }
            });
        }
        joined
    }

    /// What a value is a part of along one dimension, and where it begins there.
    fn narrowed(&self, mut v: V, dim: usize) -> (V, i64) {
        let mut start = 0;
        while let Def::View { src, map } = self.p.def(v) {
            let same = (map.iter().enumerate()).all(|(d, m)| {
                m.terms[..] == [(d, 1)]
                    && (d == dim || (m.base == 0 && self.p.sizes(*src)[d] == self.p.sizes(v)[d]))
            });
            if !same || self.p.sizes(*src).len() != self.p.sizes(v).len() {
                break;
            }
            start += map[dim].base;
            v = *src;
        }
        (v, start)
    }

    fn nearest(&mut self, c: &CallView, exact: bool) -> Option<V> {
        let mut x = self.tensor(c, 0)?;
        let single = self.p.dtype(x) != DType::F64;
        let from = self.p.get(x).sizes.clone();
        let output = c.ints("output_size")?;
        let spatial = output.len();
        if from.len() != spatial + 2 {
            return None;
        }
        let names: &[&str] = match spatial {
            1 => &["scales"],
            2 => &["scales_h", "scales_w"],
            _ => &["scales_d", "scales_h", "scales_w"],
        };
        for (k, size) in output.into_iter().enumerate() {
            if !(1..=MAX_LIST).contains(&size) {
                return None;
            }
            let factor = match c.arg(names[k]) {
                Some(Arg::Scalar(s)) => Some(s.as_f64()),
                _ => None,
            };
            let ratio = AxisRatio {
                input: usize::try_from(from[2 + k]).ok()?,
                output: usize::try_from(size).ok()?,
                factor,
                align_corners: false,
                single,
            };
            let at = ratio.nearest(exact);
            x = self.listed(x, 2 + k, size, |o| at[o as usize] as i64)?;
        }
        Some(x)
    }

    /// `x` with position `from(o)` at each position `o` of `len` along a dimension; `None` if a
    /// position does not exist, or where the list is too long.
    pub(super) fn listed(
        &mut self,
        x: V,
        dim: usize,
        len: i64,
        from: impl Fn(i64) -> i64,
    ) -> Option<V> {
        let mut sizes = self.p.get(x).sizes.clone();
        let n = *sizes.get(dim)?;
        if !(0..=MAX_LIST).contains(&len) {
            return None;
        }
        let list: Vec<i64> = (0..len).map(from).collect();
        if !list.iter().all(|i| (0..n).contains(i)) {
            return None;
        }
        sizes[dim] = len;
        let runs = |step: i64| list.windows(2).all(|w| w[1] - w[0] == step);
        let dtype = self.p.dtype(x);
        if layout::numel(&sizes) == 0 {
            return Some(self.p.constant(0.into(), dtype, &sizes));
        }
        // evenly spaced positions are a view
        if let Some(step) = [1, -1, 0].into_iter().find(|s| runs(*s)) {
            let mut map: Vec<Affine> = (0..sizes.len()).map(Affine::dim).collect();
            map[dim].base = list[0];
            map[dim].terms[0].1 = step;
            map[dim].terms.retain(|t| t.1 != 0);
            return match (step, len) {
                (1, len) if len == n => Some(x),
                _ => Some(self.p.view(x, &sizes, map)),
            };
        }
        let index = self.list(&list);
        let index = self.p.view(index, &sizes, vec![Affine::dim(dim)]);
        let dims = (0..sizes.len()).map(|d| (d != dim).then_some(d)).collect();
        let def = Def::Gather { src: x, index, dims, bounds: Bounds::Listed };
        Some(self.p.push(dtype, &sizes, def))
    }

    /// A constant of booleans.
    fn marks(&mut self, marks: Vec<u8>) -> V {
        let n = marks.len() as i64;
        let def =
            Def::Source { source: Source::Constant(marks.into()), strides: Dims::from_slice(&[1]) };
        self.p.push(DType::Bool, &[n], def)
    }

    /// A constant of `i64`s; the same one for the same numbers.
    fn list(&mut self, numbers: &[i64]) -> V {
        if let Some(v) = self.lists.get(numbers) {
            return *v;
        }
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let def =
            Def::Source { source: Source::Constant(bytes.into()), strides: Dims::from_slice(&[1]) };
        let v = self.p.push(DType::I64, &[numbers.len() as i64], def);
        self.lists.insert(numbers.to_vec(), v);
        v
    }
}
