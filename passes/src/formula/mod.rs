//! Pointwise operators as formulas: one definition that eager execution and compiled code share.
//!
//! A formula is a function that builds an operator's result out of primitives, generic over the
//! [`Builder`] that it builds with. There are two:
//!
//! - [`Site`](crate::rewrite::Site) adds calls to the e-graph, so that a decompose rule *is* the
//!   formula;
//! - [`Recorder`] writes a [`Program`], which the runtime executes tile by tile in eager calls.
//!
//! Both do the same operations in the same order, so an eager result and a compiled one agree as
//! far as the primitives do.
//!
//! Each file is a table of the operators that are its formulas ([`table`]), and the functions.
//!
//! | file | formulas |
//! |---|---|
//! | `activation` | activation functions |
//! | `backward` | their derivatives, times the gradient of the result |
//! | `loss` | the elements of losses and of their derivatives |
//! | `arithmetic` | `addcmul`, `lerp`, `xlogy` and others of a few steps |
//! | `clamp` | bounds |

pub mod activation;
pub mod arithmetic;
pub mod backward;
pub mod clamp;
mod index;
pub mod loss;
mod program;
#[cfg(feature = "rewrite")]
mod site;
pub mod table;
#[cfg(test)]
mod tests;

pub use index::{all, of};
pub use program::{Attribute, Inst, Op, Program, Recorder, Val, record};
pub use table::{Domain, Eager, Fits, Formula};

use crate::ir::prims::{BinaryOp, CompareOp, UnaryOp};
use crate::ir::{DType, Scalar};

/// What a formula reads its call through, and builds its result with.
///
/// Values have a dtype. The operands of a binary operation, of a comparison and of a selection
/// have one dtype; shapes are left to the builder (they broadcast).
pub trait Builder {
    /// A value.
    type Value: Copy;

    /// The dtype of the call's first result.
    fn result_dtype(&self) -> DType;

    /// The tensor given as the argument at this position of the schema, in its own dtype.
    fn operand(&mut self, at: usize) -> Option<Self::Value>;

    /// The number (or truth value) given as the argument of this name; `None` where it is absent or
    /// `none`.
    fn number(&self, name: &str) -> Option<Scalar>;

    /// The string given as the argument of this name.
    fn text(&self, name: &str) -> Option<&str>;

    /// The number of elements that the call's loss is the mean of; `None` where it is none.
    fn mean_of(&self) -> Option<f64>;

    /// The part that each element of a loss has in a gradient of `whole`.
    fn share(&self, whole: f64) -> Scalar {
        self.mean_of().map_or(whole, |n| whole / n).into()
    }

    /// The dtype of a value.
    fn dtype_of(&self, x: Self::Value) -> DType;

    /// A number, the same everywhere.
    fn constant_value(&mut self, value: Scalar, dtype: DType) -> Self::Value;

    /// A number in the shape of a value.
    fn constant_as(&mut self, x: Self::Value, value: Scalar, dtype: DType) -> Self::Value {
        let _ = x;
        self.constant_value(value, dtype)
    }

    /// The value in another dtype; itself where it has it already.
    fn converted(&mut self, x: Self::Value, dtype: DType) -> Self::Value;

    /// A function of one value; floats only, but for `Neg`, `Abs`, `Sign` and the bit operations.
    fn unary_op(&mut self, op: UnaryOp, x: Self::Value) -> Self::Value;

    /// An operation on two values of one dtype.
    fn binary_op(&mut self, op: BinaryOp, a: Self::Value, b: Self::Value) -> Self::Value;

    /// A comparison of two values of one dtype.
    fn compare_op(&mut self, op: CompareOp, a: Self::Value, b: Self::Value) -> Self::Value;

    /// `condition ? a : b`.
    fn choose(&mut self, condition: Self::Value, a: Self::Value, b: Self::Value) -> Self::Value;

    /// An operation with a number on the right, in the dtype of the value.
    fn binary_number(&mut self, op: BinaryOp, a: Self::Value, b: Scalar) -> Self::Value {
        let b = self.constant_value(b, self.dtype_of(a));
        self.binary_op(op, a, b)
    }

    /// A comparison with a number, in the dtype of the value.
    fn compare_number(&mut self, op: CompareOp, a: Self::Value, b: Scalar) -> Self::Value {
        let b = self.constant_value(b, self.dtype_of(a));
        self.compare_op(op, a, b)
    }

    /// A number as `f64`, or the default of the schema.
    fn float(&self, name: &str, default: f64) -> f64 {
        self.number(name).map_or(default, Scalar::as_f64)
    }

    /// A truth value, false where it is absent.
    fn flag(&self, name: &str) -> bool {
        self.number(name).is_some_and(Scalar::as_bool)
    }

    /// An operand in the type in which the call computes: the result's dtype, widened to `f32` for
    /// half types.
    fn lifted(&mut self, at: usize) -> Option<Self::Value> {
        let x = self.operand(at)?;
        Some(self.lifted_value(x))
    }

    /// A value in the type in which the call computes.
    fn lifted_value(&mut self, x: Self::Value) -> Self::Value {
        let dtype = self.result_dtype();
        let x = self.converted(x, dtype);
        self.converted(x, dtype.opmath())
    }

    /// [`Builder::lifted`], of operators that are defined for floats only.
    fn lifted_float(&mut self, at: usize) -> Option<Self::Value> {
        self.result_dtype().is_floating().then_some(())?;
        self.lifted(at)
    }

    /// A value in the dtype of the call's result.
    fn rounded(&mut self, y: Self::Value) -> Option<Self::Value> {
        let dtype = self.result_dtype();
        Some(self.converted(y, dtype))
    }

    /// A number in the dtype of a value.
    fn like(&mut self, x: Self::Value, value: impl Into<Scalar>) -> Self::Value {
        self.constant_value(value.into(), self.dtype_of(x))
    }

    /// `a + b`.
    fn plus(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.binary_op(BinaryOp::Add, a, b)
    }

    /// `a - b`.
    fn minus(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.binary_op(BinaryOp::Sub, a, b)
    }

    /// `a b`.
    fn times(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.binary_op(BinaryOp::Mul, a, b)
    }

    /// `a / b`, of floats.
    fn over(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.binary_op(BinaryOp::Div, a, b)
    }

    /// `a + number`.
    fn plus_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        self.binary_number(BinaryOp::Add, a, b.into())
    }

    /// `a - number`.
    fn minus_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        self.binary_number(BinaryOp::Sub, a, b.into())
    }

    /// `a * number`; `a` itself where the number is 1.
    fn times_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        let b = b.into();
        if b.as_f64() == 1.0 {
            return a;
        }
        self.binary_number(BinaryOp::Mul, a, b)
    }

    /// `a / number`, of floats; `a` itself where the number is 1.
    fn over_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        let b = b.into();
        if b.as_f64() == 1.0 {
            return a;
        }
        self.binary_number(BinaryOp::Div, a, b)
    }

    /// `number - a`.
    fn n_minus(&mut self, a: impl Into<Scalar>, b: Self::Value) -> Self::Value {
        let a = self.like(b, a);
        self.minus(a, b)
    }

    /// `a < number`.
    fn lt_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        self.compare_number(CompareOp::Lt, a, b.into())
    }

    /// `a <= number`.
    fn le_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        self.compare_number(CompareOp::Le, a, b.into())
    }

    /// `a > number`.
    fn gt_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        self.compare_number(CompareOp::Gt, a, b.into())
    }

    /// `a >= number`.
    fn ge_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        self.compare_number(CompareOp::Ge, a, b.into())
    }

    /// `a == number`.
    fn eq_n(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        self.compare_number(CompareOp::Eq, a, b.into())
    }

    /// `a && b`, of `bool`s.
    fn both(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.binary_op(BinaryOp::LogicalAnd, a, b)
    }

    /// `a || b`, of `bool`s.
    fn either(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.binary_op(BinaryOp::LogicalOr, a, b)
    }

    /// `max(a, number)`; NaN stays.
    fn at_least(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        let b = self.like(a, b);
        self.binary_op(BinaryOp::Maximum, a, b)
    }

    /// `min(a, number)`; NaN stays.
    fn at_most(&mut self, a: Self::Value, b: impl Into<Scalar>) -> Self::Value {
        let b = self.like(a, b);
        self.binary_op(BinaryOp::Minimum, a, b)
    }

    /// `-x`.
    fn negated(&mut self, x: Self::Value) -> Self::Value {
        self.unary_op(UnaryOp::Neg, x)
    }

    /// `|x|`.
    fn size_of(&mut self, x: Self::Value) -> Self::Value {
        self.unary_op(UnaryOp::Abs, x)
    }

    /// e to the power of `x`.
    fn exp_of(&mut self, x: Self::Value) -> Self::Value {
        self.unary_op(UnaryOp::Exp, x)
    }

    /// `ln(1 + x)`.
    fn log1p_of(&mut self, x: Self::Value) -> Self::Value {
        self.unary_op(UnaryOp::Log1p, x)
    }

    /// The logistic function.
    fn sigmoid_of(&mut self, x: Self::Value) -> Self::Value {
        self.unary_op(UnaryOp::Sigmoid, x)
    }
}
