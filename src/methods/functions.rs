//! What PyTorch has as functions of its module and what starts from no tensor in particular:
//! factories, joins, sums over indices, a choice. Each is an associated function or a method of
//! [`Tensor`] too, as in other crates.

use crate::error::Result;
use crate::tensor::{Int, Other, Tensor, Tensors};
use straightline_catalog::Scalar;

pub use crate::methods::options::functions::*;

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

/// [`Tensor::where_cond`]: one value where a condition is true, and another one elsewhere.
///
/// ```
/// use straightline::{tensor, where_};
/// let x = tensor([-1.0, 2.0])?;
/// assert_eq!(where_(x.gt(0)?, &x, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::where_cond`].
#[track_caller]
pub fn where_<'a, 'b>(
    condition: impl AsRef<Tensor>,
    a: impl Into<Other<'a>>,
    b: impl Into<Other<'b>>,
) -> Result<Tensor> {
    condition.as_ref().where_cond(a, b)
}

/// [`Tensor::full_like`]: one number everywhere in a tensor's shape, dtype and device.
///
/// ```
/// use straightline::{full_like, tensor};
/// assert_eq!(full_like(&tensor([1, 2])?, 7)?.to_vec::<i64>()?, [7, 7]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// As [`Tensor::full_like`].
#[track_caller]
pub fn full_like(tensor: impl AsRef<Tensor>, value: impl Into<Scalar>) -> Result<Tensor> {
    tensor.as_ref().full_like(value)
}

/// The methods `x.NAME()` as functions.
macro_rules! like {
    ($($name:ident: $what:literal;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($name), "`]: ", $what, " in a tensor's shape, dtype and device.")]
        ///
        /// ```
        #[doc = concat!("use straightline::{", stringify!($name), ", tensor};")]
        #[doc = concat!("assert_eq!(", stringify!($name), "(&tensor([1.0, 2.0])?)?.shape(), [2]);")]
        /// # Ok::<(), straightline::Error>(())
        /// ```
        ///
        /// # Errors
        #[doc = concat!("As [`Tensor::", stringify!($name), "`].")]
        #[track_caller]
        pub fn $name(tensor: impl AsRef<Tensor>) -> Result<Tensor> {
            tensor.as_ref().$name()
        }
    )*};
}
like! {
    empty_like: "memory that nobody has written to";
    zeros_like: "zeros";
    ones_like: "ones";
    rand_like: "random numbers from [0, 1)";
    randn_like: "random numbers of the standard normal distribution";
}
