//! Which operator gets which kernel at `Autograd`.

use super::by_hand;
use super::error::AutogradError;
use super::record::Recorder;
use super::rules;
use crate::dispatch::{
    BelowAutograd, DispatchKey, DispatchKeySet, Kernel, Library, OperatorHandle, Stack, Value,
    forward_enabled, grad_enabled,
};
use crate::error::Result;
use straightline_catalog::Op;
use straightline_catalog::entry::ENTRIES;

/// Registers the autograd kernels of all operators.
pub(crate) fn register() -> Result<()> {
    crate::dispatch::set_recorder(super::outside::record);
    let mut kernels = Vec::new();
    kernels.extend(by_hand::kernels());
    for (op, rule, kernel) in rules::RECORDED {
        if !kernels.iter().any(|(by_hand, _)| by_hand == op) {
            kernels.push((*op, kernel(Recorder::new(*op, rule))?));
        }
    }
    for entry in ENTRIES.iter().filter(|e| e.declares && e.op.schema().is_out_variant()) {
        if !is_composite(entry.op) {
            kernels.push((entry.op, Kernel::boxed(refuse_out)));
        }
    }
    for namespace in ["aten", "prims"] {
        let mut library = Library::implementation(namespace, DispatchKey::Autograd)?;
        library.own();
        for (op, kernel) in &kernels {
            if op.schema().name.namespace() == Some(namespace) {
                library.impl_(op.name(), kernel.clone().for_recording())?;
            }
        }
        library.leak();
    }
    Ok(())
}

/// Whether an operator is differentiated through its parts.
fn is_composite(op: Op) -> bool {
    crate::dispatch::handle_of(op)
        .is_ok_and(|op| op.registers(DispatchKey::CompositeImplicitAutograd))
}

/// What writes into an `out` has no history.
fn refuse_out(op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let wants = |v: &Value| v.tensors().any(|t| t.requires_grad());
    if grad_enabled() && stack.iter().any(wants) {
        let function = op.name().base().to_string();
        return Err(AutogradError::Out { function }.into());
    }
    if forward_enabled() {
        for t in stack.iter().flat_map(Value::tensors).filter(|t| t.may_be_dual()) {
            if super::tangent_of(t)?.is_some() {
                let function = op.name().base().to_string();
                return Err(AutogradError::ForwardOut { function }.into());
            }
        }
    }
    let _below = BelowAutograd::enter();
    op.redispatch_boxed(keys & DispatchKeySet::AFTER_AUTOGRAD, stack)
}
