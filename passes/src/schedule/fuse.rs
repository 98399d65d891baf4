//! Fusion: which values share a kernel, which are recomputed, which lie in memory.
//!
//! Values are visited from results to inputs. Each knows by then which kernels need it (its
//! *hosts*). A value with one host is computed in place there; one with several is recomputed where
//! that is cheap and stored otherwise; a reduction becomes a stage of its host where each grid
//! point of the host needs just its own result. Whether a join makes a kernel is answered by
//! emitting it.

mod siblings;

use super::cost::is_expensive;
use super::emit::{Emitted, emit, probe};
use super::group::{Group, Item, Memory, Stop, Target, roles};
use super::layout::resolve;
use super::program::{Def, Program, V};
use super::{ScheduleError, ScheduleOptions};
use crate::ir::{Dims, layout};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Reductions of this many elements leave a host whose grid has few points.
const SERIAL_LIMIT: i64 = 1 << 15;
/// So few.
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

/// What must be in memory whatever fusion would prefer.
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
    /// Groups that store overlapping pieces: nothing joins them.
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
        Memory {
            p: self.p,
            stored: &self.stored,
            strides: &self.demands.strides,
        }
    }

    fn note(&mut self, v: V, group: Option<usize>, reason: impl Into<String>) {
        let reason = reason.into();
        self.fates.insert(v, Fate { group, reason });
    }

    fn target(&self, v: V) -> Target {
        Target {
            buffer: v,
            offset: 0,
            strides: self.memory().strides(v),
        }
    }

    fn require(&mut self, v: V, group: usize) {
        self.hosts[v.i()].insert(group);
    }

    fn visit(&mut self, v: V) {
        let def = self.p.def(v).clone();
        if !self.demands.live[v.i()] {
            return;
        }
        let forced = self.forced.contains(&v) || self.p.get(v).barrier;
        match &def {
            Def::Source { .. } => {}
            Def::Const(_) | Def::Position(_) if !forced => {}
            Def::Matmul(_) | Def::Extern { .. } => {
                self.stored[v.i()] = true;
                for o in self.p.operands(v) {
                    let base = demanded(self.p, o, &self.demands.strides);
                    self.forced.insert(base);
                    self.stored[base.i()] = true;
                }
                self.note(v, None, "a runtime kernel");
            }
            Def::Pieces { pieces, overlap } => {
                self.stored[v.i()] = true;
                let whole = self.memory().strides(v);
                let mut first = None;
                for piece in pieces {
                    let (dims, roles) = roles(self.p.sizes(piece.src));
                    let (mut offset, mut strides) = (0, Dims::new());
                    for d in 0..whole.len() {
                        offset += piece.start[d] * whole[d];
                        strides.push(piece.step[d] * whole[d]);
                    }
                    let target = Target {
                        buffer: v,
                        offset,
                        strides,
                    };
                    let item = Item::Store {
                        value: piece.src,
                        target,
                        roles,
                    };
                    let g = self.new_group(dims, vec![item]);
                    if *overlap {
                        self.fixed.insert(g);
                    }
                    first = first.or(Some(g));
                    self.member.entry(piece.src).or_default().push(g);
                    self.require(piece.src, g);
                }
                self.note(v, first, "stored piece by piece");
            }
            Def::Reduce { .. } | Def::ArgReduce { .. } => self.visit_fold(v, forced),
            _ if self.hosts[v.i()].is_empty() && !forced => {}
            _ => self.visit_inlinable(v, &def, forced),
        }
    }

    fn new_group(&mut self, dims: Vec<i64>, items: Vec<Item>) -> usize {
        self.groups.push(Some(Group {
            on_grid: vec![true; dims.len()],
            dims,
            items,
            inlined: 0,
        }));
        self.groups.len() - 1
    }

    fn visit_fold(&mut self, v: V, forced: bool) {
        let hosts: Vec<usize> = self.hosts[v.i()].iter().copied().collect();
        if hosts.is_empty() && !forced {
            return;
        }
        let src = self.p.operands(v)[0];
        if self.folds_folds(v, src) {
            let base = demanded(self.p, src, &self.demands.strides);
            self.forced.insert(base);
            self.stored[base.i()] = true;
        }
        if let (false, [host]) = (forced, &hosts[..])
            && !self.alone.contains(&v)
            && self.fold_into(v, *host)
        {
            self.require(src, *host);
            self.note(v, Some(*host), "a stage of the kernel that needs it");
            return;
        }
        self.stored[v.i()] = true;
        let reason = match (forced, hosts.len()) {
            (true, _) => "stored: a result, an operand of a runtime kernel, or folded further",
            (_, 1) => "stored: its consumer needs it at other grid points",
            _ => "stored: several kernels need it",
        };
        let group = match self.join(v, &hosts) {
            Some(g) => g,
            None => {
                let (dims, roles) = roles(self.p.sizes(v));
                let target = self.target(v);
                let fold = Item::Fold {
                    value: v,
                    roles: roles.clone(),
                };
                let store = Item::Store {
                    value: v,
                    target,
                    roles,
                };
                self.new_group(dims, vec![fold, store])
            }
        };
        self.member.entry(v).or_default().push(group);
        self.require(src, group);
        self.note(v, Some(group), reason);
    }

    /// Whether `v` folds over values that are each made by folding (a mean of the rows' losses).
    /// Such values are stored, so that the inner fold has a kernel with a grid point for each.
    fn folds_folds(&self, v: V, src: V) -> bool {
        let n = self.p.numel(src);
        if n <= self.p.numel(v) {
            return false;
        }
        let (mut stack, mut seen) = (vec![src], HashSet::new());
        while let Some(u) = stack.pop() {
            if !seen.insert(u) || seen.len() > 64 || self.p.numel(u) < n {
                continue;
            }
            if self.p.def(u).is_reduction() {
                return true;
            }
            if self.p.def(u).is_inlinable() && !self.stored[u.i()] {
                stack.extend(self.p.operands(u));
            }
        }
        false
    }

    /// Makes `v` a stage of its only host, if that makes a kernel.
    fn fold_into(&mut self, v: V, host: usize) -> bool {
        let Some(group) = self.groups[host].clone() else {
            return false;
        };
        if self.fixed.contains(&host) {
            return false;
        }
        let Ok(seen) = probe(&self.memory(), &group, Some(v)) else {
            return false;
        };
        // the same distinct group dimensions at each place
        let Some(Some(first)) = seen.probed.first().cloned() else {
            return false;
        };
        if seen.probed.iter().any(|p| p.as_ref() != Some(&first)) {
            return false;
        }
        let needed: BTreeSet<usize> = first.iter().flatten().copied().collect();
        if needed.len() != first.iter().flatten().count() {
            return false;
        }
        let mut next = group.clone();
        let has_folds = group.items.iter().any(|i| matches!(i, Item::Fold { .. }));
        if has_folds {
            let grid: BTreeSet<usize> = (0..group.dims.len())
                .filter(|d| group.on_grid[*d])
                .collect();
            if grid != needed {
                return false;
            }
        } else {
            for (d, on) in next.on_grid.iter_mut().enumerate() {
                *on = needed.contains(&d);
            }
        }
        let points: i64 = needed.iter().map(|d| group.dims[*d]).product();
        let work = self.p.numel(self.p.operands(v)[0]);
        if points < FEW_POINTS && work > SERIAL_LIMIT {
            return false;
        }
        next.items.push(Item::Fold {
            value: v,
            roles: first,
        });
        if probe(&self.memory(), &next, None).is_err() {
            return false;
        }
        self.groups[host] = Some(next);
        true
    }

    /// Adds a store of `v` to one of its hosts, if that makes a kernel and no cycle.
    fn join(&mut self, v: V, hosts: &[usize]) -> Option<usize> {
        if self.alone.contains(&v) || self.p.numel(v) == 0 {
            return None;
        }
        let (dims, own) = roles(self.p.sizes(v));
        for host in hosts {
            let Some(group) = self.groups[*host].clone() else {
                continue;
            };
            if self.fixed.contains(host) || self.returns(v, *host) {
                continue;
            }
            let grid: Vec<usize> = (0..group.dims.len())
                .filter(|d| group.on_grid[*d])
                .collect();
            let roles: Vec<Option<usize>> = if dims == group.dims {
                own.clone()
            } else if grid.iter().map(|d| group.dims[*d]).eq(dims.iter().copied()) {
                own.iter().map(|r| r.map(|k| grid[k])).collect()
            } else {
                continue;
            };
            let mut next = group;
            if self.p.def(v).is_reduction() {
                if roles.iter().flatten().count() != grid.len() {
                    continue;
                }
                next.items.push(Item::Fold {
                    value: v,
                    roles: roles.clone(),
                });
            }
            next.items.push(Item::Store {
                value: v,
                target: self.target(v),
                roles,
            });
            if probe(&self.memory(), &next, None).is_ok() {
                self.groups[*host] = Some(next);
                return Some(*host);
            }
        }
        None
    }

    /// Whether something computed from `v` outside the group is needed by the group.
    fn returns(&self, v: V, group: usize) -> bool {
        // (value, whether the way left the group)
        let mut stack: Vec<(V, bool)> = self.uses[v.i()].iter().map(|u| (*u, false)).collect();
        let mut seen: HashSet<(V, bool)> = stack.iter().copied().collect();
        while let Some((u, left)) = stack.pop() {
            let homes = self.member.get(&u).map_or(&[][..], |m| &m[..]);
            if left && homes.contains(&group) {
                return true;
            }
            let mut out = left
                || (self.stored[u.i()] && !homes.contains(&group))
                || matches!(self.p.def(u), Def::Matmul(_) | Def::Extern { .. });
            let mut next: Vec<V> = self.uses[u.i()].clone();
            for h in homes {
                if *h != group {
                    out = true;
                    next.extend(self.after(*h));
                }
            }
            for n in next {
                if seen.insert((n, out)) {
                    stack.push((n, out));
                }
            }
        }
        false
    }

    /// Users of what a group stores.
    fn after(&self, group: usize) -> Vec<V> {
        let Some(g) = &self.groups[group] else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for item in &g.items {
            if let Item::Store { target, .. } = item {
                out.extend(&self.uses[target.buffer.i()]);
            }
        }
        out
    }

    /// Whether group `b` needs something that comes after group `a`.
    fn reaches(&self, a: usize, b: usize) -> bool {
        let mut stack = self.after(a);
        let mut seen: HashSet<V> = stack.iter().copied().collect();
        while let Some(u) = stack.pop() {
            let homes = self.member.get(&u).map_or(&[][..], |m| &m[..]);
            if homes.contains(&b) {
                return true;
            }
            let mut next = self.uses[u.i()].clone();
            for h in homes {
                next.extend(self.after(*h));
            }
            for n in next {
                if seen.insert(n) {
                    stack.push(n);
                }
            }
        }
        false
    }

    fn visit_inlinable(&mut self, v: V, def: &Def, forced: bool) {
        let hosts: Vec<usize> = self.hosts[v.i()].iter().copied().collect();
        let reason = if forced {
            Some("stored: a result, an operand of a runtime kernel, or folded further")
        } else if def.is_view() {
            None
        } else if hosts.len() > 1 && !self.is_cheap(v) {
            Some("stored: several kernels need it and it is not cheap")
        } else if hosts.iter().any(|h| self.is_full(*h)) {
            Some("stored: the kernel that needs it is long enough")
        } else if hosts.iter().any(|h| self.is_repeated(v, *h)) {
            Some("stored: its consumer would compute each element many times")
        } else {
            None
        };
        let Some(reason) = reason else {
            for h in &hosts {
                for o in self.p.operands(v) {
                    self.require(o, *h);
                }
                if let Some(g) = &mut self.groups[*h] {
                    g.inlined += 1;
                }
            }
            let reason = match hosts.len() {
                1 => "computed in place by the kernel that needs it",
                _ => "cheap: computed in place by each kernel that needs it",
            };
            self.note(v, hosts.first().copied(), reason);
            return;
        };
        self.stored[v.i()] = true;
        if self.p.numel(v) == 0 {
            self.note(v, None, "no elements");
            return;
        }
        let open: Vec<usize> = hosts
            .iter()
            .copied()
            .filter(|h| !self.is_full(*h))
            .collect();
        let group = match self.join(v, &open) {
            Some(g) => g,
            None => {
                let (dims, roles) = roles(self.p.sizes(v));
                let target = self.target(v);
                let store = Item::Store {
                    value: v,
                    target,
                    roles,
                };
                self.new_group(dims, vec![store])
            }
        };
        self.member.entry(v).or_default().push(group);
        for o in self.p.operands(v) {
            self.require(o, group);
        }
        if let Some(g) = &mut self.groups[group] {
            g.inlined += 1;
        }
        self.note(v, Some(group), reason);
    }

    fn is_full(&self, group: usize) -> bool {
        self.groups[group]
            .as_ref()
            .is_some_and(|g| g.inlined >= self.cap)
    }

    /// Whether computing an element again costs little more than loading it.
    fn is_cheap(&self, v: V) -> bool {
        let (mut loads, mut ops, mut budget) = (0, 0, 16);
        let mut stack = vec![v];
        let mut seen = HashSet::new();
        while let Some(u) = stack.pop() {
            if !seen.insert(u) {
                continue;
            }
            budget -= 1;
            let def = self.p.def(u);
            if budget == 0 || is_expensive(def) || matches!(def, Def::Gather { .. }) {
                return false;
            }
            if matches!(def, Def::Const(_)) {
                continue;
            }
            if !def.is_inlinable() || self.stored[u.i()] || self.forced.contains(&u) {
                loads += 1;
                continue;
            }
            ops += i32::from(!def.is_view());
            stack.extend(self.p.operands(u));
        }
        loads <= 1 && ops <= 4
    }

    /// Whether a pointwise host would compute an expensive element for many grid points.
    fn is_repeated(&self, v: V, host: usize) -> bool {
        let Some(g) = &self.groups[host] else {
            return false;
        };
        let points: i64 = g.dims.iter().product();
        let innermost = self.p.sizes(v).last().is_some_and(|s| *s > 1);
        is_expensive(self.p.def(v))
            && innermost
            && g.on_grid.iter().all(|on| *on)
            && points >= 8 * self.p.numel(v)
            && points >= 1 << 12
    }
}

/// Decides what is computed where.
pub(crate) fn fuse(
    p: &Program,
    options: &ScheduleOptions,
    demands: &Demands,
) -> Result<Fused, ScheduleError> {
    let mut uses = vec![Vec::new(); p.values.len()];
    for i in 0..p.values.len() {
        let v = V(i as u32);
        if demands.live[i] {
            for o in p.operands(v) {
                uses[o.i()].push(v);
            }
        }
    }
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
    Err(ScheduleError::Unschedulable {
        node: String::new(),
    })
}
