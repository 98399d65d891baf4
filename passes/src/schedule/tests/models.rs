//! Captured models, rewritten and scheduled.

use crate::ir::graph::Graph;
use crate::rewrite::{RewriteOptions, rewrite};
use crate::schedule::loops::{Extern, Schedule, Step};
use crate::schedule::{ScheduleOptions, schedule, verify_schedule};

fn planned(text: &str) -> Schedule {
    let graph = Graph::parse(text).expect("graph text");
    let (graph, _) = rewrite(&graph, &RewriteOptions::default()).expect("rewrites");
    let plan = schedule(&graph, &ScheduleOptions::default()).expect("schedules");
    verify_schedule(&plan).expect("a valid schedule");
    plan
}

#[test]
fn an_encoder_of_six_layers() {
    let text = include_str!("../../../../tests/filetests/rewrite/bert.sl");
    let plan = planned(text);
    let kernels = plan.kernels().count();
    // a layer: softmax, two norms; six linear products, two of attention. The embedding is looked
    // up inside the first norm.
    assert_eq!(kernels, 1 + 6 * 3, "{}", plan.summary());
    assert_eq!(plan.steps.len() - kernels, 6 * 8, "{}", plan.summary());
    for s in &plan.steps {
        if let Step::Extern(Extern::Op { op, .. }) = s {
            panic!("{op} was not lowered");
        }
    }
}

#[test]
fn cross_entropy_is_a_row_kernel_and_a_mean() {
    let plan = planned(
        "graph(%x: f32[256,1000], %t: i64[256]) {
  %0: f32[256,1000] = aten::_log_softmax(%x, dim=1, half_to_float=false)
  %1: i64[256,1] = aten::unsqueeze(%t, dim=1)
  %2: f32[256,1] = aten::gather(%0, dim=1, %1, sparse_grad=false)
  %3: f32[256,1] = aten::neg(%2)
  %4: f32[] = aten::mean(%3, dtype=none)
  return %4
}",
    );
    assert_eq!(plan.steps.len(), 2, "{plan}");
}
