//! Softmax.

use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Scalar};
use straightline_runtime::cpu::kernels::{self, RowMajor};

fn softmax_kernel(x: &Tensor, dim: i64, log: bool) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    // PyTorch does not look at what has no elements
    ensure_not_implemented!(
        x.dtype().is_floating() || x.numel() == 0,
        "{} is not implemented for {}: pass a floating-point dtype, or convert first",
        if log { "log_softmax" } else { "softmax" },
        x.dtype()
    );
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    if x.numel() > 0 {
        launch::run(&mut out, x, |out, x| {
            if x.sizes().is_empty() {
                // a number is a row of one: infinite, its share is not a number
                let row = RowMajor::new([1]);
                return Ok(kernels::softmax(row.output(out)?, row.input(x)?, 0, log)?);
            }
            Ok(kernels::softmax(out, x, d, log)?)
        })?;
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
    ensure!(!half_to_float, "softmax with half to float conversion is not supported on CPU");
    Ok(())
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
