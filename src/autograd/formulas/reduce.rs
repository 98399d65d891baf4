//! Gradients of reductions and of sorting.

use super::basics::{conj, div, exp, mul, sub, where_, zeros_like};
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::{wrap_dim, wrap_dims};
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ZERO: Scalar = Scalar::Int(0);

/// The sum of all elements.
pub(crate) fn sum(x: &Tensor) -> Result<Tensor> {
    aten::sum(x, None)
}

/// A gradient at each of so many places.
pub(crate) fn expand_to(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    aten::expand(grad, sizes, false)
}

/// Puts back the dimensions that a reduction has left out, with size 1; no dimensions, or an empty
/// list, are all of them.
pub(crate) fn restore_reduced(
    grad: &Tensor,
    rank: usize,
    dims: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let mut out = grad.clone();
    if keepdim {
        return Ok(out);
    }
    for dim in wrap_dims(dims, rank)? {
        out = aten::unsqueeze(&out, dim as i64)?;
    }
    Ok(out)
}

/// How many elements each result of a reduction has.
fn reduced_count(sizes: &[i64], dims: Option<&[i64]>) -> Result<i64> {
    let axes = wrap_dims(dims, sizes.len())?;
    Ok(axes.into_iter().map(|axis| sizes[axis]).product())
}

pub(crate) fn sum_backward(
    grad: &Tensor,
    sizes: &[i64],
    dims: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    expand_to(&restore_reduced(grad, sizes.len(), dims, keepdim)?, sizes)
}

pub(crate) fn nansum_backward(
    grad: &Tensor,
    x: &Tensor,
    dims: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let grad = sum_backward(grad, x.sizes(), dims, keepdim)?;
    mul(&grad, &aten::logical_not(&aten::isnan(x)?)?)
}

pub(crate) fn mean_backward(
    grad: &Tensor,
    sizes: &[i64],
    dims: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let count = reduced_count(sizes, dims)?;
    aten::div_scalar(&sum_backward(grad, sizes, dims, keepdim)?, Scalar::Int(count))
}

/// With as few elements as the correction takes away, the slope is infinite.
pub(crate) fn var_backward(
    grad: &Tensor,
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let grad = restore_reduced(grad, x.dim(), dims, keepdim)?;
    let freedom = reduced_count(x.sizes(), dims)? as f64 - correction.map_or(1.0, Scalar::as_f64);
    let mean = aten::mean_dim(x, dims, true, None)?;
    if freedom <= 0.0 && dims.is_none_or(|d| d.is_empty()) {
        let same = aten::eq_tensor(x, &mean)?;
        let steep = aten::full_like(
            x,
            Scalar::Float(f64::INFINITY),
            Some(x.dtype().to_real()),
            None,
            None,
            None,
            None,
        )?;
        return mul(&grad, &where_(&same, f64::NAN, &steep)?);
    }
    let slope = aten::mul_scalar(&grad, Scalar::Float(2.0 / freedom))?;
    mul(&slope, &sub(x, &mean)?)
}

/// A deviation of 0 has no slope.
pub(crate) fn std_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dims: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let slope = aten::div_tensor(grad, &mul(result, 2i64)?)?;
    let slope = aten::masked_fill_scalar(&slope, &aten::eq_scalar(result, ZERO)?, ZERO)?;
    var_backward(&slope, x, dims, correction, keepdim)
}

/// The gradient of the greatest or least elements: in equal parts where several are.
pub(crate) fn tied_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dims: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let restored = |t| restore_reduced(t, x.dim(), Some(dims), keepdim);
    let there = aten::eq_tensor(&restored(result)?, x)?;
    let count = match dims {
        [] => aten::sum(&there, None)?,
        dims => aten::sum_dim_int_list(&there, Some(dims), true, None)?,
    };
    aten::div_tensor(&mul(&restored(grad)?, &there)?, &count)
}

/// The same of the element that all of a tensor are reduced to; where that is NaN, all NaN have a
/// part.
pub(crate) fn evenly_distribute_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
) -> Result<Tensor> {
    let both_nan = aten::logical_and(&aten::isnan(x)?, &aten::isnan(result)?)?;
    let there = aten::logical_or(&aten::eq_tensor(x, result)?, &both_nan)?;
    mul(&there, &aten::div_tensor(grad, &aten::sum(&there, None)?)?)
}

/// The gradient goes to the places that were chosen.
pub(crate) fn value_selecting_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    aten::value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim)
}

pub(crate) fn logsumexp_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dims: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let restored = |t| restore_reduced(t, x.dim(), Some(dims), keepdim);
    mul(&restored(grad)?, &conj(&exp(&sub(x, &restored(result)?)?)?)?)
}

/// The products of all elements but one along a dimension: those before times those after.
fn products_of_others(x: &Tensor, dim: i64) -> Result<Tensor> {
    let size = aten::size_int(x, dim)?;
    if size == 0 {
        return Ok(x.clone());
    }
    let one = aten::ones_like(&aten::narrow(x, dim, 0, 1)?, None, None, None, None, None)?;
    let before = aten::cumprod(&aten::narrow(x, dim, 0, size - 1)?, dim, None)?;
    let before = aten::cat(&[one.clone(), before], dim)?;
    let turned = aten::flip(&aten::narrow(x, dim, 1, size - 1)?, &[dim])?;
    let after = aten::flip(&aten::cumprod(&turned, dim, None)?, &[dim])?;
    mul(&before, &aten::cat(&[after, one], dim)?)
}

/// A tensor in the dtype of another one.
fn as_dtype_of(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    match x.dtype() == other.dtype() {
        true => Ok(x.clone()),
        false => aten::to_dtype(x, other.dtype(), false, false, None),
    }
}

/// The factor of each element of a product: the product divided by it, as far as no element is 0;
/// the product of the others where one is; 0 where several are, `zeros` of them.
fn factors(x: &Tensor, product: &Tensor, others: &Tensor, zeros: &Tensor) -> Result<Tensor> {
    let safe = aten::masked_fill_scalar(x, &aten::eq_scalar(x, Scalar::Int(0))?, Scalar::Int(1))?;
    let none = aten::eq_scalar(zeros, Scalar::Int(0))?;
    where_(&none, &div(product, &safe)?, others)
}

pub(crate) fn prod_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    if x.dim() == 0 {
        return Ok(grad.clone());
    }
    let x = as_dtype_of(x, grad)?;
    let others = products_of_others(&aten::reshape(&x, &[-1])?, 0)?;
    let zeros = aten::sum(&aten::eq_scalar(&x, Scalar::Int(0))?, None)?;
    let several = aten::gt_scalar(&zeros, Scalar::Int(1))?;
    let others = where_(&several, 0i64, &aten::reshape(&others, x.sizes())?)?;
    mul(grad, &conj(&factors(&x, result, &others, &zeros)?)?)
}

pub(crate) fn prod_dim_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dim: i64,
    keepdim: bool,
) -> Result<Tensor> {
    if x.dim() == 0 {
        return Ok(grad.clone());
    }
    let x = as_dtype_of(x, grad)?;
    let others = products_of_others(&x, dim)?;
    let zeros = aten::sum(&aten::eq_scalar(&x, Scalar::Int(0))?, None)?;
    let product = restore_reduced(result, x.dim(), Some(&[dim]), keepdim)?;
    let factors = factors(&x, &product, &others, &zeros)?;
    mul(&restore_reduced(grad, x.dim(), Some(&[dim]), keepdim)?, &conj(&factors)?)
}

/// For each place along an axis, the segment that it is in, and whether it is in one.
fn segments(x: &Tensor, ends: &Tensor, axis: usize, count: i64) -> Result<(Tensor, Tensor)> {
    let positions = aten::arange(
        Scalar::Int(x.sizes()[axis]),
        Some(ends.dtype()),
        None,
        Some(ends.device()),
        None,
    )?;
    let mut sizes = x.sizes()[..=axis].to_vec();
    let positions =
        aten::contiguous(&aten::expand(&positions, &sizes, false)?, Default::default())?;
    let ends = aten::contiguous(ends, Default::default())?;
    let at = aten::searchsorted_tensor(&ends, &positions, false, true, None, None)?;
    let inside = aten::lt_scalar(&at, Scalar::Int(count))?;
    let at = aten::clamp_max(&at, Scalar::Int((count - 1).max(0)))?;
    sizes.resize(x.dim(), 1);
    let spread = |t: &Tensor| aten::expand(&aten::reshape(t, &sizes)?, x.sizes(), false);
    Ok((spread(&at)?, spread(&inside)?))
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn segment_reduce_backward(
    grad: &Tensor,
    result: &Tensor,
    x: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let axis = wrap_dim(axis, x.dim())?;
    let dim = axis as i64;
    let count = result.sizes()[axis];
    let ends = match (offsets, lengths) {
        (Some(offsets), _) => aten::narrow(offsets, -1, 1, count)?,
        (None, Some(lengths)) => aten::cumsum(lengths, -1, None)?,
        (None, None) => return zeros_like(x),
    };
    if x.numel() == 0 || count == 0 {
        return zeros_like(x);
    }
    let (at, inside) = segments(x, &ends, axis, count)?;
    let of_segment = |t: &Tensor| aten::gather(t, dim, &at, false);
    let grads = where_(&inside, &of_segment(grad)?, 0i64)?;
    let counted = |there: &Tensor| {
        let there = as_dtype_of(&aten::logical_and(there, &inside)?, grad)?;
        of_segment(&aten::scatter_add(&zeros_like(result)?, dim, &at, &there)?)
    };
    match reduce {
        "sum" => Ok(grads),
        "mean" => aten::div_tensor(&grads, &counted(&inside)?),
        "max" | "min" => {
            let chosen = of_segment(result)?;
            let nan = aten::logical_and(&aten::isnan(x)?, &aten::isnan(&chosen)?)?;
            let there = aten::logical_or(&aten::eq_tensor(x, &chosen)?, &nan)?;
            let share = aten::div_tensor(&grads, &counted(&there)?)?;
            where_(&there, &share, 0i64)
        }
        _ => {
            // the products without the zeros, which count for an element if no other one is 0
            let zero = aten::eq_scalar(x, ZERO)?;
            let safe = aten::masked_fill_scalar(x, &zero, Scalar::Int(1))?;
            let products =
                aten::segment_reduce(&safe, reduce, lengths, None, offsets, dim, true, initial)?;
            let others = aten::div_tensor(&of_segment(&products)?, &safe)?;
            let zeros_beside = sub(&counted(&zero)?, &as_dtype_of(&zero, grad)?)?;
            mul(&grads, &where_(&aten::eq_scalar(&zeros_beside, ZERO)?, &others, 0i64)?)
        }
    }
}
