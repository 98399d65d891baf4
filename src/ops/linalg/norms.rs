//! Norms of vectors and matrices.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{wrap_dim, wrap_dims};
use crate::ops::composed::Eager;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};
use straightline_passes::compose;

fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    aten::to_dtype(t, dtype, false, false, None)
}

/// The dtype in which `x` is taken, checked; the norm of complex numbers has that of their parts.
fn norm_dtype(x: &Tensor, dtype: Option<DType>) -> Result<DType> {
    ensure_not_implemented!(
        x.dtype().is_floating() || x.dtype().is_complex(),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        x.dtype()
    );
    let Some(dtype) = dtype else {
        return Ok(x.dtype());
    };
    ensure_dtype!(
        dtype.is_floating() || dtype.is_complex(),
        "linalg.vector_norm: dtype should be floating point or complex, but got {dtype}"
    );
    if dtype.is_complex() != x.dtype().is_complex() {
        let (want, of) = match x.dtype().is_complex() {
            true => ("complex", "complex"),
            false => ("floating point", "real"),
        };
        return Err(Error::dtype(format!(
            "linalg.vector_norm: dtype should be {want} for {of} inputs, but got {dtype}"
        )));
    }
    ensure_dtype!(
        DType::promote(x.dtype(), dtype) == dtype,
        "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({dtype})",
        x.dtype()
    );
    Ok(dtype)
}

/// `(sum of |x|^ord)^(1/ord)`, and its limits.
pub(crate) fn vector_norm(
    x: &Tensor,
    ord: Scalar,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let dtype = norm_dtype(x, dtype)?;
    ensure!(
        !ord.is_complex(),
        "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
    );
    let wrapped = wrap_dims(dims, x.dim())?;
    let p = ord.as_f64();
    if p < 0.0 || p == f64::INFINITY {
        let all = dims.is_none_or(<[i64]>::is_empty);
        let empty = wrapped.iter().find(|d| x.sizes()[**d] == 0);
        if let Some(d) = empty {
            return Err(Error::runtime(if all {
                format!(
                    "linalg.vector_norm cannot compute the {p} norm on an empty tensor because the operation does not have an identity"
                )
            } else {
                format!(
                    "linalg.vector_norm cannot compute the {p} norm on the dimension {d} because this dimension is empty and the operation does not have an identity"
                )
            }));
        }
    }
    let dims: Vec<i64> = wrapped.iter().map(|d| *d as i64).collect();
    compose::vector_norm(&mut Eager, x, p, &dims, keepdim, dtype)
}

fn check_norm(dtype: DType) -> Result<()> {
    ensure_not_implemented!(
        dtype.is_floating() || dtype.is_complex(),
        "norm(): input dtype should be either floating point or complex. Got {dtype} instead."
    );
    Ok(())
}

pub(crate) fn norm_dim(
    x: &Tensor,
    p: Option<Scalar>,
    dims: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    check_norm(x.dtype())?;
    vector_norm(x, p.unwrap_or(Scalar::Int(2)), Some(dims), keepdim, None)
}

pub(crate) fn norm_scalar(x: &Tensor, p: Scalar) -> Result<Tensor> {
    check_norm(x.dtype())?;
    vector_norm(x, p, None, false, None)
}

pub(crate) fn norm_dtype_all(x: &Tensor, p: Option<Scalar>, dtype: DType) -> Result<Tensor> {
    check_norm(dtype)?;
    vector_norm(x, p.unwrap_or(Scalar::Int(2)), None, false, Some(dtype))
}

pub(crate) fn norm_dim_dtype(
    x: &Tensor,
    p: Option<Scalar>,
    dims: &[i64],
    keepdim: bool,
    dtype: DType,
) -> Result<Tensor> {
    check_norm(dtype)?;
    let p = p.unwrap_or(Scalar::Int(2));
    vector_norm(x, p, Some(dims), keepdim, Some(dtype))
}

// ---- composites --------------------------------------------------------------------------------

pub(crate) fn linalg_norm(
    x: &Tensor,
    ord: Option<Scalar>,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_dims(x, ord.is_some(), dims)?;
    let rank = dims.map_or(x.dim(), <[i64]>::len);
    match ord {
        Some(ord) if rank == 2 => {
            let dims = dims.unwrap_or(&[0, 1]);
            aten::linalg_matrix_norm(x, ord, dims, keepdim, dtype)
        }
        _ => {
            let ord = ord.unwrap_or(Scalar::Int(2));
            aten::linalg_vector_norm(x, ord, dims, keepdim, dtype)
        }
    }
}

pub(crate) fn linalg_norm_str(
    x: &Tensor,
    ord: &str,
    dims: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_dims(x, true, dims)?;
    let dims = dims.unwrap_or(&[-2, -1]);
    aten::linalg_matrix_norm_str_ord(x, ord, dims, keepdim, dtype)
}

fn check_dims(x: &Tensor, ord: bool, dims: Option<&[i64]>) -> Result<()> {
    match dims {
        Some(d) if d.len() != 1 && d.len() != 2 => Err(Error::runtime(format!(
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {d:?}"
        ))),
        None if ord && x.dim() != 1 && x.dim() != 2 => Err(Error::runtime(format!(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
            x.dim()
        ))),
        _ => Ok(()),
    }
}

/// The two dimensions of a matrix norm.
fn matrix_dims(x: &Tensor, dims: &[i64], dtype: Option<DType>) -> Result<(i64, i64)> {
    ensure!(
        x.dim() >= 2,
        "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
    );
    let [a, b] = dims else {
        return Err(Error::runtime(format!(
            "linalg.matrix_norm: dim must be a 2-tuple. Got {dims:?}"
        )));
    };
    norm_dtype(x, dtype)?;
    let (a, b) = (wrap_dim(*a, x.dim())? as i64, wrap_dim(*b, x.dim())? as i64);
    ensure!(a != b, "linalg.matrix_norm: dims must be different. Got ({a}, {b})");
    Ok((a, b))
}

pub(crate) fn matrix_norm(
    x: &Tensor,
    ord: Scalar,
    dims: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let (a, b) = matrix_dims(x, dims, dtype)?;
    let p = ord.as_f64();
    if p.abs() == 2.0 {
        let values = singular_values(x, (a, b), dtype)?;
        let out = if p > 0.0 && values.sizes().last() == Some(&0) {
            // the largest of no singular values is 0, as their sum is
            aten::sum_dim_int_list(&values, Some(&[-1]), false, None)?
        } else if p > 0.0 {
            aten::amax(&values, &[-1], false)?
        } else {
            aten::amin(&values, &[-1], false)?
        };
        return keep(&out, x, (a, b), keepdim);
    }
    let (summed, other) = match p.abs() {
        1.0 => (a, b),
        f64::INFINITY => (b, a),
        _ => {
            return Err(Error::runtime(format!("linalg.matrix_norm: Order {p} not supported.")));
        }
    };
    let other = if !keepdim && other > summed { other - 1 } else { other };
    let sums = aten::linalg_vector_norm(x, Scalar::Float(1.0), Some(&[summed]), keepdim, dtype)?;
    if p > 0.0 && sums.sizes()[other as usize] == 0 {
        // the largest of no sums is 0, as their own sum is
        aten::sum_dim_int_list(&sums, Some(&[other]), keepdim, None)
    } else if p > 0.0 {
        aten::amax(&sums, &[other], keepdim)
    } else {
        aten::amin(&sums, &[other], keepdim)
    }
}

pub(crate) fn matrix_norm_str(
    x: &Tensor,
    ord: &str,
    dims: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let (a, b) = matrix_dims(x, dims, dtype)?;
    match ord {
        "fro" => aten::linalg_vector_norm(x, Scalar::Int(2), Some(&[a, b]), keepdim, dtype),
        "nuc" => {
            let values = singular_values(x, (a, b), dtype)?;
            let out = aten::sum_dim_int_list(&values, Some(&[-1]), false, None)?;
            keep(&out, x, (a, b), keepdim)
        }
        _ => Err(Error::runtime(format!("linalg.matrix_norm: Order {ord} not supported."))),
    }
}

fn singular_values(x: &Tensor, (a, b): (i64, i64), dtype: Option<DType>) -> Result<Tensor> {
    let x = match dtype {
        Some(d) => cast(x, d)?,
        None => x.clone(),
    };
    let mut order: Vec<i64> = (0..x.dim() as i64).filter(|d| *d != a && *d != b).collect();
    order.extend([a, b]);
    aten::linalg_svdvals(&aten::permute(&x, &order)?, None)
}

/// Puts the two dimensions back with one element each.
fn keep(out: &Tensor, x: &Tensor, (a, b): (i64, i64), keepdim: bool) -> Result<Tensor> {
    if !keepdim {
        return Ok(out.clone());
    }
    debug_assert_eq!(out.dim() + 2, x.dim());
    // at the end, where the matrices were brought, and back from there: strides of single elements
    // tell
    let out = aten::unsqueeze(&aten::unsqueeze(out, -1)?, -1)?;
    let n = x.dim() as i64;
    let mut order: Vec<i64> = Vec::with_capacity(x.dim());
    let mut others = 0;
    for d in 0..n {
        order.push(match d {
            _ if d == a => n - 2,
            _ if d == b => n - 1,
            _ => {
                others += 1;
                others - 1
            }
        });
    }
    aten::permute(&out, &order)
}

/// Slices along a dimension, those whose norm is above `maxnorm` made shorter.
pub(crate) fn renorm(x: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    ensure!(!p.is_complex() && !maxnorm.is_complex(), "renorm: p and maxnorm must be real-valued");
    // NaN is refused too
    let positive = p.as_f64() > 0.0;
    ensure!(positive, "renorm: non-positive-norm not supported");
    let limit = maxnorm.as_f64();
    let fits = limit >= 0.0;
    ensure!(fits, "renorm: expected maxnorm to be >= 0 but got {limit}");
    ensure!(x.dim() >= 2, "renorm: input needs at least 2 dimensions, got {} dimensions", x.dim());
    let dim = wrap_dim(dim, x.dim())?;
    let others: Vec<i64> = (0..x.dim()).filter(|d| *d != dim).map(|d| d as i64).collect();
    // PyTorch takes norms in the type that it accumulates in
    let wide = match x.dtype() {
        DType::F32 => DType::F64,
        DType::C64 => DType::C128,
        other => other.opmath(),
    };
    let norm = aten::linalg_vector_norm(x, p, Some(&others), true, Some(wide))?;
    let shifted = aten::add_scalar(&norm, Scalar::Float(1e-7), Scalar::Int(1))?;
    let factor = aten::mul_scalar(&aten::reciprocal(&shifted)?, maxnorm)?;
    let factor =
        aten::where_scalar_other(&aten::gt_scalar(&norm, maxnorm)?, &factor, Scalar::Float(1.0))?;
    let factor = cast(&factor, x.dtype())?;
    aten::mul_tensor(&aten::contiguous(x, straightline_catalog::MemoryFormat::Contiguous)?, &factor)
}

pub(crate) fn renorm_(x: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    aten::copy_(x, &renorm(x, p, dim, maxnorm)?, false)
}
