//! Cost estimates, in scalar operations.

use super::loops::Op;
use super::program::Def;

/// Whether computing an element again costs more than reading it back.
pub(crate) fn is_expensive(def: &Def) -> bool {
    match def {
        Def::Unary(op, _) => op.cost() > 2,
        Def::Binary(op, ..) => op.cost() > 2,
        _ => false,
    }
}

/// Estimated scalar operations of an instruction.
pub(crate) fn cost(op: &Op) -> u32 {
    match op {
        Op::Const(_) | Op::Carry { .. } => 0,
        Op::Unary(op, _) => op.cost(),
        Op::Binary(op, ..) => op.cost(),
        _ => 1,
    }
}
