//! Where the results of a captured function come from, so that they alias as eager ones do.

use super::traced::{OutputSource, ViewOf};
use crate::dispatch::{DispatchKey, ExcludeGuard};
use crate::error::Result;
use crate::modes::functionalize::{self, InputSlot, Leaf, Owner, Place};
use crate::modes::tracer;
use crate::tensor::{Held, Tensor};
use std::collections::HashMap;
use straightline_catalog::{MemoryFormat, TensorMeta, layout};
use straightline_passes::ir::graph::{NodeKind, ValueRef};

/// The source of each result; values that the graph must output are appended to `values`.
///
/// - A result that is an argument, a closed-over tensor or an earlier result is that tensor itself.
/// - A result that lies in the memory of one is made from the real tensor, after the plan has run.
/// - Results that share the memory of an intermediate, begin behind its first element or have math
///   bits are views of that intermediate, which becomes an output of the graph of its own.
pub(super) fn sources(
    results: &[Tensor],
    leaves: &[Leaf],
    values: &mut Vec<ValueRef>,
) -> Result<Vec<OutputSource>> {
    // data made inside the function is recognised by its wrapper
    let results = &results.iter().map(functionalize::made_inside).collect::<Result<Vec<_>>>()?;
    let places: Vec<Option<Place>> = results.iter().map(functionalize::place).collect();
    // distinct results by the memory that they lie in
    let mut sharing: HashMap<usize, usize> = HashMap::new();
    for (i, place) in places.iter().enumerate() {
        let repeated = results[..i].iter().any(|t| t.same_handle(&results[i]));
        if let (Some(place), false) = (place, repeated) {
            *sharing.entry(place.memory).or_default() += 1;
        }
    }
    let mut bases: HashMap<usize, (usize, i64)> = HashMap::new();
    let mut out = Vec::new();
    for (i, (t, place)) in results.iter().zip(&places).enumerate() {
        out.push(if let Some(same) = identity(results, leaves, i) {
            same
        } else if let Some((of, at)) = outside(leaves, place.as_ref()) {
            let place = place.as_ref().expect("it lies in a leaf's memory");
            OutputSource::View {
                of,
                meta: place.meta.clone(),
                bits: place.bits,
                start: place.at - at,
            }
        } else if let Some(place) =
            (place.as_ref()).filter(|p| sharing[&p.memory] > 1 || p.at != 0 || p.bits.any())
        {
            let (value, at) = match bases.get(&place.memory) {
                Some(found) => *found,
                None => {
                    let (base, at) = functionalize::whole_base(t)?;
                    values.push(own_value(&base)?);
                    bases.insert(place.memory, (values.len() - 1, at));
                    (values.len() - 1, at)
                }
            };
            OutputSource::View {
                of: ViewOf::Value(value),
                meta: place.meta.clone(),
                bits: place.bits,
                start: place.at - at,
            }
        } else {
            values.push(functional_value(t)?);
            OutputSource::Value(values.len() - 1)
        });
    }
    Ok(out)
}

/// A result that is itself an earlier result, an argument or a closed-over tensor.
fn identity(results: &[Tensor], leaves: &[Leaf], i: usize) -> Option<OutputSource> {
    let t = &results[i];
    if let Some(k) = results[..i].iter().position(|r| r.same_handle(t)) {
        return Some(OutputSource::Same(k));
    }
    // an argument first: the function may close over the same tensor
    if let Some(leaf) = leaves.iter().find(|leaf| leaf.wrapper.same_handle(t)) {
        return match &leaf.owner {
            _ if leaf.made_inside => None,
            Owner::Input(i) => Some(OutputSource::Input(*i)),
            Owner::Tensor(t) => Some(OutputSource::Tensor(t.clone())),
            Owner::Merged(_) => None,
        };
    }
    let plain = !functionalize::is_wrapper(t) && t.made_during_capture().is_none();
    plain.then(|| OutputSource::Tensor(Held::new(t.clone())))
}

/// The leaf in whose memory a result lies, and the leaf's position.
fn outside(leaves: &[Leaf], place: Option<&Place>) -> Option<(ViewOf, i64)> {
    let place = place?;
    leaves.iter().find_map(|leaf| {
        let same = place.real == Some(leaf.real.storage().id())
            && !leaf.made_inside
            && functionalize::place(&leaf.wrapper).is_some_and(|p| p.memory == place.memory);
        let of = match &leaf.owner {
            _ if !same => return None,
            Owner::Input(i) => ViewOf::Input(*i),
            Owner::Tensor(t) => ViewOf::Tensor(t.clone()),
            Owner::Merged(_) => return None,
        };
        Some((of, leaf.wrapper.byte_offset()))
    })
}

/// The tensor that lies `start` bytes after `at` bytes in the storage of `of`.
pub(super) fn view_of(of: &Tensor, at: i64, start: i64, meta: &TensorMeta) -> Result<Tensor> {
    let size = meta.dtype.size() as i64;
    let first = at.saturating_add(start);
    let offset = first / size;
    let need = layout::storage_bytes(meta.dtype.size(), &meta.sizes, &meta.strides, offset);
    // an empty tensor may begin anywhere
    let begins = first % size == 0 || meta.numel() == 0;
    ensure!(
        first >= 0 && begins && need <= of.storage().bytes(),
        "a view of {} elements at byte {first} does not fit its storage of {} bytes",
        meta.dtype,
        of.storage().bytes()
    );
    Ok(Tensor::build(
        of.storage().clone(),
        meta.dtype,
        meta.device,
        &meta.sizes,
        &meta.strides,
        offset,
    ))
}

/// The graph value of a result; a copy where the result is a leaf that must not be handed out.
pub(super) fn functional_value(t: &Tensor) -> Result<ValueRef> {
    own_value(&functionalize::unwrap(t)?)
}

/// The graph value of a traced tensor; a copy where it is an input or parameter.
pub(super) fn own_value(inner: &Tensor) -> Result<ValueRef> {
    let value = tracer::value_of(inner)?;
    let is_leaf = tracer::with_recording(|r| {
        Ok(matches!(r.graph.node(value.node).kind, NodeKind::Parameter | NodeKind::Input))
    })?;
    if !is_leaf {
        return Ok(value);
    }
    let _below = ExcludeGuard::new(DispatchKey::Functionalize);
    tracer::value_of(&crate::ops::aten::clone(inner, Some(MemoryFormat::Preserve))?)
}

/// The graph's inputs at a call, if they are not simply its arguments.
pub(super) fn graph_inputs(slots: &[InputSlot], arguments: &[&Tensor]) -> Result<Vec<Tensor>> {
    let input = |slot: &InputSlot| match slot {
        InputSlot::Argument(i) => Ok(arguments[*i].clone()),
        InputSlot::Merged { argument, start, meta } => {
            let of = arguments[*argument];
            view_of(of, of.byte_offset(), *start, meta)
        }
    };
    slots.iter().map(input).collect()
}

/// The tensor that a function writes or reshapes.
pub(super) fn owned<'a>(
    owner: &'a Owner,
    arguments: &[&'a Tensor],
    inputs: &[&'a Tensor],
) -> &'a Tensor {
    match owner {
        Owner::Input(i) => arguments[*i],
        Owner::Tensor(t) => t,
        Owner::Merged(slot) => inputs[*slot],
    }
}
