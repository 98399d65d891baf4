//! How exact products of `f32` are, for the whole process.

use crate::error::Result;
use crate::modes::outside;
use std::sync::atomic::{AtomicBool, Ordering};

static HIGH: AtomicBool = AtomicBool::new(false);

/// How exact matrix products of `f32` are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MatmulPrecision {
    /// As sums of `f32` are.
    #[default]
    Highest,
    /// Where there are tensor cores for it, factors are rounded to TF32: 10 bits of fraction instead of
    /// 23, and several times the throughput.
    High,
}

/// Sets how exact matrix products of `f32` are, as PyTorch's function of this name does: on a GPU with
/// cuBLASLt those that are queued from now on may round their factors to TF32. Products of the CPU, and
/// convolutions and attention, are as exact as before.
///
/// ```standalone_crate
/// use straightline::{MatmulPrecision, float32_matmul_precision, set_float32_matmul_precision};
/// assert_eq!(float32_matmul_precision(), MatmulPrecision::Highest);
/// set_float32_matmul_precision(MatmulPrecision::High)?;
/// assert_eq!(float32_matmul_precision(), MatmulPrecision::High);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// A call in a function that [`compile()`](crate::compile()) captures: set it before the call.
#[track_caller]
#[doc(alias = "allow_tf32")]
pub fn set_float32_matmul_precision(precision: MatmulPrecision) -> Result<()> {
    outside::check("set_float32_matmul_precision()", "set it before the call")?;
    HIGH.store(precision == MatmulPrecision::High, Ordering::Relaxed);
    Ok(())
}

/// How exact matrix products of `f32` are; see [`set_float32_matmul_precision`].
///
/// ```
/// use straightline::MatmulPrecision;
/// assert_eq!(straightline::float32_matmul_precision(), MatmulPrecision::Highest);
/// ```
#[doc(alias = "get_float32_matmul_precision")]
pub fn float32_matmul_precision() -> MatmulPrecision {
    match HIGH.load(Ordering::Relaxed) {
        true => MatmulPrecision::High,
        false => MatmulPrecision::Highest,
    }
}
