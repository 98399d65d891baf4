//! Which formula an operator is: the tables of all files.

use super::table::Formula;
use super::{activation, arithmetic, backward, clamp, loss};
use crate::ir::Op;

/// The formula of an operator, if it is one.
///
/// ```
/// use straightline_passes::{formula, ir::Op};
/// assert_eq!(formula::of(Op::mish).unwrap().name, "mish");
/// assert!(formula::of(Op::mm).is_none());
/// ```
pub fn of(op: Op) -> Option<&'static Formula> {
    (activation::of(op))
        .or_else(|| backward::of(op))
        .or_else(|| arithmetic::of(op))
        .or_else(|| clamp::of(op))
        .or_else(|| loss::of(op))
}

/// Every formula, by file.
pub fn all() -> impl Iterator<Item = &'static Formula> {
    let tables = [activation::ALL, backward::ALL, arithmetic::ALL, clamp::ALL, loss::ALL];
    tables.into_iter().flatten().copied()
}
