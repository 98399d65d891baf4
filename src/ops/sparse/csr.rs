//! Compressed rows: constructors, checks, accessors.
//!
//! Two-dimensional matrices of single elements; batches and dense dimensions are refused. Index
//! tensors become `i64`.

use super::{as_indices, keys_on, with_indices, wrong_layout, zeros_dense};
use crate::dispatch::DispatchKey;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::check_sizes;
use crate::ops::copy;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Device, Layout, MemoryFormat, default_dtype};

/// The payload of a matrix in compressed-row form.
pub(crate) struct Csr {
    /// `[rows + 1]`, `i64`.
    pub(super) crow: Tensor,
    /// `[nnz]`, `i64`.
    pub(super) col: Tensor,
    /// `[nnz]`.
    pub(super) values: Tensor,
}

impl Csr {
    /// Where rows begin, columns and values.
    pub(crate) fn parts(&self) -> [&Tensor; 3] {
        [&self.crow, &self.col, &self.values]
    }

    /// Of parts that fit together.
    pub(crate) fn of_parts([crow, col, values]: [Tensor; 3]) -> Csr {
        Csr { crow, col, values }
    }
}

/// What a tensor in compressed-row form holds.
pub(crate) fn csr(t: &Tensor) -> Result<&Csr> {
    match t.payload::<Csr>() {
        Some(c) => Ok(c),
        None => wrong_layout(t, "this operator", "sparse row compressed"),
    }
}

/// Builds the tensor; the parts fit together.
pub(super) fn build_csr(
    crow: Tensor,
    col: Tensor,
    values: Tensor,
    sizes: &[i64],
) -> Result<Tensor> {
    let (dtype, device) = (values.dtype(), values.device());
    let values = copy::to_contiguous(&values)?;
    Tensor::opaque(Csr { crow, col, values }, sizes, dtype, device)
        .strides(&[0, 0])
        .keys(keys_on(DispatchKey::SparseCsr, device.kind))
        .build()
}

/// As `torch.sparse_csr_tensor(.., check_invariants=True)`.
fn check(crow: &Tensor, col: &Tensor, values: &Tensor, sizes: &[i64]) -> Result<()> {
    ensure_not_implemented!(
        sizes.len() == 2 && crow.dim() == 1 && col.dim() == 1 && values.dim() == 1,
        "compressed rows are for matrices of single elements: sizes {sizes:?}, crow_indices {:?}, col_indices {:?} and \
             values {:?} are a batch or have dense dimensions. Use the coordinate form (`to_sparse`) for those",
        crow.sizes(),
        col.sizes(),
        values.sizes()
    );
    check_sizes(sizes)?;
    let (rows, nnz) = (sizes[0], values.sizes()[0]);
    ensure_shape!(
        crow.sizes()[0] == rows + 1,
        "crow_indices.shape[-1] must be equal to the number of rows + 1 (={}), but got {}",
        rows + 1,
        crow.sizes()[0]
    );
    ensure_shape!(
        col.sizes()[0] == nnz,
        "col_indices.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[0], but got {}",
        col.sizes()[0]
    );
    let not = |law: &str| Err(Error::runtime(format!("`{law}` is not satisfied.")));
    with_indices(crow, |crow| {
        with_indices(col, |col| {
            if crow[0] != 0 {
                return not("crow_indices[..., 0] == 0");
            }
            if crow[rows as usize] != nnz {
                return not("crow_indices[..., -1] == nnz");
            }
            if crow.windows(2).any(|w| w[1] < w[0] || w[1] - w[0] > sizes[1]) {
                return not("0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols");
            }
            if col.iter().any(|c| *c < 0 || *c >= sizes[1]) {
                return not("0 <= col_indices < ncols");
            }
            let row = |w: &[i64]| &col[w[0] as usize..w[1] as usize];
            if crow.windows(2).any(|w| row(w).windows(2).any(|c| c[0] >= c[1])) {
                return not(
                    "col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., nrows are sorted and distinct along the last dimension values",
                );
            }
            Ok(())
        })
    })
}

fn check_layout(layout: Option<Layout>) -> Result<()> {
    match layout {
        None | Some(Layout::SparseCsr) => Ok(()),
        Some(other @ (Layout::SparseCsc | Layout::SparseBsr | Layout::SparseBsc)) => {
            Err(Error::not_implemented(format!(
                "layout {other} is not there: of the compressed layouts only torch.sparse_csr is"
            )))
        }
        Some(other) => {
            Err(Error::runtime(format!("expected sparse CSR layout, but got layout {other}")))
        }
    }
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn csr_from_parts_size(
    crow: &Tensor,
    col: &Tensor,
    values: &Tensor,
    sizes: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_layout(layout)?;
    ensure_dtype!(
        crow.dtype() == col.dtype(),
        "crow_indices and col_indices must have the same dtype, but got {} and {}, respectively",
        crow.dtype().torch_name(),
        col.dtype().torch_name()
    );
    let (crow, col) = (as_indices(crow, "crow_indices")?, as_indices(col, "col_indices")?);
    let dtype = dtype.unwrap_or(values.dtype());
    let device = device.unwrap_or(values.device());
    let values = aten::to_device(values, device, dtype, false, false, None)?;
    ensure_device!(
        device.is_cpu() && crow.device().is_cpu() && col.device().is_cpu(),
        "compressed rows are for the CPU: the parts are on {}, {} and {device}",
        crow.device(),
        col.device()
    );
    check(&crow, &col, &values, sizes)?;
    build_csr(crow, col, values, sizes)
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn csr_from_parts(
    crow: &Tensor,
    col: &Tensor,
    values: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let columns = with_indices(&as_indices(col, "col_indices")?, |c| {
        Ok(c.iter().max().map_or(0, |m| m + 1))
    })?;
    let sizes = [crow.numel() - 1, columns];
    csr_from_parts_size(crow, col, values, &sizes, dtype, layout, device, pin_memory)
}

pub(crate) fn csr_zeros(
    sizes: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_layout(layout)?;
    check_sizes(sizes)?;
    let device = device.unwrap_or(Device::CPU);
    let crow = zeros_dense(DType::I64, device, &[sizes.first().map_or(0, |r| r + 1)])?;
    let col = zeros_dense(DType::I64, device, &[0])?;
    let values = zeros_dense(dtype.unwrap_or_else(default_dtype), device, &[0])?;
    check(&crow, &col, &values, sizes)?;
    build_csr(crow, col, values, sizes)
}

pub(crate) fn csr_zero_(t: &Tensor) -> Result<Tensor> {
    super::coo::no_elements(t, csr(t)?.values.numel())
}

pub(crate) fn csr_empty(
    sizes: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _format: Option<MemoryFormat>,
) -> Result<Tensor> {
    csr_zeros(sizes, dtype, layout, device, pin_memory)
}

pub(crate) fn crow_indices(t: &Tensor) -> Result<Tensor> {
    Ok(csr(t)?.crow.clone())
}

pub(crate) fn col_indices(t: &Tensor) -> Result<Tensor> {
    Ok(csr(t)?.col.clone())
}

pub(crate) fn csr_values(t: &Tensor) -> Result<Tensor> {
    Ok(csr(t)?.values.clone())
}

pub(crate) fn crow_indices_default(t: &Tensor) -> Result<Tensor> {
    wrong_layout(t, "crow_indices", "sparse row compressed")
}

pub(crate) fn col_indices_default(t: &Tensor) -> Result<Tensor> {
    wrong_layout(t, "col_indices", "sparse row compressed")
}

pub(crate) fn csr_nnz(t: &Tensor) -> Result<i64> {
    Ok(csr(t)?.values.numel())
}

pub(crate) fn csr_sparse_dim(_t: &Tensor) -> Result<i64> {
    Ok(2)
}

pub(crate) fn csr_dense_dim(_t: &Tensor) -> Result<i64> {
    Ok(0)
}

/// Row bounds, columns and values of a matrix in compressed rows, for printing.
pub(crate) fn csr_parts(t: &Tensor) -> Option<(&Tensor, &Tensor, &Tensor)> {
    t.payload::<Csr>().map(|c| (&c.crow, &c.col, &c.values))
}
