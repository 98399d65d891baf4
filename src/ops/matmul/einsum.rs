//! Einstein's summation convention.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::Dims;

/// Letters, upper case first as PyTorch orders them.
const LABELS: usize = 52;

fn failed(text: impl std::fmt::Display) -> Error {
    Error::runtime(format!("einsum(): {text}"))
}

fn label(c: char) -> Result<usize> {
    match c {
        'A'..='Z' => Ok(c as usize - 'A' as usize),
        'a'..='z' => Ok(c as usize - 'a' as usize + 26),
        _ => {
            Err(failed(format!("invalid subscript given at: {c}, subscripts must be in [a-zA-Z]")))
        }
    }
}

fn letter(label: usize) -> char {
    (if label < 26 { b'A' + label as u8 } else { b'a' + label as u8 - 26 }) as char
}

/// The subscripts of one operand; `None` stands for the ellipsis.
fn subscripts(text: &str) -> Result<Vec<Option<usize>>> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while let Some(c) = rest.chars().next() {
        if c == '.' {
            rest = rest
                .strip_prefix("...")
                .ok_or_else(|| failed("found '.' that is not part of any ellipsis"))?;
            if out.contains(&None) {
                return Err(failed("found '.' for which an ellipsis was already found"));
            }
            out.push(None);
        } else {
            if c != ' ' {
                out.push(Some(label(c)?));
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(out)
}

/// Where labels and the dimensions of the ellipsis stand in the permuted operands.
struct Plan {
    /// The position of each label; none where it is not used.
    position: [Option<usize>; LABELS],
    /// The first position of the ellipsis and its length.
    ellipsis: (usize, usize),
    /// Dimensions of the result; those behind are summed.
    kept: usize,
    rank: usize,
}

fn plan(inputs: &[Vec<Option<usize>>], output: Option<&str>, tensors: &[Tensor]) -> Result<Plan> {
    let mut ellipsis = 0;
    let mut counts = [0usize; LABELS];
    for (i, (subs, t)) in inputs.iter().zip(tensors).enumerate() {
        let named = subs.iter().flatten().count();
        let has_ellipsis = subs.contains(&None);
        if named > t.dim() || (!has_ellipsis && named != t.dim()) {
            return Err(failed(format!(
                "the number of subscripts in the equation ({named}) {} the number of dimensions ({}) for operand {i}{}",
                if has_ellipsis { "is more than" } else { "does not match" },
                t.dim(),
                if has_ellipsis { "" } else { " and no ellipsis was given" }
            )));
        }
        if has_ellipsis {
            ellipsis = ellipsis.max(t.dim() - named);
        }
        for l in subs.iter().flatten() {
            counts[*l] += 1;
        }
    }
    let any_ellipsis = inputs.iter().any(|s| s.contains(&None));
    let mut plan = Plan { position: [None; LABELS], ellipsis: (0, ellipsis), kept: 0, rank: 0 };
    let mut next = 0;
    match output {
        None => {
            // the ellipsis first, then the labels that occur once
            next = ellipsis;
            for l in (0..LABELS).filter(|l| counts[*l] == 1) {
                plan.position[l] = Some(next);
                next += 1;
            }
        }
        Some(text) => {
            let mut seen = false;
            for s in subscripts(text)? {
                match s {
                    None => {
                        plan.ellipsis.0 = next;
                        next += ellipsis;
                        seen = true;
                    }
                    Some(l) => {
                        if plan.position[l].is_some() {
                            return Err(failed(format!(
                                "output subscript {} appears more than once in the output",
                                letter(l)
                            )));
                        }
                        if counts[l] == 0 {
                            return Err(failed(format!(
                                "output subscript {} does not appear in the equation for any input operand",
                                letter(l)
                            )));
                        }
                        plan.position[l] = Some(next);
                        next += 1;
                    }
                }
            }
            plan.kept = next;
            if any_ellipsis && !seen {
                plan.ellipsis.0 = next;
                next += ellipsis;
            }
        }
    }
    if output.is_none() {
        plan.kept = next;
    }
    for (position, count) in plan.position.iter_mut().zip(&counts) {
        if *count > 0 && position.is_none() {
            *position = Some(next);
            next += 1;
        }
    }
    plan.rank = next;
    Ok(plan)
}

/// An operand with its dimensions where the plan has them, and ones elsewhere.
fn arrange(t: &Tensor, subs: &[Option<usize>], plan: &Plan) -> Result<Tensor> {
    let mut t = t.clone();
    let mut at: Vec<Option<usize>> = vec![None; plan.rank];
    let (full, named) = (t.dim(), subs.iter().flatten().count());
    let mut d = 0;
    for s in subs {
        match s {
            None => {
                let n = full - named;
                let (first, longest) = plan.ellipsis;
                for i in 0..n {
                    at[first + longest - n + i] = Some(d);
                    d += 1;
                }
            }
            Some(l) => {
                let p = plan.position[*l].unwrap_or(0);
                match at[p] {
                    // a repeated subscript is the diagonal
                    Some(first) => {
                        let (m, n) = (t.sizes()[first], t.sizes()[d]);
                        if m != n {
                            return Err(failed(format!(
                                "subscript {} is repeated for an operand but the sizes don't match, {n} != {m}",
                                letter(*l)
                            )));
                        }
                        let diagonal = aten::diagonal(&t, 0, first as i64, d as i64)?;
                        t = aten::movedim_int(&diagonal, -1, first as i64)?;
                    }
                    None => {
                        at[p] = Some(d);
                        d += 1;
                    }
                }
            }
        }
    }
    let order: Vec<i64> = at.iter().flatten().map(|d| *d as i64).collect();
    let mut t = aten::permute(&t, &order)?;
    for (p, d) in at.iter().enumerate() {
        if d.is_none() {
            t = aten::unsqueeze(&t, p as i64)?;
        }
    }
    Ok(t)
}

pub(crate) fn einsum(equation: &str, tensors: &[Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    if tensors.is_empty() {
        return Err(failed("must provide at least one operand"));
    }
    let (left, output) = match equation.split_once("->") {
        Some((l, r)) => (l, Some(r)),
        None => (equation, None),
    };
    let texts: Vec<&str> = left.split(',').collect();
    if texts.len() != tensors.len() {
        return Err(failed(format!(
            "{} operands were provided than specified in the equation",
            if texts.len() > tensors.len() { "fewer" } else { "more" }
        )));
    }
    let inputs = texts.iter().map(|t| subscripts(t)).collect::<Result<Vec<_>>>()?;
    let plan = plan(&inputs, output, tensors)?;
    let mut ops = Vec::new();
    let mut sizes: Vec<i64> = vec![1; plan.rank];
    for (i, (t, subs)) in tensors.iter().zip(&inputs).enumerate() {
        let t = arrange(t, subs, &plan)?;
        for (d, n) in t.sizes().iter().enumerate() {
            if *n != 1 && sizes[d] != 1 && *n != sizes[d] {
                let name = (0..LABELS).find(|l| plan.position[*l] == Some(d));
                return Err(failed(format!(
                    "subscript {} has size {n} for operand {i} which does not broadcast with previously seen size {}",
                    name.map_or('.', letter),
                    sizes[d]
                )));
            }
            if *n != 1 {
                sizes[d] = *n;
            }
        }
        ops.push(t);
    }
    let mut steps = path.unwrap_or(&[]).chunks_exact(2);
    while ops.len() > 1 {
        let (i, j) = match steps.next() {
            Some([i, j]) => (wrap_dim(*i, ops.len())?, wrap_dim(*j, ops.len())?),
            _ => (0, 1),
        };
        if i == j {
            return Err(failed("a step of the path names one operand twice"));
        }
        let b = ops.remove(j.max(i));
        let a = ops.remove(i.min(j));
        let (a, b) = if i < j { (a, b) } else { (b, a) };
        let product = contract(a, b, &ops, plan.kept, plan.rank)?;
        ops.push(product);
    }
    let mut out = ops.swap_remove(0);
    let summed: Vec<i64> = (plan.kept..plan.rank).map(|d| d as i64).collect();
    if !summed.is_empty() {
        // products have summed these dimensions already; a sum of one operand alone is fresh, never
        // a view of it
        out = if tensors.len() > 1 {
            aten::view(&out, &out.sizes()[..plan.kept])?
        } else {
            aten::sum_dim_int_list(&out, Some(&summed), false, None)?
        };
    }
    Ok(out)
}

/// Multiplies two operands and sums what no other one has. A sum of one operand alone promotes
/// integers, as everywhere.
fn contract(
    mut a: Tensor,
    mut b: Tensor,
    others: &[Tensor],
    kept: usize,
    rank: usize,
) -> Result<Tensor> {
    let (mut summed, mut only_a, mut only_b) = (Vec::new(), Vec::new(), Vec::new());
    for d in kept..rank {
        if others.iter().any(|t| t.sizes()[d] != 1) {
            continue;
        }
        match (a.sizes()[d] != 1, b.sizes()[d] != 1) {
            (true, true) => summed.push(d),
            (true, false) => only_a.push(d as i64),
            (false, true) => only_b.push(d as i64),
            (false, false) => {}
        }
    }
    for (t, dims) in [(&mut a, only_a), (&mut b, only_b)] {
        if !dims.is_empty() {
            *t = aten::sum_dim_int_list(t, Some(&dims), true, None)?;
        }
    }
    if summed.is_empty() {
        return aten::mul_tensor(&a, &b);
    }
    product(&a, &b, &summed)
}

/// The sum over some dimensions of a product as a batched matrix product; they stay with one
/// element.
fn product(a: &Tensor, b: &Tensor, summed: &[usize]) -> Result<Tensor> {
    let (mut both, mut only_a, mut only_b) = (Vec::new(), Vec::new(), Vec::new());
    for d in (0..a.dim()).filter(|d| !summed.contains(d)) {
        match (a.sizes()[d] != 1, b.sizes()[d] != 1) {
            (true, true) => both.push(d),
            (true, false) => only_a.push(d),
            _ => only_b.push(d),
        }
    }
    // the factor whose own dimensions come first in the result is the left one
    let (a, b, only_a, only_b) = match (only_a.first(), only_b.iter().find(|d| b.sizes()[**d] != 1))
    {
        (Some(x), Some(y)) if x > y => (b, a, only_b, only_a),
        _ => (a, b, only_a, only_b),
    };
    let count = |t: &Tensor, dims: &[usize]| dims.iter().map(|d| t.sizes()[*d]).product::<i64>();
    let order =
        |groups: [&[usize]; 4]| -> Vec<i64> { groups.concat().iter().map(|d| *d as i64).collect() };
    let (n, steps) = (count(a, &both), count(a, summed));
    let left = aten::permute(a, &order([&both, &only_a, summed, &only_b]))?;
    let left = aten::reshape(&left, &[n, count(a, &only_a), steps])?;
    let right = aten::permute(b, &order([&both, summed, &only_b, &only_a]))?;
    let right = aten::reshape(&right, &[n, steps, count(b, &only_b)])?;
    let out = aten::bmm(&left, &right)?;
    let places = [both.as_slice(), &only_a, summed, &only_b].concat();
    let sizes: Dims = places
        .iter()
        .map(|d| {
            if summed.contains(d) {
                1
            } else {
                a.sizes()[*d].max(b.sizes()[*d]) * i64::from(a.sizes()[*d].min(b.sizes()[*d]) > 0)
            }
        })
        .collect();
    let out = aten::view(&out, &sizes)?;
    let mut back = vec![0; places.len()];
    for (i, d) in places.iter().enumerate() {
        back[*d] = i as i64;
    }
    aten::permute(&out, &back)
}
