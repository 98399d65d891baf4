//! Where the gradients lie that a step leaves behind.

use super::*;
use crate::compile::compile;
use crate::ops::aten;

/// A step that clears the gradient of a weight first: a product, and a loss that refuses classes.
fn step(w: &Tensor) -> Compiled<(Tensor, Tensor), Tensor> {
    let w = w.clone();
    compile(move |(x, classes): &(Tensor, Tensor)| {
        w.set_grad(None)?;
        let loss = aten::log_softmax_int(&x.matmul(&w)?, 1, None)?;
        let loss = aten::nll_loss(&loss, classes, None, 1, -100)?;
        loss.backward()?;
        Ok(loss)
    })
}

fn inputs(scale: f32, class: i64) -> (Tensor, Tensor) {
    let x: Vec<f32> = (0..12).map(|i| (i % 5) as f32 * scale).collect();
    let classes = Tensor::from_slice(&[0i64, class], &[2]).unwrap();
    (Tensor::from_slice(&x, &[2, 6]).unwrap(), classes)
}

fn weight() -> Tensor {
    let w: Vec<f32> = (0..18).map(|i| (i % 7) as f32 * 0.1).collect();
    Tensor::from_slice(&w, &[6, 3]).unwrap().requires_grad_(true).unwrap()
}

/// The gradient of a step that is not compiled.
fn expected(scale: f32) -> Vec<f32> {
    let w = weight();
    step(&w).eager(&inputs(scale, 2)).unwrap();
    values(&w.grad().unwrap())
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
}

#[test]
fn one_that_nobody_else_has_is_written_over() {
    let w = weight();
    let f = step(&w);
    f.call(&inputs(1.0, 2)).unwrap();
    let place = w.grad().unwrap().address();
    for scale in [0.5, 2.0] {
        f.call(&inputs(scale, 2)).unwrap();
        assert_eq!(w.grad().unwrap().address(), place);
        close(&values(&w.grad().unwrap()), &expected(scale));
    }
    assert_eq!(f.variants(), 1);
}

#[test]
fn one_that_somebody_has_keeps_its_value() {
    let w = weight();
    let f = step(&w);
    f.call(&inputs(1.0, 2)).unwrap();
    for of in [Tensor::clone as fn(&Tensor) -> Tensor, |t| t.detach().unwrap()] {
        let kept = of(&w.grad().unwrap());
        let before = values(&kept);
        f.call(&inputs(0.5, 2)).unwrap();
        assert_eq!(values(&kept), before);
        close(&values(&w.grad().unwrap()), &expected(0.5));
        f.call(&inputs(1.0, 2)).unwrap();
    }
    // a graph that has saved it
    let y = w.detach().unwrap().requires_grad_(true).unwrap();
    let product = y.mul(&w.grad().unwrap()).unwrap();
    let before = values(&w.grad().unwrap());
    f.call(&inputs(0.5, 2)).unwrap();
    product.sum().unwrap().backward().unwrap();
    assert_eq!(values(&y.grad().unwrap()), before);
}

#[test]
fn one_of_other_sizes_or_strides_is_replaced() {
    let w = weight();
    let f = step(&w);
    f.call(&inputs(1.0, 2)).unwrap();
    let other = Tensor::zeros([3, 6]).unwrap().t().unwrap();
    w.set_grad(Some(&other)).unwrap();
    drop(other);
    f.call(&inputs(0.5, 2)).unwrap();
    assert_eq!(w.grad().unwrap().strides(), [3, 1]);
    close(&values(&w.grad().unwrap()), &expected(0.5));
}

#[test]
fn a_call_that_fails_leaves_none_that_is_half_written() {
    let w = weight();
    let f = step(&w);
    f.call(&inputs(1.0, 2)).unwrap();
    let kept = w.grad().unwrap();
    let before = values(&kept);
    f.call(&inputs(0.5, 3)).unwrap_err();
    assert_eq!(values(&w.grad().unwrap()), before);
    drop(kept);
    // as in eager code, which has cleared it
    f.call(&inputs(0.5, 3)).unwrap_err();
    assert!(w.grad().is_none());
    f.call(&inputs(0.5, 2)).unwrap();
    close(&values(&w.grad().unwrap()), &expected(0.5));
}
