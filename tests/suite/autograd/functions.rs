//! Functions of the user's.

use super::{contains, grad, leaf, node, refused, values};
use std::sync::{Arc, Mutex};
use straightline::autograd::{Context, Function, GradOptions, grad_with};
use straightline::{Result, Tensor};

struct Square {
    once: bool,
}

impl Function for Square {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.save(&[&inputs[0]]);
        Ok(vec![inputs[0].mul(&inputs[0])?])
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let x = &context.saved()?[0];
        Ok(vec![grads[0].as_ref().map(|g| g.mul(x)?.mul(2)).transpose()?])
    }

    fn once_differentiable(&self) -> bool {
        self.once
    }
}

#[test]
fn second_derivatives_unless_they_are_refused() {
    let options = GradOptions { create_graph: true, ..GradOptions::default() };
    let of = |once: bool| {
        let x = leaf(&[2.0]);
        let y = Square { once }.apply(&[x.clone()]).unwrap().remove(0);
        assert_eq!(node(&y), "SquareBackward");
        let y = y.mul(&y).unwrap().sum().unwrap();
        let g = grad_with(&[y], &[x.clone()], &options).unwrap().remove(0).unwrap();
        assert_eq!(values(&g), [32.0]);
        g.sum().unwrap().backward().map(|()| grad(&x))
    };
    assert_eq!(of(false).unwrap(), [48.0]);
    contains(&refused(of(true)), "trying to differentiate twice a function that was marked with");
}

#[test]
fn what_was_saved_is_used_once() {
    let x = leaf(&[2.0]);
    let y = Square { once: false }.apply(&[x.clone()]).unwrap().remove(0).sum().unwrap();
    y.backward().unwrap();
    contains(&refused(y.backward()), "Trying to backward through the graph a second time");
    let x = leaf(&[2.0]).mul(1).unwrap();
    let y = Square { once: false }.apply(&[x.clone()]).unwrap().remove(0).sum().unwrap();
    x.add_(1).unwrap();
    contains(&refused(y.backward()), "has been modified by an inplace operation");
}

struct Two {
    zeros: bool,
    seen: Arc<Mutex<Vec<Option<Vec<f32>>>>>,
}

impl Function for Two {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.set_materialize_grads(self.zeros);
        Ok(vec![inputs[0].mul(1)?, inputs[0].mul(2)?])
    }

    fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        *self.seen.lock().unwrap() = grads.iter().map(|g| g.as_ref().map(values)).collect();
        Ok(vec![grads[0].clone()])
    }
}

#[test]
fn c2_results_that_are_not_used() {
    for (zeros, want) in [(false, None), (true, Some(vec![0.0]))] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let x = leaf(&[1.0]);
        let y = Two { zeros, seen: seen.clone() }.apply(&[x]).unwrap();
        y[0].sum().unwrap().backward().unwrap();
        assert_eq!(seen.lock().unwrap()[1], want);
    }
}

struct Nothing;

impl Function for Nothing {
    fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].mul(1)?])
    }

    fn backward(&self, _: &Context, _: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![None])
    }
}

#[test]
fn c4_no_gradient_arrives() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (hook, after) = (seen.clone(), seen.clone());
    let x = leaf(&[1.0]);
    x.register_hook(move |g| {
        hook.lock().unwrap().push(("hook", g.is_none()));
        Ok(None)
    })
    .unwrap();
    x.register_post_accumulate_grad_hook(move |x| {
        after.lock().unwrap().push(("post", x.grad().is_none()));
        Ok(())
    })
    .unwrap();
    let y = Nothing.apply(&[x]).unwrap().remove(0);
    y.sum().unwrap().backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [("hook", true), ("post", true)]);
}

struct Identity;

impl Function for Identity {
    fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].clone()])
    }

    fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![grads[0].as_ref().map(|g| g.mul(10)).transpose()?])
    }
}

#[test]
fn v12_an_operand_comes_back() {
    let x = leaf(&[1.0]);
    let y = Identity.apply(&[x.clone()]).unwrap().remove(0);
    assert!(!y.is_same(&x) && y.base().is_some());
    assert_eq!(node(&y), "IdentityBackward");
    contains(&refused(y.mul_(2)), "This view was created inside a custom Function");
    y.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [10.0]);
}

struct Double;

impl Function for Double {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        inputs[0].mul_(2)?;
        context.mark_dirty(&[&inputs[0]]);
        Ok(vec![inputs[0].clone()])
    }

    fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![grads[0].as_ref().map(|g| g.mul(2)).transpose()?])
    }
}

#[test]
fn v13_an_operand_is_written() {
    let x = leaf(&[1.0, 1.0, 1.0]);
    let b = x.mul(1).unwrap();
    let y = Double.apply(&[b.clone()]).unwrap().remove(0);
    assert!(y.is_same(&b));
    assert_eq!(node(&b), "DoubleBackward");
    let v = b.i(..2).unwrap();
    Double.apply(&[v.clone()]).unwrap();
    assert_eq!(node(&v), "AsStridedBackward0");
    assert_eq!(node(&b), "torch::autograd::CopySlices");
    b.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [4.0, 4.0, 2.0]);
    let text = refused(Double.apply(&[leaf(&[1.0])]));
    contains(&text, "a leaf Variable that requires grad has been used in an in-place operation.");
}
