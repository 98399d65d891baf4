//! Fourier transforms of rows of complex numbers.
//!
//! They are Stockham's, of any length: a stage for each factor, by which a prime factor is a sum of as many parts.

use crate::driver::{Argument, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const KERNELS: [&str; 2] = ["stage", "whole_of_half"];

/// Whether there are transforms of a dtype.
///
/// ```
/// use straightline_cuda::fourier::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::C64) && !computes(DType::F32));
/// ```
pub fn computes(dtype: DType) -> bool {
    matches!(dtype, DType::C64 | DType::C128)
}

/// Rows of complex numbers, one after another without gaps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rows {
    /// Of their elements.
    pub dtype: DType,
    /// How many there are.
    pub rows: i64,
    /// Elements of each.
    pub length: i64,
}

/// The factors of a length, of which each is a stage.
fn factors(length: i64) -> Vec<i64> {
    let (mut rest, mut all) = (length, Vec::new());
    for radix in [8, 4, 2] {
        while rest % radix == 0 {
            all.push(radix);
            rest /= radix;
        }
    }
    let mut radix = 3;
    while radix * radix <= rest {
        while rest % radix == 0 {
            all.push(radix);
            rest /= radix;
        }
        radix += 2;
    }
    if rest > 1 || all.is_empty() {
        all.push(rest);
    }
    all
}

fn text(dtype: DType) -> String {
    let real = if dtype == DType::C64 { "float" } else { "double" };
    format!("typedef {real} Real;\n{}", include_str!("fourier.cu"))
}

/// # Safety
///
/// As for [`transform`] and [`whole_of_half`].
unsafe fn launch(
    stream: &Stream,
    r: Rows,
    kernel: usize,
    [from, to]: [u64; 2],
    (done, radix, sign, scale): (i64, i64, f64, f64),
) -> Result<(), ProgramError> {
    if r.rows * r.length == 0 {
        return Ok(());
    }
    let functions = programs::functions(stream.device(), &text(r.dtype), &KERNELS)?;
    let (sign, scale) = (sign.to_bits() as i64, scale.to_bits() as i64);
    let numbers = [r.rows, r.length, done, radix, sign, scale];
    let arguments = [Argument::Pointer(from), Argument::Pointer(to), Argument::Numbers(&numbers)];
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[kernel].launch(stream, elements::launch(r.rows * r.length), &arguments) }?;
    Ok(())
}

/// Queues the transform of each row of `x`, times `scale`, to `y`: of a signal to its frequencies, or back.
///
/// # Safety
///
/// The addresses (of `x`, `y` and as much memory besides) lead to so many elements, memory of the stream's device until
/// it has come so far; none overlaps another.
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn transform(
    stream: &Stream,
    r: Rows,
    forward: bool,
    scale: f64,
    [x, y, scratch]: [u64; 3],
) -> Result<(), ProgramError> {
    let all = factors(r.length.max(1));
    let (mut from, mut done) = (x, 1);
    for (i, radix) in all.iter().enumerate() {
        // the last one goes to `y`
        let left = all.len() - 1 - i;
        let to = if left.is_multiple_of(2) { y } else { scratch };
        let scale = if left == 0 { scale } else { 1.0 };
        let sign = if forward { -1.0 } else { 1.0 };
        // SAFETY: the caller's contract.
        unsafe { launch(stream, r, 0, [from, to], (done, *radix, sign, scale)) }?;
        (from, done) = (to, done * radix);
    }
    Ok(())
}

/// Queues the rows of all frequencies, [`Rows::length`] of them, from rows of the first half, `length / 2 + 1`: the
/// others are conjugates of those, as of a real signal.
///
/// # Safety
///
/// As for [`transform`], of both addresses.
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn whole_of_half(
    stream: &Stream,
    r: Rows,
    addresses: [u64; 2],
) -> Result<(), ProgramError> {
    // SAFETY: the caller's contract.
    unsafe { launch(stream, r, 1, addresses, (1, 1, 1.0, 1.0)) }
}
