//! What goes from the CPU to a GPU and back while a function runs, and whose work waits for it.

use super::gpu;
use std::sync::Arc;
use straightline::nn::{Layer, Linear, Module};
use straightline::optim::{GradScaler, GradScalerOptions, NAdam, Optimizer, Sgd};
use straightline::{
    DType, Device, Result, Tensor, assert_close, compile, cuda, manual_seed, tensor,
};

fn here(t: &Tensor) -> Result<Tensor> {
    t.to_device(Device::CPU)
}

/// A copy from memory of the host is over when the call returns, whichever stream uses it next.
#[test]
fn another_stream_finds_what_was_copied() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = Tensor::arange(4)?.to_dtype(DType::F32)?.to_device(gpu)?;
    let y = Tensor::with(gpu).literal([1f32, 2.0, 3.0, 4.0])?;
    let stream = cuda::stream(gpu)?;
    let sum = {
        let _current = stream.enter();
        x.add(&y)?
    };
    stream.synchronize().expect("nothing has failed");
    assert_eq!(here(&sum)?.to_vec::<f32>()?, [1.0, 3.0, 5.0, 7.0]);
    Ok(())
}

/// A function that writes a number of the CPU from one of the GPU.
#[test]
fn a_number_of_the_cpu_is_written_from_the_gpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let (total, w) = (Tensor::zeros(())?, Tensor::with(gpu).zeros([2])?);
    let f = {
        let (total, w) = (total.clone(), w.clone());
        compile(move |x: &Tensor| {
            w.add_(x)?;
            total.copy_(&x.sum()?)?;
            x.mul(2.0)
        })
    };
    for i in 1..5 {
        let x = Tensor::with(gpu).full([2], f64::from(i))?;
        assert_eq!(here(&f.call(&x)?)?.to_vec::<f32>()?, [2.0 * i as f32; 2]);
        assert_eq!(total.item::<f32>()?, 2.0 * i as f32);
    }
    assert_eq!(here(&w)?.to_vec::<f32>()?, [10.0; 2]);
    Ok(())
}

/// Tensors that a function makes from data and moves to its device are constants there.
#[test]
fn literals_are_constants_of_the_gpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |x: &Tensor| {
        let y = x.add(&Tensor::with(x.device()).literal([1f32, 2.0, 3.0])?)?;
        let z = y.mul(&tensor([2f32, 0.5, 1.0])?.to_device(x.device())?)?;
        z.index_select(0, &tensor([2i64, 0])?.to_device(x.device())?)?.add(&x.quantile(0.3)?)
    };
    let x = tensor([0.5f32, -1.0, 2.0])?;
    let want = f(&x)?;
    let compiled = compile(f);
    for _ in 0..4 {
        assert_close(&here(&compiled.call(&x.to_device(gpu)?)?)?, &want)?;
    }
    Ok(())
}

/// Sums of nothing are zeros.
#[test]
fn gradients_of_a_convolution_of_no_images() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    drop(Tensor::with(gpu).full([54], 7.0)?);
    let w = Tensor::with(gpu).ones([3, 2, 3, 3])?.requires_grad_(true)?;
    Tensor::with(gpu).zeros([0, 2, 5, 5])?.conv2d(&w, None, 1, 0)?.sum()?.backward()?;
    let grad = w.grad().expect("a gradient");
    assert_eq!(here(&grad)?.to_vec::<f32>()?, [0.0; 54]);
    Ok(())
}

/// An optimiser with numbers on the CPU.
#[test]
fn a_compiled_step_of_nadam() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let train = |device: Device, compiled: bool| -> Result<Vec<f32>> {
        manual_seed(3);
        let mut layer = Linear::new(3, 1)?;
        layer.set_device(device)?;
        let optimizer = NAdam::new(layer.parameters(), 0.05)?;
        let weight = layer.parameters()[0].clone();
        let step = move |x: &Tensor| {
            optimizer.zero_grad()?;
            let loss = layer.forward(x)?.square()?.mean()?;
            loss.backward()?;
            optimizer.step()?;
            loss.detach()
        };
        let x = Tensor::arange(6)?.to_dtype(DType::F32)?.reshape([2, 3])?.to_device(device)?;
        let run = compile(step);
        for _ in 0..4 {
            if compiled {
                run.call(&x)?
            } else {
                run.eager(&x)?
            };
        }
        here(&weight.detach()?)?.to_vec::<f32>()
    };
    let want = train(Device::CPU, false)?;
    for compiled in [false, true] {
        let got = train(gpu, compiled)?;
        for (g, w) in got.iter().zip(&want) {
            assert!((g - w).abs() < 1e-5, "{got:?} {want:?}");
        }
    }
    Ok(())
}

/// Steps of mixed precision: gradients that are scaled, and a scale that follows them.
#[test]
fn a_compiled_step_with_scaled_gradients() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let train = |device: Device, compiled: bool| -> Result<(Vec<f32>, f32)> {
        let w = tensor([1f32, -2.0])?.to_device(device)?.requires_grad_(true)?;
        let optimizer = Sgd::new([w.clone()], 0.1)?;
        let scaler = Arc::new(GradScaler::new_with(GradScalerOptions::default().init_scale(8.0))?);
        let scale = scaler.clone();
        let weight = w.clone();
        let step = move |x: &Tensor| {
            optimizer.zero_grad()?;
            let loss = weight.mul(x)?.square()?.mean()?;
            scaler.scale(&loss)?.backward()?;
            scaler.step(&optimizer)?;
            scaler.update()?;
            loss.detach()
        };
        let x = tensor([0.5f32, 1.5])?.to_device(device)?;
        let run = compile(step);
        for _ in 0..4 {
            let _loss = if compiled { run.call(&x)? } else { run.eager(&x)? };
        }
        Ok((here(&w.detach()?)?.to_vec::<f32>()?, scale.factor()?))
    };
    let want = train(Device::CPU, false)?;
    for compiled in [false, true] {
        assert_eq!(train(gpu, compiled)?, want);
    }
    Ok(())
}
