//! Kernels that are written for an element type, chosen by dtype; and the error where there is none.

use crate::error::Result;
use crate::tensor::Tensor;

/// Runs an expression with a type alias bound to the element type of a float dtype; another dtype
/// is the error that PyTorch gives where a kernel lacks it.
macro_rules! with_float {
    ($dtype:expr, $name:expr, $t:ident => $body:expr; half) => {
        match $dtype {
            straightline_catalog::DType::F16 => {
                type $t = half::f16;
                $body
            }
            straightline_catalog::DType::BF16 => {
                type $t = half::bf16;
                $body
            }
            other => crate::ops::by_dtype::with_float!(other, $name, $t => $body),
        }
    };
    ($dtype:expr, $name:expr, $t:ident => $body:expr) => {
        match $dtype {
            straightline_catalog::DType::F32 => {
                type $t = f32;
                $body
            }
            straightline_catalog::DType::F64 => {
                type $t = f64;
                $body
            }
            other => Err(crate::ops::by_dtype::no_kernel($name, other)),
        }
    };
}
pub(crate) use with_float;

/// As [`with_float`] for `f32`, `f64` and complex numbers of them.
macro_rules! with_field {
    ($dtype:expr, $name:expr, $t:ident => $body:expr) => {
        match $dtype {
            straightline_catalog::DType::C64 => {
                type $t = num_complex::Complex<f32>;
                $body
            }
            straightline_catalog::DType::C128 => {
                type $t = num_complex::Complex<f64>;
                $body
            }
            other => crate::ops::by_dtype::with_float!(other, $name, $t => $body),
        }
    };
}
pub(crate) use with_field;

/// PyTorch's words for a dtype that a kernel lacks.
pub(crate) fn no_kernel(name: &str, dtype: straightline_catalog::DType) -> crate::Error {
    crate::Error::not_implemented(format!("\"{name}\" not implemented for '{dtype}'"))
}

/// Refuses what a kernel for `f32` and `f64` alone lacks.
pub(crate) fn check_kernel(name: &str, t: &Tensor) -> Result<()> {
    with_float!(t.dtype(), name, T => {
        debug_assert_eq!(size_of::<T>(), t.dtype().size());
        Ok(())
    })
}

/// Refuses what a kernel for [`with_field`]'s dtypes lacks.
pub(crate) fn check_field(name: &str, t: &Tensor) -> Result<()> {
    with_field!(t.dtype(), name, T => {
        debug_assert_eq!(size_of::<T>(), t.dtype().size());
        Ok(())
    })
}
