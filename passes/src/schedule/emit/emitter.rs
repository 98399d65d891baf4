//! The state while the instructions of a group are written.

use crate::ir::DType;
use crate::schedule::group::{Group, Memory};
use crate::schedule::loops::*;
use crate::schedule::program::{Program, V};
use std::collections::{BTreeSet, HashMap};

/// The longest body of a kernel.
pub(super) const MAX_BODY: usize = 4096;
/// The deepest nesting of definitions in a kernel.
pub(super) const MAX_DEPTH: usize = 320;
/// Longer rows are recomputed rather than kept.
pub(super) const MAX_SCRATCH: i64 = 1 << 15;

/// Names a value at a row position for keeping it between stages: the index with stage axes
/// replaced by their positions, and the extents of the row.
pub(super) type RowKey = (V, Vec<Index>, Vec<i64>);

/// What an axis of the kernel belongs to.
#[derive(Clone)]
pub(super) enum AxisOrigin {
    Grid { dim: usize, part: usize },
    Row { space: Vec<i64>, dim: usize, part: usize },
}

/// The stage that is being written.
pub(super) struct StageState {
    pub(super) axes: Vec<Axis>,
    pub(super) row: Vec<i64>,
    pub(super) body: Vec<Inst>,
    pub(super) values: HashMap<(V, Vec<Index>), Val>,
    pub(super) loads: HashMap<(Mem, Index), Val>,
    pub(super) consts: HashMap<(u64, DType, bool), Val>,
    pub(super) checks: HashMap<(Val, i64, bool), Val>,
}

/// Writes the instructions of a group.
pub(super) struct Emitter<'a> {
    pub(super) memory: &'a Memory<'a>,
    pub(super) p: &'a Program,
    pub(super) group: &'a Group,
    /// A fold to probe: records where it is needed, without computing it.
    pub(super) probe: Option<V>,
    pub(super) axes: Vec<Axis>,
    pub(super) origins: Vec<AxisOrigin>,
    pub(super) grid_dims: Vec<Index>,
    pub(super) stages: Vec<Stage>,
    /// (stage, instruction, canonical index) of folds done.
    pub(super) done: HashMap<V, (u32, Val, Vec<Index>)>,
    /// Stage in which a store was done.
    pub(super) stored_in: HashMap<V, usize>,
    pub(super) now: StageState,
    pub(super) keep: &'a HashMap<RowKey, u32>,
    pub(super) kept_in: HashMap<u32, usize>,
    pub(super) kept_used: BTreeSet<u32>,
    pub(super) expensive: HashMap<RowKey, BTreeSet<usize>>,
    pub(super) inlined: BTreeSet<V>,
    pub(super) probed: Vec<Option<Vec<Option<usize>>>>,
    pub(super) depth: usize,
}
