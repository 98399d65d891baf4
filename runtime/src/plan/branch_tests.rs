//! Branches and loops on operands that lie anyhow.

use super::*;
use crate::plan::PlanOptions;
use straightline_passes::ir::graph::Graph;
use straightline_passes::ir::{DType, control};
use straightline_passes::schedule::{ScheduleOptions, schedule};

fn body(text: &str) -> Body {
    let graph = Graph::parse(text).expect("a graph");
    let plan = schedule(&graph, &ScheduleOptions::default()).expect("a schedule");
    let plan = Plan::compile(plan, &PlanOptions::default()).expect("a plan");
    let inputs = graph.inputs().iter().map(|n| graph.meta((*n).into()).clone()).collect();
    Body::new(plan, inputs)
}

fn of<'a>(x: &'a [f32], sizes: &'a [i64], strides: &'a [i64]) -> View<'a> {
    View { ptr: x.as_ptr().cast(), dtype: DType::F32, sizes, strides }
}

fn to<'a>(y: &'a mut [f32], sizes: &'a [i64], strides: &'a [i64]) -> ViewMut<'a> {
    ViewMut { ptr: y.as_mut_ptr().cast(), dtype: DType::F32, sizes, strides }
}

fn ctx<'a>(inputs: &'a [View<'a>], outputs: &'a [ViewMut<'a>]) -> ExternCtx<'a> {
    ExternCtx { op: control::ops().cond, args: &[], inputs, outputs, unread: 0 }
}

#[test]
fn one_of_two_in_other_layouts() {
    let neg = body("graph(%x: f32[2,3]) { %0: f32[2,3] = aten::neg(%x) return %0 }");
    let same = body("graph(%x: f32[2,3]) { return %x }");
    // the operand is a transposed matrix, and so is the place for the result
    let x = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    for (yes, sign) in [(1u8, -1f32), (0, 1.0)] {
        let pred = View { ptr: &raw const yes, dtype: DType::Bool, sizes: &[], strides: &[] };
        let mut y = [0f32; 6];
        let inputs = [pred, of(&x, &[2, 3], &[1, 2])];
        let outputs = [to(&mut y, &[2, 3], &[1, 2])];
        // SAFETY: the arrays outlive the call.
        unsafe { cond(&ctx(&inputs, &outputs), [&neg, &same]) }.expect("runs");
        assert_eq!(y, x.map(|x| sign * x));
    }
}

#[test]
fn turns_of_a_loop() {
    let below = body(
        "graph(%x: f32[2], %w: f32[2]) {
           %0: f32[] = aten::sum(%x)
           %1: bool[] = aten::lt.Scalar(%0, other=100)
           return %1
         }",
    );
    let double =
        body("graph(%x: f32[2], %w: f32[2]) { %0: f32[2] = aten::mul.Tensor(%x, %w) return %0 }");
    // every second element
    let (x, w) = ([1f32, -9.0, 3.0], [2f32, 4.0]);
    let mut y = [0f32; 2];
    let inputs = [of(&x, &[2], &[2]), of(&w, &[2], &[1])];
    let outputs = [to(&mut y, &[2], &[1])];
    // SAFETY: the arrays outlive the call.
    unsafe { while_loop(&ctx(&inputs, &outputs), &below, &double) }.expect("runs");
    assert_eq!(y, [8.0, 192.0]);
}

#[test]
fn slices_of_a_scan() {
    let step = body(
        "graph(%c: f32[2], %x: f32[2]{3}) {
           %0: f32[2] = aten::add.Tensor(%c, %x)
           return %0, %c
         }",
    );
    // columns
    let (c, x) = ([0f32, 0.0], [1f32, 2.0, 3.0, 10.0, 20.0, 30.0]);
    for (reverse, expected) in
        [(false, [0f32, 0.0, 1.0, 10.0, 3.0, 30.0]), (true, [5.0, 50.0, 3.0, 30.0, 0.0, 0.0])]
    {
        let (mut last, mut ys) = ([0f32; 2], [0f32; 6]);
        let inputs = [of(&c, &[2], &[1]), of(&x, &[3, 2], &[1, 3])];
        let outputs = [to(&mut last, &[2], &[1]), to(&mut ys, &[3, 2], &[2, 1])];
        // SAFETY: the arrays outlive the call.
        unsafe { scan(&ctx(&inputs, &outputs), &step, 1, 1, reverse) }.expect("runs");
        assert_eq!((last, ys), ([6.0, 60.0], expected));
    }
}

#[test]
fn other_operands_are_refused() {
    let neg = body("graph(%x: f32[2]) { %0: f32[2] = aten::neg(%x) return %0 }");
    let mut y = [0f32; 2];
    let outputs = [to(&mut y, &[2], &[1])];
    let yes = 1u8;
    let pred = View { ptr: &raw const yes, dtype: DType::Bool, sizes: &[], strides: &[] };
    // SAFETY: the arrays outlive the calls.
    let (none, few) = unsafe {
        (cond(&ctx(&[], &outputs), [&neg, &neg]), cond(&ctx(&[pred], &outputs), [&neg, &neg]))
    };
    assert!(none.unwrap_err().to_string().contains("no predicate"));
    assert!(few.unwrap_err().to_string().contains("0 operands and 1 results"));
}
