//! Reductions: sums, means, extremes, variance.

pub(crate) mod histogram;
pub(crate) mod scan;
pub(crate) mod sort;

use crate::error::{Error, Result};
use crate::ops::common::{wrap_dim, wrap_dims};
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use smallvec::SmallVec;
use std::borrow::Cow;
use straightline_catalog::prims::UnaryOp;
use straightline_catalog::{DType, Dims, Scalar, layout, meta};
use straightline_passes::schedule::loops::ReduceOp;
use straightline_runtime::cpu::kernels::{self, RowMajor};

/// A fresh result of a reduction, and the sizes that the kernels take it in: the reduced dimensions
/// are there with size 1.
fn result(
    x: &Tensor,
    dims: &[usize],
    keepdim: bool,
    dtype: DType,
) -> Result<(Tensor, RowMajor<Dims>)> {
    let sizes = meta::reduced(x.sizes(), dims, keepdim);
    let out = Tensor::allocate_contiguous(dtype, x.device(), &sizes)?;
    Ok((out, RowMajor::of(meta::reduced(x.sizes(), dims, true))))
}

fn reduce(op: ReduceOp, x: &Tensor, dims: &[usize], keepdim: bool, dtype: DType) -> Result<Tensor> {
    // into a wider number, elements are converted one by one as the kernel reads them; any other
    // conversion comes first
    let sums = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
    let widened = matches!(dtype, DType::F32 | DType::F64 | DType::I64)
        && !x.dtype().is_complex()
        && DType::promote(x.dtype(), dtype) == dtype;
    let x = match sums && widened {
        true => Cow::Borrowed(x),
        false => Cow::Owned(copy::to_dtype(x, dtype)?),
    };
    let (mut out, kept) = result(&x, dims, keepdim, dtype)?;
    launch::run(&mut out, &*x, |out, x| Ok(kernels::reduce(op, kept.output(out)?, x)?))?;
    Ok(out)
}

fn sum_dtype(x: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if x.dtype().is_floating() || x.dtype().is_complex() {
        x.dtype()
    } else {
        DType::I64
    })
}

pub(crate) fn sum(x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    let all = wrap_dims(None, x.dim())?;
    reduce(ReduceOp::Sum, x, &all, false, sum_dtype(x, dtype))
}

pub(crate) fn sum_dim(
    x: &Tensor,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let dims = wrap_dims(dims, x.dim())?;
    reduce(ReduceOp::Sum, x, &dims, keepdim, sum_dtype(x, dtype))
}

pub(crate) fn prod(x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    let all = wrap_dims(None, x.dim())?;
    reduce(ReduceOp::Prod, x, &all, false, sum_dtype(x, dtype))
}

pub(crate) fn prod_dim(
    x: &Tensor,
    dim: i64,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let dims = wrap_dims(Some(&[dim]), x.dim())?;
    reduce(ReduceOp::Prod, x, &dims, keepdim, sum_dtype(x, dtype))
}

pub(crate) fn mean_dim(
    x: &Tensor,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let whose = if dtype.is_some() { "Optional" } else { "Input" };
    let dtype = dtype.unwrap_or(x.dtype());
    ensure_not_implemented!(
        dtype.is_floating() || dtype.is_complex(),
        "mean(): could not infer output dtype. {whose} dtype must be either a floating point or \
             complex dtype. Got: {}",
        dtype.torch_name()
    );
    let dims = wrap_dims(dims, x.dim())?;
    let n: i64 = dims.iter().map(|d| x.sizes()[*d]).product();
    // half types: the sum keeps f32 precision until the division is done
    let wide = dtype.opmath();
    let total = reduce(ReduceOp::Sum, x, &dims, keepdim, wide)?;
    // in place: the total's layout is the mean's
    let mean = crate::ops::pointwise::div_scalar_(&total, Scalar::Float(n as f64))?;
    copy::to_dtype(&mean, dtype)
}

pub(crate) fn mean(x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    mean_dim(x, None, false, dtype)
}

/// A reduction of everything to the one element that nothing has.
fn check_any(x: &Tensor, name: &str) -> Result<()> {
    ensure!(
        x.numel() != 0,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with \
             the 'dim' argument."
    );
    Ok(())
}

fn check_not_empty(x: &Tensor, dims: &[usize], name: &str) -> Result<()> {
    if let Some(d) = dims.iter().find(|d| x.sizes()[**d] == 0) {
        return Err(Error::index(format!(
            "{name}(): Expected reduction dim {d} to have non-zero size."
        )));
    }
    Ok(())
}

pub(crate) fn amax(x: &Tensor, dims: &[i64], keepdim: bool) -> Result<Tensor> {
    if dims.is_empty() {
        check_any(x, "amax")?;
    }
    let dims = wrap_dims(Some(dims), x.dim())?;
    check_not_empty(x, &dims, "amax")?;
    reduce(ReduceOp::Max, x, &dims, keepdim, x.dtype())
}

pub(crate) fn amin(x: &Tensor, dims: &[i64], keepdim: bool) -> Result<Tensor> {
    if dims.is_empty() {
        check_any(x, "amin")?;
    }
    let dims = wrap_dims(Some(dims), x.dim())?;
    check_not_empty(x, &dims, "amin")?;
    reduce(ReduceOp::Min, x, &dims, keepdim, x.dtype())
}

pub(crate) fn max(x: &Tensor) -> Result<Tensor> {
    check_any(x, "max")?;
    let all = wrap_dims(None, x.dim())?;
    reduce(ReduceOp::Max, x, &all, false, x.dtype())
}

pub(crate) fn min(x: &Tensor) -> Result<Tensor> {
    check_any(x, "min")?;
    let all = wrap_dims(None, x.dim())?;
    reduce(ReduceOp::Min, x, &all, false, x.dtype())
}

fn truth(op: ReduceOp, x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let dtype = x.dtype();
    let r = reduce(op, x, dims, keepdim, DType::Bool)?;
    // PyTorch keeps uint8 for uint8 inputs
    if dtype == DType::U8 { copy::to_dtype(&r, DType::U8) } else { Ok(r) }
}

pub(crate) fn any(x: &Tensor) -> Result<Tensor> {
    truth(ReduceOp::Any, x, &wrap_dims(None, x.dim())?, false)
}

pub(crate) fn any_dim(x: &Tensor, dim: i64, keepdim: bool) -> Result<Tensor> {
    truth(ReduceOp::Any, x, &wrap_dims(Some(&[dim]), x.dim())?, keepdim)
}

pub(crate) fn any_dims(x: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    truth(ReduceOp::Any, x, &wrap_dims(dims, x.dim())?, keepdim)
}

pub(crate) fn all(x: &Tensor) -> Result<Tensor> {
    truth(ReduceOp::All, x, &wrap_dims(None, x.dim())?, false)
}

pub(crate) fn all_dim(x: &Tensor, dim: i64, keepdim: bool) -> Result<Tensor> {
    truth(ReduceOp::All, x, &wrap_dims(Some(&[dim]), x.dim())?, keepdim)
}

pub(crate) fn all_dims(x: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    truth(ReduceOp::All, x, &wrap_dims(dims, x.dim())?, keepdim)
}

/// The sum of what is not NaN.
pub(crate) fn nansum(
    x: &Tensor,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    use crate::ops::aten;
    ensure!(!x.dtype().is_complex(), "nansum does not support complex inputs");
    if !x.dtype().is_floating() {
        return aten::sum_dim_int_list(x, dims, keepdim, dtype);
    }
    let there = aten::masked_fill_scalar(x, &aten::isnan(x)?, Scalar::Int(0))?;
    aten::sum_dim_int_list(&there, dims, keepdim, dtype)
}

fn arg_reduce(
    max: bool,
    x: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    name: &str,
) -> Result<Tensor> {
    ensure_not_implemented!(x.dtype() != DType::Bool, "{name}(): does not support bool input");
    let Some(dim) = dim else {
        // over all elements in row-major order
        ensure_index!(
            x.numel() != 0,
            "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify \
                 the reduction dim with the 'dim' argument."
        );
        let flat = copy::to_contiguous(x)?;
        let flat = flat.with_geometry(
            Dims::from_slice(&[x.numel()]),
            Dims::from_slice(&[1]),
            flat.storage_offset(),
        );
        let r = arg_reduce(max, &flat, Some(0), false, name)?;
        let sizes = if keepdim { Dims::from_elem(1, x.dim()) } else { Dims::new() };
        let strides = layout::contiguous_strides(&sizes);
        return Ok(r.with_geometry(sizes, strides, 0));
    };
    let d = wrap_dim(dim, x.dim())?;
    let dims: SmallVec<[usize; 5]> =
        if x.dim() == 0 { SmallVec::new() } else { SmallVec::from_slice(&[d]) };
    check_not_empty(x, &dims, name)?;
    let (mut out, kept) = result(x, &dims, keepdim, DType::I64)?;
    if x.dim() == 0 {
        return copy::fill_(&out, Scalar::Int(0));
    }
    launch::run(&mut out, x, |out, x| Ok(kernels::arg_reduce(max, kept.output(out)?, x, d)?))?;
    Ok(out)
}

pub(crate) fn argmax(x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
    arg_reduce(true, x, dim, keepdim, "argmax")
}

pub(crate) fn argmin(x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
    arg_reduce(false, x, dim, keepdim, "argmin")
}

/// Values and positions of the extremes along a dimension.
fn extreme(max: bool, x: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let name = if max { "max" } else { "min" };
    ensure_type!(!x.dtype().is_complex(), "{name}(): does not support complex input");
    // bool has positions here, though argmax refuses it
    let comparable = match x.dtype() {
        DType::Bool => copy::to_dtype(x, DType::U8)?,
        _ => x.clone(),
    };
    let index = arg_reduce(max, &comparable, Some(dim), true, name)?;
    let values = if x.dim() == 0 {
        copy::clone_contiguous(x)?
    } else {
        crate::ops::index::gather(x, dim, &index, false)?
    };
    if keepdim || x.dim() == 0 {
        return Ok((values, index));
    }
    Ok((crate::ops::view::squeeze_dim(&values, dim)?, crate::ops::view::squeeze_dim(&index, dim)?))
}

pub(crate) fn max_dim(x: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    extreme(true, x, dim, keepdim)
}

pub(crate) fn min_dim(x: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    extreme(false, x, dim, keepdim)
}

/// Variance over dimensions, divided by `n - correction` (1 when not given). That of complex
/// numbers is real: the variances of their parts added up.
pub(crate) fn var_correction(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let var = variance(x, dims, correction, keepdim)?;
    match x.dtype().is_complex() {
        true => Ok(var),
        false => copy::to_dtype(&var, x.dtype()),
    }
}

/// The variance as it is computed, of halves in `f32`.
fn variance(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    if x.dtype().is_complex() {
        let parts = crate::ops::pointwise::complex::view_as_real(x)?;
        let of = |part| {
            let part = crate::ops::view::select(&parts, x.dim() as i64, part)?;
            variance(&part, dims, correction, keepdim)
        };
        return crate::ops::pointwise::add(&of(0)?, &of(1)?, Scalar::Int(1));
    }
    ensure_not_implemented!(
        x.dtype().is_floating(),
        "std and var only support floating point and complex dtypes"
    );
    let dims = wrap_dims(dims, x.dim())?;
    let correction = correction.map_or(1.0, Scalar::as_f64);
    let n: i64 = dims.iter().map(|d| x.sizes()[*d]).product();
    let wide = x.dtype().opmath();
    let xw = copy::to_dtype(x, wide)?;
    let total = reduce(ReduceOp::Sum, &xw, &dims, true, wide)?;
    let mean = crate::ops::pointwise::div_scalar(&total, Scalar::Float(n as f64))?;
    let centred = crate::ops::pointwise::sub(&xw, &mean, Scalar::Int(1))?;
    let squares = crate::ops::pointwise::mul(&centred, &centred)?;
    let total = reduce(ReduceOp::Sum, &squares, &dims, keepdim, wide)?;
    // of nothing there is no variance, whatever the correction
    let divisor = if n == 0 { 0.0 } else { (n as f64 - correction).max(0.0) };
    crate::ops::pointwise::div_scalar(&total, Scalar::Float(divisor))
}

/// The square root of the variance, rounded once: of halves the variance is often out of range
/// where its root is not.
pub(crate) fn std_correction(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let std =
        crate::ops::pointwise::elementary(UnaryOp::Sqrt, &variance(x, dims, correction, keepdim)?)?;
    match x.dtype().is_complex() {
        true => Ok(std),
        false => copy::to_dtype(&std, x.dtype()),
    }
}

/// The standard deviation and the mean.
pub(crate) fn std_mean_correction(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    check_real_or_complex(x, "std_mean")?;
    let std = crate::ops::aten::std_correction(x, dims, correction, keepdim)?;
    Ok((std, crate::ops::aten::mean_dim(x, dims, keepdim, None)?))
}

/// The variance and the mean.
pub(crate) fn var_mean_correction(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    check_real_or_complex(x, "var_mean")?;
    let var = crate::ops::aten::var_correction(x, dims, correction, keepdim)?;
    Ok((var, crate::ops::aten::mean_dim(x, dims, keepdim, None)?))
}

fn check_real_or_complex(x: &Tensor, op: &str) -> Result<()> {
    ensure_not_implemented!(
        x.dtype().is_floating() || x.dtype().is_complex(),
        "{op} only support floating point and complex dtypes"
    );
    Ok(())
}
