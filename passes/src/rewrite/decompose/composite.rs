//! Operators that their entries in the catalogue define as one call of another operator.

use crate::ir::{Arg, Op};
use crate::rewrite::rule::{Apply, Rule, RuleSet};
use crate::rewrite::site::Site;
use egg::Id;

pub(in crate::rewrite) const RULES: &[Rule] = &[Rule {
    name: "composite",
    law: "an operator that its entry defines as a call of another one is that call",
    ops: Op::composites(),
    set: RuleSet::Decompose,
    apply: Apply::One(call),
}];

fn call(s: &mut Site<'_>) -> Option<Id> {
    let own: Vec<Arg<Id>> =
        (s.call.args.iter()).map(|a| a.map(|at| s.children[*at as usize])).collect();
    let definition = s.op().composite()?;
    let (op, args) = definition.call(&own, |id| Some(s.meta(*id)))?;
    if s.op().facts().mutable {
        return None;
    }
    let meta = s.out().clone();
    Some(s.call_op(op, &args, &[meta]))
}
