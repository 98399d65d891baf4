//! What the dispatcher refuses, and why.

use std::fmt;
use straightline_catalog::Device;
use straightline_catalog::key::DispatchKey;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::{SchemaMismatch, SchemaParseError};

/// A place in the source where something was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The file.
    pub file: &'static str,
    /// The line.
    pub line: u32,
}

impl Site {
    /// The caller's place.
    #[track_caller]
    pub fn caller() -> Site {
        let l = std::panic::Location::caller();
        Site { file: l.file(), line: l.line() }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "registered at {}:{}", self.file, self.line)
    }
}

/// What is known of a call that found no kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct MissingKernel {
    /// The operator.
    pub op: String,
    /// The key that the call dispatched to; `Undefined` where no argument had one.
    pub key: DispatchKey,
    /// The key set of the call.
    pub keyset: DispatchKeySet,
    /// The keys of backends, of their sparse, quantized and nested tensors, that have a kernel.
    pub available: Vec<DispatchKey>,
    /// Whether no operator has a kernel for the key.
    pub absent: bool,
    /// Static registrations of the operator's namespace that failed: where the kernel may have been
    /// meant to come from.
    pub failed: Vec<DispatchError>,
}

impl fmt::Display for MissingKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = &self.op;
        let ns = op.split("::").next().unwrap_or("");
        for failed in &self.failed {
            writeln!(f, "{failed}")?;
        }
        if self.key == DispatchKey::Undefined {
            writeln!(
                f,
                "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), \
                 but no fallback function is registered for schema {op}."
            )?;
        } else {
            let backend = super::backend::backend_name(self.key);
            write!(f, "Could not run '{op}' with arguments from the '{backend}' backend. ")?;
            match self.absent {
                true => {
                    writeln!(f, "This build has no {backend}: no operator has a kernel for it.")?
                }
                false => writeln!(f, "Other operators have a kernel for it.")?,
            }
        }
        let backends: Vec<&str> = self.available.iter().map(|k| k.name()).collect();
        writeln!(f, "'{op}' is only available for these backends: [{}].", backends.join(", "))?;
        if self.key == DispatchKey::Undefined {
            write!(
                f,
                "Pass a tensor, or register a composite kernel, which also serves calls without tensors: \
                 `Library::implementation(\"{ns}\", DispatchKey::CompositeExplicitAutograd)?.impl_(\"{op}\", kernel)`; "
            )?;
        } else {
            write!(
                f,
                "Move the tensors to one of them, or register a kernel: \
                 `Library::implementation(\"{ns}\", DispatchKey::{})?.impl_(\"{op}\", kernel)`; ",
                self.key
            )?;
        }
        f.write_str("`dispatch::dump_table` prints all that is registered.")
    }
}

/// An error of the dispatcher.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum DispatchError {
    #[error("{0}")]
    MissingKernel(Box<MissingKernel>),
    #[error(
        "{op}: the operator is gone: its library was dropped. Keep the library as long as the operator is called; one that is defined again \
         is another operator, to be looked up anew with `operator(\"{op}\")`"
    )]
    Gone { op: String },
    #[error(
        "{op}: the operator has kernels and no schema: it was never defined, or the library that defined it was dropped. \
         Define it with `Library::def`, and keep that library"
    )]
    NoSchema { op: String },
    #[error(
        "{op}: there is no Meta kernel, so the shape of its result is unknown. Register one that computes sizes and \
         dtype without data: `Library::implementation(\"{ns}\", DispatchKey::Meta)?.impl_(\"{op}\", kernel)`, or implement \
         the operator as a composite of operators that have one",
        ns = .op.split("::").next().unwrap_or_default()
    )]
    NoMetaKernel { op: String },
    #[error(
        "{op}: it has a kernel for CompositeImplicitAutograd and one for a backend whose autograd key is AutogradOther, so it is \
         ambiguous which of them autograd should see. Register a kernel for AutogradOther to decide"
    )]
    AmbiguousAutogradOther { op: String },
    #[error(
        "{op}: the fallthrough kernel of {key} was called. A redispatch went to a key that this operator masks; \
         start from the key set that the kernel was given"
    )]
    FallthroughCalled { op: String, key: DispatchKey },
    #[error(
        "Only a single TORCH_LIBRARY can be used to register the namespace {namespace}; please put all of your definitions in a \
         single TORCH_LIBRARY block (`library!`, `Library::new`). If you were trying to specify implementations, use TORCH_LIBRARY_IMPL \
         (`library_impl!`, `Library::implementation`), which can be repeated; definitions in several places are TORCH_LIBRARY_FRAGMENTs \
         (`library_fragment!`, `Library::fragment`). \
         Previous registration was {first}; latest registration was {second}"
    )]
    SecondDefBlock { namespace: String, first: Site, second: Site },
    #[error("'{namespace}' is not a namespace that operators can be registered in: {reason}")]
    BadNamespace { namespace: String, reason: &'static str },
    #[error(
        "def(\"{op}\"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block. All def()s should be placed in \
         the (unique) TORCH_LIBRARY block or a fragment for their namespace ({site})"
    )]
    DefInImplBlock { op: String, site: Site },
    #[error(
        "Tried to register an operator ({schema}) with the same name and overload name multiple times. Each overload's \
         schema should only be registered with a single call to def(). Duplicate registration: {second}. Original registration: {first}"
    )]
    AlreadyDefined { schema: String, first: Site, second: Site },
    #[error(
        "{op}: Explicitly provided namespace ({explicit}) does not match the namespace of the enclosing block ({block}). \
         Move it into a block of its own namespace or leave the namespace out ({site})"
    )]
    NamespaceMismatch { op: String, explicit: String, block: String, site: Site },
    #[error(
        "def(\"{op}\"): Full schema string was not specified, and we couldn't infer it without a kernel; only the operator \
         name was given. Write the schema, or give a typed kernel to infer it from ({site})"
    )]
    SchemaMissing { op: String, site: Site },
    #[error("{op}: type variables such as `t` are for the aten and prim namespaces only ({site})")]
    TypeVariable { op: String, site: Site },
    #[error(
        "impl(\"{op}\"): Explicitly provided dispatch key ({key}) is inconsistent with the dispatch key of the enclosing \
         block ({block}). Declare a separate block for it or leave the key out ({site})"
    )]
    KeyMismatch { op: String, key: DispatchKey, block: DispatchKey, site: Site },
    #[error(
        "fallback(): Cannot define a fallback for the operators of one namespace ({namespace}); a fallback serves every \
         operator, so use the wildcard namespace `_` ({site})"
    )]
    FallbackInNamespace { namespace: String, site: Site },
    #[error(
        "fallback(): a fallback needs a dispatch key, and neither the call nor the block gives one ({site})"
    )]
    FallbackWithoutKey { site: Site },
    #[error(
        "Tried to register multiple backend fallbacks for the same dispatch key {key}; previous registration {previous}, \
         new registration {new}"
    )]
    FallbackTaken { key: DispatchKey, previous: Site, new: Site },
    #[error(
        "{op}: {key} has no slot of its own, so no kernel can be registered for it ({site}). Register at a key that calls can \
         end at, such as CPU or AutogradCPU, or at an alias that stands for several, such as CompositeExplicitAutograd or Autograd"
    )]
    NotRegistrable { op: String, key: DispatchKey, site: Site },
    #[error("{0}")]
    Schema(#[from] SchemaParseError),
    #[error("{0}")]
    CustomOp(#[from] super::CustomOpError),
    #[error(
        "Inferred operator schema for a kernel function doesn't match the expected function schema.\n  operator: {op}\n  \
         expected schema: {expected}\n    {expected_at}\n  inferred schema: {inferred}\n    {inferred_at}\n  reason: {reason}"
    )]
    SignatureMismatch {
        op: String,
        expected: String,
        expected_at: Site,
        inferred: String,
        inferred_at: Site,
        reason: SchemaMismatch,
    },
    #[error(
        "Mismatch in kernel signatures\n  operator: {op}\n  kernel 1: {first}\n    {first_at}\n  kernel 2: {second}\n    {second_at}"
    )]
    KernelSignatures {
        op: String,
        first: &'static str,
        first_at: Site,
        second: &'static str,
        second_at: Site,
    },
    #[error(
        "Tried to access or call an operator with a wrong signature.\n  operator: {op}\n  correct signature: {registered}\n    \
         {registered_at}\n  accessed/called as: {requested}\n    {requested_at}\nThis likely happened in a call to \
         OperatorHandle::typed::<(Arguments..), Return>(). Please make sure that the types are those of the registration."
    )]
    WrongSignature {
        op: String,
        registered: String,
        registered_at: Site,
        requested: String,
        requested_at: Site,
    },
    #[error(
        "Could not find schema for {name}.{overload}{}{}",
        if *.implemented { " but we found an implementation; did you forget to def() the operator?" } else { "" },
        did_you_mean(.overload, .similar)
    )]
    NotFound { name: String, overload: String, implemented: bool, similar: Vec<String> },
    #[error(
        "{op}() Expected a value of type '{expected}' for argument '{name}' but instead found type '{found}'.\nPosition: {position}\nDeclaration: {declaration}"
    )]
    Argument {
        op: String,
        name: String,
        position: usize,
        expected: String,
        found: &'static str,
        declaration: String,
    },
    #[error(
        "the registrations of namespace {namespace} that were to run when the dispatcher started failed, and none of that block is \
         there ({site}): {reason}"
    )]
    StaticRegistration { namespace: String, site: Site, reason: String },
    #[error("{op}() takes {want} arguments, but the stack holds {have}")]
    StackUnderflow { op: String, want: usize, have: usize },
    #[error(
        "The operator {op} appears to be a view operator, but it has no implementation for the device \"{device}\". View \
         operators don't support falling back to run on the CPU, since the tensor's storage cannot be shared across devices. \
         Register a kernel for it at the device's key, or let the fallback copy: `cpu_fallback_with(ViewFallback::Copy)`"
    )]
    CpuFallbackView { op: String, device: Device },
    #[error(
        "{op}: it changes the shape of a tensor in place, and what lies in a tensor on \"{device}\" is known to its backend only: \
         register a kernel for it at the device's key, as `wrapped_views` does, or give a tensor that has the right sizes"
    )]
    CpuFallbackShape { op: String, device: Device },
    #[error(
        "{op}: the CPU fallback copies tensors with this operator, so the backend of `{device}` has to register a kernel \
         for it: `Library::implementation(\"aten\", key)?.impl_(\"{op}\", kernel)`"
    )]
    CpuFallbackPrimitive { op: String, device: Device },
    #[error(
        "{op}: the calls of operators nest so deeply that the thread's stack is nearly used up{}: {}. A kernel that passes its call \
         on must redispatch below its own key, with `keys & DispatchKeySet::full_after(key)`; recursion in earnest needs a thread \
         with a larger stack",
        if *.repeats { ", a kernel calls its own operator, and these calls repeat" } else { "" },
        .calls.join(" -> ")
    )]
    Recursion {
        op: String,
        /// The last calls, each with its dispatch key; if they repeat, one round of them.
        calls: Vec<String>,
        repeats: bool,
    },
    #[error(
        "{op}: `wrapped_views` registered this view operator at {key}, and it was called on a tensor in which `inner` finds no CPU tensor"
    )]
    NotWrapped { op: String, key: DispatchKey },
    #[error("a kernel of {op} should have left {want} on the stack and left {got}")]
    Returns { op: String, want: String, got: String },
}

fn did_you_mean(overload: &str, similar: &[String]) -> String {
    let stop = if overload.is_empty() { "" } else { "." };
    match similar {
        [] => String::new(),
        // c10's text ends in the overload, which may be empty
        _ => format!("{stop} Did you mean {}?", similar.join(", ")),
    }
}
