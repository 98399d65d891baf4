//! Mathematical functions of one operand.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

impl Tensor {
    /// The square root of each element. See [`aten::sqrt`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([4.0f64], 1)?.sqrt()?.to_vec::<f64>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sqrt(&self) -> Result<Tensor> {
        aten::sqrt(self)
    }

    /// [`Tensor::sqrt`] in place.
    #[track_caller]
    pub fn sqrt_(&self) -> Result<Tensor> {
        aten::sqrt_(self)
    }

    /// `1 / sqrt(x)`. See [`aten::rsqrt`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([4.0f64], 1)?.rsqrt()?.to_vec::<f64>()?, [0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rsqrt(&self) -> Result<Tensor> {
        aten::rsqrt(self)
    }

    /// [`Tensor::rsqrt`] in place.
    #[track_caller]
    pub fn rsqrt_(&self) -> Result<Tensor> {
        aten::rsqrt_(self)
    }

    /// `1 / x`. See [`aten::reciprocal`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([4.0f64], 1)?.reciprocal()?.to_vec::<f64>()?, [0.25]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn reciprocal(&self) -> Result<Tensor> {
        aten::reciprocal(self)
    }

    /// [`Tensor::reciprocal`] in place.
    #[track_caller]
    pub fn reciprocal_(&self) -> Result<Tensor> {
        aten::reciprocal_(self)
    }

    /// `e^x`. See [`aten::exp`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.exp()?.to_vec::<f64>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn exp(&self) -> Result<Tensor> {
        aten::exp(self)
    }

    /// [`Tensor::exp`] in place.
    #[track_caller]
    pub fn exp_(&self) -> Result<Tensor> {
        aten::exp_(self)
    }

    /// `2^x`. See [`aten::exp2`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([3.0f64], 1)?.exp2()?.to_vec::<f64>()?, [8.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn exp2(&self) -> Result<Tensor> {
        aten::exp2(self)
    }

    /// [`Tensor::exp2`] in place.
    #[track_caller]
    pub fn exp2_(&self) -> Result<Tensor> {
        aten::exp2_(self)
    }

    /// `e^x - 1`, accurate near 0. See [`aten::expm1`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.expm1()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn expm1(&self) -> Result<Tensor> {
        aten::expm1(self)
    }

    /// [`Tensor::expm1`] in place.
    #[track_caller]
    pub fn expm1_(&self) -> Result<Tensor> {
        aten::expm1_(self)
    }

    /// The natural logarithm. See [`aten::log`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1.0f64], 1)?.log()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn log(&self) -> Result<Tensor> {
        aten::log(self)
    }

    /// [`Tensor::log`] in place.
    #[track_caller]
    pub fn log_(&self) -> Result<Tensor> {
        aten::log_(self)
    }

    /// The logarithm to base 2. See [`aten::log2`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([8.0f64], 1)?.log2()?.to_vec::<f64>()?, [3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn log2(&self) -> Result<Tensor> {
        aten::log2(self)
    }

    /// [`Tensor::log2`] in place.
    #[track_caller]
    pub fn log2_(&self) -> Result<Tensor> {
        aten::log2_(self)
    }

    /// The logarithm to base 10. See [`aten::log10`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1.0f64], 1)?.log10()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn log10(&self) -> Result<Tensor> {
        aten::log10(self)
    }

    /// [`Tensor::log10`] in place.
    #[track_caller]
    pub fn log10_(&self) -> Result<Tensor> {
        aten::log10_(self)
    }

    /// `log(1 + x)`, accurate near 0. See [`aten::log1p`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.log1p()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn log1p(&self) -> Result<Tensor> {
        aten::log1p(self)
    }

    /// [`Tensor::log1p`] in place.
    #[track_caller]
    pub fn log1p_(&self) -> Result<Tensor> {
        aten::log1p_(self)
    }

    /// The sine. See [`aten::sin`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.sin()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sin(&self) -> Result<Tensor> {
        aten::sin(self)
    }

    /// [`Tensor::sin`] in place.
    #[track_caller]
    pub fn sin_(&self) -> Result<Tensor> {
        aten::sin_(self)
    }

    /// The cosine. See [`aten::cos`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.cos()?.to_vec::<f64>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cos(&self) -> Result<Tensor> {
        aten::cos(self)
    }

    /// [`Tensor::cos`] in place.
    #[track_caller]
    pub fn cos_(&self) -> Result<Tensor> {
        aten::cos_(self)
    }

    /// The tangent. See [`aten::tan`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.tan()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tan(&self) -> Result<Tensor> {
        aten::tan(self)
    }

    /// [`Tensor::tan`] in place.
    #[track_caller]
    pub fn tan_(&self) -> Result<Tensor> {
        aten::tan_(self)
    }

    /// The inverse sine. See [`aten::asin`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.asin()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn asin(&self) -> Result<Tensor> {
        aten::asin(self)
    }

    /// [`Tensor::asin`] in place.
    #[track_caller]
    pub fn asin_(&self) -> Result<Tensor> {
        aten::asin_(self)
    }

    /// The inverse cosine. See [`aten::acos`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1.0f64], 1)?.acos()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn acos(&self) -> Result<Tensor> {
        aten::acos(self)
    }

    /// [`Tensor::acos`] in place.
    #[track_caller]
    pub fn acos_(&self) -> Result<Tensor> {
        aten::acos_(self)
    }

    /// The inverse tangent. See [`aten::atan`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.atan()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn atan(&self) -> Result<Tensor> {
        aten::atan(self)
    }

    /// [`Tensor::atan`] in place.
    #[track_caller]
    pub fn atan_(&self) -> Result<Tensor> {
        aten::atan_(self)
    }

    /// The hyperbolic sine. See [`aten::sinh`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.sinh()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sinh(&self) -> Result<Tensor> {
        aten::sinh(self)
    }

    /// [`Tensor::sinh`] in place.
    #[track_caller]
    pub fn sinh_(&self) -> Result<Tensor> {
        aten::sinh_(self)
    }

    /// The hyperbolic cosine. See [`aten::cosh`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.cosh()?.to_vec::<f64>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cosh(&self) -> Result<Tensor> {
        aten::cosh(self)
    }

    /// [`Tensor::cosh`] in place.
    #[track_caller]
    pub fn cosh_(&self) -> Result<Tensor> {
        aten::cosh_(self)
    }

    /// The inverse hyperbolic sine. See [`aten::asinh`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.asinh()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn asinh(&self) -> Result<Tensor> {
        aten::asinh(self)
    }

    /// [`Tensor::asinh`] in place.
    #[track_caller]
    pub fn asinh_(&self) -> Result<Tensor> {
        aten::asinh_(self)
    }

    /// The inverse hyperbolic cosine. See [`aten::acosh`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1.0f64], 1)?.acosh()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn acosh(&self) -> Result<Tensor> {
        aten::acosh(self)
    }

    /// [`Tensor::acosh`] in place.
    #[track_caller]
    pub fn acosh_(&self) -> Result<Tensor> {
        aten::acosh_(self)
    }

    /// The inverse hyperbolic tangent. See [`aten::atanh`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.atanh()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn atanh(&self) -> Result<Tensor> {
        aten::atanh(self)
    }

    /// [`Tensor::atanh`] in place.
    #[track_caller]
    pub fn atanh_(&self) -> Result<Tensor> {
        aten::atanh_(self)
    }

    /// The hyperbolic tangent. See [`aten::tanh`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.tanh()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tanh(&self) -> Result<Tensor> {
        aten::tanh(self)
    }

    /// [`Tensor::tanh`] in place.
    #[track_caller]
    pub fn tanh_(&self) -> Result<Tensor> {
        aten::tanh_(self)
    }

    /// `1 / (1 + e^-x)`. See [`aten::sigmoid`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.sigmoid()?.to_vec::<f64>()?, [0.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sigmoid(&self) -> Result<Tensor> {
        aten::sigmoid(self)
    }

    /// [`Tensor::sigmoid`] in place.
    #[track_caller]
    pub fn sigmoid_(&self) -> Result<Tensor> {
        aten::sigmoid_(self)
    }

    /// The error function. See [`aten::erf`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.erf()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn erf(&self) -> Result<Tensor> {
        aten::erf(self)
    }

    /// [`Tensor::erf`] in place.
    #[track_caller]
    pub fn erf_(&self) -> Result<Tensor> {
        aten::erf_(self)
    }

    /// `1 - erf(x)`. See [`aten::erfc`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.erfc()?.to_vec::<f64>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn erfc(&self) -> Result<Tensor> {
        aten::erfc(self)
    }

    /// [`Tensor::erfc`] in place.
    #[track_caller]
    pub fn erfc_(&self) -> Result<Tensor> {
        aten::erfc_(self)
    }
}
