//! Layers of neural networks: convolutions, pooling, normalisation, resampling, losses.

use super::convolution::each;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};

impl Tensor {
    /// Batch normalisation by known statistics of the channels (dimension 1), as in inference. See
    /// [`aten::batch_norm`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (mean, var) = (tensor([1.0, 1.0])?, tensor([4.0, 4.0])?);
    /// straightline::assert_close(&tensor([[1.0, 5.0]])?.batch_norm(&mean, &var)?, &tensor([[0.0, 2.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm(
        &self,
        running_mean: impl AsRef<Tensor>,
        running_var: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        self.batch_norm_with(
            running_mean.as_ref(),
            running_var.as_ref(),
            None,
            None,
            1e-5,
        )
    }

    /// [`Tensor::batch_norm`], then scaled by a weight and shifted by a bias of the channels, where given. `eps` is
    /// added to the variance.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 5.0], &[1, 2])?;
    /// let mean = Tensor::from_slice(&[1f32, 1.0], &[2])?;
    /// let var = Tensor::from_slice(&[4f32, 4.0], &[2])?;
    /// assert_eq!(x.batch_norm_with(&mean, &var, None, None, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_with<'a, 'b>(
        &self,
        running_mean: impl AsRef<Tensor>,
        running_var: impl AsRef<Tensor>,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'b Tensor>>,
        eps: impl Into<f64>,
    ) -> Result<Tensor> {
        aten::batch_norm(
            self,
            weight.into(),
            bias.into(),
            Some(running_mean.as_ref()),
            Some(running_var.as_ref()),
            false,
            0.1,
            eps.into(),
            false,
        )
    }

    /// Normalisation of so many groups of channels (dimension 1) to mean 0 and variance 1. See [`aten::group_norm`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 3.0, 10.0, 30.0]])?;
    /// straightline::assert_close(&x.group_norm(2)?, &tensor([[-1.0, 1.0, -1.0, 1.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm(&self, groups: impl Int) -> Result<Tensor> {
        self.group_norm_with(groups.to_i64(), None, None, 1e-5)
    }

    /// [`Tensor::group_norm`], then scaled by a weight and shifted by a bias of the channels, where given. `eps` is
    /// added to the variance.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 3.0, 10.0, 30.0], &[1, 4])?;
    /// assert_eq!(x.group_norm_with(2, None, None, 0.0)?.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm_with<'a, 'b>(
        &self,
        groups: impl Int,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'b Tensor>>,
        eps: impl Into<f64>,
    ) -> Result<Tensor> {
        aten::group_norm(
            self,
            groups.to_i64(),
            weight.into(),
            bias.into(),
            eps.into(),
            false,
        )
    }

    /// Each element becomes 0 with probability `p`, the others are scaled by `1 / (1 - p)`. See [`aten::dropout`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::ones(4)?.dropout(0.5)?;
    /// assert!(x.iter::<f32>()?.all(|v| v == 0.0 || v == 2.0));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn dropout(&self, p: impl Into<f64>) -> Result<Tensor> {
        self.dropout_with(p.into(), true)
    }

    /// [`Tensor::dropout`] in training; the tensor itself otherwise.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32; 4], &[4])?;
    /// assert_eq!(x.dropout_with(0.5, false)?.to_vec::<f32>()?, [1.0; 4]);
    /// assert!(x.dropout_with(0.5, true)?.to_vec::<f32>()?.iter().all(|v| *v == 0.0 || *v == 2.0));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn dropout_with(&self, p: impl Into<f64>, train: bool) -> Result<Tensor> {
        aten::dropout(self, p.into(), train)
    }

    /// `x` where positive, else `0.01 * x`. See [`aten::leaky_relu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([-2.0, 3.0])?.leaky_relu()?, &tensor([-0.02, 3.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn leaky_relu(&self) -> Result<Tensor> {
        self.leaky_relu_with(0.01)
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

    /// `ln(1 + e^x)`. See [`aten::softplus`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32], &[1])?;
    /// assert!((x.softplus()?.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn softplus(&self) -> Result<Tensor> {
        aten::softplus(self, 1.into(), 20.into())
    }

    /// `[batch, channels, height, width]` in another size, by the nearest elements. See
    /// [`aten::upsample_nearest2d_vec`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[1, 1, 1, 2])?;
    /// assert_eq!(x.upsample_nearest2d([1, 4])?.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest2d(&self, size: impl Ints) -> Result<Tensor> {
        aten::upsample_nearest2d_vec(self, Some(&each(&size.ints(), 2)), None)
    }

    /// `[batch, channels, height, width]` in another size, interpolated. See [`aten::upsample_bilinear2d_vec`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 3.0], &[1, 1, 1, 2])?;
    /// assert_eq!(x.upsample_bilinear2d([1, 3], true)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_bilinear2d(&self, size: impl Ints, align_corners: bool) -> Result<Tensor> {
        aten::upsample_bilinear2d_vec(self, Some(&each(&size.ints(), 2)), align_corners, None)
    }
}
