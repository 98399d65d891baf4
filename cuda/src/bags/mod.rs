//! Bags of rows of a table, as embeddings have them, and what comes back to the rows.

use crate::driver::{Argument, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const KERNELS: [&str; 2] = ["bags", "shares"];

/// How the rows of a bag become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Added.
    Sum,
    /// Added and divided by how many they are.
    Mean,
    /// The largest of each column.
    Max,
}

/// Bags over a table without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bags {
    /// Of the table, the factors and the results.
    pub dtype: DType,
    /// How.
    pub mode: Mode,
    /// How many bags.
    pub count: i64,
    /// How many samples in all of them.
    pub samples: i64,
    /// Elements of a row.
    pub width: i64,
    /// A row that does not count; none if negative.
    pub padding: i64,
}

/// Whether there are kernels for a dtype.
///
/// ```
/// use straightline_cuda::bags::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::F16) && !computes(DType::I64));
/// ```
pub fn computes(dtype: DType) -> bool {
    dtype.is_floating() && elements::head(dtype).is_some()
}

/// # Safety
///
/// As for [`bags`] and [`shares`].
unsafe fn launch(
    stream: &Stream,
    b: &Bags,
    kernel: usize,
    count: i64,
    addresses: &[u64],
) -> Result<(), ProgramError> {
    if count == 0 {
        return Ok(());
    }
    let head = elements::head(b.dtype).expect("the dtype is computed with here");
    let text = format!("{head}{}", include_str!("bags.cu"));
    let functions = programs::functions(stream.device(), &text, &KERNELS)?;
    let numbers = [b.count, b.width, b.mode as i64, b.padding, b.samples];
    let mut arguments: Vec<_> = addresses.iter().map(|a| Argument::Pointer(*a)).collect();
    arguments.push(Argument::Numbers(&numbers));
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[kernel].launch(stream, elements::launch(count), &arguments) }?;
    Ok(())
}

/// Queues the bags: of the table, the row of each sample, the first sample of each bag and the end of the last one,
/// a factor for each sample (or 0), to the results, how many rows count in each bag (or 0) and which row each element
/// of a largest one is of (or 0). All numbers are of `i64`.
///
/// # Safety
///
/// The addresses lead to so many elements, memory of the stream's device until it has come so far; the rows are in
/// the table; nothing overlaps the results.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`computes`] says no.
pub unsafe fn bags(stream: &Stream, b: &Bags, addresses: [u64; 7]) -> Result<(), ProgramError> {
    // SAFETY: the caller's contract.
    unsafe { launch(stream, b, 0, b.count * b.width, &addresses) }
}

/// Queues what comes of the bags' gradient to the row of each sample: of the gradient, the bag of each sample, how many
/// rows count in each bag, a factor for each sample (or 0), and how often the row of each sample is used (or 0), to a
/// row for each sample.
///
/// # Safety
///
/// As for [`bags`]; the bags are those of the gradient.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`computes`] says no.
pub unsafe fn shares(stream: &Stream, b: &Bags, addresses: [u64; 6]) -> Result<(), ProgramError> {
    // SAFETY: the caller's contract.
    unsafe { launch(stream, b, 1, b.samples * b.width, &addresses) }
}
