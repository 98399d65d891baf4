//! Complex numbers: their parts, conversion, pointwise kernels, reductions.
//!
//! An element is its real part and its imaginary part, side by side, so that either part of a tensor is a real tensor
//! with twice the strides: copies between dtypes go part by part through the kernels for real numbers. Sums, products
//! and quotients compute in the dtype itself, functions of single precision in double precision.

mod functions;
mod reduce;
mod scan;

use super::copy::{copy_raw, fill_raw};
use super::tile::{Form, pointwise};
use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{In, Out, apart, has_dtype, same_dtype, same_sizes};
use num_complex::Complex;
use straightline_passes::ir::{DType, Dims, Scalar};
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

pub(super) use functions::sqrt;
pub(super) use reduce::reduce;
pub(super) use scan::cumulative;
pub use scan::running_log_add_exp;

/// A part of a complex number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names say it
pub enum Part {
    Real,
    Imaginary,
}

/// The strides of either part, in elements of the real dtype.
pub(super) fn part_strides(a: &Strided<'_>) -> Dims {
    a.strides.iter().map(|s| s * 2).collect()
}

/// A part of each element of a complex tensor, as a real one.
pub(super) fn part<'a>(a: &Strided<'a>, part: Part, strides: &'a [i64]) -> Strided<'a> {
    let dtype = a.dtype.to_real();
    let skip = match part {
        Part::Real => 0,
        Part::Imaginary => dtype.size(),
    };
    Strided {
        ptr: a.ptr.wrapping_add(skip),
        dtype,
        sizes: a.sizes,
        strides,
    }
}

/// A complex number whose parts are computed with.
pub(super) trait Number: Copy + Sync {
    /// The same in double precision.
    fn wide(self) -> Complex<f64>;
    /// Rounded from double precision.
    fn narrow(wide: Complex<f64>) -> Self;
    /// The real part, of the dtype of the parts.
    type Part: Copy;
    /// A part rounded from double precision.
    fn part(wide: f64) -> Self::Part;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for Complex<$t> {
            type Part = $t;
            #[inline(always)]
            fn wide(self) -> Complex<f64> {
                Complex::new(self.re.into(), self.im.into())
            }
            #[inline(always)]
            fn narrow(wide: Complex<f64>) -> Self {
                Complex::new(wide.re as $t, wide.im as $t)
            }
            #[inline(always)]
            fn part(wide: f64) -> $t {
                wide as $t
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            /// By the larger part of the divisor, so that no square overflows.
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                let (a, b, c, d) = (self.re, self.im, other.re, other.im);
                if c.abs() >= d.abs() {
                    if c == 0.0 && d == 0.0 {
                        return Complex::new(a / c.abs(), b / d.abs());
                    }
                    let ratio = d / c;
                    let scale = 1.0 / (c + d * ratio);
                    Complex::new((a + b * ratio) * scale, (b - a * ratio) * scale)
                } else {
                    let ratio = c / d;
                    let scale = 1.0 / (c * ratio + d);
                    Complex::new((a * ratio + b) * scale, (b * ratio - a) * scale)
                }
            }
        }
    )*};
}
number!(f32, f64);

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
use with_complex;

/// Elements that a row reads at one address, unaligned.
#[inline(always)]
unsafe fn get<T: Copy>(p: *const u8, i: usize) -> T {
    // SAFETY: as promised by the caller.
    unsafe { p.cast::<T>().add(i).read_unaligned() }
}

#[inline(always)]
unsafe fn put<T: Copy>(p: *mut u8, i: usize, x: T) {
    // SAFETY: as promised by the caller.
    unsafe { p.cast::<T>().add(i).write_unaligned(x) }
}

/// `out[i] = f(a[i])` for elements of the types of the operands' dtypes.
///
/// # Safety
///
/// As for [`super::unary`]; `A` and `R` are as large as the elements.
unsafe fn map<A: Copy, R: Copy>(
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
unsafe fn map2<A: Copy, R: Copy>(
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

/// [`super::copy`] where one of the dtypes is complex and the other is not the same.
///
/// # Safety
///
/// As for [`super::copy`].
pub(super) unsafe fn convert(out: Strided<'_>, a: Strided<'_>) -> Result<(), KernelError> {
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

/// [`super::unary`] of complex numbers. The result of `Abs` is real, that of `IsNan`, `IsInf` and `LogicalNot` is
/// `bool`.
///
/// # Safety
///
/// As for [`super::unary`].
pub(super) unsafe fn unary(
    op: UnaryOp,
    out: Strided<'_>,
    a: Strided<'_>,
) -> Result<(), KernelError> {
    let result = match op {
        UnaryOp::Abs => a.dtype.to_real(),
        UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot => DType::Bool,
        _ => a.dtype,
    };
    if out.dtype != result {
        return Err(KernelError::unsupported(op, a.dtype));
    }
    // SAFETY: as promised by the caller.
    unsafe {
        with_complex!(op, a.dtype, C => match op {
            UnaryOp::Neg => map(out, a, 1, |x: C| -x),
            UnaryOp::Abs => {
                map(out, a, 4, |x: C| <C as Number>::part(x.wide().re.hypot(x.wide().im)));
            }
            UnaryOp::Reciprocal => map(out, a, 4, |x: C| Number::div(C::new(1.0, 0.0), x)),
            UnaryOp::IsNan => map(out, a, 1, |x: C| u8::from(x.re.is_nan() || x.im.is_nan())),
            UnaryOp::IsInf => {
                map(out, a, 1, |x: C| u8::from(x.re.is_infinite() || x.im.is_infinite()));
            }
            UnaryOp::LogicalNot => map(out, a, 1, |x: C| u8::from(x.re == 0.0 && x.im == 0.0)),
            _ => {
                let f = functions::function(op)
                    .ok_or_else(|| KernelError::unsupported(op, a.dtype))?;
                map(out, a, 32, |x: C| <C as Number>::narrow(f(x.wide())));
            }
        });
    }
    Ok(())
}

/// Functions of complex numbers that the loop IR does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // PyTorch's operator names
pub enum Function {
    Conj,
    /// `x / |x|`, 0 at 0.
    Sgn,
    /// Real result.
    Angle,
}

/// `out = op(a)`, `a` complex, for `Angle` also `f32` or `f64`.
pub fn apply(op: Function, out: Out<'_>, a: In<'_>) -> Result<(), KernelError> {
    let (out, a) = (out.raw(), a.raw());
    same_sizes("complex", &[&out, &a])?;
    let result = match op {
        Function::Angle => a.dtype.to_real(),
        _ => a.dtype,
    };
    if out.dtype != result {
        return Err(KernelError::unsupported(op, a.dtype));
    }
    // SAFETY: as promised by the caller.
    unsafe {
        match (op, a.dtype) {
            (Function::Angle, DType::F32) => {
                map(out, a, 1, |x: f32| angle(x.into()) as f32);
                return Ok(());
            }
            (Function::Angle, DType::F64) => {
                map(out, a, 1, angle);
                return Ok(());
            }
            _ => {}
        }
        with_complex!(op, a.dtype, C => match op {
            Function::Conj => map(out, a, 1, |x: C| x.conj()),
            Function::Sgn => map(out, a, 4, |x: C| {
                let x = x.wide();
                let size = x.re.hypot(x.im);
                <C as Number>::narrow(if size == 0.0 { Complex::new(0.0, 0.0) } else { x / size })
            }),
            Function::Angle => map(out, a, 16, |x: C| {
                <C as Number>::part(x.wide().im.atan2(x.wide().re))
            }),
        });
    }
    Ok(())
}

/// The angle of a real number: 0, or half a turn where it is negative.
fn angle(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x < 0.0 {
        std::f64::consts::PI
    } else {
        0.0
    }
}

/// `out = abs * (cos(angle) + i sin(angle))`; the operands real, `out` complex.
#[allow(clippy::useless_conversion, reason = "the parts of c64 are f32")]
pub fn polar(out: Out<'_>, abs: In<'_>, angle: In<'_>) -> Result<(), KernelError> {
    apart("polar", &[abs, angle])?;
    let (out, abs, angle) = (out.raw(), abs.raw(), angle.raw());
    same_sizes("polar", &[&out, &abs, &angle])?;
    same_dtype("polar", &[&abs, &angle])?;
    has_dtype("polar", &abs, out.dtype.to_real())?;
    // SAFETY: as promised by the caller.
    unsafe {
        with_complex!("polar", out.dtype, C => map2([out, abs, angle], 16, |r, t: <C as Number>::Part| {
            let (r, t): (f64, f64) = (f64::from(r), f64::from(t));
            <C as Number>::narrow(Complex::new(r * t.cos(), r * t.sin()))
        }));
    }
    Ok(())
}

/// [`super::binary`] of complex numbers: the four operations and `Pow`.
///
/// # Safety
///
/// As for [`super::binary`].
pub(super) unsafe fn binary(
    op: BinaryOp,
    out: Strided<'_>,
    a: Strided<'_>,
    b: Strided<'_>,
) -> Result<(), KernelError> {
    let all = [out, a, b];
    // SAFETY: as promised by the caller.
    unsafe {
        with_complex!(op, a.dtype, C => match op {
            BinaryOp::Add => map2(all, 1, <C as Number>::add),
            BinaryOp::Sub => map2(all, 1, <C as Number>::sub),
            BinaryOp::Mul => map2(all, 1, <C as Number>::mul),
            BinaryOp::Div => map2(all, 4, <C as Number>::div),
            BinaryOp::Pow => map2(all, 64, |x: C, y: C| {
                <C as Number>::narrow(functions::pow(x.wide(), y.wide()))
            }),
            _ => return Err(KernelError::unsupported(op, a.dtype)),
        });
    }
    Ok(())
}

/// `out = ln(exp(a) + exp(b))`, all complex and of one dtype.
pub fn log_add_exp(out: Out<'_>, a: In<'_>, b: In<'_>) -> Result<(), KernelError> {
    let (out, a, b) = (out.raw(), a.raw(), b.raw());
    same_sizes("logaddexp", &[&out, &a, &b])?;
    same_dtype("logaddexp", &[&out, &a, &b])?;
    // SAFETY: as promised by the caller.
    unsafe {
        with_complex!("logaddexp", a.dtype, C => map2([out, a, b], 64, |x: C, y: C| {
            <C as Number>::narrow(functions::log_add_exp(x.wide(), y.wide()))
        }));
    }
    Ok(())
}

/// [`super::compare`] of complex numbers, which are equal or not, and in no order.
///
/// # Safety
///
/// As for [`super::compare`].
pub(super) unsafe fn compare(
    op: CompareOp,
    out: Strided<'_>,
    a: Strided<'_>,
    b: Strided<'_>,
) -> Result<(), KernelError> {
    // SAFETY: as promised by the caller.
    unsafe {
        with_complex!(op, a.dtype, C => match op {
            CompareOp::Eq => map2([out, a, b], 1, |x: C, y: C| u8::from(x == y)),
            CompareOp::Ne => map2([out, a, b], 1, |x: C, y: C| u8::from(x != y)),
            _ => return Err(KernelError::unsupported(op, a.dtype)),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
