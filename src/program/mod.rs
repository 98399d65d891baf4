//! Programs: graphs of operator calls that came from elsewhere, with their weights.
//!
//! A [`Program`] is what [`pt2::load`](crate::pt2::load) reads from a file, and what a graph of
//! `torch.compile` is made into. It runs its calls one after the other through the dispatcher, or is
//! compiled: then these calls are what is captured, so that modes, guards, sizes and fallbacks work as
//! for functions written in Rust. Nothing is translated: a target is an operator's name, and the
//! schema says what its arguments are (as PyTorch's own `fx.Interpreter` and ExecuTorch's loader do).
//!
//! | file | what |
//! |---|---|
//! | `leaf` | what programs take and give |
//! | `spec` | what a program says about inputs, weights, results |
//! | `sizes` | sizes that may differ: symbols, expressions, bounds |
//! | `check` | what a call gives, compared with that |
//! | `body` | graphs: steps, places for values |
//! | `build` | names to places, targets to what is called |
//! | `arguments` | arguments by schema |
//! | `builder` | programs that are put together call by call |
//! | `node` | a node of a graph, before it is known what its target is |
//! | `names` | operators that are others by another name |
//! | `each` | calls over lists of tensors |
//! | `higher` | calls that are given graphs |
//! | `numbers` | arithmetic on sizes between calls |
//! | `coerce` | values as a schema wants them |
//! | `run` | running a graph |
//! | `writes` | which inputs a graph may write |
//! | `facts` | what is known without a run: what is written, which inputs are positions in weights |
//! | `error` | what can be wrong |

mod arguments;
mod body;
mod build;
mod builder;
mod check;
mod coerce;
mod each;
mod error;
mod facts;
mod higher;
mod leaf;
mod names;
mod node;
mod numbers;
mod run;
mod sizes;
mod spec;
mod writes;

pub(crate) use body::{Body, Results, Slot, Term as BodyTerm};
pub(crate) use build::{BodyBuilder, Missing};
pub use builder::{GraphBuilder, ProgramBuilder, ProgramCall, ProgramGraph, Term, ValueId};
pub use error::{Place, ProgramError};
pub(crate) use facts::written;
pub use leaf::Leaf;
pub(crate) use node::{Given, GivenTerm, Node};
pub(crate) use sizes::Derived;
pub use sizes::{Size, Symbol};
pub use spec::{Input, InputKind, Output, Weight, WeightKind};

use crate::autograd;
use crate::compile::{CompileOptions, Compiled, compile_with};
use crate::dispatch::Value;
use crate::error::Result;
use std::fmt;
use std::sync::Arc;

/// Where an input of the graph comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// What a call gives, by position.
    User(usize),
    /// A weight, by number.
    Weight(usize),
    /// Nothing that the graph reads.
    Nothing,
}

/// What becomes of an output of the graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is a result.
    Result,
    /// It is the new value of a weight.
    Weight(usize),
    /// It is the new value of an input, by position.
    User(usize),
    /// Nobody wants it.
    Nothing,
}

/// What a program is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) name: String,
    /// What made it: "torch 2.15.0".
    pub(crate) origin: String,
    pub(crate) symbols: Vec<Symbol>,
    /// Bounds of sizes that are computed from symbols.
    pub(crate) derived: Vec<Derived>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) weights: Vec<Weight>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) sources: Vec<Source>,
    pub(crate) fates: Vec<Fate>,
    pub(crate) body: Body,
    /// How the caller's arguments and results nest, as PyTorch writes it.
    pub(crate) trees: Option<Trees>,
}

/// How the caller's arguments and results nest: the texts of PyTorch's `TreeSpec`s, which are JSON, and
/// the names of the arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trees {
    /// Of the positional arguments and those by name.
    pub inputs: String,
    /// Of the results.
    pub outputs: String,
    /// The names of the arguments, those by position first.
    pub names: Vec<String>,
}

/// A graph of operator calls with its weights.
///
/// Clones are handles: they share weights and buffers, which a program exported in training mode
/// writes.
///
/// ```no_run
/// use straightline::{CompileOptions, pt2, tensor};
/// let program = pt2::load("model.pt2")?;
/// println!("{program}");
/// let x = tensor([[1.0, 2.0, 3.0]])?;
/// let eager = program.run([&x])?;
/// let f = program.compile(CompileOptions::default());
/// let compiled = f.call([&x])?;
/// straightline::assert_close(compiled[0].tensor()?, eager[0].tensor()?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone)]
pub struct Program(Arc<Parts>);

impl Program {
    pub(crate) fn new(parts: Parts) -> Program {
        Program(Arc::new(parts))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What a call gives, in order; nested arguments one leaf after the other.
    pub fn inputs(&self) -> &[Input] {
        &self.0.inputs
    }

    /// What a call returns, in order.
    pub fn outputs(&self) -> &[Output] {
        &self.0.outputs
    }

    /// The sizes that may differ from call to call.
    pub fn symbols(&self) -> &[Symbol] {
        &self.0.symbols
    }

    /// Parameters, buffers and constants.
    pub fn weights(&self) -> &[Weight] {
        &self.0.weights
    }

    /// The weight of a name.
    pub fn weight(&self, name: &str) -> Option<&Weight> {
        self.0.weights.iter().find(|w| w.name == name)
    }

    /// How many operators and functions it calls.
    pub fn calls(&self) -> usize {
        self.0.body.calls()
    }

    /// For each result the input that it is, if it is one: the very tensor, not a view of it.
    pub fn returned_inputs(&self) -> Vec<Option<usize>> {
        let parts = &*self.0;
        let results =
            parts.body.outputs.iter().zip(&parts.fates).filter(|(_, f)| **f == Fate::Result);
        let source = |term: &BodyTerm| {
            let BodyTerm::Slot(slot) = term else { return None };
            let at = parts.body.inputs.iter().position(|s| s == slot)?;
            match parts.sources.get(at)? {
                Source::User(at) => Some(*at),
                _ => None,
            }
        };
        results.map(|(term, _)| source(term)).collect()
    }

    /// Whether it draws random numbers.
    pub fn draws_random_numbers(&self) -> bool {
        self.0.body.draws()
    }

    /// How arguments and results nest, if the file says so.
    pub fn trees(&self) -> Option<&Trees> {
        self.0.trees.as_ref()
    }

    /// Runs it eagerly: a call of the dispatcher for each call of the graph.
    ///
    /// # Errors
    /// [`ErrorKind::Program`](crate::ErrorKind::Program) where the inputs are not what the program
    /// takes, and those of its operators, with the node and, if the file has it, the line of the
    /// model ([`Error::source_line`](crate::Error::source_line)).
    #[track_caller]
    pub fn run(&self, inputs: impl IntoIterator<Item: Into<Leaf>>) -> Result<Vec<Leaf>> {
        let at = std::panic::Location::caller();
        let inputs: Vec<Leaf> = inputs.into_iter().map(Into::into).collect();
        self.run_leaves(&inputs).map_err(|e| e.with_location(at))
    }

    /// The program as a compiled function, which has the code of every set of sizes that it has met;
    /// weights are closed over. The first call with new sizes checks these and compiles.
    #[track_caller]
    pub fn compile(&self, options: CompileOptions) -> CompiledProgram {
        let program = self.clone();
        let compiled = compile_with(options, move |inputs: &[Leaf]| program.run_leaves(inputs));
        CompiledProgram { compiled, program: self.clone() }
    }

    /// Compares what a call would give with what the program takes, without running it.
    ///
    /// ```
    /// use straightline::{Tensor, pt2, tensor};
    /// let program = pt2::load("tests/data/pt2/lstm.pt2")?;
    /// assert!(program.check([&tensor([1.5f32])?]).unwrap_err().to_string().contains("input 0"));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Program`](crate::ErrorKind::Program): the first difference.
    #[track_caller]
    pub fn check(&self, inputs: impl IntoIterator<Item: Into<Leaf>>) -> Result<()> {
        let at = std::panic::Location::caller();
        let parts = &*self.0;
        let inputs: Vec<Leaf> = inputs.into_iter().map(Into::into).collect();
        check::check(&parts.inputs, &parts.symbols, &parts.derived, &inputs)
            .map_err(|e| e.with_location(at))
    }

    fn run_leaves(&self, inputs: &[Leaf]) -> Result<Vec<Leaf>> {
        let parts = &*self.0;
        check::check(&parts.inputs, &parts.symbols, &parts.derived, inputs)?;
        let given = parts.sources.iter().map(|source| match source {
            Source::User(at) => inputs[*at].clone().into_value(),
            Source::Weight(at) => Value::Tensor(parts.weights[*at].tensor.clone()),
            Source::Nothing => Value::None,
        });
        let values = parts.body.run(given)?;
        let mut results = Vec::new();
        for (value, fate) in values.into_iter().zip(&parts.fates) {
            match fate {
                Fate::Result => results.push(Leaf::of_value(value)?),
                Fate::Weight(at) => write(&parts.weights[*at].tensor, value)?,
                Fate::User(at) => write(inputs[*at].tensor()?, value)?,
                Fate::Nothing => {}
            }
        }
        Ok(results)
    }
}

/// A [`Program`] that is compiled: a [`Compiled`] function of its leaves, with all that belongs to
/// those (`explain()`, `events()`, `call_external()`).
///
/// `Send + Sync`: any number of threads may call it at once.
#[derive(Clone, Debug)]
pub struct CompiledProgram {
    compiled: Compiled<Vec<Leaf>, Vec<Leaf>>,
    program: Program,
}

impl CompiledProgram {
    /// Calls it with tensors, or with leaves where it takes others.
    ///
    /// # Errors
    /// As [`Program::run`] and [`Compiled::call`].
    pub fn call(&self, inputs: impl IntoIterator<Item: Into<Leaf>>) -> Result<Vec<Leaf>> {
        let inputs: Vec<Leaf> = inputs.into_iter().map(Into::into).collect();
        self.compiled.call(&inputs)
    }

    /// What is compiled.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl std::ops::Deref for CompiledProgram {
    type Target = Compiled<Vec<Leaf>, Vec<Leaf>>;

    fn deref(&self) -> &Self::Target {
        &self.compiled
    }
}

/// The new value of a weight or an input.
fn write(to: &crate::Tensor, value: Value) -> Result<()> {
    let value = Leaf::of_value(value)?.into_tensor()?;
    autograd::no_grad(|| to.copy_(&value)).map(|_| ())
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.0.name)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

/// Name, symbols, inputs, weights and calls, one a line.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        writeln!(f, "program {} ({}, {} calls)", parts.name, parts.origin, self.calls())?;
        for symbol in &parts.symbols {
            writeln!(f, "  size {symbol}")?;
        }
        for derived in &parts.derived {
            writeln!(f, "  size {}", derived.text(&parts.symbols))?;
        }
        for input in &parts.inputs {
            writeln!(f, "  input {}", input.text(&parts.symbols))?;
        }
        for Weight { name, kind, tensor } in &parts.weights {
            let kind = match kind {
                WeightKind::Parameter => "parameter",
                WeightKind::Buffer { .. } => "buffer",
                WeightKind::Constant => "constant",
            };
            writeln!(f, "  {kind} {name}: {}{:?}", tensor.dtype(), tensor.sizes())?;
        }
        write!(f, "{}", parts.body)
    }
}
