//! The floating dtype that literals and factories make, for the whole process.

use crate::dispatch;
use crate::error::Result;
use crate::modes::outside;
use straightline_catalog::DType;

/// Sets the floating dtype of everything created without one: literals
/// ([`tensor`](crate::tensor())), factories, [`Tensor::full`](crate::Tensor::full) and
/// [`Tensor::arange`](crate::Tensor::arange) of floating numbers, an integer tensor with a floating
/// number, and functions that compute integers in floating point, division and `exp` among them.
/// Complex literals get the complex dtype that goes with it. Tensors that exist keep their dtype,
/// and so do data that have a type of their own, as in
/// [`Tensor::from_slice`](crate::Tensor::from_slice).
///
/// As in PyTorch it is one setting for the process: threads that a program starts, or a pool has,
/// go on with what its `main` has set, where a setting of the thread would make them compute in
/// `f32` without a word. Set it once, before there are tensors. A call that runs while another
/// thread sets it takes the one dtype or the other; a function is captured and compiled under one.
/// A compiled function serves calls under the default dtype that it was compiled under, and is
/// compiled anew for another one.
///
/// ```standalone_crate
/// use straightline::{DType, default_dtype, set_default_dtype, tensor};
/// assert_eq!(default_dtype(), DType::F32);
/// set_default_dtype(DType::F64)?;
/// assert_eq!(tensor([0.1])?.to_vec::<f64>()?, [0.1]);
/// assert_eq!((tensor([1, 2])? / 2).dtype(), DType::F64);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// A dtype that is not floating, and a call in a function that [`compile()`](crate::compile())
/// captures: set it before the call.
#[track_caller]
pub fn set_default_dtype(dtype: DType) -> Result<()> {
    outside::check("set_default_dtype()", "set it before the call")?;
    ensure_type!(
        straightline_catalog::set_default_dtype(dtype),
        "only floating-point types are supported as the default type, and {} is none: set one of float32, float64, float16, bfloat16",
        dtype.torch_name()
    );
    dispatch::plans_look_again();
    Ok(())
}

/// The floating dtype of everything created without one; see [`set_default_dtype`].
///
/// ```
/// assert_eq!(straightline::default_dtype(), straightline::DType::F32);
/// ```
#[doc(alias = "get_default_dtype")]
pub fn default_dtype() -> DType {
    // no question to note: every variant has a guard on it
    straightline_catalog::default_dtype()
}
