//! Methods that choose between elements.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Other, Tensor};

impl Tensor {
    /// `a` where this tensor of `bool` is true and `b` elsewhere, broadcasting; either may be a
    /// number. See [`aten::where_self`].
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

    /// `x` where positive, else `slope * x`. See [`aten::leaky_relu`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[-2f32, 3.0], &[2])?;
    /// assert_eq!(x.leaky_relu_with(0.5)?.to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn leaky_relu_with(&self, slope: impl Into<f64>) -> Result<Tensor> {
        aten::leaky_relu(self, slope.into().into())
    }
}
