//! The backward pass.

use super::{contains, grad, leaf, node, refused, values};
use std::sync::{Arc, Mutex};
use straightline::autograd::{
    BackwardOptions, Context, Function, GradOptions, backward, grad as gradients, grad_with,
};
use straightline::{DType, Error, ErrorKind, Result, Tensor, tensor};

fn keep() -> BackwardOptions {
    BackwardOptions { retain_graph: Some(true), ..BackwardOptions::default() }
}

fn recorded() -> GradOptions {
    GradOptions { create_graph: true, ..GradOptions::default() }
}

fn first(outputs: &Tensor, inputs: &Tensor, options: &GradOptions) -> Tensor {
    let mut grads =
        grad_with(std::slice::from_ref(outputs), std::slice::from_ref(inputs), options).unwrap();
    grads.remove(0).unwrap()
}

#[test]
fn g3_a_graph_that_is_kept_serves_again() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(&x).unwrap().sum().unwrap();
    y.backward_with(None, &keep()).unwrap();
    y.backward().unwrap();
    assert_eq!(grad(&x), [4.0, 8.0]);
}

#[test]
fn g4_three_derivatives() {
    let x = leaf(&[3.0]);
    let mut y = x.pow(3).unwrap().sum().unwrap();
    let mut found = Vec::new();
    for _ in 0..3 {
        let g = first(&y, &x, &recorded());
        found.push(values(&g)[0]);
        y = g.sum().unwrap();
    }
    assert_eq!(found, [27.0, 18.0, 6.0]);
}

#[test]
fn g5_a_gradient_has_the_shape_of_its_tensor() {
    let p = leaf(&[1.0, 1.0, 1.0]).detach().unwrap().view([3, 1]).unwrap();
    let p = p.copied().unwrap().requires_grad_(true).unwrap();
    let q = leaf(&[1.0, 2.0, 3.0, 4.0]);
    let y = p.mul(&q).unwrap().sum().unwrap();
    let grads = gradients(&[y], &[p, q]).unwrap();
    assert_eq!((grads[0].sizes(), grads[1].sizes()), (&[3, 1][..], &[4][..]));
}

#[test]
fn g6_and_its_dtype() {
    let p = tensor([1.0]).unwrap().to(DType::BF16).unwrap().requires_grad_(true).unwrap();
    let q = leaf(&[2.0]);
    p.mul(&q).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(p.grad().unwrap().dtype(), DType::BF16);
    assert_eq!(q.grad().unwrap().dtype(), DType::F32);
}

#[test]
fn g7_younger_nodes_run_first() {
    let order = Arc::new(Mutex::new(String::new()));
    let note = |t: &Tensor, name: char| {
        let order = order.clone();
        t.grad_fn().unwrap().register_prehook(move |_| {
            order.lock().unwrap().push(name);
            Ok(None)
        });
    };
    let a = leaf(&[1.0]);
    let first = a.mul(2).unwrap();
    let second = a.mul(3).unwrap();
    let third = first.mul(2).unwrap();
    let fourth = second.mul(2).unwrap();
    for (t, name) in [(&first, 'A'), (&second, 'B'), (&third, 'C'), (&fourth, 'D')] {
        note(t, name);
    }
    third.add(&fourth).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(*order.lock().unwrap(), "DCBA");
}

#[test]
fn g8_hooks_run_in_order() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let x = leaf(&[1.0]);
    let y = x.mul(2).unwrap();
    let note = |what: &'static str| {
        let order = order.clone();
        move || order.lock().unwrap().push(what)
    };
    let (t1, t2, pre, post, on_leaf, after) =
        (note("t1"), note("t2"), note("npre"), note("npost"), note("leaf"), note("pacc"));
    y.retain_grad().unwrap();
    y.register_hook(move |_| {
        t1();
        Ok(None)
    })
    .unwrap();
    y.register_hook(move |g| {
        t2();
        g.map(|g| g.mul(10)).transpose()
    })
    .unwrap();
    let f = y.grad_fn().unwrap();
    f.register_prehook(move |_| {
        pre();
        Ok(None)
    });
    f.register_hook(move |_, _| {
        post();
        Ok(None)
    });
    x.register_hook(move |_| {
        on_leaf();
        Ok(None)
    })
    .unwrap();
    x.register_post_accumulate_grad_hook(move |x| {
        assert!(x.grad().is_some());
        after();
        Ok(())
    })
    .unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(*order.lock().unwrap(), ["t1", "t2", "npre", "npost", "leaf", "pacc"]);
    assert_eq!((grad(&y), grad(&x)), (vec![10.0], vec![20.0]));
}

#[test]
fn g9_a_hook_belongs_to_the_value_that_it_was_put_on() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let x = leaf(&[1.0]);
    let y = x.mul(1).unwrap();
    let see = |name: &'static str| {
        let seen = seen.clone();
        move |g: Option<&Tensor>| {
            seen.lock().unwrap().push((name, values(g.unwrap())[0]));
            Ok(None)
        }
    };
    y.register_hook(see("h1")).unwrap();
    y.mul_(3).unwrap();
    y.register_hook(see("h2")).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [("h2", 1.0), ("h1", 3.0)]);
}

#[test]
fn retained_gradients_follow_a_write() {
    let x = leaf(&[1.0]);
    let y = x.mul(1).unwrap();
    y.retain_grad().unwrap();
    y.mul_(3).unwrap();
    y.mul(7).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!((grad(&y), grad(&x)), (vec![7.0], vec![21.0]));
}

#[test]
fn g10_gradients_of_some_inputs_alone() {
    let (u, v) = (leaf(&[1.0]), leaf(&[1.0]));
    let y = u.mul(2).unwrap().add(&v.mul(3).unwrap()).unwrap().sum().unwrap();
    let options = BackwardOptions { inputs: Some(vec![u.clone()]), ..BackwardOptions::default() };
    y.backward_with(None, &options).unwrap();
    assert_eq!(grad(&u), [2.0]);
    assert!(v.grad().is_none());
    let none = BackwardOptions { inputs: Some(Vec::new()), ..BackwardOptions::default() };
    contains(&refused(backward(&[u.mul(2).unwrap()], &[], &none)), "cannot be empty");
}

#[test]
fn g11_g12_inputs_that_were_not_used() {
    let (a, b) = (leaf(&[1.0]), leaf(&[1.0]));
    let y = || a.mul(2).unwrap().sum().unwrap();
    let text = refused(gradients(&[y()], &[b.clone()]));
    contains(
        &text,
        "The differentiated Tensor at index 0 appears to not have been used in the graph",
    );
    let unused = GradOptions { allow_unused: Some(true), ..GradOptions::default() };
    assert!(grad_with(&[y()], &[b.clone()], &unused).unwrap()[0].is_none());
    let zeros = GradOptions { materialize_grads: true, ..GradOptions::default() };
    assert_eq!(values(&first(&y(), &b, &zeros)), [0.0]);
    let both = GradOptions { allow_unused: Some(false), ..zeros };
    let error = grad_with(&[y()], &[b], &both).unwrap_err();
    assert_eq!(error.python_class(), "ValueError");
}

#[test]
fn g13_a_root_is_a_scalar_or_has_a_gradient() {
    let x = leaf(&[1.0, 2.0]);
    let text = refused(x.mul(2).unwrap().backward());
    contains(&text, "grad can be implicitly created only for scalar outputs");
    let wrong = tensor([1.0, 1.0, 1.0]).unwrap();
    let text = refused(x.mul(2).unwrap().backward_with(&wrong, &BackwardOptions::default()));
    contains(
        &text,
        "Mismatch in shape: grad_output[0] has a shape of [3] and output[0] has a shape of [2]",
    );
    let plain = tensor([1.0]).unwrap();
    contains(&refused(plain.backward()), "element 0 of tensors does not require grad");
}

#[test]
fn g14_a_long_chain() {
    let x = leaf(&[1.0]);
    let mut y = x.add(0).unwrap();
    for _ in 0..100_000 {
        y = y.add(1).unwrap();
    }
    y.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [1.0]);
    drop(y);
}

struct Explodes;

impl Function for Explodes {
    fn forward(&self, _context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].mul(1)?])
    }

    fn backward(&self, _: &Context, _: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Err(Error::new(ErrorKind::Value("boom".into())))
    }
}

#[test]
fn g15_an_error_keeps_what_was_accumulated() {
    let (p, q) = (leaf(&[1.0]), leaf(&[1.0]));
    let bad = Explodes.apply(&[p.clone()]).unwrap().remove(0);
    let good = q.mul(1).unwrap();
    let error = bad.add(&good).unwrap().sum().unwrap().backward().unwrap_err();
    assert_eq!(error.python_class(), "ValueError");
    contains(&error.to_string(), "boom");
    assert!(p.grad().is_none());
    assert_eq!(grad(&q), [1.0]);
    // the engine is as it was
    p.mul(2).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(grad(&p), [2.0]);
}

#[test]
fn g16_threads_add_to_one_leaf() {
    let x = leaf(&[0.0]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    x.mul(1).unwrap().sum().unwrap().backward().unwrap();
                }
            });
        }
    });
    assert_eq!(grad(&x), [800.0]);
}

struct Gives(Vec<i64>);

impl Function for Gives {
    fn forward(&self, _context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].mul(1)?])
    }

    fn backward(&self, _: &Context, _: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(Tensor::ones(&self.0)?)])
    }
}

#[test]
fn g17_a_larger_gradient_is_summed_and_another_refused() {
    let x = Tensor::ones([2, 3]).unwrap().requires_grad_(true).unwrap();
    let apply = |sizes: &[i64]| Gives(sizes.to_vec()).apply(&[x.clone()]).unwrap().remove(0);
    apply(&[4, 2, 3]).sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [4.0; 6]);
    let text = refused(apply(&[5]).sum().unwrap().backward());
    contains(
        &text,
        "Function GivesBackward returned an invalid gradient at index 0 - got [5] but expected shape compatible with [2, 3]",
    );
}

#[test]
fn g19_g20_layouts() {
    let row = Tensor::zeros([3, 2]).unwrap().t().unwrap().requires_grad_(true).unwrap();
    let given = Tensor::ones([2, 3]).unwrap();
    row.mul(1).unwrap().backward_with(&given, &BackwardOptions::default()).unwrap();
    assert_eq!(row.grad().unwrap().strides(), [1, 2]);
    let x = Tensor::ones([2, 3]).unwrap().requires_grad_(true).unwrap();
    let raw = gradients(&[x.sum().unwrap()], &[x.clone()]).unwrap().remove(0);
    assert_eq!(raw.strides(), [0, 0]);
    x.sum().unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().strides(), [3, 1]);
}

#[test]
fn order_of_addition_is_that_of_execution() {
    let x = leaf(&[1.0]);
    let parts: Vec<Tensor> = [1e8, 1.0, -1e8].iter().map(|k| x.mul(*k).unwrap()).collect();
    let y = parts[0].add(&parts[1]).unwrap().add(&parts[2]).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [0.0]);
}

#[test]
fn one_root_twice_counts_twice() {
    let x = leaf(&[1.0]);
    let y = x.mul(2).unwrap();
    backward(&[y.clone(), y], &[], &BackwardOptions::default()).unwrap();
    assert_eq!(grad(&x), [4.0]);
}

#[test]
fn nodes_have_pytorchs_names() {
    let x = leaf(&[1.0, 2.0]);
    let m = Tensor::ones([2, 2]).unwrap().requires_grad_(true).unwrap();
    for (name, t) in [
        ("PowBackward0", x.pow(2).unwrap()),
        ("PowBackward1", x.pow(&x).unwrap()),
        ("DivBackward0", x.div(&x).unwrap()),
        ("ReluBackward0", x.relu().unwrap()),
        ("MeanBackward0", x.mean().unwrap()),
        ("MaxBackward1", x.max().unwrap()),
        ("SoftmaxBackward0", x.softmax(0).unwrap()),
        ("TBackward0", m.t().unwrap()),
        ("MmBackward0", m.mm(&m).unwrap()),
        ("ViewBackward0", m.view(4).unwrap()),
        ("UnsqueezeBackward0", x.unsqueeze(0).unwrap()),
    ] {
        assert_eq!(node(&t), name);
    }
    let linear = x.unsqueeze(0).unwrap().linear(&m, &x).unwrap();
    assert_eq!(node(&linear), "AddmmBackward0");
}

#[test]
fn a_pass_within_a_pass() {
    struct Inner;
    impl Function for Inner {
        fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
            context.save(&[&inputs[0]]);
            Ok(vec![inputs[0].mul(&inputs[0])?])
        }

        fn backward(
            &self,
            context: &Context,
            grads: &[Option<Tensor>],
        ) -> Result<Vec<Option<Tensor>>> {
            let x = context.saved()?[0].detach()?.requires_grad_(true)?;
            let y = straightline::autograd::enable_grad(|| x.mul(&x)?.sum())?;
            y.backward()?;
            let inner = x.grad().expect("a gradient");
            Ok(vec![grads[0].as_ref().map(|g| g.mul(&inner)).transpose()?])
        }
    }
    let x = leaf(&[3.0]);
    let y = Inner.apply(&[x.clone()]).unwrap().remove(0);
    y.sum().unwrap().backward().unwrap();
    assert_eq!(grad(&x), [6.0]);
}

#[test]
fn callbacks_run_in_order_when_the_pass_is_over() {
    use straightline::autograd::{enable_grad, queue_callback};
    let log = Arc::new(Mutex::new(Vec::new()));
    let x = tensor([2.0]).unwrap().requires_grad_(true).unwrap();
    let y = x.mul(3).unwrap();
    let (mine, leaf) = (log.clone(), x.clone());
    y.register_hook(move |_| {
        let inner = tensor([1.0])?.requires_grad_(true)?;
        let z = enable_grad(|| inner.mul(2))?;
        let log = mine.clone();
        z.register_hook(move |_| {
            let log = log.clone();
            queue_callback(move || {
                log.lock().unwrap().push("inner".to_string());
                Ok(())
            })?;
            Ok(None)
        })?;
        for name in ["first", "second"] {
            let (log, leaf) = (mine.clone(), leaf.clone());
            queue_callback(move || {
                let grad = leaf.grad().unwrap().item::<f32>()?;
                log.lock().unwrap().push(format!("{name} {grad}"));
                let log = log.clone();
                queue_callback(move || {
                    log.lock().unwrap().push(format!("after {name}"));
                    Ok(())
                })
            })?;
        }
        enable_grad(|| z.sum())?.backward()?;
        Ok(None)
    })
    .unwrap();
    y.sum().unwrap().backward().unwrap();
    let expected = ["inner", "first 3", "second 3", "after first", "after second"];
    assert_eq!(*log.lock().unwrap(), expected);
    let e = queue_callback(|| Ok(())).unwrap_err().to_string();
    assert!(e.contains("Final callbacks can only be installed during backward pass."), "{e}");
    // an error in one is the pass's
    let y = x.mul(3).unwrap();
    y.register_hook(|_| {
        queue_callback(|| {
            Err(straightline::Error::new(straightline::ErrorKind::Runtime("no".into())))
        })?;
        Ok(None)
    })
    .unwrap();
    assert!(y.sum().unwrap().backward().unwrap_err().to_string().contains("no"));
    assert!(queue_callback(|| Ok(())).is_err());
}
