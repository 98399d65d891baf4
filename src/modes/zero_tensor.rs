//! `ZeroTensor`: zeros without memory, as gradients often are.
//!
//! A product with one stays one, a sum takes the other operand, views of one are ones; every other
//! operator gets ordinary zeros, and writing one is an error.

use super::math_bits::MathBit;
use crate::dispatch::{DispatchKey, IntoKernel, Kernel, Library, Value, handle_of};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::math_bits::IMMUTABLE;
use crate::ops::view;
use crate::ops::view::geometry;
use crate::tensor::Tensor;
use straightline_catalog::{Device, Op, Scalar, modes_of, rules};

const BIT: MathBit = MathBit {
    key: DispatchKey::ZeroTensor,
    name: "zero",
    resolve: materialize,
    immutable: Some(IMMUTABLE),
};

/// Ordinary zeros: one number in memory, seen at every position.
fn materialize(t: &Tensor) -> Result<Tensor> {
    let zero = aten::zeros(&[], Some(t.dtype()), None, Some(t.device()), None)?;
    aten::expand(&zero, t.sizes(), false)
}

/// What the operator gives for operands of these shapes, without data, and on which device.
fn shape_of(op: Op, a: &Tensor, b: &Tensor, rest: &[Value]) -> Result<(Tensor, Device)> {
    let mut stack = vec![
        Value::Tensor(crate::dispatch::meta::to_meta(a)),
        Value::Tensor(crate::dispatch::meta::to_meta(b)),
    ];
    stack.extend_from_slice(rest);
    handle_of(op)?.redispatch_boxed(DispatchKey::Meta.into(), &mut stack)?;
    let device = if a.dim() == 0 && a.device().is_cpu() { b.device() } else { a.device() };
    match stack.pop() {
        Some(Value::Tensor(out)) => Ok((out, device)),
        _ => Err(Error::runtime(format!("`{op}` did not return a tensor"))),
    }
}

fn zeros_like_shape((out, device): &(Tensor, Device)) -> Result<Tensor> {
    aten::_efficientzerotensor(out.sizes(), Some(out.dtype()), None, Some(*device), None)
}

fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zeros_like_shape(&shape_of(Op::mul_Tensor, a, b, &[])?)
}

fn cross(a: &Tensor, b: &Tensor, dim: i64) -> Result<Tensor> {
    let dim = [Value::from(dim)];
    zeros_like_shape(&shape_of(Op::linalg_cross, a, b, &dim)?)
}

fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = shape_of(Op::div_Tensor, a, b, &[])?;
    let (out, device) = &shape;
    // as PyTorch has it: 0/0 is NaN where both are known to be zero, and x/0 infinite for all x
    let value = match (a.is_zerotensor(), b.is_zerotensor()) {
        (_, false) => return zeros_like_shape(&shape),
        (true, true) => f64::NAN,
        (false, true) => f64::INFINITY,
    };
    let value = Scalar::Float(value);
    aten::full(out.sizes(), value, Some(out.dtype()), None, Some(*device), None)
}

fn add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    sum(Op::add_Tensor, a, b, alpha, alpha)
}

fn sub(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let negated = match alpha {
        Scalar::Bool(b) => Scalar::Int(-i64::from(b)),
        Scalar::Int(i) => Scalar::Int(-i),
        Scalar::Float(x) => Scalar::Float(-x),
        Scalar::Complex(re, im) => Scalar::Complex(-re, -im),
    };
    sum(Op::sub_Tensor, a, b, alpha, negated)
}

/// `a + factor * b` where at least one is zero.
fn sum(op: Op, a: &Tensor, b: &Tensor, alpha: Scalar, factor: Scalar) -> Result<Tensor> {
    let shape = shape_of(op, a, b, &[Value::from(alpha)])?;
    let (out, device) = &shape;
    let copy = |t: &Tensor| {
        let t = aten::expand(t, out.sizes(), false)?;
        aten::_to_copy(&t, Some(out.dtype()), None, Some(*device), None, false, None)
    };
    match (a.is_zerotensor(), b.is_zerotensor()) {
        (true, true) => zeros_like_shape(&shape),
        (true, false) if factor.as_f64() == 1.0 => copy(b),
        (true, false) => aten::mul_scalar(&copy(b)?, factor),
        (false, _) => copy(a),
    }
}

/// Registers the fallback.
pub(super) fn register() -> Result<()> {
    let mut library = Library::fallbacks(BIT.key)?;
    library.fallback(BIT.fallback())?;
    library.leak();
    Ok(())
}

/// The kernels that an operator of this name gets.
pub(super) fn kernels_of(name: &str) -> Vec<(DispatchKey, Kernel)> {
    let kernel = match Op::named(name) {
        Some(Op::mul_Tensor) => mul.into_kernel(),
        Some(Op::linalg_cross) => cross.into_kernel(),
        Some(Op::div_Tensor) => div.into_kernel(),
        Some(Op::add_Tensor) => add.into_kernel(),
        Some(Op::sub_Tensor) => sub.into_kernel(),
        // what reads no memory needs no memory
        Some(Op::view) => view::view.into_kernel(),
        Some(Op::as_strided) => view::as_strided.into_kernel(),
        Some(Op::_reshape_alias) => geometry::reshape_alias.into_kernel(),
        _ if modes_of(name).math_bits.contains(&rules::MathBit::Zero) => Kernel::fallthrough(),
        _ => return Vec::new(),
    };
    vec![(BIT.key, kernel)]
}
