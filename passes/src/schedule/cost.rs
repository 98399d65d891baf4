//! What operations cost, in scalar operations.

use super::loops::{BinaryOp, Op, UnaryOp};
use super::program::Def;

/// Whether computing an element again costs more than reading it back.
pub(crate) fn is_expensive(def: &Def) -> bool {
    match def {
        Def::Unary(op, _) => unary_cost(*op) > 2,
        Def::Binary(op, ..) => binary_cost(*op) > 2,
        _ => false,
    }
}

fn unary_cost(op: UnaryOp) -> u64 {
    use UnaryOp::*;
    match op {
        Neg | Abs | Floor | Ceil | Round | Trunc | IsNan | IsInf | LogicalNot | BitwiseNot
        | Relu => 1,
        Sign => 2,
        Sqrt | Reciprocal => 4,
        Rsqrt => 6,
        Exp | Exp2 | Sigmoid | Silu => 10,
        Expm1 | Log | Log2 | Log10 | Log1p | Tanh | Sin | Cos => 14,
        _ => 18,
    }
}

fn binary_cost(op: BinaryOp) -> u64 {
    use BinaryOp::*;
    match op {
        Div | FloorDiv | TruncDiv => 4,
        Fmod | Remainder => 10,
        Pow | Atan2 => 24,
        _ => 1,
    }
}

/// Estimated scalar operations of an instruction.
pub(crate) fn cost(op: &Op) -> u64 {
    match op {
        Op::Const(_) | Op::Carry { .. } => 0,
        Op::Unary(op, _) => unary_cost(*op),
        Op::Binary(op, ..) => binary_cost(*op),
        _ => 1,
    }
}
