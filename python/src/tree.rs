//! Nested arguments and results: PyTorch's `TreeSpec`, as it is written in a file.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde_json::Value as Json;

/// How deep trees nest.
const DEPTH: usize = 64;

/// A container, or a leaf.
#[derive(Debug, PartialEq)]
pub(crate) enum Tree {
    Leaf,
    Tuple(Vec<Tree>),
    List(Vec<Tree>),
    Dict(Vec<(String, Tree)>),
    /// A class that is not built here: a named tuple, a data class. Its name.
    Other(String, Vec<Tree>),
}

impl Tree {
    /// Reads `[1, {...}]`.
    ///
    /// # Errors
    /// Another version, or no tree.
    pub(crate) fn parse(text: &str) -> Result<Tree, String> {
        let json: Json =
            serde_json::from_str(text).map_err(|e| format!("no tree of arguments: {e}"))?;
        match json.as_array().map(Vec::as_slice) {
            Some([version, tree]) if version.as_i64() == Some(1) => Tree::of(tree, 0),
            _ => Err("a tree of arguments of another version".to_owned()),
        }
    }

    fn of(json: &Json, depth: usize) -> Result<Tree, String> {
        if depth > DEPTH {
            return Err("arguments nest too deep".to_owned());
        }
        let children = json.get("children_spec").and_then(Json::as_array);
        let children = children.map_or(&[][..], Vec::as_slice);
        let trees =
            || children.iter().map(|c| Tree::of(c, depth + 1)).collect::<Result<Vec<_>, _>>();
        let Some(ty) = json.get("type").and_then(Json::as_str) else {
            return Ok(Tree::Leaf);
        };
        // the keys are JSON within JSON
        let keys = || {
            let context = json.get("context").and_then(Json::as_str).unwrap_or("[]");
            let keys: Vec<Json> = serde_json::from_str(context).unwrap_or_default();
            keys.iter()
                .map(|k| k.as_str().map_or_else(|| k.to_string(), str::to_owned))
                .collect::<Vec<_>>()
        };
        Ok(match ty {
            "builtins.tuple" => Tree::Tuple(trees()?),
            "builtins.list" | "collections.deque" => Tree::List(trees()?),
            "builtins.dict" | "collections.OrderedDict" | "collections.defaultdict" => {
                let (keys, trees) = (keys(), trees()?);
                if keys.len() != trees.len() {
                    return Err(format!(
                        "{} keys for {} values of a dictionary",
                        keys.len(),
                        trees.len()
                    ));
                }
                Tree::Dict(keys.into_iter().zip(trees).collect())
            }
            other => Tree::Other(other.to_owned(), trees()?),
        })
    }

    /// Whether all of it can be built here.
    pub(crate) fn is_plain(&self) -> bool {
        match self {
            Tree::Leaf => true,
            Tree::Tuple(all) | Tree::List(all) => all.iter().all(Tree::is_plain),
            Tree::Dict(all) => all.iter().all(|(_, t)| t.is_plain()),
            Tree::Other(..) => false,
        }
    }

    /// The leaves of an object of this structure, in order.
    ///
    /// # Errors
    /// It has another one.
    pub(crate) fn flatten<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        place: &str,
        out: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let wrong = |expected: &str| {
            let ty = object.get_type().name().map(|n| n.to_string()).unwrap_or_default();
            Err(PyTypeError::new_err(format!(
                "{place} is {expected} in the exported model, and {ty} was given"
            )))
        };
        let each = |trees: &[Tree], items: Vec<Bound<'py, PyAny>>, out: &mut Vec<_>| {
            if trees.len() != items.len() {
                return Err(PyValueError::new_err(format!(
                    "{place} has {} elements in the exported model, and {} were given",
                    trees.len(),
                    items.len()
                )));
            }
            let pairs = trees.iter().zip(&items).enumerate();
            pairs
                .into_iter()
                .try_for_each(|(at, (t, item))| t.flatten(item, &format!("{place}[{at}]"), out))
        };
        match self {
            Tree::Leaf => {
                out.push(object.clone());
                Ok(())
            }
            Tree::Tuple(trees) => match object.cast::<PyTuple>() {
                Ok(items) => each(trees, items.iter().collect(), out),
                Err(_) => wrong("a tuple"),
            },
            Tree::List(trees) => match object.cast::<PyList>() {
                Ok(items) => each(trees, items.iter().collect(), out),
                Err(_) => wrong("a list"),
            },
            Tree::Dict(trees) => {
                let Ok(items) = object.cast::<PyDict>() else { return wrong("a dict") };
                if let Some(key) = items.keys().iter().find(|k| {
                    k.extract::<String>().is_ok_and(|k| !trees.iter().any(|(known, _)| *known == k))
                }) {
                    return Err(PyValueError::new_err(format!(
                        "{place} has no key {key} in the exported model"
                    )));
                }
                for (key, tree) in trees {
                    let Some(item) = items.get_item(key)? else {
                        return Err(PyValueError::new_err(format!("{place}[{key:?}] is missing")));
                    };
                    tree.flatten(&item, &format!("{place}[{key:?}]"), out)?;
                }
                Ok(())
            }
            // named tuples are tuples; of others the fields are not known here
            Tree::Other(name, trees) => match object.cast::<PyTuple>() {
                Ok(items) => each(trees, items.iter().collect(), out),
                Err(_) => wrong(&format!(
                    "of class {name}, which can not be taken apart here: pass a tuple of its fields"
                )),
            },
        }
    }

    /// An object of this structure. What can not be built here is a tuple.
    ///
    /// # Errors
    /// There are not enough leaves.
    pub(crate) fn build<'py>(
        &self,
        py: Python<'py>,
        leaves: &mut dyn Iterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Tree::Leaf => {
                leaves.next().ok_or_else(|| PyValueError::new_err("a result is missing"))?
            }
            Tree::Tuple(all) | Tree::Other(_, all) => {
                let items =
                    all.iter().map(|t| t.build(py, leaves)).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, items)?.into_any()
            }
            Tree::List(all) => {
                let items =
                    all.iter().map(|t| t.build(py, leaves)).collect::<PyResult<Vec<_>>>()?;
                PyList::new(py, items)?.into_any()
            }
            Tree::Dict(all) => {
                let dict = PyDict::new(py);
                for (key, tree) in all {
                    dict.set_item(key, tree.build(py, leaves)?)?;
                }
                dict.into_any()
            }
        })
    }
}
