//! Tensors of several GPUs of this process, combined and copied by NCCL.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::on_device::gpu;
use crate::tensor::{Tensor, access, numbered};
use straightline_catalog::{DType, Device, DeviceType, Dims, MemoryFormat, layout};
use straightline_cuda::nccl::{self, Collective, CollectiveError, Combine, Place};

/// GPUs of this process that work together, by NCCL. Rank `i` is the `i`-th of them, and the `i`-th of the
/// tensors that a method takes is its own; all have the same sizes and dtype. What is done is queued on
/// the current streams of the GPUs, after what has been queued there.
///
/// ```
/// use straightline::{Tensor, cuda};
/// use straightline::cuda::{Combine, Communicator};
/// if cuda::device_count() > 1 && cuda::availability().nccl.is_here() {
///     let devices = [cuda::device(0), cuda::device(1)];
///     let all = Communicator::new(&devices)?;
///     let x: Vec<Tensor> = vec![
///         Tensor::with(devices[0]).full([4], 1.0)?,
///         Tensor::with(devices[1]).full([4], 2.0)?,
///     ];
///     all.all_reduce_(&x, Combine::Sum)?;
///     assert_eq!(x[0].to_vec::<f32>()?, [3.0; 4]);
///     assert_eq!(x[1].to_vec::<f32>()?, [3.0; 4]);
/// }
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Debug)]
pub struct Communicator {
    all: nccl::Communicator,
    devices: Vec<Device>,
}

fn failed(e: CollectiveError) -> Error {
    match e {
        CollectiveError::DType { .. } => Error::type_error(e.to_string()),
        CollectiveError::Ranks { .. } => Error::value(e.to_string()),
        _ => Error::device(e.to_string()),
    }
}

/// Row-major memory of the same elements: the tensor itself if it is that.
fn dense(t: &Tensor) -> Result<Tensor> {
    aten::contiguous(&t.resolved()?, MemoryFormat::Contiguous)
}

fn fresh(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    Tensor::allocate(dtype, device, Dims::from_slice(sizes), layout::contiguous_strides(sizes))
}

impl Communicator {
    /// A communicator of these GPUs, each once.
    ///
    /// # Errors
    ///
    /// A device that is no GPU, is there twice, or is not there; NCCL is missing or refuses.
    pub fn new(devices: &[Device]) -> Result<Communicator> {
        let devices: Vec<Device> = devices.iter().copied().map(numbered).collect();
        for (i, d) in devices.iter().enumerate() {
            ensure_value!(d.kind == DeviceType::Cuda, "rank {i} is `{d}`, which is no GPU");
            ensure_value!(!devices[..i].contains(d), "`{d}` is rank {i} and an earlier one");
        }
        let raw = devices.iter().map(|d| gpu(*d)).collect::<Result<Vec<_>>>()?;
        Ok(Communicator { all: nccl::Communicator::new(&raw).map_err(failed)?, devices })
    }

    /// The GPU of each rank.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Writes the combination of all tensors into each of them.
    ///
    /// # Errors
    ///
    /// Tensors that do not fit, a dtype that NCCL does not have (narrow integers, complex numbers, `bool`),
    /// tensors in use.
    pub fn all_reduce_(&self, tensors: &[Tensor], how: Combine) -> Result<()> {
        self.in_place(Collective::AllReduce(how), tensors)
    }

    /// Writes the tensor of rank `root` into all others.
    ///
    /// # Errors
    ///
    /// As [`Communicator::all_reduce_`], or there is no such rank.
    pub fn broadcast_(&self, tensors: &[Tensor], root: usize) -> Result<()> {
        let ranks = self.devices.len();
        ensure_value!(root < ranks, "there is no rank {root} of {ranks}");
        self.in_place(Collective::Broadcast { root }, tensors)
    }

    /// All tensors, one after the other along the first dimension, for each rank.
    ///
    /// # Errors
    ///
    /// As [`Communicator::all_reduce_`], or tensors without dimensions.
    pub fn all_gather(&self, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
        let first = self.check(tensors)?;
        let [rows, rest @ ..] = first.sizes() else {
            return Err(Error::value(
                "all_gather: tensors without dimensions: reshape them to `[1]`",
            ));
        };
        let sizes: Vec<i64> = [&[rows * self.devices.len() as i64], rest].concat();
        self.fresh(Collective::AllGather, tensors, &sizes)
    }

    /// The combination of all tensors, cut along the first dimension: rank `i` gets the `i`-th part.
    ///
    /// # Errors
    ///
    /// As [`Communicator::all_reduce_`], or a first dimension that the ranks do not divide.
    pub fn reduce_scatter(&self, tensors: &[Tensor], how: Combine) -> Result<Vec<Tensor>> {
        let first = self.check(tensors)?;
        let ranks = self.devices.len() as i64;
        let sizes = match first.sizes() {
            [rows, rest @ ..] if rows % ranks == 0 => [&[rows / ranks], rest].concat(),
            sizes => {
                return Err(Error::value(format!(
                    "reduce_scatter: sizes {sizes:?} have no first dimension that {ranks} ranks divide"
                )));
            }
        };
        self.fresh(Collective::ReduceScatter(how), tensors, &sizes)
    }

    /// One of the tensors, which are alike, each on the GPU of its rank.
    fn check<'a>(&self, tensors: &'a [Tensor]) -> Result<&'a Tensor> {
        let ranks = self.devices.len();
        ensure_value!(tensors.len() == ranks, "{} tensors for {ranks} ranks", tensors.len());
        let first = &tensors[0];
        for (i, (t, device)) in tensors.iter().zip(&self.devices).enumerate() {
            ensure!(
                t.device() == *device,
                "rank {i} is `{device}`, and its tensor is on `{}`",
                t.device()
            );
            ensure_value!(
                t.sizes() == first.sizes() && t.dtype() == first.dtype(),
                "rank {i} has a {}{:?}, and rank 0 a {}{:?}",
                t.dtype(),
                t.sizes(),
                first.dtype(),
                first.sizes()
            );
        }
        Ok(first)
    }

    fn in_place(&self, what: Collective, tensors: &[Tensor]) -> Result<()> {
        let first = self.check(tensors)?;
        let dense = tensors.iter().map(dense).collect::<Result<Vec<_>>>()?;
        {
            let held = dense.iter().map(Tensor::write).collect::<Result<Vec<_>>>()?;
            self.queue(what, first, &dense, &dense)?;
            drop(held);
        }
        for (to, from) in tensors.iter().zip(&dense) {
            if !to.shares_storage_with(from) {
                aten::copy_(to, from, false)?;
            }
        }
        Ok(())
    }

    fn fresh(&self, what: Collective, tensors: &[Tensor], sizes: &[i64]) -> Result<Vec<Tensor>> {
        let first = self.check(tensors)?;
        let dense = tensors.iter().map(dense).collect::<Result<Vec<_>>>()?;
        let devices = self.devices.iter();
        let results =
            devices.map(|d| fresh(sizes, first.dtype(), *d)).collect::<Result<Vec<_>>>()?;
        let _held = access::read(&dense.iter().collect::<Vec<_>>())?;
        self.queue(what, first, &dense, &results)?;
        Ok(results)
    }

    fn queue(&self, what: Collective, like: &Tensor, from: &[Tensor], to: &[Tensor]) -> Result<()> {
        if like.numel() == 0 {
            return Ok(());
        }
        let place = |(from, to): (&Tensor, &Tensor)| {
            Ok(Place {
                send: from.device_address()?,
                receive: to.device_address()?,
                stream: gpu(from.device())?.current_stream(),
            })
        };
        let places = from.iter().zip(to).map(place).collect::<Result<Vec<_>>>()?;
        // SAFETY: tensors are row-major, on the GPUs of their ranks, and held while it is queued; their
        // memory serves others on these streams only after it.
        unsafe { self.all.queue(what, like.dtype(), like.numel() as usize, &places) }
            .map_err(failed)
    }
}
