//! Floating-point formats of 16 bits and fewer.

/// The direction in which a result is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// To nearest, ties away from zero.
    Away,
    Zero,
    Down,
    Up,
}

/// A binary format with a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    exponent: u32,
    mantissa: u32,
    /// The largest exponent holds numbers too, and only all ones are a NaN.
    finite: bool,
}

pub(crate) const F16: Format = Format { exponent: 5, mantissa: 10, finite: false };
pub(crate) const BF16: Format = Format { exponent: 8, mantissa: 7, finite: false };
pub(crate) const TF32: Format = Format { exponent: 8, mantissa: 10, finite: false };
pub(crate) const E4M3: Format = Format { exponent: 4, mantissa: 3, finite: true };
pub(crate) const E5M2: Format = Format { exponent: 5, mantissa: 2, finite: false };

impl Format {
    /// Bits of the largest finite number.
    fn largest(self) -> u32 {
        let top = ((1 << self.exponent) - 1) << self.mantissa;
        if self.finite { top | ((1 << self.mantissa) - 2) } else { top - 1 }
    }

    /// The NaN that a GPU gives.
    pub(crate) fn nan(self) -> u32 {
        (1 << (self.exponent + self.mantissa)) - 1
    }

    /// Rounds a number. With `saturate` what is too large becomes the largest finite number.
    pub(crate) fn encode(self, value: f64, rounding: Rounding, saturate: bool) -> u32 {
        if value.is_nan() {
            return self.nan();
        }
        let bits = value.to_bits();
        let negative = bits >> 63 == 1;
        let sign = u32::from(negative) << (self.exponent + self.mantissa);
        let beyond = || {
            let stays = match rounding {
                Rounding::Nearest | Rounding::Away => false,
                Rounding::Zero => true,
                Rounding::Down => !negative,
                Rounding::Up => negative,
            };
            if saturate || (stays && value.is_finite()) {
                sign | self.largest()
            } else if self.finite {
                sign | self.nan()
            } else {
                sign | (self.largest() + 1)
            }
        };
        if value.is_infinite() {
            return beyond();
        }
        if value == 0.0 {
            return sign;
        }
        let bias = (1i64 << (self.exponent - 1)) - 1;
        let exponent = ((bits >> 52) & 0x7ff) as i64;
        let (exponent, mantissa) = match exponent {
            0 => (-1022, bits & ((1 << 52) - 1)),
            _ => (exponent - 1023, bits & ((1 << 52) - 1) | 1 << 52),
        };
        let least = 1 - bias;
        let shift = i64::from(52 - self.mantissa) + (least - exponent).max(0);
        let (kept, rest, half) = if shift > 63 {
            (0, 1, 2)
        } else {
            (mantissa >> shift, mantissa & ((1 << shift) - 1), 1u64 << (shift - 1))
        };
        let up = match rounding {
            Rounding::Nearest => rest > half || (rest == half && kept & 1 == 1),
            Rounding::Away => rest >= half,
            Rounding::Zero => false,
            Rounding::Down => negative && rest != 0,
            Rounding::Up => !negative && rest != 0,
        };
        let kept = kept as i64 + i64::from(up);
        let magnitude = ((exponent - least).max(0) << self.mantissa) + kept;
        if magnitude > i64::from(self.largest()) { beyond() } else { sign | magnitude as u32 }
    }

    /// The number, which an `f32` holds exactly.
    pub(crate) fn decode(self, bits: u32) -> f32 {
        let fields = bits & self.nan();
        let negative = bits >> (self.exponent + self.mantissa) & 1 == 1;
        let infinity = self.largest() + 1;
        let value = if fields > self.largest() && (self.finite || fields != infinity) {
            return f32::NAN;
        } else if fields == infinity {
            f32::INFINITY
        } else {
            let bias = (1i32 << (self.exponent - 1)) - 1;
            let exponent = (fields >> self.mantissa) as i32;
            let mantissa = fields & ((1 << self.mantissa) - 1);
            let (exponent, mantissa) = match exponent {
                0 => (1 - bias, mantissa),
                _ => (exponent - bias, mantissa | 1 << self.mantissa),
            };
            (f64::from(mantissa) * 2f64.powi(exponent - self.mantissa as i32)) as f32
        };
        if negative { -value } else { value }
    }
}

/// A half-precision number to single precision.
#[inline(always)]
pub(crate) fn from_f16(bits: u16) -> f32 {
    let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(magnitude.to_bits() | special | u32::from(bits & 0x8000) << 16)
}

/// A single-precision number to half precision, to nearest.
#[inline(always)]
pub(crate) fn to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7fff;
    }
    // 65520, from which everything rounds to infinity
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let rounded = if magnitude < 0x3880_0000 {
        // below the least normal number: the sum with 0.5 leaves the multiple of 2^-24
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000
    } else {
        (magnitude - 0x3800_0000 + 0xfff + (magnitude >> 13 & 1)) >> 13
    };
    sign | rounded as u16
}

#[inline(always)]
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A single-precision number to bfloat16, to nearest.
#[inline(always)]
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fff;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(ours: u16, reference: u16, nan: bool) -> bool {
        if nan { ours == 0x7fff } else { ours == reference }
    }

    #[test]
    fn half_precision_is_exact_in_all_bits() {
        for bits in 0..=u16::MAX {
            let reference = half::f16::from_bits(bits).to_f32();
            let ours = from_f16(bits);
            assert!(ours == reference || (ours.is_nan() && reference.is_nan()), "{bits:#x}");
            let decoded = F16.decode(bits.into());
            assert!(decoded == reference || (decoded.is_nan() && reference.is_nan()), "{bits:#x}");
            let reference = half::bf16::from_bits(bits).to_f32();
            let ours = from_bf16(bits);
            assert!(ours == reference || (ours.is_nan() && reference.is_nan()), "{bits:#x}");
            let decoded = BF16.decode(bits.into());
            assert!(decoded == reference || (decoded.is_nan() && reference.is_nan()), "{bits:#x}");
        }
    }

    #[test]
    fn rounding_to_16_bits_is_exact() {
        for high in 0..=u16::MAX {
            for low in
                [0, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff]
            {
                let value = f32::from_bits(u32::from(high) << 16 | low);
                let (nan, wide) = (value.is_nan(), f64::from(value));
                let half = half::f16::from_f32(value).to_bits();
                assert!(same(to_f16(value), half, nan), "{value:e}");
                assert!(
                    same(F16.encode(wide, Rounding::Nearest, false) as u16, half, nan),
                    "{value:e}"
                );
                let brain = half::bf16::from_f32(value).to_bits();
                assert!(same(to_bf16(value), brain, nan), "{value:e}");
                assert!(
                    same(BF16.encode(wide, Rounding::Nearest, false) as u16, brain, nan),
                    "{value:e}"
                );
            }
        }
    }

    #[test]
    fn directed_rounding_brackets_the_number() {
        for value in [1.0 / 3.0, -1.0 / 3.0, 1e-7, -1e-7, 1e9, -1e9, 65519.0, 6e-8] {
            let round = |rounding| f64::from(from_f16(F16.encode(value, rounding, false) as u16));
            let (down, up, zero) =
                (round(Rounding::Down), round(Rounding::Up), round(Rounding::Zero));
            assert!(down <= value && value <= up && down < up, "{value}");
            assert_eq!(zero, if value < 0.0 { up } else { down }, "{value}");
        }
        assert_eq!(F16.encode(1e9, Rounding::Zero, false), 0x7bff);
        assert_eq!(F16.encode(1e9, Rounding::Nearest, false), 0x7c00);
        assert_eq!(F16.encode(-1e9, Rounding::Nearest, true), 0xfbff);
        assert_eq!(E4M3.encode(448.0, Rounding::Nearest, true), 0x7e);
        assert_eq!(E4M3.encode(1e9, Rounding::Nearest, true), 0x7e);
        assert_eq!(E5M2.encode(1e9, Rounding::Nearest, true), 0x7b);
        assert_eq!(E4M3.decode(0x7e), 448.0);
        assert_eq!(E4M3.decode(0x01), 0.001953125);
        assert!(E4M3.decode(0x7f).is_nan());
        assert_eq!(TF32.encode(1.0 + 2f64.powi(-11), Rounding::Away, false), 0x1fc01);
    }
}
