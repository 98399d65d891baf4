//! One pass of a scatter, as instructions.

use super::emitter::Emitter;
use crate::schedule::group::{Group, Item, Stop, Target};
use crate::schedule::loops::*;
use crate::schedule::program::{Def, Place, Program, V};
use smallvec::SmallVec;

/// The grid dimension that iterates over a dimension of a scatter's sources.
fn on_grid(
    group: &Group,
    places: &[Place],
    roles: &[Option<usize>],
    source: usize,
) -> Option<usize> {
    let d = places.iter().position(|p| *p == Place::Along(source))?;
    roles[d].filter(|role| group.on_grid[*role])
}

/// What a pass of a scatter sweeps at each grid point: the sizes of the sources' other dimensions,
/// in their order.
pub(super) fn row(p: &Program, group: &Group, v: V, roles: &[Option<usize>]) -> Vec<i64> {
    let Def::Scatter(s) = p.def(v) else {
        return Vec::new();
    };
    let swept = |(d, n): &(usize, &i64)| **n != 1 && on_grid(group, &s.places, roles, *d).is_none();
    let sizes = s.sizes.iter().enumerate();
    sizes.filter(swept).map(|(_, n)| *n).collect()
}

impl Emitter<'_> {
    /// Stores one pass of a scatter, or combines it with what is there.
    pub(super) fn scatter(
        &mut self,
        v: V,
        pass: usize,
        target: &Target,
        roles: &[Option<usize>],
    ) -> Result<(), Stop> {
        let Def::Scatter(s) = self.p.def(v) else {
            return Err(Stop::Mismatch(v));
        };
        let s = s.clone();
        // the element of the sources at this point
        let mut rows = self.row_dims().into_iter();
        let mut from: Vec<Index> = Vec::with_capacity(s.sizes.len());
        for (d, n) in s.sizes.iter().enumerate() {
            let grid = on_grid(self.group, &s.places, roles, d);
            from.push(match (n, grid) {
                (1, _) => Index::default(),
                (_, Some(role)) => self.grid_dims[role].clone(),
                _ => rows.next().unwrap_or_default(),
            });
        }
        let sizes = self.p.get(v).sizes.clone();
        let mut to: Vec<Index> = Vec::with_capacity(sizes.len());
        for (place, n) in s.places.iter().zip(&sizes) {
            to.push(match place {
                Place::Along(d) => from[*d].clone(),
                Place::Indexed(index) => {
                    let at = self.value(*index, &from)?;
                    Index {
                        dynamic: SmallVec::from_iter([(self.checked(at, *n, s.bounds, v)?, 1)]),
                        ..Index::default()
                    }
                }
            });
        }
        let (src, op) = s.passes[pass];
        let value = self.value(src, &from)?;
        let index = Self::address(&target.strides, target.offset, &to);
        let mem = Mem::Buffer(BufferId(target.buffer.0));
        let op = match op {
            None => Op::Store { mem, index, value },
            Some(op) => Op::Update { op, mem, index, value },
        };
        self.inst(op, self.p.dtype(v))?;
        self.inlined.insert(v);
        Ok(())
    }

    /// An element of a scatter that earlier stages of this kernel have finished, at this point of the
    /// grid.
    pub(super) fn scattered(&mut self, v: V, index: &[Index]) -> Result<Val, Stop> {
        let group = self.group;
        let own = group.items.iter().find_map(|item| match item {
            Item::Scatter { value, target, roles, .. } if *value == v => Some((target, roles)),
            _ => None,
        });
        match own {
            Some((target, roles)) if self.own_index(roles).as_deref() == Some(index) => {
                let at = Self::address(&target.strides, target.offset, index);
                self.load(Mem::Buffer(BufferId(target.buffer.0)), at, self.p.dtype(v))
            }
            _ => Err(Stop::Mismatch(v)),
        }
    }
}
