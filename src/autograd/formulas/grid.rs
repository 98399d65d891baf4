//! Second derivatives of sampling at the points of a grid.
//!
//! A sample is a sum over taps, `sum(a_i(x) b_j(y) input[i, j])`, with polynomials of the distance to
//! a tap as weights. Its derivatives are the same sums with the derivatives of the polynomials.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

const ONE: Scalar = Scalar::Int(1);

/// Nearest neighbours: constant between the jumps.
const NEAREST: i64 = 1;
const CUBIC: i64 = 2;
const BORDER: i64 = 1;
const REFLECTION: i64 = 2;

/// The weights of taps, as coefficients of the powers of the distance to the tap below.
const LINEAR_TAPS: &[&[f64]] = &[&[1.0, -1.0], &[0.0, 1.0]];
const CUBIC_TAPS: &[&[f64]] = &[
    &[0.0, -0.75, 1.5, -0.75],
    &[1.0, 0.0, -2.25, 1.25],
    &[0.0, 0.75, 1.5, -1.25],
    &[0.0, 0.0, -0.75, 0.75],
];

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::add_tensor(a, b, ONE)
}

fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    aten::mul_tensor(a, b)
}

fn plus(t: &Tensor, n: f64) -> Result<Tensor> {
    aten::add_scalar(t, Scalar::Float(n), ONE)
}

fn times(t: &Tensor, n: f64) -> Result<Tensor> {
    aten::mul_scalar(t, Scalar::Float(n))
}

fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    aten::to_dtype(t, dtype, false, false, None)
}

fn accumulate(sum: &mut Option<Tensor>, term: Tensor) -> Result<()> {
    *sum = Some(match sum {
        Some(sum) => add(sum, &term)?,
        None => term,
    });
    Ok(())
}

/// A polynomial and its first two derivatives at `t`.
fn polynomial(coefficients: &[f64], t: &Tensor) -> Result<[Tensor; 3]> {
    let slope = |c: &[f64]| -> Vec<f64> {
        c.iter().enumerate().skip(1).map(|(power, c)| power as f64 * c).collect()
    };
    let value = |c: &[f64]| -> Result<Tensor> {
        let mut sum = aten::zeros_like(t, None, None, None, None, None)?;
        for c in c.iter().rev() {
            sum = plus(&mul(&sum, t)?, *c)?;
        }
        Ok(sum)
    };
    let first = slope(coefficients);
    Ok([value(coefficients)?, value(&first)?, value(&slope(&first))?])
}

/// What is left out within `low..=high`, with a factor of 1 inside and 0 outside.
fn clipped(at: &Tensor, high: f64) -> Result<(Tensor, Tensor)> {
    let inside = aten::logical_and(
        &aten::gt_scalar(at, Scalar::Float(0.0))?,
        &aten::lt_scalar(at, Scalar::Float(high))?,
    )?;
    let inside = cast(&inside, at.dtype())?;
    let at = aten::clamp(at, Some(Scalar::Float(0.0)), Some(Scalar::Float(high)))?;
    Ok((at, inside))
}

/// Coordinates mirrored at both ends as often as needed, and 1 or -1 as they run on or back.
fn reflected(at: &Tensor, size: i64, align_corners: bool) -> Result<(Tensor, Tensor)> {
    let (low, span) = match align_corners {
        true => (0.0, (size - 1) as f64),
        false => (-0.5, size as f64),
    };
    if span <= 0.0 {
        let zeros = aten::zeros_like(at, None, None, None, None, None)?;
        return Ok((zeros.clone(), zeros));
    }
    let from_low = plus(at, -low)?;
    let ones = aten::ones_like(at, None, None, None, None, None)?;
    let backwards = aten::neg(&ones)?;
    let below = aten::lt_scalar(&from_low, Scalar::Float(0.0))?;
    let sign = aten::where_self(&below, &backwards, &ones)?;
    let from_low = mul(&from_low, &sign)?;
    let extra = aten::fmod_scalar(&from_low, Scalar::Float(span))?;
    let flips = aten::floor(&aten::div_scalar(&from_low, Scalar::Float(span))?)?;
    let odd = aten::ne_scalar(&aten::fmod_scalar(&flips, Scalar::Int(2))?, Scalar::Int(0))?;
    let turn = aten::where_self(&odd, &backwards, &ones)?;
    let mirrored = aten::rsub_scalar(&extra, Scalar::Float(span), ONE)?;
    let at = plus(&aten::where_self(&odd, &mirrored, &extra)?, low)?;
    Ok((at, mul(&sign, &turn)?))
}

/// A tap of one axis: where it is, and its weight with two derivatives, 0 for one that is outside.
struct Tap {
    place: Tensor,
    weight: [Tensor; 3],
}

/// What the samples take along one axis.
struct Axis {
    taps: Vec<Tap>,
    /// How fast a coordinate of the input moves with that of the grid.
    pace: Tensor,
}

impl Axis {
    fn new(grid: &Tensor, size: i64, mode: i64, padding: i64, align: bool) -> Result<Axis> {
        let n = size as f64;
        let (scale, shift) = match align {
            true => ((n - 1.0) / 2.0, (n - 1.0) / 2.0),
            false => (n / 2.0, (n - 1.0) / 2.0),
        };
        let mut at = plus(&times(grid, scale)?, shift)?;
        let mut pace = aten::full_like(grid, Scalar::Float(scale), None, None, None, None, None)?;
        let padded = |at: &Tensor| -> Result<(Tensor, Tensor)> {
            if padding != REFLECTION {
                return clipped(at, n - 1.0);
            }
            let (at, sign) = reflected(at, size, align)?;
            let (at, inside) = clipped(&at, n - 1.0)?;
            Ok((at, mul(&sign, &inside)?))
        };
        // cubic samples pad the taps, the others the coordinates
        let of_taps = mode == CUBIC;
        let pads = matches!(padding, BORDER | REFLECTION);
        if pads && !of_taps {
            let (moved, factor) = padded(&at)?;
            (at, pace) = (moved, mul(&pace, &factor)?);
        }
        let below = aten::detach(&aten::floor(&at)?)?;
        let distance = aten::sub_tensor(&at, &below, ONE)?;
        let (weights, first) = if of_taps { (CUBIC_TAPS, -1) } else { (LINEAR_TAPS, 0) };
        let mut taps = Vec::new();
        for (i, coefficients) in weights.iter().enumerate() {
            let mut place = plus(&below, (first + i as i64) as f64)?;
            let mut weight = polynomial(coefficients, &distance)?;
            if pads && of_taps {
                place = padded(&place)?.0;
            } else {
                let inside = aten::logical_and(
                    &aten::ge_scalar(&place, Scalar::Int(0))?,
                    &aten::le_scalar(&place, Scalar::Float(n - 1.0))?,
                )?;
                let inside = cast(&inside, grid.dtype())?;
                for w in &mut weight {
                    *w = mul(w, &inside)?;
                }
                place = aten::clamp(&place, Some(Scalar::Int(0)), Some(Scalar::Float(n - 1.0)))?;
            }
            taps.push(Tap { place: cast(&place, DType::I64)?, weight });
        }
        Ok(Axis { taps, pace })
    }
}

/// The samples of a call with what they are differentiated along: a movement of each coordinate.
struct Samples {
    axes: Vec<Axis>,
    /// The speed of each axis' coordinate in the input, `pace` times the movement.
    speeds: Vec<Tensor>,
    sizes: Vec<i64>,
}

/// What is differentiated: each axis' number of derivatives.
type Orders = Vec<usize>;

impl Samples {
    fn count(&self) -> usize {
        self.axes.iter().map(|a| a.taps.len()).product()
    }

    /// The taps of the axes that together are the `k`-th.
    fn taps(&self, k: usize) -> Vec<&Tap> {
        let mut rest = k;
        (self.axes.iter())
            .filter_map(|axis| {
                let tap = axis.taps.get(rest % axis.taps.len());
                rest /= axis.taps.len();
                tap
            })
            .collect()
    }

    /// A tap's place among the elements of a channel, `[N, 1, points]`.
    fn place(&self, taps: &[&Tap]) -> Result<Tensor> {
        let mut place: Option<Tensor> = None;
        // axes run from the last dimension to the first
        for (tap, size) in taps.iter().zip(&self.sizes).rev() {
            place = Some(match place {
                Some(p) => add(&aten::mul_scalar(&p, Scalar::Int(*size))?, &tap.place)?,
                None => tap.place.clone(),
            });
        }
        let place = place.ok_or_else(|| Error::runtime("a grid without axes"))?;
        aten::unsqueeze(&place, 1)
    }

    fn weight(taps: &[&Tap], orders: &Orders) -> Result<Tensor> {
        let mut product: Option<Tensor> = None;
        for (tap, order) in taps.iter().zip(orders) {
            let factor = &tap.weight[*order];
            product = Some(match product {
                Some(p) => mul(&p, factor)?,
                None => factor.clone(),
            });
        }
        product.ok_or_else(|| Error::runtime("a grid without axes"))
    }

    /// The derivative of a tap's weight along the movement, and, with an axis, the derivative of that.
    fn moved_weight(&self, taps: &[&Tap], again: Option<usize>) -> Result<Tensor> {
        let mut sum = None;
        for (axis, speed) in self.speeds.iter().enumerate() {
            let mut orders = vec![0; taps.len()];
            orders[axis] += 1;
            if let Some(other) = again {
                orders[other] += 1;
            }
            accumulate(&mut sum, mul(&Samples::weight(taps, &orders)?, speed)?)?;
        }
        aten::unsqueeze(&sum.ok_or_else(|| Error::runtime("a grid without axes"))?, 1)
    }
}

/// Of the gradients of a sampling's input and grid, with respect to the gradient that came in, the
/// input and the grid.
#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
pub(crate) fn grid_sampler_double_backward(
    grads: &[Option<Tensor>],
    grad: &Tensor,
    x: &Tensor,
    grid: &Tensor,
    mode: i64,
    padding: i64,
    align: bool,
    mask: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    let given = |i: usize| grads.get(i).and_then(Option::as_ref);
    let (by_x, by_grid) = (given(0), given(1));
    let (mut of_grad, mut of_x, mut of_grid) = (None, None, None);
    if let Some(v) = by_x {
        // a sampling is linear in its input
        if wanted(0) {
            of_grad = Some(aten::grid_sampler(v, grid, mode, padding, align)?);
        }
        if wanted(2) {
            let backward = match x.dim() {
                4 => aten::grid_sampler_2d_backward,
                _ => aten::grid_sampler_3d_backward,
            };
            of_grid = Some(backward(grad, v, grid, mode, padding, align, &[false, true])?.1);
        }
    }
    let Some(v) = by_grid.filter(|_| mode != NEAREST) else {
        return Ok([of_grad, of_x, of_grid]);
    };
    let spatial = x.dim().saturating_sub(2);
    let (batch, channels) = (x.sizes()[0], x.sizes()[1]);
    let coordinates = |t: &Tensor| -> Result<Vec<Tensor>> {
        aten::unbind_int(&aten::reshape(t, &[batch, -1, spatial as i64])?, 2)
    };
    // the first coordinate is that of the last dimension
    let sizes: Vec<i64> = x.sizes()[2..].iter().rev().copied().collect();
    let axes: Vec<Axis> = (coordinates(grid)?.iter().zip(&sizes))
        .map(|(at, size)| Axis::new(at, *size, mode, padding, align))
        .collect::<Result<_>>()?;
    let speeds = (coordinates(v)?.iter().zip(&axes))
        .map(|(v, axis)| mul(v, &axis.pace))
        .collect::<Result<_>>()?;
    let samples = Samples { axes, speeds, sizes };
    let flat = aten::reshape(x, &[batch, channels, -1])?;
    let points = aten::reshape(grad, &[batch, channels, -1])?;
    let mut sum = None;
    let mut spread = match wanted(1) {
        true => Some(aten::zeros_like(&flat, None, None, None, None, None)?),
        false => None,
    };
    let mut of_axes: Vec<Option<Tensor>> = vec![None; spatial];
    for k in 0..samples.count() {
        let taps = samples.taps(k);
        let place = aten::expand(&samples.place(&taps)?, points.sizes(), false)?;
        let moved = samples.moved_weight(&taps, None)?;
        if let Some(into) = &mut spread {
            *into = aten::scatter_add(into, 2, &place, &mul(&points, &moved)?)?;
        }
        if !wanted(0) && !wanted(2) {
            continue;
        }
        let found = aten::gather(&flat, 2, &place, false)?;
        if wanted(0) {
            accumulate(&mut sum, mul(&found, &moved)?)?;
        }
        if wanted(2) {
            let both = aten::sum_dim_int_list(&mul(&found, &points)?, Some(&[1]), true, None)?;
            for (axis, total) in of_axes.iter_mut().enumerate() {
                accumulate(total, mul(&both, &samples.moved_weight(&taps, Some(axis))?)?)?;
            }
        }
    }
    if let Some(sum) = sum {
        accumulate(&mut of_grad, aten::reshape(&sum, grad.sizes())?)?;
    }
    if let Some(spread) = spread {
        of_x = Some(aten::reshape(&spread, x.sizes())?);
    }
    if wanted(2) {
        let parts = (of_axes.into_iter().flatten().zip(&samples.axes))
            .map(|(total, axis)| mul(&aten::squeeze_dim(&total, 1)?, &axis.pace))
            .collect::<Result<Vec<_>>>()?;
        let all = aten::reshape(&aten::stack(&parts, 2)?, grid.sizes())?;
        accumulate(&mut of_grid, all)?;
    }
    Ok([of_grad, of_x, of_grid])
}
