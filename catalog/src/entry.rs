//! What the entries of `ops/` register: for the build script of the crate that has the kernels.

use crate::op::Op;
use crate::rules::{OutChecked, OutDtype, OutOverlap, OutRules, OutStrides, Results};

/// One entry. The names of kernels and dispatch keys are for the reader to understand.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The operator.
    pub op: Op,
    /// The file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// Whether the entry has the operator's schema; another one adds kernels to it.
    pub declares: bool,
    /// Tensors on whose parts the kernel for dense ones works: `sparse` (values, where 0 is taken
    /// to 0), `nested` (components).
    pub on_parts: &'static [&'static str],
    /// What the documentation says beside the schema.
    pub doc: Option<&'static str>,
    /// The methods of tensors that call the operator.
    pub methods: &'static [Method],
    /// Dispatch keys and the kernels there.
    pub kernels: &'static [(&'static str, &'static str)],
    /// Of an `out` variant: the functional variant that its kernels are made of, and the in-place
    /// one where there is one.
    pub structured: &'static [Op],
    /// Of a variant that writes: the functional one that its kernels are made of.
    pub variant_of: Option<Op>,
    /// The keys of those kernels.
    pub variant_at: &'static [&'static str],
    /// Whether each result is there.
    pub results: Results,
    /// What an `out` may be.
    pub out: OutRules,
}

/// A method of tensors that calls an operator.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name and arguments, as `ops/README.md` describes.
    pub call: &'static str,
    /// What it does. A method in place without one is explained by the method that is not.
    pub doc: Option<&'static str>,
    /// Code that shows it, and is a test.
    pub example: Option<&'static str>,
    /// Other names that people look for.
    pub doc_aliases: &'static [&'static str],
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));
