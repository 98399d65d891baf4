//! Rows that were measured before: what `bench --json` and `benches/peers/run` write, read again.

use crate::error::{CliError, Result};
use serde::Deserialize;
use std::path::Path;

/// A measurement; the others of its fields are not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Measured {
    pub(super) framework: String,
    #[serde(default)]
    pub(super) version: String,
    pub(super) mode: String,
    /// Of rows of `benches/peers/run`: what `STRAIGHTLINE_ISA` was.
    #[serde(default)]
    pub(super) isa: String,
    pub(super) workload: String,
    pub(super) threads: usize,
    pub(super) median_us: Option<f64>,
    pub(super) compile_ms: Option<f64>,
    /// The median of each round; in round i everybody was measured in turn.
    #[serde(default)]
    pub(super) rounds: Vec<f64>,
    /// Of a peer: whether it computes what we compute.
    pub(super) agrees: Option<bool>,
}

impl Measured {
    pub(super) fn is_ours(&self) -> bool {
        self.framework == "straightline"
    }

    /// A median that can be divided by.
    pub(super) fn us(&self) -> Option<f64> {
        self.median_us.filter(|us| *us > 0.0)
    }

    /// The name for readers.
    pub(super) fn who(&self) -> &str {
        match (self.framework.as_str(), self.mode.as_str()) {
            ("straightline", mode) => mode,
            ("torch", "eager") => "PyTorch",
            ("torch", _) => "torch.compile",
            ("jax", _) => "JAX",
            (framework, _) => framework,
        }
    }

    /// The framework's name and version.
    pub(super) fn release(&self) -> String {
        let name = match self.framework.as_str() {
            "torch" => "PyTorch",
            "jax" => "JAX",
            other => other,
        };
        format!("{name} {}", self.version)
    }
}

/// Gigabytes a second, read and written together.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Bandwidth {
    pub(super) l1: f64,
    pub(super) l2: f64,
    pub(super) l3: f64,
    pub(super) dram: f64,
}

/// Where the rows of an instruction set were measured.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Machine {
    pub(super) isa: String,
    pub(super) threads: usize,
    pub(super) date: String,
    pub(super) cpu: String,
    pub(super) cpus: usize,
    pub(super) load: f64,
    /// Bytes of the data caches.
    pub(super) caches: [u64; 3],
    pub(super) rounds: usize,
    pub(super) quick: bool,
    /// Fused multiply-adds, each two operations.
    pub(super) gflops: Option<f64>,
    pub(super) gbs: Option<Bandwidth>,
}

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) machines: Vec<Machine>,
    pub(super) rows: Vec<Measured>,
}

/// The file, for an error that names it.
pub(super) fn from_file<T>(
    path: &Path,
    use_it: impl FnOnce(&Results) -> Result<T, String>,
) -> Result<T> {
    let wrong = |message: String| CliError::File { path: path.display().to_string(), message };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    parse(&text).and_then(|results| use_it(&results)).map_err(wrong)
}

pub(super) fn parse(text: &str) -> Result<Results, String> {
    let mut results = Results::default();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.is_empty()) {
        let at = |e: serde_json::Error| format!("line {}: {e}", i + 1);
        let value: serde_json::Value = serde_json::from_str(line).map_err(at)?;
        if value["framework"] == "machine" {
            results.machines.push(serde_json::from_value(value).map_err(at)?);
        } else {
            results.rows.push(serde_json::from_value(value).map_err(at)?);
        }
    }
    Ok(results)
}

/// The quickest peer that computes the same.
pub(super) fn best_peer<'a>(rows: &[&'a Measured]) -> Option<&'a Measured> {
    let peers = rows.iter().filter(|r| !r.is_ours() && r.agrees != Some(false) && r.us().is_some());
    peers.copied().min_by(|a, b| a.us().unwrap_or(0.0).total_cmp(&b.us().unwrap_or(0.0)))
}

/// The quicker of our two modes.
pub(super) fn best_ours<'a>(rows: &[&'a Measured]) -> Option<&'a Measured> {
    let ours = rows.iter().filter(|r| r.is_ours() && r.us().is_some());
    ours.copied().min_by(|a, b| a.us().unwrap_or(0.0).total_cmp(&b.us().unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(framework: &str, mode: &str, us: f64, agrees: Option<bool>) -> Measured {
        Measured {
            framework: framework.to_owned(),
            mode: mode.to_owned(),
            median_us: Some(us),
            agrees,
            ..Measured::default()
        }
    }

    #[test]
    fn the_machine_is_no_measurement() {
        let text = "{\"framework\":\"machine\",\"isa\":\"avx2\",\"threads\":1,\"date\":\"d\",\
                    \"cpu\":\"c\",\"cpus\":2,\"load\":0.5,\"caches\":[1,2,3],\"rounds\":5,\
                    \"quick\":true}\n\n{\"framework\":\"jax\",\"mode\":\"jit\",\"workload\":\"w\",\
                    \"threads\":1,\"median_us\":2.0,\"other\":[]}\n";
        let results = parse(text).unwrap();
        assert_eq!((results.machines.len(), results.rows.len()), (1, 1));
        assert!(results.machines[0].gflops.is_none());
        assert_eq!(results.rows[0].us(), Some(2.0));
        assert!(parse("{\"framework\":\"machine\"}").unwrap_err().starts_with("line 1: missing"));
        assert!(parse("\n{").unwrap_err().starts_with("line 2: "));
    }

    #[test]
    fn a_peer_with_other_results_is_not_the_best() {
        let rows = [
            row("straightline", "compiled", 3.0, None),
            row("straightline", "eager", 2.0, None),
            row("torch", "eager", 1.0, Some(false)),
            row("jax", "jit", 4.0, Some(true)),
        ];
        let rows: Vec<&Measured> = rows.iter().collect();
        assert_eq!(best_peer(&rows).map(Measured::who), Some("JAX"));
        assert_eq!(best_ours(&rows).map(Measured::who), Some("eager"));
    }
}
