//! Sign, rounding and activation.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

impl Tensor {
    /// `-x`. See [`aten::neg`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([2.0f64], 1)?.neg()?.to_vec::<f64>()?, [-2.0]);
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
    /// assert_eq!(Tensor::from_vec([-2.0f64], 1)?.abs()?.to_vec::<f64>()?, [2.0]);
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
    /// assert_eq!(Tensor::from_vec([-2.0f64], 1)?.sign()?.to_vec::<f64>()?, [-1.0]);
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
    /// assert_eq!(Tensor::from_vec([1.5f64], 1)?.floor()?.to_vec::<f64>()?, [1.0]);
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
    /// assert_eq!(Tensor::from_vec([1.5f64], 1)?.ceil()?.to_vec::<f64>()?, [2.0]);
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
    /// assert_eq!(Tensor::from_vec([2.5f64], 1)?.round()?.to_vec::<f64>()?, [2.0]);
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
    /// assert_eq!(Tensor::from_vec([-1.5f64], 1)?.trunc()?.to_vec::<f64>()?, [-1.0]);
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
    /// assert_eq!(Tensor::from_vec([-1.0f64], 1)?.relu()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0.0f64], 1)?.silu()?.to_vec::<f64>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0f32], 1)?.gelu()?.to_vec::<f32>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([0f32], 1)?.gelu_tanh()?.to_vec::<f32>()?, [0.0]);
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
    /// assert_eq!(Tensor::from_vec([3f32], 1)?.square()?.to_vec::<f32>()?, [9.0]);
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
    /// assert_eq!(Tensor::from_vec([f32::NAN], 1)?.isnan()?.to_vec::<bool>()?, [true]);
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
    /// assert_eq!(Tensor::from_vec([1f32], 1)?.isinf()?.to_vec::<bool>()?, [false]);
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
    /// assert_eq!(Tensor::from_vec([0f32], 1)?.logical_not()?.to_vec::<bool>()?, [true]);
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
    /// assert_eq!(Tensor::from_vec([0i64], 1)?.bitwise_not()?.to_vec::<i64>()?, [-1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Result<Tensor> {
        aten::bitwise_not(self)
    }
}
