//! Running sums and products of complex numbers.

use super::super::nest::{parallel, rows_along};
use super::super::{KernelError, Strided};
use super::functions::log_add_exp;
use super::map::{get, put, with_complex};
use super::number::Number;
use crate::cpu::kernels::operand::{In, Out, has_dim, same_dtype, same_sizes};
use num_complex::Complex;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::ReduceOp;

/// [`super::super::cumulative`] of complex numbers, accumulated in double precision.
///
/// # Safety
///
/// As for [`super::super::cumulative`].
pub(in super::super) unsafe fn cumulative(
    op: ReduceOp,
    out: Strided<'_>,
    a: Strided<'_>,
    dim: usize,
) -> Result<(), KernelError> {
    let first_state = match op {
        ReduceOp::Sum => Complex::new(0.0, 0.0),
        ReduceOp::Prod => Complex::new(1.0, 0.0),
        _ => return Err(KernelError::unsupported(op, a.dtype)),
    };
    if out.dtype != a.dtype {
        return Err(KernelError::unsupported(op, a.dtype));
    }
    let rows = rows_along(&[out, a], dim);
    with_complex!(op, a.dtype, C => {
        parallel(rows.others.numel, rows.n * 8, &|first, last| {
            for row in first..last {
                let [to, from] = rows.others.element(row);
                let mut state: Complex<f64> = first_state;
                for i in 0..rows.n as isize {
                    // SAFETY: elements of both rows.
                    let x: C = unsafe { get(from.wrapping_offset(i * rows.steps[1]), 0) };
                    state = match op {
                        ReduceOp::Prod => state * x.wide(),
                        _ => state + x.wide(),
                    };
                    // SAFETY: as above; an element that is written was read before.
                    unsafe { put(to.wrapping_offset(i * rows.steps[0]), 0, C::narrow(state)) };
                }
            }
        });
    });
    Ok(())
}

/// The logarithm of the sum of the exponentials of the elements so far along `dim`, accumulated in
/// double precision.
pub fn running_log_add_exp(out: Out<'_>, a: In<'_>, dim: usize) -> Result<(), KernelError> {
    let (out, a) = (out.raw(), a.raw());
    same_sizes("logcumsumexp", &[&out, &a])?;
    same_dtype("logcumsumexp", &[&out, &a])?;
    has_dim("logcumsumexp", dim, &a)?;
    if out.dtype != a.dtype {
        return Err(KernelError::unsupported("logcumsumexp", a.dtype));
    }
    if a.numel() == 0 {
        return Ok(());
    }
    let rows = rows_along(&[out, a], dim);
    with_complex!("logcumsumexp", a.dtype, C => {
        parallel(rows.others.numel, rows.n * 80, &|first, last| {
            for row in first..last {
                let [to, from] = rows.others.element(row);
                let mut total = Complex::new(f64::NEG_INFINITY, 0.0);
                for i in 0..rows.n as isize {
                    // SAFETY: elements of both rows.
                    let x: C = unsafe { get(from.wrapping_offset(i * rows.steps[1]), 0) };
                    total = log_add_exp(x.wide(), total);
                    // SAFETY: as above; an element that is written was read before.
                    unsafe { put(to.wrapping_offset(i * rows.steps[0]), 0, C::narrow(total)) };
                }
            }
        });
    });
    Ok(())
}
