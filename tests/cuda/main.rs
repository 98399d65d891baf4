//! Tensors on a GPU: a real one, or the mock driver over a PTX interpreter.
//!
//! `STRAIGHTLINE_CUDA` names the folders of the libraries; `.ci/run` makes one with the mock in it. Where
//! there is none, each test says so and does nothing.

#![cfg(feature = "cuda")]

mod collectives;
mod compiled;
mod control;
mod goldens;
mod graphs;
mod kernels;
mod mappings;
mod memory;
mod moved;
mod operators;
mod products;
mod stack;

use libloading::Library;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use straightline::ops::aten;
use straightline::optim::{Optimizer, Sgd, SgdOptions};
use straightline::{DType, Device, Result, Tensor, assert_close, cuda, tensor};

/// The first GPU, for one test at a time, since some look at its memory; without one, a line that says
/// why.
fn gpu() -> Option<(Device, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    if cuda::is_available() {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        return Some((cuda::device(0), alone));
    }
    assert!(std::env::var_os("STRAIGHTLINE_NEEDS_GPU").is_none(), "{}", cuda::availability());
    eprintln!("skipped, for want of a GPU:\n{}", cuda::availability());
    None
}

/// How often an entry point of the driver was called: the mock driver counts, a real one does not.
fn driver_calls(name: &str) -> Option<u64> {
    type Count = unsafe extern "C" fn(*const c_char) -> u64;
    // SAFETY: the driver is loaded already, and the function is the mock driver's.
    unsafe {
        let driver = Library::new("libcuda.so.1").ok()?;
        let count = driver.get::<Count>(b"straightline_mock_statistics\0").ok()?;
        let name = CString::new(name).ok()?;
        Some(count(name.as_ptr())).filter(|n| *n != u64::MAX)
    }
}

#[test]
fn a_machine_without_a_driver_has_a_reason_and_no_panic() {
    if cuda::device_count() == 0 {
        let e = Tensor::with(cuda::device(0)).zeros([2]).unwrap_err();
        assert!(e.to_string().contains("driver"), "{e}");
        assert!(!cuda::availability().driver.is_here());
    }
    let beyond = cuda::device(cuda::device_count() as i8);
    assert!(Tensor::with(beyond).zeros([2]).is_err());
}

#[test]
fn copies_go_between_all_pairs() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let whole = Tensor::arange(60)?.reshape([3, 4, 5])?;
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8, DType::Bool] {
        let x = whole.to_dtype(dtype)?;
        let views = [
            x.clone(),
            x.transpose(0, 2)?,
            x.slice(2, 1, 4, 2)?,
            x.select(1, 2)?,
            x.narrow(0, 1, 1)?.expand([3, 4, 5])?,
        ];
        for view in &views {
            let there = view.to_device(gpu)?;
            assert_close(&there.to_device(Device::CPU)?, view)?;
            // strided on the device as well
            let of_device = aten::as_strided(
                &x.to_device(gpu)?,
                view.sizes(),
                view.strides(),
                Some(view.storage_offset()),
            )?;
            assert_close(&of_device.to_device(Device::CPU)?, view)?;
            assert_close(&of_device.contiguous()?.to_device(Device::CPU)?, view)?;
            let target = Tensor::with((DType::F32, gpu)).zeros(view.sizes())?;
            target.copy_(&of_device)?;
            assert_close(&target.to_device(Device::CPU)?, &view.to_dtype(DType::F32)?)?;
            let back = Tensor::zeros(view.sizes())?;
            back.copy_(&of_device)?;
            assert_close(&back, &view.to_dtype(DType::F32)?)?;
        }
    }
    Ok(())
}

#[test]
fn printing_and_items_are_those_of_the_values() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = tensor([[1.5f32, -2.0], [0.0, 4.0]])?;
    let text = x.to_device(gpu)?.to_string();
    assert_eq!(text.replace(", device='cuda:0'", ""), x.to_string());
    assert_eq!(x.to_device(gpu)?.sum()?.item::<f32>()?, 3.5);
    assert_eq!(Tensor::with(gpu).full([2], 7.0)?.to_vec::<f32>()?, [7.0, 7.0]);
    Ok(())
}

#[test]
fn tensors_of_two_devices_are_refused_and_numbers_are_not() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let (here, there) = (tensor([1f32, 2.0])?, tensor([1f32, 2.0])?.to_device(gpu)?);
    let e = there.add(&here).unwrap_err();
    assert!(e.to_string().contains("same device"), "{e}");
    assert_eq!(e.op(), Some("aten::add.Tensor"));
    assert_eq!(there.add(&tensor(1f32)?)?.to_vec::<f32>()?, [2.0, 3.0]);
    assert_eq!(there.mul(3)?.to_vec::<f32>()?, [3.0, 6.0]);
    Ok(())
}

/// Before anything else has been made there, in a process of its own.
#[test]
fn factories_may_be_the_first_to_use_the_device() -> Result<()> {
    const NAME: &str = "factories_may_be_the_first_to_use_the_device";
    if std::env::var_os("CUDA_FACTORY").is_none() {
        let Some(_) = gpu() else { return Ok(()) };
        for factory in ["arange", "full", "eye", "linspace", "tril_indices"] {
            let this = std::env::current_exe().expect("this binary");
            let mut child = std::process::Command::new(this);
            child.args([NAME, "--exact"]).env("CUDA_FACTORY", factory);
            let done = child.output().expect("it starts");
            assert!(done.status.success(), "{factory}: {}", String::from_utf8_lossy(&done.stdout));
        }
        return Ok(());
    }
    let make = |device: Device| -> Result<Tensor> {
        let with = Tensor::with((DType::F32, device));
        Ok(match std::env::var("CUDA_FACTORY").as_deref() {
            Ok("arange") => with.arange(7)?,
            Ok("full") => with.full([3], 2.5)?,
            Ok("eye") => with.eye(3)?,
            Ok("linspace") => with.linspace(0.0, 1.0, 5)?,
            _ => aten::tril_indices(3, 3, 0, None, None, Some(device), None)?,
        })
    };
    let (got, want) = (make(cuda::device(0))?, make(Device::CPU)?);
    assert_eq!(got.device(), cuda::device(0));
    assert_close(&got.to_device(Device::CPU)?, &want)
}

#[test]
fn what_fails_on_the_device_gives_the_error_of_the_cpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let (x, at) = (Tensor::arange(6)?.reshape([2, 3])?, tensor([0i64, 3])?);
    let want = x.index_select(1, &at).unwrap_err().to_string();
    let got = x.to_device(gpu)?.index_select(1, &at.to_device(gpu)?).unwrap_err().to_string();
    let after =
        |s: &str| s.split("): ").last().map(|s| s.split(" (called").next().map(String::from));
    assert_eq!(after(&got), after(&want));
    let zero = tensor([1i64, 0])?.to_device(gpu)?;
    let e = aten::div_tensor_mode(&zero, &zero, Some("floor")).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("division or modulo by zero"), "{e}");
    // and the next call works
    assert_eq!(zero.add(1)?.to_vec::<i64>()?, [2, 1]);
    Ok(())
}

#[test]
fn memory_comes_back_and_running_out_of_it_is_an_error() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let held = || cuda::memory_statistics(gpu).map(|s| s.allocated.now);
    let before = held()?;
    for _ in 0..20 {
        let x = Tensor::with(gpu).ones([1000])?;
        x.exp()?.add(&x)?;
    }
    cuda::synchronize(gpu)?;
    assert_eq!(held()?, before);
    let e = Tensor::with(gpu).empty([1i64 << 45]).unwrap_err();
    assert!(e.to_string().contains("out of device memory"), "{e}");
    assert_eq!(Tensor::with(gpu).ones([2])?.to_vec::<f32>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn work_of_another_stream_is_waited_for_where_it_is_told_of() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = Tensor::arange(1000)?.to_dtype(DType::F32)?.to_device(gpu)?;
    cuda::synchronize(gpu)?;
    let side = cuda::stream(gpu)?;
    let y = {
        let _current = side.enter();
        let y = x.mul(2)?;
        cuda::record_stream(&x, &side);
        y
    };
    drop(x);
    // memory of the same size, on the stream whose tensor is gone
    let fresh = Tensor::with(gpu).zeros([1000])?;
    side.synchronize().expect("the work has not failed");
    assert_eq!(y.to_vec::<f32>()?[999], 1998.0);
    assert_eq!(fresh.to_vec::<f32>()?[999], 0.0);
    Ok(())
}

#[test]
fn a_network_learns_as_on_the_cpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let step = |device: Device| -> Result<Vec<f32>> {
        let put = |t: Tensor| t.to_device(device);
        let numbers = |n: i64| Tensor::arange(n)?.to_dtype(DType::F32)?.mul(0.37)?.sin();
        let x = put(numbers(24)?.reshape([6, 4])?)?;
        let w = put(numbers(12)?.reshape([4, 3])?)?.requires_grad_(true)?;
        let b = put(numbers(3)?)?.requires_grad_(true)?;
        let target = put(tensor([0i64, 2, 1, 1, 0, 2])?)?;
        let optimizer = Sgd::new(vec![w.clone(), b.clone()], SgdOptions::default().lr(0.5))?;
        let mut losses = Vec::new();
        for _ in 0..3 {
            optimizer.zero_grad()?;
            let loss = x.matmul(&w)?.add(&b)?.gelu()?.cross_entropy(&target)?;
            loss.backward()?;
            optimizer.step()?;
            losses.push(loss.item::<f32>()?);
        }
        Ok(losses)
    };
    let (want, got) = (step(Device::CPU)?, step(gpu)?);
    for (want, got) in want.iter().zip(&got) {
        assert!((want - got).abs() < 1e-5, "{want} {got}");
    }
    Ok(())
}

#[test]
fn rows_that_leave_shared_memory_and_long_sums_are_right() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = Tensor::arange(3000)?.to_dtype(DType::F64)?.mul(0.001)?.sin()?.reshape([3, 1000])?;
    assert_close(&x.to_device(gpu)?.softmax(-1)?.to_device(Device::CPU)?, &x.softmax(-1)?)?;
    // a thread adds up a column by itself
    let long = Tensor::with(gpu).full([100_000, 3], 0.1)?;
    for sum in long.sum_dim(0)?.to_vec::<f32>()? {
        assert!((sum - 10_000.0).abs() < 0.01, "{sum}");
    }
    let huge = tensor([f32::MAX, f32::MAX, -1.0])?.to_device(gpu)?;
    assert_eq!(huge.sum()?.item::<f32>()?, f32::INFINITY);
    Ok(())
}

#[test]
fn what_is_written_may_repeat_where_it_may_on_the_cpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = Tensor::with(gpu).zeros([3, 1])?;
    x.expand([3, 4])?.fill_(7.0)?;
    assert_eq!(x.to_vec::<f32>()?, [7.0; 3]);
    let row = Tensor::arange(20)?.to_device(gpu)?;
    let (to, from) = (row.slice(0, 1, 20, 1)?, row.slice(0, 0, 19, 1)?);
    for e in [to.copy_(&from).unwrap_err(), to.add_(&from).unwrap_err()] {
        assert!(e.to_string().contains("single memory location"), "{e}");
    }
    Ok(())
}

#[test]
fn numbers_indices_and_files_may_be_on_the_cpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = Tensor::arange(6)?.to_dtype(DType::F32)?.to_device(gpu)?;
    let scale = tensor(2f32)?.requires_grad_(true)?;
    x.mul(&scale)?.sum()?.backward()?;
    let grad = scale.grad().expect("a gradient");
    assert_eq!((grad.device(), grad.item::<f32>()?), (Device::CPU, 15.0));
    assert_eq!(x.index(&[tensor([4i64, 1])?])?.to_vec::<f32>()?, [4.0, 1.0]);
    assert_eq!(x.gt(3)?.to_device(Device::CPU)?.to_vec::<bool>()?[4..], [true, true]);
    let mask = x.gt(3)?.to_device(Device::CPU)?;
    assert_eq!(x.index(&[mask])?.to_vec::<f32>()?, [4.0, 5.0]);
    let one_hot = aten::one_hot(&tensor([2i64, 0])?.to_device(gpu)?, -1)?;
    assert_eq!(one_hot.to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
    let file = std::env::temp_dir().join(format!("on_gpu-{}.safetensors", std::process::id()));
    straightline::save_safetensors(&file, [("x", &x)])?;
    let back = straightline::load_safetensors(&file)?;
    std::fs::remove_file(&file).expect("it was written");
    assert_eq!(back["x"].to_vec::<f32>()?, x.to_vec::<f32>()?);
    Ok(())
}

#[test]
fn bits_settings_and_other_devices_are_seen() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let pairs = tensor([[1f32, 2.0], [3.0, -4.0]])?;
    let of = |t: &Tensor| -> Result<Vec<f32>> {
        let conjugate = aten::conj(&aten::view_as_complex(t)?)?;
        let imaginary = aten::imag(&conjugate)?;
        let copied = aten::view_as_real(&aten::resolve_conj(&conjugate)?)?;
        let mut all = copied.to_vec::<f32>()?;
        all.extend(imaginary.to_vec::<f32>()?);
        all.push(imaginary.sum()?.item::<f32>()?);
        all.extend(
            aten::view_as_real(&conjugate.to_device(Device::CPU)?.copied()?)?.to_vec::<f32>()?,
        );
        Ok(all)
    };
    assert_eq!(of(&pairs.to_device(gpu)?)?, of(&pairs)?);
    let x = tensor([1i64, 2])?.to_device(gpu)?;
    let zeros = aten::new_zeros(&x, &[2], None, None, Some(Device::CPU), None)?;
    assert_eq!(zeros.device(), Device::CPU);
    let meta = x.to_device(Device::META)?;
    assert_eq!((meta.device(), meta.sizes()), (Device::META, &[2][..]));
    Ok(())
}

#[test]
fn streams_that_are_gone_are_still_waited_for() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = Tensor::with(gpu).ones([4096])?;
    cuda::synchronize(gpu)?;
    let y = {
        let side = cuda::stream(gpu)?;
        let _current = side.enter();
        let mut y = x.mul(2)?;
        for _ in 0..3 {
            y = y.add(&x)?;
        }
        cuda::record_stream(&x, &side);
        y
    };
    drop(x);
    assert_eq!(Tensor::with(gpu).zeros([4096])?.to_vec::<f32>()?[0], 0.0);
    cuda::synchronize(gpu)?;
    assert_eq!(y.to_vec::<f32>()?, [5.0; 4096]);
    // memory that grows on another stream than its own
    let side = cuda::stream(gpu)?;
    let made = {
        let _current = side.enter();
        Tensor::with(gpu).ones([1000])?
    };
    side.synchronize().expect("nothing has failed");
    aten::resize_(&made, &[5000], None)?;
    {
        let _current = side.enter();
        Tensor::with(gpu).full([1000], 7.0)?;
        side.synchronize().expect("nothing has failed");
    }
    assert_eq!(made.to_vec::<f32>()?[..1000], [1.0; 1000]);
    Ok(())
}
