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
    /// The tensors; handles of them where they are referred to one by one.
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

        // `[&x, &y]` where these are references already, as arguments of a function are
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
