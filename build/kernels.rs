//! The kernels that the entries of the catalogue name.

use straightline_catalog::DispatchKey;
use straightline_catalog::entry::Entry;

/// The kernels of an entry, one key each.
pub(crate) fn kernels(entry: &Entry) -> Result<Vec<(String, String)>, String> {
    let variants = entry.variant_at.iter().map(|key| (*key, "variant"));
    (entry.kernels.iter().copied().chain(variants))
        .map(|(key, kernel)| match is_key(key) {
            true => Ok((key.to_string(), kernel.to_string())),
            false => Err(format!("`{key}` is no dispatch key that kernels can have")),
        })
        .collect()
}

/// The expression of a kernel.
pub(crate) fn kernel_path(kernel: &str) -> String {
    match kernel {
        "fallthrough" => "crate::dispatch::Kernel::fallthrough()".to_string(),
        "below_autograd" => "crate::ops::below_autograd()".to_string(),
        // what capture records of an operator in another form than its kernel's
        path if path.starts_with("captured::") => {
            path.replace("captured", "crate::modes::functionalize")
        }
        path => format!("crate::ops::{path}"),
    }
}

/// Whether the dispatcher has a key of this name that kernels can be registered at.
pub(crate) fn is_key(name: &str) -> bool {
    DispatchKey::ALL.iter().any(|k| k.name() == name && (k.is_runtime() || k.is_alias()))
}

/// Operators whose autograd kernels are written by hand (`src/autograd/by_hand.rs`).
const BY_HAND: [&str; 6] =
    ["copy_", "detach", "detach_", "resize_", "resize_as_", "set_.source_Tensor"];

/// Where operators that are not composites all the way down are passed by: `Autograd` where there
/// is no autograd kernel for them (`src/autograd/register.rs`), and `ADInplaceOrView` where they
/// write or alias an argument. PyTorch's code generator registers kernels at both; what its second
/// one does, kernels do here: views know their base, and writes are counted.
pub(crate) fn autograd_keys(kernels: &[(String, String)], entry: &Entry) -> Vec<&'static str> {
    let schema = entry.op.schema();
    let has = |key: &str| kernels.iter().any(|(k, _)| k == key);
    if has("CompositeImplicitAutograd") {
        return Vec::new();
    }
    let recorded = entry.derivative.is_some_and(|d| !d.not_differentiable)
        || schema.is_out_variant()
        || BY_HAND.contains(&entry.op.unqualified());
    let mut keys = Vec::new();
    if !recorded {
        keys.push("Autograd");
    }
    if schema.is_mutable() || schema.is_view() {
        keys.push("ADInplaceOrView");
    }
    keys.retain(|k| !has(k));
    keys
}
