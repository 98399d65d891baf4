//! Whole steps: the backward pass is in the function.

use super::*;

fn steps(
    make: impl Fn(Mlp) -> Compiled<(Tensor, Tensor), Tensor>,
    exact: bool,
) -> Compiled<(Tensor, Tensor), Tensor> {
    let (eager, compiled) = (Mlp::new(), Mlp::new());
    let (f, g) = (make(eager.clone()), make(compiled.clone()));
    for step in 0..5 {
        let (x, y) = (random(&[4, 6], 10 + step), random(&[4, 3], 20 + step));
        let a = f.eager(&(x.clone(), y.clone())).unwrap();
        let before = call_count();
        let b = g.call(&(x, y)).unwrap();
        if step > 1 {
            assert_eq!(call_count(), before, "calls in step {step}");
        }
        close(&b, &a);
        assert_eq!(a.requires_grad(), b.requires_grad());
        for (p, q) in eager.parameters.iter().zip(&compiled.parameters) {
            match exact {
                true => assert_eq!(bits(p), bits(q), "step {step}"),
                false => close(q, p),
            }
            assert_eq!(p.grad().is_some(), q.grad().is_some());
            if let (Some(p), Some(q)) = (p.grad(), q.grad()) {
                close(&q, &p);
                assert_eq!(p.strides(), q.strides());
            }
        }
    }
    all_compiled(&g);
    g
}

#[test]
fn a_step_that_clears_gradients_first() {
    let g = steps(
        |m| {
            compile(move |x: &Tensor, y: &Tensor| {
                m.clear()?;
                let loss = m.loss(x, y)?;
                loss.backward()?;
                m.sgd()?;
                loss.detach()
            })
        },
        false,
    );
    assert_eq!(g.variants(), 1);
}

#[test]
fn a_step_that_clears_gradients_last() {
    let g = steps(
        |m| {
            compile(move |x: &Tensor, y: &Tensor| {
                let loss = m.loss(x, y)?;
                loss.backward()?;
                m.sgd()?;
                m.clear()?;
                Ok(loss)
            })
        },
        false,
    );
    assert_eq!(g.variants(), 1);
}

#[test]
fn gradients_that_are_never_cleared_add_up() {
    let g = steps(
        |m| {
            compile(move |x: &Tensor, y: &Tensor| {
                let loss = m.loss(x, y)?;
                loss.backward()?;
                m.sgd()?;
                Ok(loss)
            })
        },
        false,
    );
    // without gradients at first, and with them
    assert_eq!(g.variants(), 2);
}

#[test]
fn a_step_that_asks_for_gradients_and_clips_them() {
    steps(
        |m| {
            compile(move |x: &Tensor, y: &Tensor| {
                let loss = m.loss(x, y)?;
                let grads = autograd::grad(&[loss.clone()], &m.parameters)?;
                no_grad(|| {
                    let mut total = grads[0].pow(2)?.sum()?;
                    for g in &grads[1..] {
                        total = total.add(&g.pow(2)?.sum()?)?;
                    }
                    let scale = total.sqrt()?.add(1e-6)?.reciprocal()?.mul(0.1)?.clamp_max(1.0)?;
                    for (p, g) in m.parameters.iter().zip(&grads) {
                        p.sub_(&g.mul(&scale)?)?;
                    }
                    loss.detach()
                })
            })
        },
        false,
    );
}

#[test]
fn a_step_of_adam() {
    steps(
        |m| {
            let second: Vec<Tensor> = m.state.iter().map(|t| t.copied().unwrap()).collect();
            let count = tensor([0f32]).unwrap();
            compile(move |x: &Tensor, y: &Tensor| {
                m.clear()?;
                let loss = m.loss(x, y)?;
                loss.backward()?;
                no_grad(|| {
                    count.add_(1)?;
                    for ((p, m), v) in m.parameters.iter().zip(&m.state).zip(&second) {
                        let g = p.grad().expect("a gradient");
                        m.mul_(0.9)?.add_(&g.mul(0.1)?)?;
                        v.mul_(0.99)?.add_(&g.mul(&g)?.mul(0.01)?)?;
                        let update = m.div(&v.sqrt()?.add(1e-8)?)?;
                        p.sub_(&update.mul(0.01)?.div(&count)?)?;
                    }
                    loss.detach()
                })
            })
        },
        false,
    );
}

#[test]
fn a_loss_whose_pass_was_made_inside_has_none_left() {
    let w = leaf(&[3], 1);
    let mine = w.clone();
    let f = compile(move |x: &Tensor| {
        let loss = x.mul(&mine)?.pow(2)?.sum()?;
        loss.backward()?;
        Ok(loss)
    });
    let loss = f.call(&random(&[3], 2)).unwrap();
    assert!(loss.requires_grad());
    let e = loss.backward().unwrap_err().to_string();
    assert!(e.contains("second time"), "{e}");
    all_compiled(&f);
}

#[test]
fn gradients_of_arguments_are_delivered() {
    let f = compile(|w: &Tensor, x: &Tensor| {
        w.mul(x)?.sum()?.backward()?;
        Ok(w.grad().expect("a gradient"))
    });
    let (w, x) = (leaf(&[3], 1), random(&[3], 2));
    let g = f.call((&w, &x)).unwrap();
    assert_eq!(bits(&g), bits(&x));
    assert!(g.is_same(&w.grad().unwrap()));
    // another leaf without a gradient is served by the same variant
    let other = leaf(&[3], 5);
    f.call((&other, &x)).unwrap();
    assert_eq!(f.variants(), 1);
    assert_eq!(bits(&other.grad().unwrap()), bits(&x));
    // this one has one now, which is added to
    f.call((&w, &x)).unwrap();
    assert_eq!(bits(&w.grad().unwrap()), bits(&x.mul(2).unwrap()));
    all_compiled(&f);
}

#[test]
fn a_leaf_that_is_written_before_its_gradient_is_an_error_as_in_eager_code() {
    let w = leaf(&[3], 1);
    let mine = w.clone();
    let step = move |x: &Tensor| {
        let loss = x.mul(&mine)?.mul(&mine)?.sum()?;
        no_grad(|| mine.sub_(1))?;
        loss.backward()?;
        loss.detach()
    };
    let before = bits(&w);
    let f = compile(step);
    let e = f.call(&random(&[3], 2)).unwrap_err().to_string();
    assert!(e.contains("modified by an inplace operation"), "{e}");
    assert_eq!(bits(&w), before);
    assert!(w.grad().is_none());
}

#[test]
fn views_are_written_inside_as_in_eager_code() {
    let program = |x: &Tensor, w: &Tensor| -> Result<Vec<Tensor>> {
        let b = x.mul(w)?;
        b.narrow(0, 1, 2)?.mul_(5)?;
        let v = b.narrow(0, 0, 2)?;
        v.mul_(w.narrow(0, 2, 2)?)?;
        let loss = b.pow(2)?.sum()?.add(&v.sum()?)?;
        autograd::grad(&[loss], &[w.clone(), x.clone()])
    };
    let (x, w) = (leaf(&[4], 1), leaf(&[4], 2));
    let expected = program(&x, &w).unwrap();
    let f = compile(move |x: &Tensor, w: &Tensor| program(x, w));
    for _ in 0..2 {
        let got = f.call((&x, &w)).unwrap();
        for (a, b) in got.iter().zip(&expected) {
            close(a, b);
        }
    }
    all_compiled(&f);
}

#[test]
fn hooks_run_when_the_pass_is_captured() {
    let w = leaf(&[3], 1);
    w.register_hook(|g| g.map(|g| g.mul(10)).transpose()).unwrap();
    let mine = w.clone();
    let f = compile(move |x: &Tensor| {
        let y = x.mul(&mine)?;
        y.register_hook(|g| g.map(|g| g.mul(2)).transpose())?;
        autograd::grad(&[y.sum()?], &[mine.clone()])
    });
    let x = random(&[3], 2);
    let expected = x.mul(20).unwrap();
    assert_eq!(bits(&f.call(&x).unwrap()[0]), bits(&expected));
    // another hook makes another variant
    w.register_hook(|g| g.map(|g| g.neg()).transpose()).unwrap();
    assert_eq!(bits(&f.call(&x).unwrap()[0]), bits(&expected.neg().unwrap()));
    assert_eq!(f.variants(), 2);
    all_compiled(&f);
}

#[test]
fn what_cannot_be_compiled_runs_eagerly_and_says_so() {
    // the gradient goes on outside
    let w = leaf(&[3], 1);
    let y = w.mul(2).unwrap();
    let f = compile(|y: &Tensor| {
        y.mul(y)?.sum()?.backward()?;
        y.detach()
    });
    f.call(&y).unwrap();
    let expected = w.detach().unwrap().mul(8).unwrap();
    close(&w.grad().unwrap(), &expected);
    assert!(matches!(&f.events()[..], [CompileEvent::EagerFallback { .. }]), "{:?}", f.events());
    // a buffer becomes part of the tape
    let buffer = random(&[3], 4);
    let (mine, to) = (w.clone(), buffer.clone());
    let f = compile(move |x: &Tensor| to.copy_(&mine.mul(x)?)?.detach());
    f.call(&random(&[3], 5)).unwrap();
    assert!(buffer.requires_grad());
    assert!(matches!(&f.events()[..], [CompileEvent::EagerFallback { .. }]), "{:?}", f.events());
}

#[test]
fn state_that_the_first_step_makes_is_made_once() {
    let run = |compiled: bool| {
        let m = Mlp::new();
        let (mine, state) = (m.clone(), std::sync::Mutex::new(Vec::<Tensor>::new()));
        let options = straightline::CompileOptions { eager_fallback: true, ..Default::default() };
        let f = straightline::compile_with(options, move |x: &Tensor, y: &Tensor| {
            let loss = mine.loss(x, y)?;
            mine.clear()?;
            loss.backward()?;
            no_grad(|| {
                let mut state = state.lock().unwrap();
                let first = state.is_empty();
                for (i, p) in mine.parameters.iter().enumerate() {
                    let g = p.grad().expect("a gradient");
                    match first {
                        true => state.push(g.mul(2)?),
                        false => drop(state[i].mul_(0.9)?.add_(&g)?),
                    }
                    p.sub_(&state[i].mul(0.1)?)?;
                }
                loss.detach()
            })
        });
        for step in 0..4 {
            let given = (random(&[4, 6], 10 + step), random(&[4, 3], 20 + step));
            if compiled { f.call(&given) } else { f.eager(&given) }.unwrap();
        }
        assert_eq!(f.variants(), usize::from(compiled));
        m.parameters
    };
    for (p, q) in run(false).iter().zip(run(true)) {
        close(&q, p);
        close(&q.grad().unwrap(), &p.grad().unwrap());
    }
}

#[test]
fn numbers_are_drawn_as_in_eager_code() {
    let run = |compiled: bool| {
        let w = leaf(&[64], 1);
        let mine = w.clone();
        let f = compile(move |x: &Tensor| {
            mine.set_grad(None)?;
            x.mul(&mine)?.dropout(0.5)?.sum()?.backward()?;
            let g = mine.grad().expect("a gradient");
            no_grad(|| mine.sub_(&g.mul(0.5)?))?;
            Ok(g)
        });
        straightline::manual_seed(5);
        for step in 0..3 {
            let x = random(&[64], 30 + step);
            if compiled { f.call(&x) } else { f.eager(&x) }.unwrap();
        }
        bits(&w)
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn calls_from_several_threads_are_each_a_whole_step() {
    let w = leaf(&[16], 1);
    let mine = w.clone();
    let f = compile(move |x: &Tensor| {
        let grads = autograd::grad(&[x.mul(&mine)?.sum()?], &[mine.clone()])?;
        no_grad(|| mine.sub_(&grads[0]).map(drop))
    });
    let x = Tensor::ones([16]).unwrap();
    let before = w.detach().unwrap().copied().unwrap();
    f.call(&x).unwrap();
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| (0..20).for_each(|_| f.call(&x).unwrap()));
        }
    });
    let expected = before.sub(61.0).unwrap();
    close(&w, &expected);
}

#[test]
fn gradients_that_accumulate_need_two_variants() {
    let (m, twin) = (Mlp::new(), Mlp::new());
    let inside = m.clone();
    let c = compile(move |x: &Tensor, y: &Tensor| {
        let loss = inside.loss(x, y)?;
        loss.backward()?;
        loss.detach()
    });
    for cycle in 0..20 {
        for step in 0..3 {
            let (x, y) = (random(&[4, 6], 10 * cycle + step), random(&[4, 3], 1000 + step));
            let got = c.call(&(x.clone(), y.clone())).unwrap();
            let loss = twin.loss(&x, &y).unwrap();
            loss.backward().unwrap();
            close(&got, &loss);
        }
        for (p, q) in m.parameters.iter().zip(&twin.parameters) {
            close(&p.grad().unwrap(), &q.grad().unwrap());
            p.set_grad(None).unwrap();
            q.set_grad(None).unwrap();
        }
    }
    all_compiled(&c);
    assert_eq!(c.variants(), 2, "one for the first call of a cycle, one for the others");
}

#[test]
fn gradients_that_somebody_holds_are_written_where_they_are() {
    let m = Mlp::new();
    let inside = m.clone();
    let c = compile(move |x: &Tensor, y: &Tensor| {
        let loss = inside.loss(x, y)?;
        loss.backward()?;
        loss.detach()
    });
    let (x, y) = (random(&[4, 6], 1), random(&[4, 3], 2));
    c.call(&(x.clone(), y.clone())).unwrap();
    let held = m.parameters[0].grad().unwrap();
    let once = held.mul(1).unwrap();
    c.call(&(x.clone(), y.clone())).unwrap();
    close(&held, &once.mul(2).unwrap());
    // a new one is not the old one's place
    m.parameters[0].set_grad(Some(&once)).unwrap();
    c.call(&(x.clone(), y.clone())).unwrap();
    close(&held, &m.parameters[0].grad().unwrap());
    assert!(m.parameters[0].grad().unwrap().is_same(&once));
    c.call(&(x, y)).unwrap();
    close(&once, &held.mul(1.5).unwrap());
}

#[test]
fn one_gradient_of_two_parameters_is_no_other_ones() {
    let (a, b) = (leaf(&[3], 1), leaf(&[3], 2));
    let inside = (a.clone(), b.clone());
    let c = compile(move |x: &Tensor| {
        let loss = x.mul(&inside.0)?.add(x.mul(&inside.1)?.mul(2)?)?.sum()?;
        loss.backward()?;
        loss.detach()
    });
    let x = random(&[3], 3);
    for _ in 0..3 {
        c.call(&x).unwrap();
    }
    close(&a.grad().unwrap(), &x.mul(3).unwrap());
    let one = x.mul(0).unwrap();
    a.set_grad(Some(&one)).unwrap();
    b.set_grad(Some(&one)).unwrap();
    c.call(&x).unwrap();
    close(&one, &x.mul(3).unwrap());
    // and halves of one memory
    let both = random(&[6], 4).mul(0).unwrap();
    a.set_grad(Some(&both.narrow(0, 0, 3).unwrap())).unwrap();
    b.set_grad(Some(&both.narrow(0, 3, 3).unwrap())).unwrap();
    c.call(&x).unwrap();
    close(&both.narrow(0, 3, 3).unwrap(), &x.mul(2).unwrap());
    close(&both.narrow(0, 0, 3).unwrap(), &x);
}

#[test]
fn an_optimiser_alone_takes_the_gradients_of_the_call() {
    let m = Mlp::new();
    let inside = m.clone();
    let step = compile(move |scale: &Tensor| {
        for p in &inside.parameters {
            let grad = p.grad().expect("a gradient");
            no_grad(|| p.sub_(grad.mul(scale)?))?;
        }
        scale.mul(1)
    });
    for i in 0..6 {
        let before = m.parameters[1].detach().unwrap().mul(1).unwrap();
        for p in &m.parameters {
            p.set_grad(None).unwrap();
        }
        m.loss(&random(&[4, 6], i), &random(&[4, 3], 7)).unwrap().backward().unwrap();
        step.call(&tensor(0.5).unwrap()).unwrap();
        let want = before.sub(m.parameters[1].grad().unwrap().mul(0.5).unwrap()).unwrap();
        close(&m.parameters[1], &want);
    }
    all_compiled(&step);
    assert_eq!(step.variants(), 1);
}
