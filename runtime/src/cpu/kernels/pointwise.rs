//! Pointwise kernels: unary, binary, comparison, selection.

use super::integer::{self, Row1, Row2};
use super::tile::{Form, pointwise};
use super::{KernelError, Strided, complex, float};
use crate::cpu::kernels::operand::{In, Out, has_dtype, same_dtype, same_sizes};
use crate::cpu::math;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

pub(super) fn unary_row(op: UnaryOp, dtype: DType) -> Result<Row1, KernelError> {
    if dtype.is_floating() { float::unary_row(op, dtype) } else { integer::unary_row(op, dtype) }
        .ok_or_else(|| KernelError::unsupported(op, dtype))
}

pub(super) fn binary_row(op: BinaryOp, dtype: DType) -> Result<Row2, KernelError> {
    if dtype.is_floating() { float::binary_row(op, dtype) } else { integer::binary_row(op, dtype) }
        .ok_or_else(|| KernelError::unsupported(op, dtype))
}

/// `out = op(a)`; one dtype, or `out` is the real one of a complex `Abs`, or `bool` for `IsNan`,
/// `IsInf`, `LogicalNot`.
pub fn unary(op: UnaryOp, out: Out<'_>, a: In<'_>) -> Result<(), KernelError> {
    let (out, a) = (out.raw(), a.raw());
    same_sizes("unary", &[&out, &a])?;
    if a.dtype.is_complex() {
        // SAFETY: as promised by the caller.
        return unsafe { complex::unary(op, out, a) };
    }
    let tests = matches!(op, UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot);
    let row = if tests {
        has_dtype("unary", &out, DType::Bool)?;
        integer::test_row(op, a.dtype).ok_or_else(|| KernelError::unsupported(op, a.dtype))?
    } else {
        same_dtype("unary", &[&out, &a])?;
        unary_row(op, a.dtype)?
    };
    let forms = [Form::arithmetic(out.dtype), Form::arithmetic(a.dtype)];
    // SAFETY: as promised by the caller; the row kernel is that of the forms' types.
    unsafe {
        pointwise(&[out, a], forms, false, op.cost() as usize, &|p, n, _| row(p[0], p[1], n));
    }
    Ok(())
}

/// `out = op(a, b)`; one dtype.
///
/// Integer division by zero is [`KernelError::DivisionByZero`]; `out` is then written in part.
pub fn binary(op: BinaryOp, out: Out<'_>, a: In<'_>, b: In<'_>) -> Result<(), KernelError> {
    let (out, a, b) = (out.raw(), a.raw(), b.raw());
    same_sizes("binary", &[&out, &a, &b])?;
    same_dtype("binary", &[&out, &a, &b])?;
    if a.dtype.is_complex() {
        // SAFETY: as promised by the caller.
        return unsafe { complex::binary(op, out, a, b) };
    }
    let row = binary_row(op, a.dtype)?;
    let form = Form::arithmetic(a.dtype);
    let keep = !(a.dtype.is_floating() && float::is_long(op));
    let fault = AtomicBool::new(false);
    // SAFETY: as promised by the caller; the row kernel is that of the forms' types.
    unsafe {
        pointwise(&[out, a, b], [form; 3], keep, op.cost() as usize, &|p, n, mask| {
            if !row(p[0], p[1], p[2], n, mask) {
                fault.store(true, Relaxed);
            }
        });
    }
    if fault.into_inner() {
        return Err(KernelError::DivisionByZero);
    }
    Ok(())
}

/// [`binary`] where all three operands are `n` elements side by side: no shapes to look at.
///
/// # Safety
///
/// As for [`binary`]; each pointer has `n` elements of `dtype`.
#[inline]
pub unsafe fn binary_flat(
    op: BinaryOp,
    dtype: DType,
    [out, a, b]: [*mut u8; 3],
    n: usize,
) -> Result<(), KernelError> {
    if n <= FLAT_LIMIT && !dtype.is_half() && !dtype.is_complex() {
        let row = binary_row(op, dtype)?;
        // SAFETY: as promised by the caller; the row kernel is that of the dtype.
        return match n == 0 || unsafe { row(out, a, b, n, 0) } {
            true => Ok(()),
            false => Err(KernelError::DivisionByZero),
        };
    }
    let (sizes, strides) = ([n as i64], [1]);
    let strided = |ptr| Strided { ptr, dtype, sizes: &sizes, strides: &strides };
    // SAFETY: as promised by the caller.
    let (out, a, b) =
        unsafe { (Out::new(strided(out)), In::upon(strided(a)), In::upon(strided(b))) };
    binary(op, out, a, b)
}

/// Elements up to which no binary operation is worth a thread.
const FLAT_LIMIT: usize = super::nest::GRAIN / 32;

/// `out = a op b`; `a` and `b` of one dtype, `out` `bool`.
pub fn compare(op: CompareOp, out: Out<'_>, a: In<'_>, b: In<'_>) -> Result<(), KernelError> {
    let (out, a, b) = (out.raw(), a.raw(), b.raw());
    same_sizes("compare", &[&out, &a, &b])?;
    same_dtype("compare", &[&a, &b])?;
    has_dtype("compare", &out, DType::Bool)?;
    if a.dtype.is_complex() {
        // SAFETY: as promised by the caller.
        return unsafe { complex::compare(op, out, a, b) };
    }
    let row = integer::compare_row(op, a.dtype);
    let form = Form::arithmetic(a.dtype);
    // SAFETY: as promised by the caller; the row kernel is that of the forms' types.
    unsafe {
        pointwise(&[out, a, b], [Form::Raw(1), form, form], true, 1, &|p, n, mask| {
            row(p[0], p[1], p[2], n, mask);
        });
    }
    Ok(())
}

/// Elements that are read before any of them is written, so that in-place calls vectorise too.
const CHUNK: usize = 32;

#[inline(always)]
unsafe fn select_body<T: Copy>(p: [*mut u8; 4], n: usize) {
    let whole = n - n % CHUNK;
    let (out, a, b) = (p[0].cast::<T>(), p[2].cast::<T>(), p[3].cast::<T>());
    // SAFETY: elements below n of each row.
    unsafe {
        for i in (0..whole).step_by(CHUNK) {
            let c = p[1].add(i).cast::<[u8; CHUNK]>().read_unaligned();
            let x = a.add(i).cast::<[T; CHUNK]>().read_unaligned();
            let y = b.add(i).cast::<[T; CHUNK]>().read_unaligned();
            let r: [T; CHUNK] = std::array::from_fn(|k| if c[k] != 0 { x[k] } else { y[k] });
            out.add(i).cast::<[T; CHUNK]>().write_unaligned(r);
        }
        for i in whole..n {
            let from = if p[1].add(i).read() != 0 { a } else { b };
            out.add(i).write_unaligned(from.add(i).read_unaligned());
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn select_avx2<T: Copy>(p: [*mut u8; 4], n: usize) {
    // SAFETY: as promised by the caller.
    unsafe { select_body::<T>(p, n) }
}

pub(super) unsafe fn select_row<T: Copy>(p: [*mut u8; 4], n: usize) {
    // SAFETY: as promised by the caller; the feature-gated version runs only where the CPU has the
    // features.
    unsafe {
        match math::isa() {
            #[cfg(target_arch = "x86_64")]
            math::Isa::Avx512 | math::Isa::Avx2 => select_avx2::<T>(p, n),
            _ => select_body::<T>(p, n),
        }
    }
}

/// `out = cond ? a : b`; `cond` is `bool`, the others are of one dtype.
pub fn select(out: Out<'_>, cond: In<'_>, a: In<'_>, b: In<'_>) -> Result<(), KernelError> {
    let (out, cond, a, b) = (out.raw(), cond.raw(), a.raw(), b.raw());
    same_sizes("select", &[&out, &cond, &a, &b])?;
    same_dtype("select", &[&out, &a, &b])?;
    has_dtype("select", &cond, DType::Bool)?;
    let form = Form::Raw(out.dtype.size());
    // SAFETY: as promised by the caller; the row's type has the dtype's size.
    unsafe {
        pointwise(&[out, cond, a, b], [form, Form::Raw(1), form, form], false, 1, &|p, n, _| {
            match form {
                Form::Raw(1) => select_row::<u8>(p, n),
                Form::Raw(2) => select_row::<u16>(p, n),
                Form::Raw(4) => select_row::<u32>(p, n),
                Form::Raw(16) => select_row::<u128>(p, n),
                _ => select_row::<u64>(p, n),
            }
        });
    }
    Ok(())
}
