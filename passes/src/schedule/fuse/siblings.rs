//! Kernels over one grid that read the same memory become one.

use super::Fuser;
use crate::schedule::emit::probe;
use crate::schedule::order;
use crate::schedule::program::V;
use std::collections::{BTreeSet, HashMap};

/// So many elements that several kernels read save nothing if they are read once: a learning rate.
const LONE: i64 = 16;
/// Grids of at most so many points become one whatever they share: starting a kernel costs more.
const SMALL: i64 = 4096;

impl Fuser<'_> {
    /// Puts groups over the same grid that read the same memory into one kernel.
    pub(super) fn merge_siblings(&mut self) {
        let mut buckets: HashMap<(Vec<i64>, Vec<bool>), Vec<usize>> = HashMap::new();
        for (i, g) in self.groups.iter().enumerate() {
            if let Some(g) = g
                && !self.fixed.contains(&i)
            {
                let key = (g.dims.clone(), g.on_grid.clone());
                buckets.entry(key).or_default().push(i);
            }
        }
        let mut buckets: Vec<Vec<usize>> = buckets.into_values().filter(|b| b.len() > 1).collect();
        buckets.sort();
        for mut bucket in buckets {
            // later groups first, so that neighbours in the program meet
            bucket.sort_unstable();
            let mut reads: HashMap<usize, BTreeSet<u32>> = HashMap::new();
            for g in &bucket {
                reads.insert(*g, self.reads(*g));
            }
            for (k, a) in bucket.iter().enumerate() {
                for b in bucket[k + 1..].iter().take(8) {
                    let (Some(ga), Some(gb)) = (&self.groups[*a], &self.groups[*b]) else {
                        continue;
                    };
                    let small = ga.dims.iter().product::<i64>() <= SMALL;
                    let shared = |v: &&u32| small || self.p.numel(V(**v)) > LONE;
                    let related = reads[a].intersection(&reads[b]).any(|v| shared(&v));
                    if !related
                        || ga.inlined + gb.inlined > self.cap
                        || self.reaches(*a, *b)
                        || self.reaches(*b, *a)
                    {
                        continue;
                    }
                    let mut both = ga.clone();
                    both.items.extend(gb.items.iter().cloned());
                    both.inlined += gb.inlined;
                    if probe(&self.memory(), &both, None).is_err() {
                        continue;
                    }
                    self.groups[*a] = Some(both);
                    self.groups[*b] = None;
                    for homes in self.member.values_mut() {
                        for h in homes.iter_mut().filter(|h| **h == *b) {
                            *h = *a;
                        }
                    }
                    for fate in self.fates.values_mut() {
                        if fate.group == Some(*b) {
                            fate.group = Some(*a);
                        }
                    }
                    let more = reads.remove(b).unwrap_or_default();
                    reads.entry(*a).or_default().extend(more.iter().copied());
                    reads.insert(*b, more);
                }
            }
        }
    }

    fn reads(&self, group: usize) -> BTreeSet<u32> {
        let Some(g) = &self.groups[group] else {
            return BTreeSet::new();
        };
        match probe(&self.memory(), g, None) {
            Ok(e) => order::loads(&e).collect(),
            Err(_) => BTreeSet::new(),
        }
    }
}
