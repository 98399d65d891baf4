//! PyTorch's own answers: every public case, eagerly through the boxed call, on Meta tensors for
//! the shapes, and captured and compiled.
//!
//! `CONFORMANCE_OP=aten::add` restricts the run to operators whose name contains the text, and
//! `CONFORMANCE_SHOW=20` prints that many failures of each operator. `tools/conformance` runs
//! the same on any file.

mod batched;
pub(crate) mod case;
mod compare;
mod double;
mod files;
mod grads;
mod models;
mod report;
mod run;
mod self_test;
mod vectors;
mod whole;

use models::Way;
use report::{Report, Skips};
use run::Mode;
use std::path::PathBuf;

const SKIPS: &str = include_str!("skips.txt");

fn run_file(name: &str, mode: Mode) {
    run_with(name, mode, Report::default());
}

fn run_with(name: &str, mode: Mode, mut report: Report) {
    let only = std::env::var("CONFORMANCE_OP").unwrap_or_default();
    let show: usize =
        std::env::var("CONFORMANCE_SHOW").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    report
        .run_file(&path, mode, &only, &Skips::new(SKIPS))
        .expect("the vectors are in the repository");
    for (op, t) in report.operators.iter().filter(|(_, t)| !t.failures.is_empty()) {
        println!("{op}: {} passed, {} failed", t.passed, t.failures.len());
        for (id, e) in t.failures.iter().take(show) {
            println!("    {id}: {e}");
        }
    }
    if !only.is_empty() {
        for (id, why) in report.operators.values().flat_map(|t| &t.skipped) {
            println!("    {id} is skipped: {why}");
        }
    }
    let (passed, failed, skipped) = report.totals();
    println!(
        "{mode:?}, {name}: {} operators, {passed} passed, {failed} failed, {skipped} skipped",
        report.operators.len()
    );
    assert!(passed > 0 || !only.is_empty(), "no case was run");
    assert_eq!(failed, 0, "{failed} cases differ from PyTorch");
}

#[test]
fn eager() {
    run_file("public.jsonl.gz", Mode::Eager);
}

/// Gradients of recorded calls.
#[test]
fn gradients() {
    run_file("public_grads.jsonl.gz", Mode::Eager);
}

/// The same of compiled calls, cut in two halves, and compiled with their backward pass.
#[test]
fn compiled_gradients() {
    run_file("public_grads.jsonl.gz", Mode::Compiled);
}

/// Their second derivatives against differences of the first ones.
#[test]
fn second_derivatives() {
    let double = Report { only_grads: true, double: true, ..Report::default() };
    run_with("public_grads.jsonl.gz", Mode::Eager, double);
}

/// Those of compiled functions against eager ones.
#[test]
fn compiled_second_derivatives() {
    let double = Report { only_grads: true, double: true, ..Report::default() };
    run_with("public_grads.jsonl.gz", Mode::Compiled, double);
}

#[test]
fn meta() {
    run_file("public.jsonl.gz", Mode::Meta);
}

#[test]
fn compiled_cases() {
    run_file("public.jsonl.gz", Mode::Compiled);
}

/// Complex tensors, which the public cases hardly have: `tests/data/complex_cases.py`.
#[test]
fn complex_cases() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("complex.jsonl.gz", mode);
    }
}

/// Operators and forms that the public cases do not have: `tests/data/more_cases.py`.
#[test]
fn more_cases() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("more.jsonl.gz", mode);
    }
}

/// Other samples of PyTorch's, in other dtypes, layouts and with arguments changed:
/// `tests/data/opinfo_cases.py`.
#[test]
fn samples() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("samples.jsonl.gz", mode);
    }
}

/// Overloads that PyTorch's own samples call beyond the public cases: `tests/data/overloads.py`.
#[test]
fn overloads() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("overloads.jsonl.gz", mode);
    }
}

/// `out` and in-place forms: `tests/data/forms.py`.
#[test]
fn forms() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("forms.jsonl.gz", mode);
    }
}

/// Complex linear algebra and convolutions, operands without elements, ties:
/// `tests/data/linalg_cases.py`.
#[test]
fn linear_algebra() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("linalg.jsonl.gz", mode);
    }
}

/// Results whose layout, sizes or memory are easily mistaken: `tests/data/layout_cases.py`.
#[test]
fn layouts() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("layout.jsonl.gz", mode);
    }
}

/// What once failed of samples that had been held out: `tests/data/opinfo_cases.py` and
/// `derived.py` with other seeds.
#[test]
fn held_out() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("held_out.jsonl.gz", mode);
    }
}

/// Numbers near the margins of half types, and operands and results of other widths:
/// `tests/data/narrow_cases.py`.
#[test]
fn narrow_numbers() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("narrow.jsonl.gz", mode);
    }
}

/// Memory that a call in place meets twice: `tests/data/overlap_cases.py`.
#[test]
fn overlaps() {
    for mode in [Mode::Eager, Mode::Meta, Mode::Compiled] {
        run_file("overlap.jsonl.gz", mode);
    }
}

/// The public cases in other dtypes and layouts: `tests/data/derived.py`. Compiled,
/// `tools/conformance` runs them.
#[test]
fn derived() {
    for mode in [Mode::Eager, Mode::Meta] {
        run_file("derived.jsonl.gz", mode);
    }
}

/// Every dtype of `out` that PyTorch takes: `tests/data/out_dtypes.py`.
#[test]
fn out_dtypes() {
    for mode in [Mode::Eager, Mode::Meta] {
        run_file("out_dtypes.jsonl.gz", mode);
    }
}

/// Calls that must fail do fail, and none panics: the public ones, and what
/// `tests/data/bad_cases.py` and the other scripts make of calls that succeed.
#[test]
fn errors() {
    for file in files::FAIL {
        run_file(file, Mode::Eager);
    }
    for file in ["public_errors.jsonl.gz", "samples_errors.jsonl.gz", "overlap_errors.jsonl.gz"] {
        run_file(file, Mode::Compiled);
    }
}

/// Whole models: the results of their graphs, and a step of training with each graph that has the
/// loss. `tests/data/models.py` has made them.
#[test]
fn whole_models() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    let only = std::env::var("CONFORMANCE_OP").unwrap_or_default();
    let mut wrong = Vec::new();
    for path in models::models_of(&folder).expect("the models are in the repository") {
        let model = models::Model::open(&path).expect("a model as it was recorded");
        if !model.name().contains(&only) {
            continue;
        }
        let at = |graph: &str, way: Way, e| format!("{} {graph} {}: {e}", model.name(), way.name());
        for graph in model.graphs() {
            for way in [Way::Eager, Way::Compiled] {
                wrong.extend(model.run(graph, way).err().map(|e| at(graph, way, e)));
            }
        }
        for graph in model.losses() {
            for way in [Way::Eager, Way::Compiled, Way::Step] {
                wrong.extend(model.train(graph, way).err().map(|e| at(graph, way, e)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
