//! Complex numbers: their parts, conversion, pointwise kernels, reductions.
//!
//! An element is its real part and its imaginary part, side by side, so that either part of a
//! tensor is a real tensor with twice the strides: copies between dtypes go part by part through
//! the kernels for real numbers. Sums, products and quotients compute in the dtype itself,
//! functions of single precision in double precision.

mod functions;
pub(super) mod map;
pub(super) mod number;
mod reduce;
mod scan;

use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{In, Out, apart, has_dtype, same_dtype, same_sizes};
use map::{map, map2, with_complex};
use num_complex::Complex;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

pub(super) use functions::sqrt;
pub(super) use number::Number;
pub use number::Part;
pub(super) use reduce::reduce;
pub(super) use scan::cumulative;
pub use scan::running_log_add_exp;

/// [`super::unary`] of complex numbers. The result of `Abs` is real, that of `IsNan`, `IsInf` and
/// `LogicalNot` is `bool`.
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
