//! One position of a dimension, and a new dimension of one, of tensors in coordinate form.

use super::coo::{Coo, build, coo};
use super::{coalesce_coo, indices_tensor, with_indices};
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::ops::view;
use crate::tensor::Tensor;

/// The coordinates of a tensor with its rows changed by `f`, which is given all rows one after
/// another and the number of coordinates in each.
fn changed(c: &Coo, rows: usize, f: impl FnOnce(&[i64], usize) -> Vec<i64>) -> Result<Tensor> {
    let nnz = c.nnz() as usize;
    let data = with_indices(&c.indices, |all| Ok(f(all, nnz)))?;
    let columns = data.len().checked_div(rows).unwrap_or(nnz);
    indices_tensor(&data, &[rows as i64, columns as i64])
}

/// `select.int`: what lies at one position of a dimension. Of the only sparse dimension it is a
/// plain tensor.
pub(super) fn select(x: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    ensure_index!(x.dim() != 0, "select() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, x.dim())?;
    let n = x.sizes()[d];
    ensure_index!(
        index >= -n && index < n,
        "select(): index {index} out of range for tensor of size {:?} at dimension {d}",
        x.sizes()
    );
    let at = if index < 0 { index + n } else { index };
    let mut sizes = x.sizes().to_vec();
    sizes.remove(d);
    let c = coo(x)?;
    let of_sparse = c.sparse_dim();
    if d >= of_sparse {
        let values = view::select(&c.values, (d - of_sparse) as i64 + 1, at)?;
        return build(c.indices.clone(), values, &sizes, c.is_coalesced());
    }
    let mut kept = Vec::new();
    with_indices(&c.indices, |all| {
        let nnz = c.nnz() as usize;
        let row = &all[d * nnz..(d + 1) * nnz];
        kept.extend((0..nnz).filter(|i| row[*i] == at));
        Ok(())
    })?;
    let columns: Vec<i64> = kept.iter().map(|i| *i as i64).collect();
    let columns = indices_tensor(&columns, &[columns.len() as i64])?;
    let values = aten::index_select(&c.values, 0, &columns)?;
    if of_sparse == 1 {
        return aten::sum_dim_int_list(&values, Some(&[0]), false, Some(values.dtype()));
    }
    let indices = changed(c, of_sparse - 1, |all, nnz| {
        let rows = (0..of_sparse).filter(|row| *row != d);
        rows.flat_map(|row| kept.iter().map(move |i| all[row * nnz + i])).collect()
    })?;
    build(indices, values, &sizes, c.is_coalesced())
}

/// `unsqueeze`: among the sparse dimensions and right behind them the new one is sparse.
pub(super) fn unsqueeze(x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim() + 1)?;
    let mut sizes = x.sizes().to_vec();
    sizes.insert(d, 1);
    let c = coo(x)?;
    let of_sparse = c.sparse_dim();
    if d > of_sparse {
        let values = view::unsqueeze(&c.values, (d - of_sparse) as i64 + 1)?;
        return build(c.indices.clone(), values, &sizes, c.is_coalesced());
    }
    let indices = changed(c, of_sparse + 1, |all, nnz| {
        let mut all = all.to_vec();
        all.splice(d * nnz..d * nnz, std::iter::repeat_n(0, nnz));
        all
    })?;
    build(indices, c.values.clone(), &sizes, c.is_coalesced())
}

/// `unbind.int` of a sparse dimension's positions, each a tensor.
pub(crate) fn unbind(x: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let x = coalesce_coo(x)?;
    let d = wrap_dim(dim, x.dim())?;
    (0..x.sizes()[d]).map(|i| select(&x, dim, i)).collect()
}
