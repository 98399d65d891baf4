//! Several tensors at once, as `cat`, `stack` and `einsum` take them.

use super::Tensor;
use std::borrow::Cow;

/// Several tensors: an array, a slice or a `Vec`, of tensors or of references to them.
///
/// ```
/// use straightline::{Tensor, tensor};
/// let (a, b) = (tensor([1, 2])?, tensor([3])?);
/// assert_eq!(Tensor::cat([&a, &b], 0)?.to_vec::<i64>()?, [1, 2, 3]);
/// assert_eq!(Tensor::cat(&vec![a, b], 0)?.to_vec::<i64>()?, [1, 2, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of tensors",
    label = "lists of tensors are arrays, slices and `Vec`s of tensors or of references to them"
)]
pub trait Tensors {
    /// The tensors; cloned handles if they are given as references.
    fn tensors(&self) -> Cow<'_, [Tensor]>;
}

macro_rules! lists {
    ($($ty:ty, $references:ty, $twice:ty $(, const $n:ident)?;)*) => {$(
        impl $(<const $n: usize>)? Tensors for $ty {
            #[inline]
            fn tensors(&self) -> Cow<'_, [Tensor]> {
                Cow::Borrowed(&self[..])
            }
        }

        impl $(<const $n: usize>)? Tensors for $references {
            fn tensors(&self) -> Cow<'_, [Tensor]> {
                self.iter().map(|t| (*t).clone()).collect()
            }
        }

        // `[&x, &y]` where `x` and `y` are references already, like the arguments of a function
        impl $(<const $n: usize>)? Tensors for $twice {
            fn tensors(&self) -> Cow<'_, [Tensor]> {
                self.iter().map(|t| (**t).clone()).collect()
            }
        }
    )*};
}
lists! {
    &[Tensor], &[&Tensor], &[&&Tensor];
    [Tensor; N], [&Tensor; N], [&&Tensor; N], const N;
    &[Tensor; N], &[&Tensor; N], &[&&Tensor; N], const N;
    Vec<Tensor>, Vec<&Tensor>, Vec<&&Tensor>;
    &Vec<Tensor>, &Vec<&Tensor>, &Vec<&&Tensor>;
}

/// Tensors of which some may be missing, as [`Tensor::index`] and [`Tensor::index_put_`] take one
/// for each dimension: an array, a slice or a `Vec` of `Option<Tensor>`, an array of
/// `Option<&Tensor>`, or [`Tensors`].
///
/// ```
/// use straightline::tensor;
/// let (x, at) = (tensor([[1, 2], [3, 4]])?, tensor([1])?);
/// assert_eq!(x.index(&[&at])?.to_vec::<i64>()?, [3, 4]);
/// assert_eq!(x.index([None, Some(&at)])?.to_vec::<i64>()?, [2, 4]);
/// assert_eq!(x.index(&[None, Some(at)])?.to_vec::<i64>()?, [2, 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of tensors",
    label = "lists are arrays, slices and `Vec`s of tensors, of references to them, or of `Option<Tensor>`"
)]
pub trait OptionalTensors {
    /// The tensors; handles of them.
    fn optional(&self) -> Cow<'_, [Option<Tensor>]>;
}

impl<T: Tensors> OptionalTensors for T {
    fn optional(&self) -> Cow<'_, [Option<Tensor>]> {
        self.tensors().iter().cloned().map(Some).collect()
    }
}

impl<const N: usize> OptionalTensors for [Option<&Tensor>; N] {
    fn optional(&self) -> Cow<'_, [Option<Tensor>]> {
        self.iter().map(|t| t.cloned()).collect()
    }
}

macro_rules! optional {
    ($($ty:ty $(, const $n:ident)?;)*) => {$(
        impl $(<const $n: usize>)? OptionalTensors for $ty {
            #[inline]
            fn optional(&self) -> Cow<'_, [Option<Tensor>]> {
                Cow::Borrowed(&self[..])
            }
        }
    )*};
}
optional! {
    &[Option<Tensor>];
    [Option<Tensor>; N], const N;
    &[Option<Tensor>; N], const N;
    Vec<Option<Tensor>>;
    &Vec<Option<Tensor>>;
}
