//! The two files of a model.

use super::graph::Graph;
use super::trouble::Trouble;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;
use straightline::nn::StateDict;
use straightline::{DType, Tensor, load_safetensors};

/// A model as it was recorded: `NAME.json` and `NAME.safetensors`.
pub(crate) struct Model {
    pub(super) name: String,
    pub(super) tensors: StateDict,
    rtol: f64,
    atol: f64,
    pub(super) train: Json,
    pub(super) graphs: BTreeMap<String, Graph>,
}

impl Model {
    /// Reads a model: `path` is that of its JSON.
    pub(crate) fn open(path: &Path) -> Result<Model, Trouble> {
        let text = std::fs::read(path)
            .map_err(|source| Trouble::File { path: path.to_owned(), source })?;
        let json: Json = serde_json::from_slice(&text)
            .map_err(|source| Trouble::Json { path: path.to_owned(), source })?;
        let beside = path.with_extension("safetensors");
        let tensors = load_safetensors(&beside)
            .map_err(|source| Trouble::Tensors { path: beside, source })?;
        let missing = |key: &str| Trouble::Missing(key.to_owned());
        let name = json["name"].as_str().ok_or_else(|| missing("name"))?.to_owned();
        let tol =
            |key: &str| json["tol"][key].as_f64().ok_or_else(|| missing(&format!("tol.{key}")));
        let graphs = json["graphs"].as_object().ok_or_else(|| missing("graphs"))?;
        let graphs = graphs.iter().map(|(name, g)| Ok((name.clone(), Graph::read(g, name)?)));
        Ok(Model {
            name,
            tensors,
            rtol: tol("rtol")?,
            atol: tol("atol")?,
            train: json["train"].clone(),
            graphs: graphs.collect::<Result<_, Trouble>>()?,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How far apart numbers of this size may be.
    pub(super) fn allowed(&self, size: f64) -> f64 {
        self.atol + self.rtol * size.abs()
    }

    pub(super) fn tensor(&self, key: &str) -> Result<&Tensor, Trouble> {
        self.tensors.get(key).ok_or_else(|| Trouble::Missing(key.to_owned()))
    }

    /// That a tensor is the recorded one; how far it is off its largest element.
    pub(super) fn compare(&self, key: &str, found: &Tensor) -> Result<f64, Trouble> {
        self.near(key, found, |x| self.allowed(x))
    }

    /// The same with other bounds, of the sizes of elements.
    pub(super) fn near(
        &self,
        key: &str,
        found: &Tensor,
        allowed: impl Fn(f64) -> f64,
    ) -> Result<f64, Trouble> {
        let expected = self.tensor(key)?;
        close(key, found, expected, |_, x| allowed(x))
    }
}

pub(super) fn numbers(t: &Tensor) -> Result<Vec<f64>, Trouble> {
    Ok(t.detach()?.to_dtype(DType::F64)?.flatten()?.to_vec::<f64>()?)
}

/// That no element is further off than `allowed` says of its place and of what is expected; how
/// far the worst one is off, as a part of the largest one that is expected.
pub(super) fn close(
    at: &str,
    found: &Tensor,
    expected: &Tensor,
    allowed: impl Fn(usize, f64) -> f64,
) -> Result<f64, Trouble> {
    let differs = |what: String| Trouble::Differs { at: at.to_owned(), what };
    if found.dtype() != expected.dtype() || found.sizes() != expected.sizes() {
        return Err(differs(format!(
            "{} {:?}, PyTorch has {} {:?}",
            found.dtype(),
            found.sizes(),
            expected.dtype(),
            expected.sizes()
        )));
    }
    let (found, expected) = (numbers(found)?, numbers(expected)?);
    let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0, |a: f64, b| a.max(b.abs()));
    let mut worst: f64 = 0.0;
    for (i, (x, y)) in found.iter().zip(&expected).enumerate() {
        if x == y || (x.is_nan() && y.is_nan()) {
            continue;
        }
        let off = (x - y).abs();
        // a NaN is not near anything
        if off.is_nan() || off > allowed(i, *y) {
            return Err(differs(format!(
                "element {i} of {} is {x}, PyTorch has {y}: off by {off:.2e}, the largest is {largest:.2e}",
                found.len()
            )));
        }
        worst = worst.max(off);
    }
    // where all is rounding, its parts say nothing
    Ok(if largest > 1e-4 { worst / largest } else { 0.0 })
}
