//! Gradients of inverses, solutions and determinants.

use super::{
    ONE, ZERO, adjoint, diagonal_matrix, diagonal_of, given, minus, plus, shape, solved, times,
    total, wanted,
};
use crate::autograd::formulas::basics::conj;
use crate::autograd::grad_enabled;
use crate::error::Result;
use crate::modes::tracer;
use crate::ops::aten;
use crate::ops::foreign::is_foreign;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

pub(crate) fn inv_backward(grad: &Tensor, inverse: &Tensor) -> Result<Tensor> {
    let turned = adjoint(inverse)?;
    aten::neg(&times(&turned, &times(grad, &turned)?)?)
}

/// Whether `_linalg_det` and `_linalg_slogdet` factor the transposed matrix, which is how a real
/// row-major one lies in memory.
fn factored_transposed(a: &Tensor) -> bool {
    a.is_contiguous() && !a.dtype().is_complex()
}

/// `a^-H` times a diagonal, of the factors where nothing is recorded.
fn inverse_times(a: &Tensor, lu: &Tensor, pivots: &Tensor, values: &Tensor) -> Result<Tensor> {
    let n = shape(a).1;
    let mut sizes = values.sizes().to_vec();
    sizes.push(n);
    let spread = aten::expand(&aten::unsqueeze(values, -1)?, &sizes, false)?;
    let right = diagonal_matrix(&spread)?;
    match grad_enabled() {
        true => aten::linalg_solve(&adjoint(a)?, &right, true),
        false => aten::linalg_lu_solve(lu, pivots, &right, true, !factored_transposed(a)),
    }
}

/// The gradient of a determinant: of it times the adjoint inverse. A singular matrix is taken as
/// one nearby in a plain backward pass; where the pass is recorded, its adjugate comes from its
/// singular values, which need no division.
pub(crate) fn det_backward(
    grad: &Tensor,
    det: &Tensor,
    a: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
) -> Result<Tensor> {
    let small = match a.dtype().to_real() {
        straightline_catalog::DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    if !grad_enabled() {
        let diagonal = diagonal_of(lu)?;
        let missing = aten::eq_scalar(&diagonal, ZERO)?;
        let moved = aten::mul_scalar(&missing, Scalar::Float(small))?;
        let moved = aten::to_dtype(&moved, lu.dtype(), false, false, None)?;
        let lu = plus(lu, &diagonal_matrix(&moved)?)?;
        // of the factors that are used, so that the two errors cancel
        let det = match missing.numel() {
            0 => det.clone(),
            _ => {
                let product = aten::prod_dim_int(&diagonal_of(&lu)?, -1, false, None)?;
                let sign = sign_of(pivots, &product)?;
                aten::mul_tensor(&product, &sign)?
            }
        };
        let values = aten::mul_tensor(grad, &conj(&det)?)?;
        return inverse_times(a, &lu, pivots, &values);
    }
    let tiny = aten::lt_scalar(&aten::abs(det)?, Scalar::Float(100.0 * small))?;
    if tracer::current().is_some() || is_foreign(det) {
        return det_backward_of_each(grad, det, a, &tiny);
    }
    if !aten::item(&aten::any(&tiny)?)?.as_bool() {
        let values = aten::mul_tensor(grad, &conj(det)?)?;
        return inverse_times(a, lu, pivots, &values);
    }
    adjugate_times(grad, a)
}

/// The same where nobody can ask which matrices are singular: both ways, each with a matrix that
/// does it no harm in the place of those that go the other way.
fn det_backward_of_each(grad: &Tensor, det: &Tensor, a: &Tensor, tiny: &Tensor) -> Result<Tensor> {
    let n = shape(a).1;
    let hit = aten::unsqueeze(&aten::unsqueeze(tiny, -1)?, -1)?;
    let (dtype, device) = (Some(a.dtype()), Some(a.device()));
    // singular values that are apart have derivatives
    let ramp = aten::arange_start(ONE, Scalar::Int(n + 1), dtype, None, device, None)?;
    let regular = diagonal_matrix(&ramp)?;
    let values = aten::mul_tensor(grad, &conj(det)?)?;
    let values = aten::masked_fill_scalar(&values, tiny, ZERO)?;
    let mut sizes = values.sizes().to_vec();
    sizes.push(n);
    let right = diagonal_matrix(&aten::expand(&aten::unsqueeze(&values, -1)?, &sizes, false)?)?;
    let solved = aten::where_self(&hit, &regular, a)?;
    let solved = aten::linalg_solve(&adjoint(&solved)?, &right, true)?;
    let others = adjugate_times(grad, &aten::where_self(&hit, a, &regular)?)?;
    aten::where_self(&hit, &others, &solved)
}

/// The gradient by singular values.
fn adjugate_times(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (u, s, vh) = aten::linalg_svd(a, true, None)?;
    let phase = aten::mul_tensor(&aten::linalg_det(&u)?, &aten::linalg_det(&vh)?)?;
    let factor = aten::unsqueeze(&aten::mul_tensor(grad, &conj(&phase)?)?, -1)?;
    let others = aten::mul_tensor(&factor, &products_of_others(&s)?)?;
    times(&aten::mul_tensor(&u, &aten::unsqueeze(&others, -2)?)?, &vh)
}

/// -1 for an odd number of exchanged rows.
fn sign_of(pivots: &Tensor, like: &Tensor) -> Result<Tensor> {
    let n = pivots.sizes().last().copied().unwrap_or(0);
    let (dtype, device) = (Some(pivots.dtype()), Some(pivots.device()));
    let own = aten::arange_start(ONE, Scalar::Int(n + 1), dtype, None, device, None)?;
    let swaps = aten::sum_dim_int_list(&aten::ne_tensor(pivots, &own)?, Some(&[-1]), false, None)?;
    let odd = aten::remainder_scalar(&swaps, Scalar::Int(2))?;
    let sign = aten::add_scalar(&aten::mul_scalar(&odd, Scalar::Int(-2))?, ONE, ONE)?;
    aten::to_dtype(&sign, like.dtype(), false, false, None)
}

/// Of each element of the last dimension the product of the others.
fn products_of_others(s: &Tensor) -> Result<Tensor> {
    let n = s.sizes().last().copied().unwrap_or(0);
    let one = aten::ones_like(&aten::narrow(s, -1, 0, n.min(1))?, None, None, None, None, None)?;
    let shifted = |s: &Tensor| -> Result<Tensor> {
        let rest = aten::narrow(s, -1, 0, (n - 1).max(0))?;
        aten::cumprod(&aten::cat(&[one.clone(), rest], -1)?, -1, None)
    };
    let before = shifted(s)?;
    let after = aten::flip(&shifted(&aten::flip(s, &[-1])?)?, &[-1])?;
    aten::mul_tensor(&before, &after)
}

/// The gradient of the sign and of the logarithm of a determinant's size.
pub(crate) fn slogdet_backward(
    grads: &[Option<Tensor>],
    a: &Tensor,
    sign: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
) -> Result<Option<Tensor>> {
    let mut values = given(grads, 1).cloned();
    if a.dtype().is_complex()
        && let Some(of_sign) = given(grads, 0)
    {
        // the sign turns about 0 and no further
        let turned = aten::imag(&aten::mul_tensor(&conj(of_sign)?, sign)?)?;
        let turned = aten::mul_scalar(&turned, Scalar::Complex(0.0, -1.0))?;
        values = total(values, Some(turned))?;
    }
    let Some(values) = values else { return super::super::basics::zeros_like(a).map(Some) };
    let values = aten::to_dtype(&values, a.dtype(), false, false, None)?;
    inverse_times(a, lu, pivots, &values).map(Some)
}

/// Whether the right hand side is a vector for each matrix.
fn is_vector(a: &Tensor, b: &[i64]) -> bool {
    b.len() == 1 || (a.dim() == b.len() + 1 && a.sizes()[..b.len()] == *b)
}

#[allow(clippy::too_many_arguments, reason = "what the forward pass has")]
pub(crate) fn solve_backward(
    grad: &Tensor,
    x: &Tensor,
    a: &Tensor,
    b: &[i64],
    lu: &Tensor,
    pivots: &Tensor,
    left: bool,
    mask: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let vector = is_vector(a, b);
    let of_b = if grad_enabled() {
        aten::linalg_solve(&adjoint(a)?, grad, left)?
    } else if vector {
        let column = aten::unsqueeze(grad, -1)?;
        aten::squeeze_dim(&aten::linalg_lu_solve(lu, pivots, &column, left, true)?, -1)?
    } else {
        aten::linalg_lu_solve(lu, pivots, grad, left, true)?
    };
    let of_a = match wanted(mask, 0) {
        false => None,
        true => Some(aten::neg(&if vector {
            times(&aten::unsqueeze(&of_b, -1)?, &adjoint(&aten::unsqueeze(x, -1)?)?)?
        } else if left {
            times(&of_b, &adjoint(x)?)?
        } else {
            times(&adjoint(x)?, &of_b)?
        })?),
    };
    Ok([of_a, wanted(mask, 1).then_some(of_b)])
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn solve_triangular_backward(
    grad: &Tensor,
    a: &Tensor,
    x: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
    mask: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let of_b = solved(&adjoint(a)?, grad, !upper, left, unitriangular)?;
    let mut of_a = None;
    if wanted(mask, 0) {
        let turned = adjoint(x)?;
        let whole = match left {
            true => times(&of_b, &turned)?,
            false => times(&turned, &of_b)?,
        };
        of_a = Some(triangle(&aten::neg(&whole)?, upper, unitriangular)?);
    }
    Ok([of_a, wanted(mask, 1).then_some(of_b)])
}

/// The triangle that is read, without the diagonal where that is taken as ones.
fn triangle(a: &Tensor, upper: bool, unitriangular: bool) -> Result<Tensor> {
    let off = i64::from(unitriangular);
    match upper {
        true => aten::triu(a, off),
        false => aten::tril(a, -off),
    }
}

/// The older form, which also gives a copy of the matrix.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn triangular_solve_backward(
    grads: &[Option<Tensor>],
    a: &Tensor,
    x: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
    mask: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let (mut of_b, mut of_a) = (None, None);
    if let Some(grad) = given(grads, 0) {
        let (solution, _) =
            aten::triangular_solve(grad, &conj(a)?, upper, !transpose, unitriangular)?;
        if wanted(mask, 1) {
            let whole = match transpose {
                true => times(&conj(x)?, &aten::transpose_int(&solution, -2, -1)?)?,
                false => times(&solution, &adjoint(x)?)?,
            };
            of_a = Some(triangle(&aten::neg(&whole)?, upper, unitriangular)?);
        }
        of_b = wanted(mask, 0).then_some(solution);
    }
    if wanted(mask, 1) {
        of_a = total(of_a, given(grads, 1).cloned())?;
    }
    Ok([of_b, of_a])
}

pub(crate) fn cholesky_solve_backward(
    grad: &Tensor,
    factor: &Tensor,
    x: &Tensor,
    upper: bool,
    mask: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let of_b = aten::cholesky_solve(grad, factor, upper)?;
    let mut of_factor = None;
    if wanted(mask, 1) {
        let half = times(&of_b, &adjoint(x)?)?;
        let both = plus(&half, &adjoint(&half)?)?;
        of_factor = Some(aten::neg(&match upper {
            true => times(factor, &both)?,
            false => times(&both, factor)?,
        })?);
    }
    Ok([wanted(mask, 0).then_some(of_b), of_factor])
}

pub(crate) fn cholesky_inverse_backward(
    grad: &Tensor,
    factor: &Tensor,
    upper: bool,
    inverse: &Tensor,
) -> Result<Tensor> {
    let both = plus(grad, &adjoint(grad)?)?;
    let both = times(inverse, &times(&both, inverse)?)?;
    aten::neg(&match upper {
        true => times(factor, &both)?,
        false => times(&both, factor)?,
    })
}

pub(crate) fn pinv_backward(grad: &Tensor, pinv: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (m, n) = shape(a);
    let (turned, grad) = (adjoint(pinv)?, adjoint(grad)?);
    if m <= n {
        let k = times(&grad, pinv)?;
        let kp = times(&k, &turned)?;
        let first = minus(&kp, &adjoint(&times(pinv, &k)?)?)?;
        let second = times(&times(a, pinv)?, &kp)?;
        let third = times(&times(&turned, pinv)?, &minus(&grad, &times(&k, a)?)?)?;
        return plus(&minus(&first, &second)?, &third);
    }
    let k = times(pinv, &grad)?;
    let pk = times(&turned, &k)?;
    let first = minus(&pk, &adjoint(&times(&k, pinv)?)?)?;
    let second = times(&times(&minus(&grad, &times(a, &k)?)?, pinv)?, &turned)?;
    let third = times(&times(&pk, pinv)?, a)?;
    minus(&plus(&first, &second)?, &third)
}

/// The gradient of solutions by least squares and of their squared errors.
pub(crate) fn lstsq_backward(
    grads: &[Option<Tensor>],
    a: &Tensor,
    b: &Tensor,
    x: &Tensor,
    mask: &[bool],
) -> Result<[Option<Tensor>; 2]> {
    let vector = is_vector(a, b.sizes());
    let columns = |t: &Tensor| if vector { aten::unsqueeze(t, -1) } else { Ok(t.clone()) };
    let (mut of_a, mut of_b) = (None, None);
    if let Some(grad) = given(grads, 0) {
        let grad = columns(grad)?;
        let pinv = aten::linalg_pinv_atol_rtol_float(a, None, None, false)?;
        if wanted(mask, 0) {
            let of_pinv = times(&grad, &adjoint(&columns(b)?)?)?;
            of_a = Some(pinv_backward(&of_pinv, &pinv, a)?);
        }
        if wanted(mask, 1) {
            let solution = times(&adjoint(&pinv)?, &grad)?;
            of_b = Some(if vector { aten::squeeze_dim(&solution, -1)? } else { solution });
        }
    }
    if let Some(grad) = given(grads, 1).filter(|g| g.numel() > 0) {
        let x = columns(x)?;
        let error = minus(&times(a, &x)?, &columns(b)?)?;
        let grad = aten::mul_scalar(&columns(grad)?, Scalar::Int(2))?;
        let grad = match vector {
            true => grad,
            false => aten::unsqueeze(&grad, -2)?,
        };
        let error = aten::mul_tensor(&error, &grad)?;
        if wanted(mask, 0) {
            of_a = total(of_a, Some(times(&error, &adjoint(&x)?)?))?;
        }
        if wanted(mask, 1) {
            let error = if vector { aten::squeeze_dim(&error, -1)? } else { error };
            of_b = total(of_b, Some(aten::neg(&error)?))?;
        }
    }
    Ok([of_a, of_b])
}

pub(crate) fn cross_left_backward(grad: &Tensor, right: &Tensor, dim: i64) -> Result<Tensor> {
    aten::linalg_cross(&conj(right)?, grad, dim)
}

pub(crate) fn cross_right_backward(grad: &Tensor, left: &Tensor, dim: i64) -> Result<Tensor> {
    aten::linalg_cross(grad, &conj(left)?, dim)
}
