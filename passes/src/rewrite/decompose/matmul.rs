//! Matrix products with something added: the product stays a node of its own, since the scheduler
//! fuses what follows it as an epilogue.
//!
//! Halves are multiplied as f32, scaled and added so, and rounded once, as the kernels of these
//! operators do: a product that was rounded before would have overflowed where the scaled one does
//! not.

use crate::ir::Op;
use crate::ir::Scalar;
use crate::ir::args;
use crate::ir::promote::reads_product;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "addmm", "addmm(b, x, y) = alpha (x @ y) + beta b; b is not read where beta is 0",
        [Op::addmm] => One(addmm);
    "baddbmm", "baddbmm(b, x, y) = alpha bmm(x, y) + beta b",
        [Op::baddbmm] => One(baddbmm);
    "addbmm", "addbmm(b, x, y) = alpha (the sum of bmm(x, y) over the batch) + beta b",
        [Op::addbmm] => One(addbmm);
    "mv", "a matrix times a vector is a matrix times a matrix of one column",
        [Op::mv] => One(mv);
    "addmv", "addmv(b, x, v) = alpha (x v) + beta b",
        [Op::addmv] => One(addmv);
}

/// `alpha * product + beta * self`, the tail of the `add*` family.
fn scaled_add(s: &mut Site<'_>, product: Id) -> Option<Id> {
    let alpha = s.scalar("alpha").unwrap_or(1.into());
    let beta = s.scalar("beta").unwrap_or(1.into());
    scaled_add_by(s, product, alpha, beta)
}

fn scaled_add_by(s: &mut Site<'_>, product: Id, alpha: Scalar, beta: Scalar) -> Option<Id> {
    let addend = s.tensor(0)?;
    let dtype = s.out().dtype;
    let product = s.lift(product);
    let sum = if alpha.as_f64() == 1.0 && beta.as_f64() == 1.0 {
        let addend = s.lift(addend);
        s.add(product, addend)
    } else {
        let mut sum = s.mul_scalar(product, alpha);
        if beta.as_f64() != 0.0 {
            let addend = s.lift(addend);
            let addend = s.mul_scalar(addend, beta);
            sum = s.add(sum, addend);
        } else {
            let sizes = s.out().sizes.clone();
            if s.meta(sum).sizes.len() != sizes.len() {
                return None;
            }
            sum = s.expand(sum, &sizes);
        }
        sum
    };
    Some(s.convert(sum, dtype))
}

fn is_half(s: &Site<'_>) -> bool {
    s.out().dtype.opmath() != s.out().dtype
}

/// The factors of a product that something is done to before it is rounded.
fn factors(s: &mut Site<'_>) -> Option<(Id, Id)> {
    let (x, y) = (s.tensor(1)?, s.tensor(2)?);
    Some((s.lift(x), s.lift(y)))
}

/// What is left of `alpha * product + beta * self` where the product is not read, if so.
fn without_product(s: &mut Site<'_>, work: i64) -> Option<Id> {
    let (alpha, beta) = whole_factors(s);
    let out = s.out().clone();
    if reads_product(out.dtype, alpha, work as usize) {
        return None;
    }
    if beta.as_f64() == 0.0 {
        let zero = s.constant(0, out.dtype);
        return Some(s.expand(zero, &out.sizes));
    }
    let addend = s.tensor(0)?;
    let addend = match beta.as_f64() == 1.0 {
        true => addend,
        false => s.mul_scalar(addend, beta),
    };
    Some(s.expand(addend, &out.sizes))
}

fn addmm(s: &mut Site<'_>) -> Option<Id> {
    if let Some(rest) = without_product(s, i64::MAX) {
        return Some(rest);
    }
    let (x, y) = factors(s)?;
    let product = s.mm(x, y);
    let (alpha, beta) = whole_factors(s);
    scaled_add_by(s, product, alpha, beta)
}

fn baddbmm(s: &mut Site<'_>) -> Option<Id> {
    let inner = s.tensor(1).map(|x| s.meta(x).sizes.clone())?;
    let work = (inner.get(1..)?.iter().chain(s.out().sizes.get(2..)?))
        .fold(1i64, |n, d| n.saturating_mul(*d));
    if let Some(rest) = without_product(s, work) {
        return Some(rest);
    }
    let (x, y) = factors(s)?;
    let product = s.bmm(x, y);
    let (alpha, beta) = whole_factors(s);
    scaled_add_by(s, product, alpha, beta)
}

/// `alpha` and `beta` of operators of which PyTorch cuts them to integers where the tensors are
/// integers.
fn whole_factors(s: &Site<'_>) -> (Scalar, Scalar) {
    let dtype = s.out().dtype;
    let factor = |f: Option<Scalar>| match f.unwrap_or(1.into()) {
        f if dtype.is_floating() || dtype.is_complex() => f,
        f => f.cast(dtype),
    };
    (factor(s.scalar("alpha")), factor(s.scalar("beta")))
}

fn addbmm(s: &mut Site<'_>) -> Option<Id> {
    let (x, y) = (s.tensor(1)?, s.tensor(2)?);
    if s.meta(x).sizes.len() != 3 || s.meta(y).sizes.len() != 3 {
        return None;
    }
    if is_half(s) {
        // PyTorch adds one product after the other, and rounds each time
        return None;
    }
    if let Some(rest) = without_product(s, i64::MAX) {
        return Some(rest);
    }
    let products = s.bmm(x, y);
    let product = s.sum(products, &[0], false);
    scaled_add(s, product)
}

fn matrix_vector(s: &mut Site<'_>, x: Id, v: Id) -> Option<Id> {
    if s.meta(x).sizes.len() != 2 || s.meta(v).sizes.len() != 1 {
        return None;
    }
    let column = s.unsqueeze(v, 1);
    let product = s.mm(x, column);
    Some(s.squeeze(product, 1))
}

fn mv(s: &mut Site<'_>) -> Option<Id> {
    let args::mv { self_: x, vec } = s.args()?;
    matrix_vector(s, x, vec)
}

fn addmv(s: &mut Site<'_>) -> Option<Id> {
    if is_half(s) {
        // PyTorch rounds the factors to halves too
        return None;
    }
    if let Some(rest) = without_product(s, i64::MAX) {
        return Some(rest);
    }
    let (x, v) = (s.tensor(1)?, s.tensor(2)?);
    let product = matrix_vector(s, x, v)?;
    let (alpha, beta) = whole_factors(s);
    scaled_add_by(s, product, alpha, beta)
}
