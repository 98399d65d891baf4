//! The types that planes are computed in.

use super::super::operand::{self, In, Out};
use super::super::{KernelError, half};
use straightline_passes::ir::DType;

/// A number rounded to the precision of a floating-point dtype.
pub(super) fn round_to(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F64 => x,
        DType::F16 => f64::from(::half::f16::from_f32(x as f32).to_f32()),
        DType::BF16 => f64::from(::half::bf16::from_f32(x as f32).to_f32()),
        _ => f64::from(x as f32),
    }
}

/// A type to compute in: `f32` for itself and the half types, `f64`, `i64` for integers and bool.
pub(super) trait Number: operand::Element + PartialOrd {
    const ZERO: Self;
    /// Less than or equal to every number.
    const LOWEST: Self;

    fn is_nan(self) -> bool;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Integers divide towards zero; by zero is zero.
    fn over(self, divisor: i64) -> Self;
    fn of(x: f64) -> Self;
    /// As an element of `dtype`, which computes in `Self`, would hold it.
    fn held_as(self, dtype: DType) -> Self;

    /// The sum, in a type whose sums round.
    #[inline(always)]
    fn plus_in(self, rounding: Option<DType>, other: Self) -> Self {
        let sum = self.plus(other);
        rounding.map_or(sum, |dtype| sum.held_as(dtype))
    }

    /// Elements of `dtype`, which computes in `Self`.
    fn load(dtype: DType, src: &[u8], dst: &mut [Self]);
    /// As elements of `dtype`, which computes in `Self`.
    fn store(dtype: DType, dst: &mut [u8], src: &[Self]);
}

/// The dtype, if it is a half type: some gradients round sums of those after each addition, as
/// PyTorch's do.
pub(super) fn rounding(dtype: DType) -> Option<DType> {
    matches!(dtype, DType::F16 | DType::BF16).then_some(dtype)
}

macro_rules! load_as {
    ($t:ty, $src:expr, $dst:expr) => {
        for (x, bytes) in $dst.iter_mut().zip($src.as_chunks().0) {
            *x = <$t>::from_ne_bytes(*bytes) as _;
        }
    };
}

macro_rules! store_as {
    ($t:ty, $dst:expr, $src:expr) => {
        for (bytes, x) in $dst.as_chunks_mut().0.iter_mut().zip($src) {
            *bytes = (*x as $t).to_ne_bytes();
        }
    };
}

macro_rules! float_number {
    ($t:ty) => {
        const ZERO: Self = 0.0;
        const LOWEST: Self = <$t>::NEG_INFINITY;

        #[inline(always)]
        fn is_nan(self) -> bool {
            self != self
        }
        #[inline(always)]
        fn plus(self, other: Self) -> Self {
            self + other
        }
        #[inline(always)]
        fn times(self, other: Self) -> Self {
            self * other
        }
        #[inline(always)]
        fn over(self, divisor: i64) -> Self {
            self / divisor as $t
        }
        #[inline(always)]
        fn of(x: f64) -> Self {
            x as $t
        }
        #[inline]
        fn held_as(self, dtype: DType) -> Self {
            round_to(dtype, self as f64) as $t
        }
    };
}

impl Number for f32 {
    float_number!(f32);

    fn load(dtype: DType, src: &[u8], dst: &mut [f32]) {
        match dtype {
            DType::F16 | DType::BF16 => {
                let n = dst.len().min(src.len() / 2);
                // SAFETY: two slices, which have so many numbers.
                unsafe { half::widen(dtype, dst.as_mut_ptr(), src.as_ptr(), n) }
            }
            _ => load_as!(f32, src, dst),
        }
    }

    fn store(dtype: DType, dst: &mut [u8], src: &[f32]) {
        match dtype {
            DType::F16 | DType::BF16 => {
                let n = src.len().min(dst.len() / 2);
                // SAFETY: two slices, which have so many numbers.
                unsafe { half::narrow(dtype, dst.as_mut_ptr(), src.as_ptr(), n) }
            }
            _ => store_as!(f32, dst, src),
        }
    }
}

impl Number for f64 {
    float_number!(f64);

    fn load(_: DType, src: &[u8], dst: &mut [f64]) {
        load_as!(f64, src, dst);
    }

    fn store(_: DType, dst: &mut [u8], src: &[f64]) {
        store_as!(f64, dst, src);
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;
    const LOWEST: i64 = i64::MIN;

    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn over(self, divisor: i64) -> i64 {
        if divisor == 0 {
            return 0;
        }
        self.wrapping_div(divisor)
    }
    #[inline(always)]
    fn of(x: f64) -> i64 {
        x as i64
    }
    fn held_as(self, _: DType) -> i64 {
        self
    }

    fn load(dtype: DType, src: &[u8], dst: &mut [i64]) {
        match dtype {
            DType::I32 => load_as!(i32, src, dst),
            DType::I16 => load_as!(i16, src, dst),
            DType::I8 => load_as!(i8, src, dst),
            DType::U8 | DType::Bool => load_as!(u8, src, dst),
            _ => load_as!(i64, src, dst),
        }
    }

    fn store(dtype: DType, dst: &mut [u8], src: &[i64]) {
        match dtype {
            DType::I32 => store_as!(i32, dst, src),
            DType::I16 => store_as!(i16, dst, src),
            DType::I8 => store_as!(i8, dst, src),
            DType::U8 => store_as!(u8, dst, src),
            DType::Bool => {
                for (byte, x) in dst.iter_mut().zip(src) {
                    *byte = u8::from(*x != 0);
                }
            }
            _ => store_as!(i64, dst, src),
        }
    }
}

/// Runs `$body` with `$A` standing for the type that `$dtype` computes in.
macro_rules! with_number {
    ($op:expr, $dtype:expr, $A:ident => $body:expr) => {
        match $dtype {
            ::straightline_passes::ir::DType::I64
            | ::straightline_passes::ir::DType::I32
            | ::straightline_passes::ir::DType::I16
            | ::straightline_passes::ir::DType::I8
            | ::straightline_passes::ir::DType::U8
            | ::straightline_passes::ir::DType::Bool => {
                type $A = i64;
                $body
            }
            float => $crate::cpu::kernels::spatial::number::with_float!($op, float, $A => $body),
        }
    };
}

/// As [`with_number`], for floating point only.
macro_rules! with_float {
    ($op:expr, $dtype:expr, $A:ident => $body:expr) => {
        match $dtype {
            ::straightline_passes::ir::DType::F32
            | ::straightline_passes::ir::DType::F16
            | ::straightline_passes::ir::DType::BF16 => {
                type $A = f32;
                $body
            }
            ::straightline_passes::ir::DType::F64 => {
                type $A = f64;
                $body
            }
            other => Err($crate::cpu::kernels::KernelError::unsupported($op, other)),
        }
    };
}

pub(super) use {with_float, with_number};

/// The elements of a floating-point operand.
#[allow(clippy::useless_conversion, reason = "they may be f32")]
pub(super) fn to_f64(kernel: &'static str, a: In<'_>) -> Result<Vec<f64>, KernelError> {
    with_float!(kernel, a.dtype(), A => {
        let mut x = vec![A::ZERO; a.numel()];
        A::load(a.dtype(), a.bytes()?, &mut x);
        Ok(x.into_iter().map(f64::from).collect())
    })
}

/// Writes numbers as elements of a floating-point result.
pub(super) fn of_f64(kernel: &'static str, out: Out<'_>, x: &[f64]) -> Result<(), KernelError> {
    let dtype = out.dtype();
    with_float!(kernel, dtype, A => {
        let x: Vec<A> = x.iter().map(|x| A::of(*x)).collect();
        A::store(dtype, out.bytes()?, &x);
        Ok(())
    })
}
