//! Executable memory: functions are added while writable, then sealed as read + execute.
//!
//! Where instructions are cached apart from data (AArch64), sealing also drops what the instruction cache holds of the
//! pages, before they become executable, and then has every thread of the process fetch anew: both are in
//! `cranelift-jit`'s `finalize_definitions`. Code may be called by any thread once [`CodeBuilder::finish`] has returned.

use super::JitError;
use cranelift_codegen::Context;
use cranelift_codegen::ir::Signature;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};

/// Code under construction. Dropping it frees what was emitted.
pub(crate) struct CodeBuilder {
    module: Option<JITModule>,
}

/// Finished code; freed when dropped.
pub(crate) struct Code {
    module: Option<JITModule>,
}

// SAFETY: after `CodeBuilder::finish` the module is only dropped, never called through `&Code`; the
// code it holds is immutable.
unsafe impl Sync for Code {}

impl CodeBuilder {
    pub(crate) fn new() -> Result<Self, JitError> {
        let builder = JITBuilder::with_isa(super::isa::host()?, default_libcall_names());
        Ok(CodeBuilder {
            module: Some(JITModule::new(builder)),
        })
    }

    pub(crate) fn module(&mut self) -> &mut JITModule {
        self.module.as_mut().expect("present until finish")
    }

    /// Declares a function that is defined later.
    pub(crate) fn declare(&mut self, name: &str, sig: &Signature) -> Result<FuncId, JitError> {
        self.module()
            .declare_function(name, Linkage::Local, sig)
            .map_err(|e| JitError::codegen(name, &e))
    }

    /// Compiles `ctx.func` as the body of a declared function.
    pub(crate) fn define(
        &mut self,
        name: &str,
        id: FuncId,
        ctx: &mut Context,
    ) -> Result<(), JitError> {
        self.module()
            .define_function(id, ctx)
            .map_err(|e| JitError::codegen(name, &e))
    }

    /// The body of a declared function as machine code that refers to nothing outside itself.
    pub(crate) fn define_bytes(
        &mut self,
        name: &str,
        id: FuncId,
        code: &[u8],
    ) -> Result<(), JitError> {
        self.module()
            .define_function_bytes(id, 64, code, &[])
            .map_err(|e| JitError::codegen(name, &e))
    }

    /// Makes the code executable.
    pub(crate) fn finish(mut self) -> Result<Code, JitError> {
        self.module()
            .finalize_definitions()
            .map_err(|e| JitError::codegen("finalize", &e))?;
        Ok(Code {
            module: self.module.take(),
        })
    }
}

impl Code {
    pub(crate) fn address(&self, id: FuncId) -> *const u8 {
        self.module
            .as_ref()
            .expect("present until drop")
            .get_finalized_function(id)
    }
}

fn free(module: &mut Option<JITModule>) {
    if let Some(module) = module.take() {
        // SAFETY: addresses handed out do not outlive the `Code`, whose owner is being dropped; a
        // `CodeBuilder` has handed out none.
        unsafe { module.free_memory() };
    }
}

impl Drop for CodeBuilder {
    fn drop(&mut self) {
        free(&mut self.module);
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        free(&mut self.module);
    }
}
