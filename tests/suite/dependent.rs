//! Compiled functions whose sizes depend on data: `nonzero`, `masked_select`, `unique`, a mask as
//! index. Results are those of eager code, whatever the sizes are.

use crate::support::alone;
use straightline::control_flow::cond;
use straightline::ops::aten;
use straightline::testing::Closeness;
use straightline::{
    CompileEvent, CompileOptions, ErrorKind, Result, Tensor, compile, compile_with, dispatch,
    manual_seed, tensor,
};

fn assert_close(a: &Tensor, b: &Tensor) -> Result<()> {
    Closeness::new().rtol(1e-4).atol(1e-5).check(a, b)
}

/// Numbers of which `count` are positive.
fn numbers(n: usize, count: usize) -> Tensor {
    let sign = |i: usize| if (i * 11) % n < count { 1.0 } else { -1.0 };
    let all = (0..n).map(|i| sign(i) * (1.0 + i as f32 / 8.0)).collect::<Vec<_>>();
    Tensor::from_vec(all, -1).unwrap()
}

/// Calls a function eagerly and compiled, for each count of positive numbers in a vector of 13.
fn agrees(f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + Clone + 'static) {
    let compiled = compile(f.clone());
    for count in [5, 0, 13, 1, 6, 7, 2, 5, 0, 1] {
        let x = numbers(13, count);
        let (want, got) = (f(&x).unwrap(), compiled.call(&x).unwrap());
        assert_eq!((want.sizes(), want.dtype()), (got.sizes(), got.dtype()), "{count}");
        assert_close(&want, &got).unwrap();
        let before = dispatch::call_count();
        compiled.call(&x).unwrap();
        assert_eq!(dispatch::call_count(), before, "{count}");
    }
    assert!(compiled.events().iter().all(|e| matches!(e, CompileEvent::Compiled { .. })));
}

#[test]
fn results_have_the_sizes_of_the_call() {
    agrees(|x| x.relu()?.nonzero());
    agrees(|x| x.masked_select(&x.gt(0)?));
    agrees(|x| x.index(&[x.gt(0)?]));
    agrees(|x| x.sign()?.unique());
    agrees(|x| aten::repeat_interleave_tensor(&x.relu()?.to(straightline::DType::I64)?, None));
}

#[test]
fn a_size_is_known_where_nothing_else_of_the_result_is_used() {
    agrees(|x| x.add(x.nonzero()?.sizes()[0]));
    agrees(|x| x.mul(x.masked_select(&x.gt(0)?)?.numel()));
    agrees(|x| {
        let picked = x.masked_select(&x.gt(0)?)?;
        if picked.numel() == 0 { x.sum() } else { picked.log()?.mean() }
    });
    agrees(|x| match x.sign()?.unique()?.numel() {
        1 => x.neg(),
        _ => x.exp(),
    });
}

#[test]
fn calls_that_follow_one_another_have_their_own_sizes() {
    agrees(|x| {
        let mut y = x.copied()?;
        for _ in 0..4 {
            y = y.masked_select(&y.gt(-1.5)?)?.sub(0.4)?;
        }
        Ok(y)
    });
    agrees(|x| {
        let a = x.masked_select(&x.gt(0)?)?;
        let b = a.masked_select(&a.gt(1.5)?)?;
        b.masked_select(&b.gt(2)?)?.exp()?.sum()
    });
}

#[test]
fn what_has_been_written_before_is_seen() {
    agrees(|x| {
        let c = x.copied()?;
        c.index_put_(&[tensor([1, 2])?], &tensor(3.0)?, false)?;
        c.masked_select(&c.gt(0)?)?.mul(2)
    });
    agrees(|x| {
        let c = x.copied()?;
        c.index_fill_(0, &tensor([0, 4])?, 2.0)?;
        c.nonzero()?.add(1)
    });
    agrees(|x| {
        let c = x.copied()?;
        c.masked_fill_(&x.lt(0)?, 0)?.index_add_(0, &tensor([1, 1])?, &tensor([1.0, 2.0])?)?;
        c.index(&[c.gt(0)?])
    });
}

#[test]
fn what_comes_before_and_after_is_compiled() {
    agrees(|x| {
        let hidden = x.unsqueeze(1)?.mul(&x.sin()?)?;
        let rows = hidden.index(&[x.gt(0)?])?;
        rows.exp()?.mul(&x.cos()?)?.sum_dim(&[0])?.add(&hidden.sum()?)
    });
    let f = compile(|x: &Tensor| x.exp()?.masked_select(&x.gt(0)?)?.log()?.mul(2));
    f.call(&numbers(13, 5)).unwrap();
    let why = f.explain();
    assert_eq!(why.variants.len(), 2, "{why}");
    assert_eq!(
        why.variants[0].then.map(|op| op.to_string()).as_deref(),
        Some("aten::masked_select")
    );
    assert_eq!((why.variants[0].kernels(), why.variants[1].kernels()), (1, 1), "{why}");
}

#[test]
fn such_calls_may_follow_one_another() {
    agrees(|x| {
        let positive = x.masked_select(&x.gt(0)?)?;
        let few = positive.mul(0.5)?;
        let large = few.index(&[few.gt(1)?])?;
        large.floor()?.unique()?.add(&few.sum()?)
    });
}

#[test]
fn a_function_may_look_at_the_sizes() {
    agrees(|x| {
        let rest = x.masked_select(&x.gt(0)?)?;
        match rest.numel() {
            0 => x.neg(),
            n if n % 2 == 0 => rest.reshape([2, -1])?.sum_dim(&[0]),
            n => rest.div(n)?.sub(&x.mean()?),
        }
    });
}

#[test]
fn many_sizes_share_code() {
    let f = compile(|x: &Tensor| x.masked_select(&x.gt(0)?)?.exp()?.mul(3));
    for n in [50, 80] {
        for count in 1..n {
            let x = numbers(n, count);
            f.call(&x).unwrap();
        }
    }
    assert!(f.variants() > 100);
    assert!(f.codes() <= 10, "{}", f.codes());
}

#[test]
fn the_limit_on_variants_holds_for_each_rest() {
    let options = CompileOptions { max_sizes: 3, ..CompileOptions::default() };
    let f = compile_with(options, |x: &Tensor| x.masked_select(&x.gt(0)?)?.exp());
    for count in 2..12 {
        let x = numbers(13, count);
        assert_close(
            &x.masked_select(&x.gt(0).unwrap()).unwrap().exp().unwrap(),
            &f.call(&x).unwrap(),
        )
        .unwrap();
    }
    let limited = |e: &CompileEvent| matches!(e, CompileEvent::VariantLimit { limit: 3, .. });
    assert!(f.events().iter().any(limited));
}

#[test]
fn draws_are_those_of_eager_code() {
    alone("dependent::draws_are_those_of_eager_code", draw_alike);
}

fn draw_alike() {
    let f = |x: &Tensor| {
        let noise = x.rand_like()?;
        let some = x.masked_select(&noise.gt(0.4)?)?;
        some.add(&some.rand_like()?)?.sum()?.add(&noise.sum()?)
    };
    for max_sizes in [0, 1024] {
        let options = CompileOptions { max_sizes, max_variants: 3, ..CompileOptions::default() };
        let compiled = compile_with(options, f);
        let x = numbers(9, 9);
        for seed in 0..12 {
            manual_seed(seed);
            let want = (f(&x).unwrap(), x.rand_like().unwrap());
            manual_seed(seed);
            let got = (compiled.call(&x).unwrap(), x.rand_like().unwrap());
            assert_close(&want.0, &got.0).unwrap();
            assert_close(&want.1, &got.1).unwrap();
        }
    }
}

#[test]
fn gradients_flow_through_them() {
    let f = |x: &Tensor| {
        let h = x.mul(x)?;
        h.masked_select(&x.gt(0)?)?.exp()?.mul(&h.sum()?)?.sum()
    };
    let compiled = compile(f);
    for count in [3, 4, 1, 0, 3] {
        let grad = |f: &dyn Fn(&Tensor) -> Result<Tensor>| {
            let x = numbers(7, count).div(4).unwrap().requires_grad_(true).unwrap();
            f(&x).unwrap().backward().unwrap();
            x.grad().unwrap()
        };
        assert_close(&grad(&f), &grad(&|x| compiled.call(x))).unwrap();
    }
    assert!(compiled.events().iter().all(|e| matches!(e, CompileEvent::Compiled { .. })));
}

#[test]
fn a_function_may_run_the_backward_pass_itself() {
    let weight = || tensor([0.5f32, -1.0, 2.0]).unwrap().requires_grad_(true).unwrap();
    let step = |w: &Tensor, x: &Tensor| {
        let loss = x.masked_select(&x.gt(0)?)?.unsqueeze(1)?.mul(w)?.exp()?.mean()?;
        loss.backward()?;
        loss.detach()
    };
    let (eager, mine) = (weight(), weight());
    let of = mine.clone();
    let compiled = compile(move |x: &Tensor| step(&of, x));
    for count in [3, 4, 3, 5] {
        let x = numbers(7, count);
        let want = step(&eager, &x).unwrap();
        assert_close(&want, &compiled.call(&x).unwrap()).unwrap();
        assert_close(&eager.grad().unwrap(), &mine.grad().unwrap()).unwrap();
    }
}

#[test]
fn arguments_and_state_are_written() {
    let state = Tensor::zeros([2]).unwrap();
    let mine = state.clone();
    let compiled = compile(move |x: &Tensor| {
        let places = x.gt(0)?.nonzero()?;
        mine.add_(&places.sum()?)?;
        x.index_put_(&[Some(x.gt(0)?)], &tensor(0f32)?, false)?;
        x.add_(1)?;
        places.numel();
        places.sum()
    });
    let mut all = 0;
    for count in [3, 5, 3, 0] {
        let x = numbers(7, count);
        let want = x.gt(0).unwrap().nonzero().unwrap().sum().unwrap().item::<i64>().unwrap();
        let after: Vec<f32> = x.to_vec::<f32>().unwrap().iter().map(|v| v.min(0.0) + 1.0).collect();
        assert_eq!(compiled.call(&x).unwrap().item::<i64>().unwrap(), want);
        assert_eq!(x.to_vec::<f32>().unwrap(), after);
        all += want;
        assert_eq!(state.to_vec::<f32>().unwrap(), [all as f32; 2]);
    }
}

#[test]
fn sizes_decide_what_is_written_and_reshaped() {
    let f = |(x, y): &(Tensor, Tensor)| {
        let places = x.gt(0)?.nonzero()?;
        match places.size(0)? {
            0..3 => {}
            3 => drop(x.add_(1)?),
            4 => drop(aten::t_(y)?),
            _ => drop((x.mul_(2)?, aten::unsqueeze_(y, 0)?)),
        }
        places.sum()?.add(y.size(0)?)
    };
    let compiled = compile(f);
    for count in [1, 3, 4, 5, 3, 1, 6, 4, 0] {
        let given = || (numbers(7, count), Tensor::ones([3, 2]).unwrap());
        let ((x, y), (mine, my_y)) = (given(), given());
        let want = f(&(x.clone(), y.clone())).unwrap();
        let got = compiled.call(&(mine.clone(), my_y.clone())).unwrap();
        assert_close(&got, &want).unwrap();
        assert_close(&mine, &x).unwrap();
        assert_eq!((my_y.sizes(), my_y.strides()), (y.sizes(), y.strides()), "{count}");
    }
    assert!(compiled.events().iter().all(|e| matches!(e, CompileEvent::Compiled { .. })));
}

#[test]
fn an_error_of_the_rest_is_that_of_eager_code() {
    let f = |x: &Tensor| x.masked_select(&x.gt(0)?)?.reshape([2, -1]);
    let compiled = compile(f);
    for count in [4, 3, 6, 5] {
        let x = numbers(7, count);
        match (f(&x), compiled.call(&x)) {
            (Ok(want), Ok(got)) => assert_close(&got, &want).unwrap(),
            (Err(want), Err(got)) => assert_eq!(want.to_string(), got.to_string()),
            (want, got) => panic!("{want:?} and {got:?}"),
        }
    }
    // of the call itself
    let f = compile(|x: &Tensor, m: &Tensor| x.index(&[m.clone()]));
    let e = f.call((&numbers(4, 2), &tensor([true, false, true]).unwrap())).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Index(_)), "{e}");
    assert!(e.location().is_some_and(|at| at.file().ends_with("dependent.rs")), "{e}");
}

#[test]
fn calls_on_several_threads_have_their_own_sizes() {
    let f = compile(|x: &Tensor| x.exp()?.masked_select(&x.gt(0)?)?.log());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let f = f.clone();
            scope.spawn(move || {
                for i in 0..60 {
                    let x = numbers(13, (i * (thread + 1)) % 13);
                    let want = x.masked_select(&x.gt(0).unwrap()).unwrap();
                    assert_close(&want, &f.call(&x).unwrap()).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_branch_refuses_them() {
    let f = compile(|x: &Tensor| {
        cond(&x.sum()?.gt(0)?, |x: &Tensor| x.nonzero()?.sum(), |x: &Tensor| x.nonzero()?.sum(), x)
    });
    let e = f.call(&numbers(4, 2)).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
    assert!(e.to_string().contains("before the branch or loop"), "{e}");
    assert!(e.location().is_some_and(|at| at.file().ends_with("dependent.rs")), "{e}");
}

#[test]
fn a_trace_has_the_sizes_of_its_inputs() {
    let f = compile(|x: &Tensor| x.relu()?.nonzero());
    let text = f.trace(&numbers(7, 3)).unwrap().to_string();
    assert!(text.contains("i64[3,1]"), "{text}");
}

#[test]
fn marked_dimensions_do_not_matter() {
    let f = compile(|x: &Tensor| x.exp()?.masked_select(&x.gt(0)?)?.log());
    for n in [9, 13, 7] {
        let x = numbers(n, 4);
        straightline::mark_dynamic(&x, 0).unwrap();
        let want = x.masked_select(&x.gt(0).unwrap()).unwrap();
        assert_close(&want, &f.call(&x).unwrap()).unwrap();
    }
}

#[test]
fn there_may_be_as_many_results_as_elements() {
    let f = compile(|x: &Tensor| x.masked_select(&x.gt(0)?)?.unbind(0));
    for count in [3, 0, 5, 3] {
        let x = numbers(13, count);
        let got = f.call(&x).unwrap();
        assert_eq!(got.len(), count);
        let want = x.masked_select(&x.gt(0).unwrap()).unwrap();
        for (i, t) in got.iter().enumerate() {
            assert_close(&want.select(0, i as i64).unwrap(), t).unwrap();
        }
    }
}

#[test]
fn what_a_call_returns_is_its_own() {
    // the argument itself, a view of it, and the results twice
    let f = compile(|x: &Tensor| {
        let some = x.masked_select(&x.gt(0)?)?;
        Ok((x.clone(), x.narrow(0, 1, 2)?, some.clone(), some.narrow(0, 0, 1)?, x.nonzero()?))
    });
    for count in [3, 4] {
        let x = numbers(13, count);
        let (same, view, some, first, places) = f.call(&x).unwrap();
        assert!(same.is_same(&x) && view.shares_storage_with(&x));
        assert!(first.shares_storage_with(&some) && !some.shares_storage_with(&x));
        some.fill_(7).unwrap();
        assert_eq!(first.to_vec::<f32>().unwrap(), [7.0]);
        assert_eq!(places.sizes(), [13, 1]);
        let (.., again, _, _) = f.call(&x).unwrap();
        assert!(!again.shares_storage_with(&some));
    }
}

#[test]
fn a_mask_may_be_closed_over_and_change() {
    let mask = tensor([true, false, true]).unwrap();
    let of = mask.clone();
    let f = compile(move |x: &Tensor| x.index(&[of.clone()])?.mul(2));
    let x = tensor([1f32, 2.0, 3.0]).unwrap();
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [2.0, 6.0]);
    mask.fill_(true).unwrap();
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    mask.fill_(false).unwrap();
    assert_eq!(f.call(&x).unwrap().sizes(), [0]);
}

#[test]
fn a_rest_that_cannot_be_captured_may_run_eagerly() {
    let read = |x: &Tensor| {
        let some = x.masked_select(&x.gt(0)?)?;
        // read for one size alone
        if some.numel() == 2 && some.sum()?.item::<f32>()? > 0.0 { x.neg() } else { some.exp() }
    };
    let f = compile(read);
    f.call(&numbers(13, 3)).unwrap();
    let e = f.call(&numbers(13, 2)).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::DataDependent { .. }), "{e}");
    assert!(e.location().is_some_and(|at| at.file().ends_with("dependent.rs")), "{e}");
    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    let f = compile_with(options, read);
    for count in [3, 2, 4, 2] {
        let x = numbers(13, count);
        assert_close(&read(&x).unwrap(), &f.call(&x).unwrap()).unwrap();
    }
}

#[test]
fn functions_within_functions() {
    let inner = compile(|x: &Tensor| x.masked_select(&x.gt(0)?)?.exp());
    let of = inner.clone();
    let outer = compile(move |x: &Tensor| of.call(&x.mul(2)?)?.sum());
    for count in [3, 2, 3] {
        let x = numbers(13, count).div(10).unwrap();
        let want = inner.call(&x.mul(2).unwrap()).unwrap().sum().unwrap();
        assert_close(&want, &outer.call(&x).unwrap()).unwrap();
    }
}
