//! Tensors like another one. Those made from nothing are in `tensor/options.rs`.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
use straightline_catalog::Scalar;

/// `aten::X_like(self, dtype, layout, device, pin_memory, memory_format)` with this tensor's own.
macro_rules! like {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self) -> Result<Tensor> {
            aten::$name(self, None, None, None, None, None)
        }
    )*};
}

impl Tensor {
    like! {
        /// Memory in this tensor's shape, dtype and device that nobody has written to. See
        /// [`aten::empty_like`].
        ///
        /// ```
        /// use straightline::tensor;
        /// assert_eq!(tensor([[5.0], [6.0]])?.empty_like()?.sizes(), [2, 1]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        empty_like;

        /// Zeros in this tensor's shape, dtype and device. See [`aten::zeros_like`].
        ///
        /// ```
        /// use straightline::tensor;
        /// assert_eq!(tensor([5.0])?.zeros_like()?.to_vec::<f32>()?, [0.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        zeros_like;

        /// Ones in this tensor's shape, dtype and device. See [`aten::ones_like`].
        ///
        /// ```
        /// use straightline::tensor;
        /// assert_eq!(tensor([5.0])?.ones_like()?.to_vec::<f32>()?, [1.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        ones_like;

        /// Random numbers from [0, 1) in this tensor's shape, dtype and device. See
        /// [`aten::rand_like`].
        ///
        /// ```
        /// use straightline::tensor;
        /// let x = tensor([5.0, 6.0])?.rand_like()?;
        /// assert!(x.max()?.item::<f32>()? < 1.0);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        rand_like;

        /// Random numbers of the standard normal distribution in this tensor's shape, dtype and device. See
        /// [`aten::randn_like`].
        ///
        /// ```
        /// use straightline::tensor;
        /// assert_eq!(tensor([5.0, 6.0])?.randn_like()?.sizes(), [2]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        randn_like;
    }

    /// One number everywhere in this tensor's shape, dtype and device. See [`aten::full_like`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.full_like(7)?.to_vec::<i64>()?, [7, 7]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::full_like(self, value.into(), None, None, None, None, None)
    }

    /// Random integers from `low` up to `high`, which is not among them, in this tensor's shape, dtype and device. See
    /// [`aten::randint_like_low_dtype`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1, 2])?.randint_like(5, 6)?;
    /// assert_eq!(x.to_vec::<i64>()?, [5, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn randint_like(&self, low: impl Int, high: impl Int) -> Result<Tensor> {
        aten::randint_like_low_dtype(
            self,
            low.to_i64(),
            high.to_i64(),
            None,
            None,
            None,
            None,
            None,
        )
    }

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
}
