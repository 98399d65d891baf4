//! What reduces and shifts: the softmax family, norms.

use super::{Composer, Made};
use crate::ir::layout::numel;
use crate::ir::promote::int_to_float;
use crate::ir::{DType, args};

/// `softmax`, in the dtype asked for.
///
/// # Errors
///
/// Those of `_softmax`: a dimension out of range, a dtype that is no float.
pub fn softmax_int<C: Composer>(c: &mut C, a: args::softmax_int<&C::Value>) -> Made<C> {
    let x = c.to(a.self_, a.dtype.unwrap_or(c.dtype(a.self_)))?;
    c.softmax(&x, a.dim)
}

/// `log_softmax`, in the dtype asked for.
///
/// # Errors
///
/// Those of `_log_softmax`: a dimension out of range, a dtype that is no float.
pub fn log_softmax_int<C: Composer>(c: &mut C, a: args::log_softmax_int<&C::Value>) -> Made<C> {
    let x = c.to(a.self_, a.dtype.unwrap_or(c.dtype(a.self_)))?;
    c.log_softmax(&x, a.dim)
}

/// `log(sum(exp(x - m))) + m` with `m` the greatest element, or 0 where that is infinite.
///
/// # Errors
///
/// A dimension out of range, or named twice.
pub fn logsumexp<C: Composer>(c: &mut C, a: args::logsumexp<&C::Value>) -> Made<C> {
    let x = c.to(a.self_, int_to_float(c.dtype(a.self_)))?;
    if numel(&c.sizes(&x)) == 0 {
        let e = c.exp(&x)?;
        let sum = c.sum(&e, &a.dim, a.keepdim)?;
        return c.log(&sum);
    }
    // the exponential of a complex number is as large as its real part says
    let real = c.real(&x)?;
    let top = c.amax(&real, &a.dim, true)?;
    let size = c.abs(&top)?;
    let infinite = c.eq(&size, f64::INFINITY)?;
    let top = c.masked_fill(&top, &infinite, 0.0)?;
    let shifted = c.sub(&x, &top)?;
    let e = c.exp(&shifted)?;
    let sum = c.sum(&e, &a.dim, a.keepdim)?;
    let log = c.log(&sum)?;
    let top = match a.keepdim {
        true => top,
        // no dimensions named are all of them
        false if a.dim.is_empty() => {
            let all: Vec<i64> = (0..c.sizes(&top).len() as i64).collect();
            c.squeeze(&top, &all)?
        }
        false => c.squeeze(&top, &a.dim)?,
    };
    c.add(&log, &top)
}

/// `(sum of |x|^order)^(1/order)` over dimensions, and its limits: the number of elements that are
/// not 0, and the greatest and the least size. The result has the dtype asked for, or the real one
/// that belongs to it.
///
/// # Errors
///
/// A dimension out of range; the greatest or the least of nothing.
pub fn vector_norm<C: Composer>(
    c: &mut C,
    x: &C::Value,
    order: f64,
    dims: &[i64],
    keepdim: bool,
    dtype: DType,
) -> Made<C> {
    let mut x = c.to(x, dtype)?;
    if dtype.is_complex() {
        x = c.abs(&x)?;
    }
    let dtype = dtype.to_real();
    let x = c.to(&x, dtype.opmath())?;
    // a number is its own sum
    let sum = |c: &mut C, x: &C::Value| match dims.is_empty() {
        true => Ok(x.clone()),
        false => c.sum(x, dims, keepdim),
    };
    let norm = if order == 0.0 {
        let other = c.ne(&x, 0.0)?;
        let ones = c.to(&other, dtype.opmath())?;
        sum(c, &ones)?
    } else if order == 2.0 {
        let squares = c.mul(&x, &x)?;
        let total = sum(c, &squares)?;
        c.sqrt(&total)?
    } else {
        let size = c.abs(&x)?;
        if order == 1.0 {
            sum(c, &size)?
        } else if order == f64::INFINITY {
            c.amax(&size, dims, keepdim)?
        } else if order == f64::NEG_INFINITY {
            c.amin(&size, dims, keepdim)?
        } else {
            let powers = c.pow(&size, order)?;
            let total = sum(c, &powers)?;
            c.pow(&total, 1.0 / order)?
        }
    };
    c.to(&norm, dtype)
}
