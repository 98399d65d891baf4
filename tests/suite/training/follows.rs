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

/// What other runs of these kinds have: compiled, they go as they do eagerly.
#[test]
fn variants_go_compiled_as_they_do_eagerly() {
    let wave = |sizes: &[i64]| {
        let n = straightline::arange(sizes.iter().product::<i64>()).unwrap();
        n.to_dtype(DType::F32).unwrap().sin().unwrap().mul(0.2).unwrap().reshape(sizes).unwrap()
    };
    let all = [(DType::F64, 1e-10), (DType::F32, 1e-4)];
    let again = |run: Run, limits: &[(DType, f64)]| {
        for (dtype, limit) in limits.iter().copied() {
            let go = |mode| {
                run.losses(dtype, mode).unwrap_or_else(|e| panic!("{}, {mode:?}: {e}", run.name()))
            };
            let ((eager, last), (compiled, other)) = (go(Mode::Eager), go(Mode::Compiled));
            let pairs = eager.iter().zip(&compiled);
            let both = last.iter().flatten().zip(other.iter().flatten());
            for (a, b) in pairs.chain(both) {
                let off = (a - b).abs();
                assert!(off <= limit * (1.0 + a.abs()), "{}, {dtype}: {a} and {b}", run.name());
            }
            assert!(eager.len() >= 30 && eager[0] != eager[eager.len() - 1]);
        }
    };
    let said = |name: &str, from: &str, to: &str| {
        open(name).expect("a run of this repository").described(|text| text.replace(from, to))
    };
    again(
        said("mlp_sgd", "cross_entropy(h, y, mean)", "cross_entropy with label smoothing 0.1")
            .described(|text| text.replace("relu", "SiLU"))
            .with_setting("nesterov", true),
        &all,
    );
    let grouped = said("conv_bn_adam", "groups 1", "groups 2");
    let grouped = grouped.with_parameter("conv2.weight", wave(&[16, 4, 3, 3]));
    again(grouped.with_setting("amsgrad", true).with_setting("weight_decay", 0.01), &all);
    let mut lstm = said("lstm_rmsprop", "mse mean", "smooth_l1 mean, beta 0.5");
    for (name, sizes) in [("weight_ih", [96, 24]), ("weight_hh", [96, 24])] {
        lstm = lstm.with_parameter(&format!("rnn.{name}_l1"), wave(&sizes));
    }
    for name in ["rnn.bias_ih_l1", "rnn.bias_hh_l1"] {
        lstm = lstm.with_parameter(name, wave(&[96]));
    }
    // what is nearly zero is divided by, and rounding grows
    let centered = lstm.with_setting("centered", true).with_setting("momentum", 0.9);
    again(centered, &[(DType::F64, 1e-7)]);
    let padded = said("embedding_adagrad", "padding_idx 0", "padding_idx 3");
    again(
        padded.with_setting("weight_decay", 0.01).with_setting("initial_accumulator_value", 0.1),
        &all,
    );
    again(said("grad_penalty_adam", "tanh", "softplus"), &all);
    if let Some(gpt) = open("gpt_adamw") {
        let untied = gpt.with_parameter("head.weight", wave(&[96, 64]));
        again(untied.with_setting("clip_grad_norm", 0.25), &all);
    }
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
