//! Data checks are made even if the checked value is unused, and effects wait for them.

use crate::ir::{self, graph::Graph};
use crate::schedule::loops::{Extern, Op, Schedule, Step};
use crate::schedule::{ScheduleOptions, schedule, verify_schedule};

fn planned(body: &str) -> Schedule {
    let text = format!("graph(%x: f32[8,3], %i: i64[4,3], %n: i64[8]) {{\n{body}\n}}\n");
    let log = "my::log(Tensor x) -> ()".parse().expect("a schema");
    ir::Op::define(&log, &[] as &[&str]);
    let graph = Graph::parse(&text).expect("graph text");
    let plan = schedule(&graph, &ScheduleOptions::default()).expect("a plan");
    verify_schedule(&plan).expect("a valid schedule");
    plan
}

/// The operators of the calls whose failures a step reports.
fn blamed(plan: &Schedule, step: &Step) -> Vec<String> {
    let site = |s: &u32| plan.sites[*s as usize].call.op.to_string();
    match step {
        Step::Kernel(k) => (k.stages.iter().flat_map(|s| &s.body))
            .filter(|i| match i.op {
                Op::CheckIndex { .. } => true,
                Op::Binary(op, ..) => op.is_division() && i.dtype.is_integral(),
                _ => false,
            })
            .flat_map(|i| i.site.as_ref().map(site))
            .collect(),
        Step::Extern(Extern::Op { site: at, .. }) => at.as_ref().map(site).into_iter().collect(),
        Step::Extern(Extern::Matmul(_) | Extern::Convolution(_)) => Vec::new(),
    }
}

fn all_blamed(plan: &Schedule) -> Vec<String> {
    plan.steps.iter().flat_map(|s| blamed(plan, s)).collect()
}

#[test]
fn what_is_computed_whole_is_checked_once() {
    let plan = planned(
        "  %0: f32[4,3] = aten::gather(%x, dim=0, %i, sparse_grad=false)
  %1: f32[3,4]{1,3} = aten::t(%0)
  %2: f32[3,4]{1,3} = aten::exp(%1)
  return %2",
    );
    assert_eq!(all_blamed(&plan), ["aten::gather"], "{plan}");
}

#[test]
fn what_is_computed_in_part_or_not_at_all_is_checked_all_the_same() {
    for (body, want) in [
        ("%0: f32[4,3] = aten::gather(%x, dim=0, %i, sparse_grad=false)", "aten::gather"),
        ("%0: f32[4,3,3] = aten::embedding(%x, %i, padding_idx=-1)", "aten::embedding"),
        ("%0: i64[8] = aten::remainder.Tensor(%n, %n)", "aten::remainder.Tensor"),
        (
            "%v: f32[4,3] = aten::ones(size=[4,3], dtype=f32)
  %0: f32[8,3] = aten::scatter.src(%x, dim=0, %i, %v)",
            "aten::scatter.src",
        ),
    ] {
        let plan = planned(&format!("  {body}\n  %9: f32[8,3] = aten::exp(%x)\n  return %9"));
        assert_eq!(all_blamed(&plan), [want], "{body}\n{plan}");
    }
    let plan = planned(
        "  %0: f32[4,3] = aten::gather(%x, dim=0, %i, sparse_grad=false)
  %1: f32[3] = aten::select.int(%0, dim=0, index=1)
  return %1",
    );
    let found = all_blamed(&plan);
    assert_eq!(found, ["aten::gather"; 2], "one for the part, one for the rest: {plan}");
    // a part along a dimension that the indices do not depend on reads all of them
    let plan = planned(
        "  %0: f32[4,3,3] = aten::embedding(%x, %i, padding_idx=-1)
  %1: f32[4,3] = aten::select.int(%0, dim=2, index=1)
  return %1",
    );
    assert_eq!(all_blamed(&plan), ["aten::embedding"], "{plan}");
}

#[test]
fn calls_without_results_are_steps_and_wait_for_checks() {
    let plan = planned(
        "  %0: f32[4,3] = aten::gather(%x, dim=0, %i, sparse_grad=false)
  %1: f32[4,3] = aten::exp(%0)
  my::log(%x)
  my::log(%n)
  return %1",
    );
    let steps: Vec<Vec<String>> = plan.steps.iter().map(|s| blamed(&plan, s)).collect();
    let at = |op: &str| steps.iter().position(|s| s.iter().any(|o| o == op)).expect("a step");
    assert!(at("aten::gather") < at("my::log"), "{plan}");
    let calls = steps.iter().filter(|s| s[..] == ["my::log"]).count();
    assert_eq!(calls, 2, "{plan}");
}
