//! Applying rules until nothing changes or a limit is reached.
//!
//! Each round looks only at the calls that are new and at the users of classes that changed, so a
//! round costs what the last one changed. Decompositions are no matter of limits: they go down a
//! finite ladder from composites to primitives, and a graph must not depend on how busy the
//! machine was, so they are always carried out in full.

use super::analysis::{Graph, Origin};
use super::language::{CallInfo, Term};
use super::options::RewriteOptions;
use super::registry::rules_for;
use super::report::StopReason;
use super::rule::{Apply, Rule, RuleSet};
use super::site::Site;
use crate::ir::Scalar;
use crate::ir::TensorMeta;
use egg::Id;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Instant;

/// How a saturation went.
pub(super) struct Outcome {
    pub stop: StopReason,
    pub iterations: usize,
    pub fired: Vec<(&'static str, usize)>,
}

/// Applies the rules that the options switch on.
pub(super) fn saturate(egraph: &mut Graph, options: &RewriteOptions) -> Outcome {
    let start = Instant::now();
    let mut fired: BTreeMap<(RuleSet, &'static str), usize> = BTreeMap::new();
    let mut iterations = 0;
    let mut stop = None;
    let mut seen = 0;
    let mut again: Vec<Id> = Vec::new();
    loop {
        let end = egraph.nodes().len();
        let mut work: Vec<Id> = (seen..end).map(Id::from).collect();
        work.append(&mut again);
        seen = end;
        if work.is_empty() {
            break;
        }
        iterations += 1;
        if stop.is_none() && iterations > options.iteration_limit {
            stop = Some(StopReason::IterationLimit);
        }
        work.sort_unstable();
        work.dedup();
        let mut touched: Vec<Id> = Vec::new();
        for (count, id) in work.into_iter().enumerate() {
            if stop.is_none() {
                // a clock read costs as much as a rule
                if count % 16 == 0 && start.elapsed() > options.time_limit {
                    stop = Some(StopReason::TimeLimit);
                } else if egraph.nodes().len() > options.node_limit {
                    stop = Some(StopReason::NodeLimit);
                }
            }
            let Term::Call(c, children) = egraph.id_to_node(id) else {
                continue;
            };
            let call = egraph.analysis.interner.call(*c).clone();
            let rules = rules_for(call.op);
            if rules.is_empty() || is_complex(egraph, &call, children) {
                continue;
            }
            let children = children.iter().map(|c| egraph.find(*c)).collect();
            let mut site = Site { egraph, call, children, misfit: Cell::new(false) };
            for rule in rules {
                let limited = rule.set != RuleSet::Decompose && stop.is_some();
                if !limited
                    && enabled(options, rule, &site.call)
                    && apply(&mut site, rule, id, &mut touched)
                {
                    *fired.entry((rule.set, rule.name)).or_default() += 1;
                }
            }
        }
        if egraph.rebuild() > 0 {
            // calls became equal because their operands did: who they feed is not tracked
            again = (0..seen).map(Id::from).collect();
        } else {
            for id in touched {
                again.extend(egraph[id].parents());
            }
        }
    }
    let fired = fired.into_iter().map(|((_, name), n)| (name, n)).collect();
    Outcome { stop: stop.unwrap_or(StopReason::Saturated), iterations, fired }
}

/// Whether complex numbers take part in a call. The laws of the rules are those of real arithmetic,
/// and what they build is meant for loops, which have no complex form: such calls stay as they are.
fn is_complex(egraph: &Graph, call: &CallInfo, children: &[Id]) -> bool {
    let complex = |m: &TensorMeta| m.dtype.is_complex();
    call.results.iter().any(complex)
        || call.args.iter().any(|a| a.as_scalar().is_some_and(Scalar::is_complex))
        || children.iter().any(|c| egraph[*c].data.results.iter().any(complex))
}

/// Whether a rule may look at a call.
fn enabled(options: &RewriteOptions, rule: &Rule, call: &CallInfo) -> bool {
    match rule.set {
        RuleSet::Decompose => is_composite(options, call),
        RuleSet::Simplify => options.simplify,
        RuleSet::FastMath => options.fast_math,
    }
}

/// Whether a call is to be decomposed.
pub(super) fn is_composite(options: &RewriteOptions, call: &CallInfo) -> bool {
    options.decompose
        && rules_for(call.op).iter().any(|r| r.set == RuleSet::Decompose)
        && !options.keep.contains(&call.op)
}

/// Applies one rule to one call; whether anything changed. Classes that grew are added to
/// `touched`.
fn apply(site: &mut Site<'_>, rule: &Rule, id: Id, touched: &mut Vec<Id>) -> bool {
    site.misfit.set(false);
    let class = site.egraph.find(id);
    let origin = site.egraph[class].data.origin;
    site.egraph.analysis.origin = Origin { derived: true, ..origin };
    let mut union = |site: &mut Site<'_>, old: Id, new: Id| {
        let changed = site.egraph.union(old, new);
        if changed {
            touched.push(old);
        }
        changed
    };
    match rule.apply {
        // a call with another number of results than its operator has is left alone
        Apply::One(_) if site.call.results.len() != 1 => false,
        Apply::Many(_) if site.call.results.is_empty() => false,
        Apply::One(f) => {
            let Some(new) = f(site) else { return false };
            if site.misfit.replace(false) {
                return false;
            }
            let want = site.call.results[0].clone();
            site.finish(new, &want).is_some_and(|new| union(site, class, new))
        }
        Apply::Many(f) => {
            let Some(results) = f(site) else { return false };
            if site.misfit.replace(false) {
                return false;
            }
            let mut changed = false;
            for (i, new) in results.into_iter().enumerate() {
                let (Some(new), Some(want)) = (new, site.call.results.get(i).cloned()) else {
                    continue;
                };
                let Some(new) = site.finish(new, &want) else {
                    continue;
                };
                let old = site.egraph.add(Term::Result(i as u32, [class]));
                changed |= union(site, old, new);
            }
            changed
        }
    }
}

/// The number of distinct e-nodes.
pub(super) fn count_nodes(egraph: &Graph) -> usize {
    egraph.classes().map(|c| c.nodes.len()).sum()
}
