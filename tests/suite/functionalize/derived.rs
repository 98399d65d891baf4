//! Operators from outside that write and have no functional form, inside compiled functions: eager
//! against compiled.

use straightline::dispatch::{
    CustomOp, DispatchKey as K, Library, all_operators, call_count, custom_op, opcheck,
};
use straightline::{Result, Tensor, TensorTree, compile};

fn numbers(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

fn x() -> Tensor {
    Tensor::from_vec([1f32, 2.0], 2).unwrap()
}

/// Calls the compiled function twice, on copies; the result and the argument are what eager
/// execution gives.
fn agrees(f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static) -> String {
    let (eager_x, first_x, again_x) = (x(), x(), x());
    let eager = f(&eager_x).unwrap();
    let compiled = compile(f);
    for given in [&first_x, &again_x] {
        let out = compiled.call(given).unwrap();
        assert_eq!(numbers(&out), numbers(&eager));
        assert_eq!(numbers(given), numbers(&eager_x));
    }
    compiled.trace(&x()).unwrap().to_string()
}

fn refused<O: TensorTree>(f: impl Fn(&Tensor) -> Result<O> + Send + Sync + 'static) -> String {
    match compile(f).call(&x()) {
        Ok(_) => panic!("should have failed"),
        Err(e) => e.to_string(),
    }
}

/// Writes its argument and gives something else.
fn bump(name: &str) -> CustomOp {
    let mut op = custom_op(name, |x: &Tensor, by: f64| {
        x.add_(by)?;
        x.mul(10.0)
    })
    .args(["x", "by"])
    .mutates_args(["x"])
    .register()
    .unwrap();
    op.register_fake(|x: &Tensor, _by: f64| x.zeros_like()).unwrap();
    op
}

#[test]
fn what_is_written_is_a_result() {
    let op = bump("derived::bump");
    let bump = op.handle().typed::<(&Tensor, f64), Tensor>().unwrap();
    // of a value of the function
    let graph = agrees(move |x| {
        let y = x * 2.0;
        let r = bump.call((&y, 3.0))?;
        Ok(r + y)
    });
    let call = "%1: f32[2], %2: f32[2] = derived::bump_auto_functionalized(%0, by=3.0)";
    assert!(graph.contains(call), "{graph}");
    assert!(!graph.contains("derived::bump("), "{graph}");
    // through a view of an argument
    agrees(move |x| {
        let r = bump.call((&x.select(0, 1)?, 5.0))?;
        Ok(r + x)
    });
    // again and again
    agrees(move |x| {
        for _ in 0..3 {
            bump.call((x, 1.0))?;
        }
        x.copied()
    });
    let report = opcheck(op.handle(), &[x().into(), 1.5.into()]);
    assert!(report.is_success(), "{report}");
}

#[test]
fn a_closed_over_tensor_is_written_at_each_call_and_no_dispatcher_entered() {
    let mut lib = Library::new("derived_state").unwrap();
    let inc = lib.def("inc_(Tensor(a!) x) -> Tensor(a!)").unwrap();
    // what a kernel from outside calls is its own affair; this one calls nothing
    lib.impl_at("inc_", K::CPU, |x: &Tensor| Ok(x.clone())).unwrap();
    lib.impl_at("inc_", K::Meta, |x: &Tensor| Ok(x.clone())).unwrap();
    let quiet = inc.typed::<(&Tensor,), Tensor>().unwrap();
    let f = compile(move |x: &Tensor| {
        let y = x * 2.0;
        quiet.call((&y,))?;
        Ok(y)
    });
    f.call(&x()).unwrap();
    let (given, before) = (x(), call_count());
    let out = f.call(&given).unwrap();
    assert_eq!(call_count(), before);
    assert_eq!(numbers(&out), [2.0, 4.0]);

    let op = bump("derived::state");
    let bump = op.handle().typed::<(&Tensor, f64), Tensor>().unwrap();
    let state = x();
    let held = state.clone();
    let f = compile(move |x: &Tensor| {
        bump.call((&held, 1.0))?;
        Ok(x + &held)
    });
    for call in 1..4 {
        assert_eq!(numbers(&f.call(&x()).unwrap()), [2.0 + call as f32, 4.0 + call as f32]);
    }
    assert_eq!(numbers(&state), [4.0, 5.0]);
}

#[test]
fn lists_options_and_out_arguments() {
    let mut lib = Library::new("derived_kinds").unwrap();
    let each = lib.def("each_(Tensor(a!)[] xs, float by) -> ()").unwrap();
    lib.impl_at("each_", K::CompositeExplicitAutograd, |xs: &[Tensor], by: f64| {
        xs.iter().try_for_each(|x| x.add_(by).map(drop))
    })
    .unwrap();
    let each = each.typed::<(&[Tensor], f64), ()>().unwrap();
    agrees(move |x| {
        let y = x * 2.0;
        each.call((&[x.select(0, 0)?, y.clone()], 2.0))?;
        Ok(x + y)
    });

    let maybe = lib.def("maybe_(Tensor(a!)? x, Tensor y) -> Tensor").unwrap();
    lib.impl_at("maybe_", K::CompositeExplicitAutograd, |x: Option<&Tensor>, y: &Tensor| {
        if let Some(x) = x {
            x.add_(y)?;
        }
        y.add(1.0)
    })
    .unwrap();
    let maybe = maybe.typed::<(Option<&Tensor>, &Tensor), Tensor>().unwrap();
    agrees(move |x| {
        let y = x * 2.0;
        let (a, b) = (maybe.call((Some(&y), x))?, maybe.call((None, x))?);
        Ok(a + b + y)
    });

    let square = lib.def("square.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)").unwrap();
    lib.impl_at("square.out", K::CPU, |x: &Tensor, out: &Tensor| out.copy_(&x.mul(x)?)).unwrap();
    lib.impl_at("square.out", K::Meta, |_x: &Tensor, out: &Tensor| Ok(out.clone())).unwrap();
    let square = square.typed::<(&Tensor, &Tensor), Tensor>().unwrap();
    agrees(move |x| {
        let y = x.zeros_like()?;
        let r = square.call((x, &y))?;
        Ok(r + y)
    });
}

#[test]
fn operands_that_are_one_value_are_two_tensors_to_the_kernel() {
    let mut lib = Library::new("derived_alias").unwrap();
    let two = lib.def("two_(Tensor(a!) x, Tensor y) -> ()").unwrap();
    lib.impl_at("two_", K::CompositeExplicitAutograd, |x: &Tensor, y: &Tensor| {
        x.add_(1)?;
        x.add_(&y.copied()?)?;
        Ok(())
    })
    .unwrap();
    let two = two.typed::<(&Tensor, &Tensor), ()>().unwrap();
    // the graph has one value for both
    agrees(move |x| {
        let (y, z) = (x * 1.0, x * 1.0);
        two.call((&y, &z))?;
        Ok(y + z)
    });
    // in eager execution the kernel reads what it has written
    let error = refused(move |x: &Tensor| {
        let y = x * 1.0;
        two.call((&y, &y))?;
        Ok(y)
    });
    assert!(
        error.contains(
            "`derived_alias::two_` with an argument `x` that it writes and that lies in the memory of argument `y`"
        ),
        "{error}"
    );
}

#[test]
fn what_cannot_be_derived_is_refused_by_name() {
    let mut lib = Library::new("derived_not").unwrap();
    let views = lib.def("views_(Tensor(a!) x, Tensor(b) y) -> Tensor(b)").unwrap();
    lib.impl_at("views_", K::CompositeExplicitAutograd, |x: &Tensor, y: &Tensor| {
        x.add_(1)?;
        y.select(0, 0)
    })
    .unwrap();
    let views = views.typed::<(&Tensor, &Tensor), Tensor>().unwrap();
    let error = refused(move |x: &Tensor| views.call((&(x * 1.0), x)));
    assert!(error.contains("`derived_not::views_` cannot be captured: it writes an argument and returns a view of one"), "{error}");

    let counts = lib.def("counts_(Tensor(a!) x) -> int").unwrap();
    lib.impl_at("counts_", K::CompositeExplicitAutograd, |x: &Tensor| {
        x.add_(1)?;
        Ok(x.numel())
    })
    .unwrap();
    let counts = counts.typed::<(&Tensor,), i64>().unwrap();
    let error = refused(move |x: &Tensor| counts.call((&(x * 1.0),)).and_then(|_| x.add(1.0)));
    assert!(
        error.contains(
            "`derived_not::counts_` cannot be captured: it returns a value that is no tensor"
        ),
        "{error}"
    );
}

#[test]
fn it_goes_with_the_original_and_so_do_plans() {
    let names = || -> Vec<String> {
        let all = all_operators().into_iter().map(|op| op.name().to_string());
        all.filter(|n| n.starts_with("derived_gone::")).collect()
    };
    let op = bump("derived_gone::bump");
    let bump = op.handle().typed::<(&Tensor, f64), Tensor>().unwrap();
    let f = compile(move |x: &Tensor| {
        bump.call((x, 1.0))?;
        Ok(x + 0.0)
    });
    assert_eq!(numbers(&f.call(&x()).unwrap()), [2.0, 3.0]);
    assert_eq!(names(), ["derived_gone::bump", "derived_gone::bump_auto_functionalized"]);
    drop(op);
    assert_eq!(names(), Vec::<String>::new());
    assert!(f.eager(&x()).is_err() && f.call(&x()).is_err());
    // another operator of that name has a form of its own
    let _op = custom_op("derived_gone::bump", |x: &Tensor| x.mul_(7).map(drop))
        .args(["x"])
        .mutates_args(["x"])
        .register()
        .unwrap();
    let bump = _op.handle().typed::<(&Tensor,), ()>().unwrap();
    agrees(move |x| {
        bump.call((x,))?;
        Ok(x + 0.0)
    });
}
