//! Views of values.

use super::generate::{Gen, SIZES};
use crate::ir::Arg;
use crate::ir::Scalar;
use crate::ir::graph::ValueRef;
use crate::ir::view::view_strides;

impl Gen {
    pub(super) fn some_view(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        let (mut sizes, mut strides) = (m.sizes.to_vec(), m.strides.to_vec());
        let int = |i: usize| Arg::Scalar(Scalar::Int(i as i64));
        match self.r.below(7) {
            0 if rank > 1 => {
                let mut dims: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    dims.swap(i, self.r.below(i + 1));
                }
                let sizes = dims.iter().map(|d| m.sizes[*d]).collect();
                let strides = dims.iter().map(|d| m.strides[*d]).collect();
                let list = Arg::Ints(dims.iter().map(|d| *d as i64).collect());
                Some(self.viewed("aten::permute", vec![Arg::Tensor(x), list], sizes, strides))
            }
            1 if rank > 0 => {
                let d = self.r.below(rank);
                let n = sizes[d] as usize;
                let start = self.r.below(n + 1).min(n);
                let end = start + self.r.below(n - start + 1);
                if start == end && !self.r.chance(10) {
                    return None;
                }
                let step = 1 + self.r.below(2);
                sizes[d] = (end - start).div_ceil(step) as i64;
                strides[d] *= step as i64;
                let args = vec![Arg::Tensor(x), int(d), int(start), int(end), int(step)];
                Some(self.viewed("aten::slice.Tensor", args, sizes, strides))
            }
            2 if rank > 0 => {
                let d = self.r.below(rank);
                if sizes[d] == 0 {
                    return None;
                }
                let i = self.r.below(sizes[d] as usize);
                sizes.remove(d);
                strides.remove(d);
                let args = vec![Arg::Tensor(x), int(d), int(i)];
                Some(self.viewed("aten::select.int", args, sizes, strides))
            }
            3 if rank < 4 => {
                let d = self.r.below(rank + 1);
                sizes.insert(d, 1);
                strides.insert(d, 1);
                Some(self.viewed("aten::unsqueeze", vec![Arg::Tensor(x), int(d)], sizes, strides))
            }
            4 if rank < 4 => {
                let n = self.r.pick(&SIZES);
                for (n, s) in sizes.iter_mut().zip(&mut strides) {
                    if *n == 1 && self.r.chance(50) {
                        *n = self.r.pick(&SIZES);
                        *s = 0;
                    }
                }
                sizes.insert(0, n);
                strides.insert(0, 0);
                let list = Arg::Ints(sizes.clone());
                Some(self.viewed("aten::expand", vec![Arg::Tensor(x), list], sizes, strides))
            }
            _ => {
                let mut rest = m.numel();
                if rest == 0 {
                    return None;
                }
                let mut target = Vec::new();
                while rest > 1 && target.len() < 3 {
                    let f: Vec<i64> = (2..=rest).filter(|f| rest % f == 0).collect();
                    let f = self.r.pick(&f);
                    target.push(f);
                    rest /= f;
                }
                target.push(rest);
                if self.r.chance(50) {
                    target.reverse();
                }
                let args = vec![Arg::Tensor(x), Arg::Ints(target.clone())];
                Some(match view_strides(&m.sizes, &m.strides, &target) {
                    Some(s) => self.viewed("aten::view", args, target, s.to_vec()),
                    None => self.call("aten::reshape", args, m.dtype, &target),
                })
            }
        }
    }
}
