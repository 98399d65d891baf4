//! Splitting: views of parts.

use crate::ir::Op;
use crate::ir::view::{ViewMap, parts_of};
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "split", "the parts of a split are slices",
        [Op::split_Tensor, Op::split_with_sizes, Op::chunk] => Many(parts);
    "unbind", "the parts of an unbind are selections",
        [Op::unbind_int] => Many(parts);
    "squeeze", "squeezing everything squeezes each dimension of size 1",
        [Op::squeeze] => One(squeeze);
}

fn parts(s: &mut Site<'_>) -> Option<Replacements> {
    let x = s.tensor(0)?;
    let maps = parts_of(s.op(), &s.call.args, &s.meta(x).sizes)?.ok()?;
    (maps.len() == s.call.results.len()).then_some(())?;
    Some(maps.iter().map(|map| Some(s.viewed(x, map))).collect())
}

fn squeeze(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let map = ViewMap::squeeze(&s.meta(x).sizes, None).ok()?;
    Some(s.viewed(x, &map))
}
