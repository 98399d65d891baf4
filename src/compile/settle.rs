//! Cleans up after a capture that is given up.
//!
//! The function has run on stand-ins, and may have left some of them in state outside: a cache, a
//! running mean. Eager code finds them there. So each stand-in gets its value: the calls that it
//! needs are made on the call's own arguments, and it becomes an ordinary tensor
//! ([`Tensor::settle`]). Arguments and closed-over tensors are written only if the call continues
//! with the captured graph, as it may with `eager_fallback`.

use super::interpret::{self, Interpreter};
use super::traced::Traced;
use super::tree::TensorTree;
use super::{flat, results, tape};
use crate::error::{Error, Result};
use crate::modes::functionalize::{self, InputSlot, Memory, MergedStorages};
use crate::modes::outside::Kept;
use crate::tensor::{Held, Tensor};
use std::cell::Cell;
use straightline_passes::ir::graph::{Graph, ValueRef};

thread_local! {
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread makes the calls of a capture that is given up. The compiled function is
/// locked meanwhile, and a kernel that calls it must not wait for that.
pub(super) fn is_at_work() -> bool {
    AT_WORK.get()
}

/// While it is there.
pub(super) struct AtWork(bool);

impl AtWork {
    pub(super) fn begin() -> AtWork {
        AtWork(AT_WORK.replace(true))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.set(self.0);
    }
}

/// The tensors from outside that a capture has met, noted before it forgets them.
pub(super) struct Met {
    slots: Vec<InputSlot>,
    parameters: Vec<Held>,
    leaves: Vec<Met1>,
}

struct Met1 {
    stand_in: Held,
    real: Held,
    /// Whether it is a tensor that the function holds, rather than memory in which several tensors
    /// lie.
    whole: bool,
}

impl Met {
    pub(super) fn now() -> Met {
        let sources = functionalize::sources();
        let leaves = functionalize::leaves().into_iter();
        Met {
            slots: sources.inputs,
            parameters: sources.parameters,
            leaves: leaves
                .map(|leaf| Met1 {
                    stand_in: Held::new(leaf.wrapper),
                    real: Held::new(leaf.real),
                    whole: !leaf.flat,
                })
                .collect(),
        }
    }

    /// A tensor from outside that lies in this storage.
    fn in_storage(&self, id: usize) -> Option<&Tensor> {
        let mut leaves = self.leaves.iter().map(|leaf| &*leaf.real);
        leaves.find(|real| real.storage().id() == id)
    }

    /// The tensor from outside that this one stands for.
    fn original(&self, t: &Tensor) -> Option<&Tensor> {
        let of = |leaf: &&Met1| leaf.whole && leaf.stand_in.same_handle(t);
        self.leaves.iter().find(of).map(|leaf| &*leaf.real)
    }
}

/// Turns the stand-ins that have been kept into ordinary tensors. Values that depend on a storage
/// in `unlike`, which the capture took for several, stay unknown. Returns the error for the first
/// one that could not be computed.
pub(super) fn settle(
    kept: &Kept,
    graph: &Graph,
    met: &Met,
    arguments: &[&Tensor],
    unlike: &MergedStorages,
) -> Result<()> {
    if kept.stand_ins.is_empty() && kept.written.is_empty() {
        return Ok(());
    }
    let (_below, _busy) = (interpret::below(), AtWork::begin());
    let inputs = results::graph_inputs(&met.slots, arguments)?;
    let like = |t: &Tensor| !unlike.contains_key(&t.storage().id());
    let mut interpreter = Interpreter::new(
        graph,
        inputs.iter().map(|t| Some(t).filter(|t| like(t))),
        met.parameters.iter().map(|t| Some(&**t).filter(|t| like(t))),
    );
    let wanted: Vec<ValueRef> = wanted(kept.stand_ins.iter().map(|s| &*s.tensor))
        .chain(kept.written.iter().filter_map(|(_, w)| functionalize::base(w)))
        .collect();
    let failed = interpreter.some(&wanted);
    settle_all(kept, &interpreter, met, failed)
}

/// The bases of stand-ins.
fn wanted<'a>(stand_ins: impl Iterator<Item = &'a Tensor>) -> impl Iterator<Item = ValueRef> {
    stand_ins.filter_map(|t| match functionalize::memory(t) {
        Some(Memory::Of(value)) => Some(value),
        _ => None,
    })
}

fn settle_all(
    kept: &Kept,
    interpreter: &Interpreter<'_>,
    met: &Met,
    failed: Option<Error>,
) -> Result<()> {
    let mut lost = None;
    for s in &kept.stand_ins {
        if let Err(e) = settle_one(&s.tensor, interpreter, met) {
            lost.get_or_insert_with(|| s.escaped(Some(failed.as_ref().unwrap_or(&e))));
        }
    }
    for (t, stand_in) in &kept.written {
        let done = (functionalize::base(stand_in).and_then(|v| interpreter.value(v)))
            .unwrap_or_else(|| Err(unknown()))
            .and_then(|value| functionalize::settle_constant(t, stand_in, &value));
        if let Err(e) = done {
            lost.get_or_insert_with(|| {
                Kept::escaped_constant(t, Some(failed.as_ref().unwrap_or(&e)))
            });
        }
    }
    lost.map_or(Ok(()), Err)
}

fn unknown() -> Error {
    Error::compile("what it depends on was not captured to the end")
}

fn settle_one(t: &Tensor, interpreter: &Interpreter<'_>, met: &Met) -> Result<()> {
    match functionalize::memory(t) {
        None if !functionalize::is_wrapper(t) => Ok(()),
        None => Err(unknown()),
        Some(Memory::Of(v)) => {
            let value = interpreter.value(v).ok_or_else(unknown)??;
            functionalize::settle_with(t, &value)
        }
        Some(Memory::Outside(id)) => {
            functionalize::settle_in(t, met.in_storage(id).ok_or_else(unknown)?)
        }
    }
}

/// Finishes a capture whose function kept tensors: makes its calls and its writes, and returns the
/// function's own result, with its stand-ins and the kept ones turned into ordinary tensors.
pub(super) fn perform<O: TensorTree>(
    traced: &mut Traced,
    result: &O,
    grads: &[&Tensor],
    kept: &Kept,
    met: &Met,
    arguments: &[&Tensor],
) -> Result<O> {
    let (_below, _busy) = (interpret::below(), AtWork::begin());
    let mut returned: Vec<&Tensor> = Vec::new();
    flat::visit(result, |t| returned.push(t));
    returned.extend(grads);
    let all = kept.stand_ins.iter().map(|s| &*s.tensor);
    let written = kept.written.iter().filter_map(|(_, w)| functionalize::base(w));
    let mut alive = traced.graph.outputs().to_vec();
    let outputs = alive.len();
    alive.extend(wanted(all.chain(returned.iter().copied())).chain(written));
    traced.graph.set_outputs(&alive);
    traced.graph.eliminate_dead_code();
    let inputs = results::graph_inputs(&met.slots, arguments)?;
    let parameters = met.parameters.iter().map(|t| Some(&**t));
    let mut interpreter = Interpreter::new(&traced.graph, inputs.iter().map(Some), parameters);
    interpreter.all()?;
    let values = interpret::outputs(&interpreter)?;
    // values may lie in memory that is written below
    for t in &returned {
        if let Some(Memory::Of(_)) = functionalize::memory(t) {
            settle_one(t, &interpreter, met)?;
        }
    }
    settle_all(kept, &interpreter, met, None)?;
    interpret::write_back(traced, arguments, &inputs, &values[..outputs])?;
    let given = |t: &Tensor| match (met.original(t), functionalize::memory(t)) {
        (Some(real), _) => real.clone(),
        (None, Some(Memory::Outside(id))) => {
            met.in_storage(id).map_or_else(|| t.clone(), |real| functionalize::copy_in(t, real))
        }
        _ => t.clone(),
    };
    let grads: Vec<Tensor> = grads.iter().map(|t| given(t)).collect();
    tape::deliver(
        traced,
        arguments,
        &mut |place| {
            let earlier = traced.grads.iter().filter_map(|g| g.after.flatten());
            earlier.take_while(|other| *other != place).count()
        },
        &grads,
    );
    Ok(flat::map(result, |t| given(t)))
}
