//! Replay: the plan runs on the call's tensors, and the dispatcher is not entered.

use super::results;
use super::stages::{Executable, OutputSource, ViewOf};
use crate::error::{Error, Result};
use crate::modes::functionalize::{InputSlot, Owner};
use crate::tensor::storage::{ReadGuard, Storage};
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use straightline_passes::ir::graph::TensorMeta;
use straightline_passes::ir::{Dims, layout};
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
    pub(super) fn run(&self, arguments: &[&Tensor]) -> Result<Results> {
        let slots = &self.traced.slots;
        if slots.is_empty() {
            return self.run_on(arguments, arguments);
        }
        let inputs = slots
            .iter()
            .map(|slot| match slot {
                InputSlot::Argument(i) => Ok(arguments[*i].clone()),
                InputSlot::Merged {
                    argument,
                    start,
                    meta,
                } => {
                    let of = arguments[*argument];
                    results::view_of(of, results::position(of), *start, meta)
                }
            })
            .collect::<Result<Vec<_>>>()?;
        self.run_on(arguments, &inputs.iter().collect::<Vec<_>>())
    }

    /// Runs the plan on the graph's inputs and delivers what it computes.
    fn run_on(&self, arguments: &[&Tensor], inputs: &[&Tensor]) -> Result<Results> {
        let traced = &self.traced;
        let values = {
            let mut guards: SmallVec<[ReadGuard<'_>; 16]> = SmallVec::new();
            let mut input_ptrs: SmallVec<[ArgPtr; 8]> = SmallVec::new();
            for t in inputs {
                guards.push(t.read()?);
                input_ptrs.push(argument(t)?);
            }
            let mut parameter_ptrs: SmallVec<[ArgPtr; 8]> = SmallVec::new();
            for t in &traced.parameters {
                guards.push(t.read()?);
                parameter_ptrs.push(argument(t)?);
            }
            // in the order of the plan's output buffers, which need not be that of the results
            let mut wanted: SmallVec<[(u32, usize); 4]> = SmallVec::new();
            for binding in &self.plan.schedule().outputs {
                if let OutputBinding::Fresh { index, meta } = binding {
                    let extent = layout::storage_extent(&meta.sizes, &meta.strides, 0);
                    wanted.push((*index, extent as usize * meta.dtype.size()));
                }
            }
            wanted.sort_unstable();
            let mut fresh: SmallVec<[Storage; 4]> = SmallVec::new();
            let mut output_ptrs: SmallVec<[*mut u8; 4]> = SmallVec::new();
            for (_, bytes) in wanted {
                let storage = Storage::allocate(bytes)?;
                output_ptrs.push(storage.ptr().unwrap_or(std::ptr::null_mut()));
                fresh.push(storage);
            }
            // SAFETY: the guards of this variant say that the inputs have the dtypes, sizes and
            // strides that the plan was made for; parameters are the very tensors it was made
            // for, in the shapes that they had then; the borrow guards keep all of them from being
            // written meanwhile; outputs are fresh and as long as the plan's buffers.
            unsafe {
                self.plan.run(&input_ptrs, &parameter_ptrs, &output_ptrs)?;
            }
            let mut values = self.bind(inputs, &fresh)?;
            for (i, meta) in &self.restrided {
                values[*i] = own_copy(&values[*i], meta)?;
            }
            values
        };
        for r in &traced.reshapes {
            let target = match &r.target {
                Owner::Input(i) => arguments[*i],
                Owner::Tensor(t) => t,
                Owner::Merged(slot) => inputs[*slot],
            };
            target.set_geometry(&r.sizes, &r.strides, target.storage_offset() + r.moved)?;
        }
        for m in &traced.mutations {
            let target = match &m.target {
                Owner::Input(i) => arguments[*i],
                Owner::Tensor(t) => t,
                Owner::Merged(slot) => inputs[*slot],
            };
            copy_back(target, &values[m.output])?;
        }
        let mut delivered = Results::new();
        for source in &traced.outputs {
            let result = match source {
                OutputSource::Value(i) => values[*i].clone(),
                OutputSource::Input(i) => arguments[*i].clone(),
                OutputSource::Tensor(t) => t.clone(),
                OutputSource::Same(i) => delivered[*i].clone(),
                OutputSource::View { of, meta, start } => {
                    let of = match of {
                        ViewOf::Value(i) => &values[*i],
                        ViewOf::Input(i) => arguments[*i],
                        ViewOf::Tensor(t) => t,
                    };
                    results::view_of(of, results::position(of), *start, meta)?
                }
            };
            delivered.push(result);
        }
        Ok(delivered)
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

/// A copy in memory of its own with the very strides given, repeated dimensions included; not
/// dispatched.
fn own_copy(value: &Tensor, meta: &TensorMeta) -> Result<Tensor> {
    // along a dimension with stride 0 all elements are the first one
    let once: Dims = (meta.sizes.iter().zip(&meta.strides))
        .map(|(n, s)| if *s == 0 { (*n).min(1) } else { *n })
        .collect();
    let out = Tensor::allocate(meta.dtype, meta.device, once.clone(), meta.strides.clone())?;
    let source = value.view_as(
        once,
        Dims::from_slice(value.strides()),
        value.storage_offset(),
    );
    copy_back(&out, &source)?;
    Ok(tensor(out.storage().clone(), meta, 0))
}

/// Writes the new value of a written argument; not dispatched.
fn copy_back(target: &Tensor, value: &Tensor) -> Result<()> {
    let _guard = access::write(target, &[value])?;
    // SAFETY: target is held exclusively and value shared; they do not overlap, since value is
    // fresh or was copied; both have the sizes and dtype that capture recorded.
    unsafe {
        straightline_runtime::cpu::kernels::copy(target.strided_any()?, value.strided_any()?)?;
    }
    Ok(())
}
