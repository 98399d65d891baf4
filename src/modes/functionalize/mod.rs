//! Functionalisation: programs with views and in-place writes become programs without.
//!
//! Each tensor that the captured function sees is a *wrapper*: it has the shape and the strides of
//! the tensor that eager execution would have, and holds the functional value that stands for its
//! contents now. Wrappers that alias share a [`storage::FunctionalStorage`], which holds the value
//! of the base; a view remembers the chain of view operators from the base to itself.
//!
//! - A functional operator runs on the values, and its results are new bases.
//! - A view operator runs on the value, and its result shares the base.
//! - An in-place operator runs its functional form; the new value is queued as an update of the
//!   storage. A wrapper that is behind its storage applies the queued updates, each pushed through
//!   the inverses of its view chain, and replays its own chain on the new base.
//!
//! The rules are c10's (`FunctionalTensorWrapper`, `FunctionalStorageImpl`); values below are
//! traced tensors, so every step is recorded.
//!
//! | file | what |
//! |---|---|
//! | `storage` | the value of a base, queued updates, generations; chains of views |
//! | `wrapper` | wrapper tensors: wrap, sync, commit |
//! | `leaves` | tensors from outside: arguments and closed-over ones, and which share memory |
//! | `lifted` | branches and bodies of loops: graphs of their own, and what they use of the one around |
//! | `kernels` | what happens to a functional operator, a view, a write |
//! | `views` | view operators |
//! | `overlaps` | what kernels check of memory that a call writes |
//! | `kinds` | sparse, quantized and nested operands: their dense parts |
//! | `forms` | the functional variant of an operator that writes |
//! | `derived` | such a variant of an operator from outside that has none |
//! | `reshape` | operators that change the shape of their argument |
//! | `settle` | stand-ins that outlive their capture become ordinary tensors |
//! | `inverse` | from the new value of a view to the new value of what it views |

pub(crate) mod checked;
mod derived;
mod forms;
mod inverse;
mod kernels;
mod kinds;
mod leaves;
mod lifted;
mod overlaps;
pub(crate) mod random;
mod reshape;
mod settle;
mod storage;
mod views;
mod wrapper;

pub(crate) use derived::{Derived, called, derived};
pub(crate) use kernels::{composite, kernel, parts};
pub(crate) use leaves::{
    InputSlot, Leaf, MergedStorages, Owner, arguments_behind, begin, conflicts, is_merged,
    is_outside, is_written_constant, leaves, original, source, sources, stand_in_writes,
    take_leaves, wrap_argument,
};
pub(crate) use lifted::{Body, emit, handed, inside, lies_outside, subgraph, union};
pub(crate) use settle::{
    Memory, base, copy_in, memory, settle_constant, settle_in, settle_with, written_stand_in,
};
pub(crate) use wrapper::{
    Bits, Place, bits, covers, is_wrapper, is_written, made_inside, place, share_memory, unwrap,
    used_elsewhere, whole_base, whole_memory, wrap_value,
};

use crate::dispatch::{DispatchKey, DispatchKeySet, ExcludeGuard, TlsKeySets};

/// For the calls on values: excludes this key and explicitly included keys above it, whose kernels
/// have already seen the call on wrappers. The tracer stays active, to record.
fn below() -> ExcludeGuard {
    const THIS: DispatchKeySet = DispatchKeySet::of(&[DispatchKey::Functionalize]);
    const STAYS: DispatchKeySet = DispatchKeySet::PYTHON.add(DispatchKey::Tracer);
    let passed = TlsKeySets::current().included
        - DispatchKeySet::full_after(DispatchKey::Functionalize)
        - DispatchKeySet::ALL_BACKENDS
        - STAYS;
    ExcludeGuard::new(passed | THIS)
}
