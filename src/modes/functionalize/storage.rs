//! The memory of functional tensors: the value of a base, and the writes that it has not seen yet.

use super::inverse;
use crate::dispatch::{OperatorHandle, Value};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use straightline_catalog::{DType, Dims, Op, layout};

/// Where the elements of a tensor lie in its storage, in elements of its dtype.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Layout {
    pub(super) dtype: DType,
    pub(super) sizes: Dims,
    pub(super) strides: Dims,
    pub(super) offset: i64,
}

impl Layout {
    pub(super) fn of(t: &Tensor) -> Layout {
        Layout {
            dtype: t.dtype(),
            sizes: Dims::from_slice(t.sizes()),
            strides: Dims::from_slice(t.strides()),
            offset: t.offset(),
        }
    }

    /// The bytes between the first element and the end of the last, in the storage.
    pub(super) fn bytes(&self) -> std::ops::Range<i64> {
        layout::reached_bytes(self.dtype.size(), &self.sizes, &self.strides, self.offset)
    }

    /// Whether the elements fill their range, each place once.
    pub(super) fn is_dense(&self) -> bool {
        layout::is_non_overlapping_and_dense(&self.sizes, &self.strides)
    }

    /// Whether some element may lie where another one does.
    pub(super) fn overlaps_itself(&self) -> bool {
        layout::may_overlap(&self.sizes, &self.strides)
    }
}

/// The views that lead from a base to a tensor, shared with those of the tensors between.
pub(super) type Chain = Vec<Arc<ViewStep>>;

/// One view operator of a chain, with its arguments.
#[derive(Clone)]
pub(super) struct ViewStep {
    pub(super) op: OperatorHandle,
    /// All arguments, values instead of wrappers; the viewed one is put in at each replay.
    pub(super) args: Vec<Value>,
    /// Which argument is viewed.
    pub(super) viewed: usize,
    /// Which of several results.
    pub(super) output: usize,
}

impl ViewStep {
    /// Whether it is `op`.
    pub(super) fn is(&self, op: Op) -> bool {
        self.op.is(op)
    }

    /// The view of `value`.
    pub(super) fn apply(&self, value: &Tensor) -> Result<Tensor> {
        let mut stack = self.args.clone();
        stack[self.viewed] = Value::Tensor(value.clone());
        self.op.call_boxed(&mut stack)?;
        let found = match stack.pop() {
            Some(Value::Tensor(t)) if self.output == 0 => Some(t),
            Some(Value::TensorList(mut list)) if self.output < list.len() => {
                Some(list.swap_remove(self.output))
            }
            _ => None,
        };
        found.ok_or_else(|| {
            Error::compile(format!(
                "view operator `{}` did not return result {}",
                self.op.name(),
                self.output
            ))
        })
    }
}

/// The value of a base after the views of a chain.
pub(super) fn replay(chain: &[Arc<ViewStep>], base: &Tensor) -> Result<Tensor> {
    let mut value = base.clone();
    for step in chain {
        value = step.apply(&value)?;
    }
    Ok(value)
}

/// A write that the base has not seen.
pub(super) struct Update {
    pub(super) new: Tensor,
    pub(super) chain: Chain,
    /// Where the written elements lie.
    pub(super) layout: Layout,
}

struct State {
    base: Tensor,
    pending: Vec<Update>,
    generation: u64,
}

/// The memory that wrappers share.
pub(super) struct FunctionalStorage {
    /// Where the base lies in it.
    pub(super) layout: Layout,
    /// What `storage()` of the wrappers is; it has no bytes.
    pub(super) stand_in: Storage,
    /// The storage of a tensor from outside that this stands for, by its identity.
    pub(super) real: Option<usize>,
    state: Mutex<State>,
}

pub(super) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FunctionalStorage {
    pub(super) fn new(
        base: Tensor,
        layout: Layout,
        stand_in: Storage,
        real: Option<usize>,
    ) -> FunctionalStorage {
        FunctionalStorage {
            layout,
            stand_in,
            real,
            state: Mutex::new(State { base, pending: Vec::new(), generation: 0 }),
        }
    }

    /// The number of writes.
    pub(super) fn generation(&self) -> u64 {
        lock(&self.state).generation
    }

    /// The value of the base, if it has seen all writes.
    pub(super) fn seen(&self) -> Option<Tensor> {
        let state = lock(&self.state);
        state.pending.is_empty().then(|| state.base.clone())
    }

    /// Queues a write.
    pub(super) fn commit_update(&self, update: Update) {
        {
            let mut state = lock(&self.state);
            state.pending.push(update);
            state.generation += 1;
        }
        // what a gradient keeps of the old value must not be taken for the new one
        if let Some(guard) = self.stand_in.try_hold() {
            self.stand_in.count_write(&guard);
        }
    }

    /// Applies the queued writes; the value of the base, and its generation.
    pub(super) fn apply_updates(&self) -> Result<(Tensor, u64)> {
        let (mut base, pending, generation) = {
            let mut state = lock(&self.state);
            let pending = std::mem::take(&mut state.pending);
            (state.base.clone(), pending, state.generation)
        };
        if pending.is_empty() {
            return Ok((base, generation));
        }
        for update in pending {
            let new = inverse::updated_base(self, &base, &update)?;
            base = self.in_layout(&base, new)?;
        }
        lock(&self.state).base = base.clone();
        Ok((base, generation))
    }

    /// A new value of the base in the base's own strides: views are taken of it.
    fn in_layout(&self, old: &Tensor, new: Tensor) -> Result<Tensor> {
        if new.strides() == self.layout.strides.as_slice() {
            Ok(new)
        } else {
            aten::copy(old, &new, false)
        }
    }
}
