//! The recorded trainings, followed eagerly and compiled.
//!
//! The files of most are in `tests/data/training`. The others are read from the folder that
//! `STRAIGHTLINE_TRAINING` names, or from where they lie beside the repository, and left out where
//! they are not.

use super::recorded::{Mode, Run, Trouble, runs_of};
use std::path::PathBuf;
use straightline::DType;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/training");

fn open(name: &str) -> Option<Run> {
    let given = std::env::var_os("STRAIGHTLINE_TRAINING").map(PathBuf::from);
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/conformance/training");
    let folders = [Some(PathBuf::from(HERE)), given, Some(PathBuf::from(beside))];
    let mut files = folders.into_iter().flatten().map(|f| f.join(format!("{name}.json")));
    match files.find(|f| f.exists()) {
        Some(file) => Some(Run::open(&file).unwrap()),
        None => {
            println!("{name} is not here");
            None
        }
    }
}

fn follow(name: &str) {
    let Some(run) = open(name) else { return };
    for dtype in run.dtypes() {
        for mode in Mode::ALL {
            if let Err(e) = run.follow(dtype, mode) {
                panic!("{name}, {dtype}, {mode:?}: {e}");
            }
        }
    }
}

#[test]
fn conv_bn_adam() {
    follow("conv_bn_adam");
}

#[test]
fn embedding_adagrad() {
    follow("embedding_adagrad");
}

#[test]
fn gpt_adamw() {
    follow("gpt_adamw");
}

#[test]
fn grad_penalty_adam() {
    follow("grad_penalty_adam");
}

#[test]
fn hessian() {
    follow("hessian");
}

#[test]
fn lstm_rmsprop() {
    follow("lstm_rmsprop");
}

#[test]
fn mlp_autocast_bf16() {
    follow("mlp_autocast_bf16");
}

#[test]
fn mlp_sgd() {
    follow("mlp_sgd");
}

#[test]
fn per_sample_grads() {
    follow("per_sample_grads");
}

/// What is near it, and no more than that, is told from it.
#[test]
fn another_program_is_not_followed() {
    let refused = |name: &str, from: &str, to: &str| {
        let run = open(name).expect("a run of this repository").described(|text| {
            assert!(text.contains(from), "{text}");
            text.replace(from, to)
        });
        run.follow(DType::F32, Mode::Eager).unwrap_err()
    };
    let differs = |e: Trouble| assert!(matches!(e, Trouble::Differs { .. }), "{e}");
    differs(refused("mlp_autocast_bf16", "autocast(cpu, bfloat16)", "f32"));
    differs(refused("mlp_sgd", "relu", "silu"));
    differs(refused("mlp_sgd", "mean", "mean, label_smoothing 0.1"));
    differs(refused("embedding_adagrad", "[1,2,0.5,1.5]", "[1,2,0.5,1.6]"));
    differs(refused("lstm_rmsprop", "mse", "smooth_l1"));
    differs(refused("grad_penalty_adam", "10*mean", "11*mean"));
    differs(refused("conv_bn_adam", "eps 1e-5", "eps 1e-3"));
    let unknown = |e: Trouble| assert!(matches!(e, Trouble::Description(_)), "{e}");
    unknown(refused("mlp_sgd", "relu", "rectified"));
    unknown(refused("conv_bn_adam", "conv2(", "another("));
    unknown(refused("hessian", "sum(x^3)", "sum(x^4)"));
}

/// Files that are no runs say so.
#[test]
fn what_is_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    assert!(matches!(runs_of(folder.path()), Err(Trouble::Empty(_))));
    assert!(matches!(runs_of(&at("nowhere")), Err(Trouble::File { .. })));
    std::fs::write(at("a.json"), "{").unwrap();
    assert_eq!(runs_of(folder.path()).unwrap(), [at("a.json")]);
    assert!(matches!(Run::open(&at("a.json")), Err(Trouble::Json { .. })));
    assert!(matches!(Run::open(&at("b.json")), Err(Trouble::File { .. })));
    let here = PathBuf::from(HERE);
    let copy = |from: &str, to: &str| {
        std::fs::copy(here.join(from), at(to)).unwrap();
    };
    copy("mlp_sgd.json", "a.json");
    assert!(matches!(Run::open(&at("a.json")), Err(Trouble::Tensors { .. })));
    copy("mlp_sgd.safetensors", "a.safetensors");
    let follow = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut facts = serde_json::from_slice(&std::fs::read(here.join("mlp_sgd.json")).unwrap());
        change(facts.as_mut().unwrap());
        std::fs::write(at("a.json"), facts.unwrap().to_string()).unwrap();
        Run::open(&at("a.json")).and_then(|run| run.follow(DType::F32, Mode::Eager))
    };
    follow(&|_| ()).unwrap();
    let unnamed = follow(&|facts| drop(facts.as_object_mut().unwrap().remove("name")));
    assert!(matches!(unnamed, Err(Trouble::Missing(_))), "{unnamed:?}");
    let other = follow(&|facts| facts["name"] = "transformer".into());
    assert!(matches!(other, Err(Trouble::Unknown { .. })), "{other:?}");
    let setting = follow(&|facts| facts["optimizer"]["warmup"] = 3.into());
    assert!(matches!(setting, Err(Trouble::Settings(_))), "{setting:?}");
    let rule = follow(&|facts| facts["optimizer"]["name"] = "Lion".into());
    assert!(matches!(rule, Err(Trouble::Settings(_))), "{rule:?}");
    let nesterov = follow(&|facts| facts["optimizer"]["nesterov"] = true.into());
    assert!(matches!(nesterov, Err(Trouble::Differs { .. })), "{nesterov:?}");
    let words = follow(&|facts| facts["loss_f32"] = "low".into());
    assert!(matches!(words, Err(Trouble::Malformed { .. })), "{words:?}");
    let short = follow(&|facts| facts["steps"] = 3.into());
    assert!(matches!(short, Err(Trouble::Shape(_))), "{short:?}");
    let batches = follow(&|facts| facts["batches"] = 99.into());
    assert!(matches!(batches, Err(Trouble::Missing(_))), "{batches:?}");
}
