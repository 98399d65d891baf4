//! Views: index arithmetic on the source.

use super::{CallView, Lowerer, wrap_dim};
use crate::ir::Dims;
use crate::ir::verify::shapes;
use crate::schedule::layout::view_strides;
use crate::schedule::program::{Affine, V};

/// `start` and length of `slice(start, end, step)` on a dimension of this size.
pub(super) fn slice_range(
    size: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> (i64, i64) {
    let range = shapes::slice_range(size, start.unwrap_or(0), end.unwrap_or(i64::MAX));
    let covered = range.end - range.start;
    (range.start, covered / step + i64::from(covered % step > 0))
}

impl Lowerer<'_> {
    pub(super) fn view_op(&mut self, c: &CallView) -> Option<V> {
        let x = self.tensor(c, 0)?;
        let sizes = self.p.get(x).sizes.clone();
        let rank = sizes.len();
        let identity = || (0..rank).map(Affine::dim).collect::<Vec<_>>();
        match c.op {
            "aten::alias" | "aten::detach" | "aten::lift_fresh" => Some(x),
            "aten::view" | "aten::_unsafe_view" => Some(self.p.reshape(x, c.sizes())),
            "aten::reshape" => {
                let m = self.meta(c, 0)?;
                let src = match view_strides(&m.sizes, &m.strides, c.sizes()) {
                    Some(_) => x,
                    None => self.copy(x),
                };
                Some(self.p.reshape(src, c.sizes()))
            }
            "aten::t" if rank < 2 => Some(x),
            "aten::t" => self.permuted(x, &[1, 0]),
            "aten::transpose.int" => {
                let (a, b) = (c.int("dim0", 1)?, c.int("dim1", 2)?);
                let (a, b) = (wrap_dim(a, rank)?, wrap_dim(b, rank)?);
                let mut dims: Vec<usize> = (0..rank).collect();
                if rank > 0 {
                    dims.swap(a, b);
                }
                self.permuted(x, &dims)
            }
            "aten::permute" => {
                let dims: Option<Vec<usize>> = c
                    .ints("dims", 1)?
                    .into_iter()
                    .map(|d| wrap_dim(d, rank))
                    .collect();
                self.permuted(x, &dims?)
            }
            "aten::expand" => Some(self.p.expand(x, c.sizes())),
            "aten::slice.Tensor" => {
                let dim = wrap_dim(c.int("dim", 1).unwrap_or(0), rank)?;
                let step = c.int("step", 4).unwrap_or(1);
                let (start, len) =
                    slice_range(sizes[dim], c.int("start", 2), c.int("end", 3), step);
                if len == sizes[dim] && step == 1 {
                    return Some(x);
                }
                let mut map = identity();
                map[dim].base = start;
                map[dim].terms[0].1 = step;
                // a step to no other element may be as wide as numbers go
                map[dim].terms.retain(|_| len > 1 || step == 1);
                let mut out = sizes;
                out[dim] = len;
                Some(self.p.view(x, &out, map))
            }
            "aten::select.int" => {
                let dim = wrap_dim(c.int("dim", 1)?, rank)?;
                let index = c.int("index", 2)?;
                let index = if index < 0 { index + sizes[dim] } else { index };
                if !(0..sizes[dim]).contains(&index) {
                    return None;
                }
                let map = (0..rank)
                    .map(|d| match d.cmp(&dim) {
                        std::cmp::Ordering::Less => Affine::dim(d),
                        std::cmp::Ordering::Equal => Affine::at(index),
                        std::cmp::Ordering::Greater => Affine::dim(d - 1),
                    })
                    .collect();
                let mut out = sizes;
                out.remove(dim);
                Some(self.p.view(x, &out, map))
            }
            "aten::squeeze" => self.squeezed(x, &(0..rank).collect::<Vec<_>>()),
            "aten::squeeze.dim" => {
                let dim = wrap_dim(c.int("dim", 1)?, rank)?;
                self.squeezed(x, &[dim])
            }
            "aten::squeeze.dims" => {
                let dims: Option<Vec<usize>> = c
                    .ints("dim", 1)?
                    .into_iter()
                    .map(|d| wrap_dim(d, rank))
                    .collect();
                self.squeezed(x, &dims?)
            }
            "aten::unsqueeze" => {
                let dim = wrap_dim(c.int("dim", 1)?, rank + 1)?;
                Some(self.p.keep_dims(x, &[dim]))
            }
            "aten::diagonal" => {
                let offset = c.int("offset", 1).unwrap_or(0);
                let a = wrap_dim(c.int("dim1", 2).unwrap_or(0), rank)?;
                let b = wrap_dim(c.int("dim2", 3).unwrap_or(1), rank)?;
                let (mut next, last) = (0, rank.checked_sub(2)?);
                let map = (0..rank)
                    .map(|d| {
                        let mut at = Affine::dim(last);
                        if d == a {
                            at.base = offset.saturating_neg().max(0);
                        } else if d == b {
                            at.base = offset.max(0);
                        } else {
                            at = Affine::dim(next);
                            next += 1;
                        }
                        at
                    })
                    .collect();
                Some(self.p.view(x, c.sizes(), map))
            }
            "aten::unfold" => {
                let dim = wrap_dim(c.int("dimension", 1)?, rank)?;
                let step = c.int("step", 3)?;
                let mut map = identity();
                if rank == 0 {
                    return Some(self.p.keep_dims(x, &[0])).filter(|_| c.sizes() == [1]);
                }
                map[dim].terms[0].1 = step;
                map[dim].terms.retain(|_| c.sizes()[dim] > 1);
                map[dim].terms.push((rank, 1));
                Some(self.p.view(x, c.sizes(), map))
            }
            "aten::as_strided" => self.as_strided(c),
            _ => None,
        }
    }

    /// The several results of one view operator.
    pub(super) fn parts(&mut self, c: &CallView) -> Option<super::Lowered> {
        let dim = match c.op {
            "aten::split.Tensor" | "aten::split_with_sizes" => c.int("dim", 2).unwrap_or(0),
            "aten::unbind.int" => c.int("dim", 1).unwrap_or(0),
            _ => return None,
        };
        let x = self.tensor(c, 0)?;
        let sizes = self.p.get(x).sizes.clone();
        let dim = wrap_dim(dim, sizes.len()).filter(|d| *d < sizes.len())?;
        let mut parts = super::Lowered::new();
        let mut at = 0;
        for result in c.results {
            let part = if c.op == "aten::unbind.int" {
                let one = self.narrow(x, dim, at, at + 1);
                at += 1;
                self.squeezed(one, &[dim])?
            } else {
                let end = at + *result.sizes.get(dim)?;
                let part = match (at, end) == (0, sizes[dim]) {
                    true => x,
                    false => self.narrow(x, dim, at, end),
                };
                at = end;
                part
            };
            parts.push(part);
        }
        (at == sizes[dim]).then_some(parts)
    }

    /// Dimension `i` of the result is dimension `dims[i]` of the source.
    pub(super) fn permuted(&mut self, x: V, dims: &[usize]) -> Option<V> {
        let from = self.p.get(x).sizes.clone();
        if dims.len() != from.len() {
            return None;
        }
        if dims.iter().enumerate().all(|(i, d)| i == *d) {
            return Some(x);
        }
        let sizes: Dims = dims.iter().map(|d| from[*d]).collect();
        let mut map = vec![Affine::at(0); from.len()];
        for (i, d) in dims.iter().enumerate() {
            map[*d] = Affine::dim(i);
        }
        Some(self.p.view(x, &sizes, map))
    }

    fn squeezed(&mut self, x: V, dims: &[usize]) -> Option<V> {
        let from = self.p.get(x).sizes.clone();
        let mut sizes = Dims::new();
        let mut map = Vec::with_capacity(from.len());
        for (d, size) in from.iter().enumerate() {
            if dims.contains(&d) && *size == 1 {
                map.push(Affine::at(0));
            } else {
                map.push(Affine::dim(sizes.len()));
                sizes.push(*size);
            }
        }
        if sizes.len() == from.len() {
            return Some(x);
        }
        Some(self.p.view(x, &sizes, map))
    }
}
