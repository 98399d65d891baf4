//! Structured operators: a functional, an in-place and an `out` variant of one computation.
//!
//! An entry `structured: [add.Tensor, add_.Tensor]` at the schema of `add.out` registers
//!
//! - for `add.out`: a CPU and a Meta kernel, which run the functional variant and write its result
//!   into `out`; functionalisation finds the functional variant by itself, through the schemas;
//! - for `add.Tensor` and `add_.Tensor`: kernels at `CompositeExplicitAutogradNonFunctional`, which
//!   ask the Meta kernel for the result's shape, allocate it with `aten::empty_strided`, and call
//!   `add.out`. A backend that has `empty_strided` and `add.out` thereby has all three.
//!
//! What becomes of an `out` of another shape or dtype is for `variants` to say.

use crate::dispatch::meta;
use crate::dispatch::{
    DispatchError, DispatchKey as K, Kernel, Library, OperatorHandle, Stack, Value, hold_arguments,
};
use crate::error::Result;
use crate::ops::aten;
use crate::ops::foreign::{backend_of, decompose, is_for_fallback};
use crate::ops::forms::variants;
use crate::tensor::Tensor;
use std::sync::OnceLock;
use straightline_catalog::Device;
use straightline_catalog::Op;
use straightline_catalog::entry::Entry;
use straightline_catalog::schema::FunctionSchema;

/// Registers the kernels that tie an entry's `out` to the variants that it names: functional, and
/// perhaps in-place.
pub(crate) fn register(library: &mut Library, entry: &Entry) -> Result<()> {
    if let [functional, inplace @ ..] = entry.structured {
        let out = entry.op;
        for key in [K::CPU, K::Meta] {
            let kernel = variants::of(*functional, entry.out, key);
            library.impl_at(out.unqualified(), key, kernel)?;
        }
        let composite = K::CompositeExplicitAutogradNonFunctional;
        library.impl_at(functional.unqualified(), composite, through_out(out))?;
        for op in inplace {
            library.impl_at(op.unqualified(), composite, in_place_through_out(out))?;
        }
    }
    Ok(())
}

/// An operator of `aten`, looked up at its first use: the variants register in any order.
pub(crate) struct Variant {
    op: Op,
    found: OnceLock<OperatorHandle>,
}

impl Variant {
    pub(crate) const fn new(op: Op) -> Variant {
        Variant { op, found: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Result<OperatorHandle> {
        match self.found.get() {
            Some(op) => Ok(*op),
            None => {
                let op = crate::dispatch::handle_of(self.op)?;
                Ok(*self.found.get_or_init(|| op))
            }
        }
    }
}

pub(crate) fn schema_of(op: OperatorHandle) -> Result<&'static FunctionSchema> {
    op.schema().ok_or_else(|| {
        DispatchError::NotFound {
            name: op.name().name.clone(),
            overload: op.name().overload.clone(),
            implemented: true,
            similar: Vec::new(),
        }
        .into()
    })
}

/// Takes the operator's arguments off the stack.
pub(crate) fn arguments(op: OperatorHandle, stack: &mut Stack) -> Result<Vec<Value>> {
    let want = schema_of(op)?.args.len();
    match stack.len().checked_sub(want) {
        Some(0) => Ok(std::mem::take(stack)),
        Some(at) => Ok(stack.split_off(at)),
        None => Err(DispatchError::StackUnderflow {
            op: op.name().to_string(),
            want,
            have: stack.len(),
        }
        .into()),
    }
}

/// What the operator would return, as tensors that have shapes only, and the device of its
/// arguments.
pub(crate) fn shapes(op: OperatorHandle, args: &[Value]) -> Result<(Vec<Tensor>, Device)> {
    let (results, _) = meta::run(op, args)?;
    let tensors = || args.iter().flat_map(Value::tensors);
    let device = tensors()
        .find(|t| t.dim() > 0 || !t.device().is_cpu())
        .or_else(|| tensors().next())
        .map_or(Device::CPU, Tensor::device);
    Ok((results.iter().flat_map(Value::tensors).cloned().collect(), device))
}

/// Whether the `out` that this backend has is itself made of the functional variant: the two would
/// call each other.
fn is_circular(op: OperatorHandle, out: OperatorHandle, args: &[Value]) -> bool {
    out.registers(K::CompositeExplicitAutograd) && !out.registers(backend_of(op, args))
}

/// The functional variant for every backend that has `out`.
fn through_out(out: Op) -> Kernel {
    let out = Variant::new(out);
    Kernel::boxed(move |op, _, stack| {
        let mut args = arguments(op, stack)?;
        if is_circular(op, out.get()?, &args) {
            stack.extend(args);
            return decompose(op, stack);
        }
        let (shapes, device) = shapes(op, &args)?;
        for s in shapes {
            let (dtype, device) = (Some(s.dtype()), Some(device));
            let fresh = aten::empty_strided(s.sizes(), s.strides(), dtype, None, device, None)?;
            args.push(fresh.into());
        }
        out.get()?.call_boxed(&mut args)?;
        stack.extend(args);
        Ok(())
    })
}

/// The in-place variant for every backend that has `out`.
fn in_place_through_out(out: Op) -> Kernel {
    let out = Variant::new(out);
    Kernel::boxed(move |op, _, stack| {
        let mut args = arguments(op, stack)?;
        if is_for_fallback(out.get()?, op, &args) {
            stack.extend(args);
            return decompose(op, stack);
        }
        let of = args.clone();
        let _whole = hold_arguments(schema_of(op)?, &of)?;
        // what is written in place does not grow as an `out` does: the Meta kernel refuses other
        // sizes
        shapes(op, &args)?;
        let target = args[0].clone();
        args.push(target.clone());
        out.get()?.call_boxed(&mut args)?;
        stack.push(target);
        Ok(())
    })
}
