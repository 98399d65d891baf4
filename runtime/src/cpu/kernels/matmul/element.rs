//! What the matrix kernels require of an element type.

use half::{bf16, f16};
use straightline_passes::ir::{DType, Scalar};

/// An element type of a safe dense product.
pub trait MatElement: Copy {
    /// Its dtype.
    const DTYPE: DType;
}

macro_rules! mat_element {
    ($($t:ty => $d:ident),*) => {$(
        impl MatElement for $t {
            const DTYPE: DType = DType::$d;
        }
    )*};
}
mat_element!(f32 => F32, f64 => F64, f16 => F16, bf16 => BF16, u8 => U8, i8 => I8,
    i16 => I16, i32 => I32, i64 => I64);

/// An element of a matrix, with the type its sums are kept in.
pub(super) trait Element: Copy + Send + Sync + 'static {
    /// `f32` for the half types, wrapping integers for integers.
    type Acc: Copy + Send + Sync + 'static;
    const ZERO: Self::Acc;
    fn widen(self) -> Self::Acc;
    fn round(acc: Self::Acc) -> Self;
    fn scalar(value: Scalar) -> Self::Acc;
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn mul(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn is_zero(a: Self::Acc) -> bool;
    fn is_one(a: Self::Acc) -> bool;
}

macro_rules! float_element {
    ($t:ty, $acc:ty, $widen:expr, $round:expr) => {
        impl Element for $t {
            type Acc = $acc;
            const ZERO: $acc = 0.0;
            #[inline(always)]
            fn widen(self) -> $acc {
                $widen(self)
            }
            #[inline(always)]
            fn round(acc: $acc) -> $t {
                $round(acc)
            }
            fn scalar(value: Scalar) -> $acc {
                value.as_f64() as $acc
            }
            #[inline(always)]
            fn add(a: $acc, b: $acc) -> $acc {
                a + b
            }
            #[inline(always)]
            fn mul(a: $acc, b: $acc) -> $acc {
                a * b
            }
            fn is_zero(a: $acc) -> bool {
                a == 0.0
            }
            fn is_one(a: $acc) -> bool {
                a == 1.0
            }
        }
    };
}

float_element!(f32, f32, |x| x, |x| x);
float_element!(f64, f64, |x| x, |x| x);
float_element!(f16, f32, f16::to_f32, f16::from_f32);
float_element!(bf16, f32, bf16::to_f32, bf16::from_f32);

macro_rules! int_element {
    ($($t:ty)*) => {$(
        impl Element for $t {
            type Acc = $t;
            const ZERO: $t = 0;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn round(acc: $t) -> $t {
                acc
            }
            fn scalar(value: Scalar) -> $t {
                value.as_i64() as $t
            }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn mul(a: $t, b: $t) -> $t {
                a.wrapping_mul(b)
            }
            fn is_zero(a: $t) -> bool {
                a == 0
            }
            fn is_one(a: $t) -> bool {
                a == 1
            }
        }
    )*};
}

int_element!(u8 i8 i16 i32 i64);

/// An element that the float kernels compute in.
pub(super) trait Float: Element<Acc = Self> + Default {}
impl Float for f32 {}
impl Float for f64 {}
