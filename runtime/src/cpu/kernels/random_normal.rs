//! Normal numbers, as PyTorch's CPU kernel makes them.
//!
//! A row-major output of 16 elements or more is filled in blocks of 16: eight lengths, then eight
//! angles, give eight cosines and eight sines, in the output's arithmetic, on vectors. If the size
//! is not a multiple of 16, the last 16 elements are drawn again. Everything else takes single
//! numbers of [`Stream::normal`], in the order of memory.

use super::integer::{B_IS_SCALAR, Row1, Row2};
use super::random::{self, Made, PIECE};
use super::{KernelError, Strided, float};
use crate::cpu::kernels::operand::Out;
use crate::rng::{Stream, join, unit_f32, unit_f64};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, UnaryOp};

const BLOCK: usize = 16;
const HALF: usize = BLOCK / 2;

/// The type that blocks are made in, with the uniform number that it takes of the stream.
trait Real: Made {
    const MINUS_TWO: Self;
    fn uniform(words: &mut [u32], stream: &mut Stream, out: &mut [Self]);
    fn one_minus(self) -> Self;
    /// `2 pi x`; the factor is an `f64` where `f32` stands for a half type.
    fn angle(self, half: bool) -> Self;
}

impl Real for f32 {
    const MINUS_TWO: f32 = -2.0;

    fn uniform(words: &mut [u32], stream: &mut Stream, out: &mut [f32]) {
        let words = &mut words[..out.len()];
        stream.fill(words);
        for (x, word) in out.iter_mut().zip(words) {
            *x = unit_f32(*word);
        }
    }

    fn one_minus(self) -> f32 {
        1.0 - self
    }

    fn angle(self, half: bool) -> f32 {
        if half {
            (std::f64::consts::TAU * f64::from(self)) as f32
        } else {
            std::f32::consts::TAU * self
        }
    }
}

impl Real for f64 {
    const MINUS_TWO: f64 = -2.0;

    fn uniform(words: &mut [u32], stream: &mut Stream, out: &mut [f64]) {
        let words = &mut words[..2 * out.len()];
        stream.fill(words);
        for (x, pair) in out.iter_mut().zip(words.chunks_exact(2)) {
            *x = unit_f64(join(pair[0], pair[1]));
        }
    }

    fn one_minus(self) -> f64 {
        1.0 - self
    }

    fn angle(self, _half: bool) -> f64 {
        std::f64::consts::TAU * self
    }
}

/// The float rows that Box-Muller needs.
struct BoxMuller {
    log: Row1,
    sqrt: Row1,
    sin: Row1,
    cos: Row1,
    mul: Row2,
    add: Row2,
    /// Whether the result is rounded to a half type.
    half: bool,
}

impl BoxMuller {
    fn new(dtype: DType) -> Option<BoxMuller> {
        let made = dtype.opmath();
        Some(BoxMuller {
            log: float::unary_row(UnaryOp::Log, made)?,
            sqrt: float::unary_row(UnaryOp::Sqrt, made)?,
            sin: float::unary_row(UnaryOp::Sin, made)?,
            cos: float::unary_row(UnaryOp::Cos, made)?,
            mul: float::binary_row(BinaryOp::Mul, made)?,
            add: float::binary_row(BinaryOp::Add, made)?,
            half: made != dtype,
        })
    }

    /// Turns blocks of uniform numbers into blocks of normal ones.
    fn run<T: Real>(&self, x: &mut [T], mean: T, std: T) {
        let n = x.len() / 2;
        debug_assert!(n <= PIECE / 2 && x.len().is_multiple_of(BLOCK));
        let (mut lengths, mut sines, mut cosines) =
            ([T::default(); PIECE / 2], [T::default(); PIECE / 2], [T::default(); PIECE / 2]);
        let blocks = || (0..x.len() / BLOCK).map(|b| (b * BLOCK, b * HALF));
        for (from, to) in blocks() {
            for i in 0..HALF {
                // the logarithm must not meet 0
                lengths[to + i] = x[from + i].one_minus();
                cosines[to + i] = x[from + HALF + i].angle(self.half);
            }
        }
        let one = |x: &T| std::ptr::from_ref(x).cast::<u8>();
        let l = lengths.as_mut_ptr().cast::<u8>();
        let s = sines.as_mut_ptr().cast::<u8>();
        let c = cosines.as_mut_ptr().cast::<u8>();
        // SAFETY: all arrays have n elements of the rows' type, the constants one.
        unsafe {
            (self.log)(l, l, n);
            (self.mul)(l, l, one(&T::MINUS_TWO), n, B_IS_SCALAR);
            (self.sqrt)(l, l, n);
            (self.sin)(s, c, n);
            (self.cos)(c, c, n);
            for x in [s, c] {
                (self.mul)(x, x, l, n, 0);
                (self.mul)(x, x, one(&std), n, B_IS_SCALAR);
                (self.add)(x, x, one(&mean), n, B_IS_SCALAR);
            }
        }
        for (to, from) in blocks().collect::<smallvec::SmallVec<[_; PIECE / BLOCK]>>() {
            x[to..to + HALF].copy_from_slice(&cosines[from..from + HALF]);
            x[to + HALF..to + BLOCK].copy_from_slice(&sines[from..from + HALF]);
        }
    }
}

/// Normal numbers; half types are rounded from `f32`. Without `blocks`, row-major outputs are drawn
/// like others.
///
/// # Errors
/// A dtype that is not floating-point.
pub fn normal(
    out: Out<'_>,
    stream: &mut Stream,
    mean: f64,
    std: f64,
    blocks: bool,
) -> Result<(), KernelError> {
    let out = out.raw();
    let unsupported = || KernelError::unsupported("normal", out.dtype);
    if !out.dtype.is_floating() {
        return Err(unsupported());
    }
    if out.numel() < BLOCK || !out.is_contiguous() || !blocks {
        // SAFETY: as promised by the caller.
        unsafe { random::draw(out, stream, |stream| stream.normal() * std + mean) };
        return Ok(());
    }
    let rows = BoxMuller::new(out.dtype).ok_or_else(unsupported)?;
    // SAFETY: as promised by the caller; the output is row-major and long enough.
    unsafe {
        if out.dtype == DType::F64 {
            fill_blocks(out, stream, &rows, mean, std);
        } else {
            fill_blocks(out, stream, &rows, mean as f32, std as f32);
        }
    }
    Ok(())
}

/// # Safety
///
/// The output is row-major, has 16 elements or more, and may be written.
unsafe fn fill_blocks<T: Real>(
    out: Strided<'_>,
    stream: &mut Stream,
    rows: &BoxMuller,
    mean: T,
    std: T,
) {
    let (dtype, size, n) = (out.dtype, out.dtype.size(), out.numel());
    let mut words = [0u32; 2 * PIECE];
    let mut x = [T::default(); PIECE];
    let whole = n / BLOCK * BLOCK;
    let mut at = 0;
    while at < whole {
        let piece = &mut x[..PIECE.min(whole - at)];
        T::uniform(&mut words, stream, piece);
        rows.run(piece, mean, std);
        // SAFETY: elements `at..` of `out`, as many as the piece has.
        unsafe { random::put(out.ptr.wrapping_add(at * size), dtype, piece) };
        at += piece.len();
    }
    if whole < n {
        if !rows.half {
            // all elements took a uniform number before the last block is drawn; halves are made
            // block by block
            T::uniform(&mut words, stream, &mut x[..n - whole]);
        }
        let piece = &mut x[..BLOCK];
        T::uniform(&mut words, stream, piece);
        rows.run(piece, mean, std);
        // SAFETY: the last 16 elements.
        unsafe { random::put(out.ptr.wrapping_add((n - BLOCK) * size), dtype, piece) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Data;
    use super::*;

    #[test]
    fn normal_numbers_have_their_moments() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for (sizes, strides) in [([201, 100], [100, 1]), ([201, 100], [1, 201])] {
                let mut z = Data::new(dtype, &sizes, &strides);
                normal(z.out(), &mut Stream::mt19937(4), 5.0, 2.0, true).unwrap();
                let x: Vec<f64> = z.values().iter().map(|x| x.as_f64()).collect();
                let n = x.len() as f64;
                let mean = x.iter().sum::<f64>() / n;
                let var = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                assert!((mean - 5.0).abs() < 0.06, "{dtype} {mean}");
                assert!((var - 4.0).abs() < 0.15, "{dtype} {var}");
                let within = x.iter().filter(|v| (*v - 5.0).abs() < 2.0).count() as f64 / n;
                assert!((within - 0.6827).abs() < 0.02, "{dtype} {within}");
            }
        }
    }
}
