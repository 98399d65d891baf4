//! Factors of matrices and the equations that they solve, for matrices of any size that lie row by row.
//!
//! A block factors a matrix and a thread solves for a column: quick for many small matrices, and right for large ones.

use crate::driver::{Argument, Launch, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const THREADS: u32 = 256;
const BLOCKS: i64 = 1 << 30;
const KERNELS: [&str; 4] = ["cholesky", "lu", "triangular", "swaps"];

/// Whether there are kernels for a dtype.
///
/// ```
/// use straightline_cuda::factors::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::F64) && !computes(DType::F16));
/// ```
pub fn computes(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// Matrices, one after another without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matrices {
    /// Of their elements.
    pub dtype: DType,
    /// How many there are.
    pub batch: i64,
    /// Rows of each.
    pub rows: i64,
    /// Columns of each; of an equation, those of its right-hand side.
    pub cols: i64,
}

/// Which triangle of a square matrix an equation has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triangle {
    /// The upper one of what is solved, which is the transpose where it is transposed.
    pub upper: bool,
    /// Whether its diagonal is ones, whatever is there.
    pub unit: bool,
    /// Whether the matrix's transpose is solved.
    pub transposed: bool,
}

/// # Safety
///
/// As for the functions below.
unsafe fn launch(
    stream: &Stream,
    m: &Matrices,
    kernel: usize,
    addresses: &[u64],
    t: Triangle,
    launch: Launch,
) -> Result<(), ProgramError> {
    let head = elements::head(m.dtype).expect("the dtype is computed with here");
    let text = format!("{head}#define THREADS {THREADS}\n{}", include_str!("factors.cu"));
    let functions = programs::functions(stream.device(), &text, &KERNELS)?;
    let numbers = [m.batch, m.rows, m.cols, t.upper.into(), t.unit.into(), t.transposed.into()];
    let mut arguments: Vec<_> = addresses.iter().map(|a| Argument::Pointer(*a)).collect();
    arguments.push(Argument::Numbers(&numbers));
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[kernel].launch(stream, launch, &arguments) }?;
    Ok(())
}

const PLAIN: Triangle = Triangle { upper: false, unit: false, transposed: false };

fn block_each(batch: i64) -> Launch {
    let blocks = batch.clamp(1, BLOCKS) as u32;
    Launch { blocks: [blocks, 1, 1], threads: [THREADS, 1, 1], shared_bytes: 0 }
}

/// Queues the lower factor of Cholesky's in place of each square matrix, of which the lower triangle is read. `info` has
/// room for an `i32` each: 0, or the number of the first row that is none of a positive definite matrix.
///
/// # Safety
///
/// The addresses lead to so many elements, memory of the stream's device until it has come so far; none overlaps
/// another. So below.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`computes`] says no. So below.
pub unsafe fn cholesky(
    stream: &Stream,
    m: &Matrices,
    matrices: u64,
    info: u64,
) -> Result<(), ProgramError> {
    if m.batch == 0 {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    unsafe { launch(stream, m, 0, &[matrices, info], PLAIN, block_each(m.batch)) }
}

/// Queues both triangular factors in place of each matrix, by the largest pivot of each column. `pivots` (of `i32`, as many
/// for each as the shorter side has) say with which row, counted from 1, each row was swapped; `info` has an `i32` each: 0, or
/// the number of the first pivot that is 0.
///
/// # Safety
///
/// As for [`cholesky`].
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn lu(
    stream: &Stream,
    m: &Matrices,
    [matrices, pivots, info]: [u64; 3],
) -> Result<(), ProgramError> {
    if m.batch == 0 {
        return Ok(());
    }
    let addresses = [matrices, pivots, info];
    // SAFETY: the caller's contract.
    unsafe { launch(stream, m, 1, &addresses, PLAIN, block_each(m.batch)) }
}

/// Queues the solutions of equations in place of their right-hand sides: of square `matrices`, with [`Matrices::rows`] rows.
///
/// # Safety
///
/// As for [`cholesky`].
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn solve(
    stream: &Stream,
    m: &Matrices,
    t: Triangle,
    matrices: u64,
    sides: u64,
) -> Result<(), ProgramError> {
    let count = m.batch * m.cols;
    if count * m.rows == 0 {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    unsafe { launch(stream, m, 2, &[matrices, sides], t, elements::launch(count)) }
}

/// Queues the swaps of rows that the pivots of [`lu`] say, or, `back`, those that undo them.
///
/// # Safety
///
/// As for [`cholesky`].
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn swap_rows(
    stream: &Stream,
    m: &Matrices,
    back: bool,
    pivots: u64,
    sides: u64,
) -> Result<(), ProgramError> {
    let count = m.batch * m.cols;
    if count * m.rows == 0 {
        return Ok(());
    }
    let t = Triangle { transposed: back, ..PLAIN };
    // SAFETY: the caller's contract.
    unsafe { launch(stream, m, 3, &[pivots, sides], t, elements::launch(count)) }
}
