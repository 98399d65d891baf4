//! A single number with its kind, as operator arguments carry it.

use super::{DType, default_dtype, dtype::Category};
use std::fmt;

/// A number given to an operator where the schema says `Scalar`.
///
/// The kind matters: it takes part in type promotion as a category without a width, so
/// `i64 tensor + 1.5` promotes to the default float type while `f32 tensor + 1.5` stays `f32`.
///
/// ```
/// use straightline_words::Scalar;
/// assert_eq!(Scalar::from(2).to_string(), "2");
/// assert_eq!(Scalar::from(2.0).to_string(), "2.0");
/// assert_eq!(Scalar::from(true).as_f64(), 1.0);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A complex number: its real and its imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// The value as `f64`; of a complex number its real part.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => f64::from(u8::from(b)),
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) | Scalar::Complex(f, _) => f,
        }
    }

    /// The value as `i64`; floats truncate toward zero and saturate.
    #[inline]
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => i64::from(b),
            Scalar::Int(i) => i,
            Scalar::Float(f) | Scalar::Complex(f, _) => f as i64,
        }
    }

    /// Whether the value is non-zero (NaN is).
    #[inline]
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
            Scalar::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }

    /// The real and the imaginary part.
    #[inline]
    pub fn as_complex(self) -> (f64, f64) {
        match self {
            Scalar::Complex(re, im) => (re, im),
            real => (real.as_f64(), 0.0),
        }
    }

    /// Whether this is a complex number, even one with imaginary part 0.
    #[inline]
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(..))
    }

    /// The promotion category of the number's kind.
    #[inline]
    pub fn category(self) -> Category {
        match self {
            Scalar::Bool(_) => Category::Bool,
            Scalar::Int(_) => Category::Integral,
            Scalar::Float(_) => Category::Floating,
            Scalar::Complex(..) => Category::Complex,
        }
    }

    /// The dtype that a 0-dim tensor made from this number has: `bool`, `i64`, or the [default
    /// floating type](default_dtype()) or the complex type that goes with it.
    #[inline]
    pub fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => default_dtype(),
            Scalar::Complex(..) => default_dtype().to_complex(),
        }
    }

    /// The same number in the kind that `dtype` stores (an `f32` value is rounded to `f32`,
    /// integers wrap to the width of the type, a half type is reached through `f32`, as in c10).
    pub fn cast(self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(self.as_bool()),
            DType::U8 | DType::QUInt8 => Scalar::Int(i64::from(self.as_i64() as u8)),
            DType::I8 | DType::QInt8 => Scalar::Int(i64::from(self.as_i64() as i8)),
            DType::I16 => Scalar::Int(i64::from(self.as_i64() as i16)),
            DType::I32 | DType::QInt32 => Scalar::Int(i64::from(self.as_i64() as i32)),
            DType::I64 => Scalar::Int(self.as_i64()),
            DType::F16 => Scalar::Float(half::f16::from_f32(self.as_f64() as f32).to_f64()),
            DType::BF16 => Scalar::Float(half::bf16::from_f32(self.as_f64() as f32).to_f64()),
            DType::F32 => Scalar::Float(f64::from(self.as_f64() as f32)),
            DType::F64 => Scalar::Float(self.as_f64()),
            DType::C64 => {
                let (re, im) = self.as_complex();
                Scalar::Complex(f64::from(re as f32), f64::from(im as f32))
            }
            DType::C128 => {
                let (re, im) = self.as_complex();
                Scalar::Complex(re, im)
            }
        }
    }

    /// Whether a dtype has this number, rounded perhaps: PyTorch's `overflows`, by which `u8` takes
    /// negative integers that wrap around. Infinities and NaN fit where there are numbers like them.
    ///
    /// ```
    /// use straightline_words::{DType, Scalar};
    /// assert!(Scalar::Int(-1).fits(DType::U8) && !Scalar::Int(256).fits(DType::U8));
    /// assert!(Scalar::Float(1e30).fits(DType::F32) && !Scalar::Float(1e39).fits(DType::F32));
    /// assert!(!Scalar::Complex(1.0, 2.0).fits(DType::F32));
    /// ```
    pub fn fits(self, dtype: DType) -> bool {
        let (re, im) = self.as_complex();
        let within = |most: f64| !re.is_finite() || re.abs() <= most;
        match (dtype, self) {
            (DType::C64 | DType::C128, _) => true,
            _ if im != 0.0 => false,
            (DType::F16, _) => within(half::f16::MAX.to_f64()),
            (DType::BF16, _) => within(half::bf16::MAX.to_f64()),
            (DType::F32, _) => within(f64::from(f32::MAX)),
            (DType::U8, Scalar::Int(v)) => (-255..=255).contains(&v),
            _ => match (dtype.integer_bounds(), self) {
                (Some((least, most)), Scalar::Int(v)) => (least..=most).contains(&v),
                (Some((least, most)), _) => (least as f64..=most as f64).contains(&re),
                (None, _) => true,
            },
        }
    }

    /// The nearest number of an integer type; itself where `dtype` is another type.
    pub fn saturate(self, dtype: DType) -> Scalar {
        match dtype.integer_bounds() {
            Some((least, most)) => Scalar::Int(self.as_i64().clamp(least, most)),
            None => self,
        }
    }

    /// Equal as bits and kind: NaN equals NaN, `-0.0` differs from `0.0`.
    pub fn same(self, other: Scalar) -> bool {
        match (self, other) {
            (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
            (Scalar::Complex(a, b), Scalar::Complex(c, d)) => {
                a.to_bits() == c.to_bits() && b.to_bits() == d.to_bits()
            }
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(i) => write!(f, "{i}"),
            // {:?} keeps the point (`2.0`) and is the shortest text that reads back the same
            Scalar::Float(x) if x.is_nan() => f.write_str("nan"),
            Scalar::Float(x) => write!(f, "{x:?}"),
            Scalar::Complex(re, im) => {
                let sign = if im.is_sign_negative() && !im.is_nan() { "" } else { "+" };
                write!(f, "({}{sign}{}j)", Scalar::Float(*re), Scalar::Float(*im))
            }
        }
    }
}

macro_rules! scalar_from {
    ($($t:ty => $v:ident as $as:ty),* $(,)?) => {$(
        impl From<$t> for Scalar {
            #[inline]
            fn from(x: $t) -> Self { Scalar::$v(x as $as) }
        }
    )*};
}
scalar_from!(bool => Bool as bool, i64 => Int as i64, i32 => Int as i64, u8 => Int as i64,
    usize => Int as i64, f64 => Float as f64, f32 => Float as f64);

macro_rules! scalar_from_complex {
    ($($t:ty),*) => {$(
        impl From<num_complex::Complex<$t>> for Scalar {
            #[inline]
            fn from(x: num_complex::Complex<$t>) -> Self {
                Scalar::Complex(x.re.into(), x.im.into())
            }
        }
    )*};
}
scalar_from_complex!(f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Just above the middle of two neighbours: a conversion that looks at the upper half of the
    /// `f64` alone, as `half`'s own does, takes it for a tie.
    #[test]
    fn half_types_round_on_all_the_bits() {
        let x = Scalar::Float(0.798_828_184_604_644_8);
        assert_eq!(x.cast(DType::BF16), Scalar::Float(0.800_781_25));
        let x = Scalar::Float(f64::from(1.0 + f32::powi(2.0, -11) + f32::powi(2.0, -22)));
        assert_eq!(x.cast(DType::F16), Scalar::Float(1.000_976_562_5));
    }

    #[test]
    fn complex_numbers_print_as_they_are_read() {
        for (re, im, text) in [
            (1.0, 2.0, "(1.0+2.0j)"),
            (-1.5, -0.0, "(-1.5-0.0j)"),
            (f64::NAN, f64::INFINITY, "(nan+infj)"),
            (f64::NEG_INFINITY, f64::NAN, "(-inf+nanj)"),
        ] {
            assert_eq!(Scalar::Complex(re, im).to_string(), text);
        }
        assert_eq!(Scalar::from(2).cast(DType::C64), Scalar::Complex(2.0, 0.0));
        assert!(Scalar::Complex(0.0, 1.0).as_bool());
    }
}
