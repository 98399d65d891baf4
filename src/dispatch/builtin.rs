//! What the crate registers for itself, through the same [`Library`] that everybody uses.

use super::error::DispatchError;
use super::kernel::Kernel;
use super::key::{BackendComponent, DispatchKey as K};
use super::library::Library;
use crate::Result;

/// Keys that every operator falls through unless it has a kernel there. The autograd keys are on
/// every tensor, so without this no operator could be called. c10 leaves a few of them out (HIP,
/// VE, IPU, PrivateUse2, PrivateUse3); here all backends are alike, which also keeps the mask of a
/// plain operator the same for all of them and its calls on the short road.
fn fallthrough_keys() -> impl Iterator<Item = K> {
    [
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
    ]
    .into_iter()
    .chain(BackendComponent::ALL.map(|b| K::AutogradFunctionality.on_backend(b)))
}

pub(super) fn register() {
    fallbacks().expect("the default fallbacks are the first to be registered");
    crate::modes::register().expect("each mode has a key of its own");
    crate::ops::register().expect("the schemas and kernels fit together: tests load them all");
    crate::modes::register_operators().expect("kernels that take any operator fit all of them");
}

fn fallbacks() -> Result<()> {
    for key in fallthrough_keys() {
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
