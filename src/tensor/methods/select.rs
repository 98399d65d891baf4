//! Methods that choose between elements.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_passes::ir::Scalar;

impl Tensor {
    /// `condition ? a : b`. See [`aten::where_self`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let c = Tensor::from_vec([true, false])?;
    /// let (a, b) = (Tensor::from_vec([1i64, 2])?, Tensor::from_vec([3i64, 4])?);
    /// assert_eq!(Tensor::where_self(&c, &a, &b)?.to_vec::<i64>()?, [1, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn where_self(condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        aten::where_self(condition, a, b)
    }

    /// `value` where the mask is true. See [`aten::masked_fill_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0])?;
    /// let m = Tensor::from_vec([true, false])?;
    /// assert_eq!(x.masked_fill(&m, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::masked_fill_scalar(self, mask, value.into())
    }

    /// [`Tensor::masked_fill`] in place.
    #[track_caller]
    pub fn masked_fill_(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::masked_fill_scalar_(self, mask, value.into())
    }

    /// Elements limited to a range. See [`aten::clamp`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([-5f32, 5.0])?;
    /// assert_eq!(x.clamp(Some((-1.0).into()), Some(1.0.into()))?.to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
        aten::clamp(self, min, max)
    }

    /// [`Tensor::clamp`] in place.
    #[track_caller]
    pub fn clamp_(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
        aten::clamp_(self, min, max)
    }

    /// `self + value * a * b`. See [`aten::addcmul`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([2f32])?;
    /// assert_eq!(x.addcmul(&x, &x, 1)?.to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::addcmul(self, a, b, value.into())
    }

    /// `self + value * a / b`. See [`aten::addcdiv`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([2f32])?;
    /// assert_eq!(x.addcdiv(&x, &x, 1)?.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::addcdiv(self, a, b, value.into())
    }
}
