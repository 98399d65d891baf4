//! Linear algebra that is made of other operators.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::{DType, MemoryFormat, Scalar};

pub(crate) fn slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let (sign, log, _, _) = aten::_linalg_slogdet(a)?;
    Ok((sign, log))
}

/// Whether a derivative may be asked for, which needs the vectors that go with the values.
fn needs_vectors(a: &Tensor) -> bool {
    (a.requires_grad() && crate::autograd::grad_enabled()) || a.has_tangent()
}

pub(crate) fn svdvals(a: &Tensor, driver: Option<&str>) -> Result<Tensor> {
    Ok(aten::_linalg_svd(a, false, needs_vectors(a), driver)?.1)
}

pub(crate) fn eigvalsh(a: &Tensor, uplo: &str) -> Result<Tensor> {
    Ok(aten::_linalg_eigh(a, uplo, needs_vectors(a))?.0)
}

pub(crate) fn eigvals(a: &Tensor) -> Result<Tensor> {
    match needs_vectors(a) {
        true => Ok(aten::linalg_eig(a)?.0),
        false => aten::_linalg_eigvals(a),
    }
}

/// NaN where a real determinant is negative.
pub(crate) fn logdet(a: &Tensor) -> Result<Tensor> {
    let (sign, log) = slogdet(a)?;
    if sign.dtype().is_complex() {
        return aten::add_tensor(&aten::log(&sign)?, &log, Scalar::Int(1));
    }
    let negative = aten::lt_scalar(&sign, Scalar::Int(0))?;
    aten::masked_fill_scalar(&log, &negative, Scalar::Float(f64::NAN))
}

/// The conjugate of the transposed matrices.
fn adjoint(a: &Tensor) -> Result<Tensor> {
    aten::conj(&aten::transpose_int(a, -2, -1)?)
}

/// The older form: `some` for factors without the columns that nothing is multiplied with, and `v`
/// itself.
pub(crate) fn svd(a: &Tensor, some: bool, vectors: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let [lead @ .., m, n] = a.sizes() else {
        return Err(Error::runtime(
            "linalg.svd: The input tensor A must have at least 2 dimensions.",
        ));
    };
    if vectors {
        let (u, s, vh) = aten::linalg_svd(a, !some, None)?;
        return Ok((u, s, adjoint(&vh)?));
    }
    let zeros = |n: i64| {
        let sizes = [lead, &[n, n]].concat();
        aten::zeros(&sizes, Some(a.dtype()), None, Some(a.device()), None)
    };
    Ok((zeros(*m)?, aten::linalg_svdvals(a, None)?, zeros(*n)?))
}

/// What counts as zero among singular values: `atol`, or `rtol` times the largest; by default
/// `rtol` is the dtype's epsilon times the longer side, unless an `atol` is given.
fn default_rtol(a: &Tensor) -> f64 {
    let epsilon = match a.dtype().to_real() {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    let longest = a.sizes().iter().rev().take(2).max().copied().unwrap_or(0);
    epsilon * longest as f64
}

fn number(a: &Tensor, value: f64) -> Result<Tensor> {
    let dtype = Some(DType::F64);
    aten::full(&[], Scalar::Float(value), dtype, None, Some(a.device()), None)
}

/// Tolerances as tensors of `f64`, those that are not given by their defaults.
fn tolerances(
    a: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    name: &str,
) -> Result<(Tensor, Tensor)> {
    for (what, t) in [("atol", atol), ("rtol", rtol)] {
        if let Some(t) = t.filter(|t| t.dtype().is_complex()) {
            return Err(Error::runtime(format!(
                "{name}: {what} tensor of complex type is not supported. Got {}",
                t.dtype().torch_name()
            )));
        }
    }
    let absolute = match atol {
        Some(t) => t.clone(),
        None => number(a, 0.0)?,
    };
    let relative = match (rtol, atol) {
        (Some(t), _) => t.clone(),
        (None, None) => number(a, default_rtol(a))?,
        (None, Some(atol)) => {
            let given = aten::gt_scalar(atol, Scalar::Int(0))?;
            let default = number(a, default_rtol(a))?;
            aten::where_scalar_self(&given, Scalar::Float(0.0), &default)?
        }
    };
    Ok((absolute, relative))
}

fn tolerance_numbers(a: &Tensor, atol: Option<f64>, rtol: Option<f64>) -> Result<(Tensor, Tensor)> {
    let absolute = atol.unwrap_or(0.0);
    let relative = rtol.unwrap_or(if absolute > 0.0 { 0.0 } else { default_rtol(a) });
    Ok((number(a, absolute)?, number(a, relative)?))
}

/// Whether each value, of which `largest` is the largest, is above the tolerance.
fn above(values: &Tensor, largest: &Tensor, atol: &Tensor, rtol: &Tensor) -> Result<Tensor> {
    let relative = aten::mul_tensor(&aten::unsqueeze(rtol, -1)?, largest)?;
    let least = aten::maximum(&aten::unsqueeze(atol, -1)?, &relative)?;
    aten::gt_tensor(values, &least)
}

/// Moore and Penrose's inverse.
pub(crate) fn pinv(
    a: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    ensure!(
        a.dim() >= 2,
        "linalg.pinv(): expected a tensor with 2 or more dimensions of floating types, but got a tensor with {} dimensions",
        a.dim()
    );
    ensure!(
        matches!(a.dtype(), DType::F32 | DType::F64) || a.dtype().is_complex(),
        "linalg.pinv(): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types, but got {}",
        a.dtype().torch_name()
    );
    let (atol, rtol) = tolerances(a, atol, rtol, "torch.linalg.pinv")?;
    let diagonal = |v: &Tensor, s: &Tensor, u: &Tensor| {
        let scaled = aten::mul_tensor(v, &aten::unsqueeze(s, -2)?)?;
        aten::matmul(&scaled, &adjoint(u)?)
    };
    let inverse = |s: &Tensor, kept: &Tensor| {
        let s = aten::where_scalar_other(kept, &aten::reciprocal(s)?, Scalar::Float(0.0))?;
        aten::to_dtype(&s, a.dtype(), false, false, None)
    };
    if hermitian && a.numel() > 0 {
        let (s, u) = aten::linalg_eigh(a, "L")?;
        let size = aten::abs(&s)?;
        let kept = above(&size, &aten::amax(&size, &[-1], true)?, &atol, &rtol)?;
        return diagonal(&u, &inverse(&s, &kept)?, &u);
    }
    let (u, s, vh) = aten::linalg_svd(a, false, None)?;
    let v = adjoint(&vh)?;
    if a.numel() == 0 {
        return diagonal(&v, &aten::reciprocal(&s)?, &u);
    }
    let kept = above(&s, &aten::narrow(&s, -1, 0, 1)?, &atol, &rtol)?;
    diagonal(&v, &inverse(&s, &kept)?, &u)
}

pub(crate) fn pinv_numbers(
    a: &Tensor,
    atol: Option<f64>,
    rtol: Option<f64>,
    hermitian: bool,
) -> Result<Tensor> {
    let (atol, rtol) = tolerance_numbers(a, atol, rtol)?;
    aten::linalg_pinv_atol_rtol_tensor(a, Some(&atol), Some(&rtol), hermitian)
}

pub(crate) fn pinv_rcond(a: &Tensor, rcond: f64, hermitian: bool) -> Result<Tensor> {
    pinv_numbers(a, Some(0.0), Some(rcond), hermitian)
}

pub(crate) fn pinv_rcond_tensor(a: &Tensor, rcond: &Tensor, hermitian: bool) -> Result<Tensor> {
    let zero = number(a, 0.0)?;
    aten::linalg_pinv_atol_rtol_tensor(a, Some(&zero), Some(rcond), hermitian)
}

/// How many singular values (of Hermitian matrices: sizes of eigenvalues) are above the tolerance.
pub(crate) fn matrix_rank(
    a: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    ensure!(
        a.dim() >= 2,
        "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions."
    );
    let (atol, rtol) = tolerances(a, atol, rtol, "torch.linalg.matrix_rank")?;
    if a.numel() == 0 {
        let sizes = &a.sizes()[..a.dim() - 2];
        return aten::zeros(sizes, Some(DType::I64), None, Some(a.device()), None);
    }
    let (values, largest) = if hermitian {
        let values = aten::abs(&aten::linalg_eigvalsh(a, "L")?)?;
        let largest = aten::amax(&values, &[-1], true)?;
        (values, largest)
    } else {
        let values = aten::linalg_svdvals(a, None)?;
        let largest = aten::narrow(&values, -1, 0, 1)?;
        (values, largest)
    };
    let kept = above(&values, &largest, &atol, &rtol)?;
    aten::sum_dim_int_list(&kept, Some(&[-1]), false, None)
}

pub(crate) fn matrix_rank_numbers(
    a: &Tensor,
    atol: Option<f64>,
    rtol: Option<f64>,
    hermitian: bool,
) -> Result<Tensor> {
    let (atol, rtol) = tolerance_numbers(a, atol, rtol)?;
    aten::linalg_matrix_rank_atol_rtol_tensor(a, Some(&atol), Some(&rtol), hermitian)
}

pub(crate) fn matrix_rank_tol(a: &Tensor, tol: f64, hermitian: bool) -> Result<Tensor> {
    matrix_rank_numbers(a, Some(tol), Some(0.0), hermitian)
}

pub(crate) fn matrix_rank_tol_tensor(a: &Tensor, tol: &Tensor, hermitian: bool) -> Result<Tensor> {
    let zero = number(a, 0.0)?;
    aten::linalg_matrix_rank_atol_rtol_tensor(a, Some(tol), Some(&zero), hermitian)
}

/// A matrix multiplied by itself, `n` times in all; the inverse where `n` is negative.
pub(crate) fn linalg_matrix_power(a: &Tensor, n: i64) -> Result<Tensor> {
    let [lead @ .., rows, cols] = a.sizes() else {
        return Err(Error::runtime(
            "linalg.matrix_power: The input tensor A must have at least 2 dimensions.",
        ));
    };
    ensure!(
        rows == cols,
        "linalg.matrix_power: A must be batches of square matrices, but they are {rows} by {cols} matrices"
    );
    if n == 0 {
        let eye = aten::eye(*rows, Some(a.dtype()), None, Some(a.device()), None)?;
        let sizes = [lead, &[*rows, *rows]].concat();
        return aten::clone(&aten::expand(&eye, &sizes, false)?, Some(MemoryFormat::Contiguous));
    }
    let mut square = match n < 0 {
        true => aten::linalg_inv(a)?,
        false => a.clone(),
    };
    let mut left = n.unsigned_abs();
    if left == 1 {
        return aten::clone(&square, None);
    }
    let mut out: Option<Tensor> = None;
    loop {
        if left % 2 == 1 {
            out = Some(match out {
                Some(out) => aten::matmul(&out, &square)?,
                None => square.clone(),
            });
        }
        left /= 2;
        match out {
            Some(out) if left == 0 => return Ok(out),
            _ => square = aten::matmul(&square, &square)?,
        }
    }
}

/// Inner products along a dimension, of the conjugate of the first.
pub(crate) fn vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    ensure_not_implemented!(
        x.dtype().is_floating() || x.dtype().is_complex(),
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().torch_name()
    );
    let product = aten::mul_tensor(&aten::conj(x)?, y)?;
    aten::sum_dim_int_list(&product, Some(&[dim]), false, None)
}

/// The product of matrices in the order that takes the fewest multiplications; the first and the
/// last may be vectors.
pub(crate) fn multi_dot(tensors: &[Tensor]) -> Result<Tensor> {
    let n = tensors.len();
    ensure!(n >= 2, "multi_dot(): expected at least 2 tensors but got {n}");
    let (row, column) = (tensors[0].dim() == 1, tensors[n - 1].dim() == 1);
    let mut all = Vec::with_capacity(n);
    for (i, t) in tensors.iter().enumerate() {
        let vector = t.dim() == 1 && (i == 0 || i == n - 1);
        ensure!(
            t.dim() == 2 || vector,
            "multi_dot(): tensor {i} must be 2D{} but got {}D",
            if i == 0 || i == n - 1 { " or 1D" } else { "" },
            t.dim()
        );
        ensure_dtype!(
            t.dtype() == tensors[0].dtype(),
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
            tensors[0].dtype().torch_name(),
            t.dtype().torch_name()
        );
        all.push(match vector {
            true => aten::unsqueeze(t, if i == 0 { 0 } else { -1 })?,
            false => t.clone(),
        });
        ensure_shape!(
            i == 0 || all[i - 1].sizes()[1] == all[i].sizes()[0],
            "multi_dot(): tensors {} and {i} with shapes {:?} and {:?} cannot be multiplied",
            i - 1,
            tensors[i - 1].sizes(),
            t.sizes()
        );
    }
    let mut out = chain(&all, &order(&all), 0, n - 1)?;
    if row {
        out = aten::squeeze_dim(&out, 0)?;
    }
    if column {
        out = aten::squeeze_dim(&out, -1)?;
    }
    Ok(out)
}

/// Where to split each product of the matrices `i..=j`: after `splits[i][j]`.
fn order(all: &[Tensor]) -> Vec<Vec<usize>> {
    let n = all.len();
    let side = |i: usize| match i {
        0 => all[0].sizes()[0] as f64,
        i => all[i - 1].sizes()[1] as f64,
    };
    let (mut costs, mut splits) = (vec![vec![0.0; n]; n], vec![vec![0; n]; n]);
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            costs[i][j] = f64::INFINITY;
            for k in i..j {
                let cost = costs[i][k] + costs[k + 1][j] + side(i) * side(k + 1) * side(j + 1);
                if cost < costs[i][j] {
                    (costs[i][j], splits[i][j]) = (cost, k);
                }
            }
        }
    }
    splits
}

fn chain(all: &[Tensor], splits: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
    if i == j {
        return Ok(all[i].clone());
    }
    let k = splits[i][j].clamp(i, j - 1);
    aten::mm(&chain(all, splits, i, k)?, &chain(all, splits, k + 1, j)?)
}

pub(crate) fn chain_matmul(matrices: &[Tensor]) -> Result<Tensor> {
    for t in matrices {
        ensure!(t.dim() == 2, "Tensor of dimension {} is not a matrix", t.dim());
    }
    match matrices {
        [] => Err(Error::runtime("chain_matmul(): Expected one or more matrices")),
        [one] => aten::clone(one, None),
        many => aten::linalg_multi_dot(many),
    }
}

/// The product of vectors of three elements that is normal to both.
pub(crate) fn linalg_cross(a: &Tensor, b: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(a.dim() == b.dim(), "linalg.cross: inputs must have the same number of dimensions.");
    let d = wrap_dim(dim, a.dim())?;
    let size = |t: &Tensor| t.sizes().get(d).copied().unwrap_or(1);
    ensure!(
        size(a) == 3 && size(b) == 3,
        "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
        size(a),
        size(b)
    );
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "Expected all tensors to have the same dtype, but got {} and {}",
        a.dtype().torch_name(),
        b.dtype().torch_name()
    );
    let turned = |t: &Tensor, by: i64| aten::roll(t, &[by], &[d as i64]);
    let there = aten::mul_tensor(&turned(a, -1)?, &turned(b, -2)?)?;
    let back = aten::mul_tensor(&turned(a, -2)?, &turned(b, -1)?)?;
    aten::sub_tensor(&there, &back, Scalar::Int(1))
}

/// [`linalg_cross`] along the first dimension of three elements, where none is named.
pub(crate) fn cross(a: &Tensor, b: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let dim = match dim {
        Some(dim) => dim,
        None => match a.sizes().iter().position(|n| *n == 3) {
            Some(d) => d as i64,
            None => return Err(Error::runtime("no dimension of size 3 in input")),
        },
    };
    aten::linalg_cross(a, b, dim)
}
