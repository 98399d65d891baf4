//! Methods of one operand: mathematics, rounding, activation.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

impl Tensor {
    /// The square root of each element. See [`aten::sqrt`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([4.0f64])?.sqrt()?.to_vec::<f64>()?, [2.0]);
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
    /// assert_eq!(Tensor::from_vec([4.0f64])?.rsqrt()?.to_vec::<f64>()?, [0.5]);
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
    /// assert_eq!(Tensor::from_vec([4.0f64])?.reciprocal()?.to_vec::<f64>()?, [0.25]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.exp()?.to_vec::<f64>()?, [1.0]);
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
    /// assert_eq!(Tensor::from_vec([3.0f64])?.exp2()?.to_vec::<f64>()?, [8.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.expm1()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([1.0f64])?.log()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([8.0f64])?.log2()?.to_vec::<f64>()?, [3.0]);
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
    /// assert_eq!(Tensor::from_vec([1.0f64])?.log10()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.log1p()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.sin()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.cos()?.to_vec::<f64>()?, [1.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.tan()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.asin()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([1.0f64])?.acos()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.atan()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.sinh()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.cosh()?.to_vec::<f64>()?, [1.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.asinh()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([1.0f64])?.acosh()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.atanh()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.tanh()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.sigmoid()?.to_vec::<f64>()?, [0.5]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.erf()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64])?.erfc()?.to_vec::<f64>()?, [1.0]);
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

    /// `-x`. See [`aten::neg`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([2.0f64])?.neg()?.to_vec::<f64>()?, [-2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn neg(&self) -> Result<Tensor> {
        aten::neg(self)
    }

    /// [`Tensor::neg`] in place.
    #[track_caller]
    pub fn neg_(&self) -> Result<Tensor> {
        aten::neg_(self)
    }

    /// `|x|`. See [`aten::abs`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([-2.0f64])?.abs()?.to_vec::<f64>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn abs(&self) -> Result<Tensor> {
        aten::abs(self)
    }

    /// [`Tensor::abs`] in place.
    #[track_caller]
    pub fn abs_(&self) -> Result<Tensor> {
        aten::abs_(self)
    }

    /// -1, 0 or 1. See [`aten::sign`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([-2.0f64])?.sign()?.to_vec::<f64>()?, [-1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sign(&self) -> Result<Tensor> {
        aten::sign(self)
    }

    /// [`Tensor::sign`] in place.
    #[track_caller]
    pub fn sign_(&self) -> Result<Tensor> {
        aten::sign_(self)
    }

    /// The largest integer not above `x`. See [`aten::floor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1.5f64])?.floor()?.to_vec::<f64>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn floor(&self) -> Result<Tensor> {
        aten::floor(self)
    }

    /// [`Tensor::floor`] in place.
    #[track_caller]
    pub fn floor_(&self) -> Result<Tensor> {
        aten::floor_(self)
    }

    /// The smallest integer not below `x`. See [`aten::ceil`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1.5f64])?.ceil()?.to_vec::<f64>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ceil(&self) -> Result<Tensor> {
        aten::ceil(self)
    }

    /// [`Tensor::ceil`] in place.
    #[track_caller]
    pub fn ceil_(&self) -> Result<Tensor> {
        aten::ceil_(self)
    }

    /// The nearest integer, halves to even. See [`aten::round`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([2.5f64])?.round()?.to_vec::<f64>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn round(&self) -> Result<Tensor> {
        aten::round(self)
    }

    /// [`Tensor::round`] in place.
    #[track_caller]
    pub fn round_(&self) -> Result<Tensor> {
        aten::round_(self)
    }

    /// `x` without its fraction. See [`aten::trunc`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([-1.5f64])?.trunc()?.to_vec::<f64>()?, [-1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn trunc(&self) -> Result<Tensor> {
        aten::trunc(self)
    }

    /// [`Tensor::trunc`] in place.
    #[track_caller]
    pub fn trunc_(&self) -> Result<Tensor> {
        aten::trunc_(self)
    }

    /// `max(x, 0)`. See [`aten::relu`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([-1.0f64])?.relu()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn relu(&self) -> Result<Tensor> {
        aten::relu(self)
    }

    /// [`Tensor::relu`] in place.
    #[track_caller]
    pub fn relu_(&self) -> Result<Tensor> {
        aten::relu_(self)
    }

    /// `x * sigmoid(x)`. See [`aten::silu`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0.0f64])?.silu()?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn silu(&self) -> Result<Tensor> {
        aten::silu(self)
    }

    /// [`Tensor::silu`] in place.
    #[track_caller]
    pub fn silu_(&self) -> Result<Tensor> {
        aten::silu_(self)
    }

    /// The exact GELU, `x/2 (1 + erf(x / sqrt 2))`. See [`aten::gelu`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0f32])?.gelu()?.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn gelu(&self) -> Result<Tensor> {
        aten::gelu(self, "none")
    }

    /// The tanh approximation of GELU. See [`aten::gelu`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0f32])?.gelu_tanh()?.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn gelu_tanh(&self) -> Result<Tensor> {
        aten::gelu(self, "tanh")
    }

    /// `x * x`. See [`aten::square`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([3f32])?.square()?.to_vec::<f32>()?, [9.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn square(&self) -> Result<Tensor> {
        aten::square(self)
    }

    /// Whether each element is NaN. See [`aten::isnan`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([f32::NAN])?.isnan()?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isnan(&self) -> Result<Tensor> {
        aten::isnan(self)
    }

    /// Whether each element is infinite. See [`aten::isinf`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1f32])?.isinf()?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isinf(&self) -> Result<Tensor> {
        aten::isinf(self)
    }

    /// Whether each element is zero. See [`aten::logical_not`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0f32])?.logical_not()?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_not(&self) -> Result<Tensor> {
        aten::logical_not(self)
    }

    /// All bits flipped; logical for bool. See [`aten::bitwise_not`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([0i64])?.bitwise_not()?.to_vec::<i64>()?, [-1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Result<Tensor> {
        aten::bitwise_not(self)
    }
}
