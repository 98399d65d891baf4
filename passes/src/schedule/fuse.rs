//! Fusion: which values share a kernel, which are recomputed, which lie in memory.
//!
//! Values are visited from results to inputs. Each knows by then which kernels need it (its
//! *hosts*). A value with one host is computed in place there; one with several is recomputed where
//! that is cheap and stored otherwise; a reduction becomes a stage of its host where each grid
//! point of the host needs just its own result. Whether a join works is decided by emitting the
//! kernel.

mod join;
mod siblings;
mod visit;

use super::emit::{Emitted, emit};
use super::group::{Group, Item, Memory, Stop, Target};
use super::layout::resolve;
use super::program::{Def, Program, V};
use super::{ScheduleError, ScheduleOptions};
use crate::ir::{Dims, layout};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Reductions of this many elements leave a host whose grid has few points.
const SERIAL_LIMIT: i64 = 1 << 15;
/// At most this many grid points count as few.
const FEW_POINTS: i64 = 4;

/// Where and why a value is computed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Fate {
    /// The group that computes it, if one does.
    pub(crate) group: Option<usize>,
    pub(crate) reason: String,
}

/// The result of fusion.
#[derive(Debug)]
pub(crate) struct Fused {
    pub(crate) groups: Vec<(Group, Emitted)>,
    pub(crate) fates: HashMap<V, Fate>,
}

/// Values that must be in memory, whether or not fusion would store them.
pub(crate) struct Demands {
    /// Stored because results and calls need them.
    pub(crate) forced: BTreeSet<V>,
    /// Strides of stored values that are not row-major.
    pub(crate) strides: HashMap<V, Dims>,
    pub(crate) live: Vec<bool>,
}

struct Fuser<'a> {
    p: &'a Program,
    options: &'a ScheduleOptions,
    demands: &'a Demands,
    forced: BTreeSet<V>,
    alone: HashSet<V>,
    cap: usize,
    uses: Vec<Vec<V>>,
    stored: Vec<bool>,
    groups: Vec<Option<Group>>,
    /// Groups that store overlapping pieces; nothing may join them.
    fixed: BTreeSet<usize>,
    hosts: Vec<BTreeSet<usize>>,
    /// Groups that store the value or a piece made of it.
    member: HashMap<V, Vec<usize>>,
    fates: HashMap<V, Fate>,
}

/// The operands that a call reads from memory: a stored value below views where strides can
/// express them, else the operand itself.
pub(crate) fn demanded(p: &Program, operand: V, strides: &HashMap<V, Dims>) -> V {
    let stored = |v: V| match (p.def(v), strides.get(&v)) {
        (Def::Source { strides, .. }, _) => strides.clone(),
        (_, Some(s)) => s.clone(),
        _ => layout::contiguous_strides(p.sizes(v)),
    };
    resolve(p, operand, &stored).map_or(operand, |s| s.base)
}

impl Fuser<'_> {
    fn memory(&self) -> Memory<'_> {
        Memory { p: self.p, stored: &self.stored, strides: &self.demands.strides }
    }

    fn note(&mut self, v: V, group: Option<usize>, reason: impl Into<String>) {
        let reason = reason.into();
        self.fates.insert(v, Fate { group, reason });
    }

    fn target(&self, v: V) -> Target {
        Target { buffer: v, offset: 0, strides: self.memory().strides(v) }
    }

    fn require(&mut self, v: V, group: usize) {
        self.hosts[v.i()].insert(group);
    }

    fn new_group(&mut self, dims: Vec<i64>, items: Vec<Item>) -> usize {
        self.groups.push(Some(Group {
            on_grid: vec![true; dims.len()],
            dims,
            items,
            inlined: 0,
            sweeps: 0,
        }));
        self.groups.len() - 1
    }
}

/// Decides where each value is computed.
pub(crate) fn fuse(
    p: &Program,
    options: &ScheduleOptions,
    demands: &Demands,
) -> Result<Fused, ScheduleError> {
    let uses = p.uses(&demands.live);
    let mut forced = demands.forced.clone();
    let mut alone = HashSet::new();
    let mut cap = options.max_kernel_ops;
    for _ in 0..p.values.len() + 16 {
        let mut f = Fuser {
            p,
            options,
            demands,
            forced: forced.clone(),
            alone: alone.clone(),
            cap,
            uses: uses.clone(),
            stored: vec![false; p.values.len()],
            groups: Vec::new(),
            fixed: BTreeSet::new(),
            hosts: vec![BTreeSet::new(); p.values.len()],
            member: HashMap::new(),
            fates: HashMap::new(),
        };
        for v in &f.forced {
            f.stored[v.i()] = true;
        }
        for i in (0..p.values.len()).rev() {
            f.visit(V(i as u32));
        }
        if f.options.merge_siblings {
            f.merge_siblings();
        }
        let mut groups = Vec::new();
        let mut numbers = HashMap::new();
        let mut retry = None;
        for (i, g) in f.groups.iter().enumerate() {
            let Some(g) = g else { continue };
            if g.dims.contains(&0) {
                continue;
            }
            match emit(&f.memory(), g) {
                Ok(e) => {
                    numbers.insert(i, groups.len());
                    groups.push((g.clone(), e));
                }
                Err(stop) => {
                    retry = Some(stop);
                    break;
                }
            }
        }
        let Some(stop) = retry else {
            let fates = f
                .fates
                .into_iter()
                .map(|(v, mut fate)| {
                    fate.group = fate.group.and_then(|g| numbers.get(&g).copied());
                    (v, fate)
                })
                .collect();
            return Ok(Fused { groups, fates });
        };
        let progress = match stop {
            Stop::Materialise(v) => !matches!(p.def(v), Def::Source { .. }) && forced.insert(v),
            Stop::Mismatch(v) => alone.insert(v),
            Stop::TooBig | Stop::Split { .. } => {
                cap /= 2;
                cap > 0
            }
        };
        if !progress {
            return Err(ScheduleError::Unschedulable {
                node: p
                    .get(V(match stop {
                        Stop::Materialise(v) | Stop::Mismatch(v) => v.0,
                        _ => 0,
                    }))
                    .node
                    .map_or_else(String::new, |n| format!("node {}", n.index())),
            });
        }
    }
    Err(ScheduleError::Unschedulable { node: String::new() })
}
