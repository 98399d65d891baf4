//! Rules of PyTorch's that no numbered program shows: leaves, roots, inputs, hooks, writes.

use super::{contains, grad, leaf, node, refused, values};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use straightline::autograd::{
    BackwardOptions, Context, Function, GradOptions, backward, enable_grad, grad_with, no_grad,
};
use straightline::{DType, Result, Tensor, func, tensor};

fn ones(n: i64) -> Tensor {
    Tensor::ones([n]).unwrap()
}

fn keep() -> BackwardOptions {
    BackwardOptions { retain_graph: Some(true), ..BackwardOptions::default() }
}

/// 1.2: the names of nodes.
#[test]
fn names_of_nodes() {
    let t = leaf(&[1.0, 2.0]);
    let m = leaf(&[1.0, 2.0, 3.0, 4.0]).view([2, 2]).unwrap();
    let rows = [
        (t.pow(2).unwrap(), "PowBackward0"),
        (t.pow(&t).unwrap(), "PowBackward1"),
        (t.div(&t).unwrap(), "DivBackward0"),
        (t.mean().unwrap(), "MeanBackward0"),
        (m.mean_dim(1).unwrap(), "MeanBackward1"),
        (t.max().unwrap(), "MaxBackward1"),
        (t.t().unwrap(), "TBackward0"),
        (m.transpose(0, 1).unwrap(), "TransposeBackward0"),
        (m.reshape([4]).unwrap(), "ViewBackward0"),
        (m.t().unwrap().reshape([4]).unwrap(), "UnsafeViewBackward0"),
        (m.softmax(1).unwrap(), "SoftmaxBackward0"),
        (t.clamp(0, 1).unwrap(), "ClampBackward1"),
        (m.linear(&m, &t).unwrap(), "AddmmBackward0"),
        (m.linear(&m, None).unwrap(), "MmBackward0"),
        (t.add(&t).unwrap(), "AddBackward0"),
    ];
    for (t, name) in rows {
        assert_eq!(node(&t), name);
    }
    // an operand that wants nothing has a slot
    let next = t.add(ones(2)).unwrap().grad_fn().unwrap().next_functions();
    assert!(next.len() == 2 && next[0].is_some() && next[1].is_none());
}

/// 1.3
#[test]
fn leaves_and_views() {
    // not retroactive
    let a = ones(2);
    let b = a.mul(2).unwrap();
    a.requires_grad_(true).unwrap();
    assert!(!b.requires_grad());
    // output numbers of one node
    let parts = leaf(&[1.0; 4]).mul(1).unwrap().split(2, 0).unwrap();
    assert_eq!([parts[0].output_nr(), parts[1].output_nr()], [0, 1]);
    assert_eq!(node(&parts[0]), "SplitBackward0");
    // detach shares memory and the count of writes
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(2).unwrap();
    let d = y.detach().unwrap();
    assert!(!d.requires_grad() && d.is_leaf() && d.shares_storage_with(&y));
    let before = y.version();
    d.mul_(2).unwrap();
    assert_eq!(y.version(), before + 1);
    // on a leaf it does nothing
    x.retain_grad().unwrap();
    assert!(!x.retains_grad());
    y.retain_grad().unwrap();
    y.retain_grad().unwrap();
    assert!(y.retains_grad());
}

/// 1.4
#[test]
fn accumulating() {
    // a second gradient is added in place, and a recorded one out of place
    let x = leaf(&[1.0, 2.0]);
    x.mul(2).unwrap().sum().unwrap().backward().unwrap();
    let first = x.grad().unwrap();
    x.mul(3).unwrap().sum().unwrap().backward().unwrap();
    assert!(x.grad().unwrap().is_same(&first));
    assert_eq!(values(&first), [5.0, 5.0]);
    let create = BackwardOptions { create_graph: true, ..BackwardOptions::default() };
    x.mul(&x).unwrap().sum().unwrap().backward_with(None, &create).unwrap();
    assert!(!x.grad().unwrap().is_same(&first));
    assert_eq!(node(&x.grad().unwrap()), "AddBackward0");
    // a gradient that is held elsewhere is not taken over
    let (p, q) = (leaf(&[1.0]), leaf(&[2.0]));
    let g = ones(1);
    p.add(&q).unwrap().backward_with(&g, &BackwardOptions::default()).unwrap();
    let (of_p, of_q) = (p.grad().unwrap(), q.grad().unwrap());
    assert!(!of_p.shares_storage_with(&g) && !of_q.shares_storage_with(&g));
    assert!(!of_p.shares_storage_with(&of_q));
    // in the leaf's layout
    let w = leaf(&[0.0; 6]).detach().unwrap().view([2, 3]).unwrap();
    let w = w.requires_grad_(true).unwrap();
    w.sum().unwrap().backward().unwrap();
    assert_eq!(w.grad().unwrap().strides(), [3, 1]);
}

/// 2.1
#[test]
fn roots_and_inputs() {
    let x = leaf(&[1.0, 2.0]);
    // any shape of one element
    x.sum_dim_keep().unwrap().backward().unwrap();
    backward(&[], &[], &BackwardOptions::default()).unwrap();
    // a real gradient of another dtype
    let wide = tensor([1.0f64, 2.0]).unwrap().to_dtype(DType::F64).unwrap();
    let x = leaf(&[1.0, 2.0]);
    x.mul(3).unwrap().backward_with(&wide, &BackwardOptions::default()).unwrap();
    assert_eq!(grad(&x), [3.0, 6.0]);
    let e = refused(tensor([1.0]).unwrap().backward());
    contains(&e, "element 0 of tensors does not require grad and does not have a grad_fn");
    let options = GradOptions::default();
    let y = x.mul(2).unwrap().sum().unwrap();
    let e = refused(grad_with(&[y.clone()], &[ones(1)], &options));
    contains(&e, "One of the differentiated Tensors does not require grad");
    // the same input twice, and the root itself
    let grads = grad_with(&[y.clone()], &[x.clone(), x.clone(), y.clone()], &options).unwrap();
    let grads: Vec<Vec<f32>> = grads.iter().flatten().map(values).collect();
    assert_eq!(grads, [vec![2.0, 2.0], vec![2.0, 2.0], vec![1.0]]);
    // a tensor that is no leaf is filled, and its node runs
    let (x, runs) = (leaf(&[1.0]), Arc::new(AtomicUsize::new(0)));
    let c = x.mul(2).unwrap();
    let count = runs.clone();
    c.grad_fn().unwrap().register_prehook(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    });
    let d = c.mul(5).unwrap().sum().unwrap();
    let only = BackwardOptions { inputs: Some(vec![c.clone()]), ..BackwardOptions::default() };
    d.backward_with(None, &only).unwrap();
    assert_eq!(grad(&c), [5.0]);
    assert!(c.retains_grad() && x.grad().is_none());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    // an unused leaf is no error there
    let unused = leaf(&[1.0]);
    let only = BackwardOptions { inputs: Some(vec![unused.clone()]), ..keep() };
    x.mul(2).unwrap().sum().unwrap().backward_with(None, &only).unwrap();
    assert!(unused.grad().is_none() && x.grad().is_none());
}

trait OneElement {
    fn sum_dim_keep(&self) -> Result<Tensor>;
}

impl OneElement for Tensor {
    fn sum_dim_keep(&self) -> Result<Tensor> {
        self.sum()?.reshape([1, 1])
    }
}

/// 2.3 and 2.4
#[test]
fn sums_of_gradients() {
    // each operand gets a sum over what was broadcast, and hooks of the node see it already
    let (a, b) = (leaf(&[1.0, 1.0, 1.0]).view([3, 1]).unwrap(), ones(4));
    let y = a.add(&b).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sizes = seen.clone();
    y.grad_fn().unwrap().register_hook(move |given, _| {
        sizes.lock().unwrap().extend(given[0].as_ref().map(|g| g.sizes().to_vec()));
        Ok(None)
    });
    y.sum().unwrap().backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec![3, 1]]);
}

/// 2.5
#[test]
fn hooks_and_what_they_give() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(2).unwrap();
    y.register_hook(|_| tensor([1.0]).map(Some)).unwrap();
    let e = refused(y.sum().unwrap().backward());
    contains(&e, "has changed the size of value");
    // gradients that are asked for have been through the hooks
    let y = x.mul(2).unwrap();
    y.register_hook(|g| g.map(|g| g.mul(7)).transpose()).unwrap();
    let s = y.sum().unwrap();
    let options = GradOptions { retain_graph: Some(true), ..GradOptions::default() };
    let g = grad_with(&[s.clone()], &[y.clone()], &options).unwrap();
    assert_eq!(values(g[0].as_ref().unwrap()), [7.0, 7.0]);
    x.register_hook(|g| g.map(|g| g.mul(10)).transpose()).unwrap();
    let g = grad_with(&[s.clone()], &[x.clone()], &options).unwrap();
    assert_eq!(values(g[0].as_ref().unwrap()), [140.0, 140.0]);
    // what is kept has been through all of them
    y.retain_grad().unwrap();
    y.register_hook(|g| g.map(|g| g.neg()).transpose()).unwrap();
    s.backward().unwrap();
    assert_eq!(grad(&y), [-7.0, -7.0]);
}

/// 2.6
#[test]
fn gradients_that_do_not_arrive() {
    let x = leaf(&[1.0, 2.0]);
    let parts = x.mul(1).unwrap().unbind(0).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let which = seen.clone();
    parts[0].grad_fn().unwrap().register_prehook(move |grads| {
        which.lock().unwrap().extend(grads.iter().map(Option::is_some));
        Ok(None)
    });
    parts[0].mul(3).unwrap().backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [true, false]);
    assert_eq!(grad(&x), [3.0, 0.0]);
}

/// 2.8
#[test]
fn graphs_of_gradients() {
    let x = leaf(&[1.0]);
    let create = BackwardOptions { create_graph: true, ..BackwardOptions::default() };
    x.mul(2).unwrap().sum().unwrap().backward_with(None, &create).unwrap();
    assert!(!x.grad().unwrap().requires_grad());
    let y = leaf(&[3.0]);
    no_grad(|| enable_grad(|| y.mul(&y)?.sum()).and_then(|s| s.backward_with(None, &create)))
        .unwrap();
    assert!(y.grad().unwrap().requires_grad());
    // retained
    let z = leaf(&[3.0]);
    let s = z.mul(&z).unwrap().sum().unwrap();
    s.backward_with(None, &create).unwrap();
    s.backward().unwrap();
    assert_eq!(grad(&z), [12.0]);
}

/// 4.2 to 4.4
#[test]
fn writes() {
    // nothing of it wants a gradient
    ones(4).split(2, 0).unwrap()[0].add_(1).unwrap();
    // a base that wants none
    let b = ones(4);
    let v = b.narrow(0, 0, 2).unwrap();
    v.requires_grad_(true).unwrap();
    b.mul_(2).unwrap();
    contains(&refused(v.mul_(2)), "leaf Variable that requires grad is being used");
    // the base first, then a view of it
    let a = leaf(&[1.0; 4]);
    let b = a.mul(1).unwrap();
    let v = b.narrow(0, 1, 2).unwrap();
    b.mul_(5).unwrap();
    assert_eq!(node(&v), "AsStridedBackward0");
    v.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&a), [0.0, 5.0, 5.0, 0.0]);
    // what an operator saved of itself
    let x = leaf(&[0.5]);
    let t = x.mul(1).unwrap();
    t.mul_(&t.clone()).unwrap();
    contains(&refused(t.sum().unwrap().backward()), "modified by an inplace operation");
    let t = x.mul(1).unwrap();
    t.pow_(2).unwrap();
    t.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [1.0]);
    type Write = fn(&Tensor) -> Result<Tensor>;
    let saves_result: [Write; 4] = [|t| t.sigmoid_(), |t| t.relu_(), |t| t.tanh_(), |t| t.exp_()];
    for f in saves_result {
        let x = leaf(&[0.5]);
        let y = x.mul(1).unwrap();
        f(&y).unwrap().sum().unwrap().backward().unwrap();
        assert!(x.grad().is_some());
        let y = x.mul(1).unwrap();
        f(&y).unwrap().mul_(2).unwrap();
        contains(&refused(y.sum().unwrap().backward()), "modified by an inplace operation");
    }
    // a shape that changes in place is the view's own
    let a = leaf(&[1.0; 4]);
    let b = a.mul(1).unwrap();
    let v = b.narrow(0, 0, 2).unwrap();
    straightline::ops::aten::unsqueeze_(&v, 0).unwrap();
    assert_eq!(v.sizes(), [1, 2]);
    let both = b.mul(3).unwrap().sum().unwrap().add(v.mul(2).unwrap().sum().unwrap()).unwrap();
    both.backward().unwrap();
    assert_eq!(grad(&a), [5.0, 5.0, 3.0, 3.0]);
}

/// 7: gradients are asked for outside of transforms.
#[test]
fn no_pass_inside_of_a_transform() {
    let w = leaf(&[2.0]);
    let f = |x: &Tensor| {
        x.mul(&w)?.sum()?.backward()?;
        x.sum()
    };
    let e = refused(func::grad(f)(&tensor([1.0]).unwrap()));
    contains(&e, "backward() called inside a functorch transform");
}

/// `x²`, whose gradient is a user's.
struct Square;

impl Function for Square {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.save(&[&inputs[0]]);
        Ok(vec![inputs[0].mul(&inputs[0])?])
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let x = &context.saved()?[0];
        // twice what it should be, to tell it from the operators' gradients
        grads.iter().map(|g| g.as_ref().map(|g| g.mul(x)?.mul(4)).transpose()).collect()
    }
}

/// 6.3
#[test]
fn functions_inside_of_transforms() {
    let f = |x: &Tensor| Square.apply(std::slice::from_ref(x))?.remove(0).sum();
    let x = tensor([1.0, 2.0]).unwrap();
    assert_eq!(values(&func::grad(f)(&x).unwrap()), [4.0, 8.0]);
    assert_eq!(values(&func::grad(|x: &Tensor| func::grad(f)(x)?.sum())(&x).unwrap()), [4.0, 4.0]);
    let rows = tensor([[1.0, 2.0], [3.0, 4.0]]).unwrap();
    assert_eq!(values(&func::vmap(f)(&rows).unwrap()), [5.0, 25.0]);
    assert_eq!(values(&func::vmap(func::grad(f))(&rows).unwrap()), [4.0, 8.0, 12.0, 16.0]);
    // nothing of it can be recorded outside
    let w = leaf(&[3.0]);
    let f = |x: &Tensor| Square.apply(&[x.mul(&w)?])?.remove(0).sum();
    let e = func::vmap(f)(&rows).unwrap_err();
    contains(&e.to_string(), "You tried to vmap over Square, but it does not have vmap support");
    assert!(no_grad(|| func::vmap(f)(&rows)).is_ok());
}
