//! Views of views, and slices and concatenations of everything.

use crate::ir::Op;
use crate::ir::layout::contiguous_strides;
use crate::ir::view::ViewMap;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

/// Views that keep the elements in order.
const RESHAPES: &[Op] = &[
    Op::view,
    Op::_unsafe_view,
    Op::reshape,
    Op::unsqueeze,
    Op::squeeze,
    Op::squeeze_dim,
    Op::squeeze_dims,
];

const PERMUTATIONS: &[Op] = &[Op::t, Op::transpose_int, Op::permute];

rules! { Simplify:
    "whole_view", "a view, an expansion or a slice to the sizes and strides it has already is the value itself",
        [Op::view, Op::_unsafe_view, Op::reshape, Op::expand, Op::slice_Tensor,
         Op::squeeze, Op::squeeze_dim, Op::squeeze_dims] => One(whole_view);
    "view_back", "a view back to the sizes from before is what was before",
        [Op::view, Op::_unsafe_view, Op::reshape, Op::unsqueeze,
         Op::squeeze, Op::squeeze_dim, Op::squeeze_dims] => One(view_back);
    "view_of_view", "a view of a view of row-major elements is one view",
        [Op::view, Op::_unsafe_view, Op::reshape] => One(view_of_view);
    "permute_identity", "dimensions in their own order",
        [Op::t, Op::transpose_int, Op::permute] => One(permute_identity);
    "permute_of_permute", "one permutation after another is one permutation",
        [Op::t, Op::transpose_int, Op::permute] => One(permute_of_permute);
    "expand_of_expand", "an expansion of an expansion is one expansion",
        [Op::expand] => One(expand_of_expand);
    "slice_of_slice", "a slice of a slice along the same dimension is one slice",
        [Op::slice_Tensor] => One(slice_of_slice);
    "cat_one", "a concatenation of one tensor is that tensor",
        [Op::cat] => One(cat_one);
    "scatter_whole", "writing over everything leaves what was written",
        [Op::slice_scatter] => One(scatter_whole);
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

fn permute_identity(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    s.view()?.is_identity(&s.meta(x).sizes).then_some(())?;
    s.exactly(x)
}

/// One view in place of this one and the view that it is of, made by one of these.
fn composed(s: &mut Site<'_>, inner: &[Op]) -> Option<Id> {
    let inner = s.producer(s.tensor(0)?, inner)?;
    let base = inner.tensor(0)?;
    let first = inner.view_of(&s.meta(base).sizes)?;
    let both = first.then(&s.view()?)?;
    let y = s.viewed(base, &both);
    s.exactly(y)
}

fn permute_of_permute(s: &mut Site<'_>) -> Option<Id> {
    composed(s, PERMUTATIONS)
}

fn expand_of_expand(s: &mut Site<'_>) -> Option<Id> {
    composed(s, &[Op::expand])
}

fn slice_of_slice(s: &mut Site<'_>) -> Option<Id> {
    // with steps the one slice is no cheaper to read than the two
    matches!(s.view()?, ViewMap::Slice { step: 1, .. }).then_some(())?;
    composed(s, &[Op::slice_Tensor])
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
