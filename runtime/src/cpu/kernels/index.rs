//! Kernels that read or write where an index tensor says.
//!
//! Indices are `i64` or `i32` and count from 0; a negative or too large one is
//! [`KernelError::IndexOutOfRange`], found before its element is touched.

use super::combine::{ScatterOp, combine};
use super::copy::copy_raw;
use super::moves::move_elements;
use super::nest::{self, GRAIN, Nest, Shared};
use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{In, Out, apart, ask, same_but, same_dtype, same_sizes, within};
use smallvec::SmallVec;
use std::sync::Mutex;
use straightline_passes::ir::DType;

type Dims = SmallVec<[i64; 6]>;

/// The first index out of range that any thread met.
struct Fault(Mutex<Option<i64>>, i64);

impl Fault {
    fn new(size: i64) -> Fault {
        Fault(Mutex::new(None), size)
    }

    #[cold]
    fn report(&self, index: i64) {
        if let Ok(mut first) = self.0.lock() {
            first.get_or_insert(index);
        }
    }

    /// The index, if it is one of the dimension.
    #[inline(always)]
    fn check(&self, index: i64) -> Option<isize> {
        if (0..self.1).contains(&index) {
            Some(index as isize)
        } else {
            self.report(index);
            None
        }
    }

    fn result(self) -> Result<(), KernelError> {
        match self.0.into_inner() {
            Ok(Some(index)) => Err(KernelError::IndexOutOfRange { index, size: self.1 }),
            _ => Ok(()),
        }
    }
}

#[inline(always)]
pub(super) unsafe fn read_index(p: *const u8, dtype: DType) -> i64 {
    // SAFETY: as promised by the caller.
    unsafe {
        match dtype {
            DType::I32 => i64::from(p.cast::<i32>().read_unaligned()),
            _ => p.cast::<i64>().read_unaligned(),
        }
    }
}

fn check_index_dtype(index: &Strided<'_>) -> Result<(), KernelError> {
    match index.dtype {
        DType::I32 | DType::I64 => Ok(()),
        other => Err(KernelError::unsupported("index", other)),
    }
}

fn without(dims: &[i64], dim: usize) -> Dims {
    dims.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, &x)| x).collect()
}

/// `out[.., i, ..] = a[.., index[i], ..]` along `dim`; `index` is one-dimensional.
///
/// With `dim` 0 and a two-dimensional `a` this is an embedding.
pub fn index_select(out: Out<'_>, a: In<'_>, dim: usize, index: In<'_>) -> Result<(), KernelError> {
    apart("index_select", &[a, index])?;
    let (out, a, index) = (out.raw(), a.raw(), index.raw());
    same_but("index_select", dim, &out, &a)?;
    same_dtype("index_select", &[&out, &a])?;
    ask(
        "index_select",
        index.sizes.len() == 1 && out.sizes.get(dim) == index.sizes.first(),
        "one-dimensional indices, as many as results",
    )?;
    check_index_dtype(&index)?;
    let n = index.sizes[0] as usize;
    let fault = Fault::new(a.sizes[dim]);
    let sizes = without(out.sizes, dim);
    let (to, from) = (without(out.strides, dim), without(a.strides, dim));
    let view = |s: &Strided<'_>, strides| (s.ptr, s.dtype, strides);
    let (o, i) = (view(&out, &to), view(&a, &from));
    let slice = Nest::new(&[
        Strided { ptr: o.0, dtype: o.1, sizes: &sizes, strides: o.2 },
        Strided { ptr: i.0, dtype: i.1, sizes: &sizes, strides: i.2 },
    ]);
    let size = out.dtype.size();
    let [to_step, from_step] = slice.inner().strides;
    let (to_dim, from_dim, index_step) =
        (out.byte_stride(dim), a.byte_stride(dim), index.byte_stride(0));
    let indices = Shared(index.ptr);
    // a row of one dimension, and not tiny: by index; otherwise rows of indices for each place of
    // the slice
    let by_index = slice.inner().size >= 4 || slice.numel == 1;
    if by_index {
        nest::parallel(n, slice.numel, &|first, last| {
            for k in first..last {
                // SAFETY: the k-th index; a slice of each operand.
                unsafe {
                    let Some(at) =
                        fault.check(read_index(indices.at(k as isize * index_step), index.dtype))
                    else {
                        return;
                    };
                    let (to_offset, from_offset) = (k as isize * to_dim, at * from_dim);
                    slice.walk(0, slice.numel, &mut |p, m| {
                        let (to, from) =
                            (p[0].wrapping_offset(to_offset), p[1].wrapping_offset(from_offset));
                        move_elements(size, to, to_step, from, from_step, m);
                    });
                }
            }
        });
    } else {
        nest::parallel(slice.numel, n, &|first, last| {
            for place in first..last {
                let [to, from] = slice.element(place);
                for k in 0..n as isize {
                    // SAFETY: the k-th index; an element of each operand.
                    unsafe {
                        let Some(at) =
                            fault.check(read_index(indices.at(k * index_step), index.dtype))
                        else {
                            return;
                        };
                        move_elements(
                            size,
                            to.offset(k * to_dim),
                            0,
                            from.offset(at * from_dim),
                            0,
                            1,
                        );
                    }
                }
            }
        });
    }
    fault.result()
}

/// `out[i][j][k] = a[index[i][j][k]][j][k]` for `dim` 0, and so on; `out` has the sizes of `index`.
pub fn gather(out: Out<'_>, a: In<'_>, dim: usize, index: In<'_>) -> Result<(), KernelError> {
    apart("gather", &[a, index])?;
    let (out, a, index) = (out.raw(), a.raw(), index.raw());
    same_sizes("gather", &[&out, &index])?;
    same_dtype("gather", &[&out, &a])?;
    within("gather", dim, &index, &a)?;
    check_index_dtype(&index)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let mut strides: Dims = a.strides.into();
    let (size_at, step_at) =
        if a.sizes.is_empty() { (1, 0) } else { (a.sizes[dim], a.byte_stride(dim)) };
    if let Some(stride) = strides.get_mut(dim) {
        *stride = 0;
    }
    let source = Strided { sizes: out.sizes, strides: &strides, ..a };
    let nest = Nest::new(&[out, index, source]);
    let steps = nest.inner().strides;
    let fault = Fault::new(size_at);
    let size = out.dtype.size();
    // SAFETY: as promised by the caller; indices are checked.
    unsafe {
        nest.run(GRAIN / 4, &|p, n| {
            for i in 0..n as isize {
                let Some(at) = fault.check(read_index(p[1].offset(i * steps[1]), index.dtype))
                else {
                    return;
                };
                let from = p[2].offset(i * steps[2] + at * step_at);
                move_elements(size, p[0].offset(i * steps[0]), 0, from, 0, 1);
            }
        });
    }
    fault.result()
}

/// `out[index[i][j][k]][j][k] op= src[i][j][k]` for `dim` 0, and so on, in row-major order of
/// `index`.
pub fn scatter(
    op: ScatterOp,
    out: Out<'_>,
    dim: usize,
    index: In<'_>,
    src: In<'_>,
) -> Result<(), KernelError> {
    apart("scatter", &[index, src])?;
    let (out, index, src) = (out.raw(), index.raw(), src.raw());
    same_sizes("scatter", &[&index, &src])?;
    same_dtype("scatter", &[&out, &src])?;
    within("scatter", dim, &index, &out)?;
    check_index_dtype(&index)?;
    if index.numel() == 0 {
        return Ok(());
    }
    let combine = match op {
        ScatterOp::Replace => None,
        op => Some(combine(op, out.dtype)?),
    };
    let (size_at, step_at) =
        if out.sizes.is_empty() { (1, 0) } else { (out.sizes[dim], out.byte_stride(dim)) };
    let fault = Fault::new(size_at);
    let size = out.dtype.size();
    // rows along `dim`: different rows never meet, so they may run at the same time, each in order
    let scalar = out.sizes.is_empty();
    let n = if scalar { 1 } else { index.sizes[dim] as usize };
    let sizes = without(index.sizes, dim);
    let strides = [&out, &index, &src].map(|s| without(s.strides, dim));
    let view = |s: &Strided<'_>, k: usize| (s.ptr, s.dtype, k);
    let views = [view(&out, 0), view(&index, 1), view(&src, 2)].map(|(ptr, dtype, k)| Strided {
        ptr,
        dtype,
        sizes: &sizes,
        strides: &strides[k],
    });
    let others = Nest::new(&views);
    let step = |s: &Strided<'_>| if scalar { 0 } else { s.byte_stride(dim) };
    let (index_step, src_step) = (step(&index), step(&src));
    nest::parallel(others.numel, n * 4, &|first, last| {
        for place in first..last {
            let [to, indices, from] = others.element(place);
            for k in 0..n as isize {
                // SAFETY: the k-th index and element of this row; an element of the output.
                unsafe {
                    let Some(at) =
                        fault.check(read_index(indices.offset(k * index_step), index.dtype))
                    else {
                        return;
                    };
                    let to = to.offset(at * step_at);
                    let from = from.offset(k * src_step);
                    match combine {
                        None => move_elements(size, to, 0, from, 0, 1),
                        Some(combine) => combine(to, 0, from, 0, 1),
                    }
                }
            }
        }
    });
    fault.result()
}

/// Which triangle of a matrix stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Triangle {
    /// On and below the diagonal: `tril`.
    Lower,
    /// On and above it: `triu`.
    Upper,
}

/// `tril` or `triu` of the last two dimensions: the elements of the triangle, zeros elsewhere.
/// `diagonal` moves the diagonal up.
pub fn triangle(
    which: Triangle,
    out: Out<'_>,
    a: In<'_>,
    diagonal: i64,
) -> Result<(), KernelError> {
    let (out, a) = (out.raw(), a.raw());
    same_sizes("triangle", &[&out, &a])?;
    same_dtype("triangle", &[&out, &a])?;
    ask("triangle", out.sizes.len() >= 2, "matrices")?;
    if out.numel() == 0 {
        return Ok(());
    }
    let rank = out.sizes.len();
    let (rows, columns) = (out.sizes[rank - 2], out.sizes[rank - 1]);
    let outer = &out.sizes[..rank - 2];
    let view = |s: &Strided<'_>| (s.ptr, s.dtype);
    let ((op, od), (ap, ad)) = (view(&out), view(&a));
    let batch = Nest::new(&[
        Strided { ptr: op, dtype: od, sizes: outer, strides: &out.strides[..rank - 2] },
        Strided { ptr: ap, dtype: ad, sizes: outer, strides: &a.strides[..rank - 2] },
    ]);
    let size = out.dtype.size();
    let (to_row, to_step) = (out.byte_stride(rank - 2), out.byte_stride(rank - 1));
    let (from_row, from_step) = (a.byte_stride(rank - 2), a.byte_stride(rank - 1));
    let zero = 0u128;
    let zero = Shared((&raw const zero).cast_mut().cast());
    nest::parallel(batch.numel * rows as usize, columns as usize, &|first, last| {
        for item in first..last {
            let (matrix, row) = (item / rows as usize, item as i64 % rows);
            let [to, from] = batch.element(matrix);
            let to = to.wrapping_offset(row as isize * to_row);
            let from = from.wrapping_offset(row as isize * from_row);
            // the first column right of the diagonal, and of it
            let edge = match which {
                Triangle::Lower => row.saturating_add(diagonal).saturating_add(1),
                Triangle::Upper => row.saturating_add(diagonal),
            }
            .clamp(0, columns) as usize;
            let (kept, cleared) = match which {
                Triangle::Lower => (0..edge, edge..columns as usize),
                Triangle::Upper => (edge..columns as usize, 0..edge),
            };
            // SAFETY: columns of this row.
            unsafe {
                let at = |p: *mut u8, step: isize, column: usize| {
                    p.wrapping_offset(step * column as isize)
                };
                move_elements(
                    size,
                    at(to, to_step, kept.start),
                    to_step,
                    at(from, from_step, kept.start),
                    from_step,
                    kept.len(),
                );
                move_elements(
                    size,
                    at(to, to_step, cleared.start),
                    to_step,
                    zero.at(0),
                    0,
                    cleared.len(),
                );
            }
        }
    });
    Ok(())
}

/// `out[i] = start + i * step`, computed in `f64` (floats) or `i64` (integers); `out` is
/// one-dimensional.
pub fn arange(
    out: Out<'_>,
    start: straightline_passes::ir::Scalar,
    step: straightline_passes::ir::Scalar,
) -> Result<(), KernelError> {
    let out = out.raw();
    if out.dtype.is_complex() {
        return Err(KernelError::unsupported("arange", out.dtype));
    }
    ask("arange", out.sizes.len() == 1, "a one-dimensional result")?;
    let n = out.sizes[0] as usize;
    let integral = !out.dtype.is_floating() && out.dtype != DType::Bool;
    let wide = if integral { DType::I64 } else { DType::F64 };
    let row_step = out.byte_stride(0);
    let to = Shared(out.ptr);
    let failure = Mutex::new(Ok(()));
    nest::parallel(n, 2, &|first, last| {
        const PIECE: usize = 256;
        let mut numbers = [0u64; PIECE];
        for begin in (first..last).step_by(PIECE) {
            let m = (last - begin).min(PIECE);
            for (k, number) in numbers[..m].iter_mut().enumerate() {
                let i = begin + k;
                *number = if integral {
                    start.as_i64().wrapping_add(step.as_i64().wrapping_mul(i as i64)) as u64
                } else {
                    (start.as_f64() + step.as_f64() * i as f64).to_bits()
                };
            }
            let (sizes, stride, one) = ([m as i64], [out.strides[0]], [1]);
            let target = Strided {
                ptr: to.at(begin as isize * row_step),
                dtype: out.dtype,
                sizes: &sizes,
                strides: &stride,
            };
            let source = Strided {
                ptr: numbers.as_mut_ptr().cast(),
                dtype: wide,
                sizes: &sizes,
                strides: &one,
            };
            // SAFETY: m elements of the output; the numbers are ours.
            let copied = unsafe { copy_raw(target, source) };
            if let (Err(e), Ok(mut failure)) = (copied, failure.lock()) {
                *failure = Err(e);
            }
        }
    });
    failure.into_inner().unwrap_or(Ok(()))
}
