//! Reading and writing at computed positions.

pub(crate) mod advanced;
pub(crate) mod along;
pub(crate) mod backward;
pub(crate) mod embedding;
pub(crate) mod masked;
pub(crate) mod scatter;
pub(crate) mod search;

use crate::error::{Error, Result};
use crate::ops::common::wrap_dim;
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, meta};
use straightline_runtime::cpu::kernels::{self, KernelError, RowMajor};

fn check_index_dtype(index: &Tensor, what: &str) -> Result<()> {
    if matches!(index.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{what}: Expected dtype int32/int64 for index, got {}",
        index.dtype()
    )))
}

/// Rows of `weight` at `indices`: sizes `indices.sizes() + [weight.size(1)]`.
pub(crate) fn embedding(
    weight: &Tensor,
    indices: &Tensor,
    _padding_idx: i64,
    _scale_grad_by_freq: bool,
    _sparse: bool,
) -> Result<Tensor> {
    let sizes = meta::embedded(weight.sizes(), indices.sizes())?;
    check_index_dtype(indices, "embedding")?;
    ensure!(
        weight.sizes()[0] != 0 || indices.numel() == 0,
        "index_select(): self indexing axis dim should be positive"
    );
    let mut out = Tensor::allocate_contiguous(weight.dtype(), weight.device(), &sizes)?;
    if out.storage().has_data() {
        let indices = copy::to_contiguous(indices)?;
        let (n, width) = (indices.numel(), weight.sizes()[1]);
        let (rows, flat) = (RowMajor::new([n, width]), RowMajor::new([n]));
        launch::run(&mut out, [weight, &indices], |out, [weight, indices]| {
            let (out, indices) = (rows.output(out)?, flat.input(indices)?);
            Ok(kernels::index_select(out, weight, 0, indices)?)
        })?;
    }
    Ok(out)
}

pub(crate) fn index_select(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let (d, sizes) = meta::selected(x.sizes(), dim, index.numel())?;
    check_index_dtype(index, "index_select()")?;
    ensure_index!(
        index.dim() <= 1,
        "index_select(): Index is supposed to be a vector, but got dim: {} with type: {}",
        index.dim(),
        index.dtype()
    );
    ensure_index!(
        x.dim() != 0 || index.numel() == 1,
        "index_select(): Index to scalar can have only 1 value"
    );
    let out = Tensor::allocate_contiguous(x.dtype(), x.device(), &sizes)?;
    if out.storage().has_data() && out.numel() == 0 {
        // nothing to copy, but a bad index is still one
        let size = x.sizes().get(d).copied().unwrap_or(1);
        let indices = copy::to_dtype(index, DType::I64)?.to_vec::<i64>()?;
        ensure!(
            size != 0 || indices.is_empty(),
            "index_select(): self indexing axis dim should be positive"
        );
        if let Some(bad) = indices.iter().find(|i| **i < 0 || **i >= size) {
            let class = if x.dim() > 1 { Error::runtime } else { Error::index };
            return Err(class(format!(
                "index_select(): index {bad} is out of bounds for dimension {d} with size {size}"
            )));
        }
        return Ok(out);
    }
    if out.storage().has_data() {
        // 0-dim operands are seen as one-element vectors
        let as_vector = |t: &Tensor| {
            if t.dim() == 0 {
                t.with_geometry(Dims::from_slice(&[1]), Dims::from_slice(&[1]), t.storage_offset())
            } else {
                t.clone()
            }
        };
        let (mut o, x, i) = (as_vector(&out), as_vector(x), as_vector(index));
        launch::run(&mut o, [&x, &i], |out, [a, index]| {
            kernels::index_select(out, a, d, index).map_err(select_out_of_bounds(d, x.dim()))
        })?;
    }
    Ok(out)
}

/// The error of `index_select` along dimension `d` of a tensor of `rank` dimensions: PyTorch takes
/// another way, with its own error, for all but the outermost one.
pub(crate) fn select_out_of_bounds(d: usize, rank: usize) -> impl Fn(KernelError) -> Error {
    move |e| match e {
        KernelError::IndexOutOfRange { index, size } if d > 0 || (size == 0 && rank > 1) => {
            Error::runtime(format!(
                "index_select(): index {index} is out of bounds for dimension {d} with size {size}"
            ))
        }
        e => e.into(),
    }
}

/// The error of `gather` and the scatter family, which PyTorch raises as `RuntimeError`.
pub(crate) fn out_of_bounds(d: usize) -> impl Fn(KernelError) -> Error {
    move |e| match e {
        KernelError::IndexOutOfRange { index, size } => Error::runtime(format!(
            "index {index} is out of bounds for dimension {d} with size {size}"
        )),
        e => e.into(),
    }
}

pub(crate) fn gather(x: &Tensor, dim: i64, index: &Tensor, _sparse: bool) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), index.sizes())?;
    // no index, none that could be of a wrong dtype
    if index.numel() == 0 {
        return Ok(out);
    }
    if index.dtype() != DType::I64 && index.dtype() != DType::I32 {
        return Err(Error::dtype("gather(): Expected dtype int32/int64 for index".to_string()));
    }
    ensure!(
        index.dim().max(1) == x.dim().max(1),
        "Index tensor must have the same number of dimensions as input tensor"
    );
    if let Some(i) =
        (0..index.dim().min(x.dim())).find(|i| *i != d && index.sizes()[*i] > x.sizes()[*i])
    {
        return Err(Error::runtime(format!(
            "Size does not match at dimension {i} expected index {:?} to be no larger than self {:?} apart from dimension {d}",
            index.sizes(),
            x.sizes()
        )));
    }
    if out.storage().has_data() {
        if x.dim() == 0 || index.dim() == 0 {
            let flat = |t: &Tensor| {
                t.with_geometry(
                    Dims::from_slice(&[t.numel()]),
                    Dims::from_slice(&[if t.dim() == 1 { t.strides()[0] } else { 1 }]),
                    t.storage_offset(),
                )
            };
            let (mut o, x, i) = (flat(&out), flat(x), flat(index));
            launch::run(&mut o, [&x, &i], |out, [x, index]| {
                kernels::gather(out, x, 0, index).map_err(out_of_bounds(0))
            })?;
            return Ok(out);
        }
        launch::run(&mut out, [x, index], |out, [x, index]| {
            kernels::gather(out, x, d, index).map_err(out_of_bounds(d))
        })?;
    }
    Ok(out)
}
