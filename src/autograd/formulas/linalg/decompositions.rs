//! Gradients of eigenvalues, singular values and functions of matrices.

use super::{
    ONE, adjoint, diagonal_matrix, diagonal_of, given, minus, off_diagonal, plus, shape, skew,
    times, total,
};
use crate::autograd::formulas::basics::{conj, zeros_like};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// Each row times its number.
fn scaled_rows(values: &Tensor, a: &Tensor) -> Result<Tensor> {
    aten::mul_tensor(&aten::unsqueeze(values, -1)?, a)
}

/// Each column times its number.
fn scaled_columns(a: &Tensor, values: &Tensor) -> Result<Tensor> {
    aten::mul_tensor(a, &aten::unsqueeze(values, -2)?)
}

/// `x_j - x_i`, and 1 on the diagonal.
fn differences(x: &Tensor) -> Result<Tensor> {
    let away = minus(&aten::unsqueeze(x, -2)?, &aten::unsqueeze(x, -1)?)?;
    plus(&away, &diagonal_matrix(&aten::ones_like(x, None, None, None, None, None)?)?)
}

/// Refuses a loss that sees the phases of complex vectors, which a decomposition does not
/// determine. Not checked where there are no numbers.
fn check_phases(diagonal: &Tensor, name: &str, vectors: &str) -> Result<()> {
    if !diagonal.dtype().is_complex() || !diagonal.storage().has_data() {
        return Ok(());
    }
    let turned = aten::imag(diagonal)?;
    let none = aten::zeros_like(&turned, None, None, None, None, None)?;
    ensure!(
        aten::allclose(&turned, &none, 1e-2, 1e-2, false)?,
        "{name}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss function depends on this quantity, so it is ill-defined."
    );
    Ok(())
}

pub(crate) fn eigh_backward(
    grads: &[Option<Tensor>],
    values: &Tensor,
    vectors: &Tensor,
) -> Result<Option<Tensor>> {
    let (of_values, of_vectors) = (given(grads, 0), given(grads, 1));
    let turned = adjoint(vectors)?;
    let Some(of_vectors) = of_vectors else {
        let Some(of_values) = of_values else { return Ok(None) };
        return times(&scaled_columns(vectors, of_values)?, &turned).map(Some);
    };
    let inner = times(&turned, of_vectors)?;
    check_phases(&diagonal_of(&inner)?, "linalg_eigh_backward", "eigenvectors")?;
    let mut inner = off_diagonal(&aten::div_tensor(&inner, &differences(values)?)?)?;
    if let Some(of_values) = of_values {
        inner = plus(&inner, &diagonal_matrix(of_values)?)?;
    }
    times(vectors, &times(&inner, &turned)?).map(Some)
}

pub(crate) fn eig_backward(
    grads: &[Option<Tensor>],
    values: &Tensor,
    vectors: &Tensor,
) -> Result<Option<Tensor>> {
    let (of_values, of_vectors) = (given(grads, 0), given(grads, 1));
    let turned = adjoint(vectors)?;
    let Some(of_vectors) = of_vectors else {
        let Some(of_values) = of_values else { return Ok(None) };
        return aten::linalg_solve(&turned, &scaled_rows(of_values, &turned)?, true).map(Some);
    };
    let inner = times(&turned, of_vectors)?;
    let diagonal = diagonal_of(&inner)?;
    check_phases(&diagonal, "linalg_eig_backward", "eigenvectors")?;
    // vectors are of length 1: what would make them longer has no effect
    let lengths = scaled_columns(&times(&turned, vectors)?, &aten::real(&diagonal)?)?;
    let inner = minus(&inner, &lengths)?;
    let mut inner = off_diagonal(&aten::div_tensor(&inner, &conj(&differences(values)?)?)?)?;
    if let Some(of_values) = of_values {
        inner = plus(&inner, &diagonal_matrix(of_values)?)?;
    }
    aten::linalg_solve(&turned, &times(&inner, &turned)?, true).map(Some)
}

pub(crate) fn svd_backward(
    grads: &[Option<Tensor>],
    u: &Tensor,
    s: &Tensor,
    vh: &Tensor,
    full: bool,
) -> Result<Option<Tensor>> {
    let ((m, n), k) = ((shape(u).0, shape(vh).1), s.sizes().last().copied().unwrap_or(0));
    // what belongs to no singular value is arbitrary
    let columns = |t: &Tensor| if full { aten::narrow(t, -1, 0, k) } else { Ok(t.clone()) };
    let rows = |t: &Tensor| if full { aten::narrow(t, -2, 0, k) } else { Ok(t.clone()) };
    let (u, vh) = (columns(u)?, rows(vh)?);
    let of_u = given(grads, 0).map(columns).transpose()?;
    let of_s = given(grads, 1);
    let of_vh = given(grads, 2).map(rows).transpose()?;
    if of_u.is_none() && of_vh.is_none() {
        let Some(of_s) = of_s else { return Ok(None) };
        return match m >= n {
            true => times(&u, &scaled_rows(of_s, &vh)?).map(Some),
            false => times(&scaled_columns(&u, of_s)?, &vh).map(Some),
        };
    }
    let (uh, v) = (adjoint(&u)?, adjoint(&vh)?);
    let by_u = of_u.as_ref().map(|g| skew(&times(&uh, g)?)).transpose()?;
    let by_v = of_vh.as_ref().map(|g| skew(&times(&vh, &adjoint(g)?)?)).transpose()?;
    if let Some(turned) = total(by_u.clone(), by_v.clone())? {
        check_phases(&diagonal_of(&turned)?, "svd_backward", "singular vectors")?;
    }
    let squares = differences(&aten::mul_tensor(s, s)?)?;
    let apart = |t: &Tensor| off_diagonal(&aten::div_tensor(t, &squares)?);
    let from_u = by_u.as_ref().map(|t| scaled_columns(&apart(t)?, s)).transpose()?;
    let from_v = by_v.as_ref().map(|t| scaled_rows(s, &apart(t)?)).transpose()?;
    let mut inner = total(from_u, from_v)?;
    if let Some(of_s) = of_s {
        inner = total(inner, Some(diagonal_matrix(of_s)?))?;
    }
    if let (Some(by_u), Some(_)) = (&by_u, &by_v)
        && u.dtype().is_complex()
    {
        let twice = aten::mul_scalar(s, Scalar::Int(2))?;
        let phases = aten::div_tensor(&diagonal_of(by_u)?, &twice)?;
        inner = total(inner, Some(diagonal_matrix(&phases)?))?;
    }
    let Some(inner) = inner else { return Ok(None) };
    let whole = match (&of_u, &of_vh) {
        (Some(of_u), _) if m > k => {
            let outside = minus(of_u, &times(&u, &times(&uh, of_u)?)?)?;
            let outside = aten::div_tensor(&outside, &aten::unsqueeze(s, -2)?)?;
            times(&plus(&times(&u, &inner)?, &outside)?, &vh)?
        }
        (_, Some(of_vh)) if n > k => {
            let outside = minus(of_vh, &times(&times(of_vh, &v)?, &vh)?)?;
            let outside = aten::div_tensor(&outside, &aten::unsqueeze(s, -1)?)?;
            times(&u, &plus(&times(&inner, &vh)?, &outside)?)?
        }
        _ if m >= n => times(&u, &times(&inner, &vh)?)?,
        _ => times(&times(&u, &inner)?, &vh)?,
    };
    Ok(Some(whole))
}

/// The gradient of the exponential: a corner of the exponential of a matrix twice as large.
pub(crate) fn matrix_exp_backward(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let n = shape(a).0;
    let turned = adjoint(a)?;
    let top = aten::cat(&[turned.clone(), grad.clone()], -1)?;
    let bottom = aten::cat(&[zeros_like(&turned)?, turned], -1)?;
    let whole = aten::linalg_matrix_exp(&aten::cat(&[top, bottom], -2)?)?;
    aten::narrow(&aten::narrow(&whole, -2, 0, n)?, -1, n, n)
}

/// The `x` with `h x + x h = b`, for a Hermitian matrix of which values and vectors are given.
fn halved(values: &Tensor, vectors: &Tensor, b: &Tensor) -> Result<Tensor> {
    let turned = adjoint(vectors)?;
    let inner = times(&turned, &times(b, vectors)?)?;
    let sums = plus(&aten::unsqueeze(values, -2)?, &aten::unsqueeze(values, -1)?)?;
    times(vectors, &times(&aten::div_tensor(&inner, &sums)?, &turned)?)
}

pub(crate) fn matrix_sqrth_backward(grad: &Tensor, root: &Tensor) -> Result<Tensor> {
    let (values, vectors) = aten::linalg_eigh(root, "L")?;
    halved(&values, &vectors, grad)
}

/// The gradient of `u h`, of those of `u` and of `h`.
pub(crate) fn linalg_polar_backward(
    grads: &[Option<Tensor>],
    u: &Tensor,
    h: &Tensor,
) -> Result<Option<Tensor>> {
    let (of_u, of_h) = (given(grads, 0), given(grads, 1));
    let (values, vectors) = aten::linalg_eigh(h, "L")?;
    let uh = adjoint(u)?;
    let by_u = of_u.map(|g| times(&uh, g)).transpose()?;
    let by_h = match of_h {
        Some(g) => Some(aten::neg(&times(g, h)?)?),
        None => None,
    };
    let Some(inner) = total(by_u.clone(), by_h)? else { return Ok(None) };
    let mut whole = times(u, &skew(&halved(&values, &vectors, &inner)?)?)?;
    if let Some(g) = of_h {
        whole = plus(&whole, &times(u, g)?)?;
    }
    if let (Some(g), Some(by_u)) = (of_u, by_u)
        && shape(u).0 > shape(u).1
    {
        let outside = times(&minus(g, &times(u, &by_u)?)?, &vectors)?;
        let outside = aten::div_tensor(&outside, &aten::unsqueeze(&values, -2)?)?;
        whole = aten::add_tensor(&whole, &times(&outside, &adjoint(&vectors)?)?, ONE)?;
    }
    Ok(Some(whole))
}
