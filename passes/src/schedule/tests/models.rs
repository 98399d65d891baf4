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
fn a_call_says_which_of_its_results_nothing_reads() {
    let pool = "graph(%x: f32[1,1,4,4]) {
  %y: f32[1,1,2,2], %y.1: i64[1,1,2,2] = aten::max_pool2d_with_indices(%x, kernel_size=[2, 2], stride=[], padding=[0, 0], dilation=[1, 1], ceil_mode=false)
";
    for (uses, unread) in [("%y", 0b10), ("%y.1", 0b01), ("%y.1, %y", 0)] {
        let plan = planned(&format!("{pool}  return {uses}\n}}"));
        let masks = plan.steps.iter().map(|step| match step {
            Step::Extern(Extern::Op { unread, .. }) => *unread,
            _ => panic!("one call: {plan}"),
        });
        assert!(masks.eq([unread]), "{uses}: {plan}");
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

/// `x -= mean(x)`, so often.
fn centred(times: usize) -> String {
    let mut text = String::from("graph(%x: f32[4,4]) {\n");
    let mut last = "%x".to_string();
    for i in 0..times {
        text += &format!(
            "  %m{i}: f32[4,1] = aten::mean.dim({last}, dim=[1], keepdim=true, dtype=none)\n  \
             %y{i}: f32[4,4] = aten::sub.Tensor({last}, %m{i}, alpha=1)\n"
        );
        last = format!("%y{i}");
    }
    text + &format!("  return {last}\n}}\n")
}

#[test]
fn code_grows_with_the_length_of_a_chain_of_means_not_with_its_square() {
    let instructions = |times| {
        let plan = planned(&centred(times));
        let stages = plan.kernels().flat_map(|k| &k.stages);
        stages.map(|s| s.body.len()).sum::<usize>()
    };
    let (short, long) = (instructions(24), instructions(96));
    assert!(long < 6 * short, "{short} instructions for 24, {long} for 96");
}

#[test]
fn a_long_program_needs_no_long_stack() {
    let check = || {
        let graph = Graph::parse(&centred(4000)).expect("graph text");
        crate::ir::verify::verify(&graph).expect("a valid graph");
    };
    // debug builds of this crate's users have far larger frames than its own tests
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(check).unwrap().join().unwrap();
}
