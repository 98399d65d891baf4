//! Tensors from outside: arguments and closed-over tensors, and which of them share memory.
//!
//! Each gets its own node in the graph. If two overlap in memory and one is written, that would
//! lose the write: their storage is then *merged*. One flat node stands for the bytes that they lie
//! in, and each of them is an `as_strided` view of it (AOTAutograd's synthetic base). What has to
//! be merged is known when the function has run, so capture runs it again.

use super::lifted;
use super::storage::{FunctionalStorage, Layout, ViewStep};
use super::wrapper::{build, has_grown, is_written, wrapper_of};
use crate::dispatch::DispatchKey;
use crate::dispatch::{Value, handle_of};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::{outside, tracer};
use crate::tensor::storage::Storage;
use crate::tensor::{Held, Tensor};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use straightline_catalog::Dims;
use straightline_catalog::Op;
use straightline_catalog::TensorMeta;

/// A tensor from outside, as the caller of a compiled function finds it again.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// This argument.
    Input(usize),
    /// A closed-over tensor.
    Tensor(Held),
    /// This input of the graph, which stands for merged memory.
    Merged(usize),
}

/// What an input of the graph is at a call.
#[derive(Clone, Debug)]
pub(crate) enum InputSlot {
    /// An argument.
    Argument(usize),
    /// Bytes of an argument's storage, which several arguments or closed-over tensors lie in.
    Merged {
        /// The argument.
        argument: usize,
        /// Where they begin, from the argument's first element.
        start: i64,
        /// Their type: flat.
        meta: TensorMeta,
    },
}

/// A tensor that the function used and did not make.
#[derive(Clone)]
pub(crate) struct Leaf {
    /// The tensor itself.
    pub(crate) real: Tensor,
    /// What stands for it.
    pub(crate) wrapper: Tensor,
    /// How it is found at a call.
    pub(crate) owner: Owner,
    /// Made from data while capturing: writes to it are not seen by later calls.
    pub(crate) made_inside: bool,
    /// Made by capture, for memory that several tensors lie in.
    pub(crate) flat: bool,
}

/// The bytes of a storage that one flat node stands for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Merged {
    range: Range<i64>,
    /// The function reaches bytes beside its arguments and closed-over tensors.
    beside: bool,
}

/// Storages to merge, by identity.
pub(crate) type MergedStorages = HashMap<usize, Merged>;

/// Where the inputs and parameters of the graph come from, in their order.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    pub(crate) inputs: Vec<InputSlot>,
    pub(crate) parameters: Vec<Held>,
}

/// The leaves of the capture on this thread, in the order of their nodes.
#[derive(Default)]
pub(crate) struct Leaves {
    by_id: HashMap<usize, usize>,
    list: Vec<Leaf>,
    sources: Sources,
    /// What stands for the storages of leaves.
    stand_ins: HashMap<usize, Storage>,
    merge: MergedStorages,
    merged: HashMap<usize, Arc<FunctionalStorage>>,
    /// Bytes that were accessed and belong to no node.
    wanted: MergedStorages,
}

thread_local! {
    static LEAVES: RefCell<Leaves> = RefCell::default();
}

/// Starts without leaves; the storages in `merge` get flat nodes.
pub(crate) fn begin(merge: MergedStorages) {
    LEAVES.set(Leaves { merge, ..Leaves::default() });
}

/// Forgets the leaves that the capture has met.
pub(crate) fn take_leaves() {
    LEAVES.take();
}

/// The leaves so far, in the order in which the function met them, arguments first.
pub(crate) fn leaves() -> Vec<Leaf> {
    LEAVES.with_borrow(|l| l.list.clone())
}

/// Where the graph's inputs and parameters come from.
pub(crate) fn sources() -> Sources {
    LEAVES.with_borrow(|l| l.sources.clone())
}

/// Whether operators have written a tensor that the function made from data: its own memory does
/// not have the new values.
pub(crate) fn is_written_constant(t: &Tensor) -> bool {
    let wrapper = |l: &Leaves| Some(l.list[*l.by_id.get(&t.id())?].wrapper.clone());
    LEAVES.with_borrow(wrapper).is_some_and(|w| is_written(&w))
}

/// The arguments that lie in the storage behind a wrapper, and where they begin in it, in bytes.
pub(crate) fn arguments_behind(t: &Tensor) -> Vec<(usize, i64)> {
    if let Some(of) = lifted::origin(t) {
        return arguments_behind(&of);
    }
    let Some(real) = wrapper_of(t).and_then(|w| w.storage.real) else {
        return Vec::new();
    };
    let of = |leaf: &Leaf| match leaf.owner {
        Owner::Input(i) if leaf.real.storage().id() == real => Some((i, leaf.real.byte_offset())),
        _ => None,
    };
    LEAVES.with_borrow(|l| l.list.iter().filter_map(of).collect())
}

/// The storage that a tensor lies in, if it is one from outside, and a tensor that has it.
pub(crate) fn source(t: &Tensor) -> Option<(usize, Owner)> {
    if let Some(of) = lifted::origin(t) {
        return source(&of);
    }
    let Some(w) = wrapper_of(t) else {
        let outside = t.made_during_capture().is_none() && t.storage().has_data();
        return outside.then(|| (t.storage().id(), Owner::Tensor(Held::new(t.clone()))));
    };
    let id = w.storage.real?;
    LEAVES.with_borrow(|l| {
        let of_storage = |leaf: &&Leaf| {
            let merged = matches!(leaf.owner, Owner::Merged(_));
            leaf.real.storage().id() == id && !leaf.made_inside && !merged
        };
        let leaves = || l.list.iter().filter(of_storage);
        let viewed = |leaf: &&Leaf| {
            wrapper_of(&leaf.wrapper).is_some_and(|of| Arc::ptr_eq(&of.storage, &w.storage))
        };
        // itself, or the one that it is a view of
        let leaf = (leaves().find(|leaf| leaf.wrapper.same_handle(t)))
            .or_else(|| leaves().find(viewed))
            .or_else(|| leaves().next())?;
        Some((id, leaf.owner.clone()))
    })
}

/// The tensor from outside that a stand-in or the tensor itself is.
pub(crate) fn original(t: &Tensor) -> Option<(Tensor, Owner)> {
    if wrapper_of(t).is_none() {
        let outside = t.made_during_capture().is_none();
        return outside.then(|| (t.clone(), Owner::Tensor(Held::new(t.clone()))));
    }
    let of = |leaf: &&Leaf| leaf.wrapper.same_handle(t) && !leaf.made_inside;
    LEAVES.with_borrow(|l| {
        let leaf = l.list.iter().find(of)?;
        Some((leaf.real.clone(), leaf.owner.clone()))
    })
}

/// Whether a tensor that the captured function holds was there before: an argument or closed over.
pub(crate) fn is_outside(t: &Tensor) -> bool {
    const LAYERS: [DispatchKey; 2] =
        [DispatchKey::FuncTorchGradWrapper, DispatchKey::FuncTorchBatched];
    match wrapper_of(t) {
        // a transform within the function has made it
        None if LAYERS.iter().any(|key| t.key_set().has(*key)) => false,
        None => t.made_during_capture().is_none(),
        Some(_) => LEAVES
            .with_borrow(|l| l.list.iter().any(|l| !l.made_inside && l.wrapper.same_handle(t))),
    }
}

/// How often the captured function has written the memory of a tensor that it closes over.
pub(crate) fn stand_in_writes(t: &Tensor) -> u64 {
    let id = t.storage().id();
    LEAVES.with_borrow(|l| l.stand_ins.get(&id).map_or(0, Storage::version))
}

/// The wrapper of a tensor that the function closes over.
pub(super) fn wrap_closed_over(real: &Tensor) -> Result<Tensor> {
    let known = |l: &Leaves| Some(l.list[*l.by_id.get(&real.id())?].wrapper.clone());
    if let Some(found) = LEAVES.with_borrow(known) {
        return Ok(found);
    }
    let wrapper = wrap_leaf(real, Owner::Tensor(Held::new(real.clone())))?;
    LEAVES.with_borrow_mut(|l| l.by_id.insert(real.id(), l.list.len() - 1));
    Ok(wrapper)
}

/// The wrapper of an argument. It is a leaf of its own even when the function also closes over that
/// tensor: a later call may bring another one.
pub(crate) fn wrap_argument(real: &Tensor, index: usize) -> Result<Tensor> {
    wrap_leaf(real, Owner::Input(index))
}

fn wrap_leaf(real: &Tensor, owner: Owner) -> Result<Tensor> {
    if let Some((what, instead)) = real.kind_without_memory() {
        return Err(Error::new(ErrorKind::Opaque {
            what: "compile() without `eager_fallback`".into(),
            tensor: format!("{what}, {real:?}"),
            instead,
        }));
    }
    if real.is_fake() {
        return Err(Error::new(ErrorKind::Opaque {
            what: "compile()".into(),
            tensor: format!("a fake tensor, {}{:?}", real.dtype(), real.sizes()),
            instead: "pass it as an argument: a compiled function runs eagerly on fake arguments",
        }));
    }
    if real.has_math_bits() {
        return Err(outside::refuse(
            "a closed-over tensor that is a conjugate or negative view, or stands for zeros,",
            "a plan reads memory as it lies: close over what `resolve_conj()` and `resolve_neg()` give, or pass the tensor \
             as an argument",
            None,
        ));
    }
    let made_inside =
        real.made_during_capture().is_some() && real.made_during_capture() == tracer::current();
    let id = real.storage().id();
    let changed = |l: &Leaf| {
        (l.real.storage().id() == id && has_grown(&l.wrapper))
            || (l.real.same_handle(real) && l.wrapper.is_reshaped())
    };
    if LEAVES.with_borrow(|l| l.list.iter().any(changed)) {
        return Err(outside::limit(
            "a tensor whose shape changed is, or shares its memory with, one that is used later, which cannot be captured: take a copy first (`copied()`)",
        ));
    }
    let merged = LEAVES.with_borrow(|l| l.merge.get(&id).cloned());
    let wrapper = match merged.filter(|m| !made_inside && lies_in(real, &m.range)) {
        Some(merged) => wrap_merged(real, &owner, merged)?,
        None => wrap_alone(real, &owner)?,
    };
    LEAVES.with_borrow_mut(|l| {
        l.list.push(Leaf {
            real: real.clone(),
            wrapper: wrapper.clone(),
            owner,
            made_inside,
            flat: false,
        });
    });
    Ok(wrapper)
}

fn lies_in(t: &Tensor, range: &Range<i64>) -> bool {
    let own = Layout::of(t).bytes();
    range.start <= own.start && own.end <= range.end
}

/// A node of its own.
fn wrap_alone(real: &Tensor, owner: &Owner) -> Result<Tensor> {
    let value = match owner {
        Owner::Input(i) => input_node(&format!("x{i}"), real, InputSlot::Argument(*i))?,
        _ => parameter_node(real)?,
    };
    let layout = Layout::of(real);
    let id = Some(real.storage().id());
    let storage = FunctionalStorage::new(value.clone(), layout.clone(), stand_in(real), id);
    Ok(build(Arc::new(storage), Vec::new(), real, &layout, Some(value)))
}

/// A view of the flat node that stands for all of its storage that is used.
fn wrap_merged(real: &Tensor, owner: &Owner, merged: Merged) -> Result<Tensor> {
    let id = real.storage().id();
    let known = LEAVES.with_borrow(|l| l.merged.get(&id).cloned());
    let storage = match known {
        Some(storage) => storage,
        None => {
            let (storage, whole, source) = flat(real, owner, merged.range)?;
            let storage = Arc::new(storage);
            LEAVES.with_borrow_mut(|l| l.merged.insert(id, storage.clone()));
            if merged.beside {
                // what lies beside the leaves is written back with all of it
                let wrapper = build(storage.clone(), Vec::new(), &whole, &storage.layout, None);
                LEAVES.with_borrow_mut(|l| {
                    l.list.push(Leaf {
                        real: whole,
                        wrapper,
                        owner: source,
                        made_inside: false,
                        flat: true,
                    });
                });
            }
            storage
        }
    };
    if storage.layout.dtype != real.dtype() {
        return Err(outside::limit(format!(
            "tensors of dtypes {} and {} share memory and one of them is written, which cannot be \
             captured: pass one of them only, and take views of it inside the function",
            storage.layout.dtype,
            real.dtype()
        )));
    }
    let step = as_strided_step(&storage, real.sizes(), real.strides(), real.offset())?;
    Ok(build(storage, vec![Arc::new(step)], real, &Layout::of(real), None))
}

/// `as_strided` of a base, with a position in the storage.
pub(super) fn as_strided_step(
    storage: &FunctionalStorage,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<ViewStep> {
    Ok(ViewStep {
        op: handle_of(Op::as_strided)?,
        args: vec![
            Value::None,
            Value::IntList(sizes.to_vec()),
            Value::IntList(strides.to_vec()),
            Value::Int(offset - storage.layout.offset),
        ],
        viewed: 0,
        output: 0,
    })
}

/// A flat node for the bytes `range` of a tensor's storage: the functional storage, the real
/// tensor, and how it is found at a call.
fn flat(
    real: &Tensor,
    owner: &Owner,
    range: Range<i64>,
) -> Result<(FunctionalStorage, Tensor, Owner)> {
    let size = real.dtype().size() as i64;
    if range.start % size != 0 || (range.end - range.start) % size != 0 {
        return Err(outside::limit(
            "tensors of dtypes of different sizes share memory and one of them is written, which \
             cannot be captured: pass one of them only",
        ));
    }
    let layout = Layout {
        dtype: real.dtype(),
        sizes: Dims::from_slice(&[(range.end - range.start) / size]),
        strides: Dims::from_slice(&[1]),
        offset: range.start / size,
    };
    let whole = Tensor::build(
        real.storage().clone(),
        layout.dtype,
        real.device(),
        &layout.sizes,
        &layout.strides,
        layout.offset,
    );
    let (value, source) = match owner {
        Owner::Input(i) => {
            let slot = InputSlot::Merged {
                argument: *i,
                start: range.start - real.byte_offset(),
                meta: whole.meta(),
            };
            let at = LEAVES.with_borrow(|l| l.sources.inputs.len());
            let value = input_node(&format!("base{i}"), &whole, slot)?;
            (value, Owner::Merged(at))
        }
        _ => (parameter_node(&whole)?, Owner::Tensor(Held::new(whole.clone()))),
    };
    let id = Some(real.storage().id());
    let storage = FunctionalStorage::new(value, layout, stand_in(real), id);
    Ok((storage, whole, source))
}

fn input_node(name: &str, t: &Tensor, slot: InputSlot) -> Result<Tensor> {
    LEAVES.with_borrow_mut(|l| l.sources.inputs.push(slot));
    tracer::with_recording(|r| Ok(r.leaf(name, t, true)))
}

fn parameter_node(t: &Tensor) -> Result<Tensor> {
    let at = LEAVES.with_borrow_mut(|l| {
        l.sources.parameters.push(Held::new(t.clone()));
        l.sources.parameters.len() - 1
    });
    tracer::with_recording(|r| Ok(r.leaf(&format!("p{at}"), t, false)))
}

/// What stands for the tensor's storage: one for all leaves in it, so that the function sees which
/// share memory.
fn stand_in(real: &Tensor) -> Storage {
    LEAVES.with_borrow_mut(|l| {
        l.stand_ins
            .entry(real.storage().id())
            .or_insert_with(|| Storage::without_data(real.storage().bytes()))
            .clone()
    })
}

/// Asks for a flat node for the storage of a leaf: its own node does not have these bytes.
pub(super) fn want(real: usize, bytes: Range<i64>) {
    let beside = true;
    let range = bytes;
    LEAVES.with_borrow_mut(|l| extend(&mut l.wanted, real, Merged { range, beside }));
}

fn extend(all: &mut MergedStorages, real: usize, more: Merged) {
    let m = all.entry(real).or_insert_with(|| more.clone());
    m.range = m.range.start.min(more.range.start)..m.range.end.max(more.range.end);
    m.beside |= more.beside;
}

/// The storages that must be merged for the function to be captured: those with a written leaf that
/// overlaps another one, and those reached beside their leaves. `None` if all is well.
pub(crate) fn conflicts() -> Option<MergedStorages> {
    LEAVES.with_borrow(|l| {
        let mut wanted = l.merge.clone();
        for (id, more) in &l.wanted {
            extend(&mut wanted, *id, more.clone());
        }
        let of = |leaf: &Leaf| Merged { range: Layout::of(&leaf.real).bytes(), beside: false };
        for (i, a) in l.list.iter().enumerate() {
            for b in &l.list[i + 1..] {
                if collide(a, b) {
                    extend(&mut wanted, a.real.storage().id(), of(a));
                    extend(&mut wanted, b.real.storage().id(), of(b));
                }
            }
        }
        // all leaves in such a storage are merged
        for leaf in l.list.iter().filter(|leaf| !leaf.made_inside) {
            let id = leaf.real.storage().id();
            if wanted.contains_key(&id) {
                extend(&mut wanted, id, of(leaf));
            }
        }
        (wanted != l.merge).then_some(wanted)
    })
}

/// Whether a flat node stands for bytes between the leaves, which are not written back with them.
pub(super) fn has_gaps(real: usize, storage: &FunctionalStorage) -> bool {
    LEAVES.with_borrow(|l| {
        let flat = l.merged.get(&real);
        flat.is_some_and(|flat| std::ptr::eq(&**flat, storage))
            && l.merge.get(&real).is_some_and(|m| !m.beside)
    })
}

/// Whether the leaf is a view of a flat node.
pub(crate) fn is_merged(leaf: &Leaf) -> bool {
    let id = leaf.real.storage().id();
    wrapper_of(&leaf.wrapper).is_some_and(|w| {
        LEAVES.with_borrow(|l| l.merged.get(&id).is_some_and(|m| Arc::ptr_eq(m, &w.storage)))
    })
}

/// Two leaves in one place, apart from each other, and one of them written.
fn collide(a: &Leaf, b: &Leaf) -> bool {
    if a.made_inside || b.made_inside || !a.real.shares_storage_with(&b.real) {
        return false;
    }
    let (Some(wa), Some(wb)) = (wrapper_of(&a.wrapper), wrapper_of(&b.wrapper)) else {
        return false;
    };
    let written = is_written(&a.wrapper) || is_written(&b.wrapper);
    let (ra, rb) = (Layout::of(&a.real).bytes(), Layout::of(&b.real).bytes());
    let meet = ra.start < rb.end && rb.start < ra.end;
    written && meet && !Arc::ptr_eq(&wa.storage, &wb.storage)
}
