//! Diagonals and triangles: `diag`, `diag_embed`, `trace`, `tril_`, and the Kronecker product.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::ops::copy;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Dims, Scalar, layout};

pub(crate) fn diag(t: &Tensor, diagonal: i64) -> Result<Tensor> {
    match t.dim() {
        1 => aten::diag_embed(t, diagonal, 0, 1),
        2 => aten::diagonal_copy(t, diagonal, 0, 1),
        n => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {n}D"))),
    }
}

/// Zeros with the last dimension of a tensor on a diagonal.
pub(crate) fn diag_embed(t: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(dim1, t.dim() + 1)?, wrap_dim(dim2, t.dim() + 1)?);
    ensure!(a != b, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    let Some((&last, rest)) = t.sizes().split_last() else {
        return Err(Error::index("Dimension specified as -1 but tensor has no dimensions"));
    };
    let side = last.saturating_add(offset.saturating_abs());
    let mut sizes = Dims::from_slice(rest);
    sizes.insert(a.min(b), side);
    sizes.insert(a.max(b), side);
    let out = aten::zeros(&sizes, Some(t.dtype()), None, Some(t.device()), None)?;
    let on = aten::diagonal(&out, offset, a as i64, b as i64)?;
    aten::copy_(&on, t, false)?;
    Ok(out)
}

pub(crate) fn trace(t: &Tensor) -> Result<Tensor> {
    ensure!(t.dim() == 2, "trace: expected a matrix, but got tensor with dim {}", t.dim());
    ensure_not_implemented!(t.dtype() != DType::Bool, "\"trace\" not implemented for 'Bool'");
    aten::sum(&aten::diagonal(t, 0, 0, 1)?, None)
}

pub(crate) fn trace_backward(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ensure!(sizes.len() == 2, "expected matrix input");
    ensure!(
        grad.dim() == 0,
        "trace_backward: expected a gradient of 0 dimensions, but got {}",
        grad.dim()
    );
    let out = aten::zeros(sizes, Some(grad.dtype()), None, Some(grad.device()), None)?;
    let on = aten::diagonal(&out, 0, 0, 1)?;
    aten::copy_(&on, grad, false)?;
    Ok(out)
}

/// What lies outside a triangle becomes zero: of elements of a matrix that are one in memory all,
/// where any of them lies outside. Matrices that are one in memory are refused, as by PyTorch.
fn keep_triangle(
    t: &Tensor,
    diagonal: i64,
    triangle: fn(&Tensor, i64) -> Result<Tensor>,
) -> Result<Tensor> {
    let batch = t.dim().saturating_sub(2);
    let (sizes, strides) = (t.sizes().split_at(batch), t.strides().split_at(batch));
    let matrix_repeats =
        layout::repeats(sizes.1, strides.1) && !layout::repeats(sizes.0, strides.0);
    if !matrix_repeats {
        let _whole = access::whole(&[t], &[])?;
        return copy::copy_(t, &triangle(t, diagonal)?, false);
    }
    let all = aten::ones_like(t, Some(DType::Bool), None, None, None, None)?;
    let outside = aten::logical_not(&triangle(&all, diagonal)?)?;
    aten::masked_fill_scalar_(t, &outside, Scalar::Int(0))
}

pub(crate) fn tril_(t: &Tensor, diagonal: i64) -> Result<Tensor> {
    keep_triangle(t, diagonal, copy::tril)
}

pub(crate) fn triu_(t: &Tensor, diagonal: i64) -> Result<Tensor> {
    keep_triangle(t, diagonal, copy::triu)
}

/// The factors of a Kronecker product, so viewed that their product by elements is it, and the
/// sizes it is viewed in then.
fn kron_factors(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor, Dims)> {
    let rank = a.dim().max(b.dim());
    let padded = |t: &Tensor, d: usize| match (d + t.dim()).checked_sub(rank) {
        Some(k) => t.sizes()[k],
        None => 1,
    };
    let (mut of_a, mut of_b, mut sizes) = (Dims::new(), Dims::new(), Dims::new());
    for d in 0..rank {
        let (m, n) = (padded(a, d), padded(b, d));
        of_a.extend_from_slice(&[m, 1]);
        of_b.extend_from_slice(&[1, n]);
        sizes.push(m * n);
    }
    let (a, b) = (aten::_unsafe_view(a, &of_a)?, aten::_unsafe_view(b, &of_b)?);
    Ok((a, b, sizes))
}

/// The Kronecker product: every element of one tensor times the other.
pub(crate) fn kron(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b, sizes) = kron_factors(a, b)?;
    aten::_unsafe_view(&aten::mul_tensor(&a, &b)?, &sizes)
}

/// [`kron`] into `out`, whose strides the product is written through.
pub(crate) fn kron_out(a: &Tensor, b: &Tensor, out: &Tensor) -> Result<Tensor> {
    let (a, b, sizes) = kron_factors(a, b)?;
    if out.sizes() != sizes.as_slice() {
        aten::resize_(out, &sizes, None)?;
    }
    let product: Dims = (a.sizes().iter().zip(b.sizes())).map(|(m, n)| m * n).collect();
    aten::mul_out(&a, &b, &aten::view(out, &product)?)?;
    Ok(out.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonals_there_and_back() {
        let x = Tensor::from_vec([0i64, 1, 2], 3).unwrap();
        let m = aten::diag(&x, -1).unwrap();
        assert_eq!(m.sizes(), [4, 4]);
        let back = aten::diag(&m, -1).unwrap();
        assert_eq!(back.to_vec::<i64>().unwrap(), [0, 1, 2]);
        assert!(aten::diag(&m.view(&[4, 2, 2]).unwrap(), 0).is_err());
    }
}
