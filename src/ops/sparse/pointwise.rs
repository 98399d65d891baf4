//! Element-wise operators: on values, on coordinates of two tensors merged, and with a dense side.

use super::convert::{add_into, csr_to_coo, csr_with_values, with_values};
use super::coo::{build, linear_of, rows_at, shaped, unravel};
use super::{coalesce_coo, coo, coo_to_csr, csr, zeros_dense};
use crate::error::{Error, Result};
use crate::ops::common::promote;
use crate::ops::copy;
use crate::ops::pointwise;
use crate::ops::view;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::sparse;

/// A function that takes 0 to 0, on the values. Equal coordinates are summed first.
pub(crate) fn on_values(t: &Tensor, f: fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let t = coalesce_coo(t)?;
    with_values(&t, f(&coo(&t)?.values)?)
}

/// [`on_values`] of a tensor in compressed rows.
pub(crate) fn on_csr_values(t: &Tensor, f: fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    csr_with_values(t, f(&csr(t)?.values)?)
}

fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    with_values(t, copy::to_dtype(&coo(t)?.values, dtype)?)
}

fn check_same_sizes(op: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    if a.sizes() == b.sizes() {
        return Ok(());
    }
    Err(Error::shape(format!(
        "{op}: expected sizes of 'self' and 'other' to match, but {:?} != {:?}",
        a.sizes(),
        b.sizes()
    )))
}

/// `a + alpha * b`, both in coordinate form: a merge of the two lists of coordinates.
fn add_coo(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check_same_sizes("add", a, b)?;
    let dtype = promote(&[a, b])?;
    let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
    let (ca, cb) = (coo(&a)?, coo(&b)?);
    let dims = ca.sparse_dim();
    ensure_shape!(
        dims == cb.sparse_dim(),
        "add: expected 'self' and 'other' to have same number of sparse dimensions, but {dims} != {}",
        cb.sparse_dim()
    );
    let (la, lb) = (linear_of(&a, ca)?, linear_of(&b, cb)?);
    let (mut i, mut j) = (0, 0);
    let (mut merged, mut at_a, mut at_b) = (Vec::new(), Vec::new(), Vec::new());
    while i < la.len() || j < lb.len() {
        let next = match (la.get(i), lb.get(j)) {
            (Some(x), Some(y)) => *x.min(y),
            (Some(x), None) | (None, Some(x)) => *x,
            (None, None) => break,
        };
        if la.get(i) == Some(&next) {
            at_a.push(merged.len() as i64);
            i += 1;
        }
        if lb.get(j) == Some(&next) {
            at_b.push(merged.len() as i64);
            j += 1;
        }
        merged.push(next);
    }
    let mut of_values = vec![merged.len() as i64];
    of_values.extend(&a.sizes()[dims..]);
    let values = zeros_dense(dtype, a.device(), &of_values)?;
    for (c, at, alpha) in [(ca, &at_a, Scalar::Int(1)), (cb, &at_b, alpha)] {
        launch::run(launch::Written(&values), &c.values, |out, values| {
            let out = (out, merged.len());
            Ok(sparse::scatter_add(out, values, c.width(), at, alpha)?)
        })?;
    }
    let coalesced = ca.is_coalesced() && cb.is_coalesced();
    build(unravel(&merged, &a.sizes()[..dims])?, values, a.sizes(), coalesced)
}

/// `dense + alpha * sparse`.
fn add_to_dense(dense: &Tensor, s: &Tensor, alpha: Scalar) -> Result<Tensor> {
    ensure_shape!(
        dense.sizes() == s.sizes(),
        "add: expected 'self' and 'other' to have same size, but self has size {:?} while other has size {:?} \
             (FYI: dense-sparse addition does not currently support broadcasting)",
        dense.sizes(),
        s.sizes()
    );
    let dtype = promote(&[dense, s])?;
    let out = Tensor::allocate_contiguous(dtype, dense.device(), dense.sizes())?;
    copy::copy_(&out, dense, false)?;
    let s = cast(s, dtype)?;
    add_into(&out, &s, coo(&s)?, alpha)?;
    Ok(out)
}

pub(crate) fn add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    match (a.is_sparse(), b.is_sparse()) {
        (true, true) => add_coo(a, b, alpha),
        (false, true) => add_to_dense(a, b, alpha),
        _ => Err(Error::runtime(
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.",
        )),
    }
}

/// `-alpha`, in the same kind of number.
fn negated(alpha: Scalar) -> Scalar {
    match alpha {
        Scalar::Float(x) => Scalar::Float(-x),
        other => Scalar::Int(other.as_i64().wrapping_neg()),
    }
}

pub(crate) fn sub(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    add(a, b, negated(alpha))
}

/// The elements of a dense tensor at the coordinates of a sparse one that it broadcasts to.
fn dense_at(dense: &Tensor, s: &Tensor) -> Result<Tensor> {
    let fits = layout::broadcast(dense.sizes(), s.sizes()).is_some_and(|b| b[..] == *s.sizes());
    ensure_shape!(
        fits,
        "mul: a dense operand of sizes {:?} does not broadcast to the sparse operand's {:?}; `to_dense` the sparse one first",
        dense.sizes(),
        s.sizes()
    );
    let c = coo(s)?;
    let full = copy::to_contiguous(&view::expand(dense, s.sizes(), true)?)?;
    let (outer, inner) = s.sizes().split_at(c.sparse_dim());
    let mut sizes = vec![outer.iter().product::<i64>()];
    sizes.extend(inner);
    rows_at(&shaped(&full, &sizes)?, &linear_of(s, c)?)
}

/// Products where both have an element.
fn mul_coo(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_same_sizes("mul", a, b)?;
    let (a, b) = (coalesce_coo(a)?, coalesce_coo(b)?);
    let (ca, cb) = (coo(&a)?, coo(&b)?);
    ensure_shape!(
        ca.sparse_dim() == cb.sparse_dim(),
        "mul: expected 'self' and 'other' to have same number of sparse dimensions, but {} != {}",
        ca.sparse_dim(),
        cb.sparse_dim()
    );
    let (la, lb) = (linear_of(&a, ca)?, linear_of(&b, cb)?);
    let (mut at_a, mut at_b, mut both) = (Vec::new(), Vec::new(), Vec::new());
    let mut j = 0;
    for (i, x) in la.iter().enumerate() {
        while lb.get(j).is_some_and(|y| y < x) {
            j += 1;
        }
        if lb.get(j) == Some(x) {
            at_a.push(i as i64);
            at_b.push(j as i64);
            both.push(*x);
        }
    }
    let values = pointwise::mul(&rows_at(&ca.values, &at_a)?, &rows_at(&cb.values, &at_b)?)?;
    let indices = unravel(&both, &a.sizes()[..ca.sparse_dim()])?;
    build(indices, values, a.sizes(), true)
}

pub(crate) fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.is_sparse(), b.is_sparse()) {
        (true, true) => mul_coo(a, b),
        (true, false) if b.dim() == 0 => scaled(a, b),
        (false, true) if a.dim() == 0 => scaled(b, a),
        (true, false) => with_values(a, pointwise::mul(&coo(a)?.values, &dense_at(b, a)?)?),
        _ => with_values(b, pointwise::mul(&dense_at(a, b)?, &coo(b)?.values)?),
    }
}

/// A sparse tensor times a 0-dim dense one; the 0-dim one has no say in the dtype against real
/// dimensions.
fn scaled(s: &Tensor, by: &Tensor) -> Result<Tensor> {
    let dtype = promote(&[s, by])?;
    let product = pointwise::mul(&coo(s)?.values, by)?;
    with_values(s, copy::to_dtype(&product, dtype)?)
}

pub(crate) fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.is_sparse() && !b.is_sparse() && b.dim() == 0,
        "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {:?} for divisor)",
        b.sizes()
    );
    let a = coalesce_coo(a)?;
    with_values(&a, pointwise::div(&coo(&a)?.values, b)?)
}

// ---- compressed rows ---------------------------------------------------------------------------

/// The coordinate form of a matrix in compressed rows, any other tensor as it is.
pub(super) fn rows_as_coo(t: &Tensor) -> Result<Tensor> {
    if t.is_sparse_csr() { csr_to_coo(t) } else { Ok(t.clone()) }
}

pub(crate) fn csr_add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let (sa, sb) = (rows_as_coo(a)?, rows_as_coo(b)?);
    match (sa.is_sparse(), sb.is_sparse()) {
        (true, true) => coo_to_csr(&add_coo(&sa, &sb, alpha)?, None),
        (false, true) => add_to_dense(a, &sb, alpha),
        // rows + alpha * dense: the dense side is scaled first
        _ => {
            let scaled = match alpha {
                Scalar::Int(1) => b.clone(),
                alpha => pointwise::mul_scalar(b, alpha)?,
            };
            add_to_dense(&scaled, &sa, Scalar::Int(1))
        }
    }
}

pub(crate) fn csr_mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let product = mul(&rows_as_coo(a)?, &rows_as_coo(b)?)?;
    coo_to_csr(&product, None)
}

pub(crate) fn csr_mul_scalar(a: &Tensor, by: Scalar) -> Result<Tensor> {
    csr_with_values(a, pointwise::mul_scalar(&csr(a)?.values, by)?)
}

/// Sizes as an owned list.
pub(super) fn dims(sizes: &[i64]) -> Dims {
    Dims::from_slice(sizes)
}
