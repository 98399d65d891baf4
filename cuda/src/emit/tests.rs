use super::{Machine, Mapping, Numbers, program};
use crate::nvrtc::{self, CompileError, Target};
use straightline_passes::ir::graph::Graph;
use straightline_passes::schedule::{ScheduleOptions, schedule};

fn emitted(text: &str, numbers: Numbers) -> super::Program {
    let graph: Graph = text.parse().expect("a graph");
    let schedule = schedule(&graph, &ScheduleOptions::of_gpu()).expect("a schedule");
    program(&schedule, numbers, Machine::LARGE).expect("a program")
}

/// Graphs whose kernels are mapped in every way.
const GRAPHS: [(&str, &[Mapping]); 12] = [
    (SOFTMAX, &[Mapping::Rows { threads: 64, width: 8, kept: 2 }]),
    // a row that is not a multiple of anything
    (
        "graph(%x: f32[64,33], %y: f32[33]) {
  %0: f32[64,33] = aten::mul.Tensor(%x, %y)
  %1: f32[64,33] = aten::gelu(%0)
  %2: f32[64] = aten::sum.dim_IntList(%1, dim=[1])
  return %1, %2
}",
        &[Mapping::Points { width: 1 }, Mapping::Rows { threads: 64, width: 1, kept: 1 }],
    ),
    (
        "graph(%x: i32[64,33], %y: i32[64,33]) {
  %0: i32[64,33] = aten::div.Tensor_mode(%x, %y, rounding_mode=\"floor\")
  %1: i64[64] = aten::argmax(%0, dim=1)
  return %0, %1
}",
        &[Mapping::Points { width: 1 }, Mapping::Rows { threads: 64, width: 1, kept: 1 }],
    ),
    // sums of two stages that are the same instruction of each
    (
        "graph(%x: f32[64,33], %y: f32[64,33]) {
  %0: f32[64,33] = aten::mul.Tensor(%x, %y)
  %1: f32[64,1] = aten::sum.dim_IntList(%0, dim=[1], keepdim=true)
  %2: f32[64,33] = aten::sub.Tensor(%x, %1)
  %3: f32[64] = aten::sum.dim_IntList(%2, dim=[1])
  return %3
}",
        &[Mapping::Rows { threads: 64, width: 1, kept: 1 }],
    ),
    // a row that no registers hold
    (
        "graph(%x: f32[2048,60000]) {
  %0: f32[2048,60000] = aten::exp(%x)
  %1: f32[2048,1] = aten::sum.dim_IntList(%0, dim=[1], keepdim=true)
  %2: f32[2048,60000] = aten::div.Tensor(%0, %1)
  return %2
}",
        &[Mapping::Rows { threads: 1024, width: 4, kept: 0 }],
    ),
    // many short rows: two of them in a warp
    (
        "graph(%x: f32[300000,12]) {
  %0: f32[300000] = aten::amax(%x, dim=[1])
  return %0
}",
        &[Mapping::Rows { threads: 16, width: 1, kept: 1 }],
    ),
    // enough elements for 16 bytes at once
    (
        "graph(%x: bf16[4096,1024], %w: bf16[1024]) {
  %0: bf16[4096,1024] = aten::mul.Tensor(%x, %w)
  return %0
}",
        &[Mapping::Points { width: 8 }],
    ),
    // the smaller elements are taken with fewer bytes
    (
        "graph(%x: f32[4096,1024], %w: u8[4096,1024]) {
  %0: f32[4096,1024] = aten::mul.Tensor(%x, %w)
  return %0
}",
        &[Mapping::Points { width: 4 }],
    ),
    // too few
    (
        "graph(%x: f32[64,64]) {
  %0: f32[64,64] = aten::exp(%x)
  return %0
}",
        &[Mapping::Points { width: 1 }],
    ),
    (
        "graph(%x: f32[1024,2048], %y: f32[2048,1024]) {
  %0: f32[2048,1024] = aten::t(%x)
  %1: f32[2048,1024] = aten::add.Tensor(%0, %y)
  return %1
}",
        &[Mapping::Tiles],
    ),
    // columns, cut so that all blocks have work, and added up
    (
        "graph(%x: f32[65536,64]) {
  %0: f32[64] = aten::sum.dim_IntList(%x, dim=[0])
  return %0
}",
        &[Mapping::Columns { lanes: 32, members: 16 }, Mapping::Columns { lanes: 32, members: 16 }],
    ),
    (
        "graph(%x: f16[1000,300], %i: i64[50], %s: f16[50,300]) {
  %0: f16[1000,300] = aten::index_add(%x, dim=0, %i, %s)
  return %0
}",
        &[Mapping::Points { width: 1 }, Mapping::Elements],
    ),
];

const SOFTMAX: &str = "graph(%x: bf16[8192,1000]) {
  %0: bf16[8192,1] = aten::amax(%x, dim=[1], keepdim=true)
  %1: bf16[8192,1000] = aten::sub.Tensor(%x, %0)
  %2: bf16[8192,1000] = aten::exp(%1)
  %3: bf16[8192,1] = aten::sum.dim_IntList(%2, dim=[1], keepdim=true)
  %4: bf16[8192,1000] = aten::div.Tensor(%2, %3)
  return %4
}";

#[test]
fn kernels_are_mapped_by_their_sizes() {
    let found = GRAPHS.map(|(text, _)| {
        let kernels = emitted(text, Numbers::Arguments).kernels;
        kernels.iter().map(|k| k.shape.mapping).collect::<Vec<_>>()
    });
    assert_eq!(found, GRAPHS.map(|(_, mappings)| mappings.to_vec()));
}

/// A row stays in registers: no memory is read twice, and none but the result's written.
#[test]
fn a_softmax_reads_and_writes_once_and_by_16_bytes() {
    let program = emitted(SOFTMAX, Numbers::Arguments);
    let ptx = match nvrtc::compile(&program.text, Target::Ptx { capability: 90 }) {
        Ok(binary) => String::from_utf8(binary.code).expect("text"),
        Err(CompileError::Unavailable { reason }) => return eprintln!("skipped: {reason}"),
        Err(e) => panic!("{e}\n{}", program.text),
    };
    // two turns of eight elements, once by 16 bytes and once, where addresses are odd, one by one
    let count = |what: &str| ptx.matches(what).count();
    assert_eq!((count("ld.global.v4"), count("st.global.v4")), (2, 2), "{ptx}");
    assert_eq!((count("ld.global.u16"), count("st.global.u16")), (16, 16), "{ptx}");
    assert_eq!(count("ld.local") + count("st.local"), 0, "{ptx}");
}

/// Registers for two blocks of the most threads on a multiprocessor would be 32; what keeps rows has twice
/// as many.
const MOST_REGISTERS: u32 = 64;

#[test]
fn nvrtc_compiles_what_is_emitted_without_spills() {
    for (text, _) in GRAPHS {
        for numbers in [Numbers::Literals, Numbers::Arguments] {
            let program = emitted(text, numbers);
            match nvrtc::compile(&program.text, Target::Cubin { capability: 90 }) {
                Ok(binary) => {
                    for r in &binary.resources {
                        println!("{r:?} {:?}", binary.took);
                        assert_eq!(r.spilled, (0, 0), "{r:?}\n{}", program.text);
                        assert!(r.registers <= MOST_REGISTERS, "{r:?}\n{}", program.text);
                    }
                }
                Err(CompileError::Unavailable { reason }) => return eprintln!("skipped: {reason}"),
                Err(e) => panic!("{e}\n{}", program.text),
            }
        }
    }
}

/// Layers that do the same run one function.
#[test]
fn kernels_that_do_the_same_are_one_function() {
    let program = emitted(
        "graph(%x: f32[64,33], %w: f32[33,33]) {
  %0: f32[64,33] = aten::exp(%x)
  %1: f32[64,33] = aten::mm(%0, %w)
  %2: f32[64,33] = aten::exp(%1)
  %3: f32[64,33] = aten::mm(%2, %w)
  %4: f32[64,33] = aten::exp(%3)
  return %4
}",
        Numbers::Arguments,
    );
    let names: Vec<&str> = program.kernels.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(names, [names[0]; 3]);
    assert_eq!(program.text.matches("__global__").count(), 1);
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

/// What a thread for each element counts may be more than any buffer has.
#[test]
fn elements_are_counted_by_64_bits_where_they_are_many() {
    let index_type = |points: i64| {
        let text = format!(
            "graph(%x: f32[64,40000], %i: i64[{points}]) {{
  %0: f32[64,40000] = aten::index_fill.int_Scalar(%x, dim=0, %i, value=2.5)
  return %0
}}"
        );
        let program = emitted(&text, Numbers::Arguments);
        let source = program.text.split("extern").find(|s| s.contains("index_fill")).unwrap_or("");
        let long = source.contains("const long long worker");
        (program.kernels.last().map(|k| k.shape.mapping), long)
    };
    assert_eq!(index_type(50), (Some(Mapping::Elements), false));
    assert_eq!(index_type(60_000), (Some(Mapping::Elements), true));
}
