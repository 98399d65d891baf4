//! The command line, driven as a user drives it.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn straightline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_straightline"))
        .args(arguments)
        .env_remove("STRAIGHTLINE_MINILM")
        .env_remove("STRAIGHTLINE_LOG")
        .env_remove("STRAIGHTLINE_SHOW_DISPATCH_TRACE")
        .output()
        .expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is UTF-8")
}

/// Standard output of a command that must succeed.
#[track_caller]
fn stdout(arguments: &[&str]) -> String {
    let output = straightline(arguments);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    text(&output.stdout)
}

/// Standard error of a command that must fail without panicking.
#[track_caller]
fn failure(arguments: &[&str], code: i32) -> String {
    let output = straightline(arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(errors.contains("error: "), "{errors}");
    errors
}

const GRAPH: &str = "graph(%x: f32[4,8], %b: f32[8]) {
  %0: f32[4,8] = aten::add.Tensor(%x, %b, alpha=1)
  %1: f32[4,8] = aten::gelu(%0, approximate=\"none\")
  return %1
}
";

/// A graph file in a directory of its own.
fn graph_file(graph: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.sl");
    std::fs::write(&path, graph).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn bench_prints_json_lines() {
    let lines = stdout(&["bench", "-w", "w1.add", "-w", "w2.chain100_16", "--json", "--quick"]);
    let rows: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let row = |workload: &str, mode: &str| {
        let found = rows.iter().find(|r| r["workload"] == workload && r["mode"] == mode);
        found.unwrap_or_else(|| panic!("no row for {workload} {mode} in {lines}"))
    };
    for workload in ["w1.add", "w2.chain100_16"] {
        let (eager, compiled) = (row(workload, "eager"), row(workload, "compiled"));
        for r in [eager, compiled] {
            assert_eq!(r["framework"], "straightline");
            assert_eq!(r["version"], env!("CARGO_PKG_VERSION"));
            assert_eq!(r["threads"], 1);
            for number in ["median_us", "p10", "p90", "compile_ms"] {
                assert!(r[number].as_f64().is_some_and(|x| x > 0.0), "{number} of {r}");
            }
            assert!(r["n_samples"].as_u64().is_some_and(|n| n >= 3), "{r}");
            assert!(r["inner"].as_u64().is_some_and(|n| n >= 1), "{r}");
        }
        assert!(eager["dispatches"].as_u64().is_some_and(|n| n > 0), "{eager}");
        assert_eq!(compiled["dispatches"], 0);
        let magnitude = eager["check"][0][2].as_f64().unwrap();
        let difference =
            eager["check"][0][1].as_f64().unwrap() - compiled["check"][0][1].as_f64().unwrap();
        assert!(difference.abs() <= 1e-4 * magnitude, "{eager} {compiled}");
    }
    // the prefix w1.add also matches w1.add_grad, whose record is made below the call
    assert_eq!(row("w1.add_grad", "eager")["dispatches"], 2);
    assert_eq!(rows.len(), 6);
}

#[test]
fn bench_check_sums_follow_from_the_data() {
    let lines = stdout(&["bench", "-w", "w1.transpose", "--json", "--quick", "--threads", "2"]);
    let row: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(row["threads"], 2);
    let check: Vec<f64> = (0..4).map(|i| row["check"][0][i].as_f64().unwrap()).collect();
    let mut sums = [32.0, 0.0, 0.0, 0.0];
    // transposed: element (c, r) of the output is element (r, c) of the 4 x 8 input
    for i in 0..32u64 {
        let x = uniform("w1.a", (i % 4) * 8 + i / 4);
        let weight = (i * 2_654_435_761 % (1 << 32)) as f64 / 4_294_967_296.0 - 0.5;
        sums[1] += x;
        sums[2] += x.abs();
        sums[3] += x * weight;
    }
    for (have, want) in check.iter().zip(sums) {
        assert!((have - want).abs() < 1e-5, "{check:?} {sums:?}");
    }
}

/// Element i of the data of a name, by the rule of the suite: SplitMix64 from FNV-1a.
fn uniform(name: &str, i: u64) -> f64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let mut z = hash.wrapping_add((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    2.0 * ((z ^ (z >> 31)) >> 40) as f64 / 16_777_216.0 - 1.0
}

#[test]
fn bench_prints_a_table() {
    let table = stdout(&["bench", "--workload", "w1.empty,w1.add_grad,w11.train_mlp_8", "--quick"]);
    assert!(table.contains("speed-up") && table.contains("dispatches"), "{table}");
    assert!(table.contains("w1.empty") && table.contains("-> 0"), "{table}");
    assert!(table.contains("w1.add_grad") && table.contains("w11.train_mlp_8x256"), "{table}");
}

#[test]
fn minilm_without_weights_says_so() {
    let line = stdout(&["bench", "-w", "w12.minilm_b1_l8", "--json", "--quick"]);
    assert!(line.contains("--minilm PATH") && line.contains("\"median_us\":null"), "{line}");
    let error = failure(&["explain", "w12.minilm_b1_l8"], 1);
    assert!(error.contains("--minilm PATH"), "{error}");
    let error = failure(&["bench", "-w", "w12.minilm_b1_l8", "--minilm", "/nowhere", "--quick"], 1);
    assert!(error.contains("/nowhere/config.json"), "{error}");
}

#[test]
fn explain_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    let path = path.to_str().unwrap();
    let printed = stdout(&["explain", "w3.bias_gelu", "--html", path, "--calls", "2"]);
    assert_eq!(printed, "");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    for part in ["w3.bias_gelu", "<svg ", "aten::gelu", "medians of 2 calls"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let page = stdout(&["explain", "w11.train_mlp_8", "--html", "-", "--calls", "1"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("those of one call"), "{page}");
    let error = failure(&["explain", "w3.bias_gelu", "--html", "/nowhere/page.html"], 1);
    assert!(error.contains("/nowhere/page.html"), "{error}");
    failure(&["explain", "w3.bias_gelu", "--calls", "2"], 2);
    // the text is as it was
    let text = stdout(&["explain", "w3.bias_gelu"]);
    assert!(text.contains("kernel add_gelu <- ") && !text.contains("took"), "{text}");
}

#[test]
fn dump_prints_every_stage_of_a_workload() {
    let captured = stdout(&["dump", "w3.bias_gelu", "--stage", "captured"]);
    assert!(captured.starts_with("graph(") && captured.contains("aten::gelu"), "{captured}");
    let rewritten = stdout(&["dump", "w3.bias_gelu", "--stage", "rewritten"]);
    assert!(rewritten.starts_with("graph("), "{rewritten}");
    let loops = stdout(&["dump", "w3.bias_gelu", "--stage", "loops"]);
    assert!(loops.contains("kernel"), "{loops}");
    let clif = stdout(&["dump", "w3.bias_gelu", "--stage", "clif"]);
    assert!(clif.contains("function") && clif.contains("block0"), "{clif}");
    let asm = stdout(&["dump", "w3.bias_gelu", "--stage", "asm"]);
    assert!(asm.lines().count() > 20, "{asm}");
    let plan = stdout(&["dump", "w3.bias_gelu", "--stage", "plan"]);
    assert!(plan.contains("bytes"), "{plan}");
}

#[test]
fn what_dump_prints_it_reads() {
    let captured = stdout(&["dump", "w5.mlp_1x64", "--stage", "captured"]);
    let (_folder, path) = graph_file(&captured);
    assert_eq!(stdout(&["dump", &path, "--stage", "captured"]), captured);
    let rewritten = stdout(&["dump", "w5.mlp_1x64", "--stage", "rewritten"]);
    assert_eq!(stdout(&["dump", &path, "--stage", "rewritten"]), rewritten);
}

#[test]
fn dump_prints_what_a_gpu_runs() {
    let text = stdout(&["dump", "w4.softmax_1024x1024", "--stage", "cuda"]);
    assert!(text.contains("__global__") && text.contains("__shfl_xor_sync"), "{text}");
    let json = stdout(&["dump", "w3.bias_gelu", "--stage", "cuda", "--format", "json"]);
    assert!(json.contains("\"arch\": 90") && json.contains("__global__"), "{json}");
}

#[test]
fn dump_takes_a_graph_file_to_every_stage_and_format() {
    let (_folder, path) = graph_file(GRAPH);
    assert_eq!(stdout(&["dump", &path]), GRAPH);
    for stage in ["rewritten", "loops", "clif", "asm", "plan"] {
        assert!(!stdout(&["dump", &path, "--stage", stage]).trim().is_empty(), "{stage}");
    }
    for stage in ["captured", "rewritten", "loops", "plan"] {
        let dot = stdout(&["dump", &path, "--stage", stage, "--format", "dot"]);
        assert!(dot.starts_with("digraph") && dot.contains("->"), "{stage}: {dot}");
    }
    for stage in ["captured", "rewritten", "loops", "clif", "asm", "plan"] {
        let text = stdout(&["dump", &path, "--stage", stage, "--format", "json"]);
        let json: Result<Value, _> = serde_json::from_str(&text);
        assert!(json.is_ok_and(|j| j.is_object()), "{stage}: {text}");
    }
    let error = failure(&["dump", &path, "--stage", "asm", "--format", "dot"], 1);
    assert!(error.contains("text or json"), "{error}");
}

#[test]
fn wrong_graph_files_are_named_with_their_line() {
    let broken = GRAPH.replace("return %1", "return %7");
    let (_folder, path) = graph_file(&broken);
    let error = failure(&["dump", &path, "--stage", "loops"], 1);
    assert!(error.contains("graph.sl") && error.contains("line 4"), "{error}");

    let shape = GRAPH.replace("%b: f32[8]", "%b: f32[7]");
    let (_folder, path) = graph_file(&shape);
    let error = failure(&["dump", &path], 1);
    assert!(error.contains("aten::add.Tensor"), "{error}");

    // only the operator itself knows that a composite's operands do not fit
    let composite = GRAPH
        .replace("aten::gelu(%0, approximate=\"none\")", "aten::linear(%0, %c)")
        .replace("%b: f32[8]", "%b: f32[8], %c: f32[8,9]");
    let (_folder, path) = graph_file(&composite);
    let error = failure(&["dump", &path, "--stage", "captured"], 1);
    assert!(error.contains("line 3, column 3") && error.contains("aten::linear"), "{error}");
    assert!(!error.contains(".rs"), "{error}");

    let unknown = GRAPH.replace("aten::gelu", "aten::nonsense");
    let (_folder, path) = graph_file(&unknown);
    let error = failure(&["dump", &path, "--stage", "plan"], 1);
    assert!(error.contains("graph.sl") && error.contains("aten::nonsense"), "{error}");

    let error = failure(&["dump", "/nowhere/graph.sl"], 1);
    assert!(error.contains("/nowhere/graph.sl"), "{error}");
}

#[test]
fn trace_shows_what_is_dispatched_and_that_a_replay_is_not() {
    let eager = stdout(&["trace", "w1.add", "--of", "eager"]);
    assert!(eager.contains("op=[aten::add.Tensor]") && eager.contains("key=[CPU]"), "{eager}");
    let capture = stdout(&["trace", "w2.chain100_16", "--of", "capture"]);
    assert!(capture.contains("aten::mul.Tensor"), "{capture}");
    assert_eq!(stdout(&["trace", "w2.chain100_16", "--of", "replay"]), "");
}

#[test]
fn ops_shows_names_registrations_tables_and_keys() {
    let all = stdout(&["ops"]);
    assert!(all.lines().any(|l| l == "aten::add.Tensor") && all.lines().count() > 100, "{all}");
    let dump = stdout(&["ops", "aten::add.Tensor"]);
    assert!(dump.contains("schema: ") && dump.contains("CPU: "), "{dump}");
    assert_eq!(stdout(&["ops", "add.Tensor"]), dump);
    let overloads = stdout(&["ops", "add"]);
    assert!(overloads.contains("aten::add.Tensor") && overloads.contains("aten::add.Scalar"));
    let table = stdout(&["ops", "add.Tensor", "--table"]);
    assert!(table.contains("AutogradCPU: ") && table.contains("[kernel]"), "{table}");
    let row = stdout(&["ops", "add.Tensor", "--table", "--key", "CPU"]);
    assert!(row.contains("\nCPU: ") && !row.contains("Meta: "), "{row}");
    let cpu = stdout(&["ops", "--key", "CPU"]);
    assert!(cpu.lines().any(|l| l == "aten::add.Tensor"), "{cpu}");
    let composite = stdout(&["ops", "--key", "CompositeImplicitAutograd"]);
    assert!(!composite.is_empty() && !composite.lines().any(|l| l == "aten::add.Tensor"));
}

#[test]
fn explain_says_why() {
    let why = stdout(&["explain", "w5.mlp_1x64"]);
    for part in ["guards", "kernel", "fusion", "passes", "e-graph", "f32[1, 64]"] {
        assert!(why.contains(part), "no {part} in {why}");
    }
}

#[test]
fn wrong_names_are_answered_with_the_right_ones() {
    for command in ["bench", "dump", "trace", "explain"] {
        let arguments: &[&str] = match command {
            "bench" => &["bench", "--workload", "w99"],
            other => &[other, "w99"],
        };
        let error = failure(arguments, 1);
        assert!(error.contains("`w99`") && error.contains("w5.mlp_8x256"), "{error}");
    }
    let error = failure(&["trace", "w3"], 1);
    assert!(error.contains("w3.bias_gelu_512x768"), "{error}");
    let error = failure(&["ops", "aten::ad.Tensor"], 1);
    assert!(error.contains("aten::add.Tensor"), "{error}");
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for arguments in [
        &["bench", "--threads", "0"] as &[&str],
        &["bench", "--threads", "many"],
        &["dump", "w1.add", "--stage", "nowhere"],
        &["ops", "--key", "Nowhere"],
        &["ops", "--table"],
        &["nothing"],
    ] {
        failure(arguments, 2);
    }
    for (arguments, range) in [
        (&["generate", "--temperature", "-1"] as &[&str], "from 0 up"),
        (&["generate", "--sentences", "-1"], "1..=10000"),
        (&["bench", "--threads", "-1"], "-1"),
    ] {
        let errors = failure(arguments, 2);
        assert!(errors.contains(range), "{errors}");
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_told_at_once() {
    let arguments = ["profile", "w1.add", "--calls", "1000000000", "--trace", "no/such/folder"];
    assert!(failure(&arguments, 1).contains("no/such/folder"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_straightline"))
        .arg("ops")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // the pipe is closed before the command has written its listing
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
}

#[test]
fn the_log_is_on_request_and_on_standard_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_straightline"))
        .args(["dump", "w1.add", "--stage", "rewritten"])
        .env("STRAIGHTLINE_LOG", "debug")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("graph("));
    assert!(text(&output.stderr).contains("rewrote a graph"));
    assert!(!text(&output.stderr).contains('\u{1b}'), "colours, and nobody to see them");
}

#[test]
fn help_lists_the_commands() {
    let help = stdout(&["--help"]);
    for command in ["generate", "bench", "dump", "trace", "ops", "explain"] {
        assert!(help.contains(command), "{help}");
    }
}
