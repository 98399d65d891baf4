//! Element types and the type-promotion lattice.

use std::fmt;

/// The element type of a tensor.
///
/// The discriminants are PyTorch's `ScalarType` numbers, which is how a dtype travels as an `int`
/// default inside an operator schema.
///
/// ```
/// use straightline_words::DType;
/// assert_eq!(DType::F32.size(), 4);
/// assert_eq!(DType::F32.to_string(), "f32");
/// assert_eq!(DType::promote(DType::I64, DType::F16), DType::F16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // each name says its width
pub enum DType {
    U8 = 0,
    I8 = 1,
    I16 = 2,
    I32 = 3,
    I64 = 4,
    F16 = 5,
    F32 = 6,
    F64 = 7,
    C64 = 9,
    C128 = 10,
    Bool = 11,
    QInt8 = 12,
    QUInt8 = 13,
    QInt32 = 14,
    BF16 = 15,
}

/// How a dtype takes part in promotion: a higher category always wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Category {
    /// `bool`.
    Bool,
    /// Signed and unsigned integers.
    Integral,
    /// Floating point.
    Floating,
    /// Pairs of floating-point numbers.
    Complex,
    /// Integers with a scale. They promote with nothing, so this is the highest category.
    Quantized,
}

impl DType {
    /// Every dtype of real numbers that is computed with, in `ScalarType` order. The quantized ones
    /// are apart, in [`DType::QUANTIZED`], and so are the complex ones, in [`DType::COMPLEX`].
    pub const ALL: [DType; 10] = [
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::Bool,
        DType::BF16,
    ];

    /// The quantized dtypes: integers that stand for real numbers through a scale and a zero point,
    /// which the tensor carries. Only quantized operators take them, and no dense tensor has one.
    pub const QUANTIZED: [DType; 3] = [DType::QInt8, DType::QUInt8, DType::QInt32];

    /// The complex dtypes: a real and an imaginary part, side by side. Apart from [`DType::ALL`]
    /// since fewer operators take them, and generated code does not compute with them.
    pub const COMPLEX: [DType; 2] = [DType::C64, DType::C128];

    /// Whether this is one of [`DType::COMPLEX`].
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// The dtype of the parts of a complex dtype; every other dtype is its own.
    ///
    /// ```
    /// use straightline_words::DType;
    /// assert_eq!(DType::C128.to_real(), DType::F64);
    /// assert_eq!(DType::F16.to_complex(), DType::C64);
    /// ```
    #[inline]
    pub const fn to_real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The complex dtype that corresponds to this dtype:
    /// `f64` has `c128`, everything else `c64`.
    #[inline]
    pub const fn to_complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }

    /// Whether this is one of [`DType::QUANTIZED`].
    ///
    /// ```
    /// use straightline_words::DType;
    /// assert!(DType::QUInt8.is_quantized() && !DType::U8.is_quantized());
    /// assert_eq!(DType::QUInt8.int_repr(), DType::U8);
    /// ```
    #[inline]
    pub const fn is_quantized(self) -> bool {
        matches!(self, DType::QInt8 | DType::QUInt8 | DType::QInt32)
    }

    /// The integer type that a quantized dtype is stored as; every other dtype is its own. Code
    /// that moves bytes treats a quantized dtype as this one.
    #[inline]
    pub const fn int_repr(self) -> DType {
        match self {
            DType::QInt8 => DType::I8,
            DType::QUInt8 => DType::U8,
            DType::QInt32 => DType::I32,
            other => other,
        }
    }

    /// Bytes per element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::U8 | DType::I8 | DType::Bool | DType::QInt8 | DType::QUInt8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 | DType::QInt32 => 4,
            DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The promotion category.
    #[inline]
    pub const fn category(self) -> Category {
        match self {
            DType::Bool => Category::Bool,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => Category::Integral,
            DType::QInt8 | DType::QUInt8 | DType::QInt32 => Category::Quantized,
            DType::F16 | DType::F32 | DType::F64 | DType::BF16 => Category::Floating,
            DType::C64 | DType::C128 => Category::Complex,
        }
    }

    /// `f16`, `bf16`, `f32` or `f64`.
    #[inline]
    pub const fn is_floating(self) -> bool {
        matches!(self.category(), Category::Floating)
    }

    /// An integer type, `bool` not counted.
    #[inline]
    pub const fn is_integral(self) -> bool {
        matches!(self.category(), Category::Integral)
    }

    /// A two-byte floating type.
    #[inline]
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// The type in which arithmetic on this dtype is carried out: half types compute in `f32`
    /// (PyTorch's `opmath_t`), everything else in itself.
    #[inline]
    pub const fn opmath(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The short name used in the graph text: `f32`, `bf16`, `i64`, `bool` ...
    pub const fn name(self) -> &'static str {
        match self {
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
            DType::Bool => "bool",
            DType::QInt8 => "qint8",
            DType::QUInt8 => "quint8",
            DType::QInt32 => "qint32",
            DType::BF16 => "bf16",
        }
    }

    /// PyTorch's name: `float32`, `bfloat16`, `int64`, `bool` ...
    pub const fn torch_name(self) -> &'static str {
        match self {
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
            DType::Bool => "bool",
            DType::QInt8 => "qint8",
            DType::QUInt8 => "quint8",
            DType::QInt32 => "qint32",
            DType::BF16 => "bfloat16",
        }
    }

    /// The smallest and the largest number of an integer type.
    pub const fn integer_bounds(self) -> Option<(i64, i64)> {
        match self {
            DType::U8 => Some((0, u8::MAX as i64)),
            DType::I8 => Some((i8::MIN as i64, i8::MAX as i64)),
            DType::I16 => Some((i16::MIN as i64, i16::MAX as i64)),
            DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            DType::I64 => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }

    /// The smallest and the largest finite number of a floating-point type.
    ///
    /// ```
    /// use straightline_words::DType;
    /// assert_eq!(DType::F16.finite_bounds(), Some((-65504.0, 65504.0)));
    /// assert_eq!(DType::I64.finite_bounds(), None);
    /// ```
    pub const fn finite_bounds(self) -> Option<(f64, f64)> {
        match self {
            DType::F16 => Some((-65504.0, 65504.0)),
            // 2^128 less one unit of an 8-bit significand
            DType::BF16 => Some((-3.389_531_389_251_535_5e38, 3.389_531_389_251_535_5e38)),
            DType::F32 => Some((f32::MIN as f64, f32::MAX as f64)),
            DType::F64 => Some((f64::MIN, f64::MAX)),
            _ => None,
        }
    }

    /// The inverse of [`DType::name`] and [`DType::torch_name`], for dtypes that are computed with.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL
            .into_iter()
            .chain(DType::COMPLEX)
            .find(|d| d.name() == name || d.torch_name() == name)
    }

    /// The dtype with this `ScalarType` number.
    pub fn from_scalar_type(n: i64) -> Option<DType> {
        DType::ALL
            .into_iter()
            .chain(DType::COMPLEX)
            .chain(DType::QUANTIZED)
            .find(|d| *d as i64 == n)
    }

    /// The smallest type of the lattice to which both convert (PyTorch's `promote_types`).
    pub fn promote(a: DType, b: DType) -> DType {
        use DType::*;
        if a == b {
            return a;
        }
        match (a, b) {
            (C64, F64) | (F64, C64) | (C64, C128) | (C128, C64) => return C128,
            _ => {}
        }
        match (a.category(), b.category()) {
            (ca, cb) if ca > cb => return a,
            (ca, cb) if ca < cb => return b,
            _ => {}
        }
        match (a, b) {
            (F64, _) | (_, F64) => F64,
            (F32, _) | (_, F32) => F32,
            (F16, BF16) | (BF16, F16) => F32,
            // u8 beside a signed type: the next wider signed type
            (U8, I8) | (I8, U8) => I16,
            _ => {
                if a.size() >= b.size() {
                    a
                } else {
                    b
                }
            }
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_commutative_and_idempotent() {
        let every = || DType::ALL.into_iter().chain(DType::COMPLEX);
        for a in every() {
            assert_eq!(DType::promote(a, a), a);
            for b in every() {
                assert_eq!(DType::promote(a, b), DType::promote(b, a), "{a} {b}");
            }
        }
    }

    #[test]
    fn promotion_follows_pytorch() {
        use DType::*;
        for (a, b, want) in [
            (U8, I8, I16),
            (U8, I16, I16),
            (U8, I64, I64),
            (Bool, U8, U8),
            (F16, BF16, F32),
            (I64, F16, F16),
            (F16, F32, F32),
            (BF16, F64, F64),
            (Bool, F16, F16),
            (C64, F64, C128),
            (C64, F16, C64),
            (C64, BF16, C64),
            (C64, I64, C64),
            (C128, F32, C128),
            (C64, C128, C128),
        ] {
            assert_eq!(DType::promote(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn names_round_trip() {
        for d in DType::ALL.into_iter().chain(DType::COMPLEX) {
            assert_eq!(DType::from_name(d.name()), Some(d));
            assert_eq!(DType::from_name(d.torch_name()), Some(d));
            assert_eq!(DType::from_scalar_type(d as i64), Some(d));
        }
    }

    #[test]
    fn quantized_types_are_apart() {
        for d in DType::QUANTIZED {
            assert!(!DType::ALL.contains(&d) && DType::from_name(d.name()).is_none());
            assert_eq!(DType::from_scalar_type(d as i64), Some(d));
            assert_eq!(d.size(), d.int_repr().size());
            assert!(!d.is_floating() && !d.is_integral());
        }
    }
}
