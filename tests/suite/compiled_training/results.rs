//! Functions whose results want gradients.

use super::*;

type Two = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn programs() -> Vec<(&'static str, Two)> {
    vec![
        ("product and sine", |a, b| a.mul(b)?.sin()),
        ("chain", |a, _| a.sin()?.cos()?.exp()?.tanh()),
        ("matmul and relu", |a, b| a.matmul(b)?.relu()),
        ("two products", |a, b| a.matmul(b)?.gelu()?.matmul(b)),
        ("softmax", |a, b| a.matmul(b)?.softmax(-1)),
        ("log softmax", |a, b| a.matmul(b)?.log_softmax(-1)?.mul(b)),
        ("sum", |a, b| a.mul(b)?.sum()),
        ("mean of squares", |a, b| a.sub(b)?.pow(2)?.mean()),
        ("broadcast", |a, b| a.add(&b.select(0, 0)?)?.mul(&b.select(1, 0)?.unsqueeze(1)?)),
        ("transposes", |a, b| a.t()?.matmul(b)?.t()?.mul(3)),
        ("a part", |a, b| a.narrow(0, 1, 2)?.mul(&b.narrow(1, 0, 2)?.t()?)),
        ("concatenation", |a, b| Tensor::cat(&[a, b, a], 0)?.sigmoid()),
        ("division", |a, b| a.div(&b.pow(2)?.add(1)?)),
        ("largest", |a, b| a.mul(b)?.amax([1])),
        ("written inside", |a, b| {
            let y = a.mul(2)?;
            y.narrow(0, 0, 2)?.mul_(&b.narrow(0, 0, 2)?)?;
            y.exp()
        }),
        ("one of two", |a, b| a.mul(&b.detach()?)),
        ("passed on", |a, b| a.add(b)),
        ("same twice", |a, _| a.mul(a)?.matmul(a)),
    ]
}

#[test]
fn gradients_of_compiled_functions_are_those_of_eager_code() {
    for (name, program) in programs() {
        let f = compile(move |a: &Tensor, b: &Tensor| program(a, b));
        for step in 0..2 {
            let make = |k| (leaf(&[4, 4], 30 + step), leaf(&[4, 4], 40 + step + k));
            let ((a, b), (c, d)) = (make(0), make(0));
            let expected = program(&a, &b).unwrap();
            let got = f.call((&c, &d)).unwrap();
            close(&got, &expected);
            assert_eq!(got.strides(), expected.strides(), "{name}");
            assert_eq!(got.grad_fn().unwrap().name(), "CompiledFunctionBackward", "{name}");
            let weights = random(expected.sizes(), 7);
            expected.mul(&weights).unwrap().sum().unwrap().backward().unwrap();
            got.mul(&weights).unwrap().sum().unwrap().backward().unwrap();
            for (x, y) in [(&a, &c), (&b, &d)] {
                assert_eq!(x.grad().is_some(), y.grad().is_some(), "{name}");
                if let (Some(x), Some(y)) = (x.grad(), y.grad()) {
                    close(&y, &x);
                    assert_eq!(x.strides(), y.strides(), "{name}");
                }
            }
        }
        for e in f.events() {
            assert!(matches!(e, CompileEvent::Compiled { .. }), "{name}: {e}");
        }
        assert_eq!(f.variants(), 1, "{name}");
    }
}

#[test]
fn parameters_that_are_closed_over_get_gradients() {
    let (eager, compiled) = (Mlp::new(), Mlp::new());
    let mine = compiled.clone();
    let f = compile(move |x: &Tensor, y: &Tensor| mine.loss(x, y));
    for step in 0..4 {
        let (x, y) = (random(&[4, 6], 10 + step), random(&[4, 3], 20 + step));
        let a = eager.loss(&x, &y).unwrap();
        let b = f.call((&x, &y)).unwrap();
        close(&b, &a);
        for (m, loss) in [(&eager, a), (&compiled, b)] {
            m.clear().unwrap();
            loss.backward().unwrap();
            m.sgd().unwrap();
        }
        for (p, q) in eager.parameters.iter().zip(&compiled.parameters) {
            close(q, p);
        }
    }
    all_compiled(&f);
    assert_eq!(f.variants(), 1);
    // without a tape it is another variant
    let (x, y) = (random(&[4, 6], 10), random(&[4, 3], 20));
    let loss = no_grad(|| f.call((&x, &y))).unwrap();
    assert!(!loss.requires_grad());
    assert_eq!(f.variants(), 2);
    // and so it is for a parameter that is frozen
    compiled.parameters[0].requires_grad_(false).unwrap();
    compiled.clear().unwrap();
    f.call((&x, &y)).unwrap().backward().unwrap();
    assert!(compiled.parameters[0].grad().is_none() && compiled.parameters[1].grad().is_some());
    assert_eq!(f.variants(), 3);
    let why = f.explain();
    assert!(!why.variants[0].saved.is_empty() && why.variants[1].saved.is_empty());
    assert!(why.to_string().contains("saved for the backward pass"), "{why}");
}

#[test]
fn several_results_and_gradients_that_do_not_arrive() {
    let f = compile(|a: &Tensor, b: &Tensor| {
        let c = a.mul(b)?;
        Ok((c.sin()?, c.argmax(1)?, b.exp()?, c.detach()?))
    });
    let (a, b) = (leaf(&[3, 3], 1), leaf(&[3, 3], 2));
    let (sin, arg, exp, cut) = f.call((&a, &b)).unwrap();
    assert!(sin.requires_grad() && exp.requires_grad());
    assert!(!arg.requires_grad() && !cut.requires_grad());
    // the other results get no gradient
    exp.sum().unwrap().backward().unwrap();
    close(&b.grad().unwrap(), &b.exp().unwrap());
    let zeros = a.grad().unwrap();
    assert!(zeros.to_vec::<f32>().unwrap().iter().all(|x| *x == 0.0));
    all_compiled(&f);
}

#[test]
fn the_tape_treats_a_compiled_node_as_others() {
    let f = compile(|a: &Tensor, b: &Tensor| a.mul(b)?.sin());
    let (a, b) = (leaf(&[3], 1), leaf(&[3], 2));
    // a second pass
    let y = f.call((&a, &b)).unwrap().sum().unwrap();
    y.backward().unwrap();
    let e = y.backward().unwrap_err().to_string();
    assert!(e.contains("second time"), "{e}");
    let y = f.call((&a, &b)).unwrap().sum().unwrap();
    let keep = autograd::GradOptions { retain_graph: Some(true), ..Default::default() };
    let first = autograd::grad_with(&[y.clone()], &[a.clone()], &keep).unwrap();
    let second = autograd::grad(&[y], &[a.clone()]).unwrap();
    assert_eq!(bits(first[0].as_ref().unwrap()), bits(&second[0]));
    // in the middle of a graph
    let w = leaf(&[3], 3);
    let y = f.call((&w.exp().unwrap(), &b)).unwrap().mul(&w).unwrap().sum().unwrap();
    let g = autograd::grad(&[y], &[w.clone()]).unwrap();
    let y = w.exp().unwrap().mul(&b).unwrap().sin().unwrap().mul(&w).unwrap().sum().unwrap();
    close(&g[0], &autograd::grad(&[y], &[w.clone()]).unwrap()[0]);
    // what is saved may not be written
    let y = f.call((&a, &b)).unwrap().sum().unwrap();
    no_grad(|| a.add_(1)).unwrap();
    let e = y.backward().unwrap_err().to_string();
    assert!(e.contains("modified by an inplace operation"), "{e}");
    // twice
    let y = f.call((&a, &b)).unwrap().sum().unwrap();
    let create = autograd::GradOptions { create_graph: true, ..Default::default() };
    let g = autograd::grad_with(&[y], &[a.clone()], &create).unwrap();
    let g = g[0].clone().unwrap();
    assert!(g.requires_grad());
    let e = g.sum().unwrap().backward().unwrap_err().to_string();
    assert!(e.contains("double backward"), "{e}");
    // the same leaf twice
    let c = leaf(&[3], 9);
    f.call((&c, &c)).unwrap().sum().unwrap().backward().unwrap();
    let d = leaf(&[3], 9);
    d.mul(&d).unwrap().sin().unwrap().sum().unwrap().backward().unwrap();
    close(&c.grad().unwrap(), &d.grad().unwrap());
}

#[test]
fn views_and_arguments_as_results_keep_their_history() {
    let f = compile(|a: &Tensor, b: &Tensor| Ok((a.t()?, b.clone(), a.mul(b)?)));
    let (a, b) = (leaf(&[2, 2], 1), leaf(&[2, 2], 2));
    let (t, same, product) = f.call((&a, &b)).unwrap();
    assert!(same.is_same(&b));
    assert!(t.requires_grad() && t.shares_storage_with(&a));
    t.mul(&random(&[2, 2], 3)).unwrap().add(&product).unwrap().sum().unwrap().backward().unwrap();
    let expected = random(&[2, 2], 3).t().unwrap().add(&b).unwrap();
    close(&a.grad().unwrap(), &expected);
    all_compiled(&f);
}

#[test]
fn buffers_are_written_beside_gradients() {
    let program = |x: &Tensor, w: &Tensor, seen: &Tensor| -> Result<Tensor> {
        no_grad(|| seen.mul_(0.9)?.add_(&x.mean()?))?;
        x.add_(1)?;
        x.mul(w)?.tanh()?.mul(&seen.detach()?)
    };
    let (w, v) = (leaf(&[3], 1), leaf(&[3], 1));
    let (s, t) = (random(&[1], 5), random(&[1], 5));
    let mine = t.clone();
    let f = compile(move |x: &Tensor, w: &Tensor| program(x, w, &mine));
    for step in 0..3 {
        let (x, y) = (random(&[3], 20 + step), random(&[3], 20 + step));
        program(&x, &w, &s).unwrap().sum().unwrap().backward().unwrap();
        f.call((&y, &v)).unwrap().sum().unwrap().backward().unwrap();
        close(&y, &x);
        close(&t, &s);
        close(&v.grad().unwrap(), &w.grad().unwrap());
    }
    all_compiled(&f);
}

#[test]
fn results_that_share_memory_run_eagerly_and_say_so() {
    let f = compile(|a: &Tensor| {
        let b = a.mul(2)?;
        Ok((b.narrow(0, 0, 2)?, b))
    });
    let a = leaf(&[3], 1);
    let (part, whole) = f.call(&a).unwrap();
    part.sum().unwrap().add(&whole.sum().unwrap()).unwrap().backward().unwrap();
    assert_eq!(a.grad().unwrap().to_vec::<f32>().unwrap(), [4.0, 4.0, 2.0]);
    assert!(matches!(&f.events()[..], [CompileEvent::EagerFallback { .. }]), "{:?}", f.events());
}

#[test]
fn numbers_that_were_drawn_are_the_same_in_both_halves() {
    let program = |a: &Tensor| -> Result<Tensor> { a.mul(&a.detach()?.rand_like()?)?.dropout(0.5) };
    let f = compile(move |a: &Tensor| program(a));
    let a = leaf(&[64], 1);
    straightline::manual_seed(3);
    let y = f.call(&a).unwrap();
    let g = autograd::grad(&[y.sum().unwrap()], &[a.clone()]).unwrap();
    // linear in `a`
    close(&g[0].mul(&a).unwrap(), &y);
    all_compiled(&f);
}

#[test]
fn a_base_that_wants_gradients_from_now_on_makes_another_variant() {
    let base = Tensor::from_slice(&[1f32, 2.0, 3.0], [3]).unwrap();
    let w = autograd::no_grad(|| base.i(1..)).unwrap().requires_grad_(true).unwrap();
    let mine = w.clone();
    let f = compile(move |x: &Tensor| {
        mine.set_grad(None)?;
        let loss = mine.mul(x)?.sum()?;
        loss.backward()?;
        loss.detach()
    });
    let x = Tensor::from_slice(&[4f32, 5.0], [2]).unwrap();
    f.call(&x).unwrap();
    assert_eq!(w.grad().unwrap().to_vec::<f32>().unwrap(), [4.0, 5.0]);
    base.requires_grad_(true).unwrap();
    let eager = f.eager(&x).map(|t| t.item::<f32>().unwrap()).map_err(|e| e.to_string());
    let of_w = w.grad().map(|g| g.to_vec::<f32>().unwrap());
    let got = f.call(&x).map(|t| t.item::<f32>().unwrap()).map_err(|e| e.to_string());
    assert_eq!(got, eager);
    assert_eq!(w.grad().map(|g| g.to_vec::<f32>().unwrap()), of_w);
}
