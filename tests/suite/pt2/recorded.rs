//! An archive with runs that PyTorch has recorded: `NAME.pt2`, `NAME.safetensors`, `NAME.json`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use straightline::program::{Leaf, Program};
use straightline::{CompileOptions, DType, Tensor, load_safetensors, pt2};

#[derive(Deserialize)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    tol: Tolerance,
    half_tol: Option<Tolerance>,
    cases: Vec<Case>,
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Deserialize, Clone, Copy)]
struct Tolerance {
    rtol: f64,
    atol: f64,
}

#[derive(Deserialize)]
struct Case {
    inputs: Vec<RecordedLeaf>,
    outputs: Vec<RecordedLeaf>,
    #[serde(default)]
    inputs_after: BTreeMap<usize, String>,
    #[serde(default)]
    buffers_after: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RecordedLeaf {
    key: Option<String>,
    value: Option<serde_json::Value>,
}

/// How an archive is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Eager,
    Compiled,
}

/// The archives of a folder, by the paths of their JSON files.
pub(crate) fn archives_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

impl Recorded {
    pub(crate) fn open(path: &Path) -> Result<Recorded, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let recorded: Recorded = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Recorded { folder, ..recorded })
    }

    pub(crate) fn load(&self) -> Result<Program, String> {
        pt2::load(self.folder.join(format!("{}.pt2", self.name))).map_err(|e| e.to_string())
    }

    /// Runs all cases, one after the other on one program; compiled each twice on programs of their
    /// own, the second time by replay. Returns the largest difference.
    pub(crate) fn run(&self, way: Way) -> Result<f64, String> {
        let tensors = self.folder.join(format!("{}.safetensors", self.name));
        let tensors = match tensors.exists() {
            true => load_safetensors(tensors).map_err(|e| e.to_string())?,
            false => BTreeMap::new(),
        };
        let rounds = if way == Way::Compiled { 2 } else { 1 };
        let program = self.load()?;
        let compiled = program.compile(CompileOptions::default());
        let start: Vec<Tensor> = (program.weights().iter())
            .map(|w| w.tensor.copied())
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        let mut worst = 0f64;
        for round in 0..rounds {
            for (weight, first) in program.weights().iter().zip(&start) {
                // buffers as they were; what is read only has not changed
                if round > 0 && weight.tensor.copy_(first).is_err() {
                    self.compare("a weight", &weight.tensor, first)?;
                }
            }
            for (number, case) in self.cases.iter().enumerate() {
                let off = self.run_case(case, &tensors, &program, |inputs| match way {
                    Way::Eager => program.run(inputs),
                    Way::Compiled => compiled.call(inputs),
                });
                worst = worst.max(off.map_err(|e| format!("case {number}, round {round}: {e}"))?);
            }
        }
        if way == Way::Compiled {
            let eager: Vec<String> = compiled
                .events()
                .iter()
                .map(ToString::to_string)
                .filter(|e| e.contains("eager"))
                .collect();
            if !eager.is_empty() {
                return Err(format!("it ran eagerly: {}", eager.join("; ")));
            }
        }
        Ok(worst)
    }

    fn run_case(
        &self,
        case: &Case,
        tensors: &BTreeMap<String, Tensor>,
        program: &Program,
        call: impl FnOnce(&Vec<Leaf>) -> straightline::Result<Vec<Leaf>>,
    ) -> Result<f64, String> {
        let tensor =
            |key: &str| tensors.get(key).ok_or_else(|| format!("there is no tensor {key}"));
        let inputs = case.inputs.iter().map(|leaf| match (&leaf.key, &leaf.value) {
            (Some(key), _) => {
                tensor(key).and_then(|t| t.copied().map(Leaf::from).map_err(|e| e.to_string()))
            }
            (None, Some(value)) => Ok(constant(value)),
            (None, None) => Ok(Leaf::None),
        });
        let mut inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        // None and constants without a value of their own are not among the program's inputs
        if inputs.len() > program.inputs().len() {
            inputs.retain(|leaf| !matches!(leaf, Leaf::None));
        }
        let outputs = call(&inputs).map_err(|e| e.to_string())?;
        if outputs.len() != case.outputs.len() {
            return Err(format!(
                "{} results, and {} are expected",
                outputs.len(),
                case.outputs.len()
            ));
        }
        let mut worst = 0f64;
        for (at, (output, expected)) in outputs.iter().zip(&case.outputs).enumerate() {
            let what = format!("result {at}");
            match (output, &expected.key) {
                (Leaf::Tensor(t), Some(key)) => {
                    worst = worst.max(self.compare(&what, t, tensor(key)?)?);
                }
                (constant, None) => {
                    let expected = expected.value.as_ref().map_or(Leaf::None, self::constant);
                    if constant.to_string() != expected.to_string() {
                        return Err(format!("{what} is {constant}, and {expected} is expected"));
                    }
                }
                (other, Some(_)) => return Err(format!("{what} is {other} and no tensor")),
            }
        }
        for (at, key) in &case.inputs_after {
            let t = inputs[*at].tensor().map_err(|e| e.to_string())?;
            worst = worst.max(self.compare(&format!("input {at} afterwards"), t, tensor(key)?)?);
        }
        for (name, key) in &case.buffers_after {
            let weight =
                program.weight(name).ok_or_else(|| format!("there is no buffer {name}"))?;
            let what = format!("buffer {name} afterwards");
            worst = worst.max(self.compare(&what, &weight.tensor, tensor(key)?)?);
        }
        Ok(worst)
    }

    /// The largest difference of two tensors.
    fn compare(&self, what: &str, got: &Tensor, expected: &Tensor) -> Result<f64, String> {
        if (got.dtype(), got.sizes()) != (expected.dtype(), expected.sizes()) {
            return Err(format!(
                "{what} is {}{:?}, and {}{:?} is expected",
                got.dtype(),
                got.sizes(),
                expected.dtype(),
                expected.sizes()
            ));
        }
        let numbers = |t: &Tensor| {
            let t = match t.dtype() {
                DType::C64 => straightline::ops::aten::view_as_real(t)?,
                _ => t.clone(),
            };
            t.to_dtype(DType::F64)?.flatten()?.to_vec::<f64>()
        };
        let exact = !got.dtype().is_floating() && got.dtype() != DType::C64;
        let half = matches!(got.dtype(), DType::F16 | DType::BF16);
        let tol = if half { self.half_tol.unwrap_or(self.tol) } else { self.tol };
        let (got, expected) = (
            numbers(got).map_err(|e| e.to_string())?,
            numbers(expected).map_err(|e| e.to_string())?,
        );
        let mut worst = 0f64;
        for (at, (g, e)) in got.iter().zip(&expected).enumerate() {
            if g == e || g.is_nan() && e.is_nan() {
                continue;
            }
            let off = (g - e).abs();
            if exact || off.is_nan() || off > tol.atol + tol.rtol * e.abs() {
                return Err(format!("{what}: element {at} is {g}, and {e} is expected"));
            }
            worst = worst.max(off);
        }
        Ok(worst)
    }
}

fn constant(value: &serde_json::Value) -> Leaf {
    match value {
        serde_json::Value::Null => Leaf::None,
        serde_json::Value::Bool(b) => Leaf::Bool(*b),
        serde_json::Value::Number(n) => match n.as_i64() {
            Some(n) => Leaf::Int(n),
            None => Leaf::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        other => Leaf::Str(other.as_str().unwrap_or_default().to_owned()),
    }
}
