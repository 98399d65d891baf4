//! The types that planes are computed in.

use super::super::half;
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
pub(super) trait Number: Copy + PartialOrd + Send + Sync + 'static {
    const ZERO: Self;
    /// Less than or equal to every number.
    const LOWEST: Self;
    /// The dtype whose memory holds these numbers as they are.
    const DTYPE: DType;

    fn is_nan(self) -> bool;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Integers divide towards zero; by zero is zero.
    fn over(self, divisor: i64) -> Self;
    fn of(x: f64) -> Self;
    /// As an element of `dtype`, which computes in `Self`, would hold it.
    fn held_as(self, dtype: DType) -> Self;

    /// # Safety
    ///
    /// `src` has `dst.len()` elements of `dtype`, which computes in `Self`.
    unsafe fn load(dtype: DType, src: *const u8, dst: &mut [Self]);

    /// # Safety
    ///
    /// `dst` has room for `src.len()` elements of `dtype`, which computes in `Self`.
    unsafe fn store(dtype: DType, dst: *mut u8, src: &[Self]);
}

unsafe fn copy_in<T: Copy>(src: *const u8, dst: &mut [T]) {
    // SAFETY: as promised by the caller of `load`; bytes need no alignment.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst.as_mut_ptr().cast::<u8>(), size_of_val(dst));
    }
}

unsafe fn copy_out<T: Copy>(dst: *mut u8, src: &[T]) {
    // SAFETY: as promised by the caller of `store`.
    unsafe { std::ptr::copy_nonoverlapping(src.as_ptr().cast::<u8>(), dst, size_of_val(src)) }
}

macro_rules! float_number {
    ($t:ty, $dtype:ident) => {
        const ZERO: Self = 0.0;
        const LOWEST: Self = <$t>::NEG_INFINITY;
        const DTYPE: DType = DType::$dtype;

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
    float_number!(f32, F32);

    unsafe fn load(dtype: DType, src: *const u8, dst: &mut [f32]) {
        // SAFETY: as promised by the caller.
        unsafe {
            match dtype {
                DType::F16 | DType::BF16 => half::widen(dtype, dst.as_mut_ptr(), src, dst.len()),
                _ => copy_in(src, dst),
            }
        }
    }

    unsafe fn store(dtype: DType, dst: *mut u8, src: &[f32]) {
        // SAFETY: as promised by the caller.
        unsafe {
            match dtype {
                DType::F16 | DType::BF16 => half::narrow(dtype, dst, src.as_ptr(), src.len()),
                _ => copy_out(dst, src),
            }
        }
    }
}

impl Number for f64 {
    float_number!(f64, F64);

    unsafe fn load(_: DType, src: *const u8, dst: &mut [f64]) {
        // SAFETY: as promised by the caller.
        unsafe { copy_in(src, dst) }
    }

    unsafe fn store(_: DType, dst: *mut u8, src: &[f64]) {
        // SAFETY: as promised by the caller.
        unsafe { copy_out(dst, src) }
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;
    const LOWEST: i64 = i64::MIN;
    const DTYPE: DType = DType::I64;

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

    unsafe fn load(dtype: DType, src: *const u8, dst: &mut [i64]) {
        macro_rules! each {
            ($t:ty) => {
                for (i, x) in dst.iter_mut().enumerate() {
                    // SAFETY: i is below the number of elements.
                    *x = i64::from(unsafe { src.cast::<$t>().add(i).read_unaligned() });
                }
            };
        }
        match dtype {
            DType::I32 => each!(i32),
            DType::I16 => each!(i16),
            DType::I8 => each!(i8),
            DType::U8 | DType::Bool => each!(u8),
            // SAFETY: as promised by the caller.
            _ => unsafe { copy_in(src, dst) },
        }
    }

    unsafe fn store(dtype: DType, dst: *mut u8, src: &[i64]) {
        macro_rules! each {
            ($t:ty) => {
                for (i, x) in src.iter().enumerate() {
                    // SAFETY: i is below the number of elements.
                    unsafe { dst.cast::<$t>().add(i).write_unaligned(*x as $t) };
                }
            };
        }
        match dtype {
            DType::I32 => each!(i32),
            DType::I16 => each!(i16),
            DType::I8 => each!(i8),
            DType::U8 => each!(u8),
            DType::Bool => {
                for (i, x) in src.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { dst.add(i).write(u8::from(*x != 0)) };
                }
            }
            // SAFETY: as promised by the caller.
            _ => unsafe { copy_out(dst, src) },
        }
    }
}

/// Runs `$body` with `$A` standing for the type that `$dtype` computes in.
macro_rules! with_number {
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
            ::straightline_passes::ir::DType::I64
            | ::straightline_passes::ir::DType::I32
            | ::straightline_passes::ir::DType::I16
            | ::straightline_passes::ir::DType::I8
            | ::straightline_passes::ir::DType::U8
            | ::straightline_passes::ir::DType::Bool => {
                type $A = i64;
                $body
            }
            other => Err($crate::cpu::kernels::KernelError::unsupported($op, other)),
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
