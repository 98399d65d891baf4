//! Turns the files of `ops/` into the enum `Op`, the facts of each operator, and the list of what
//! the entries register.

#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
#[path = "src/rules.rs"]
mod rules;

#[path = "build/args.rs"]
mod args;
#[path = "build/composite.rs"]
mod composite;
#[path = "build/derivative.rs"]
mod derivative;
#[path = "build/entry.rs"]
mod entry;

use entry::{Placed, qualified};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use straightline_words::effects::Effects;
use straightline_words::schema::FunctionSchema;

const SOURCES: &str = "ops";

fn main() -> ExitCode {
    for path in [SOURCES, "build.rs", "build", "src/rules.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let written = entry::files(SOURCES)
        .and_then(|(entries, derivatives)| generate(&entry::read(&entries)?, &derivatives));
    let dir = std::env::var_os("OUT_DIR").ok_or_else(|| "OUT_DIR is not set".to_string());
    let done = written.and_then(|files| {
        let dir = PathBuf::from(dir?);
        let write = |(name, text)| std::fs::write(dir.join(name), text).map_err(|e| e.to_string());
        files.into_iter().try_for_each(write)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("cargo::error={}", e.replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

/// An operator that an entry declares.
pub(crate) struct Declared<'a> {
    pub(crate) placed: &'a Placed,
    pub(crate) schema: FunctionSchema,
}

/// The name of an operator's variant of `Op`: as PyTorch writes it in C++, base and overload with
/// an underscore between, and the namespace before it where that is not `aten`.
pub(crate) fn variant(name: &str) -> String {
    let name = name.strip_prefix("aten::").unwrap_or(name);
    let name = name.replace("::", "_").replace('.', "_");
    match name.as_str() {
        "where" | "move" | "match" | "type" => format!("{name}_"),
        _ => name,
    }
}

/// The files: what operators are, what registers them, how some are made of others, and the types
/// of their arguments.
fn generate(
    entries: &[Placed],
    derivatives: &[PathBuf],
) -> Result<[(&'static str, String); 4], String> {
    let mut declared: BTreeMap<String, Declared<'_>> = BTreeMap::new();
    for placed in entries.iter().filter(|p| p.entry.declares()) {
        let at = |e: String| placed.at(&e);
        let schema =
            FunctionSchema::parse(&placed.entry.schema()).map_err(|e| at(e.to_string()))?;
        let name = placed.entry.name();
        if let Some(other) = declared.insert(name.clone(), Declared { placed, schema }) {
            let (file, line) = (&other.placed.file, other.placed.line);
            return Err(at(format!("`{name}` is declared in {file}:{line} as well")));
        }
    }
    let variants: BTreeSet<String> = declared.keys().map(|n| variant(n)).collect();
    if variants.len() != declared.len() {
        return Err("two operators have one name in Rust".to_string());
    }
    let random = random_bases(&declared);
    let mut out = String::new();
    enumeration(&mut out, &declared);
    infos(&mut out, &declared, &random)?;
    modes(&mut out, entries)?;
    let mut registered = String::new();
    let derivatives = derivatives_of(entries, derivatives, &declared)?;
    rows(&mut registered, entries, &declared, &derivatives)?;
    Ok([
        ("ops.rs", out),
        ("entries.rs", registered),
        ("composites.rs", composites(&declared)?),
        ("args.rs", args::structs(&declared)?),
    ])
}

/// The derivatives of operators, by name, as expressions.
fn derivatives_of(
    entries: &[Placed],
    files: &[PathBuf],
    declared: &BTreeMap<String, Declared<'_>>,
) -> Result<BTreeMap<String, String>, String> {
    const IMPLICIT: &str = "CompositeImplicitAutograd";
    let implicit: BTreeSet<String> = (entries.iter())
        .filter(|p| {
            let keys = p.entry.dispatch.keys().chain(&p.entry.variant_at);
            { keys }.any(|k| k.split(',').any(|k| k.trim() == IMPLICIT))
        })
        .map(|p| p.entry.name())
        .collect();
    let read = derivative::read(files, declared, &implicit)?;
    Ok(derivative::expressions(&read, declared, &implicit))
}

/// The base names of which some form draws random numbers, without the `_` of the one in place.
fn random_bases(declared: &BTreeMap<String, Declared<'_>>) -> BTreeSet<String> {
    let drawing = declared.values().filter(|d| d.placed.entry.tags.iter().any(|t| is_random(t)));
    drawing.map(|d| base(&d.schema).to_string()).collect()
}

fn is_random(tag: &str) -> bool {
    tag == "nondeterministic_seeded" || tag == "random"
}

fn base(schema: &FunctionSchema) -> &str {
    let base = schema.name.base();
    base.strip_suffix('_').unwrap_or(base)
}

fn enumeration(out: &mut String, declared: &BTreeMap<String, Declared<'_>>) {
    // writing to a String cannot fail
    out.push_str(
        "/// An operator: one of the catalogue, or one from outside.\n\
         ///\n\
         /// The variants have PyTorch's names: base and overload of `aten::add.Tensor` are `add_Tensor`.\n\
         #[allow(non_camel_case_types, reason = \"as PyTorch writes them\")]\n\
         #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         pub enum Op {\n",
    );
    for d in declared.values() {
        let name = &d.schema.name;
        let _ = writeln!(out, "    /// `{name}`.\n    {},", variant(&name.to_string()));
    }
    out.push_str(
        "    /// An operator that is not in the catalogue.\n    Outside(Outside),\n}\n\n\
         impl Op {\n\
         \x20   /// The number of operators in the catalogue.\n",
    );
    let _ = writeln!(out, "    pub const COUNT: usize = {};\n", declared.len());
    out.push_str(
        "    /// What is known of the operator.\n\
         \x20   pub fn info(self) -> &'static OpInfo {\n\
         \x20       match self {\n",
    );
    for (i, name) in declared.keys().enumerate() {
        let _ = writeln!(out, "            Op::{} => &INFOS[{i}],", variant(name));
    }
    out.push_str("            Op::Outside(o) => o.info(),\n        }\n    }\n}\n\n");
}

/// What entries say about modes, also for operators that are not declared.
fn modes(out: &mut String, entries: &[Placed]) -> Result<(), String> {
    let mut rows = BTreeMap::new();
    for p in entries {
        let at = |e: String| p.at(&e);
        if let Some(modes) = p.entry.modes().map_err(at)? {
            let name = p.entry.name();
            if rows.insert(name.clone(), modes).is_some() {
                return Err(at(format!("`autocast` or `math_bits` of `{name}` twice")));
            }
        }
    }
    let _ = writeln!(
        out,
        "/// What modes do at the operators of PyTorch's lists, by name.\n\
         static MODES: &[(&str, Modes)] = &["
    );
    for (name, modes) in rows {
        let _ = writeln!(out, "    ({name:?}, {modes}),");
    }
    out.push_str("];\n\n");
    Ok(())
}

/// The effects that an operator's tags and schema say it has.
fn effects(d: &Declared<'_>) -> Effects {
    let tags = d.placed.entry.tags.iter();
    let named = tags.filter_map(|t| match t.as_str() {
        t if is_random(t) => Some(Effects::RANDOM),
        t => Effects::from_name(t),
    });
    match named.reduce(|a, b| a | b) {
        Some(tagged) => tagged,
        None if d.schema.is_mutable() => Effects::WRITES,
        None => Effects::PURE,
    }
}

fn infos(
    out: &mut String,
    declared: &BTreeMap<String, Declared<'_>>,
    random: &BTreeSet<String>,
) -> Result<(), String> {
    let count = declared.len();
    let _ = writeln!(out, "/// By name.\npub(crate) static INFOS: [OpInfo; {count}] = [");
    for (i, (name, d)) in declared.iter().enumerate() {
        let e = &d.placed.entry;
        let at = |e: String| d.placed.at(&e);
        let facts = [
            ("effects", format!("Effects::{}", effect_name(effects(d)).map_err(at)?)),
            ("kind", format!("Kind::{:?}", e.kind().map_err(at)?)),
            ("flops", format!("&{:?}", e.flops)),
            ("draws", random.contains(base(&d.schema)).to_string()),
            ("divides", e.tags.iter().any(|t| t == "integer_division").to_string()),
            ("view", (e.view || d.schema.is_view()).to_string()),
            ("mutable", d.schema.is_mutable().to_string()),
            ("tolerance", format!("Tolerance::{:?}", e.tolerance().map_err(at)?)),
        ];
        let facts: Vec<String> = facts.iter().map(|(f, v)| format!("{f}: {v}")).collect();
        let _ = writeln!(
            out,
            "    OpInfo {{ name: {name:?}, schema: Schema::Text({:?}, {i}), tags: &{:?}, facts: Facts {{ {} }} }},",
            e.schema(),
            e.tags,
            facts.join(", "),
        );
    }
    let ops: Vec<String> = declared.keys().map(|n| format!("Op::{}", variant(n))).collect();
    let _ = writeln!(out, "];\n\nstatic OPS: [Op; {count}] = [{}];\n", ops.join(", "));
    Ok(())
}

/// The operators that entries define by others, in their order, and the definitions.
fn composites(declared: &BTreeMap<String, Declared<'_>>) -> Result<String, String> {
    let (mut ops, mut definitions) = (Vec::new(), Vec::new());
    for (name, d) in declared {
        if let Some(text) = &d.placed.entry.composite {
            let at = |e: String| d.placed.at(&e);
            definitions.push(composite::composite(text, &d.schema, declared).map_err(at)?);
            ops.push(format!("Op::{}", variant(name)));
        }
    }
    Ok(format!(
        "static COMPOSITES: &[Op] = &[{}];\n\nstatic DEFINITIONS: &[Composite] = &[{}];\n",
        ops.join(", "),
        definitions.join(",\n    ")
    ))
}

fn effect_name(effects: Effects) -> Result<&'static str, String> {
    let name = Effects::NAMES.iter().find(|n| n.1 == effects);
    Ok(match name.map(|n| n.0) {
        Some("pure") => "PURE",
        Some("reads") => "READS",
        Some("writes") => "WRITES",
        Some("random") => "RANDOM",
        Some("effect") => "EFFECT",
        Some("may_fail") => "MAY_FAIL",
        _ => {
            return Err(format!("no operator of the catalogue has the effects `{effects}`"));
        }
    })
}

/// What each entry registers, for the build script of the crate that has the kernels.
fn rows(
    out: &mut String,
    entries: &[Placed],
    declared: &BTreeMap<String, Declared<'_>>,
    derivatives: &BTreeMap<String, String>,
) -> Result<(), String> {
    out.push_str(
        "/// What the entries register, file by file.\npub static ENTRIES: &[Entry] = &[\n",
    );
    for placed in entries {
        let Placed { file, line, entry } = placed;
        if !entry.declares() && entry.dispatch.is_empty() {
            continue;
        }
        let at = |e: String| format!("{file}:{line}: in `{}`: {e}", entry.func);
        let op = |name: &str| match declared.contains_key(&qualified(name)) {
            true => Ok(format!("Op::{}", variant(&qualified(name)))),
            false => Err(at(format!("`{name}` has no schema anywhere"))),
        };
        if !entry.declares() && (!entry.tags.is_empty() || entry.doc.is_some()) {
            return Err(at("tags and documentation belong to the entry with the schema".into()));
        }
        if entry.variant_of.is_some() != entry.variant_at.is_some() {
            return Err(at("`variant_of` and `variant_at` go together".into()));
        }
        if entry.structured.len() > 2 {
            return Err(at(
                "`structured` names the functional variant and perhaps the in-place one".into(),
            ));
        }
        let structured: Vec<String> =
            (entry.structured.iter().map(|n| op(n))).collect::<Result<_, _>>()?;
        let variant_of = match &entry.variant_of {
            Some(of) => format!("Some({})", op(of)?),
            None => "None".to_string(),
        };
        let keys = entry.variant_at.iter().flat_map(|k| k.split(','));
        let keys: Vec<&str> = keys.map(str::trim).collect();
        let kernels: Vec<(&str, &str)> = (entry.dispatch.iter())
            .flat_map(|(keys, kernel)| keys.split(',').map(|k| (k.trim(), kernel.as_str())))
            .collect();
        let rules = entry.out_rules().map_err(at)?;
        let derivative = derivatives.get(&entry.name()).filter(|_| entry.declares());
        let methods = entry.methods().map_err(at)?;
        if !entry.declares() && !methods.is_empty() {
            return Err(at("methods belong to the entry with the schema".into()));
        }
        let methods: Vec<String> = (methods.iter())
            .map(|m| {
                format!(
                    "Method {{ call: {:?}, doc: {:?}, example: {:?}, doc_aliases: &{:?} }}",
                    m.method, m.doc, m.example, m.doc_aliases,
                )
            })
            .collect();
        let _ = writeln!(
            out,
            "    Entry {{ op: {}, file: {file:?}, line: {line}, declares: {}, on_parts: &{:?}, holds_itself: {}, of_others: {}, doc: {:?}, methods: &[{}], kernels: &{kernels:?}, \
             structured: &[{}], variant_of: {variant_of}, variant_at: &{keys:?}, results: Results::{:?}, \
             out: OutRules {{ dtype: OutDtype::{:?}, strides: OutStrides::{:?}, overlap: OutOverlap::{:?}, \
             checked: OutChecked::{:?} }}, derivative: {} }},",
            op(entry.func.split('(').next().unwrap_or_default())?,
            entry.declares(),
            entry.on_parts,
            entry.holds_itself,
            entry.of_others,
            entry.doc,
            methods.join(", "),
            structured.join(", "),
            entry.results().map_err(at)?,
            rules.dtype,
            rules.strides,
            rules.overlap,
            rules.checked,
            derivative.map_or("None", String::as_str),
        );
    }
    out.push_str("];\n");
    Ok(())
}
