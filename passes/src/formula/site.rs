//! Formulas as rewrite rules: what a [`Builder`] builds, as calls in the e-graph.

use super::Builder;
use crate::ir::prims::{BinaryOp, Class, CompareOp, UnaryOp};
use crate::ir::promote::{Operand, result_type};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Scalar};
use crate::rewrite::{Site, is_mean};
use egg::Id;

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
        // formulas compute in the result's dtype; where that is not what the operands promote to,
        // the operator rounds or wraps around in another one, which its own kernel knows
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

    fn mean_of(&self) -> Option<f64> {
        let x = self.tensor(1)?;
        is_mean(self).then(|| self.meta(x).numel() as f64)
    }

    fn dtype_of(&self, x: Id) -> DType {
        self.dtype(x)
    }

    fn constant_value(&mut self, value: Scalar, dtype: DType) -> Id {
        self.constant(value, dtype)
    }

    fn constant_as(&mut self, x: Id, value: Scalar, dtype: DType) -> Id {
        let meta = TensorMeta { dtype, ..self.meta(x).clone() };
        self.constant_of(value, meta)
    }

    fn converted(&mut self, x: Id, dtype: DType) -> Id {
        self.convert(x, dtype)
    }

    fn unary_op(&mut self, f: UnaryOp, x: Id) -> Id {
        match (f, f.ops()) {
            (UnaryOp::GeluTanh, _) => self.gelu(x, "tanh"),
            (UnaryOp::GeluErf, _) => self.gelu(x, "none"),
            (_, [op, ..]) if f.class() == Class::Truth => self.test(*op, x),
            (_, [op, ..]) => self.unary(*op, x),
            // no other function is without an operator
            (_, []) => self.unfit(x),
        }
    }

    fn binary_op(&mut self, f: BinaryOp, a: Id, b: Id) -> Id {
        match (f, f.ops()) {
            (BinaryOp::Add, _) => self.add(a, b),
            (BinaryOp::Sub, _) => self.sub(a, b),
            (BinaryOp::FloorDiv, _) => self.div_rounded(a, b, "floor"),
            (BinaryOp::TruncDiv, _) => self.div_rounded(a, b, "trunc"),
            (_, [op, ..]) if f.class() == Class::Truth => self.compare(*op, a, b),
            (_, [op, ..]) => self.binary(*op, a, b),
            (_, []) => self.unfit(a),
        }
    }

    fn compare_op(&mut self, f: CompareOp, a: Id, b: Id) -> Id {
        self.compare(f.ops()[0], a, b)
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

    fn compare_number(&mut self, f: CompareOp, a: Id, b: Scalar) -> Id {
        let b = self.stored(a, b);
        self.compare_scalar(f.ops()[1], a, b)
    }
}
