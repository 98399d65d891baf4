//! A group: the values of one kernel, which share a grid.

use super::loops::AxisId;
use super::program::{Def, Program, V};
use crate::ir::{Dims, layout};
use std::collections::HashMap;

/// Why a group cannot be one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// An axis must be split first; try again.
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
    Store { value: V, target: Target, roles: Vec<Option<usize>> },
    /// Folds a value for later stages. `roles`: per dimension of the result.
    Fold { value: V, roles: Vec<Option<usize>> },
    /// One pass of a scatter over memory in which its base was stored before. `roles`: per
    /// dimension of the result.
    Scatter { value: V, pass: usize, target: Target, roles: Vec<Option<usize>> },
}

impl Item {
    pub(crate) fn value(&self) -> V {
        match self {
            Item::Store { value, .. } | Item::Fold { value, .. } | Item::Scatter { value, .. } => {
                *value
            }
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
    /// For a group that scatters: how many elements are scattered.
    pub(crate) sweeps: i64,
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
        self.items.iter().any(|i| matches!(i, Item::Fold { value, .. } if *value == v))
    }

    pub(crate) fn scatters(&self, v: V) -> bool {
        self.items.iter().any(|i| matches!(i, Item::Scatter { value, .. } if *value == v))
    }

    /// The whole value `v` is stored by this group.
    pub(crate) fn stores(&self, v: V) -> bool {
        self.items.iter().any(
            |i| matches!(i, Item::Store { value, target, .. } if *value == v && target.buffer == v),
        )
    }

    pub(crate) fn row(&self) -> Vec<i64> {
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
