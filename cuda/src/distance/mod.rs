//! Distances between the rows of two matrices, or of one, in any norm, and their gradients.

use crate::driver::{Argument, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const KERNELS: [&str; 4] = ["pairs", "pairs_gradient", "among", "among_gradient"];

/// Matrices without gaps, one after another: of `rows` rows each, and, where there are two, of `cols` rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pairs {
    /// Of all tensors.
    pub dtype: DType,
    /// How many pairs of matrices; 1 for the distances within one.
    pub batch: i64,
    /// Rows of the first ones.
    pub rows: i64,
    /// Rows of the second ones.
    pub cols: i64,
    /// Elements of a row.
    pub width: i64,
    /// The norm: `p` of `(sum of |x - y|^p)^(1/p)`.
    pub p: f64,
}

/// Whether there are kernels for a dtype.
///
/// ```
/// use straightline_cuda::distance::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::F16) && !computes(DType::I64));
/// ```
pub fn computes(dtype: DType) -> bool {
    dtype.is_floating() && elements::head(dtype).is_some()
}

/// What is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// The distance of each row of the first matrix to each of the second: of `x` and `y`, to the results.
    Pairs,
    /// The gradient of that by the first matrix: of the distances' gradient, `x`, `y` and the distances.
    PairsGradient,
    /// The distances of the rows of one matrix, row 0 to 1, 2, ..., row 1 to 2, ...: of `x`.
    Among,
    /// The gradient of that: of the distances' gradient, `x` and the distances.
    AmongGradient,
}

/// Queues an operation; the last address is the result's.
///
/// # Safety
///
/// There are as many addresses as the operation has operands, and one more. They lead to so many elements, memory
/// of the stream's device until it has come so far; nothing overlaps the results.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`computes`] says no.
pub unsafe fn run(
    stream: &Stream,
    operation: Operation,
    s: &Pairs,
    addresses: &[u64],
) -> Result<(), ProgramError> {
    let (kernel, count) = match operation {
        Operation::Pairs => (0, s.batch * s.rows * s.cols),
        Operation::PairsGradient => (1, s.batch * s.rows * s.width),
        Operation::Among => (2, s.rows * s.rows),
        Operation::AmongGradient => (3, s.rows * s.width),
    };
    if count == 0 {
        return Ok(());
    }
    let head = elements::head(s.dtype).expect("the dtype is computed with here");
    let text = format!("{head}{}", include_str!("distance.cu"));
    let functions = programs::functions(stream.device(), &text, &KERNELS)?;
    let norm = match s.p {
        0.0 => 0,
        1.0 => 1,
        2.0 => 2,
        f64::INFINITY => 3,
        _ => 4,
    };
    let numbers = [s.batch, s.rows, s.cols, s.width, norm, s.p.to_bits() as i64];
    let mut arguments: Vec<_> = addresses.iter().map(|a| Argument::Pointer(*a)).collect();
    arguments.push(Argument::Numbers(&numbers));
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[kernel].launch(stream, elements::launch(count), &arguments) }?;
    Ok(())
}
