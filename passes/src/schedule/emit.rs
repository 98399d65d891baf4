//! From a group of values that share a grid to the body of one kernel.
//!
//! Emission asks each stored value for the element at its own symbolic index and recurses into
//! definitions; folds of the group are carried between stages, and values in memory are loaded.
//! Emission fails if the group cannot be one kernel (a fold is needed at another grid point than
//! the one that computes it), and fusion is decided by that answer.

mod element;
mod emitter;
mod scatter;

use super::group::{Group, Item, Memory, Stop};
use super::loops::*;
use super::program::{Def, Program, V};
use crate::ir::Dims;
use emitter::{AxisOrigin, Emitter, MAX_DEPTH, RowKey, StageState};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A longer chain of dependent folds is refused: each round recomputes what the rounds before it
/// have made of the row, so code and time grow with the square of the length. A softmax has three
/// rounds, a norm two.
const MAX_ROUNDS: u32 = 12;
/// A kernel's code before its axes are ordered and merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emitted {
    pub(crate) grid: Vec<Axis>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) scratch: Vec<Scratch>,
    /// Values computed in place, and folds.
    pub(crate) inlined: BTreeSet<V>,
    /// Indices at which a fold asked about was needed, with the group dimension of each entry.
    pub(crate) probed: Vec<Option<Vec<Option<usize>>>>,
}

/// How axes are split: group dimensions, and row spaces of stages by their extents.
#[derive(Default)]
struct Cuts {
    grid: Vec<Vec<i64>>,
    rows: HashMap<Vec<i64>, Vec<Vec<i64>>>,
}

/// In which round of stages each item runs: one after the folds that it needs.
fn levels(p: &Program, memory: &Memory, group: &Group) -> HashMap<V, u32> {
    fn level(
        p: &Program,
        memory: &Memory,
        group: &Group,
        v: V,
        memo: &mut HashMap<V, u32>,
        depth: usize,
    ) -> u32 {
        if let Some(l) = memo.get(&v) {
            return *l;
        }
        if depth > MAX_DEPTH {
            return 0; // emission will refuse this group
        }
        let rounds = match p.def(v) {
            Def::Scatter(s) if group.scatters(v) => 1 + s.passes.len() as u32,
            _ => u32::from(group.folds(v)),
        };
        let l = if rounds > 0 {
            rounds
                + p.operands(v)
                    .iter()
                    .map(|o| level(p, memory, group, *o, memo, depth + 1))
                    .max()
                    .unwrap_or(0)
        } else if memory.holds(v) && !group.stores(v) {
            0
        } else {
            p.operands(v)
                .iter()
                .map(|o| level(p, memory, group, *o, memo, depth + 1))
                .max()
                .unwrap_or(0)
        };
        memo.insert(v, l);
        l
    }
    let mut memo = HashMap::new();
    for item in &group.items {
        level(p, memory, group, item.value(), &mut memo, 0);
    }
    memo
}

struct Attempt {
    emitted: Emitted,
    expensive: HashMap<RowKey, BTreeSet<usize>>,
    kept_used: BTreeSet<u32>,
}

fn attempt(
    memory: &Memory,
    group: &Group,
    probe: Option<V>,
    cuts: &mut Cuts,
    keep: &HashMap<RowKey, u32>,
) -> Result<Attempt, (Stop, Option<AxisOrigin>)> {
    let p = memory.p;
    let blank = || StageState {
        axes: Vec::new(),
        row: Vec::new(),
        body: Vec::new(),
        values: HashMap::new(),
        loads: HashMap::new(),
        consts: HashMap::new(),
        checks: HashMap::new(),
    };
    let mut e = Emitter {
        memory,
        p,
        group,
        probe,
        axes: Vec::new(),
        origins: Vec::new(),
        grid_dims: vec![Index::default(); group.dims.len()],
        stages: Vec::new(),
        done: HashMap::new(),
        stored_in: HashMap::new(),
        now: blank(),
        keep,
        kept_in: HashMap::new(),
        kept_used: BTreeSet::new(),
        expensive: HashMap::new(),
        inlined: BTreeSet::new(),
        probed: Vec::new(),
        depth: 0,
    };
    let mut grid = Vec::new();
    for (dim, size) in group.dims.iter().enumerate() {
        if !group.on_grid[dim] {
            continue;
        }
        if cuts.grid.len() <= dim {
            cuts.grid.resize(dim + 1, Vec::new());
        }
        if cuts.grid[dim].is_empty() {
            cuts.grid[dim].push(*size);
        }
        let mut stride = *size;
        for (part, extent) in cuts.grid[dim].clone().into_iter().enumerate() {
            stride /= extent;
            let axis = e.new_axis(extent, AxisOrigin::Grid { dim, part });
            e.grid_dims[dim].add_scaled(&Index::axis(axis.id), stride);
            grid.push(axis);
        }
    }
    // items by round and by the row that they sweep, in the order of their values
    let level = levels(p, memory, group);
    if level.values().any(|rounds| *rounds > MAX_ROUNDS) {
        return Err((Stop::TooBig, None));
    }
    let mut rounds: BTreeMap<(u32, bool, Vec<i64>), Vec<&Item>> = BTreeMap::new();
    for item in &group.items {
        let l = level[&item.value()];
        let (l, row) = match item {
            Item::Store { roles, .. } => {
                let swept = roles.iter().flatten().any(|d| !group.on_grid[*d]);
                (l, if swept { group.row() } else { Vec::new() })
            }
            Item::Fold { value, .. } => {
                let (src, dims) = match p.def(*value) {
                    Def::Reduce { src, dims, .. } | Def::ArgReduce { src, dims, .. } => (src, dims),
                    _ => return Err((Stop::Mismatch(*value), None)),
                };
                let sizes = p.sizes(*src);
                let row = dims.iter().map(|d| sizes[*d]).filter(|s| *s != 1);
                (l - 1, row.collect())
            }
            // the first pass after what stores the base, the last one before what reads the result
            Item::Scatter { value, pass, roles, .. } => {
                let Def::Scatter(s) = p.def(*value) else {
                    return Err((Stop::Mismatch(*value), None));
                };
                (l - (s.passes.len() - pass) as u32, scatter::row(p, group, *value, roles))
            }
        };
        let pointwise = row.is_empty();
        rounds.entry((l, pointwise, row)).or_default().push(item);
    }
    for ((_, _, row), mut items) in rounds {
        items.sort_by_key(|i| (i.value(), matches!(i, Item::Store { .. })));
        e.now = blank();
        e.now.row = row.clone();
        let parts = cuts
            .rows
            .entry(row.clone())
            .or_insert_with(|| row.iter().map(|s| vec![*s]).collect())
            .clone();
        for (dim, parts) in parts.iter().enumerate() {
            for (part, extent) in parts.iter().enumerate() {
                let space = row.clone();
                let axis = e.new_axis(*extent, AxisOrigin::Row { space, dim, part });
                e.now.axes.push(axis);
            }
        }
        for item in items {
            e.depth = 0;
            let result = emit_item(&mut e, item);
            if let Err(stop) = result {
                let origin = match stop {
                    Stop::Split { axis, .. } => e.origins.get(axis.0 as usize).cloned(),
                    _ => None,
                };
                return Err((stop, origin));
            }
        }
        let now = std::mem::replace(&mut e.now, blank());
        e.stages.push(Stage { axes: SmallVec::from_vec(now.axes), body: now.body });
    }
    let mut scratch = vec![None; keep.len()];
    for ((v, _, row), slot) in keep {
        scratch[*slot as usize] = Some(Scratch { dtype: p.dtype(*v), len: row.iter().product() });
    }
    Ok(Attempt {
        emitted: Emitted {
            grid,
            stages: e.stages,
            scratch: scratch.into_iter().flatten().collect(),
            inlined: e.inlined,
            probed: e.probed,
        },
        expensive: e.expensive,
        kept_used: e.kept_used,
    })
}

fn emit_item(e: &mut Emitter, item: &Item) -> Result<(), Stop> {
    match item {
        Item::Store { value, target, roles } => {
            let Some(index) = e.own_index(roles) else {
                return Err(Stop::Mismatch(*value));
            };
            let val = e.value(*value, &index)?;
            let at = Emitter::address(&target.strides, target.offset, &index);
            let op =
                Op::Store { mem: Mem::Buffer(BufferId(target.buffer.0)), index: at, value: val };
            let dtype = e.p.dtype(*value);
            e.inst(op, dtype)?;
            if target.buffer == *value {
                e.stored_in.insert(*value, e.stages.len());
            }
        }
        Item::Scatter { value, pass, target, roles } => e.scatter(*value, *pass, target, roles)?,
        Item::Fold { value, roles } => {
            let (src, dims) = match e.p.def(*value) {
                Def::Reduce { src, dims, .. } | Def::ArgReduce { src, dims, .. } => {
                    (*src, dims.clone())
                }
                _ => return Err(Stop::Mismatch(*value)),
            };
            let own: Vec<Index> = roles
                .iter()
                .map(|r| r.map_or_else(Index::default, |d| e.grid_dims[d].clone()))
                .collect();
            let rows = e.row_dims();
            let (mut next_own, mut next_row) = (0, 0);
            let sizes = Dims::from_slice(e.p.sizes(src));
            let mut index = Vec::with_capacity(sizes.len());
            for (d, size) in sizes.iter().enumerate() {
                if !dims.contains(&d) {
                    index.push(own[next_own].clone());
                    next_own += 1;
                } else if *size == 1 {
                    index.push(Index::default());
                } else {
                    index.push(rows[next_row].clone());
                    next_row += 1;
                }
            }
            let val = e.value(src, &index)?;
            let op = match e.p.def(*value) {
                Def::Reduce { op, .. } => Op::Reduce(*op, val),
                Def::ArgReduce { max, .. } => Op::ArgReduce { max: *max, value: val },
                _ => return Err(Stop::Mismatch(*value)),
            };
            let dtype = e.p.dtype(*value);
            let fold = e.inst(op, dtype)?;
            let stage = e.stages.len() as u32;
            e.inlined.insert(*value);
            e.done.insert(*value, (stage, fold, own));
        }
    }
    Ok(())
}

/// Emits with axes split as far as reshapes need it.
fn settle(
    memory: &Memory,
    group: &Group,
    probe: Option<V>,
    cuts: &mut Cuts,
    keep: &HashMap<RowKey, u32>,
) -> Result<Attempt, Stop> {
    for _ in 0..64 {
        match attempt(memory, group, probe, cuts, keep) {
            Ok(done) => return Ok(done),
            Err((Stop::Split { inner, .. }, Some(origin))) => {
                let (parts, part) = match origin {
                    AxisOrigin::Grid { dim, part } => (&mut cuts.grid[dim], part),
                    AxisOrigin::Row { space, dim, part } => match cuts.rows.get_mut(&space) {
                        Some(row) => (&mut row[dim], part),
                        None => return Err(Stop::TooBig),
                    },
                };
                let outer = parts[part] / inner;
                parts.splice(part..=part, [outer, inner]);
            }
            Err((stop, _)) => return Err(stop),
        }
    }
    Err(Stop::TooBig)
}

/// Emits the group's kernel.
pub(crate) fn emit(memory: &Memory, group: &Group) -> Result<Emitted, Stop> {
    let mut cuts = Cuts::default();
    let mut keep = HashMap::new();
    let mut done = settle(memory, group, None, &mut cuts, &keep)?;
    let mut shared: Vec<RowKey> = done
        .expensive
        .into_iter()
        .filter(|(_, stages)| stages.len() > 1)
        .map(|(key, _)| key)
        .collect();
    if shared.is_empty() {
        return Ok(done.emitted);
    }
    shared.sort_by_key(|(v, ..)| *v);
    // keep all of them, then only those that are read: the outermost ones
    for round in 0..2 {
        keep = shared.drain(..).zip(0u32..).collect();
        done = settle(memory, group, None, &mut cuts, &keep)?;
        if round == 0 {
            let used = &done.kept_used;
            let mut read: Vec<(u32, RowKey)> = keep
                .into_iter()
                .filter(|(_, slot)| used.contains(slot))
                .map(|(key, slot)| (slot, key))
                .collect();
            read.sort_by_key(|r| r.0);
            shared = read.into_iter().map(|r| r.1).collect();
        }
    }
    Ok(done.emitted)
}

/// Emits without keeping rows, and asks where `probe` is needed.
pub(crate) fn probe(memory: &Memory, group: &Group, probe: Option<V>) -> Result<Emitted, Stop> {
    let mut cuts = Cuts::default();
    let keep = HashMap::new();
    settle(memory, group, probe, &mut cuts, &keep).map(|a| a.emitted)
}
