//! Composites: operators that are made of other operators, by functions that look at sizes and
//! dtypes.
//!
//! A definition is generic over the [`Composer`] that it builds with. There are two:
//!
//! - `straightline`'s eager kernels make each call through the dispatcher, which is also what
//!   capture sees of a composite;
//! - [`Site`](crate::rewrite::Site) adds calls to the e-graph, so that the decompose rule of a
//!   graph that was written by hand *is* the definition.
//!
//! A definition has its operator's name and takes the operator's arguments
//! ([`args`](crate::ir::args)). The entry of such an operator says `composed` where others name a
//! kernel. Composites that need no decisions are expressions in their entries instead, and
//! pointwise ones are [formulas](crate::formula).
//!
//! JAX has one definition in the same way (a function of `lax` calls that runs and traces alike),
//! and PyTorch's `_decomp` shows what a second one costs: tests that hold the two together.

#![allow(non_snake_case, reason = "definitions have the names of their operators")]

mod product;
mod reduce;
mod select;
mod shape;
#[cfg(feature = "rewrite")]
mod site;

#[cfg(feature = "rewrite")]
pub(crate) use site::RULES;

pub use product::{linear, matmul};
pub use reduce::{log_softmax_int, logsumexp, softmax_int, vector_norm};
pub use select::{masked_fill_Tensor, where_ScalarOther, where_ScalarSelf};
pub use shape::stack;

use crate::ir::{DType, Dims, MetaError, Scalar};

/// A value that a composer has made, or why it could not.
pub type Made<C> = Result<<C as Composer>::Value, <C as Composer>::Error>;

/// What a composite reads its operands through, and makes calls with.
///
/// Each method that gives a value is the call of one operator, whose name it has. Dimensions may be
/// negative, as in calls.
pub trait Composer {
    /// A tensor.
    type Value: Clone;
    /// Why a call could not be made.
    type Error: From<MetaError>;

    /// The sizes of a value.
    fn sizes(&self, x: &Self::Value) -> Dims;
    /// The element type of a value.
    fn dtype(&self, x: &Self::Value) -> DType;

    /// A value in another dtype; itself where it has it already.
    fn to(&mut self, x: &Self::Value, dtype: DType) -> Made<Self>;
    /// A number as a tensor without dimensions, in the dtype that it has in arithmetic with `x`.
    fn number_beside(&mut self, number: Scalar, x: &Self::Value) -> Made<Self>;

    /// The transpose of a matrix.
    fn t(&mut self, x: &Self::Value) -> Made<Self>;
    /// With a dimension of size 1 before `dim`.
    fn unsqueeze(&mut self, x: &Self::Value, dim: i64) -> Made<Self>;
    /// Without these dimensions, as far as their size is 1.
    fn squeeze(&mut self, x: &Self::Value, dims: &[i64]) -> Made<Self>;
    /// Repeated to larger sizes without a copy.
    fn expand(&mut self, x: &Self::Value, sizes: &[i64]) -> Made<Self>;
    /// The same elements in other sizes, without a copy.
    fn view(&mut self, x: &Self::Value, sizes: &[i64]) -> Made<Self>;
    /// [`Composer::view`] of a value that nothing else refers to, `_unsafe_view`.
    fn unsafe_view(&mut self, x: &Self::Value, sizes: &[i64]) -> Made<Self>;
    /// The same elements in other sizes.
    fn reshape(&mut self, x: &Self::Value, sizes: &[i64]) -> Made<Self>;
    /// The same elements in rows; the value itself where they are.
    fn contiguous(&mut self, x: &Self::Value) -> Made<Self>;
    /// The concatenation along a dimension.
    fn cat(&mut self, parts: &[Self::Value], dim: i64) -> Made<Self>;

    /// The real parts.
    fn real(&mut self, x: &Self::Value) -> Made<Self>;
    /// `|x|`.
    fn abs(&mut self, x: &Self::Value) -> Made<Self>;
    /// `e^x`.
    fn exp(&mut self, x: &Self::Value) -> Made<Self>;
    /// The natural logarithm.
    fn log(&mut self, x: &Self::Value) -> Made<Self>;
    /// The square root.
    fn sqrt(&mut self, x: &Self::Value) -> Made<Self>;
    /// `a + b`.
    fn add(&mut self, a: &Self::Value, b: &Self::Value) -> Made<Self>;
    /// `a - b`.
    fn sub(&mut self, a: &Self::Value, b: &Self::Value) -> Made<Self>;
    /// `a * b`.
    fn mul(&mut self, a: &Self::Value, b: &Self::Value) -> Made<Self>;
    /// `x ^ power`.
    fn pow(&mut self, x: &Self::Value, power: f64) -> Made<Self>;
    /// `x == number`.
    fn eq(&mut self, x: &Self::Value, number: f64) -> Made<Self>;
    /// `x != number`.
    fn ne(&mut self, x: &Self::Value, number: f64) -> Made<Self>;
    /// A number where the mask says so.
    fn masked_fill(&mut self, x: &Self::Value, mask: &Self::Value, number: f64) -> Made<Self>;
    /// `condition ? a : b`, `where.self`.
    fn select(&mut self, condition: &Self::Value, a: &Self::Value, b: &Self::Value) -> Made<Self>;

    /// The sum over dimensions; all where there are none.
    fn sum(&mut self, x: &Self::Value, dims: &[i64], keepdim: bool) -> Made<Self>;
    /// The greatest elements over dimensions; all where there are none.
    fn amax(&mut self, x: &Self::Value, dims: &[i64], keepdim: bool) -> Made<Self>;
    /// The least elements over dimensions; all where there are none.
    fn amin(&mut self, x: &Self::Value, dims: &[i64], keepdim: bool) -> Made<Self>;
    /// `_softmax`.
    fn softmax(&mut self, x: &Self::Value, dim: i64) -> Made<Self>;
    /// `_log_softmax`.
    fn log_softmax(&mut self, x: &Self::Value, dim: i64) -> Made<Self>;

    /// The product of two tensors of any rank.
    fn matmul(&mut self, a: &Self::Value, b: &Self::Value) -> Made<Self>;
    /// The product of two matrices.
    fn mm(&mut self, a: &Self::Value, b: &Self::Value) -> Made<Self>;
    /// The products of two batches of matrices.
    fn bmm(&mut self, a: &Self::Value, b: &Self::Value) -> Made<Self>;
    /// `a @ b + addend`.
    fn addmm(&mut self, addend: &Self::Value, a: &Self::Value, b: &Self::Value) -> Made<Self>;
}
