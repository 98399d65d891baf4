//! Types of elements: `cudaDataType`, and how `cublasComputeType_t` sees them.

use half::{bf16, f16};

/// A type of elements that products are computed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    F32,
    F64,
    F16,
    BF16,
    I8,
    I32,
}

impl Kind {
    pub(crate) fn of(number: i32) -> Option<Kind> {
        Some(match number {
            0 => Kind::F32,
            1 => Kind::F64,
            2 => Kind::F16,
            3 => Kind::I8,
            10 => Kind::I32,
            14 => Kind::BF16,
            _ => return None,
        })
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Kind::I8 => 1,
            Kind::F16 | Kind::BF16 => 2,
            Kind::F32 | Kind::I32 => 4,
            Kind::F64 => 8,
        }
    }

    /// The element at an index of bytes. Every value of every type is an f64.
    pub(crate) fn read(self, bytes: &[u8], index: usize) -> f64 {
        let size = self.bytes();
        let element = &bytes[index * size..(index + 1) * size];
        match *element {
            [byte] => f64::from(byte.cast_signed()),
            [a, b] if self == Kind::F16 => f16::from_le_bytes([a, b]).to_f64(),
            [a, b] => bf16::from_le_bytes([a, b]).to_f64(),
            [a, b, c, d] if self == Kind::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
            [a, b, c, d] => f64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => f64::NAN,
        }
    }

    /// Rounds a value to the element at an index of bytes.
    pub(crate) fn write(self, bytes: &mut [u8], index: usize, value: f64) {
        let size = self.bytes();
        let element = &mut bytes[index * size..(index + 1) * size];
        match self {
            Kind::F32 => element.copy_from_slice(&(value as f32).to_le_bytes()),
            Kind::F64 => element.copy_from_slice(&value.to_le_bytes()),
            Kind::F16 => element.copy_from_slice(&f16::from_f32(value as f32).to_le_bytes()),
            Kind::BF16 => element.copy_from_slice(&bf16::from_f32(value as f32).to_le_bytes()),
            Kind::I8 => element[0] = (value.round_ties_even() as i8).cast_unsigned(),
            Kind::I32 => element.copy_from_slice(&(value as i32).to_le_bytes()),
        }
    }
}

/// How a product is summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compute {
    F16,
    F32,
    /// f32 inputs rounded to f16, bf16 or TF32 first
    F32FastF16,
    F32FastBF16,
    F32FastTF32,
    F64,
    I32,
}

impl Compute {
    pub(crate) fn of(number: i32) -> Option<Compute> {
        Some(match number {
            64 | 65 => Compute::F16,
            68 | 69 => Compute::F32,
            74 => Compute::F32FastF16,
            75 => Compute::F32FastBF16,
            77 => Compute::F32FastTF32,
            70 | 71 => Compute::F64,
            72 | 73 => Compute::I32,
            _ => return None,
        })
    }

    /// An input as the multiplication sees it.
    pub(crate) fn round(self, value: f64) -> f64 {
        match self {
            Compute::F32FastF16 => f16::from_f32(value as f32).to_f64(),
            Compute::F32FastBF16 => bf16::from_f32(value as f32).to_f64(),
            Compute::F32FastTF32 => f64::from(tf32(value as f32)),
            _ => value,
        }
    }

    /// Whether inputs, results and scale can be of these types.
    pub(crate) fn takes(self, inputs: Kind, results: Kind, scale: Kind) -> bool {
        let scaled = match self {
            Compute::F16 => scale == Kind::F16,
            Compute::F64 => scale == Kind::F64,
            Compute::I32 if results == Kind::I32 => scale == Kind::I32,
            _ => scale == Kind::F32,
        };
        scaled
            && match (self, inputs) {
                (Compute::F16, Kind::F16) => results == Kind::F16,
                (Compute::F32, Kind::F16) => matches!(results, Kind::F16 | Kind::F32),
                (Compute::F32, Kind::BF16) => matches!(results, Kind::BF16 | Kind::F32),
                (Compute::F32, Kind::I8) => results == Kind::F32,
                (
                    Compute::F32
                    | Compute::F32FastF16
                    | Compute::F32FastBF16
                    | Compute::F32FastTF32,
                    Kind::F32,
                ) => results == Kind::F32,
                (Compute::F64, Kind::F64) => results == Kind::F64,
                (Compute::I32, Kind::I8) => matches!(results, Kind::I8 | Kind::I32),
                _ => false,
            }
    }
}

/// Rounds to the ten bits of TF32, ties away from zero, as `cvt.rna.tf32.f32` does.
fn tf32(value: f32) -> f32 {
    if !value.is_finite() {
        return value;
    }
    let bits = value.to_bits();
    f32::from_bits((bits + (1 << 12)) & !((1 << 13) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf32_keeps_ten_bits() {
        assert_eq!(tf32(1.0), 1.0);
        assert_eq!(tf32(1.0 + 1.0 / 1024.0), 1.0 + 1.0 / 1024.0);
        assert_eq!(tf32(1.0 + 1.0 / 2048.0), 1.0 + 1.0 / 1024.0);
        assert_eq!(tf32(-1.0 - 1.0 / 4096.0), -1.0);
        assert!(tf32(f32::NAN).is_nan());
    }

    #[test]
    fn elements_go_there_and_back() {
        for kind in [Kind::F32, Kind::F64, Kind::F16, Kind::BF16, Kind::I8, Kind::I32] {
            let mut bytes = [0_u8; 24];
            kind.write(&mut bytes, 1, -3.0);
            assert_eq!(kind.read(&bytes, 1), -3.0, "{kind:?}");
            assert_eq!(kind.read(&bytes, 0), 0.0, "{kind:?}");
        }
    }
}
