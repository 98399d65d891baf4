//! The results of a model's graphs.

use super::graph::Graph;
use super::model::Model;
use super::trouble::Trouble;
use super::{Way, compiled_only};
use straightline::autograd::no_grad;
use straightline::nn::StateDict;
use straightline::{Result, Tensor, compile};

impl Model {
    /// The graphs by name.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &str> {
        self.graphs.keys().map(String::as_str)
    }

    /// Runs a graph on copies of the recorded tensors, compiled twice, and compares; how far the
    /// worst result is off.
    pub(crate) fn run(&self, graph: &str, way: Way) -> std::result::Result<f64, Trouble> {
        let graph = self.graphs.get(graph).ok_or_else(|| Trouble::Missing(graph.to_owned()))?;
        if way == Way::Eager {
            let given = self.copies(graph)?;
            return self.outputs(graph, &no_grad(|| graph.run(&given))?);
        }
        let runs = graph.clone();
        let f = compile(move |given: &StateDict| calls(&runs, given));
        let mut worst: f64 = 0.0;
        for _ in 0..2 {
            let given = self.copies(graph)?;
            worst = worst.max(self.outputs(graph, &f.call(&given)?)?);
        }
        compiled_only(&f)?;
        Ok(worst)
    }

    /// Copies of the tensors that a graph reads.
    pub(super) fn copies(&self, graph: &Graph) -> std::result::Result<StateDict, Trouble> {
        graph.sources().map(|key| Ok((key.to_owned(), self.tensor(key)?.copied()?))).collect()
    }

    fn outputs(
        &self,
        graph: &Graph,
        found: &[Option<Tensor>],
    ) -> std::result::Result<f64, Trouble> {
        let mut worst: f64 = 0.0;
        for (output, found) in graph.outputs.iter().zip(found) {
            let Some(key) = &output.key else { continue };
            let found = found.as_ref().ok_or_else(|| Trouble::Missing(key.clone()))?;
            worst = worst.max(self.compare(key, found)?);
        }
        Ok(worst)
    }
}

/// A graph's calls where an error has to be one of the library's: of a graph that has been run
/// before, nothing else can be wrong.
pub(super) fn calls(graph: &Graph, given: &StateDict) -> Result<Vec<Option<Tensor>>> {
    graph.run(given).map_err(|e| match e {
        Trouble::Node { source, .. } | Trouble::Call(source) => source,
        other => straightline::Error::new(straightline::ErrorKind::Runtime(other.to_string())),
    })
}
