//! Matrix products: `out = beta * addend + alpha * (a @ b)` for every numeric dtype and any
//! strides.
//!
//! [`gemm()`] and [`bmm`] take raw strided views and choose a kernel by dtype, shape and layout.
//!
//! Numerics: f32 and f64 accumulate in their own type, with fused multiply-adds; f16 and bf16 are
//! accumulated in f32 and rounded once, after `alpha` and `beta`; integers wrap. Where bf16 is
//! multiplied by AMX or AVX512_BF16, denormal factors count as zero and a denormal sum becomes
//! zero: those instructions know no other mode. Elsewhere denormals are numbers like others.
//! `alpha` and `beta` apply to the finished sum, as separate roundings. NaN and infinity propagate
//! as IEEE arithmetic says: no term of a sum is skipped. `beta == 0` ignores the addend, even where
//! it is NaN.
//!
//! # Which kernel serves which shape
//!
//! `m`, `k`, `n` are rows of `a`, inner size, columns of `b`. "Rows" and "columns" say which of
//! them are contiguous in `b`.
//!
//! | right factor | shape | kernel |
//! |---|---|---|
//! | packed before ([`PackedB`]) | any | register tiles, up to 12 rows by 32 columns (AVX-512), finished by the [`Epilogue`] |
//! | rows | one tile of rows, or two whose panels share no cache set, or `b` in half of the first cache, and no transposed `a` whose steps are multiples of 4 KiB | the same tiles, reading `b` where it is |
//! | rows | other | the same tiles, the first of which copies a panel as it reads it (`blocked.rs`) |
//! | columns (`x @ w.t()`) | `m <= 8`, or `m <= 16` with `k >= 128` or `b` beyond 2 MiB | dot products |
//! | columns, or no contiguity | other | `b` copied block by block, then tiles |
//! | bf16 with AMX, rows | `m <= 4` | vectors of f32 in the order of the tiles, reading `b` where it is (`pair_rows.rs`) |
//! | bf16 with AMX, or with AVX512_BF16 on a processor that is not Intel's | any | both factors copied into blocks of 32 steps, tiles of 32 by 32 or 12 by 32; AMX reads the columns of `b` where they are if `m <= 32` (`pairs.rs`) |
//! | other f16, bf16, columns | `m <= 8` | dot products, some columns of `b` widened at a time |
//! | other f16, bf16 | other | tiles; `a` widened as a whole, `b` as its blocks are copied, each tile rounded when it is finished (`half.rs`) |
//! | complex, rows or columns | `m <= 4` | a real product with its parts, read where they are, then the scaling |
//! | complex | other | copied blocks of a real product of twice the sizes, then the scaling |
//! | integers | any | rows of sums, four steps of `k` at a time |
//!
//! A result with contiguous columns is computed as the transposed product. Products of more than
//! some 12 us are split over the thread pool, by panels of columns first.
//!
//! Measured on one core of an AMD EPYC with AVX-512 (two cores, shared with other jobs; thread CPU
//! clock, medians of alternating runs, both factors row-major), as time relative to crate `gemm`
//! 0.19 at the same instruction set. Runs varied by some 5 %, the short ones by more. The loops have
//! been changed since: see the last table.
//!
//! | m, k, n | dtype | AVX-512 | GFLOP/s | AVX2 | GFLOP/s |
//! |---|---|---|---|---|---|
//! | 1024, 1024, 1024 | f32 | 1.03 | 100 | 1.01 | 100 |
//! | 1024, 1024, 1024 | f64 | 1.12 | 45 | 1.07 | 47 |
//! | 64, 4096, 1024 | f32 | 1.04 | 76 | 0.97 | 76 |
//! | 64, 4096, 1024 | f64 | 1.03 | 38 | 0.86 | 40 |
//! | 256, 2048, 2048 | f32 | 1.05 | 93 | 1.01 | 94 |
//! | 256, 2048, 2048 | f64 | 1.05 | 48 | 1.02 | 48 |
//! | 16, 1024, 1024 | f32 | 0.98 | 107 | 0.83 | 64 |
//! | 16, 1024, 1024 | f64 | 1.02 | 39 | 0.76 | 30 |
//! | 12, 1024, 1024 | f32, f64 | 1.25, 1.28 | 89, 40 | | |
//! | 32, 1024, 1024 | f32, f64 | 1.16, 1.05 | 90, 42 | | |
//! | 256, 256, 256 | c64 | 1.06-1.13 | 94-105 | 1.04 | 104 |
//! | 256, 256, 256 | c128 | 1.12-1.23 | 42-49 | 1.01 | 51 |
//!
//! With `b` transposed and few rows, dot products against panels that are packed for the call
//! (k = n = 256, f32, same machine, best of 300): `m` 2, 4, 8, 16 take 0.33, 0.43, 0.65, 0.80 of the
//! time with AVX-512 and 0.34, 0.50, 0.60, 0.77 with AVX2. A transposed `a` of 1024 rows and k = 64,
//! its steps 4 KiB apart, takes 0.57 of the time in blocks with AVX2, 0.96 with AVX-512.
//!
//! With `b` transposed the large f32 products take 0.73 to 1.00 of the crate's time, the f64 ones
//! 1.11 to 1.16 (AVX-512).
//!
//! Products of bf16 by AMX, on one core of an Emerald Rapids (thread CPU clock; two cores, shared
//! with jobs that slowed single runs by a factor of two, so the second best of 15 runs, next to
//! `torch.mm` of PyTorch 2.15 in the same minute). Packed: a [`PackedB`].
//!
//! | m, k, n | us | GFLOP/s | of PyTorch's time | packed, us | of PyTorch's time |
//! |---|---|---|---|---|---|
//! | 1024, 1024, 1024 (`b` transposed) | 2076 | 1034 | 1.01 | 2090 | 1.01 |
//! | 256, 256, 256 | 37 | 912 | 0.67 | 32 | 0.58 |
//! | 64, 1024, 1024 | 316 | 425 | 0.98 | 153 | 0.48 |
//! | 16, 1024, 1024 | 229 | 147 | 0.87 | 64 | 0.24 |
//! | 2048, 64, 2048 | 1651 | 325 | 1.24 | 1654 | 1.24 |
//!
//! Few rows of bf16, of PyTorch's time (same machine, alternating calls, medians of 60 rounds; a
//! row by 16 MiB or more is bound by memory, and varied by a fifth):
//!
//! | m, k, n | `b` by rows | before | `b` by columns | before |
//! |---|---|---|---|---|
//! | 1, 1024, 1024 | 0.35 | 1.29 | 0.86 | 0.90 |
//! | 1, 4096, 4096 | 0.41 | 1.10 | 1.07 | 1.08 |
//! | 4, 1024, 1024 | 0.51 | 0.67 | 0.38 | 0.38 |
//! | 8, 1024, 1024 | | | 0.38 | 2.39 |
//! | 32, 1024, 1024 | | | 0.73 | 2.56 |
//!
//! Products of f32 on the same machine, of PyTorch's time (MKL; AVX-512, both factors row-major,
//! alternating calls in one process, thread CPU clock). "Before" are tiles that read `b` in place up
//! to 512 KiB and copied it in a pass of its own beyond, and asked the memory for nothing ahead.
//!
//! | m, k, n | time | before |
//! |---|---|---|
//! | 1024, 1024, 1024 | 1.04 | 1.15 |
//! | 64, 1024, 1024 | 0.98 | 1.29 |
//! | 16, 1024, 1024 | 1.06 | 1.60 |
//! | 32, 384, 384 | 1.00 | 1.71 |
//! | 128, 384, 1536 | 1.01 | 1.19 |
//! | 128, 1536, 384 | 1.19 | 1.40 |
//! | 1, 4096, 4096 | 0.97 | 0.97 |
//!
//! PyTorch takes denormals as zero too, except in products of single rows.
//!
//! Known weak spots: few rows and columns with a large `k` (128 x 1536 x 384 of f32); two tiles of
//! rows with AVX2 by rows of 4 KiB; large f64 products with AVX-512. A complex vector times a matrix
//! was not timed since it reads the matrix in place (copied, it took 5.4 times as long as the crate).

mod activate;
mod after;
mod blocked;
pub(crate) mod blocks;
pub(super) mod bytes;
mod caches;
mod complex;
mod drive;
mod element;
mod float;
mod half;
mod instructions;
mod int;
mod micro;
pub(super) mod offsets;
mod pack;
pub mod packed;
mod pair_rows;
mod pairs;
mod scaling;
pub(super) mod single;
mod view;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_after;
#[cfg(test)]
mod tests_blocked;
#[cfg(test)]
mod tests_bytes;
#[cfg(test)]
mod tests_packed;
#[cfg(test)]
mod tests_pairs;

pub use activate::Epilogue;
pub use after::finish;
pub use bytes::int_product;
pub use element::MatElement;
pub use packed::{PackedB, matmul_packed, matmul_packed_strided};
pub use scaling::Scaling;
pub use straightline_passes::schedule::loops::Activation;
pub use view::{MatMut, MatRef};

use super::operand::{self, In, Out};
use super::{KernelError, Strided};
use drive::{PARALLEL_NS, PARALLEL_WORK, work};
use straightline_passes::ir::{DType, Scalar};

/// Why a product cannot be computed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MatmulError {
    /// The sizes do not fit together.
    #[error(
        "cannot multiply a {}x{} matrix by a {}x{} matrix into a {}x{} matrix",
        a.0, a.1, b.0, b.1, out.0, out.1
    )]
    Shape {
        /// Rows and columns of the left factor.
        a: (usize, usize),
        /// Rows and columns of the right factor.
        b: (usize, usize),
        /// Rows and columns of the result.
        out: (usize, usize),
    },
    /// The addend does not have the sizes of the result.
    #[error("the addend is {}x{} but the product is {}x{}", addend.0, addend.1, out.0, out.1)]
    Addend {
        /// Rows and columns of the addend.
        addend: (usize, usize),
        /// Rows and columns of the result.
        out: (usize, usize),
    },
    /// Operands that the kernel does not work on.
    #[error(transparent)]
    Operands(#[from] KernelError),
    /// Products are not implemented for this dtype.
    #[error("matrix product is not defined for {dtype}")]
    DType {
        /// The dtype asked for.
        dtype: DType,
    },
}

/// `out = beta * addend + alpha * (a @ b)`, all of one dtype.
///
/// With `k == 0` the product is zero. Any size may be zero. Large products use the thread pool.
///
/// # Safety
///
/// Each view must describe memory of `dtype` elements, aligned for it, that is valid to read (`a`,
/// `b`, the addend) or write (`out`) during the call. Elements of `out` must have distinct
/// addresses, and no other view may overlap `out`, except that the addend may be exactly the same
/// view.
pub unsafe fn gemm(
    dtype: DType,
    a: MatRef,
    b: MatRef,
    out: MatMut,
    scaling: Scaling,
) -> Result<(), MatmulError> {
    check(a, b, out, &scaling)?;
    // SAFETY: the caller's contract, and the sizes fit.
    unsafe {
        match dtype {
            DType::F32 => float::gemm::<f32>(a, b, out, &scaling),
            DType::F64 => float::gemm::<f64>(a, b, out, &scaling),
            DType::F16 => half::gemm::<::half::f16>(a, b, out, &scaling),
            DType::BF16 => match pairs::kernels() {
                Some(kernels) => pairs::gemm(kernels, a, b, out, &scaling),
                None => half::gemm::<::half::bf16>(a, b, out, &scaling),
            },
            DType::U8 => int::gemm::<u8>(a, b, out, &scaling),
            DType::I8 => int::gemm::<i8>(a, b, out, &scaling),
            DType::I16 => int::gemm::<i16>(a, b, out, &scaling),
            DType::I32 => int::gemm::<i32>(a, b, out, &scaling),
            DType::I64 => int::gemm::<i64>(a, b, out, &scaling),
            DType::C64 => complex::gemm::<f32>(a, b, out, &scaling),
            DType::C128 => complex::gemm::<f64>(a, b, out, &scaling),
            DType::Bool if multiplies_nothing(a, out, &scaling) => {
                int::gemm::<u8>(a, b, out, &scaling);
            }
            DType::Bool | DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
                return Err(MatmulError::DType { dtype });
            }
        }
    }
    Ok(())
}

/// How [`product`] and [`products`] scale, and what they add.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// Factor of the product.
    pub alpha: Scalar,
    /// The addend and its factor; it has the sizes of the result.
    pub addend: Option<(Scalar, In<'a>)>,
    /// The factors are not read, and the product is zero: PyTorch's rule where `alpha` is 0.
    pub unread: bool,
}

impl Default for Scale<'_> {
    /// The plain product.
    fn default() -> Self {
        Scale { alpha: Scalar::Int(1), addend: None, unread: false }
    }
}

/// `out = beta * addend + alpha * (a @ b)` of matrices; a vector is a column.
///
/// # Errors
/// Sizes that do not fit, a dtype that has no product, operands that are not aligned or lie on the
/// result.
pub fn product(out: Out<'_>, a: In<'_>, b: In<'_>, scale: Scale<'_>) -> Result<(), MatmulError> {
    let checked = Checked::new(out, a, b, scale)?;
    // SAFETY: operands apart, aligned and of one dtype; an addend is the result itself or apart.
    unsafe { gemm(checked.dtype, checked.a, checked.b, checked.out, checked.scaling) }
}

/// [`product`] for each matrix of a batch, the first dimension.
///
/// # Errors
/// As for [`product`].
pub fn products(out: Out<'_>, a: In<'_>, b: In<'_>, scale: Scale<'_>) -> Result<(), MatmulError> {
    let batch = |sizes: &[i64]| (sizes.len() == 3).then(|| sizes[0] as usize);
    let n = batch(out.sizes());
    let addend = scale.addend.map(|(_, t)| t);
    let fits =
        n.is_some() && [Some(a), Some(b), addend].iter().flatten().all(|t| batch(t.sizes()) == n);
    operand::ask("bmm", fits, "batches of matrices, as many of each")?;
    let steps = [a.strides()[0], b.strides()[0], out.strides()[0]].map(|s| s as isize);
    let addend_step = addend.map_or(0, |t| t.strides()[0] as isize);
    let checked = Checked::new(out, a, b, scale)?;
    // SAFETY: as in `product`, for each matrix.
    unsafe {
        bmm(
            checked.dtype,
            n.unwrap_or(0),
            (checked.a, steps[0]),
            (checked.b, steps[1]),
            (checked.out, steps[2]),
            checked.scaling,
            addend_step,
        )
    }
}

/// The operands of a product as raw matrices.
struct Checked {
    dtype: DType,
    a: MatRef,
    b: MatRef,
    out: MatMut,
    scaling: Scaling,
}

impl Checked {
    // in line: what it gives is larger than what it costs
    #[inline(always)]
    fn new(out: Out<'_>, a: In<'_>, b: In<'_>, scale: Scale<'_>) -> Result<Checked, MatmulError> {
        const NAME: &str = "a matrix product";
        operand::apart(NAME, &[a, b])?;
        let (out, a, b) = (out.raw(), a.raw(), b.raw());
        let addend = scale.addend.map(|(beta, t)| (beta, t.raw()));
        let check = |t: &Strided<'_>| {
            operand::same_dtype(NAME, &[&out, t])?;
            operand::ask(NAME, t.sizes.len() <= 3, "matrices")?;
            operand::ask(NAME, t.is_aligned(), "aligned elements")
        };
        [&out, &a, &b].into_iter().try_for_each(check)?;
        if let Some((_, t)) = &addend {
            check(t)?;
        }
        let mat = |t: &Strided<'_>| {
            let at = |from_end: usize, of: &[i64], other: i64| {
                let i = of.len().checked_sub(from_end);
                i.map_or(other, |i| of[i])
            };
            // a vector is a column
            let (rows, cols) = match t.sizes.len() {
                0 | 1 => ((at(1, t.sizes, 1), at(1, t.strides, 1)), (1, 1)),
                _ => (
                    (at(2, t.sizes, 1), at(2, t.strides, 1)),
                    (at(1, t.sizes, 1), at(1, t.strides, 1)),
                ),
            };
            MatRef::new(
                t.ptr,
                (rows.0 as usize, cols.0 as usize),
                (rows.1 as isize, cols.1 as isize),
            )
        };
        let (mut left, mut right) = (mat(&a), mat(&b));
        let to = mat(&out);
        if scale.unread {
            (left.cols, right.rows) = (0, 0);
        }
        Ok(Checked {
            dtype: out.dtype,
            a: left,
            b: right,
            out: MatMut::new(out.ptr, (to.rows, to.cols), (to.row_stride, to.col_stride)),
            scaling: Scaling {
                alpha: scale.alpha,
                addend: addend.map(|(beta, t)| (beta, mat(&t))),
            },
        })
    }
}

/// Whether a product is zeros, if anything: PyTorch gives that of truth values too, which it does
/// not multiply.
fn multiplies_nothing(a: MatRef, out: MatMut, scaling: &Scaling) -> bool {
    out.rows == 0 || out.cols == 0 || (a.cols == 0 && scaling.addend.is_none())
}

/// A view repeated along a batch dimension: the first matrix and the distance to the next, in
/// elements.
pub type Batched<M> = (M, isize);

/// `out[i] = beta * addend[i] + alpha * (a[i] @ b[i])` for `i` in `0..batch`.
///
/// The addend inside `scaling` is the one of the first matrix; `addend_stride` leads to the next.
///
/// # Safety
///
/// As [`gemm()`], for each matrix of the batch; the results of different matrices must not overlap.
pub unsafe fn bmm(
    dtype: DType,
    batch: usize,
    a: Batched<MatRef>,
    b: Batched<MatRef>,
    out: Batched<MatMut>,
    scaling: Scaling,
    addend_stride: isize,
) -> Result<(), MatmulError> {
    check(a.0, b.0, out.0, &scaling)?;
    if dtype == DType::Bool && batch > 0 && !multiplies_nothing(a.0, out.0, &scaling) {
        return Err(MatmulError::DType { dtype });
    }
    let step = |i: usize, stride: isize| i as isize * stride * dtype.size() as isize;
    let one = |i: usize| {
        let addend =
            scaling.addend.map(|(beta, mat)| (beta, mat.offset::<u8>(step(i, addend_stride))));
        // SAFETY: the caller's contract for matrix `i`.
        let result = unsafe {
            gemm(
                dtype,
                a.0.offset::<u8>(step(i, a.1)),
                b.0.offset::<u8>(step(i, b.1)),
                out.0.offset::<u8>(step(i, out.1)),
                Scaling { addend, ..scaling },
            )
        };
        debug_assert!(result.is_ok(), "sizes and dtype were checked");
    };
    let (m, n, k) = (out.0.rows, out.0.cols, a.0.cols);
    let (each, least) = match dtype {
        DType::BF16 if pairs::kernels().is_some() => (pairs::estimate(m, n, k), PARALLEL_NS),
        _ => (work(m, n, k), PARALLEL_WORK),
    };
    // A product that is worth splitting by itself is split inside.
    if each.saturating_mul(batch) < least || each >= least {
        (0..batch).for_each(one);
    } else {
        let grain = (least / 2).div_ceil(each.max(1));
        crate::cpu::threads::parallel_ranges(batch, grain, &|begin, end| {
            (begin..end).for_each(one)
        });
    }
    Ok(())
}

/// A row-major slice with its rows and columns, for [`matmul_slices`].
pub type Dense<'a, T> = (&'a [T], usize, usize);

/// The safe form for dense row-major data: `a @ b`.
///
/// ```
/// use straightline_runtime::cpu::kernels::matmul::matmul_slices;
/// let product = matmul_slices((&[1.0f32, 2.0], 1, 2), (&[3.0, 4.0], 2, 1)).unwrap();
/// assert_eq!(product, [11.0]);
/// ```
///
/// # Panics
///
/// If a slice is shorter than its sizes say.
pub fn matmul_slices<T: MatElement>(
    a: Dense<'_, T>,
    b: Dense<'_, T>,
) -> Result<Vec<T>, MatmulError> {
    for (slice, rows, cols) in [a, b] {
        assert!(rows.checked_mul(cols).is_some_and(|len| len <= slice.len()));
    }
    let mut out = Vec::<T>::with_capacity(a.1 * b.2);
    // SAFETY: the slices cover their sizes, `out` has room for a dense result and is new; gemm
    // writes all of it.
    unsafe {
        gemm(
            T::DTYPE,
            MatRef::row_major(a.0.as_ptr().cast(), a.1, a.2),
            MatRef::row_major(b.0.as_ptr().cast(), b.1, b.2),
            MatMut::row_major(out.as_mut_ptr().cast(), a.1, b.2),
            Scaling::default(),
        )?;
        out.set_len(a.1 * b.2);
    }
    Ok(out)
}

fn check(a: MatRef, b: MatRef, out: MatMut, scaling: &Scaling) -> Result<(), MatmulError> {
    if a.cols != b.rows || a.rows != out.rows || b.cols != out.cols {
        return Err(MatmulError::Shape {
            a: (a.rows, a.cols),
            b: (b.rows, b.cols),
            out: (out.rows, out.cols),
        });
    }
    match scaling.addend {
        Some((_, mat)) if (mat.rows, mat.cols) != (out.rows, out.cols) => {
            Err(MatmulError::Addend { addend: (mat.rows, mat.cols), out: (out.rows, out.cols) })
        }
        _ => Ok(()),
    }
}
