//! The convenient form of the operators: `Tensor` methods with PyTorch's names and defaults.
//!
//! Each calls the typed wrapper of [`crate::ops::aten`] that its documentation names, which goes
//! through the dispatcher. Methods ending in `_` write in place and return a handle to the same
//! tensor.

mod activation;
mod arrange;
mod binary;
mod factor;
mod indexing;
mod inplace;
mod layout;
mod linalg;
mod losses;
mod make;
mod nested;
mod neural;
mod product;
mod quantiles;
mod quantized;
mod reduce;
mod rounding;
mod scatter;
mod search;
mod select;
mod shape;
mod sort;
mod sparse;
mod special;
mod statistics;
mod unary;
