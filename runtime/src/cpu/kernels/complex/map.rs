//! Functions of complex elements over strided operands.

use crate::cpu::kernels::Strided;
use crate::cpu::kernels::tile::{Form, pointwise};

/// Calls a macro with the complex type of a dtype, `C`.
macro_rules! with_complex {
    ($op:expr, $dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::C64 => {
                type $t = Complex<f32>;
                $body
            }
            DType::C128 => {
                type $t = Complex<f64>;
                $body
            }
            other => return Err(KernelError::unsupported($op, other)),
        }
    };
}
pub(in crate::cpu::kernels) use with_complex;

/// Elements that a row reads at one address, unaligned.
#[inline(always)]
pub(in crate::cpu::kernels) unsafe fn get<T: Copy>(p: *const u8, i: usize) -> T {
    // SAFETY: as promised by the caller.
    unsafe { p.cast::<T>().add(i).read_unaligned() }
}

#[inline(always)]
pub(in crate::cpu::kernels) unsafe fn put<T: Copy>(p: *mut u8, i: usize, x: T) {
    // SAFETY: as promised by the caller.
    unsafe { p.cast::<T>().add(i).write_unaligned(x) }
}

/// `out[i] = f(a[i])` for elements of the types of the operands' dtypes.
///
/// # Safety
///
/// As for [`crate::cpu::kernels::unary`]; `A` and `R` are as large as the elements.
pub(in crate::cpu::kernels) unsafe fn map<A: Copy, R: Copy>(
    out: Strided<'_>,
    a: Strided<'_>,
    cost: usize,
    f: impl Fn(A) -> R + Sync,
) {
    let forms = [Form::Raw(size_of::<R>()), Form::Raw(size_of::<A>())];
    // SAFETY: as promised by the caller; the rows are of these types.
    unsafe {
        pointwise(&[out, a], forms, false, cost, &|p, n, _| {
            for i in 0..n {
                put(p[0], i, f(get(p[1], i)));
            }
        });
    }
}

/// `out[i] = f(a[i], b[i])`.
///
/// # Safety
///
/// As for [`map`].
pub(in crate::cpu::kernels) unsafe fn map2<A: Copy, R: Copy>(
    [out, a, b]: [Strided<'_>; 3],
    cost: usize,
    f: impl Fn(A, A) -> R + Sync,
) {
    let size = Form::Raw(size_of::<A>());
    let forms = [Form::Raw(size_of::<R>()), size, size];
    // SAFETY: as promised by the caller; the rows are of these types.
    unsafe {
        pointwise(&[out, a, b], forms, false, cost, &|p, n, _| {
            for i in 0..n {
                put(p[0], i, f(get(p[1], i), get(p[2], i)));
            }
        });
    }
}
