//! Sparse arithmetic: runs of equal coordinates, scatters of rows, compressed rows times dense.
//!
//! Values are blocks: `width` elements side by side belong to one coordinate (a hybrid tensor's
//! dense dimensions; 1 for most). Terms of one result are added in the order in which they are
//! stored, so results never depend on the split among threads.

use super::KernelError;
use super::integer::Bool8;
use super::operand::{self, In, Out, ask};
use crate::cpu::threads;
use half::{bf16, f16};
use std::ops::Range;
use straightline_passes::ir::{DType, Scalar};

/// Multiplications of a product below which one thread does it.
const PARALLEL_WORK: usize = 1 << 16;

/// What sparse arithmetic asks of an element.
trait Element: operand::Element {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn is_zero(self) -> bool;
    fn of(s: Scalar) -> Self;
}

macro_rules! element {
    ($($t:ty: $plus:expr, $times:expr, $zero:expr, $of:expr;)*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self { let f: fn($t, $t) -> $t = $plus; f(self, other) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { let f: fn($t, $t) -> $t = $times; f(self, other) }
            #[inline(always)]
            fn is_zero(self) -> bool { let f: fn($t) -> bool = $zero; f(self) }
            fn of(s: Scalar) -> Self { let f: fn(Scalar) -> $t = $of; f(s) }
        }
    )*};
}
element! {
    f32: |a, b| a + b, |a, b| a * b, |a| a == 0.0, |s| s.as_f64() as f32;
    f64: |a, b| a + b, |a, b| a * b, |a| a == 0.0, |s| s.as_f64();
    f16: |a, b| f16::from_f32(a.to_f32() + b.to_f32()), |a, b| f16::from_f32(a.to_f32() * b.to_f32()),
        |a| a.to_f32() == 0.0, |s| f16::from_f32(s.as_f64() as f32);
    bf16: |a, b| bf16::from_f32(a.to_f32() + b.to_f32()), |a, b| bf16::from_f32(a.to_f32() * b.to_f32()),
        |a| a.to_f32() == 0.0, |s| bf16::from_f32(s.as_f64() as f32);
    u8: u8::wrapping_add, u8::wrapping_mul, |a| a == 0, |s| s.as_i64() as u8;
    i8: i8::wrapping_add, i8::wrapping_mul, |a| a == 0, |s| s.as_i64() as i8;
    i16: i16::wrapping_add, i16::wrapping_mul, |a| a == 0, |s| s.as_i64() as i16;
    i32: i32::wrapping_add, i32::wrapping_mul, |a| a == 0, |s| s.as_i64() as i32;
    i64: i64::wrapping_add, i64::wrapping_mul, |a| a == 0, |s| s.as_i64();
    Bool8: |a, b| Bool8::new(a.get() | b.get()), |a, b| Bool8::new(a.get() & b.get()), |a| !a.get(),
        |s| Bool8::new(s.as_bool());
}

macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $t = f32;
                $body
            }
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::F16 => {
                type $t = f16;
                $body
            }
            DType::BF16 => {
                type $t = bf16;
                $body
            }
            DType::U8 => {
                type $t = u8;
                $body
            }
            DType::I8 => {
                type $t = i8;
                $body
            }
            DType::I16 => {
                type $t = i16;
                $body
            }
            DType::I32 => {
                type $t = i32;
                $body
            }
            DType::I64 => {
                type $t = i64;
                $body
            }
            DType::Bool => {
                type $t = Bool8;
                $body
            }
            d @ (DType::C64 | DType::C128 | DType::QInt8 | DType::QUInt8 | DType::QInt32) => {
                return Err(KernelError::unsupported("sparse arithmetic", d));
            }
        }
    };
}

/// Coordinates in order, and where each run of equal ones begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runs {
    /// Positions, sorted by coordinate; equal coordinates stay in the order in which they are
    /// stored.
    pub order: Vec<usize>,
    /// The position in `order` at which each run begins, and at last the number of positions.
    pub starts: Vec<usize>,
}

impl Runs {
    /// The number of different coordinates.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no coordinates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The positions of a run.
    pub fn run(&self, i: usize) -> &[usize] {
        &self.order[self.starts[i]..self.starts[i + 1]]
    }
}

/// The row-major number of each coordinate. `indices` has one row of `nnz` for each of `sizes`.
pub fn linear(indices: &[i64], sizes: &[i64], nnz: usize) -> Vec<i64> {
    let mut out = vec![0i64; nnz];
    for (d, size) in sizes.iter().enumerate() {
        let row = &indices[d * nnz..(d + 1) * nnz];
        for (o, i) in out.iter_mut().zip(row) {
            *o = *o * size + i;
        }
    }
    out
}

/// Sorts coordinates by their row-major numbers.
pub fn runs(linear: &[i64]) -> Runs {
    let mut order: Vec<usize> = (0..linear.len()).collect();
    if !linear.is_sorted() {
        order.sort_by_key(|i| linear[*i]);
    }
    let mut starts: Vec<usize> = (0..order.len())
        .filter(|i| *i == 0 || linear[order[*i]] != linear[order[*i - 1]])
        .collect();
    starts.push(order.len());
    Runs { order, starts }
}

/// The begin of each row, from the row of each element (`rows` elements, not sorted): a counting
/// sort. Gives the positions by row as well.
///
/// # Errors
///
/// A row that is not below `rows`.
pub fn by_row(row_of: &[i64], rows: usize) -> Result<(Vec<i64>, Vec<usize>), KernelError> {
    let mut begin = vec![0i64; rows + 1];
    for r in row_of {
        check_index(*r, rows)?;
        begin[*r as usize + 1] += 1;
    }
    for r in 0..rows {
        begin[r + 1] += begin[r];
    }
    let mut next = begin.clone();
    let mut order = vec![0usize; row_of.len()];
    for (i, r) in row_of.iter().enumerate() {
        let at = &mut next[*r as usize];
        order[*at as usize] = i;
        *at += 1;
    }
    Ok((begin, order))
}

/// A row-major operand has this number of blocks.
fn has_blocks(len: usize, blocks: usize, width: usize) -> Result<(), KernelError> {
    let fits = blocks.checked_mul(width) == Some(len);
    ask("sparse arithmetic", fits, "blocks as wide as the others")
}

fn check_index(index: i64, size: usize) -> Result<(), KernelError> {
    if (0..size as i64).contains(&index) {
        return Ok(());
    }
    Err(KernelError::IndexOutOfRange { index, size: size as i64 })
}

/// `out[r] = sum of values[i] for i in run r`, in blocks of `width`.
///
/// # Errors
///
/// `out` does not have a block for each run, or `values` one for each position; they are not
/// row-major, or not of one dtype.
pub fn sum_runs(
    out: Out<'_>,
    values: In<'_>,
    width: usize,
    runs: &Runs,
) -> Result<(), KernelError> {
    with_element!(out.dtype(), T => {
        let (out, values) = (out.slice::<T>()?, values.slice::<T>()?);
        has_blocks(out.len(), runs.len(), width)?;
        has_blocks(values.len(), runs.order.len(), width)?;
        for r in 0..runs.len() {
            let to = &mut out[r * width..(r + 1) * width];
            let (first, rest) = runs.run(r).split_first().expect("a run has an element");
            to.copy_from_slice(&values[first * width..(first + 1) * width]);
            for i in rest {
                for (o, v) in to.iter_mut().zip(&values[i * width..]) {
                    *o = o.plus(*v);
                }
            }
        }
    });
    Ok(())
}

/// `out[at[i]] += alpha * values[i]`, in blocks of `width`, one after another.
///
/// `out` comes with the number of its blocks.
///
/// # Errors
///
/// A position that is not below that number; operands that do not have as many blocks, are not
/// row-major, or not of one dtype.
pub fn scatter_add(
    out: (Out<'_>, usize),
    values: In<'_>,
    width: usize,
    at: &[i64],
    alpha: Scalar,
) -> Result<(), KernelError> {
    let (out, blocks) = out;
    with_element!(out.dtype(), T => {
        let (out, values) = (out.slice::<T>()?, values.slice::<T>()?);
        has_blocks(out.len(), blocks, width)?;
        has_blocks(values.len(), at.len(), width)?;
        let one = matches!(alpha, Scalar::Int(1));
        let alpha = T::of(alpha);
        for (i, index) in at.iter().enumerate() {
            check_index(*index, blocks)?;
            let block = *index as usize;
            let to = &mut out[block * width..(block + 1) * width];
            for (o, v) in to.iter_mut().zip(&values[i * width..]) {
                *o = o.plus(if one { *v } else { alpha.times(*v) });
            }
        }
    });
    Ok(())
}

/// The blocks of `width` that are not all zero. NaN is not zero; -0.0 is.
///
/// # Errors
///
/// Values that are not row-major.
pub fn nonzero(values: In<'_>, width: usize) -> Result<Vec<i64>, KernelError> {
    with_element!(values.dtype(), T => {
        if width == 0 {
            return Ok(Vec::new());
        }
        Ok(values
            .slice::<T>()?
            .chunks_exact(width)
            .enumerate()
            .filter(|(_, block)| block.iter().any(|v| !v.is_zero()))
            .map(|(i, _)| i as i64)
            .collect())
    })
}

/// A sparse matrix in compressed rows: the elements of row `r` are `begin[r]..begin[r + 1]`.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Where each row begins, and at last the number of elements.
    pub begin: &'a [i64],
    /// The column of each element.
    pub columns: &'a [i64],
    /// Where the elements of the rows are stored, if not in their own order.
    pub order: Option<&'a [usize]>,
    /// The elements.
    pub values: In<'a>,
}

/// The right side of a product: its first element, columns, and strides in elements.
struct Dense {
    ptr: *const u8,
    columns: usize,
    strides: (usize, usize),
}

/// What threads share.
struct Job<'a> {
    a: Rows<'a>,
    values: *const u8,
    b: Dense,
    out: *mut u8,
}

// SAFETY: threads read `a` and `b` and write disjoint rows of `out`.
unsafe impl Sync for Job<'_> {}

/// `out += alpha * a @ b`: compressed rows times a dense matrix. `out` is row-major.
///
/// # Errors
///
/// A column that `b` has no row for; row bounds that do not rise or lead past the end; operands
/// that are no matrices of these sizes, or not of one dtype.
pub fn matmul(out: Out<'_>, a: Rows<'_>, b: In<'_>, alpha: Scalar) -> Result<(), KernelError> {
    const NAME: &str = "a sparse product";
    operand::apart(NAME, &[a.values, b])?;
    let (b, values) = (b.raw(), a.values.raw());
    operand::same_dtype(NAME, &[&out.raw(), &values, &b])?;
    let rows = a.begin.len().saturating_sub(1);
    let [height, columns] = *b.sizes else {
        return Err(KernelError::operands(NAME, "a matrix on the right"));
    };
    let order = a.order.unwrap_or_default();
    let count = a.columns.len();
    let fits = out.sizes() == [rows as i64, columns]
        && values.numel() == count
        && (a.order.is_none() || order.len() == count)
        && order.iter().all(|at| *at < count);
    ask(NAME, fits, "a value for each column, and a row for each bound")?;
    for column in a.columns {
        check_index(*column, height as usize)?;
    }
    let dtype = out.dtype();
    ask(NAME, b.is_aligned(), "aligned elements")?;
    let b = Dense {
        ptr: b.ptr.cast_const(),
        columns: columns as usize,
        strides: (b.strides[0] as usize, b.strides[1] as usize),
    };
    let mut last = 0;
    for begin in a.begin {
        if *begin < last {
            return Err(KernelError::IndexOutOfRange { index: *begin, size: last });
        }
        last = *begin;
    }
    check_index(last, a.columns.len() + 1)?;
    let work = a.columns.len() * b.columns;
    with_element!(dtype, T => {
        let job = Job {
            a,
            values: a.values.slice::<T>()?.as_ptr().cast(),
            b,
            out: out.slice::<T>()?.as_mut_ptr().cast(),
        };
        let alpha = match alpha {
            Scalar::Int(1) => None,
            other => Some(T::of(other)),
        };
        let some = |begin: usize, end: usize| {
            // SAFETY: sizes, bounds and columns are checked; ranges of rows are disjoint.
            unsafe { some_rows::<T>(&job, begin..end, alpha) };
        };
        if work < PARALLEL_WORK {
            some(0, rows);
        } else {
            threads::parallel_ranges(rows, (rows * (PARALLEL_WORK / 2)).div_ceil(work).max(1), &some);
        }
    });
    Ok(())
}

/// # Safety
///
/// As [`matmul`]; columns are in range.
unsafe fn some_rows<T: Element>(job: &Job<'_>, rows: Range<usize>, alpha: Option<T>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        unsafe fn wide<T: Element>(job: &Job<'_>, rows: Range<usize>, alpha: Option<T>) {
            // SAFETY: the caller's.
            unsafe { rows_body(job, rows, alpha) }
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2; the rest is the caller's.
            return unsafe { wide(job, rows, alpha) };
        }
    }
    // SAFETY: the caller's.
    unsafe { rows_body(job, rows, alpha) }
}

/// # Safety
///
/// As [`some_rows`].
#[inline(always)]
unsafe fn rows_body<T: Element>(job: &Job<'_>, rows: Range<usize>, alpha: Option<T>) {
    let Job { a, values, b, out } = job;
    let n = b.columns;
    for r in rows {
        // SAFETY: row r of out is ours alone, and n elements long.
        let to = unsafe { std::slice::from_raw_parts_mut(out.cast::<T>().add(r * n), n) };
        for e in a.begin[r]..a.begin[r + 1] {
            let at = a.order.map_or(e as usize, |o| o[e as usize]);
            // SAFETY: an element of the values.
            let mut v = unsafe { values.cast::<T>().add(at).read() };
            if let Some(alpha) = alpha {
                v = alpha.times(v);
            }
            let row = a.columns[at] as usize;
            // SAFETY: the column is a row of b.
            let from = unsafe { b.ptr.cast::<T>().add(row * b.strides.0) };
            if b.strides.1 == 1 {
                // SAFETY: the row's n elements lie side by side.
                let from = unsafe { std::slice::from_raw_parts(from, n) };
                for (o, x) in to.iter_mut().zip(from) {
                    *o = o.plus(v.times(*x));
                }
            } else {
                for (j, o) in to.iter_mut().enumerate() {
                    // SAFETY: an element of the row.
                    *o = o.plus(v.times(unsafe { from.add(j * b.strides.1).read() }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::operand::tests::{input, input_of, output, output_of};
    use super::*;

    #[test]
    fn equal_coordinates_are_summed_in_order() {
        // (0,1) (1,0) (0,1)
        let l = linear(&[0, 1, 0, 1, 0, 1], &[2, 2], 3);
        assert_eq!(l, [1, 2, 1]);
        let r = runs(&l);
        assert_eq!((&r.order[..], &r.starts[..]), (&[0, 2, 1][..], &[0, 2, 3][..]));
        let values = [1f32, 2.0, 4.0];
        let mut out = [0f32; 2];
        sum_runs(output(&mut out), input(&values), 1, &r).unwrap();
        assert_eq!(out, [5.0, 2.0]);
        assert!(runs(&[]).is_empty());
    }

    #[test]
    fn zero_is_minus_zero_and_not_nan() {
        let v = [0f64, -0.0, f64::NAN, 1.0];
        assert_eq!(nonzero(input(&v), 1).unwrap(), [2, 3]);
        assert_eq!(nonzero(input(&v), 2).unwrap(), [1]);
    }

    #[test]
    fn products_agree_with_the_definition_however_they_are_split() {
        for (m, k, n) in [(1, 1, 1), (3, 5, 4), (300, 64, 40)] {
            let keep = |r: usize, c: usize| (r * 7 + c * 3).is_multiple_of(5);
            let (mut begin, mut columns, mut values) = (vec![0i64], vec![], vec![]);
            for r in 0..m {
                for c in (0..k).filter(|c| keep(r, *c)) {
                    columns.push(c as i64);
                    values.push((r + c) as f32 * 0.5);
                }
                begin.push(columns.len() as i64);
            }
            let b: Vec<f32> = (0..k * n).map(|i| (i % 11) as f32).collect();
            let mut want = vec![1f32; m * n];
            for r in 0..m {
                for e in begin[r]..begin[r + 1] {
                    let c = columns[e as usize] as usize;
                    for j in 0..n {
                        want[r * n + j] += values[e as usize] * b[c * n + j];
                    }
                }
            }
            let transposed: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
            for (data, strides) in [(&b, [n, 1]), (&transposed, [1, k])] {
                let mut out = vec![1f32; m * n];
                let rows =
                    Rows { begin: &begin, columns: &columns, order: None, values: input(&values) };
                let to = output_of(&mut out, [m as i64, n as i64], [n as i64, 1]);
                let right = input_of(data, [k as i64, n as i64], strides.map(|s| s as i64));
                matmul(to, rows, right, Scalar::Int(1)).unwrap();
                assert_eq!(out, want);
            }
        }
    }

    #[test]
    fn an_index_out_of_range_is_an_error() {
        let (v, mut out) = ([1f32], [0f32; 2]);
        let e = scatter_add((output(&mut out), 2), input(&v), 1, &[2], Scalar::Int(1));
        assert_eq!(e, Err(KernelError::IndexOutOfRange { index: 2, size: 2 }));
    }
}
