//! Replay: the plan runs on the call's tensors, and the dispatcher is not entered.

use super::stages::{Executable, OutputSource};
use crate::error::{Error, Result};
use crate::ops::copy;
use crate::tensor::storage::{ReadGuard, Storage};
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use straightline_passes::ir::graph::TensorMeta;
use straightline_passes::ir::layout;
use straightline_passes::schedule::loops::{OutputBinding, ViewSource};
use straightline_runtime::plan::{ArgPtr, PlanError};

/// The tensors that a call returns, in order.
pub(super) type Results = SmallVec<[Tensor; 4]>;

impl From<PlanError> for Error {
    fn from(e: PlanError) -> Error {
        match e {
            PlanError::IndexOutOfRange { .. } => Error::index(e.to_string()),
            PlanError::ZeroDivision { .. } => Error::runtime(e.to_string()),
            _ => Error::compile(e.to_string()),
        }
    }
}

fn argument(t: &Tensor) -> Result<ArgPtr> {
    Ok(ArgPtr {
        ptr: t.data_ptr()?,
        version: t.version(),
    })
}

impl Executable {
    /// Runs the plan. The guards have been checked.
    pub(super) fn run(&self, inputs: &[&Tensor]) -> Result<Results> {
        let traced = &self.traced;
        let values = {
            let mut guards: SmallVec<[ReadGuard<'_>; 16]> = SmallVec::new();
            let mut input_ptrs: SmallVec<[ArgPtr; 8]> = SmallVec::new();
            for t in inputs {
                guards.push(t.storage().read()?);
                input_ptrs.push(argument(t)?);
            }
            let mut parameter_ptrs: SmallVec<[ArgPtr; 8]> = SmallVec::new();
            for t in &traced.parameters {
                guards.push(t.storage().read()?);
                parameter_ptrs.push(argument(t)?);
            }
            let mut fresh: SmallVec<[Storage; 4]> = SmallVec::new();
            let mut output_ptrs: SmallVec<[*mut u8; 4]> = SmallVec::new();
            for binding in &self.plan.schedule().outputs {
                if let OutputBinding::Fresh { meta, .. } = binding {
                    let extent = layout::storage_extent(&meta.sizes, &meta.strides, 0);
                    let storage = Storage::allocate(extent as usize * meta.dtype.size())?;
                    output_ptrs.push(storage.ptr().unwrap_or(std::ptr::null_mut()));
                    fresh.push(storage);
                }
            }
            // SAFETY: the guards of this variant say that the inputs have the dtypes, sizes and
            // strides that the plan was made for; parameters are the very tensors it was made
            // for, whose shapes never change; the borrow guards keep all of them from being
            // written meanwhile; outputs are fresh and as long as the plan's buffers.
            unsafe {
                self.plan.run(&input_ptrs, &parameter_ptrs, &output_ptrs)?;
            }
            self.bind(inputs, &fresh)?
        };
        for m in &traced.mutations {
            let target = if m.input {
                inputs[m.index]
            } else {
                &traced.parameters[m.index]
            };
            copy_back(target, &values[m.output])?;
        }
        Ok(traced
            .outputs
            .iter()
            .map(|source| match source {
                OutputSource::Value(i) => values[*i].clone(),
                OutputSource::Input(i) => inputs[*i].clone(),
                OutputSource::Tensor(t) => t.clone(),
            })
            .collect())
    }

    /// The graph's outputs as tensors.
    #[inline]
    fn bind(&self, inputs: &[&Tensor], fresh: &[Storage]) -> Result<Results> {
        let schedule = self.plan.schedule();
        let mut values = Results::new();
        for (i, binding) in schedule.outputs.iter().enumerate() {
            values.push(match binding {
                OutputBinding::Fresh { index, meta } => {
                    tensor(fresh[*index as usize].clone(), meta, 0)
                }
                OutputBinding::View { of, meta, offset } => {
                    let (storage, base) = match of {
                        ViewSource::Input(i) => {
                            let t = inputs[*i as usize];
                            (t.storage().clone(), t.storage_offset())
                        }
                        ViewSource::Parameter(i) => {
                            let t = &self.traced.parameters[*i as usize];
                            (t.storage().clone(), t.storage_offset())
                        }
                        ViewSource::Output(i) => (fresh[*i as usize].clone(), 0),
                    };
                    let view = tensor(storage, meta, base + offset);
                    if self.shares(i, *of) {
                        view
                    } else {
                        // Rewriting found the value in memory that the function did not alias
                        // it with (a copy of an argument, say): the caller gets its own.
                        own_copy(&view, meta)?
                    }
                }
            });
        }
        Ok(values)
    }

    /// Whether the captured function itself made output `i` a view of `of`.
    fn shares(&self, i: usize, of: ViewSource) -> bool {
        let traced = &self.traced;
        let root = traced.roots[i];
        match of {
            ViewSource::Input(k) => traced.graph.inputs().get(k as usize) == Some(&root.node),
            ViewSource::Parameter(k) => {
                traced.graph.parameters().get(k as usize) == Some(&root.node)
            }
            ViewSource::Output(k) => self
                .plan
                .schedule()
                .outputs
                .iter()
                .position(|b| matches!(b, OutputBinding::Fresh { index, .. } if *index == k))
                .is_some_and(|owner| traced.roots[owner] == root),
        }
    }
}

fn tensor(storage: Storage, meta: &TensorMeta, offset: i64) -> Tensor {
    Tensor::build(
        storage,
        meta.dtype,
        meta.device,
        &meta.sizes,
        &meta.strides,
        offset,
    )
}

/// A copy with the strides given; not dispatched.
fn own_copy(view: &Tensor, meta: &TensorMeta) -> Result<Tensor> {
    let strides = layout::preserved_strides(&meta.sizes, &meta.strides);
    let out = Tensor::allocate(meta.dtype, meta.device, meta.sizes.clone(), strides)?;
    copy::copy_(&out, view, false)
}

/// Writes the new value of a written argument; not dispatched.
fn copy_back(target: &Tensor, value: &Tensor) -> Result<()> {
    let _guard = access::write(target, &[value])?;
    // SAFETY: target is held exclusively and value shared; they do not overlap, since value is
    // fresh or was copied; both have the sizes and dtype that capture recorded.
    unsafe {
        straightline_runtime::cpu::kernels::copy(target.strided()?, value.strided()?)?;
    }
    Ok(())
}
