//! Reductions, softmax and normalisation.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Ints, Tensor};
use straightline_passes::ir::Scalar;

impl Tensor {
    /// The sum of all elements. See [`aten::sum`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.sum()?.to_vec::<f32>()?, [10.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self) -> Result<Tensor> {
        aten::sum(self, None)
    }

    /// The sum over dimensions. See [`aten::sum_dim_int_list`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.sum_dim(&[1], false)?.to_vec::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sum_dim(&self, dims: impl Ints, keepdim: bool) -> Result<Tensor> {
        aten::sum_dim_int_list(self, Some(&dims.ints()), keepdim, None)
    }

    /// The mean of all elements. See [`aten::mean`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.mean()?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mean(&self) -> Result<Tensor> {
        aten::mean(self, None)
    }

    /// The mean over dimensions. See [`aten::mean_dim`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.mean_dim(&[1], false)?.to_vec::<f32>()?, [1.5, 3.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mean_dim(&self, dims: impl Ints, keepdim: bool) -> Result<Tensor> {
        aten::mean_dim(self, Some(&dims.ints()), keepdim, None)
    }

    /// The product of all elements. See [`aten::prod`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.prod()?.to_vec::<f32>()?, [24.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn prod(&self) -> Result<Tensor> {
        aten::prod(self, None)
    }

    /// The largest element over dimensions (all when empty). See [`aten::amax`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.amax(&[1], false)?.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn amax(&self, dims: impl Ints, keepdim: bool) -> Result<Tensor> {
        aten::amax(self, &dims.ints(), keepdim)
    }

    /// The smallest element over dimensions (all when empty). See [`aten::amin`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.amin(&[1], false)?.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn amin(&self, dims: impl Ints, keepdim: bool) -> Result<Tensor> {
        aten::amin(self, &dims.ints(), keepdim)
    }

    /// The largest element. See [`aten::max`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.max()?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn max(&self) -> Result<Tensor> {
        aten::max(self)
    }

    /// Values and positions of the extremes along a dimension. See [`aten::max_dim`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.max_dim(1, false)?.1.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn max_dim(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        aten::max_dim(self, dim, keepdim)
    }

    /// The position of the first extreme along a dimension, or among all elements. See [`aten::argmax`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.argmax(Some(1), false)?.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax(&self, dim: impl Into<Option<i64>>, keepdim: bool) -> Result<Tensor> {
        aten::argmax(self, dim.into(), keepdim)
    }

    /// The smallest element. See [`aten::min`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.min()?.to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn min(&self) -> Result<Tensor> {
        aten::min(self)
    }

    /// Values and positions of the extremes along a dimension. See [`aten::min_dim`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.min_dim(1, false)?.1.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn min_dim(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        aten::min_dim(self, dim, keepdim)
    }

    /// The position of the first extreme along a dimension, or among all elements. See [`aten::argmin`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.argmin(Some(1), false)?.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin(&self, dim: impl Into<Option<i64>>, keepdim: bool) -> Result<Tensor> {
        aten::argmin(self, dim.into(), keepdim)
    }

    /// Whether any element is non-zero. See [`aten::any`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.any()?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn any(&self) -> Result<Tensor> {
        aten::any(self)
    }

    /// Whether all elements are non-zero. See [`aten::all`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.all()?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn all(&self) -> Result<Tensor> {
        aten::all(self)
    }

    /// The variance of all elements, divided by one less than their number. See [`aten::var_correction`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, 2.0, 3.0])?.var()?.item::<f32>()?, 1.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn var(&self) -> Result<Tensor> {
        aten::var_correction(self, None, None, false)
    }

    /// [`Tensor::var`] over dimensions, divided by their number of elements less `correction`: 1 for an estimate from a
    /// sample, 0 for all there is.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x.var_dim(1, 0, false)?.to_vec::<f32>()?, [0.25, 0.25]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn var_dim(
        &self,
        dims: impl Ints,
        correction: impl Into<Scalar>,
        keepdim: bool,
    ) -> Result<Tensor> {
        aten::var_correction(self, Some(&dims.ints()), Some(correction.into()), keepdim)
    }

    /// The standard deviation, the root of the variance of all elements, divided by one less than their number. See [`aten::std_correction`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, 2.0, 3.0])?.std()?.item::<f32>()?, 1.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn std(&self) -> Result<Tensor> {
        aten::std_correction(self, None, None, false)
    }

    /// [`Tensor::std`] over dimensions, divided by their number of elements less `correction`: 1 for an estimate from a
    /// sample, 0 for all there is.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x.std_dim(1, 0, false)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn std_dim(
        &self,
        dims: impl Ints,
        correction: impl Into<Scalar>,
        keepdim: bool,
    ) -> Result<Tensor> {
        aten::std_correction(self, Some(&dims.ints()), Some(correction.into()), keepdim)
    }

    /// `log(sum(exp(x)))` without overflow. See [`aten::logsumexp`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32])?;
    /// assert_eq!(x.logsumexp(&[0], false)?.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(&self, dims: impl Ints, keepdim: bool) -> Result<Tensor> {
        aten::logsumexp(self, &dims.ints(), keepdim)
    }

    /// `exp(x) / sum(exp(x))` along a dimension. See [`aten::softmax_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32, 0.0])?;
    /// assert_eq!(x.softmax(0)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, dim: i64) -> Result<Tensor> {
        aten::softmax_int(self, dim, None)
    }

    /// The logarithm of [`Tensor::softmax`]. See [`aten::log_softmax_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([5f32])?;
    /// assert_eq!(x.log_softmax(0)?.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, dim: i64) -> Result<Tensor> {
        aten::log_softmax_int(self, dim, None)
    }

    /// Normalised to mean 0 and variance 1 over the last dimensions, then scaled and shifted. See [`aten::layer_norm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f64, 3.0])?;
    /// assert_eq!(x.layer_norm(&[2], None, None, 0.0)?.to_vec::<f64>()?, [-1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm(
        &self,
        shape: impl Ints,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        aten::layer_norm(self, &shape.ints(), weight, bias, eps, true)
    }

    /// Divided by the root mean square over the last dimensions, then scaled. See [`aten::rms_norm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([2f32, 2.0])?;
    /// assert_eq!(x.rms_norm(&[2], None, 0.0)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm(&self, shape: impl Ints, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        aten::rms_norm(self, &shape.ints(), weight, Some(eps))
    }
}
