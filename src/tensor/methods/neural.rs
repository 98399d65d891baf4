//! Layers of neural networks: convolutions, pooling, normalisation, resampling, losses.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

impl Tensor {
    /// The convolution of `[batch, in, length]` (or without the batch) with weights `[out, in / groups, kernel]`. See
    /// [`aten::conv1d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[1, 1, 4])?;
    /// let w = Tensor::from_slice(&[1f32, -1.0], &[1, 1, 2])?;
    /// assert_eq!(x.conv1d(&w, None, 1, 0, 1, 1)?.to_vec::<f32>()?, [-1.0, -1.0, -1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn conv1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: i64,
        padding: i64,
        dilation: i64,
        groups: i64,
    ) -> Result<Tensor> {
        aten::conv1d(
            self,
            weight,
            bias,
            &[stride],
            &[padding],
            &[dilation],
            groups,
        )
    }

    /// The convolution of `[batch, in, height, width]` (or without the batch) with weights `[out, in / groups, kernel
    /// height, kernel width]`. See [`aten::conv2d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32; 9], &[1, 1, 3, 3])?;
    /// let w = Tensor::from_slice(&[1f32; 9], &[1, 1, 3, 3])?;
    /// let y = x.conv2d(&w, None, [1, 1], [1, 1], [1, 1], 1)?;
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn conv2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: [i64; 2],
        padding: [i64; 2],
        dilation: [i64; 2],
        groups: i64,
    ) -> Result<Tensor> {
        aten::conv2d(self, weight, bias, &stride, &padding, &dilation, groups)
    }

    /// The transposed convolution of `[batch, in, height, width]` with weights `[in, out / groups, kernel height,
    /// kernel width]`: the gradient of [`conv2d`](Tensor::conv2d) by its input. See [`aten::conv_transpose2d_input`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[1, 1, 1, 2])?;
    /// let w = Tensor::from_slice(&[1f32, 10.0], &[1, 1, 1, 2])?;
    /// let y = x.conv_transpose2d(&w, None, [1, 1], [0, 0], [0, 0], 1)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 12.0, 20.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn conv_transpose2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: [i64; 2],
        padding: [i64; 2],
        output_padding: [i64; 2],
        groups: i64,
    ) -> Result<Tensor> {
        aten::conv_transpose2d_input(
            self,
            weight,
            bias,
            &stride,
            &padding,
            &output_padding,
            groups,
            &[1, 1],
        )
    }

    /// The largest element of each window. See [`aten::max_pool2d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
    /// assert_eq!(x.max_pool2d([2, 2], [2, 2], [0, 0])?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn max_pool2d(
        &self,
        kernel: [i64; 2],
        stride: [i64; 2],
        padding: [i64; 2],
    ) -> Result<Tensor> {
        aten::max_pool2d(self, &kernel, &stride, &padding, &[1, 1], false)
    }

    /// The mean of each window, padding counted. See [`aten::avg_pool2d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
    /// assert_eq!(x.avg_pool2d([2, 2], [2, 2], [0, 0])?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn avg_pool2d(
        &self,
        kernel: [i64; 2],
        stride: [i64; 2],
        padding: [i64; 2],
    ) -> Result<Tensor> {
        aten::avg_pool2d(self, &kernel, &stride, &padding, false, true, None)
    }

    /// The means of as many windows as the result shall have elements. See [`aten::adaptive_avg_pool2d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
    /// assert_eq!(x.adaptive_avg_pool2d([1, 1])?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, output: [i64; 2]) -> Result<Tensor> {
        aten::adaptive_avg_pool2d(self, &output)
    }

    /// Batch normalisation by known statistics of the channels (dimension 1), as in inference. See
    /// [`aten::batch_norm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 5.0], &[1, 2])?;
    /// let mean = Tensor::from_slice(&[1f32, 1.0], &[2])?;
    /// let var = Tensor::from_slice(&[4f32, 4.0], &[2])?;
    /// assert_eq!(x.batch_norm(&mean, &var, None, None, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm(
        &self,
        running_mean: &Tensor,
        running_var: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        aten::batch_norm(
            self,
            weight,
            bias,
            Some(running_mean),
            Some(running_var),
            false,
            0.1,
            eps,
            false,
        )
    }

    /// Normalisation of groups of channels (dimension 1). See [`aten::group_norm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 3.0, 10.0, 30.0], &[1, 4])?;
    /// assert_eq!(x.group_norm(2, None, None, 0.0)?.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm(
        &self,
        groups: i64,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        aten::group_norm(self, groups, weight, bias, eps, false)
    }

    /// In training each element becomes 0 with probability `p`, the others are scaled by `1 / (1 - p)`. See
    /// [`aten::dropout`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32; 4], &[4])?;
    /// assert_eq!(x.dropout(0.5, false)?.to_vec::<f32>()?, [1.0; 4]);
    /// assert!(x.dropout(0.5, true)?.to_vec::<f32>()?.iter().all(|v| *v == 0.0 || *v == 2.0));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn dropout(&self, p: f64, train: bool) -> Result<Tensor> {
        aten::dropout(self, p, train)
    }

    /// `x` where positive, else `slope * x`. See [`aten::leaky_relu`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[-2f32, 3.0], &[2])?;
    /// assert_eq!(x.leaky_relu(0.5)?.to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Result<Tensor> {
        aten::leaky_relu(self, slope.into())
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
    pub fn upsample_nearest2d(&self, size: [i64; 2]) -> Result<Tensor> {
        aten::upsample_nearest2d_vec(self, Some(&size), None)
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
    pub fn upsample_bilinear2d(&self, size: [i64; 2], align_corners: bool) -> Result<Tensor> {
        aten::upsample_bilinear2d_vec(self, Some(&size), align_corners, None)
    }

    /// The mean cross-entropy of logits `[batch, classes, ..]` against class numbers (or probabilities); targets of
    /// -100 do not count. See [`aten::cross_entropy_loss`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32, 0.0], &[1, 2])?;
    /// let target = Tensor::from_slice(&[1i64], &[1])?;
    /// assert!((x.cross_entropy(&target)?.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor) -> Result<Tensor> {
        aten::cross_entropy_loss(self, target, None, 1, -100, 0.0)
    }

    /// The mean of the squared differences. See [`aten::mse_loss`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[2])?;
    /// let y = Tensor::from_slice(&[1f32, 4.0], &[2])?;
    /// assert_eq!(x.mse_loss(&y)?.item::<f64>()?, 2.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor) -> Result<Tensor> {
        aten::mse_loss(self, target, 1)
    }

    /// The mean cross-entropy of the sigmoid against probabilities. See [`aten::binary_cross_entropy_with_logits`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32], &[1])?;
    /// let y = Tensor::from_slice(&[1f32], &[1])?;
    /// assert!((x.binary_cross_entropy_with_logits(&y)?.item::<f64>()? - 2f64.ln()).abs() < 1e-6);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, target: &Tensor) -> Result<Tensor> {
        aten::binary_cross_entropy_with_logits(self, target, None, None, 1)
    }
}
