//! Where the operands of a step are during a run.

use super::PlanError;
use crate::cpu::jit::RunContext;
use std::sync::Arc;
use straightline_passes::ir::{DType, Dims};
use straightline_passes::schedule::loops::{BufferKind, BufferView, Schedule};

/// A tensor argument of one call.
#[derive(Clone, Copy, Debug)]
pub struct ArgPtr {
    /// The tensor's first element.
    pub ptr: *mut u8,
    /// The version counter of its storage: a packed copy of a parameter is made anew when it
    /// changes.
    pub version: u64,
}

impl ArgPtr {
    /// An argument of version 0.
    pub fn new(ptr: *mut u8) -> ArgPtr {
        ArgPtr { ptr, version: 0 }
    }
}

/// What extern steps see of a run besides the pointers.
pub(super) struct HostState<'a> {
    pub(super) inputs: &'a [ArgPtr],
    pub(super) parameters: &'a [ArgPtr],
    pub(super) error: Option<PlanError>,
}

/// Where a buffer is during a run.
#[derive(Clone, Debug)]
enum Place {
    Input(usize),
    Parameter(usize),
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
            BufferKind::Input(i) => Place::Input(*i as usize),
            BufferKind::Parameter(i) => Place::Parameter(*i as usize),
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
            Place::Input(i) => Some((false, i)),
            Place::Parameter(i) => Some((true, i)),
            _ => None,
        };
        place(self).is_some() && place(self) == place(other) && self.bytes == other.bytes
    }

    /// The first element and, for arguments, the version of their storage.
    pub(super) fn resolve(&self, run: &RunContext, host: &HostState<'_>) -> (*mut u8, u64) {
        let (base, version) = match &self.place {
            Place::Input(i) => (host.inputs[*i].ptr, host.inputs[*i].version),
            Place::Parameter(i) => (host.parameters[*i].ptr, host.parameters[*i].version),
            Place::Output(slot, behind) => {
                // SAFETY: the table has an entry for each output of the schedule.
                let output = unsafe { *run.args.add(*slot) };
                (output.wrapping_add(*behind), 0)
            }
            Place::Constant(c) => (c.as_ptr().cast_mut(), 0),
            Place::Arena(offset) => (run.arena.wrapping_add(*offset), 0),
        };
        (base.wrapping_offset(self.bytes), version)
    }
}
