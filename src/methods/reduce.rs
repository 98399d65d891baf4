//! Reductions, softmax and normalisation.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, OptionalInt, Tensor};
use straightline_catalog::Scalar;

impl Tensor {
    /// The sum of all elements. See [`aten::sum`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.sum()?.to_vec::<f32>()?, [10.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "sum_all")]
    #[track_caller]
    pub fn sum(&self) -> Result<Tensor> {
        aten::sum(self, None)
    }

    /// The sum over dimensions. See [`aten::sum_dim_int_list`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.sum_dim(&[1])?.to_vec::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sum_dim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::sum_dim_int_list(self, Some(&dims.ints()), false, None)
    }

    /// [`Tensor::sum_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.sum_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sum_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::sum_dim_int_list(self, Some(&dims.ints()), true, None)
    }

    /// The mean of all elements. See [`aten::mean`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.mean()?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "mean_all")]
    #[track_caller]
    pub fn mean(&self) -> Result<Tensor> {
        aten::mean(self, None)
    }

    /// The mean over dimensions. See [`aten::mean_dim`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.mean_dim(&[1])?.to_vec::<f32>()?, [1.5, 3.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mean_dim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::mean_dim(self, Some(&dims.ints()), false, None)
    }

    /// [`Tensor::mean_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 2.0], [3.0, 4.0]])?.mean_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mean_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::mean_dim(self, Some(&dims.ints()), true, None)
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

    /// The largest elements over dimensions, over all for `()`; equal ones share the gradient in PyTorch, which is all
    /// that tells it from [`Tensor::max_dim`]. See [`aten::amax`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.amax(1)?.to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn amax(&self, dims: impl Ints) -> Result<Tensor> {
        aten::amax(self, &dims.ints(), false)
    }

    /// [`Tensor::amax`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.amax_keepdim([0, 1])?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn amax_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::amax(self, &dims.ints(), true)
    }

    /// The smallest elements over dimensions, over all for `()`; equal ones share the gradient in PyTorch, which is all
    /// that tells it from [`Tensor::min_dim`]. See [`aten::amin`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.amin(1)?.to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn amin(&self, dims: impl Ints) -> Result<Tensor> {
        aten::amin(self, &dims.ints(), false)
    }

    /// [`Tensor::amin`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.amin_keepdim([0, 1])?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn amin_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::amin(self, &dims.ints(), true)
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
    /// assert_eq!(x.max_dim(1)?.1.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn max_dim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::max_dim(self, dim.to_i64(), false)
    }

    /// [`Tensor::max_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.max_keepdim(1)?.0.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn max_keepdim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::max_dim(self, dim.to_i64(), true)
    }

    /// The positions of the largest elements along a dimension, of the first where several are equal; in the whole
    /// tensor in row-major order for `None`. See [`aten::argmax`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 3.0], [0.0, 2.0]])?;
    /// assert_eq!(x.argmax(-1)?.to_vec::<i64>()?, [1, 1]);
    /// assert_eq!(x.argmax(None)?.item::<i64>()?, 1);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "argmax_dim")]
    #[track_caller]
    pub fn argmax(&self, dim: impl OptionalInt) -> Result<Tensor> {
        aten::argmax(self, dim.to_option(), false)
    }

    /// [`Tensor::argmax`], whose dimension stays, with size 1; every one for `None`.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.argmax_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax_keepdim(&self, dim: impl OptionalInt) -> Result<Tensor> {
        aten::argmax(self, dim.to_option(), true)
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
    /// assert_eq!(x.min_dim(1)?.1.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn min_dim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::min_dim(self, dim.to_i64(), false)
    }

    /// [`Tensor::min_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.min_keepdim(1)?.0.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn min_keepdim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::min_dim(self, dim.to_i64(), true)
    }

    /// The positions of the smallest elements along a dimension, of the first where several are equal; in the whole
    /// tensor in row-major order for `None`. See [`aten::argmin`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 3.0], [0.0, 2.0]])?;
    /// assert_eq!(x.argmin(-1)?.to_vec::<i64>()?, [0, 0]);
    /// assert_eq!(x.argmin(None)?.item::<i64>()?, 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "argmin_dim")]
    #[track_caller]
    pub fn argmin(&self, dim: impl OptionalInt) -> Result<Tensor> {
        aten::argmin(self, dim.to_option(), false)
    }

    /// [`Tensor::argmin`], whose dimension stays, with size 1; every one for `None`.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 3.0], [0.0, 2.0]])?.argmin_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin_keepdim(&self, dim: impl OptionalInt) -> Result<Tensor> {
        aten::argmin(self, dim.to_option(), true)
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

    /// [`Tensor::var`] over dimensions. See [`aten::var_correction`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(x.var_dim(1)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// assert_eq!(x.var_keepdim([0, 1])?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn var_dim(&self, dims: impl Ints) -> Result<Tensor> {
        self.var_with(dims, 1, false)
    }

    /// [`Tensor::var_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 2.0], [3.0, 5.0]])?.var_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn var_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        self.var_with(dims, 1, true)
    }

    /// [`Tensor::var_dim`], with the number of elements less `correction` in the denominator: 1 for an estimate from a
    /// sample, 0 for all there is.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x.var_with(1, 0, false)?.to_vec::<f32>()?, [0.25, 0.25]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn var_with(
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

    /// [`Tensor::std`] over dimensions. See [`aten::std_correction`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(x.std_dim(1)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// assert_eq!(x.std_keepdim([0, 1])?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn std_dim(&self, dims: impl Ints) -> Result<Tensor> {
        self.std_with(dims, 1, false)
    }

    /// [`Tensor::std_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 2.0], [3.0, 5.0]])?.std_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn std_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        self.std_with(dims, 1, true)
    }

    /// [`Tensor::std_dim`], with the number of elements less `correction` in the denominator: 1 for an estimate from a
    /// sample, 0 for all there is.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x.std_with(1, 0, false)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn std_with(
        &self,
        dims: impl Ints,
        correction: impl Into<Scalar>,
        keepdim: bool,
    ) -> Result<Tensor> {
        aten::std_correction(self, Some(&dims.ints()), Some(correction.into()), keepdim)
    }

    /// `log(sum(exp(x)))` over dimensions, without overflow. See [`aten::logsumexp`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([[1000.0, 1000.0]])?.logsumexp(1)?, &tensor([1000.0 + 2f64.ln()])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(&self, dims: impl Ints) -> Result<Tensor> {
        aten::logsumexp(self, &dims.ints(), false)
    }

    /// [`Tensor::logsumexp`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 2.0], [3.0, 5.0]])?.logsumexp_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::logsumexp(self, &dims.ints(), true)
    }

    /// `exp(x) / sum(exp(x))` along a dimension. See [`aten::softmax_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32, 0.0], 2)?;
    /// assert_eq!(x.softmax(0)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, dim: impl Int) -> Result<Tensor> {
        aten::softmax_int(self, dim.to_i64(), None)
    }

    /// The logarithm of [`Tensor::softmax`]. See [`aten::log_softmax_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([5f32], 1)?;
    /// assert_eq!(x.log_softmax(0)?.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, dim: impl Int) -> Result<Tensor> {
        aten::log_softmax_int(self, dim.to_i64(), None)
    }

    /// Normalised to mean 0 and variance 1 over the last dimensions, whose sizes are given. See [`aten::layer_norm`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([1.0, 3.0])?.layer_norm(2)?, &tensor([-1.0, 1.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm(&self, shape: impl Ints) -> Result<Tensor> {
        self.layer_norm_with(shape, None, None, 1e-5)
    }

    /// [`Tensor::layer_norm`], then scaled by a weight and shifted by a bias of these sizes, where given. `eps` is
    /// added to the variance.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f64, 3.0], 2)?;
    /// assert_eq!(x.layer_norm_with(&[2], None, None, 0.0)?.to_vec::<f64>()?, [-1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm_with<'a, 'b>(
        &self,
        shape: impl Ints,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'b Tensor>>,
        eps: impl Into<f64>,
    ) -> Result<Tensor> {
        aten::layer_norm(
            self,
            &shape.ints(),
            weight.into(),
            bias.into(),
            eps.into(),
            true,
        )
    }

    /// Divided by the root mean square over the last dimensions, whose sizes are given. See [`aten::rms_norm`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([2.0, -2.0])?.rms_norm(2)?, &tensor([1.0, -1.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm(&self, shape: impl Ints) -> Result<Tensor> {
        aten::rms_norm(self, &shape.ints(), None, None)
    }

    /// [`Tensor::rms_norm`], then scaled by a weight of these sizes, where given. `eps` is added to the mean of the
    /// squares.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([2f32, 2.0], 2)?;
    /// assert_eq!(x.rms_norm_with(&[2], None, 0.0)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm_with<'a>(
        &self,
        shape: impl Ints,
        weight: impl Into<Option<&'a Tensor>>,
        eps: impl Into<f64>,
    ) -> Result<Tensor> {
        aten::rms_norm(self, &shape.ints(), weight.into(), Some(eps.into()))
    }
}
