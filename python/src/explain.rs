//! Explanations of how something was compiled.

use pyo3::prelude::*;
use straightline::compile::Explanation;

/// Why a compiled program is as it is.
#[pyclass(frozen, name = "Explanation", module = "straightline")]
pub(crate) struct PyExplanation {
    pub(crate) explanation: Explanation,
}

#[pymethods]
impl PyExplanation {
    /// How many variants there are.
    #[getter]
    fn variants(&self) -> usize {
        self.explanation.variants.len()
    }

    /// How many generated kernels and called ones each variant has.
    #[getter]
    fn steps(&self) -> Vec<(usize, usize)> {
        let one = |v: &straightline::compile::explain::VariantExplanation| {
            (v.kernels(), v.steps.len() - v.kernels())
        };
        self.explanation.variants.iter().map(one).collect()
    }

    /// The explanation as a page: guards, the graph with its kernels coloured, steps, rewrites, events.
    fn to_html(&self) -> String {
        self.explanation.to_html()
    }

    /// The same for a cell of a notebook.
    fn _repr_html_(&self) -> String {
        self.explanation.to_html_fragment()
    }

    fn __str__(&self) -> String {
        self.explanation.to_string()
    }

    fn __repr__(&self) -> String {
        self.explanation.to_string()
    }
}
