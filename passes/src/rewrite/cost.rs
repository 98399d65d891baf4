//! What an operator costs, for choosing between equal forms of a value.

use crate::ir::{Kind, Op};

/// The cost of one call, in no unit. Every call costs something, so that a longer form never ties
/// with a shorter one.
pub(super) fn op_cost(op: Op) -> u64 {
    if is_view(op) {
        return 1;
    }
    match (op.facts().kind, op) {
        // a call to a function, not an instruction
        (_, Op::pow_Tensor_Scalar | Op::pow_Tensor_Tensor | Op::pow_Scalar) => 40,
        // the primitive conversion is preferred
        (_, Op::_to_copy) => 11,
        (_, Op::div_Tensor | Op::div_Scalar) => 12,
        (Kind::Pointwise | Kind::Test, _) => 10,
        (Kind::Reduction | Kind::Any | Kind::Arg, _) => 20,
        (Kind::Reshape, _) => 1,
        (Kind::Movement | Kind::Other, _) => 500,
    }
}

/// The cost of a composite whose decomposition is switched on: more than any decomposition.
pub(super) const COMPOSITE: u64 = 1_000_000;

/// Whether the result shares the storage of the first operand, or does so where it can.
pub(super) fn is_view(op: Op) -> bool {
    op.facts().view || op.facts().kind == Kind::Reshape
}

/// Whether the operator is lowered to loops that can write their result in any order of
/// dimensions.
pub(super) fn allocates(op: Op) -> bool {
    let called = matches!(op.facts().kind, Kind::Movement | Kind::Other);
    !is_view(op) && !called || op == Op::cat
}
