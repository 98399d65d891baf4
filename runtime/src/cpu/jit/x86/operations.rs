//! The operations of the loop IR on the nodes of a body.

use super::encode::Opcode;
use super::ir::{Body, Logic, Node, predicate};
use super::translate::Translate;
use super::vectors::Width;
use crate::cpu::math::{Fn1, Fn2, Prims};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

impl Translate<'_> {
    pub(super) fn is_zero(&mut self, x: Node, dtype: DType) -> Node {
        if dtype.is_floating() {
            let zero = self.body.f(0.0);
            return self.body.eq(x, zero);
        }
        let zero = self.body.i(0);
        self.body.ieq(x, zero)
    }

    /// An element combined with a new one.
    pub(super) fn updated(
        &mut self,
        op: ReduceOp,
        old: Node,
        new: Node,
        dtype: DType,
    ) -> Option<Node> {
        if !dtype.is_floating() {
            let op = match op {
                ReduceOp::Sum => BinaryOp::Add,
                ReduceOp::Prod => BinaryOp::Mul,
                ReduceOp::Max => BinaryOp::Maximum,
                ReduceOp::Min => BinaryOp::Minimum,
                ReduceOp::Any | ReduceOp::All => return None,
            };
            return match dtype {
                DType::Bool => self.logic(op, old, new),
                _ => self.integers(op, old, new, dtype),
            };
        }
        let b = &mut self.body;
        let beyond = match op {
            ReduceOp::Sum => return Some(b.add(old, new)),
            ReduceOp::Prod => return Some(b.mul(old, new)),
            ReduceOp::Max => b.lt(old, new),
            ReduceOp::Min => b.gt(old, new),
            ReduceOp::Any | ReduceOp::All => return None,
        };
        let nan = b.is_nan(new);
        let takes = b.or(beyond, nan);
        Some(b.select(takes, new, old))
    }

    /// A unary operation; `dtype` is that of the operand.
    pub(super) fn unary(&mut self, op: UnaryOp, x: Node, dtype: DType) -> Option<Node> {
        if dtype.is_floating() && self.body.width.is_narrow() {
            // half floats as bits
            let sign = self.body.i(1 << 15);
            let flips = op == UnaryOp::Neg && dtype == DType::BF16;
            return flips.then(|| self.body.ixor(x, sign));
        }
        if op == UnaryOp::LogicalNot && dtype != DType::Bool {
            return Some(self.is_zero(x, dtype));
        }
        let b = &mut self.body;
        if dtype == DType::Bool {
            return Some(match op {
                UnaryOp::LogicalNot | UnaryOp::BitwiseNot => b.not(x),
                _ => return None,
            });
        }
        if !dtype.is_floating() {
            let zero = b.i(0);
            let unsigned = dtype == DType::U8 && b.width == Width::W8;
            let r = match op {
                UnaryOp::Abs | UnaryOp::Relu if unsigned => x,
                UnaryOp::Sign if unsigned => {
                    let one = b.i(1);
                    b.uextreme(x, one, false)
                }
                UnaryOp::Neg => b.isub(zero, x),
                UnaryOp::Abs => {
                    let minus = b.isub(zero, x);
                    b.iextreme(x, minus, true)
                }
                UnaryOp::Sign => {
                    let (one, minus) = (b.i(1), b.i(-1));
                    let low = b.iextreme(x, one, false);
                    b.iextreme(low, minus, true)
                }
                UnaryOp::Relu => b.iextreme(x, zero, true),
                UnaryOp::BitwiseNot => {
                    let ones = b.i(-1);
                    b.ixor(x, ones)
                }
                _ => return None,
            };
            return Some(self.wrap(r, dtype));
        }
        if let Some(f) = Fn1::of(op) {
            let r = f.build(b, x);
            return Some(self.wrap(r, dtype));
        }
        Some(match op {
            UnaryOp::Neg => b.neg(x),
            UnaryOp::Abs => b.abs(x),
            UnaryOp::Sqrt => {
                let r = b.sqrt(x);
                self.wrap(r, dtype)
            }
            UnaryOp::Floor => b.floor(x),
            UnaryOp::Ceil => b.ceil(x),
            UnaryOp::Trunc => b.trunc(x),
            UnaryOp::Round => b.round_even(x),
            UnaryOp::Relu => {
                let zero = b.f(0.0);
                b.extreme(x, zero, true)
            }
            UnaryOp::IsNan => b.is_nan(x),
            UnaryOp::IsInf => {
                let a = b.abs(x);
                let inf = b.f(f64::INFINITY);
                b.eq(a, inf)
            }
            _ => return None,
        })
    }

    pub(super) fn binary(&mut self, op: BinaryOp, x: Node, y: Node, dtype: DType) -> Option<Node> {
        let b = &mut self.body;
        if b.width.is_narrow() {
            return None;
        }
        let r = match op {
            BinaryOp::Add => b.add(x, y),
            BinaryOp::Sub => b.sub(x, y),
            BinaryOp::Mul => b.mul(x, y),
            BinaryOp::Div => b.div(x, y),
            BinaryOp::TruncDiv => {
                let q = b.div(x, y);
                b.trunc(q)
            }
            BinaryOp::Maximum => return Some(b.extreme(x, y, true)),
            BinaryOp::Minimum => return Some(b.extreme(x, y, false)),
            BinaryOp::Atan2 => Fn2::Atan2.build(b, x, y),
            BinaryOp::Pow => Fn2::Pow.build(b, x, y),
            BinaryOp::Fmod => Fn2::Fmod.build(b, x, y),
            BinaryOp::Remainder => Fn2::Remainder.build(b, x, y),
            _ => return None,
        };
        Some(self.wrap(r, dtype))
    }

    pub(super) fn integers(
        &mut self,
        op: BinaryOp,
        x: Node,
        y: Node,
        dtype: DType,
    ) -> Option<Node> {
        let b = &mut self.body;
        let unsigned = dtype == DType::U8 && b.width == Width::W8;
        let r = match op {
            BinaryOp::Maximum if unsigned => b.uextreme(x, y, true),
            BinaryOp::Minimum if unsigned => b.uextreme(x, y, false),
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight if b.width.is_narrow() => return None,
            BinaryOp::Add => b.iadd(x, y),
            BinaryOp::Sub => b.isub(x, y),
            BinaryOp::Mul => b.imul(x, y),
            BinaryOp::Maximum => b.iextreme(x, y, true),
            BinaryOp::Minimum => b.iextreme(x, y, false),
            BinaryOp::BitwiseAnd => b.iand(x, y),
            BinaryOp::BitwiseOr => b.ior(x, y),
            BinaryOp::BitwiseXor => b.ixor(x, y),
            // a narrow number is wrapped afterwards: what goes beyond it is lost all the same
            BinaryOp::ShiftLeft => b.shift_by(Opcode::SHIFT_LEFT_BY, x, y)?,
            BinaryOp::ShiftRight if dtype == DType::U8 => {
                b.shift_by(Opcode::SHIFT_RIGHT_BY, x, y)?
            }
            BinaryOp::ShiftRight => b.shift_by(Opcode::SHIFT_SIGNED_BY, x, y)?,
            _ => return None,
        };
        Some(self.wrap(r, dtype))
    }

    pub(super) fn logic(&mut self, op: BinaryOp, x: Node, y: Node) -> Option<Node> {
        let b = &mut self.body;
        Some(match op {
            BinaryOp::LogicalAnd | BinaryOp::BitwiseAnd | BinaryOp::Mul | BinaryOp::Minimum => {
                b.and(x, y)
            }
            BinaryOp::LogicalOr | BinaryOp::BitwiseOr | BinaryOp::Add | BinaryOp::Maximum => {
                b.or(x, y)
            }
            BinaryOp::LogicalXor | BinaryOp::BitwiseXor => b.mask_op(Logic::Xor, x, y),
            _ => return None,
        })
    }

    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        x: Node,
        y: Node,
        dtype: DType,
    ) -> Option<Node> {
        let b = &mut self.body;
        if dtype.is_floating() && b.width.is_narrow() {
            return None;
        }
        if dtype.is_floating() {
            let p = match op {
                CompareOp::Eq => predicate::EQ,
                CompareOp::Ne => predicate::NE,
                CompareOp::Lt => predicate::LT,
                CompareOp::Le => predicate::LE,
                CompareOp::Gt => predicate::GT,
                CompareOp::Ge => predicate::GE,
            };
            return Some(b.compare(p, x, y));
        }
        if dtype == DType::Bool {
            let differ = |b: &mut Body| b.mask_op(Logic::Xor, x, y);
            // the larger one is true and the other is not
            let above = |b: &mut Body, x: Node, y: Node| {
                let not = b.not(y);
                b.and(x, not)
            };
            return Some(match op {
                CompareOp::Ne => differ(b),
                CompareOp::Eq => {
                    let n = differ(b);
                    b.not(n)
                }
                CompareOp::Lt => above(b, y, x),
                CompareOp::Gt => above(b, x, y),
                CompareOp::Le => {
                    let n = above(b, x, y);
                    b.not(n)
                }
                CompareOp::Ge => {
                    let n = above(b, y, x);
                    b.not(n)
                }
            });
        }
        let unsigned = dtype == DType::U8 && b.width == Width::W8;
        let less = |b: &mut Body, x, y| if unsigned { b.ult(x, y) } else { b.ilt(x, y) };
        let (r, not) = match op {
            CompareOp::Eq => (b.ieq(x, y), false),
            CompareOp::Ne => (b.ieq(x, y), true),
            CompareOp::Lt => (less(b, x, y), false),
            CompareOp::Ge => (less(b, x, y), true),
            CompareOp::Gt => (less(b, y, x), false),
            CompareOp::Le => (less(b, y, x), true),
        };
        Some(if not { b.not(r) } else { r })
    }
}
