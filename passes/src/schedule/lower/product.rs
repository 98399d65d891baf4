//! Matrix products.

use super::{CallView, Lowerer};
use crate::ir::Dims;
use crate::ir::Op;
use crate::ir::view::Affine;
use crate::schedule::program::{Def, Product, V};

impl Lowerer<'_> {
    pub(super) fn product(&mut self, c: &CallView) -> Option<V> {
        if !matches!(c.op, Op::mm | Op::bmm) {
            return None;
        }
        let (a, b) = (self.tensor(c, 0)?, self.tensor(c, 1)?);
        let Some(lead) = self.merged_lead(a).or_else(|| self.merged_lead(b)) else {
            return Some(self.push_product(a, b, c.sizes()));
        };
        // a batch of heads: read where the heads lie instead of from copies that merge the two
        let (a, b) = (self.unmerged(a, lead), self.unmerged(b, lead));
        let mut sizes = Dims::from_slice(&lead);
        sizes.extend_from_slice(&c.sizes()[1..]);
        let product = self.push_product(a, b, &sizes);
        Some(self.p.reshape(product, c.sizes()))
    }

    fn push_product(&mut self, a: V, b: V, sizes: &[i64]) -> V {
        let product = Product {
            a,
            b,
            bias: None,
            activation: Default::default(),
            residual: None,
            strides: None,
        };
        let dtype = self.p.dtype(a);
        self.p.push(dtype, sizes, Def::Matmul(Box::new(product)))
    }

    /// The two dimensions whose merging made the first dimension of `v` by way of a copy.
    fn merged_lead(&self, v: V) -> Option<[i64; 2]> {
        let [_, m, k] = *<&[i64; 3]>::try_from(self.p.sizes(v)).ok()?;
        match self.p.def(v) {
            Def::Copy(src) => self.merged_lead(*src),
            Def::View { src, map } if is_matrix_transpose(map) => self.merged_lead(*src),
            Def::Reshape(src) => match (self.p.sizes(*src), self.p.def(*src)) {
                (&[x, y, m2, k2], Def::Copy(_)) if (m2, k2) == (m, k) => Some([x, y]),
                _ => None,
            },
            _ => None,
        }
    }

    /// `v` with its first dimension as two, without copies on the way.
    fn unmerged(&mut self, v: V, lead: [i64; 2]) -> V {
        let sizes = self.p.get(v).sizes.clone();
        let mut wide = Dims::from_slice(&lead);
        wide.extend_from_slice(&sizes[1..]);
        match self.p.def(v).clone() {
            Def::Copy(src) if !self.p.def(src).is_reversed() => self.unmerged(src, lead),
            Def::View { src, map } if is_matrix_transpose(&map) => {
                let src = self.unmerged(src, lead);
                let map = [0, 1, 3, 2].map(Affine::dim).to_vec();
                self.p.view(src, &wide, map)
            }
            Def::Reshape(mut src) if self.p.sizes(src) == &wide[..] => {
                while let Def::Copy(from) = self.p.def(src)
                    && !self.p.def(*from).is_reversed()
                {
                    src = *from;
                }
                src
            }
            _ => self.p.reshape(v, &wide),
        }
    }
}

fn is_matrix_transpose(map: &[Affine]) -> bool {
    map.len() == 3 && *map == [0, 2, 1].map(Affine::dim)
}
