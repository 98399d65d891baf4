//! Gradients as a user of PyTorch knows them: small programs whose results and errors were observed
//! in PyTorch 2.15. The names of the tests are the programs' names in that list.

mod again;
mod batched_functions;
mod checks;
mod edges;
mod engine;
mod forward;
mod functions;
mod leaks;
mod lines;
mod modes;
mod sheet;
mod views;

use straightline::{ErrorKind, Result, Tensor, autograd::AutogradError, tensor};

/// A leaf of `f32` that wants a gradient.
fn leaf(values: &[f32]) -> Tensor {
    let t = Tensor::from_vec(values.to_vec(), values.len() as i64).unwrap();
    t.requires_grad_(true).unwrap()
}

fn values(t: &Tensor) -> Vec<f32> {
    t.detach().unwrap().contiguous().unwrap().view(-1).unwrap().to_vec().unwrap()
}

fn grad(t: &Tensor) -> Vec<f32> {
    values(&t.grad().expect("a gradient was accumulated"))
}

/// The error of a call as text, and that it is one of autograd.
fn refused<T>(outcome: Result<T>) -> String {
    let error = match outcome {
        Ok(_) => panic!("it should fail"),
        Err(e) => e,
    };
    assert!(matches!(error.kind(), ErrorKind::Autograd(_)), "{error}");
    error.to_string()
}

#[track_caller]
fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{text}` does not say `{part}`");
}

/// The name of the node that a tensor came out of.
fn node(t: &Tensor) -> String {
    t.grad_fn().map_or("None".into(), |f| f.name().to_string())
}

#[test]
fn g1_a_graph_is_used_once() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(&x).unwrap().sum().unwrap();
    y.backward().unwrap();
    assert_eq!(grad(&x), [2.0, 4.0]);
    let again = y.backward().unwrap_err();
    contains(&again.to_string(), "Trying to backward through the graph a second time");
    let ErrorKind::Autograd(e) = again.kind() else { panic!("{again}") };
    assert!(matches!(&**e, AutogradError::Twice { .. }));
    assert_eq!(again.python_class(), "RuntimeError");
}

#[test]
fn g2_unless_nothing_was_saved() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.add(1).unwrap().sum().unwrap();
    y.backward().unwrap();
    y.backward().unwrap();
    assert_eq!(grad(&x), [2.0, 2.0]);
}

#[test]
fn the_line_of_the_user_is_in_the_error() {
    let x = leaf(&[1.0]);
    let y = x.exp().unwrap();
    let line = line!() - 1;
    assert_eq!(y.grad_fn().unwrap().line().unwrap().line(), line);
    y.add_(1).unwrap();
    let text = refused(y.sum().unwrap().backward());
    contains(&text, "which is output 0 of Exp, is at version 1; expected version 0 instead");
    contains(&text, &format!("tests/suite/autograd/mod.rs:{line}"));
}

#[test]
fn an_integer_wants_no_gradient() {
    let text = refused(tensor([1, 2]).unwrap().requires_grad_(true));
    contains(&text, "only Tensors of floating point dtype can require gradients");
}
