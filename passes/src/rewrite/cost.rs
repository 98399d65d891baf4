//! What an operator costs, for choosing between equal forms of a value.

use crate::ir::verify::shapes::{Family, family};

/// The cost of one call, in no unit. Every call costs something, so that a longer form never ties
/// with a shorter one.
pub(super) fn op_cost(op: &str) -> u64 {
    if is_view(op) {
        return 1;
    }
    match family(op) {
        Family::Pointwise | Family::Predicate => match op {
            // a call to a function, not an instruction
            "aten::pow.Tensor_Scalar" | "aten::pow.Tensor_Tensor" | "aten::pow.Scalar" => 40,
            // the primitive conversion is preferred
            "aten::_to_copy" => 11,
            "aten::div.Tensor" | "aten::div.Scalar" => 12,
            _ => 10,
        },
        Family::Reduction | Family::IndexReduction(_) => 20,
        Family::View => 1,
        Family::Other => 500,
    }
}

/// The cost of a composite whose decomposition is switched on: more than any decomposition.
pub(super) const COMPOSITE: u64 = 1_000_000;

/// Whether the result shares the storage of the first operand.
pub(super) fn is_view(op: &str) -> bool {
    matches!(
        op,
        "aten::view"
            | "aten::_unsafe_view"
            | "aten::reshape"
            | "aten::t"
            | "aten::transpose.int"
            | "aten::permute"
            | "aten::expand"
            | "aten::slice.Tensor"
            | "aten::select.int"
            | "aten::squeeze"
            | "aten::squeeze.dim"
            | "aten::squeeze.dims"
            | "aten::unsqueeze"
            | "aten::as_strided"
            | "aten::diagonal"
            | "aten::alias"
            | "aten::detach"
    )
}

/// Whether the operator is lowered to loops that can write their result in any order of
/// dimensions.
pub(super) fn allocates(op: &str) -> bool {
    !is_view(op) && !matches!(family(op), Family::Other | Family::View)
        || op == "aten::cat"
        || op == "aten::where.self"
}
