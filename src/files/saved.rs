//! What a checkpoint holds: a tree of tensors and plain data.

use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A value that `torch.save` has written, read by [`load_checkpoint`](crate::load_checkpoint).
///
/// Python's `OrderedDict`, `defaultdict` and `Counter` are dicts, its `torch.Size` is a tuple, and
/// parameters are tensors that do not require gradients.
///
/// ```
/// use straightline::files::{Key, Saved};
/// use straightline::tensor;
/// let text = |t: &str| Key::Text(t.into());
/// let saved = Saved::Dict(vec![
///     (text("model"), Saved::Dict(vec![(text("layer.weight"), Saved::Tensor(tensor([1.0, 2.0])?))])),
///     (text("epoch"), Saved::Int(3)),
/// ]);
/// assert_eq!(saved.get("epoch").and_then(Saved::as_int), Some(3));
/// assert_eq!(saved.find("model.layer.weight").and_then(Saved::as_tensor).unwrap().sizes(), [2]);
/// let weights = saved.get("model").unwrap().state_dict()?;
/// assert_eq!(weights["layer.weight"].to_vec::<f32>()?, [1.0, 2.0]);
/// assert_eq!(saved.to_string(), "dict of 2\n  model: dict of 1\n    layer.weight: f32[2]\n  epoch: 3\n");
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Saved {
    /// A tensor.
    Tensor(Tensor),
    /// Values by keys, in the order in which they were set.
    Dict(Vec<(Key, Saved)>),
    /// A list.
    List(Vec<Saved>),
    /// A tuple.
    Tuple(Vec<Saved>),
    /// A set, in the order in which it was written.
    Set(Vec<Saved>),
    /// An integer, of which Python's may be larger than 64 bits.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A constant of PyTorch's: a dtype (`torch.float32`), a device (`cuda:0`), a memory format.
    Constant(Arc<str>),
    /// Nothing.
    None,
}

/// A key of a dict.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Key {
    /// A text.
    Text(Arc<str>),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// Python's `None`.
    None,
}

impl Key {
    /// Whether it is this text, or an integer that is written so.
    fn is(&self, name: &str) -> bool {
        match self {
            Key::Text(text) => **text == *name,
            Key::Int(number) => name.parse() == Ok(*number),
            Key::Bool(_) | Key::None => false,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Text(text) => f.write_str(text),
            Key::Int(number) => write!(f, "{number}"),
            Key::Bool(true) => f.write_str("True"),
            Key::Bool(false) => f.write_str("False"),
            Key::None => f.write_str("None"),
        }
    }
}

/// How long all names of a state dict may be together. Without a bound, a small file whose keys are
/// shared could ask for as much memory as it likes.
const NAMES: usize = 1 << 26;

impl Saved {
    /// The value of a dict's key, or of a place in a list or tuple (`"0"`).
    pub fn get(&self, key: &str) -> Option<&Saved> {
        match self {
            Saved::Dict(items) => items.iter().find(|(k, _)| k.is(key)).map(|(_, value)| value),
            Saved::List(values) | Saved::Tuple(values) => values.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// The value at a path of keys with dots between them, which may have dots themselves.
    pub fn find(&self, path: &str) -> Option<&Saved> {
        let below = |name: &str, value| {
            let rest = path.strip_prefix(name)?;
            match rest.strip_prefix('.') {
                Some(rest) => Saved::find(value, rest),
                None if rest.is_empty() => Some(value),
                None => None,
            }
        };
        match self {
            Saved::Dict(items) => items.iter().find_map(|(key, value)| match key {
                Key::Text(text) => below(text, value),
                other => below(&other.to_string(), value),
            }),
            Saved::List(_) | Saved::Tuple(_) => {
                let name = path.split('.').next().unwrap_or(path);
                below(name, self.get(name)?)
            }
            _ => None,
        }
    }

    /// The keys and values of a dict; nothing for others.
    pub fn items(&self) -> &[(Key, Saved)] {
        match self {
            Saved::Dict(items) => items,
            _ => &[],
        }
    }

    /// The values of a list, a tuple or a set; nothing for others.
    pub fn values(&self) -> &[Saved] {
        match self {
            Saved::List(values) | Saved::Tuple(values) | Saved::Set(values) => values,
            _ => &[],
        }
    }

    /// The tensor, if it is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Saved::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The integer, if it is one of 64 bits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Saved::Int(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Saved::Float(number) => Some(*number),
            Saved::Int(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Saved::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Saved::Text(text) => Some(text),
            _ => None,
        }
    }

    /// All tensors in it, by their paths: keys and places, with dots between them. What is no tensor
    /// is left out.
    ///
    /// # Errors
    /// The value is a tensor itself, and has no name; two tensors have one name, as in
    /// `{"a.b": x, "a": {"b": y}}`; names of more than 64 MiB.
    pub fn state_dict(&self) -> Result<BTreeMap<String, Tensor>> {
        ensure_value!(
            self.as_tensor().is_none(),
            "the file has one tensor without a name: read it with `load_checkpoint` and `as_tensor`"
        );
        let mut names = Names { found: BTreeMap::new(), left: NAMES };
        names.collect(self, &mut String::new())?;
        Ok(names.found)
    }

    fn outline(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        match self {
            Saved::Tensor(t) => {
                let bits = match (t.is_conj(), t.is_neg()) {
                    (false, false) => "",
                    (true, false) => " (conjugate)",
                    (false, true) => " (negative)",
                    (true, true) => " (conjugate, negative)",
                };
                writeln!(f, "{}{:?}{bits}", t.dtype(), t.sizes())
            }
            Saved::Dict(items) => {
                writeln!(f, "dict of {}", items.len())?;
                for (key, value) in items {
                    write!(f, "{:1$}{key}: ", "", 2 * depth + 2)?;
                    value.outline(f, depth + 1)?;
                }
                Ok(())
            }
            Saved::List(values) => Saved::listed(f, "list", values, depth),
            Saved::Tuple(values) => Saved::listed(f, "tuple", values, depth),
            Saved::Set(values) => Saved::listed(f, "set", values, depth),
            Saved::Int(number) => writeln!(f, "{number}"),
            Saved::Float(number) => writeln!(f, "{number:?}"),
            Saved::Bool(true) => writeln!(f, "True"),
            Saved::Bool(false) => writeln!(f, "False"),
            Saved::Text(text) => {
                let shown: String = text.chars().take(60).collect();
                let more = if shown.len() < text.len() { ".." } else { "" };
                writeln!(f, "{shown:?}{more}")
            }
            Saved::Bytes(bytes) => writeln!(f, "{} bytes", bytes.len()),
            Saved::Constant(name) => writeln!(f, "{name}"),
            Saved::None => writeln!(f, "None"),
        }
    }

    /// Short lists of numbers on one line, others with a line for each value.
    fn listed(
        f: &mut fmt::Formatter<'_>,
        what: &str,
        values: &[Saved],
        depth: usize,
    ) -> fmt::Result {
        write!(f, "{what} of {}", values.len())?;
        let short = |v: &Saved| match v {
            Saved::Int(number) => Some(number.to_string()),
            Saved::Float(number) => Some(format!("{number:?}")),
            _ => None,
        };
        let numbers: Option<Vec<String>> = match values.len() {
            1..=8 => values.iter().map(short).collect(),
            _ => None,
        };
        if let Some(numbers) = numbers {
            return writeln!(f, ": {}", numbers.join(", "));
        }
        writeln!(f)?;
        for (place, value) in values.iter().enumerate() {
            write!(f, "{:1$}{place}: ", "", 2 * depth + 2)?;
            value.outline(f, depth + 1)?;
        }
        Ok(())
    }
}

/// An indented outline: of tensors the dtypes and sizes, of others the values.
impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outline(f, 0)
    }
}

/// Tensors with their names.
struct Names {
    found: BTreeMap<String, Tensor>,
    /// How many bytes names may still have.
    left: usize,
}

impl Names {
    fn collect(&mut self, value: &Saved, path: &mut String) -> Result<()> {
        match value {
            Saved::Tensor(tensor) => {
                self.left = self.left.checked_sub(path.len()).ok_or_else(too_long)?;
                if self.found.insert(path.clone(), tensor.clone()).is_some() {
                    return Err(Error::value(format!(
                        "two tensors are called `{}`: take the part that you want with `get`",
                        path.escape_debug()
                    )));
                }
                Ok(())
            }
            Saved::Dict(items) => items.iter().try_for_each(|(key, value)| match key {
                Key::Text(text) => self.below(value, path, text),
                other => self.below(value, path, &other.to_string()),
            }),
            Saved::List(values) | Saved::Tuple(values) => (values.iter().enumerate())
                .try_for_each(|(place, value)| self.below(value, path, &place.to_string())),
            _ => Ok(()),
        }
    }

    fn below(&mut self, value: &Saved, path: &mut String, name: &str) -> Result<()> {
        // names are made for what may have tensors
        match value {
            Saved::Tensor(_) | Saved::Dict(_) | Saved::List(_) | Saved::Tuple(_) => {}
            _ => return Ok(()),
        }
        let before = path.len();
        self.left = self.left.checked_sub(name.len()).ok_or_else(too_long)?;
        if before > 0 {
            path.push('.');
        }
        path.push_str(name);
        let done = self.collect(value, path);
        path.truncate(before);
        done
    }
}

#[cold]
fn too_long() -> Error {
    Error::value(format!("the names of the tensors have more than {NAMES} bytes"))
}
