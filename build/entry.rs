//! The entries of the yaml files, and the kernels that they name.

use crate::key::DispatchKey;
use serde::Deserialize;
use std::collections::BTreeMap;
use straightline_catalog::schema::FunctionSchema;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) func: String,
    #[serde(default)]
    pub(crate) dispatch: BTreeMap<String, String>,
    /// Of an `out` variant: the functional variant that its kernels are made of, and the in-place
    /// one where there is one.
    #[serde(default)]
    pub(crate) structured: Vec<String>,
    /// Of an `out` variant: whether `out` must have the very dtype of the result.
    #[serde(default)]
    pub(crate) out_dtype: OutDtype,
    /// Of an `out` variant: the strides of an `out` that has the sizes of the result.
    #[serde(default)]
    pub(crate) out_strides: OutStrides,
    /// Of an `out` variant: whether `out` may share memory with an operand.
    #[serde(default)]
    pub(crate) out_overlap: OutOverlap,
    #[serde(default)]
    pub(crate) out_checked: OutChecked,
    /// Whether each result is there.
    #[serde(default)]
    pub(crate) results: Results,
    /// Of a variant that writes: the functional one that its kernels are made of.
    #[serde(default)]
    pub(crate) variant_of: Option<String>,
    /// The keys of those kernels.
    #[serde(default)]
    pub(crate) variant_at: Option<String>,
    /// How near to PyTorch's result the operator's has to be.
    #[serde(default)]
    pub(crate) tolerance: Tolerance,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    #[serde(default)]
    pub(crate) doc: Option<String>,
}

/// The classes of `straightline::ops::Tolerance`.
#[derive(Deserialize, Default, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tolerance {
    Exact,
    #[default]
    Pointwise,
    Accumulate,
    Random,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutDtype {
    /// Any that the result may be converted to.
    #[default]
    Castable,
    Exact,
    /// Any: it decides what is computed.
    Chosen,
    /// `bool` or `uint8`.
    Truth,
    /// As `castable`; another one is a `TypeError`.
    Joined,
    /// Any at all.
    Copied,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutChecked {
    /// When there is a result.
    #[default]
    Last,
    /// Before what is not implemented for a dtype.
    First,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutStrides {
    /// Its own.
    #[default]
    Kept,
    /// Those of the result, as PyTorch's kernel gives them to it if it has 4 dimensions or more.
    #[serde(rename = "result_from_4d")]
    ResultFrom4d,
    /// The same, with 5 dimensions.
    #[serde(rename = "result_from_5d")]
    ResultFrom5d,
    /// Its own; those of the result where a composite resizes it.
    WhenResized,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutOverlap {
    #[default]
    Allowed,
    Refused,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Results {
    /// All of them.
    #[default]
    Defined,
    /// Fresh tensors may be undefined, as gradients that a mask leaves out.
    Optional,
}

/// The kernels of an entry, one key each.
pub(crate) fn kernels(entry: &Entry) -> Result<Vec<(String, String)>, String> {
    let mut kernels = Vec::new();
    for (keys, kernel) in &entry.dispatch {
        for key in keys.split(',').map(str::trim) {
            if !is_key(key) {
                return Err(format!("`{key}` is no dispatch key that kernels can have"));
            }
            kernels.push((key.to_string(), kernel.clone()));
        }
    }
    Ok(kernels)
}

/// The expression of a kernel.
pub(crate) fn kernel_path(kernel: &str) -> String {
    match kernel {
        "fallthrough" => "crate::dispatch::Kernel::fallthrough()".to_string(),
        "below_autograd" => "crate::ops::below_autograd()".to_string(),
        path => format!("crate::ops::{path}"),
    }
}

/// Whether the dispatcher has a key of this name that kernels can be registered at.
pub(crate) fn is_key(name: &str) -> bool {
    DispatchKey::ALL
        .iter()
        .any(|k| k.name() == name && (k.is_runtime() || k.is_alias()))
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
