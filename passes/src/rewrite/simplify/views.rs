//! Views of views, and slices and concatenations of everything.

use crate::ir::graph::Arg;
use crate::ir::layout::contiguous_strides;
use crate::ir::verify::shapes::{slice_range, wrap_dim};
use crate::rewrite::rule::rules;
use crate::rewrite::site::{Producer, Site};
use egg::Id;

/// Views that keep the elements in order.
const RESHAPES: &[&str] = &[
    "aten::view",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::unsqueeze",
    "aten::squeeze",
    "aten::squeeze.dim",
    "aten::squeeze.dims",
];

const PERMUTATIONS: &[&str] = &["aten::t", "aten::transpose.int", "aten::permute"];

rules! { Simplify:
    "whole_view", "a view, an expansion or a slice to the sizes and strides it has already is the value itself",
        ["aten::view", "aten::_unsafe_view", "aten::reshape", "aten::expand", "aten::slice.Tensor",
         "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims"] => One(whole_view);
    "view_back", "a view back to the sizes from before is what was before",
        ["aten::view", "aten::_unsafe_view", "aten::reshape", "aten::unsqueeze",
         "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims"] => One(view_back);
    "view_of_view", "a view of a view of row-major elements is one view",
        ["aten::view", "aten::_unsafe_view", "aten::reshape"] => One(view_of_view);
    "permute_identity", "dimensions in their own order",
        ["aten::t", "aten::transpose.int", "aten::permute"] => One(permute_identity);
    "permute_of_permute", "one permutation after another is one permutation",
        ["aten::t", "aten::transpose.int", "aten::permute"] => One(permute_of_permute);
    "expand_of_expand", "an expansion of an expansion is one expansion",
        ["aten::expand"] => One(expand_of_expand);
    "slice_of_slice", "a slice of a slice along the same dimension is one slice",
        ["aten::slice.Tensor"] => One(slice_of_slice);
    "cat_one", "a concatenation of one tensor is that tensor",
        ["aten::cat"] => One(cat_one);
    "scatter_whole", "writing over everything leaves what was written",
        ["aten::slice_scatter"] => One(scatter_whole);
}

fn whole_view(s: &mut Site<'_>) -> Option<Id> {
    s.exactly(s.tensor(0)?)
}

fn view_back(s: &mut Site<'_>) -> Option<Id> {
    let base = s.producer(s.tensor(0)?, RESHAPES)?.tensor(0)?;
    s.exactly(base)
}

fn view_of_view(s: &mut Site<'_>) -> Option<Id> {
    let base = s.producer(s.tensor(0)?, RESHAPES)?.tensor(0)?;
    let out = s.out().clone();
    // in general whether a view exists depends on the strides between
    let row_major = s.meta(base).is_contiguous() && out.strides == contiguous_strides(&out.sizes);
    if !row_major || s.meta(base).sizes == out.sizes {
        return None;
    }
    Some(s.reshape(base, &out.sizes))
}

/// What a permutation does: for each dimension of its result, that of its operand.
fn order(
    op: &str,
    rank: usize,
    int: impl Fn(&str) -> Option<i64>,
    dims: impl Fn() -> Option<Vec<i64>>,
) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..rank).collect();
    match op {
        "aten::t" => order.reverse(),
        "aten::transpose.int" => {
            let (a, b) = (wrap_dim(int("dim0")?, rank)?, wrap_dim(int("dim1")?, rank)?);
            if rank > 0 {
                order.swap(a, b);
            }
        }
        _ => {
            order = (dims()?.into_iter())
                .map(|d| wrap_dim(d, rank))
                .collect::<Option<_>>()?;
        }
    }
    (order.len() == rank).then_some(order)
}

fn own_order(s: &Site<'_>) -> Option<Vec<usize>> {
    let rank = s.out().sizes.len();
    order(s.op(), rank, |n| s.int(n), || s.ints("dims"))
}

fn producer_order(p: &Producer) -> Option<Vec<usize>> {
    let rank = p.call.results[0].sizes.len();
    let int = |n: &str| p.arg(n).and_then(Arg::as_int);
    let dims = || p.arg("dims").and_then(Arg::as_ints);
    order(&p.call.op, rank, int, dims)
}

fn is_identity(order: &[usize]) -> bool {
    order.iter().enumerate().all(|(i, d)| i == *d)
}

fn permute_identity(s: &mut Site<'_>) -> Option<Id> {
    if !is_identity(&own_order(s)?) {
        return None;
    }
    s.exactly(s.tensor(0)?)
}

fn permute_of_permute(s: &mut Site<'_>) -> Option<Id> {
    let inner = s.producer(s.tensor(0)?, PERMUTATIONS)?;
    let base = inner.tensor(0)?;
    let first = producer_order(&inner)?;
    let composed: Vec<usize> = own_order(s)?.into_iter().map(|d| first[d]).collect();
    if is_identity(&composed) {
        return s.exactly(base);
    }
    let y = s.permute(base, &composed);
    s.exactly(y)
}

fn expand_of_expand(s: &mut Site<'_>) -> Option<Id> {
    let base = s.producer(s.tensor(0)?, &["aten::expand"])?.tensor(0)?;
    let sizes = s.out().sizes.clone();
    let y = s.expand(base, &sizes);
    s.exactly(y)
}

/// The range of a slice with step 1, and its dimension.
fn range(
    int: impl Fn(&str) -> Option<i64>,
    sizes: &[i64],
) -> Option<(usize, std::ops::Range<i64>)> {
    if int("step").unwrap_or(1) != 1 || sizes.is_empty() {
        return None;
    }
    let dim = wrap_dim(int("dim").unwrap_or(0), sizes.len())?;
    let (start, end) = (int("start").unwrap_or(0), int("end").unwrap_or(i64::MAX));
    Some((dim, slice_range(sizes[dim], start, end)))
}

fn slice_of_slice(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let inner = s.producer(x, &["aten::slice.Tensor"])?;
    let base = inner.tensor(0)?;
    let (dim, outer) = range(|n| s.int(n), &s.meta(x).sizes)?;
    let int = |n: &str| inner.arg(n).and_then(Arg::as_int);
    let (inner_dim, first) = range(int, &s.meta(base).sizes)?;
    if inner_dim != dim {
        return None;
    }
    let y = s.slice(
        base,
        dim,
        first.start + outer.start,
        first.start + outer.end,
    );
    s.exactly(y)
}

fn cat_one(s: &mut Site<'_>) -> Option<Id> {
    match s.tensors(0)?[..] {
        [x] => s.exactly(x),
        _ => None,
    }
}

fn scatter_whole(s: &mut Site<'_>) -> Option<Id> {
    // slice_scatter(self, src, ...): a source of the result's sizes covers all of it
    s.exactly(s.tensor(1)?)
}
