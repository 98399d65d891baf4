//! The entries of the YAML files.

use crate::derivative;
use crate::rules::{
    Autocast, AutocastList, Kind, MathBit, OutChecked, OutDtype, OutOverlap, OutRules, OutStrides,
    Results, Tolerance,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// An entry as it is written; `ops/README.md` says what the fields mean.
#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) func: String,
    #[serde(default)]
    pub(crate) dispatch: BTreeMap<String, String>,
    pub(crate) composite: Option<String>,
    #[serde(default)]
    pub(crate) structured: Vec<String>,
    out_dtype: Option<String>,
    out_strides: Option<String>,
    out_overlap: Option<String>,
    out_checked: Option<String>,
    results: Option<String>,
    #[serde(default)]
    variants: Vec<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    pub(crate) on_parts: Vec<String>,
    #[serde(default)]
    pub(crate) holds_itself: bool,
    #[serde(default)]
    pub(crate) of_others: bool,
    pub(crate) variant_of: Option<String>,
    pub(crate) variant_at: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    pub(crate) view: bool,
    #[serde(default)]
    pub(crate) flops: Vec<String>,
    #[serde(default)]
    autocast: BTreeMap<String, String>,
    #[serde(default)]
    math_bits: Vec<String>,
    tolerance: Option<String>,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    pub(crate) doc: Option<String>,
    method: Option<String>,
    example: Option<String>,
    #[serde(default)]
    doc_aliases: Vec<String>,
    #[serde(default)]
    methods: Vec<Method>,
    /// Of an `out` that another entry asks for: the form in place, if there is one, is made of it
    /// as well.
    #[serde(skip)]
    serves_in_place: bool,
}

/// A method of tensors that calls the operator.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(crate) struct Method {
    pub(crate) method: String,
    pub(crate) doc: Option<String>,
    pub(crate) example: Option<String>,
    #[serde(default)]
    pub(crate) doc_aliases: Vec<String>,
}

/// An entry and where it stands.
pub(crate) struct Placed {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) entry: Entry,
}

impl Placed {
    /// An error, with the place of the entry that it is about.
    pub(crate) fn at(&self, e: &str) -> String {
        format!("{}:{}: {e}", self.file, self.line)
    }
}

/// A field as the word that it is, or its default.
fn word<T: Default>(
    field: &str,
    text: Option<&String>,
    of: fn(&str) -> Option<T>,
) -> Result<T, String> {
    match text {
        None => Ok(T::default()),
        Some(w) => of(w).ok_or_else(|| format!("`{w}` is no value of `{field}`")),
    }
}

impl Entry {
    /// Whether the entry has the operator's schema; otherwise only its name, and kernels.
    pub(crate) fn declares(&self) -> bool {
        self.func.contains('(')
    }

    /// The name with its namespace, `aten::add.Tensor`.
    pub(crate) fn name(&self) -> String {
        let name = self.func.split('(').next().unwrap_or_default();
        qualified(name)
    }

    /// The schema with the namespace.
    pub(crate) fn schema(&self) -> String {
        qualified(&self.func)
    }

    pub(crate) fn out_rules(&self) -> Result<OutRules, String> {
        Ok(OutRules {
            dtype: word("out_dtype", self.out_dtype.as_ref(), OutDtype::from_word)?,
            strides: word("out_strides", self.out_strides.as_ref(), OutStrides::from_word)?,
            overlap: word("out_overlap", self.out_overlap.as_ref(), OutOverlap::from_word)?,
            checked: word("out_checked", self.out_checked.as_ref(), OutChecked::from_word)?,
        })
    }

    pub(crate) fn results(&self) -> Result<Results, String> {
        word("results", self.results.as_ref(), Results::from_word)
    }

    /// The expression of what it says of modes; `None` where that is nothing.
    pub(crate) fn modes(&self) -> Result<Option<String>, String> {
        if self.autocast.is_empty() && self.math_bits.is_empty() {
            return Ok(None);
        }
        let autocast = (self.autocast.iter()).map(|(list, policy)| {
            let list = word("autocast", Some(list), AutocastList::from_word)?;
            let policy = word("autocast", Some(policy), Autocast::from_word)?;
            Ok(format!("(AutocastList::{list:?}, Autocast::{policy:?})"))
        });
        let bits = (self.math_bits.iter()).map(|bit| {
            let bit = word("math_bits", Some(bit), MathBit::from_word)?;
            Ok(format!("MathBit::{bit:?}"))
        });
        let autocast = autocast.collect::<Result<Vec<_>, String>>()?.join(", ");
        let bits = bits.collect::<Result<Vec<_>, String>>()?.join(", ");
        Ok(Some(format!("Modes {{ autocast: &[{autocast}], math_bits: &[{bits}] }}")))
    }

    /// The methods, the one of the entry's own fields first.
    pub(crate) fn methods(&self) -> Result<Vec<Method>, String> {
        let own = match &self.method {
            Some(method) => Some(Method {
                method: method.clone(),
                doc: self.doc.clone(),
                example: self.example.clone(),
                doc_aliases: self.doc_aliases.clone(),
            }),
            None if self.example.is_some() || !self.doc_aliases.is_empty() => {
                return Err("`example` and `doc_aliases` belong to a `method`".into());
            }
            None => None,
        };
        Ok(own.into_iter().chain(self.methods.clone()).collect())
    }

    pub(crate) fn kind(&self) -> Result<Kind, String> {
        word("kind", self.kind.as_ref(), Kind::from_word)
    }

    pub(crate) fn tolerance(&self) -> Result<Tolerance, String> {
        word("tolerance", self.tolerance.as_ref(), Tolerance::from_word)
    }
}

/// `add`, `.Tensor` of `add.Tensor`.
fn split(name: &str) -> (&str, &str) {
    name.split_at(name.find('.').unwrap_or(name.len()))
}

/// The kernel of the form in place: `mish_` of `mish`, `formula_(x)` of `formula(x)`.
fn in_place(kernel: &str) -> String {
    let (name, of) = kernel.split_at(kernel.find('(').unwrap_or(kernel.len()));
    format!("{name}_{of}")
}

/// The definition of the form in place: `abs_(self)` of `abs(self)`.
fn composite_in_place(definition: &str) -> Result<String, String> {
    let (name, args) = definition.split_at(definition.find('(').unwrap_or(definition.len()));
    let plain = !definition.trim_end().contains('\n') && args.trim_end().ends_with(')');
    if !plain || !args.starts_with("(self") {
        return Err(format!("no form in place follows from `{definition}`"));
    }
    let (base, overload) = split(name);
    Ok(format!("{base}_{overload}{args}"))
}

/// The wrapper's name: the base name and the overload in snake case.
fn function(name: &str) -> String {
    name.replace('.', "_").to_lowercase()
}

impl Entry {
    /// The entries that this one asks for by `variants` and `aliases`.
    fn derived(&self) -> Result<Vec<Entry>, String> {
        let (name, rest) = self.func.split_at(self.func.find('(').unwrap_or(self.func.len()));
        let (base, overload) = split(name);
        let tags = |of: &str| {
            let kept = self.tags.iter().filter(|t| *t != "core").cloned();
            kept.chain([of.to_string()]).collect()
        };
        let mut all = Vec::new();
        for variant in &self.variants {
            all.push(match variant.as_str() {
                "inplace" => {
                    let fits =
                        rest.strip_prefix("(Tensor self").zip(rest.strip_suffix(" -> Tensor"));
                    let Some((args, _)) = fits else {
                        return Err("a form in place needs `(Tensor self` and one result".into());
                    };
                    let dispatch = self.dispatch.iter();
                    let composite = self.composite.as_deref().map(composite_in_place);
                    Entry {
                        composite: composite.transpose()?,
                        func: format!("{base}_{overload}(Tensor(a!) self{args}(a!)"),
                        dispatch: dispatch
                            .map(|(k, v)| match v.as_str() {
                                "composite" => (k.clone(), v.clone()),
                                v => (k.clone(), in_place(v)),
                            })
                            .collect(),
                        holds_itself: self.holds_itself,
                        of_others: self.of_others,
                        tags: tags("inplace"),
                        tolerance: self.tolerance.clone(),
                        ..Entry::default()
                    }
                }
                "out" => {
                    let Some(args) = rest.strip_suffix(") -> Tensor") else {
                        return Err("an `out` needs one result".into());
                    };
                    let out = match overload {
                        "" => ".out".to_string(),
                        of => format!("{of}_out"),
                    };
                    let star = if args.contains('*') { "" } else { "*, " };
                    Entry {
                        func: format!("{base}{out}{args}, {star}Tensor(a!) out) -> Tensor(a!)"),
                        structured: vec![name.to_string()],
                        // of `pow.Scalar` the form in place is another operator's
                        serves_in_place: rest.starts_with("(Tensor self"),
                        out_dtype: self.out_dtype.clone(),
                        out_strides: self.out_strides.clone(),
                        out_overlap: self.out_overlap.clone(),
                        out_checked: self.out_checked.clone(),
                        tags: tags("out"),
                        tolerance: self.tolerance.clone(),
                        ..Entry::default()
                    }
                }
                other => return Err(format!("`{other}` is no variant: `inplace` and `out` are")),
            });
        }
        for alias in &self.aliases {
            let kernel = format!("aten::{}", function(name));
            all.push(Entry {
                func: format!("{alias}{rest}"),
                dispatch: [("CompositeImplicitAutograd".to_string(), kernel)].into(),
                tolerance: self.tolerance.clone(),
                ..Entry::default()
            });
        }
        Ok(all)
    }
}

/// A name or a schema with its namespace: that of the files is `aten`.
pub(crate) fn qualified(name: &str) -> String {
    let head = name.split('(').next().unwrap_or_default();
    match head.contains("::") {
        true => name.to_string(),
        false => format!("aten::{name}"),
    }
}

/// The files of a folder and of those in it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

/// The files of a folder that are read as entries, and those of derivatives, in the order of their
/// names.
pub(crate) fn files(folder: &str) -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
    let mut files = Vec::new();
    collect(Path::new(folder), &mut files).map_err(|e| format!("{folder}: {e}"))?;
    files.sort();
    Ok(files.into_iter().partition(|f| !derivative::is_file(f)))
}

/// All entries, file by file. An entry with `variant_of` gives way where the functional variant is
/// declared nowhere, and where another entry declares the operator itself.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Placed>, String> {
    let mut all = Vec::new();
    for path in files {
        let file = path.to_str().ok_or("a file name that is not UTF-8")?;
        let text = std::fs::read_to_string(path).map_err(|e| format!("{file}: {e}"))?;
        let entries: Vec<Entry> =
            yaml_serde::from_str(&text).map_err(|e| format!("{file}: {e}"))?;
        for mut entry in entries {
            if entry.composite.is_some() && entry.dispatch.is_empty() {
                let implicit = "CompositeImplicitAutograd".to_string();
                entry.dispatch.insert(implicit, "composite".to_string());
            }
            let line = (text.lines())
                .position(|l| l.strip_prefix("- func: ") == Some(entry.func.as_str()))
                .map_or(0, |i| i + 1);
            let file = format!("catalog/{file}");
            let at = |e| format!("{file}:{line}: in `{}`: {e}", entry.func);
            let derived = entry.derived().map_err(at)?;
            entry.variants.clear();
            for entry in std::iter::once(entry).chain(derived) {
                let file = file.clone();
                all.push(Placed { file, line, entry });
            }
        }
    }
    // an `out` serves the form in place too, whichever entry declares that
    let declared: BTreeSet<String> =
        (all.iter()).filter(|p| p.entry.declares()).map(|p| p.entry.name()).collect();
    for p in &mut all {
        if let [functional] = &p.entry.structured[..] {
            let (base, overload) = split(functional);
            let in_place = format!("{base}_{overload}");
            if p.entry.serves_in_place && declared.contains(&qualified(&in_place)) {
                p.entry.structured.push(in_place);
            }
        }
    }
    let by_hand: BTreeSet<String> = (all.iter())
        .filter(|p| p.entry.declares() && p.entry.variant_of.is_none())
        .map(|p| p.entry.name())
        .collect();
    all.retain(|p| match &p.entry.variant_of {
        Some(of) => by_hand.contains(&qualified(of)) && !by_hand.contains(&p.entry.name()),
        None => true,
    });
    Ok(all)
}
