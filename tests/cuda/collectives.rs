//! Several GPUs of one process.

use super::gpu;
use straightline::cuda::{self, Combine, Communicator};
use straightline::{DType, Device, Result, Tensor};

/// A communicator of the first two GPUs, or a line that says why there is none.
fn two() -> Result<Option<(Communicator, [Device; 2])>> {
    let devices = [cuda::device(0), cuda::device(1)];
    if cuda::device_count() < 2 || !cuda::availability().nccl.is_here() {
        eprintln!("skipped, for want of two GPUs and NCCL:\n{}", cuda::availability());
        return Ok(None);
    }
    Ok(Some((Communicator::new(&devices)?, devices)))
}

fn on(devices: [Device; 2], dtype: DType) -> Result<Vec<Tensor>> {
    let of = |(i, d): (i64, Device)| {
        Tensor::arange(8)?.add(10 * i)?.to_dtype(dtype)?.reshape([4, 2])?.to_device(d)
    };
    [(0, devices[0]), (1, devices[1])].into_iter().map(of).collect()
}

fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    t.to_device(Device::CPU)?.to_dtype(DType::F64)?.reshape([-1])?.to_vec()
}

#[test]
fn tensors_are_combined_and_copied() -> Result<()> {
    let Some((_, _alone)) = gpu() else { return Ok(()) };
    let Some((all, devices)) = two()? else { return Ok(()) };
    for dtype in [DType::F32, DType::F64, DType::I64, DType::I32, DType::BF16] {
        let x = on(devices, dtype)?;
        all.all_reduce_(&x, Combine::Sum)?;
        let sums: Vec<f64> = (0..8).map(|i| f64::from(2 * i + 10)).collect();
        for t in &x {
            assert_eq!(numbers(t)?, sums, "{dtype}");
        }
        let x = on(devices, dtype)?;
        let gathered = all.all_gather(&x)?;
        let want: Vec<f64> = (0..8).chain(10..18).map(f64::from).collect();
        for (t, device) in gathered.iter().zip(devices) {
            assert_eq!((t.sizes(), t.device()), (&[8, 2][..], device));
            assert_eq!(numbers(t)?, want, "{dtype}");
        }
        let parts = all.reduce_scatter(&x, Combine::Max)?;
        assert_eq!(numbers(&parts[0])?, [10.0, 11.0, 12.0, 13.0], "{dtype}");
        assert_eq!(numbers(&parts[1])?, [14.0, 15.0, 16.0, 17.0], "{dtype}");
        all.broadcast_(&x, 1)?;
        assert_eq!(numbers(&x[0])?, numbers(&x[1])?, "{dtype}");
        assert_eq!(numbers(&x[0])?[0], 10.0);
    }
    Ok(())
}

/// In the order of the streams: what is queued before is combined, and what is queued after sees it.
#[test]
fn work_before_and_after_is_ordered() -> Result<()> {
    let Some((_, _alone)) = gpu() else { return Ok(()) };
    let Some((all, devices)) = two()? else { return Ok(()) };
    // columns of a matrix, which are not row-major
    let x = on(devices, DType::F32)?;
    let columns = x.iter().map(|t| t.mul(2.0)?.t()).collect::<Result<Vec<_>>>()?;
    all.all_reduce_(&columns, Combine::Mean)?;
    let after = columns.iter().map(|t| t.add(1.0)).collect::<Result<Vec<_>>>()?;
    for t in &after {
        let want: Vec<f64> = [0, 2, 4, 6, 1, 3, 5, 7].map(|i| f64::from(2 * i + 11)).into();
        assert_eq!(numbers(t)?, want);
    }
    Ok(())
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let Some((all, devices)) = two()? else { return Ok(()) };
    let x = on(devices, DType::F32)?;
    let refused = |e: Result<()>, what: &str| {
        let e = e.unwrap_err().to_string();
        assert!(e.contains(what), "{e}");
    };
    refused(all.all_reduce_(&x[..1], Combine::Sum), "1 tensors for 2 ranks");
    refused(all.all_reduce_(&[x[1].clone(), x[0].clone()], Combine::Sum), "rank 0 is `cuda:0`");
    refused(all.all_reduce_(&[x[0].clone(), x[1].t()?], Combine::Sum), "rank 1 has a");
    refused(all.broadcast_(&x, 2), "no rank 2");
    let odd: Vec<Tensor> = x.iter().map(|t| t.narrow(0, 0, 3)).collect::<Result<_>>()?;
    refused(all.reduce_scatter(&odd, Combine::Sum).map(drop), "2 ranks divide");
    let truth = on(devices, DType::Bool)?;
    refused(all.all_reduce_(&truth, Combine::Max), "bool");
    refused(Communicator::new(&[gpu, gpu]).map(drop), "rank 1 and an earlier one");
    refused(Communicator::new(&[gpu, Device::CPU]).map(drop), "no GPU");
    Ok(())
}
