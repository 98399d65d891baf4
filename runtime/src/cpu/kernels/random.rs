//! Fills with random numbers, as PyTorch's CPU kernels draw them.
//!
//! A fill takes numbers from a [`Stream`] one after another, for the elements in the order of
//! memory (for a transposed tensor, that of its columns), on one thread: the value of an element
//! depends only on the stream and its place. The distributions of [`super::random_distributions`]
//! and the normal numbers of [`super::random_normal`] are made with the functions here.

use super::copy::copy_raw;
use super::nest::Nest;
use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{In, Out, apart, same_sizes};
use crate::rng::{Stream, join, unit_f32, unit_f64};
use straightline_passes::ir::{DType, Scalar};

/// Elements made at a time.
pub(super) const PIECE: usize = 1024;

/// A type that elements are made in, before they are converted to the dtype of the output.
pub(super) trait Made: Copy + Default {
    const DTYPE: DType;
}

impl Made for f32 {
    const DTYPE: DType = DType::F32;
}
impl Made for f64 {
    const DTYPE: DType = DType::F64;
}
impl Made for i64 {
    const DTYPE: DType = DType::I64;
}

/// Writes elements side by side, converted.
///
/// # Safety
///
/// There is room for them at `out`.
pub(super) unsafe fn put<T: Made>(out: *mut u8, dtype: DType, x: &mut [T]) {
    let (sizes, one) = ([x.len() as i64], [1]);
    let view = |ptr, dtype| Strided { ptr, dtype, sizes: &sizes, strides: &one };
    // SAFETY: as many elements each. A conversion exists for every dtype that a `Strided` has, so
    // the result is always Ok.
    let _ = unsafe {
        let (to, from) = (view(out, dtype), view(x.as_mut_ptr().cast(), T::DTYPE));
        copy_raw(to, from)
    };
}

/// Calls `make` to fill pieces of the elements in the order of memory, and writes them.
///
/// # Safety
///
/// The memory of `out` is what it says and may be written.
pub(super) unsafe fn fill_in_order<T: Made>(out: Strided<'_>, mut make: impl FnMut(&mut [T])) {
    let n = out.numel();
    if n == 0 {
        return;
    }
    let (dtype, size) = (out.dtype, out.dtype.size());
    let nest = Nest::new(&[out]);
    let mut buffer = [T::default(); PIECE];
    if nest.dims.len() == 1 && nest.inner().strides[0] == size as isize {
        let mut at = nest.element(0)[0];
        let mut left = n;
        while left > 0 {
            let piece = &mut buffer[..left.min(PIECE)];
            make(piece);
            // SAFETY: the next elements of `out`.
            unsafe { put(at, dtype, piece) };
            at = at.wrapping_add(piece.len() * size);
            left -= piece.len();
        }
        return;
    }
    let stride = nest.inner().strides[0];
    // the converted elements of the buffer; no dtype here is longer than 8 bytes
    let mut bytes = [0u64; PIECE];
    let bytes = bytes.as_mut_ptr().cast::<u8>();
    let (mut made, mut used, mut left) = (0, 0, n);
    // SAFETY: all elements of `out`, as the caller promises; each is written once from a made one.
    unsafe {
        nest.walk(0, n, &mut |[p], count| {
            for i in 0..count {
                if used == made {
                    (made, used) = (left.min(PIECE), 0);
                    make(&mut buffer[..made]);
                    put(bytes, dtype, &mut buffer[..made]);
                    left -= made;
                }
                let to = p.wrapping_offset(i as isize * stride);
                std::ptr::copy_nonoverlapping(bytes.add(used * size), to, size);
                used += 1;
            }
        });
    }
}

/// Numbers of [`fill_in_order`] that are made one by one.
///
/// # Safety
///
/// The memory of `out` is what it says and may be written.
pub(super) unsafe fn draw<T: Made>(
    out: Strided<'_>,
    stream: &mut Stream,
    make: impl Fn(&mut Stream) -> T,
) {
    // SAFETY: as promised by the caller.
    unsafe {
        fill_in_order(out, |piece| {
            for x in piece {
                *x = make(stream);
            }
        });
    }
}

/// The least `f32` that becomes `to` or more when it is rounded to the dtype: numbers from there on
/// are outside of `[from, to)`.
fn end(to: f64, dtype: DType) -> f32 {
    let round = |x: f32| match dtype {
        DType::F16 => ::half::f16::from_f32(x).to_f32(),
        DType::BF16 => ::half::bf16::from_f32(x).to_f32(),
        _ => x,
    };
    let to = round(to as f32);
    // rounding keeps the order: bisection over all numbers, as integers of the same order
    let order = |x: i64| x ^ ((x >> 31) & 0x7fff_ffff);
    let number = |key: i64| f32::from_bits(order(key) as u32);
    let key = |x: f32| order(i64::from(x.to_bits() as i32));
    let (mut below, mut end) = (key(f32::NEG_INFINITY), key(to));
    while below + 1 < end {
        let middle = (below + end) / 2;
        if round(number(middle)) < to {
            below = middle;
        } else {
            end = middle;
        }
    }
    number(end)
}

/// Uniform numbers in `[from, to)`: of 24 random bits, rounded to the dtype, 53 for `f64`. What
/// rounding would make `to` becomes `from`.
///
/// # Errors
/// A dtype that is not floating-point.
pub fn uniform(out: Out<'_>, stream: &mut Stream, from: f64, to: f64) -> Result<(), KernelError> {
    let out = out.raw();
    let dtype = out.dtype;
    if !dtype.is_floating() {
        return Err(KernelError::unsupported("uniform", dtype));
    }
    let mut words = [0u32; 2 * PIECE];
    if dtype == DType::F64 {
        let span = to - from;
        // SAFETY: as promised by the caller.
        unsafe {
            fill_in_order(out, |piece: &mut [f64]| {
                let words = &mut words[..2 * piece.len()];
                stream.fill(words);
                for (x, pair) in piece.iter_mut().zip(words.chunks_exact(2)) {
                    let y = unit_f64(join(pair[0], pair[1])).mul_add(span, from);
                    *x = if y >= to { from } else { y };
                }
            });
        }
        return Ok(());
    }
    let end = end(to, dtype);
    let (from, span) = (from as f32, to as f32 - from as f32);
    // SAFETY: as promised by the caller.
    unsafe {
        fill_in_order(out, |piece: &mut [f32]| {
            let words = &mut words[..piece.len()];
            stream.fill(words);
            for (x, word) in piece.iter_mut().zip(words) {
                // fused, as PyTorch's vectors are
                let y = unit_f32(*word).mul_add(span, from);
                *x = if y >= end { from } else { y };
            }
        });
    }
    Ok(())
}

/// The range of integers that a fill draws, from `base` on: the remainder of 32 or 64 random bits
/// is added to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Integers {
    /// The smallest.
    pub base: i64,
    /// How many there are; 0 stands for 2^64.
    pub count: u64,
    /// Whether each takes 64 bits.
    pub wide: bool,
}

impl Integers {
    /// `count` integers from `base` on; 64 bits are drawn from 2^28 of them on, below which
    /// remainders of 32 bits are skewed little.
    pub fn range(base: i64, count: u64) -> Integers {
        let wide = count == 0 || count >= 1 << 28;
        Integers { base, count, wide }
    }
}

/// Integers, converted to the dtype of `out`.
pub fn integers(out: Out<'_>, stream: &mut Stream, range: Integers) {
    let out = out.raw();
    let Integers { base, count, wide } = range;
    let mut words = [0u32; 2 * PIECE];
    // SAFETY: as promised by the caller.
    unsafe {
        fill_in_order(out, |piece: &mut [i64]| {
            let words = &mut words[..if wide { 2 } else { 1 } * piece.len()];
            stream.fill(words);
            if wide {
                for (x, pair) in piece.iter_mut().zip(words.chunks_exact(2)) {
                    let bits = join(pair[0], pair[1]);
                    *x = base.wrapping_add(bits.checked_rem(count).unwrap_or(bits) as i64);
                }
            } else {
                // a 32-bit division is the faster; without `wide` a count is not 0 and fits but for
                // 2^32
                let count = u32::try_from(count).unwrap_or(0);
                for (x, word) in piece.iter_mut().zip(words) {
                    let rest = word.checked_rem(count).unwrap_or(*word);
                    *x = base.wrapping_add(i64::from(rest));
                }
            }
        });
    }
}

/// 1 with probability `p`, else 0, in any dtype: whether a uniform number of 53 bits is below `p`.
pub fn bernoulli(out: Out<'_>, stream: &mut Stream, p: f64) {
    let out = out.raw();
    // u * 2^-53 < p, in integers
    let threshold = (p.clamp(0.0, 1.0) * (1u64 << 53) as f64).ceil() as u64;
    let mut words = [0u32; 2 * PIECE];
    // SAFETY: as promised by the caller.
    unsafe {
        fill_in_order(out, |piece: &mut [i64]| {
            let words = &mut words[..2 * piece.len()];
            stream.fill(words);
            for (x, pair) in piece.iter_mut().zip(words.chunks_exact(2)) {
                let bits = join(pair[0], pair[1]) & ((1 << 53) - 1);
                *x = i64::from(bits < threshold);
            }
        });
    }
}

/// 1 with the probability that the element of `p` says, else 0: whether a uniform number is below
/// it, of 53 bits where `p` is `f64`, of 24 where it is shorter.
///
/// # Errors
/// Probabilities that are not floating-point.
pub fn bernoulli_of(out: Out<'_>, p: In<'_>, stream: &mut Stream) -> Result<(), KernelError> {
    apart("bernoulli_of", &[p])?;
    let (out, p) = (out.raw(), p.raw());
    same_sizes("bernoulli", &[&out, &p])?;
    if !p.dtype.is_floating() {
        return Err(KernelError::unsupported("bernoulli", p.dtype));
    }
    let size = out.dtype.size();
    let one = crate::cpu::kernels::operand::scalar_bits(Scalar::Int(1), out.dtype).to_le_bytes();
    let n = out.numel();
    if n == 0 {
        return Ok(());
    }
    let nest = Nest::new(&[out, p]);
    let [to, from] = nest.inner().strides;
    macro_rules! run {
        ($t:ty, |$p:ident| $hit:expr) => {
            // SAFETY: all elements of both, as the caller promises.
            unsafe {
                nest.walk(0, n, &mut |[out, p], count| {
                    for i in 0..count as isize {
                        let $p = p.wrapping_offset(i * from).cast::<$t>().read_unaligned();
                        let bytes = if $hit { one } else { [0; 8] };
                        let out = out.wrapping_offset(i * to);
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, size);
                    }
                })
            }
        };
    }
    match p.dtype {
        DType::F64 => run!(f64, |p| stream.unit_f64() < p),
        DType::F16 => run!(::half::f16, |p| stream.unit_f32() < p.to_f32()),
        DType::BF16 => run!(::half::bf16, |p| stream.unit_f32() < p.to_f32()),
        _ => run!(f32, |p| stream.unit_f32() < p),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Data;
    use super::*;

    fn numbers(data: &Data) -> Vec<f64> {
        data.values().iter().map(|x| x.as_f64()).collect()
    }

    fn mean(x: &[f64]) -> f64 {
        x.iter().sum::<f64>() / x.len() as f64
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let mut stream = Stream::mt19937(1);
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for (from, to) in [(-1.0, 3.0), (0.0, 1.0), (-4.0, -2.0), (1.0, 1.0 + 2f64.powi(-7))] {
                let mut u = Data::contiguous(dtype, &[20_001]);
                uniform(u.out(), &mut stream, from, to).unwrap();
                let x = numbers(&u);
                assert!(x.iter().all(|v| (from..to).contains(v)), "{dtype} {to}");
                if to - from >= 1.0 {
                    let middle = (from + to) / 2.0;
                    assert!((mean(&x) - middle).abs() < 0.04, "{dtype} {from} {to}");
                }
            }
        }
        for dtype in DType::ALL {
            let mut b = Data::contiguous(dtype, &[20_000]);
            bernoulli(b.out(), &mut stream, 0.3);
            assert!((mean(&numbers(&b)) - 0.3).abs() < 0.02, "{dtype}");
        }
        let mut r = Data::contiguous(DType::I64, &[2_000]);
        for (low, count) in [(-5, 12), (0, 1), (i64::MIN, u64::MAX), (0, 1 << 40), (3, 1 << 31)] {
            let range = Integers::range(low, count);
            integers(r.out(), &mut stream, range);
            let last = low.wrapping_add((count - 1) as i64);
            assert!(r.values().iter().all(|x| (low..=last).contains(&x.as_i64())));
        }
    }

    #[test]
    fn the_end_of_a_range_is_where_rounding_reaches_it() {
        for dtype in [DType::F16, DType::BF16] {
            for to in [1.0, -2.0, 2.7, 0.0, 1e-3, 300.0, -0.7] {
                let mut wanted = Data::contiguous(dtype, &[1]);
                let mut round = |x: f32| {
                    // SAFETY: one element.
                    unsafe { put(wanted.strided().ptr, dtype, &mut [x]) };
                    wanted.get(0).as_f64()
                };
                let (at, to) = (end(to, dtype), round(to as f32));
                assert!(round(at) >= to, "{dtype} {to} {at}");
                assert!(round(at.next_down()) < to, "{dtype} {to} {at}");
            }
        }
        assert_eq!(end(0.1, DType::F32), 0.1);
    }

    #[test]
    fn elements_are_drawn_in_the_order_of_memory() {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let mut whole = Data::contiguous(dtype, &[30, 70]);
            let mut turned = Data::new(dtype, &[30, 70], &[1, 30]);
            let mut spread = Data::new(dtype, &[30, 70], &[140, 2]);
            for data in [&mut whole, &mut turned, &mut spread] {
                uniform(data.out(), &mut Stream::mt19937(9), 0.0, 1.0).unwrap();
            }
            assert_eq!(whole.values(), spread.values());
            assert_eq!(whole.bytes, turned.bytes);
        }
    }

    #[test]
    fn probabilities_are_read_where_they_are() {
        let mut p = Data::new(DType::F32, &[3, 4], &[1, 0]);
        p.bytes = [0f32, 1.0, 0.5].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut out = Data::contiguous(DType::I16, &[3, 4]);
        let mut stream = Stream::mt19937(0);
        bernoulli_of(out.out(), p.input(), &mut stream).unwrap();
        let got = numbers(&out);
        assert_eq!(got[..8], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        let mut again = Stream::mt19937(0);
        let mut words = [0; 12];
        again.fill(&mut words);
        for (x, word) in got[8..].iter().zip(&words[8..]) {
            assert_eq!(*x == 1.0, unit_f32(*word) < 0.5);
        }
    }
}
