//! Means, variances, norms, and reductions over everything.

use crate::compose;
use crate::ir::{Op, args, meta};
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "mean", "a mean is a sum divided by the number of elements",
        [Op::mean, Op::mean_dim] => One(mean);
    "var", "a variance is the sum of squared distances from the mean over (n - correction), in two passes",
        [Op::var_correction] => One(var);
    "std", "a standard deviation is the square root of the variance",
        [Op::std_correction] => One(std);
    "var_mean", "variance and mean share the first pass",
        [Op::var_mean, Op::var_mean_dim, Op::var_mean_correction] => Many(var_mean);
    "std_mean", "standard deviation and mean share the first pass",
        [Op::std_mean, Op::std_mean_dim, Op::std_mean_correction] => Many(std_mean);
    "sum_all", "a sum over everything is a sum over all dimensions",
        [Op::sum] => One(sum_all);
    "max_all", "the greatest element is the maximum over all dimensions",
        [Op::max] => One(max_all);
    "min_all", "the least element is the minimum over all dimensions",
        [Op::min] => One(min_all);
    "prod_all", "a product over everything is that of the flattened tensor",
        [Op::prod] => One(prod_all);
    "any_all", "any element of everything is any element of the flattened tensor",
        [Op::any] => One(any_all);
    "all_all", "all elements of everything are all elements of the flattened tensor",
        [Op::all] => One(all_all);
    "vector_norm", "the norm of order p is (sum |x|^p)^(1/p), and its limits",
        [Op::linalg_vector_norm, Op::norm_Scalar, Op::norm_ScalarOpt_dim] => One(vector_norm);
}

/// The operand in the type of computation, to which it goes straight: a mean of halves may be a
/// number where elements or their sum are none.
fn operand(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    Some(s.lift(x))
}

fn dims(s: &Site<'_>, x: Id) -> Option<Vec<usize>> {
    s.dims("dim", s.meta(x).sizes.len())
}

fn count(s: &Site<'_>, x: Id, dims: &[usize]) -> f64 {
    dims.iter().map(|d| s.meta(x).sizes[*d]).product::<i64>() as f64
}

fn rounded(s: &mut Site<'_>, y: Id) -> Option<Id> {
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

fn mean(s: &mut Site<'_>) -> Option<Id> {
    if !s.out().dtype.is_floating() {
        return None;
    }
    let x = operand(s)?;
    let dims = dims(s, x)?;
    let sum = s.sum(x, &dims, s.bool("keepdim", false));
    let y = s.div_scalar(sum, count(s, x, &dims));
    rounded(s, y)
}

/// Variance and mean (the latter with the reduced dimensions kept) in the type of computation.
fn var_and_mean(s: &mut Site<'_>) -> Option<(Id, Id)> {
    if !s.out().dtype.is_floating() {
        return None;
    }
    let x = operand(s)?;
    let dims = dims(s, x)?;
    let n = count(s, x, &dims);
    let correction = match s.scalar("correction") {
        Some(c) => c.as_f64(),
        None => f64::from(u8::from(s.bool("unbiased", true))),
    };
    let sum = s.sum(x, &dims, true);
    let mean = s.div_scalar(sum, n);
    let centered = s.sub(x, mean);
    let squares = s.mul(centered, centered);
    let sum = s.sum(squares, &dims, s.bool("keepdim", false));
    // of nothing there is no variance, whatever the correction
    let divisor = if n == 0.0 { 0.0 } else { (n - correction).max(0.0) };
    Some((s.div_scalar(sum, divisor), mean))
}

fn var(s: &mut Site<'_>) -> Option<Id> {
    let (var, _) = var_and_mean(s)?;
    rounded(s, var)
}

fn std(s: &mut Site<'_>) -> Option<Id> {
    let (var, _) = var_and_mean(s)?;
    let y = s.unary(Op::sqrt, var);
    rounded(s, y)
}

fn with_mean(s: &mut Site<'_>, spread: Id, mean: Id) -> Option<Replacements> {
    let call = s.call.clone();
    let [a, b] = &call.results[..] else {
        return None;
    };
    let spread = s.convert(spread, a.dtype);
    let mean = s.convert(mean, b.dtype);
    let mean = s.reshape(mean, &b.sizes);
    Some([Some(spread), Some(mean)].into_iter().collect())
}

fn var_mean(s: &mut Site<'_>) -> Option<Replacements> {
    let (var, mean) = var_and_mean(s)?;
    with_mean(s, var, mean)
}

fn std_mean(s: &mut Site<'_>) -> Option<Replacements> {
    let (var, mean) = var_and_mean(s)?;
    let std = s.unary(Op::sqrt, var);
    with_mean(s, std, mean)
}

fn sum_all(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let x = s.convert(x, s.out().dtype);
    let dims: Vec<usize> = (0..s.meta(x).sizes.len()).collect();
    Some(s.sum(x, &dims, false))
}

fn extremum(s: &mut Site<'_>, op: Op) -> Option<Id> {
    let x = s.tensor(0)?;
    // `aten::max` is a reduction only without a second tensor
    if s.meta(x).numel() == 0 || s.call.args.len() != 1 {
        return None;
    }
    let dims: Vec<usize> = (0..s.meta(x).sizes.len()).collect();
    Some(s.reduce(op, x, &dims, false))
}

fn max_all(s: &mut Site<'_>) -> Option<Id> {
    extremum(s, Op::amax)
}

fn min_all(s: &mut Site<'_>) -> Option<Id> {
    extremum(s, Op::amin)
}

fn flat(s: &mut Site<'_>, x: Id) -> Id {
    let n = s.meta(x).numel();
    s.reshape(x, &[n])
}

fn prod_all(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let x = s.convert(x, s.out().dtype);
    let call = args::prod_dim_int { self_: flat(s, x), dim: 0, keepdim: false, dtype: None };
    let meta = s.out().clone();
    Some(s.call_as(call, meta))
}

fn any_all(s: &mut Site<'_>) -> Option<Id> {
    let args::any { self_: x } = s.args()?;
    let (self_, meta) = (flat(s, x), s.out().clone());
    let (dim, keepdim) = (0, false);
    Some(s.call_as(args::any_dim { self_, dim, keepdim }, meta))
}

fn all_all(s: &mut Site<'_>) -> Option<Id> {
    let args::all { self_: x } = s.args()?;
    let (self_, meta) = (flat(s, x), s.out().clone());
    let (dim, keepdim) = (0, false);
    Some(s.call_as(args::all_dim { self_, dim, keepdim }, meta))
}

fn vector_norm(s: &mut Site<'_>) -> Option<Id> {
    let (order, dims, keepdim) = match s.op() {
        Op::linalg_vector_norm => {
            let a: args::linalg_vector_norm<Id> = s.args()?;
            (a.ord, a.dim.unwrap_or_default(), a.keepdim)
        }
        Op::norm_ScalarOpt_dim => {
            let a: args::norm_ScalarOpt_dim<Id> = s.args()?;
            (a.p.unwrap_or(2.into()), a.dim, a.keepdim)
        }
        _ => (s.args::<args::norm_Scalar<Id>>()?.p, Vec::new(), false),
    };
    let (x, order, dtype) = (s.tensor(0)?, order.as_f64(), s.out().dtype);
    let m = s.meta(x);
    // the greatest or the least of nothing is its kernel's to refuse
    if !dtype.is_floating() || (m.numel() == 0 && (order < 0.0 || order.is_infinite())) {
        return None;
    }
    let dims = meta::dims(Some(&dims), m.sizes.len()).ok()?;
    let dims: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
    compose::vector_norm(s, &x, order, &dims, keepdim, dtype).ok()
}
