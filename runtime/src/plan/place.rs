//! Where the operands of a step are during a run.

use crate::cpu::jit::RunContext;
use std::sync::Arc;
use straightline_passes::ir::{DType, Dims};
use straightline_passes::schedule::loops::{BufferKind, BufferView, Schedule};

/// Where a buffer is during a run.
#[derive(Clone, Debug)]
enum Place {
    /// An input or a parameter, in the argument table.
    Given(usize),
    /// In the argument table, and how many bytes behind.
    Output(usize, usize),
    Constant(Arc<[u8]>),
    Arena(usize),
}

/// A view with its buffer resolved.
#[derive(Clone, Debug)]
pub(super) struct Located {
    place: Place,
    bytes: isize,
    pub(super) dtype: DType,
    pub(super) sizes: Dims,
    pub(super) strides: Dims,
}

impl Located {
    pub(super) fn new(schedule: &Schedule, view: &BufferView) -> Located {
        let (mut inputs, mut parameters) = (0, 0);
        for b in &schedule.buffers {
            match b.kind {
                BufferKind::Input(i) => inputs = inputs.max(i as usize + 1),
                BufferKind::Parameter(i) => parameters = parameters.max(i as usize + 1),
                _ => {}
            }
        }
        let place = match &schedule.buffer(view.buffer).kind {
            BufferKind::Input(i) => Place::Given(*i as usize),
            BufferKind::Parameter(i) => Place::Given(inputs + *i as usize),
            BufferKind::Output(i) => Place::Output(inputs + parameters + *i as usize, 0),
            BufferKind::Within { output, offset } => {
                Place::Output(inputs + parameters + *output as usize, *offset)
            }
            BufferKind::Constant(c) => Place::Constant(c.clone()),
            BufferKind::Arena { offset } => Place::Arena(*offset),
        };
        Located {
            place,
            bytes: view.offset as isize * view.dtype.size() as isize,
            dtype: view.dtype,
            sizes: view.sizes.clone(),
            strides: view.strides.clone(),
        }
    }

    /// Whether both are the same elements of the same input or parameter.
    pub(super) fn is_same_argument(&self, other: &Located) -> bool {
        let place = |l: &Located| match l.place {
            Place::Given(slot) => Some(slot),
            _ => None,
        };
        place(self).is_some() && place(self) == place(other) && self.bytes == other.bytes
    }

    /// The first element and, for arguments, the version of their storage.
    pub(super) fn resolve(&self, run: &RunContext) -> (*mut u8, u64) {
        // SAFETY: the table has an entry for each input, parameter and output of the schedule.
        let given = |slot: &usize| unsafe { *run.args.add(*slot) };
        let (base, version) = match &self.place {
            Place::Given(slot) => (given(slot).ptr, given(slot).version),
            Place::Output(slot, behind) => (given(slot).ptr.wrapping_add(*behind), 0),
            Place::Constant(c) => (c.as_ptr().cast_mut(), 0),
            Place::Arena(offset) => (run.arena.wrapping_add(*offset), 0),
        };
        (base.wrapping_offset(self.bytes), version)
    }
}
