//! What generated loops move in a second, wide and narrow: `cargo test -p straightline-runtime --lib
//! speed -- --ignored --nocapture --test-threads 1`.

use super::scheduled::planned;
use super::*;
use crate::cpu::kernels::{In, Out, Strided, reduce};
use std::time::Instant;

/// Seconds of the fastest of many runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < 0.4 {
        let t = Instant::now();
        run();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

/// Compiles a graph both ways and prints the time of each and the bytes of inputs and outputs that
/// it goes over in a second.
fn measure(name: &str, text: &str) {
    let schedule = planned(text);
    let bytes = |b: &Buffer| b.len * b.dtype.size();
    let mut memory: Vec<Vec<u64>> =
        schedule.buffers.iter().map(|b| vec![0; bytes(b).div_ceil(8) + 8]).collect();
    // pages that nobody wrote to would all be the one page of zeros; no float of any length here is denormal
    for m in &mut memory {
        m.fill(0x3f81_3f80_3f02_3f01);
    }
    let (mut inputs, mut outputs, mut moved) = (Vec::new(), Vec::new(), 0);
    for (b, m) in schedule.buffers.iter().zip(&mut memory) {
        match b.kind {
            BufferKind::Input(_) => inputs.push(ArgPtr::new(m.as_mut_ptr().cast())),
            BufferKind::Output(_) => outputs.push(m.as_mut_ptr().cast()),
            _ => continue,
        }
        moved += bytes(b);
    }
    let mut times = [0.0; 2];
    let mut strips = 0;
    for (narrow, time) in [false, true].into_iter().zip(&mut times) {
        let options = PlanOptions { narrow, keep_asm: true, ..PlanOptions::default() };
        let plan = Plan::compile(schedule.clone(), &options).expect("compiles");
        if !narrow {
            strips = plan.asm().expect("kept").matches("; strip_").count();
        }
        *time = fastest(|| {
            // SAFETY: each buffer has the bytes that the schedule says.
            unsafe { plan.run(&inputs, &[], &outputs).expect("runs") };
        });
    }
    let [wide, narrow] = times;
    println!(
        "{name:28} {strips:2} strips {:9.2} us {:6.1} GB/s, 128 bits {:9.2} us: {:.2}",
        wide * 1e6,
        moved as f64 / wide * 1e-9,
        narrow * 1e6,
        wide / narrow,
    );
}

#[test]
#[ignore = "measures"]
fn speed_of_reductions() {
    for (m, n) in [(4096, 4096), (2048, 2048), (1024, 1024), (256, 256), (100, 64)] {
        for (op, more) in [("sum.dim_IntList", ", dtype=none"), ("amax", "")] {
            for dim in [0, 1] {
                let out = if dim == 0 { n } else { m };
                let text = format!(
                    "graph(%x: f32[{m},{n}]) {{
  %0: f32[{out}] = aten::{op}(%x, dim=[{dim}], keepdim=false{more})
  return %0
}}"
                );
                measure(&format!("{op} {dim} of {m} x {n}"), &text);
            }
        }
    }
    measure(
        "softmax 0 of 1024 x 1024",
        "graph(%x: f32[1024,1024]) {
  %0: f32[1024,1024] = aten::_softmax(%x, dim=0, half_to_float=false)
  return %0
}",
    );
}

#[test]
#[ignore = "measures"]
fn speed_of_rows_in_several_passes() {
    for (m, n) in [(1024, 1024), (4096, 1024), (400, 1024), (256, 1000), (4096, 64), (64, 16384)] {
        measure(
            &format!("softmax 1 of {m} x {n}"),
            &format!(
                "graph(%x: f32[{m},{n}]) {{
  %0: f32[{m},{n}] = aten::_softmax(%x, dim=1, half_to_float=false)
  return %0
}}"
            ),
        );
    }
    for (m, n) in [(512, 768), (4096, 1024)] {
        measure(
            &format!("layer norm of {m} x {n}"),
            &format!(
                "graph(%x: f32[{m},{n}], %w: f32[{n}], %b: f32[{n}]) {{
  %y: f32[{m},{n}], %a: f32[{m},1], %r: f32[{m},1] = aten::native_layer_norm(%x, normalized_shape=[{n}], %w, %b, eps=1e-05)
  return %y
}}"
            ),
        );
    }
}

#[test]
#[ignore = "measures"]
fn speed_of_rows_beside_eager_code() {
    let sizes =
        [(4096, 4096), (512, 4096), (1024, 1024), (256, 1000), (4096, 64), (100, 64), (8, 8192)];
    for (op, name, more) in
        [(ReduceOp::Sum, "sum.dim_IntList", ", dtype=none"), (ReduceOp::Max, "amax", "")]
    {
        for (m, n) in sizes {
            let schedule = planned(&format!(
                "graph(%x: f32[{m},{n}]) {{
  %0: f32[{m}] = aten::{name}(%x, dim=[1], keepdim=false{more})
  return %0
}}"
            ));
            let plan = Plan::compile(schedule, &PlanOptions::default()).expect("compiles");
            let (x, out) = (allocate((m * n * 4) as usize), allocate(m as usize * 4));
            let (x, out) = (x.expect("memory"), out.expect("memory"));
            // SAFETY: the block has so many floats.
            let all =
                unsafe { std::slice::from_raw_parts_mut(x.as_ptr().cast(), (m * n) as usize) };
            all.fill(1.25_f32);
            let inputs = [ArgPtr::new(x.as_ptr())];
            let mut times = [Vec::new(), Vec::new()];
            let began = Instant::now();
            while began.elapsed().as_secs_f64() < 1.5 {
                let t = Instant::now();
                // SAFETY: each buffer has the bytes that the schedule says.
                unsafe { plan.run(&inputs, &[], &[out.as_ptr()]).expect("runs") };
                times[0].push(t.elapsed().as_secs_f64() * 1e6);
                let (sizes, strides) = ([[m, 1], [m, n]], [[1, 1], [n, 1]]);
                let view = |k: usize, ptr| Strided {
                    ptr,
                    dtype: DType::F32,
                    sizes: &sizes[k],
                    strides: &strides[k],
                };
                // SAFETY: the blocks have so many floats, and nothing else uses them.
                let (to, from) =
                    unsafe { (Out::new(view(0, out.as_ptr())), In::new(view(1, x.as_ptr()))) };
                let t = Instant::now();
                reduce(op, to, from).expect("reduces");
                times[1].push(t.elapsed().as_secs_f64() * 1e6);
            }
            let [compiled, eager] = times.map(|mut t| {
                t.sort_by(f64::total_cmp);
                [0, t.len() / 4, t.len() / 2].map(|k| t[k])
            });
            println!(
                "{name:16} {m:5} x {n:5} compiled {compiled:9.2?} us, eager {eager:9.2?} us: {:.3}, {:.3}, {:.3}",
                eager[0] / compiled[0],
                eager[1] / compiled[1],
                eager[2] / compiled[2],
            );
        }
    }
}

#[test]
#[ignore = "measures"]
fn speed_of_positions_and_truth() {
    for (m, n) in [(1024, 1024), (256, 1000), (100, 64)] {
        for dim in [0, 1] {
            let out = if dim == 0 { n } else { m };
            for (d, op) in
                [("f32", "argmax"), ("i64", "argmin"), ("f32", "any.dim"), ("bool", "all.dim")]
            {
                let to = if op.starts_with("arg") { "i64" } else { "bool" };
                let text = format!(
                    "graph(%x: {d}[{m},{n}]) {{
  %0: {to}[{out}] = aten::{op}(%x, dim={dim}, keepdim=false)
  return %0
}}"
                );
                measure(&format!("{op} {dim} of {m} x {n} {d}"), &text);
            }
        }
    }
}

#[test]
#[ignore = "measures"]
fn speed_of_short_rows_and_strides() {
    for n in [8, 9, 10, 11, 12, 15, 16] {
        let m = 1000;
        measure(
            &format!("softmax 1 of {m} x {n}"),
            &format!(
                "graph(%x: f32[{m},{n}]) {{
  %0: f32[{m},{n}] = aten::_softmax(%x, dim=1, half_to_float=false)
  return %0
}}"
            ),
        );
        for op in ["sum.dim_IntList", "amax"] {
            let more = if op == "amax" { "" } else { ", dtype=none" };
            measure(
                &format!("{op} 1 of {m} x {n}"),
                &format!(
                    "graph(%x: f32[{m},{n}]) {{
  %0: f32[{m}] = aten::{op}(%x, dim=[1], keepdim=false{more})
  return %0
}}"
                ),
            );
        }
    }
    for n in [64, 1000] {
        for (name, by) in [
            ("x.t() + y", ""),
            ("gelu(x.t() + y)", "  %2: f32[N,N] = aten::gelu(%1, approximate=\"none\")\n"),
        ] {
            let last = if by.is_empty() { 1 } else { 2 };
            let text = format!(
                "graph(%x: f32[N,N], %y: f32[N,N]) {{
  %0: f32[N,N]{{1,N}} = aten::t(%x)
  %1: f32[N,N] = aten::add.Tensor(%0, %y, alpha=1)
{by}  return %{last}
}}"
            );
            measure(&format!("{name} of {n}"), &text.replace('N', &n.to_string()));
        }
        let text = "graph(%x: f32[N,2N], %y: f32[N,N]) {
  %0: f32[N,N]{2N,2} = aten::slice.Tensor(%x, dim=1, start=0, end=2N, step=2)
  %1: f32[N,N] = aten::mul.Tensor(%0, %y)
  return %1
}";
        let text = text.replace("2N", &(2 * n).to_string()).replace('N', &n.to_string());
        measure(&format!("x[:, ::2] * y of {n}"), &text);
    }
}

#[test]
#[ignore = "measures"]
fn speed_of_dtypes() {
    let n = 1 << 14;
    for d in ["f32", "f64", "i64", "i32", "i16", "u8", "f16", "bf16"] {
        let operands = format!("%x: {d}[{n}], %y: {d}[{n}]");
        let product = format!(
            "graph({operands}) {{
  %0: {d}[{n}] = aten::mul.Tensor(%x, %y)
  %1: {d}[{n}] = aten::add.Tensor(%0, %y, alpha=1)
  return %1
}}"
        );
        measure(&format!("x * y + y of {d}"), &product);
        let compared = format!(
            "graph({operands}) {{
  %0: bool[{n}] = aten::lt.Tensor(%x, %y)
  return %0
}}"
        );
        measure(&format!("x < y of {d}"), &compared);
        let chosen = format!(
            "graph(%c: bool[{n}], {operands}) {{
  %0: {d}[{n}] = aten::where.self(%c, %x, %y)
  return %0
}}"
        );
        measure(&format!("c ? x : y of {d}"), &chosen);
        for (m, n) in [(128, 128)] {
            for dim in [0, 1] {
                let largest = format!(
                    "graph(%x: {d}[{m},{n}]) {{
  %0: {d}[{n}] = aten::amax(%x, dim=[{dim}], keepdim=false)
  return %0
}}"
                );
                measure(&format!("amax {dim} of {d}"), &largest);
            }
        }
    }
    for d in ["f32", "f64", "f16", "bf16"] {
        let gelu = format!(
            "graph(%x: {d}[{n}]) {{
  %0: {d}[{n}] = aten::gelu(%x, approximate=\"none\")
  return %0
}}"
        );
        measure(&format!("gelu of {d}"), &gelu);
    }
    measure(
        "sum 1 of f64",
        "graph(%x: f64[128,128]) {
  %0: f64[128] = aten::sum.dim_IntList(%x, dim=[1], keepdim=false, dtype=none)
  return %0
}",
    );
}

/// A graph of one call on matrices of 1000 x 1000, a row, truth values: those that it takes.
fn one_call(d: &str, call: &str, result: &str) -> String {
    let matrix = format!("{d}[1000,1000]");
    let inputs = [
        ("%x", matrix.clone()),
        ("%y", matrix),
        ("%r", format!("{d}[1000]")),
        ("%c", "bool[1000,1000]".to_string()),
    ];
    let taken = inputs.iter().filter(|i| call.contains(i.0));
    let taken: Vec<String> = taken.map(|(name, of)| format!("{name}: {of}")).collect();
    format!(
        "graph({}) {{
  %0: {result}[1000,1000] = aten::{call}
  return %0
}}",
        taken.join(", ")
    )
}

#[test]
#[ignore = "measures"]
fn speed_of_narrow_elements() {
    for d in ["u8", "bool", "bf16"] {
        for (call, result) in [
            ("add.Tensor(%x, %y, alpha=1)", d),
            ("maximum(%x, %y)", d),
            ("mul.Tensor(%x, %y)", d),
            ("gt.Tensor(%x, %y)", "bool"),
            ("add.Tensor(%x, %r, alpha=1)", d),
            ("where.self(%c, %x, %y)", d),
        ] {
            let text = one_call(d, call, result);
            measure(&format!("{} of {d}", call.split('(').next().unwrap_or("")), &text);
        }
        let text = format!(
            "graph(%x: {d}[998,998]) {{
  %0: {d}[1000,1000] = aten::constant_pad_nd(%x, pad=[1, 1, 1, 1], value=0)
  return %0
}}"
        );
        measure(&format!("pad of {d}"), &text);
        let text = one_call(d, "roll(%x, shifts=[1], dims=[1])", d);
        measure(&format!("roll of {d}"), &text);
    }
    for d in ["u8", "i32", "i16"] {
        let text = format!(
            "graph(%x: {d}[1000,1000]) {{
  %0: f64[1000,1000] = aten::_to_copy(%x, dtype=f64, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none)
  return %0
}}"
        );
        measure(&format!("{d} to f64"), &text);
    }
}

#[test]
#[ignore = "measures"]
fn speed_of_long_bodies() {
    for d in ["f32", "f64", "bf16"] {
        for call in [
            "exp(%x)",
            "tanh(%x)",
            "gelu(%x, approximate=\"none\")",
            "silu(%x)",
            "sin(%x)",
            "log(%x)",
            "log1p(%x)",
            "erf(%x)",
            "mish(%x)",
            "atan2(%x, %y)",
            "fmod.Tensor(%x, %y)",
            "remainder.Tensor(%x, %y)",
        ] {
            let name = format!("{} of {d}", call.split('(').next().unwrap_or(""));
            measure(&name, &one_call(d, call, d));
        }
    }
}

#[test]
#[ignore = "measures"]
fn speed_of_transposed_operands() {
    for n in [128, 1000, 1024, 4096] {
        for d in ["f32", "f64", "bf16", "u8"] {
            let text = format!(
                "graph(%x: {d}[{n},{n}], %y: {d}[{n},{n}]) {{
  %0: {d}[{n},{n}]{{1,{n}}} = aten::t(%x)
  %1: {d}[{n},{n}] = aten::add.Tensor(%0, %y, alpha=1)
  return %1
}}"
            );
            measure(&format!("x.t() + y of {n} x {n} {d}"), &text);
        }
    }
}
