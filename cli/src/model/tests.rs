//! Inputs by name and position, and made-up ones.

use super::inputs::{from_tensors, make};
use super::random::sizes;
use super::*;
use std::collections::BTreeMap;
use straightline::DType;

fn program(name: &str) -> Program {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/pt2");
    load(&format!("{folder}/{name}.pt2"), &ModelOptions::default()).unwrap()
}

fn tensors(names: &[&str]) -> BTreeMap<String, Tensor> {
    let x = straightline::tensor([1.0f32]).unwrap();
    names.iter().map(|n| ((*n).to_owned(), x.clone())).collect()
}

/// What [`from_tensors`] makes of tensors of these names.
fn given(program: &Program, names: &[&str]) -> Result<Vec<Leaf>, InputError> {
    from_tensors(program, Path::new("x.safetensors"), tensors(names))
}

#[test]
fn inputs_have_names_and_positions() {
    let program = program("mlp_tree");
    for names in [["batch_x", "batch_w"], ["0", "1"], ["input.0", "batch_w"], ["input_0", "1"]] {
        let leaves = given(&program, &names).unwrap();
        assert!(leaves[0].tensor().is_ok() && leaves[1].tensor().is_ok(), "{names:?}");
        // constants need not be given
        assert!(matches!(leaves[2..], [Leaf::Int(3), Leaf::Bool(true)]), "{leaves:?}");
    }
}

#[test]
fn wrong_names_are_told() {
    let program = program("mlp_tree");
    let error = given(&program, &["batch_x"]).unwrap_err();
    assert!(matches!(&error, InputError::Missing { missing, .. } if missing == &["`batch_w`"]));
    assert!(error.to_string().contains("batch_w: f32[3]"), "{error}");
    let error = given(&program, &["batch_x", "batch_w", "y", "4", "0.input.1"]).unwrap_err();
    assert!(matches!(&error, InputError::Unknown { unknown, .. } if unknown.len() == 3));
    let error = given(&program, &["batch_x", "batch_w", "0"]).unwrap_err();
    assert!(matches!(&error, InputError::Twice { input, .. } if input == "batch_x"), "{error}");
}

#[test]
fn numbers_are_tensors_of_one_element() {
    let program = program("mlp_tree");
    let mut all = tensors(&["batch_x", "batch_w"]);
    all.insert("k".into(), Tensor::scalar(3).unwrap());
    let leaves = from_tensors(&program, Path::new("x"), all.clone()).unwrap();
    assert!(matches!(leaves[2], Leaf::Int(3)));
    all.insert("k".into(), straightline::tensor([3i64, 4]).unwrap());
    let error = from_tensors(&program, Path::new("x"), all).unwrap_err().to_string();
    assert!(error.contains("`k` is i64[2]") && error.contains("single element"), "{error}");
}

#[test]
fn sizes_are_those_asked_for_or_small() {
    let program = program("mlp_tree");
    let with = |sizes_given: &[(&str, i64)]| {
        let all = sizes_given.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        sizes(&program, &ModelOptions { sizes: all, ..ModelOptions::default() })
    };
    assert_eq!(with(&[]).unwrap(), [2]);
    assert_eq!(with(&[("s11", 64)]).unwrap(), [64]);
    assert!(matches!(with(&[("s11", 65)]), Err(InputError::Range { size: 65, .. })));
    assert!(matches!(with(&[("s12", 2)]), Err(InputError::NoSymbol { .. })));
    assert!(matches!(with(&[("s11", 2), ("s11", 2)]), Err(InputError::SizeTwice { .. })));
}

#[test]
fn made_up_inputs_fit_and_follow_from_the_seed() {
    let lstm = program("lstm");
    let with = |seed, high: &[(&str, i64)]| {
        let highs = high.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let options = ModelOptions { seed: Some(seed), highs, ..ModelOptions::default() };
        let leaves = make(&lstm, &options)?;
        Ok::<_, CliError>(leaves[0].tensor()?.to_vec::<i64>()?)
    };
    let ids = with(0, &[]).unwrap();
    assert!(ids.iter().all(|id| (0..50).contains(id)) && ids.iter().any(|id| *id > 10), "{ids:?}");
    assert_eq!(with(0, &[]).unwrap(), ids);
    assert_ne!(with(1, &[]).unwrap(), ids);
    assert!(with(0, &[("t", 1)]).unwrap().iter().all(|id| *id == 0));
    assert!(matches!(with(0, &[("t", 0)]), Err(CliError::Input(InputError::High { .. }))));
    assert!(matches!(with(0, &[("u", 2)]), Err(CliError::Input(InputError::High { .. }))));

    let tree = make(&program("mlp_tree"), &ModelOptions::default()).unwrap();
    let x = tree[0].tensor().unwrap();
    assert_eq!((x.dtype(), x.sizes()), (DType::F32, &[2i64, 6][..]));
}

#[test]
fn what_a_call_writes_is_restored() {
    let model = Model::new(program("batchnorm_train"), &ModelOptions::default()).unwrap();
    assert!(model.start.is_written());
    assert!(model.start.changed().unwrap().is_empty());
    model.program.run(&model.inputs).unwrap();
    assert_eq!(model.start.changed().unwrap().len(), 3);
    model.start.restore().unwrap();
    assert!(model.start.changed().unwrap().is_empty());
    let eager = Model::new(program("lstm"), &ModelOptions::default()).unwrap();
    assert!(!eager.start.is_written());
}

#[test]
fn flags_that_are_needed() {
    let options = ModelOptions::default();
    let error = needed(&program("mlp_tree"), &options).unwrap_err().to_string();
    assert!(error.contains("--input") && error.contains("--random"), "{error}");
    assert!(error.contains("batch_x: f32[s11, 6]") && error.contains("s11 up to 64"), "{error}");
    let random = ModelOptions { random: true, ..ModelOptions::default() };
    assert!(needed(&program("mlp_tree"), &random).is_ok());
}
