//! Activations, special functions and what tells numbers apart.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Other, Tensor};
use straightline_catalog::Scalar;

impl Tensor {
    /// [`Tensor::elu_with`] an `alpha` of 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([-1.0, 2.0])?.elu()?, &tensor([(-1f64).exp() - 1.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn elu(&self) -> Result<Tensor> {
        self.elu_with(1.0)
    }

    /// `x` above 0 and `alpha * (exp(x) - 1)` below. See [`aten::elu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.elu_with(1.0)?.exp()?.clamp_max(1.0)?, &tensor([(-0.63212056f32).exp(), 1.0, 1.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn elu_with(&self, alpha: impl Into<Scalar>) -> Result<Tensor> {
        aten::elu(self, alpha.into(), 1.into(), 1.into())
    }

    /// The self-normalising activation of Klambauer et al. See [`aten::selu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.selu()?, &tensor([-1.1113307, 0.0, 2.101402])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn selu(&self) -> Result<Tensor> {
        aten::selu(self)
    }

    /// [`Tensor::celu_with`] an `alpha` of 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([-1.0, 2.0])?.celu()?, &tensor([(-1f64).exp() - 1.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn celu(&self) -> Result<Tensor> {
        self.celu_with(1.0)
    }

    /// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`. See [`aten::celu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.celu_with(1.0)?, &tensor([-0.63212056, 0.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn celu_with(&self, alpha: impl Into<Scalar>) -> Result<Tensor> {
        aten::celu(self, alpha.into())
    }

    /// `x * tanh(ln(1 + exp(x)))`. See [`aten::mish`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.mish()?, &tensor([-0.30340147, 0.0, 1.9439590])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mish(&self) -> Result<Tensor> {
        aten::mish(self)
    }

    /// Limited to 0 to 6. See [`aten::relu6`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([-1.0, 7.0])?.relu6()?.to_vec::<f32>()?, [0.0, 6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn relu6(&self) -> Result<Tensor> {
        aten::relu6(self)
    }

    /// Limited to -1 and 1. See [`aten::hardtanh`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([-3.0, 0.5])?.hardtanh()?.to_vec::<f32>()?, [-1.0, 0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn hardtanh(&self) -> Result<Tensor> {
        self.hardtanh_with(-1, 1)
    }

    /// Limited to a range. See [`aten::hardtanh`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.hardtanh_with(-1, 1)?, &tensor([-1.0, 0.0, 1.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn hardtanh_with(&self, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Result<Tensor> {
        aten::hardtanh(self, min.into(), max.into())
    }

    /// `relu6(x + 3) / 6`. See [`aten::hardsigmoid`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.hardsigmoid()?, &tensor([1.0 / 3.0, 0.5, 5.0 / 6.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn hardsigmoid(&self) -> Result<Tensor> {
        aten::hardsigmoid(self)
    }

    /// `x * relu6(x + 3) / 6`. See [`aten::hardswish`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.hardswish()?, &tensor([-1.0 / 3.0, 0.0, 5.0 / 3.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn hardswish(&self) -> Result<Tensor> {
        aten::hardswish(self)
    }

    /// [`Tensor::hardshrink_with`] a `lambda` of 0.5.
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([-0.25, 2.0])?.hardshrink()?, &tensor([0.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn hardshrink(&self) -> Result<Tensor> {
        self.hardshrink_with(0.5)
    }

    /// 0 where the magnitude is at most `lambda`. See [`aten::hardshrink`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.hardshrink_with(1.0)?, &tensor([0.0, 0.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn hardshrink_with(&self, lambda: impl Into<Scalar>) -> Result<Tensor> {
        aten::hardshrink(self, lambda.into())
    }

    /// [`Tensor::softshrink_with`] a `lambda` of 0.5.
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([-0.25, 2.0])?.softshrink()?, &tensor([0.0, 1.5])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn softshrink(&self) -> Result<Tensor> {
        self.softshrink_with(0.5)
    }

    /// Nearer to 0 by `lambda`, but not beyond. See [`aten::softshrink`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.softshrink_with(0.5)?, &tensor([-0.5, 0.0, 1.5])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn softshrink_with(&self, lambda: impl Into<Scalar>) -> Result<Tensor> {
        aten::softshrink(self, lambda.into())
    }

    /// `ln(sigmoid(x))`. See [`aten::log_sigmoid`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.log_sigmoid()?, &x.sigmoid()?.log()?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn log_sigmoid(&self) -> Result<Tensor> {
        aten::log_sigmoid(self)
    }

    /// The first half along the last dimension times the sigmoid of the second half. See [`aten::glu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([[3.0, 0.0]])?.glu()?, &tensor([[1.5]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn glu(&self) -> Result<Tensor> {
        self.glu_dim(-1)
    }

    /// [`Tensor::glu`] along a dimension.
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([3.0, 0.0])?.glu_dim(0)?, &tensor([1.5])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn glu_dim(&self, dim: impl Int) -> Result<Tensor> {
        aten::glu(self, dim.to_i64())
    }

    /// `x` above 0 and `weight * x` below. See [`aten::prelu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.prelu(&tensor([0.5])?)?, &tensor([-0.5, 0.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn prelu(&self, weight: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::prelu(self, weight.as_ref())
    }

    /// `value` where an element is not above the threshold. See [`aten::threshold`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([-1.0, 0.0, 2.0])?;
    /// straightline::assert_close(&x.threshold(0.5, 9.0)?, &tensor([9.0, 9.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn threshold(
        &self,
        threshold: impl Into<Scalar>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::threshold(self, threshold.into(), value.into())
    }

    /// `ln(x / (1 - x))`. See [`aten::logit`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([0.5])?.logit()?, &tensor([0.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logit(&self) -> Result<Tensor> {
        aten::logit(self, None)
    }

    /// [`Tensor::logit`] of `x` limited to `eps..=1 - eps`.
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([0.5, 2.0])?.logit_with(0.25)?, &tensor([0.0, 3f64.ln()])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logit_with(&self, eps: impl Into<f64>) -> Result<Tensor> {
        aten::logit(self, Some(eps.into()))
    }

    /// `sin(pi * x) / (pi * x)`, and 1 at 0. See [`aten::sinc`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([0.0, 0.5])?.sinc()?, &tensor([1.0, std::f64::consts::FRAC_2_PI])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sinc(&self) -> Result<Tensor> {
        aten::sinc(self)
    }

    /// The logarithm of the magnitude of the gamma function. See [`aten::lgamma`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([4.0])?.lgamma()?.exp()?, &tensor([6.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn lgamma(&self) -> Result<Tensor> {
        aten::lgamma(self)
    }

    /// The derivative of [`Tensor::lgamma`]. See [`aten::digamma`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([1.0])?.digamma()?, &tensor([-0.5772157])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn digamma(&self) -> Result<Tensor> {
        aten::digamma(self)
    }

    /// The inverse of the error function. See [`aten::erfinv`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([0.5])?.erfinv()?.erf()?, &tensor([0.5])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn erfinv(&self) -> Result<Tensor> {
        aten::erfinv(self)
    }

    /// Where an element is neither infinite nor NaN. See [`aten::isfinite`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, f64::NAN])?.isfinite()?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isfinite(&self) -> Result<Tensor> {
        aten::isfinite(self)
    }

    /// Where the sign is set; of -0 too. See [`aten::signbit`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([-0.0, 1.0])?.signbit()?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn signbit(&self) -> Result<Tensor> {
        aten::signbit(self)
    }

    /// The sign; of complex numbers `x / |x|`. See [`aten::sgn`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([-3, 0])?.sgn()?.to_vec::<i64>()?, [-1, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sgn(&self) -> Result<Tensor> {
        aten::sgn(self)
    }

    /// The angle of complex numbers; pi for negative ones and 0 otherwise. See [`aten::angle`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([-1.0, 1.0])?.angle()?, &tensor([std::f64::consts::PI, 0.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn angle(&self) -> Result<Tensor> {
        aten::angle(self)
    }

    /// Degrees to radians. See [`aten::deg2rad`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([180.0])?.deg2rad()?, &tensor([std::f64::consts::PI])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn deg2rad(&self) -> Result<Tensor> {
        aten::deg2rad(self)
    }

    /// Radians to degrees. See [`aten::rad2deg`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([std::f64::consts::PI])?.rad2deg()?, &tensor([180.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rad2deg(&self) -> Result<Tensor> {
        aten::rad2deg(self)
    }

    /// `self + weight * (end - self)`. See [`aten::lerp_scalar`] and [`aten::lerp_tensor`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([0.0, 10.0])?, tensor([4.0, 20.0])?);
    /// straightline::assert_close(&x.lerp(&y, 0.5)?, &tensor([2.0, 15.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn lerp<'a>(
        &self,
        end: impl AsRef<Tensor>,
        weight: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        match weight.into() {
            Other::Number(n) => aten::lerp_scalar(self, end.as_ref(), n),
            weight => aten::lerp_tensor(self, end.as_ref(), &weight.into_tensor()?),
        }
    }
}
