//! Branches and bodies of loops: graphs of their own within the one that is captured.
//!
//! A graph that a call is given closes over nothing. What it uses of the function around it, or of
//! tensors from outside of that, is *lifted*: it becomes an input of the inner graph, by identity, and
//! an operand of the call. A function in turn can use an inner graph's values only as results of the
//! call, and the inner graph writes nothing that was there before.

use super::wrapper::{unwrap, wrap, wrap_value, wrapped, wrapper_of};
use crate::error::{Error, Result};
use crate::modes::outside;
use crate::modes::tracer::{self, Recording};
use crate::tensor::Tensor;
use crate::tensor::watcher::Line;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use straightline_catalog::{Arg, Op, TensorMeta};
use straightline_passes::ir::graph::{Graph, NodeId, Provenance, SourceLine, ValueRef};

/// An input of an inner graph.
#[derive(Clone)]
struct Input {
    /// The tensor that it is lifted from; `None` for what a loop hands to its body.
    of: Option<Tensor>,
    /// What stands for it in the inner graph.
    stand_in: Tensor,
}

thread_local! {
    /// The inputs of each inner graph that is being recorded.
    static INPUTS: RefCell<HashMap<u64, Vec<Input>>> = RefCell::default();
}

fn scope() -> Result<u64> {
    tracer::scope().ok_or_else(|| Error::compile("nothing is being captured"))
}

/// Adds an input to the graph that is being recorded.
fn add(of: Option<Tensor>, make: impl FnOnce(&mut Recording, &str) -> Tensor) -> Result<Tensor> {
    let scope = scope()?;
    let at = INPUTS.with_borrow(|all| all.get(&scope).map_or(0, Vec::len));
    let value = tracer::with_recording(|r| Ok(make(r, &format!("x{at}"))))?;
    let stand_in = wrap(&value, of.as_ref().map_or(0, Tensor::offset));
    let new = Input { of, stand_in: stand_in.clone() };
    INPUTS.with_borrow_mut(|all| all.entry(scope).or_default().push(new));
    Ok(stand_in)
}

/// What stands in the graph that is being recorded for a tensor from outside of it.
pub(super) fn lifted(t: &Tensor) -> Result<Tensor> {
    let scope = scope()?;
    let of = |i: &&Input| i.of.as_ref().is_some_and(|of| of.same_handle(t));
    let known = INPUTS.with_borrow(|all| {
        let found = all.get(&scope)?.iter().find(of)?;
        Some(found.stand_in.clone())
    });
    if let Some(known) = known {
        return Ok(known);
    }
    // the call needs it as an operand
    tracer::one_out(|| unwrap(t))?;
    add(Some(t.clone()), |r, name| r.leaf(name, t, true))
}

/// An input of the graph that is being recorded which stands for no tensor: a loop's body is called
/// with it.
pub(crate) fn handed(meta: &TensorMeta) -> Result<Tensor> {
    add(None, |r, name| r.input(name, meta))
}

/// What stands in the graph that is being recorded for a tensor.
pub(crate) fn inside(t: &Tensor) -> Result<Tensor> {
    wrapped(t)
}

/// The error for a value that was computed within a branch and is used outside of it.
#[cold]
pub(super) fn left_behind(t: &Tensor) -> Error {
    outside::refuse(
        &format!(
            "the use of a {}{:?} outside of the branch or loop that computes it",
            t.dtype(),
            t.sizes()
        ),
        "a call may take another branch, or no turn of the loop: return it from the branch",
        None,
    )
}

/// Whether a tensor lies in memory from outside of the graph that is being recorded.
pub(crate) fn lies_outside(t: &Tensor) -> bool {
    let (Some(w), Some(scope)) = (wrapper_of(t), tracer::scope()) else {
        return t.made_during_capture().is_none();
    };
    let same =
        |i: &Input| wrapper_of(&i.stand_in).is_some_and(|of| Arc::ptr_eq(&of.storage, &w.storage));
    w.scope != Some(scope)
        || INPUTS.with_borrow(|all| all.get(&scope).is_some_and(|inputs| inputs.iter().any(same)))
}

/// The tensor from outside in whose memory a tensor of an inner graph lies.
pub(super) fn origin(t: &Tensor) -> Option<Tensor> {
    let w = wrapper_of(t)?;
    let same =
        |i: &&Input| wrapper_of(&i.stand_in).is_some_and(|of| Arc::ptr_eq(&of.storage, &w.storage));
    INPUTS.with_borrow(|all| all.get(&w.scope?)?.iter().find(same)?.of.clone())
}

/// Refuses to write what was there before the branch.
pub(super) fn check_write(t: &Tensor) -> Result<()> {
    match tracer::in_subgraph() && lies_outside(t) {
        false => Ok(()),
        true => Err(outside::refuse(
            &format!(
                "writing a {}{:?} from outside of a branch or loop in it",
                t.dtype(),
                t.sizes()
            ),
            "its functions must not change what they are given or close over: compute a new tensor and return it",
            None,
        )),
    }
}

/// A function as a graph of its own.
pub(crate) struct Body {
    /// The graph.
    pub(crate) graph: Graph,
    /// What its inputs stand for; `None` for those that were [handed] to it.
    pub(crate) operands: Vec<Option<Tensor>>,
}

impl Body {
    /// Makes the graph take these tensors after the first `handed` inputs. They are all that it has
    /// lifted, and perhaps more.
    pub(crate) fn take(&mut self, handed: usize, operands: &[Tensor]) {
        let inputs = self.graph.inputs().to_vec();
        let of = |t: &Tensor| {
            self.operands.iter().position(|o| o.as_ref().is_some_and(|o| o.same_handle(t)))
        };
        let found: Vec<Option<NodeId>> = operands.iter().map(|t| Some(inputs[of(t)?])).collect();
        let mut order = inputs[..handed].to_vec();
        for (t, known) in operands.iter().zip(found) {
            order.push(known.unwrap_or_else(|| self.graph.input("x", t.meta()).node));
        }
        for (at, node) in order.iter().enumerate() {
            self.graph.node_mut(*node).name = Some(format!("x{at}").into());
        }
        self.graph.arrange_inputs(order);
        self.operands.truncate(handed);
        self.operands.extend(operands.iter().cloned().map(Some));
    }
}

/// All that the graphs have lifted, each tensor once.
pub(crate) fn union(bodies: &[&Body]) -> Vec<Tensor> {
    let mut all: Vec<Tensor> = Vec::new();
    for t in bodies.iter().flat_map(|b| b.operands.iter().flatten()) {
        if !all.iter().any(|known| known.same_handle(t)) {
            all.push(t.clone());
        }
    }
    all
}

/// Captures `f` as a graph of its own, whose results are the tensors that it returns. What `f` computes
/// where gradients are switched off is marked by `detach` in the graph, if `constants` says so.
///
/// # Errors
///
/// Those of `f`.
pub(crate) fn subgraph<R>(
    constants: bool,
    f: impl FnOnce() -> Result<(Vec<Tensor>, R)>,
) -> Result<(Body, R)> {
    struct Forget(u64);
    impl Drop for Forget {
        fn drop(&mut self) {
            // dropped after the borrow
            let gone = INPUTS.try_with(|all| all.borrow_mut().remove(&self.0));
            drop(gone);
        }
    }
    let (mut graph, (operands, rest)) = tracer::subgraph(constants, || {
        let scope = scope()?;
        let _forget = Forget(scope);
        let (results, rest) = f()?;
        let value = |t: &Tensor| tracer::value_of(&unwrap(t)?);
        let values = results.iter().map(value).collect::<Result<Vec<ValueRef>>>()?;
        tracer::with_recording(|r| {
            r.graph.set_outputs(&values);
            Ok(())
        })?;
        let inputs = INPUTS.with_borrow(|all| all.get(&scope).cloned()).unwrap_or_default();
        Ok((inputs.into_iter().map(|i| i.of).collect(), rest))
    })?;
    graph.eliminate_dead_code();
    Ok((Body { graph, operands }, rest))
}

/// Records a call of an operator of higher order, and gives its results.
///
/// # Errors
///
/// An operand has no value here.
pub(crate) fn emit(
    op: Op,
    args: &[Arg<Tensor>],
    results: &[TensorMeta],
    at: Line,
) -> Result<Vec<Tensor>> {
    let mut failed = None;
    let mut value = |t: &Tensor| {
        let found = unwrap(t).and_then(|t| tracer::value_of(&t));
        found.unwrap_or_else(|e| {
            failed.get_or_insert(e);
            ValueRef { node: NodeId::default(), index: 0 }
        })
    };
    let args: Vec<Arg<ValueRef>> = args.iter().map(|a| a.map(&mut value)).collect();
    if let Some(e) = failed {
        return Err(e);
    }
    if results.is_empty() && !op.effects(&args, results).is_kept() {
        return Ok(Vec::new());
    }
    let (graph, first) = tracer::with_recording(|r| {
        let first = r.graph.complete_call(op, args, results.iter().cloned().collect());
        let location = Some(SourceLine::Caller(at));
        r.graph.node_mut(first.node).provenance = Provenance { location, ..Provenance::default() };
        Ok((r.scope(), first))
    })?;
    let result = |(index, meta): (u32, &TensorMeta)| {
        let value = ValueRef { node: first.node, index };
        wrap_value(&tracer::traced(graph, value, meta))
    };
    Ok((0..).zip(results).map(result).collect())
}
