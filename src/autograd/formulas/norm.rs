//! Gradients of norms, as far as they are no operators of their own, and their second derivatives.
//!
//! All of them normalise: `y = (x - mean) * rstd`, over some dimensions, and what comes back through
//! that is [`Normal::back`].

use crate::autograd::grad_enabled;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{Dims, Scalar};

pub(crate) use crate::ops::aten::native_layer_norm_backward;

/// Of an input, a weight and a bias, or of an input, a weight and a gradient.
type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

const ONE: Scalar = Scalar::Int(1);

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, b, ONE)
}

fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::sub_tensor(a, b, ONE)
}

fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::mul_tensor(a, b)
}

/// Adds to what is there, if there is anything.
fn gather_into(sum: &mut Option<Tensor>, term: Tensor) -> Result<()> {
    *sum = Some(match sum {
        Some(sum) => add(sum, &term)?,
        None => term,
    });
    Ok(())
}

fn given(grads: &[Option<Tensor>], i: usize) -> Option<&Tensor> {
    grads.get(i).and_then(Option::as_ref)
}

fn wanted<const N: usize>(mask: &[bool]) -> Result<[bool; N]> {
    <[bool; N]>::try_from(mask).map_err(|_| Error::runtime(format!("a mask of {N}: {mask:?}")))
}

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn batch_norm_backward<'a>(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    running_mean: impl Into<Option<&'a Tensor>>,
    running_var: impl Into<Option<&'a Tensor>>,
    mean: &Tensor,
    invstd: &Tensor,
    training: bool,
    eps: f64,
    mask: &[bool],
) -> Result<Three> {
    aten::native_batch_norm_backward(
        grad,
        x,
        weight,
        running_mean.into(),
        running_var.into(),
        Some(mean),
        Some(invstd),
        training,
        eps,
        mask,
    )
}

/// The same where there are no running statistics, or where they do not matter: in training.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn batch_norm_own_backward(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    mean: &Tensor,
    invstd: &Tensor,
    training: bool,
    eps: f64,
    mask: &[bool],
) -> Result<Three> {
    batch_norm_backward(grad, x, weight, None, None, mean, invstd, training, eps, mask)
}

/// Something normalised, of sizes that all its operands broadcast to.
struct Normal {
    /// `(x - mean) * rstd`.
    unit: Tensor,
    rstd: Tensor,
    /// The dimensions that the statistics are of; none where they are given numbers.
    over: Dims,
    /// The dimensions that a weight is the same along.
    along: Dims,
}

impl Normal {
    /// Of given statistics; where derivatives are recorded they are taken from `x` again, so that they
    /// are functions of it. What was added to the variance follows from `rstd`.
    fn new(x: &Tensor, mean: &Tensor, rstd: &Tensor, over: Dims, along: Dims) -> Result<Normal> {
        if over.is_empty() || !grad_enabled() {
            let unit = mul(&sub(x, mean)?, rstd)?;
            return Ok(Normal { unit, rstd: rstd.clone(), over, along });
        }
        let centred = sub(x, &aten::mean_dim(x, Some(&over), true, None)?)?;
        let variance = aten::mean_dim(&mul(&centred, &centred)?, Some(&over), true, None)?;
        let whole = aten::reciprocal(&mul(rstd, rstd)?)?;
        let added = aten::detach(&sub(&whole, &variance)?)?;
        let rstd = aten::rsqrt(&add(&variance, &added)?)?;
        Ok(Normal { unit: mul(&centred, &rstd)?, rstd, over, along })
    }

    fn mean(&self, t: &Tensor) -> Result<Tensor> {
        aten::mean_dim(t, Some(&self.over), true, None)
    }

    /// The number of elements that a statistic is of.
    fn count(&self) -> f64 {
        let sizes = self.unit.sizes();
        self.over.iter().filter_map(|d| sizes.get(*d as usize)).product::<i64>() as f64
    }

    /// What comes back to `x` of a gradient of `unit`:
    /// `rstd * (g - mean(g) - unit * mean(g * unit))`.
    fn back(&self, g: &Tensor) -> Result<Tensor> {
        if self.over.is_empty() {
            return mul(g, &self.rstd);
        }
        let along = mul(&self.unit, &self.mean(&mul(g, &self.unit)?)?)?;
        mul(&sub(&sub(g, &self.mean(g)?)?, &along)?, &self.rstd)
    }

    /// A gradient of what a weight was spread to.
    fn of_weight(&self, t: &Tensor) -> Result<Tensor> {
        // no dimensions would mean all
        match self.along.is_empty() {
            true => Ok(t.clone()),
            false => aten::sum_dim_int_list(t, Some(&self.along), true, None),
        }
    }

    /// Of `<v, back(g * weight)>`, of which the input's gradient is made, what comes back to `x`. Where
    /// `a`, `b` and `c` are the covariances of `v` with `g * weight`, of `v` with `unit` and of
    /// `g * weight` with `unit`, it is
    /// `-rstd^2 * unit * (a - b c) - rstd * (c back(v) + b back(g * weight))`.
    fn back_twice(&self, v: &Tensor, g: &Tensor) -> Result<Tensor> {
        let (mean_v, mean_g) = (self.mean(v)?, self.mean(g)?);
        let a = sub(&self.mean(&mul(v, g)?)?, &mul(&mean_v, &mean_g)?)?;
        let b = self.mean(&mul(v, &self.unit)?)?;
        let c = self.mean(&mul(g, &self.unit)?)?;
        let spread = mul(&sub(&a, &mul(&b, &c)?)?, &self.rstd)?;
        let sum = add(&mul(&spread, &self.unit)?, &mul(&c, &self.back(v)?)?)?;
        let sum = add(&sum, &mul(&b, &self.back(g)?)?)?;
        aten::neg(&mul(&sum, &self.rstd)?)
    }

    /// The second derivatives: what comes back to the input, the weight and the gradient of the
    /// gradients of input, weight and bias (`grads`), all of sizes that broadcast.
    fn double_backward(
        &self,
        grads: [Option<&Tensor>; 3],
        grad: &Tensor,
        weight: Option<&Tensor>,
        [want_x, want_w, want_g]: [bool; 3],
    ) -> Result<Three> {
        let [by_x, by_w, by_b] = grads;
        let scaled = |t: &Tensor| weight.map_or_else(|| Ok(t.clone()), |w| mul(t, w));
        let (mut of_x, mut of_w, mut of_g) = (None, None, None);
        if let Some(v) = by_x {
            if want_x && !self.over.is_empty() {
                gather_into(&mut of_x, self.back_twice(v, &scaled(grad)?)?)?;
            }
            if want_w || want_g {
                let back = self.back(v)?;
                if want_w {
                    of_w = Some(self.of_weight(&mul(&back, grad)?)?);
                }
                if want_g {
                    gather_into(&mut of_g, scaled(&back)?)?;
                }
            }
        }
        if let Some(v) = by_w {
            if want_x {
                gather_into(&mut of_x, self.back(&mul(v, grad)?)?)?;
            }
            if want_g {
                gather_into(&mut of_g, mul(v, &self.unit)?)?;
            }
        }
        if let Some(v) = by_b.filter(|_| want_g) {
            gather_into(&mut of_g, aten::expand(v, grad.sizes(), false)?)?;
        }
        Ok((of_x, of_w, of_g))
    }
}

/// All dimensions but that of the channels, and the sizes of a vector over the channels.
fn around_channels(x: &Tensor) -> (Dims, Dims) {
    let dims = (0..x.dim() as i64).filter(|d| *d != 1).collect();
    let sizes = (0..x.dim()).map(|d| if d == 1 { -1 } else { 1 }).collect();
    (dims, sizes)
}

/// A tensor in other sizes, where there is one.
fn shaped(t: Option<&Tensor>, sizes: &[i64]) -> Result<Option<Tensor>> {
    t.map(|t| aten::reshape(t, sizes)).transpose()
}

fn in_sizes_of(t: Option<Tensor>, like: Option<&Tensor>) -> Result<Option<Tensor>> {
    match (t, like) {
        (Some(t), Some(like)) if t.sizes() != like.sizes() => {
            Ok(Some(aten::reshape(&t, like.sizes())?))
        }
        (t, _) => Ok(t),
    }
}

/// Of input, weight and gradient.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn batch_norm_double_backward(
    grads: &[Option<Tensor>],
    x: &Tensor,
    weight: Option<&Tensor>,
    grad: &Tensor,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    mean: Option<&Tensor>,
    invstd: Option<&Tensor>,
    training: bool,
    eps: f64,
    mask: &[bool],
) -> Result<Three> {
    let (around, vector) = around_channels(x);
    let missing = || Error::runtime("the gradient of a batch norm needs its statistics");
    let normal = if training {
        let mean = aten::reshape(mean.ok_or_else(missing)?, &vector)?;
        let invstd = aten::reshape(invstd.ok_or_else(missing)?, &vector)?;
        Normal::new(x, &mean, &invstd, around.clone(), around)?
    } else {
        let mean = aten::reshape(running_mean.ok_or_else(missing)?, &vector)?;
        let var = aten::reshape(running_var.ok_or_else(missing)?, &vector)?;
        let invstd = aten::rsqrt(&aten::add_scalar(&var, Scalar::Float(eps), ONE)?)?;
        Normal::new(x, &mean, &invstd, Dims::new(), around)?
    };
    let scale = shaped(weight, &vector)?;
    let (by_w, by_b) = (shaped(given(grads, 1), &vector)?, shaped(given(grads, 2), &vector)?);
    let grads = [given(grads, 0), by_w.as_ref(), by_b.as_ref()];
    let (of_x, of_w, of_g) = normal.double_backward(grads, grad, scale.as_ref(), wanted(mask)?)?;
    Ok((of_x, in_sizes_of(of_w, weight)?, of_g))
}

/// Of input, weight and gradient.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn layer_norm_double_backward(
    grads: &[Option<Tensor>],
    x: &Tensor,
    weight: Option<&Tensor>,
    grad: &Tensor,
    shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    mask: &[bool],
) -> Result<Three> {
    let rank = x.dim() as i64;
    let first = rank - shape.len() as i64;
    let mut sizes = Dims::from_slice(&x.sizes()[..first.max(0) as usize]);
    sizes.resize(x.dim(), 1);
    let (mean, rstd) = (aten::reshape(mean, &sizes)?, aten::reshape(rstd, &sizes)?);
    let normal = Normal::new(x, &mean, &rstd, (first..rank).collect(), (0..first).collect())?;
    let grads = [given(grads, 0), given(grads, 1), given(grads, 2)];
    let (of_x, of_w, of_g) = normal.double_backward(grads, grad, weight, wanted(mask)?)?;
    Ok((of_x, in_sizes_of(of_w, weight)?, of_g))
}

/// Of input, weight and bias: the kernel, or, where derivatives are recorded or the statistics have
/// gradients themselves, by operators.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn group_norm_backward(
    grads: &[Option<Tensor>],
    x: &Tensor,
    weight: Option<&Tensor>,
    mean: &Tensor,
    rstd: &Tensor,
    n: i64,
    c: i64,
    hw: i64,
    group: i64,
    mask: &[bool],
) -> Result<Three> {
    let (by_y, by_mean, by_rstd) = (given(grads, 0), given(grads, 1), given(grads, 2));
    if let (Some(grad), None, None, false) = (by_y, by_mean, by_rstd, grad_enabled()) {
        return aten::native_group_norm_backward(
            grad, x, mean, rstd, weight, n, c, hw, group, mask,
        );
    }
    let [want_x, want_w, want_b] = wanted(mask)?;
    let each = c / group.max(1);
    let parts = [n, group, each, hw];
    let of_groups = |t: Option<&Tensor>| shaped(t, &[n, group, 1, 1]);
    let missing = || Error::runtime("the statistics of a group norm");
    let (mean, rstd) =
        (of_groups(Some(mean))?.ok_or_else(missing)?, of_groups(Some(rstd))?.ok_or_else(missing)?);
    let flat = aten::reshape(x, &parts)?;
    let over = Dims::from_slice(&[2, 3]);
    let normal = Normal::new(&flat, &mean, &rstd, over, Dims::from_slice(&[0, 3]))?;
    let scale = shaped(weight, &[1, group, each, 1])?;
    let (mut of_x, mut of_w, mut of_b) = (None, None, None);
    if let Some(grad) = by_y {
        let grad = aten::reshape(grad, &parts)?;
        if want_x {
            let scaled = scale.as_ref().map_or_else(|| Ok(grad.clone()), |w| mul(&grad, w))?;
            of_x = Some(normal.back(&scaled)?);
        }
        if want_w {
            let of_scale = normal.of_weight(&mul(&grad, &normal.unit)?)?;
            of_w = Some(aten::reshape(&of_scale, &[c])?);
        }
        if want_b {
            of_b = Some(aten::reshape(&normal.of_weight(&grad)?, &[c])?);
        }
    }
    if want_x {
        let count = Scalar::Float(normal.count());
        if let Some(v) = of_groups(by_mean)? {
            let each = aten::expand(&aten::div_scalar(&v, count)?, &parts, false)?;
            gather_into(&mut of_x, each)?;
        }
        if let Some(v) = of_groups(by_rstd)? {
            let square = mul(&normal.rstd, &normal.rstd)?;
            let each = aten::neg(&mul(&aten::div_scalar(&v, count)?, &square)?)?;
            gather_into(&mut of_x, mul(&normal.unit, &each)?)?;
        }
    }
    Ok((of_x.map(|t| aten::reshape(&t, x.sizes())).transpose()?, of_w, of_b))
}

/// Of `v` and `g` in `v * g / norm(v)`.
pub(crate) fn weight_norm_backward(
    grad: &Tensor,
    v: &Tensor,
    g: &Tensor,
    norms: &Tensor,
    dim: i64,
) -> Result<[Option<Tensor>; 2]> {
    if !grad_enabled() {
        let (of_v, of_g) = aten::_weight_norm_interface_backward(grad, v, g, norms, dim)?;
        return Ok([Some(of_v), Some(of_g)]);
    }
    let dims: Dims = (0..v.dim() as i64).filter(|d| *d != dim).collect();
    let total = |t: &Tensor| aten::sum_dim_int_list(t, Some(&dims), true, None);
    let norm = aten::sqrt(&total(&mul(v, v)?)?)?;
    let scale = aten::div_tensor(&aten::reshape(g, norm.sizes())?, &norm)?;
    let dot = aten::div_tensor(&total(&mul(grad, v)?)?, &norm)?;
    let along = mul(v, &aten::div_tensor(&dot, &norm)?)?;
    let of_v = mul(&scale, &sub(grad, &along)?)?;
    Ok([Some(of_v), Some(aten::reshape(&dot, g.sizes())?)])
}
