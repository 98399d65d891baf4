//! Combines an existing element with a new one, as scattering with a reduction does.

use super::KernelError;
use half::{bf16, f16};
use straightline_passes::ir::DType;

/// What [`scatter`](super::scatter) and [`put_at`](super::put_at) do with the existing element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScatterOp {
    /// It is replaced (by the last of several, in row-major order).
    Replace,
    /// The new one is added.
    Add,
    /// It is multiplied by the new one.
    Multiply,
    /// Keeps the larger one; of equal ones (zeros of either sign) the existing one. NaN is larger
    /// than everything.
    Max,
    /// Keeps the smaller one; of equal ones the existing one. NaN is smaller than everything.
    Min,
}

/// Combines `n` elements at strides in bytes: the target, its step, the source, its step, `n`.
pub(super) type Combine = unsafe fn(*mut u8, isize, *const u8, isize, usize);

trait Number: Copy {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty)+) => {$(
        impl Number for $t {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
        }
    )+};
}
// the widest moves complex numbers and is never added
integers!(u8 i8 i16 i32 i64 u128);

macro_rules! floats {
    ($($t:ty: $wide:ty, $widen:expr, $narrow:expr;)+) => {$(
        #[allow(clippy::redundant_closure_call, reason = "functions of the type")]
        impl Number for $t {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $narrow($widen(self) + $widen(other))
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $narrow($widen(self) * $widen(other))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if other.is_nan() || self < other { other } else { self }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if other.is_nan() || self > other { other } else { self }
            }
        }
    )+};
}
floats! {
    f32: f32, |x: f32| x, |x: f32| x;
    f64: f64, |x: f64| x, |x: f64| x;
    f16: f32, |x: f16| x.to_f32(), f16::from_f32;
    bf16: f32, |x: bf16| x.to_f32(), bf16::from_f32;
}

/// A truth value: sums are "or", products "and".
#[derive(Clone, Copy)]
struct Truth(u8);

impl Number for Truth {
    fn add(self, other: Self) -> Self {
        Truth(self.0 | other.0)
    }
    fn mul(self, other: Self) -> Self {
        Truth(self.0 & other.0)
    }
    fn max(self, other: Self) -> Self {
        self.add(other)
    }
    fn min(self, other: Self) -> Self {
        self.mul(other)
    }
}

/// # Safety
///
/// As [`Combine`]: both sides have `n` elements at their steps.
#[inline(always)]
unsafe fn each<T: Number>(
    to: *mut u8,
    to_step: isize,
    from: *const u8,
    from_step: isize,
    n: usize,
    f: impl Fn(T, T) -> T,
) {
    for i in 0..n as isize {
        // SAFETY: element i of each side.
        unsafe {
            let p = to.offset(i * to_step).cast::<T>();
            let x = from.offset(i * from_step).cast::<T>().read_unaligned();
            p.write_unaligned(f(p.read_unaligned(), x));
        }
    }
}

fn pick<T: Number>(op: ScatterOp) -> Combine {
    match op {
        // SAFETY: as promised by the caller of the combination; so below.
        ScatterOp::Replace => |a, s, b, t, n| unsafe { each::<T>(a, s, b, t, n, |_, y| y) },
        // SAFETY: as above.
        ScatterOp::Add => |a, s, b, t, n| unsafe { each::<T>(a, s, b, t, n, T::add) },
        // SAFETY: as above.
        ScatterOp::Multiply => |a, s, b, t, n| unsafe { each::<T>(a, s, b, t, n, T::mul) },
        // SAFETY: as above.
        ScatterOp::Max => |a, s, b, t, n| unsafe { each::<T>(a, s, b, t, n, T::max) },
        // SAFETY: as above.
        ScatterOp::Min => |a, s, b, t, n| unsafe { each::<T>(a, s, b, t, n, T::min) },
    }
}

/// A complex number.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<T>(T, T);

macro_rules! pairs {
    ($($t:ty)+) => {$(
        impl Number for Pair<$t> {
            fn add(self, other: Self) -> Self {
                Pair(self.0 + other.0, self.1 + other.1)
            }
            fn mul(self, other: Self) -> Self {
                Pair(
                    self.0 * other.0 - self.1 * other.1,
                    self.0 * other.1 + self.1 * other.0,
                )
            }
            // not offered: complex numbers have no order
            fn max(self, _: Self) -> Self {
                self
            }
            fn min(self, _: Self) -> Self {
                self
            }
        }
    )+};
}
pairs!(f32 f64);

/// The combination for elements of a dtype.
pub(super) fn combine(op: ScatterOp, dtype: DType) -> Result<Combine, KernelError> {
    Ok(match dtype {
        DType::U8 => pick::<u8>(op),
        DType::I8 => pick::<i8>(op),
        DType::I16 => pick::<i16>(op),
        DType::I32 => pick::<i32>(op),
        DType::I64 => pick::<i64>(op),
        DType::F32 => pick::<f32>(op),
        DType::F64 => pick::<f64>(op),
        DType::F16 => pick::<f16>(op),
        DType::BF16 => pick::<bf16>(op),
        DType::Bool => pick::<Truth>(op),
        DType::C64 if !matches!(op, ScatterOp::Max | ScatterOp::Min) => pick::<Pair<f32>>(op),
        DType::C128 if !matches!(op, ScatterOp::Max | ScatterOp::Min) => pick::<Pair<f64>>(op),
        other if op == ScatterOp::Replace => match other.size() {
            1 => pick::<u8>(op),
            2 => pick::<i16>(op),
            4 => pick::<i32>(op),
            8 => pick::<i64>(op),
            _ => pick::<u128>(op),
        },
        other => return Err(KernelError::unsupported(op, other)),
    })
}
