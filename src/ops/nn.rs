//! Softmax and normalisation.

use super::common::wrap_dim;
use super::copy;
use super::scatter::as_vector;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::{self, RowMajor, RowStatistics};

fn softmax_kernel(x: &Tensor, dim: i64, log: bool) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    // PyTorch does not look at what has no elements
    ensure_not_implemented!(
        x.dtype().is_floating() || x.numel() == 0,
        "softmax is not implemented for {}: pass dtype, or convert first",
        x.dtype()
    );
    let out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    if out.storage().has_data() && x.numel() > 0 {
        // a number is a row of one: infinite, its share is not a number
        let (mut row, x) = (as_vector(&out), &as_vector(x));
        launch::run(&mut row, x, |row, x| Ok(kernels::softmax(row, x, d, log)?))?;
    }
    Ok(out)
}

pub(crate) fn softmax(x: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    check_half_to_float(half_to_float)?;
    softmax_kernel(x, dim, false)
}

pub(crate) fn log_softmax(x: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    check_half_to_float(half_to_float)?;
    softmax_kernel(x, dim, true)
}

fn check_half_to_float(half_to_float: bool) -> Result<()> {
    ensure!(
        !half_to_float,
        "softmax with half to float conversion is not supported on CPU"
    );
    Ok(())
}

fn softmax_input(x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    match dtype {
        Some(dtype) if dtype != x.dtype() => aten::to_dtype(x, dtype, false, false, None),
        _ => Ok(x.clone()),
    }
}

pub(crate) fn softmax_int(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    aten::_softmax(&softmax_input(x, dtype)?, dim, false)
}

pub(crate) fn log_softmax_int(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    aten::_log_softmax(&softmax_input(x, dtype)?, dim, false)
}

pub(super) fn check_normalized(
    x: &Tensor,
    shape: &[i64],
    named: &[(&str, Option<&Tensor>)],
) -> Result<usize> {
    ensure!(
        !shape.is_empty(),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
    );
    let fits = x.dim() >= shape.len() && x.sizes()[x.dim() - shape.len()..] == *shape;
    ensure_shape!(
        fits,
        "Given normalized_shape={shape:?}, expected input with shape [*, {shape:?}], but got input of size {:?}",
        x.sizes()
    );
    for (name, t) in named {
        if let Some(t) = t
            && t.sizes() != shape
        {
            return Err(Error::shape(format!(
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and normalized_shape = {shape:?}",
                t.sizes()
            )));
        }
    }
    Ok(x.dim() - shape.len())
}

/// Layer normalisation with the statistics that its backward needs: `(out, mean, rstd)`.
pub(crate) fn native_layer_norm(
    x: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let axis = check_normalized(x, shape, &[("weight", weight), ("bias", bias)])?;
    for t in [weight, bias].into_iter().flatten() {
        ensure_dtype!(
            t.dtype() == x.dtype(),
            "layer_norm: expected weight and bias of dtype {}, got {}",
            x.dtype(),
            t.dtype()
        );
    }
    ensure_not_implemented!(
        x.dtype().is_floating(),
        "layer_norm is not implemented for {} tensors",
        x.dtype()
    );
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    let mut stat_sizes = Dims::from_slice(&x.sizes()[..axis]);
    stat_sizes.extend(shape.iter().map(|_| 1));
    // the kernel writes the statistics in the type it computes in
    let wide = x.dtype().opmath();
    let mut mean = Tensor::allocate_contiguous(wide, x.device(), &stat_sizes)?;
    let mut rstd = Tensor::allocate_contiguous(wide, x.device(), &stat_sizes)?;
    if out.storage().has_data() {
        let xc = copy::to_contiguous(x)?;
        let weight = weight.map(copy::to_contiguous).transpose()?;
        let bias = bias.map(copy::to_contiguous).transpose()?;
        let (weight, bias) = (weight.as_ref(), bias.as_ref());
        let n = layout::numel(shape);
        let rows = layout::numel(&x.sizes()[..axis]);
        let (rows, row) = (RowMajor::new([rows, n]), RowMajor::new([n]));
        launch::run(
            (&mut out, [&mut mean, &mut rstd]),
            (&xc, [weight, bias]),
            |(out, [mean, rstd]), (x, [weight, bias])| {
                let statistics = RowStatistics {
                    mean: Some(mean),
                    rstd: Some(rstd),
                };
                let weight = weight.map(|w| row.input(w)).transpose()?;
                let bias = bias.map(|b| row.input(b)).transpose()?;
                let (out, x) = (rows.output(out)?, rows.input(x)?);
                Ok(kernels::layer_norm(out, statistics, x, weight, bias, eps)?)
            },
        )?;
    }
    let (mean, rstd) = (
        copy::to_dtype(&mean, x.dtype())?,
        copy::to_dtype(&rstd, x.dtype())?,
    );
    Ok((out, mean, rstd))
}

/// `x * rsqrt(mean(x^2) + eps) * weight`.
pub(crate) fn rms_norm(
    x: &Tensor,
    shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<Tensor> {
    check_normalized(x, shape, &[("weight", weight)])?;
    Ok(super::norm_composite::fused_rms_norm(x, shape, weight, eps)?.0)
}

fn check_backward(grad: &Tensor, out: &Tensor, dim: i64, input: DType) -> Result<()> {
    wrap_dim(dim, out.dim())?;
    ensure_shape!(
        grad.sizes() == out.sizes(),
        "grad_output of sizes {:?} does not fit the output of sizes {:?}",
        grad.sizes(),
        out.sizes()
    );
    ensure_not_implemented!(
        grad.dtype().is_floating() || grad.numel() == 0,
        "\"softmax_backward\" not implemented for '{}'",
        grad.dtype()
    );
    // the input's dtype only tells where PyTorch's GPU kernels widened halves
    ensure_dtype!(
        grad.dtype() == out.dtype() && (grad.dtype() != DType::F32 || input != DType::F16),
        "expected grad_output, output and input of one dtype, but got {}, {} and {input}",
        grad.dtype(),
        out.dtype()
    );
    Ok(())
}

/// In the type that the arithmetic is done in; the result is row-major.
fn backward_of_rows(
    grad: &Tensor,
    out: &Tensor,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let (dtype, wide) = (grad.dtype(), grad.dtype().opmath());
    let row_major = |t: &Tensor| {
        let t = aten::contiguous(t, straightline_catalog::MemoryFormat::Contiguous)?;
        aten::to_dtype(&t, wide, false, false, None)
    };
    let result = f(&row_major(grad)?, &row_major(out)?)?;
    aten::to_dtype(&result, dtype, false, false, None)
}

/// `(grad - sum(grad * out)) * out`.
pub(crate) fn softmax_backward(
    grad: &Tensor,
    out: &Tensor,
    dim: i64,
    input: DType,
) -> Result<Tensor> {
    check_backward(grad, out, dim, input)?;
    backward_of_rows(grad, out, |g, y| {
        let sum = aten::sum_dim_int_list(&aten::mul_tensor(g, y)?, Some(&[dim]), true, None)?;
        aten::mul_tensor(&aten::sub_tensor(g, &sum, Scalar::Int(1))?, y)
    })
}

/// `grad - exp(out) * sum(grad)`.
pub(crate) fn log_softmax_backward(
    grad: &Tensor,
    out: &Tensor,
    dim: i64,
    input: DType,
) -> Result<Tensor> {
    check_backward(grad, out, dim, input)?;
    backward_of_rows(grad, out, |g, y| {
        let sum = aten::sum_dim_int_list(g, Some(&[dim]), true, None)?;
        aten::sub_tensor(g, &aten::mul_tensor(&aten::exp(y)?, &sum)?, Scalar::Int(1))
    })
}

/// Softmax that gives zeros, not NaN, where a row has nothing but `-inf`.
pub(crate) fn safe_softmax(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let weights = aten::softmax_int(x, dim, dtype)?;
    let hidden = aten::eq_scalar(x, Scalar::Float(f64::NEG_INFINITY))?;
    let nothing = aten::all_dim(&hidden, dim, true)?;
    aten::masked_fill_scalar(&weights, &nothing, Scalar::Float(0.0))
}
