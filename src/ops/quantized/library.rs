//! The operators of the namespace `quantized`, with PyTorch's schemas.

use super::layers::{self, PackedLinear};
use super::pointwise;
use crate::dispatch::{DispatchKey, Library, TypedOp};
use crate::error::Result;
use crate::tensor::Tensor;
use std::sync::Arc;

type Binary = TypedOp<(&'static Tensor, &'static Tensor, f64, i64), Tensor>;
type Linear = TypedOp<(&'static Tensor, &'static PackedLinear, f64, i64), Tensor>;

static ADD: Binary = TypedOp::new("quantized::add", "");
static ADD_RELU: Binary = TypedOp::new("quantized::add_relu", "");
static MUL: Binary = TypedOp::new("quantized::mul", "");
static MUL_RELU: Binary = TypedOp::new("quantized::mul_relu", "");
static LINEAR: Linear = TypedOp::new("quantized::linear", "");
static LINEAR_RELU: Linear = TypedOp::new("quantized::linear_relu", "");
static LINEAR_PREPACK: TypedOp<(&'static Tensor, Option<&'static Tensor>), Arc<PackedLinear>> =
    TypedOp::new("quantized::linear_prepack", "");
static LINEAR_UNPACK: TypedOp<(&'static PackedLinear,), (Tensor, Option<Tensor>)> =
    TypedOp::new("quantized::linear_unpack", "");
static LINEAR_DYNAMIC: TypedOp<(&'static Tensor, &'static PackedLinear, bool), Tensor> =
    TypedOp::new("quantized::linear_dynamic", "");

/// Defines the operators and registers their kernels.
pub(crate) fn register() -> Result<()> {
    const W: &str = "__torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack";
    let mut lib = Library::new("quantized")?;
    for name in ["add", "add_relu", "mul", "mul_relu"] {
        lib.def(&format!(
            "{name}(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc"
        ))?;
    }
    for name in ["linear", "linear_relu"] {
        lib.def(&format!(
            "{name}(Tensor X, {W}, float Y_scale_i, int Y_zero_point_i) -> Tensor Y"
        ))?;
    }
    lib.def(&format!("linear_prepack(Tensor W, Tensor? B=None) -> {W}"))?;
    lib.def(&format!("linear_unpack({W}) -> (Tensor W_origin, Tensor? B_origin)"))?;
    lib.def(&format!("linear_dynamic(Tensor X, {W}, bool reduce_range=False) -> Tensor Y"))?;
    let key = DispatchKey::QuantizedCPU;
    lib.impl_at("add", key, pointwise::add)?;
    lib.impl_at("add_relu", key, pointwise::add_relu)?;
    lib.impl_at("mul", key, pointwise::mul)?;
    lib.impl_at("mul_relu", key, pointwise::mul_relu)?;
    lib.impl_at("linear", key, layers::linear)?;
    lib.impl_at("linear_relu", key, layers::linear_relu)?;
    lib.impl_at("linear_prepack", key, layers::prepack)?;
    lib.impl_at("linear_unpack", DispatchKey::CompositeImplicitAutograd, layers::unpack)?;
    lib.impl_at("linear_dynamic", DispatchKey::CPU, layers::linear_dynamic)?;
    lib.leak();
    Ok(())
}

/// `quantized::add`: the sum of two quantized tensors, with the scale and zero point of the result.
///
/// ```
/// use straightline::{DType, Tensor, ops::quantized};
/// let q = Tensor::from_vec([0.5f32, 1.0], 2)?.quantize_per_tensor(0.5, 3, DType::QUInt8)?;
/// let sum = quantized::add(&q, &q, 1.0, 0)?;
/// assert_eq!(sum.dequantize()?.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn add(qa: &Tensor, qb: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    ADD.call((qa, qb, scale, zero_point))
}

/// `quantized::add_relu`: [`add`], negative sums cut to zero.
pub fn add_relu(qa: &Tensor, qb: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    ADD_RELU.call((qa, qb, scale, zero_point))
}

/// `quantized::mul`: the product, element by element.
pub fn mul(qa: &Tensor, qb: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    MUL.call((qa, qb, scale, zero_point))
}

/// `quantized::mul_relu`: [`mul`], negative products cut to zero.
pub fn mul_relu(qa: &Tensor, qb: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    MUL_RELU.call((qa, qb, scale, zero_point))
}

/// `quantized::linear_prepack`: prepares `qint8` weights, quantized as a whole or per row, for
/// [`linear`].
pub fn linear_prepack(w: &Tensor, bias: Option<&Tensor>) -> Result<Arc<PackedLinear>> {
    LINEAR_PREPACK.call((w, bias))
}

/// `quantized::linear_unpack`: the weights and the bias that were packed.
pub fn linear_unpack(w: &PackedLinear) -> Result<(Tensor, Option<Tensor>)> {
    LINEAR_UNPACK.call((w,))
}

/// `quantized::linear`: `x @ w.T + bias` of a `quint8` tensor. Sums are exact, and the result is
/// rounded once.
///
/// ```
/// use straightline::{DType, Tensor, ops::quantized};
/// let x = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?.quantize_per_tensor(0.5, 0, DType::QUInt8)?;
/// let w = Tensor::from_slice(&[1f32, -1.0, 2.0, 0.5], &[2, 2])?.quantize_per_tensor(0.5, 0, DType::QInt8)?;
/// let packed = quantized::linear_prepack(&w, None)?;
/// let y = quantized::linear(&x, &packed, 0.5, 100)?;
/// assert_eq!(y.dequantize()?.to_vec::<f32>()?, [-1.0, 3.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn linear(x: &Tensor, w: &PackedLinear, scale: f64, zero_point: i64) -> Result<Tensor> {
    LINEAR.call((x, w, scale, zero_point))
}

/// `quantized::linear_relu`: [`linear`], negative results cut to zero.
pub fn linear_relu(x: &Tensor, w: &PackedLinear, scale: f64, zero_point: i64) -> Result<Tensor> {
    LINEAR_RELU.call((x, w, scale, zero_point))
}

/// `quantized::linear_dynamic`: `x @ w.T + bias` of an `f32` tensor, which is quantized on the way
/// by its own range.
pub fn linear_dynamic(x: &Tensor, w: &PackedLinear, reduce_range: bool) -> Result<Tensor> {
    LINEAR_DYNAMIC.call((x, w, reduce_range))
}
