//! Grad mode, inference mode, anomaly detection, saved tensors, and what has no gradient.

use super::{contains, grad, leaf, node, refused, values};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use straightline::autograd::{
    checkpoint, detect_anomaly, enable_grad, inference_mode, no_grad, saved_tensors_hooks,
};
use straightline::ops::aten;
use straightline::{Scalar, Tensor, tensor};

#[test]
fn m1_no_grad() {
    no_grad(|| {
        let x = leaf(&[1.0]);
        assert!(x.requires_grad());
        assert!(!x.mul(2).unwrap().requires_grad());
        let v = x.view(1).unwrap();
        assert!(v.requires_grad() && v.grad_fn().is_none());
        assert!(enable_grad(|| x.mul(2)).unwrap().requires_grad());
    });
}

#[test]
fn m2_m3_inference_mode() {
    let w = leaf(&[1.0, 2.0]);
    let t = inference_mode(|| Tensor::ones(2)).unwrap();
    assert!(t.is_inference());
    contains(&refused(w.mul(&t)), "Inference tensors cannot be saved for backward");
    assert_eq!(values(&w.add(&t).unwrap()), [2.0, 3.0]);
    let y = inference_mode(|| enable_grad(|| w.mul(2))).unwrap();
    assert!(!y.requires_grad());
}

#[test]
fn m4_an_out_has_no_history() {
    let x = leaf(&[1.0]);
    let out = tensor([0.0]).unwrap();
    let one = Scalar::Int(1);
    let text = refused(aten::add_out(&x, &x, one, &out));
    contains(
        &text,
        "add(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.",
    );
    no_grad(|| aten::add_out(&x, &x, one, &out)).unwrap();
    assert!(!out.requires_grad());
}

#[test]
fn m5_an_operand_that_has_none() {
    let x = Tensor::ones([2, 3]).unwrap();
    let target = tensor([0, 1]).unwrap();
    let weight = Tensor::ones(3).unwrap().requires_grad_(true).unwrap();
    let text = refused(aten::nll_loss_forward(&x, &target, Some(&weight), 1, -100));
    contains(
        &text,
        "The function 'nll_loss_forward' is not differentiable with respect to argument 'weight'. This input cannot have requires_grad True.",
    );
}

#[test]
fn m6_an_operator_that_has_none() {
    let x = leaf(&[5.0, 7.0]);
    let y = aten::floor_divide(&x, &tensor([2.0]).unwrap()).unwrap();
    assert_eq!((values(&y), node(&y).as_str()), (vec![2.0, 3.0], "NotImplemented"));
    let text = refused(y.sum().unwrap().backward());
    contains(&text, "derivative for aten::floor_divide is not implemented");
}

#[test]
fn m7_ties() {
    let of = |f: &dyn Fn(&Tensor) -> straightline::Result<Tensor>, x: &[f32]| {
        let x = leaf(x);
        f(&x).unwrap().sum().unwrap().backward().unwrap();
        grad(&x)
    };
    assert_eq!(of(&|x| x.max(), &[2.0, 2.0, 1.0]), [0.5, 0.5, 0.0]);
    assert_eq!(of(&|x| Ok(x.max_dim(0)?.0), &[2.0, 2.0, 1.0]), [1.0, 0.0, 0.0]);
    assert_eq!(of(&|x| x.maximum(&tensor([1.0])?), &[1.0]), [0.5]);
    assert_eq!(of(&|x| x.clamp(0.0, 1.0), &[0.0, 0.5, 1.0]), [0.0, 1.0, 0.0]);
    assert_eq!(of(&|x| x.relu(), &[0.0, 1.0]), [0.0, 1.0]);
}

#[test]
fn m8_anomaly() {
    let x = leaf(&[-1.0]);
    let _detect = detect_anomaly(true);
    let y = x.sqrt().unwrap();
    let text = refused(y.sum().unwrap().backward());
    contains(&text, "Function 'SqrtBackward0' returned nan values in its 0th output.");
    contains(&text, "`aten::sqrt` at tests/suite/autograd/modes.rs");
}

#[test]
fn m9_hooks_of_saved_tensors() {
    let x = leaf(&[3.0]);
    let y = saved_tensors_hooks(|t| t.mul(10), |t| Ok(t.clone()), || x.mul(&x)).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [60.0]);
    let bad =
        saved_tensors_hooks(|t| t.add_(1).map(drop), |()| tensor([0.0]), || x.detach()?.mul(&x));
    contains(&refused(bad), "A saved tensor pack hook is modifying its input in place");
}

#[test]
fn c5_checkpoint() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let x = leaf(&[1.0]);
    let f = move |x: &[Tensor]| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(vec![x[0].sin()?.exp()?])
    };
    let y = checkpoint(f, &[x.clone()]).unwrap().remove(0);
    assert_eq!(node(&y), "ExpBackward0");
    y.sum().unwrap().backward().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert!((grad(&x)[0] - 1.2534).abs() < 1e-4);
}

#[test]
fn settings_that_have_no_meaning() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(2).unwrap();
    contains(
        &refused(y.requires_grad_(false)),
        "you can only change requires_grad flags of leaf variables.",
    );
    contains(&refused(x.set_grad(&x)), "can't assign Variable as its own grad");
    contains(
        &refused(x.set_grad(&tensor([1.0]).unwrap())),
        "attempting to assign a gradient of size",
    );
    let plain = tensor([1.0]).unwrap();
    contains(
        &refused(plain.register_hook(|_| Ok(None))),
        "cannot register a hook on a tensor that doesn't require gradient",
    );
    contains(
        &refused(y.register_post_accumulate_grad_hook(|_| Ok(()))),
        "post accumulate grad hooks cannot be registered on non-leaf tensors",
    );
    contains(
        &refused(plain.retain_grad()),
        "can't retain_grad on Tensor that has requires_grad=False",
    );
}

#[test]
fn composites_are_differentiated_through_their_parts() {
    let x = leaf(&[1.0, 2.0, 3.0]);
    let y = aten::linear(&x, &Tensor::ones([2, 3]).unwrap(), None).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [2.0, 2.0, 2.0]);
}
