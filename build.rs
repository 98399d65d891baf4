//! Turns the files of `src/ops/native_functions` into the module `ops::aten`: a typed, documented wrapper
//! for each operator, and the function that registers them all.

#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
#[path = "src/dispatch/key.rs"]
mod key;

use key::DispatchKey;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use straightline_passes::ir::schema::{FunctionSchema, SchemaType};

const SOURCES: &str = "src/ops/native_functions";

/// The families of kernels that know our own memory only, and have a way for other tensors in
/// `src/ops/composite.rs`.
const OWN_MEMORY: [&str; 6] = [
    "alias::",
    "index::",
    "nn::",
    "pointwise::",
    "reduce::",
    "view::",
];
/// The same of a family that has others as well.
const OWN_MEMORY_ALONE: [&str; 6] = [
    "copy::copy",
    "copy::fill",
    "copy::select_scatter",
    "copy::slice_scatter",
    "math_bits::add_scalar",
    "math_bits::mul_scalar",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    func: String,
    #[serde(default)]
    dispatch: BTreeMap<String, String>,
    /// Of an `out` variant: the functional variant that its kernels are made of, and the in-place
    /// one where there is one.
    #[serde(default)]
    structured: Vec<String>,
    /// Of an `out` variant: whether `out` must have the very dtype of the result.
    #[serde(default)]
    out_dtype: OutDtype,
    /// Of an `out` variant: the strides of an `out` that has the sizes of the result.
    #[serde(default)]
    out_strides: OutStrides,
    /// Of an `out` variant: whether `out` may share memory with an operand.
    #[serde(default)]
    out_overlap: OutOverlap,
    /// Whether each result is there.
    #[serde(default)]
    results: Results,
    /// Of a variant that writes: the functional one that its kernels are made of.
    #[serde(default)]
    variant_of: Option<String>,
    /// The keys of those kernels.
    #[serde(default)]
    variant_at: Option<String>,
    /// How near to PyTorch's result the operator's has to be.
    #[serde(default)]
    tolerance: Tolerance,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    doc: Option<String>,
}

/// The classes of `straightline::ops::Tolerance`.
#[derive(Deserialize, Default, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
enum Tolerance {
    Exact,
    #[default]
    Pointwise,
    Accumulate,
    Random,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum OutDtype {
    /// Any that the result may be converted to.
    #[default]
    Castable,
    Exact,
    /// Any: it decides what is computed.
    Chosen,
    /// `bool` or `uint8`.
    Truth,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum OutStrides {
    /// Its own.
    #[default]
    Kept,
    /// Those of a row-major tensor, as PyTorch's kernel gives them to it.
    RowMajor,
    /// Its own; those of the result where a composite resizes it.
    Result,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum OutOverlap {
    #[default]
    Allowed,
    Refused,
}

#[derive(Deserialize, Default, PartialEq, Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Results {
    /// All of them.
    #[default]
    Defined,
    /// Fresh tensors may be undefined, as gradients that a mask leaves out.
    Optional,
}

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/dispatch/key.rs");
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("cargo::error={}", e.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// The files of operators, in the order of their names.
fn sources() -> Result<Vec<PathBuf>, String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(SOURCES)
        .map_err(|e| format!("{SOURCES}: {e}"))?
        .map(|entry| entry.map(|e| e.path()).map_err(|e| e.to_string()))
        .collect::<Result<_, _>>()?;
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    Ok(files)
}

fn generate() -> Result<(), String> {
    let mut wrappers = String::new();
    let mut register = String::new();
    let mut seen = BTreeSet::new();
    let mut declared = BTreeSet::new();
    let mut more = Vec::new();
    let mut tolerances = String::new();
    let waiting = waiting_variants()?;
    for file in sources()? {
        let file = file.to_str().ok_or("a file name that is not UTF-8")?;
        let of_file = |e: String| format!("{file}: {e}");
        let text = std::fs::read_to_string(file).map_err(|e| of_file(e.to_string()))?;
        let entries: Vec<Entry> =
            serde_saphyr::from_str(&text).map_err(|e| of_file(e.to_string()))?;
        for entry in &entries {
            if entry.variant_of.is_some() && waiting.contains(&entry.func) {
                continue;
            }
            if !entry.func.contains('(') {
                // kernels of a family for an operator that another file declares
                let in_entry = |e: String| of_file(format!("in `{}`: {e}", entry.func));
                kernels_only(entry, &text, file, &mut register).map_err(in_entry)?;
                more.push((file.to_string(), entry.func.clone()));
                continue;
            }
            let op = Op::new(entry).map_err(|e| of_file(format!("in `{}`: {e}", entry.func)))?;
            if !seen.insert(op.function.clone()) {
                return Err(of_file(format!("`{}` is declared twice", entry.func)));
            }
            declared.insert(op.name());
            if entry.tolerance != Tolerance::default() {
                let (name, class) = (op.schema.name.to_string(), entry.tolerance);
                let _ = writeln!(tolerances, "    ({name:?}, super::Tolerance::{class:?}),");
            }
            op.wrapper(&mut wrappers);
            let line = line_of(entry, &text);
            let _ = writeln!(register, "    library.at({file:?}, {line});");
            op.registration(&mut register);
        }
    }
    if let Some((file, name)) = more.iter().find(|(_, name)| !declared.contains(name)) {
        return Err(format!(
            "{file}: `{name}` has kernels here and no schema anywhere"
        ));
    }
    let out = format!(
        "{wrappers}\n\
         /// Defines every operator and registers its kernels.\n\
         pub(super) fn register(library: &mut Library) -> Result<()> {{\n{register}    Ok(())\n}}\n\n\
         /// The classes that are not the default.\n\
         pub(super) static TOLERANCES: &[(&str, super::Tolerance)] = &[\n{tolerances}];\n"
    );
    let dir = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(PathBuf::from(dir).join("aten.rs"), out).map_err(|e| e.to_string())
}

/// The entries with `variant_of` that stand back: the functional variant is declared nowhere, or another entry declares the
/// operator itself.
fn waiting_variants() -> Result<BTreeSet<String>, String> {
    let name = |func: &str| func.split('(').next().unwrap_or("").to_string();
    let (mut variants, mut others) = (Vec::new(), BTreeSet::new());
    for file in sources()? {
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let entries: Vec<Entry> =
            serde_saphyr::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        for entry in entries {
            if let Some(of) = entry.variant_of {
                variants.push((entry.func, of));
            } else if entry.func.contains('(') {
                others.insert(name(&entry.func));
            }
        }
    }
    Ok(variants
        .into_iter()
        .filter(|(func, of)| !others.contains(of) || others.contains(&name(func)))
        .map(|(func, _)| func)
        .collect())
}

/// The line of an entry: the dispatcher's dumps name it.
fn line_of(entry: &Entry, text: &str) -> usize {
    text.lines()
        .position(|l| l.strip_prefix("- func: ") == Some(entry.func.as_str()))
        .map_or(0, |i| i + 1)
}

/// Registers the kernels of an entry that has the name of an operator and not its schema.
fn kernels_only(
    entry: &Entry,
    text: &str,
    file: &str,
    register: &mut String,
) -> Result<(), String> {
    if !entry.tags.is_empty() || entry.doc.is_some() {
        return Err("tags and documentation belong to the entry with the schema".into());
    }
    let line = line_of(entry, text);
    // writing to a String cannot fail
    let _ = writeln!(register, "    library.at({file:?}, {line});");
    for (key, kernel) in kernels(entry)? {
        if key == "BackendSelect" {
            return Err("BackendSelect is generated from the schema: register it there".into());
        }
        let kernel = kernel_path(&kernel);
        let name = &entry.func;
        let _ = writeln!(
            register,
            "    library.impl_at({name:?}, DispatchKey::{key}, {kernel})?;"
        );
    }
    Ok(())
}

/// The kernels of an entry, one key each.
fn kernels(entry: &Entry) -> Result<Vec<(String, String)>, String> {
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
fn kernel_path(kernel: &str) -> String {
    match kernel {
        "fallthrough" => "crate::dispatch::Kernel::fallthrough()".to_string(),
        "below_autograd" => "crate::ops::below_autograd()".to_string(),
        path => format!("crate::ops::{path}"),
    }
}

/// Whether the dispatcher has a key of this name that kernels can be registered at.
fn is_key(name: &str) -> bool {
    DispatchKey::ALL
        .iter()
        .any(|k| k.name() == name && (k.is_runtime() || k.is_alias()))
}

/// Where PyTorch's code generator puts autograd kernels: at `Autograd` for every operator that is
/// not a composite all the way down, and at `ADInplaceOrView` for those of them that write or
/// alias an argument. Here these keys are passed by until there are such kernels.
fn autograd_keys(kernels: &[(String, String)], schema: &FunctionSchema) -> Vec<&'static str> {
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

struct Param {
    name: String,
    rust: String,
    owned_static: String,
}

struct Op<'a> {
    entry: &'a Entry,
    schema: FunctionSchema,
    /// The wrapper's name: the base name and the overload in snake case.
    function: String,
    params: Vec<Param>,
    returns: String,
    kernels: Vec<(String, String)>,
}

impl<'a> Op<'a> {
    fn new(entry: &'a Entry) -> Result<Op<'a>, String> {
        let schema =
            FunctionSchema::parse(&format!("aten::{}", entry.func)).map_err(|e| e.to_string())?;
        let mut function = snake(schema.name.base());
        if !schema.name.overload.is_empty() {
            if !function.ends_with('_') {
                function.push('_');
            }
            function += &snake(&schema.name.overload);
            if schema.name.base().ends_with('_') {
                function.push('_');
            }
        }
        if function == "where" || function == "move" {
            function.push('_');
        }
        let params = schema
            .args
            .iter()
            .map(|a| {
                let rust = rust_type(&a.ty, "")?;
                let owned_static = rust_type(&a.ty, "'static ")?;
                let name = match a.name.as_str() {
                    "self" => "self_".to_string(),
                    "unsafe" => "unsafe_".to_string(),
                    n => n.to_string(),
                };
                Ok(Param {
                    name,
                    rust,
                    owned_static,
                })
            })
            .collect::<Result<Vec<_>, String>>()?;
        let optional = entry.results == Results::Optional;
        let returns: Vec<String> = schema
            .returns
            .iter()
            .map(|r| match r.ty {
                SchemaType::Tensor if optional && r.alias.is_none() => Ok("Option<Tensor>".into()),
                _ => return_type(&r.ty),
            })
            .collect::<Result<_, String>>()?;
        let returns = match &returns[..] {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        };
        let mut kernels = kernels(entry)?;
        if entry.variant_of.is_some() != entry.variant_at.is_some() {
            return Err("`variant_of` and `variant_at` go together".into());
        }
        for key in entry.variant_at.iter().flat_map(|keys| keys.split(',')) {
            let key = key.trim();
            if !is_key(key) {
                return Err(format!("`{key}` is no dispatch key that kernels can have"));
            }
            kernels.push((key.to_string(), "variant".to_string()));
        }
        if entry.structured.len() > 2 {
            return Err(
                "`structured` names the functional variant and perhaps the in-place one".into(),
            );
        }
        if entry.structured.is_empty() && kernels.iter().any(|(_, k)| k == "composed_out") {
            return Err("`composed_out` is for `structured` entries".into());
        }
        for key in autograd_keys(&kernels, &schema) {
            kernels.push((key.to_string(), "fallthrough".to_string()));
        }
        Ok(Op {
            entry,
            schema,
            function,
            params,
            returns,
            kernels,
        })
    }

    fn handle(&self) -> String {
        format!("OP_{}", self.function.to_uppercase())
    }

    /// The name without its namespace.
    fn name(&self) -> String {
        let name = self.schema.name.to_string();
        name.trim_start_matches("aten::").to_string()
    }

    /// The keys that BackendSelect goes to: of the tensors, and of the options.
    fn selected(&self) -> String {
        let option = |name: &str| match self.params.iter().find(|p| p.name == name) {
            Some(p) if p.rust.starts_with("Option<") => p.name.clone(),
            Some(p) => format!("Some({})", p.name),
            None => "None".to_string(),
        };
        let options = [option("dtype"), option("layout"), option("device")].join(", ");
        if self.schema.args.iter().any(|a| a.ty.is_dispatch_relevant()) {
            format!(
                "device_and_tensor_keys(device_keys({options}), {})",
                self.tensors()
            )
        } else {
            format!("device_keys({options})")
        }
    }

    fn typed(&self) -> String {
        let args: String = self
            .params
            .iter()
            .map(|p| format!("{}, ", p.owned_static))
            .collect();
        format!("TypedOp<({args}), {}>", self.returns)
    }

    fn signature(&self) -> String {
        self.params
            .iter()
            .map(|p| format!("{}: {}", p.name, p.rust))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn values(&self) -> String {
        self.params
            .iter()
            .map(|p| format!("{}, ", p.name))
            .collect()
    }

    /// The tensors of the call, for the error's context.
    fn tensors(&self) -> String {
        let mut s = String::from("std::iter::empty()");
        for (p, a) in self.params.iter().zip(&self.schema.args) {
            let piece = match (&a.ty, a.ty.unwrap_optional()) {
                (SchemaType::Tensor, _) => format!("std::iter::once({})", p.name),
                (SchemaType::Optional(_), SchemaType::Tensor) => format!("{}.into_iter()", p.name),
                (SchemaType::List(t, _), _) if **t == SchemaType::Tensor => {
                    format!("{}.iter()", p.name)
                }
                _ => continue,
            };
            s = format!("{s}.chain({piece})");
        }
        s
    }

    fn wrapper(&self, out: &mut String) {
        let Op {
            schema,
            function,
            returns,
            ..
        } = self;
        let (handle, typed) = (self.handle(), self.typed());
        let (signature, values, tensors) = (self.signature(), self.values(), self.tensors());
        let name = &schema.name;
        let tags = if self.entry.tags.is_empty() {
            String::new()
        } else {
            format!("\n///\n/// Tags: {}.", self.entry.tags.join(", "))
        };
        let doc = self
            .entry
            .doc
            .as_ref()
            .map_or(String::new(), |d| format!("{d}\n///\n/// "));
        // writing to a String cannot fail
        let _ = write!(
            out,
            "static {handle}: {typed} = TypedOp::new({full:?}, {overload:?});\n\
             /// {doc}`{schema}`{tags}\n\
             #[track_caller]\n\
             #[inline]\n\
             #[allow(clippy::too_many_arguments)]\n\
             pub fn {function}({signature}) -> Result<{returns}> {{\n\
             \x20   let at = std::panic::Location::caller();\n\
             \x20   match {handle}.call(({values})) {{\n\
             \x20       Ok(r) => Ok(r),\n\
             \x20       Err(e) => Err(annotate(e, {name:?}, {tensors}, at)),\n\
             \x20   }}\n}}\n\n",
            full = name.name,
            overload = name.overload,
            name = name.to_string(),
        );
    }

    fn registration(&self, out: &mut String) {
        let name = self.name();
        let _ = writeln!(
            out,
            "    library.def_with_tags({:?}, &{:?})?;",
            self.entry.func, self.entry.tags
        );
        if !self.entry.structured.is_empty() {
            let of = &self.entry.structured;
            let _ = writeln!(
                out,
                "    structured::register(library, {name:?}, &{of:?}, {})?;",
                self.out_rules()
            );
        }
        for (key, kernel) in &self.kernels {
            let kernel = match (kernel.as_str(), key.as_str()) {
                ("fallthrough" | "below_autograd", _) => kernel_path(kernel),
                ("composed_out", key) => self.variant(self.entry.structured[0].as_str(), key),
                ("variant", key) => {
                    self.variant(self.entry.variant_of.as_deref().unwrap_or_default(), key)
                }
                (_, "BackendSelect") => self.backend_select(),
                (kernel, "Functionalize") => format!(
                    "crate::modes::functionalize::composite({})",
                    kernel_path(kernel)
                ),
                (
                    kernel,
                    "CompositeExplicitAutograd" | "CompositeExplicitAutogradNonFunctional",
                ) => self.composite_explicit(kernel),
                (kernel, _) => kernel_path(kernel),
            };
            let _ = writeln!(
                out,
                "    library.impl_at({name:?}, DispatchKey::{key}, {kernel})?;"
            );
        }
    }

    /// What the entry says of `out`.
    fn out_rules(&self) -> String {
        let Entry {
            out_dtype,
            out_strides,
            out_overlap,
            ..
        } = self.entry;
        format!(
            "variants::OutRules {{ dtype: variants::OutDtype::{out_dtype:?}, \
             strides: variants::OutStrides::{out_strides:?}, \
             overlap: variants::OutOverlap::{out_overlap:?} }}"
        )
    }

    /// A kernel made of the functional variant.
    fn variant(&self, functional: &str, key: &str) -> String {
        let rules = self.out_rules();
        format!("variants::of({functional:?}, {rules}, DispatchKey::{key})")
    }

    /// A kernel at `BackendSelect`: dispatches on the argument `device`.
    fn backend_select(&self) -> String {
        let (signature, values) = (self.signature(), self.values());
        let keys = self.selected();
        format!(
            "{{\n        #[allow(clippy::too_many_arguments)]\n        fn select({signature}) -> Result<{}> {{ {}.redispatch({keys}, ({values})) }}\n        select\n    }}",
            self.returns,
            self.handle()
        )
    }

    /// A kernel for all backends. Some families work on our own memory only: there it is the
    /// function for such tensors, and those of a backend from outside are taken to other operators.
    fn composite_explicit(&self, kernel: &str) -> String {
        let checks: Vec<String> = self
            .params
            .iter()
            .zip(&self.schema.args)
            .filter(|(_, a)| a.ty == SchemaType::Tensor)
            .map(|(p, _)| format!("is_foreign({})", p.name))
            .collect();
        // a composite of other operators needs no second way
        if checks.is_empty()
            || self.entry.dispatch.contains_key("Functionalize")
            || !(OWN_MEMORY.iter().any(|family| kernel.starts_with(family))
                || OWN_MEMORY_ALONE.contains(&kernel))
        {
            return format!("crate::ops::{kernel}");
        }
        let (signature, values) = (self.signature(), self.values());
        format!(
            "{{\n        #[allow(clippy::too_many_arguments)]\n        \
             fn composite({signature}) -> Result<{}> {{\n            \
             if {} {{\n                \
             return {}.get()?.boxed(({values}), &mut crate::ops::composite::decompose);\n            }}\n            \
             crate::ops::{kernel}({})\n        }}\n        composite\n    }}",
            self.returns,
            checks.join(" || "),
            self.handle(),
            values.trim_end_matches(", "),
        )
    }
}

/// `dim_IntList` to `dim_int_list`.
fn snake(s: &str) -> String {
    let mut out = String::new();
    let mut previous_lower = false;
    for c in s.chars() {
        if c.is_uppercase() && previous_lower {
            out.push('_');
        }
        previous_lower = c.is_lowercase();
        out.extend(c.to_lowercase());
    }
    out
}

fn base_type(ty: &SchemaType) -> Option<&'static str> {
    Some(match ty {
        SchemaType::Int | SchemaType::SymInt => "i64",
        SchemaType::Float => "f64",
        SchemaType::Bool | SchemaType::SymBool => "bool",
        SchemaType::Scalar => "Scalar",
        SchemaType::ScalarType => "DType",
        SchemaType::Layout => "Layout",
        SchemaType::MemoryFormat => "MemoryFormat",
        SchemaType::Device => "Device",
        SchemaType::QScheme => "QScheme",
        _ => return None,
    })
}

fn rust_type(ty: &SchemaType, life: &str) -> Result<String, String> {
    let unsupported = || format!("type `{ty}` has no Rust form yet: add it to build.rs");
    if let Some(t) = base_type(ty) {
        return Ok(t.to_string());
    }
    Ok(match ty {
        SchemaType::Tensor => format!("&{life}Tensor"),
        SchemaType::Str => format!("&{life}str"),
        SchemaType::Generator => format!("&{life}Generator"),
        SchemaType::List(t, _) => match &**t {
            SchemaType::Tensor => format!("&{life}[Tensor]"),
            SchemaType::Optional(t) if **t == SchemaType::Tensor => {
                format!("&{life}[Option<Tensor>]")
            }
            t => format!("&{life}[{}]", base_type(t).ok_or_else(unsupported)?),
        },
        SchemaType::Optional(t) => format!("Option<{}>", rust_type(t, life)?),
        _ => return Err(unsupported()),
    })
}

fn return_type(ty: &SchemaType) -> Result<String, String> {
    if let Some(t) = base_type(ty) {
        return Ok(t.to_string());
    }
    match ty {
        SchemaType::Tensor => Ok("Tensor".into()),
        SchemaType::List(t, _) if **t == SchemaType::Tensor => Ok("Vec<Tensor>".into()),
        _ => Err(format!(
            "return type `{ty}` has no Rust form yet: add it to build.rs"
        )),
    }
}
