//! The models on a GPU, eagerly and compiled, beside the same on the CPU. Without a GPU (or the mock of one
//! that `.ci/run` sets up) it says so.

#![cfg(not(miri))]

use straightline::nn::Module;
use straightline::optim::{AdamW, Optimizer};
use straightline::{DType, Device, Result, Tensor, assert_close, compile, cuda, manual_seed};
use straightline_models::bert::{self, Bert};
use straightline_models::minigpt::{self, MiniGpt};
use straightline_models::resnet::ResNet18;

fn gpu() -> Option<Device> {
    if cuda::is_available() {
        return Some(cuda::device(0));
    }
    assert!(std::env::var_os("STRAIGHTLINE_NEEDS_GPU").is_none(), "{}", cuda::availability());
    eprintln!("skipped, for want of a GPU:\n{}", cuda::availability());
    None
}

fn here(t: &Tensor) -> Result<Tensor> {
    t.to_device(Device::CPU)
}

/// Numbers between -0.5 and 0.5, times `scale`, that depend on the name.
fn made_up(name: &str, sizes: &[i64], scale: f32) -> Result<Tensor> {
    let mut state = name.bytes().fold(1u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * scale
    };
    let numbers: Vec<f32> = (0..sizes.iter().product()).map(|_| next()).collect();
    Tensor::from_slice(&numbers, sizes)
}

/// Eagerly, and compiled often enough for a graph; against what the CPU has computed.
fn runs(
    want: &Tensor,
    x: &Tensor,
    f: impl Fn(&Tensor) -> Result<Tensor> + Clone + Send + Sync + 'static,
) -> Result<()> {
    assert_close(&here(&f(x)?)?, want)?;
    let compiled = compile(f);
    for _ in 0..4 {
        assert_close(&here(&compiled.call(x)?)?, want)?;
    }
    Ok(())
}

#[test]
fn embeddings_of_a_small_bert() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let (width, inner) = (32, 48);
    let config = bert::Config {
        vocab_size: 50,
        hidden_size: width,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: inner,
        max_position_embeddings: 16,
        type_vocab_size: 2,
        layer_norm_eps: 1e-12,
        hidden_act: "gelu".into(),
    };
    let weight = move |name: &str| {
        let sizes: &[i64] = match name {
            "embeddings.word_embeddings.weight" => &[50, width],
            "embeddings.position_embeddings.weight" => &[16, width],
            "embeddings.token_type_embeddings.weight" => &[2, width],
            n if n.ends_with("intermediate.dense.weight") => &[inner, width],
            n if n.ends_with("intermediate.dense.bias") => &[inner],
            n if n.ends_with("LayerNorm.weight") || n.ends_with("bias") => &[width],
            n if n.contains("attention") => &[width, width],
            _ => &[width, inner],
        };
        made_up(name, sizes, 1.0)
    };
    let ids = Tensor::from_slice(&[3i64, 7, 1, 0, 9, 2, 30, 49], [2, 4])?;
    let mask = Tensor::from_slice(&[1i64, 1, 1, 0, 1, 1, 1, 1], [2, 4])?;
    let want = Bert::from_source(config.clone(), &mut |n| weight(n))?.embed(&ids, &mask)?;
    let there = Bert::from_source(config, &mut |n| weight(n)?.to_device(gpu))?;
    let (there, mask) = (std::sync::Arc::new(there), mask.to_device(gpu)?);
    runs(&want, &ids.to_device(gpu)?, move |ids| there.embed(ids, &mask))
}

#[test]
fn scores_of_resnet_18() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let weight = |name: &str| {
        let layer = |n: &str| n.strip_prefix("layer").and_then(|n| n[..1].parse::<u32>().ok());
        let outputs = layer(name).map_or(64, |l| 32 << l);
        let inputs = if name.contains(".0.conv1") || name.contains("downsample.0") {
            (outputs / 2).max(64)
        } else {
            outputs
        };
        let sizes: Vec<i64> = match name {
            "conv1.weight" => vec![64, 3, 7, 7],
            "fc.weight" => vec![1000, 512],
            "fc.bias" => vec![1000],
            n if n.ends_with("downsample.0.weight") => vec![outputs, inputs, 1, 1],
            n if n.contains("conv") => vec![outputs, inputs, 3, 3],
            _ => vec![outputs],
        };
        let fan: i64 = sizes[1..].iter().product();
        let t =
            made_up(name, &sizes, if sizes.len() > 1 { 4.0 / (fan as f32).sqrt() } else { 0.5 })?;
        if name.ends_with("running_var") { t.abs()?.add(1.0) } else { Ok(t) }
    };
    let image = made_up("image", &[1, 3, 16, 16], 2.0)?;
    let want = ResNet18::load(&mut |n| weight(n))?.forward(&image)?;
    let there = std::sync::Arc::new(ResNet18::load(&mut |n| weight(n)?.to_device(gpu))?);
    runs(&want, &image.to_device(gpu)?, move |x| there.forward(x))
}

/// Steps of a small GPT: forward, backward and the optimiser as one function.
#[test]
fn a_small_gpt_learns_the_same() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let config = minigpt::Config { vocabulary: 40, width: 32, layers: 2, heads: 2, context: 8 };
    let train = |device: Device, compiled: bool| -> Result<Vec<f32>> {
        manual_seed(5);
        let mut model = MiniGpt::new(config)?;
        model.set_device(device)?;
        let tokens: Vec<i64> = (0..32).map(|i| (i * 7 + i / 5) % 40).collect();
        let ids = Tensor::from_slice(&tokens, [4, 8])?;
        let targets = ids.reshape([32])?.roll([-1])?.reshape([4, 8])?;
        let (ids, targets) = (ids.to_device(device)?, targets.to_device(device)?);
        let optimizer = AdamW::new(model.parameters(), 0.01)?;
        let step = compile(move |(ids, targets): (&Tensor, &Tensor)| {
            optimizer.zero_grad()?;
            let loss = model.loss(ids, targets)?;
            loss.backward()?;
            optimizer.step()?;
            loss.detach()
        });
        let mut losses = Vec::new();
        for _ in 0..6 {
            let loss = match compiled {
                true => step.call((&ids, &targets))?,
                false => step.eager((&ids, &targets))?,
            };
            losses.push(here(&loss)?.item::<f32>()?);
        }
        Ok(losses)
    };
    let want = train(Device::CPU, false)?;
    assert!(want[5] < want[0], "{want:?}");
    for compiled in [false, true] {
        let got = train(gpu, compiled)?;
        for (a, b) in got.iter().zip(&want) {
            assert!((a - b).abs() < 1e-3 * b.abs(), "{got:?}, not {want:?} ({compiled})");
        }
    }
    Ok(())
}

/// Mixed precision: `autocast` casts on a GPU what PyTorch casts there.
#[test]
fn products_are_halves_under_autocast() -> Result<()> {
    use straightline::{DeviceType, autocast::autocast};
    let Some(gpu) = gpu() else { return Ok(()) };
    let (x, w) = (made_up("x", &[4, 8], 1.0)?, made_up("w", &[8, 8], 1.0)?);
    let (x, w) = (x.to_device(gpu)?, w.to_device(gpu)?);
    let f = move |x: &Tensor| {
        let _on = autocast(DeviceType::Cuda, Some(DType::BF16))?;
        let y = x.matmul(&w)?;
        assert_eq!(y.dtype(), DType::BF16);
        // sums are taken in f32
        y.softmax(-1)?.sum()
    };
    let want = f(&x)?;
    assert_eq!(want.dtype(), DType::F32);
    let compiled = compile(f);
    for _ in 0..3 {
        assert_close(&here(&compiled.call(&x)?)?, &here(&want)?)?;
    }
    Ok(())
}
