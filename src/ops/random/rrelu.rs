//! The leaky ReLU whose slopes are drawn.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::ops::pointwise;
use crate::ops::pointwise::formula::{self, floats, not_for};
use crate::tensor::{Generator, Tensor};
use straightline_catalog::{DType, MemoryFormat, Op, Scalar};
use straightline_runtime::cpu::kernels::random_distributions::slopes;

pub(crate) fn rrelu(
    x: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    for (name, bound) in [("lower", lower), ("upper", upper)] {
        ensure!(
            bound.as_f64().is_finite(),
            "rrelu: {name} bound must be finite, got {}",
            bound.as_f64()
        );
    }
    if lower.as_f64() > upper.as_f64() {
        return Err(Error::runtime("Lower bound should be less than or equal to the upper bound"));
    }
    let noise = aten::empty_like(x, None, None, None, None, None)?;
    aten::rrelu_with_noise(x, &noise, lower, upper, training, generator)
}

pub(crate) fn rrelu_(
    x: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let y = rrelu(x, lower, upper, training, generator)?;
    aten::copy_(x, &y, false)
}

/// The bounds in the type that the arithmetic is done in.
fn bounds(dtype: DType, lower: Scalar, upper: Scalar) -> (f64, f64) {
    let (l, u) = (lower.as_f64(), upper.as_f64());
    if dtype == DType::F64 { (l, u) } else { (f64::from(l as f32), f64::from(u as f32)) }
}

fn check_training(x: &Tensor, noise: &Tensor, dtype: DType) -> Result<()> {
    if dtype == DType::F16 {
        return Err(not_for("rrelu_with_noise", dtype));
    }
    ensure_dtype!(
        noise.dtype() == x.dtype(),
        "expected scalar type {} but found {}",
        x.dtype().torch_name(),
        noise.dtype().torch_name()
    );
    ensure_shape!(
        noise.sizes() == x.sizes(),
        "noise tensor shape must match self tensor shape, got {:?} and {:?}",
        noise.sizes(),
        x.sizes()
    );
    Ok(())
}

/// Elements that are not positive times numbers of the generator, one each in row-major order; and
/// these numbers, 1 for the other elements.
pub(crate) fn rrelu_with_noise_functional(
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<(Tensor, Tensor)> {
    let dtype = floats("rrelu_with_noise", &[x])?;
    if !training {
        let slope = (lower.as_f64() + upper.as_f64()) / 2.0;
        let x = copy::to_contiguous(x)?;
        let out = formula::run(Op::leaky_relu, &[(0, &x)], &[("negative_slope", slope.into())])?;
        return Ok((out, copy::clone(noise, None)?));
    }
    check_training(x, noise, dtype)?;
    // the arithmetic's own type: halves are rounded once, at the end
    let x = copy::to_dtype(&copy::to_contiguous(x)?, dtype.opmath())?;
    let drawn = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    if x.storage().has_data() && x.numel() > 0 {
        let positive = copy::to_dtype(&x, DType::F64)?.to_vec::<f64>()?;
        let (lower, upper) = bounds(dtype, lower, upper);
        let mut stream = generator.unwrap_or(Generator::default_cpu()).lock();
        // what is no number is left as it is, like what is positive
        let positive = positive.iter().map(|x| x.is_nan() || *x > 0.0);
        let numbers = slopes(positive, &mut stream, lower, upper);
        drop(stream);
        copy::copy_(&drawn, &Tensor::from_slice(&numbers, x.sizes())?, false)?;
    }
    let out = pointwise::mul(&x, &drawn)?;
    Ok((copy::to_dtype(&out, dtype)?, copy::to_dtype(&drawn, dtype)?))
}

/// The result is row-major, whatever the operand's layout.
fn row_major(x: &Tensor) -> Result<Tensor> {
    aten::contiguous(x, MemoryFormat::Contiguous)
}

/// Leaves the numbers in `noise`, which keeps what it has unless training.
pub(crate) fn rrelu_with_noise(
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if !training {
        floats("rrelu_with_noise", &[x])?;
        let slope = (lower.as_f64() + upper.as_f64()) / 2.0;
        return aten::leaky_relu(&row_major(x)?, slope.into());
    }
    let (out, drawn) =
        aten::rrelu_with_noise_functional(x, noise, lower, upper, training, generator)?;
    aten::copy_(noise, &drawn, false)?;
    Ok(out)
}

pub(crate) fn rrelu_with_noise_(
    x: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let y = rrelu_with_noise(x, noise, lower, upper, training, generator)?;
    aten::copy_(x, &y, false)
}
