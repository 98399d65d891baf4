//! What the crate registers for itself, through the same public [`Library`].

use super::custom_op;
use super::error::DispatchError;
use super::kernel::Kernel;
use super::library::Library;
use crate::error::{Error, ErrorKind, Result};
use straightline_catalog::key::DispatchKey as K;

/// Keys that every operator falls through unless it has a kernel there: those at which c10 has a
/// fallback that does nothing. At the autograd keys, calls that record go to one whose backward
/// pass says which operator has no gradient (c10's only warns).
/// Some autograd keys are not among them, as in c10 (HIP, IPU, VE, PrivateUse2, PrivateUse3,
/// NestedTensor): operators reach those backends by a registration at `Autograd`.
const FALLTHROUGH: [K; 22] = [
    K::BackendSelect,
    K::ADInplaceOrView,
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
    K::AutocastCPU,
    K::AutocastMTIA,
    K::AutocastMAIA,
    K::AutocastXPU,
    K::AutocastMPS,
    K::AutocastCUDA,
    K::FuncTorchVmapMode,
    K::VmapMode,
];

pub(super) fn register() {
    fallbacks().expect("the default fallbacks are the first to be registered");
    crate::modes::register().expect("each mode has a key of its own");
    crate::ops::register().expect("the schemas and kernels fit together: tests load them all");
    crate::autograd::register().expect("each rule is of an operator that has just been registered");
    crate::transforms::register().expect("each layer key is free");
    crate::modes::register_operators();
    #[cfg(feature = "cuda")]
    crate::cuda::register();
}

fn fallbacks() -> Result<()> {
    for key in FALLTHROUGH {
        let mut lib = Library::fallbacks(key)?;
        let kernel = match key.functionality() {
            K::AutogradFunctionality | K::AutogradOther => {
                Kernel::boxed(|op, keys, stack| custom_op::record(op, keys, stack, None))
                    .for_recording()
            }
            _ => Kernel::fallthrough(),
        };
        lib.fallback(kernel)?;
        lib.leak();
    }
    let mut lib = Library::fallbacks(K::Meta)?;
    lib.fallback(Kernel::boxed(|op, _, _| {
        let name = op.name().to_string();
        // no kernel could tell
        if op.tags().contains(&"dynamic_output_shape") {
            return Err(Error::new(ErrorKind::DataDependent { what: name }));
        }
        Err(DispatchError::NoMetaKernel { op: name }.into())
    }))?;
    lib.leak();
    Ok(())
}
