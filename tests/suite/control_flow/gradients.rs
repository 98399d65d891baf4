//! Gradients of branches and loops in compiled functions; those against PyTorch are in `torch`.

use super::*;
use crate::support::alone;
use straightline::autograd::grad;
use straightline::control_flow::{cond, map, scan, while_loop};
use straightline::{Result, compile, manual_seed, tensor};

fn leaf(x: &Tensor) -> Tensor {
    x.copied().unwrap().requires_grad_(true).unwrap()
}

fn signs() -> [Tensor; 2] {
    [tensor([1.0, 2.0, -0.5]).unwrap(), tensor([-1.0, 0.25, -3.0]).unwrap()]
}

#[test]
fn closed_over_leaves_and_intermediates_get_gradients() {
    let (w, v) =
        (leaf(&tensor([0.5, -2.0, 1.5]).unwrap()), leaf(&tensor([2.0, 1.0, 1.0]).unwrap()));
    let (w2, v2) = (w.clone(), v.clone());
    let f = move |x: &Tensor| {
        let h = x.mul(&w2)?;
        let yes = |x: &Tensor| x.mul(&h)?.sin()?.add(&v2);
        let no = |x: &Tensor| h.narrow(0, 0, 1)?.exp()?.add(x)?.mul(&w2);
        cond(&x.sum()?.gt(0)?, yes, no, x)?.mul(&h)
    };
    let compiled = compile(f.clone());
    for x in signs() {
        let (a, b) = (leaf(&x), leaf(&x));
        let all = |y: Tensor, x: &Tensor| {
            let weights = tensor([1.0, -2.0, 3.0]).unwrap();
            grad(&[y.mul(&weights).unwrap().sum().unwrap()], &[x.clone(), w.clone()]).unwrap()
        };
        let (expected, got) = (f(&a).unwrap(), compiled.call(&b).unwrap());
        close(&got, &expected);
        all(got, &b).iter().zip(&all(expected, &a)).for_each(|(g, e)| close(g, e));
    }
    captured(&compiled, 1);
    // `.grad` of what it closes over, in one branch only
    compiled.call(&signs()[0]).unwrap().sum().unwrap().backward().unwrap();
    let got = (w.grad().unwrap(), v.grad().unwrap());
    w.set_grad(None).unwrap();
    v.set_grad(None).unwrap();
    f(&signs()[0]).unwrap().sum().unwrap().backward().unwrap();
    close(&got.0, &w.grad().unwrap());
    close(&got.1, &v.grad().unwrap());
}

#[test]
fn a_step_of_training_inside() {
    let w = leaf(&tensor([0.5, -2.0, 1.5]).unwrap());
    let of = |w: Tensor| {
        move |x: &Tensor| {
            let y = cond(&x.sum()?.gt(0)?, |x| x.mul(&w), |x| x.mul(&w)?.tanh(), x)?;
            let loss = y.mul(&y)?.sum()?;
            loss.backward()?;
            loss.detach()
        }
    };
    let v = leaf(&w.detach().unwrap());
    let (eager, compiled) = (of(v.clone()), compile(of(w.clone())));
    for x in signs().iter().chain(&signs()) {
        close(&compiled.call(x).unwrap(), &eager(x).unwrap());
        close(&w.grad().unwrap(), &v.grad().unwrap());
    }
    for e in compiled.events() {
        assert!(matches!(e, CompileEvent::Compiled { .. }), "{e}");
    }
}

#[test]
fn what_was_drawn_is_not_drawn_again() {
    alone("control_flow::gradients::what_was_drawn_is_not_drawn_again", || {
        let f = |x: &Tensor| {
            let yes = |x: &Tensor| x.mul(straightline::rand([3])?)?.sin()?.mul(x);
            let y = cond(&x.sum()?.gt(0)?, yes, |x| x.mul(straightline::randn([3])?)?.exp(), x)?;
            let noisy = |c: &Tensor, x: &Tensor| {
                let c = c.mul(straightline::rand([1])?.sum()?)?.add(x)?;
                Ok((c.clone(), c.mul(x)?))
            };
            let (c, ys) = scan(noisy, &tensor(1.0)?, &y, 0, false)?;
            ys.add(&c)
        };
        let compiled = compile(f);
        for x in signs() {
            let mut all = Vec::new();
            for way in 0..2 {
                let x = leaf(&x);
                manual_seed(9);
                let y = if way == 0 { f(&x) } else { compiled.call(&x) }.unwrap();
                all.push((y.clone(), grad(&[y.sum().unwrap()], &[x]).unwrap().remove(0)));
            }
            close(&all[1].0, &all[0].0);
            close(&all[1].1, &all[0].1);
        }
        captured(&compiled, 1);
    });
}

#[test]
fn gradients_of_gradients_inside() {
    let f = |x: &Tensor| {
        let y = cond(&x.sum()?.gt(0)?, |x| x.sin()?.mul(x), |x| x.exp()?.mul(x), x)?;
        let ys = map(|y, (): &()| y.mul(y)?.mul(y), &y, &())?;
        let first = straightline::autograd::grad_with(
            &[ys.sum()?],
            &[x.clone()],
            &straightline::autograd::GradOptions { create_graph: true, ..Default::default() },
        )?;
        straightline::autograd::grad(
            &[first[0].as_ref().expect("it is used").sum()?],
            &[x.clone()],
        )?[0]
            .detach()
    };
    let compiled = compile(f);
    for x in signs() {
        let (a, b) = (leaf(&x), leaf(&x));
        close(&compiled.call(&b).unwrap(), &f(&a).unwrap());
    }
    captured(&compiled, 1);
}

#[test]
fn loops_without_a_gradient_run_eagerly_and_say_so() {
    let f = |x: &Tensor| while_loop(|x| x.sum()?.lt(10), |x| x.mul(2)?.add(1), x);
    let compiled = compile(f);
    let (a, b) = (leaf(&signs()[0]), leaf(&signs()[0]));
    let (expected, got) = (f(&a).unwrap(), compiled.call(&b).unwrap());
    close(&got, &expected);
    let of = |y: Tensor, x: Tensor| grad(&[y.sum().unwrap()], &[x]).unwrap().remove(0);
    close(&of(got, b), &of(expected, a));
    let says = compiled.events().iter().map(ToString::to_string).collect::<String>();
    assert!(says.contains("`while_loop` has no gradient in compiled code"), "{says}");
    // without gradients it is captured
    let plain = compile(f);
    plain.call(&signs()[0]).unwrap();
    straightline::autograd::no_grad(|| plain.call(&leaf(&signs()[0])).unwrap());
    plain.events().iter().for_each(|e| assert!(matches!(e, CompileEvent::Compiled { .. }), "{e}"));
}

#[test]
fn a_loop_beside_what_has_a_gradient() {
    let f = |x: &Tensor| -> Result<Tensor> {
        let turn = |n: &Tensor| n.mul(2);
        let branch = |x: &Tensor| {
            let n = while_loop(|n| n.lt(10), turn, &x.detach()?.abs()?.sum()?)?;
            x.sin()?.mul(&n)
        };
        cond(&x.sum()?.gt(0)?, branch, |x| x.neg(), x)
    };
    let compiled = compile(f);
    for x in signs() {
        let (a, b) = (leaf(&x), leaf(&x));
        let (expected, got) = (f(&a).unwrap(), compiled.call(&b).unwrap());
        close(&got, &expected);
        let of = |y: Tensor, x: Tensor| grad(&[y.sum().unwrap()], &[x]).unwrap().remove(0);
        close(&of(got, b), &of(expected, a));
    }
    captured(&compiled, 1);
}

/// Compares results and the gradient of their sum, eager and compiled, on both branches.
#[track_caller]
fn same_gradients(f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + Clone + 'static) -> String {
    let compiled = compile(f.clone());
    for x in signs() {
        let (a, b) = (leaf(&x), leaf(&x));
        let (expected, got) = (f(&a).unwrap(), compiled.call(&b).unwrap());
        close(&got, &expected);
        let of = |y: Tensor, x: Tensor| grad(&[y.sum().unwrap()], &[x]).unwrap().remove(0);
        close(&of(got, b), &of(expected, a));
    }
    compiled.events().iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_computed_without_gradients_is_constant() {
    use straightline::autograd::no_grad;
    let events = same_gradients(|x| {
        let yes = |x: &Tensor| {
            let scale = no_grad(|| x.abs()?.amax([0]))?;
            let slope = {
                let y = x.detach()?.requires_grad_(true)?;
                straightline::autograd::grad(&[y.pow(3)?.sum()?], &[y])?.remove(0)
            };
            x.div(&scale)?.mul(&slope)
        };
        let step = |c: &Tensor, x: &Tensor| {
            let c = c.mul(x)?.add(&no_grad(|| c.mul(c)?.sin())?)?;
            Ok((c.clone(), c.exp()?))
        };
        let no = |x: &Tensor| Ok(scan(step, &x.sum()?, x, 0, false)?.1);
        cond(&x.sum()?.gt(0)?, yes, no, x)
    });
    assert!(!events.contains("eager"), "{events}");
}

#[test]
fn a_gradient_of_its_own_or_a_hook_runs_eagerly() {
    use straightline::autograd::{Context, Function};
    struct Round;
    impl Function for Round {
        fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
            Ok(vec![inputs[0].round()?])
        }
        fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
            Ok(grads.to_vec())
        }
    }
    let events = same_gradients(|x| {
        let yes = |x: &Tensor| Ok(Round.apply(&[x.mul(x)?])?.remove(0));
        cond(&x.sum()?.gt(0)?, yes, |x| x.sin(), x)
    });
    assert!(
        events.contains("a function with a gradient of its own in a branch or loop"),
        "{events}"
    );
    let events = same_gradients(|x| {
        let yes = |x: &Tensor| {
            let y = x.mul(x)?;
            y.register_hook(|g| g.map(|g| g.mul(2)).transpose())?;
            y.sin()
        };
        cond(&x.sum()?.gt(0)?, yes, |x| x.sin(), x)
    });
    assert!(events.contains("a hook in a branch or loop"), "{events}");
}

#[test]
fn dropout_and_autocast_in_a_branch() {
    alone("control_flow::gradients::dropout_and_autocast_in_a_branch", || {
        let w = tensor([[0.5, -1.0, 2.0], [1.0, 1.0, -1.0], [0.25, 0.5, 1.0]]).unwrap();
        let f = move |x: &Tensor| {
            let yes =
                |x: &Tensor| straightline::ops::aten::dropout(&w.matmul(x)?, 0.5, true)?.sin();
            cond(&x.sum()?.gt(0)?, yes, |x| w.matmul(x), x)
        };
        let compiled = compile(f.clone());
        for x in signs() {
            let mut all = Vec::new();
            for way in 0..2 {
                let x = leaf(&x);
                manual_seed(4);
                let y = if way == 0 { f(&x) } else { compiled.call(&x) }.unwrap();
                all.push((y.clone(), grad(&[y.sum().unwrap()], &[x]).unwrap().remove(0)));
            }
            close(&all[1].0, &all[0].0);
            close(&all[1].1, &all[0].1);
        }
        println!("{:?}", compiled.events());
    });
}

#[test]
fn backward_in_a_branch_is_refused_and_grad_is_not() {
    let w = leaf(&tensor([0.5, -2.0, 1.5]).unwrap());
    let v = w.clone();
    let f = move |x: &Tensor| {
        let yes = |x: &Tensor| Ok(grad(&[x.mul(&v)?.sin()?.sum()?], &[v.clone()])?.remove(0));
        cond(&x.sum()?.gt(0)?, yes, |x| x.neg(), x)
    };
    let compiled = compile(f.clone());
    for x in signs() {
        close(&compiled.call(&x).unwrap(), &f(&x).unwrap());
    }
    captured(&compiled, 1);
    let backward = compile(move |x: &Tensor| {
        let yes = |x: &Tensor| {
            x.mul(&w)?.sum()?.backward()?;
            x.sin()
        };
        cond(&x.sum()?.gt(0)?, yes, |x| x.neg(), x)
    });
    let e = backward.call(&signs()[0]).unwrap_err();
    assert!(text(&e).contains("inside of a branch or loop"), "{e}");
}

#[test]
fn effects_happen_once() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use straightline::dispatch::{DispatchKey, Library, operator};
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let mut lib = Library::new("t_control_flow").unwrap();
    lib.def_with_tags("twice(Tensor x) -> Tensor", &["effect"]).unwrap();
    lib.impl_at("twice", DispatchKey::CPU, move |x: &Tensor| {
        seen.fetch_add(1, Ordering::Relaxed);
        x.add(x)
    })
    .unwrap();
    lib.impl_at("twice", DispatchKey::Meta, |x: &Tensor| x.add(x)).unwrap();
    let op = operator("t_control_flow::twice").unwrap();
    let op = op.typed::<(&'static Tensor,), Tensor>().unwrap();
    let f = move |x: &Tensor| {
        let yes = |x: &Tensor| x.sin()?.mul(&op.call((&x.detach()?,))?);
        cond(&x.sum()?.gt(0)?, yes, |x| x.neg(), x)
    };
    let compiled = compile(f);
    let x = leaf(&signs()[0]);
    let y = compiled.call(&x).unwrap();
    let calls = count.load(Ordering::Relaxed);
    grad(&[y.sum().unwrap()], &[x]).unwrap();
    assert_eq!((calls, count.load(Ordering::Relaxed)), (1, 1));
    captured(&compiled, 1);
}
