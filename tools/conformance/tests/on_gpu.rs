//! Recorded calls on a GPU, or on the mock of one that `.ci/run` sets up: without either it says so.
//! A part of them, since on the mock NVRTC takes minutes for the programs of all; `CUDA_CASES=all` runs all.

use std::process::Command;
use straightline::cuda;

/// Runs one case of so many.
fn run(mode: &str, of: &str) {
    if !cuda::is_available() {
        assert!(std::env::var_os("STRAIGHTLINE_NEEDS_GPU").is_none(), "{}", cuda::availability());
        return eprintln!("skipped, for want of a GPU:\n{}", cuda::availability());
    }
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/public.jsonl.gz");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_conformance"));
    let every = if std::env::var("CUDA_CASES").is_ok_and(|c| c == "all") { "1" } else { of };
    tool.args([data, "--mode", mode, "--all", "--every", every]);
    let done = tool.output().expect("it starts");
    let text = String::from_utf8_lossy(&done.stdout);
    println!("{mode}: {}", text.lines().last().unwrap_or_default());
    assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn recorded_calls_on_a_gpu_are_as_on_the_cpu() {
    run("cuda", "4");
}

#[test]
fn recorded_calls_compiled_for_a_gpu_are_as_on_the_cpu() {
    run("cuda-compiled", "7");
}
