//! Elementwise operators: operands are converted to the promoted dtype and broadcast.

use super::{CallView, Lowerer};
use crate::ir::Arg;
use crate::ir::Op;
use crate::ir::graph::ValueRef;
use crate::ir::prims::{BinaryOp, Class, CompareOp, UnaryOp};
use crate::ir::promote::{Operand, int_to_float, result_type};
use crate::ir::{DType, Scalar};
use crate::schedule::program::{Def, V};

/// `add` and friends of two `bool` operands are logical.
fn of_truth(op: BinaryOp) -> BinaryOp {
    use BinaryOp::*;
    match op {
        Add | Maximum | BitwiseOr => LogicalOr,
        Mul | Minimum | BitwiseAnd => LogicalAnd,
        BitwiseXor => LogicalXor,
        other => other,
    }
}

impl Lowerer<'_> {
    pub(super) fn pointwise(&mut self, c: &CallView) -> Option<V> {
        match c.op {
            Op::prims_convert_element_type | Op::_to_copy => {
                let x = self.tensor(c, 0)?;
                return Some(match self.p.dtype(x) == c.dtype() {
                    true => self.copy(x),
                    false => self.p.cast(x, c.dtype()),
                });
            }
            Op::clone | Op::contiguous => {
                let x = self.tensor(c, 0)?;
                return Some(self.copy(x));
            }
            Op::copy | Op::fill_Tensor => {
                let x = self.tensor(c, 1)?;
                let x = self.p.cast(x, c.dtype());
                let x = self.p.expand(x, c.sizes());
                return Some(self.copy(x));
            }
            Op::where_self => {
                let cond = self.operand(c, 0, DType::Bool)?;
                let a = self.operand(c, 1, c.dtype())?;
                let b = self.operand(c, 2, c.dtype())?;
                return Some(self.p.select(cond, a, b));
            }
            _ => {}
        }
        if let Some(op) = UnaryOp::of(c.op) {
            return self.unary(c, op);
        }
        self.compare(c).or_else(|| self.binary(c))
    }

    /// The same elements in memory of their own.
    pub(super) fn copy(&mut self, x: V) -> V {
        let (dtype, sizes) = (self.p.dtype(x), self.p.get(x).sizes.clone());
        match *self.p.def(x) {
            Def::Const(number) => self.p.constant(number, dtype, &sizes),
            _ => self.p.push(dtype, &sizes, Def::Copy(x)),
        }
    }

    fn promotion(&self, arg: &Arg<ValueRef>) -> Option<Operand> {
        match arg {
            Arg::Tensor(v) => {
                let m = self.graph.meta(*v);
                Some(Operand::tensor(m.dtype, m.sizes.len()))
            }
            Arg::Scalar(s) => Some(Operand::number(*s)),
            _ => None,
        }
    }

    fn promoted(&self, args: &[Arg<ValueRef>]) -> Option<DType> {
        let ops: Option<Vec<Operand>> = args.iter().map(|a| self.promotion(a)).collect();
        result_type(ops?)
    }

    /// Argument `i` in this dtype and with the sizes of the result.
    fn operand(&mut self, c: &CallView, i: usize, dtype: DType) -> Option<V> {
        match c.args.get(i)? {
            Arg::Tensor(v) => {
                let x = self.p.cast(self.get(*v), dtype);
                Some(self.p.expand(x, c.sizes()))
            }
            Arg::Scalar(s) => Some(self.p.constant(*s, dtype, c.sizes())),
            _ => None,
        }
    }

    fn unary(&mut self, c: &CallView, op: UnaryOp) -> Option<V> {
        let x = self.tensor(c, 0)?;
        if op.class() == Class::Float {
            let x = self.p.cast(x, int_to_float(self.p.dtype(x)));
            return Some(self.p.unary(op, x));
        }
        let dtype = self.p.dtype(x);
        let sizes = self.p.get(x).sizes.clone();
        let float = dtype.is_floating();
        Some(match op {
            UnaryOp::Abs | UnaryOp::Sign if dtype == DType::Bool => x,
            UnaryOp::Abs if dtype == DType::U8 => x,
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc if !float => x,
            UnaryOp::IsNan | UnaryOp::IsInf if !float => {
                self.p.constant(false.into(), DType::Bool, &sizes)
            }
            UnaryOp::BitwiseNot if dtype == DType::Bool => self.p.unary(UnaryOp::LogicalNot, x),
            UnaryOp::Relu if dtype.is_integral() => {
                let zero = self.p.constant(Scalar::Int(0), dtype, &sizes);
                self.p.binary(BinaryOp::Maximum, x, zero)
            }
            UnaryOp::GeluErf if float && c.text("approximate") == Some("tanh") => {
                self.p.unary(UnaryOp::GeluTanh, x)
            }
            UnaryOp::GeluErf | UnaryOp::Relu if !float => return None,
            UnaryOp::BitwiseNot if float => return None,
            _ => self.p.unary(op, x),
        })
    }

    fn compare(&mut self, c: &CallView) -> Option<V> {
        let op = CompareOp::of(c.op)?;
        let common = self.promoted(c.args.get(..2)?)?;
        let a = self.operand(c, 0, common)?;
        let b = self.operand(c, 1, common)?;
        Some(self.p.compare(op, a, b))
    }

    fn binary(&mut self, c: &CallView) -> Option<V> {
        let op = BinaryOp::of(c.op)?;
        let common = self.promoted(c.args.get(..2)?)?;
        let truth = common == DType::Bool;
        match op {
            BinaryOp::LogicalAnd | BinaryOp::LogicalOr | BinaryOp::LogicalXor => {
                let a = self.operand(c, 0, DType::Bool)?;
                let b = self.operand(c, 1, DType::Bool)?;
                Some(self.p.binary(op, a, b))
            }
            BinaryOp::Div => self.with_number(c, op, int_to_float(common)),
            BinaryOp::FloorDiv => match c.text("rounding_mode") {
                None => self.with_number(c, BinaryOp::Div, int_to_float(common)),
                Some("floor") => self.with_number(c, BinaryOp::FloorDiv, common),
                Some("trunc") => self.with_number(c, BinaryOp::TruncDiv, common),
                Some(_) => None,
            },
            BinaryOp::Pow => {
                if let Some(v) = self.small_power(c, common) {
                    return Some(v);
                }
                let a = self.operand(c, 0, common)?;
                let b = self.operand(c, 1, common)?;
                if truth {
                    // anything to the power of 0 is 1
                    let none = self.p.unary(UnaryOp::LogicalNot, b);
                    return Some(self.p.binary(BinaryOp::LogicalOr, a, none));
                }
                Some(self.p.binary(op, a, b))
            }
            BinaryOp::Atan2 => {
                let dtype = int_to_float(common);
                let a = self.operand(c, 0, dtype)?;
                let b = self.operand(c, 1, dtype)?;
                Some(self.p.binary(op, a, b))
            }
            BinaryOp::Mul if !truth => self.with_number(c, op, common),
            _ => {
                let a = self.operand(c, 0, common)?;
                let mut b = self.operand(c, 1, common)?;
                let alpha = c.scalar("alpha").unwrap_or(Scalar::Int(1));
                if alpha.as_f64() != 1.0 {
                    let alpha = self.p.constant(alpha, common, c.sizes());
                    b = self.p.binary(BinaryOp::Mul, b, alpha);
                }
                let op = if truth { of_truth(op) } else { op };
                Some(self.p.binary(op, a, b))
            }
        }
    }

    /// A product or quotient takes a number as the type of arithmetic has it, although the half
    /// type of the result would round it, and a second operand of one element and another dtype as
    /// well; others round it.
    fn with_number(&mut self, c: &CallView, op: BinaryOp, dtype: DType) -> Option<V> {
        let wide = dtype.opmath();
        let kept = op.keeps_number()
            && dtype.is_half()
            && match c.args.get(1)? {
                Arg::Scalar(s) => s.cast(dtype).as_f64() != s.cast(wide).as_f64(),
                Arg::Tensor(v) => {
                    let of = self.p.get(self.get(*v));
                    of.dtype != dtype && of.sizes.iter().all(|n| *n == 1)
                }
                _ => false,
            };
        let within = if kept { wide } else { dtype };
        let a = self.operand(c, 0, within)?;
        let b = self.operand(c, 1, within)?;
        let result = self.p.binary(op, a, b);
        Some(self.p.cast(result, dtype))
    }

    /// The exponents that PyTorch computes without `pow`.
    fn small_power(&mut self, c: &CallView, dtype: DType) -> Option<V> {
        let Arg::Scalar(exponent) = c.args.get(1)? else {
            return None;
        };
        let float = dtype.is_floating();
        let e = exponent.as_f64();
        if dtype == DType::Bool || !(float || [0.0, 1.0, 2.0, 3.0].contains(&e)) {
            return None;
        }
        // of several operations, only the last one rounds to a half type
        let x = self.operand(c, 0, dtype.opmath())?;
        let power = if e == 0.0 {
            self.p.constant(Scalar::Int(1), dtype.opmath(), c.sizes())
        } else if e == 1.0 {
            self.copy(x)
        } else if e == 2.0 {
            self.p.binary(BinaryOp::Mul, x, x)
        } else if e == 3.0 {
            let square = self.p.binary(BinaryOp::Mul, x, x);
            self.p.binary(BinaryOp::Mul, square, x)
        } else if e == 0.5 {
            self.p.unary(UnaryOp::Sqrt, x)
        } else if e == -0.5 {
            self.p.unary(UnaryOp::Rsqrt, x)
        } else if e == -1.0 {
            self.p.unary(UnaryOp::Reciprocal, x)
        } else if e == -2.0 {
            let square = self.p.binary(BinaryOp::Mul, x, x);
            self.p.unary(UnaryOp::Reciprocal, square)
        } else {
            return None;
        };
        Some(self.p.cast(power, dtype))
    }
}
