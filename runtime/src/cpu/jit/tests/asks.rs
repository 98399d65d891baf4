//! Kernels that ask the memory for the next row.

use super::scheduled::{case, planned};
use super::*;
use crate::cpu::math::isa;

pub(super) fn softmax(d: &str, m: i64, n: i64) -> String {
    format!(
        "graph(%x: {d}[{m},{n}]) {{
  %0: {d}[{m},{n}] = aten::_softmax(%x, dim=1, half_to_float=false)
  return %0
}}"
    )
}

/// Whether the strips of a graph ask for what they will read.
fn asked(text: &str) -> bool {
    let options = PlanOptions { keep_asm: true, ..PlanOptions::default() };
    let plan = Plan::compile(planned(text), &options).expect("compiles");
    let asm = plan.asm().expect("kept");
    let hex = |l: &&str| !l.is_empty() && l.bytes().all(|b| b.is_ascii_hexdigit());
    let code: String = asm.lines().filter(hex).collect();
    let bytes: Vec<&str> = (0..code.len() / 2).map(|i| &code[2 * i..2 * i + 2]).collect();
    bytes.windows(2).any(|w| *w == ["0f", "18"])
}

#[test]
fn the_pass_with_the_exponentials_asks() {
    let wide = isa().bits() > 128;
    assert_eq!(asked(&softmax("f32", 1024, 1024)), wide);
    assert_eq!(asked(&softmax("f32", 400, 1001)), wide);
    assert_eq!(asked(&softmax("bf16", 1024, 1024)), wide);
    // in the second cache already; short rows, and ones that are longer than what stays there
    for (m, n) in [(200, 1024), (1 << 16, 64), (64, 1 << 17)] {
        assert!(!asked(&softmax("f32", m, n)), "{m} x {n}");
    }
    // one pass
    let text = "graph(%x: f32[1024,1024]) {
  %0: f32[1024,1024] = aten::exp(%x)
  return %0
}";
    assert!(!asked(text));
}

#[test]
fn what_is_asked_for_changes_nothing() {
    // the interpreter takes half a second for so many elements
    let text = softmax("f32", 258, 1024);
    assert_eq!(asked(&text), isa().bits() > 128);
    case(&text, 0).check_emitter(2e-5, false, false);
}
