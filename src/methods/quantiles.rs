//! Quantiles, covariances, distances, and statistics that come in pairs.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::literal;
use crate::tensor::{Int, Literal, Tensor};
use std::panic::Location;

impl Tensor {
    /// The values below which these parts of all elements lie, between 0 and 1, interpolated
    /// linearly, as `torch.quantile` does: a number gives a 0-dim tensor, several give one of as
    /// many elements. NaN where an element is.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([4.0, 1.0, 3.0, 2.0])?;
    /// assert_eq!(x.quantile(0.5)?.item::<f32>()?, 2.5);
    /// assert_eq!(x.quantile([0.0, 0.25, 1.0])?.to_vec::<f32>()?, [1.0, 1.75, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Integers, no elements, and parts that are not between 0 and 1.
    #[track_caller]
    pub fn quantile(&self, q: impl Literal) -> Result<Tensor> {
        self.flatten()?.quantile_dim(q, 0)
    }

    /// [`Tensor::quantile`] along a dimension. Several parts make a dimension in front.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(x.quantile_dim(0.5, 1)?.to_vec::<f32>()?, [2.0, 5.0]);
    /// assert_eq!(x.quantile_keepdim([0.0, 1.0], 1)?.shape(), [2, 2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::quantile`].
    #[track_caller]
    pub fn quantile_dim(&self, q: impl Literal, dim: impl Int) -> Result<Tensor> {
        self.quantile_over(q, dim, false)
    }

    /// [`Tensor::quantile_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 2.0]])?.quantile_keepdim([0.0, 1.0], 1)?.shape(), [2, 1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn quantile_keepdim(&self, q: impl Literal, dim: impl Int) -> Result<Tensor> {
        self.quantile_over(q, dim, true)
    }

    #[track_caller]
    fn quantile_over(&self, q: impl Literal, dim: impl Int, keepdim: bool) -> Result<Tensor> {
        let at = Location::caller();
        self.quantile_of(q, dim.to_i64(), keepdim)
            .map_err(|e| e.with_call("quantile", [self]).with_location(at))
    }

    #[track_caller]
    fn quantile_of(&self, q: impl Literal, dim: i64, keepdim: bool) -> Result<Tensor> {
        let (parts, several) = literal::list(&q)
            .ok_or_else(|| Error::shape("quantile() q must be a number or a list of numbers"))?;
        if let (false, [one]) = (several, &parts[..]) {
            return aten::quantile_scalar(self, *one, Some(dim), keepdim, "linear");
        }
        if let Some(q) = parts.iter().find(|q| !(0.0..=1.0).contains(*q)) {
            return Err(Error::value(format!(
                "quantile() q values must be in the range [0, 1], and this is {q}"
            )));
        }
        let parts = Tensor::with(self.dtype()).device(self.device()).literal(parts)?;
        aten::quantile(self, &parts, Some(dim), keepdim, "linear")
    }

    /// The covariances of variables, a row each, over observations, a column each: divided by one
    /// less than these, as `torch.cov` does.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])?;
    /// assert_eq!(x.cov()?.to_vec::<f32>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two dimensions.
    #[track_caller]
    pub fn cov(&self) -> Result<Tensor> {
        aten::cov(self, 1, None, None)
    }

    /// [`Tensor::cov`], each divided by the deviations of its two variables: from -1 to 1, as
    /// `torch.corrcoef` does.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])?;
    /// straightline::assert_close(&x.corrcoef()?, &tensor([[1.0, -1.0], [-1.0, 1.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two dimensions.
    #[track_caller]
    pub fn corrcoef(&self) -> Result<Tensor> {
        aten::corrcoef(self)
    }
}
