//! Linear layers, matrix products, softmax, transposes.

use super::{build, components, map};
use crate::error::{Error, Result};
use crate::ops::common::wrap_dim;
use crate::ops::matmul as plain;
use crate::ops::nn::softmax;
use crate::ops::view;
use crate::tensor::Tensor;

pub(crate) fn linear(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    ensure!(
        x.is_nested() && !w.is_nested() && !bias.is_some_and(Tensor::is_nested),
        "linear takes a nested input with a dense weight and bias"
    );
    ensure!(w.dim() == 2, "linear: the weight must be a matrix, got {:?}", w.sizes());
    let wt = view::t(w)?;
    map(x, |p| {
        let last = p.sizes().last().copied().unwrap_or(1);
        ensure_shape!(
            last == w.sizes()[1] && p.dim() == 2,
            "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal \
                 'weight.size(1), but got: last_dim = {last}, and weight.size(1) = {}; components are matrices",
            w.sizes()[1]
        );
        match bias {
            Some(b) => plain::addmm(b, p, &wt, 1.into(), 1.into()),
            None => plain::mm(p, &wt),
        }
    })
}

pub(crate) fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (nested, dense) = ("a nested", "non-nested");
    match (a.is_nested(), b.is_nested()) {
        (true, true) => {}
        (true, false) => {
            return Err(Error::runtime(format!(
                "Expected both to be nested, but got {nested} self and {dense} other: use `linear` for a dense weight"
            )));
        }
        _ => {
            return Err(Error::runtime(format!(
                "Expected both to be nested, but got a {dense} self and nested other"
            )));
        }
    }
    let (ca, cb) = (components(a)?, components(b)?);
    ensure_shape!(
        ca.len() == cb.len(),
        "matmul: the batches have {} and {} components",
        ca.len(),
        cb.len()
    );
    let product = |(x, y): (&Tensor, &Tensor)| match (x.dim(), y.dim()) {
        (2, 2) => plain::mm(x, y),
        (3, 3) => plain::bmm(x, y),
        (n, m) => Err(Error::runtime(format!(
            "matmul: components of nested tensors are matrices or batches of them, got {n} and {m} dimensions"
        ))),
    };
    let made: Vec<Tensor> = ca.iter().zip(cb).map(product).collect::<Result<_>>()?;
    Ok(build(made, a.dtype(), a.device()))
}

/// A dimension of the batch as one of its components.
fn inner_dim(t: &Tensor, dim: i64, what: &str) -> Result<i64> {
    match wrap_dim(dim, t.dim())? {
        0 => Err(Error::runtime(format!("Cannot apply {what} across nested dimension 0"))),
        d => Ok(d as i64 - 1),
    }
}

pub(crate) fn softmax(t: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    let dim = inner_dim(t, dim, "softmax")?;
    map(t, |p| softmax::softmax(p, dim, half_to_float))
}

pub(crate) fn transpose(t: &Tensor, a: i64, b: i64) -> Result<Tensor> {
    if wrap_dim(a, t.dim())? == wrap_dim(b, t.dim())? {
        return Ok(t.clone());
    }
    let (a, b) = (inner_dim(t, a, "transpose")?, inner_dim(t, b, "transpose")?);
    map(t, |p| view::transpose(p, a, b))
}
