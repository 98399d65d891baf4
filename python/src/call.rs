//! Compiled programs as callables.

use crate::arrays::{self, Argument, Library};
use crate::errors::OrRaise;
use crate::order;
use crate::program::PyProgram;
use crate::tensor::PyTensor;
use crate::tree::Tree;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use straightline::compile::ExternalInput;
use straightline::program::{CompiledProgram, Leaf, Program};
use straightline::{CompileOptions, DynamicSizes};

/// From how many nanoseconds on a call releases the interpreter: taking it back costs, where others
/// want it.
const LONG: u64 = 5_000;

/// A compiled program, and what a call of it knows.
pub(crate) struct Core {
    pub(crate) compiled: CompiledProgram,
    /// For each result the argument that it is.
    returned: Vec<Option<usize>>,
    /// The arguments that a call writes.
    written: Vec<usize>,
    /// How long the last calls took.
    nanos: AtomicU64,
    progress: Option<Py<PyAny>>,
    /// The generator of PyTorch's that random numbers are drawn from, if they are.
    generator: Option<Py<PyAny>>,
    /// For each result the order of its dimensions, by falling strides, if it has to be dense in one.
    orders: Vec<Option<Vec<usize>>>,
}

/// Moves to a closure that runs without the interpreter.
struct Detached<T>(T);
// SAFETY: the closure runs on the same thread, and the objects whose memory it reads are held by the
// caller's references meanwhile.
unsafe impl<T> Send for Detached<T> {}

impl<T> Detached<T> {
    fn into_inner(self) -> T {
        self.0
    }
}

impl Core {
    pub(crate) fn new(
        program: &Program,
        options: CompileOptions,
        progress: Option<Py<PyAny>>,
    ) -> Core {
        Core {
            compiled: program.compile(options),
            returned: program.returned_inputs(),
            written: program.written_inputs().collect(),
            nanos: AtomicU64::new(u64::MAX),
            progress,
            generator: None,
            orders: Vec::new(),
        }
    }

    /// Random numbers are those of a generator of PyTorch's, where any are drawn.
    fn draw_from(&mut self, generator: Option<Py<PyAny>>) {
        self.generator = generator.filter(|_| self.compiled.program().draws_random_numbers());
    }

    /// Calls it, under the random numbers of a generator if it has one.
    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        objects: &[Bound<'py, PyAny>],
        library: Option<Library>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let Some(generator) = &self.generator else {
            return self.called(py, objects, library);
        };
        // one state for all: calls that draw follow each other
        static DRAWING: Mutex<()> = Mutex::new(());
        let _drawing = DRAWING.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let generator = generator.bind(py);
        let ours = straightline::Generator::default_cpu();
        let state = generator.call_method0("get_state")?;
        ours.set_state(&arrays::tensor(&state, &mut None)?).or_raise(py)?;
        let results = self.called(py, objects, library)?;
        let state = Bound::new(py, PyTensor { tensor: ours.state().or_raise(py)? })?;
        let state = py.import("torch")?.getattr("from_dlpack")?.call1((state,))?;
        generator.call_method1("set_state", (state,))?;
        Ok(results)
    }

    /// Calls it; the results become arrays of `library`, or of that of the first argument.
    fn called<'py>(
        &self,
        py: Python<'py>,
        objects: &[Bound<'py, PyAny>],
        library: Option<Library>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut found = library;
        let mut arguments: SmallVec<[Argument; 8]> = SmallVec::new();
        for (at, object) in objects.iter().enumerate() {
            arguments.push(match arrays::argument(object, &mut found) {
                Ok(argument) => argument,
                Err(e) => self.copied(at, object, &mut found).transpose().unwrap_or(Err(e))?,
            });
        }
        let mut strides: SmallVec<[SmallVec<[i64; 5]>; 8]> = SmallVec::new();
        strides.resize(arguments.len(), SmallVec::new());
        let mut inputs: SmallVec<[ExternalInput<'_, Leaf>; 8]> = SmallVec::new();
        for (argument, strides) in arguments.iter().zip(&mut strides) {
            inputs.push(match argument {
                Argument::Lent(lent) => ExternalInput::Memory(lent.raw(strides).or_raise(py)?),
                Argument::Leaf(leaf) => ExternalInput::Value(leaf.clone()),
            });
        }
        if !self.written.is_empty() {
            self.check_apart(&arguments, &inputs)?;
        }
        let variants = self.progress.as_ref().map(|_| self.compiled.variants());
        let began = Instant::now();
        // SAFETY: the caller holds references to the objects whose memory is read; Python's rules for
        // arrays say that nobody writes them meanwhile. What is written is apart from the others.
        let run = |inputs: SmallVec<_>| unsafe { self.compiled.call_external(inputs) };
        let results = match self.nanos.load(Ordering::Relaxed) < LONG {
            true => run(inputs),
            false => {
                let inputs = Detached(inputs);
                py.detach(|| Detached(run(inputs.into_inner()))).into_inner()
            }
        };
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let before = self.nanos.load(Ordering::Relaxed);
        // the first call compiles, and says nothing
        let now = if before == u64::MAX {
            u64::MAX - 1
        } else if before == u64::MAX - 1 {
            took
        } else {
            before / 2 + took / 2
        };
        self.nanos.store(now, Ordering::Relaxed);
        let results = results.or_raise(py)?;
        if let (Some(progress), Some(variants)) = (&self.progress, variants)
            && self.compiled.variants() > variants
        {
            let what = format!("compiled variant {}", self.compiled.variants());
            progress.call1(py, (what, took as f64 * 1e-9))?;
        }
        self.count_writes(objects, found)?;
        let library = found.unwrap_or_default();
        let mut same: SmallVec<[Option<&Bound<'py, PyAny>>; 8]> = SmallVec::new();
        let mut leaves = Vec::with_capacity(results.len());
        for (at, leaf) in results.into_iter().enumerate() {
            let returned = self.returned.get(at).copied().flatten();
            same.push(returned.and_then(|input| objects.get(input)));
            leaves.push(match (same[at], leaf, self.orders.get(at)) {
                (Some(_), ..) => Leaf::None,
                (None, Leaf::Tensor(t), Some(Some(order))) => {
                    Leaf::Tensor(order::ordered(t, order).or_raise(py)?)
                }
                (None, leaf, _) => leaf,
            });
        }
        let results = library.objects(py, leaves)?;
        let one = |(made, same): (_, Option<&Bound<'py, PyAny>>)| same.cloned().unwrap_or(made);
        Ok(results.into_iter().zip(same).map(one).collect())
    }

    /// An argument that could not be lent, as a copy, unless the program writes it.
    #[cold]
    fn copied(
        &self,
        at: usize,
        object: &Bound<'_, PyAny>,
        found: &mut Option<Library>,
    ) -> PyResult<Option<Argument>> {
        if self.written.contains(&at) {
            return Ok(None);
        }
        let copy = arrays::plain_copy(object)?;
        copy.map(|copy| arrays::argument(&copy, found)).transpose()
    }

    /// Arguments that are written have memory of their own, and share it with no others.
    fn check_apart(
        &self,
        arguments: &[Argument],
        inputs: &[ExternalInput<'_, Leaf>],
    ) -> PyResult<()> {
        let is_copy =
            |at: usize| matches!(arguments.get(at), Some(Argument::Lent(l)) if l.copy.is_some());
        if let Some(at) = self.written.iter().find(|at| is_copy(**at)) {
            return Err(PyValueError::new_err(format!(
                "argument {at} is lazily conjugated or negated, and the program writes it: pass a copy"
            )));
        }
        let range = |at: usize| match inputs.get(at) {
            Some(ExternalInput::Memory(raw)) => {
                let begin = raw.data.addr();
                Some(begin..begin.saturating_add(raw.bytes().unwrap_or(usize::MAX)))
            }
            _ => None,
        };
        for written in &self.written {
            let Some(theirs) = range(*written) else { continue };
            for other in (0..inputs.len()).filter(|at| at != written) {
                if range(other).is_some_and(|r| r.start < theirs.end && theirs.start < r.end) {
                    return Err(PyValueError::new_err(format!(
                        "arguments {written} and {other} share memory, and the program writes argument {written}: pass a copy"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Tells PyTorch that tensors have been written.
    fn count_writes(&self, objects: &[Bound<'_, PyAny>], library: Option<Library>) -> PyResult<()> {
        if self.written.is_empty() || !matches!(library, Some(Library::Exchange(_))) {
            return Ok(());
        }
        for object in self.written.iter().filter_map(|at| objects.get(*at)) {
            if !arrays::is_counted(object) {
                continue;
            }
            let torch = object.py().import("torch.autograd.graph")?;
            if let Some(increment) = torch.getattr_opt("increment_version")? {
                increment.call1((object,))?;
            }
        }
        Ok(())
    }
}

/// The value of an option.
fn option<'py, T: FromPyObjectOwned<'py>>(
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    what: &str,
) -> PyResult<T> {
    value.extract().map_err(|_| {
        let given = value.repr().map_or_else(|_| "another value".to_owned(), |r| r.to_string());
        PyTypeError::new_err(format!("the option `{key}` is a {what}, and got {given}"))
    })
}

/// Options, by the names that Python has for them.
pub(crate) fn options(kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<CompileOptions> {
    let mut options = CompileOptions::default();
    for (key, value) in kwargs.into_iter().flatten() {
        match key.extract::<String>()?.as_str() {
            "fast_math" => options.fast_math = option(&key, &value, "bool")?,
            "max_variants" => options.max_variants = option(&key, &value, "positive int")?,
            "max_sizes" => options.max_sizes = option(&key, &value, "positive int")?,
            "eager_fallback" => options.eager_fallback = option(&key, &value, "bool")?,
            "share_code" => {
                let share = option(&key, &value, "bool")?;
                options.dynamic = if share { DynamicSizes::default() } else { DynamicSizes::Never };
            }
            other => {
                return Err(PyTypeError::new_err(format!(
                    "there is no option `{other}`: there are fast_math, max_variants, max_sizes, eager_fallback, share_code"
                )));
            }
        }
    }
    Ok(options)
}

/// A compiled program that is called as the model was: with nested arguments, positional and by name.
/// Any number of threads may call it at once.
#[pyclass(frozen, name = "Compiled", module = "straightline")]
pub(crate) struct PyCompiled {
    core: Core,
    program: Program,
    inputs: Option<Tree>,
    outputs: Option<Tree>,
    names: Vec<String>,
    /// Takes arguments apart that have classes of their own.
    flatten: Option<Py<PyAny>>,
    /// Builds results that have classes of their own.
    unflatten: Option<Py<PyAny>>,
    /// The file that it came from.
    source: Option<String>,
    /// PyTorch's exported program that it was made of.
    exported: Option<Py<PyAny>>,
    /// Of arrays as results; that of the first argument if it is not said.
    library: Option<Library>,
}

impl PyCompiled {
    /// The leaves of a call.
    fn leaves<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let given = args.len() + kwargs.map_or(0, |k| k.len());
        let mut leaves = Vec::with_capacity(given);
        let Some(Tree::Tuple(both)) = &self.inputs else {
            if let Some(flatten) = &self.flatten {
                let named = kwargs.cloned().unwrap_or_else(|| PyDict::new(args.py()));
                return flatten.bind(args.py()).call1((args, named))?.extract();
            }
            leaves.extend(args.iter());
            return Ok(leaves);
        };
        let [Tree::Tuple(positional), Tree::Dict(named)] = &both[..] else {
            leaves.extend(args.iter());
            return Ok(leaves);
        };
        let takes = positional.len() + named.len();
        let name = |at: usize| {
            self.names.get(at).map_or_else(|| format!("argument {at}"), |n| format!("`{n}`"))
        };
        if given != takes {
            let all: Vec<String> = (0..takes).map(name).collect();
            return Err(PyTypeError::new_err(format!(
                "the model takes {takes} arguments ({}), and {given} were given",
                all.join(", ")
            )));
        }
        let trees = positional.iter().chain(named.iter().map(|(_, t)| t));
        for (at, tree) in trees.enumerate() {
            let by_name = || -> PyResult<Option<Bound<'py, PyAny>>> {
                let key = match named.get(at.wrapping_sub(positional.len())) {
                    Some((key, _)) => Some(key),
                    None => self.names.get(at),
                };
                match (kwargs, key) {
                    (Some(kwargs), Some(key)) => kwargs.get_item(key),
                    _ => Ok(None),
                }
            };
            let object = match at < args.len() {
                true => args.get_item(at)?,
                false => by_name()?
                    .ok_or_else(|| PyTypeError::new_err(format!("{} is missing", name(at))))?,
            };
            match tree {
                Tree::Leaf => leaves.push(object),
                tree => tree.flatten(&object, &name(at), &mut leaves)?,
            }
        }
        // what is None was no input of the program
        if leaves.len() > self.program.inputs().len() {
            leaves.retain(|leaf| !leaf.is_none());
        }
        Ok(leaves)
    }
}

#[pymethods]
impl PyCompiled {
    #[new]
    #[pyo3(signature = (program, *, flatten=None, unflatten=None, array_type=None, progress=None, source=None, exported=None, generator=None, **options))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python's")]
    fn new(
        program: &Bound<'_, PyProgram>,
        flatten: Option<Py<PyAny>>,
        unflatten: Option<Py<PyAny>>,
        array_type: Option<&Bound<'_, PyType>>,
        progress: Option<Py<PyAny>>,
        source: Option<String>,
        exported: Option<Py<PyAny>>,
        generator: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyCompiled> {
        let program = program.get().program.clone();
        let trees = program.trees().cloned().unwrap_or_default();
        let tree = |text: &str| match text {
            "" => Ok(None),
            text => Tree::parse(text).map(Some).map_err(PyValueError::new_err),
        };
        let mut core = Core::new(&program, self::options(options)?, progress);
        core.draw_from(generator);
        Ok(PyCompiled {
            core,
            flatten,
            inputs: tree(&trees.inputs)?,
            outputs: tree(&trees.outputs)?,
            names: trees.names,
            unflatten,
            source,
            exported,
            library: array_type.map(Library::of_type),
            program,
        })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let leaves = self.leaves(args, kwargs)?;
        let mut results = self.core.call(py, &leaves, self.library)?;
        match (&self.outputs, &self.unflatten) {
            (Some(Tree::Leaf), _) if results.len() == 1 => Ok(results.remove(0)),
            (Some(tree), Some(unflatten)) if !tree.is_plain() => {
                unflatten.bind(py).call1((PyList::new(py, results)?,))
            }
            (Some(tree), _) => tree.build(py, &mut results.into_iter()),
            (None, Some(unflatten)) => unflatten.bind(py).call1((PyList::new(py, results)?,)),
            (None, _) if results.len() == 1 => Ok(results.remove(0)),
            (None, _) => Ok(PyTuple::new(py, results)?.into_any()),
        }
    }

    /// Writes the exported program, which `straightline.load` reads: a copy of the file that it came from.
    fn save(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        match (&self.exported, &self.source) {
            (Some(exported), _) => {
                py.import("torch.export")?.getattr("save")?.call1((exported, path))?;
            }
            (None, Some(source)) => {
                py.import("shutil")?.getattr("copyfile")?.call1((source, path))?;
            }
            (None, None) => {
                return Err(PyValueError::new_err(
                    "the program was not exported, and there is no file to save",
                ));
            }
        }
        Ok(())
    }

    /// The program.
    #[getter]
    fn program(&self) -> PyProgram {
        PyProgram { program: self.program.clone() }
    }

    /// The program's calls, as text.
    #[getter]
    fn graph(&self) -> String {
        self.program.to_string()
    }

    /// How many variants have been compiled.
    #[getter]
    fn variants(&self) -> usize {
        self.core.compiled.variants()
    }

    /// What has happened: compilations, fallbacks.
    #[getter]
    fn events(&self) -> Vec<String> {
        self.core.compiled.events().iter().map(ToString::to_string).collect()
    }

    /// Why each variant is as it is.
    fn explain(&self) -> crate::explain::PyExplanation {
        crate::explain::PyExplanation { explanation: self.core.compiled.explain() }
    }

    /// One stage of a compilation for such arguments: ``"graph"``, ``"loops"``, ``"code"``.
    #[pyo3(signature = (stage, *args, **kwargs))]
    fn dump<'py>(
        &self,
        py: Python<'py>,
        stage: &str,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<String> {
        let leaves = self.leaves(args, kwargs)?;
        let leaves =
            leaves.iter().map(|o| arrays::leaf(o, &mut None)).collect::<PyResult<Vec<_>>>()?;
        let traced = self.core.compiled.trace(&leaves).or_raise(py)?;
        match stage {
            "graph" => Ok(traced.graph().to_string()),
            "loops" => Ok(traced.lower().or_raise(py)?.to_string()),
            "code" => Ok(traced.lower().or_raise(py)?.compile().or_raise(py)?.to_string()),
            other => Err(PyValueError::new_err(format!(
                "there is no stage `{other}`: there are graph, loops, code"
            ))),
        }
    }

    fn __repr__(&self) -> String {
        let (name, calls, variants) = (self.program.name(), self.program.calls(), self.variants());
        format!("<straightline.Compiled {name}: {calls} calls, {variants} compiled variants>")
    }
}

/// A compiled graph of `torch.compile`: called with one list, which it empties.
#[pyclass(frozen, name = "CompiledGraph", module = "straightline")]
pub(crate) struct PyCompiledGraph {
    core: Core,
    library: Option<Library>,
}

#[pymethods]
impl PyCompiledGraph {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "PyTorch's name")]
    const _boxed_call: bool = true;

    /// `orders` has for each result the order of its dimensions in memory, or None.
    #[new]
    #[pyo3(signature = (program, array_type, orders=Vec::new(), generator=None, **options))]
    fn new(
        program: &Bound<'_, PyProgram>,
        array_type: &Bound<'_, PyType>,
        orders: Vec<Option<Vec<usize>>>,
        generator: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyCompiledGraph> {
        let mut core = Core::new(&program.get().program, self::options(options)?, None);
        core.draw_from(generator);
        core.orders = orders;
        Ok(PyCompiledGraph { core, library: Some(Library::of_type(array_type)) })
    }

    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let objects: SmallVec<[Bound<'py, PyAny>; 16]> = args.iter().collect();
        let results = self.core.call(py, &objects, self.library)?;
        // the caller may hold nothing but the list
        args.del_slice(0, args.len())?;
        PyTuple::new(py, results)
    }

    /// How many variants have been compiled.
    #[getter]
    fn variants(&self) -> usize {
        self.core.compiled.variants()
    }

    /// What has happened: compilations, fallbacks.
    #[getter]
    fn events(&self) -> Vec<String> {
        self.core.compiled.events().iter().map(ToString::to_string).collect()
    }

    /// Why each variant is as it is.
    fn explain(&self) -> crate::explain::PyExplanation {
        crate::explain::PyExplanation { explanation: self.core.compiled.explain() }
    }

    /// The program's calls, as text.
    #[getter]
    fn graph(&self) -> String {
        self.core.compiled.program().to_string()
    }
}
