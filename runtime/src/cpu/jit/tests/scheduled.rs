//! Graphs as the scheduler lowers them.

use super::*;
use straightline_passes::ir::graph::Graph;
use straightline_passes::rewrite::{RewriteOptions, rewrite};
use straightline_passes::schedule::{ScheduleOptions, schedule};

pub(super) fn planned(text: &str) -> Schedule {
    let graph = Graph::parse(text).expect("graph text");
    let (graph, _) = rewrite(&graph, &RewriteOptions::default()).expect("rewrites");
    schedule(&graph, &ScheduleOptions::default()).expect("schedules")
}

/// A case with random numbers in the inputs; indices stay below `index_limit`.
pub(super) fn case(text: &str, index_limit: u64) -> Case {
    let schedule = planned(text);
    let mut rng = Rng(text.len() as u64);
    let memory = schedule
        .buffers
        .iter()
        .map(|b| match &b.kind {
            BufferKind::Input(_) if b.dtype == DType::I64 => {
                (0..b.len).map(|_| Scalar::Int(rng.below(index_limit) as i64)).collect()
            }
            BufferKind::Input(_) => (0..b.len)
                .map(|_| Scalar::Float(rng.below(400) as f64 * 0.01 - 2.0).cast(b.dtype))
                .collect(),
            BufferKind::Constant(bytes) => from_bytes(bytes, b.dtype),
            _ => vec![Scalar::Int(0).cast(b.dtype); b.len],
        })
        .collect();
    Case { schedule, memory }
}

pub(super) fn check(text: &str) {
    let c = case(text, 3);
    assert!(
        c.schedule.steps.iter().all(|s| matches!(s, Step::Kernel(_))),
        "kernels only: {:#?}",
        c.schedule.steps
    );
    c.check(2e-5);
}

/// The code for sizes `a` and `b` in the place of `N` serves the others, with the interpreter's
/// results.
fn serves(text: &str, [a, b]: [i64; 2], others: &[i64]) {
    let of = |n: i64| text.replace("N2", &(2 * n).to_string()).replace('N', &n.to_string());
    let options = PlanOptions::default();
    let first = Plan::compile(planned(&of(a)), &options).expect("compiles");
    let code = Plan::compile_for(planned(&of(b)), &[&first], &options).expect("compiles");
    assert!(code.reads() > 0, "nothing varies");
    for &n in [a, b].iter().chain(others) {
        let c = case(&of(n), 3);
        let plan = match code.sharing(&c.schedule, &options).expect("shares") {
            Ok(plan) => plan,
            Err(misfit) => panic!("{n}: {misfit}"),
        };
        assert!(plan.shares_code_with(&code));
        let got = c.run(&plan).expect("runs");
        c.compare(&got, &c.interpreted().expect("interpreted"), 2e-5);
    }
}

#[test]
fn one_code_serves_many_sizes() {
    serves(
        "graph(%x: f32[N,7], %y: f32[7,N]) {
  %0: f32[7,N] = aten::gelu(%y, approximate=\"none\")
  %1: f32[N,7] = aten::t(%0)
  %2: f32[N,7] = aten::mul.Tensor(%x, %1)
  return %2
}",
        [12, 30],
        &[2, 3, 15, 16, 17, 64, 100],
    );
    serves(
        "graph(%x: f32[6,N], %w: f32[N], %b: f32[N]) {
  %s: f32[6,N] = aten::_softmax(%x, dim=1, half_to_float=false)
  %y: f32[6,N], %m: f32[6,1], %r: f32[6,1] = aten::native_layer_norm(%s, normalized_shape=[N], %w, %b, eps=1e-05)
  return %s, %y
}",
        [33, 47],
        &[5, 16, 17, 128, 300, 2000],
    );
    serves(
        "graph(%x: f32[N,4,N2]) {
  %a: f32[4,N2] = aten::sum.dim_IntList(%x, dim=[0], keepdim=false, dtype=none)
  %b: f32[N,4] = aten::amax(%x, dim=[2], keepdim=false)
  %d: f32[N,N2] = aten::sum.dim_IntList(%x, dim=[1], keepdim=false, dtype=none)
  %e: i64[N,4] = aten::argmax(%x, dim=2, keepdim=false)
  return %a, %b, %d, %e
}",
        [8, 21],
        &[9, 16, 40, 70],
    );
    // the divisor is a literal that varies
    serves(
        "graph(%x: f32[N,50]) {
  %c: f32[] = aten::mean(%x, dtype=none)
  return %c
}",
        [8, 21],
        &[9, 16],
    );
    serves(
        "graph(%w: f32[3,17], %i: i64[2,N]) {
  %0: f32[2,N,17] = aten::embedding(%w, %i, padding_idx=-1, scale_grad_by_freq=false, sparse=false)
  %1: f32[2,N,17] = aten::relu(%0)
  return %1
}",
        [5, 6],
        &[2, 31, 64],
    );
}

/// Units are numbered by division, which no size may make one by zero.
#[test]
fn a_size_of_zero_is_a_kind_of_its_own() {
    let text = |n: i64| {
        format!(
            "graph(%x: f32[{n},300,3], %y: f32[3,{n},300]) {{
  %0: f32[{n},300,3] = aten::permute(%y, dims=[1, 2, 0])
  %1: f32[{n},300,3] = aten::add.Tensor(%x, %0, alpha=1)
  return %1
}}"
        )
    };
    let options = PlanOptions::default();
    let first = Plan::compile(planned(&text(200)), &options).expect("compiles");
    let code = Plan::compile_for(planned(&text(300)), &[&first], &options).expect("compiles");
    let refused = code.sharing(&planned(&text(0)), &options).expect("looks").err();
    assert!(refused.is_some(), "code for many rows runs on none");
    let c = case(&text(257), 3);
    let plan = code.sharing(&c.schedule, &options).expect("looks").expect("serves");
    c.compare(&c.run(&plan).expect("runs"), &c.interpreted().expect("interpreted"), 2e-5);
}

/// A temporary lies in a result that has room for it, or else in the arena.
#[test]
fn where_temporaries_lie_is_a_number() {
    let text = "graph(%x: f32[N,30], %y: f32[64,1]) {
  %0: f32[N,30] = aten::_softmax(%x, dim=1, half_to_float=false)
  %1: f32[30] = aten::sum.dim_IntList(%0, dim=[0], keepdim=false, dtype=none)
  %2: f32[30] = aten::_softmax(%1, dim=0, half_to_float=false)
  %3: f32[64,30] = aten::add.Tensor(%y, %2, alpha=1)
  return %3
}";
    serves(text, [30, 40], &[20, 64, 65, 100, 300]);
    let hosts = |n: i64| -> Vec<i64> {
        let schedule = planned(&text.replace('N', &n.to_string()));
        schedule.buffers.iter().filter_map(|b| b.kind.place()).map(|[host, _]| host).collect()
    };
    assert_ne!(hosts(30), hosts(300), "they lie in the same memory");
}

/// The positions that a kernel reads from a list are another list for each size.
#[test]
fn listed_positions_are_numbers() {
    serves(
        "graph(%x: f32[2,3,N]) {
  %0: f32[2,3,N2] = aten::upsample_nearest1d(%x, output_size=[N2], scales=none)
  %1: f32[2,3,N2] = aten::relu(%0)
  return %1
}",
        [20, 33],
        &[2, 7, 16, 40, 100],
    );
}

#[test]
fn code_of_another_structure_is_refused() {
    let text = |n: i64| {
        format!(
            "graph(%x: f32[{n},40]) {{
  %0: f32[40] = aten::sum.dim_IntList(%x, dim=[0], keepdim=false, dtype=none)
  return %0
}}"
        )
    };
    let options = PlanOptions::default();
    let many = Plan::compile(planned(&text(30)), &options).expect("compiles");
    let refused = |n| many.sharing(&planned(&text(n)), &options).expect("looks").err();
    assert!(matches!(refused(31), Some(Misfit::Numbers { .. })), "{:?}", refused(31));
    assert!(matches!(refused(1), Some(Misfit::Structure(_))), "{:?}", refused(1));
    assert_eq!(refused(30), None);
}

#[test]
fn pointwise_and_views() {
    check(
        "graph(%x: f32[5,7], %y: f32[7,5], %c: f32[1,7]) {
  %0: f32[7,5] = aten::gelu(%y, approximate=\"none\")
  %1: f32[5,7] = aten::t(%0)
  %2: f32[5,7] = aten::mul.Tensor(%x, %1)
  %3: f32[5,7] = aten::add.Tensor(%2, %c, alpha=2)
  %4: f32[5,7] = aten::tanh(%3)
  return %4, %2
}",
    );
}

#[test]
fn softmax_and_norms() {
    check(
        "graph(%x: f32[6,33], %w: f32[33], %b: f32[33]) {
  %s: f32[6,33] = aten::_softmax(%x, dim=1, half_to_float=false)
  %y: f32[6,33], %m: f32[6,1], %r: f32[6,1] = aten::native_layer_norm(%s, normalized_shape=[33], %w, %b, eps=1e-05)
  return %s, %y
}",
    );
    check(
        "graph(%x: f32[2,6,5], %w: f32[6], %b: f32[6]) {
  %g: f32[2,6,5], %gm: f32[2,3], %gr: f32[2,3] = aten::native_group_norm(%x, %w, %b, N=2, C=6, HxW=5, group=3, eps=1e-05)
  %n0: f32[2,6,5], %n1: f32[0], %n2: f32[0] = aten::native_batch_norm(%x, %w, %b, %w, %w, training=false, momentum=0.1, eps=1e-05)
  return %g, %n0
}",
    );
}

#[test]
fn reductions_over_leading_inner_and_all_dimensions() {
    check(
        "graph(%x: f32[9,4,13]) {
  %a: f32[4,13] = aten::sum.dim_IntList(%x, dim=[0], keepdim=false, dtype=none)
  %b: f32[9,4] = aten::amax(%x, dim=[2], keepdim=false)
  %c: f32[] = aten::mean(%x, dtype=none)
  %d: f32[9,13] = aten::sum.dim_IntList(%x, dim=[1], keepdim=false, dtype=none)
  %e: i64[9,4] = aten::argmax(%x, dim=2, keepdim=false)
  return %a, %b, %c, %d, %e
}",
    );
}

#[test]
fn gather_embedding_and_loss() {
    check(
        "graph(%w: f32[3,17], %i: i64[2,5]) {
  %0: f32[2,5,17] = aten::embedding(%w, %i, padding_idx=-1, scale_grad_by_freq=false, sparse=false)
  %1: f32[2,5,17] = aten::relu(%0)
  return %1
}",
    );
    check(
        "graph(%x: f32[8,10], %t: i64[8]) {
  %0: f32[8,10] = aten::_log_softmax(%x, dim=1, half_to_float=false)
  %1: i64[8,1] = aten::unsqueeze(%t, dim=1)
  %2: f32[8,1] = aten::gather(%0, dim=1, %1, sparse_grad=false)
  %3: f32[8,1] = aten::neg(%2)
  %4: f32[] = aten::mean(%3, dtype=none)
  return %4
}",
    );
}

#[test]
fn an_encoder_compiles() {
    let text = include_str!("../../../../../tests/filetests/rewrite/bert.sl");
    let plan = Plan::compile(planned(text), &PlanOptions::default()).expect("compiles");
    println!("{} bytes\n{}", plan.code_bytes(), plan.timings());
    assert!(plan.code_bytes() > 1000);
}
