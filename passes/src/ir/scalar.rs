//! A single number with its kind, as operator arguments carry it.

use super::{DType, dtype::Category};
use std::fmt;

/// A number given to an operator where the schema says `Scalar`.
///
/// The kind matters: it takes part in type promotion as a category without a width, so
/// `i64 tensor + 1.5` promotes to the default float type while `f32 tensor + 1.5` stays `f32`.
///
/// ```
/// use straightline_passes::ir::Scalar;
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
}

impl Scalar {
    /// The value as `f64`.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => f64::from(u8::from(b)),
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
        }
    }

    /// The value as `i64`; floats truncate toward zero and saturate.
    #[inline]
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => i64::from(b),
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
        }
    }

    /// Whether the value is non-zero (NaN is).
    #[inline]
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
        }
    }

    /// The promotion category of the number's kind.
    #[inline]
    pub fn category(self) -> Category {
        match self {
            Scalar::Bool(_) => Category::Bool,
            Scalar::Int(_) => Category::Integral,
            Scalar::Float(_) => Category::Floating,
        }
    }

    /// The dtype that a 0-dim tensor made from this number has: `bool`, `i64`, or the default
    /// floating type `f32`.
    #[inline]
    pub fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
        }
    }

    /// The same number in the kind that `dtype` stores (an `f32` value is rounded to `f32`,
    /// integers wrap to the width of the type).
    pub fn cast(self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(self.as_bool()),
            DType::U8 | DType::QUInt8 => Scalar::Int(i64::from(self.as_i64() as u8)),
            DType::I8 | DType::QInt8 => Scalar::Int(i64::from(self.as_i64() as i8)),
            DType::I16 => Scalar::Int(i64::from(self.as_i64() as i16)),
            DType::I32 | DType::QInt32 => Scalar::Int(i64::from(self.as_i64() as i32)),
            DType::I64 => Scalar::Int(self.as_i64()),
            DType::F16 => Scalar::Float(half::f16::from_f64(self.as_f64()).to_f64()),
            DType::BF16 => Scalar::Float(half::bf16::from_f64(self.as_f64()).to_f64()),
            DType::F32 => Scalar::Float(f64::from(self.as_f64() as f32)),
            DType::F64 => Scalar::Float(self.as_f64()),
        }
    }

    /// Equal as bits and kind: NaN equals NaN, `-0.0` differs from `0.0`.
    pub fn same(self, other: Scalar) -> bool {
        match (self, other) {
            (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
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
