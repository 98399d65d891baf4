//! Whether a value can share a group's kernel, and whether that would make a cycle of steps.

use super::{FEW_POINTS, Fuser, SERIAL_LIMIT};
use crate::schedule::emit::probe;
use crate::schedule::group::{Group, Item, roles};
use crate::schedule::program::{Def, V};
use std::collections::{BTreeSet, HashSet};

impl Fuser<'_> {
    /// Makes `v` a stage of its only host, if that makes a kernel.
    pub(super) fn fold_into(&mut self, v: V, host: usize) -> bool {
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
            let grid: BTreeSet<usize> =
                (0..group.dims.len()).filter(|d| group.on_grid[*d]).collect();
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
        next.items.push(Item::Fold { value: v, roles: first });
        if probe(&self.memory(), &next, None).is_err() {
            return false;
        }
        self.groups[host] = Some(next);
        true
    }

    /// Adds a store of `v` to one of its hosts, if that makes a kernel and no cycle.
    pub(super) fn join(&mut self, v: V, hosts: &[usize]) -> Option<usize> {
        if self.alone.contains(&v) || self.p.numel(v) == 0 {
            return None;
        }
        let (dims, own) = roles(self.p.sizes(v));
        for host in hosts {
            let Some(group) = &self.groups[*host] else {
                continue;
            };
            if self.fixed.contains(host) {
                continue;
            }
            let grid: Vec<usize> = (0..group.dims.len()).filter(|d| group.on_grid[*d]).collect();
            let roles: Vec<Option<usize>> = if dims == group.dims {
                own.clone()
            } else if grid.iter().map(|d| group.dims[*d]).eq(dims.iter().copied()) {
                own.iter().map(|r| r.map(|k| grid[k])).collect()
            } else {
                continue;
            };
            let folds = self.p.def(v).is_reduction();
            if folds && roles.iter().flatten().count() != grid.len() {
                continue;
            }
            // last, as it may look at all that follows
            if self.returns(v, *host) {
                continue;
            }
            let mut next = group.clone();
            if folds {
                next.items.push(Item::Fold { value: v, roles: roles.clone() });
            }
            next.items.push(Item::Store { value: v, target: self.target(v), roles });
            if probe(&self.memory(), &next, None).is_ok() {
                self.groups[*host] = Some(next);
                return Some(*host);
            }
        }
        None
    }

    /// Whether something computed from `v` outside the group is needed by the group.
    pub(super) fn returns(&self, v: V, group: usize) -> bool {
        let horizon = self.horizon(group);
        // (value, whether the way left the group)
        let mut stack: Vec<(V, bool)> = self.uses[v.i()].iter().map(|u| (*u, false)).collect();
        let mut seen: HashSet<(V, bool)> = stack.iter().copied().collect();
        while let Some((u, left)) = stack.pop() {
            if u.i() > horizon {
                continue;
            }
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

    /// The users of the values that a group stores.
    pub(super) fn after(&self, group: usize) -> Vec<V> {
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

    /// No path leads from values beyond this one to the group. Paths go from a value to its users,
    /// whose numbers are larger, and from a group to the users of any of its stores: back to the
    /// first of them at most.
    fn horizon(&self, group: usize) -> usize {
        let span = |g: &Group| {
            let stores = g.items.iter().filter_map(|item| match item {
                Item::Store { value, target, .. } => Some((target.buffer.i(), value.i())),
                _ => None,
            });
            stores.fold((usize::MAX, 0), |(first, last), (buffer, value)| {
                (first.min(buffer), last.max(value).max(buffer))
            })
        };
        let mut horizon = self.groups[group].as_ref().map_or(0, |g| span(g).1);
        let others = self.groups.iter().enumerate();
        let others: Vec<(usize, usize)> = (others.filter(|(g, _)| *g != group))
            .filter_map(|(_, g)| g.as_ref().map(span))
            .collect();
        loop {
            let across = others.iter().filter(|(first, _)| *first < horizon);
            let last = across.map(|(_, last)| *last).max().unwrap_or(0);
            if last <= horizon {
                return horizon;
            }
            horizon = last;
        }
    }

    /// Whether group `b` needs something that comes after group `a`.
    pub(super) fn reaches(&self, a: usize, b: usize) -> bool {
        let horizon = self.horizon(b);
        let mut stack = self.after(a);
        let mut seen: HashSet<V> = stack.iter().copied().collect();
        while let Some(u) = stack.pop() {
            if u.i() > horizon {
                continue;
            }
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
}
