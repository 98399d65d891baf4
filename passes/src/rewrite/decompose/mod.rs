//! Composite operators to the primitives that the scheduler lowers.
//!
//! A rule fires on every call of its operator, except where `RewriteOptions::keep` names it.
//! Composites on half types compute in `f32` and round once, at the end, as PyTorch's kernels do
//! (`opmath`): a rule lifts its operands first and converts its result last.
//!
//! Pointwise operators are not here: their rules come from the table of
//! [formulas](crate::formula::table), which eager kernels execute too.

mod activation;
mod composite;
mod loss;
mod masks;
mod matmul;
mod normalization;
mod shape;
mod softmax;
mod statistics;

pub(crate) use loss::{is_mean, reduced};

use super::rule::Rule;

/// The tables of this set.
pub(super) const TABLES: &[&[Rule]] = &[
    composite::RULES,
    matmul::RULES,
    softmax::RULES,
    normalization::RULES,
    statistics::RULES,
    masks::RULES,
    activation::RULES,
    loss::RULES,
    shape::RULES,
];
