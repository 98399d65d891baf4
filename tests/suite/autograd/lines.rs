//! The lines in errors are those of the user's calls, whichever call of the thread they are.

use super::*;
use straightline::Scalar;
use straightline::autograd::{GradOptions, detect_anomaly, grad_with};
use straightline::ops::aten;

#[test]
fn each_call_has_its_own_line() {
    let x = leaf(&[1.0, 2.0]);
    let w = x.mul(3).unwrap();
    let y = w.mul(&w).unwrap();
    let saved = line!() - 1;
    w.add_(1).unwrap();
    let wrote = line!() - 1;
    let text = refused(y.sum().unwrap().backward());
    contains(
        &text,
        &format!("saved by `aten::mul.Tensor` at tests/suite/autograd/lines.rs:{saved}"),
    );
    contains(
        &text,
        &format!("written by `aten::add_.Scalar` at tests/suite/autograd/lines.rs:{wrote}"),
    );
    let exp = x.exp().unwrap();
    assert_eq!(exp.grad_fn().unwrap().line().unwrap().line(), line!() - 1);
}

#[test]
fn anomalies_name_the_forward_call() {
    let x = leaf(&[1.0, 2.0]);
    let _first = x.mul(3).unwrap();
    let _on = detect_anomaly(true);
    let z = x.sub(&x).unwrap();
    let q = z.sqrt().unwrap();
    let line = line!() - 1;
    let text = refused(q.mul(0).unwrap().sum().unwrap().backward());
    contains(&text, &format!("`aten::sqrt` at tests/suite/autograd/lines.rs:{line}"));
}

#[test]
fn a_second_pass_names_the_call() {
    let x = leaf(&[1.0, 2.0]);
    let _first = x.mul(3).unwrap();
    let y = x.mul(&x).unwrap();
    let line = line!() - 1;
    let y = y.sum().unwrap();
    y.backward().unwrap();
    let text = refused(y.backward());
    contains(&text, &format!("`aten::mul.Tensor` at tests/suite/autograd/lines.rs:{line}"));
}

#[test]
fn a_write_that_nobody_has_seen_is_nobodys() {
    let x = leaf(&[1.0, 2.0]);
    let w = x.mul(3).unwrap();
    let y = w.sin().unwrap();
    w.detach().unwrap().zero_().unwrap();
    let text = refused(y.sum().unwrap().backward());
    contains(&text, "saved by `aten::sin`");
    assert!(!text.contains("written by"), "{text}");
}

#[test]
fn second_derivatives_name_the_forward_call() {
    let x = tensor([[1.0, 2.0, 3.0], [0.5, 0.1, 0.2]]).unwrap().requires_grad_(true).unwrap();
    let target = tensor([0, 2]).unwrap();
    let loss =
        aten::multi_margin_loss(&x, &target, Scalar::Int(1), Scalar::Int(1), None, 1).unwrap();
    let line = line!() - 1;
    let options = GradOptions { create_graph: true, ..GradOptions::default() };
    let first = grad_with(&[loss], &[x.clone()], &options).unwrap().remove(0).unwrap();
    let text = match first.sum().unwrap().backward() {
        Err(e) => e.to_string(),
        Ok(()) => panic!("it has no second derivative"),
    };
    contains(&text, &format!("tests/suite/autograd/lines.rs:{line}"));
    assert!(!text.contains("derivatives.rs"), "{text}");
}
