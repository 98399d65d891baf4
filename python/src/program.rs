//! Programs, and putting them together from `torch.fx` graphs.

use crate::arrays;
use crate::errors::OrRaise;
use crate::tensor::PyTensor;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use straightline::dispatch::Value;
use straightline::program::{
    GraphBuilder, InputKind, Program, ProgramBuilder, ProgramCall, ProgramGraph, Size, Term, Trees,
    ValueId, WeightKind,
};
use straightline::{DType, Layout, MemoryFormat, pt2};

/// A graph of operator calls with its weights.
#[pyclass(frozen, name = "Program", module = "straightline")]
pub(crate) struct PyProgram {
    pub(crate) program: Program,
}

#[pymethods]
impl PyProgram {
    /// Reads an exported program; the interpreter is released meanwhile.
    #[staticmethod]
    #[pyo3(signature = (path, model=None))]
    fn load(py: Python<'_>, path: PathBuf, model: Option<String>) -> PyResult<PyProgram> {
        let options = pt2::Options { model };
        let program = py.detach(|| pt2::load_with(&path, &options)).or_raise(py)?;
        Ok(PyProgram { program })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.program.name()
    }

    /// The names of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.program.inputs().iter().map(|i| i.name.clone()).collect()
    }

    /// The names of the results.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.program.outputs().iter().map(|o| o.name.clone()).collect()
    }

    /// The sizes that may differ from call to call: name, smallest, largest.
    #[getter]
    fn symbols(&self) -> Vec<(String, Option<i64>, Option<i64>)> {
        self.program.symbols().iter().map(|s| (s.name.clone(), s.min, s.max)).collect()
    }

    /// Parameters, buffers and constants by name.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for weight in self.program.weights() {
            all.set_item(
                &weight.name,
                Bound::new(py, PyTensor { tensor: weight.tensor.clone() })?,
            )?;
        }
        Ok(all)
    }

    /// How many operators and functions it calls.
    #[getter]
    fn calls(&self) -> usize {
        self.program.calls()
    }

    /// Whether it draws random numbers.
    #[getter]
    fn draws_random_numbers(&self) -> bool {
        self.program.draws_random_numbers()
    }

    /// Runs it call by call.
    #[pyo3(signature = (*args))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut library = None;
        let leaves =
            args.iter().map(|o| arrays::leaf(&o, &mut library)).collect::<PyResult<Vec<_>>>()?;
        let results = py.detach(|| self.program.run(&leaves)).or_raise(py)?;
        let library = library.unwrap_or_default();
        let objects = results.into_iter().map(|leaf| library.object(py, leaf));
        PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
    }

    fn __str__(&self) -> String {
        self.program.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<straightline.Program {}: {} calls>", self.program.name(), self.program.calls())
    }
}

/// A value of a graph that is being built.
#[pyclass(frozen, name = "Ref", module = "straightline._native")]
pub(crate) struct PyRef(ValueId);

/// A finished graph, for calls of higher order.
#[pyclass(frozen, name = "Subgraph", module = "straightline._native")]
pub(crate) struct PyGraph(ProgramGraph);

enum Building {
    Program(Box<ProgramBuilder>),
    Graph(Box<GraphBuilder>),
    Done,
}

/// Builds a program, or a graph that a call is given.
#[pyclass(frozen, name = "Builder", module = "straightline._native")]
pub(crate) struct PyBuilder(Mutex<Building>);

impl PyBuilder {
    fn with<R>(&self, f: impl FnOnce(&mut Building) -> PyResult<R>) -> PyResult<R> {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn done<R>() -> PyResult<R> {
    Err(PyValueError::new_err("the graph is finished, or of the other kind"))
}

#[pymethods]
impl PyBuilder {
    /// Builder(name) for a program, Builder(None) for a graph that a call is given.
    #[new]
    #[pyo3(signature = (name))]
    fn new(name: Option<String>) -> PyBuilder {
        PyBuilder(Mutex::new(match name {
            Some(name) => Building::Program(Box::new(ProgramBuilder::new(name))),
            None => Building::Graph(Box::default()),
        }))
    }

    /// An input; of a tensor, if it is to be checked at calls, dtype and sizes: numbers, symbols by their
    /// numbers in a list of one, or None for a size that is not compared. Or a constant.
    #[pyo3(signature = (name, dtype=None, sizes=None, constant=None))]
    fn input(
        &self,
        name: &str,
        dtype: Option<&str>,
        sizes: Option<Vec<Bound<'_, PyAny>>>,
        constant: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyRef> {
        let kind = match (dtype, sizes, constant) {
            (Some(dtype), Some(sizes), _) => InputKind::Tensor {
                dtype: dtype_named(dtype)
                    .ok_or_else(|| PyTypeError::new_err(format!("there is no dtype {dtype}")))?,
                sizes: sizes.iter().map(size).collect::<PyResult<_>>()?,
            },
            (_, _, Some(constant)) => InputKind::Constant(arrays::leaf(constant, &mut None)?),
            _ => InputKind::Any,
        };
        self.with(|b| match b {
            Building::Program(p) => Ok(PyRef(p.input(name, kind))),
            Building::Graph(g) => Ok(PyRef(g.input(name))),
            Building::Done => done(),
        })
    }

    /// A size that may differ from call to call; its number.
    #[pyo3(signature = (name, min=None, max=None))]
    fn symbol(&self, name: &str, min: Option<i64>, max: Option<i64>) -> PyResult<usize> {
        self.with(|b| match b {
            Building::Program(p) => Ok(p.symbol(name, min, max)),
            _ => done(),
        })
    }

    /// How arguments and results nest: PyTorch's tree specifications as JSON, and names.
    fn trees(&self, inputs: String, outputs: String, names: Vec<String>) -> PyResult<()> {
        self.with(|b| match b {
            Building::Program(p) => {
                p.trees(Trees { inputs, outputs, names });
                Ok(())
            }
            _ => done(),
        })
    }

    /// A tensor of the program's own, over the memory of the array.
    #[pyo3(signature = (name, array, parameter=false))]
    fn weight(&self, name: &str, array: &Bound<'_, PyAny>, parameter: bool) -> PyResult<PyRef> {
        let tensor = arrays::tensor(array, &mut None)?;
        let kind = if parameter { WeightKind::Parameter } else { WeightKind::Constant };
        self.with(|b| match b {
            Building::Program(p) => Ok(PyRef(p.weight(name, kind, tensor))),
            _ => done(),
        })
    }

    #[pyo3(signature = (name, target, args, kwargs, line=None, is_tuple=false))]
    #[allow(clippy::too_many_arguments, reason = "what a node has")]
    fn call(
        &self,
        py: Python<'_>,
        name: &str,
        target: &str,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
        line: Option<&str>,
        is_tuple: bool,
    ) -> PyResult<PyRef> {
        let args = args.iter().map(|a| term(&a)).collect::<PyResult<Vec<_>>>()?;
        let kwargs = kwargs.iter().map(|(k, v)| Ok((k.extract()?, term(&v)?)));
        let kwargs = kwargs.collect::<PyResult<Vec<_>>>()?;
        let call = ProgramCall { name, target, line, args, kwargs, is_tuple };
        self.with(|b| match b {
            Building::Program(p) => p.call(call).or_raise(py).map(PyRef),
            Building::Graph(g) => g.call(call).or_raise(py).map(PyRef),
            Building::Done => done(),
        })
    }

    /// The program, with what it returns.
    fn finish(&self, py: Python<'_>, outputs: &Bound<'_, PyAny>) -> PyResult<PyProgram> {
        let outputs = terms(outputs)?;
        self.with(|b| match std::mem::replace(b, Building::Done) {
            Building::Program(p) => {
                p.finish(outputs).or_raise(py).map(|program| PyProgram { program })
            }
            _ => done(),
        })
    }

    /// The graph, with what it returns.
    fn finish_graph(&self, py: Python<'_>, outputs: &Bound<'_, PyAny>) -> PyResult<PyGraph> {
        let outputs = terms(outputs)?;
        self.with(|b| match std::mem::replace(b, Building::Done) {
            Building::Graph(g) => g.finish(outputs).or_raise(py).map(PyGraph),
            _ => done(),
        })
    }
}

/// The dtype that PyTorch has under this name.
fn dtype_named(name: &str) -> Option<DType> {
    DType::ALL.into_iter().chain(DType::COMPLEX).find(|d| d.torch_name() == name)
}

/// A size of an input: a number, a list of a symbol's number, `("+", size, ...)`, `("*", size, ...)`, or
/// None.
fn size(object: &Bound<'_, PyAny>) -> PyResult<Size> {
    if let Ok(expression) = object.cast::<PyTuple>() {
        let of = expression.iter().skip(1).map(|part| size(&part)).collect::<PyResult<_>>()?;
        return Ok(match expression.get_item(0)?.extract::<String>()?.as_str() {
            "+" => Size::Sum(of),
            _ => Size::Product(of),
        });
    }
    if object.is_none() {
        return Ok(Size::Other("any size".to_owned()));
    }
    match object.cast::<PyList>() {
        Ok(symbol) => symbol.get_item(0)?.extract().map(Size::Symbol),
        Err(_) => object.extract().map(Size::Fixed),
    }
}

fn terms(list: &Bound<'_, PyAny>) -> PyResult<Vec<Term>> {
    list.try_iter()?.map(|item| term(&item?)).collect()
}

/// An argument of a node.
fn term(object: &Bound<'_, PyAny>) -> PyResult<Term> {
    if let Ok(value) = object.cast::<PyRef>() {
        return Ok(Term::Of(value.get().0));
    }
    if let Ok(graph) = object.cast::<PyGraph>() {
        return Ok(Term::Graph(graph.get().0.clone()));
    }
    if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
        return terms(object).map(Term::List);
    }
    value(object).map(Term::Constant)
}

fn value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::None);
    }
    if let Ok(b) = object.cast::<PyBool>() {
        return Ok(Value::Bool(b.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return object.extract().map(Value::Int);
    }
    if object.is_instance_of::<PyFloat>() {
        return object.extract().map(Value::Double);
    }
    if let Ok(c) = object.cast::<PyComplex>() {
        return Ok(Value::Complex(c.real(), c.imag()));
    }
    if object.is_instance_of::<PyString>() {
        return object.extract().map(Value::String);
    }
    // torch.float32, torch.strided, torch.contiguous_format, device('cpu')
    let class = object.get_type().name()?.to_string();
    let text = object.str()?.to_string();
    let name = text.strip_prefix("torch.").unwrap_or(&text);
    let found = match class.as_str() {
        "dtype" => dtype_named(name).map(Value::DType),
        "layout" => match name {
            "strided" => Some(Value::Layout(Layout::Strided)),
            _ => None,
        },
        "memory_format" => match name {
            "contiguous_format" => Some(Value::MemoryFormat(MemoryFormat::Contiguous)),
            "preserve_format" => Some(Value::MemoryFormat(MemoryFormat::Preserve)),
            "channels_last" => Some(Value::MemoryFormat(MemoryFormat::ChannelsLast)),
            "channels_last_3d" => Some(Value::MemoryFormat(MemoryFormat::ChannelsLast3d)),
            _ => None,
        },
        "device" => name.parse().ok().map(Value::Device),
        _ => None,
    };
    found.ok_or_else(|| {
        PyTypeError::new_err(format!("an argument {text} of class {class} is not supported"))
    })
}
