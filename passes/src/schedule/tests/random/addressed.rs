//! Operators that put tensors together from pieces, and those that pick elements.

use super::generate::Gen;
use crate::ir::Arg;
use crate::ir::Scalar;
use crate::ir::graph::ValueRef;

impl Gen {
    pub(super) fn pieces(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        if rank == 0 {
            return None;
        }
        let int = |i: usize| Arg::Scalar(Scalar::Int(i as i64));
        let d = self.r.below(rank);
        match self.r.below(4) {
            0 => {
                let fits: Vec<ValueRef> = self
                    .pool
                    .iter()
                    .copied()
                    .filter(|v| {
                        let o = self.g.meta(*v);
                        o.dtype == m.dtype
                            && o.sizes.len() == rank
                            && (0..rank).all(|k| k == d || o.sizes[k] == m.sizes[k])
                    })
                    .collect();
                let mut list = vec![Some(x)];
                for _ in 0..self.r.below(3) {
                    list.push(Some(self.r.pick(&fits)));
                }
                let mut sizes = m.sizes.clone();
                sizes[d] = list.iter().flatten().map(|v| self.g.meta(*v).sizes[d]).sum();
                Some(self.call("aten::cat", vec![Arg::Tensors(list), int(d)], m.dtype, &sizes))
            }
            1 => {
                let n = m.sizes[d] as usize;
                let start = self.r.below(n + 1);
                let end = start + self.r.below(n - start + 1);
                let step = 1 + self.r.below(2);
                let mut sizes = m.sizes.to_vec();
                sizes[d] = (end - start).div_ceil(step) as i64;
                let fill = self.r.pick(&[0.5, 2.0]);
                let args = vec![Arg::Ints(sizes.clone()), Arg::Scalar(Scalar::Float(fill))];
                let mut src = self.call("aten::full", args, m.dtype, &sizes);
                if self.r.chance(70) && end > start {
                    let args = vec![Arg::Tensor(x), int(d), int(start), int(end), int(step)];
                    let mut strides = m.strides.to_vec();
                    strides[d] *= step as i64;
                    let part = self.viewed("aten::slice.Tensor", args, sizes, strides);
                    src = self.unary("aten::tanh", part);
                }
                let args =
                    vec![Arg::Tensor(x), Arg::Tensor(src), int(d), int(start), int(end), int(step)];
                Some(self.call("aten::slice_scatter", args, m.dtype, &m.sizes))
            }
            2 if m.sizes[d] > 0 => {
                let i = self.r.below(m.sizes[d] as usize);
                let (mut sizes, mut strides) = (m.sizes.to_vec(), m.strides.to_vec());
                sizes.remove(d);
                strides.remove(d);
                let j = self.r.below(m.sizes[d] as usize);
                let args = vec![Arg::Tensor(x), int(d), int(j)];
                let part = self.viewed("aten::select.int", args, sizes, strides);
                let src = self.unary("aten::neg", part);
                let args = vec![Arg::Tensor(x), Arg::Tensor(src), int(d), int(i)];
                Some(self.call("aten::select_scatter", args, m.dtype, &m.sizes))
            }
            _ => {
                let mut pad = Vec::new();
                let mut sizes = m.sizes.clone();
                for i in 0..1 + self.r.below(rank) {
                    let n = &mut sizes[rank - 1 - i];
                    let lo = self.r.below(3) as i64;
                    let hi = self.r.below(4) as i64 - 1;
                    let hi = if *n < 2 { 1 } else { hi };
                    *n += lo + hi;
                    pad.extend([lo, hi]);
                }
                let args = vec![Arg::Tensor(x), Arg::Ints(pad), Arg::Scalar(Scalar::Float(1.5))];
                Some(self.call("aten::constant_pad_nd", args, m.dtype, &sizes))
            }
        }
    }

    pub(super) fn indexed(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        let ids = self.r.pick(&self.ids.clone());
        let im = self.meta(ids);
        let fits: Vec<usize> = (0..rank).filter(|d| m.sizes[*d] >= 2).collect();
        if fits.is_empty() {
            return None;
        }
        let d = self.r.pick(&fits);
        let int = Arg::Scalar(Scalar::Int(d as i64));
        if rank == 2 && d == 0 && im.sizes.len() < 3 {
            let mut sizes = im.sizes.to_vec();
            sizes.push(m.sizes[1]);
            let args = vec![Arg::Tensor(x), Arg::Tensor(ids)];
            return Some(self.call("aten::embedding", args, m.dtype, &sizes));
        }
        if im.sizes.len() == 1 {
            let mut sizes = m.sizes.clone();
            sizes[d] = im.sizes[0];
            let args = vec![Arg::Tensor(x), int, Arg::Tensor(ids)];
            return Some(self.call("aten::index_select", args, m.dtype, &sizes));
        }
        let inside =
            im.sizes.len() == rank && (0..rank).all(|k| k == d || im.sizes[k] <= m.sizes[k]);
        inside.then(|| {
            let args = vec![Arg::Tensor(x), int, Arg::Tensor(ids)];
            self.call("aten::gather", args, m.dtype, &im.sizes)
        })
    }

    /// Operators that copy listed positions.
    pub(super) fn listed(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        if rank == 0 || m.numel() == 0 {
            return None;
        }
        let mut sizes = m.sizes.clone();
        let some = 1 + self.r.below(rank.min(3));
        match self.r.below(3) {
            0 => {
                let dims = (0..rank as i64).filter(|_| self.r.chance(60)).collect();
                let args = vec![Arg::Tensor(x), Arg::Ints(dims)];
                Some(self.call("aten::flip", args, m.dtype, &sizes))
            }
            1 => {
                let mirror = self.r.chance(50);
                let mut pad = Vec::new();
                for n in sizes.iter_mut().rev().take(some) {
                    let most = if mirror { (*n - 1).min(3) } else { 3 };
                    let mut one = || self.r.below(most as usize + 1) as i64;
                    let (lo, mut hi) = (one(), one());
                    if *n > 1 && self.r.chance(20) {
                        hi = -1;
                    }
                    *n += lo + hi;
                    pad.extend([lo, hi]);
                }
                let kind = if mirror { "reflection" } else { "replication" };
                let args = vec![Arg::Tensor(x), Arg::Ints(pad)];
                Some(self.call(&format!("aten::{kind}_pad{some}d"), args, m.dtype, &sizes))
            }
            _ if (3..=5).contains(&rank) => {
                for n in &mut sizes[2..] {
                    *n = match self.r.below(3) {
                        0 => *n * 2,
                        1 => (*n + 1) / 2,
                        _ => *n + 1,
                    };
                }
                let kind = self.r.pick(&["upsample_nearest", "_upsample_nearest_exact"]);
                let args = vec![Arg::Tensor(x), Arg::Ints(sizes[2..].to_vec())];
                let op = format!("aten::{kind}{}d", rank - 2);
                Some(self.call(&op, args, m.dtype, &sizes))
            }
            _ => None,
        }
    }

    /// Operators that write where indices say.
    pub(super) fn scattered(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        let fits: Vec<usize> = (0..rank).filter(|d| m.sizes[*d] >= 2).collect();
        if fits.is_empty() || m.numel() == 0 {
            return None;
        }
        let d = self.r.pick(&fits);
        let int = || Arg::Scalar(Scalar::Int(d as i64));
        let ids = self.r.pick(&self.ids.clone());
        let im = self.meta(ids);
        let text = |s: &str| Arg::Str(s.to_string());
        // a source that is computed
        let source = |g: &mut Self, op: &str, sizes: &[i64]| {
            let args = match op {
                "aten::embedding" => vec![Arg::Tensor(x), Arg::Tensor(ids)],
                _ => vec![Arg::Tensor(x), int(), Arg::Tensor(ids)],
            };
            let src = g.call(op, args, m.dtype, sizes);
            if g.r.chance(50) { g.unary("aten::neg", src) } else { src }
        };
        let inside =
            im.sizes.len() == rank && (0..rank).all(|k| k == d || im.sizes[k] <= m.sizes[k]);
        let picks = [inside, im.sizes.len() == 1, rank == 2 && d == 0];
        let kinds: Vec<usize> = (0..3).filter(|k| picks[*k]).collect();
        if kinds.is_empty() {
            return None;
        }
        let mut args = vec![Arg::Tensor(x), int(), Arg::Tensor(ids)];
        let op = match self.r.pick(&kinds) {
            0 => {
                let src = source(self, "aten::gather", &im.sizes);
                let op = self.r.pick(&["scatter.src", "scatter_add", "scatter_reduce.two"]);
                args.push(Arg::Tensor(src));
                if op == "scatter_reduce.two" {
                    args.push(text(self.r.pick(&["sum", "amax", "amin", "mean"])));
                    args.push(Arg::Scalar(Scalar::Bool(self.r.chance(50))));
                }
                op
            }
            1 => {
                let mut sizes = m.sizes.clone();
                sizes[d] = im.sizes[0];
                let src = source(self, "aten::index_select", &sizes);
                args.push(Arg::Tensor(src));
                let op = self.r.pick(&["index_add", "index_copy", "index_put"]);
                if op == "index_put" {
                    let mut list = vec![None; d];
                    list.push(Some(ids));
                    let accumulate = Arg::Scalar(Scalar::Bool(self.r.chance(50)));
                    args = vec![Arg::Tensor(x), Arg::Tensors(list), Arg::Tensor(src), accumulate];
                }
                op
            }
            _ => {
                let mut sizes = im.sizes.to_vec();
                sizes.push(m.sizes[1]);
                let src = source(self, "aten::embedding", &sizes);
                let list = Arg::Tensors(vec![Some(ids)]);
                let accumulate = Arg::Scalar(Scalar::Bool(self.r.chance(50)));
                args = vec![Arg::Tensor(x), list, Arg::Tensor(src), accumulate];
                "index_put"
            }
        };
        Some(self.call(&format!("aten::{op}"), args, m.dtype, &m.sizes))
    }
}
