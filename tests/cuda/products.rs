//! Products, convolutions and attention on a GPU, against the CPU, by their own kernels there.

use super::{driver_calls, gpu};
use std::fmt::{Debug, Write};
use std::sync::Mutex;
use straightline::ops::aten;
use straightline::testing::Closeness;
use straightline::{
    DType, Device, MatmulPrecision, Result, Tensor, compile, cuda, dispatch, eye,
    set_float32_matmul_precision,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

/// Notes what is said of operators that run on the CPU.
#[derive(Default)]
struct OnCpu(Mutex<String>);

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        _ = writeln!(self.0, "{value:?}");
    }
}

impl tracing::Subscriber for OnCpu {
    fn enabled(&self, at: &tracing::Metadata<'_>) -> bool {
        at.is_event() && *at.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        if text.contains("runs on the CPU") {
            self.0.lock().expect("no test has failed in it").push_str(&text);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs `f` with both devices and compares all that it gives; nothing may run on the CPU for the GPU.
fn compare(gpu: Device, what: &str, f: impl Fn(Device) -> Result<Vec<Tensor>>) -> Result<()> {
    let want = f(Device::CPU)?;
    let notes = std::sync::Arc::new(OnCpu::default());
    let got = tracing::subscriber::with_default(notes.clone(), || f(gpu))?;
    assert_eq!(*notes.0.lock().expect("no test has failed in it"), "", "{what}");
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(got.device(), gpu);
        assert_eq!(got.strides(), want.strides(), "{what}, result {i}");
        let tolerance = match want.dtype() {
            DType::F64 => 1e-10,
            DType::F32 => 1e-4,
            DType::F16 => 4e-3,
            _ => 3e-2,
        };
        let close = Closeness::new().rtol(tolerance).atol(tolerance).equal_nan();
        close
            .check(&got.to_device(Device::CPU)?, want)
            .inspect_err(|_| eprintln!("{what}, result {i}"))?;
    }
    Ok(())
}

/// Numbers on a device, of a dtype.
fn numbers(sizes: &[i64], seed: f64, dtype: DType, device: Device) -> Result<Tensor> {
    let count = sizes.iter().product::<i64>();
    let x = Tensor::arange(count)?.to_dtype(DType::F64)?.mul(0.731)?.add(seed)?.sin()?;
    x.reshape(sizes)?.to_dtype(dtype)?.to_device(device)
}

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

#[test]
fn products_of_all_layouts() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let before = driver_calls("cublasLtMatmul");
    for dtype in FLOATS {
        compare(gpu, &format!("products of {dtype}"), |device| {
            let of = |sizes: &[i64], seed: f64| numbers(sizes, seed, dtype, device);
            let (a, b) = (of(&[5, 7], 1.0)?, of(&[7, 3], 2.0)?);
            let (turned, gaps) = (of(&[7, 5], 3.0)?.t()?, of(&[5, 14], 4.0)?.slice(1, 0, 14, 2)?);
            let batch = of(&[2, 5, 7], 5.0)?;
            let bias = of(&[3], 6.0)?;
            Ok(vec![
                a.mm(&b)?,
                turned.mm(&b)?,
                gaps.mm(&b)?,
                a.mm(&of(&[3, 7], 7.0)?.t()?)?,
                batch.bmm(&b.expand([2, 7, 3])?)?,
                batch.transpose(1, 2)?.bmm(&batch)?,
                batch.matmul(&b)?,
                aten::linear(&batch, &of(&[3, 7], 8.0)?, Some(&bias))?,
                aten::addmm(&bias, &a, &b, 0.5.into(), 2.0.into())?,
                aten::baddbmm(
                    &of(&[2, 5, 3], 9.0)?,
                    &batch,
                    &b.expand([2, 7, 3])?,
                    1.into(),
                    1.into(),
                )?,
                a.narrow(1, 0, 0)?.mm(&b.narrow(0, 0, 0)?)?,
            ])
        })?;
    }
    if let (Some(before), Some(after)) = (before, driver_calls("cublasLtMatmul")) {
        // all but the one with gaps, and the one that sums nothing
        let by_blas = if straightline::cuda::availability().cublas_lt.is_here() { 9 } else { 0 };
        assert_eq!(after - before, by_blas * FLOATS.len() as u64);
    }
    Ok(())
}

#[test]
fn convolutions_and_their_gradients() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    for dtype in FLOATS {
        let of = |sizes: &[i64], seed: f64, device| numbers(sizes, seed, dtype, device);
        type Made = (Tensor, Vec<Tensor>);
        type Case<'a> = (&'a str, &'a dyn Fn(Device) -> Result<Made>);
        let cases: [Case<'_>; 5] = [
            ("conv1d", &|d| {
                let (x, w) = (of(&[2, 3, 9], 1.0, d)?, of(&[4, 3, 3], 2.0, d)?);
                let (x, w) = (x.requires_grad_(true)?, w.requires_grad_(true)?);
                Ok((aten::conv1d(&x, &w, None, &[2], &[1], &[1], 1)?, vec![x, w]))
            }),
            ("conv2d", &|d| {
                let (x, w, b) =
                    (of(&[2, 4, 6, 5], 1.0, d)?, of(&[6, 2, 3, 2], 2.0, d)?, of(&[6], 3.0, d)?);
                let all = [x, w, b].map(|t| t.requires_grad_(true));
                let [x, w, b] = all;
                let (x, w, b) = (x?, w?, b?);
                let y = aten::conv2d(&x, &w, Some(&b), &[1, 2], &[1, 0], &[2, 1], 2)?;
                Ok((y, vec![x, w, b]))
            }),
            ("conv2d, channels last", &|d| {
                let (x, w) = (of(&[2, 6, 5, 3], 1.0, d)?, of(&[3, 3, 3, 3], 2.0, d)?);
                let x = x.permute([0, 3, 1, 2])?.detach()?.requires_grad_(true)?;
                let w = w.requires_grad_(true)?;
                Ok((aten::conv2d(&x, &w, None, &[1, 1], &[1, 1], &[1, 1], 1)?, vec![x, w]))
            }),
            ("conv3d", &|d| {
                let (x, w) = (of(&[1, 2, 4, 3, 5], 1.0, d)?, of(&[2, 1, 2, 2, 2], 2.0, d)?);
                let (x, w) = (x.requires_grad_(true)?, w.requires_grad_(true)?);
                let (ones, none) = ([1; 3], [0; 3]);
                Ok((aten::conv3d(&x, &w, None, &ones, &none, &ones, 2)?, vec![x, w]))
            }),
            ("conv_transpose2d", &|d| {
                let (x, w, b) =
                    (of(&[2, 4, 3, 4], 1.0, d)?, of(&[4, 3, 3, 2], 2.0, d)?, of(&[3], 3.0, d)?);
                let (x, w, b) =
                    (x.requires_grad_(true)?, w.requires_grad_(true)?, b.requires_grad_(true)?);
                let (twice, ones, last) = ([2, 2], [1, 1], [1, 0]);
                let y =
                    aten::conv_transpose2d_input(&x, &w, Some(&b), &twice, &ones, &last, 1, &ones)?;
                Ok((y, vec![x, w, b]))
            }),
        ];
        for (name, f) in cases {
            compare(gpu, &format!("{name} of {dtype}"), |device| {
                let (y, of) = f(device)?;
                let weights = numbers(y.sizes(), 4.0, y.dtype(), device)?;
                y.mul(&weights)?.sum()?.backward()?;
                let mut all = vec![y.detach()?];
                all.extend(of.iter().filter_map(Tensor::grad));
                assert_eq!(all.len(), of.len() + 1);
                Ok(all)
            })?;
        }
    }
    Ok(())
}

#[test]
fn attention_and_its_gradients() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let hidden = Tensor::arange(35)?.remainder(3)?.ne(0)?.reshape([5, 7])?;
    // a row that sees nothing
    hidden.select(0, 2)?.fill_(0)?;
    for dtype in FLOATS {
        for which in ["plain", "causal", "bool", "float", "shared heads", "three dimensions"] {
            compare(gpu, &format!("attention of {dtype}, {which}"), |device| {
                let of = |heads: i64, positions: i64, seed: f64| {
                    let sizes = [2, heads, positions, 8];
                    numbers(
                        &sizes[usize::from(which == "three dimensions")..],
                        seed,
                        dtype,
                        device,
                    )?
                    .requires_grad_(true)
                };
                let kv_heads = if which == "shared heads" { 2 } else { 4 };
                let (q, k, v) = (of(4, 5, 1.0)?, of(kv_heads, 7, 2.0)?, of(kv_heads, 7, 3.0)?);
                let mask = match which {
                    "bool" => Some(hidden.to_device(device)?),
                    "float" => Some(numbers(&[2, 1, 5, 7], 4.0, dtype, device)?),
                    _ => None,
                };
                let (causal, gqa) = (which == "causal", which == "shared heads");
                let y = aten::scaled_dot_product_attention(
                    &q,
                    &k,
                    &v,
                    mask.as_ref(),
                    0.0,
                    causal,
                    None,
                    gqa,
                )?;
                y.mul(&numbers(y.sizes(), 5.0, dtype, device)?)?.sum()?.backward()?;
                let mut all = vec![y.detach()?];
                all.extend([q, k, v].iter().filter_map(Tensor::grad));
                assert_eq!(all.len(), 4);
                Ok(all)
            })?;
        }
    }
    Ok(())
}

#[test]
fn what_the_cpu_refuses_is_refused_alike() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let message = |device: Device| -> Result<Vec<String>> {
        let x = Tensor::with(device).ones([1, 3, 5, 5])?;
        let w = Tensor::with(device).ones([2, 4, 3, 3])?;
        let q = Tensor::with(device).ones([1, 2, 3, 4])?;
        let k = Tensor::with(device).ones([1, 2, 3, 5])?;
        let conv = aten::conv2d(&x, &w, None, &[1, 1], &[0, 0], &[1, 1], 1).unwrap_err();
        let flash =
            aten::_scaled_dot_product_flash_attention_for_cpu(&q, &k, &q, 0.0, false, None, None);
        let flash = flash.map(|_| ()).unwrap_err();
        let product = x.select(0, 0)?.bmm(&x.select(0, 0)?.narrow(1, 0, 2)?).unwrap_err();
        let text = |e: straightline::Error| {
            let text = e.to_string().replace("@cuda:0", "");
            text.split(" (called").next().unwrap_or_default().to_string()
        };
        Ok([conv, flash, product].map(text).into())
    };
    assert_eq!(message(gpu)?, message(Device::CPU)?);
    Ok(())
}

/// A convolution with what follows it, products with each kind of epilogue, and attention; at last one
/// launch of a graph for all of them.
#[test]
fn compiled_with_what_follows() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |(x, w, b, u, v): (&Tensor, &Tensor, &Tensor, &Tensor, &Tensor)| {
        let y = aten::conv2d(x, w, Some(b), &[2, 1], &[1, 0], &[1, 1], 1)?.relu()?;
        let rows = y.reshape([2, 4, 16])?;
        let z = aten::linear(&rows, u, Some(v))?;
        let z = aten::gelu(&z, "tanh")?.add(&rows)?;
        let z = aten::linear(&z, u, Some(v))?.silu()?;
        let heads = z.reshape([2, 4, 2, 8])?.transpose(1, 2)?;
        let all = heads.scaled_dot_product_attention_with(&heads, &heads, None, true)?;
        all.transpose(1, 2)?.reshape([2, 4, 16])?.matmul(&u.t()?)?.add(&z)
    };
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let operands = |device| -> Result<[Tensor; 5]> {
            let of = |sizes: &[i64], seed: f64| numbers(sizes, seed, dtype, device)?.mul(0.5);
            Ok([
                of(&[2, 3, 8, 5], 1.0)?,
                of(&[4, 3, 3, 2], 2.0)?,
                of(&[4], 3.0)?,
                of(&[16, 16], 4.0)?,
                of(&[16], 5.0)?,
            ])
        };
        let [x, w, b, u, v] = operands(Device::CPU)?;
        let want = f((&x, &w, &b, &u, &v))?;
        let [x, w, b, u, v] = operands(gpu)?;
        let compiled = compile(f);
        let tolerance = if dtype == DType::BF16 { 6e-2 } else { 1e-4 };
        let close = Closeness::new().rtol(tolerance).atol(tolerance);
        for _ in 0..4 {
            let got = compiled.call((&x, &w, &b, &u, &v))?;
            assert_eq!(got.device(), gpu);
            close.check(&got.to_device(Device::CPU)?, &want)?;
        }
        let before = ["cuLaunchKernel", "cublasLtMatmul", "cuGraphLaunch"].map(driver_calls);
        for _ in 0..3 {
            compiled.call((&x, &w, &b, &u, &v))?;
        }
        let after = ["cuLaunchKernel", "cublasLtMatmul", "cuGraphLaunch"].map(driver_calls);
        if let ([Some(a), Some(b), Some(c)], [Some(x), Some(y), Some(z)]) = (before, after) {
            assert_eq!([x - a, y - b, z - c], [0, 0, 3], "{dtype}");
        }
        let calls = dispatch::call_count();
        compiled.call((&x, &w, &b, &u, &v))?;
        println!("{dtype}: {} calls in a replay", dispatch::call_count() - calls);
    }
    Ok(())
}

/// Factors may be rounded to TF32 only while that is asked for, by graphs as well.
#[test]
fn tf32_is_asked_for() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    // 1 + 2^-12 has more bits than TF32
    let x = Tensor::full([32, 32], 1.0f32 + 1.0 / 4096.0)?.to_device(gpu)?;
    let one = eye(32)?.to_device(gpu)?;
    let f = |(x, y): (&Tensor, &Tensor)| x.matmul(y)?.add(0.0)?.matmul(y);
    let compiled = compile(f);
    let exact =
        |t: Tensor| -> Result<bool> { t.to_device(Device::CPU)?.equal(x.to_device(Device::CPU)?) };
    let mut found = Vec::new();
    for precision in [MatmulPrecision::Highest, MatmulPrecision::High, MatmulPrecision::Highest] {
        set_float32_matmul_precision(precision)?;
        found.push(exact(f((&x, &one))?)?);
        for _ in 0..4 {
            found.push(exact(compiled.call((&x, &one))?)?);
        }
    }
    let rounds = cuda::availability().cublas_lt.is_here();
    let want = |precise: bool| [precise || !rounds; 5];
    assert_eq!(found, [want(true), want(false), want(true)].concat());
    Ok(())
}
