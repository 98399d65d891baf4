//! The floating dtype of everything created without one.
//!
//! One for the process, as in PyTorch. Promotion asks for it, in eager kernels and while a graph is
//! rewritten and scheduled; a function is captured and compiled under one answer, which [`pin`]
//! keeps for the thread, even if other threads set another one meanwhile.

use super::DType;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// What may be set, in the order of the codes in [`CURRENT`].
const FLOATING: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

static CURRENT: AtomicU8 = AtomicU8::new(0);

thread_local! {
    static PINNED: Cell<Option<DType>> = const { Cell::new(None) };
}

/// The default floating dtype, `f32` unless it was [set](set_default_dtype).
#[inline]
pub fn default_dtype() -> DType {
    PINNED.get().unwrap_or_else(of_process)
}

fn of_process() -> DType {
    FLOATING[CURRENT.load(Ordering::Relaxed) as usize % FLOATING.len()]
}

/// Sets the default floating dtype of the process; returns `false` and changes nothing if `dtype`
/// is not floating.
///
/// ```standalone_crate
/// use straightline_words::{DType, default_dtype, promote, set_default_dtype};
/// assert_eq!(default_dtype(), DType::F32);
/// assert!(set_default_dtype(DType::F64));
/// assert_eq!(promote::int_to_float(DType::I64), DType::F64);
/// assert!(!set_default_dtype(DType::I64));
/// ```
pub fn set_default_dtype(dtype: DType) -> bool {
    let code = FLOATING.iter().position(|d| *d == dtype);
    if let Some(code) = code {
        CURRENT.store(code as u8, Ordering::Relaxed);
    }
    code.is_some()
}

/// Keeps the default dtype as it is for this thread while it lives.
#[must_use = "the thread follows the process again where the pin is dropped"]
#[derive(Debug)]
pub struct Pin {
    before: Option<DType>,
    on_this_thread: std::marker::PhantomData<*const ()>,
}

/// On this thread the default dtype is `dtype` while the pin lives.
pub fn pin(dtype: DType) -> Pin {
    Pin { before: PINNED.replace(Some(dtype)), on_this_thread: std::marker::PhantomData }
}

impl Drop for Pin {
    fn drop(&mut self) {
        PINNED.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scalar;
    use crate::promote::{Operand, result_type};

    #[test]
    fn numbers_and_integers_follow_the_default() {
        let of = |dtype, number| {
            let _pin = pin(dtype);
            let x = Operand::tensor(DType::I32, 1);
            result_type([x, Operand::number(number)]).unwrap()
        };
        for dtype in FLOATING {
            assert_eq!(of(dtype, Scalar::Float(0.5)), dtype);
            assert_eq!(of(dtype, Scalar::Int(1)), DType::I32);
            assert_eq!(of(dtype, Scalar::Complex(0.0, 1.0)), dtype.to_complex());
        }
        assert_eq!(default_dtype(), DType::F32);
    }

    #[test]
    fn floating_tensors_keep_theirs() {
        let _pin = pin(DType::F64);
        let half = Operand::tensor(DType::F16, 1);
        let number = Operand::number(Scalar::Float(0.5));
        assert_eq!(result_type([half, number]), Some(DType::F16));
    }
}
