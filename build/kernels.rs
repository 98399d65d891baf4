//! The kernels that the entries of the catalogue name.

use straightline_catalog::DispatchKey;
use straightline_catalog::entry::Entry;
use straightline_catalog::schema::FunctionSchema;

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

/// Where PyTorch's code generator puts autograd kernels: at `Autograd` for every operator that is
/// not a composite all the way down, and at `ADInplaceOrView` for those of them that write or
/// alias an argument. Here these keys are passed by until there are such kernels.
pub(crate) fn autograd_keys(
    kernels: &[(String, String)],
    schema: &FunctionSchema,
) -> Vec<&'static str> {
    let has = |key: &str| kernels.iter().any(|(k, _)| k == key);
    if has("CompositeImplicitAutograd") {
        return Vec::new();
    }
    let mut keys = vec!["Autograd"];
    if schema.is_mutable() || schema.is_view() {
        keys.push("ADInplaceOrView");
    }
    keys.retain(|k| !has(k));
    keys
}
