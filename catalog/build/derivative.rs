//! The files of derivatives: which formula gives the gradient of which argument.
//!
//! The formulas themselves are texts here; the build script of the crate that has the kernels makes
//! code of them.

use crate::entry::qualified;
use crate::{Declared, variant};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use straightline_words::schema::FunctionSchema;

/// What stands at one key of an operator.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Flag(bool),
    Flags(Vec<bool>),
    Text(String),
    Texts(Vec<String>),
}

/// A formula: the arguments whose gradients it gives, and the line that it stands in.
struct Formula {
    inputs: Vec<String>,
    text: String,
    line: usize,
}

/// What a file says of one operator.
pub(crate) struct Derivative {
    file: String,
    line: usize,
    node: Option<String>,
    formulas: Vec<Formula>,
    outputs: Vec<bool>,
    not_implemented: bool,
    not_differentiable: bool,
    /// How tangents go through: a word, or an expression for each differentiable result.
    forward: Vec<String>,
    forward_line: usize,
}

/// Whether a file of the catalogue has formulas and not entries.
pub(crate) fn is_file(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    stem == "derivatives" || stem.ends_with("_derivatives")
}

/// The formulas of all files, by the operators' names.
pub(crate) fn read(
    files: &[std::path::PathBuf],
    declared: &BTreeMap<String, Declared<'_>>,
    implicit: &BTreeSet<String>,
) -> Result<BTreeMap<String, Derivative>, String> {
    let mut all: BTreeMap<String, Derivative> = BTreeMap::new();
    for path in files {
        let name = path.to_str().ok_or("a file name that is not UTF-8")?;
        let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
        let file = format!("catalog/{name}");
        let lines = lines(&text).map_err(|(line, e)| format!("{file}:{line}: {e}"))?;
        let parsed: BTreeMap<String, BTreeMap<String, Field>> =
            yaml_serde::from_str(&text).map_err(|e| format!("{file}: {e}"))?;
        for (op, fields) in parsed {
            let line = lines.get(&(op.clone(), None)).copied().unwrap_or_default();
            let at = |line: usize, e: &str| format!("{file}:{line}: in `{op}`: {e}");
            let Some(of) = declared.get(&qualified(&op)) else {
                return Err(at(line, "no entry declares this operator"));
            };
            if of.schema.is_out_variant() {
                return Err(at(line, "what writes into `out` is not differentiable"));
            }
            if implicit.contains(&qualified(&op)) {
                return Err(at(
                    line,
                    "a CompositeImplicitAutograd operator has its parts' formulas",
                ));
            }
            let mut derivative = Derivative {
                file: file.clone(),
                line,
                node: None,
                formulas: Vec::new(),
                outputs: Vec::new(),
                not_implemented: false,
                not_differentiable: false,
                forward: Vec::new(),
                forward_line: line,
            };
            for (key, field) in fields {
                let line = lines.get(&(op.clone(), Some(key.clone()))).copied().unwrap_or(line);
                derivative.add(&key, field, line, &of.schema).map_err(|e| at(line, &e))?;
            }
            derivative.check(&of.schema).map_err(|e| at(line, &e))?;
            if let Some(other) = all.insert(qualified(&op), derivative) {
                let (other, there) = (other.file, other.line);
                return Err(at(line, &format!("{other}:{there} has its formulas as well")));
            }
        }
    }
    Ok(all)
}

/// The lines of operators and of their keys.
type Lines = BTreeMap<(String, Option<String>), usize>;

/// Finds the lines; an operator, or one of its keys, that stands there twice is an error.
fn lines(text: &str) -> Result<Lines, (usize, String)> {
    let mut found = Lines::new();
    let mut op = String::new();
    for (i, line) in text.lines().enumerate() {
        let (key, inner) = match line.strip_prefix("  ") {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        if key.is_empty() || key.starts_with([' ', '#', '-']) {
            continue;
        }
        let Some(key) =
            (key.split_once(": ").map(|(key, _)| key)).or_else(|| key.trim_end().strip_suffix(':'))
        else {
            continue;
        };
        let id = match inner {
            true => (op.clone(), Some(key.to_string())),
            false => {
                op = key.to_string();
                (op.clone(), None)
            }
        };
        if found.insert(id, i + 1).is_some() {
            return Err((i + 1, format!("`{key}` stands here twice")));
        }
    }
    Ok(found)
}

impl Derivative {
    fn add(
        &mut self,
        key: &str,
        field: Field,
        line: usize,
        schema: &FunctionSchema,
    ) -> Result<(), String> {
        let known = |name: &str| schema.args.iter().any(|a| a.name == name);
        match (key, field) {
            ("not_implemented", Field::Flag(flag)) => self.not_implemented = flag,
            ("not_differentiable", Field::Flag(flag)) => self.not_differentiable = flag,
            ("node", Field::Text(name)) => self.node = Some(name),
            ("outputs", Field::Flags(outputs)) => self.outputs = outputs,
            ("forward", Field::Text(text)) => {
                (self.forward, self.forward_line) = (vec![text], line);
            }
            ("forward", Field::Texts(texts)) => (self.forward, self.forward_line) = (texts, line),
            ("not_implemented" | "not_differentiable" | "node" | "outputs" | "forward", _) => {
                return Err(format!("`{key}` has another type"));
            }
            (inputs, field) => {
                let inputs: Vec<String> = inputs.split(',').map(|i| i.trim().to_string()).collect();
                for input in &inputs {
                    if !known(input) {
                        return Err(format!("there is no argument `{input}`"));
                    }
                    let arg = schema.args.iter().find(|a| a.name == *input);
                    if !arg.is_some_and(|a| a.ty.is_dispatch_relevant()) {
                        return Err(format!("`{input}` is no tensor"));
                    }
                    if self.formulas.iter().any(|f| f.inputs.contains(input)) {
                        return Err(format!("`{input}` has two formulas"));
                    }
                }
                let text = match field {
                    Field::Text(text) => text,
                    _ => return Err("a formula is an expression".into()),
                };
                self.formulas.push(Formula { inputs, text, line });
            }
        }
        Ok(())
    }

    fn check(&self, schema: &FunctionSchema) -> Result<(), String> {
        let kinds = [self.not_implemented, self.not_differentiable, !self.formulas.is_empty()];
        if kinds.iter().filter(|k| **k).count() != 1 {
            return Err(
                "one of formulas, `not_implemented: true` and `not_differentiable: true`".into()
            );
        }
        if !self.forward.is_empty() && self.formulas.is_empty() {
            return Err("`forward` stands beside formulas of gradients".into());
        }
        let returns = schema.returns.len();
        if !self.outputs.is_empty() && self.outputs.len() != returns {
            return Err(format!("`outputs` has one truth for each of {returns} results"));
        }
        if !self.outputs.is_empty() && !self.outputs.contains(&true) {
            return Err("without a differentiable result it is `not_differentiable: true`".into());
        }
        Ok(())
    }

    /// The expression of what the operator of this name has, shared with another one or not.
    fn expression(&self, name: &str, of: Option<&str>, suffix: &str) -> String {
        let formulas: Vec<String> = (self.formulas.iter())
            .map(|f| {
                let Formula { inputs, text, line } = f;
                format!("Formula {{ inputs: &{inputs:?}, text: {text:?}, line: {line} }}")
            })
            .collect();
        let Derivative { file, line, forward, forward_line, .. } = self;
        let of = match of {
            Some(of) => format!("Some(Op::{})", variant(of)),
            None => "None".to_string(),
        };
        let mut out = String::new();
        // writing to a String cannot fail
        let _ = write!(
            out,
            "Some(&Derivative {{ variant: {:?}, shared_with: {of}, file: {file:?}, line: {line}, \
             node: {:?}, node_suffix: {suffix:?}, formulas: &[{}], outputs: &{:?}, not_implemented: {}, \
             not_differentiable: {}, forward: &{forward:?}, forward_line: {forward_line} }})",
            variant(name),
            self.node,
            formulas.join(", "),
            self.outputs,
            self.not_implemented,
            self.not_differentiable,
        );
        out
    }
}

/// The field `derivative` of each operator that has one, by name.
pub(crate) fn expressions(
    derivatives: &BTreeMap<String, Derivative>,
    declared: &BTreeMap<String, Declared<'_>>,
    implicit: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (name, of) in declared {
        if let Some(own) = derivatives.get(name) {
            out.insert(name.clone(), own.expression(name, None, ""));
            continue;
        }
        if of.schema.is_out_variant() || implicit.contains(name) {
            continue;
        }
        if let Some((twin, suffix)) = twin(&of.schema, declared)
            && let Some(shared) = derivatives.get(&twin)
        {
            // a copy of a view's elements is a node of its own, and a form in place is none
            let of = suffix.is_empty().then_some(twin.as_str());
            out.insert(name.clone(), shared.expression(name, of, suffix));
        }
    }
    out
}

/// The operator whose formulas a form in place, or a view's elements copied, has: that of the base
/// name, with the same arguments. The overload is the same one where such a one exists.
fn twin(
    schema: &FunctionSchema,
    declared: &BTreeMap<String, Declared<'_>>,
) -> Option<(String, &'static str)> {
    let name = &schema.name.name;
    let (base, suffix) = match schema.is_inplace() {
        true => (name.strip_suffix('_')?, ""),
        false => (name.strip_suffix("_copy")?, "_copy"),
    };
    let same = |other: &FunctionSchema| {
        let pairs = schema.args.iter().zip(&other.args);
        schema.args.len() == other.args.len() && { pairs }
            .all(|(a, b)| a.name == b.name && a.ty == b.ty)
    };
    let found = (declared.iter())
        .filter(|(_, d)| d.schema.name.name == base && same(&d.schema))
        .max_by_key(|(_, d)| d.schema.name.overload == schema.name.overload);
    found.map(|(name, _)| (name.clone(), suffix))
}
