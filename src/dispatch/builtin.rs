//! What the crate registers for itself, through the same [`Library`] that everybody uses.

use super::error::DispatchError;
use super::kernel::Kernel;
use super::key::DispatchKey as K;
use super::library::Library;
use crate::Result;

/// Keys that every operator falls through unless it has a kernel there. The autograd keys are on
/// every tensor, so without this no operator could be called.
const FALLTHROUGH: [K; 25] = [
    K::BackendSelect,
    K::ADInplaceOrView,
    K::AutocastCPU,
    K::AutocastMTIA,
    K::AutocastMAIA,
    K::AutocastXPU,
    K::AutocastMPS,
    K::AutocastCUDA,
    K::FuncTorchVmapMode,
    K::VmapMode,
    K::AutogradOther,
    K::AutogradCPU,
    K::AutogradCUDA,
    K::AutogradXLA,
    K::AutogradMPS,
    K::AutogradXPU,
    K::AutogradHPU,
    K::AutogradLazy,
    K::AutogradMTIA,
    K::AutogradMAIA,
    K::AutogradPrivateUse1,
    K::AutogradMeta,
    // c10 has none for these three, and tensors of theirs could not be used
    K::AutogradIPU,
    K::AutogradPrivateUse2,
    K::AutogradPrivateUse3,
];

pub(super) fn register() {
    fallbacks().expect("the default fallbacks are the first to be registered");
}

fn fallbacks() -> Result<()> {
    for key in FALLTHROUGH {
        let mut lib = Library::fallbacks(key)?;
        lib.fallback(Kernel::fallthrough())?;
        lib.leak();
    }
    let mut lib = Library::fallbacks(K::Meta)?;
    lib.fallback(Kernel::boxed(|op, _, _| {
        let op = op.name().to_string();
        Err(DispatchError::NoMetaKernel { op }.into())
    }))?;
    lib.leak();
    Ok(())
}
