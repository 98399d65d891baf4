//! Forward mode: what 5.2 and 5.3 of the reference say.

use crate::autograd::forward_ad::{dual_level, make_dual, unpack_dual};
use crate::autograd::graph::is_differentiable;
use crate::autograd::rule::Forward;
use crate::autograd::rules::RECORDED;
use crate::dispatch::{Stack, Value, handle_of};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::entry::ENTRIES;
use straightline_catalog::{DType, Op};

/// Real numbers: of complex ones the parts.
fn parts(t: &Tensor) -> Vec<f64> {
    let t = match t.dtype().is_complex() {
        true => aten::view_as_real(&aten::resolve_conj(t).unwrap()).unwrap(),
        false => t.clone(),
    };
    let t = aten::to_dtype(&t, DType::F64, false, false, None).unwrap();
    aten::contiguous(&t, Default::default()).unwrap().to_vec::<f64>().unwrap()
}

fn from_parts(all: &[f64], like: &Tensor) -> Tensor {
    let mut sizes = like.sizes().to_vec();
    if like.dtype().is_complex() {
        sizes.push(2);
        return aten::view_as_complex(&Tensor::from_slice(all, &sizes[..]).unwrap()).unwrap();
    }
    let t = Tensor::from_slice(all, &sizes[..]).unwrap();
    aten::to_dtype(&t, like.dtype(), false, false, None).unwrap()
}

/// The results of a call, those of lists one by one; what is written is the call's own.
fn called(op: Op, args: &[Value]) -> crate::Result<Vec<Tensor>> {
    let mut stack: Stack = args.to_vec();
    handle_of(op)?.call_boxed(&mut stack)?;
    Ok(stack.iter().flat_map(Value::tensors).cloned().collect())
}

fn cloned(args: &[Value]) -> Vec<Value> {
    args.iter().map(|v| v.map_tensors(|t| aten::clone(t, None)).unwrap()).collect()
}

/// Compares the tangents of a call's results with differences, in one direction for all operands
/// and in one for each. `again` makes arguments that are functions of others anew.
pub(in crate::autograd) fn differences(
    op: Op,
    args: &[Value],
    again: &dyn Fn(&mut [Value]),
) -> Vec<String> {
    let rule = RECORDED.iter().find(|(o, ..)| *o == op).unwrap().1;
    let name = op.name();
    if matches!(rule.forward, Forward::Refused) {
        return Vec::new();
    }
    let unreadable = |at: usize| {
        let name = op.schema().args[at].name.as_str();
        ["save_mean", "save_invstd", "mean", "rstd"].contains(&name)
    };
    let moving = |at: &usize| {
        !unreadable(*at) && matches!(&args[*at], Value::Tensor(t) if is_differentiable(t))
    };
    let inputs: Vec<usize> = rule.inputs.iter().copied().filter(moving).collect();
    let direction = |at: usize, t: &Tensor| {
        let n = parts(t).len();
        from_parts(
            &(0..n).map(|k| ((k * 7 + at * 13) as f64 * 0.61 + 0.4).sin()).collect::<Vec<_>>(),
            t,
        )
    };
    let mut sets: Vec<Vec<usize>> = inputs.iter().map(|at| vec![*at]).collect();
    if inputs.len() > 1 {
        sets.push(inputs);
    }
    let mut failures = Vec::new();
    for set in sets {
        let wide = set.iter().all(|at| match &args[*at] {
            Value::Tensor(t) => matches!(t.dtype(), DType::F64 | DType::C128),
            _ => true,
        });
        let (step, tolerance) = if wide { (1e-6, 2e-5) } else { (1e-2, 3e-2) };
        let moved = |by: f64| {
            let mut args = args.to_vec();
            for at in &set {
                if let Value::Tensor(t) = &mut args[*at] {
                    let d = parts(&direction(*at, t));
                    let all: Vec<f64> = parts(t).iter().zip(d).map(|(x, d)| x + by * d).collect();
                    *t = from_parts(&all, t);
                }
            }
            again(&mut args);
            called(op, &cloned(&args)).unwrap()
        };
        let found = dual_level(|| {
            let mut args = cloned(args);
            for at in &set {
                if let Value::Tensor(t) = &mut args[*at] {
                    *t = make_dual(&*t, direction(*at, t))?;
                }
            }
            let all = called(op, &args)?;
            all.iter().map(|t| Ok(unpack_dual(t)?.tangent)).collect::<crate::Result<Vec<_>>>()
        });
        let found = match found {
            Ok(found) => found,
            Err(e) => {
                failures.push(format!("{name}: {e}"));
                continue;
            }
        };
        let (up, down) = (moved(step), moved(-step));
        let list = op.schema().returns.len() != up.len();
        for (i, tangent) in found.iter().enumerate() {
            let differentiable = list || rule.outputs.get(i).copied().unwrap_or(false);
            if !differentiable || !is_differentiable(&up[i]) {
                if tangent.is_some() {
                    failures.push(format!("{name}: result {i} has a tangent"));
                }
                continue;
            }
            let Some(tangent) = tangent else {
                failures.push(format!("{name}: result {i} has no tangent"));
                continue;
            };
            if tangent.sizes() != up[i].sizes() {
                failures
                    .push(format!("{name}: the tangent of result {i} has {:?}", tangent.sizes()));
                continue;
            }
            let slopes = parts(&up[i]);
            let slopes = slopes.iter().zip(parts(&down[i])).map(|(u, d)| (u - d) / (2.0 * step));
            for (k, (want, got)) in slopes.zip(parts(tangent)).enumerate() {
                let near = (want - got).abs() <= tolerance * (1.0 + want.abs());
                // where there is no slope, any tangent will do
                if !near && want.is_finite() {
                    failures.push(format!(
                        "{name}: along {set:?}, element {k} of the tangent of result {i} is {got} and not {want}"
                    ));
                    break;
                }
            }
        }
    }
    failures
}

/// Operators with a gradient whose tangents have no formula: name, and what happens instead. The list
/// may become shorter.
const WITHOUT: &str = include_str!("without_formula.txt");

#[test]
fn operators_without_a_forward_formula_are_listed() {
    let mut found = Vec::new();
    for entry in ENTRIES.iter().filter(|e| e.declares) {
        let Some(derivative) = entry.derivative else { continue };
        if derivative.shared_with.is_some() || derivative.not_differentiable {
            continue;
        }
        if derivative.not_implemented {
            // has no gradient either
            continue;
        }
        let name = entry.op.name().trim_start_matches("aten::");
        match derivative.forward {
            [] => found.push(format!("{name} by_gradient")),
            ["not_implemented"] => found.push(format!("{name} refused")),
            _ => {}
        }
    }
    found.sort();
    let listed: Vec<&str> =
        WITHOUT.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    let new: Vec<&String> = found.iter().filter(|f| !listed.contains(&f.as_str())).collect();
    assert!(new.is_empty(), "without a forward formula: {new:?}");
    let gone: Vec<&&str> = listed.iter().filter(|l| !found.iter().any(|f| f == *l)).collect();
    assert!(gone.is_empty(), "take these from the list: {gone:?}");
}
