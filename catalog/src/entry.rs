//! What the entries of `ops/` register, for the build script of the crate that has the kernels.

use crate::op::Op;
use crate::rules::{OutChecked, OutDtype, OutOverlap, OutRules, OutStrides, Results};

/// One entry. Names of kernels and dispatch keys are left to the reader to interpret.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The operator.
    pub op: Op,
    /// The file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// Whether the entry declares the operator; otherwise it adds kernels to one declared
    /// elsewhere.
    pub declares: bool,
    /// Layouts whose parts the dense kernel is applied to: `sparse` (the values; the function maps
    /// 0 to 0) and `nested` (the components).
    pub on_parts: &'static [&'static str],
    /// Whether the kernels take access to their operands by themselves, in one go.
    pub holds_itself: bool,
    /// Whether the kernel for all backends is made of other operators, or knows every tensor.
    pub of_others: bool,
    /// Documentation in addition to the schema.
    pub doc: Option<&'static str>,
    /// The methods of tensors that call the operator.
    pub methods: &'static [Method],
    /// Dispatch keys and the kernels there.
    pub kernels: &'static [(&'static str, &'static str)],
    /// For an `out` variant: the functional variant that its kernels are built from, and the
    /// in-place one if there is one.
    pub structured: &'static [Op],
    /// For a variant that writes: the functional one that its kernels are built from.
    pub variant_of: Option<Op>,
    /// The keys of those kernels.
    pub variant_at: &'static [&'static str],
    /// Whether results may be undefined.
    pub results: Results,
    /// The rules for `out`.
    pub out: OutRules,
    /// The gradients of the operator that the entry declares, if it has formulas for them or is
    /// said to have none.
    pub derivative: Option<&'static Derivative>,
}

/// The gradients of an operator, from the files of derivatives.
#[derive(Clone, Copy, Debug)]
pub struct Derivative {
    /// The operator's variant of [`Op`], as it is written.
    pub variant: &'static str,
    /// Of a form in place without formulas of its own: the operator whose formulas it has.
    pub shared_with: Option<Op>,
    /// The file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// The name of the node in the graph, where it does not follow from the operator's.
    pub node: Option<&'static str>,
    /// What the name of the node ends with: `_copy` where the formulas are a view's.
    pub node_suffix: &'static str,
    /// The formulas.
    pub formulas: &'static [Formula],
    /// Which results are differentiable; empty where it follows from the formulas.
    pub outputs: &'static [bool],
    /// Whether the backward pass refuses the operator.
    pub not_implemented: bool,
    /// Whether results never require a gradient.
    pub not_differentiable: bool,
    /// How tangents go through the operator: `auto_linear`, `auto_element_wise`, `not_implemented`,
    /// or an expression for each differentiable result. Empty where nothing is said.
    pub forward: &'static [&'static str],
    /// The line that says so.
    pub forward_line: u32,
}

/// The formula of one gradient, or of several that are computed together.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// The arguments whose gradients it gives.
    pub inputs: &'static [&'static str],
    /// The expression.
    pub text: &'static str,
    /// The line in the operator's file.
    pub line: u32,
}

/// A method of tensors that calls an operator.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name and arguments, as `ops/README.md` describes.
    pub call: &'static str,
    /// What it does. An in-place method without a text refers to the other one.
    pub doc: Option<&'static str>,
    /// An example, which runs as a test.
    pub example: Option<&'static str>,
    /// Other names that people search for.
    pub doc_aliases: &'static [&'static str],
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));
