//! Fills with random numbers.
//!
//! Element `i` (in row-major order) takes its numbers from a fixed position of a [`Philox`] stream, and float functions
//! give the same bits on all vectors: the result depends on neither threads, strides nor machine. [`counters`] says how
//! far a fill moves the stream on.

use super::copy::copy;
use super::integer::{B_IS_SCALAR, Row1, Row2};
use super::nest::{self, Shared};
use super::{KernelError, Strided, float, half};
use crate::memory;
use crate::rng::Philox;
use smallvec::SmallVec;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, UnaryOp};

/// Elements made at a time; a multiple of the elements of a counter value.
pub(super) const PIECE: usize = 256;

/// How many 32-bit numbers an element takes.
fn words(dtype: DType) -> usize {
    if dtype == DType::F64 { 2 } else { 1 }
}

/// The counter values that [`uniform`], [`normal`] and [`bernoulli`] of `n` elements use up; the next fill starts that
/// much further. [`randint`] takes two words an element when the range needs more than 32 bits.
pub fn counters(dtype: DType, n: usize) -> u64 {
    counters_of_words(n, words(dtype))
}

fn counters_of_words(n: usize, words: usize) -> u64 {
    // whole blocks of pairs, so that a normal's partner is never cut off
    ((n as u64).next_multiple_of(2) * words as u64).div_ceil(4)
}

/// Runs `make(words, piece, n)` over pieces of a contiguous output of this element size (a temporary when the output is
/// strided).
pub(super) fn generate(
    out: Strided<'_>,
    stream: Philox,
    words: usize,
    make: &(dyn Fn(&[u32], *mut u8, usize) + Sync),
) -> Result<(), KernelError> {
    let n = out.numel();
    if n == 0 {
        return Ok(());
    }
    let size = out.dtype.size();
    let direct = out.is_contiguous();
    let block = if direct {
        None
    } else {
        Some(memory::allocate(n * size)?)
    };
    let to = Shared(block.as_ref().map_or(out.ptr, memory::Block::as_ptr));
    nest::parallel(n.div_ceil(PIECE), PIECE * 8, &|first, last| {
        let mut numbers = [0u32; 2 * PIECE];
        for piece in first..last {
            let start = piece * PIECE;
            let m = (n - start).min(PIECE);
            // an even number of elements: normals come in pairs
            let numbers = &mut numbers[..m.next_multiple_of(2) * words];
            stream.fill((start * words / 4) as u64, numbers);
            make(numbers, to.at((start * size) as isize), m);
        }
    });
    if block.is_some() {
        let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, out.sizes.len());
        for d in (0..out.sizes.len().saturating_sub(1)).rev() {
            strides[d] = strides[d + 1] * out.sizes[d + 1];
        }
        let made = Strided {
            ptr: to.at(0),
            strides: &strides,
            ..out
        };
        // SAFETY: the block has all elements, and overlaps nothing.
        unsafe { copy(out, made)? };
    }
    Ok(())
}

/// The bits of a number that a dtype can hold below 1, from the low end of the word.
fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    }
}

#[inline]
fn unit32(word: u32, digits: u32) -> f32 {
    (word & ((1 << digits) - 1)) as f32 * (1.0 / (1u32 << digits) as f32)
}

#[inline]
pub(super) fn join(pair: &[u32]) -> u64 {
    u64::from(pair[0]) << 32 | u64::from(pair[1])
}

#[inline]
fn unit64(pair: &[u32]) -> f64 {
    (join(pair) & ((1 << 53) - 1)) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Writes `f32`s to an output of `f32` or a half type.
unsafe fn put(dtype: DType, out: *mut u8, x: &[f32]) {
    // SAFETY: the output has room for them.
    unsafe {
        match dtype {
            DType::F32 => std::ptr::copy_nonoverlapping(x.as_ptr().cast(), out, x.len() * 4),
            _ => half::narrow(dtype, out, x.as_ptr(), x.len()),
        }
    }
}

/// Uniform numbers in `[from, to)`; of 24, 53, 11 or 8 random bits for `f32`, `f64`, `f16`, `bf16`.
///
/// # Safety
///
/// The memory of `out` is what it says and may be written.
pub unsafe fn uniform(
    out: Strided<'_>,
    seed: u64,
    offset: u64,
    from: f64,
    to: f64,
) -> Result<(), KernelError> {
    let dtype = out.dtype;
    if !dtype.is_floating() {
        return Err(KernelError::unsupported("uniform", dtype));
    }
    let stream = Philox::new(seed, 0, offset);
    generate(out, stream, words(dtype), &|numbers, p, m| {
        if dtype == DType::F64 {
            for (i, pair) in numbers.chunks_exact(2).take(m).enumerate() {
                let x = unit64(pair) * (to - from) + from;
                // SAFETY: the i-th of the m elements.
                unsafe { p.cast::<f64>().add(i).write_unaligned(x) };
            }
        } else {
            let (digits, base, span) = (digits(dtype), from as f32, (to - from) as f32);
            let mut x = [0f32; PIECE];
            for (x, &word) in x.iter_mut().zip(&numbers[..m]) {
                *x = unit32(word, digits) * span + base;
            }
            // SAFETY: the m elements.
            unsafe { put(dtype, p, &x[..m]) };
        }
    })
}

/// The float rows that Box-Muller needs.
struct BoxMuller {
    log: Row1,
    sqrt: Row1,
    sin: Row1,
    cos: Row1,
    mul: Row2,
    add: Row2,
}

impl BoxMuller {
    fn new(dtype: DType) -> Option<BoxMuller> {
        Some(BoxMuller {
            log: float::unary_row(UnaryOp::Log, dtype)?,
            sqrt: float::unary_row(UnaryOp::Sqrt, dtype)?,
            sin: float::unary_row(UnaryOp::Sin, dtype)?,
            cos: float::unary_row(UnaryOp::Cos, dtype)?,
            mul: float::binary_row(BinaryOp::Mul, dtype)?,
            add: float::binary_row(BinaryOp::Add, dtype)?,
        })
    }

    /// From `n` numbers in `(0, 1]` and `n` angles: `n` cosines and `n` sines of normal length, scaled and moved.
    ///
    /// # Safety
    ///
    /// All point to `n` numbers of the rows' type, the constants to one; `n` is not 0.
    unsafe fn run<T>(
        &self,
        lengths: *mut T,
        angles: *mut T,
        spare: *mut T,
        n: usize,
        [mean, std, minus_two]: [T; 3],
    ) {
        let (l, a, s) = (
            lengths.cast::<u8>(),
            angles.cast::<u8>(),
            spare.cast::<u8>(),
        );
        let one = |x: &T| std::ptr::from_ref(x).cast::<u8>();
        // SAFETY: as promised by the caller.
        unsafe {
            (self.log)(l, l, n);
            (self.mul)(l, l, one(&minus_two), n, B_IS_SCALAR);
            (self.sqrt)(l, l, n);
            (self.mul)(l, l, one(&std), n, B_IS_SCALAR);
            (self.sin)(s, a, n);
            (self.cos)(a, a, n);
            (self.mul)(s, s, l, n, 0);
            (self.mul)(l, a, l, n, 0);
            (self.add)(l, l, one(&mean), n, B_IS_SCALAR);
            (self.add)(s, s, one(&mean), n, B_IS_SCALAR);
        }
    }
}

/// Normal numbers by Box-Muller, a pair of neighbours from a pair of uniform ones; half types are rounded from `f32`.
///
/// # Safety
///
/// The memory of `out` is what it says and may be written.
pub unsafe fn normal(
    out: Strided<'_>,
    seed: u64,
    offset: u64,
    mean: f64,
    std: f64,
) -> Result<(), KernelError> {
    let dtype = out.dtype;
    let unsupported = || KernelError::unsupported("normal", dtype);
    if !dtype.is_floating() {
        return Err(unsupported());
    }
    let rows = BoxMuller::new(dtype.opmath()).ok_or_else(unsupported)?;
    const HALF: usize = PIECE / 2;
    let stream = Philox::new(seed, 0, offset);
    generate(out, stream, words(dtype), &|numbers, p, m| {
        let pairs = m.div_ceil(2);
        macro_rules! make {
            ($t:ty, $unit:expr, $words:expr, |$x:ident| $put:expr) => {{
                let (mut lengths, mut angles, mut spare) =
                    ([0 as $t; HALF], [0 as $t; HALF], [0 as $t; HALF]);
                for (i, pair) in numbers.chunks_exact(2 * $words).take(pairs).enumerate() {
                    let (u, v) = pair.split_at($words);
                    // the logarithm must not meet 0
                    lengths[i] = 1.0 - $unit(u);
                    angles[i] = std::f64::consts::TAU as $t * $unit(v);
                }
                // SAFETY: the arrays have room for all pairs.
                unsafe {
                    let (l, a, s) = (
                        lengths.as_mut_ptr(),
                        angles.as_mut_ptr(),
                        spare.as_mut_ptr(),
                    );
                    rows.run::<$t>(l, a, s, pairs, [mean as $t, std as $t, -2.0]);
                }
                let mut both = [0 as $t; PIECE];
                for i in 0..pairs {
                    both[2 * i] = lengths[i];
                    both[2 * i + 1] = spare[i];
                }
                let $x = &both[..m];
                $put
            }};
        }
        if dtype == DType::F64 {
            make!(f64, unit64, 2, |x| {
                // SAFETY: the m elements.
                unsafe { std::ptr::copy_nonoverlapping(x.as_ptr().cast(), p, m * 8) }
            });
        } else {
            // SAFETY: the m elements.
            make!(f32, |w: &[u32]| unit32(w[0], 24), 1, |x| unsafe {
                put(dtype, p, x)
            });
        }
    })
}

/// Integers in `low .. high` (`low < high`), converted to the dtype of `out`.
///
/// # Safety
///
/// The memory of `out` is what it says and may be written.
pub unsafe fn randint(
    out: Strided<'_>,
    seed: u64,
    offset: u64,
    low: i64,
    high: i64,
) -> Result<(), KernelError> {
    let range = high.wrapping_sub(low) as u64;
    debug_assert!(low < high);
    let wide = range > 1 << 32;
    let stream = Philox::new(seed, 0, offset);
    let dtype = out.dtype;
    generate(out, stream, if wide { 2 } else { 1 }, &|numbers, p, m| {
        let mut x = [0i64; PIECE];
        for (i, x) in x[..m].iter_mut().enumerate() {
            let word = if wide {
                join(&numbers[2 * i..])
            } else {
                u64::from(numbers[i])
            };
            *x = low.wrapping_add((word % range.max(1)) as i64);
        }
        let (sizes, one) = ([m as i64], [1]);
        let view = |ptr, dtype| Strided {
            ptr,
            dtype,
            sizes: &sizes,
            strides: &one,
        };
        // SAFETY: m elements each. A conversion from i64 exists for every dtype, so the result is always Ok.
        let _ = unsafe { copy(view(p, dtype), view(x.as_mut_ptr().cast(), DType::I64)) };
    })
}

/// The counter values that [`randint`] of this range uses up.
pub fn randint_counters(n: usize, low: i64, high: i64) -> u64 {
    let wide = high.wrapping_sub(low) as u64 > 1 << 32;
    counters_of_words(n, if wide { 2 } else { 1 })
}

/// 1 with probability `p`, else 0, in any dtype: a 32-bit number below `p * 2^32`.
///
/// # Safety
///
/// The memory of `out` is what it says and may be written.
pub unsafe fn bernoulli(
    out: Strided<'_>,
    seed: u64,
    offset: u64,
    p: f64,
) -> Result<(), KernelError> {
    let threshold = (p.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64;
    let stream = Philox::new(seed, 0, offset);
    let dtype = out.dtype;
    let one = super::copy::scalar_bits(straightline_passes::ir::Scalar::Int(1), dtype);
    let size = dtype.size();
    generate(out, stream, 1, &|numbers, to, m| {
        for (i, &word) in numbers[..m].iter().enumerate() {
            let bits = if u64::from(word) < threshold { one } else { 0 };
            // SAFETY: the i-th of the m elements; numbers are little-endian, so the low bytes are the value.
            unsafe {
                let at = to.add(i * size);
                match size {
                    1 => at.write(bits as u8),
                    2 => at.cast::<u16>().write_unaligned(bits as u16),
                    4 => at.cast::<u32>().write_unaligned(bits as u32),
                    _ => at.cast::<u64>().write_unaligned(bits),
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::Data;
    use super::*;

    fn numbers(data: &Data) -> Vec<f64> {
        data.values().iter().map(|x| x.as_f64()).collect()
    }

    fn moments(x: &[f64]) -> (f64, f64) {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
    }

    #[test]
    fn distributions_have_their_moments() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let mut u = Data::contiguous(dtype, &[20_001]);
            // SAFETY: the data own their elements.
            unsafe { uniform(u.strided(), 1, 2, -1.0, 3.0) }.unwrap();
            let x = numbers(&u);
            assert!(x.iter().all(|&v| (-1.0..=3.0).contains(&v)));
            let (mean, var) = moments(&x);
            assert!(
                (mean - 1.0).abs() < 0.04 && (var - 16.0 / 12.0).abs() < 0.05,
                "{dtype} {mean} {var}"
            );

            let mut z = Data::contiguous(dtype, &[20_001]);
            // SAFETY: the data own their elements.
            unsafe { normal(z.strided(), 1, 2, 5.0, 2.0) }.unwrap();
            let x = numbers(&z);
            let (mean, var) = moments(&x);
            assert!(
                (mean - 5.0).abs() < 0.06 && (var - 4.0).abs() < 0.15,
                "{dtype} {mean} {var}"
            );
            let within =
                x.iter().filter(|v| (*v - 5.0).abs() < 2.0).count() as f64 / x.len() as f64;
            assert!((within - 0.6827).abs() < 0.02, "{dtype} {within}");
        }
        for dtype in DType::ALL {
            let mut b = Data::contiguous(dtype, &[20_000]);
            // SAFETY: the data own their elements.
            unsafe { bernoulli(b.strided(), 3, 0, 0.3) }.unwrap();
            let (mean, _) = moments(&numbers(&b));
            assert!((mean - 0.3).abs() < 0.02, "{dtype} {mean}");
        }
        let mut r = Data::contiguous(DType::I64, &[20_000]);
        for (low, high) in [(-5, 7), (0, 1), (i64::MIN, i64::MAX), (0, 1 << 40)] {
            // SAFETY: the data own their elements.
            unsafe { randint(r.strided(), 3, 0, low, high) }.unwrap();
            assert!(r.values().iter().all(|x| (low..high).contains(&x.as_i64())));
        }
        assert_eq!(randint_counters(8, 0, 10), 2);
        assert_eq!(randint_counters(8, 0, 1 << 40), 4);
    }

    #[test]
    fn the_stream_depends_on_position_alone() {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            for (what, fill) in [
                (
                    "uniform",
                    uniform as unsafe fn(Strided<'_>, u64, u64, f64, f64) -> _,
                ),
                ("normal", normal),
            ] {
                let mut whole = Data::contiguous(dtype, &[300, 700]);
                let mut turned = Data::new(dtype, &[300, 700], &[1, 300]);
                let mut short = Data::contiguous(dtype, &[301]);
                // SAFETY: the data own their elements.
                unsafe {
                    fill(whole.strided(), 9, 5, 0.0, 1.0).unwrap();
                    fill(turned.strided(), 9, 5, 0.0, 1.0).unwrap();
                    fill(short.strided(), 9, 5, 0.0, 1.0).unwrap();
                }
                assert_eq!(whole.values(), turned.values(), "{what} {dtype}");
                assert_eq!(whole.values()[..301], short.values(), "{what} {dtype}");
                let mut next = Data::contiguous(dtype, &[100]);
                // SAFETY: the data own their elements.
                unsafe { fill(next.strided(), 9, 5 + counters(dtype, 100), 0.0, 1.0) }.unwrap();
                assert_eq!(whole.values()[100..200], next.values(), "{what} {dtype}");
            }
        }
    }

    #[test]
    fn uniform_takes_the_low_bits_of_its_word() {
        let words = Philox::new(11, 0, 4).block(0);
        let mut u = Data::contiguous(DType::F32, &[4]);
        // SAFETY: the data own their elements.
        unsafe { uniform(u.strided(), 11, 4, 0.0, 1.0) }.unwrap();
        for (x, word) in numbers(&u).iter().zip(words) {
            assert_eq!(*x, f64::from(word & 0xff_ffff) / f64::from(1 << 24));
        }
    }
}
