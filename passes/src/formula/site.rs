//! Formulas as rewrite rules: what a [`Builder`] builds, as calls in the e-graph.

use super::Builder;
use crate::ir::graph::{Arg, TensorMeta};
use crate::ir::promote::{Operand, result_type};
use crate::ir::{DType, Scalar};
use crate::rewrite::Site;
use crate::schedule::loops::{BinaryOp, CompareOp, UnaryOp};
use egg::Id;

fn unary_name(op: UnaryOp) -> &'static str {
    use UnaryOp::*;
    match op {
        Neg => "aten::neg",
        Abs => "aten::abs",
        Sign => "aten::sign",
        Sqrt => "aten::sqrt",
        Rsqrt => "aten::rsqrt",
        Reciprocal => "aten::reciprocal",
        Exp => "aten::exp",
        Exp2 => "aten::exp2",
        Expm1 => "aten::expm1",
        Log => "aten::log",
        Log2 => "aten::log2",
        Log10 => "aten::log10",
        Log1p => "aten::log1p",
        Sin => "aten::sin",
        Cos => "aten::cos",
        Tan => "aten::tan",
        Asin => "aten::asin",
        Acos => "aten::acos",
        Atan => "aten::atan",
        Sinh => "aten::sinh",
        Cosh => "aten::cosh",
        Asinh => "aten::asinh",
        Acosh => "aten::acosh",
        Atanh => "aten::atanh",
        Tanh => "aten::tanh",
        Sigmoid => "aten::sigmoid",
        Erf => "aten::erf",
        Erfc => "aten::erfc",
        Floor => "aten::floor",
        Ceil => "aten::ceil",
        Round => "aten::round",
        Trunc => "aten::trunc",
        IsNan => "aten::isnan",
        IsInf => "aten::isinf",
        LogicalNot => "aten::logical_not",
        BitwiseNot => "aten::bitwise_not",
        Relu => "aten::relu",
        GeluErf | GeluTanh => "aten::gelu",
        Silu => "aten::silu",
    }
}

fn binary_name(op: BinaryOp) -> &'static str {
    use BinaryOp::*;
    match op {
        Add => "aten::add.Tensor",
        Sub => "aten::sub.Tensor",
        Mul => "aten::mul.Tensor",
        Div => "aten::div.Tensor",
        FloorDiv | TruncDiv => "aten::div.Tensor_mode",
        Fmod => "aten::fmod.Tensor",
        Remainder => "aten::remainder.Tensor",
        Pow => "aten::pow.Tensor_Tensor",
        Atan2 => "aten::atan2",
        Maximum => "aten::maximum",
        Minimum => "aten::minimum",
        BitwiseAnd => "aten::bitwise_and.Tensor",
        BitwiseOr => "aten::bitwise_or.Tensor",
        BitwiseXor => "aten::bitwise_xor.Tensor",
        LogicalAnd => "aten::logical_and",
        LogicalOr => "aten::logical_or",
        LogicalXor => "aten::logical_xor",
        ShiftLeft => "aten::bitwise_left_shift.Tensor",
        ShiftRight => "aten::bitwise_right_shift.Tensor",
    }
}

impl Site<'_> {
    /// A number beside an integer tensor becomes one of its dtype.
    fn stored(&self, beside: Id, value: Scalar) -> Scalar {
        match self.dtype(beside) {
            d if d.is_floating() => value,
            d => value.cast(d),
        }
    }
}

impl Builder for Site<'_> {
    type Value = Id;

    fn result_dtype(&self) -> DType {
        self.out().dtype
    }

    fn operand(&mut self, at: usize) -> Option<Id> {
        let x = self.tensor(at)?;
        // formulas compute in the result's dtype; where that is not what the operands promote to, the operator rounds or wraps
        // around in another one, which its own kernel knows
        let operand = |x: Id| Operand::tensor(self.dtype(x), self.meta(x).sizes.len());
        if self.tensors_given().all(|x| self.meta(x).sizes.is_empty()) {
            // of numbers, some may be Python's, which say nothing of dtypes
            return Some(x);
        }
        let operands = self.tensors_given().map(operand);
        let (common, out) = (result_type(operands)?, self.out().dtype);
        let alike = common.is_floating() && out.is_floating()
            || common.is_integral() && out.is_integral() && out != DType::Bool;
        (!alike || common == out).then_some(x)
    }

    fn number(&self, name: &str) -> Option<Scalar> {
        self.scalar(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.arg(name)? {
            Arg::Str(s) => Some(s),
            _ => None,
        }
    }

    fn dtype_of(&self, x: Id) -> DType {
        self.dtype(x)
    }

    fn constant_value(&mut self, value: Scalar, dtype: DType) -> Id {
        self.constant(value, dtype)
    }

    fn constant_as(&mut self, x: Id, value: Scalar, dtype: DType) -> Id {
        let meta = TensorMeta {
            dtype,
            ..self.meta(x).clone()
        };
        self.constant_of(value, meta)
    }

    fn converted(&mut self, x: Id, dtype: DType) -> Id {
        self.convert(x, dtype)
    }

    fn unary_op(&mut self, op: UnaryOp, x: Id) -> Id {
        match op {
            UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot => self.test(unary_name(op), x),
            UnaryOp::GeluErf => self.gelu(x, "none"),
            UnaryOp::GeluTanh => self.gelu(x, "tanh"),
            _ => self.unary(unary_name(op), x),
        }
    }

    fn binary_op(&mut self, op: BinaryOp, a: Id, b: Id) -> Id {
        match op {
            BinaryOp::Add => self.add(a, b),
            BinaryOp::Sub => self.sub(a, b),
            BinaryOp::FloorDiv => self.div_rounded(a, b, "floor"),
            BinaryOp::TruncDiv => self.div_rounded(a, b, "trunc"),
            BinaryOp::LogicalAnd | BinaryOp::LogicalOr | BinaryOp::LogicalXor => {
                self.compare(binary_name(op), a, b)
            }
            _ => self.binary(binary_name(op), a, b),
        }
    }

    fn compare_op(&mut self, op: CompareOp, a: Id, b: Id) -> Id {
        let name = match op {
            CompareOp::Eq => "aten::eq.Tensor",
            CompareOp::Ne => "aten::ne.Tensor",
            CompareOp::Lt => "aten::lt.Tensor",
            CompareOp::Le => "aten::le.Tensor",
            CompareOp::Gt => "aten::gt.Tensor",
            CompareOp::Ge => "aten::ge.Tensor",
        };
        self.compare(name, a, b)
    }

    fn choose(&mut self, condition: Id, a: Id, b: Id) -> Id {
        self.select(condition, a, b)
    }

    fn binary_number(&mut self, op: BinaryOp, a: Id, b: Scalar) -> Id {
        let b = self.stored(a, b);
        match op {
            BinaryOp::Add => self.add_scalar(a, b),
            BinaryOp::Sub => self.sub_scalar(a, b),
            BinaryOp::Mul => self.mul_scalar(a, b),
            BinaryOp::Div => self.div_scalar(a, b),
            _ => {
                let b = self.constant(b, self.dtype(a));
                self.binary_op(op, a, b)
            }
        }
    }

    fn compare_number(&mut self, op: CompareOp, a: Id, b: Scalar) -> Id {
        let name = match op {
            CompareOp::Eq => "aten::eq.Scalar",
            CompareOp::Ne => "aten::ne.Scalar",
            CompareOp::Lt => "aten::lt.Scalar",
            CompareOp::Le => "aten::le.Scalar",
            CompareOp::Gt => "aten::gt.Scalar",
            CompareOp::Ge => "aten::ge.Scalar",
        };
        let b = self.stored(a, b);
        self.compare_scalar(name, a, b)
    }
}
