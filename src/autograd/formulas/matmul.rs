//! Gradients of matrix products and of distances.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, MemoryFormat, Scalar};

use super::basics::{conj, dense, zeros_like};
use super::maybe_multiply;

const ONE: Scalar = Scalar::Int(1);
const ZERO: Scalar = Scalar::Int(0);

/// The transposed and conjugated matrices.
pub(crate) fn adjoint(x: &Tensor) -> Result<Tensor> {
    conj(&aten::transpose_int(x, -2, -1)?)
}

/// Whether a matrix lies in memory column by column.
fn is_column_major(sizes: &[i64], strides: &[i64]) -> bool {
    matches!((sizes, strides), ([rows, _], [1, stride]) if stride == rows)
}

/// The gradient of the left factor, which lies in memory as the factor does.
pub(crate) fn mm_left_backward(
    grad: &Tensor,
    right: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    alpha: impl Into<Scalar>,
) -> Result<Tensor> {
    let (grad, right) = (&dense(grad)?, &dense(right)?);
    let product = match is_column_major(sizes, strides) {
        true => aten::t(&aten::mm(&conj(right)?, &aten::t(grad)?)?)?,
        false => aten::mm(grad, &conj(&aten::t(right)?)?)?,
    };
    maybe_multiply(&product, alpha)
}

/// The gradient of the right factor, which lies in memory as the factor does.
pub(crate) fn mm_right_backward(
    grad: &Tensor,
    left: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    alpha: impl Into<Scalar>,
) -> Result<Tensor> {
    let (grad, left) = (&dense(grad)?, &dense(left)?);
    let product = match is_column_major(sizes, strides) {
        true => aten::t(&aten::mm(&aten::t(grad)?, &conj(left)?)?)?,
        false => aten::mm(&conj(&aten::t(left)?)?, grad)?,
    };
    maybe_multiply(&product, alpha)
}

pub(crate) fn bmm_left_backward(
    grad: &Tensor,
    right: &Tensor,
    alpha: impl Into<Scalar>,
) -> Result<Tensor> {
    let right = conj(&aten::transpose_int(right, 1, 2)?)?;
    maybe_multiply(&aten::bmm(grad, &right)?, alpha)
}

pub(crate) fn bmm_right_backward(
    grad: &Tensor,
    left: &Tensor,
    alpha: impl Into<Scalar>,
) -> Result<Tensor> {
    let left = conj(&aten::transpose_int(left, 1, 2)?)?;
    maybe_multiply(&aten::bmm(&left, grad)?, alpha)
}

/// The gradient of a batch of products that are added up: the same for each.
pub(crate) fn addbmm_left_backward(
    grad: &Tensor,
    left: &[i64],
    right: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    bmm_left_backward(&of_each(grad, left[0])?, right, alpha)
}

pub(crate) fn addbmm_right_backward(
    grad: &Tensor,
    left: &Tensor,
    right: &[i64],
    alpha: Scalar,
) -> Result<Tensor> {
    bmm_right_backward(&of_each(grad, right[0])?, left, alpha)
}

fn of_each(grad: &Tensor, batch: i64) -> Result<Tensor> {
    aten::expand(&aten::unsqueeze(grad, 0)?, &[batch, -1, -1], false)
}

/// The gradient of the matrix that a vector is multiplied with.
pub(crate) fn outer_backward(grad: &Tensor, vector: &Tensor) -> Result<Tensor> {
    aten::ger(grad, &conj(vector)?)
}

/// The gradient of a vector that a matrix is multiplied with.
pub(crate) fn mv_backward(grad: &Tensor, matrix: &Tensor) -> Result<Tensor> {
    aten::mv(&conj(&aten::t(matrix)?)?, grad)
}

pub(crate) fn addr_left_backward(grad: &Tensor, right: &Tensor, alpha: Scalar) -> Result<Tensor> {
    maybe_multiply(&aten::mv(grad, &conj(right)?)?, alpha)
}

pub(crate) fn addr_right_backward(grad: &Tensor, left: &Tensor, alpha: Scalar) -> Result<Tensor> {
    maybe_multiply(&aten::mv(&aten::t(grad)?, &conj(left)?)?, alpha)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn trilinear_backward(
    grad: &Tensor,
    i1: &Tensor,
    i2: &Tensor,
    i3: &Tensor,
    expand1: &[i64],
    expand2: &[i64],
    expand3: &[i64],
    summed: &[i64],
    mask: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let (c1, c2, c3) = (conj(i1)?, conj(i2)?, conj(i3)?);
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    // a product of three, of which one sum is taken: the gradient stands in the place of a factor
    let first = || aten::_trilinear(grad, &c2, &c3, summed, expand2, expand3, expand1, 1);
    let second = || aten::_trilinear(&c1, grad, &c3, expand1, summed, expand3, expand2, 1);
    let third = || aten::_trilinear(&c1, &c2, grad, expand1, expand2, summed, expand3, 1);
    Ok([
        wanted(0).then(first).transpose()?,
        wanted(1).then(second).transpose()?,
        wanted(2).then(third).transpose()?,
    ])
}

fn contiguous(x: &Tensor) -> Result<Tensor> {
    aten::contiguous(x, MemoryFormat::Contiguous)
}

pub(crate) fn cdist_backward(
    grad: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    distances: &Tensor,
) -> Result<Tensor> {
    aten::_cdist_backward(&contiguous(grad)?, x1, x2, p, distances)
}

/// The gradient of the second points: that of the first ones, with the two exchanged.
pub(crate) fn cdist_backward_transposed(
    grad: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    distances: &Tensor,
) -> Result<Tensor> {
    let turned = |t: &Tensor| contiguous(&aten::transpose_int(t, -2, -1)?);
    aten::_cdist_backward(&turned(grad)?, x2, x1, p, &turned(distances)?)
}

/// What second derivatives of distances are made of, for pairs of points with differences `d` and
/// distances `D`: those of `g w f(d, D)`, summed over the last dimension, with `f(d, D) = sgn(d)
/// |d|^(p-1) / D^(p-1)`, and 0 where `D` is.
struct Pairs {
    /// With respect to `g`.
    weight: Option<Tensor>,
    /// With respect to `d`, not summed; nothing where that is 0.
    moved: Option<Tensor>,
    /// With respect to `D`; nothing where that is 0.
    far: Option<Tensor>,
}

impl Pairs {
    /// `d` and `w` have the last dimension, `D` and `g` have none.
    fn new(
        away: &Tensor,
        distances: &Tensor,
        along: &Tensor,
        grad: &Tensor,
        p: f64,
        [of_weight, of_away, of_far]: [bool; 3],
    ) -> Result<Pairs> {
        let number = Scalar::Float;
        let far = aten::unsqueeze(distances, -1)?;
        let none = aten::eq_scalar(&far, ZERO)?;
        let cleared = |t: &Tensor| aten::masked_fill_scalar(t, &none, ZERO);
        let summed = |t: &Tensor| aten::sum_dim_int_list(t, Some(&[-1]), false, None);
        let power = |t: &Tensor, e: f64| aten::pow_tensor_scalar(t, number(e));
        let size = aten::abs(away)?;
        let unit = if p == 2.0 {
            cleared(&aten::div_tensor(away, &far)?)?
        } else if p == 0.0 {
            aten::mul_scalar(away, ZERO)?
        } else if p == 1.0 {
            aten::sgn(away)?
        } else if p.is_infinite() {
            let there = aten::eq_tensor(&size, &far)?;
            aten::mul_tensor(&aten::sgn(away)?, &there)?
        } else {
            let away = aten::mul_tensor(&aten::sgn(away)?, &power(&size, p - 1.0)?)?;
            cleared(&aten::div_tensor(&away, &power(&far, p - 1.0)?)?)?
        };
        let weight = match of_weight {
            true => Some(summed(&aten::mul_tensor(along, &unit)?)?),
            false => None,
        };
        let mut pairs = Pairs { weight, moved: None, far: None };
        if p == 0.0 || p == 1.0 || p.is_infinite() {
            // constant wherever there is a derivative
            return Ok(pairs);
        }
        let weight = aten::mul_tensor(along, &aten::unsqueeze(grad, -1)?)?;
        if of_away {
            let slope = match p == 2.0 {
                true => aten::reciprocal(&far)?,
                false => {
                    let steep = aten::mul_scalar(&power(&size, p - 2.0)?, number(p - 1.0))?;
                    let none = aten::eq_scalar(&size, ZERO)?;
                    let steep = match p < 2.0 {
                        true => aten::masked_fill_scalar(&steep, &none, ZERO)?,
                        false => steep,
                    };
                    aten::div_tensor(&steep, &power(&far, p - 1.0)?)?
                }
            };
            pairs.moved = Some(aten::mul_tensor(&weight, &cleared(&slope)?)?);
        }
        if of_far {
            let slope = cleared(&aten::div_tensor(&unit, &far)?)?;
            let slope = aten::mul_scalar(&slope, number(1.0 - p))?;
            pairs.far = Some(summed(&aten::mul_tensor(&weight, &slope)?)?);
        }
        Ok(pairs)
    }
}

fn or_zeros(wanted: bool, t: Option<Tensor>, like: &Tensor) -> Result<Option<Tensor>> {
    match (wanted, t) {
        (true, None) => zeros_like(like).map(Some),
        (true, t) => Ok(t),
        (false, _) => Ok(None),
    }
}

/// The gradients of `_cdist_backward`, which gives `sum_j grad_ij f(d_ij, D_ij)`.
pub(crate) fn cdist_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    distances: &Tensor,
    mask: &[bool],
) -> Result<[Option<Tensor>; 4]> {
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let away = aten::sub_tensor(&aten::unsqueeze(x1, -2)?, &aten::unsqueeze(x2, -3)?, ONE)?;
    let along = aten::unsqueeze(grad, -2)?;
    let which = [wanted(0), wanted(1) || wanted(2), wanted(3)];
    let pairs = Pairs::new(&away, distances, &along, grad_output, p, which)?;
    let summed = |dim: i64| {
        let moved = pairs.moved.as_ref();
        moved.map(|t| aten::sum_dim_int_list(t, Some(&[dim]), false, None)).transpose()
    };
    let of_x2 = match wanted(2) {
        true => summed(-3)?.map(|t| aten::neg(&t)).transpose()?,
        false => None,
    };
    let of_x1 = if wanted(1) { summed(-2)? } else { None };
    Ok([
        pairs.weight,
        or_zeros(wanted(1), of_x1, x1)?,
        or_zeros(wanted(2), of_x2, x2)?,
        or_zeros(wanted(3), pairs.far, distances)?,
    ])
}

/// The gradients of `_pdist_backward`, which adds `grad_ij f(d_ij, D_ij)` to the gradient of point
/// `i` and takes it from that of `j`, for `i < j`.
pub(crate) fn pdist_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    p: f64,
    distances: &Tensor,
    mask: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let n = x.sizes().first().copied().unwrap_or(0);
    let (dtype, device) = (Some(DType::I64), Some(x.device()));
    let all = aten::triu_indices(n, n, 1, dtype, None, device, None)?;
    let (i, j) = (aten::select_int(&all, 0, 0)?, aten::select_int(&all, 0, 1)?);
    let between = |t: &Tensor| {
        let (a, b) = (aten::index_select(t, 0, &i)?, aten::index_select(t, 0, &j)?);
        aten::sub_tensor(&a, &b, ONE)
    };
    let which = [wanted(0), wanted(1), wanted(2)];
    let pairs = Pairs::new(&between(x)?, distances, &between(grad)?, grad_output, p, which)?;
    let of_x = match &pairs.moved {
        Some(moved) => {
            let first = aten::index_add(&zeros_like(x)?, 0, &i, moved, ONE)?;
            Some(aten::index_add(&first, 0, &j, moved, Scalar::Int(-1))?)
        }
        None => None,
    };
    Ok([pairs.weight, or_zeros(wanted(1), of_x, x)?, or_zeros(wanted(2), pairs.far, distances)?])
}

pub(crate) fn euclidean_dist_backward(
    grad: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    distances: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let ratio = aten::div_tensor(grad, distances)?;
    let ratio = aten::masked_fill_scalar(&ratio, &aten::eq_scalar(distances, ZERO)?, ZERO)?;
    let of = |own: &Tensor, other: &Tensor, ratio: &Tensor| {
        let total = aten::sum_dim_int_list(ratio, Some(&[-1]), true, None)?;
        aten::sub_tensor(&aten::mul_tensor(own, &total)?, &aten::matmul(ratio, other)?, ONE)
    };
    Ok((of(x1, x2, &ratio)?, of(x2, x1, &aten::transpose_int(&ratio, -2, -1)?)?))
}

pub(crate) fn pdist_backward(
    grad: &Tensor,
    x: &Tensor,
    p: f64,
    distances: &Tensor,
) -> Result<Tensor> {
    aten::_pdist_backward(grad, x, p, distances)
}
