//! What PyTorch has as functions of its module and what starts from no tensor in particular: factories, joins, sums over
//! indices. Each is an associated function of [`Tensor`] too, as in other crates.

use super::{Int, Tensor, Tensors};
use crate::error::Result;

pub use super::options::functions::*;

/// [`Tensor::cat`]: tensors joined along a dimension.
///
/// ```
/// use straightline::{cat, ones, zeros};
/// assert_eq!(cat([zeros([1, 3])?, ones([2, 3])?], 0)?.shape(), [3, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::cat`].
#[track_caller]
pub fn cat(tensors: impl Tensors, dim: impl Int) -> Result<Tensor> {
    Tensor::cat(tensors, dim)
}

/// [`Tensor::stack`]: tensors of one shape joined along a new dimension.
///
/// ```
/// use straightline::{ones, stack, zeros};
/// assert_eq!(stack([zeros([2, 3])?, ones([2, 3])?], 0)?.shape(), [2, 2, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::stack`].
#[track_caller]
pub fn stack(tensors: impl Tensors, dim: impl Int) -> Result<Tensor> {
    Tensor::stack(tensors, dim)
}

/// [`Tensor::einsum`]: the sum of products that an equation says.
///
/// ```
/// use straightline::{einsum, ones};
/// let (a, b) = (ones([2, 3])?, ones([3, 4])?);
/// assert_eq!(einsum("ij,jk->ik", [&a, &b])?.shape(), [2, 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::einsum`].
#[track_caller]
pub fn einsum(equation: &str, tensors: impl Tensors) -> Result<Tensor> {
    Tensor::einsum(equation, tensors)
}
