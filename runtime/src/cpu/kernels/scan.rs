//! Running extremes and running log-sum-exp along a dimension. Running sums and products are in
//! `rows`.

use super::KernelError;
use super::moves::move_elements;
use super::nest;
use super::nest::rows_along;
use super::order::{check_ordered, nan_key, read_key};
use crate::cpu::kernels::operand::{In, Out, apart, has_dim, has_dtype, same_dtype, same_sizes};
use straightline_passes::ir::DType;

/// The largest (or smallest) of the elements so far along `dim`, and where it is, the last of equal
/// ones. From the first NaN on the result is NaN.
pub fn running_extreme(
    max: bool,
    values: Out<'_>,
    indices: Out<'_>,
    a: In<'_>,
    dim: usize,
) -> Result<(), KernelError> {
    apart("running_extreme", &[a])?;
    let (values, indices, a) = (values.raw(), indices.raw(), a.raw());
    same_sizes("cummax", &[&values, &indices, &a])?;
    same_dtype("cummax", &[&values, &a])?;
    has_dtype("cummax", &indices, DType::I64)?;
    has_dim("cummax", dim, &a)?;
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
                    places.offset(i * rows.steps[1]).cast::<i64>().write_unaligned(best.0 as i64);
                }
            }
        }
    });
    Ok(())
}

/// `ln(exp(x) + exp(y))` without overflow.
fn log_add_exp(x: f64, y: f64) -> f64 {
    let (low, high) =
        if x.is_nan() || y.is_nan() { (f64::NAN, f64::NAN) } else { (x.min(y), x.max(y)) };
    if low != high || low.is_finite() {
        (low - high).exp().ln_1p() + high
    } else {
        // both infinite and alike
        x
    }
}

/// `ln(sum of exp)` of the elements so far along `dim`, in `f64`.
pub fn running_logsumexp(out: Out<'_>, a: In<'_>, dim: usize) -> Result<(), KernelError> {
    let (out, a) = (out.raw(), a.raw());
    same_sizes("logcumsumexp", &[&out, &a])?;
    has_dim("logcumsumexp", dim, &a)?;
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
