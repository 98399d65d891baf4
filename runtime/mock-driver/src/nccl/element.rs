//! Types of elements (`ncclDataType_t`), and how two values become one (`ncclRedOp_t`).

use half::{bf16, f16};

/// A type of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    /// signed or not, of so many bytes
    Integer(bool, usize),
    F16,
    BF16,
    F32,
    F64,
}

/// A reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Maximum,
    Minimum,
    Average,
}

impl Reduction {
    pub(crate) fn of(number: i32) -> Option<Reduction> {
        Some(match number {
            0 => Reduction::Sum,
            1 => Reduction::Product,
            2 => Reduction::Maximum,
            3 => Reduction::Minimum,
            4 => Reduction::Average,
            _ => return None,
        })
    }
}

/// A value of any type.
#[derive(Clone, Copy, Debug)]
enum Value {
    Integer(i128),
    Float(f64),
}

impl Element {
    pub(crate) fn of(number: i32) -> Option<Element> {
        Some(match number {
            0 => Element::Integer(true, 1),
            1 => Element::Integer(false, 1),
            2 => Element::Integer(true, 4),
            3 => Element::Integer(false, 4),
            4 => Element::Integer(true, 8),
            5 => Element::Integer(false, 8),
            6 => Element::F16,
            7 => Element::F32,
            8 => Element::F64,
            9 => Element::BF16,
            _ => return None,
        })
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Element::Integer(_, bytes) => bytes,
            Element::F16 | Element::BF16 => 2,
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }

    fn read(self, bytes: &[u8]) -> Value {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        match self {
            Element::Integer(signed, bytes) => {
                let value = i128::from(word);
                let half = 1_i128 << (8 * bytes - 1);
                Value::Integer(if signed && value >= half { value - 2 * half } else { value })
            }
            Element::F16 => Value::Float(f16::from_bits(word as u16).to_f64()),
            Element::BF16 => Value::Float(bf16::from_bits(word as u16).to_f64()),
            Element::F32 => Value::Float(f32::from_bits(word as u32).into()),
            Element::F64 => Value::Float(f64::from_bits(word)),
        }
    }

    fn write(self, bytes: &mut [u8], value: Value) {
        let word = match (self, value) {
            (Element::F16, Value::Float(value)) => f16::from_f32(value as f32).to_bits().into(),
            (Element::BF16, Value::Float(value)) => bf16::from_f32(value as f32).to_bits().into(),
            (Element::F32, Value::Float(value)) => (value as f32).to_bits().into(),
            (_, Value::Float(value)) => value.to_bits(),
            // the low bits: integers wrap around
            (_, Value::Integer(value)) => value as u64,
        };
        let length = bytes.len();
        bytes.copy_from_slice(&word.to_le_bytes()[..length]);
    }

    /// Reduces element by element, in the order of ranks, rounded to the type at each step.
    pub(crate) fn reduce(self, reduction: Reduction, ranks: &[Vec<u8>]) -> Vec<u8> {
        let Some((first, others)) = ranks.split_first() else { return Vec::new() };
        let mut result = first.clone();
        for (index, place) in result.chunks_exact_mut(self.bytes()).enumerate() {
            for other in others {
                let at = index * self.bytes()..(index + 1) * self.bytes();
                let value = combine(reduction, self.read(place), self.read(&other[at]));
                self.write(place, value);
            }
            if reduction == Reduction::Average {
                let value = match self.read(place) {
                    Value::Integer(sum) => Value::Integer(sum / ranks.len() as i128),
                    Value::Float(sum) => Value::Float(sum / ranks.len() as f64),
                };
                self.write(place, value);
            }
        }
        result
    }
}

fn combine(reduction: Reduction, left: Value, right: Value) -> Value {
    use Value::{Float, Integer};
    match (reduction, left, right) {
        (Reduction::Sum | Reduction::Average, Integer(a), Integer(b)) => Integer(a + b),
        (Reduction::Sum | Reduction::Average, Float(a), Float(b)) => Float(a + b),
        (Reduction::Product, Integer(a), Integer(b)) => Integer(a.wrapping_mul(b)),
        (Reduction::Product, Float(a), Float(b)) => Float(a * b),
        (Reduction::Maximum, Integer(a), Integer(b)) => Integer(a.max(b)),
        (Reduction::Maximum, Float(a), Float(b)) => Float(a.max(b)),
        (Reduction::Minimum, Integer(a), Integer(b)) => Integer(a.min(b)),
        (Reduction::Minimum, Float(a), Float(b)) => Float(a.min(b)),
        // a type reads as one or the other
        (_, left, _) => left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_signs() {
        let signed = Element::Integer(true, 1);
        assert_eq!(signed.reduce(Reduction::Minimum, &[vec![1], vec![0xFF]]), [0xFF]);
        let unsigned = Element::Integer(false, 1);
        assert_eq!(unsigned.reduce(Reduction::Minimum, &[vec![1], vec![0xFF]]), [1]);
        assert_eq!(unsigned.reduce(Reduction::Sum, &[vec![2], vec![0xFF]]), [1]);
        assert_eq!(signed.reduce(Reduction::Average, &[vec![2], vec![0xFC]]), [0xFF]);
    }
}
