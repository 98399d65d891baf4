//! Steps that are not generated code: runtime kernels, called by the generated function.

use super::clock::Host;
use super::convolution::ConvolutionStep;
use super::matmul::MatmulStep;
use super::place::Located;
use super::{ExternError, Panicked, PlanError};
use crate::cpu::jit::{EXTERN_FAILED, RunContext};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use straightline_passes::ir::DType;
use straightline_passes::ir::{Arg, Op};
use straightline_passes::schedule::loops::{BufferView, Extern, Schedule, Step};

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

/// The arguments of a runtime kernel. The pointers are valid for the views during the call;
/// outputs overlap nothing.
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
    /// A bit for each of the results that nobody reads: what they hold does not matter.
    pub unread: u64,
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

/// A resolved extern step.
pub(super) struct ExternStep {
    step: usize,
    work: Work,
}

enum Work {
    Matmul(Box<MatmulStep>),
    Convolution(Box<ConvolutionStep>),
    Op {
        op: Op,
        kernel: ExternFn,
        args: Vec<Arg<u32>>,
        inputs: Vec<Located>,
        outputs: Vec<Located>,
        unread: u64,
        site: Option<u32>,
    },
}

/// Resolves the extern steps of a schedule, one entry per step. `like` are those of a schedule with
/// the same structure, which may share their packed factors.
pub(super) fn resolve(
    schedule: &Schedule,
    registry: &ExternRegistry,
    like: Option<&[Option<Box<ExternStep>>]>,
) -> Result<Vec<Option<Box<ExternStep>>>, PlanError> {
    let mut out = Vec::with_capacity(schedule.steps.len());
    for (step, s) in schedule.steps.iter().enumerate() {
        let Step::Extern(e) = s else {
            out.push(None);
            continue;
        };
        let like = like.and_then(|like| Some(&like.get(step)?.as_deref()?.work));
        let work = match e {
            Extern::Matmul(m) => {
                let mut product = MatmulStep::new(schedule, m, step)?;
                if let Some(Work::Matmul(other)) = like {
                    product.share(other);
                }
                Work::Matmul(Box::new(product))
            }
            Extern::Convolution(c) => {
                let mut convolution = ConvolutionStep::new(schedule, c);
                if let Some(Work::Convolution(other)) = like {
                    convolution.share(other);
                }
                Work::Convolution(Box::new(convolution))
            }
            Extern::Op { op, args, inputs, outputs, unread, site } => {
                let kernel = registry
                    .get(*op)
                    .ok_or_else(|| PlanError::UnsupportedOperator { op: op.to_string(), step })?;
                let locate = |views: &[BufferView]| {
                    views.iter().map(|v| Located::new(schedule, v)).collect()
                };
                Work::Op {
                    op: *op,
                    kernel: kernel.clone(),
                    args: args.clone(),
                    inputs: locate(inputs),
                    outputs: locate(outputs),
                    unread: *unread,
                    site: *site,
                }
            }
        };
        out.push(Some(Box::new(ExternStep { step, work })));
    }
    Ok(out)
}

impl ExternStep {
    fn run(&self, run: &RunContext) -> Result<(), PlanError> {
        match &self.work {
            Work::Matmul(m) => m.run(self.step, run),
            Work::Convolution(c) => {
                c.run(run);
                Ok(())
            }
            Work::Op { op, kernel, args, inputs, outputs, unread, site } => {
                let inputs: Vec<View<'_>> = inputs
                    .iter()
                    .map(|l| View {
                        ptr: l.resolve(run).0,
                        dtype: l.dtype,
                        sizes: &l.sizes,
                        strides: &l.strides,
                    })
                    .collect();
                let outputs: Vec<ViewMut<'_>> = outputs
                    .iter()
                    .map(|l| ViewMut {
                        ptr: l.resolve(run).0,
                        dtype: l.dtype,
                        sizes: &l.sizes,
                        strides: &l.strides,
                    })
                    .collect();
                let ctx = ExternCtx {
                    op: *op,
                    args,
                    inputs: &inputs,
                    outputs: &outputs,
                    unread: *unread,
                };
                kernel(&ctx).map_err(|error| PlanError::Extern {
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
pub(super) extern "C" fn run_step(descriptor: *const u8, context: *const RunContext) {
    // SAFETY: the descriptor is that of an extern step in the table of `Plan::run`: its `ExternStep`,
    // owned by the plan that runs.
    let step = unsafe { &*descriptor.cast::<ExternStep>() };
    // SAFETY: the context of the run, on the stack of `Plan::run`; extern steps run on the calling
    // thread only.
    let run = unsafe { &*context };
    // SAFETY: `Plan::run` sets `host` to where errors go, to which no one else refers during the
    // call.
    let host = unsafe { &mut *run.host.cast::<Host>() };
    // a panic must not cross generated code
    let result = catch_unwind(AssertUnwindSafe(|| step.run(run)));
    let error = match result {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(payload) => {
            let (op, site) = match &step.work {
                Work::Matmul(_) => ("matmul", None),
                Work::Convolution(_) => (Op::convolution.name(), None),
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
