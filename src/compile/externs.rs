//! Operators without a loop form, called by the plan without the dispatcher.
//!
//! The operator's CPU kernel is looked up once, when the code is generated. It works on tensors. A
//! kernel of this crate gets tensors over the plan's own memory, for the length of the call, if the
//! schema says that it neither writes nor returns an operand. A kernel from outside might keep a
//! tensor that it was given, or write it, so it gets copies; one that writes, as its schema says,
//! does so on the copies, and what it wrote is a result. A kernel of ours is also offered the
//! plan's memory for its results; a result that it put elsewhere is copied there.

use super::bodies;
use crate::dispatch::unread::Unread;
use crate::dispatch::{
    DispatchKey, DispatchKeySet, Kernel, OperatorHandle, Stack, Value, handle_of,
};
use crate::error::Result;
use crate::modes::functionalize::{self, Derived};
use crate::ops::copy;
use crate::tensor::placement::{self, Offer};
use crate::tensor::storage::Storage;
use crate::tensor::{Tensor, access};
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Arc;
use straightline_catalog::schema::{FunctionSchema, SchemaType};
use straightline_catalog::{Arg, Op};
use straightline_catalog::{Device, Dims, Scalar, layout};
use straightline_passes::schedule::loops::{Extern, Schedule, Step};
use straightline_runtime::cpu::kernels::{self, In, Out, Strided};
use straightline_runtime::plan::{ExternCtx, ExternRegistry, View, ViewMut};

/// The tag of operators whose result is memory as it is, which the plan has.
pub(super) const UNSET: &str = "unset";

/// The kernels that a schedule's extern steps need.
pub(super) fn registry(schedule: &Schedule) -> Result<Arc<ExternRegistry>> {
    let mut names = BTreeSet::new();
    for step in &schedule.steps {
        if let Step::Extern(Extern::Op { op, .. }) = step {
            names.insert(*op);
        }
    }
    let mut registry = ExternRegistry::new();
    for name in names {
        if let Some(kernel) = bodies::kernel(schedule, name, self::registry)? {
            registry.register(name, move |ctx: &ExternCtx<'_>| kernel(ctx));
            continue;
        }
        let op = handle_of(name)?;
        let schema = name.schema();
        let derived = functionalize::derived(op);
        let (kernel, keys) = kernel_of(op, derived.as_ref(), DispatchKey::CPU)?;
        let aliased = schema.args.iter().any(|a| a.alias.is_some())
            || schema.returns.iter().any(|r| r.alias.is_some());
        let lend = kernel.is_own() && !aliased && derived.is_none();
        let row_major = reads_memory(name);
        if lend && op.tags().contains(&UNSET) {
            registry.register(name, |_: &ExternCtx<'_>| Ok(()));
            continue;
        }
        registry.register(name, move |ctx: &ExternCtx<'_>| {
            // dropped last, so that nothing keeps the plan's memory after the call
            let mut loans = Loans(Vec::new());
            let inputs = ctx
                .inputs
                .iter()
                .map(|view| {
                    let canonical = layout::contiguous_strides(view.sizes);
                    let lies = !row_major || canonical.as_slice() == view.strides;
                    let lent = if lend && lies { loans.tensor(view)? } else { None };
                    lent.map_or_else(|| to_tensor(view, row_major), Ok)
                })
                .collect::<Result<Vec<_>>>()?;
            let operands: Vec<&Tensor> = inputs.iter().collect();
            // loans cannot be written
            let _reads = if lend { access::read(&operands) } else { Ok(Default::default()) }?;
            let places = ctx.outputs.iter().filter(|_| lend).filter_map(place);
            let _unread = Unread::of(op, if lend { ctx.unread } else { 0 });
            // SAFETY: they are the plan's own memory for results, written by this step alone.
            let offer = unsafe { Offer::new(places) };
            let mut operand = |i: &u32| inputs[*i as usize].clone();
            let mut stack = to_stack(ctx.args, schema, &mut operand);
            match &derived {
                // the operands are copies, which it may write
                Some(d) => {
                    d.run(&kernel, keys, std::mem::take(&mut stack)).map(|results| stack = results)
                }
                None => kernel.call_boxed(op, keys, &mut stack),
            }
            .and_then(|()| deliver(&stack, ctx.outputs, &offer))
            .map_err(Into::into)
        });
    }
    Ok(Arc::new(registry))
}

/// The kernel of a call in a graph at a backend's key, and the keys that it is called with.
pub(super) fn kernel_of(
    op: OperatorHandle,
    derived: Option<&Derived>,
    backend: DispatchKey,
) -> Result<(Kernel, DispatchKeySet)> {
    match derived {
        Some(d) => d.original.first_kernel(backend),
        // rewriting introduced the call, so it means this crate's kernel
        None if op.is_replaced() => Ok((op.own_kernel_for(backend)?, backend.into())),
        None => op.first_kernel(backend),
    }
}

/// Whether an operator sees how its operand lies in memory. Rewriting keeps values, not their strides,
/// and elements of another size are made of neighbours.
pub(super) fn reads_memory(op: Op) -> bool {
    matches!(op, Op::view_dtype | Op::view_as_complex | Op::as_strided | Op::as_strided_scatter)
}

/// The memory of a result, for a kernel to compute into.
fn place(out: &ViewMut<'_>) -> Option<placement::Place> {
    let bytes = layout::storage_bytes(out.dtype.size(), out.sizes, out.strides, 0);
    let plain = bytes > 0 && out.ptr.addr().is_multiple_of(out.dtype.size());
    let data = NonNull::new(out.ptr).filter(|_| plain)?;
    Some(placement::Place { data, bytes, dtype: out.dtype })
}

/// Copies a kernel's results to the plan's memory, unless they are there already.
fn deliver(stack: &[Value], outputs: &[ViewMut<'_>], offer: &Offer) -> Result<()> {
    let results: Vec<&Tensor> = stack.iter().flat_map(Value::tensors).collect();
    ensure_compile!(
        results.len() == outputs.len(),
        "{} results, {} expected",
        results.len(),
        outputs.len()
    );
    offer.close();
    let mut elsewhere = Vec::new();
    for (t, out) in results.into_iter().zip(outputs) {
        let t = t.resolved()?;
        ensure_compile!(
            t.sizes() == out.sizes && t.dtype() == out.dtype,
            "the kernel returned {}{:?} where its Meta kernel said {}{:?}",
            t.dtype(),
            t.sizes(),
            out.dtype,
            out.sizes
        );
        let placed = offer.has_given(t.storage());
        if placed && t.data_ptr()? == out.ptr && same_order(&t, out.strides) {
            continue;
        }
        // a result that lies in another's place must be read before that place is overwritten
        let t = if placed { copy::clone_contiguous(&t)? } else { t };
        elsewhere.push((t, out));
    }
    for (t, out) in elsewhere {
        let out =
            Strided { ptr: out.ptr, dtype: out.dtype, sizes: out.sizes, strides: out.strides };
        let _guard = t.read()?;
        // SAFETY: `out` is the plan's own memory for this result, of the sizes and dtype just
        // checked; the result is held shared, and lies elsewhere.
        let (out, t) = unsafe { (Out::new(out), In::new(t.strided()?)) };
        kernels::copy(out, t)?;
    }
    Ok(())
}

/// Whether a tensor has these strides; strides of dimensions of size 1 are ignored.
fn same_order(t: &Tensor, strides: &[i64]) -> bool {
    let both = t.strides().iter().zip(strides);
    t.sizes().iter().zip(both).all(|(n, (a, b))| *n == 1 || a == b)
}

/// Storages over the plan's memory.
struct Loans(Vec<Storage>);

impl Loans {
    /// A tensor over an operand's own memory; `None` if it has to be a copy.
    fn tensor(&mut self, view: &View<'_>) -> Result<Option<Tensor>> {
        let bytes = layout::storage_bytes(view.dtype.size(), view.sizes, view.strides, 0);
        let plain = bytes > 0
            && !view.dtype.is_quantized()
            && view.strides.iter().all(|s| *s >= 0)
            && view.ptr.addr().is_multiple_of(view.dtype.size());
        let (true, Some(data)) = (plain, NonNull::new(view.ptr.cast_mut())) else {
            return Ok(None);
        };
        // SAFETY: the plan keeps the operand valid and unwritten during the call, and the loan ends
        // with it.
        let storage = unsafe { Storage::lend(data, bytes)? };
        self.0.push(storage.clone());
        Ok(Some(Tensor::build(storage, view.dtype, Device::CPU, view.sizes, view.strides, 0)))
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        for storage in self.0.drain(..) {
            storage.reclaim();
        }
    }
}

/// A copy of an operand: row-major if asked for, else in the operand's layout.
fn to_tensor(view: &View<'_>, row_major: bool) -> Result<Tensor> {
    let strides = match row_major {
        true => layout::contiguous_strides(view.sizes),
        false => layout::preserved_strides(view.sizes, view.strides),
    };
    let sizes = Dims::from_slice(view.sizes);
    let t = Tensor::allocate(view.dtype, Device::CPU, sizes, strides)?;
    let source = Strided {
        ptr: view.ptr.cast_mut(),
        dtype: view.dtype,
        sizes: view.sizes,
        strides: view.strides,
    };
    // SAFETY: t is fresh; the plan keeps the operand valid and unwritten during the call.
    let (to, from) = unsafe { (Out::new(t.strided()?), In::new(source)) };
    kernels::copy(to, from)?;
    Ok(t)
}

/// The arguments of a call in a graph as those of the dispatcher; `tensor` looks up the tensors, in the
/// order of the arguments.
pub(super) fn to_stack<V>(
    args: &[Arg<V>],
    schema: &FunctionSchema,
    tensor: &mut dyn FnMut(&V) -> Tensor,
) -> Stack {
    args.iter().zip(&schema.args).map(|(a, s)| to_value(a, &s.ty, tensor)).collect()
}

/// An argument in a graph as a value; `tensor` looks up its tensors.
fn to_value<V>(arg: &Arg<V>, ty: &SchemaType, tensor: &mut dyn FnMut(&V) -> Tensor) -> Value {
    match arg {
        Arg::None => Value::None,
        Arg::Tensor(i) => Value::Tensor(tensor(i)),
        Arg::Tensors(list) => match ty {
            SchemaType::List(t, _) if **t == SchemaType::Tensor => {
                Value::TensorList(list.iter().flatten().map(tensor).collect())
            }
            _ => Value::OptionalTensorList(
                (list.iter().map(|i| i.as_ref().map(&mut *tensor))).collect(),
            ),
        },
        Arg::Scalar(Scalar::Bool(b)) => Value::Bool(*b),
        Arg::Scalar(Scalar::Int(i)) => Value::Int(*i),
        Arg::Scalar(Scalar::Float(x)) => Value::Double(*x),
        Arg::Scalar(Scalar::Complex(re, im)) => Value::Complex(*re, *im),
        Arg::Ints(v) => Value::IntList(v.clone()),
        Arg::Floats(v) => Value::DoubleList(v.clone()),
        Arg::Bools(v) => Value::BoolList(v.clone()),
        Arg::Str(s) => Value::String(s.clone()),
        Arg::DType(d) => Value::DType(*d),
        Arg::Device(d) => Value::Device(*d),
        Arg::Layout(l) => Value::Layout(*l),
        Arg::MemoryFormat(m) => Value::MemoryFormat(*m),
        // no operator of the dispatcher takes one
        Arg::Graph(_) => Value::None,
    }
}
