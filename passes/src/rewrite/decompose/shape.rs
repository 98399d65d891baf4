//! Joining and splitting.

use crate::ir::Op;
use crate::ir::args;
use crate::ir::view::wrap_dim;
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "stack", "a stack is a concatenation along a new dimension",
        [Op::stack] => One(stack);
    "split", "the parts of a split are slices",
        [Op::split_Tensor, Op::split_with_sizes, Op::chunk] => Many(split);
    "unbind", "the parts of an unbind are selections",
        [Op::unbind_int] => Many(unbind);
    "squeeze", "squeezing everything squeezes each dimension of size 1",
        [Op::squeeze] => One(squeeze);
}

fn stack(s: &mut Site<'_>) -> Option<Id> {
    let args::stack { tensors: parts, dim } = s.args()?;
    let sizes = s.meta(*parts.first()?).sizes.clone();
    let rank = sizes.len();
    if parts.iter().any(|p| s.meta(*p).sizes != sizes) {
        return None;
    }
    let dim = wrap_dim(dim, rank + 1).ok()?;
    let dtype = s.out().dtype;
    let parts: Vec<Id> = (parts.into_iter())
        .map(|p| {
            let p = s.convert(p, dtype);
            s.unsqueeze(p, dim)
        })
        .collect();
    Some(s.cat(&parts, dim))
}

fn split(s: &mut Site<'_>) -> Option<Replacements> {
    let x = s.tensor(0)?;
    let rank = s.meta(x).sizes.len();
    let dim = match s.int("dim") {
        Some(_) => s.dim("dim", rank)?,
        None => 0,
    };
    // the sizes of the parts are those of the results
    let call = s.call.clone();
    let mut start = 0;
    let mut parts = Replacements::new();
    for meta in call.results.iter() {
        let end = i64::checked_add(start, *meta.sizes.get(dim)?)?;
        s.meta(x).sizes.get(dim)?;
        parts.push(Some(s.slice(x, dim, start, end)));
        start = end;
    }
    (s.meta(x).sizes.get(dim) == Some(&start)).then_some(parts)
}

fn unbind(s: &mut Site<'_>) -> Option<Replacements> {
    let args::unbind_int { self_: x, dim } = s.args()?;
    let dim = wrap_dim(dim, s.meta(x).sizes.len()).ok()?;
    let count = *s.meta(x).sizes.get(dim)?;
    if count != s.call.results.len() as i64 {
        return None;
    }
    Some((0..count).map(|i| Some(s.select_index(x, dim, i))).collect())
}

fn squeeze(s: &mut Site<'_>) -> Option<Id> {
    let args::squeeze { self_ } = s.args()?;
    let sizes = &s.meta(self_).sizes;
    let dims = (0..sizes.len() as i64).filter(|d| sizes[*d as usize] == 1);
    let dim = dims.collect();
    let meta = s.out().clone();
    Some(s.call_as(args::squeeze_dims { self_, dim }, meta))
}
