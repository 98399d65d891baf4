//! Elementwise operators: operands are converted to the promoted dtype and broadcast.

use super::{CallView, Lowerer};
use crate::ir::graph::{Arg, ValueRef};
use crate::ir::promote::{Operand, int_to_float, result_type};
use crate::ir::{DType, Scalar};
use crate::schedule::loops::{BinaryOp, CompareOp, UnaryOp};
use crate::schedule::program::{Def, V};

/// Functions that are floating point for every input.
fn float_unary(name: &str) -> Option<UnaryOp> {
    use UnaryOp::*;
    Some(match name {
        "sqrt" => Sqrt,
        "rsqrt" => Rsqrt,
        "reciprocal" => Reciprocal,
        "exp" => Exp,
        "exp2" => Exp2,
        "expm1" => Expm1,
        "log" => Log,
        "log2" => Log2,
        "log10" => Log10,
        "log1p" => Log1p,
        "sin" => Sin,
        "cos" => Cos,
        "tan" => Tan,
        "asin" => Asin,
        "acos" => Acos,
        "atan" => Atan,
        "sinh" => Sinh,
        "cosh" => Cosh,
        "asinh" => Asinh,
        "acosh" => Acosh,
        "atanh" => Atanh,
        "tanh" => Tanh,
        "sigmoid" => Sigmoid,
        "erf" => Erf,
        "erfc" => Erfc,
        "silu" => Silu,
        _ => return None,
    })
}

fn compare_op(name: &str) -> Option<CompareOp> {
    use CompareOp::*;
    Some(match name {
        "eq" => Eq,
        "ne" => Ne,
        "lt" => Lt,
        "le" => Le,
        "gt" => Gt,
        "ge" => Ge,
        _ => return None,
    })
}

/// `add` and friends of two `bool` operands are logical.
fn binary_op(name: &str, dtype: DType) -> Option<BinaryOp> {
    use BinaryOp::*;
    let logical = dtype == DType::Bool;
    Some(match name {
        "add" | "maximum" | "bitwise_or" if logical => LogicalOr,
        "mul" | "minimum" | "bitwise_and" if logical => LogicalAnd,
        "bitwise_xor" if logical => LogicalXor,
        "add" => Add,
        "sub" => Sub,
        "mul" => Mul,
        "maximum" => Maximum,
        "minimum" => Minimum,
        "fmod" => Fmod,
        "remainder" => Remainder,
        "atan2" => Atan2,
        "bitwise_and" => BitwiseAnd,
        "bitwise_or" => BitwiseOr,
        "bitwise_xor" => BitwiseXor,
        "bitwise_left_shift" => ShiftLeft,
        "bitwise_right_shift" => ShiftRight,
        "logical_and" => LogicalAnd,
        "logical_or" => LogicalOr,
        "logical_xor" => LogicalXor,
        _ => return None,
    })
}

impl Lowerer<'_> {
    pub(super) fn pointwise(&mut self, c: &CallView) -> Option<V> {
        match c.op {
            "prims::convert_element_type" | "aten::_to_copy" => {
                let x = self.tensor(c, 0)?;
                return Some(match self.p.dtype(x) == c.dtype() {
                    true => self.copy(x),
                    false => self.p.cast(x, c.dtype()),
                });
            }
            "aten::clone" | "aten::contiguous" => {
                let x = self.tensor(c, 0)?;
                return Some(self.copy(x));
            }
            "aten::copy" | "aten::fill.Tensor" => {
                let x = self.tensor(c, 1)?;
                let x = self.p.cast(x, c.dtype());
                let x = self.p.expand(x, c.sizes());
                return Some(self.copy(x));
            }
            "aten::where.self" => {
                let cond = self.operand(c, 0, DType::Bool)?;
                let a = self.operand(c, 1, c.dtype())?;
                let b = self.operand(c, 2, c.dtype())?;
                return Some(self.p.select(cond, a, b));
            }
            _ => {}
        }
        let name = c.op.strip_prefix("aten::")?;
        let (base, overload) = name.split_once('.').unwrap_or((name, ""));
        match overload {
            "" => self.unary(c, base).or_else(|| {
                match matches!(
                    base,
                    "maximum" | "minimum" | "atan2" | "logical_and" | "logical_or" | "logical_xor"
                ) {
                    true => self.binary(c, base),
                    false => None,
                }
            }),
            "Tensor" | "Scalar" | "Tensor_mode" | "Scalar_mode" | "Tensor_Tensor"
            | "Tensor_Scalar" | "Scalar_Tensor" => self.binary(c, base),
            _ => None,
        }
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

    fn unary(&mut self, c: &CallView, name: &str) -> Option<V> {
        if let Some(op) = float_unary(name) {
            let x = self.tensor(c, 0)?;
            let x = self.p.cast(x, int_to_float(self.p.dtype(x)));
            return Some(self.p.unary(op, x));
        }
        let x = self.tensor(c, 0)?;
        let dtype = self.p.dtype(x);
        let sizes = self.p.get(x).sizes.clone();
        let float = dtype.is_floating();
        Some(match name {
            "neg" => self.p.unary(UnaryOp::Neg, x),
            "abs" | "sign" if matches!(dtype, DType::Bool) => x,
            "abs" if dtype == DType::U8 => x,
            "abs" => self.p.unary(UnaryOp::Abs, x),
            "sign" => self.p.unary(UnaryOp::Sign, x),
            "floor" | "ceil" | "round" | "trunc" if !float => x,
            "floor" => self.p.unary(UnaryOp::Floor, x),
            "ceil" => self.p.unary(UnaryOp::Ceil, x),
            "round" => self.p.unary(UnaryOp::Round, x),
            "trunc" => self.p.unary(UnaryOp::Trunc, x),
            "isnan" | "isinf" if !float => self.p.constant(false.into(), DType::Bool, &sizes),
            "isnan" => self.p.unary(UnaryOp::IsNan, x),
            "isinf" => self.p.unary(UnaryOp::IsInf, x),
            "logical_not" => self.p.unary(UnaryOp::LogicalNot, x),
            "bitwise_not" if dtype == DType::Bool => self.p.unary(UnaryOp::LogicalNot, x),
            "bitwise_not" if !float => self.p.unary(UnaryOp::BitwiseNot, x),
            "relu" if float => self.p.unary(UnaryOp::Relu, x),
            "relu" if dtype.is_integral() => {
                let zero = self.p.constant(Scalar::Int(0), dtype, &sizes);
                self.p.binary(BinaryOp::Maximum, x, zero)
            }
            "gelu" if float => {
                let op = match c.arg("approximate", 1) {
                    Some(Arg::Str(s)) if s == "tanh" => UnaryOp::GeluTanh,
                    _ => UnaryOp::GeluErf,
                };
                self.p.unary(op, x)
            }
            _ => return None,
        })
    }

    fn binary(&mut self, c: &CallView, name: &str) -> Option<V> {
        let common = self.promoted(c.args.get(..2)?)?;
        if let Some(op) = compare_op(name) {
            let a = self.operand(c, 0, common)?;
            let b = self.operand(c, 1, common)?;
            return Some(self.p.compare(op, a, b));
        }
        match name {
            "logical_and" | "logical_or" | "logical_xor" => {
                let a = self.operand(c, 0, DType::Bool)?;
                let b = self.operand(c, 1, DType::Bool)?;
                Some(self.p.binary(binary_op(name, DType::Bool)?, a, b))
            }
            "div" => {
                let mode = match c.named("rounding_mode").or_else(|| c.args.get(2)) {
                    Some(Arg::Str(s)) => Some(s.as_str()),
                    _ => None,
                };
                let (dtype, op) = match mode {
                    None => (int_to_float(common), BinaryOp::Div),
                    Some("floor") => (common, BinaryOp::FloorDiv),
                    Some("trunc") => (common, BinaryOp::TruncDiv),
                    Some(_) => return None,
                };
                self.with_number(c, op, dtype)
            }
            "pow" => {
                if let Some(v) = self.small_power(c, common) {
                    return Some(v);
                }
                let a = self.operand(c, 0, common)?;
                let b = self.operand(c, 1, common)?;
                if common == DType::Bool {
                    // whatever to the power of nothing is one
                    let none = self.p.unary(UnaryOp::LogicalNot, b);
                    return Some(self.p.binary(BinaryOp::LogicalOr, a, none));
                }
                Some(self.p.binary(BinaryOp::Pow, a, b))
            }
            "atan2" => {
                let dtype = int_to_float(common);
                let a = self.operand(c, 0, dtype)?;
                let b = self.operand(c, 1, dtype)?;
                Some(self.p.binary(BinaryOp::Atan2, a, b))
            }
            "add" | "sub" => {
                let a = self.operand(c, 0, common)?;
                let mut b = self.operand(c, 1, common)?;
                let alpha = c.scalar("alpha", 2).unwrap_or(Scalar::Int(1));
                if alpha.as_f64() != 1.0 {
                    let alpha = self.p.constant(alpha, common, c.sizes());
                    b = self.p.binary(BinaryOp::Mul, b, alpha);
                }
                Some(self.p.binary(binary_op(name, common)?, a, b))
            }
            "mul" => self.with_number(c, binary_op(name, common)?, common),
            _ => {
                let op = binary_op(name, common)?;
                let a = self.operand(c, 0, common)?;
                let b = self.operand(c, 1, common)?;
                Some(self.p.binary(op, a, b))
            }
        }
    }

    /// A product or quotient takes a number as the type of arithmetic has it, although the half type of the result would
    /// round it, and a second operand of one element and another dtype as well; others round it.
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
