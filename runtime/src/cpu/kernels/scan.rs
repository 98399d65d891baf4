//! Running extremes and running log-sum-exp along a dimension. Running sums and products are in `rows`.

use super::nest;
use super::nest::rows_along;
use super::order::{check_ordered, nan_key, read_key};
use super::tile::move_elements;
use super::{KernelError, Strided};
use straightline_passes::ir::DType;

/// The largest (or smallest) of the elements so far along `dim`, and where it is, the last of equal ones. From the
/// first NaN on the result is NaN.
///
/// # Safety
///
/// The sizes are equal; `values` has the dtype of `a`, `indices` is `i64`. The memory of all is what they say and may
/// be accessed; the elements of the outputs are distinct and overlap nothing.
pub unsafe fn running_extreme(
    max: bool,
    values: Strided<'_>,
    indices: Strided<'_>,
    a: Strided<'_>,
    dim: usize,
) -> Result<(), KernelError> {
    check_ordered(if max { "cummax" } else { "cummin" }, a.dtype)?;
    if a.numel() == 0 {
        return Ok(());
    }
    let rows = rows_along(&[values, indices, a], dim);
    let nan = nan_key(a.dtype);
    let size = a.dtype.size();
    nest::parallel(rows.others.numel, rows.n * 4, &|first, last| {
        for row in first..last {
            let [to, places, from] = rows.others.element(row);
            let mut best = (0isize, None);
            for i in 0..rows.n as isize {
                // SAFETY: element i of each row; `best` is one that came before.
                unsafe {
                    let key = read_key(from.offset(i * rows.steps[2]), a.dtype);
                    let takes = match best.1 {
                        None => true,
                        Some(b) if nan == Some(b) => nan == Some(key),
                        Some(_) if nan == Some(key) => true,
                        Some(b) => (max && key >= b) || (!max && key <= b),
                    };
                    if takes {
                        best = (i, Some(key));
                    }
                    let source = from.offset(best.0 * rows.steps[2]);
                    move_elements(size, to.offset(i * rows.steps[0]), 0, source, 0, 1);
                    places
                        .offset(i * rows.steps[1])
                        .cast::<i64>()
                        .write_unaligned(best.0 as i64);
                }
            }
        }
    });
    Ok(())
}

/// `ln(exp(x) + exp(y))` without overflow.
fn log_add_exp(x: f64, y: f64) -> f64 {
    let (low, high) = if x.is_nan() || y.is_nan() {
        (f64::NAN, f64::NAN)
    } else {
        (x.min(y), x.max(y))
    };
    if low != high || low.is_finite() {
        (low - high).exp().ln_1p() + high
    } else {
        // both infinite and alike
        x
    }
}

/// `ln(sum of exp)` of the elements so far along `dim`, in `f64`.
///
/// # Safety
///
/// The sizes are equal, both are `f32` or `f64`; the memory of both is what they say and may be accessed; the elements
/// of `out` are distinct and overlap `a` only if they are the very same elements.
pub unsafe fn running_logsumexp(
    out: Strided<'_>,
    a: Strided<'_>,
    dim: usize,
) -> Result<(), KernelError> {
    if !matches!(a.dtype, DType::F32 | DType::F64) || out.dtype != a.dtype {
        return Err(KernelError::unsupported("logcumsumexp", a.dtype));
    }
    if a.numel() == 0 {
        return Ok(());
    }
    let rows = rows_along(&[out, a], dim);
    nest::parallel(rows.others.numel, rows.n * 40, &|first, last| {
        for row in first..last {
            let [to, from] = rows.others.element(row);
            let mut total = f64::NEG_INFINITY;
            for i in 0..rows.n as isize {
                // SAFETY: element i of each row.
                unsafe {
                    let (to, from) = (to.offset(i * rows.steps[0]), from.offset(i * rows.steps[1]));
                    if a.dtype == DType::F32 {
                        let x = f64::from(from.cast::<f32>().read_unaligned());
                        total = log_add_exp(x, total);
                        to.cast::<f32>().write_unaligned(total as f32);
                    } else {
                        total = log_add_exp(from.cast::<f64>().read_unaligned(), total);
                        to.cast::<f64>().write_unaligned(total);
                    }
                }
            }
        }
    });
    Ok(())
}
