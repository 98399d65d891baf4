//! What is called although it has loops.

use crate::ir::graph::Graph;
use crate::schedule::loops::{Extern, Schedule, Step};
use crate::schedule::{ScheduleOptions, schedule};

fn planned(text: &str) -> Schedule {
    let graph = Graph::parse(text).expect("graph text");
    schedule(&graph, &ScheduleOptions::default()).expect("a plan")
}

fn calls(plan: &Schedule) -> Vec<String> {
    let name = |s: &Step| match s {
        Step::Extern(Extern::Op { op, .. }) => Some(op.to_string()),
        _ => None,
    };
    plan.steps.iter().filter_map(name).collect()
}

fn padded(dtype: &str, n: i64) -> String {
    format!(
        "graph(%x: {dtype}[{n},1000]) {{
  %0: {dtype}[{n},1004] = aten::constant_pad_nd(%x, pad=[2, 2], value=0)
  return %0
}}"
    )
}

#[test]
fn short_elements_that_are_only_moved_are_moved_by_the_kernel() {
    let plan = planned(&padded("u8", 1000));
    assert_eq!(calls(&plan), ["aten::constant_pad_nd"], "{plan}");
    let why = &plan.decisions[0].reason;
    assert!(why.contains("131.5 us are predicted, and 351.4 us for loops"), "{why}");
    // long elements go as fast in loops, and few of them are made sooner than the call
    assert!(calls(&planned(&padded("f32", 1000))).is_empty());
    assert!(calls(&planned(&padded("u8", 3))).is_empty());
    // of no use to a GPU
    let graph = Graph::parse(&padded("u8", 1000)).expect("graph text");
    assert!(calls(&schedule(&graph, &ScheduleOptions::of_gpu()).expect("a plan")).is_empty());
}

#[test]
fn what_is_fused_is_not_called() {
    let before = planned(
        "graph(%x: u8[1000,1000]) {
  %0: u8[1000,1000] = aten::neg(%x)
  %1: u8[1000,1004] = aten::constant_pad_nd(%0, pad=[2, 2], value=0)
  return %1
}",
    );
    let after = planned(
        "graph(%x: u8[1000,1000]) {
  %0: u8[1000,1004] = aten::constant_pad_nd(%x, pad=[2, 2], value=0)
  %1: u8[1004,1000] = aten::t(%0)
  %2: u8[1004,1000] = aten::neg(%1)
  return %2
}",
    );
    assert!(calls(&before).is_empty() && calls(&after).is_empty(), "{before}{after}");
    let view = planned(
        "graph(%x: u8[1000,1000]) {
  %0: u8[1000,1004] = aten::constant_pad_nd(%x, pad=[2, 2], value=0)
  %1: u8[1004,1000] = aten::t(%0)
  return %1
}",
    );
    assert_eq!(calls(&view), ["aten::constant_pad_nd"], "{view}");
}
