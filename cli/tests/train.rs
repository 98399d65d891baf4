//! `straightline train`, driven as a user drives it, with settings that take a moment.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_straightline"));
    command.arg("train").arg("--out").arg(folder).args(["--batch=3", "--threads=1"]).args(more);
    command.env_remove("STRAIGHTLINE_LOG").env_remove("STRAIGHTLINE_SHOW_DISPATCH_TRACE");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command prints that must succeed.
#[track_caller]
fn run(folder: &Path, more: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(folder, more).output().expect("it starts");
    assert!(status.success(), "{more:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("the output is UTF-8")
}

#[test]
fn weights_curve_and_report_are_written_and_generate_takes_the_weights() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--steps=4", "--judge=3", "--every=2"];
    let text = run(folder.path(), &flags);
    assert!(text.contains("139520 parameters") && text.contains("tokens/s"), "{text}");
    assert!(text.contains("grammatical at temperature 0.8"), "{text}");
    let svg = std::fs::read_to_string(folder.path().join("loss.svg")).unwrap();
    assert!(svg.starts_with("<svg"), "{svg}");
    let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["steps"], &report["mode"]), (&4.into(), &"eager".into()), "{report}");
    assert!(report["loss"].as_f64().is_some_and(|loss| loss < 7.0), "{report}");

    let weights = folder.path().join("model.safetensors");
    let output = Command::new(env!("CARGO_BIN_EXE_straightline"))
        .args(["generate", "-n1", "--json", "--weights"])
        .arg(&weights)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let generated: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(generated["identical"], true, "{generated}");

    let again = command(folder.path(), &flags).output().unwrap();
    let errors = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(1), "{errors}");
    assert!(errors.contains("--resume"), "{errors}");
    let other = command(folder.path(), &["--resume", "--steps=5"]).output().unwrap();
    let errors = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(errors.contains("begun with --steps 4, not 5"), "{errors}");
}

#[test]
fn a_training_that_is_killed_goes_on_to_the_same_weights() {
    let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let flags = ["--steps=16", "--every=1", "--judge=0"];
    run(whole.path(), &flags);

    let mut child = command(killed.path(), &flags).spawn().unwrap();
    let began = Instant::now();
    let third = killed.path().join("checkpoints/step-000000000003.safetensors");
    while !third.exists() && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut flags = flags.to_vec();
    flags.push("--resume");
    let text = run(killed.path(), &flags);
    assert!(text.contains("going on after step"), "{text}");
    let weights = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
    assert_eq!(weights(whole.path()), weights(killed.path()));
}

#[test]
fn a_step_that_cannot_be_compiled_runs_eagerly_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        command(folder.path(), &["--steps=2", "--judge=0", "--compiled"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let eager = text.contains("s, eager:");
    assert!(eager || text.contains("s, compiled:"), "{text}");
    assert_eq!(eager, text.contains("--compiled: the step r"), "{text}");
}
