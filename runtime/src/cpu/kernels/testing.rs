//! Test data: strided tensors of any dtype, read and written element by element.

use super::{In, Out, Strided};
use straightline_passes::ir::{DType, Scalar};

/// A tensor over its own bytes.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    pub(crate) dtype: DType,
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

pub(crate) fn contiguous_strides(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for d in (0..sizes.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * sizes[d + 1].max(1);
    }
    strides
}

impl Data {
    /// Room for elements at these strides; every byte is 0x5a at first, so that stray writes show.
    pub(crate) fn new(dtype: DType, sizes: &[i64], strides: &[i64]) -> Data {
        let span: i64 = sizes.iter().zip(strides).map(|(n, s)| (n - 1).max(0) * s).sum();
        let empty = sizes.contains(&0);
        let elements = if empty { 0 } else { span as usize + 1 };
        Data {
            bytes: vec![0x5a; elements * dtype.size()],
            dtype,
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
        }
    }

    pub(crate) fn contiguous(dtype: DType, sizes: &[i64]) -> Data {
        Data::new(dtype, sizes, &contiguous_strides(sizes))
    }

    pub(crate) fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    /// The byte offset of the i-th element in row-major order.
    pub(crate) fn offset(&self, mut i: usize) -> usize {
        let mut at = 0;
        for (&n, &s) in self.sizes.iter().zip(&self.strides).rev() {
            at += (i % n as usize) * s as usize;
            i /= n as usize;
        }
        at * self.dtype.size()
    }

    pub(crate) fn get(&self, i: usize) -> Scalar {
        let b = &self.bytes[self.offset(i)..];
        match self.dtype {
            DType::U8 => Scalar::Int(b[0].into()),
            DType::I8 => Scalar::Int((b[0] as i8).into()),
            DType::I16 => Scalar::Int(i16::from_le_bytes([b[0], b[1]]).into()),
            DType::I32 => Scalar::Int(i32::from_le_bytes(b[..4].try_into().unwrap()).into()),
            DType::I64 => Scalar::Int(i64::from_le_bytes(b[..8].try_into().unwrap())),
            DType::F16 => Scalar::Float(::half::f16::from_le_bytes([b[0], b[1]]).to_f64()),
            DType::BF16 => Scalar::Float(::half::bf16::from_le_bytes([b[0], b[1]]).to_f64()),
            DType::F32 => Scalar::Float(f32::from_le_bytes(b[..4].try_into().unwrap()).into()),
            DType::F64 => Scalar::Float(f64::from_le_bytes(b[..8].try_into().unwrap())),
            DType::Bool => {
                assert!(b[0] <= 1, "a bool of {:#x}", b[0]);
                Scalar::Bool(b[0] == 1)
            }
            DType::C64 | DType::C128 | DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
                unreachable!("plain tensors are not quantized")
            }
        }
    }

    pub(crate) fn set(&mut self, i: usize, value: Scalar) {
        let at = self.offset(i);
        let size = self.dtype.size();
        let bits = match (self.dtype, value.cast(self.dtype)) {
            (DType::F16, v) => ::half::f16::from_f32(v.as_f64() as f32).to_bits().into(),
            (DType::BF16, v) => ::half::bf16::from_f32(v.as_f64() as f32).to_bits().into(),
            (DType::F32, v) => (v.as_f64() as f32).to_bits().into(),
            (DType::F64, v) => v.as_f64().to_bits(),
            (_, v) => v.as_i64() as u64,
        };
        self.bytes[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }

    pub(crate) fn strided(&mut self) -> Strided<'_> {
        Strided {
            ptr: self.bytes.as_mut_ptr(),
            dtype: self.dtype,
            sizes: &self.sizes,
            strides: &self.strides,
        }
    }

    pub(crate) fn out(&mut self) -> Out<'_> {
        // SAFETY: the bytes are borrowed for as long as the operand lives.
        unsafe { Out::new(self.strided()) }
    }

    pub(crate) fn input(&self) -> In<'_> {
        let raw = Strided {
            ptr: self.bytes.as_ptr().cast_mut(),
            dtype: self.dtype,
            sizes: &self.sizes,
            strides: &self.strides,
        };
        // SAFETY: as in `out`, shared.
        unsafe { In::new(raw) }
    }

    pub(crate) fn values(&self) -> Vec<Scalar> {
        (0..self.numel()).map(|i| self.get(i)).collect()
    }

    /// Fills the elements with numbers made from `seed`; a few special ones among floats.
    pub(crate) fn fill(mut self, seed: u64) -> Data {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for i in 0..self.numel() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let r = state >> 11;
            let value = if self.dtype.is_floating() {
                match r % 23 {
                    0 => Scalar::Float(f64::NAN),
                    1 => Scalar::Float(f64::INFINITY),
                    2 => Scalar::Float(f64::NEG_INFINITY),
                    3 => Scalar::Float(-0.0),
                    4 => Scalar::Float(0.0),
                    _ => Scalar::Float((r >> 6) as f64 / (1u64 << 47) as f64 * 8.0 - 4.0),
                }
            } else {
                Scalar::Int((r >> 5) as i64 % 17 - 5)
            };
            self.set(i, value.cast(self.dtype));
        }
        self
    }
}

/// The same number: equal to the bit, or both NaN.
pub(crate) fn same(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Float(x), Scalar::Float(y)) => {
            x.is_nan() && y.is_nan() || x.to_bits() == y.to_bits()
        }
        (a, b) => a == b,
    }
}

/// Sizes, strides of an output, strides of inputs.
pub(crate) type Layout = (Vec<i64>, Vec<i64>, Vec<Vec<i64>>);

/// Shapes with interesting strides.
pub(crate) fn layouts() -> Vec<Layout> {
    let make = |sizes: &[i64], out: &[i64], ins: &[&[i64]]| {
        (sizes.to_vec(), out.to_vec(), ins.iter().map(|s| s.to_vec()).collect())
    };
    vec![
        make(&[], &[], &[&[], &[]]),
        make(&[1], &[1], &[&[1], &[7]]),
        make(&[0], &[1], &[&[1], &[1]]),
        make(&[3, 0, 2], &[0, 2, 1], &[&[0, 2, 1], &[1, 1, 1]]),
        make(&[5], &[1], &[&[1], &[0]]),
        make(&[1037], &[1], &[&[1], &[1]]),
        make(&[1037], &[1], &[&[1], &[0]]),
        make(&[1037], &[2], &[&[0], &[3]]),
        make(&[600], &[3], &[&[0], &[0]]),
        make(&[7, 33], &[33, 1], &[&[1, 7], &[33, 1]]),
        make(&[7, 33], &[1, 7], &[&[1, 7], &[0, 1]]),
        make(&[65, 70], &[70, 1], &[&[1, 65], &[1, 0]]),
        make(&[2, 3, 4, 5], &[60, 20, 5, 1], &[&[1, 2, 6, 24], &[0, 20, 0, 1]]),
        make(&[300, 300], &[300, 1], &[&[300, 1], &[0, 1]]),
        make(&[300, 300], &[300, 1], &[&[1, 300], &[600, 2]]),
    ]
}
