//! Running sums, products and extremes along a dimension, and differences of neighbours.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Scalar};
use straightline_passes::schedule::loops::ReduceOp;
use straightline_runtime::cpu::kernels;

/// Integers accumulate in `i64` unless a dtype is asked for.
fn sum_dtype(x: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if x.dtype().is_floating() || x.dtype().is_complex() {
        x.dtype()
    } else {
        DType::I64
    })
}

fn cumulative(op: ReduceOp, x: &Tensor, dim: i64, dtype: DType, name: &str) -> Result<Tensor> {
    let dim = wrap_dim(dim, x.dim())?;
    if x.dim() == 0 {
        return copy::clone_contiguous(&copy::to_dtype(x, dtype)?);
    }
    ensure_not_implemented!(
        dtype != DType::Bool || x.numel() == 0,
        "\"{name}\" not implemented for 'Bool'"
    );
    let mut out = Tensor::allocate_contiguous(dtype, x.device(), x.sizes())?;
    if out.storage().has_data() && out.numel() > 0 {
        let x = copy::to_dtype(x, dtype)?;
        launch::run(&mut out, &x, |out, x| Ok(kernels::cumulative(op, out, x, dim)?))?;
    }
    Ok(out)
}

fn cumulative_(
    op: ReduceOp,
    x: &Tensor,
    dim: i64,
    dtype: Option<DType>,
    name: &str,
) -> Result<Tensor> {
    ensure!(
        dtype.is_none_or(|d| d == x.dtype()),
        "Bad in-place call: input tensor dtype {} and output tensor dtype {} should match",
        x.dtype(),
        sum_dtype(x, dtype)
    );
    copy::copy_(x, &cumulative(op, x, dim, x.dtype(), name)?, false)
}

pub(crate) fn cumsum(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    cumulative(ReduceOp::Sum, x, dim, sum_dtype(x, dtype), "cumsum")
}

pub(crate) fn cumsum_(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    cumulative_(ReduceOp::Sum, x, dim, dtype, "cumsum")
}

pub(crate) fn cumprod(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    cumulative(ReduceOp::Prod, x, dim, sum_dtype(x, dtype), "cumprod")
}

pub(crate) fn cumprod_(x: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    cumulative_(ReduceOp::Prod, x, dim, dtype, "cumprod")
}

fn running_extreme(max: bool, x: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let dim = wrap_dim(dim, x.dim())?;
    let mut values = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    let mut indices = Tensor::allocate_contiguous(DType::I64, x.device(), x.sizes())?;
    if x.dim() == 0 {
        // a single element of any dtype is the one
        return Ok((copy::copy_(&values, x, false)?, copy::fill_(&indices, Scalar::Int(0))?));
    }
    if x.numel() > 0 {
        launch::run([&mut values, &mut indices], x, |[values, indices], x| {
            Ok(kernels::running_extreme(max, values, indices, x, dim)?)
        })?;
    }
    Ok((values, indices))
}

pub(crate) fn cummax(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    running_extreme(true, x, dim)
}

pub(crate) fn cummin(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    running_extreme(false, x, dim)
}

pub(crate) fn logcumsumexp(x: &Tensor, dim: i64) -> Result<Tensor> {
    let dim = wrap_dim(dim, x.dim())?;
    if x.dtype().is_complex() {
        return crate::ops::pointwise::complex_functions::logcumsumexp(x, dim);
    }
    ensure_not_implemented!(
        x.dtype().is_floating(),
        "\"logcumsumexp\" not implemented for {}",
        x.dtype().torch_name()
    );
    let wide = x.dtype().opmath();
    let mut out = Tensor::allocate_contiguous(wide, x.device(), x.sizes())?;
    launch::run(&mut out, &copy::to_dtype(x, wide)?, |out, x| {
        Ok(kernels::running_logsumexp(out, x, dim)?)
    })?;
    copy::to_dtype(&out, x.dtype())
}

/// Sums from each element to the end.
fn sums_to_the_end(x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    let backwards = aten::arange_start_step(
        Scalar::Int(x.sizes()[d] - 1),
        Scalar::Int(-1),
        Scalar::Int(-1),
        Some(DType::I64),
        None,
        Some(x.device()),
        None,
    )?;
    let turned = aten::index_select(x, dim, &backwards)?;
    aten::index_select(&aten::cumsum(&turned, dim, None)?, dim, &backwards)
}

/// The derivative of `cumprod`: element k of the input is a factor of every product from k on.
///
/// Up to the first zero of a row it is the sum of `output * grad` from k on, over `input[k]`; at
/// that zero the sum of `grad` times the products without it; behind it nothing depends on the
/// input.
pub(crate) fn cumprod_backward(
    grad: &Tensor,
    input: &Tensor,
    dim: i64,
    output: &Tensor,
) -> Result<Tensor> {
    let d = wrap_dim(dim, input.dim())?;
    for (name, t) in [("grad", grad), ("output", output)] {
        ensure_shape!(
            t.sizes() == input.sizes(),
            "cumprod_backward: expected `{name}` of the input's sizes {:?}, got {:?}",
            input.sizes(),
            t.sizes()
        );
    }
    if input.numel() <= 1 || input.sizes()[d] == 1 {
        return Ok(grad.clone());
    }
    let zero = aten::eq_scalar(input, Scalar::Int(0))?;
    let w = aten::mul_tensor(output, grad)?;
    // of integers, the data decide the dtype, so that there is no graph and no Meta tensor of this
    let integers = !grad.dtype().is_floating() && !grad.dtype().is_complex();
    if integers && !aten::any(&zero)?.item::<bool>()? {
        // a true division, and so a result of floats
        return aten::div_tensor(&sums_to_the_end(&w, dim)?, input);
    }
    let zeros_so_far = aten::cumsum(&zero, dim, None)?;
    let before = aten::eq_scalar(&zeros_so_far, Scalar::Int(0))?;
    let first = aten::logical_and(&zero, &aten::eq_scalar(&zeros_so_far, Scalar::Int(1))?)?;
    let ahead = aten::masked_fill_scalar(input, &zero, Scalar::Int(1))?;
    let to_the_left = aten::div_tensor(&sums_to_the_end(&w, dim)?, &ahead)?;
    let without = aten::masked_fill_scalar(input, &first, Scalar::Int(1))?;
    let products = aten::cumprod(&without, dim, None)?;
    let at_first = sums_to_the_end(&aten::mul_tensor(&products, grad)?, dim)?;
    let behind = aten::masked_fill_scalar(&at_first, &aten::logical_not(&first)?, Scalar::Int(0))?;
    let result = aten::where_self(&before, &to_the_left, &behind)?;
    aten::to_dtype(&result, grad.dtype(), false, false, None)
}

fn check_beside(x: &Tensor, other: Option<&Tensor>, d: usize) -> Result<()> {
    let Some(other) = other else { return Ok(()) };
    let fits =
        other.dim() == x.dim() && (0..x.dim()).all(|i| i == d || other.sizes()[i] == x.sizes()[i]);
    if fits {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "diff expects the shape of tensor to prepend or append to match that of input except along \
         the differencing dimension: {:?} and {:?}",
        x.sizes(),
        other.sizes()
    )))
}

pub(crate) fn diff(
    x: &Tensor,
    n: i64,
    dim: i64,
    prepend: Option<&Tensor>,
    append: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(x.dim() >= 1, "diff expects input to be at least one-dimensional");
    ensure!(n >= 0, "order must be non-negative but got {n}");
    // no difference, whatever the dimension
    if n == 0 {
        return aten::clone(x, None);
    }
    let d = wrap_dim(dim, x.dim())?;
    check_beside(x, prepend, d)?;
    check_beside(x, append, d)?;
    let parts: Vec<Tensor> = [prepend, Some(x), append].into_iter().flatten().cloned().collect();
    let mut result = if parts.len() == 1 { x.clone() } else { aten::cat(&parts, dim)? };
    let orders = n.min(result.sizes()[d]);
    for _ in 0..orders {
        let left = result.sizes()[d] - 1;
        let after = aten::narrow(&result, dim, 1, left)?;
        let before = aten::narrow(&result, dim, 0, left)?;
        result = if result.dtype() == DType::Bool {
            aten::logical_xor(&after, &before)?
        } else {
            aten::sub_tensor(&after, &before, Scalar::Int(1))?
        };
    }
    Ok(result)
}
