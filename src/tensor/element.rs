//! Rust types that can be tensor elements.

use half::{bf16, f16};
use num_complex::Complex;
use straightline_catalog::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is the element type of some dtype.
///
/// Sealed: the dtypes are fixed. `bool` elements are one byte, 0 or 1; complex ones are those of
/// the crate `num_complex`.
///
/// ```
/// use straightline::{DType, Element};
/// assert_eq!(<f32 as Element>::DTYPE, DType::F32);
/// ```
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;
}

macro_rules! element {
    ($($t:ty => $d:ident),* $(,)?) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$d;
        }
    )*};
}
element!(f32 => F32, f64 => F64, f16 => F16, bf16 => BF16, i64 => I64, i32 => I32, i16 => I16,
    i8 => I8, u8 => U8, bool => Bool, Complex<f32> => C64, Complex<f64> => C128);
