//! Linear algebra over tensors of more than two dimensions, condition numbers and powers of points.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

/// The norm of matrices times that of their inverses, which are infinite where there is none.
fn by_inverse(a: &Tensor, norm: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let [.., m, n] = a.sizes() else { return Err(at_least_two(a)) };
    ensure_shape!(
        m == n,
        "linalg.cond(): A must be batches of square matrices, but they are {m} by {n} matrices"
    );
    let (inverse, info) = aten::linalg_inv_ex(a, false)?;
    let singular = aten::gt_scalar(&info, Scalar::Int(0))?;
    let singular = aten::unsqueeze(&aten::unsqueeze(&singular, -1)?, -1)?;
    let inverse = aten::masked_fill_scalar(&inverse, &singular, Scalar::Float(f64::INFINITY))?;
    aten::mul_tensor(&norm(a)?, &norm(&inverse)?)
}

fn at_least_two(a: &Tensor) -> Error {
    Error::shape(format!(
        "linalg.cond: The input tensor A must have at least 2 dimensions, and it has {}",
        a.dim()
    ))
}

fn checked(a: &Tensor) -> Result<Option<Tensor>> {
    if a.dim() < 2 {
        return Err(at_least_two(a));
    }
    ensure_dtype!(
        a.dtype().is_floating() || a.dtype().is_complex(),
        "linalg.cond: Expected a floating point or complex tensor as input. Got {}",
        a.dtype()
    );
    if a.numel() > 0 {
        return Ok(None);
    }
    // of matrices without elements the number is 0
    let batch = &a.sizes()[..a.dim() - 2];
    aten::new_zeros(a, batch, Some(a.dtype().to_real()), None, None, None).map(Some)
}

pub(crate) fn cond(a: &Tensor, p: Option<Scalar>) -> Result<Tensor> {
    if let Some(zeros) = checked(a)? {
        return Ok(zeros);
    }
    let order = p.map_or(2.0, Scalar::as_f64);
    if order.abs() == 2.0 {
        let values = aten::linalg_svdvals(a, None)?;
        let (largest, smallest) =
            (aten::select_int(&values, -1, 0)?, aten::select_int(&values, -1, -1)?);
        return match order > 0.0 {
            true => aten::div_tensor(&largest, &smallest),
            false => aten::div_tensor(&smallest, &largest),
        };
    }
    by_inverse(a, |a| aten::linalg_matrix_norm(a, Scalar::Float(order), &[-2, -1], false, None))
}

pub(crate) fn cond_str(a: &Tensor, p: &str) -> Result<Tensor> {
    if let Some(zeros) = checked(a)? {
        return Ok(zeros);
    }
    ensure!(p == "fro" || p == "nuc", "linalg.cond got an invalid norm type: {p}");
    by_inverse(a, |a| aten::linalg_matrix_norm_str_ord(a, p, &[-2, -1], false, None))
}

fn product(sizes: &[i64]) -> i64 {
    sizes.iter().product()
}

/// The inverse of `a` as a map from its last dimensions to its first `ind` ones.
pub(crate) fn tensorinv(a: &Tensor, ind: i64) -> Result<Tensor> {
    ensure!(ind > 0, "Expected a strictly positive integer for 'ind', but got {ind}");
    let at = usize::try_from(ind).unwrap_or(usize::MAX).min(a.dim());
    let (first, last) = a.sizes().split_at(at);
    ensure_shape!(
        product(first) == product(last),
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), \
         but got {} != {}",
        product(last),
        product(first)
    );
    let shape = [last, first].concat();
    let inverse = aten::linalg_inv(&aten::reshape(a, &[product(last), product(first)])?)?;
    aten::reshape(&inverse, &shape)
}

/// What, contracted with the last dimensions of `a`, gives `b`.
pub(crate) fn tensorsolve(a: &Tensor, b: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    let n = a.dim() as i64;
    let a = match dims {
        Some(dims) => {
            let to: Vec<i64> = (n - dims.len() as i64..n).collect();
            aten::movedim_intlist(a, dims, &to)?
        }
        None => a.clone(),
    };
    let shape = a.sizes().get(b.dim()..).unwrap_or_default().to_vec();
    let unknowns = product(&shape);
    ensure_shape!(
        unknowns == b.numel() && unknowns.checked_mul(unknowns) == Some(a.numel()),
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == \
         prod(self.shape[:other.ndim]), but got {unknowns} != {}",
        b.numel()
    );
    let flat = aten::reshape(b, &[-1])?;
    let solved = aten::linalg_solve(&aten::reshape(&a, &[unknowns, unknowns])?, &flat, true)?;
    aten::reshape(&solved, &shape)
}

/// The powers from 0 up to `n - 1`, along a new last dimension.
fn powers(x: &Tensor, n: i64, dtype: DType) -> Result<Tensor> {
    let x = aten::to_dtype(x, dtype, false, false, None)?;
    let x = aten::unsqueeze(&x, -1)?;
    let mut sizes = x.sizes().to_vec();
    let last = x.dim() - 1;
    sizes[last] = n.min(1);
    let ones = aten::new_full(&x, &sizes, Scalar::Int(1), None, None, None, None)?;
    if n <= 1 {
        return Ok(ones);
    }
    sizes[last] = n - 1;
    let higher = aten::cumprod(&aten::expand(&x, &sizes, false)?, -1, None)?;
    aten::cat(&[ones, higher], -1)
}

pub(crate) fn linalg_vander(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    ensure_dtype!(x.dtype() != DType::Bool, "linalg.vander: bool is not supported");
    let n = n.unwrap_or_else(|| x.sizes().last().copied().unwrap_or(0));
    ensure!(n > 1, "N must be greater than 1.");
    let whole = !x.dtype().is_floating() && !x.dtype().is_complex();
    powers(x, n, if whole { DType::I64 } else { x.dtype() })
}

/// The older form, from the highest power down unless `increasing`.
pub(crate) fn vander(x: &Tensor, n: Option<i64>, increasing: bool) -> Result<Tensor> {
    ensure_shape!(x.dim() == 1, "x must be a one-dimensional tensor.");
    let n = n.unwrap_or(x.sizes()[0]);
    ensure!(n >= 0, "N must be non-negative.");
    let dtype = DType::promote(x.dtype(), DType::I64);
    let all = powers(x, n, dtype)?;
    if increasing { Ok(all) } else { aten::flip(&all, &[1]) }
}

/// The norms of the slices along one dimension, in the others' sizes 1; -1 for the norm of all.
pub(crate) fn norm_except_dim(v: &Tensor, pow: i64, dim: i64) -> Result<Tensor> {
    let pow = Scalar::Int(pow);
    if dim == -1 {
        return aten::linalg_vector_norm(v, pow, None, false, None);
    }
    let keep = wrap_dim(dim, v.dim())?;
    let others: Vec<i64> = (0..v.dim()).filter(|d| *d != keep).map(|d| d as i64).collect();
    if others.is_empty() {
        return aten::abs(v);
    }
    aten::linalg_vector_norm(v, pow, Some(&others), true, None)
}
