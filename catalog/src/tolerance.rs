//! How near to a reference the result of an operator has to be.

use crate::{DType, Tolerance};

impl Tolerance {
    /// Relative and absolute error allowed for results of this dtype: `|x - y| <= atol + rtol |y|`.
    ///
    /// `Pointwise` has the defaults of `torch.testing`; `Accumulate` allows ten times the absolute
    /// error.
    ///
    /// ```
    /// use straightline_catalog::{DType, Tolerance};
    /// assert_eq!(Tolerance::Exact.bounds(DType::F32), (0.0, 0.0));
    /// assert_eq!(Tolerance::Pointwise.bounds(DType::F32), (1.3e-6, 1e-5));
    /// ```
    pub fn bounds(self, dtype: DType) -> (f64, f64) {
        let (rtol, atol) = match dtype {
            DType::F16 => (1e-3, 1e-5),
            DType::BF16 => (1.6e-2, 1e-5),
            DType::F32 => (1.3e-6, 1e-5),
            DType::F64 => (1e-7, 1e-7),
            _ => (0.0, 0.0),
        };
        match self {
            Tolerance::Exact => (0.0, 0.0),
            Tolerance::Pointwise => (rtol, atol),
            Tolerance::Accumulate => (rtol, 10.0 * atol),
            Tolerance::Random => (f64::INFINITY, f64::INFINITY),
        }
    }
}
