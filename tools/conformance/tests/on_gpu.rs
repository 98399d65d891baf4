//! Recorded calls on a GPU, or on the mock of one that `.ci/run` sets up: without either it says so.

use std::process::Command;
use straightline::cuda;

#[test]
fn recorded_calls_on_a_gpu_are_as_on_the_cpu() {
    if !cuda::is_available() {
        return eprintln!("skipped, for want of a GPU:\n{}", cuda::availability());
    }
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/public.jsonl.gz");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_conformance"));
    let done = tool.args([data, "--mode", "cuda", "--all"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&done.stdout);
    println!("{}", text.lines().last().unwrap_or_default());
    assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
}
