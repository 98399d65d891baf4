//! Reductions over any dimensions: sum, prod, max, min, any, all, variance.
//!
//! Two geometries. Where the dimension that is nearest in memory is reduced, each output folds
//! rows, by vectors and with several accumulators; partial results of blocks are combined like a
//! binary counter, so that the error of a sum grows with the logarithm of its length. Where it is
//! kept, whole rows are added to a tile of accumulators, in two levels.
//!
//! How a large reduction is cut into chunks depends on its sizes alone, never on the number of
//! threads, so the result does not either.

mod columns;
mod feed;
mod geometry;
mod rows;
#[cfg(test)]
mod tests;

use super::copy::{conversion, copy_raw};
use super::fold::{Fold, fold};
use super::integer::B_IS_SCALAR;
use super::nest::{self, GRAIN, Nest, Shared};
use super::tile::Form;
use super::{KernelError, Strided, float};
use crate::cpu::kernels::operand::{In, Out, apart, reduces, same_dtype, same_sizes};
use crate::memory::{self, Block};
use columns::{fold_columns, tile_columns};
use feed::Feed;
use geometry::{BLOCK, Geometry, geometry, repeat, row_major};
use rows::fold_rows;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, ReduceOp};

/// Elements of a chunk of a reduction that few outputs share.
const CHUNK: usize = 128 << 10;

/// Most chunks that one output is cut into.
const MAX_CHUNKS: usize = 64;

/// The type in which an operation accumulates its result.
fn accumulator(op: ReduceOp, a: DType, out: DType) -> DType {
    match op {
        ReduceOp::Any | ReduceOp::All => DType::Bool,
        ReduceOp::Max | ReduceOp::Min => match a {
            DType::F64 | DType::Bool => a,
            _ if a.is_floating() => DType::F32,
            _ => DType::I64,
        },
        ReduceOp::Sum | ReduceOp::Prod => match out {
            DType::F64 => DType::F64,
            _ if out.is_floating() => DType::F32,
            _ => DType::I64,
        },
    }
}

/// Reduces `a` over the dimensions where `out` has size 1 and `a` another one; the others are
/// equal.
///
/// Sums and products accumulate in `f32`, `f64` or `i64`, depending on the dtype of `out`, after
/// converting the elements; the result is rounded to `out` once. `Any` and `All` take any dtype and
/// give `bool`.
///
/// A maximum or minimum of no elements is [`KernelError::EmptyReduction`].
pub fn reduce(op: ReduceOp, out: Out<'_>, a: In<'_>) -> Result<(), KernelError> {
    apart("reduce", &[a])?;
    let (out, a) = (out.raw(), a.raw());
    reduces("reduce", &out, &a)?;
    if a.dtype.is_complex() || out.dtype.is_complex() {
        // SAFETY: as promised by the caller.
        return unsafe { super::complex::reduce(op, out, a) };
    }
    let dtype = accumulator(op, a.dtype, out.dtype);
    let n = a.numel();
    let small = out.numel() == 1 && n != 0 && n <= BLOCK;
    let fold = fold(op, dtype).ok_or_else(|| KernelError::unsupported(op, a.dtype))?;
    if small && out.dtype == dtype && a.dtype == dtype && a.is_contiguous() {
        // SAFETY: one row, one result.
        unsafe { (fold.row)(out.ptr, a.ptr, n) };
        // SAFETY: one result.
        unsafe { begin_at_zero(op, &fold, out.ptr, 1) };
        return Ok(());
    }
    // SAFETY: as promised by the caller.
    unsafe { reduce_into(out, a, &fold, op, None) }
}

/// The variance (and mean) over the dimensions where `var` has size 1; in two passes.
///
/// The sum of squares is divided by `max(0, n - correction)`.
pub fn var_mean(
    var: Out<'_>,
    mean: Option<Out<'_>>,
    a: In<'_>,
    correction: f64,
) -> Result<(), KernelError> {
    apart("var_mean", &[a])?;
    let (var, a) = (var.raw(), a.raw());
    let mean = mean.map(|o| o.raw());
    reduces("var_mean", &var, &a)?;
    same_dtype("var_mean", &[&var, &a])?;
    if let Some(mean) = &mean {
        same_sizes("var_mean", &[&var, mean])?;
        same_dtype("var_mean", &[&var, mean])?;
    }
    if a.dtype.is_complex() {
        return Err(KernelError::unsupported("var and mean", a.dtype));
    }
    if !a.dtype.is_floating() {
        return Err(KernelError::unsupported("var_mean", a.dtype));
    }
    let dtype = a.dtype.opmath();
    let sum =
        fold(ReduceOp::Sum, dtype).ok_or_else(|| KernelError::unsupported("var_mean", a.dtype))?;
    let kept = var.numel();
    let n = a.numel().checked_div(kept).unwrap_or(0);
    let strides = row_major(var.sizes);
    let means = memory::allocate(kept * dtype.size())?;
    let squares = memory::allocate(kept * dtype.size())?;
    let as_strided = |ptr| Strided { ptr, dtype, sizes: var.sizes, strides: &strides };
    // SAFETY: as promised by the caller; the blocks have an element for each output.
    unsafe {
        reduce_into(as_strided(means.as_ptr()), a, &sum, ReduceOp::Sum, None)?;
        divide(means.as_ptr(), kept, n as f64, dtype)?;
        reduce_into(as_strided(squares.as_ptr()), a, &sum, ReduceOp::Sum, Some(means.as_ptr()))?;
        divide(squares.as_ptr(), kept, (n as f64 - correction).max(0.0), dtype)?;
        copy_raw(var, as_strided(squares.as_ptr()))?;
        if let Some(mean) = mean {
            copy_raw(mean, as_strided(means.as_ptr()))?;
        }
    }
    Ok(())
}

/// Divides `n` numbers in place.
unsafe fn divide(p: *mut u8, n: usize, by: f64, dtype: DType) -> Result<(), KernelError> {
    if n == 0 {
        return Ok(());
    }
    let row = float::binary_row(BinaryOp::Div, dtype)
        .ok_or_else(|| KernelError::unsupported("div", dtype))?;
    let bits = crate::cpu::kernels::operand::scalar_bits(by.into(), dtype);
    // SAFETY: the row kernel reads one element of the divisor.
    unsafe { row(p, p, (&raw const bits).cast(), n, B_IS_SCALAR) };
    Ok(())
}

/// # Safety
///
/// As for [`reduce`]; `centre` has a number of the accumulating type for each output, in row-major
/// order.
unsafe fn reduce_into(
    out: Strided<'_>,
    a: Strided<'_>,
    fold: &Fold,
    op: ReduceOp,
    centre: Option<*mut u8>,
) -> Result<(), KernelError> {
    let outputs = out.numel();
    if outputs == 0 {
        return Ok(());
    }
    let size = fold.dtype.size();
    let in_place = out.dtype == fold.dtype && out.is_contiguous();
    let own = if in_place { None } else { Some(memory::allocate(outputs * size)?) };
    let acc = own.as_ref().map_or(out.ptr, Block::as_ptr);
    let g = geometry(&out, &a, acc, fold.dtype);
    if g.folded.numel == 0 {
        let Some(identity) = fold.identity else {
            return Err(KernelError::EmptyReduction { op: format!("{op:?}").to_lowercase() });
        };
        // SAFETY: `outputs` accumulators.
        unsafe { repeat(acc, identity, size, outputs) };
    } else {
        let arithmetic = match a.dtype {
            d if d.is_half() => DType::F32,
            d => d,
        };
        let convert = (arithmetic != fold.dtype).then(|| conversion(arithmetic, fold.dtype));
        let form = Form::arithmetic(a.dtype);
        let plain = convert.is_none() && form == Form::Raw(size) && centre.is_none();
        let feed = Feed {
            form,
            convert,
            centre: match centre {
                None => None,
                Some(p) => {
                    let row = |op| {
                        float::binary_row(op, fold.dtype)
                            .ok_or_else(|| KernelError::unsupported(op, fold.dtype))
                    };
                    Some((Shared(p), row(BinaryOp::Sub)?, row(BinaryOp::Mul)?))
                }
            },
            size,
            direct: plain.then_some(size as isize),
        };
        // SAFETY: as promised by the caller.
        unsafe { run(&g, fold, &feed, Shared(acc), outputs)? };
        // SAFETY: `outputs` accumulators, all written.
        unsafe { begin_at_zero(op, fold, acc, outputs) };
    }
    if own.is_some() {
        let strides = row_major(out.sizes);
        let result = Strided { ptr: acc, dtype: fold.dtype, sizes: out.sizes, strides: &strides };
        // SAFETY: `outputs` accumulators, all written.
        unsafe { copy_raw(out, result)? };
    }
    Ok(())
}

/// Adds the 0 at which sums begin, as PyTorch's do: of nothing but -0 it is 0.
///
/// # Safety
///
/// There are `n` accumulators.
unsafe fn begin_at_zero(op: ReduceOp, fold: &Fold, acc: *mut u8, n: usize) {
    if let (ReduceOp::Sum, true, Some(zero)) = (op, fold.dtype.is_floating(), fold.identity) {
        // SAFETY: the caller's accumulators, and one number.
        unsafe { (fold.combine)(acc, acc, (&raw const zero).cast(), n, B_IS_SCALAR) };
    }
}

/// # Safety
///
/// As for [`reduce_into`]; nothing is empty.
unsafe fn run(
    g: &Geometry,
    fold: &Fold,
    feed: &Feed,
    acc: Shared,
    outputs: usize,
) -> Result<(), KernelError> {
    let folded = g.folded.numel;
    let near = |n: &Nest<1>| n.inner().strides[0];
    let kept_near = g.kept.inner().strides[0];
    let rows =
        g.kept.numel == 1 || (folded > 1 && (near(&g.folded) <= kept_near || kept_near == 0));
    // units of parallel work over the outputs: single ones, or tiles of columns
    let columns = g.kept.inner().size;
    let units =
        if rows { outputs } else { outputs / columns * columns.div_ceil(tile_columns(g, feed)) };
    let total = outputs * folded;
    let chunks = if units < 8 && total > 2 * CHUNK {
        (total / CHUNK).min(MAX_CHUNKS).min(folded)
    } else {
        1
    };
    let unit = |partial: Shared, u: usize, begin: usize, end: usize| {
        // SAFETY: as promised by the caller; each unit has its own accumulators.
        unsafe {
            if rows {
                fold_rows(g, fold, feed, partial, u, begin, end);
            } else {
                fold_columns(g, fold, feed, partial, u, begin, end);
            }
        }
    };
    if chunks == 1 {
        nest::parallel(units, total / units, &|first, last| {
            for u in first..last {
                unit(acc, u, 0, folded);
            }
        });
        return Ok(());
    }
    let stride = (outputs * fold.dtype.size()).next_multiple_of(64);
    let partials = memory::allocate(chunks * stride)?;
    let base = Shared(partials.as_ptr());
    nest::parallel(chunks * units, GRAIN, &|first, last| {
        for i in first..last {
            let (chunk, u) = (i / units, i % units);
            let (begin, end) = (folded * chunk / chunks, folded * (chunk + 1) / chunks);
            unit(Shared(base.at((chunk * stride) as isize)), u, begin, end);
        }
    });
    // SAFETY: `outputs` accumulators in each chunk and in the result.
    unsafe {
        std::ptr::copy_nonoverlapping(base.at(0), acc.at(0), outputs * fold.dtype.size());
        for chunk in 1..chunks {
            (fold.combine)(acc.at(0), acc.at(0), base.at((chunk * stride) as isize), outputs, 0);
        }
    }
    Ok(())
}
