//! How near to a reference the result of an operator has to be.

use std::collections::HashMap;
use std::sync::OnceLock;
use straightline_passes::ir::DType;

/// What an operator promises about the numbers of its result; the field `tolerance` of its entry in
/// `native_functions/`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tolerance {
    /// The same bits whoever computes it: copies, comparisons, integers, operations that IEEE 754 rounds correctly.
    Exact,
    /// Each element within a few units in the last place: functions of single elements.
    Pointwise,
    /// The order of additions is free: sums, products of matrices, convolutions, norms, softmax.
    Accumulate,
    /// The numbers are random; shape, dtype and distribution count.
    Random,
}

impl Tolerance {
    /// Relative and absolute error allowed for results of this dtype: `|x - y| <= atol + rtol |y|`.
    ///
    /// `Pointwise` has the defaults of `torch.testing`; `Accumulate` allows ten times the absolute error.
    ///
    /// ```
    /// use straightline::{DType, ops::Tolerance};
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

/// The class of one of our operators, by its full name; `None` for names that are not in `native_functions/`.
///
/// ```
/// use straightline::ops::{Tolerance, tolerance};
/// assert_eq!(tolerance("aten::exp"), Some(Tolerance::Pointwise));
/// assert_eq!(tolerance("aten::no_such_operator"), None);
/// ```
pub fn tolerance(operator: &str) -> Option<Tolerance> {
    static CLASSES: OnceLock<HashMap<&str, Tolerance>> = OnceLock::new();
    let classes = CLASSES.get_or_init(|| super::aten::TOLERANCES.iter().copied().collect());
    let known = || crate::dispatch::operator(operator).is_ok() && operator.starts_with("aten::");
    classes
        .get(operator)
        .copied()
        .or_else(|| known().then_some(Tolerance::Pointwise))
}
