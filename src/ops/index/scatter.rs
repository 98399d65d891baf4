//! Scattering along a dimension, replacing or reducing.

use crate::error::{Error, Result};
use crate::ops::common::wrap_dim;
use crate::ops::copy;
use crate::ops::index::out_of_bounds;
use crate::tensor::launch;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Dims, Scalar};
use straightline_runtime::cpu::kernels::{self, ScatterOp};

/// A 0-dim tensor as a vector of one element.
pub(crate) fn as_vector(t: &Tensor) -> Tensor {
    if t.dim() > 0 {
        return t.clone();
    }
    let one = Dims::from_slice(&[1]);
    t.with_geometry(one.clone(), one, t.storage_offset())
}

fn check(x: &Tensor, dim: i64, index: &Tensor, src: Option<&Tensor>, name: &str) -> Result<usize> {
    let d = wrap_dim(dim, x.dim())?;
    if index.numel() == 0 {
        return Ok(d);
    }
    access::check_apart(x, [index].into_iter().chain(src))?;
    ensure_dtype!(
        matches!(index.dtype(), DType::I64 | DType::I32),
        "{name}(): Expected dtype int32/int64 for index"
    );
    ensure_dtype!(
        src.is_none_or(|s| s.dtype() == x.dtype()),
        "{name}(): Expected self.dtype to be equal to src.dtype"
    );
    let rank = x.dim().max(1);
    ensure!(
        index.dim().max(1) == rank,
        "Index tensor must have the same number of dimensions as self tensor"
    );
    // `scatter_reduce` looks at the ranks before, the others at each dimension
    let lacking = |s: &&Tensor| name != "scatter_reduce" && rank > 1 && s.dim() < rank;
    if let Some(s) = src.filter(lacking) {
        let n = s.dim().max(1);
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [-{n}, {}], but got {n})",
            n - 1
        )));
    }
    ensure!(
        src.is_none_or(|s| s.dim().max(1) == rank),
        "Index tensor must have the same number of dimensions as src tensor"
    );
    let size = |t: &Tensor, i: usize| t.sizes().get(i).copied().unwrap_or(1);
    for i in 0..rank {
        let n = size(index, i);
        if (i != d && n > size(x, i)) || src.is_some_and(|s| n > size(s, i)) {
            let beside = src.map_or(String::new(), |s| {
                format!(" and to be no larger size than src {:?}", s.sizes())
            });
            return Err(Error::runtime(format!(
                "Expected index {:?} to be no larger than self {:?} apart from dimension {d}{beside}",
                index.sizes(),
                x.sizes()
            )));
        }
    }
    Ok(d)
}

/// What is read while `x` is written, in memory of its own.
pub(crate) fn apart(x: &Tensor, t: &Tensor) -> Result<Tensor> {
    match t.shares_storage_with(x) {
        true => copy::clone_contiguous(t),
        false => Ok(t.clone()),
    }
}

/// Scatters into `x` what was checked.
fn run(op: ScatterOp, x: &Tensor, d: usize, index: &Tensor, src: &Tensor) -> Result<()> {
    if !x.storage().has_data() || index.numel() == 0 {
        return Ok(());
    }
    let (index, src) = (as_vector(&apart(x, index)?), apart(x, src)?);
    // a number is for all places; a larger tensor's first elements count
    let src_strides = match src.dim() {
        0 => Dims::from_elem(0, index.dim()),
        _ => Dims::from_slice(src.strides()),
    };
    let places = Dims::from_slice(index.sizes());
    let src = src.with_geometry(places, src_strides, src.storage_offset());
    let x = as_vector(x);
    launch::run(launch::Written(&x), [&index, &src], |x, [index, src]| {
        kernels::scatter(op, x, d, index, src).map_err(out_of_bounds(d))
    })
}

/// A number where a tensor of values is wanted.
fn number(x: &Tensor, value: Scalar) -> Result<Tensor> {
    crate::ops::common::check_fits(value, x.dtype())?;
    Tensor::scalar_of(value.cast(x.dtype()), x.dtype())
}

pub(crate) fn scatter_src_(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    let d = check(x, dim, index, Some(src), "scatter")?;
    run(ScatterOp::Replace, x, d, index, src)?;
    Ok(x.clone())
}

pub(crate) fn scatter_src(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_src_(&copy::clone_contiguous(x)?, dim, index, src)
}

pub(crate) fn scatter_value_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    let d = check(x, dim, index, None, "scatter")?;
    run(ScatterOp::Replace, x, d, index, &number(x, value)?)?;
    Ok(x.clone())
}

pub(crate) fn scatter_value(x: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    scatter_value_(&copy::clone_contiguous(x)?, dim, index, value)
}

/// The reductions of `scatter` itself.
fn old_reduction(reduce: &str) -> Result<ScatterOp> {
    match reduce {
        "add" => Ok(ScatterOp::Add),
        "multiply" => Ok(ScatterOp::Multiply),
        other => Err(Error::runtime(format!(
            "reduce argument must be either add or multiply, got {other}"
        ))),
    }
}

pub(crate) fn scatter_reduce_src_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    let d = check(x, dim, index, Some(src), "scatter")?;
    run(old_reduction(reduce)?, x, d, index, src)?;
    Ok(x.clone())
}

pub(crate) fn scatter_reduce_src(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    scatter_reduce_src_(&copy::clone_contiguous(x)?, dim, index, src, reduce)
}

pub(crate) fn scatter_reduce_value_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    let d = check(x, dim, index, None, "scatter")?;
    run(old_reduction(reduce)?, x, d, index, &number(x, value)?)?;
    Ok(x.clone())
}

pub(crate) fn scatter_reduce_value(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    scatter_reduce_value_(&copy::clone_contiguous(x)?, dim, index, value, reduce)
}

pub(crate) fn scatter_add_(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    let d = check(x, dim, index, Some(src), "scatter_add")?;
    let (dtype, wide) = (x.dtype(), x.dtype().opmath());
    if dtype == wide {
        run(ScatterOp::Add, x, d, index, src)?;
        return Ok(x.clone());
    }
    // halves are summed in the wider type and rounded once
    let sum = copy::to_dtype(x, wide)?;
    run(ScatterOp::Add, &sum, d, index, &copy::to_dtype(src, wide)?)?;
    copy::copy_(x, &sum, false)
}

pub(crate) fn scatter_add(x: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_add_(&copy::clone_contiguous(x)?, dim, index, src)
}

/// A reduction by name, the number that it starts from, and whether the result is divided by the
/// count.
pub(crate) struct Reduction {
    pub(crate) op: ScatterOp,
    pub(crate) start: Scalar,
    pub(crate) mean: bool,
}

impl Reduction {
    pub(crate) fn new(name: &str, dtype: DType) -> Result<Reduction> {
        // complex numbers have no order
        ensure_not_implemented!(
            !dtype.is_complex() || !matches!(name, "amax" | "amin"),
            "\"scatter_gather_tensor_cpu_reduce_{name}\" not implemented for {}",
            dtype.torch_name()
        );
        let lowest = |sign: f64| match dtype {
            DType::Bool => Scalar::Bool(sign > 0.0),
            _ if dtype.is_floating() => Scalar::Float(sign * f64::INFINITY),
            _ => {
                let bits = 8 * dtype.size() as u32;
                let signed = dtype != DType::U8;
                let high = i64::MAX >> (64 - bits);
                Scalar::Int(match (sign > 0.0, signed) {
                    (true, true) => high,
                    (true, false) => 2 * high + 1,
                    (false, true) => -high - 1,
                    (false, false) => 0,
                })
            }
        };
        let (op, start, mean) = match name {
            "sum" => (ScatterOp::Add, Scalar::Int(0), false),
            "prod" => (ScatterOp::Multiply, Scalar::Int(1), false),
            "mean" => (ScatterOp::Add, Scalar::Int(0), true),
            "amax" => (ScatterOp::Max, lowest(-1.0), false),
            "amin" => (ScatterOp::Min, lowest(1.0), false),
            other => {
                return Err(Error::runtime(format!(
                    "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
                )));
            }
        };
        ensure_not_implemented!(
            !mean || dtype != DType::Bool,
            "the mean of truth values is not implemented for 'Bool'"
        );
        Ok(Reduction { op, start, mean })
    }
}

/// Divides totals in place by how many were added: integers round down.
pub(crate) fn divide_by_count(x: &Tensor, count: &Tensor) -> Result<()> {
    if !x.storage().has_data() {
        return Ok(());
    }
    let none = crate::ops::pointwise::eq_scalar(count, Scalar::Int(0))?;
    crate::ops::pointwise::masked_fill_(count, &none, Scalar::Int(1))?;
    let mean = if x.dtype().is_floating() || x.dtype().is_complex() {
        crate::ops::pointwise::div(x, count)?
    } else {
        crate::ops::pointwise::div_mode(x, count, Some("floor"))?
    };
    copy::copy_(x, &mean, false)?;
    Ok(())
}

pub(crate) fn scatter_reduce_two_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let d = check(x, dim, index, Some(src), "scatter_reduce")?;
    let reduction = Reduction::new(reduce, x.dtype())?;
    if index.numel() == 0 {
        return Ok(x.clone());
    }
    // before the first of two writes
    let (index, src) = (&apart(x, index)?, &apart(x, src)?);
    if !include_self {
        run(ScatterOp::Replace, x, d, index, &number(x, reduction.start)?)?;
    }
    run(reduction.op, x, d, index, src)?;
    if reduction.mean {
        let count = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
        copy::fill_(&count, Scalar::Int(i64::from(include_self)))?;
        run(ScatterOp::Add, &count, d, index, &number(x, Scalar::Int(1))?)?;
        divide_by_count(x, &count)?;
    }
    Ok(x.clone())
}

pub(crate) fn scatter_reduce_two(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let out = copy::clone_contiguous(x)?;
    scatter_reduce_two_(&out, dim, index, src, reduce, include_self)
}
