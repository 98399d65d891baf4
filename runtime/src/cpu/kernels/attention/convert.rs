//! Rows of a tensor in the type that scores are computed in.

use crate::cpu::kernels::half;
use crate::cpu::kernels::real::Real;
use straightline_passes::ir::DType;

/// Whether rows of the dtype are half-precision numbers.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Reads `n` elements, which are as far apart as said, times a factor.
///
/// # Safety
///
/// They are valid to read, of `dtype`, whose type is `T`; `to` has room for as many. `W` is `f32` if
/// `T` is a half type, else the same.
pub(super) unsafe fn load<T: Real, W: Real>(
    dtype: DType,
    (from, step): (*const T, isize),
    to: *mut W,
    n: usize,
    factor: f64,
) {
    // SAFETY: the caller's contract.
    unsafe {
        match step == 1 {
            true if is_half(dtype) => {
                half::widen(dtype, to.cast(), from.cast(), n);
                if factor != 1.0 {
                    multiply::<W, W>(to, to, n, factor);
                }
            }
            true => multiply::<T, W>(from, to, n, factor),
            false => {
                for j in 0..n {
                    let x = *from.wrapping_offset(j as isize * step);
                    *to.add(j) = W::narrow(x.wide() * factor);
                }
            }
        }
    }
}

/// Writes `n` elements, times a factor; the numbers may change where they are.
///
/// # Safety
///
/// As [`load`], with the sides exchanged.
pub(super) unsafe fn store<T: Real, W: Real>(
    dtype: DType,
    from: *mut W,
    (to, step): (*mut T, isize),
    n: usize,
    factor: f64,
) {
    // SAFETY: the caller's contract.
    unsafe {
        match step == 1 {
            true if is_half(dtype) => {
                multiply::<W, W>(from, from, n, factor);
                half::narrow(dtype, to.cast(), from.cast(), n);
            }
            true => multiply::<W, T>(from, to, n, factor),
            false => {
                for j in 0..n {
                    let x = (*from.add(j)).wide() * factor;
                    *to.wrapping_offset(j as isize * step) = T::narrow(x);
                }
            }
        }
    }
}

/// Multiplies `n` numbers.
///
/// # Safety
///
/// They are valid to read and to write; both sides may be the same.
unsafe fn multiply<A: Real, B: Real>(from: *const A, to: *mut B, n: usize, factor: f64) {
    for i in 0..n {
        // SAFETY: the caller's contract.
        unsafe { *to.add(i) = B::narrow((*from.add(i)).wide() * factor) };
    }
}
