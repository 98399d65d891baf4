//! What the derivative formulas of the catalogue call: the signs between operands, operators under
//! their plain names, and functions for what is more than an expression, one file for each family.
//!
//! All of it calls operators through `ops::aten` alone, so that a gradient is recorded, captured and
//! differentiated as any other code.

mod activation;
mod arithmetic;
mod attention;
mod basics;
mod complex;
mod conv;
mod copy;
#[cfg(test)]
mod differences;
mod fft;
mod forward;
mod forward_norm;
mod grid;
mod index;
mod linalg;
mod loss;
mod matmul;
mod norm;
#[cfg(test)]
mod numeric;
mod pool;
mod random;
mod recurrent;
mod reduce;
mod scan;
mod shape;
mod softmax;
mod sparse;
mod special;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use activation::*;
pub(crate) use arithmetic::*;
pub(crate) use attention::*;
pub(crate) use basics::*;
pub(crate) use complex::*;
pub(crate) use conv::*;
pub(crate) use copy::*;
pub(crate) use fft::*;
pub(crate) use forward::*;
pub(crate) use forward_norm::*;
pub(crate) use grid::*;
pub(crate) use index::*;
pub(crate) use linalg::*;
pub(crate) use loss::*;
pub(crate) use matmul::*;
pub(crate) use norm::*;
pub(crate) use pool::*;
pub(crate) use random::*;
pub(crate) use recurrent::*;
pub(crate) use reduce::*;
pub(crate) use scan::*;
pub(crate) use shape::*;
pub(crate) use softmax::*;
pub(crate) use sparse::*;
pub(crate) use special::*;
pub(crate) use view::*;
