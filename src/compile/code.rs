//! The code of a schedule, for the device that it runs on.

use super::delivery::Fresh;
use super::failure;
use super::traced::Traced;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use smallvec::SmallVec;
#[cfg(feature = "cuda")]
use straightline_catalog::Device;
use straightline_passes::schedule::loops::Schedule;
use straightline_runtime::cpu::kernels::{In, Out};
use straightline_runtime::plan::{ArgPtr, Plan};

/// Code that computes a schedule.
pub(super) enum Code {
    /// Machine code of this machine.
    Cpu(Plan),
    /// Programs of a GPU.
    #[cfg(feature = "cuda")]
    Cuda(OnGpu),
}

/// A program, and the GPU that the function's tensors are on.
#[cfg(feature = "cuda")]
pub(super) struct OnGpu {
    pub(super) program: crate::cuda::program::Program,
    pub(super) device: Device,
}

impl Code {
    /// What it computes.
    #[inline]
    pub(super) fn schedule(&self) -> &Schedule {
        match self {
            Code::Cpu(plan) => plan.schedule(),
            #[cfg(feature = "cuda")]
            Code::Cuda(code) => code.program.schedule(),
        }
    }

    /// The plan, if it is one.
    #[inline]
    pub(super) fn plan(&self) -> Option<&Plan> {
        match self {
            Code::Cpu(plan) => Some(plan),
            #[cfg(feature = "cuda")]
            Code::Cuda(_) => None,
        }
    }

    /// Whether both run one code, each with its own numbers.
    pub(super) fn shares_code_with(&self, other: &Code) -> bool {
        match (self, other) {
            (Code::Cpu(a), Code::Cpu(b)) => a.shares_code_with(b),
            #[cfg(feature = "cuda")]
            (Code::Cuda(a), Code::Cuda(b)) => a.program.text() == b.program.text(),
            #[cfg(feature = "cuda")]
            _ => false,
        }
    }

    /// Bytes of machine code; of a GPU's program those of its text.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Code::Cpu(plan) => plan.code_bytes(),
            #[cfg(feature = "cuda")]
            Code::Cuda(code) => code.program.text().len(),
        }
    }

    /// How many numbers it reads from a table.
    pub(super) fn reads(&self) -> usize {
        self.plan().map_or(0, Plan::reads)
    }

    /// Fresh memory for a result, its contents unspecified.
    #[inline]
    pub(super) fn allocate(&self, fresh: &Fresh) -> Result<Storage> {
        match self {
            Code::Cpu(_) => Ok(Storage::allocate(fresh.bytes)?),
            #[cfg(feature = "cuda")]
            Code::Cuda(_) if fresh.meta.device.is_cpu() => Ok(Storage::allocate(fresh.bytes)?),
            #[cfg(feature = "cuda")]
            Code::Cuda(code) => crate::tensor::on_device::allocate(code.device, fresh.bytes),
        }
    }

    /// Computes the outputs. The caller has access to all that is read and written, and the tensors are
    /// as the schedule says.
    pub(super) fn run(
        &self,
        traced: &Traced,
        inputs: &[&Tensor],
        outputs: &[Tensor],
    ) -> Result<()> {
        match self {
            Code::Cpu(plan) => {
                let inputs: SmallVec<[ArgPtr; 8]> =
                    inputs.iter().map(|t| argument(t)).collect::<Result<_>>()?;
                let parameters: SmallVec<[ArgPtr; 8]> =
                    traced.parameters.iter().map(|t| argument(t)).collect::<Result<_>>()?;
                let outputs: SmallVec<[*mut u8; 4]> = outputs.iter().map(Tensor::address).collect();
                // SAFETY: the guards of this variant say that the inputs have the dtypes, sizes and
                // strides that the plan was made for; parameters are exactly the tensors it was made
                // for, in the shapes that they had then; the borrow guards keep all others from
                // writing them meanwhile; outputs are as the caller says.
                unsafe { plan.run(&inputs, &parameters, &outputs) }
                    .map_err(|e| failure::error(plan.schedule(), &traced.graph, e))
            }
            #[cfg(feature = "cuda")]
            Code::Cuda(code) => {
                let parameters: SmallVec<[&Tensor; 16]> =
                    traced.parameters.iter().map(|t| &**t).collect();
                let operands =
                    crate::cuda::program::Operands { inputs, parameters: &parameters, outputs };
                let schedule = code.program.schedule();
                match code.program.run(code.device, operands) {
                    Ok(None) => Ok(()),
                    Ok(Some(found)) => Err(failure::on_gpu(schedule, &traced.graph, found)),
                    Err(stopped) => Err(failure::stopped(schedule, &traced.graph, stopped)),
                }
            }
        }
    }

    /// Whether a tensor's memory is there for the code to write.
    pub(super) fn check_memory(&self, t: &Tensor) -> Result<()> {
        match self {
            Code::Cpu(_) => t.data_ptr().map(drop),
            #[cfg(feature = "cuda")]
            Code::Cuda(_) if t.device().is_cpu() => t.data_ptr().map(drop),
            #[cfg(feature = "cuda")]
            Code::Cuda(_) => t.device_address().map(drop),
        }
    }
}

fn argument(t: &Tensor) -> Result<ArgPtr> {
    Ok(ArgPtr { ptr: t.data_ptr()?, version: t.storage().version() })
}

/// Copies elements, on the device that both are on, or a number from one to the other; not dispatched.
///
/// # Safety
///
/// The caller has both, `to` alone; they have the same sizes and dtype and do not overlap.
pub(super) unsafe fn copy_elements(to: &Tensor, from: &Tensor) -> Result<()> {
    #[cfg(feature = "cuda")]
    if to.storage().is_elsewhere() || from.storage().is_elsewhere() {
        // SAFETY: the caller's contract.
        return unsafe { crate::cuda::copy_elements(to, from) };
    }
    // SAFETY: the caller's contract.
    let (to, from) = unsafe { (Out::new(to.strided()?), In::new(from.strided()?)) };
    straightline_runtime::cpu::kernels::copy(to, from)?;
    Ok(())
}
