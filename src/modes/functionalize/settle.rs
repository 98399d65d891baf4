//! Stand-ins that outlive their capture: finds what they stand for and turns them into ordinary
//! tensors.
//!
//! A capture that is given up may have left stand-ins in state outside of the function. What each
//! of them has in eager execution is known: a place in the memory of a base, whose value is in the
//! graph, or in that of a tensor from outside.

use super::leaves::Leaf;
use super::storage::Layout;
use super::wrapper::{bits, wrapper_of};
use crate::dispatch::{DispatchKey, DispatchKeySet};
use crate::error::Result;
use crate::modes::tracer;
use crate::ops::aten;
use crate::tensor::storage::Storage;
use crate::tensor::{Held, Tensor, access};
use straightline_passes::ir::graph::ValueRef;

/// What a stand-in lies in.
pub(crate) enum Memory {
    /// That of a base of its own, which has this value.
    Of(ValueRef),
    /// The storage of a tensor from outside, by its identity.
    Outside(usize),
}

/// Where a stand-in lies; nothing for a tensor that is no stand-in, or whose writes have not all
/// been applied.
pub(crate) fn memory(t: &Tensor) -> Option<Memory> {
    let w = wrapper_of(t)?;
    match w.storage.real {
        Some(id) => Some(Memory::Outside(id)),
        None => base(t).map(Memory::Of),
    }
}

/// The graph value of the base that a stand-in lies in.
pub(crate) fn base(t: &Tensor) -> Option<ValueRef> {
    tracer::recorded(&wrapper_of(t)?.storage.seen()?)
}

/// The stand-in of a tensor that the function made from data, once operators have written it.
pub(crate) fn written_stand_in(t: &Tensor, leaves: &[Leaf]) -> Option<Held> {
    let of = |leaf: &&Leaf| leaf.made_inside && leaf.real.same_handle(t);
    let leaf = leaves.iter().find(of)?;
    super::is_written(&leaf.wrapper).then(|| Held::new(leaf.wrapper.clone()))
}

/// The keys of the tensor that eager execution has here.
fn keys(t: &Tensor) -> DispatchKeySet {
    let bits = bits(t);
    let mut keys = t.key_set() - DispatchKeySet::from(DispatchKey::Functionalize);
    if bits.conj {
        keys = keys.add(DispatchKey::Conjugate);
    }
    if bits.neg {
        keys = keys.add(DispatchKey::Negative);
    }
    keys
}

/// Turns a stand-in into an ordinary tensor with its own memory; `value` is that of its base.
pub(crate) fn settle_with(t: &Tensor, value: &Tensor) -> Result<()> {
    let Some(w) = wrapper_of(t) else {
        return Ok(());
    };
    let storage = &w.storage.stand_in;
    // another stand-in in this memory may have done it
    if !storage.has_data() && value.storage().has_data() {
        let bytes = Storage::allocate(storage.bytes())?;
        write(&bytes, value, &w.storage.layout)?;
        storage.fill_from(&bytes)?;
    }
    t.settle(keys(t));
    Ok(())
}

/// Copies the new value of all its memory into a tensor that the function made from data.
pub(crate) fn settle_constant(real: &Tensor, stand_in: &Tensor, value: &Tensor) -> Result<()> {
    let Some(w) = wrapper_of(stand_in) else {
        return Ok(());
    };
    write(real.storage(), value, &w.storage.layout)
}

fn write(to: &Storage, value: &Tensor, layout: &Layout) -> Result<()> {
    let (sizes, strides) = (&layout.sizes, &layout.strides);
    let to = Tensor::build(to.clone(), layout.dtype, value.device(), sizes, strides, layout.offset);
    let to = access::distinct(&to);
    let from = value.with_geometry(to.sizes(), value.strides(), value.offset());
    aten::copy_(&to, &from, false).map(drop)
}

/// Makes a stand-in a tensor in the memory of one from outside.
///
/// # Errors
/// Other threads have used that memory, or it does not reach that far.
pub(crate) fn settle_in(t: &Tensor, real: &Tensor) -> Result<()> {
    let (layout, keys) = (Layout::of(t), keys(t));
    ensure!(
        layout.bytes().end <= real.storage().bytes() as i64,
        "the function made it larger than the memory that it lies in"
    );
    let storage = real.storage().clone();
    t.replace_geometry(storage, &layout.sizes, &layout.strides, layout.offset)?;
    t.settle(keys);
    Ok(())
}

/// A tensor in the memory of one from outside, as a stand-in lies there.
pub(crate) fn copy_in(t: &Tensor, real: &Tensor) -> Tensor {
    let storage = real.storage().clone();
    let (sizes, strides) = (t.sizes(), t.strides());
    let made = Tensor::build(storage, t.dtype(), t.device(), sizes, strides, t.offset());
    made.with_keys(keys(t))
}
