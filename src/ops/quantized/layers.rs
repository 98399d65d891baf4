//! Linear layers on bytes: packed weights, exact sums of products, one rounding.

use super::{Quantizer, affine, build, channels, per_tensor, quantized};
use crate::dispatch::ScriptClass;
use crate::error::{Error, Result};
use crate::ops::copy;
use crate::ops::copy::to_aligned;
use crate::tensor::{Tensor, launch};
use std::sync::Arc;
use straightline_catalog::{DType, Dims};
use straightline_runtime::cpu::kernels::quantized::{self as kernels, Affine, PackedWeights};

/// The weights and bias of a linear layer, prepared (PyTorch's `LinearPackedParamsBase`).
///
/// `quantized::linear_prepack` makes one, `quantized::linear` and its like take it.
#[derive(Clone)]
pub struct PackedLinear(Arc<Inner>);

struct Inner {
    weights: PackedWeights,
    /// What it was made of, for `linear_unpack`.
    original: Tensor,
    bias: Option<Tensor>,
}

impl std::fmt::Debug for PackedLinear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (out, inputs) = (self.0.weights.outputs(), self.0.weights.inputs());
        write!(f, "PackedLinear({out} x {inputs})")
    }
}

impl ScriptClass for PackedLinear {
    const NAMESPACE: &'static str = "quantized";
    const NAME: &'static str = "LinearPackedParamsBase";
}

pub(super) fn prepack(w: &Tensor, bias: Option<&Tensor>) -> Result<Arc<PackedLinear>> {
    let q = quantized(w)?;
    ensure!(
        w.dim() == 2,
        "The weight tensor for quantized::linear_prepack should be 2-dimensional, got {:?}",
        w.sizes()
    );
    ensure_dtype!(
        w.dtype() == DType::QInt8,
        "quantized::linear_prepack: the weight should be qint8, got {}",
        w.dtype().torch_name()
    );
    let (n, k) = (w.sizes()[0] as usize, w.sizes()[1] as usize);
    let of_rows: Vec<Affine> = match &q.quantizer {
        Quantizer::PerTensor { scale, zero_point } => vec![affine(*scale, *zero_point); n],
        Quantizer::PerChannel { scales, zero_points, axis: 0 } => {
            channels(w.sizes(), scales, zero_points, 0)?.0
        }
        Quantizer::PerChannel { axis, .. } => {
            return Err(Error::runtime(format!(
                "quantized::linear_prepack: weights are quantized per row, axis 0, and these per axis {axis}"
            )));
        }
    };
    if let Some(b) = bias
        && (b.dim() != 1 || b.sizes()[0] != n as i64 || b.dtype() != DType::F32)
    {
        return Err(Error::runtime(format!(
            "bias should be a float32 vector of {n} elements, got {:?} of {}",
            b.sizes(),
            b.dtype().torch_name()
        )));
    }
    let weights =
        launch::read(&q.ints, |ints| Ok(PackedWeights::new(ints.slice::<i8>()?, k, of_rows)))?;
    Ok(Arc::new(PackedLinear(Arc::new(Inner {
        weights,
        original: w.clone(),
        bias: bias.map(copy::clone_contiguous).transpose()?,
    }))))
}

pub(super) fn unpack(w: &PackedLinear) -> Result<(Tensor, Option<Tensor>)> {
    Ok((w.0.original.clone(), w.0.bias.clone()))
}

/// The sizes of the result.
fn result_sizes(name: &str, x: &Tensor, w: &PackedWeights) -> Result<Dims> {
    let Some((last, lead)) = x.sizes().split_last() else {
        return Err(Error::runtime(format!(
            "The dimension (rank) of the input to {name} should be larger than 0. Got: 0"
        )));
    };
    ensure_shape!(
        *last == w.inputs() as i64,
        "{name}: the input's last dimension is {last}, and the weights take {}",
        w.inputs()
    );
    let mut sizes = Dims::from_slice(lead);
    sizes.push(w.outputs() as i64);
    Ok(sizes)
}

fn run(x: &Tensor, w: &PackedLinear, scale: f64, zero_point: i64, relu: bool) -> Result<Tensor> {
    let Inner { weights, bias, .. } = &*w.0;
    let q = quantized(x)?;
    ensure_dtype!(
        x.dtype() == DType::QUInt8,
        "quantized::linear: Expected input data type quint8 but got {}",
        x.dtype().torch_name()
    );
    let (of_x, zero_x) = per_tensor(q)?;
    let sizes = result_sizes("quantized::linear", x, weights)?;
    let mut out = Tensor::allocate_contiguous(DType::U8, x.device(), &sizes)?;
    launch::run(&mut out, (&q.ints, bias.as_ref()), |out, (x, bias)| {
        let out = (out.slice()?, affine(scale, zero_point));
        let x = (x.slice()?, affine(of_x, zero_x));
        let bias = bias.map(|b| b.slice()).transpose()?;
        kernels::linear(out, x, weights, bias, relu);
        Ok(())
    })?;
    build(out, DType::QUInt8, Quantizer::PerTensor { scale, zero_point })
}

pub(super) fn linear(x: &Tensor, w: &PackedLinear, scale: f64, zero_point: i64) -> Result<Tensor> {
    run(x, w, scale, zero_point, false)
}

pub(super) fn linear_relu(
    x: &Tensor,
    w: &PackedLinear,
    scale: f64,
    zero_point: i64,
) -> Result<Tensor> {
    run(x, w, scale, zero_point, true)
}

/// The scale and zero point that hold a range of numbers, 0 among them, in a byte.
fn choose(min: f32, max: f32, steps: i32) -> Affine {
    let (min, max) = (f64::from(min.min(0.0)), f64::from(max.max(0.0)));
    let mut scale = ((max - min) / f64::from(steps)) as f32;
    if scale == 0.0 || (1.0 / scale).is_infinite() {
        scale = 0.1;
    }
    let scale = scale.max(6.1e-5);
    // of the two ends, the one whose zero point is less in error
    let from_min = -min / f64::from(scale);
    let from_max = f64::from(steps) - max / f64::from(scale);
    let error = |end: f64, x: f64| end.abs() + (x / f64::from(scale)).abs();
    let zero = if error(0.0, min) < error(f64::from(steps), max) { from_min } else { from_max };
    let zero_point = if zero < 0.0 {
        0
    } else if zero > f64::from(steps) {
        steps
    } else {
        zero.round_ties_even() as i32
    };
    Affine { scale, zero_point }
}

pub(super) fn linear_dynamic(x: &Tensor, w: &PackedLinear, reduce_range: bool) -> Result<Tensor> {
    let Inner { weights, bias, .. } = &*w.0;
    ensure_dtype!(
        x.dtype() == DType::F32,
        "quantized::linear_dynamic: Expected input data type float32 but got {}",
        x.dtype().torch_name()
    );
    let sizes = result_sizes("quantized::linear_dynamic", x, weights)?;
    let x = to_aligned(x)?;
    let mut out = Tensor::allocate_contiguous(DType::F32, x.device(), &sizes)?;
    launch::run(&mut out, (&x, bias.as_ref()), |out, (x, bias)| {
        let real = x.slice::<f32>()?;
        let (min, max) = real
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
        let of_x = choose(min, max, if reduce_range { 127 } else { 255 });
        let mut ints = vec![0u8; real.len()];
        kernels::quantize(&mut ints, real, of_x);
        let bias = bias.map(|b| b.slice()).transpose()?;
        kernels::linear_dynamic(out.slice()?, (&ints, of_x), weights, bias);
        Ok(())
    })?;
    Ok(out)
}
