//! Methods of two operands: arithmetic, comparison, bits. The second is a tensor or a number.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Other, Tensor};
use straightline_catalog::Scalar;

const ONE: Scalar = Scalar::Int(1);

/// Methods whose operator has an overload for tensors and one for numbers.
macro_rules! tensor_or_number {
    ($($(#[$doc:meta])* $name:ident: $tensor:ident, $scalar:ident $(, $more:expr)?;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        #[inline]
        pub fn $name<'a>(&self, other: impl Into<Other<'a>>) -> Result<Tensor> {
            match other.into() {
                Other::Tensor(t) => aten::$tensor(self, t $(, $more)?),
                Other::Owned(t) => aten::$tensor(self, &t $(, $more)?),
                Other::Number(n) => aten::$scalar(self, n $(, $more)?),
            }
        }
    )*};
}

/// Methods whose operator takes tensors only: a number is wrapped into one.
macro_rules! wrapped_number {
    ($($(#[$doc:meta])* $name:ident: $tensor:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        #[inline]
        pub fn $name<'a>(&self, other: impl Into<Other<'a>>) -> Result<Tensor> {
            match other.into() {
                Other::Tensor(t) => aten::$tensor(self, t),
                other => aten::$tensor(self, &other.into_tensor()?),
            }
        }
    )*};
}

impl Tensor {
    tensor_or_number! {
        /// The sum, broadcasting. See [`aten::add_tensor`] and [`aten::add_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([6i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.add(&b)?.to_vec::<i64>()?, [8]);
        /// assert_eq!(a.add(3)?.to_vec::<i64>()?, [9]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        add: add_tensor, add_scalar, ONE;

        /// [`Tensor::add`] in place.
        add_: add_tensor_, add_scalar_, ONE;

        /// The difference, broadcasting. See [`aten::sub_tensor`] and [`aten::sub_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([6i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.sub(&b)?.to_vec::<i64>()?, [4]);
        /// assert_eq!(a.sub(3)?.to_vec::<i64>()?, [3]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        sub: sub_tensor, sub_scalar, ONE;

        /// [`Tensor::sub`] in place.
        sub_: sub_tensor_, sub_scalar_, ONE;

        /// The product, broadcasting. See [`aten::mul_tensor`] and [`aten::mul_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([6f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.mul(&b)?.to_vec::<f64>()?, [12.0]);
        /// assert_eq!(a.mul(0.5)?.to_vec::<f64>()?, [3.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        mul: mul_tensor, mul_scalar;

        /// [`Tensor::mul`] in place.
        mul_: mul_tensor_, mul_scalar_;

        /// The quotient, in floating point, broadcasting. See [`aten::div_tensor`] and [`aten::div_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([6i64], 1)?, Tensor::from_vec([4i64], 1)?);
        /// assert_eq!(a.div(&b)?.to_vec::<f32>()?, [1.5]);
        /// assert_eq!(a.div(2)?.to_vec::<f32>()?, [3.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        div: div_tensor, div_scalar;

        /// [`Tensor::div`] in place.
        div_: div_tensor_, div_scalar_;

        /// The remainder with the sign of the dividend, broadcasting. See [`aten::fmod_tensor`] and [`aten::fmod_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([-7i64], 1)?, Tensor::from_vec([3i64], 1)?);
        /// assert_eq!(a.fmod(&b)?.to_vec::<i64>()?, [-1]);
        /// assert_eq!(a.fmod(2)?.to_vec::<i64>()?, [-1]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        fmod: fmod_tensor, fmod_scalar;

        /// [`Tensor::fmod`] in place.
        fmod_: fmod_tensor_, fmod_scalar_;

        /// The remainder with the sign of the divisor, broadcasting. See [`aten::remainder_tensor`] and [`aten::remainder_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([-7i64], 1)?, Tensor::from_vec([3i64], 1)?);
        /// assert_eq!(a.remainder(&b)?.to_vec::<i64>()?, [2]);
        /// assert_eq!(a.remainder(2)?.to_vec::<i64>()?, [1]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        remainder: remainder_tensor, remainder_scalar;

        /// [`Tensor::remainder`] in place.
        remainder_: remainder_tensor_, remainder_scalar_;

        /// The largest whole number not above the quotient, broadcasting. See [`aten::floor_divide`] and [`aten::floor_divide_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([-7i64], 1)?, Tensor::from_vec([3i64], 1)?);
        /// assert_eq!(a.floor_divide(&b)?.to_vec::<i64>()?, [-3]);
        /// assert_eq!(a.floor_divide(2)?.to_vec::<i64>()?, [-4]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        floor_divide: floor_divide, floor_divide_scalar;

        /// `self` to the power `other`, broadcasting. See [`aten::pow_tensor_tensor`] and [`aten::pow_tensor_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.pow(&b)?.to_vec::<f64>()?, [9.0]);
        /// assert_eq!(a.pow(0.5)?.to_vec::<f64>()?, [3f64.sqrt()]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        pow: pow_tensor_tensor, pow_tensor_scalar;

        /// [`Tensor::pow`] in place.
        pow_: pow_tensor_, pow_scalar_;

        /// The bits set in both, or both `true`. See [`aten::bitwise_and_tensor`] and [`aten::bitwise_and_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3i64], 1)?, Tensor::from_vec([6i64], 1)?);
        /// assert_eq!(a.bitwise_and(&b)?.to_vec::<i64>()?, [2]);
        /// assert_eq!(a.bitwise_and(6)?.to_vec::<i64>()?, [2]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        bitwise_and: bitwise_and_tensor, bitwise_and_scalar;

        /// [`Tensor::bitwise_and`] in place.
        bitwise_and_: bitwise_and_tensor_, bitwise_and_scalar_;

        /// The bits set in either, or either `true`. See [`aten::bitwise_or_tensor`] and [`aten::bitwise_or_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3i64], 1)?, Tensor::from_vec([6i64], 1)?);
        /// assert_eq!(a.bitwise_or(&b)?.to_vec::<i64>()?, [7]);
        /// assert_eq!(a.bitwise_or(6)?.to_vec::<i64>()?, [7]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        bitwise_or: bitwise_or_tensor, bitwise_or_scalar;

        /// [`Tensor::bitwise_or`] in place.
        bitwise_or_: bitwise_or_tensor_, bitwise_or_scalar_;

        /// The bits set in one of the two, or exactly one `true`. See [`aten::bitwise_xor_tensor`] and [`aten::bitwise_xor_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3i64], 1)?, Tensor::from_vec([6i64], 1)?);
        /// assert_eq!(a.bitwise_xor(&b)?.to_vec::<i64>()?, [5]);
        /// assert_eq!(a.bitwise_xor(6)?.to_vec::<i64>()?, [5]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        bitwise_xor: bitwise_xor_tensor, bitwise_xor_scalar;

        /// [`Tensor::bitwise_xor`] in place.
        bitwise_xor_: bitwise_xor_tensor_, bitwise_xor_scalar_;

        /// The bits moved up by `other` places. See [`aten::bitwise_left_shift_tensor`] and [`aten::bitwise_left_shift_tensor_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.bitwise_left_shift(&b)?.to_vec::<i64>()?, [12]);
        /// assert_eq!(a.bitwise_left_shift(4)?.to_vec::<i64>()?, [48]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        bitwise_left_shift: bitwise_left_shift_tensor, bitwise_left_shift_tensor_scalar;

        /// [`Tensor::bitwise_left_shift`] in place.
        bitwise_left_shift_: bitwise_left_shift_tensor_, bitwise_left_shift_tensor_scalar_;

        /// The bits moved down by `other` places. See [`aten::bitwise_right_shift_tensor`] and [`aten::bitwise_right_shift_tensor_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([12i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.bitwise_right_shift(&b)?.to_vec::<i64>()?, [3]);
        /// assert_eq!(a.bitwise_right_shift(1)?.to_vec::<i64>()?, [6]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        bitwise_right_shift: bitwise_right_shift_tensor, bitwise_right_shift_tensor_scalar;

        /// [`Tensor::bitwise_right_shift`] in place.
        bitwise_right_shift_: bitwise_right_shift_tensor_, bitwise_right_shift_tensor_scalar_;

        /// The larger of an element and a bound; NaN stays. See [`aten::clamp_min_tensor`] and [`aten::clamp_min`].
        ///
        /// ```
        /// use straightline::tensor;
        /// assert_eq!(tensor([1.0, 3.0])?.clamp_min(2)?.to_vec::<f32>()?, [2.0, 3.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        clamp_min: clamp_min_tensor, clamp_min;

        /// [`Tensor::clamp_min`] in place.
        clamp_min_: clamp_min_tensor_, clamp_min_;

        /// The smaller of an element and a bound; NaN stays. See [`aten::clamp_max_tensor`] and [`aten::clamp_max`].
        ///
        /// ```
        /// use straightline::tensor;
        /// assert_eq!(tensor([1.0, 3.0])?.clamp_max(2)?.to_vec::<f32>()?, [1.0, 2.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        clamp_max: clamp_max_tensor, clamp_max;

        /// [`Tensor::clamp_max`] in place.
        clamp_max_: clamp_max_tensor_, clamp_max_;

        /// Where `self == other`, as `bool`, broadcasting. See [`aten::eq_tensor`] and [`aten::eq_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([1i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.eq(&b)?.to_vec::<bool>()?, [false]);
        /// assert_eq!(a.eq(1)?.to_vec::<bool>()?, [true]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        eq: eq_tensor, eq_scalar;

        /// Where `self != other`, as `bool`, broadcasting. See [`aten::ne_tensor`] and [`aten::ne_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([1i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.ne(&b)?.to_vec::<bool>()?, [true]);
        /// assert_eq!(a.ne(1)?.to_vec::<bool>()?, [false]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        ne: ne_tensor, ne_scalar;

        /// Where `self < other`, as `bool`, broadcasting. See [`aten::lt_tensor`] and [`aten::lt_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([1i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.lt(&b)?.to_vec::<bool>()?, [true]);
        /// assert_eq!(a.lt(1)?.to_vec::<bool>()?, [false]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        lt: lt_tensor, lt_scalar;

        /// Where `self <= other`, as `bool`, broadcasting. See [`aten::le_tensor`] and [`aten::le_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([1i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.le(&b)?.to_vec::<bool>()?, [true]);
        /// assert_eq!(a.le(1)?.to_vec::<bool>()?, [true]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        le: le_tensor, le_scalar;

        /// Where `self > other`, as `bool`, broadcasting. See [`aten::gt_tensor`] and [`aten::gt_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([1i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.gt(&b)?.to_vec::<bool>()?, [false]);
        /// assert_eq!(a.gt(1)?.to_vec::<bool>()?, [false]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        gt: gt_tensor, gt_scalar;

        /// Where `self >= other`, as `bool`, broadcasting. See [`aten::ge_tensor`] and [`aten::ge_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([1i64], 1)?, Tensor::from_vec([2i64], 1)?);
        /// assert_eq!(a.ge(&b)?.to_vec::<bool>()?, [false]);
        /// assert_eq!(a.ge(1)?.to_vec::<bool>()?, [true]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        ge: ge_tensor, ge_scalar;

        /// `self * ln(other)`, and 0 where `self` is 0, broadcasting. See [`aten::xlogy_tensor`] and [`aten::xlogy_scalar_other`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([0f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.xlogy(&b)?.to_vec::<f64>()?, [0.0]);
        /// assert_eq!(a.xlogy(0.0)?.to_vec::<f64>()?, [0.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        xlogy: xlogy_tensor, xlogy_scalar_other;

        /// [`Tensor::xlogy`] in place.
        xlogy_: xlogy_tensor_, xlogy_scalar_other_;

        /// The magnitude of `self` with the sign of `other`, broadcasting. See [`aten::copysign_tensor`] and [`aten::copysign_scalar`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([2f64], 1)?, Tensor::from_vec([-1f64], 1)?);
        /// assert_eq!(a.copysign(&b)?.to_vec::<f64>()?, [-2.0]);
        /// assert_eq!(a.copysign(1.0)?.to_vec::<f64>()?, [2.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        copysign: copysign_tensor, copysign_scalar;

        /// [`Tensor::copysign`] in place.
        copysign_: copysign_tensor_, copysign_scalar_;
    }

    wrapped_number! {
        /// The angle of the point `(other, self)`, broadcasting. See [`aten::atan2`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([0f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.atan2(&b)?.to_vec::<f64>()?, [0.0]);
        /// assert_eq!(a.atan2(1.0)?.to_vec::<f64>()?, [0.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        atan2: atan2;

        /// The length of the vector `(self, other)`, broadcasting. See [`aten::hypot`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3f64], 1)?, Tensor::from_vec([4f64], 1)?);
        /// assert_eq!(a.hypot(&b)?.to_vec::<f64>()?, [5.0]);
        /// assert_eq!(a.hypot(4.0)?.to_vec::<f64>()?, [5.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        hypot: hypot;

        /// The larger of two elements; NaN wins; broadcasting. See [`aten::maximum`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.maximum(&b)?.to_vec::<f64>()?, [3.0]);
        /// assert_eq!(a.maximum(4.0)?.to_vec::<f64>()?, [4.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        maximum: maximum;

        /// The smaller of two elements; NaN wins; broadcasting. See [`aten::minimum`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.minimum(&b)?.to_vec::<f64>()?, [2.0]);
        /// assert_eq!(a.minimum(4.0)?.to_vec::<f64>()?, [3.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        minimum: minimum;

        /// The larger of two elements; a number wins over NaN; broadcasting. See [`aten::fmax`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.fmax(&b)?.to_vec::<f64>()?, [3.0]);
        /// assert_eq!(a.fmax(4.0)?.to_vec::<f64>()?, [4.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        fmax: fmax;

        /// The smaller of two elements; a number wins over NaN; broadcasting. See [`aten::fmin`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([3f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.fmin(&b)?.to_vec::<f64>()?, [2.0]);
        /// assert_eq!(a.fmin(4.0)?.to_vec::<f64>()?, [3.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        fmin: fmin;

        /// `ln(exp(self) + exp(other))` without overflow, broadcasting. See [`aten::logaddexp`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([1000f64], 1)?, Tensor::from_vec([-1000f64], 1)?);
        /// assert_eq!(a.logaddexp(&b)?.to_vec::<f64>()?, [1000.0]);
        /// assert_eq!(a.logaddexp(0.0)?.to_vec::<f64>()?, [1000.0]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        logaddexp: logaddexp;

        /// Where both are non-zero, as `bool`. See [`aten::logical_and`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([true], 1)?, Tensor::from_vec([false], 1)?);
        /// assert_eq!(a.logical_and(&b)?.to_vec::<bool>()?, [false]);
        /// assert_eq!(a.logical_and(true)?.to_vec::<bool>()?, [true]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        logical_and: logical_and;

        /// Where one or both are non-zero, as `bool`. See [`aten::logical_or`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([true], 1)?, Tensor::from_vec([false], 1)?);
        /// assert_eq!(a.logical_or(&b)?.to_vec::<bool>()?, [true]);
        /// assert_eq!(a.logical_or(false)?.to_vec::<bool>()?, [true]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        logical_or: logical_or;

        /// Where exactly one is non-zero, as `bool`. See [`aten::logical_xor`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([true], 1)?, Tensor::from_vec([false], 1)?);
        /// assert_eq!(a.logical_xor(&b)?.to_vec::<bool>()?, [true]);
        /// assert_eq!(a.logical_xor(true)?.to_vec::<bool>()?, [false]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        logical_xor: logical_xor;

        /// The greatest common divisor of integers, broadcasting. See [`aten::gcd`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([12i64], 1)?, Tensor::from_vec([18i64], 1)?);
        /// assert_eq!(a.gcd(&b)?.to_vec::<i64>()?, [6]);
        /// assert_eq!(a.gcd(8)?.to_vec::<i64>()?, [4]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        gcd: gcd;

        /// The least common multiple of integers, broadcasting. See [`aten::lcm`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([4i64], 1)?, Tensor::from_vec([6i64], 1)?);
        /// assert_eq!(a.lcm(&b)?.to_vec::<i64>()?, [12]);
        /// assert_eq!(a.lcm(10)?.to_vec::<i64>()?, [20]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        lcm: lcm;

        /// 0 below zero, 1 above, and `other` at zero. See [`aten::heaviside`].
        ///
        /// ```
        /// use straightline::Tensor;
        /// let (a, b) = (Tensor::from_vec([0f64], 1)?, Tensor::from_vec([2f64], 1)?);
        /// assert_eq!(a.heaviside(&b)?.to_vec::<f64>()?, [2.0]);
        /// assert_eq!(a.heaviside(0.5)?.to_vec::<f64>()?, [0.5]);
        /// # Ok::<(), straightline::Error>(())
        /// ```
        heaviside: heaviside;
    }
}
