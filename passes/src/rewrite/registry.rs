//! Every rule, and the index that finds those of an operator.

use super::rule::Rule;
use super::{decompose, fast_math, simplify};
use crate::ir::Op;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Every rule: those of formulas and of composites, then the tables in their order.
pub fn all_rules() -> impl Iterator<Item = &'static Rule> {
    let tables = [decompose::TABLES, simplify::TABLES, &[fast_math::RULES]];
    let tables = tables.into_iter().flatten().copied().flatten();
    let formulas = crate::formula::all().map(|f| &f.rule);
    formulas.chain(crate::compose::RULES).chain(tables)
}

/// The rules that look at an operator.
pub fn rules_for(op: Op) -> &'static [&'static Rule] {
    static INDEX: OnceLock<HashMap<Op, Vec<&'static Rule>>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let mut index: HashMap<_, Vec<_>> = HashMap::new();
        for rule in all_rules() {
            for op in rule.ops {
                index.entry(*op).or_default().push(rule);
            }
        }
        index
    });
    index.get(&op).map_or(&[], Vec::as_slice)
}
