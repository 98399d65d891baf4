//! Gradients of factorisations into triangles.

use super::{
    ONE, ZERO, adjoint, diagonal_matrix, diagonal_of, given, minus, plus, shape, solved, times,
    total,
};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// The diagonal of what is solved for keeps its imaginary part, as PyTorch's does.
pub(crate) fn cholesky_backward(grad: &Tensor, upper: bool, factor: &Tensor) -> Result<Tensor> {
    let (factor, grad) = match upper {
        true => (adjoint(factor)?, adjoint(grad)?),
        false => (factor.clone(), grad.clone()),
    };
    let turned = adjoint(&factor)?;
    let lower = aten::tril(&times(&turned, &grad)?, 0)?;
    let both = plus(&lower, &adjoint(&aten::tril(&lower, -1)?)?)?;
    let left = solved(&turned, &both, true, true, false)?;
    let whole = solved(&factor, &left, false, false, false)?;
    aten::mul_scalar(&whole, Scalar::Float(0.5))
}

/// The gradient of `p l u`, of those of `l` and of `u`.
pub(crate) fn lu_backward(
    grads: &[Option<Tensor>],
    p: &Tensor,
    l: &Tensor,
    u: &Tensor,
    pivot: bool,
) -> Result<Option<Tensor>> {
    let (of_l, of_u) = (given(grads, 0), given(grads, 1));
    let Some(like) = of_l.or(of_u) else { return Ok(None) };
    let ((m, k), n) = (shape(l), shape(u).1);
    // the square part of each, and what is below it or right of it
    let (l1, u1) = (aten::narrow(l, -2, 0, k)?, aten::narrow(u, -1, 0, k)?);
    let product = |a: Option<Tensor>, b: Option<Tensor>, left: bool| -> Result<Option<Tensor>> {
        match (a, b) {
            (Some(a), Some(b)) if left => times(&adjoint(&a)?, &b).map(Some),
            (Some(a), Some(b)) => times(&b, &adjoint(&a)?).map(Some),
            _ => Ok(None),
        }
    };
    let below = |t: &Tensor| aten::narrow(t, -2, k, m - k);
    let beside = |t: &Tensor| aten::narrow(t, -1, k, n - k);
    let of_l1 = of_l.map(|g| aten::narrow(g, -2, 0, k)).transpose()?;
    let of_u1 = of_u.map(|g| aten::narrow(g, -1, 0, k)).transpose()?;
    let of_l2 = of_l.filter(|_| m > k).map(below).transpose()?;
    let of_u2 = of_u.filter(|_| n > k).map(beside).transpose()?;
    let mut lower = product(Some(l1.clone()), of_l1, true)?;
    if let Some(g) = product(beside(u).ok().filter(|_| n > k), of_u2.clone(), false)? {
        lower = total(lower, Some(aten::neg(&g)?))?;
    }
    let mut upper = product(Some(u1.clone()), of_u1, false)?;
    if let Some(g) = product(below(l).ok().filter(|_| m > k), of_l2.clone(), true)? {
        upper = total(upper, Some(aten::neg(&g)?))?;
    }
    let lower = lower.map(|t| aten::tril(&t, -1)).transpose()?;
    let upper = upper.map(|t| aten::triu(&t, 0)).transpose()?;
    let zeros = |rows: i64, columns: i64| -> Result<Tensor> {
        let mut sizes = like.sizes().to_vec();
        let end = sizes.len();
        sizes[end - 2..].copy_from_slice(&[rows, columns]);
        aten::new_zeros(like, &sizes, None, None, None, None)
    };
    let square = match total(lower, upper)? {
        Some(square) => square,
        None => zeros(k, k)?,
    };
    let (l1h, u1h) = (adjoint(&l1)?, adjoint(&u1)?);
    let whole = if n > k {
        let first = solved(&u1h, &square, false, false, false)?;
        let rest = match of_u2 {
            Some(g) => g,
            None => zeros(k, n - k)?,
        };
        solved(&l1h, &aten::cat(&[first, rest], -1)?, true, true, true)?
    } else {
        let first = solved(&l1h, &square, true, true, true)?;
        let all = match m > k {
            true => {
                let rest = match of_l2 {
                    Some(g) => g,
                    None => zeros(m - k, k)?,
                };
                aten::cat(&[first, rest], -2)?
            }
            false => first,
        };
        solved(&u1h, &all, false, false, false)?
    };
    match pivot {
        true => times(p, &whole).map(Some),
        false => Ok(Some(whole)),
    }
}

/// The gradient of the factors in one matrix.
pub(crate) fn lu_factor_backward(
    grad: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
    pivot: bool,
) -> Result<Option<Tensor>> {
    let (p, l, u) = aten::lu_unpack(lu, pivots, true, pivot)?;
    let k = shape(&l).1;
    let of_l = aten::tril(&aten::narrow(grad, -1, 0, k)?, -1)?;
    let of_u = aten::triu(&aten::narrow(grad, -2, 0, k)?, 0)?;
    lu_backward(&[Some(of_l), Some(of_u)], &p, &l, &u, pivot)
}

/// Zeros are put right of `l` or below `u`, where the other is wider or taller.
pub(crate) fn lu_unpack_backward(
    grads: &[Option<Tensor>],
    sizes: &[i64],
) -> Result<Option<Tensor>> {
    let padded = |t: Tensor, dim: usize| -> Result<Tensor> {
        let at = t.dim() - 2 + dim;
        let missing = sizes[at] - t.sizes()[at];
        if missing <= 0 {
            return Ok(t);
        }
        let pad = match dim {
            0 => vec![0, 0, 0, missing],
            _ => vec![0, missing],
        };
        aten::constant_pad_nd(&t, &pad, ZERO)
    };
    let of_l = given(grads, 0).map(|g| padded(aten::tril(g, -1)?, 1)).transpose()?;
    let of_u = given(grads, 1).map(|g| padded(aten::triu(g, 0)?, 0)).transpose()?;
    total(of_l, of_u)
}

/// The solution with the adjoint of a factored matrix, or with the matrix where that was the
/// adjoint.
pub(crate) fn linalg_lu_solve_adjoint(
    lu: &Tensor,
    pivots: &Tensor,
    grad: &Tensor,
    left: bool,
    adjoint: bool,
) -> Result<Tensor> {
    aten::linalg_lu_solve(lu, pivots, grad, left, !adjoint)
}

/// The gradient of the factors that a system is solved with.
pub(crate) fn lu_solve_backward(
    grad: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
    x: &Tensor,
    left: bool,
    adjoint_of: bool,
) -> Result<Tensor> {
    let of_b = aten::linalg_lu_solve(lu, pivots, grad, left, !adjoint_of)?;
    let of_a = match (left, adjoint_of) {
        (true, false) => times(&of_b, &adjoint(x)?)?,
        (true, true) => times(x, &adjoint(&of_b)?)?,
        (false, false) => times(&adjoint(x)?, &of_b)?,
        (false, true) => times(&adjoint(&of_b)?, x)?,
    };
    let (p, l, u) = aten::lu_unpack(lu, pivots, true, true)?;
    let of_lu = times(&aten::transpose_int(&p, -2, -1)?, &aten::neg(&of_a)?)?;
    let of_l = aten::tril(&times(&of_lu, &adjoint(&u)?)?, -1)?;
    let of_u = aten::triu(&times(&adjoint(&l)?, &of_lu)?, 0)?;
    plus(&of_l, &of_u)
}

/// Of an upper triangle the Hermitian matrix, with the diagonal once, as a real number.
fn hermitian_of_upper(a: &Tensor) -> Result<Tensor> {
    let upper = aten::triu(a, 0)?;
    let both = plus(&upper, &adjoint(&upper)?)?;
    let half = aten::mul_scalar(&diagonal_of(&both)?, Scalar::Float(0.5))?;
    minus(&both, &diagonal_matrix(&half)?)
}

/// The gradient of `q r`, of those of `q` and of `r`.
pub(crate) fn qr_backward(
    grads: &[Option<Tensor>],
    q: &Tensor,
    r: &Tensor,
    mode: &str,
) -> Result<Option<Tensor>> {
    ensure!(
        mode != "r",
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to require gradients"
    );
    let (m, n) = (shape(q).0, shape(r).1);
    ensure!(
        mode == "reduced" || m <= n,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
    );
    let (of_q, of_r) = (given(grads, 0), given(grads, 1));
    if m >= n {
        return tall_qr(of_q.cloned(), of_r.cloned(), q, r);
    }
    // the first columns are a square matrix with factors `q` and `r1`; the others are `q r2`
    let (r1, r2) = (aten::narrow(r, -1, 0, m)?, aten::narrow(r, -1, m, n - m)?);
    let Some(of_r) = of_r else {
        let first = tall_qr(of_q.cloned(), None, q, &r1)?;
        let Some(first) = first else { return Ok(None) };
        return aten::constant_pad_nd(&first, &[0, n - m], ZERO).map(Some);
    };
    let (of_r1, of_r2) = (aten::narrow(of_r, -1, 0, m)?, aten::narrow(of_r, -1, m, n - m)?);
    let through = times(&times(q, &r2)?, &adjoint(&of_r2)?)?;
    let of_q = total(of_q.cloned(), Some(through))?;
    let first = tall_qr(of_q, Some(of_r1), q, &r1)?;
    let Some(first) = first else { return Ok(None) };
    aten::cat(&[first, times(q, &of_r2)?], -1).map(Some)
}

fn tall_qr(
    of_q: Option<Tensor>,
    of_r: Option<Tensor>,
    q: &Tensor,
    r: &Tensor,
) -> Result<Option<Tensor>> {
    let by_r = of_r.map(|g| times(&g, &adjoint(r)?)).transpose()?;
    let by_q = match &of_q {
        Some(g) => Some(aten::neg(&times(&adjoint(q)?, g)?)?),
        None => None,
    };
    let Some(inner) = total(by_r, by_q)? else { return Ok(None) };
    let mut whole = times(q, &hermitian_of_upper(&inner)?)?;
    if let Some(g) = of_q {
        whole = aten::add_tensor(&whole, &g, ONE)?;
    }
    solved(&adjoint(r)?, &whole, false, false, false).map(Some)
}
