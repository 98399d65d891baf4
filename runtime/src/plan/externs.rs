//! Steps that are not generated code: runtime kernels, called by the generated function.

use super::matmul::MatmulStep;
use super::{ArgPtr, ExternError, Panicked, PlanError};
use crate::cpu::jit::{EXTERN_FAILED, ExternCall, RunContext};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use straightline_passes::ir::{Arg, Op};
use straightline_passes::ir::{DType, Dims};
use straightline_passes::schedule::loops::{BufferKind, BufferView, Extern, Schedule, Step};

/// A tensor that a runtime kernel reads.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The first element.
    pub ptr: *const u8,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: &'a [i64],
    /// Strides in elements.
    pub strides: &'a [i64],
}

/// A tensor that a runtime kernel writes.
#[derive(Clone, Copy, Debug)]
pub struct ViewMut<'a> {
    /// The first element.
    pub ptr: *mut u8,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: &'a [i64],
    /// Strides in elements.
    pub strides: &'a [i64],
}

/// What a runtime kernel is called with. The pointers are valid for the views during the call; outputs overlap nothing.
#[derive(Debug)]
pub struct ExternCtx<'a> {
    /// The operator.
    pub op: Op,
    /// The schema's arguments in order; tensors index `inputs`.
    pub args: &'a [Arg<u32>],
    /// Tensor operands.
    pub inputs: &'a [View<'a>],
    /// Results.
    pub outputs: &'a [ViewMut<'a>],
}

/// A runtime kernel: fills the outputs, or says why it cannot.
pub type ExternFn = Arc<dyn Fn(&ExternCtx<'_>) -> Result<(), ExternError> + Send + Sync>;

/// Runtime kernels by operator.
#[derive(Clone, Default)]
pub struct ExternRegistry {
    kernels: HashMap<Op, ExternFn>,
}

impl std::fmt::Debug for ExternRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.kernels.keys()).finish()
    }
}

impl ExternRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kernel, in place of one of that operator.
    pub fn register(
        &mut self,
        op: Op,
        kernel: impl Fn(&ExternCtx<'_>) -> Result<(), ExternError> + Send + Sync + 'static,
    ) {
        self.kernels.insert(op, Arc::new(kernel));
    }

    /// The kernel of an operator.
    pub fn get(&self, op: Op) -> Option<&ExternFn> {
        self.kernels.get(&op)
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
    /// In the argument table.
    Output(usize),
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
            BufferKind::Output(i) => Place::Output(inputs + parameters + *i as usize),
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

    /// The first element and, for arguments, the version of their storage.
    pub(super) fn resolve(&self, run: &RunContext, host: &HostState<'_>) -> (*mut u8, u64) {
        let (base, version) = match &self.place {
            Place::Input(i) => (host.inputs[*i].ptr, host.inputs[*i].version),
            Place::Parameter(i) => (host.parameters[*i].ptr, host.parameters[*i].version),
            // SAFETY: the table has an entry for each output of the schedule.
            Place::Output(slot) => (unsafe { *run.args.add(*slot) }, 0),
            Place::Constant(c) => (c.as_ptr().cast_mut(), 0),
            Place::Arena(offset) => (run.arena.wrapping_add(*offset), 0),
        };
        (base.wrapping_offset(self.bytes), version)
    }
}

/// A resolved extern step; the generated code holds its address.
pub(super) struct ExternStep {
    step: usize,
    work: Work,
}

enum Work {
    Matmul(Box<MatmulStep>),
    Op {
        op: Op,
        kernel: ExternFn,
        args: Vec<Arg<u32>>,
        inputs: Vec<Located>,
        outputs: Vec<Located>,
        site: Option<u32>,
    },
}

/// Resolves the extern steps of a schedule, one entry per step.
pub(super) fn resolve(
    schedule: &Schedule,
    registry: &ExternRegistry,
) -> Result<Vec<Option<Box<ExternStep>>>, PlanError> {
    let mut out = Vec::with_capacity(schedule.steps.len());
    for (step, s) in schedule.steps.iter().enumerate() {
        let Step::Extern(e) = s else {
            out.push(None);
            continue;
        };
        let work = match e {
            Extern::Matmul(m) => Work::Matmul(Box::new(MatmulStep::new(schedule, m, step)?)),
            Extern::Op {
                op,
                args,
                inputs,
                outputs,
                site,
            } => {
                let kernel = registry
                    .get(*op)
                    .ok_or_else(|| PlanError::UnsupportedOperator {
                        op: op.to_string(),
                        step,
                    })?;
                let locate = |views: &[BufferView]| {
                    views.iter().map(|v| Located::new(schedule, v)).collect()
                };
                Work::Op {
                    op: *op,
                    kernel: kernel.clone(),
                    args: args.clone(),
                    inputs: locate(inputs),
                    outputs: locate(outputs),
                    site: *site,
                }
            }
        };
        out.push(Some(Box::new(ExternStep { step, work })));
    }
    Ok(out)
}

impl ExternStep {
    /// How generated code calls it.
    pub(super) fn call(&self) -> ExternCall {
        ExternCall {
            function: run_step,
            descriptor: (&raw const *self).cast(),
        }
    }

    fn run(&self, run: &RunContext, host: &HostState<'_>) -> Result<(), PlanError> {
        match &self.work {
            Work::Matmul(m) => m.run(self.step, run, host),
            Work::Op {
                op,
                kernel,
                args,
                inputs,
                outputs,
                site,
            } => {
                let inputs: Vec<View<'_>> = inputs
                    .iter()
                    .map(|l| View {
                        ptr: l.resolve(run, host).0,
                        dtype: l.dtype,
                        sizes: &l.sizes,
                        strides: &l.strides,
                    })
                    .collect();
                let outputs: Vec<ViewMut<'_>> = outputs
                    .iter()
                    .map(|l| ViewMut {
                        ptr: l.resolve(run, host).0,
                        dtype: l.dtype,
                        sizes: &l.sizes,
                        strides: &l.strides,
                    })
                    .collect();
                kernel(&ExternCtx {
                    op: *op,
                    args,
                    inputs: &inputs,
                    outputs: &outputs,
                })
                .map_err(|error| PlanError::Extern {
                    step: self.step,
                    op: op.to_string(),
                    error: Arc::new(error),
                    site: *site,
                })
            }
        }
    }
}

/// The function that generated code calls for an extern step.
extern "C" fn run_step(descriptor: *const u8, context: *const RunContext) {
    // SAFETY: the descriptor is the `ExternStep` that `call` was made from, owned by the plan that runs.
    let step = unsafe { &*descriptor.cast::<ExternStep>() };
    // SAFETY: the context of the run, on the stack of `Plan::run`; extern steps run on the calling thread only.
    let run = unsafe { &*context };
    // SAFETY: `Plan::run` sets `host` to its state, which no one else refers to during the call.
    let host = unsafe { &mut *run.host.cast::<HostState<'_>>() };
    // a panic must not cross generated code
    let result = catch_unwind(AssertUnwindSafe(|| step.run(run, host)));
    let error = match result {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(payload) => {
            let (op, site) = match &step.work {
                Work::Matmul(_) => ("matmul", None),
                Work::Op { op, site, .. } => (op.name(), *site),
            };
            let message = crate::panic_text(&*payload).to_string();
            PlanError::Extern {
                step: step.step,
                op: op.to_string(),
                error: Arc::new(Box::new(Panicked(message))),
                site,
            }
        }
    };
    host.error = Some(error);
    // SAFETY: the status of this run, on the stack of `Plan::run`.
    unsafe {
        (*run.status).step = step.step as i64;
        (*run.status).code = EXTERN_FAILED;
    }
}
