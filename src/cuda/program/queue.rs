//! Steps, queued one after another.

use super::{Call, Loaded, Places, Program, Stopped, Work, parts};
use crate::cuda::copy::{driver, program};
use crate::cuda::externs;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::on_device::gpu;
use crate::tensor::storage::Storage;
use smallvec::SmallVec;
use std::ops::Range;
use straightline_catalog::{Device, layout};
use straightline_cuda::copies::{self, Strided};
use straightline_cuda::driver::{Argument, DeviceMemory, Function, Stream};
use straightline_cuda::emit::{Emitted, STATUS_BYTES};
use straightline_cuda::products::Workspace;
use straightline_passes::schedule::loops::{BufferId, BufferKind, BufferView, Extern, Step};

/// What steps are queued with. The stream is the thread's current one.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) stream: &'a Stream,
    pub(super) device: Device,
    pub(super) loaded: &'a Loaded,
    pub(super) places: &'a Places<'a>,
}

impl Program {
    /// Queues steps.
    pub(super) fn queue(
        &self,
        run: Run<'_>,
        steps: Range<usize>,
    ) -> std::result::Result<(), Stopped> {
        steps.into_iter().try_for_each(|at| {
            self.queue_step(run, at).map_err(|error| Stopped { error, site: self.site(at) })
        })
    }

    /// The call that a step's errors are of.
    fn site(&self, at: usize) -> Option<u32> {
        match self.schedule.steps.get(at) {
            Some(Step::Extern(Extern::Op { site, .. })) => *site,
            _ => None,
        }
    }

    /// Queues a step; before the first one the status says that nothing is wrong.
    pub(super) fn queue_step(&self, run: Run<'_>, at: usize) -> Result<()> {
        let Run { stream, loaded, places, .. } = run;
        if at == 0 && self.fails {
            // SAFETY: it is a part of the room.
            unsafe { stream.fill(places.status(), 0, STATUS_BYTES) }.map_err(driver)?;
        }
        let (Some(work), Some(step)) = (self.work.get(at), self.schedule.steps.get(at)) else {
            return Ok(());
        };
        match (work, step) {
            (Work::Kernel(i), _) => {
                self.launch(stream, &self.kernels[*i], &loaded.functions[*i], places)
            }
            (Work::Own, Step::Extern(step)) => {
                let super::Layout { workspace, bytes, .. } = places.layout;
                let address = places.room + workspace as u64;
                let workspace = Workspace { address, bytes: bytes - workspace };
                // SAFETY: as for kernels.
                unsafe { externs::queue(stream, step, &|id| self.address(places, id), workspace) }
            }
            (Work::Parts, Step::Extern(step)) => {
                let tensor = |v: &BufferView| self.tensor(v, places, run.device);
                match parts::compute(step, &tensor)? {
                    Some((result, out)) => self.deliver(run, &result, out),
                    None => Ok(()),
                }
            }
            (Work::Call(call), Step::Extern(step)) => self.call(run, call, step),
            _ => Ok(()),
        }
    }

    fn launch(
        &self,
        stream: &Stream,
        kernel: &Emitted,
        function: &Function,
        places: &Places<'_>,
    ) -> Result<()> {
        let scratch = places.room + places.layout.scratch as u64;
        let address = |buffer| self.address(places, buffer);
        let arguments: SmallVec<[Argument<'_>; 8]> =
            kernel.arguments(address, scratch, places.status()).collect();
        // SAFETY: the arguments are what the kernel was emitted for. Operands are held while it is
        // queued; their memory, and the room, serve others on this stream only after it.
        unsafe { function.launch(stream, kernel.shape.launch(), &arguments) }.map_err(driver)
    }

    pub(super) fn address(&self, places: &Places<'_>, id: BufferId) -> u64 {
        match &self.schedule.buffer(id).kind {
            BufferKind::Input(i) => places.inputs[*i as usize],
            BufferKind::Parameter(i) => places.parameters[*i as usize],
            BufferKind::Output(o) => places.outputs[*o as usize],
            BufferKind::Arena { offset } => places.room + *offset as u64,
            BufferKind::Within { output, offset } => {
                places.outputs[*output as usize] + *offset as u64
            }
            BufferKind::Constant(_) => {
                let found = places.constants.iter().find(|(of, _)| *of == id.0);
                found.map_or(0, |(_, memory)| memory.address())
            }
        }
    }

    /// Calls an operator on tensors over the memory of its operands, and copies what it gives to where
    /// the schedule wants it.
    fn call(&self, run: Run<'_>, call: &Call, step: &Extern) -> Result<()> {
        let Extern::Op { args, inputs, outputs, unread, .. } = step else { return Ok(()) };
        let tensor = |v: &BufferView| self.tensor(v, run.places, run.device);
        let given = inputs.iter().map(tensor).collect::<Result<Vec<_>>>()?;
        let Some(results) = (call.run)(args, &given)? else { return Ok(()) };
        ensure_compile!(
            results.len() == outputs.len(),
            "{} results, {} expected",
            results.len(),
            outputs.len()
        );
        for (i, (result, out)) in results.iter().zip(outputs).enumerate() {
            ensure_compile!(
                result.sizes() == &out.sizes[..] && result.dtype() == out.dtype,
                "the kernel returned {}{:?} where its Meta kernel said {}{:?}",
                result.dtype(),
                result.sizes(),
                out.dtype,
                out.sizes
            );
            if unread >> i & 1 == 0 {
                self.deliver(run, result, out)?;
            }
        }
        Ok(())
    }

    /// Copies a result to its place.
    fn deliver(&self, run: Run<'_>, result: &Tensor, out: &BufferView) -> Result<()> {
        let Run { stream, places, device, .. } = run;
        let there = result.resolved()?;
        let there = match there.device() == device {
            true => there,
            false => there.to_device(device)?,
        };
        let _held = there.read()?;
        let begin = self.address(places, out.buffer);
        let to = Strided {
            address: begin.wrapping_add_signed(out.offset * out.dtype.size() as i64),
            dtype: out.dtype,
            sizes: &out.sizes,
            strides: &out.strides,
        };
        let from = Strided { address: there.device_address()?, strides: there.strides(), ..to };
        // SAFETY: the place is this step's own; the result is held while the copy is queued.
        unsafe { copies::copy(stream, to, from) }.map_err(program)
    }

    /// A tensor over an operand's memory, which is lent to it: the operand itself may be held for
    /// writing. Kernels of this crate keep no tensor.
    fn tensor(&self, view: &BufferView, places: &Places<'_>, device: Device) -> Result<Tensor> {
        let size = view.dtype.size();
        let begin = self.address(places, view.buffer);
        let first = begin.wrapping_add_signed(view.offset * size as i64);
        let bytes = layout::storage_bytes(size, &view.sizes, &view.strides, 0);
        let memory = DeviceMemory::lent(gpu(device)?, first, bytes);
        let storage = Storage::elsewhere(bytes, Box::new(memory))?;
        Ok(Tensor::build(storage, view.dtype, device, &view.sizes, &view.strides, 0))
    }
}
