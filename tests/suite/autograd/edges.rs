//! Edges that stand for tensors, gradients in batches, hooks of several tensors.

use super::{contains, grad, leaf, node, refused, values};
use std::sync::{Arc, Mutex};
use straightline::autograd::{
    BackwardOptions, GradOptions, GradTarget, GradientEdge, backward, enable_grad,
    get_gradient_edge, grad_with, register_any_grad_hook, register_multi_grad_hook,
};
use straightline::{DType, Result, Tensor, eye, tensor};

fn first(grads: Result<Vec<Option<Tensor>>>) -> Tensor {
    grads.unwrap().remove(0).expect("a gradient")
}

#[test]
fn g18_gradients_in_batches() {
    let (a, b) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
    let batched = |grads: Vec<Option<Tensor>>| GradOptions {
        grad_outputs: grads,
        is_grads_batched: true,
        ..GradOptions::default()
    };
    let options = batched(vec![Some(eye(2).unwrap())]);
    let y = a.mul(&b).unwrap();
    let g = first(grad_with(&[y.clone()], &[a.clone()], &options));
    assert_eq!(g.to_vec2::<f32>().unwrap(), [[3.0, 0.0], [0.0, 4.0]]);
    assert!(a.grad().is_none());
    // several gradients are as many passes, in-place sums and second derivatives included
    let f = |x: &Tensor| x.mul(x)?.mul(&b)?.add(x.sin()?)?.add(&x.sum()?);
    let weights = tensor([[1.0, 2.0], [-1.0, 0.5], [0.0, 3.0]]).unwrap();
    let create = GradOptions { create_graph: true, ..batched(vec![Some(weights.clone())]) };
    let all = first(grad_with(&[f(&a).unwrap()], &[a.clone()], &create));
    for i in 0..3 {
        let one = GradOptions {
            grad_outputs: vec![Some(weights.select(0, i).unwrap())],
            create_graph: true,
            ..GradOptions::default()
        };
        let alone = first(grad_with(&[f(&a).unwrap()], &[a.clone()], &one));
        straightline::assert_close(&all.select(0, i).unwrap(), &alone).unwrap();
        let second = |g: Tensor| first(grad_with(&[g.sum().unwrap()], &[a.clone()], &keep()));
        straightline::assert_close(&second(all.select(0, i).unwrap()), &second(alone)).unwrap();
    }
    // an input that was not used
    let unused = leaf(&[1.0]);
    let y = a.mul(&b).unwrap();
    let zeros = GradOptions { materialize_grads: true, ..options.clone() };
    assert_eq!(values(&first(grad_with(&[y.clone()], &[unused], &zeros))), [0.0]);
    let wrong = batched(vec![Some(tensor([1.0, 2.0, 3.0]).unwrap())]);
    let e = refused(grad_with(&[y], &[a], &wrong));
    contains(
        &e,
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output",
    );
}

fn keep() -> GradOptions {
    GradOptions { retain_graph: Some(true), ..GradOptions::default() }
}

#[test]
fn edges_stand_for_tensors() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(3).unwrap();
    let z = y.mul(&y).unwrap();
    let (of_x, of_y) = (get_gradient_edge(&x).unwrap(), get_gradient_edge(&y).unwrap());
    assert_eq!(of_y.node.name(), node(&y));
    let sum = z.sum().unwrap();
    let both = grad_with(&[sum], &[of_x.clone(), of_y.clone()], &keep()).unwrap();
    assert_eq!(values(both[0].as_ref().unwrap()), [18.0, 36.0]);
    assert_eq!(values(both[1].as_ref().unwrap()), [6.0, 12.0]);
    // a root needs a gradient
    let e = refused(grad_with(&[of_y.clone()], &[x.clone()], &keep()));
    contains(&e, "grad can be implicitly created only for scalar outputs");
    let given = GradOptions { grad_outputs: vec![Some(tensor([1.0, 10.0]).unwrap())], ..keep() };
    assert_eq!(values(&first(grad_with(&[of_y.clone()], &[x.clone()], &given))), [3.0, 30.0]);
    let short = GradOptions { grad_outputs: vec![Some(tensor([1.0]).unwrap())], ..keep() };
    contains(&refused(grad_with(&[of_y.clone()], &[x.clone()], &short)), "Mismatch in shape");
    // beside tensors, and unused
    let other = get_gradient_edge(&leaf(&[5.0])).unwrap();
    let inputs: [GradTarget; 2] = [(&x).into(), other.into()];
    let zeros = GradOptions { materialize_grads: true, ..keep() };
    let grads = grad_with(&[z.sum().unwrap()], &inputs, &zeros).unwrap();
    assert_eq!(values(grads[1].as_ref().unwrap()), [0.0]);
    // without history, and past the last output
    contains(&refused(get_gradient_edge(&tensor([1.0]).unwrap())), "gradient edge");
    let past = GradientEdge { node: of_y.node.clone(), output_nr: 7 };
    let e = refused(grad_with(&[z.sum().unwrap()], &[past], &keep()));
    contains(&e, "One of the differentiated Tensors does not require grad");
    // one of several outputs
    let parts = x.mul(1).unwrap().split(1, 0).unwrap();
    let edge = get_gradient_edge(&parts[1]).unwrap();
    assert_eq!(edge.output_nr, 1);
    let g = first(grad_with(&[parts[1].mul(7).unwrap().sum().unwrap()], &[edge], &keep()));
    assert_eq!(values(&g), [7.0]);
}

type Seen = Arc<Mutex<Vec<Vec<Option<f32>>>>>;

fn noting(seen: &Seen) -> impl Fn(&[Option<Tensor>]) -> Result<()> + Send + Sync + 'static {
    let seen = seen.clone();
    move |grads| {
        let one = |g: &Option<Tensor>| g.as_ref().map(|g| g.detach()?.item()).transpose();
        let grads = grads.iter().map(one).collect::<Result<_>>()?;
        seen.lock().unwrap().push(grads);
        Ok(())
    }
}

#[test]
fn a_hook_of_several_runs_when_all_gradients_are_there() {
    let seen = Seen::default();
    let (a, b, c) = (leaf(&[2.0]), leaf(&[3.0]), leaf(&[5.0]));
    let y = a.mul(&b).unwrap();
    let hook = register_multi_grad_hook(&[a.clone(), y.clone(), c.clone()], noting(&seen)).unwrap();
    // those that get one in this pass
    y.mul(10).unwrap().sum().unwrap().backward_with(None, &again()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec![Some(30.0), Some(10.0), None]]);
    // all
    seen.lock().unwrap().clear();
    y.mul(&c).unwrap().sum().unwrap().backward_with(None, &again()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec![Some(15.0), Some(5.0), Some(6.0)]]);
    // of a pass that is asked for some alone
    seen.lock().unwrap().clear();
    grad_with(&[y.mul(&c).unwrap().sum().unwrap()], &[c.clone()], &keep()).unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec![None, None, Some(6.0)]]);
    // none of them
    seen.lock().unwrap().clear();
    b.mul(2).unwrap().sum().unwrap().backward().unwrap();
    assert!(seen.lock().unwrap().is_empty());
    hook.remove();
    y.mul(&c).unwrap().sum().unwrap().backward().unwrap();
    assert!(seen.lock().unwrap().is_empty());
    let e = refused(register_multi_grad_hook(&[a, tensor([1.0]).unwrap()], |_| Ok(())));
    contains(&e, "cannot register a hook on a tensor that doesn't require gradient");
}

fn again() -> BackwardOptions {
    BackwardOptions { retain_graph: Some(true), ..BackwardOptions::default() }
}

#[test]
fn or_when_the_first_one_is() {
    let seen = Seen::default();
    let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
    let y = a.mul(1).unwrap();
    let note = noting(&seen);
    register_any_grad_hook(&[a.clone(), y.clone(), b.clone()], move |g| note(&[Some(g.clone())]))
        .unwrap();
    for _ in 0..2 {
        y.mul(10).unwrap().sum().unwrap().backward_with(None, &again()).unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [vec![Some(10.0)], vec![Some(10.0)]]);
    assert_eq!(grad(&a), [20.0]);
}

/// A pass within a pass has gradients of its own.
#[test]
fn hooks_of_several_know_their_pass() {
    let seen = Seen::default();
    let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
    register_multi_grad_hook(&[a.clone(), b.clone()], noting(&seen)).unwrap();
    let y = a.mul(4).unwrap();
    let (own, inner) = (a.clone(), b.clone());
    y.register_hook(move |_| {
        // gradients are not recorded here
        let y = enable_grad(|| own.mul(&inner)?.sum())?;
        backward(&[y], &[], &BackwardOptions::default())?;
        Ok(None)
    })
    .unwrap();
    y.mul(&b).unwrap().sum().unwrap().backward().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, [vec![Some(3.0), Some(2.0)], vec![Some(12.0), Some(8.0)]]);
}

/// A hook that holds a node or a leaf would keep it for ever.
#[test]
fn hooks_of_several_keep_nothing() {
    let token = Arc::new(());
    let weak = Arc::downgrade(&token);
    {
        let a = leaf(&[1.0]);
        let y = a.mul(2).unwrap();
        register_multi_grad_hook(&[a.clone(), y.clone()], move |_| {
            let _token = &token;
            Ok(())
        })
        .unwrap();
        y.sum().unwrap().backward().unwrap();
    }
    assert!(weak.upgrade().is_none());
}

#[test]
fn hooks_of_nodes_give_as_many_as_they_got() {
    let (a, b) = (leaf(&[1.0]), leaf(&[2.0]));
    let y = a.mul(&b).unwrap();
    let hook = y.grad_fn().unwrap().register_hook(|_, _| Ok(Some(vec![None; 3])));
    let e = refused(y.sum().unwrap().backward_with(None, &again()));
    contains(&e, "hook has returned an incorrect number of values (got 3, but expected 2)");
    hook.remove();
    y.grad_fn().unwrap().register_prehook(|_| Ok(Some(Vec::new())));
    let e = refused(y.sum().unwrap().backward());
    contains(&e, "hook has returned an incorrect number of values (got 0, but expected 1)");
}

#[test]
fn a_leaf_of_another_dtype_as_an_edge() {
    let x = leaf(&[1.0]).to_dtype(DType::F64).unwrap().detach().unwrap();
    let x = x.requires_grad_(true).unwrap();
    let edge = get_gradient_edge(&x).unwrap();
    let y = x.to_dtype(DType::F32).unwrap().mul(3).unwrap().sum().unwrap();
    assert_eq!(first(grad_with(&[y], &[edge], &keep())).dtype(), DType::F64);
}
