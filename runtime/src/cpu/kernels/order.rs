//! Elements as integers that sort as PyTorch sorts them.
//!
//! A *key* is an unsigned integer with the order of the elements: NaN above everything, all NaN
//! alike, the two zeros alike. Sorting, selecting and grouping compare keys for every dtype, and
//! copy the elements themselves from the input.

use super::KernelError;
use straightline_passes::ir::DType;

/// Bits of a key.
pub(super) fn key_bits(dtype: DType) -> u32 {
    dtype.size() as u32 * 8
}

/// Whether elements of the dtype have keys.
pub(super) fn check_ordered(op: &str, dtype: DType) -> Result<(), KernelError> {
    match dtype {
        DType::U8
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::F16
        | DType::BF16
        | DType::F32
        | DType::F64
        | DType::Bool => Ok(()),
        other => Err(KernelError::UnsupportedDType { op: op.into(), dtype: other }),
    }
}

/// The key of a float from its bits; `exponent` is the mask of its exponent.
#[inline(always)]
fn float_key(bits: u64, width: u32, exponent: u64) -> u64 {
    let sign = 1u64 << (width - 1);
    let all = sign | (sign - 1);
    let magnitude = bits & !sign;
    if magnitude > exponent {
        all
    } else if magnitude == 0 {
        sign
    } else if bits & sign != 0 {
        !bits & all
    } else {
        bits | sign
    }
}

/// The key of the element at `p`.
///
/// # Safety
///
/// `p` is readable for one element of `dtype`, one that [`check_ordered`] allows.
#[inline(always)]
pub(super) unsafe fn read_key(p: *const u8, dtype: DType) -> u64 {
    // SAFETY: as promised by the caller.
    unsafe {
        match dtype {
            DType::F32 => float_key(u64::from(p.cast::<u32>().read_unaligned()), 32, 0x7f80_0000),
            DType::F64 => float_key(p.cast::<u64>().read_unaligned(), 64, 0x7ff0 << 48),
            DType::F16 => float_key(u64::from(p.cast::<u16>().read_unaligned()), 16, 0x7c00),
            DType::BF16 => float_key(u64::from(p.cast::<u16>().read_unaligned()), 16, 0x7f80),
            DType::I64 => p.cast::<u64>().read_unaligned() ^ 1 << 63,
            DType::I32 => u64::from(p.cast::<u32>().read_unaligned() ^ 1 << 31),
            DType::I16 => u64::from(p.cast::<u16>().read_unaligned() ^ 1 << 15),
            DType::I8 => u64::from(p.read() ^ 1 << 7),
            _ => u64::from(p.read()),
        }
    }
}

/// The key that all NaN have, for dtypes with one.
pub(super) fn nan_key(dtype: DType) -> Option<u64> {
    dtype.is_floating().then(|| u64::MAX >> (64 - key_bits(dtype)))
}

/// A key and the place of its element, as one integer that orders by key and then by place.
pub(super) trait Placed: Copy + Ord + Send + Sync {
    /// Both as one.
    fn new(key: u64, place: usize) -> Self;
    /// The key.
    fn key(self) -> u64;
    /// The place.
    fn place(self) -> usize;
}

impl Placed for u64 {
    #[inline(always)]
    fn new(key: u64, place: usize) -> u64 {
        key << 32 | place as u64
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self >> 32
    }
    #[inline(always)]
    fn place(self) -> usize {
        (self & 0xffff_ffff) as usize
    }
}

impl Placed for u128 {
    #[inline(always)]
    fn new(key: u64, place: usize) -> u128 {
        u128::from(key) << 64 | place as u128
    }
    #[inline(always)]
    fn key(self) -> u64 {
        (self >> 64) as u64
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u64 as usize
    }
}

/// Whether `n` elements of a dtype have keys and places that fit a `u64` together.
pub(super) fn fits_narrow(dtype: DType, n: usize) -> bool {
    key_bits(dtype) <= 32 && u32::try_from(n).is_ok()
}

/// The keys and places of a row, in `out`. `flip` turns the order of the keys around.
///
/// # Safety
///
/// `p` has `n` elements of `dtype`, `step` bytes apart.
pub(super) unsafe fn load_placed<T: Placed>(
    out: &mut Vec<T>,
    p: *const u8,
    dtype: DType,
    step: isize,
    n: usize,
    flip: bool,
) {
    let mask = if flip { u64::MAX >> (64 - key_bits(dtype)) } else { 0 };
    out.clear();
    out.extend((0..n).map(|i| {
        // SAFETY: element i of the row.
        let key = unsafe { read_key(p.offset(i as isize * step), dtype) };
        T::new(key ^ mask, i)
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<T: Copy>(dtype: DType, values: &[T]) -> Vec<u64> {
        values
            .iter()
            // SAFETY: one element of the dtype.
            .map(|x| unsafe { read_key((&raw const *x).cast(), dtype) })
            .collect()
    }

    #[test]
    fn keys_have_the_order_of_the_elements() {
        let f = keys(
            DType::F32,
            &[f32::NEG_INFINITY, -1.5, -1e-45, -0.0, 1e-45, 2.0, f32::INFINITY, f32::NAN],
        );
        assert!(f.windows(2).all(|w| w[0] < w[1]), "{f:?}");
        assert_eq!(keys(DType::F64, &[0.0f64])[0], keys(DType::F64, &[-0.0f64])[0]);
        assert_eq!(keys(DType::F64, &[-f64::NAN])[0], u64::MAX);
        let i = keys(DType::I8, &[-128i8, -1, 0, 127]);
        assert!(i.windows(2).all(|w| w[0] < w[1]), "{i:?}");
        let b = keys(DType::BF16, &[0xff80u16, 0xbf80, 0x8000, 0x3f80, 0x7f80, 0xffc0]);
        assert!(b.windows(2).all(|w| w[0] < w[1]), "{b:?}");
    }
}
