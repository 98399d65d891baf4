//! Kernels that keep a row in their result.

use super::asks::softmax;
use super::scheduled::{check, planned};
use crate::cpu::jit::kept::in_results;
use crate::cpu::jit::sizes::Program;

/// Elements of scratch that the kernels of a graph have.
fn kept(text: &str) -> i64 {
    let schedule = planned(text);
    let mut program = Program::new(&schedule, &[]);
    in_results(&mut program);
    program.kernels().flat_map(|k| &k.scratch).map(|s| s.len.fixed().expect("one schedule")).sum()
}

#[test]
fn a_row_lies_in_the_result_unless_an_operand_may() {
    let then = |more: &str, result: &str| {
        format!(
            "graph(%x: f32[8,64], %w: f32[64]) {{
  %0: f32[8,64] = aten::_softmax(%x, dim=1, half_to_float=false)
{more}  return {result}
}}"
        )
    };
    let moved = [
        softmax("f32", 8, 64),
        softmax("f64", 8, 64),
        then("  %1: f32[8,64] = aten::mul.Tensor(%0, %w)\n", "%1"),
    ];
    for text in &moved {
        assert_eq!(kept(text), 0, "{text}");
        check(text);
    }
    let stays = [
        // the exponentials are longer than the result
        softmax("bf16", 8, 64),
        // one row: `w` and `x` have the same place in it
        softmax("f32", 1, 64),
        // the last pass reads the operand, where the result may lie
        then("  %1: f32[8,64] = aten::mul.Tensor(%0, %x)\n", "%1"),
    ];
    for text in &stays {
        assert_eq!(kept(text), 64, "{text}");
        check(text);
    }
}
