//! Operators that have kernels of their own on GPUs: convolutions and attention.
//!
//! The kernels of the CPU check the arguments and allocate the results here as well: they leave tensors
//! without bytes of the host alone, as on Meta. What they leave is computed then.

mod attention;
mod convolution;
pub(super) mod externs;

use crate::dispatch::Value;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::on_device::gpu;
use straightline_catalog::args::Arguments;
use straightline_catalog::{Arg, Op};
use straightline_cuda::driver::{DeviceMemory, Stream};
use straightline_cuda::products::Workspace;

/// Runs an operator; `None` if it is none of these, or of a dtype or of sizes that they do not have.
pub(super) fn run(op: Op, given: &[Arg<u32>], tensors: &[Tensor]) -> Result<Option<Vec<Value>>> {
    let call = Call { given, tensors };
    match op {
        Op::convolution
        | Op::_convolution
        | Op::_slow_conv2d_forward
        | Op::slow_conv3d_forward
        | Op::mkldnn_convolution => one(convolution::forward(op, call)),
        Op::convolution_backward => several(convolution::backward(call)),
        Op::_slow_conv2d_backward_output_mask => several(convolution::slow_backward(call)),
        Op::_scaled_dot_product_flash_attention_for_cpu => {
            Ok(attention::forward(call)?.map(|all| all.map(Value::Tensor).into()))
        }
        Op::_scaled_dot_product_flash_attention_for_cpu_backward => {
            Ok(attention::backward(call)?.map(|all| all.map(Value::Tensor).into()))
        }
        _ => Ok(None),
    }
}

fn one(result: Result<Option<Tensor>>) -> Result<Option<Vec<Value>>> {
    Ok(result?.map(|t| vec![Value::Tensor(t)]))
}

fn several(results: Result<Option<[Option<Tensor>; 3]>>) -> Result<Option<Vec<Value>>> {
    let value = |t: Option<Tensor>| t.map_or(Value::None, Value::Tensor);
    Ok(results?.map(|all| all.map(value).into()))
}

/// Arguments in which tensors are numbers, and the tensors.
#[derive(Clone, Copy)]
struct Call<'a> {
    given: &'a [Arg<u32>],
    tensors: &'a [Tensor],
}

impl<'a> Call<'a> {
    /// The arguments by name.
    fn read<A: Arguments<&'a Tensor>>(self) -> Result<A> {
        let tensors = self.tensors;
        let read = A::read(self.given, |i| &tensors[*i as usize]);
        read.ok_or_else(|| Error::runtime(format!("`{}` is called with other arguments", A::OP)))
    }
}

/// The stream on which a tensor's work runs.
fn stream_of(t: &Tensor) -> Result<Stream> {
    Ok(gpu(t.device())?.current_stream())
}

/// Calls `queue` with so much memory for the stream's work.
fn with_workspace(
    stream: &Stream,
    bytes: usize,
    queue: impl FnOnce(Workspace) -> Result<()>,
) -> Result<()> {
    if bytes == 0 {
        return queue(Workspace::default());
    }
    let memory = DeviceMemory::new(stream, bytes).map_err(|e| Error::runtime(e.to_string()))?;
    // when it is dropped it serves others on this stream, after what is queued here
    queue(Workspace { address: memory.address(), bytes })
}
