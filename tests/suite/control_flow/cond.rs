//! `cond`.

use super::*;
use crate::support::alone;
use straightline::control_flow::{ControlFlowError, cond, while_loop};
use straightline::{CompileOptions, ErrorKind, Result, compile, compile_with, manual_seed, tensor};

fn positive(x: &Tensor) -> Result<Tensor> {
    x.sum()?.gt(0)
}

fn kind(e: &Error) -> Option<&ControlFlowError> {
    match e.kind() {
        ErrorKind::ControlFlow(e) => Some(e),
        _ => None,
    }
}

/// Compares a function of one tensor, eager and compiled, on operands that take both branches.
#[track_caller]
fn both_ways(
    f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + Clone + 'static,
    given: &[Tensor],
) {
    let compiled = compile(f.clone());
    for x in given {
        let expected = f(x).unwrap();
        let got = compiled.call(x).unwrap();
        close(&got, &expected);
        let (again, calls) = calls(|| compiled.call(x).unwrap());
        assert_eq!(calls, 0);
        close(&again, &expected);
    }
    captured(&compiled, 1);
}

fn signs() -> [Tensor; 2] {
    [tensor([1.0, 2.0, -0.5]).unwrap(), tensor([-1.0, 0.25, -3.0]).unwrap()]
}

#[test]
fn one_variant_serves_both_branches() {
    both_ways(|x| cond(&positive(x)?, |x| x.sin()?.mul(2), |x| x.cos()?.sub(1), x), &signs());
}

#[test]
fn trees_of_operands_and_results() {
    let f = |x: &Tensor, y: &Tensor| {
        let yes = |(x, y): &(Tensor, Tensor)| Ok((x.add(y)?, vec![x.mul(y)?, y.neg()?]));
        let no = |(x, y): &(Tensor, Tensor)| Ok((x.sub(y)?, vec![x.neg()?, x.div(y)?]));
        cond(&positive(x)?, yes, no, (x, y))
    };
    let compiled = compile(f);
    let y = tensor([2.0, 4.0, 8.0]).unwrap();
    for x in signs() {
        let (a, b) = f(&x, &y).unwrap();
        let (c, d) = compiled.call((&x, &y)).unwrap();
        close(&c, &a);
        d.iter().zip(&b).for_each(|(d, b)| close(d, b));
    }
    captured(&compiled, 1);
}

#[test]
fn a_known_predicate_takes_its_branch() {
    let f = compile(|x: &Tensor| cond(x.sizes()[0] > 2, |x| x.sin(), |x| x.cos(), x));
    close(&f.call(&signs()[0]).unwrap(), &signs()[0].sin().unwrap());
    assert!(!f.trace(&signs()[0]).unwrap().graph().to_string().contains("higher_order"));
}

#[test]
fn nested_branches() {
    both_ways(
        |x| {
            let inner = |x: &Tensor| cond(&x.select(0, 0)?.gt(0)?, |x| x.exp(), |x| x.mul(x), x);
            cond(&positive(x)?, |x| inner(x)?.add(1), |x| inner(&x.neg()?)?.mul(3), x)
        },
        &[signs()[0].clone(), signs()[1].clone(), tensor([-1.0, 5.0, 0.0]).unwrap()],
    );
}

#[test]
fn closed_over_tensors_and_intermediates_become_operands() {
    let (w, b) = (
        tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]).unwrap(),
        tensor([0.5]).unwrap(),
    );
    let (v, c) = (w.clone(), b.clone());
    let f = move |x: &Tensor| {
        let h = x.mul(2)?;
        let view = h.narrow(0, 1, 2)?;
        let yes = |x: &Tensor| w.t()?.matmul(x)?.add(&h)?.add(&b)?.narrow(0, 0, 2);
        let yes = |x: &Tensor| yes(x)?.copied();
        let no = |x: &Tensor| view.exp()?.add(&x.narrow(0, 0, 2)?)?.add(&tensor([1.0, 10.0])?);
        cond(&positive(x)?, yes, no, x)
    };
    both_ways(f.clone(), &signs());
    // closed-over tensors are read again at each call
    let compiled = compile(f.clone());
    compiled.call(&signs()[0]).unwrap();
    v.fill_(1.0).unwrap();
    c.fill_(-3.0).unwrap();
    for x in signs() {
        close(&compiled.call(&x).unwrap(), &f(&x).unwrap());
    }
    captured(&compiled, 1);
}

#[test]
fn operands_in_other_layouts() {
    let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
    for given in [
        x.t().unwrap(),
        x.narrow(1, 1, 2).unwrap(),
        x.select(0, 1).unwrap().unsqueeze(0).unwrap().expand([4, 3]).unwrap(),
    ] {
        let f = |x: &Tensor| {
            let y = x.t()?;
            cond(
                &positive(x)?,
                |(x, y): &(Tensor, Tensor)| x.t()?.mul(2)?.add(y),
                |(x, _)| x.t()?.neg(),
                (x, &y),
            )
        };
        let compiled = compile(f);
        for given in [given.clone(), given.neg().unwrap()] {
            close(&compiled.call(&given).unwrap(), &f(&given).unwrap());
        }
    }
}

#[test]
fn dtypes_and_sizes() {
    both_ways(
        |x| cond(&x.sum()?.gt(0)?, |x| x.mul(3), |x| x.abs()?.add(1), x),
        &[tensor([5i64, -2]).unwrap(), tensor([-5i64, 2]).unwrap()],
    );
    // nothing, a number, and truth values
    let empty = straightline::zeros([0, 3]).unwrap();
    both_ways(|x| cond(&x.sum()?.eq(0)?, |x| x.mul(3), |x| x.add(1), x), &[empty]);
    both_ways(
        |x| cond(&x.gt(0)?, |x| x.gt(1), |x| x.lt(-1), x),
        &[tensor(2.0).unwrap(), tensor(-0.5).unwrap()],
    );
    // a predicate with dimensions
    both_ways(
        |x| cond(&x.gt(0)?, |x| x.add(1), |x| x.sub(1), x),
        &[tensor([[2.0]]).unwrap(), tensor([[-2.0]]).unwrap()],
    );
}

#[test]
fn results_that_are_constants() {
    both_ways(
        |x| cond(&positive(x)?, |_| straightline::ones([2]), |_| tensor([3.0, 4.0]), x),
        &signs(),
    );
}

#[test]
fn only_the_branch_that_is_taken_fails() {
    let f = |x: &Tensor, i: &Tensor| {
        cond(
            &positive(x)?,
            |(x, i): &(Tensor, Tensor)| x.index_select(0, i),
            |(x, _)| x.neg(),
            (x, i),
        )
    };
    let compiled = compile(f);
    let [yes, no] = signs();
    let (fine, wrong) = (tensor([0i64, 2, 1]).unwrap(), tensor([0i64, 2, 7]).unwrap());
    close(&compiled.call((&yes, &fine)).unwrap(), &f(&yes, &fine).unwrap());
    close(&compiled.call((&no, &wrong)).unwrap(), &no.neg().unwrap());
    let (eager, replayed) =
        (f(&yes, &wrong).unwrap_err(), compiled.call((&yes, &wrong)).unwrap_err());
    assert_eq!(replayed.op(), eager.op());
    assert_eq!(replayed.location(), eager.location());
    assert_eq!(replayed.kind().to_string(), eager.kind().to_string());
    captured(&compiled, 1);
}

#[test]
fn random_numbers_are_those_of_the_branch() {
    alone("control_flow::cond::random_numbers_are_those_of_the_branch", || {
        let f = |x: &Tensor| {
            let y = cond(
                &positive(x)?,
                |x| straightline::rand([3])?.add(x),
                |x| straightline::randn([3])?.mul(straightline::rand([3])?)?.add(x),
                x,
            )?;
            y.add(straightline::rand([3])?)
        };
        let compiled = compile(f);
        for x in signs().iter().chain(&signs()) {
            manual_seed(3);
            let expected = f(x).unwrap();
            manual_seed(3);
            close(&compiled.call(x).unwrap(), &expected);
            close(&compiled.call(x).unwrap(), &{
                manual_seed(3);
                f(x).unwrap();
                f(x).unwrap()
            });
        }
        captured(&compiled, 1);
    });
}

#[test]
fn in_a_loop_and_around_one() {
    both_ways(
        |x| {
            // collatz steps of each start, together
            let turn = |(n, x): &(Tensor, Tensor)| {
                let x = cond(&n.remainder(2)?.eq(0)?, |x| x.div(2.0), |x| x.mul(3)?.add(1), x)?;
                Ok((n.sub(1)?, x))
            };
            let start = (tensor(5i64)?, x.clone());
            let looped = |x: &Tensor| {
                Ok(while_loop(|(n, _)| n.gt(0), turn, &(start.0.clone(), x.clone()))?.1)
            };
            cond(&positive(x)?, looped, |x| looped(&x.neg()?), x)
        },
        &signs(),
    );
}

#[test]
fn operands_are_not_written() {
    let write = |x: &Tensor| cond(&positive(x)?, |x| x.add_(1)?.mul(2), |x| x.neg(), x);
    let e = write(&signs()[0].copied().unwrap()).unwrap_err();
    assert!(matches!(kind(&e), Some(ControlFlowError::Mutated { at: 0, .. })), "{e}");
    let e = compile(write).call(&signs()[0]).unwrap_err();
    assert!(
        matches!(e.kind(), ErrorKind::NotCaptured { .. }) && text(&e).contains("cond.rs"),
        "{e}"
    );
    // through a view, closed over, an intermediate, its shape
    let w = tensor([1.0, 2.0, 3.0]).unwrap();
    let refused = |e: Result<Tensor>| {
        let e = e.unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
        assert!(text(&e).contains("from outside of a branch or loop"), "{e}");
    };
    let through = |x: &Tensor| {
        x.narrow(0, 0, 1)?.zero_()?;
        x.add(1)
    };
    refused(
        compile(move |x: &Tensor| cond(&positive(x)?, through, |x| x.neg(), x)).call(&signs()[0]),
    );
    let over = move |x: &Tensor| {
        w.mul_(2)?;
        x.add(&w)
    };
    refused(
        compile(move |x: &Tensor| cond(&positive(x)?, &over, |x| x.neg(), x)).call(&signs()[0]),
    );
    let shape = |x: &Tensor| {
        straightline::ops::aten::unsqueeze_(x, 0)?;
        x.add(1)
    };
    refused(
        compile(move |x: &Tensor| cond(&positive(x)?, shape, |x| x.neg(), x)).call(&signs()[0]),
    );
    // what a branch makes it may write
    both_ways(
        |x| {
            let yes = |x: &Tensor| {
                let y = x.copied()?;
                y.narrow(0, 0, 1)?.fill_(7)?;
                y.add_(1)
            };
            cond(&positive(x)?, yes, |x| x.neg()?.mul_(2), x)
        },
        &signs(),
    );
}

#[test]
fn results_are_tensors_of_their_own() {
    let views: [fn(&Tensor) -> Result<Tensor>; 3] =
        [|x| Ok(x.clone()), |x| x.view([3]), |x| x.detach()];
    for view in views {
        let f = move |x: &Tensor| cond(&positive(x)?, view, |x| x.neg(), x);
        for e in [f(&signs()[0]).unwrap_err(), compile(f).call(&signs()[0]).unwrap_err()] {
            assert!(matches!(kind(&e), Some(ControlFlowError::Aliased { at: 0, .. })), "{e}");
            assert!(e.location().is_some_and(|at| at.file().ends_with("cond.rs")), "{e}");
            assert!(
                text(&e).contains("cond: true_fn might be aliasing the input or the output"),
                "{e}"
            );
        }
    }
    let twice = |x: &Tensor| {
        let two = |x: &Tensor| {
            let y = x.sin()?;
            Ok((y.clone(), y.narrow(0, 0, 2)?))
        };
        cond(&positive(x)?, two, |x| Ok((x.neg()?, x.narrow(0, 0, 2)?.neg()?)), x)
    };
    for e in [twice(&signs()[0]).unwrap_err(), compile(twice).call(&signs()[0]).unwrap_err()] {
        assert!(matches!(kind(&e), Some(ControlFlowError::Aliased { at: 1, .. })), "{e}");
    }
}

#[test]
fn branches_that_return_different_things() {
    let dtype = compile(|x: &Tensor| cond(&positive(x)?, |x| x.sin(), |x| x.gt(0), x));
    let e = dtype.call(&signs()[0]).unwrap_err();
    assert!(matches!(kind(&e), Some(ControlFlowError::Metadata { at: 0, .. })), "{e}");
    assert!(
        text(&e).contains("bool[3]") && text(&e).contains("f32[3]") && text(&e).contains("cond.rs"),
        "{e}"
    );
    let sizes = compile(|x: &Tensor| cond(&positive(x)?, |x| x.sin(), |x| x.sum(), x));
    assert!(matches!(
        kind(&sizes.call(&signs()[0]).unwrap_err()),
        Some(ControlFlowError::Metadata { .. })
    ));
    let count = compile(|x: &Tensor| {
        cond(&positive(x)?, |x| Ok(vec![x.sin()?]), |x| Ok(vec![x.sin()?, x.cos()?]), x)
    });
    let e = count.call(&signs()[0]).unwrap_err();
    assert!(matches!(kind(&e), Some(ControlFlowError::Structure { .. })), "{e}");
    let e = cond(&tensor([1.0]).unwrap(), |x| x.sin(), |x| x.cos(), &signs()[0]).unwrap_err();
    assert!(
        text(&e).contains("Expected pred to be bool or single-element tensor, but got f32[1]."),
        "{e}"
    );
    assert!(e.location().unwrap().file().ends_with("cond.rs"));
}

#[test]
fn a_value_stays_in_its_branch() {
    let f = compile(|x: &Tensor| {
        let kept = std::cell::RefCell::new(None);
        let keep = |x: &Tensor| {
            *kept.borrow_mut() = Some(x.exp()?);
            x.sin()
        };
        let y = cond(&positive(x)?, keep, |x| x.cos(), x)?;
        let kept = kept.into_inner().expect("both branches are captured");
        y.add(&kept)
    });
    let e = f.call(&signs()[0]).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
    assert!(text(&e).contains("outside of the branch or loop that computes it"), "{e}");
}

#[test]
fn reading_data_in_a_branch_names_the_line() {
    let f = |x: &Tensor| cond(&positive(x)?, |x| x.mul(x.sum()?.item::<f32>()?), |x| x.neg(), x);
    let e = compile(f).call(&signs()[0]).unwrap_err();
    assert!(
        matches!(e.kind(), ErrorKind::DataDependent { .. }) && text(&e).contains("cond.rs"),
        "{e}"
    );
    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    let fallback = compile_with(options, f);
    for x in signs() {
        close(&fallback.call(&x).unwrap(), &f(&x).unwrap());
    }
    assert!(fallback.events().iter().any(|e| matches!(e, CompileEvent::EagerFallback { .. })));
}

#[test]
fn threads_share_one_plan() {
    let f =
        |x: &Tensor| cond(&positive(x)?, |x| x.sin()?.matmul(x), |x| x.cos()?.add(1)?.matmul(x), x);
    let compiled = std::sync::Arc::new(compile(f));
    let rows = |k: f64| straightline::ones([8, 8]).unwrap().mul(k).unwrap();
    compiled.call(&rows(1.0)).unwrap();
    std::thread::scope(|scope| {
        for k in 0..8 {
            let compiled = compiled.clone();
            scope.spawn(move || {
                for i in 0..50 {
                    let x = rows(f64::from(k * 50 + i) / 10.0 - 20.0);
                    close(&compiled.call(&x).unwrap(), &f(&x).unwrap());
                }
            });
        }
    });
    assert_eq!(compiled.variants(), 1);
}

#[test]
fn the_text_of_its_graph_parses_and_runs() {
    let f = compile(|x: &Tensor| {
        let w = x.mul(2)?;
        cond(
            &positive(x)?,
            |x| x.sin()?.add(&w),
            |x| cond(&x.select(0, 0)?.gt(0)?, |x| x.exp(), |x| x.neg(), x),
            x,
        )
    });
    let traced = f.trace(&signs()[0]).unwrap();
    let text = traced.graph().to_string();
    assert!(
        text.contains("higher_order::cond(") && text.contains("true_fn=graph(%x0: f32[3]"),
        "{text}"
    );
    let read = straightline::Graph::parse(&text).unwrap();
    assert_eq!(read.to_string(), text);
    straightline::Traced::from_graph(read).lower().unwrap().compile().unwrap();
    let loops = traced.lower().unwrap().to_string();
    assert!(
        loops.contains("call ") && loops.contains("true_fn:") && loops.contains("false_fn:"),
        "{loops}"
    );
    f.call(&signs()[0]).unwrap();
    let why = f.explain().to_string();
    assert!(
        why.contains("extern higher_order::cond <- higher_order::cond true_fn[aten::sin"),
        "{why}"
    );
}

#[test]
fn functionalized() {
    let f = |x: &Tensor| {
        let y = cond(&positive(x)?, |x| x.sin()?.mul_(2), |x| x.t()?.copied(), x)?;
        y.add_(1)
    };
    let functional = straightline::functionalize(f);
    for x in signs() {
        close(&functional.call(&x).unwrap(), &f(&x).unwrap());
    }
}

#[test]
fn batches() {
    use straightline::func::{grad, vmap};
    let f = |x: &Tensor| cond(&positive(x)?, |x| x.sin(), |x| x.mul(3), x);
    let rows = Tensor::stack(&signs(), 0).unwrap();
    let expected = Tensor::stack(&signs().each_ref().map(|x| f(x).unwrap()), 0).unwrap();
    close(&vmap(f)(&rows).unwrap(), &expected);
    // the predicate is shared
    let yes = tensor(true).unwrap();
    let shared = |x: &Tensor| cond(&yes, |x| x.sin(), |x| x.mul(3), x);
    close(&vmap(shared)(&rows).unwrap(), &rows.sin().unwrap());
    let total = move |x: &Tensor| f(x)?.sum();
    close(&grad(total)(&signs()[0]).unwrap(), &signs()[0].cos().unwrap());
    close(
        &vmap(grad(total))(&rows).unwrap().select(0, 1).unwrap(),
        &tensor([3.0, 3.0, 3.0]).unwrap(),
    );
    // in a compiled function a batched predicate is a selection; what is left is refused by name
    close(&compile(move |x: &Tensor| vmap(f)(x)).call(&rows).unwrap(), &expected);
    let e = compile(move |x: &Tensor| grad(total)(x)).call(&signs()[0]).unwrap_err();
    assert!(
        matches!(e.kind(), ErrorKind::NotCaptured { .. }) && text(&e).contains("`cond`"),
        "{e}"
    );
}

#[test]
fn places_in_memory_are_guarded_in_a_branch_as_outside() {
    let all = tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let f = |x: &Tensor| {
        let yes = |x: &Tensor| straightline::ops::aten::as_strided(x, &[2], &[1], Some(2))?.mul(2);
        cond(&x.sum()?.gt(0)?, yes, |x| x.narrow(0, 0, 2)?.neg(), x)
    };
    let compiled = compile(f);
    for at in [2, 1, 0] {
        let x = all.narrow(0, at, 4).unwrap();
        close(&compiled.call(&x).unwrap(), &f(&x).unwrap());
    }
    // whether two tensors share memory is asked in a branch as outside
    let shares = compile(|x: &Tensor| {
        let yes = |x: &Tensor| {
            let view = x.narrow(0, 0, 2)?;
            let k = if view.shares_storage_with(x) { 2.0 } else { 3.0 };
            x.mul(k)
        };
        cond(&x.sum()?.gt(0)?, yes, |x| x.neg(), x)
    });
    close(&shares.call(&all).unwrap(), &all.mul(2).unwrap());
}

#[test]
fn a_function_that_leaves_tensors_behind_runs_once() {
    let left = std::sync::Arc::new(std::sync::Mutex::new(Vec::<Tensor>::new()));
    let kept = left.clone();
    let f = move |x: &Tensor| {
        let y = cond(&positive(x)?, |x| x.sin(), |x| x.cos(), x)?;
        kept.lock().unwrap().push(y.clone());
        y.add(1)
    };
    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    let compiled = compile_with(options, f);
    close(&compiled.call(&signs()[1]).unwrap(), &signs()[1].cos().unwrap().add(1).unwrap());
    close(&left.lock().unwrap()[0], &signs()[1].cos().unwrap());
    // what a branch leaves has no value
    let kept = left.clone();
    let f = move |x: &Tensor| {
        let yes = |x: &Tensor| {
            kept.lock().unwrap().push(x.exp()?);
            x.sin()
        };
        cond(&positive(x)?, yes, |x| x.cos(), x)
    };
    let e = compile(f).call(&signs()[0]).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Escaped { lost: Some(_), .. }), "{e}");
}

#[test]
fn a_panic_in_a_branch_ends_the_capture() {
    let f = compile(|x: &Tensor| {
        let yes = |x: &Tensor| {
            assert!(x.sizes()[0] > 3, "too short");
            x.sin()
        };
        cond(&positive(x)?, yes, |x| x.cos(), x)
    });
    let short = signs()[0].clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f.call(&short)));
    assert!(panicked.is_err());
    let long = tensor([1.0, 2.0, 3.0, 4.0]).unwrap();
    close(&f.call(&long).unwrap(), &long.sin().unwrap());
}

#[test]
fn branches_without_results() {
    let f = compile(|x: &Tensor| {
        cond(&positive(x)?, |x| x.sin().map(drop), |_| Ok(()), x)?;
        x.add(1)
    });
    close(&f.call(&signs()[0]).unwrap(), &signs()[0].add(1).unwrap());
    // a check stays
    let f = compile(|x: &Tensor| {
        let checked =
            |x: &Tensor| straightline::ops::aten::_assert_async_msg(&x.sum()?.lt(2)?, "too large");
        cond(&positive(x)?, checked, |_| Ok(()), x)?;
        x.add(1)
    });
    assert!(text(&f.call(&signs()[0]).unwrap_err()).contains("too large"));
    close(&f.call(&signs()[1]).unwrap(), &signs()[1].add(1).unwrap());
}
