//! What forward formulas call: derivatives in a direction `t`, where `x` is the primal.

use super::{add, conj, mul, sub};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

const ONE: Scalar = Scalar::Int(1);

/// `t * by`, without a call where that is `t`.
pub(crate) fn scaled(t: &Tensor, by: impl Into<Scalar>) -> Result<Tensor> {
    let by = by.into();
    match by.as_complex() {
        (1.0, 0.0) => Ok(t.clone()),
        _ => aten::mul_scalar(t, by),
    }
}

/// The tangent of an argument that may be missing, where there is one.
pub(crate) fn present(t: Option<&Tensor>) -> Result<Tensor> {
    t.cloned().ok_or_else(|| Error::runtime("a forward formula reads a tangent that is not there"))
}

/// Operators of two tensors under their own names.
macro_rules! binary {
    ($($name:ident)*) => {$(
        #[doc = concat!("The operator `", stringify!($name), "`.")]
        pub(crate) fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            aten::$name(a, b)
        }
    )*};
}

binary! { mm bmm mv dot vdot outer }

pub(crate) fn linalg_cross(a: &Tensor, b: &Tensor, dim: i64) -> Result<Tensor> {
    aten::linalg_cross(a, b, dim)
}

/// The sum of the products of a batch.
pub(crate) fn summed_products(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::sum_dim_int_list(&aten::bmm(a, b)?, Some(&[0]), false, None)
}

/// Ones like a result, whose gradient is asked for.
pub(crate) fn ones(result: &Tensor) -> Result<Tensor> {
    aten::ones_like(result, None, None, None, None, None)
}

/// The dimensions of a reduction, as schemas have them. None are all.
pub(crate) trait Reduced {
    fn dims(&self) -> Option<&[i64]>;
}

impl Reduced for i64 {
    fn dims(&self) -> Option<&[i64]> {
        Some(std::slice::from_ref(self))
    }
}

impl Reduced for &[i64] {
    fn dims(&self) -> Option<&[i64]> {
        Some(*self).filter(|d| !d.is_empty())
    }
}

impl Reduced for Option<&[i64]> {
    fn dims(&self) -> Option<&[i64]> {
        (*self).filter(|d| !d.is_empty())
    }
}

/// What a gradient may be.
pub(crate) trait Slope {
    fn slope(&self) -> Option<&Tensor>;
}

impl Slope for Tensor {
    fn slope(&self) -> Option<&Tensor> {
        Some(self)
    }
}

impl Slope for Option<Tensor> {
    fn slope(&self) -> Option<&Tensor> {
        self.as_ref()
    }
}

/// Of a reduction to dimensions, whose gradient for ones is `slope`: each element of the operand is
/// in one element of the result.
pub(crate) fn reduced(
    slope: &impl Slope,
    t: &Tensor,
    dims: impl Reduced,
    keepdim: bool,
) -> Result<Tensor> {
    let product = product(slope, t)?;
    match (t.dim(), dims.dims()) {
        (0, _) => Ok(product),
        (_, Some(dims)) => aten::sum_dim_int_list(&product, Some(dims), keepdim, None),
        (_, None) => aten::sum_dim_int_list(&product, None, keepdim, None),
    }
}

fn product(slope: &impl Slope, t: &Tensor) -> Result<Tensor> {
    match slope.slope() {
        Some(slope) => mul(&conj(slope)?, t),
        None => super::zeros_like(t),
    }
}

/// Of a reduction to one number.
pub(crate) fn reduced_all(slope: &impl Slope, t: &Tensor) -> Result<Tensor> {
    aten::sum(&product(slope, t)?, None)
}

/// Of a loss, whose gradient for ones is `slope`.
pub(crate) fn loss_jvp(slope: &Tensor, t: &Tensor, reduction: i64) -> Result<Tensor> {
    let product = mul(slope, t)?;
    match reduction {
        0 => Ok(product),
        _ => aten::sum(&product, None),
    }
}

/// Of choosing elements along a dimension.
pub(crate) fn chosen(t: &Tensor, dim: i64, indices: &Tensor, keepdim: bool) -> Result<Tensor> {
    if t.dim() == 0 {
        return Ok(t.clone());
    }
    match keepdim {
        true => aten::gather(t, dim, indices, false),
        false => {
            let found = aten::gather(t, dim, &aten::unsqueeze(indices, dim)?, false)?;
            aten::squeeze_dim(&found, dim)
        }
    }
}

pub(crate) fn softmax_jvp(t: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    let weighed = mul(t, result)?;
    sub(&weighed, &mul(result, &summed(&weighed, dim)?)?)
}

pub(crate) fn log_softmax_jvp(t: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    sub(t, &summed(&mul(t, &aten::exp(result)?)?, dim)?)
}

fn summed(t: &Tensor, dim: i64) -> Result<Tensor> {
    match t.dim() {
        0 => Ok(t.clone()),
        _ => aten::sum_dim_int_list(t, Some(&[dim]), true, None),
    }
}

/// A view of other sizes, or a copy where there is none.
pub(crate) fn reshaped(t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    aten::reshape(t, sizes)
}

/// The same elements of a tangent as of its primal.
pub(crate) fn as_strided_jvp(
    t: &Tensor,
    x: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let offset = offset.map_or(t.offset(), |offset| offset - x.offset() + t.offset());
    aten::as_strided(t, size, stride, Some(offset))
}

pub(crate) fn padded(t: &Tensor, pad: &[i64]) -> Result<Tensor> {
    aten::constant_pad_nd(t, pad, Scalar::Int(0))
}

/// Of a tensor with the mean and the inverse deviation over its last dimensions.
pub(crate) fn layer_norm_jvp(
    t: &Tensor,
    x: &Tensor,
    shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    let dims: Vec<i64> = (0..shape.len() as i64).map(|d| d - shape.len() as i64).collect();
    let average = |t: &Tensor| aten::mean_dim(t, Some(&dims), true, None);
    let normal = normalized(x, mean, rstd)?;
    let centered = sub(t, &average(t)?)?;
    let along = mul(&normal, &average(&mul(&normal, t)?)?)?;
    let changed = mul(&sub(&centered, &along)?, rstd)?;
    match weight {
        Some(weight) => mul(&changed, weight),
        None => Ok(changed),
    }
}

/// What the weight of a layer norm is multiplied with.
pub(crate) fn normalized(x: &Tensor, mean: &Tensor, rstd: &Tensor) -> Result<Tensor> {
    mul(&sub(x, mean)?, rstd)
}

/// Of a convolution, in the direction of its input, or of its weight.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn convolved(
    input: &Tensor,
    weight: &Tensor,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Tensor> {
    aten::convolution(
        input,
        weight,
        None,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )
}

/// Of a bias for each channel of a result.
pub(crate) fn for_channels(t: Option<&Tensor>, result: &Tensor) -> Result<Tensor> {
    let t = present(t)?;
    let mut sizes = vec![1; result.dim()];
    // after the samples
    if let Some(size) = sizes.get_mut(1) {
        *size = t.numel();
    }
    aten::expand(&aten::reshape(&t, &sizes)?, result.sizes(), false)
}

/// Of the inverse of matrices.
pub(crate) fn inverse_jvp(t: &Tensor, inverse: &Tensor) -> Result<Tensor> {
    aten::neg(&aten::matmul(&aten::matmul(inverse, t)?, inverse)?)
}

/// Of the factor `L L^H = A`, or of its conjugate transpose.
pub(crate) fn cholesky_jvp(t: &Tensor, factor: &Tensor, upper: bool) -> Result<Tensor> {
    let flipped = |x: &Tensor| aten::resolve_conj(&aten::conj(&aten::transpose_int(x, -2, -1)?)?);
    let lower = if upper { flipped(factor)? } else { factor.clone() };
    let solved = |b: &Tensor| aten::linalg_solve_triangular(&lower, b, false, true, false);
    // only the sum of a matrix and its conjugate transpose matters to the factor
    let whole = aten::mul_scalar(&aten::add_tensor(t, &flipped(t)?, ONE)?, Scalar::Float(0.5))?;
    let inner = solved(&flipped(&solved(&whole)?)?)?;
    let below = aten::tril(&inner, -1)?;
    let diagonal = aten::diag_embed(&aten::diagonal(&inner, 0, -2, -1)?, 0, -2, -1)?;
    let half = aten::add_tensor(&below, &aten::mul_scalar(&diagonal, Scalar::Float(0.5))?, ONE)?;
    let change = aten::matmul(&lower, &half)?;
    if upper { flipped(&change) } else { Ok(change) }
}

/// Of `glu`: the halves are `a * sigmoid(b)`.
pub(crate) fn glu_jvp(t: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let halves = aten::chunk(x, 2, dim)?;
    let directions = aten::chunk(t, 2, dim)?;
    let ([a, b], [ta, tb]) = (&halves[..], &directions[..]) else {
        return Err(Error::runtime("glu halves its operand"));
    };
    let gate = aten::sigmoid(b)?;
    let slope = aten::sigmoid_backward(&mul(a, tb)?, &gate)?;
    add(&mul(ta, &gate)?, &slope)
}

/// Of a number for each matrix, whose gradient for ones is `slope`.
pub(crate) fn of_matrices(slope: &Tensor, t: &Tensor) -> Result<Tensor> {
    reduced(slope, t, &[-2i64, -1][..], false)
}

/// Of the solution of equations with a triangle, in the direction of that.
pub(crate) fn triangle_jvp(
    t: &Tensor,
    a: &Tensor,
    result: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    let off = i64::from(unitriangular);
    let t = if upper { aten::triu(t, off)? } else { aten::tril(t, -off)? };
    let product = if left { aten::matmul(&t, result)? } else { aten::matmul(result, &t)? };
    let moved = aten::linalg_solve_triangular(a, &product, upper, left, unitriangular)?;
    aten::neg(&moved)
}

pub(crate) use crate::ops::aten::linalg_solve_triangular;

/// Of the softmax's gradient, in the direction of the softmax.
pub(crate) fn softmax_backward_jvp(
    t: &Tensor,
    grad: &Tensor,
    result: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let outer = mul(t, &sub(grad, &summed(&mul(grad, result)?, dim)?)?)?;
    sub(&outer, &mul(result, &summed(&mul(grad, t)?, dim)?)?)
}

pub(crate) fn log_softmax_backward_jvp(
    t: &Tensor,
    grad: &Tensor,
    result: &Tensor,
    dim: i64,
) -> Result<Tensor> {
    let weights = mul(&aten::exp(result)?, t)?;
    aten::neg(&mul(&weights, &summed(grad, dim)?)?)
}

/// `exp(i angle)`.
pub(crate) fn phase(angle: &Tensor) -> Result<Tensor> {
    aten::polar(&ones(angle)?, angle)
}

/// A quarter turn.
pub(crate) fn turned(x: &Tensor) -> Result<Tensor> {
    aten::mul_scalar(x, Scalar::Complex(0.0, 1.0))
}

/// The mean over dimensions.
pub(crate) fn averaged(t: &Tensor, dims: impl Reduced, keepdim: bool) -> Result<Tensor> {
    aten::mean_dim(t, dims.dims(), keepdim, None)
}

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn trilinear(
    a: &Tensor,
    b: &Tensor,
    c: &Tensor,
    expand_a: &[i64],
    expand_b: &[i64],
    expand_c: &[i64],
    summed: &[i64],
) -> Result<Tensor> {
    aten::_trilinear(a, b, c, expand_a, expand_b, expand_c, summed, 1)
}

/// A convolution that is not transposed, in the order of its other schema.
pub(crate) fn convolved_plainly(
    input: &Tensor,
    weight: &Tensor,
    padding: &[i64],
    stride: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let none = vec![0; stride.len()];
    convolved(input, weight, stride, padding, dilation, false, &none, groups)
}
