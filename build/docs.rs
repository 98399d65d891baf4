//! The text of documentation.

use crate::op::Declared;

/// What an example may name of the crate without a `use` of its own.
const IMPORTED: [&str; 8] =
    ["DType", "Device", "Generator", "QScheme", "Reduction", "Scalar", "Tensor", "tensor"];

impl Declared<'_> {
    /// What the wrapper's documentation says.
    pub(crate) fn docs(&self) -> String {
        let mut parts: Vec<String> = self.entry.doc.iter().map(|d| d.to_string()).collect();
        parts.push(format!("`{}`", self.schema));
        match self.entry.op.composite().map(|c| c.text) {
            None => {}
            Some(text) if text.contains('\n') => {
                parts.push(format!("Defined as\n\n```text\n{text}\n```"));
            }
            Some(text) => parts.push(format!("Defined as `{text}`.")),
        }
        let tags = self.entry.op.info().tags;
        if !tags.is_empty() {
            parts.push(format!("Tags: {}.", tags.join(", ")));
        }
        let methods = self.entry.methods.iter();
        let names = methods.filter_map(|m| m.call.split(['(', '[']).next());
        let links: Vec<String> = names.map(|name| format!("[`Tensor::{name}`]")).collect();
        if !links.is_empty() {
            parts.push(format!("Called by {}.", links.join(", ")));
        }
        parts.join("\n\n")
    }
}

/// Lines of documentation.
pub(crate) fn comment(text: &str) -> String {
    text.lines().fold(String::new(), |out, line| out + format!("/// {line}").trim_end() + "\n")
}

/// An example as a test: with a `use` of what it names, and `?`.
pub(crate) fn doc_test(example: &str) -> String {
    let mut names = Vec::new();
    if !example.starts_with("use ") {
        names.extend(IMPORTED.into_iter().filter(|name| names_item(example, name)));
    }
    let uses = match &names[..] {
        [] => String::new(),
        [one] => format!("use straightline::{one};\n"),
        many => format!("use straightline::{{{}}};\n", many.join(", ")),
    };
    format!("{uses}{}\n# Ok::<(), straightline::Error>(())\n", example.trim_end())
}

/// Whether code names an item by itself: a type, or a function that it calls.
fn names_item(code: &str, item: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(item).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + item.len()..]);
        let function = item.starts_with(char::is_lowercase);
        !before.ends_with(|c| word(c) || c == ':' || c == '.')
            && !after.starts_with(word)
            && (!function || after.starts_with('('))
    })
}
