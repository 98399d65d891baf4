//! Choosing one form of each value.
//!
//! The cost of a form is its own cost plus that of its *dearest* operand (the critical path), with
//! its own cost plus its operands' own costs to break ties. A sum over the expression tree would
//! count shared operands again at each use, which doubles with every residual connection and
//! overflows on deep networks; the critical path grows linearly, strictly increases from operand
//! to user (so no choice is cyclic), and compares well as rules replace forms locally.
//!
//! A worklist visits a class again only when an operand became cheaper.

use super::analysis::Graph;
use super::cost;
use super::language::{CallInfo, Term};
use egg::{Id, Language};
use std::collections::VecDeque;

/// The chosen form of every class.
#[derive(Debug)]
pub(super) struct Choice {
    /// By class id: the position among the class's forms.
    chosen: Vec<u32>,
}

impl Choice {
    /// The chosen form of a class (its canonical id) and the form's operands.
    pub(super) fn term<'g>(&self, egraph: &'g Graph, class: Id) -> (&'g Term, &'g [Id]) {
        let term = &egraph[class].nodes[self.chosen[usize::from(class)] as usize];
        (term, term.children())
    }
}

/// What reaching a class costs, and what its chosen form costs by itself.
#[derive(Clone, Copy)]
struct Cost {
    path: u64,
    tie: u64,
    own: u64,
}

/// Chooses the cheapest forms. `composite` tells which operators are being decomposed.
pub(super) fn extract(egraph: &Graph, composite: impl Fn(&CallInfo) -> bool) -> Choice {
    let slots = egraph.nodes().len();
    let own_cost = |term: &Term| match term {
        Term::Call(c, _) => {
            let call = egraph.analysis.interner.call(*c);
            if composite(call) { cost::COMPOSITE } else { cost::op_cost(call.op) }
        }
        // so that an operator with a number is preferred to one with a constant tensor
        Term::Constant(_) => 1,
        _ => 0,
    };
    let mut users: Vec<Vec<Id>> = vec![Vec::new(); slots];
    let mut own: Vec<Vec<u64>> = vec![Vec::new(); slots];
    let mut queue: VecDeque<Id> = VecDeque::with_capacity(slots);
    let mut queued = vec![false; slots];
    let mut classes: Vec<Id> = egraph.classes().map(|c| c.id).collect();
    // older classes first: operands mostly come before their users
    classes.sort_unstable();
    for &id in &classes {
        let class = &egraph[id];
        own[usize::from(id)] = class.nodes.iter().map(own_cost).collect();
        for c in class.nodes.iter().flat_map(Language::children) {
            let users = &mut users[usize::from(egraph.find(*c))];
            if users.last() != Some(&id) {
                users.push(id);
            }
        }
        queue.push_back(id);
        queued[usize::from(id)] = true;
    }
    let mut best: Vec<Option<Cost>> = vec![None; slots];
    let mut chosen = vec![0u32; slots];
    while let Some(id) = queue.pop_front() {
        let at = usize::from(id);
        queued[at] = false;
        let mut improved = false;
        'forms: for (i, term) in egraph[id].nodes.iter().enumerate() {
            let own = own[at][i];
            let (mut path, mut operands) = (0u64, 0u64);
            let children = term.children();
            for (k, c) in children.iter().enumerate() {
                let c = egraph.find(*c);
                let Some(cost) = best[usize::from(c)] else {
                    continue 'forms;
                };
                path = path.max(cost.path);
                if !children[..k].iter().any(|d| egraph.find(*d) == c) {
                    operands += cost.own;
                }
            }
            let new =
                Cost { path: path.saturating_add(own), tie: operands.saturating_add(own), own };
            if best[at].is_none_or(|b| (new.path, new.tie) < (b.path, b.tie)) {
                best[at] = Some(new);
                chosen[at] = i as u32;
                improved = true;
            }
        }
        if improved {
            for &user in &users[at] {
                if !std::mem::replace(&mut queued[usize::from(user)], true) {
                    queue.push_back(user);
                }
            }
        }
    }
    Choice { chosen }
}
