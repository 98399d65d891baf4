//! Differences and integrals of samples: `gradient`, `trapezoid`, `cumulative_trapezoid`.

use super::{add, part, sub};
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

// ---- gradient ---------------------------------------------------------------------------------

/// What lies between the samples along one dimension.
enum Spacing<'a> {
    Same(Scalar),
    /// where each sample lies
    At(&'a Tensor),
}

/// The dimensions to differentiate along: all of them where none is named.
fn directions(t: &Tensor, dim: Option<&[i64]>, edge_order: i64) -> Result<Vec<usize>> {
    ensure!(t.dtype() != DType::U8, "torch.gradient does not support uint8 input.");
    ensure!(
        edge_order == 1 || edge_order == 2,
        "torch.gradient only supports edge_order=1 and edge_order=2."
    );
    let dims: Vec<usize> = match dim {
        Some(dim) => dim.iter().map(|d| wrap_dim(*d, t.dim())).collect::<Result<_>>()?,
        None => (0..t.dim()).collect(),
    };
    for (i, &d) in dims.iter().enumerate() {
        ensure!(!dims[..i].contains(&d), "dim {d} appears multiple times in the list of dims");
        ensure_shape!(
            t.sizes()[d] > edge_order,
            "torch.gradient expected each dimension size to be at least edge_order+1"
        );
    }
    Ok(dims)
}

/// `a x + b y + c z` with weights that broadcast.
fn weighted(parts: [(&Tensor, Tensor); 3]) -> Result<Tensor> {
    let [(a, x), (b, y), (c, z)] = parts;
    let first = add(&aten::mul_tensor(a, &x)?, &aten::mul_tensor(b, &y)?)?;
    add(&first, &aten::mul_tensor(c, &z)?)
}

/// Central differences between the two at the edges.
fn joined(first: Tensor, center: Tensor, last: Tensor, d: i64) -> Result<Tensor> {
    let dtype = center.dtype();
    let same = |t: Tensor| aten::to_dtype(&t, dtype, false, false, None);
    aten::cat(&[same(first)?, center, same(last)?], d)
}

/// Differences of samples that lie equally far from each other.
fn even(t: &Tensor, step: Scalar, d: i64, edge_order: i64) -> Result<Tensor> {
    let at = |start, end| part(t, d, start, end);
    let times = |start, end, by: f64| aten::mul_scalar(&at(start, end)?, Scalar::Float(by));
    let center = aten::div_scalar(&sub(&at(2, None)?, &at(0, Some(-2))?)?, step)?;
    let center = aten::div_scalar(&center, Scalar::Int(2))?;
    let (first, last) = if edge_order == 1 {
        (sub(&at(1, Some(2))?, &at(0, Some(1))?)?, sub(&at(-1, None)?, &at(-2, Some(-1))?)?)
    } else {
        (
            sub(
                &add(&times(0, Some(1), -1.5)?, &times(1, Some(2), 2.0)?)?,
                &times(2, Some(3), 0.5)?,
            )?,
            add(
                &sub(&times(-3, Some(-2), 0.5)?, &times(-2, Some(-1), 2.0)?)?,
                &times(-1, None, 1.5)?,
            )?,
        )
    };
    joined(aten::div_scalar(&first, step)?, center, aten::div_scalar(&last, step)?, d)
}

/// Differences of samples at given places.
fn uneven(t: &Tensor, places: &Tensor, d: i64, edge_order: i64) -> Result<Tensor> {
    ensure_shape!(
        places.dim() == 1 && places.sizes()[0] == t.sizes()[d as usize],
        "torch.gradient expected each element of spacing to have one dimension of as many elements as \
         the input has along it, {}, and this one has sizes {:?}",
        t.sizes()[d as usize],
        places.sizes()
    );
    let mut shape = vec![1; t.dim()];
    shape[d as usize] = -1;
    let steps = aten::diff(places, 1, 0, None, None)?;
    let step = |i| part(&steps, 0, i, if i == -1 { None } else { Some(i + 1) });
    let div = |a: &Tensor, b: &Tensor| aten::reshape(&aten::div_tensor(a, b)?, &shape);
    let mul = aten::mul_tensor;
    let at = |start, end| part(t, d, start, end);
    // -b / (a (a + b)), (b - a) / (a b), a / (b (a + b))
    let (a, b) = (part(&steps, 0, 0, Some(-1))?, part(&steps, 0, 1, None)?);
    let sum = add(&a, &b)?;
    let center = weighted([
        (&div(&aten::neg(&b)?, &mul(&a, &sum)?)?, at(0, Some(-2))?),
        (&div(&sub(&b, &a)?, &mul(&a, &b)?)?, at(1, Some(-1))?),
        (&div(&a, &mul(&b, &sum)?)?, at(2, None)?),
    ])?;
    let (first, last) = if edge_order == 1 {
        let by = |difference: Tensor, i| {
            aten::div_tensor(&difference, &aten::reshape(&step(i)?, &shape)?)
        };
        (
            by(sub(&at(1, Some(2))?, &at(0, Some(1))?)?, 0)?,
            by(sub(&at(-1, None)?, &at(-2, Some(-1))?)?, -1)?,
        )
    } else {
        // a parabola through the three samples next to the edge, from the edge inwards
        let edge = |a: Tensor, b: Tensor| -> Result<[Tensor; 3]> {
            let sum = add(&a, &b)?;
            Ok([
                aten::neg(&div(&add(&a, &sum)?, &mul(&a, &sum)?)?)?,
                div(&sum, &mul(&a, &b)?)?,
                aten::neg(&div(&a, &mul(&b, &sum)?)?)?,
            ])
        };
        let [x, y, z] = edge(step(0)?, step(1)?)?;
        let first =
            weighted([(&x, at(0, Some(1))?), (&y, at(1, Some(2))?), (&z, at(2, Some(3))?)])?;
        let [x, y, z] = edge(step(-1)?, step(-2)?)?;
        let last =
            weighted([(&z, at(-3, Some(-2))?), (&y, at(-2, Some(-1))?), (&x, at(-1, None)?)])?;
        (first, aten::neg(&last)?)
    };
    joined(first, center, last, d)
}

fn along<'a>(
    t: &Tensor,
    dims: &[usize],
    edge_order: i64,
    spacing: impl Fn(usize) -> Spacing<'a>,
) -> Result<Vec<Tensor>> {
    let one = |(i, d): (usize, &usize)| match spacing(i) {
        Spacing::Same(step) => even(t, step, *d as i64, edge_order),
        Spacing::At(places) => uneven(t, places, *d as i64, edge_order),
    };
    dims.iter().enumerate().map(one).collect()
}

fn as_many(dims: &[usize], given: usize) -> Result<()> {
    ensure!(
        dims.len() == given,
        "torch.gradient expected spacing to be unspecified, a scalar, or a list of as many elements as \
         there are dimensions, {}, but it has {given}",
        dims.len()
    );
    Ok(())
}

/// With one distance, 1 where none is given, along one dimension or all.
pub(crate) fn gradient_scalarint(
    t: &Tensor,
    spacing: Option<Scalar>,
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let one = dim.map(|d| [d]);
    let dims = directions(t, one.as_ref().map(|d| &d[..]), edge_order)?;
    along(t, &dims, edge_order, |_| Spacing::Same(spacing.unwrap_or(Scalar::Int(1))))
}

pub(crate) fn gradient_scalararray(
    t: &Tensor,
    spacing: Scalar,
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let dims = directions(t, Some(dim), edge_order)?;
    along(t, &dims, edge_order, |_| Spacing::Same(spacing))
}

pub(crate) fn gradient_array(t: &Tensor, dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    gradient_scalararray(t, Scalar::Int(1), dim, edge_order)
}

pub(crate) fn gradient_tensorarrayint(
    t: &Tensor,
    spacing: &[Tensor],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let one = dim.map(|d| [d]);
    let dims = directions(t, one.as_ref().map(|d| &d[..]), edge_order)?;
    as_many(&dims, spacing.len())?;
    along(t, &dims, edge_order, |i| Spacing::At(&spacing[i]))
}

pub(crate) fn gradient_tensorarray(
    t: &Tensor,
    spacing: &[Tensor],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let dims = directions(t, Some(dim), edge_order)?;
    as_many(&dims, spacing.len())?;
    along(t, &dims, edge_order, |i| Spacing::At(&spacing[i]))
}

// ---- integrals --------------------------------------------------------------------------------

fn without(y: &Tensor, d: usize) -> Result<Tensor> {
    let mut sizes = y.sizes().to_vec();
    sizes.remove(d);
    aten::new_zeros(y, &sizes, None, None, None, None)
}

fn dimension(y: &Tensor, dim: i64, what: &str) -> Result<usize> {
    ensure!(
        y.dtype() != DType::Bool,
        "{what}: received a bool input for `y`, but bool is not supported"
    );
    ensure!(y.dim() > 0, "{what}: `y` has no dimension to integrate along");
    wrap_dim(dim, y.dim())
}

/// The lengths between samples, in as many dimensions as the samples have.
fn lengths(y: &Tensor, x: &Tensor, d: usize, what: &str) -> Result<Tensor> {
    ensure!(
        x.dtype() != DType::Bool,
        "{what}: received a bool input for `x`, but bool is not supported"
    );
    let x = if x.dim() == 1 {
        ensure_shape!(
            x.sizes()[0] == y.sizes()[d],
            "{what}: There must be one `x` value for each sample point"
        );
        let mut shape = vec![1; y.dim()];
        shape[d] = -1;
        aten::reshape(x, &shape)?
    } else if x.dim() < y.dim() {
        let mut shape = vec![1; y.dim() - x.dim()];
        shape.extend_from_slice(x.sizes());
        aten::reshape(x, &shape)?
    } else {
        x.clone()
    };
    sub(&part(&x, d as i64, 1, None)?, &part(&x, d as i64, 0, Some(-1))?)
}

/// Twice the mean heights between neighbours.
fn heights(y: &Tensor, d: usize) -> Result<Tensor> {
    add(&part(y, d as i64, 0, Some(-1))?, &part(y, d as i64, 1, None)?)
}

pub(crate) fn trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    let d = dimension(y, dim, "trapezoid")?;
    if y.sizes()[d] == 0 {
        return without(y, d);
    }
    ensure!(!dx.is_complex(), "trapezoid: Currently, we only support dx as a real number.");
    let at = d as i64;
    let ends = add(&aten::select_int(y, at, 0)?, &aten::select_int(y, at, -1)?)?;
    let all = aten::sum_dim_int_list(y, Some(&[at]), false, None)?;
    let sum = sub(&all, &aten::mul_scalar(&ends, Scalar::Float(0.5))?)?;
    aten::mul_scalar(&sum, Scalar::Float(dx.as_f64()))
}

pub(crate) fn trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = dimension(y, dim, "trapezoid")?;
    if y.sizes()[d] == 0 {
        return without(y, d);
    }
    let areas = aten::mul_tensor(&heights(y, d)?, &lengths(y, x, d, "trapezoid")?)?;
    let sum = aten::sum_dim_int_list(&areas, Some(&[d as i64]), false, None)?;
    aten::div_scalar(&sum, Scalar::Float(2.0))
}

pub(crate) fn cumulative_trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    let d = dimension(y, dim, "cumulative_trapezoid")?;
    ensure!(
        !dx.is_complex(),
        "cumulative_trapezoid: Currently, we only support dx as a real number."
    );
    let areas = aten::mul_scalar(&heights(y, d)?, Scalar::Float(dx.as_f64() / 2.0))?;
    aten::cumsum(&areas, d as i64, None)
}

pub(crate) fn cumulative_trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = dimension(y, dim, "cumulative_trapezoid")?;
    let lengths = lengths(y, x, d, "cumulative_trapezoid")?;
    let areas = aten::mul_tensor(&lengths, &heights(y, d)?)?;
    aten::div_scalar(&aten::cumsum(&areas, d as i64, None)?, Scalar::Float(2.0))
}
