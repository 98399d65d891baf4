//! Views: index arithmetic on the source.

use super::{CallView, Lowerer};
use crate::ir::Op;
use crate::ir::view::{ViewMap, parts_of};
use crate::schedule::program::V;

impl Lowerer<'_> {
    pub(super) fn view_op(&mut self, c: &CallView) -> Option<V> {
        let x = self.tensor(c, 0)?;
        if c.op == Op::as_strided {
            return self.as_strided(c);
        }
        let map = ViewMap::of(c.op, c.args, self.p.sizes(x))?.ok()?;
        let m = self.meta(c, 0)?;
        let copies = c.op == Op::reshape && map.strides(&m.sizes, &m.strides, 0).is_err();
        let source = if copies { self.copy(x) } else { x };
        Some(self.viewed(source, &map))
    }

    /// The several results of one view operator.
    pub(super) fn parts(&mut self, c: &CallView) -> Option<super::Lowered> {
        let x = self.tensor(c, 0)?;
        let maps = parts_of(c.op, c.args, self.p.sizes(x))?.ok()?;
        (maps.len() == c.results.len()).then(|| maps.iter().map(|m| self.viewed(x, m)).collect())
    }

    /// A view of a value.
    pub(super) fn viewed(&mut self, x: V, map: &ViewMap) -> V {
        let from = self.p.get(x).sizes.clone();
        if map.is_identity(&from) {
            return x;
        }
        let sizes = map.sizes(&from);
        match map {
            ViewMap::Reshape(_) => self.p.reshape(x, &sizes),
            ViewMap::Expand(_) => self.p.expand(x, &sizes),
            _ => {
                let indices = (0..from.len()).map(|d| map.source(&from, d));
                let indices =
                    indices.map(|i| i.expect("affine, as all views but those under other sizes"));
                self.p.view(x, &sizes, indices.collect())
            }
        }
    }

    /// Dimension `i` of the result is dimension `dims[i]` of the source.
    pub(super) fn permuted(&mut self, x: V, dims: &[usize]) -> Option<V> {
        let fits = dims.len() == self.p.sizes(x).len();
        fits.then(|| self.viewed(x, &ViewMap::Permute(dims.into())))
    }
}
