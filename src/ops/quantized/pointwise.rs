//! Arithmetic on integers, and what keeps them: views, copies.

use super::{Quantized, Quantizer, affine, build, per_tensor, quantized, with_quantum};
use crate::dispatch::{OperatorHandle, Value};
use crate::error::{Error, Result};
use crate::ops::common;
use crate::ops::copy;
use crate::ops::view;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Dims, MemoryFormat, Scalar};
use straightline_runtime::cpu::kernels::quantized::{self as kernels, Quantum};

/// What of two quantized tensors an arithmetic operator takes.
fn check_pair(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "{name} operands should have same data type, but got {} and {}",
        a.dtype().torch_name(),
        b.dtype().torch_name()
    );
    for t in [a, b] {
        if let Quantizer::PerChannel { .. } = quantized(t)?.quantizer {
            return Err(Error::runtime(format!(
                "Only per tensor quantization is supported in {name}."
            )));
        }
    }
    Ok(())
}

/// The integers of an operand, broadcast, in rows.
fn broadcast(q: &Quantized, sizes: &Dims) -> Result<Tensor> {
    copy::to_contiguous(&view::expand(&q.ints, sizes, true)?)
}

fn binary(
    name: &str,
    (a, b): (&Tensor, &Tensor),
    scale: f64,
    zero_point: i64,
    product: bool,
    relu: bool,
) -> Result<Tensor> {
    check_pair(name, a, b)?;
    let sizes = common::broadcast(&[a, b])?;
    let (qa, qb) = (quantized(a)?, quantized(b)?);
    let ((sa, za), (sb, zb)) = (per_tensor(qa)?, per_tensor(qb)?);
    let (ia, ib) = (broadcast(qa, &sizes)?, broadcast(qb, &sizes)?);
    let mut out = Tensor::allocate_contiguous(a.dtype().int_repr(), a.device(), &sizes)?;
    launch::run(&mut out, [&ia, &ib], |out, [ia, ib]| {
        with_quantum!(a.dtype(), T => {
            let out = (out.slice::<T>()?, affine(scale, zero_point));
            let a = (ia.slice::<T>()?, affine(sa, za));
            let b = (ib.slice::<T>()?, affine(sb, zb));
            match product {
                true => kernels::mul(out, a, b, relu),
                false => kernels::add(out, a, b, relu),
            }
        });
        Ok(())
    })?;
    build(out, a.dtype(), Quantizer::PerTensor { scale, zero_point })
}

pub(super) fn add(a: &Tensor, b: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    binary("Add", (a, b), scale, zero_point, false, false)
}

pub(super) fn add_relu(a: &Tensor, b: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    binary("Add", (a, b), scale, zero_point, false, true)
}

pub(super) fn mul(a: &Tensor, b: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    binary("Mul", (a, b), scale, zero_point, true, false)
}

pub(super) fn mul_relu(a: &Tensor, b: &Tensor, scale: f64, zero_point: i64) -> Result<Tensor> {
    binary("Mul", (a, b), scale, zero_point, true, true)
}

fn cut(t: &Tensor, min: Option<f64>, max: Option<f64>) -> Result<Tensor> {
    let q = quantized(t)?;
    let (scale, zero_point) = per_tensor(q)?;
    let mut out = Tensor::allocate_contiguous(t.dtype().int_repr(), t.device(), t.sizes())?;
    launch::run(&mut out, &q.ints, |out, ints| {
        with_quantum!(t.dtype(), T => {
            let place = |x: f64| affine(scale, zero_point).quantize::<T>(x as f32).wide();
            let min = min.map_or(<T as Quantum>::MIN, place);
            let max = max.map_or(<T as Quantum>::MAX, place);
            kernels::clamp(out.slice::<T>()?, ints.slice::<T>()?, min, max);
        });
        Ok(())
    })?;
    build(out, t.dtype(), q.quantizer.clone())
}

pub(crate) fn relu(t: &Tensor) -> Result<Tensor> {
    cut(t, Some(0.0), None)
}

pub(crate) fn clamp(t: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    ensure!(min.is_some() || max.is_some(), "Both min and max cannot be None!");
    cut(t, min.map(Scalar::as_f64), max.map(Scalar::as_f64))
}

pub(crate) fn clone(t: &Tensor, _format: Option<MemoryFormat>) -> Result<Tensor> {
    let q = quantized(t)?;
    build(copy::clone_contiguous(&q.ints)?, t.dtype(), q.quantizer.clone())
}

/// The same integers in another shape: they are shared, as a view shares them.
pub(crate) fn view_op(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    let q = quantized(t)?;
    per_tensor(q)?;
    build(view::view(&q.ints, size)?, t.dtype(), q.quantizer.clone())
}

/// A view operator done to the integers: each result is a quantized tensor with the same scale,
/// over integers of its own.
pub(crate) fn of_ints(op: OperatorHandle, t: &Tensor, rest: &[Value]) -> Result<Value> {
    let q = quantized(t)?;
    per_tensor(q)?;
    let mut stack = vec![Value::Tensor(q.ints.clone())];
    stack.extend_from_slice(rest);
    op.call_boxed(&mut stack)?;
    let around =
        |ints: &Tensor| build(copy::clone_contiguous(ints)?, t.dtype(), q.quantizer.clone());
    match stack.pop() {
        Some(Value::Tensor(ints)) => around(&ints).map(Value::Tensor),
        Some(Value::TensorList(all)) => {
            let all: Result<Vec<Tensor>> = all.iter().map(around).collect();
            all.map(Value::TensorList)
        }
        _ => Err(Error::runtime(format!("view operator `{}` did not return tensors", op.name()))),
    }
}
