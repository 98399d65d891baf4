//! Gradients of linear algebra.

pub(crate) mod decompositions;
pub(crate) mod factors;
pub(crate) mod norms;
pub(crate) mod reflectors;
pub(crate) mod solutions;

pub(crate) use decompositions::*;
pub(crate) use factors::*;
pub(crate) use norms::*;
pub(crate) use reflectors::*;
pub(crate) use solutions::*;

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(super) use super::matmul::adjoint;

pub(super) const ONE: Scalar = Scalar::Int(1);
pub(super) const ZERO: Scalar = Scalar::Int(0);

/// The product of matrices.
pub(super) fn times(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::matmul(a, b)
}

pub(super) fn plus(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, b, ONE)
}

pub(super) fn minus(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::sub_tensor(a, b, ONE)
}

/// The sum of what there is.
pub(super) fn total(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    match (a, b) {
        (Some(a), Some(b)) => plus(&a, &b).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

/// The main diagonals.
pub(super) fn diagonal_of(a: &Tensor) -> Result<Tensor> {
    aten::diagonal(a, 0, -2, -1)
}

/// Matrices with these main diagonals.
pub(super) fn diagonal_matrix(values: &Tensor) -> Result<Tensor> {
    aten::diag_embed(values, 0, -2, -1)
}

/// The matrices without their main diagonals.
pub(super) fn off_diagonal(a: &Tensor) -> Result<Tensor> {
    minus(a, &diagonal_matrix(&diagonal_of(a)?)?)
}

/// `a - a^H`
pub(super) fn skew(a: &Tensor) -> Result<Tensor> {
    minus(a, &adjoint(a)?)
}

/// The gradient of the `i`-th differentiable result.
pub(super) fn given(grads: &[Option<Tensor>], i: usize) -> Option<&Tensor> {
    grads.get(i).and_then(Option::as_ref)
}

pub(super) fn wanted(mask: &[bool], i: usize) -> bool {
    mask.get(i).copied().unwrap_or(false)
}

/// Rows and columns.
pub(super) fn shape(a: &Tensor) -> (i64, i64) {
    match a.sizes() {
        [.., m, n] => (*m, *n),
        _ => (1, 1),
    }
}

/// The solution of a triangular system.
pub(super) fn solved(
    a: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    // which takes no conjugates that are not written out
    let (a, b) = (aten::resolve_conj(a)?, aten::resolve_conj(b)?);
    aten::linalg_solve_triangular(&a, &b, upper, left, unitriangular)
}
