use super::{Numbers, program};
use crate::nvrtc::{self, CompileError, Target};
use straightline_passes::ir::graph::Graph;
use straightline_passes::schedule::{ScheduleOptions, schedule};

fn emitted(text: &str, numbers: Numbers) -> super::Program {
    let graph: Graph = text.parse().expect("a graph");
    let schedule = schedule(&graph, &ScheduleOptions::default()).expect("a schedule");
    program(&schedule, numbers).expect("a program")
}

const SOFTMAX: &str = "graph(%x: bf16[64,1000]) {
  %0: bf16[64,1000] = aten::_softmax(%x, dim=1, half_to_float=false)
  return %0
}";

#[test]
fn nvrtc_compiles_what_is_emitted_without_spills() {
    let graphs = [
        SOFTMAX,
        "graph(%x: f32[64,33], %y: f32[33]) {
  %0: f32[64,33] = aten::mul.Tensor(%x, %y)
  %1: f32[64,33] = aten::gelu(%0)
  %2: f32[64] = aten::sum.dim_IntList(%1, dim=[1])
  return %1, %2
}",
        "graph(%x: i32[64,33], %y: i32[64,33]) {
  %0: i32[64,33] = aten::div.Tensor_mode(%x, %y, rounding_mode=\"floor\")
  %1: i64[64] = aten::argmax(%0, dim=1)
  return %0, %1
}",
        // sums of two stages that are the same instruction of each
        "graph(%x: f32[64,33], %y: f32[64,33]) {
  %0: f32[64,33] = aten::mul.Tensor(%x, %y)
  %1: f32[64,1] = aten::sum.dim_IntList(%0, dim=[1], keepdim=true)
  %2: f32[64,33] = aten::sub.Tensor(%x, %1)
  %3: f32[64] = aten::sum.dim_IntList(%2, dim=[1])
  return %3
}",
    ];
    for text in graphs {
        for numbers in [Numbers::Literals, Numbers::Arguments] {
            let program = emitted(text, numbers);
            match nvrtc::compile(&program.text, Target::Cubin { capability: 90 }) {
                Ok(binary) => {
                    assert_eq!(binary.resources.len(), program.kernels.len());
                    for r in &binary.resources {
                        println!("{r:?} {:?}", binary.took);
                        assert_eq!(r.spilled, (0, 0), "{r:?}\n{}", program.text);
                    }
                }
                Err(CompileError::Unavailable { reason }) => return eprintln!("skipped: {reason}"),
                Err(e) => panic!("{e}\n{}", program.text),
            }
        }
    }
}

#[test]
fn sizes_and_constants_make_no_other_program() {
    let of = |rows: i64, number: f64| {
        let text = format!(
            "graph(%x: f32[{rows},33]) {{
  %0: f32[{rows},33] = aten::mul.Scalar(%x, other={number:?})
  %1: f32[{rows}] = aten::sum.dim_IntList(%0, dim=[1])
  return %1
}}"
        );
        (emitted(&text, Numbers::Arguments), emitted(&text, Numbers::Literals))
    };
    let ((a, literal_a), (b, literal_b)) = (of(40, 2.5), of(50, 3.25));
    assert_eq!(a.text, b.text);
    assert_ne!(a.kernels[0].numbers, b.kernels[0].numbers);
    assert_ne!(literal_a.text, literal_b.text);
}
