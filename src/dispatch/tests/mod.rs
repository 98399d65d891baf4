//! The dispatcher against c10's rules. Tests share one process-wide dispatcher: each uses a
//! namespace of its own, and those that add fallbacks take turns.

mod calls;
mod concurrency;
mod invariants;
mod precedence;
mod registration;

use super::*;
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use std::sync::{Mutex, MutexGuard, PoisonError};
use straightline_catalog::{DType, Device, Dims, Scalar};

/// Held by tests that add fallbacks or look at whole tables.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_keys(keys: DispatchKeySet) -> Tensor {
    let storage = Storage::without_data(0);
    let sizes = Dims::from_slice(&[0]);
    let strides = Dims::from_slice(&[1]);
    Tensor::build_with(storage, DType::F32, Device::META, sizes, strides, 0, keys, None)
}

/// A tensor that carries some keys and no data.
fn tensor(keys: &[DispatchKey]) -> Tensor {
    with_keys(DispatchKeySet::of(keys))
}

/// A tensor as a backend makes it.
fn cpu() -> Tensor {
    with_keys(DispatchKeySet::for_dense_tensor(BackendComponent::CPU))
}

/// A boxed kernel for `(..) -> int` that says who it is.
fn says(id: i64) -> Kernel {
    Kernel::boxed(move |op, _, stack| {
        let args = op.arity()?;
        stack.truncate(stack.len() - args);
        stack.push(Value::Int(id));
        Ok(())
    })
}

fn int(stack: &[Value]) -> i64 {
    match stack {
        [Value::Int(i)] => *i,
        other => panic!("not one int: {other:?}"),
    }
}

fn message<T>(result: crate::Result<T>) -> String {
    match result {
        Ok(_) => panic!("should have failed"),
        Err(e) => e.to_string(),
    }
}
