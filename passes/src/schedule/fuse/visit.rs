//! Visits each value: it is computed in place, made a stage, or stored.

use super::{FEW_POINTS, Fuser, SERIAL_LIMIT, demanded};
use crate::ir::Dims;
use crate::schedule::cost::{Again, is_expensive, operations};
use crate::schedule::emit::probe;
use crate::schedule::group::{Group, Item, Target, roles};
use crate::schedule::program::{Def, Piece, Scatter, V};
use std::collections::HashSet;

/// A piece of a scatter's result with more elements than this has left the cache by the time it is
/// completely stored.
const CACHED: i64 = 1 << 19;

impl Fuser<'_> {
    pub(super) fn visit(&mut self, v: V) {
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
                let why = match &def {
                    Def::Extern { call, .. } => self.p.calls[*call as usize].predicted,
                    _ => None,
                };
                let why = why.map_or(String::new(), |p| format!(": {p}"));
                self.note(v, None, format!("a runtime kernel{why}"));
            }
            Def::Pieces { pieces, element: Some(element), .. }
                if !forced && self.is_joined_in_place(v, pieces) =>
            {
                for h in self.hosts[v.i()].clone() {
                    self.require(*element, h);
                    if let Some(g) = &mut self.groups[h] {
                        g.inlined += 1;
                    }
                    self.note(v, Some(h), "joined in place by the kernel that needs it");
                }
            }
            Def::Pieces { pieces, overlap, .. } => {
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
                    let target = Target { buffer: v, offset, strides };
                    let item = Item::Store { value: piece.src, target, roles };
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
            Def::Scatter(s) => self.visit_scatter(v, s, forced),
            _ if self.hosts[v.i()].is_empty() && !forced => {}
            _ => self.visit_inlinable(v, &def, forced),
        }
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
                let fold = Item::Fold { value: v, roles: roles.clone() };
                let store = Item::Store { value: v, target, roles };
                self.new_group(dims, vec![fold, store])
            }
        };
        self.member.entry(v).or_default().push(group);
        self.require(src, group);
        self.note(v, Some(group), reason);
    }

    /// A scatter has a kernel of its own, which computes its base, its indices and its sources in
    /// place.
    fn visit_scatter(&mut self, v: V, s: &Scatter, forced: bool) {
        if self.hosts[v.i()].is_empty() && !forced {
            return;
        }
        self.stored[v.i()] = true;
        if self.p.numel(v) == 0 {
            self.note(v, None, "no elements");
            return;
        }
        let sizes = self.p.get(v).sizes.clone();
        let (dims, roles) = roles(&sizes);
        let target = self.target(v);
        let store = Item::Store { value: s.base, target: target.clone(), roles: roles.clone() };
        let parallel = s.parallel(&sizes);
        let mut on_grid = vec![false; dims.len()];
        for (role, parallel) in roles.iter().zip(&parallel) {
            if let Some(role) = role {
                on_grid[*role] = *parallel;
            }
        }
        let points: i64 =
            (sizes.iter().zip(&parallel)).map(|(n, p)| if *p { *n } else { 1 }).product();
        let mut items = Vec::new();
        // a large base is stored by many threads even where few can scatter into it, and from one
        // end to the other where a piece of it does not stay in a cache
        let n = self.p.numel(v);
        let large = (points < FEW_POINTS && n > SERIAL_LIMIT) || n / points > CACHED;
        let base = if large {
            let base = self.new_group(dims.clone(), vec![store]);
            self.fixed.insert(base);
            self.member.entry(v).or_default().push(base);
            Some(base)
        } else {
            items.push(store);
            None
        };
        items.extend((0..s.passes.len()).map(|pass| Item::Scatter {
            value: v,
            pass,
            target: target.clone(),
            roles: roles.clone(),
        }));
        let sweeps = s.sizes.iter().product();
        let made = Group { dims, on_grid, items, inlined: 0, sweeps };
        let reader = if large { None } else { self.with_reader(v, &made) };
        let group = reader.unwrap_or_else(|| {
            self.groups.push(Some(made));
            self.groups.len() - 1
        });
        self.fixed.insert(group);
        self.member.entry(v).or_default().push(group);
        self.require(s.base, base.unwrap_or(group));
        for o in s.operands().into_iter().skip(1) {
            self.require(o, group);
        }
        let how = match points {
            1 => "its elements one after the other".to_string(),
            n => format!("{n} pieces that never meet, each element after element"),
        };
        let then = if reader.is_some() { ", then what needs it" } else { "" };
        self.note(v, Some(group), format!("a scatter: {how}{then}"));
    }

    /// Makes the scatter `v` the first stages of the only kernel that reads it, if that goes element
    /// by element: each piece is read when it is complete, from a cache.
    fn with_reader(&mut self, v: V, scatter: &Group) -> Option<usize> {
        let mut hosts = self.hosts[v.i()].iter();
        let (Some(&host), None) = (hosts.next(), hosts.next()) else {
            return None;
        };
        let reader = self.groups[host].as_ref()?;
        let stores = |i: &Item| matches!(i, Item::Store { .. });
        let pointwise = reader.on_grid.iter().all(|on| *on) && reader.items.iter().all(stores);
        let barred = self.fixed.contains(&host) || self.alone.contains(&v);
        if !pointwise || barred || reader.dims != scatter.dims || self.returns(v, host) {
            return None;
        }
        let mut both = scatter.clone();
        both.items.extend(reader.items.iter().cloned());
        both.inlined = reader.inlined;
        probe(&self.memory(), &both, None).ok()?;
        self.groups[host] = Some(both);
        Some(host)
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

    fn visit_inlinable(&mut self, v: V, def: &Def, forced: bool) {
        let hosts: Vec<usize> = self.hosts[v.i()].iter().copied().collect();
        let again = (hosts.len() > 1).then(|| self.again(v));
        let reason = if forced {
            Some("stored: a result, an operand of a runtime kernel, or folded further".to_string())
        } else if def.is_view() {
            None
        } else if let Some(again) = again.filter(|a| !a.is_cheap()) {
            Some(format!("stored: several kernels need it, and computing it again takes {again}"))
        } else if hosts.iter().any(|h| self.is_full(*h)) {
            Some("stored: the kernel that needs it is long enough".to_string())
        } else if hosts.iter().any(|h| self.is_repeated(v, *h)) {
            Some("stored: its consumer would compute each element many times".to_string())
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
            let reason = match again {
                None => "computed in place by the kernel that needs it".to_string(),
                Some(again) => {
                    format!("computed in place by each kernel that needs it, with {again}")
                }
            };
            self.note(v, hosts.first().copied(), reason);
            return;
        };
        self.stored[v.i()] = true;
        if self.p.numel(v) == 0 {
            self.note(v, None, "no elements");
            return;
        }
        let open: Vec<usize> = hosts.iter().copied().filter(|h| !self.is_full(*h)).collect();
        let group = match self.join(v, &open) {
            Some(g) => g,
            None => {
                let (dims, roles) = roles(self.p.sizes(v));
                let target = self.target(v);
                let store = Item::Store { value: v, target, roles };
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
        self.groups[group].as_ref().is_some_and(|g| g.inlined >= self.cap)
    }

    /// Whether the only kernel that needs a value put together from pieces may select among them:
    /// each is little more than a load.
    fn is_joined_in_place(&self, v: V, pieces: &[Piece]) -> bool {
        let mut hosts = self.hosts[v.i()].iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        !self.is_full(*host) && pieces.iter().all(|p| self.again(p.src).is_cheap())
    }

    /// What computing an element of `v` again takes.
    fn again(&self, v: V) -> Again {
        let mut again = Again::default();
        let mut stack = vec![v];
        let mut seen = HashSet::new();
        while let Some(u) = stack.pop() {
            if !seen.insert(u) {
                continue;
            }
            let def = self.p.def(u);
            if seen.len() > 16 || matches!(def, Def::Gather { .. }) {
                again.unbounded = true;
                return again;
            }
            if matches!(def, Def::Const(_)) {
                continue;
            }
            if !def.is_inlinable() || self.stored[u.i()] || self.forced.contains(&u) {
                again.loads += 1;
                continue;
            }
            again.operations += operations(def);
            stack.extend(self.p.operands(u));
        }
        again
    }

    /// Whether a pointwise host would compute an expensive element for many grid points.
    fn is_repeated(&self, v: V, host: usize) -> bool {
        let Some(g) = &self.groups[host] else {
            return false;
        };
        let points: i64 = g.dims.iter().product::<i64>().max(g.sweeps);
        let innermost = self.p.sizes(v).last().is_some_and(|s| *s > 1);
        is_expensive(self.p.def(v))
            && innermost
            && (g.sweeps > 0 || g.on_grid.iter().all(|on| *on))
            && points >= 8 * self.p.numel(v)
            && points >= 1 << 12
    }
}
