//! Calls that draw random numbers: none is left out, and none overtakes another.

use crate::ir::graph::Graph;
use crate::schedule::loops::{Extern, Step};
use crate::schedule::{ScheduleOptions, schedule, verify_schedule};

#[test]
fn draws_are_made_in_order_and_all_of_them() {
    // the second draw is ready before the first, whose probabilities share a loop with what uses
    // the second
    let text = "\
graph(%x: f32[8]) {
  %0: f32[8] = aten::exp(%x)
  %1: f32[8] = aten::bernoulli(%0)
  %2: f32[8] = aten::uniform(%x, from=0.0, to=1.0)
  %3: f32[8] = aten::mul.Tensor(%0, %2)
  %4: f32[8] = aten::random(%x)
  return %3
}
";
    let graph = Graph::parse(text).expect("graph text");
    let plan = schedule(&graph, &ScheduleOptions::default()).expect("a plan");
    verify_schedule(&plan).expect("a valid schedule");
    let calls = plan.steps.iter().filter_map(|step| match step {
        Step::Extern(Extern::Op { op, .. }) => Some(op.name()),
        _ => None,
    });
    let names = ["aten::bernoulli", "aten::uniform", "aten::random"];
    assert!(calls.eq(names), "{plan}");
}
