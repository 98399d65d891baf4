//! Conversions one number at a time.

use super::Word;
use super::narrow::{
    BF16, E4M3, E5M2, F16, Format, Rounding, TF32, from_bf16, from_f16, to_bf16, to_f16,
};
use super::rounding::{flush, saturate_64, to_single};
use crate::program::{Conversion, Numeric};

/// A number on its way from one type to another.
enum Value {
    Integer(i128),
    /// Holds numbers of every floating-point type exactly.
    Float(f64),
}

fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Away => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// The bounds of an integer type.
fn bounds(kind: Numeric) -> (i128, i128) {
    match kind {
        Numeric::Signed(bits) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        Numeric::Unsigned(bits) => (0, (1 << bits) - 1),
        _ => (0, 0),
    }
}

fn format(kind: Numeric) -> Option<Format> {
    Some(match kind {
        Numeric::Half => F16,
        Numeric::Brain => BF16,
        Numeric::Tensor => TF32,
        Numeric::E4M3 => E4M3,
        Numeric::E5M2 => E5M2,
        _ => return None,
    })
}

/// An integer to a number of double precision, with the sign of what is missing from it.
fn nearest(value: i128) -> (f64, i128) {
    let nearest = value as f64;
    (nearest, value - nearest as i128)
}

/// An integer rounded to odd, for a second rounding to fewer bits.
fn to_odd(value: i128) -> f64 {
    let (nearest, missing) = nearest(value);
    if missing == 0 || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    if (missing > 0) == (value > 0) { nearest.next_away() } else { nearest.next_towards() }
}

trait Neighbours {
    fn next_away(self) -> f64;
    fn next_towards(self) -> f64;
}

impl Neighbours for f64 {
    fn next_away(self) -> f64 {
        if self > 0.0 { self.next_up() } else { self.next_down() }
    }
    fn next_towards(self) -> f64 {
        if self > 0.0 { self.next_down() } else { self.next_up() }
    }
}

fn to_double(value: i128, rounding: Rounding) -> f64 {
    let (nearest, missing) = nearest(value);
    match rounding {
        Rounding::Down if missing < 0 => nearest.next_down(),
        Rounding::Up if missing > 0 => nearest.next_up(),
        Rounding::Zero if missing != 0 && (missing < 0) == (value > 0) => nearest.next_towards(),
        _ => nearest,
    }
}

fn read(conversion: &Conversion, bits: u64) -> Value {
    Value::Float(match conversion.from {
        Numeric::Unsigned(width) => {
            return Value::Integer(i128::from(bits & (u64::MAX >> (64 - width))));
        }
        Numeric::Signed(width) => return Value::Integer(i128::from(signed(bits, width))),
        Numeric::Half => from_f16(bits as u16).into(),
        Numeric::Brain => from_bf16(bits as u16).into(),
        Numeric::Single | Numeric::Tensor => {
            let value = f32::from_bits(bits as u32);
            if conversion.flush { flush(value) } else { value }.into()
        }
        Numeric::Double => f64::from_bits(bits),
        Numeric::E4M3 => E4M3.decode((bits & 0xff) as u32).into(),
        Numeric::E5M2 => E5M2.decode((bits & 0xff) as u32).into(),
    })
}

fn signed(bits: u64, width: u32) -> i64 {
    (bits << (64 - width)) as i64 >> (64 - width)
}

/// One number converted.
pub(crate) fn convert(conversion: &Conversion, bits: u64) -> u64 {
    let Conversion { from, to, rounding, .. } = *conversion;
    let value = read(conversion, bits);
    if let Numeric::Signed(width) | Numeric::Unsigned(width) = to {
        let (least, most) = bounds(to);
        let integer = match value {
            Value::Integer(value) if conversion.saturate => value.clamp(least, most),
            Value::Integer(value) => value,
            Value::Float(value) if value.is_nan() => match from {
                Numeric::Double => 1 << (width - 1),
                _ if width == 64 => 1 << 63,
                _ => 0,
            },
            Value::Float(value) => (integral(value, rounding) as i128).clamp(least, most),
        };
        let bits = integer as u64;
        return match to {
            // what is narrower than the register is extended in it
            Numeric::Signed(width) if width < 32 => u64::from(signed(bits, width) as u32),
            _ => bits & (u64::MAX >> (64 - width)),
        };
    }
    let value = match value {
        Value::Integer(value) if to == Numeric::Double => to_double(value, rounding),
        Value::Integer(value) => to_odd(value),
        Value::Float(value) if conversion.integral => integral(value, rounding),
        Value::Float(value) => value,
    };
    let value = if conversion.relu && value <= 0.0 { 0.0 } else { value };
    let value = if conversion.saturate { saturate_64(value) } else { value };
    match to {
        Numeric::Single => {
            let single = to_single(value, rounding);
            if conversion.flush { flush(single).give() } else { single.give() }
        }
        Numeric::Double => value.give(),
        Numeric::Tensor => u64::from(TF32.encode(value, rounding, conversion.finite)) << 13,
        to => format(to)
            .map_or(0, |format| u64::from(format.encode(value, rounding, conversion.finite))),
    }
}

/// A number of 16 bits or fewer, or of single precision, as an operand of a matrix product.
pub(crate) fn decode(kind: Numeric, bits: u32) -> f32 {
    match kind {
        Numeric::Half => from_f16(bits as u16),
        Numeric::Brain => from_bf16(bits as u16),
        // the hardware reads the upper 19 bits
        Numeric::Tensor => f32::from_bits(bits & !0x1fff),
        Numeric::E4M3 => E4M3.decode(bits & 0xff),
        Numeric::E5M2 => E5M2.decode(bits & 0xff),
        _ => f32::from_bits(bits),
    }
}

pub(crate) fn encode(kind: Numeric, value: f32) -> u16 {
    if kind == Numeric::Brain { to_bf16(value) } else { to_f16(value) }
}
