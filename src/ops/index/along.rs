//! Writing slices along a dimension, and reading or writing places of the flat tensor.

use crate::error::{Error, Result};
use crate::ops::common::wrap_dim;
use crate::ops::copy;
use crate::ops::index::scatter::{Reduction, apart, as_vector, divide_by_count};
use crate::tensor::launch;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::{self, IndexedDim, RowMajor, ScatterOp};

/// `x` at the indexed slices of dimension `d` takes `values`: slices, or one number for all of
/// them.
fn put_slices(
    op: ScatterOp,
    x: &Tensor,
    d: usize,
    index: &Tensor,
    values: &Tensor,
    wrap: bool,
) -> Result<()> {
    if !x.storage().has_data() {
        return Ok(());
    }
    let (x, index) = (as_vector(x), as_vector(index));
    let (index, values) = (apart(&x, &index)?, apart(&x, values)?);
    let value_strides = match values.dim() {
        0 => Dims::from_elem(0, x.dim()),
        _ => Dims::from_slice(values.strides()),
    };
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[d] = index.numel();
    let offsets = launch::read(&index, |index| {
        let dim = IndexedDim { index, size: x.sizes()[d], stride: x.strides()[d] };
        Ok(kernels::offsets(&[dim], wrap)?)
    })?;
    let mut strides = Dims::from_slice(x.strides());
    strides[d] = 0;
    let mut offset_strides = Dims::from_elem(0, x.dim());
    offset_strides[d] = 1;
    let offsets = Tensor::from_slice(&offsets, &[sizes[d]])?;
    let offsets = offsets.with_geometry(sizes.clone(), offset_strides, 0);
    let values = values.with_geometry(sizes.clone(), value_strides, values.storage_offset());
    launch::run(launch::InTurn(&x), [&values, &offsets], |x, [values, offsets]| {
        let places = x.places(&sizes, &strides)?;
        Ok(kernels::put_at(op, places, values, offsets)?)
    })
}

fn check_vector(index: &Tensor, name: &str) -> Result<()> {
    if index.dim() <= 1 {
        return Ok(());
    }
    Err(Error::index(format!(
        "{name}(): Index is supposed to be a vector, but got dim: {}",
        index.dim()
    )))
}

fn check_long(index: &Tensor, name: &str) -> Result<()> {
    if index.dtype() == DType::I64 {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{name}(): Expected a long tensor for index, but got {}",
        index.dtype().torch_name()
    )))
}

fn check_int_or_long(index: &Tensor, name: &str) -> Result<()> {
    if matches!(index.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{name}(): Expected dtype int32/int64 for index but got: {}",
        index.dtype().torch_name()
    )))
}

/// The checks that `index_add` and `index_reduce` share; the strides of the source for x's
/// dimensions.
fn check_slices(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    name: &str,
) -> Result<usize> {
    let d = wrap_dim(dim, x.dim())?;
    check_vector(index, name)?;
    check_int_or_long(index, name)?;
    ensure_dtype!(
        x.dtype() == source.dtype(),
        "{name}(): self ({}) and source ({}) must have the same scalar type",
        x.dtype().torch_name(),
        source.dtype().torch_name()
    );
    let along = source.sizes().get(d).copied();
    ensure!(
        source.dim() == 0 || along.is_some(),
        "{name}(): Indexing dim {d} is out of bounds of the source tensor with dim {}",
        source.dim()
    );
    ensure!(
        index.numel() == along.unwrap_or(1),
        "{name}(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {d}",
        index.numel(),
        along.unwrap_or(1)
    );
    let others =
        |t: &Tensor| -> Dims { (0..t.dim()).filter(|i| *i != d).map(|i| t.sizes()[i]).collect() };
    ensure!(
        (x.dim() != 0 || source.numel() == 1)
            && (x.dim() == 0 || source.dim() == 0 || others(x) == others(source))
            && (source.dim() != 0 || x.numel() == x.sizes().get(d).copied().unwrap_or(1)),
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {:?} source.shape = {:?}",
        x.sizes(),
        source.sizes()
    );
    Ok(d)
}

pub(crate) fn index_add_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let d = check_slices(x, dim, index, source, "index_add")?;
    ensure!(
        x.dtype().is_floating() || !matches!(alpha, Scalar::Float(_)),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    ensure!(
        x.dtype() == DType::Bool || !matches!(alpha, Scalar::Bool(_)),
        "Boolean alpha only supported for Boolean results."
    );
    let one = matches!(alpha, Scalar::Int(1)) || (x.dtype() == DType::Bool && alpha.as_bool());
    let scaled = if one {
        source.clone()
    } else {
        let factor = Tensor::scalar_of(alpha.cast(x.dtype()), x.dtype())?;
        let factor = crate::ops::create::factory::on_device_of(&factor, source)?;
        crate::ops::pointwise::mul(source, &factor)?
    };
    access::check_no_internal_overlap(x)?;
    access::check_apart(x, [index, source])?;
    put_slices(ScatterOp::Add, x, d, index, &scaled, false)?;
    Ok(x.clone())
}

pub(crate) fn index_add(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    index_add_(&copy::clone_contiguous(x)?, dim, index, source, alpha)
}

pub(crate) fn index_copy_(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    ensure_index!(
        index.dim() < 2,
        "index_copy_(): Index should have dimension 1 or 0 (got {})",
        index.dim()
    );
    check_long(index, "index_copy_")?;
    ensure_dtype!(
        x.dtype() == source.dtype(),
        "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
        x.dtype().torch_name(),
        source.dtype().torch_name()
    );
    let n = index.numel();
    ensure_index!(
        source.dim() != 0 || n == 1,
        "index_copy_(): When source is scalar, index should have one element (got {n})"
    );
    ensure_index!(
        source.dim() == x.dim() || source.dim() == 0 || x.dim() == 0,
        "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality ({}), destination dimensionality ({})",
        source.dim(),
        x.dim()
    );
    let others =
        |t: &Tensor| -> Dims { (0..t.dim()).filter(|i| *i != d).map(|i| t.sizes()[i]).collect() };
    ensure!(
        others(x) == others(source),
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {:?} at dimension {d} and source slice shape: {:?} at dimension 0.",
        others(x).as_slice(),
        others(source).as_slice()
    );
    ensure_index!(
        source.dim() == 0 || n == source.sizes().get(d).copied().unwrap_or(1),
        "index_copy_(): Number of indices ({n}) should be equal to source.size(dim) ({})",
        source.sizes().get(d).copied().unwrap_or(1)
    );
    access::check_no_internal_overlap(x)?;
    access::check_apart(x, [index, source])?;
    put_slices(ScatterOp::Replace, x, d, index, source, false)?;
    Ok(x.clone())
}

pub(crate) fn index_copy(x: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    index_copy_(&copy::clone_contiguous(x)?, dim, index, source)
}

pub(crate) fn index_fill_tensor_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    ensure!(
        value.dim() == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    ensure_index!(index.dtype() == DType::I64, "index_fill_(): Expected dtype int64 for index.");
    let d = wrap_dim(dim, x.dim())?;
    ensure!(index.dim() <= 1, "index_fill_(): Index has to be a vector/scalar");
    access::check_apart(x, [index])?;
    let value = copy::to_dtype(value, x.dtype())?;
    put_slices(ScatterOp::Replace, x, d, index, &value, true)?;
    Ok(x.clone())
}

pub(crate) fn index_fill_tensor(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    index_fill_tensor_(&crate::ops::index::advanced::preserved_copy(x)?, dim, index, value)
}

fn number(x: &Tensor, value: Scalar) -> Result<Tensor> {
    crate::ops::common::check_fits(value, x.dtype())?;
    let t = Tensor::scalar_of(value.cast(x.dtype()), x.dtype())?;
    crate::ops::create::factory::on_device_of(&t, x)
}

pub(crate) fn index_fill_scalar_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    index_fill_tensor_(x, dim, index, &number(x, value)?)
}

pub(crate) fn index_fill_scalar(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    index_fill_tensor(x, dim, index, &number(x, value)?)
}

pub(crate) fn index_reduce_(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    ensure!(
        reduce != "sum",
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum."
    );
    let d = check_slices(x, dim, index, source, "index_reduce")?;
    let reduction = Reduction::new(reduce, x.dtype())?;
    if index.numel() == 0 {
        return Ok(x.clone());
    }
    access::check_no_internal_overlap(x)?;
    access::check_apart(x, [index, source])?;
    let (index, source) = (&apart(x, index)?, &apart(x, source)?);
    if !include_self {
        ensure_not_implemented!(
            !x.dtype().is_complex(),
            "\"index_reduce_func_exclude_input_init\" not implemented for {}; fill the indexed slices with index_fill_ and pass include_self=True",
            x.dtype().torch_name()
        );
        index_fill_along(x, d, index, reduction.start)?;
    }
    put_slices(reduction.op, x, d, index, source, false)?;
    if reduction.mean {
        let count = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
        copy::fill_(&count, Scalar::Int(i64::from(include_self)))?;
        let one = number(x, Scalar::Int(1))?;
        put_slices(ScatterOp::Add, &count, d, index, &one, false)?;
        divide_by_count(x, &count)?;
    }
    Ok(x.clone())
}

fn index_fill_along(x: &Tensor, d: usize, index: &Tensor, value: Scalar) -> Result<()> {
    let value = number(x, value)?;
    put_slices(ScatterOp::Replace, x, d, index, &value, false)
}

pub(crate) fn index_reduce(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let out = copy::clone_contiguous(x)?;
    index_reduce_(&out, dim, index, source, reduce, include_self)
}

/// Offsets in elements of places of the flat tensor, for each element of `index`, row-major.
fn flat_offsets(x: &Tensor, index: &Tensor, name: &str) -> Result<Vec<i64>> {
    ensure_index!(
        x.numel() != 0 || index.numel() == 0,
        "{name}(): tried to {name} elements of an empty tensor"
    );
    let places = index.to_vec::<i64>()?;
    let n = x.numel();
    places
        .into_iter()
        .map(|place| {
            let mut rest = if place < 0 { place.wrapping_add(n) } else { place };
            ensure_index!(
                rest >= 0 && rest < n,
                "out of range: tried to access index {place} on a tensor of {n} elements."
            );
            let mut offset = 0;
            for (size, stride) in x.sizes().iter().zip(x.strides()).rev() {
                offset += rest % size * stride;
                rest /= size;
            }
            Ok(offset)
        })
        .collect()
}

pub(crate) fn take(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    check_long(index, "take")?;
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), index.sizes())?;
    ensure_index!(
        x.numel() != 0 || index.numel() == 0,
        "take(): tried to take from an empty tensor"
    );
    if out.storage().has_data() && out.numel() > 0 {
        let offsets = flat_offsets(x, index, "take")?;
        let offsets = Tensor::from_slice(&offsets, out.sizes())?;
        let (sizes, zeros) = (Dims::from_slice(out.sizes()), Dims::from_elem(0, out.dim()));
        launch::run(&mut out, [x, &offsets], |out, [x, offsets]| {
            Ok(kernels::take_at(out, x.places(&sizes, &zeros)?, offsets)?)
        })?;
    }
    Ok(out)
}

pub(crate) fn put_(
    x: &Tensor,
    index: &Tensor,
    source: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    check_long(index, "put_")?;
    ensure_dtype!(
        x.dtype() == source.dtype(),
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        x.dtype().torch_name(),
        source.dtype().torch_name()
    );
    ensure!(
        index.numel() == source.numel(),
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
        source.numel(),
        index.numel()
    );
    ensure_index!(x.numel() != 0 || index.numel() == 0, "put_(): Expected self to be non-empty");
    access::check_no_internal_overlap(x)?;
    access::check_apart(x, [index, source])?;
    if x.storage().has_data() && index.numel() > 0 {
        let offsets = flat_offsets(x, index, "put")?;
        let source = match source.shares_storage_with(x) {
            true => copy::clone_contiguous(source)?,
            false => copy::to_contiguous(source)?,
        };
        let n = source.numel();
        let offsets = Tensor::from_slice(&offsets, &[n])?;
        let flat = RowMajor::new([n]);
        let op = if accumulate { ScatterOp::Add } else { ScatterOp::Replace };
        launch::run(launch::Written(x), [&source, &offsets], |x, [source, offsets]| {
            let (sizes, strides) = ([n], [0]);
            let (x, source) = (x.places(&sizes, &strides)?, flat.input(source)?);
            Ok(kernels::put_at(op, x, source, offsets)?)
        })?;
    }
    Ok(x.clone())
}

pub(crate) fn put(x: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    put_(&crate::ops::index::advanced::preserved_copy(x)?, index, source, accumulate)
}

/// `gather` with the sizes outside the dimension broadcast.
pub(crate) fn take_along_dim(x: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    use crate::ops::aten;
    ensure_dtype!(
        indices.dtype() == DType::I64,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        indices.dtype().torch_name()
    );
    let Some(dim) = dim else {
        let (flat, places) = (aten::view(x, &[-1])?, aten::view(indices, &[-1])?);
        return aten::gather(&flat, 0, &places, false);
    };
    ensure!(
        x.dim() == indices.dim(),
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for input, and {} dimensions for indices",
        x.dim(),
        indices.dim()
    );
    let d = wrap_dim(dim, x.dim())?;
    let spread = |t: &Tensor, other: &Tensor| -> Result<Dims> {
        let mut sizes = Dims::from_slice(other.sizes());
        if let (Some(size), Some(own)) = (sizes.get_mut(d), t.sizes().get(d)) {
            *size = *own;
        }
        layout::broadcast(t.sizes(), &sizes).ok_or_else(|| {
            Error::shape(format!(
                "torch.take_along_dim(): {:?} and {:?} do not broadcast outside dimension {d}",
                x.sizes(),
                indices.sizes()
            ))
        })
    };
    let x_sizes = spread(x, indices)?;
    let index_sizes = spread(indices, x)?;
    let x = aten::expand(x, &x_sizes, false)?;
    let indices = aten::expand(indices, &index_sizes, false)?;
    // PyTorch takes indices modulo the size, and so counts negative ones from the end
    let indices = match x.sizes().get(d) {
        Some(size) => aten::remainder_scalar(&indices, Scalar::Int(*size))?,
        None => indices,
    };
    aten::gather(&x, d as i64, &indices, false)
}
