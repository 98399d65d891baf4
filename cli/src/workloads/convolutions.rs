//! W9: a convolution, one with batch norm and ReLU behind it, and ResNet-18, with made-up weights.

use super::data::uniform;
use super::program::function;
use super::workload::{SUMS, Workload};
use straightline::{Error, ErrorKind, Result, Tensor};
use straightline_models::nn::{BatchNorm, Conv};
use straightline_models::resnet::ResNet18;

/// The weights of the single layers under the names that models ask for.
fn layer_weight(name: &str) -> Result<Tensor> {
    match name {
        "conv.weight" => uniform("w9.conv.w", &[64, 64, 3, 3], (6.0 / 576f64).sqrt(), 0.0),
        "bn.weight" => uniform("w9.bn.g", &[64], 0.1, 1.0),
        "bn.bias" => uniform("w9.bn.b", &[64], 0.1, 0.0),
        "bn.running_mean" => uniform("w9.bn.m", &[64], 0.1, 0.0),
        "bn.running_var" => uniform("w9.bn.v", &[64], 0.1, 1.0),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::Value(format!("w9 has no weight `{name}`")))
}

/// Inputs and outputs of a convolution of ResNet-18 by its name, and the size of its kernel.
fn convolution(name: &str) -> Option<[i64; 3]> {
    if name == "conv1" {
        return Some([3, 64, 7]);
    }
    let mut parts = name.strip_prefix("layer")?.split('.');
    let layer: u32 = parts.next()?.parse().ok()?;
    let block = parts.next()?;
    let outputs = 32i64 << layer;
    let first = if layer > 1 && block == "0" { outputs / 2 } else { outputs };
    Some(match parts.next()? {
        "conv1" => [first, outputs, 3],
        "conv2" => [outputs, outputs, 3],
        "downsample" => [first, outputs, 1],
        _ => return None,
    })
}

/// Channels of a batch norm of ResNet-18 by its name.
fn channels(name: &str) -> Option<i64> {
    match name.strip_prefix("layer") {
        None => Some(64),
        Some(rest) => Some(32i64 << rest.split('.').next()?.parse::<u32>().ok()?),
    }
}

/// The weights of ResNet-18. Convolutions have a scale of sqrt(6 / inputs of an element).
fn resnet_weight(name: &str) -> Result<Tensor> {
    let data = format!("w9.rn.{name}");
    let (layer, kind) = name.rsplit_once('.').ok_or_else(|| unknown(name))?;
    if layer == "fc" {
        let sizes: &[i64] = if kind == "weight" { &[1000, 512] } else { &[1000] };
        return uniform(&data, sizes, 1.0 / 512f64.sqrt(), 0.0);
    }
    let part = layer.rsplit('.').next().unwrap_or(layer);
    if part.starts_with("conv") || part == "0" {
        let [inputs, outputs, size] = convolution(layer).ok_or_else(|| unknown(name))?;
        let scale = (6.0 / (inputs * size * size) as f64).sqrt();
        return uniform(&data, &[outputs, inputs, size, size], scale, 0.0);
    }
    let sizes = [channels(layer).ok_or_else(|| unknown(name))?];
    match kind {
        "weight" | "running_var" => uniform(&data, &sizes, 0.1, 1.0),
        _ => uniform(&data, &sizes, 0.1, 0.0),
    }
}

pub(super) fn workloads() -> Vec<Workload> {
    let image = || uniform("w9.x", &[1, 64, 56, 56], 1.0, 0.0);
    let conv = || Conv::load(&mut layer_weight, "conv", (64, 64), 3, 1);
    vec![
        Workload::new("w9.conv3x3", SUMS, move |_| {
            let conv = conv()?;
            function(image()?, move |x: &Tensor| conv.forward(x))
        }),
        Workload::new("w9.conv_bn_relu", SUMS, move |_| {
            let conv = conv()?;
            let bn = BatchNorm::load(&mut layer_weight, "bn", 64)?;
            function(image()?, move |x: &Tensor| bn.forward(&conv.forward(x)?)?.relu())
        }),
        Workload::new("w9.resnet18", SUMS, |_| {
            let net = ResNet18::load(&mut resnet_weight)?;
            let images = uniform("w9.rn.x", &[1, 3, 224, 224], 1.0, 0.0)?;
            function(images, move |x: &Tensor| net.forward(x))
        }),
    ]
}
