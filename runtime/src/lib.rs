//! Everything that touches bytes.
//!
//! Buffers and allocators, CPU kernels, the Cranelift JIT, the thread pool and the execution of a
//! plan. This crate never sees a `Tensor` or a dispatch key. It is internal to `straightline`.

pub mod cpu;
pub mod memory;
#[cfg(feature = "jit")]
pub mod plan;
pub mod rng;
pub mod stack;

/// What a caught panic said.
///
/// ```
/// let caught = std::panic::catch_unwind(|| panic!("no rows")).unwrap_err();
/// assert_eq!(straightline_runtime::panic_text(&*caught), "no rows");
/// ```
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panicked")
}
