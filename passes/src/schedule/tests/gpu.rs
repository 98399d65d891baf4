//! Schedules for GPUs: work for all of their threads.

use crate::ir::graph::Graph;
use crate::schedule::loops::{Schedule, Step};
use crate::schedule::{ScheduleOptions, schedule, verify_schedule};

fn of(text: &str, deterministic: bool) -> Schedule {
    let graph: Graph = text.parse().expect("a graph");
    let options = ScheduleOptions { deterministic, ..ScheduleOptions::of_gpu() };
    let plan = schedule(&graph, &options).expect("a plan");
    verify_schedule(&plan).expect("valid");
    plan
}

fn points(plan: &Schedule) -> Vec<i64> {
    plan.kernels().map(|k| k.points()).collect()
}

const SCATTER: &str = "graph(%x: f32[64,50], %i: i64[64,20], %y: f32[64,20]) {
  %0: f32[64,50] = aten::scatter_add(%x, dim=1, %i, %y)
  %1: f32[64,50] = aten::relu(%0)
  return %1
}";

#[test]
fn a_scatter_is_a_launch_of_its_own() {
    let plan = of(SCATTER, false);
    // the copy and what reads the result have a point for each element; the scatter keeps its stage, whose
    // elements come in any order
    assert_eq!(points(&plan), [3200, 64, 3200], "{plan}");
    let any_order: Vec<bool> = plan.kernels().map(|k| k.in_any_order).collect();
    assert_eq!(any_order, [false, true, false]);
    assert!(plan.kernels().all(|k| k.stages.len() == 1), "{plan}");
    for decision in &plan.decisions {
        let at = decision.step.expect("both are computed");
        assert!(matches!(plan.steps[at], Step::Kernel(_)));
    }
}

#[test]
fn in_order_it_is_one() {
    let plan = of(SCATTER, true);
    assert_eq!(points(&plan), [64], "{plan}");
    assert!(plan.kernels().all(|k| !k.in_any_order && k.stages.len() == 3));
}

/// Few results of many elements: parts first, so that all multiprocessors have some.
#[test]
fn long_reductions_are_cut() {
    let sum = |sizes: &str, dims: &str, result: &str| {
        let text = format!(
            "graph(%x: f32[{sizes}]) {{\n  %0: f32[{result}] = aten::sum.dim_IntList(%x, dim=[{dims}])\n  return %0\n}}"
        );
        points(&of(&text, false))
    };
    assert_eq!(sum("4096,4096", "0,1", ""), [512, 1]);
    assert_eq!(sum("8,1000000", "1", "8"), [8 * 64, 8]);
    assert_eq!(sum("65536,64", "0", "64"), [256 * 64, 64]);
    // enough rows, or short ones
    assert_eq!(sum("4096,4096", "1", "4096"), [4096]);
    assert_eq!(sum("3,1000", "1", "3"), [3]);
}
