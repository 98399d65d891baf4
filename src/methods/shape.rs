//! Sizes, and views by them.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::ints::Split;
use crate::tensor::{Int, Sections, Tensor};

impl Tensor {
    /// The size of a dimension, counted from the end where negative.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::zeros([1, 2])?.size(-1)?, 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// A dimension out of range.
    #[track_caller]
    pub fn size(&self, dim: impl Int) -> Result<i64> {
        let at = std::panic::Location::caller();
        let found = crate::ops::common::wrap_dim(dim.to_i64(), self.dim()).and_then(|d| {
            let none =
                || Error::index("a 0-dim.to_i64() tensor has no dimension to take the size of");
            self.sizes().get(d).copied().ok_or_else(none)
        });
        found.map_err(|e| e.with_location(at))
    }

    /// The sizes of a tensor that has to have so many dimensions.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let [batch, channels] = Tensor::zeros([3, 4])?.dims()?;
    /// assert_eq!((batch, channels), (3, 4));
    /// assert!(Tensor::zeros([3, 4])?.dims::<3>().is_err());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of dimensions.
    #[doc(alias = "dims1")]
    #[doc(alias = "dims2")]
    #[doc(alias = "dims3")]
    #[doc(alias = "dims4")]
    #[doc(alias = "dims5")]
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> Result<[i64; N]> {
        <[i64; N]>::try_from(self.sizes()).map_err(|_| {
            let message = format!(
                "a tensor of {N} dimensions is wanted, and this one has sizes {:?}",
                self.sizes()
            );
            Error::shape(message).with_location(std::panic::Location::caller())
        })
    }

    /// Views of parts of a dimension: of a number of positions each, the last of which may be
    /// shorter, or of the sizes in a list. See [`aten::split_tensor`] and
    /// [`aten::split_with_sizes`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::arange(6)?.reshape([2, 3])?;
    /// assert_eq!(x.split(2, 1)?.len(), 2);
    /// let parts = x.split([1, 2], 1)?;
    /// assert_eq!((parts[0].shape(), parts[1].shape()), (&[2, 1][..], &[2, 2][..]));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Sizes that do not add up to that of the dimension.
    #[track_caller]
    pub fn split(&self, parts: impl Sections, dim: impl Int) -> Result<Vec<Tensor>> {
        match parts.sections() {
            Split::Each(size) => aten::split_tensor(self, size, dim.to_i64()),
            Split::Sizes(sizes) => aten::split_with_sizes(self, &sizes, dim.to_i64()),
        }
    }

    /// [`Tensor::reshape`] to the sizes of another tensor.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::arange(6)?.reshape_as(&Tensor::zeros([2, 3])?)?.shape(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape_as(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::reshape_as(self, other.as_ref())
    }

    /// One dimension of all elements in row-major order; a view where that is possible.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3])?.ravel()?.shape(), [6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ravel(&self) -> Result<Tensor> {
        aten::ravel(self)
    }
}
