//! Methods of two operands: arithmetic, comparison, bits.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_passes::ir::Scalar;

const ONE: Scalar = Scalar::Int(1);

impl Tensor {
    /// The sum, broadcasting. See [`aten::add_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([6i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.add(&b)?.to_vec::<i64>()?, [8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn add(&self, other: &Tensor) -> Result<Tensor> {
        aten::add_tensor(self, other, ONE)
    }

    /// [`Tensor::add`] in place.
    #[track_caller]
    pub fn add_(&self, other: &Tensor) -> Result<Tensor> {
        aten::add_tensor_(self, other, ONE)
    }

    /// The sum with a number. See [`aten::add_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([6i64])?.add_scalar(2)?.to_vec::<i64>()?, [8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn add_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::add_scalar(self, other.into(), ONE)
    }

    /// [`Tensor::add_scalar`] in place.
    #[track_caller]
    pub fn add_scalar_(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::add_scalar_(self, other.into(), ONE)
    }

    /// The difference, broadcasting. See [`aten::sub_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([6i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.sub(&b)?.to_vec::<i64>()?, [4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sub(&self, other: &Tensor) -> Result<Tensor> {
        aten::sub_tensor(self, other, ONE)
    }

    /// [`Tensor::sub`] in place.
    #[track_caller]
    pub fn sub_(&self, other: &Tensor) -> Result<Tensor> {
        aten::sub_tensor_(self, other, ONE)
    }

    /// The difference with a number. See [`aten::sub_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([6i64])?.sub_scalar(2)?.to_vec::<i64>()?, [4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::sub_scalar(self, other.into(), ONE)
    }

    /// [`Tensor::sub_scalar`] in place.
    #[track_caller]
    pub fn sub_scalar_(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::sub_scalar_(self, other.into(), ONE)
    }

    /// The product, broadcasting. See [`aten::mul_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([6f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.mul(&b)?.to_vec::<f64>()?, [12.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mul(&self, other: &Tensor) -> Result<Tensor> {
        aten::mul_tensor(self, other)
    }

    /// [`Tensor::mul`] in place.
    #[track_caller]
    pub fn mul_(&self, other: &Tensor) -> Result<Tensor> {
        aten::mul_tensor_(self, other)
    }

    /// The product with a number. See [`aten::mul_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([6f64])?.mul_scalar(2)?.to_vec::<f64>()?, [12.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mul_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::mul_scalar(self, other.into())
    }

    /// [`Tensor::mul_scalar`] in place.
    #[track_caller]
    pub fn mul_scalar_(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::mul_scalar_(self, other.into())
    }

    /// The quotient, in floating point, broadcasting. See [`aten::div_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([6f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.div(&b)?.to_vec::<f64>()?, [3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn div(&self, other: &Tensor) -> Result<Tensor> {
        aten::div_tensor(self, other)
    }

    /// [`Tensor::div`] in place.
    #[track_caller]
    pub fn div_(&self, other: &Tensor) -> Result<Tensor> {
        aten::div_tensor_(self, other)
    }

    /// The quotient, in floating point with a number. See [`aten::div_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([6f64])?.div_scalar(2)?.to_vec::<f64>()?, [3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn div_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::div_scalar(self, other.into())
    }

    /// [`Tensor::div_scalar`] in place.
    #[track_caller]
    pub fn div_scalar_(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::div_scalar_(self, other.into())
    }

    /// The remainder with the sign of the dividend, broadcasting. See [`aten::fmod_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([6f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.fmod(&b)?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn fmod(&self, other: &Tensor) -> Result<Tensor> {
        aten::fmod_tensor(self, other)
    }

    /// [`Tensor::fmod`] in place.
    #[track_caller]
    pub fn fmod_(&self, other: &Tensor) -> Result<Tensor> {
        aten::fmod_tensor_(self, other)
    }

    /// The remainder with the sign of the dividend with a number. See [`aten::fmod_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([6f64])?.fmod_scalar(2)?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn fmod_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::fmod_scalar(self, other.into())
    }

    /// [`Tensor::fmod_scalar`] in place.
    #[track_caller]
    pub fn fmod_scalar_(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::fmod_scalar_(self, other.into())
    }

    /// The remainder with the sign of the divisor, broadcasting. See [`aten::remainder_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([6f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.remainder(&b)?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn remainder(&self, other: &Tensor) -> Result<Tensor> {
        aten::remainder_tensor(self, other)
    }

    /// [`Tensor::remainder`] in place.
    #[track_caller]
    pub fn remainder_(&self, other: &Tensor) -> Result<Tensor> {
        aten::remainder_tensor_(self, other)
    }

    /// The remainder with the sign of the divisor with a number. See [`aten::remainder_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([6f64])?.remainder_scalar(2)?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn remainder_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::remainder_scalar(self, other.into())
    }

    /// [`Tensor::remainder_scalar`] in place.
    #[track_caller]
    pub fn remainder_scalar_(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::remainder_scalar_(self, other.into())
    }

    /// `self ^ exponent`. See [`aten::pow_tensor_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([3f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.pow(&b)?.to_vec::<f64>()?, [9.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn pow(&self, other: &Tensor) -> Result<Tensor> {
        aten::pow_tensor_tensor(self, other)
    }

    /// The angle of the point `(other, self)`. See [`aten::atan2`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([0f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.atan2(&b)?.to_vec::<f64>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn atan2(&self, other: &Tensor) -> Result<Tensor> {
        aten::atan2(self, other)
    }

    /// The larger of two elements; NaN wins. See [`aten::maximum`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([3f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.maximum(&b)?.to_vec::<f64>()?, [3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn maximum(&self, other: &Tensor) -> Result<Tensor> {
        aten::maximum(self, other)
    }

    /// The smaller of two elements; NaN wins. See [`aten::minimum`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([3f64])?, Tensor::from_vec([2f64])?);
    /// assert_eq!(a.minimum(&b)?.to_vec::<f64>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn minimum(&self, other: &Tensor) -> Result<Tensor> {
        aten::minimum(self, other)
    }

    /// `self ^ exponent`. See [`aten::pow_tensor_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([3f32])?.pow_scalar(2)?.to_vec::<f32>()?, [9.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn pow_scalar(&self, exponent: impl Into<Scalar>) -> Result<Tensor> {
        aten::pow_tensor_scalar(self, exponent.into())
    }

    /// Both non-zero. See [`aten::logical_and`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([true])?, Tensor::from_vec([false])?);
    /// assert_eq!(a.logical_and(&b)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_and(&self, other: &Tensor) -> Result<Tensor> {
        aten::logical_and(self, other)
    }

    /// One or both non-zero. See [`aten::logical_or`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([true])?, Tensor::from_vec([false])?);
    /// assert_eq!(a.logical_or(&b)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_or(&self, other: &Tensor) -> Result<Tensor> {
        aten::logical_or(self, other)
    }

    /// Exactly one non-zero. See [`aten::logical_xor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([true])?, Tensor::from_vec([false])?);
    /// assert_eq!(a.logical_xor(&b)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_xor(&self, other: &Tensor) -> Result<Tensor> {
        aten::logical_xor(self, other)
    }

    /// The bits set in both. See [`aten::bitwise_and_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([3i64])?, Tensor::from_vec([6i64])?);
    /// assert_eq!(a.bitwise_and(&b)?.to_vec::<i64>()?, [2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_and(&self, other: &Tensor) -> Result<Tensor> {
        aten::bitwise_and_tensor(self, other)
    }

    /// The bits set in either. See [`aten::bitwise_or_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([3i64])?, Tensor::from_vec([6i64])?);
    /// assert_eq!(a.bitwise_or(&b)?.to_vec::<i64>()?, [7]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_or(&self, other: &Tensor) -> Result<Tensor> {
        aten::bitwise_or_tensor(self, other)
    }

    /// The bits set in one of the two. See [`aten::bitwise_xor_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([3i64])?, Tensor::from_vec([6i64])?);
    /// assert_eq!(a.bitwise_xor(&b)?.to_vec::<i64>()?, [5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_xor(&self, other: &Tensor) -> Result<Tensor> {
        aten::bitwise_xor_tensor(self, other)
    }

    /// `self == other`, element by element. See [`aten::eq_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([1i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.eq(&b)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn eq(&self, other: &Tensor) -> Result<Tensor> {
        aten::eq_tensor(self, other)
    }

    /// `self == other` for a number. See [`aten::eq_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1i64])?.eq_scalar(2)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn eq_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::eq_scalar(self, other.into())
    }

    /// `self != other`, element by element. See [`aten::ne_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([1i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.ne(&b)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ne(&self, other: &Tensor) -> Result<Tensor> {
        aten::ne_tensor(self, other)
    }

    /// `self != other` for a number. See [`aten::ne_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1i64])?.ne_scalar(2)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ne_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::ne_scalar(self, other.into())
    }

    /// `self < other`, element by element. See [`aten::lt_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([1i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.lt(&b)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn lt(&self, other: &Tensor) -> Result<Tensor> {
        aten::lt_tensor(self, other)
    }

    /// `self < other` for a number. See [`aten::lt_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1i64])?.lt_scalar(2)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn lt_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::lt_scalar(self, other.into())
    }

    /// `self <= other`, element by element. See [`aten::le_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([1i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.le(&b)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn le(&self, other: &Tensor) -> Result<Tensor> {
        aten::le_tensor(self, other)
    }

    /// `self <= other` for a number. See [`aten::le_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1i64])?.le_scalar(2)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn le_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::le_scalar(self, other.into())
    }

    /// `self > other`, element by element. See [`aten::gt_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([1i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.gt(&b)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn gt(&self, other: &Tensor) -> Result<Tensor> {
        aten::gt_tensor(self, other)
    }

    /// `self > other` for a number. See [`aten::gt_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1i64])?.gt_scalar(2)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn gt_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::gt_scalar(self, other.into())
    }

    /// `self >= other`, element by element. See [`aten::ge_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (a, b) = (Tensor::from_vec([1i64])?, Tensor::from_vec([2i64])?);
    /// assert_eq!(a.ge(&b)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ge(&self, other: &Tensor) -> Result<Tensor> {
        aten::ge_tensor(self, other)
    }

    /// `self >= other` for a number. See [`aten::ge_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::from_vec([1i64])?.ge_scalar(2)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ge_scalar(&self, other: impl Into<Scalar>) -> Result<Tensor> {
        aten::ge_scalar(self, other.into())
    }
}
