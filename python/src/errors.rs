//! Errors as exceptions of Python's.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};
use straightline::files::FileReason;
use straightline::{Error, ErrorKind};

/// The module that defines the exceptions: their classes have two parents, which only Python can say.
fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE
        .get_or_try_init(py, || PyModule::import(py, "straightline._errors").map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// The exception of an error: with `op`, `operands`, `source_line` and `kind`.
pub(crate) fn exception(py: Python<'_>, e: &Error) -> PyErr {
    raise(py, e).unwrap_or_else(|failed| failed)
}

fn raise(py: Python<'_>, e: &Error) -> PyResult<PyErr> {
    let class = match (e.kind(), e.python_class()) {
        (ErrorKind::Program(_), _) => "ProgramError",
        (ErrorKind::Archive(file), _) if is_missing(&file.reason) => "MissingFileError",
        (ErrorKind::Archive(_) | ErrorKind::File { .. }, _) => "FileError",
        (ErrorKind::ReadOnly { .. }, _) => "ReadOnlyError",
        (_, "IndexError") => "OpIndexError",
        (_, "ValueError") => "OpValueError",
        (_, "TypeError") => "OpTypeError",
        (_, "NotImplementedError") => "OpNotImplementedError",
        _ => "StraightlineError",
    };
    let kind = format!("{:?}", e.kind());
    let kind = kind.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
    let fields = PyDict::new(py);
    fields.set_item("op", e.op())?;
    let operands: Vec<String> = e.operands().iter().map(ToString::to_string).collect();
    fields.set_item("operands", operands)?;
    fields.set_item("source_line", e.source_line())?;
    fields.set_item("kind", kind)?;
    // the line of this package that made the call says nothing to anybody
    let text = match e.location() {
        Some(at) => e.to_string().replace(&format!(" (called at {at})"), ""),
        None => e.to_string(),
    };
    let made = module(py)?.getattr(class)?.call((text,), Some(&fields))?;
    Ok(PyErr::from_value(made))
}

fn is_missing(reason: &FileReason) -> bool {
    matches!(reason, FileReason::Io(e) if e.kind() == std::io::ErrorKind::NotFound)
}

/// A result as Python wants it.
pub(crate) trait OrRaise<T> {
    /// # Errors
    /// The exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for straightline::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|e| exception(py, &e))
    }
}
