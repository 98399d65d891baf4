//! The host's instruction set, looked up once per process.

use super::JitError;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use std::sync::OnceLock;

/// The ISA that code is generated for: the host with everything it has.
///
/// # Errors
///
/// Where Cranelift does not know the machine.
pub(crate) fn host() -> Result<OwnedTargetIsa, JitError> {
    static ISA: OnceLock<Result<OwnedTargetIsa, JitError>> = OnceLock::new();
    ISA.get_or_init(build).clone()
}

fn build() -> Result<OwnedTargetIsa, JitError> {
    let err = |message: String| JitError::Host { message };
    let mut flags = settings::builder();
    let verify = if cfg!(debug_assertions) { "true" } else { "false" };
    for (name, value) in [
        // The emitter hoists and shares what matters; Cranelift's own optimiser was measured to
        // double the compile time of a fused kernel and to make long math bodies 20 % slower (it
        // lengthens live ranges, 16 registers).
        ("opt_level", "none"),
        ("enable_verifier", verify),
        // code never moves after it is placed, and every callee is given by address
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("enable_probestack", "false"),
        ("unwind_info", "false"),
    ] {
        flags.set(name, value).map_err(|e| err(e.to_string()))?;
    }
    cranelift_native::builder()
        .map_err(|e| err(e.to_string()))?
        .finish(settings::Flags::new(flags))
        .map_err(|e| err(e.to_string()))
}
