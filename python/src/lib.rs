//! `straightline._native`: what the Python package is made of.
//!
//! | file | what |
//! |---|---|
//! | `exchange` | DLPack's table of C functions |
//! | `arrays` | objects of Python's as arguments, results as objects |
//! | `tensor` | `straightline.Tensor` |
//! | `tree` | nested arguments and results |
//! | `order` | the order of results' dimensions in memory |
//! | `program` | programs; building them from graphs |
//! | `call` | compiled programs as callables |
//! | `explain` | explanations |
//! | `errors` | errors as exceptions |
//!
//! The crate uses the public interface of `straightline` alone. Of the package's files `torch_backend.py`
//! and what it imports need PyTorch.
#![allow(missing_docs, reason = "Python's documentation is in `_native.pyi`")]

mod arrays;
mod call;
mod errors;
mod exchange;
mod explain;
mod order;
mod program;
mod tensor;
mod tree;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::call::{PyCompiled, PyCompiledGraph};
    #[pymodule_export]
    use crate::explain::PyExplanation;
    #[pymodule_export]
    use crate::program::{PyBuilder, PyGraph, PyProgram, PyRef};
    #[pymodule_export]
    use crate::tensor::PyTensor;

    /// The version of the package.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Seeds the random numbers of programs.
    #[pyfunction]
    fn manual_seed(seed: u64) {
        straightline::manual_seed(seed);
    }

    /// Raises a TypeError for options that there are not.
    #[pyfunction]
    #[pyo3(signature = (**options))]
    fn check_options(options: Option<&Bound<'_, pyo3::types::PyDict>>) -> PyResult<()> {
        crate::call::options(options).map(drop)
    }

    /// How many threads a call may use.
    #[pyfunction]
    fn num_threads() -> usize {
        straightline::num_threads()
    }

    /// Sets how many threads a call may use.
    #[pyfunction]
    fn set_num_threads(threads: usize) {
        straightline::set_num_threads(threads);
    }

    /// Whether an operator of this name is there.
    #[pyfunction]
    fn has_operator(name: &str) -> bool {
        straightline::dispatch::operator(name).is_ok()
    }
}
