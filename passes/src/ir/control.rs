//! Operators of higher order: calls that are given graphs.
//!
//! They are PyTorch's `torch.ops.higher_order`: `cond` calls one of two graphs, `while_loop` calls a
//! graph as long as another one says so, `scan` calls one for each slice of its operands. A graph that
//! is an argument ([`Arg::Graph`]) has no parameters: whatever it uses is an operand of the call. It is
//! functional as any graph is, and its results share memory neither with its operands nor with each
//! other.
//!
//! | operator | a graph takes | and gives |
//! |---|---|---|
//! | `cond` | the operands | the results |
//! | `while_loop` | what is carried, then the additional operands | whether to go on; what is carried |
//! | `scan` | what is carried, a slice of each of `xs` along their first dimension, then the additional operands | what is carried, then a slice of each further result |
//!
//! A `scan` that carries nothing is PyTorch's `map`.

use super::graph::{Graph, NodeId};
use super::{Arg, DType, Dims, Op, TensorMeta};
use std::sync::LazyLock;

/// The operators.
#[derive(Debug)]
pub struct Ops {
    /// `cond(pred, true_fn, false_fn, operands)`.
    pub cond: Op,
    /// `while_loop(cond_fn, body_fn, carried_inputs, additional_inputs)`.
    pub while_loop: Op,
    /// `scan(combine_fn, init, xs, additional_inputs, reverse)`.
    pub scan: Op,
}

/// The operators of higher order.
///
/// ```
/// use straightline_passes::ir::control;
/// assert_eq!(control::ops().cond.name(), "higher_order::cond");
/// ```
pub fn ops() -> &'static Ops {
    static OPS: LazyLock<Ops> = LazyLock::new(|| {
        let define = |schema: &str| {
            let schema = schema.parse().expect("a schema");
            Op::define(&schema, &["pure"])
        };
        Ops {
            cond: define(
                "higher_order::cond(Tensor pred, Any true_fn, Any false_fn, Tensor[] operands) -> Tensor[]",
            ),
            while_loop: define(
                "higher_order::while_loop(Any cond_fn, Any body_fn, Tensor[] carried_inputs, Tensor[] additional_inputs) -> Tensor[]",
            ),
            scan: define(
                "higher_order::scan(Any combine_fn, Tensor[] init, Tensor[] xs, Tensor[] additional_inputs, bool reverse=False) -> Tensor[]",
            ),
        }
    });
    &OPS
}

/// A call of such an operator, read.
#[derive(Clone, Debug)]
pub enum Control<'a, V> {
    /// One of two graphs is called.
    Cond {
        /// One truth value.
        pred: V,
        /// The graph that is called if it is true, and the other one.
        branches: [&'a Graph; 2],
        /// What either takes.
        operands: Vec<V>,
    },
    /// A graph is called again and again.
    While {
        /// Says whether to go on.
        cond: &'a Graph,
        /// What is carried from one call to the next.
        body: &'a Graph,
        /// What is carried at first.
        carried: Vec<V>,
        /// What all calls take besides.
        additional: Vec<V>,
    },
    /// A graph is called for each slice.
    Scan {
        /// The graph.
        body: &'a Graph,
        /// What is carried at first.
        carried: Vec<V>,
        /// What is sliced along its first dimension.
        xs: Vec<V>,
        /// What all calls take besides.
        additional: Vec<V>,
        /// The last slice comes first.
        reverse: bool,
    },
}

impl<'a, V: Clone> Control<'a, V> {
    /// The call with these arguments; `None` if it is of another operator, or not complete.
    pub fn read(op: Op, args: &'a [Arg<V>]) -> Option<Control<'a, V>> {
        if op.is_known() {
            return None;
        }
        let graph = |a: &'a Arg<V>| match a {
            Arg::Graph(g) => g.get::<Graph>(),
            _ => None,
        };
        let tensors = |a: &Arg<V>| match a {
            Arg::Tensors(all) => all.iter().cloned().collect::<Option<Vec<V>>>(),
            _ => None,
        };
        let all = ops();
        Some(match args {
            [Arg::Tensor(pred), yes, no, operands] if op == all.cond => Control::Cond {
                pred: pred.clone(),
                branches: [graph(yes)?, graph(no)?],
                operands: tensors(operands)?,
            },
            [cond, body, carried, additional] if op == all.while_loop => Control::While {
                cond: graph(cond)?,
                body: graph(body)?,
                carried: tensors(carried)?,
                additional: tensors(additional)?,
            },
            [body, carried, xs, additional, reverse] if op == all.scan => Control::Scan {
                body: graph(body)?,
                carried: tensors(carried)?,
                xs: tensors(xs)?,
                additional: tensors(additional)?,
                reverse: reverse.as_bool()?,
            },
            _ => return None,
        })
    }
}

/// What does not fit in a call of higher order.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are named by the messages
pub enum ControlError {
    /// Arguments of other kinds.
    #[error("the arguments are not those of `{0}`")]
    Arguments(Op),
    /// A graph that closes over something.
    #[error("the graph `{of}` has parameters; whatever it uses has to be an operand")]
    Parameters { of: &'static str },
    /// Too many or too few inputs or results.
    #[error("the graph `{of}` has {found} {what}, expected {expected}")]
    Count { of: &'static str, what: &'static str, expected: usize, found: usize },
    /// An input or result of another type.
    #[error("{what} {at} of the graph `{of}` is {found}, expected {expected}")]
    Type { of: &'static str, what: &'static str, at: usize, expected: String, found: String },
    /// A predicate that is none.
    #[error("a predicate is one element of dtype bool, found {0}")]
    Predicate(String),
    /// Slices that do not go together.
    #[error("the tensors to scan have no first dimension of one size")]
    Slices,
    /// A graph that is not well-formed.
    #[error("the graph `{of}`: {error}")]
    Graph { of: &'static str, error: String },
}

fn shown(m: &TensorMeta) -> String {
    format!("{}{:?}", m.dtype, m.sizes.as_slice())
}

fn alike(a: &TensorMeta, b: &TensorMeta) -> bool {
    a.dtype == b.dtype && a.sizes == b.sizes
}

/// Compares types one by one.
fn fit<'m>(
    of: &'static str,
    what: [&'static str; 2],
    found: impl ExactSizeIterator<Item = &'m TensorMeta>,
    expected: &[TensorMeta],
) -> Result<(), ControlError> {
    let [one, many] = what;
    if found.len() != expected.len() {
        let (expected, found) = (expected.len(), found.len());
        return Err(ControlError::Count { of, what: many, expected, found });
    }
    for (at, (found, expected)) in found.zip(expected).enumerate() {
        if !alike(found, expected) {
            let (expected, found) = (shown(expected), shown(found));
            return Err(ControlError::Type { of, what: one, at, expected, found });
        }
    }
    Ok(())
}

fn takes(of: &'static str, graph: &Graph, operands: &[TensorMeta]) -> Result<(), ControlError> {
    if !graph.parameters().is_empty() {
        return Err(ControlError::Parameters { of });
    }
    let inputs = graph.inputs().iter().map(|n| graph.meta((*n).into()));
    fit(of, ["input", "inputs"], inputs, operands)
}

fn gives(of: &'static str, graph: &Graph, results: &[TensorMeta]) -> Result<(), ControlError> {
    let outputs = graph.outputs().iter().map(|v| graph.meta(*v));
    fit(of, ["result", "results"], outputs, results)
}

fn predicate(m: &TensorMeta) -> Result<(), ControlError> {
    match m.dtype == DType::Bool && m.numel() == 1 {
        true => Ok(()),
        false => Err(ControlError::Predicate(shown(m))),
    }
}

/// A slice along the first dimension.
///
/// ```
/// use straightline_passes::ir::{DType, TensorMeta, control};
/// let all = TensorMeta::contiguous(DType::F32, &[5, 2, 3]);
/// assert_eq!(control::slice(&all), Some(TensorMeta::contiguous(DType::F32, &[2, 3])));
/// assert_eq!(control::slice(&TensorMeta::contiguous(DType::F32, &[])), None);
/// ```
pub fn slice(of: &TensorMeta) -> Option<TensorMeta> {
    let rest = |dims: &Dims| dims.get(1..).map(Dims::from_slice);
    Some(TensorMeta { sizes: rest(&of.sizes)?, strides: rest(&of.strides)?, ..of.clone() })
}

/// The names of the graphs among the arguments, with the graphs.
pub fn subgraphs<V>(op: Op, args: &[Arg<V>]) -> Vec<(&'static str, &Graph)> {
    let named = args.iter().zip(&op.schema().args);
    let graphs = named.filter_map(|(arg, of)| match arg {
        Arg::Graph(g) => Some((of.name.as_str(), g.get::<Graph>()?)),
        _ => None,
    });
    graphs.collect()
}

/// Checks that the graphs of a call take its operands and give its results. Calls of other operators
/// pass.
///
/// # Errors
///
/// The first thing that does not fit.
pub fn check(graph: &Graph, id: NodeId) -> Result<(), ControlError> {
    let Some((op, args)) = graph.call_args(id) else { return Ok(()) };
    if !args.iter().any(|a| matches!(a, Arg::Graph(_))) {
        return Ok(());
    }
    let args: Vec<Arg<TensorMeta>> =
        args.iter().map(|a| a.map(|v| graph.meta(*v).clone())).collect();
    let results = &graph.node(id).results[..];
    let Some(call) = Control::read(op, &args) else { return Err(ControlError::Arguments(op)) };
    match call {
        Control::Cond { pred, branches: [yes, no], operands } => {
            predicate(&pred)?;
            for (of, branch) in [("true_fn", yes), ("false_fn", no)] {
                takes(of, branch, &operands)?;
                gives(of, branch, results)?;
            }
        }
        Control::While { cond, body, carried, additional } => {
            let all: Vec<TensorMeta> = carried.iter().chain(&additional).cloned().collect();
            takes("cond_fn", cond, &all)?;
            takes("body_fn", body, &all)?;
            match cond.outputs() {
                [again] => predicate(cond.meta(*again))?,
                all => {
                    let (of, what, found) = ("cond_fn", "results", all.len());
                    return Err(ControlError::Count { of, what, expected: 1, found });
                }
            }
            gives("body_fn", body, &carried)?;
            fit("while_loop", ["result", "results"], results.iter(), &carried)?;
        }
        Control::Scan { body, carried, xs, additional, .. } => {
            let count = xs.first().and_then(|x| x.sizes.first()).copied();
            let slices: Option<Vec<TensorMeta>> = xs.iter().map(slice).collect();
            let (Some(slices), Some(count)) = (slices, count) else {
                return Err(ControlError::Slices);
            };
            if xs.iter().any(|x| x.sizes[0] != count) {
                return Err(ControlError::Slices);
            }
            let all: Vec<TensorMeta> =
                carried.iter().chain(&slices).chain(&additional).cloned().collect();
            takes("combine_fn", body, &all)?;
            let ys = results.get(carried.len()..).unwrap_or_default();
            if ys.iter().any(|y| y.sizes.first() != Some(&count)) {
                return Err(ControlError::Slices);
            }
            let of_ys = ys.iter().filter_map(slice);
            let made: Vec<TensorMeta> = carried.iter().cloned().chain(of_ys).collect();
            gives("combine_fn", body, &made)?;
            let carried = carried.len().min(results.len());
            let expected: Vec<TensorMeta> = made[..carried].to_vec();
            fit("scan", ["result", "results"], results[..carried].iter(), &expected)?;
        }
    }
    Ok(())
}
