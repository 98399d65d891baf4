//! The machinery; the rules themselves are tested by the filetests.

use super::*;
use crate::ir::Op;
use crate::ir::graph::NodeKind;
use std::time::Duration;

/// Defines an operator from outside.
fn define(schema: &str) {
    Op::define(&schema.parse().unwrap(), &[] as &[&str]);
}

fn run(text: &str, options: &RewriteOptions) -> (String, RewriteReport) {
    let graph = Graph::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let (graph, report) = rewrite(&graph, options).unwrap_or_else(|e| panic!("{e}"));
    (graph.to_string(), report)
}

/// The usual rules with no limit on time: what these tests say must hold on the slowest machine, an
/// emulated one too.
fn unhurried() -> RewriteOptions {
    RewriteOptions { time_limit: Duration::MAX, ..RewriteOptions::default() }
}

#[test]
fn a_graph_without_rules_comes_back() {
    define("mine::odd(Tensor?[] list, float k, str s) -> Tensor");
    let text = "\
graph(%x: f32[2,64], %unused: f32[3], param %w: f32[600,64]) {
  %0: f32[] = constant 2.5
  %t: f32[64,600]{1,64} = aten::t(%w)
  %1: f32[2,600] = aten::mm(%x, %t)
  %best: f32[2], %best.1: i64[2] = aten::max.dim(%1, dim=1, keepdim=false)
  %2: f32[2] = mine::odd([%best, none], k=inf, s=\"q\")
  %3: f32[2] = aten::mul.Tensor(%2, %0)
  return %3, %best.1, %x
}
";
    let (out, report) = run(text, &RewriteOptions::none());
    assert_eq!(out, text);
    assert_eq!(report.stop, StopReason::Saturated);
    assert_eq!(report.calls_before, report.calls_after);
}

#[test]
fn equal_calls_merge_and_dead_ones_go() {
    let (out, _) = run(
        "graph(%x: f32[2]) {
  %0: f32[2] = aten::exp(%x)
  %1: f32[2] = aten::exp(%x)
  %2: f32[2] = aten::log(%x)
  %3: f32[2] = aten::mul.Tensor(%0, %1)
  return %3
}",
        &RewriteOptions::none(),
    );
    assert_eq!(out.matches("aten::exp").count(), 1);
    assert!(!out.contains("aten::log"));
}

#[test]
fn random_and_unknown_calls_never_merge_and_keep_their_order() {
    define("mine::side(Tensor x) -> Tensor");
    let rand = "aten::rand_like(%x, dtype=none, layout=none, device=none, pin_memory=none, memory_format=none)";
    let text = format!(
        "\
graph(%x: f32[2]) {{
  %0: f32[2] = {rand}
  %1: f32[2] = {rand}
  %2: f32[2] = mine::side(%x)
  %3: f32[2] = mine::side(%x)
  %4: f32[2] = aten::sub.Tensor(%1, %0, alpha=1)
  return %4, %3, %2
}}
"
    );
    assert_eq!(run(&text, &RewriteOptions::default()).0, text);
}

#[test]
fn a_draw_that_nobody_uses_stays_in_its_place() {
    let text = "\
graph(%x: f32[2]) {
  %0: f32[2] = aten::uniform(%x, from=0.0, to=1.0, generator=none)
  %1: f32[2] = aten::exp(%x)
  %2: f32[2] = aten::bernoulli(%1, generator=none)
  %3: f32[2] = aten::uniform(%x, from=0.0, to=1.0, generator=none)
  %4: f32[2] = aten::random(%x, generator=none)
  return %3
}
";
    assert_eq!(run(text, &RewriteOptions::default()).0, text);
}

#[test]
fn names_and_provenance_go_to_what_replaces_a_node() {
    let mut graph = Graph::parse(
        "graph(%x: f32[2,3]) {
  %y: f32[2,3] = aten::_softmax(%x, dim=1, half_to_float=false)
  return %y
}",
    )
    .unwrap();
    let y = graph.outputs()[0].node;
    graph.node_mut(y).provenance.location = Some("src/main.rs:7:3".into());
    let (out, _) = rewrite(&graph, &RewriteOptions::default()).unwrap();
    let last = out.node(out.outputs()[0].node);
    assert_eq!(last.name.as_deref(), Some("y"));
    for id in out.topological() {
        let node = out.node(id);
        if matches!(node.kind, NodeKind::Call(_)) {
            let from = &node.provenance;
            assert_eq!(from.location, Some("src/main.rs:7:3".into()));
            assert_eq!(from.outer_op, Some(Op::_softmax));
            // what an error would name
            assert_eq!(out.eager_call(id).unwrap().op, Op::_softmax);
        }
    }
}

#[test]
fn kept_composites_stay() {
    let text = "graph(%x: f32[2]) {\n  %0: f32[2] = aten::mish(%x)\n  return %0\n}\n";
    let options = RewriteOptions { keep: vec![Op::mish], ..RewriteOptions::default() };
    assert_eq!(run(text, &options).0, text);
}

#[test]
fn limits_stop_simplification_and_never_decomposition() {
    let mut text = String::from("graph(%x: f32[4,8]) {\n  %v0: f32[4,8] = aten::mish(%x)\n");
    for i in 1..50 {
        let j = i - 1;
        text += &format!("  %v{i}: f32[4,8] = aten::mul.Scalar(%v{j}, other=1)\n");
    }
    text += "  return %v49\n}";
    for (options, stop) in [
        (RewriteOptions { node_limit: 1, ..unhurried() }, StopReason::NodeLimit),
        (RewriteOptions { iteration_limit: 0, ..unhurried() }, StopReason::IterationLimit),
        (
            RewriteOptions { time_limit: Duration::ZERO, ..RewriteOptions::default() },
            StopReason::TimeLimit,
        ),
    ] {
        let (out, report) = run(&text, &options);
        assert_eq!(report.stop, stop);
        assert!(!out.contains("aten::mish"), "{out}");
        assert!(out.contains("aten::mul.Scalar"), "{out}");
    }
    let (out, report) = run(&text, &unhurried());
    assert_eq!(report.stop, StopReason::Saturated);
    assert!(!out.contains("aten::mul.Scalar"), "{out}");
    assert_eq!(report.count("mul_one"), 49);
}

#[test]
fn deep_residual_networks_extract() {
    // the tree below the last node has 2^200 nodes
    let mut text = String::from("graph(%x: f32[8]) {\n");
    let mut last = "x".to_string();
    for i in 0..200 {
        text += &format!("  %e{i}: f32[8] = aten::exp(%{last})\n");
        text += &format!("  %m{i}: f32[8] = aten::mul.Scalar(%e{i}, other=1)\n");
        text += &format!("  %a{i}: f32[8] = aten::add.Tensor(%m{i}, %{last}, alpha=1)\n");
        last = format!("a{i}");
    }
    text += &format!("  return %{last}\n}}");
    let (_, report) = run(&text, &unhurried());
    assert_eq!(report.calls_after, 400);
}

#[test]
fn a_malformed_graph_is_refused() {
    let graph =
        Graph::parse("graph(%x: f32[2]) { %0: f32[3] = aten::relu(%x) return %0 }").unwrap();
    let error = rewrite(&graph, &RewriteOptions::default()).unwrap_err();
    assert!(matches!(error, RewriteError::Invalid(_)));
}

#[test]
fn rule_names_are_unique_and_laws_are_one_line() {
    let mut names = std::collections::HashSet::new();
    for rule in all_rules() {
        assert!(names.insert((rule.set, rule.name)), "{rule:?}");
        assert!(!rule.law.is_empty() && !rule.law.contains('\n'), "{rule:?}");
        assert!(!rule.ops.is_empty(), "{rule:?}");
    }
}

/// Calls with arguments and results of arbitrary shapes: rules and verifier may refuse them, and
/// must not panic.
#[test]
fn no_call_however_odd_panics() {
    use crate::ir::schema::SchemaType as T;
    use crate::ir::{Arg, DType, Device, Layout, MemoryFormat, Scalar, TensorMeta};
    let mut state = 1u64;
    let mut random = move |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    let dims = [0i64, 1, 2, 3, 3, 4];
    let dtypes = [DType::F32, DType::F32, DType::F16, DType::I64, DType::Bool];
    let ints = [0i64, 1, -1, 2, 3, -2, i64::MAX, i64::MIN, 6];
    let options = RewriteOptions { fast_math: true, ..RewriteOptions::default() };
    let (mut rewritten, mut refused) = (0, 0);
    for rule in all_rules() {
        for op in rule.ops {
            for _ in 0..60 {
                let mut meta = |scale: u64| {
                    let rank = random(4) as usize;
                    let sizes: Vec<i64> = (0..rank).map(|_| dims[random(scale) as usize]).collect();
                    TensorMeta::contiguous(dtypes[random(5) as usize], &sizes)
                };
                let mut g = Graph::new();
                let common = meta(6);
                let inputs: Vec<_> = (0..5)
                    .map(|i| {
                        let m = if i % 2 == 0 { common.clone() } else { meta(6) };
                        g.input(&format!("x{i}"), m)
                    })
                    .collect();
                let results: Vec<TensorMeta> = (0..4).map(|_| meta(6)).collect();
                let count = [1, 1, 1, 2, 3, 0][random(6) as usize];
                let mut results: Vec<TensorMeta> = results.into_iter().take(count).collect();
                if random(2) == 0 && !results.is_empty() {
                    results[0] = common.clone();
                }
                let mut args = Vec::new();
                for of in &op.schema().args {
                    let mut list = || (0..random(4)).map(|_| ints[random(9) as usize]).collect();
                    let (list, int) = (Arg::Ints(list()), ints[random(9) as usize]);
                    args.push(match (of.ty.unwrap_optional(), random(20)) {
                        (_, 0) => Arg::Scalar(Scalar::Int(int)),
                        (_, 1) => Arg::None,
                        _ if of.ty != *of.ty.unwrap_optional() && int < 0 => Arg::None,
                        (T::Tensor, _) => Arg::Tensor(inputs[random(5) as usize]),
                        (T::List(of, _), _) if *of.unwrap_optional() == T::Tensor => {
                            Arg::Tensors(vec![Some(inputs[0]), Some(inputs[random(5) as usize])])
                        }
                        (T::List(..), _) => list,
                        (T::Bool, _) => Arg::Scalar(Scalar::Bool(int > 0)),
                        (T::Float, _) => Arg::Scalar(Scalar::Float(int as f64)),
                        (T::Scalar, n) if n % 2 == 0 => Arg::Scalar(Scalar::Float(int as f64)),
                        (T::Str, _) => Arg::Str("tanh".to_string()),
                        (T::ScalarType, n) => Arg::DType(dtypes[n as usize % 5]),
                        (T::Device, _) => Arg::Device(Device::CPU),
                        (T::Layout, _) => Arg::Layout(Layout::Strided),
                        (T::MemoryFormat, _) => Arg::MemoryFormat(MemoryFormat::Contiguous),
                        _ => Arg::Scalar(Scalar::Int(int)),
                    });
                }
                let y = g.complete_call(*op, args.clone(), results.clone().into());
                let z = g.complete_call(*op, args, results.into());
                if count > 0 {
                    g.set_outputs(&[y, z]);
                } else {
                    g.set_outputs(&[]);
                }
                match rewrite(&g, &options) {
                    Ok((out, _)) => {
                        rewritten += 1;
                        let text = out.to_string();
                        assert_eq!(Graph::parse(&text).map(|g| g.to_string()), Ok(text));
                    }
                    Err(RewriteError::Invalid(_)) => refused += 1,
                    Err(e @ RewriteError::BrokenRule(_)) => panic!("{op}: {e}\n{g}"),
                }
            }
        }
    }
    assert!(rewritten > 100 && refused > 100, "{rewritten} {refused}");
}
