//! Operators with kernels of their own: convolutions and attention; what has no loops, since places of results
//! depend on data (sorts, compactions), or since numbers are drawn.
//!
//! A call is read as its operator's struct; the Meta kernel has said before what is wrong with it, and what
//! results look like. What a kernel does not take (another dtype, tensors in several places) is left for the
//! others.

mod attention;
mod bags;
mod compact;
mod complex;
mod convolution;
mod distance;
mod factors;
mod fourier;
mod grid;
mod losses;
mod margins;
mod norms;
mod order;
mod parts;
mod random;
mod rows;
mod scans;
mod slices;
mod spatial;
mod special;

use super::copy;
use super::ways::Way;
use crate::dispatch::{OperatorHandle, Value, meta};
use crate::error::Result;
use crate::modes::tracer::to_arg;
use crate::ops::aten;
use crate::tensor::on_device::{gpu, memory};
use crate::tensor::{Generator, Tensor};
pub(super) use convolution::spatial as spatial_of;
pub(super) use losses::are_probabilities;
use smallvec::SmallVec;
use straightline_catalog::args::Arguments;
use straightline_catalog::{Arg, DType, Device, DeviceType, Dims, Op, TensorMeta, layout};
use straightline_cuda::driver::Stream;
use straightline_cuda::products::Workspace;

/// A call whose tensors are on one GPU.
struct Call<'a> {
    op: OperatorHandle,
    known: Op,
    values: &'a [Value],
    args: Vec<Arg<u32>>,
    tensors: Vec<Tensor>,
    generator: Option<&'a Generator>,
    device: Device,
}

/// What a kernel gives: `None` where it is none for the call.
type Made = Result<Option<Vec<Value>>>;

type Kernel = fn(&Call<'_>) -> Made;

/// The kernel of an operator.
fn kernel(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::convolution
        | Op::_convolution
        | Op::_slow_conv2d_forward
        | Op::slow_conv3d_forward
        | Op::mkldnn_convolution => convolution::forward,
        Op::convolution_backward => convolution::backward,
        Op::_slow_conv2d_backward_output_mask => convolution::slow_backward,
        Op::_scaled_dot_product_flash_attention_for_cpu => attention::forward,
        Op::_scaled_dot_product_flash_attention_for_cpu_backward => attention::backward,
        Op::sort | Op::sort_stable => order::sort,
        Op::topk => order::topk,
        Op::kthvalue | Op::median_dim | Op::nanmedian_dim | Op::mode => order::along,
        Op::median | Op::nanmedian => order::of_all,
        Op::cumsum | Op::cumprod | Op::cummax | Op::cummin | Op::logcumsumexp => scans::scan,
        Op::uniform_
        | Op::normal_
        | Op::log_normal_
        | Op::exponential_
        | Op::cauchy_
        | Op::geometric_
        | Op::bernoulli__float
        | Op::bernoulli__Tensor
        | Op::random_
        | Op::random__from
        | Op::random__to => random::fill,
        Op::uniform
        | Op::normal_functional
        | Op::log_normal
        | Op::exponential
        | Op::cauchy
        | Op::geometric
        | Op::bernoulli
        | Op::bernoulli_p
        | Op::bernoulli_Tensor
        | Op::random
        | Op::random_from
        | Op::random_to => random::functional,
        Op::normal_Tensor_Tensor | Op::normal_Tensor_float | Op::normal_float_Tensor => {
            random::normal_of
        }
        Op::nonzero => compact::nonzero,
        Op::masked_select => compact::masked_select,
        Op::masked_scatter => compact::masked_scatter,
        Op::_unique | Op::_unique2 | Op::unique_consecutive => compact::unique,
        Op::unique_dim | Op::unique_dim_consecutive => slices::unique,
        Op::searchsorted_Tensor
        | Op::searchsorted_Scalar
        | Op::bucketize_Tensor
        | Op::bucketize_Scalar => compact::searchsorted,
        Op::isin_Tensor_Tensor => compact::isin,
        Op::bincount => compact::bincount,
        Op::histc => compact::histc,
        Op::embedding_dense_backward => compact::embedding_dense_backward,
        Op::native_dropout => random::native_dropout,
        Op::randperm | Op::randperm_generator => random::permutation,
        Op::multinomial => random::multinomial,
        _ => {
            let others = [
                spatial::of,
                rows::of,
                special::of,
                grid::of,
                distance::of,
                bags::of,
                fourier::of,
                factors::of,
            ];
            return others.iter().find_map(|of| of(op));
        }
    })
}

/// Runs an operator that has a kernel of its own, or that is a few others; `None` if it is neither for this
/// call.
pub(super) fn run(op: OperatorHandle, values: &[Value]) -> Result<Option<(Vec<Value>, Way)>> {
    let Some(known) = op.op() else { return Ok(None) };
    let mut with_numbers = false;
    let (kernel, way) = match (kernel(known), parts::of(known)) {
        (Some(kernel), _) => (kernel, Way::Kernel),
        (None, Some(parts)) => (parts, Way::Others),
        // of real numbers these have loops
        (None, None) if has_complex(known, values) => {
            let Some(parts) = complex::of(known) else { return Ok(None) };
            with_numbers = true;
            (parts, Way::Others)
        }
        (None, None) => return Ok(None),
    };
    let Some(device) = place(values, with_numbers) else { return Ok(None) };
    let mut call =
        Call { op, known, values, args: Vec::new(), tensors: Vec::new(), generator: None, device };
    for v in values {
        if let Value::Generator(g) = v {
            call.generator = Some(g);
            call.args.push(Arg::None);
            continue;
        }
        let tensors = &mut call.tensors;
        let arg = to_arg(op.name(), v, &mut |t| {
            tensors.push(match t.device().is_cpu() {
                true => copy::there(t, device)?,
                false => t.clone(),
            });
            Ok(tensors.len() as u32 - 1)
        });
        match arg {
            Ok(arg) => call.args.push(arg),
            Err(_) => return Ok(None),
        }
    }
    Ok(kernel(&call)?.map(|results| (results, way)))
}

/// Whether a call is of complex numbers, or makes them.
fn has_complex(op: Op, values: &[Value]) -> bool {
    let complex = |t: &Tensor| t.dtype().is_complex();
    matches!(op, Op::complex | Op::polar) || values.iter().flat_map(Value::tensors).any(complex)
}

/// The GPU that all tensors of a call are on, as ordinary ones, or that is named; `with_numbers`, tensors of no dimension may
/// be on the CPU.
fn place(values: &[Value], with_numbers: bool) -> Option<Device> {
    let named = values.iter().find_map(|v| match v {
        Value::Device(d) => Some(*d),
        _ => None,
    });
    // indices may be on the CPU
    let index = |v: &Value, t: &Tensor| {
        let elsewhere = matches!(v, Value::OptionalTensorList(_)) || (with_numbers && t.dim() == 0);
        elsewhere && t.device().is_cpu()
    };
    let tensors = || {
        let all = values.iter().flat_map(|v| v.tensors().map(move |t| (v, t)));
        all.filter(|(v, t)| !index(v, t)).map(|(_, t)| t)
    };
    let device = match named {
        Some(named) => crate::tensor::on_device::numbered(named),
        None => tensors().next()?.device(),
    };
    let plain = |t: &Tensor| {
        t.device() == device && !t.has_math_bits() && t.kind_without_memory().is_none()
    };
    (device.kind == DeviceType::Cuda && tensors().all(plain)).then_some(device)
}

impl Call<'_> {
    /// The arguments as the struct of an operator that takes them.
    fn read<A: Arguments<Tensor>>(&self) -> Option<A> {
        self.read_first(self.args.len())
    }

    /// The first arguments, as the struct of an operator that has only these.
    fn read_first<A: Arguments<Tensor>>(&self, count: usize) -> Option<A> {
        A::read(self.args.get(..count)?, |i| self.tensors[*i as usize].clone())
    }

    /// The results without their data; `None` if something is wrong with the call, or if data decides.
    fn results(&self) -> Option<SmallVec<[TensorMeta; 3]>> {
        let (results, _) = meta::run(self.op, self.values).ok()?;
        let there = |t: &Tensor| TensorMeta { device: self.device, ..t.meta() };
        results.iter().map(|v| v.as_tensor().map(there)).collect()
    }

    /// As [`Self::results`], where some may be missing.
    fn outcomes(&self) -> Option<SmallVec<[Option<TensorMeta>; 3]>> {
        let (results, _) = meta::run(self.op, self.values).ok()?;
        let there = |t: &Tensor| TensorMeta { device: self.device, ..t.meta() };
        Some(results.iter().map(|v| v.as_tensor().map(there)).collect())
    }

    fn stream(&self) -> Result<Stream> {
        Ok(gpu(self.device)?.current_stream())
    }

    /// A fresh tensor without gaps.
    fn dense(&self, dtype: DType, sizes: &[i64]) -> Result<Tensor> {
        Tensor::allocate_contiguous(dtype, self.device, sizes)
    }

    /// A tensor with the strides that a result is to have.
    fn deliver(&self, t: Tensor, wanted: &TensorMeta) -> Result<Value> {
        if t.strides() == &wanted.strides[..] && t.sizes() == &wanted.sizes[..] {
            return Ok(Value::Tensor(t));
        }
        let out = Tensor::allocate(
            wanted.dtype,
            self.device,
            wanted.sizes.clone(),
            wanted.strides.clone(),
        )?;
        aten::copy_(&out, &t, false)?;
        Ok(Value::Tensor(out))
    }
}

/// Calls `queue` with so much memory for the work of a stream of a device.
fn with_workspace(
    stream: &Stream,
    device: Device,
    bytes: usize,
    queue: impl FnOnce(Workspace) -> Result<()>,
) -> Result<()> {
    if bytes == 0 {
        return queue(Workspace::default());
    }
    let memory = memory(device, stream, bytes)?;
    // when it is dropped it serves others on this stream, after what is queued here
    queue(Workspace { address: memory.address(), bytes })
}

/// A tensor whose rows along a dimension lie one after another without gaps.
struct Rows {
    tensor: Tensor,
    /// Where the dimension was.
    dim: usize,
    rows: i64,
    length: i64,
}

impl Rows {
    fn new(x: &Tensor, dim: i64) -> Result<Rows> {
        if x.dim() == 0 {
            return Ok(Rows { tensor: contiguous(x)?, dim: 0, rows: 1, length: 1 });
        }
        let dim = crate::ops::common::wrap_dim(dim, x.dim())?;
        let moved = if dim + 1 == x.dim() { x.clone() } else { aten::permute(x, &last(x, dim))? };
        let length = x.sizes()[dim];
        let rows =
            x.sizes().iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, n)| n).product();
        Ok(Rows { tensor: contiguous(&moved)?, dim, rows, length })
    }

    /// The sizes with another length.
    fn sizes(&self, length: i64) -> Dims {
        let mut sizes = Dims::from_slice(self.tensor.sizes());
        if let Some(last) = sizes.last_mut() {
            *last = length;
        }
        sizes
    }

    /// What was computed of such rows, its dimension put back.
    fn back(&self, t: &Tensor) -> Result<Tensor> {
        if self.dim + 1 >= t.dim() {
            return Ok(t.clone());
        }
        let mut order: SmallVec<[i64; 6]> = (0..t.dim() as i64 - 1).collect();
        order.insert(self.dim, t.dim() as i64 - 1);
        aten::permute(t, &order)
    }
}

/// The dimensions with one of them last.
fn last(x: &Tensor, dim: usize) -> SmallVec<[i64; 6]> {
    let mut order: SmallVec<[i64; 6]> = (0..x.dim() as i64).filter(|d| *d != dim as i64).collect();
    order.push(dim as i64);
    order
}

fn contiguous(x: &Tensor) -> Result<Tensor> {
    aten::contiguous(x, straightline_catalog::MemoryFormat::Contiguous)
}

/// Elements of another dtype; the tensor itself where it is its own.
fn converted(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    let strides = layout::preserved_strides(x.sizes(), x.strides());
    let out = Tensor::allocate(dtype, x.device(), Dims::from_slice(x.sizes()), strides)?;
    aten::copy_(&out, x, false)
}
