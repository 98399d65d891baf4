//! Model files on the command line, as a user gives them.

use serde_json::Value;
use std::process::{Command, Output};
use straightline::{Tensor, load_safetensors, save_safetensors, tensor};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/pt2");

fn archive(name: &str) -> String {
    format!("{FOLDER}/{name}.pt2")
}

fn straightline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_straightline"))
        .args(arguments)
        .env_remove("STRAIGHTLINE_LOG")
        .env_remove("STRAIGHTLINE_SHOW_DISPATCH_TRACE")
        .output()
        .expect("the binary starts")
}

/// Standard output of a command that must succeed.
#[track_caller]
fn stdout(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = straightline(arguments);
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("the output is UTF-8")
}

/// Standard error of a command that must fail with an error of its own.
#[track_caller]
fn failure(arguments: &[&str]) -> String {
    let output = straightline(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    assert!(errors.contains("error: ") && !errors.contains("panicked"), "{errors}");
    assert!(!errors.contains(".rs:"), "a line of ours: {errors}");
    errors
}

fn archives() -> Vec<String> {
    let mut all: Vec<String> = (std::fs::read_dir(FOLDER).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "pt2"))
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    all.sort();
    assert!(all.len() >= 10);
    all
}

#[test]
fn every_archive_runs_on_made_up_inputs() {
    for path in archives() {
        for more in [&["--random"] as &[&str], &["--random", "--seed", "7", "--eager"]] {
            let text = stdout(&[&["run", path.as_str()], more].concat());
            assert!(text.contains("results\n") && text.contains("later call"), "{path}: {text}");
        }
    }
}

#[test]
fn every_archive_is_benchmarked_and_agrees() {
    let all = archives();
    let mut arguments = vec!["bench", "--quick", "--json"];
    arguments.extend(all.iter().map(String::as_str));
    let lines = stdout(&arguments);
    let rows: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(rows.len(), 2 * all.len());
    for (pair, path) in rows.chunks(2).zip(&all) {
        assert_eq!(pair[1]["workload"], path.as_str());
        assert!(pair[1]["median_us"].as_f64().is_some_and(|us| us > 0.0), "{}", pair[1]);
        assert!(pair[0]["dispatches"].as_f64().is_some_and(|n| n > 0.0), "{}", pair[0]);
        assert_eq!(pair[1]["dispatches"], 0, "{}", pair[1]);
    }
}

#[test]
fn a_benchmark_takes_workloads_beside_model_files() {
    let path = archive("mlp_tree");
    let table = stdout(&["bench", "w1.add", &path, "--quick", "--size", "s11=5"]);
    assert!(table.contains("w1.add") && table.contains("mlp_tree.pt2"), "{table}");
}

#[test]
fn results_are_saved_and_inputs_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (given, saved) = (file("given.safetensors"), file("saved.safetensors"));
    let path = archive("mlp_tree");
    let recorded = load_safetensors(format!("{FOLDER}/mlp_tree.safetensors")).unwrap();
    let inputs = [("batch_x", &recorded["0.input.0"]), ("input.1", &recorded["0.input.1"])];
    save_safetensors(&given, inputs).unwrap();
    let text = stdout(&["run", &path, "--input", &given, "--output", &saved]);
    assert!(text.contains("from ") && text.contains("saved 6 tensors"), "{text}");
    assert!(text.contains("the constant None") && text.contains("bf16["), "{text}");
    let results = load_safetensors(&saved).unwrap();
    straightline::assert_close(&results["sum_1"], &recorded["0.output.1"]).unwrap();
}

#[test]
fn wrong_inputs_are_told_with_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.safetensors");
    let path = archive("mlp_tree");
    let message = |tensors: &[(&str, &Tensor)]| {
        save_safetensors(&file, tensors.iter().copied()).unwrap();
        failure(&["run", &path, "--input", file.to_str().unwrap()])
    };
    let (x, w) = (tensor([[1.0f32; 6]; 2]).unwrap(), tensor([1.0f32; 3]).unwrap());
    let error = message(&[("batch_x", &x)]);
    assert!(error.contains("no tensor for `batch_w`") && error.contains("f32[s11, 6]"), "{error}");
    let error = message(&[("batch_x", &x), ("batch_w", &w), ("mask", &w)]);
    assert!(error.contains("`mask`, which the program does not take"), "{error}");
    let error = message(&[("batch_x", &tensor([[1i64; 6]; 2]).unwrap()), ("batch_w", &w)]);
    assert!(error.contains("`batch_x`") && error.contains("i64[2, 6]"), "{error}");
    let error = message(&[("batch_x", &tensor([[1.0f32; 6]; 65]).unwrap()), ("batch_w", &w)]);
    assert!(error.contains("s11 up to 64"), "{error}");
    let error = message(&[("batch_x", &x), ("batch_w", &w), ("k", &Tensor::scalar(4).unwrap())]);
    assert!(error.contains("`k`") && error.contains("constant 3"), "{error}");
    let error = failure(&["run", &path, "--input", "/nowhere/x.safetensors"]);
    assert!(error.contains("/nowhere/x.safetensors"), "{error}");
}

#[test]
fn wrong_sizes_are_told_with_the_right_ones() {
    let path = archive("mlp_tree");
    let error = failure(&["run", &path]);
    assert!(error.contains("--input FILE.safetensors") && error.contains("--random"), "{error}");
    for command in ["run", "bench", "dump", "explain", "profile", "trace"] {
        let error = failure(&[command, &path, "--size", "s11=65"]);
        assert!(error.contains("s11=65") && error.contains("up to 64"), "{command}: {error}");
        let error = failure(&[command, &path, "--size", "foo=3"]);
        assert!(error.contains("--size foo") && error.contains("s11"), "{command}: {error}");
    }
    let error = failure(&["explain", "w1.add", "--size", "s11=3"]);
    assert!(error.contains("--size is for model files"), "{error}");
    let error = failure(&["run", "w1.add"]);
    assert!(error.contains("is a workload"), "{error}");
    let error = failure(&["run", &path, "--random", "--model", "other"]);
    assert!(error.contains("no program `other`, but: model"), "{error}");
}

#[test]
fn damaged_files_are_one_line_that_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = std::fs::read(archive("cond")).unwrap();
    let mut damaged = vec![
        (file("empty.pt2", b""), "no zip archive"),
        (file("text.pt2", b"a model"), "torch.export.save"),
        (file("half.pt2", &whole[..whole.len() / 2]), "cut off"),
        (folder.path().to_str().unwrap().to_owned(), "a folder"),
        ("/nowhere/model.pt2".to_owned(), "No such file"),
    ];
    for (name, reason) in [
        ("unknown_operator", "no_such_operator"),
        ("newer_major_schema", "version 9"),
        ("pickled_weight", "pickled"),
        ("no_model", "models/model.json"),
    ] {
        damaged.push((archive(&format!("bad/{name}")), reason));
    }
    for (path, reason) in &damaged {
        for command in ["run", "bench", "dump", "explain", "profile", "trace"] {
            let error = failure(&[command, path]);
            assert!(error.contains(path.as_str()) && error.contains(reason), "{command}: {error}");
            assert_eq!(error.lines().count(), 1, "{command}: {error}");
        }
    }
}

#[test]
fn every_stage_of_a_model_file_is_printed() {
    let path = archive("mlp_tree");
    let program = stdout(&["dump", &path, "--stage", "program"]);
    for part in ["size s11 up to 64", "parameter a.weight: f32[16, 6]", "aten::linear"] {
        assert!(program.contains(part), "no {part} in {program}");
    }
    for stage in ["captured", "rewritten", "loops", "clif", "asm", "plan"] {
        assert!(!stdout(&["dump", &path, "--stage", stage]).is_empty(), "{stage}");
    }
    let captured = stdout(&["dump", &path, "--size", "s11=9"]);
    assert!(captured.starts_with("graph(") && captured.contains("f32[9,6]"), "{captured}");
    let error = failure(&["dump", "w1.add", "--stage", "program"]);
    assert!(error.contains("no model file"), "{error}");
    // an archive by any other name
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("model.bin");
    std::fs::copy(&path, &other).unwrap();
    let other = other.to_str().unwrap();
    assert!(stdout(&["dump", other, "--stage", "program"]).contains("aten::linear"));
    assert!(stdout(&["dump", other]).starts_with("graph("));
}

#[test]
fn the_inside_of_a_model_file() {
    let path = archive("gpt2_dynamic_batch");
    let why = stdout(&["explain", &path]);
    assert!(why.contains("gpt2_dynamic_batch.pt2") && why.contains("fusion"), "{why}");
    let eager = stdout(&["trace", &path]);
    assert!(eager.contains("op=[aten::embedding]"), "{eager}");
    assert_eq!(stdout(&["trace", &path, "--of", "replay"]), "");
    let table = stdout(&["profile", &path, "--calls", "2"]);
    assert!(table.contains("aten::embedding"), "{table}");
}

#[test]
fn what_a_training_program_writes_is_shown() {
    let text = stdout(&["run", &archive("batchnorm_train"), "--random"]);
    assert!(text.contains("written by the call\n  1.running_mean: f32[4]"), "{text}");
    assert!(text.contains("1.num_batches_tracked: i64[]  1\n"), "{text}");
}
