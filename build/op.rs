//! What is written for an operator: its wrapper, its registration, its types.

use crate::composite;
use crate::docs::comment;
use crate::kernels::{autograd_keys, kernel_path, kernels};
use std::fmt::Write as _;
use straightline_catalog::Op;
use straightline_catalog::entry::Entry;
use straightline_catalog::prims::UnaryOp;
use straightline_catalog::rules::Results;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) rust: String,
    pub(crate) owned_static: String,
}

pub(crate) struct Declared<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) schema: &'static FunctionSchema,
    /// The wrapper's name: the base name and the overload in snake case.
    pub(crate) function: String,
    pub(crate) params: Vec<Param>,
    pub(crate) returns: String,
    pub(crate) kernels: Vec<(String, String)>,
    /// The kernel made of the entry's definition, if it has one.
    composed: Option<String>,
}

impl<'a> Declared<'a> {
    pub(crate) fn new(entry: &'a Entry) -> Result<Declared<'a>, String> {
        let schema = entry.op.schema();
        let function = function_name(schema);
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
                Ok(Param { name, rust, owned_static })
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
        for parts in entry.on_parts {
            let keys: &[&str] = match *parts {
                "sparse" => &["SparseCPU", "SparseCsrCPU"],
                "nested" => &["NestedTensorCPU"],
                other => return Err(format!("`on_parts` is `sparse` or `nested`, not `{other}`")),
            };
            let on_parts = |key: &&str| (key.to_string(), "on_parts".to_string());
            kernels.extend(keys.iter().map(on_parts));
        }
        if entry.structured.is_empty() && kernels.iter().any(|(_, k)| k == "composed_out") {
            return Err("`composed_out` is for `structured` entries".into());
        }
        for key in autograd_keys(&kernels, entry) {
            kernels.push((key.to_string(), "fallthrough".to_string()));
        }
        let mut declared =
            Declared { entry, schema, function, params, returns, kernels, composed: None };
        let composed = (entry.op.composite()).map(|c| composite::kernel(&declared, c));
        declared.composed = composed.transpose()?;
        Ok(declared)
    }

    pub(crate) fn handle(&self) -> String {
        format!("OP_{}", self.function.to_uppercase())
    }

    /// The keys that BackendSelect goes to: of the tensors, and of the options.
    pub(crate) fn selected(&self) -> String {
        let option = |name: &str| match self.params.iter().find(|p| p.name == name) {
            Some(p) if p.rust.starts_with("Option<") => p.name.clone(),
            Some(p) => format!("Some({})", p.name),
            None => "None".to_string(),
        };
        let options = [option("dtype"), option("layout"), option("device")].join(", ");
        if self.schema.args.iter().any(|a| a.ty.is_dispatch_relevant()) {
            format!("device_and_tensor_keys(device_keys({options}), {})", self.tensors())
        } else {
            format!("device_keys({options})")
        }
    }

    pub(crate) fn typed(&self) -> String {
        let args: String = self.params.iter().map(|p| format!("{}, ", p.owned_static)).collect();
        format!("TypedOp<({args}), {}>", self.returns)
    }

    pub(crate) fn signature(&self) -> String {
        self.params.iter().map(|p| format!("{}: {}", p.name, p.rust)).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn values(&self) -> String {
        self.params.iter().map(|p| format!("{}, ", p.name)).collect()
    }

    /// The tensors of the call, which have a say in where it goes.
    pub(crate) fn tensors(&self) -> String {
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

    /// The arguments that have tensors, for the error's context. Not an iterator: each wrapper's
    /// would be a type of its own, and there are more than a thousand of them.
    pub(crate) fn given(&self) -> String {
        let each = self.params.iter().zip(&self.schema.args);
        each.filter_map(|(p, a)| {
            let kind = match (&a.ty, a.ty.unwrap_optional()) {
                (SchemaType::Tensor, _) => "One",
                (SchemaType::Optional(_), SchemaType::Tensor) => "Maybe",
                (SchemaType::List(t, _), _) if **t == SchemaType::Tensor => "List",
                (SchemaType::List(t, _), _) if *t.unwrap_optional() == SchemaType::Tensor => {
                    "Holes"
                }
                _ => return None,
            };
            Some(format!("Given::{kind}({})", p.name))
        })
        .collect::<Vec<_>>()
        .join(", ")
    }

    pub(crate) fn wrapper(&self, out: &mut String) {
        let Declared { schema, function, returns, .. } = self;
        let (handle, typed) = (self.handle(), self.typed());
        let (signature, values, given) = (self.signature(), self.values(), self.given());
        let name = &schema.name;
        let docs = comment(&self.docs());
        // writing to a String cannot fail
        let _ = write!(
            out,
            "pub(crate) static {handle}: {typed} = TypedOp::new({full:?}, {overload:?});\n\
             {docs}\
             #[track_caller]\n\
             #[inline]\n\
             #[allow(clippy::too_many_arguments)]\n\
             pub fn {function}({signature}) -> Result<{returns}> {{\n\
             \x20   let at = std::panic::Location::caller();\n\
             \x20   match {handle}.call_from(at, ({values})) {{\n\
             \x20       Ok(r) => Ok(r),\n\
             \x20       Err(e) => Err(annotate(e, {name:?}, &[{given}], at)),\n\
             \x20   }}\n}}\n\n",
            full = name.name,
            overload = name.overload,
            name = name.to_string(),
        );
    }

    /// The operator's row in the table that registers them all.
    pub(crate) fn row(&self, table: &mut Table) {
        let kernels: Vec<(String, String, String)> = self
            .kernels
            .iter()
            .map(|(key, path)| {
                let whole = match self.is_whole(key, path) {
                    true => whole(key, self.written()),
                    false => String::new(),
                };
                (key.clone(), self.kernel(key, path), whole)
            })
            .collect();
        table.push(self.entry, &kernels);
    }

    /// The expression of the kernel at a key.
    fn kernel(&self, key: &str, path: &str) -> String {
        match (path, key) {
            ("fallthrough" | "below_autograd", _) => kernel_path(path),
            ("composite" | "composed", key) => {
                let kernel = match path {
                    "composed" => self.composition(),
                    // an entry without a definition does not compile
                    _ => self.composed.clone().unwrap_or("no_definition".to_string()),
                };
                match key {
                    "Functionalize" => format!("crate::modes::functionalize::composite({kernel})"),
                    _ => kernel,
                }
            }
            ("elementary" | "elementary_", _) => self.elementary(path),
            (path, "CPU" | "Meta") if path.starts_with("formula") => self.local(path),
            ("on_parts", key) => self.on_parts(key),
            ("composed_out", key) => variant("structured[0]", key),
            ("variant", key) => variant("variant_of.expect(\"a variant\")", key),
            (_, "BackendSelect") => self.backend_select(),
            (path, "Functionalize") => {
                let same = |(key, of): &(String, String)| key != "Functionalize" && of == path;
                // a kernel of its own for capture alone calls what eager code does not
                let door = match self.kernels.iter().any(same) {
                    true => "composite",
                    false => "parts",
                };
                format!("crate::modes::functionalize::{door}({})", kernel_path(path))
            }
            (path, "CompositeExplicitAutograd" | "CompositeExplicitAutogradNonFunctional") => {
                self.composite_explicit(path)
            }
            (path, _) => kernel_path(path),
        }
    }

    /// The positions of the arguments that are written.
    fn written(&self) -> u64 {
        let args = self.schema.args.iter().enumerate();
        args.filter(|(_, a)| a.is_write()).fold(0, |bits, (i, _)| bits | 1 << i)
    }

    /// Whether the dispatcher holds a kernel's operands around it: not where the kernel takes them
    /// in one go, or has none.
    fn is_whole(&self, key: &str, path: &str) -> bool {
        let views = self.schema.args.iter().any(|a| a.alias.is_some());
        held_around(self.entry, key, path) && (!views || self.written() != 0)
    }

    /// The kernel of an elementary function, or of its form in place.
    fn elementary(&self, path: &str) -> String {
        let name = self.schema.name.to_string();
        let functional = Op::named(name.trim_end_matches('_')).and_then(UnaryOp::of);
        // an operator that is none does not compile
        let function = functional.map_or("none".to_string(), |f| format!("{f:?}"));
        format!(
            "{{ fn f(x: &Tensor) -> Result<Tensor> {{ crate::ops::pointwise::{path}(UnaryOp::{function}, x) }} f }}"
        )
    }

    /// The kernel for tensors in our own memory: a function, or what a word stands for.
    fn local(&self, path: &str) -> String {
        // the operator whose formula it is: the one in parentheses, or the entry's own
        let (word, of) = match path.strip_suffix(')').and_then(|p| p.split_once('(')) {
            Some((word, of)) => (word, of.to_string()),
            None => {
                let name = self.entry.op.unqualified();
                let (base, overload) = name.split_at(name.find('.').unwrap_or(name.len()));
                (path, format!("{}{overload}", base.trim_end_matches('_')))
            }
        };
        match word {
            "formula" => self.formula("run", &of),
            "formula_" => self.formula("run_", &of),
            _ => format!("crate::ops::{path}"),
        }
    }

    /// The kernel of an operator that is a formula.
    fn formula(&self, run: &str, of: &str) -> String {
        let (mut operands, mut attributes) = (String::new(), String::new());
        for (i, (p, a)) in self.params.iter().zip(&self.schema.args).enumerate() {
            match a.ty {
                SchemaType::Tensor => operands += &format!("({i}, {}), ", p.name),
                _ => attributes += &format!("({:?}, {}.into()), ", a.name, p.name),
            }
        }
        format!(
            "{{ fn f({}) -> Result<{}> {{ crate::ops::pointwise::formula::{run}(straightline_catalog::Op::{}, &[{operands}], &[{attributes}]) }} f }}",
            self.signature(),
            self.returns,
            of.replace('.', "_"),
        )
    }

    /// The kernel of an operator whose definition is a function over calls.
    fn composition(&self) -> String {
        let fields: String = (self.params.iter().zip(&self.schema.args))
            .map(|(p, a)| {
                let owned = match (&a.ty, a.ty.unwrap_optional()) {
                    (SchemaType::List(of, _), _) if **of == SchemaType::Tensor => {
                        ".iter().collect()"
                    }
                    (SchemaType::List(..), _) => ".to_vec()",
                    (_, SchemaType::List(..)) => ".map(<[_]>::to_vec)",
                    (SchemaType::Str, _) => ".to_string()",
                    (_, SchemaType::Str) => ".map(str::to_string)",
                    _ => "",
                };
                match owned {
                    "" => format!("{}, ", p.name),
                    owned => format!("{0}: {0}{owned}, ", p.name),
                }
            })
            .collect();
        let op = self.entry.op.unqualified().replace('.', "_");
        format!(
            "{{ fn f({}) -> Result<{}> {{ straightline_passes::compose::{op}(&mut crate::ops::composed::Eager, straightline_catalog::args::{op} {{ {fields} }}) }} f }}",
            self.signature(),
            self.returns,
        )
    }

    /// The kernel for tensors made of dense ones: that for dense ones, on the parts.
    fn on_parts(&self, key: &str) -> String {
        // the one at Meta is no detour for backends from outside
        let dense = self.kernels.iter().find(|(key, _)| key == "Meta");
        let dense = dense.map_or(String::new(), |(key, path)| self.kernel(key, path));
        let map = match key {
            "SparseCPU" => "sparse::on_values",
            "SparseCsrCPU" => "sparse::on_csr_values",
            _ => "nested::on_components",
        };
        format!("{{ fn f(x: &Tensor) -> Result<Tensor> {{ crate::ops::{map}(x, {dense}) }} f }}")
    }

    /// A kernel at `BackendSelect`: dispatches on the argument `device`.
    pub(crate) fn backend_select(&self) -> String {
        let (signature, values) = (self.signature(), self.values());
        let keys = self.selected();
        format!(
            "{{\n        #[allow(clippy::too_many_arguments)]\n        fn select({signature}) -> Result<{}> {{ {}.redispatch({keys}, ({values})) }}\n        select\n    }}",
            self.returns,
            self.handle()
        )
    }

    /// A kernel for all backends. Most work on our own memory only: there it is the function for
    /// such tensors, and those of a backend from outside are taken to other operators.
    pub(crate) fn composite_explicit(&self, kernel: &str) -> String {
        let foreign = |p: &Param, of: &SchemaType| -> Option<String> {
            Some(match (of, of.unwrap_optional()) {
                (SchemaType::Tensor, _) => format!("is_foreign({})", p.name),
                (SchemaType::Optional(_), SchemaType::Tensor) => {
                    format!("{}.is_some_and(is_foreign)", p.name)
                }
                (SchemaType::List(t, _), _) if **t == SchemaType::Tensor => {
                    format!("{}.iter().any(is_foreign)", p.name)
                }
                (SchemaType::List(t, _), _) if *t.unwrap_optional() == SchemaType::Tensor => {
                    format!("{}.iter().flatten().any(is_foreign)", p.name)
                }
                _ => return None,
            })
        };
        let checks: Vec<String> = (self.params.iter().zip(&self.schema.args))
            .filter_map(|(p, a)| foreign(p, &a.ty))
            .collect();
        // a composite of other operators needs no second way
        if checks.is_empty()
            || self.entry.kernels.iter().any(|(key, _)| *key == "Functionalize")
            || self.entry.of_others
        {
            return self.local(kernel);
        }
        let (signature, values) = (self.signature(), self.values());
        format!(
            "{{\n        #[allow(clippy::too_many_arguments)]\n        \
             fn composite({signature}) -> Result<{}> {{\n            \
             if {} {{\n                \
             return {}.get()?.boxed(({values}), &mut crate::ops::foreign::decompose);\n            }}\n            \
             ({})({})\n        }}\n        composite\n    }}",
            self.returns,
            checks.join(" || "),
            self.handle(),
            self.local(kernel),
            values.trim_end_matches(", "),
        )
    }
}

/// A kernel made of the functional variant, which this field of the entry names.
fn variant(functional: &str, key: &str) -> String {
    format!("variants::of(entry.{functional}, entry.out, DispatchKey::{key})")
}

/// Whether the kernels at a key have elements to read.
fn runs(key: &str) -> bool {
    key == "CPU" || key == "SparseCPU" || key.starts_with("Composite")
}

/// Whether a kernel leaves it to the dispatcher to hold its operands.
pub(crate) fn held_around(entry: &Entry, key: &str, path: &str) -> bool {
    let has_steps = match path.split('(').next().unwrap_or(path) {
        "elementary" | "elementary_" | "formula" | "formula_" | "fallthrough"
        | "below_autograd" | "composed_out" | "variant" | "on_parts" => false,
        "composite" => entry.op.composite().is_some_and(composite::has_steps),
        // a call of another operator
        path if path.starts_with("aten::") => false,
        _ => !entry.holds_itself,
    };
    let args = &entry.op.schema().args;
    has_steps && runs(key) && args.iter().any(|a| a.ty.is_dispatch_relevant())
}

/// What makes a kernel one whose operands are held around it.
pub(crate) fn whole(key: &str, written: u64) -> String {
    // the parts of others are differentiated one by one, and views among them are theirs
    let stands_alone = key != "CompositeImplicitAutograd";
    format!(".whole({written:#b}, {stands_alone})")
}

/// The rows of the table that registers the operators, each an item of its own: the compiler's
/// incremental state has the types of an item once for each closure in it, so that one item of
/// 3,354 closures took 24 s of each dev build.
#[derive(Default)]
pub(crate) struct Table {
    rows: String,
    count: usize,
}

impl Table {
    /// Adds the row of an entry.
    pub(crate) fn push(&mut self, entry: &Entry, kernels: &[(String, String, String)]) {
        let (out, count) = (&mut self.rows, self.count);
        // writing to a String cannot fail
        let _ = writeln!(out, "// {}", entry.op);
        let _ = writeln!(
            out,
            "static ROW_{count}: Registered = Registered {{ entry: &ENTRIES[{count}], kernels: &["
        );
        for (key, kernel, whole) in kernels {
            let kernel = match kernel.strip_suffix("::fallthrough()") {
                Some(_) => "|_| Kernel::fallthrough()".to_string(),
                None if kernel.contains("variants::of(") => format!("|entry| {kernel}"),
                None => format!("|_| kernel({kernel}){whole}"),
            };
            let _ = writeln!(out, "    (DispatchKey::{key}, {kernel}),");
        }
        let _ = writeln!(out, "] }};");
        self.count += 1;
    }

    /// The rows, and the table of all of them.
    pub(crate) fn finish(self) -> String {
        let Table { mut rows, count } = self;
        let all: Vec<String> = (0..count).map(|i| format!("&ROW_{i}")).collect();
        let _ = writeln!(
            rows,
            "/// What defines every operator and registers its kernels.\n\
             pub(super) static OPERATORS: &[&Registered] = &[{}];",
            all.join(", ")
        );
        rows
    }
}

/// The wrapper's name: the base name and the overload in snake case.
pub(crate) fn function_name(schema: &FunctionSchema) -> String {
    let mut function = snake(schema.name.base());
    if !schema.name.overload.is_empty() {
        if !function.ends_with('_') {
            function.push('_');
        }
        function += &snake(&schema.name.overload);
        // `__lshift__` ends in underscores and writes nothing
        if schema.name.base().ends_with('_') && schema.is_inplace() {
            function.push('_');
        }
    }
    if function == "where" || function == "move" {
        function.push('_');
    }
    function
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
        _ => Err(format!("return type `{ty}` has no Rust form yet: add it to build.rs")),
    }
}
