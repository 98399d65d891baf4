//! Layer, group and batch norm.

use crate::ir::Op;
use crate::ir::args;
use crate::rewrite::rule::{Replacements, rules};
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "native_layer_norm", "layer norm is (x - mean) rstd w + b over the last dimensions; mean and rstd keep those as 1",
        [Op::native_layer_norm] => Many(native_layer_norm);
    "native_layer_norm_backward", "with y = (x - mean) rstd and h = g w: dx = rstd (h - mean h - y mean(h y)), dw = sum g y, db = sum g",
        [Op::native_layer_norm_backward] => Many(native_layer_norm_backward);
    "layer_norm", "layer norm is (x - mean) rstd w + b over the last dimensions",
        [Op::layer_norm] => One(layer_norm);
    "native_group_norm", "group norm is a layer norm over each group of channels",
        [Op::native_group_norm] => Many(native_group_norm);
    "batch_norm_inference", "batch norm with given statistics is x a + (b - mean a) with a = w / sqrt(var + eps)",
        [Op::native_batch_norm, Op::_native_batch_norm_legit_no_training] => Many(batch_norm_inference);
}

/// Mean and reciprocal standard deviation over dimensions (kept as 1), and `(x - mean) * rstd`.
fn standardized(s: &mut Site<'_>, x: Id, dims: &[usize], eps: f64) -> (Id, Id, Id) {
    let n: i64 = dims.iter().map(|d| s.meta(x).sizes[*d]).product();
    let sum = s.sum(x, dims, true);
    let mean = s.div_scalar(sum, n as f64);
    let centered = s.sub(x, mean);
    let squares = s.mul(centered, centered);
    let sum = s.sum(squares, dims, true);
    let variance = s.div_scalar(sum, n as f64);
    let shifted = s.add_scalar(variance, eps);
    let rstd = s.unary(Op::rsqrt, shifted);
    let y = s.mul(centered, rstd);
    (mean, rstd, y)
}

/// `y * weight + bias`, each where it is given.
fn affine(s: &mut Site<'_>, mut y: Id, weight: Option<Id>, bias: Option<Id>) -> Id {
    if let Some(w) = weight {
        let w = s.lift(w);
        y = s.mul(y, w);
    }
    if let Some(b) = bias {
        let b = s.lift(b);
        y = s.add(y, b);
    }
    y
}

/// Output, mean and rstd, in the type of computation.
fn layer_norm_parts(s: &mut Site<'_>) -> Option<(Id, Id, Id)> {
    let x = s.tensor(0)?;
    let x = s.lift(x);
    let m = s.meta(x);
    let rank = m.sizes.len();
    let over = s.ints("normalized_shape")?.len();
    if m.numel() == 0 || over == 0 || over > rank {
        return None;
    }
    let dims: Vec<usize> = (rank - over..rank).collect();
    let eps = s.float("eps", 1e-5);
    let (mean, rstd, y) = standardized(s, x, &dims, eps);
    let (weight, bias) = (s.tensor(2), s.tensor(3));
    Some((affine(s, y, weight, bias), mean, rstd))
}

fn native_layer_norm(s: &mut Site<'_>) -> Option<Replacements> {
    let (y, mean, rstd) = layer_norm_parts(s)?;
    Some(converted(s, [y, mean, rstd]))
}

fn native_layer_norm_backward(s: &mut Site<'_>) -> Option<Replacements> {
    let a: args::native_layer_norm_backward<Id> = s.args()?;
    let sizes = s.meta(a.input).sizes.clone();
    let (rank, over) = (sizes.len(), a.normalized_shape.len());
    if s.meta(a.input).numel() == 0 || over == 0 || over > rank {
        return None;
    }
    let (outer, inner): (Vec<usize>, Vec<usize>) = (0..rank).partition(|d| *d < rank - over);
    let mut rows = sizes.clone();
    inner.iter().for_each(|d| rows[*d] = 1);
    let is = |t: Id, wanted: &[i64]| s.meta(t).sizes.as_slice() == wanted;
    let fits = is(a.grad_out, &sizes)
        && is(a.mean, &rows)
        && is(a.rstd, &rows)
        && a.weight.is_none_or(|w| is(w, &sizes[rank - over..]));
    if !fits {
        return None;
    }
    let [g, x, mean, rstd] = [a.grad_out, a.input, a.mean, a.rstd].map(|t| s.lift(t));
    let n: i64 = inner.iter().map(|d| sizes[*d]).product();
    let centered = s.sub(x, mean);
    let y = s.mul(centered, rstd);
    let [wants_x, wants_w, wants_b] = a.output_mask[..] else { return None };
    // those that are not asked for are no results
    let mut given = Vec::new();
    if wants_x {
        let h = match a.weight {
            Some(w) => {
                let w = s.lift(w);
                s.mul(g, w)
            }
            None => g,
        };
        let part = |s: &mut Site<'_>, v: Id| {
            let sum = s.sum(v, &inner, true);
            s.div_scalar(sum, n as f64)
        };
        let level = part(s, h);
        let hy = s.mul(h, y);
        let slope = part(s, hy);
        let along = s.mul(y, slope);
        let rest = s.sub(h, level);
        let rest = s.sub(rest, along);
        given.push(s.mul(rest, rstd));
    }
    let over_rows = |s: &mut Site<'_>, v: Id| match outer.is_empty() {
        true => v,
        false => s.sum(v, &outer, false),
    };
    if wants_w && a.weight.is_some() {
        let gy = s.mul(g, y);
        given.push(over_rows(s, gy));
    }
    if wants_b && a.bias.is_some() {
        given.push(over_rows(s, g));
    }
    let declared = s.call.results.clone();
    if given.len() != declared.len() {
        return None;
    }
    let each = given.into_iter().zip(declared.iter()).map(|(v, meta)| {
        let v = s.convert(v, meta.dtype);
        Some(s.reshape(v, &meta.sizes))
    });
    Some(each.collect())
}

/// Each value in the dtype of the result that it replaces.
fn converted(s: &mut Site<'_>, values: [Id; 3]) -> Replacements {
    let call = s.call.clone();
    (values.into_iter().zip(call.results.iter()))
        .map(|(v, meta)| {
            let v = s.convert(v, meta.dtype);
            Some(s.reshape(v, &meta.sizes))
        })
        .collect()
}

fn layer_norm(s: &mut Site<'_>) -> Option<Id> {
    let (y, _, _) = layer_norm_parts(s)?;
    let dtype = s.out().dtype;
    Some(s.convert(y, dtype))
}

fn native_group_norm(s: &mut Site<'_>) -> Option<Replacements> {
    let a: args::native_group_norm<Id> = s.args()?;
    let sizes = s.meta(a.input).sizes.clone();
    let (n, c, inner, group) = (a.N, a.C, a.HxW, a.group);
    let count = n.checked_mul(c)?.checked_mul(inner)?;
    if group <= 0 || c % group != 0 || count == 0 || count != s.meta(a.input).numel() {
        return None;
    }
    if sizes.len() < 2 {
        return None;
    }
    let x = s.lift(a.input);
    let per_group = c / group;
    let grouped = s.reshape(x, &[n, group, per_group * inner]);
    let (mean, rstd, y) = standardized(s, grouped, &[2], a.eps);
    let (weight, bias) = (a.weight, a.bias);
    if weight.is_none() && bias.is_none() {
        let y = s.reshape(y, &sizes);
        return Some(converted(s, [y, mean, rstd]));
    }
    // as the eager kernel does: one factor and one summand for each channel
    let mut scale = rstd;
    if let Some(w) = weight {
        let w = s.lift(w);
        let w = s.reshape(w, &[1, group, per_group]);
        scale = s.mul(scale, w);
    }
    let moved = s.mul(mean, scale);
    let shift = match bias {
        Some(b) => {
            let b = s.lift(b);
            let b = s.reshape(b, &[1, group, per_group]);
            s.sub(b, moved)
        }
        None => s.unary(Op::neg, moved),
    };
    let x = s.reshape(x, &[n, group, per_group, inner]);
    let each = |s: &mut Site<'_>, t: Id| {
        let channels = *s.meta(t).sizes.last().expect("three dimensions");
        s.reshape(t, &[s.meta(t).sizes[0], group, channels, 1])
    };
    let (scale, shift) = (each(s, scale), each(s, shift));
    let scaled = s.mul(x, scale);
    let y = s.add(scaled, shift);
    let y = s.reshape(y, &sizes);
    Some(converted(s, [y, mean, rstd]))
}

fn batch_norm_inference(s: &mut Site<'_>) -> Option<Replacements> {
    if s.bool("training", false) {
        return None;
    }
    let (x, mean, var) = (s.tensor(0)?, s.tensor(3)?, s.tensor(4)?);
    let rank = s.meta(x).sizes.len();
    // without training there are no statistics to save: those results have no elements
    if rank < 2 || s.call.results[1..].iter().any(|m| m.numel() != 0) {
        return None;
    }
    let (x, mean, var) = (s.lift(x), s.lift(mean), s.lift(var));
    let eps = s.float("eps", 1e-5);
    let shifted = s.add_scalar(var, eps);
    let mut a = s.unary(Op::rsqrt, shifted);
    if let Some(w) = s.tensor(1) {
        let w = s.lift(w);
        a = s.mul(a, w);
    }
    let scaled_mean = s.mul(mean, a);
    let b = match s.tensor(2) {
        Some(b) => {
            let b = s.lift(b);
            s.sub(b, scaled_mean)
        }
        None => s.unary(Op::neg, scaled_mean),
    };
    let mut per_channel = vec![1; rank - 1];
    per_channel[0] = s.meta(a).numel();
    let (a, b) = (s.reshape(a, &per_channel), s.reshape(b, &per_channel));
    let scaled = s.mul(x, a);
    let y = s.add(scaled, b);
    let call = s.call.clone();
    let mut results: Replacements =
        [Some(s.convert(y, call.results[0].dtype))].into_iter().collect();
    for meta in &call.results[1..] {
        results.push(Some(s.constant_of(0.into(), meta.clone())));
    }
    Some(results)
}
