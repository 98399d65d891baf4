//! A run's two files, read.

use super::trouble::Trouble;
use super::words::Words;
use serde_json::{Map, Value};
use std::path::Path;
use straightline::nn::StateDict;
use straightline::{DType, Tensor, load_safetensors};

/// A run as it was recorded: `NAME.json` and `NAME.safetensors`.
pub(crate) struct Run {
    pub(super) name: String,
    facts: Map<String, Value>,
    tensors: StateDict,
}

/// The sums of a tensor that a run records.
pub(super) struct Statistics {
    pub(super) l2: f64,
    pub(super) first: Vec<f64>,
    pub(super) last: Vec<f64>,
}

/// A number, or the text of one.
pub(super) fn number(key: &str, value: &Value) -> Result<f64, Trouble> {
    let parsed = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    parsed.ok_or_else(|| Trouble::malformed(key, value, "a number"))
}

pub(super) fn numbers(key: &str, value: &Value) -> Result<Vec<f64>, Trouble> {
    let list = value.as_array().ok_or_else(|| Trouble::malformed(key, value, "a list"))?;
    list.iter().map(|v| number(key, v)).collect()
}

impl Statistics {
    fn read(key: &str, value: &Value) -> Result<Statistics, Trouble> {
        let part =
            |name: &str| value.get(name).ok_or_else(|| Trouble::Missing(format!("{key}.{name}")));
        Ok(Statistics {
            l2: number(key, part("l2")?)?,
            first: numbers(key, part("first")?)?,
            last: numbers(key, part("last")?)?,
        })
    }
}

impl Run {
    /// Reads a run: `path` is that of its JSON.
    pub(crate) fn open(path: &Path) -> Result<Run, Trouble> {
        let text = std::fs::read(path)
            .map_err(|source| Trouble::File { path: path.to_owned(), source })?;
        let facts: Map<String, Value> = serde_json::from_slice(&text)
            .map_err(|source| Trouble::Json { path: path.to_owned(), source })?;
        let beside = path.with_extension("safetensors");
        let tensors = load_safetensors(&beside)
            .map_err(|source| Trouble::Tensors { path: beside, source })?;
        let name = facts.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| Trouble::Missing("name".into()))?.to_owned();
        Ok(Run { name, facts, tensors })
    }

    /// What the run is called, which says what kind it is.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The run with other words for what it computes.
    #[cfg(test)]
    #[allow(dead_code, reason = "the tool shares this file, and has no tests of its own")]
    pub(crate) fn described(mut self, change: impl FnOnce(&str) -> String) -> Run {
        let text = self.facts.get("description").and_then(Value::as_str).map(change);
        self.facts.insert("description".into(), Value::from(text.unwrap_or_default()));
        self
    }

    /// The run with another fact of its optimiser.
    #[cfg(test)]
    #[allow(dead_code, reason = "the tool shares this file, and has no tests of its own")]
    pub(crate) fn with_setting(mut self, key: &str, value: impl Into<Value>) -> Run {
        self.facts["optimizer"][key] = value.into();
        self
    }

    /// The run with another first value of a parameter.
    #[cfg(test)]
    #[allow(dead_code, reason = "the tool shares this file, and has no tests of its own")]
    pub(crate) fn with_parameter(mut self, name: &str, value: Tensor) -> Run {
        self.tensors.insert(format!("init.{name}"), value);
        self
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.facts.contains_key(key)
    }

    pub(super) fn fact(&self, key: &str) -> Result<&Value, Trouble> {
        self.facts.get(key).ok_or_else(|| Trouble::Missing(key.into()))
    }

    pub(super) fn object(&self, key: &str) -> Result<&Map<String, Value>, Trouble> {
        let value = self.fact(key)?;
        value.as_object().ok_or_else(|| Trouble::malformed(key, value, "an object"))
    }

    pub(super) fn words(&self) -> Result<Words<'_>, Trouble> {
        let value = self.fact("description")?;
        let text = value.as_str();
        text.map(Words).ok_or_else(|| Trouble::malformed("description", value, "a text"))
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, Trouble> {
        numbers(key, self.fact(key)?)
    }

    pub(super) fn count(&self, key: &str) -> Result<usize, Trouble> {
        let value = self.fact(key)?;
        let count = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        count.ok_or_else(|| Trouble::malformed(key, value, "a count"))
    }

    /// The learning rate of each group at each step.
    pub(super) fn rates(&self) -> Result<Vec<Vec<f64>>, Trouble> {
        let value = self.fact("lr")?;
        let steps = value.as_array().ok_or_else(|| Trouble::malformed("lr", value, "a list"))?;
        let step = |groups: &Value| match groups {
            Value::Array(_) => numbers("lr", groups),
            one => number("lr", one).map(|lr| vec![lr]),
        };
        steps.iter().map(step).collect()
    }

    /// What is allowed: `tol.KEY`.
    pub(super) fn allowed(&self, key: &str) -> Result<f64, Trouble> {
        let value = self.object("tol")?.get(key);
        number(key, value.ok_or_else(|| Trouble::Missing(format!("tol.{key}")))?)
    }

    /// The statistics of each tensor of an object of them.
    pub(super) fn statistics(&self, key: &str) -> Result<Vec<(String, Statistics)>, Trouble> {
        let each = |(name, value): (&String, &Value)| {
            Ok((name.clone(), Statistics::read(&format!("{key}.{name}"), value)?))
        };
        self.object(key)?.iter().map(each).collect()
    }

    /// The statistics of each tensor of the optimiser's state: parameter, name, statistics.
    pub(super) fn state(&self) -> Result<Vec<(String, String, Statistics)>, Trouble> {
        let mut all = Vec::new();
        for (parameter, state) in self.object("optimizer_state_f32")? {
            let key = format!("optimizer_state_f32.{parameter}");
            let entries =
                state.as_object().ok_or_else(|| Trouble::malformed(&key, state, "an object"))?;
            for (name, value) in entries {
                let read = Statistics::read(&format!("{key}.{name}"), value)?;
                all.push((parameter.clone(), name.clone(), read));
            }
        }
        Ok(all)
    }

    pub(super) fn tensor(&self, key: &str) -> Result<&Tensor, Trouble> {
        self.tensors.get(key).ok_or_else(|| Trouble::Missing(key.into()))
    }

    /// The tensors whose names begin so, floating-point ones converted.
    pub(super) fn part(&self, prefix: &str, dtype: DType) -> Result<StateDict, Trouble> {
        let named = self.tensors.iter().filter_map(|(k, t)| Some((k.strip_prefix(prefix)?, t)));
        let convert = |(name, t): (&str, &Tensor)| {
            let t = if t.dtype().is_floating() { t.to_dtype(dtype)? } else { t.clone() };
            Ok((name.to_owned(), t))
        };
        named.map(convert).collect()
    }

    /// The sizes that a parameter begins with.
    pub(super) fn sizes(&self, parameter: &str) -> Result<&[i64], Trouble> {
        self.tensor(&format!("init.{parameter}")).map(|t| t.sizes())
    }

    pub(super) fn has_parameter(&self, name: &str) -> bool {
        self.tensors.contains_key(&format!("init.{name}"))
    }

    /// The names of parameters and buffers.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().filter_map(|k| k.strip_prefix("init."))
    }
}
