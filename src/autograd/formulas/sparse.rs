//! Gradients of conversions between sparse and dense tensors. The gradients themselves are dense.

use super::basics::dense;
use super::matmul::adjoint;
use super::maybe_multiply;
use super::view::zeros_of;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{Layout, Scalar};

/// The rows of a list of places, one for each dimension.
fn places(indices: &Tensor) -> Result<Vec<Option<Tensor>>> {
    Ok(aten::unbind_int(indices, 0)?.into_iter().map(Some).collect())
}

/// The gradient of the values that a sparse tensor is made of: what is at their places.
pub(crate) fn sparse_values_of(grad: &Tensor, indices: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let grad = dense(grad)?;
    if indices.sizes().first() == Some(&0) {
        return aten::expand(&grad, sizes, false);
    }
    aten::index_tensor(&grad, &places(indices)?)
}

/// The gradient of a sparse tensor whose values are read.
pub(crate) fn sparse_values_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    ensure_not_implemented!(
        x.layout() == Layout::Sparse,
        "derivative for aten::values is not implemented for this layout"
    );
    let indices = aten::_indices(x)?;
    let zeros = zeros_of(grad, x.sizes())?;
    aten::index_put(&zeros, &places(&indices)?, grad, true)
}

/// The gradients of a product that is computed where a matrix has elements, and added to these.
pub(crate) fn sampled_addmm_backward(
    grad: &Tensor,
    x: &Tensor,
    left: &Tensor,
    right: &Tensor,
    alpha: Scalar,
    beta: Scalar,
    mask: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let (rows, columns, values) = (aten::crow_indices(x)?, aten::col_indices(x)?, aten::values(x)?);
    let ones = aten::ones_like(&values, None, None, None, None, None)?;
    let sampled =
        aten::_sparse_csr_tensor_unsafe(&rows, &columns, &ones, x.sizes(), None, None, None, None)?;
    let grad = aten::mul_tensor(&dense(grad)?, &dense(&sampled)?)?;
    let of_x = || maybe_multiply(&grad, beta);
    let of_left = || maybe_multiply(&aten::matmul(&grad, &adjoint(right)?)?, alpha);
    let of_right = || maybe_multiply(&aten::matmul(&adjoint(left)?, &grad)?, alpha);
    Ok([
        wanted(0).then(of_x).transpose()?,
        wanted(1).then(of_left).transpose()?,
        wanted(2).then(of_right).transpose()?,
    ])
}
