//! Methods that choose between elements.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Other, Tensor};
use straightline_catalog::Scalar;

impl Tensor {
    /// `a` where this tensor of `bool` is true and `b` elsewhere, broadcasting; either may be a number. See
    /// [`aten::where_self`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 2.0])?;
    /// assert_eq!(x.gt(0)?.where_cond(&x, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "where")]
    #[doc(alias = "where_self")]
    #[doc(alias = "mask_where")]
    #[track_caller]
    pub fn where_cond<'a, 'b>(
        &self,
        a: impl Into<Other<'a>>,
        b: impl Into<Other<'b>>,
    ) -> Result<Tensor> {
        match (a.into(), b.into()) {
            (Other::Tensor(a), Other::Tensor(b)) => aten::where_self(self, a, b),
            (a, b) => aten::where_self(self, &a.into_tensor()?, &b.into_tensor()?),
        }
    }

    /// `value`, a number or a 0-dim tensor, where the mask is true. See [`aten::masked_fill_scalar`] and
    /// [`aten::masked_fill_tensor`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// assert_eq!(x.masked_fill(&x.lt(1.5)?, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "mask_fill")]
    #[track_caller]
    pub fn masked_fill<'a>(
        &self,
        mask: impl AsRef<Tensor>,
        value: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        match value.into() {
            Other::Number(n) => aten::masked_fill_scalar(self, mask.as_ref(), n),
            value => aten::masked_fill_tensor(self, mask.as_ref(), &value.into_tensor()?),
        }
    }

    /// [`Tensor::masked_fill`] in place.
    #[track_caller]
    pub fn masked_fill_<'a>(
        &self,
        mask: impl AsRef<Tensor>,
        value: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        match value.into() {
            Other::Number(n) => aten::masked_fill_scalar_(self, mask.as_ref(), n),
            value => aten::masked_fill_tensor_(self, mask.as_ref(), &value.into_tensor()?),
        }
    }

    /// Limited to a range, which numbers or tensors that broadcast give; [`Tensor::clamp_min`] and
    /// [`Tensor::clamp_max`] have one end. See [`aten::clamp`] and [`aten::clamp_tensor`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-5.0, 0.5, 5.0])?;
    /// assert_eq!(x.clamp(-1, 1)?.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// assert_eq!(x.clamp(&x, 0.0)?.to_vec::<f32>()?, [-5.0, 0.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp<'a, 'b>(
        &self,
        min: impl Into<Other<'a>>,
        max: impl Into<Other<'b>>,
    ) -> Result<Tensor> {
        match (min.into(), max.into()) {
            (Other::Number(min), Other::Number(max)) => aten::clamp(self, Some(min), Some(max)),
            (min, max) => {
                let (min, max) = (min.into_tensor()?, max.into_tensor()?);
                aten::clamp_tensor(self, Some(&min), Some(&max))
            }
        }
    }

    /// [`Tensor::clamp`] in place.
    #[track_caller]
    pub fn clamp_<'a, 'b>(
        &self,
        min: impl Into<Other<'a>>,
        max: impl Into<Other<'b>>,
    ) -> Result<Tensor> {
        match (min.into(), max.into()) {
            (Other::Number(min), Other::Number(max)) => aten::clamp_(self, Some(min), Some(max)),
            (min, max) => {
                let (min, max) = (min.into_tensor()?, max.into_tensor()?);
                aten::clamp_tensor_(self, Some(&min), Some(&max))
            }
        }
    }

    /// `self + a * b`. See [`aten::addcmul`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, a, b) = (tensor(2.0)?, tensor(3.0)?, tensor(4.0)?);
    /// assert_eq!(x.addcmul(&a, &b)?.item::<f32>()?, 14.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        self.addcmul_with(a.as_ref(), b.as_ref(), 1)
    }

    /// `self + value * a * b`. See [`aten::addcmul`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([2f32], 1)?;
    /// assert_eq!(x.addcmul_with(&x, &x, 1)?.to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul_with(
        &self,
        a: impl AsRef<Tensor>,
        b: impl AsRef<Tensor>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::addcmul(self, a.as_ref(), b.as_ref(), value.into())
    }

    /// `self + a / b`. See [`aten::addcdiv`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, a, b) = (tensor(2.0)?, tensor(3.0)?, tensor(4.0)?);
    /// assert_eq!(x.addcdiv(&a, &b)?.item::<f32>()?, 2.75);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        self.addcdiv_with(a.as_ref(), b.as_ref(), 1)
    }

    /// `self + value * a / b`. See [`aten::addcdiv`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([2f32], 1)?;
    /// assert_eq!(x.addcdiv_with(&x, &x, 1)?.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv_with(
        &self,
        a: impl AsRef<Tensor>,
        b: impl AsRef<Tensor>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::addcdiv(self, a.as_ref(), b.as_ref(), value.into())
    }
}
