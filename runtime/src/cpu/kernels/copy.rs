//! Copies with conversion, transposition, and fills.

use super::complex::map::{map, with_complex};
use super::complex::number::{Part, part, part_strides};
use super::integer::{Bool8, Map1, Row1, row1};
use super::moves::{SQUARE, copy_same};
use super::nest::{GRAIN, Nest};
use super::tile::{Form, TILE, pointwise};
use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{In, Out, same_sizes, scalar_bits};
use num_complex::Complex;
use smallvec::SmallVec;
use straightline_passes::ir::{DType, Scalar};

/// Conversion between the types that hold dtypes in arithmetic, by PyTorch's rules.
trait Convert<R>: Copy {
    fn convert(self) -> R;
}

macro_rules! convert_numbers {
    ($($a:ty => $($r:ty)+;)+) => {$($(
        impl Convert<$r> for $a {
            #[inline(always)]
            fn convert(self) -> $r {
                self as $r
            }
        }
    )+)+};
}
convert_numbers! {
    u8 => u8 i8 i16 i32 i64 f32 f64;
    i8 => u8 i8 i16 i32 i64 f32 f64;
    i16 => u8 i8 i16 i32 i64 f32 f64;
    i32 => u8 i8 i16 i32 i64 f32 f64;
    i64 => u8 i8 i16 i32 i64 f32 f64;
    f32 => i64 f32 f64;
    f64 => i64 f32 f64;
}

// floats truncate to i64, which then wraps, as `Scalar::cast` does
macro_rules! convert_through_i64 {
    ($($a:ty => $($r:ty)+;)+) => {$($(
        impl Convert<$r> for $a {
            #[inline(always)]
            fn convert(self) -> $r {
                self as i64 as $r
            }
        }
    )+)+};
}
convert_through_i64! {
    f32 => u8 i8 i16 i32;
    f64 => u8 i8 i16 i32;
}

macro_rules! convert_bool {
    ($($t:ty: $zero:expr, $one:expr;)+) => {$(
        impl Convert<Bool8> for $t {
            #[inline(always)]
            fn convert(self) -> Bool8 {
                Bool8::new(self != $zero)
            }
        }
        impl Convert<$t> for Bool8 {
            #[inline(always)]
            fn convert(self) -> $t {
                if self.get() { $one } else { $zero }
            }
        }
    )+};
}
convert_bool! {
    u8: 0, 1; i8: 0, 1; i16: 0, 1; i32: 0, 1; i64: 0, 1; f32: 0.0, 1.0; f64: 0.0, 1.0;
}

impl Convert<Bool8> for Bool8 {
    #[inline(always)]
    fn convert(self) -> Bool8 {
        Bool8::new(self.get())
    }
}

struct Conversion;

impl<A: Convert<R>, R> Map1<A, R> for Conversion {
    #[inline(always)]
    fn run(a: A) -> R {
        a.convert()
    }
}

fn conversion_to<A>(to: DType) -> Row1
where
    A: Convert<u8>
        + Convert<i8>
        + Convert<i16>
        + Convert<i32>
        + Convert<i64>
        + Convert<f32>
        + Convert<f64>
        + Convert<Bool8>,
{
    match to {
        DType::U8 | DType::QUInt8 => row1::<A, u8, Conversion>(),
        DType::I8 | DType::QInt8 => row1::<A, i8, Conversion>(),
        DType::I16 => row1::<A, i16, Conversion>(),
        DType::I32 | DType::QInt32 => row1::<A, i32, Conversion>(),
        DType::I64 => row1::<A, i64, Conversion>(),
        DType::F16 | DType::BF16 | DType::F32 => row1::<A, f32, Conversion>(),
        DType::F64 => row1::<A, f64, Conversion>(),
        DType::Bool => row1::<A, Bool8, Conversion>(),
        DType::C64 | DType::C128 => unreachable!("complex numbers are converted part by part"),
    }
}

/// The row that converts between the arithmetic types of two dtypes.
pub(super) fn conversion(from: DType, to: DType) -> Row1 {
    match from {
        DType::U8 | DType::QUInt8 => conversion_to::<u8>(to),
        DType::I8 | DType::QInt8 => conversion_to::<i8>(to),
        DType::I16 => conversion_to::<i16>(to),
        DType::I32 | DType::QInt32 => conversion_to::<i32>(to),
        DType::I64 => conversion_to::<i64>(to),
        DType::F16 | DType::BF16 | DType::F32 => conversion_to::<f32>(to),
        DType::F64 => conversion_to::<f64>(to),
        DType::Bool => conversion_to::<Bool8>(to),
        DType::C64 | DType::C128 => unreachable!("complex numbers are converted part by part"),
    }
}

/// `out = a`, converted to the dtype of `out` as PyTorch does: floats truncate to integers (through
/// `i64`, which wraps to narrower ones), anything becomes `bool` as `!= 0`, halves are rounded from
/// `f32`, and the imaginary part of a complex number is dropped.
pub fn copy(out: Out<'_>, a: In<'_>) -> Result<(), KernelError> {
    let itself = a.is_upon() && a.dtype() == out.dtype();
    let (out, a) = (out.raw(), a.raw());
    same_sizes("copy", &[&out, &a])?;
    if itself {
        return Ok(());
    }
    // SAFETY: operands of the same sizes; elements in one place are read before they are written.
    unsafe { copy_raw(out, a) }
}

/// [`copy`] within a kernel.
///
/// # Safety
///
/// The sizes are equal; the memory of both is what they say and may be accessed; the elements of
/// `out` are distinct and do not overlap `a`.
pub(crate) unsafe fn copy_raw(out: Strided<'_>, a: Strided<'_>) -> Result<(), KernelError> {
    if out.dtype == a.dtype {
        // SAFETY: as promised by the caller.
        unsafe { copy_same(out, a) };
        return Ok(());
    }
    if out.dtype.is_complex() || a.dtype.is_complex() {
        // SAFETY: as promised by the caller.
        return unsafe { copy_complex(out, a) };
    }
    let row = conversion(a.dtype, out.dtype);
    let forms = [Form::arithmetic(out.dtype), Form::arithmetic(a.dtype)];
    // SAFETY: as promised by the caller; the row kernel is that of the forms' types.
    unsafe { pointwise(&[out, a], forms, false, 1, &|p, n, _| row(p[0], p[1], n)) };
    Ok(())
}

/// [`copy`] where one of the dtypes is complex and the other is not the same.
///
/// # Safety
///
/// As for [`copy`].
unsafe fn copy_complex(out: Strided<'_>, a: Strided<'_>) -> Result<(), KernelError> {
    let (to, from) = (part_strides(&out), part_strides(&a));
    // SAFETY: as promised by the caller; a part of each element is a real tensor.
    unsafe {
        match (out.dtype.is_complex(), a.dtype.is_complex()) {
            (true, true) => {
                for p in [Part::Real, Part::Imaginary] {
                    copy_raw(part(&out, p, &to), part(&a, p, &from))?;
                }
            }
            (true, false) => {
                copy_raw(part(&out, Part::Real, &to), a)?;
                fill_raw(part(&out, Part::Imaginary, &to), Scalar::Float(0.0));
            }
            (false, _) if out.dtype == DType::Bool => {
                with_complex!("copy", a.dtype, C => map(out, a, 1, |x: C| {
                    u8::from(x.re != 0.0 || x.im != 0.0)
                }))
            }
            (false, _) => copy_raw(out, part(&a, Part::Real, &from))?,
        }
    }
    Ok(())
}

/// Strides of the layout in which `dim` is innermost, for a tensor that is worth copying there
/// before its rows along `dim` are read one by one: a large one that is contiguous along another
/// dimension.
pub(super) fn worth_turning(a: &Strided<'_>, dim: usize) -> Option<SmallVec<[i64; 6]>> {
    let elsewhere = |d: usize| d != dim && a.sizes[d] >= 8 && a.strides[d] == 1;
    let worth = a.numel() >= 1 << 13
        && dim < a.sizes.len()
        && a.sizes[dim] > 1
        && a.strides[dim] > 8
        && (0..a.sizes.len()).any(elsewhere);
    worth.then(|| {
        let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, a.sizes.len());
        let mut next = a.sizes[dim];
        for d in (0..a.sizes.len()).rev().filter(|&d| d != dim) {
            strides[d] = next;
            next *= a.sizes[d];
        }
        strides
    })
}

#[inline(always)]
unsafe fn fill_row<T: Copy>(out: *mut u8, value: T, step: isize, n: usize) {
    let size = std::mem::size_of::<T>() as isize;
    // SAFETY: as promised by the caller.
    unsafe {
        if step == size {
            for i in 0..n {
                out.cast::<T>().add(i).write_unaligned(value);
            }
        } else {
            for i in 0..n as isize {
                out.offset(i * step).cast::<T>().write_unaligned(value);
            }
        }
    }
}

/// Every element of `out` this number, converted to its dtype.
pub fn fill(out: Out<'_>, value: Scalar) {
    // SAFETY: as an output promises.
    unsafe { fill_raw(out.raw(), value) }
}

/// [`fill`] within a kernel.
///
/// # Safety
///
/// The memory of `out` is what it says and may be written.
pub(crate) unsafe fn fill_raw(out: Strided<'_>, value: Scalar) {
    let numel = out.numel();
    if numel == 0 {
        return;
    }
    if out.dtype == DType::C128 {
        let (re, im) = value.as_complex();
        for (which, number) in [(Part::Real, re), (Part::Imaginary, im)] {
            let strides = part_strides(&out);
            // SAFETY: a part of each element.
            unsafe { fill_raw(part(&out, which, &strides), Scalar::Float(number)) };
        }
        return;
    }
    let bits = scalar_bits(value, out.dtype);
    let size = out.dtype.size();
    let row = |p: *mut u8, step: isize, n: usize| {
        // SAFETY: a row of `out`.
        unsafe {
            match size {
                1 => fill_row(p, bits as u8, step, n),
                2 => fill_row(p, bits as u16, step, n),
                4 => fill_row(p, bits as u32, step, n),
                _ => fill_row(p, bits, step, n),
            }
        }
    };
    if numel <= GRAIN && out.is_contiguous() {
        row(out.ptr, size as isize, numel);
        return;
    }
    let nest = Nest::new(&[out]);
    let step = nest.inner().strides[0];
    // SAFETY: as promised by the caller.
    unsafe { nest.run(GRAIN, &|p, n| row(p[0], step, n)) };
}

const _: () = assert!(TILE.is_multiple_of(SQUARE));
