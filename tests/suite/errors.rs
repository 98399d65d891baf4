//! What errors say, and their classes.

use straightline::dispatch::{DispatchKey, all_operators, operator};
use straightline::{
    DType, Device, DeviceType, Error, ErrorKind, Graph, Result, Tensor, Traced, compile, tensor,
};

/// PyTorch 2.15's classes of these calls.
#[test]
fn linear_algebra_fails_with_a_kind_of_its_own() -> Result<()> {
    use straightline::ops::aten;
    let singular = Tensor::zeros([2, 2])?;
    let indefinite = tensor([[-1.0, 0.0], [0.0, 1.0]])?;
    let nan = Tensor::full([2, 2], f64::NAN)?;
    type Call = fn(&Tensor) -> Result<Tensor>;
    let calls: [(&Tensor, Call, &str); 14] = [
        (&singular, |a| a.inverse(), "_LinAlgError"),
        (&singular, |a| a.solve(a), "_LinAlgError"),
        (&singular, |a| a.matrix_power(-1), "_LinAlgError"),
        (&singular, |a| aten::cholesky_inverse(a, false), "_LinAlgError"),
        (&singular, |a| Ok(aten::linalg_inv_ex(a, true)?.0), "_LinAlgError"),
        (&indefinite, |a| a.cholesky(), "_LinAlgError"),
        (&indefinite, |a| Ok(aten::linalg_cholesky_ex(a, false, true)?.0), "_LinAlgError"),
        (&nan, |a| Ok(a.svd_with(true)?.1), "_LinAlgError"),
        (&nan, |a| a.svdvals(), "_LinAlgError"),
        (&nan, |a| a.pinv(), "_LinAlgError"),
        (&nan, |a| a.matrix_norm_with(2), "_LinAlgError"),
        (&nan, |a| Ok(a.eig()?.0), "RuntimeError"),
        (&singular, |a| Ok(aten::linalg_lu_factor(a, true)?.0), "RuntimeError"),
        (&singular, |a| Tensor::zeros([2, 3])?.solve(a), "RuntimeError"),
    ];
    for (i, (a, f, class)) in calls.into_iter().enumerate() {
        let eager = f(a).unwrap_err();
        let compiled = compile(f).call(a).unwrap_err();
        for e in [eager, compiled] {
            assert_eq!(e.python_class(), class, "{i}: {e}");
            let own = matches!(e.kind(), ErrorKind::LinAlg(_));
            assert_eq!(own, class == "_LinAlgError", "{i}: {e}");
        }
    }
    Ok(())
}

/// Eager, on the first compiled call, and where a plan runs, each by the line that made it.
#[test]
fn memory_that_runs_out_names_the_operator_and_the_line() -> Result<()> {
    type Call = fn(&Tensor) -> Result<Tensor>;
    let calls: [(&str, u32, Call); 3] = [
        ("aten::zeros", line!(), |_| Tensor::zeros([1i64 << 45])),
        ("aten::arange", line!(), |_| Tensor::arange(1i64 << 45)),
        // the large one is in the midst of the graph
        ("aten::expand", line!(), |x| x.expand([1i64 << 45, 2])?.cumsum(0)?.sum_dim(0)),
    ];
    for (name, line, f) in calls {
        let x = Tensor::ones([2])?;
        let compiled = compile(f);
        let ran = [f(&x), compiled.call(&x), compiled.call(&x)];
        for e in ran.map(|r| r.unwrap_err()) {
            assert!(matches!(e.kind(), ErrorKind::Memory(_)), "{name}: {e}");
            assert!(e.op().is_some_and(|op| op.starts_with("aten::")), "{name}: {e}");
            let at = e.location().unwrap_or_else(|| panic!("{name}: {e}"));
            assert!(at.file().ends_with("errors.rs"), "{name}: {e}");
            assert!((line..line + 3).contains(&at.line()), "{name}: {e}");
        }
    }
    Ok(())
}

/// Operators that are made of others have checks of their own.
#[test]
fn checks_of_methods_name_the_operator_and_the_line() -> Result<()> {
    type Call = fn(&Tensor) -> Result<Tensor>;
    let (empty, deep) = (Tensor::zeros([0])?, Tensor::zeros([2, 2, 2])?);
    let calls: [(&str, u32, &Tensor, Call); 3] = [
        ("aten::quantile.scalar", line!(), &empty, |x| x.quantile(0.5)),
        ("aten::quantile.scalar", line!(), &deep, |x| x.quantile_dim(1.5, 0)),
        ("aten::cov", line!(), &deep, |x| x.cov()),
    ];
    for (name, line, x, f) in calls {
        for e in [f(x), compile(f).call(x)].map(|r| r.unwrap_err()) {
            assert_eq!(e.op(), Some(name), "{e}");
            let at = e.location().expect("a line");
            assert_eq!((at.file(), at.line()), (file!(), line), "{e}");
            assert!(!e.to_string().contains("@meta"), "{e}");
        }
    }
    Ok(())
}

/// A failure that eager code has as well, of shapes or dtypes, is recovered from when captured as
/// it is eagerly.
#[test]
fn recovery_from_what_no_kernel_does_is_captured() -> Result<()> {
    let bytes = tensor([1u8, 2])?;
    type Call = fn(&Tensor) -> Result<Tensor>;
    let calls: [Call; 3] = [
        |x| Ok(x.mean().unwrap_or(x.neg()?)),
        |x| Ok(x.rand_like().unwrap_or(x.add(1)?)),
        |x| x.gt(1)?.argmax(0).or_else(|_| x.argmax(0)),
    ];
    for (i, f) in calls.into_iter().enumerate() {
        let eager = f(&bytes)?;
        let compiled = compile(f);
        for _ in 0..2 {
            let got = compiled.call(&bytes)?;
            assert!(got.equal(&eager)?, "{i}: {got} is not {eager}");
        }
    }
    Ok(())
}

/// What only capture cannot do is refused, whether or not the function goes on after it.
#[test]
fn recovery_from_a_limit_of_capture_is_refused() -> Result<()> {
    use straightline::ops::aten;
    let grown = |x: &Tensor| aten::resize_(x, &[8], None).or_else(|_| x.neg());
    let twice = compile(move |x: &Tensor, _: &Tensor| grown(x));
    let x = Tensor::ones([4])?;
    let e = twice.call((&x, &x)).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
    assert!(e.to_string().contains("cannot be captured"), "{e}");
    Ok(())
}

/// Shapes are worked out on Meta tensors, which are nobody's operands.
#[test]
fn errors_of_captured_calls_show_operands_where_they_are() -> Result<()> {
    let (a, b) = (Tensor::ones([2, 3])?, Tensor::ones([2, 3])?);
    type Call = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let calls: [Call; 4] = [
        |a, b| a.matmul(b),
        |a, b| Tensor::einsum("ij,jk->ik", [a, b]),
        |a, b| a.linear(b.t()?, None),
        |a, _| a.to_dtype(DType::U8)?.mean(),
    ];
    for f in calls {
        let e = compile(f).call((&a, &b)).unwrap_err();
        assert!(e.op().is_some() && !e.operands().is_empty(), "{e}");
        assert!(e.operands().iter().all(|o| o.device.is_cpu()), "{e}");
    }
    Ok(())
}

/// Calls that go by a handle and not by a wrapper of `aten`.
#[test]
fn calls_by_handle_name_the_operator_and_the_line() -> Result<()> {
    let op = operator("aten::matmul")?;
    let (a, b) = (Tensor::ones([2, 3])?, Tensor::ones([2, 3])?);
    let mut stack = vec![a.clone().into(), b.clone().into()];
    let line = line!() + 1;
    let e = op.call_boxed(&mut stack).unwrap_err();
    assert_eq!(e.location().map(|at| at.line()), Some(line), "{e}");
    assert!(e.op().is_some(), "{e}");
    let typed = op.typed::<(&Tensor, &Tensor), Tensor>()?;
    let line = line!() + 1;
    let e = typed.call((&a, &b)).unwrap_err();
    assert_eq!(e.location().map(|at| at.line()), Some(line), "{e}");
    assert!(e.op().is_some(), "{e}");
    Ok(())
}

/// PyTorch names the operator that was called.
#[test]
fn an_extreme_of_nothing_says_whose_it_is() -> Result<()> {
    let none = Tensor::zeros([0, 2])?;
    let said = none.max_dim(0).unwrap_err().to_string();
    assert!(said.contains("max(): Expected reduction dim 0"), "{said}");
    let said = none.argmin(0).unwrap_err().to_string();
    assert!(said.contains("argmin(): Expected reduction dim 0"), "{said}");
    Ok(())
}

/// Alone: other tests register kernels for this backend.
#[test]
fn a_missing_backend_is_told_in_three_lines() {
    super::support::alone("errors::a_missing_backend_is_told_in_three_lines", || {
        struct Handle;
        let device = Device::new(DeviceType::Cuda);
        let x = Tensor::opaque(Handle, &[2], straightline::DType::F32, device).build();
        let e: Error = x.unwrap().relu().unwrap_err();
        let said = e.to_string();
        assert_eq!(e.python_class(), "NotImplementedError");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert!(lines[0].contains("This build has no CUDA"), "{said}");
        assert!(lines[1].contains("only available for these backends: [CPU"), "{said}");
        assert!(lines[2].contains("dump_table"), "{said}");
    });
}

#[test]
fn default_overloads_have_their_short_names() -> Result<()> {
    // an operator whose overloads have names all of them is called by the base name of PyTorch's
    // first one
    for (short, full) in [
        ("aten::add", "aten::add.Tensor"),
        ("aten::slice", "aten::slice.Tensor"),
        ("aten::mul", "aten::mul.Tensor"),
        ("aten::sum", "aten::sum"),
        ("aten::relu", "aten::relu"),
        ("aten::transpose", "aten::transpose.int"),
        ("aten::select", "aten::select.int"),
    ] {
        assert_eq!(operator(short)?.name().to_string(), full, "{short}");
    }
    assert!(operator("aten::no_such_operator").is_err());
    let relu = all_operators().into_iter().find(|op| op.name().to_string() == "aten::relu");
    assert!(relu.is_some_and(|op| op.has_kernel(DispatchKey::CPU)));
    Ok(())
}

#[test]
fn graphs_are_of_this_crate() -> Result<()> {
    let f = compile(|x: &Tensor| x.relu());
    let traced = f.trace(&tensor([1.0])?)?;
    let graph: &Graph = traced.graph();
    let again = Graph::parse(&graph.to_string()).expect("its text parses");
    assert_eq!(again.call_count(), 1);
    Ok(())
}

/// What capture takes apart is one operator in eager code, and so it is in its errors.
#[test]
fn captured_calls_fail_under_the_name_that_eager_ones_have() -> Result<()> {
    use straightline::ops::aten;
    type Call = fn(&Tensor) -> Result<Tensor>;
    let numbers = || tensor([[1i64, 2], [3, 4]]);
    let expanded = || tensor([[1f32, 2.0]])?.expand([3, 2]);
    let of_numbers: [Call; 7] = [
        |x| aten::normal_(x, 0.0, 1.0, None),
        |x| aten::uniform_(x, 0.0, 1.0, None),
        |x| x.rand_like(),
        |x| x.randn_like(),
        |x| x.dropout(0.5),
        |x| {
            let (mean, var) = (tensor([0f32, 0.0])?, tensor([1f32, 1.0])?);
            x.batch_norm(&mean, &var)
        },
        |x| aten::log_normal_(x, 1.0, 2.0, None),
    ];
    let of_expanded: [Call; 4] = [
        |x| aten::normal_(x, 0.0, 1.0, None),
        |x| aten::uniform_(x, 0.0, 1.0, None),
        |x| aten::bernoulli_float_(x, 0.5, None),
        |x| aten::exponential_(x, 1.0, None),
    ];
    let calls = of_numbers.into_iter().map(|f| (f, numbers()));
    let calls = calls.chain(of_expanded.into_iter().map(|f| (f, expanded())));
    for (i, (f, x)) in calls.enumerate() {
        let x = x?;
        let (Err(eager), Err(compiled)) = (f(&x), compile(f).call(&x)) else {
            panic!("call {i} does not fail both ways");
        };
        assert_eq!(eager.op(), compiled.op(), "{i}: {eager}; {compiled}");
        assert_eq!(eager.operands(), compiled.operands(), "{i}: {eager}; {compiled}");
        assert_eq!(eager.python_class(), compiled.python_class(), "{i}: {eager}; {compiled}");
    }
    Ok(())
}

/// A dtype that an operator refuses is refused in capture too, and not because its result depends
/// on data.
#[test]
fn a_refused_dtype_is_no_question_of_data() -> Result<()> {
    use straightline::ops::aten;
    type Call = fn(&Tensor) -> Result<Tensor>;
    let c = aten::complex(&tensor([1f32, 2.0])?, &tensor([3f32, 4.0])?)?;
    let x = tensor([1f32, 2.0])?;
    let calls: [(&Tensor, Call); 5] = [
        (&x, |x| aten::bincount(x, None, 0)),
        (&c, |x| Ok(aten::_unique2(x, true, false, false)?.0)),
        (&c, |x| Ok(aten::unique_dim(x, 0, true, false, false)?.0)),
        (&c, |x| Ok(aten::unique_consecutive(x, false, false, None)?.0)),
        (&c, |x| Ok(aten::_unique(x, true, false)?.0)),
    ];
    for (i, (x, f)) in calls.into_iter().enumerate() {
        for e in [f(x).unwrap_err(), compile(f).call(x).unwrap_err()] {
            assert!(matches!(e.kind(), ErrorKind::NotImplemented(_)), "{i}: {e}");
        }
    }
    Ok(())
}

#[test]
fn a_panic_in_a_kernel_is_an_error_of_its_kind() -> Result<()> {
    use straightline::dispatch::custom_op;
    let mut op = custom_op("panics::sometimes", |x: &Tensor| {
        assert!(x.to_vec::<f32>()?[0] >= 0.0, "it is negative");
        x.copied()
    })
    .args(["x"])
    .register()?;
    op.register_fake(|x: &Tensor| x.empty_like())?;
    let h = op.handle().typed::<(&Tensor,), Tensor>()?;
    let f = compile(move |x: &Tensor| h.call((x,))?.mul(2));
    assert_eq!(f.call(&tensor([1f32])?)?.to_vec::<f32>()?, [2.0]);
    let e = f.call(&tensor([-1f32])?).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Panic(text) if text == "it is negative"), "{e}");
    assert_eq!(e.op(), Some("panics::sometimes"));
    assert_eq!(f.call(&tensor([1f32])?)?.to_vec::<f32>()?, [2.0]);
    Ok(())
}

/// Eager code may know in what order a kernel of one's own reads and writes; capture does not.
#[test]
fn an_operator_that_writes_over_what_it_reads_is_refused_by_name() -> Result<()> {
    use straightline::CompileOptions;
    use straightline::dispatch::custom_op;
    let mut op = custom_op("errors_overlap::write", |x: &Tensor, y: &Tensor| {
        x.copy_(&y.mul(3)?)?;
        Ok(())
    })
    .args(["x", "y"])
    .mutates_args(["x"])
    .register()?;
    op.register_fake(|_: &Tensor, _: &Tensor| Ok(()))?;
    let h = op.handle().typed::<(&Tensor, &Tensor), ()>()?;
    let f = move |x: &Tensor| {
        h.call((&x.narrow(0, 1, 2)?, &x.narrow(0, 0, 2)?))?;
        x.sum()
    };
    let x = || tensor([1f32, 2.0, 3.0]);
    let e = compile(f).call(&x()?).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
    assert_eq!((e.op(), e.operands().len()), (Some("errors_overlap::write"), 2));
    let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
    let f = straightline::compile_with(options, f);
    assert_eq!(f.call(&x()?)?.item::<f32>()?, 10.0);
    Ok(())
}

#[test]
fn an_lstm_without_a_cell_state_is_an_error() -> Result<()> {
    use straightline::ops::aten;
    let x = Tensor::zeros([3, 2, 4])?;
    let (h, none) = (Tensor::zeros([1, 2, 5])?, Tensor::zeros([0, 2, 5])?);
    let weights = [Tensor::zeros([20, 4])?, Tensor::zeros([20, 5])?];
    let run = |c: &Tensor| {
        let (states, weights) = ([h.clone(), c.clone()], weights.clone());
        aten::lstm_input(&x, &states, &weights, false, 1, 0.0, false, false, false)
    };
    assert_eq!(run(&h)?.0.shape(), [3, 2, 5]);
    let e = run(&none).unwrap_err().to_string();
    assert!(e.contains("wants 2 weights and 1 hidden states"), "{e}");
    assert!(e.contains("[0, 2, 5]"), "{e}");
    Ok(())
}

#[test]
fn a_gradient_of_other_steps_than_the_layers_is_an_error() -> Result<()> {
    use straightline::ops::aten;
    let x = Tensor::ones([4, 2, 3])?;
    let (w_ih, w_hh, bias) = (Tensor::ones([20, 3])?, Tensor::ones([20, 5])?, Tensor::ones([20])?);
    let state = Tensor::zeros([1, 2, 5])?;
    // of a network of two layers in both directions: PyTorch says so at each of them
    let (lstm, hidden, layers, bidirectional) = (2, 5, 2, true);
    let (y, h, c, workspace) = aten::mkldnn_rnn_layer(
        &x,
        &w_ih,
        &w_hh,
        &bias,
        &bias,
        &state,
        &state,
        false,
        &[],
        lstm,
        hidden,
        layers,
        true,
        bidirectional,
        false,
        true,
    )?;
    let back = |dy: &Tensor| {
        aten::mkldnn_rnn_layer_backward(
            &x,
            &w_ih,
            &w_hh,
            &bias,
            &bias,
            &state,
            &state,
            &y,
            &h,
            &c,
            Some(dy),
            None,
            None,
            false,
            lstm,
            hidden,
            layers,
            true,
            true,
            bidirectional,
            &[],
            false,
            &workspace,
        )
    };
    assert!(back(&y)?.0.is_some());
    let e = back(&y.narrow(0, 0, 3)?).unwrap_err().to_string();
    assert!(e.contains("3 steps of its gradient for 4 of input"), "{e}");
    Ok(())
}

/// As PyTorch: the type of the quotient is named, not the one that the operands promote to.
#[test]
fn a_quotient_does_not_fit_into_truth_values() -> Result<()> {
    let b = tensor([true, false])?;
    let said = "result type float32 can't be cast to the desired output type bool";
    for e in [
        b.div_(2).unwrap_err(),
        b.div_(&b).unwrap_err(),
        compile(|b: &Tensor| b.div_(2)).call(&b).unwrap_err(),
    ] {
        assert!(e.to_string().contains(said), "{e}");
    }
    Ok(())
}

#[test]
fn a_graph_by_hand_is_compared_with_what_operators_make() {
    let lowered = |body: &str| {
        let text = format!("graph(%x0: f32[4,4]) {{\n{body}\n}}");
        Traced::from_graph(Graph::parse(&text).expect("it parses")).lower()
    };
    for (body, said) in [
        (
            "  %2: f32[4] = aten::select.int(%x0, dim=0, index=0)
  %3: f32[] = aten::zero(%2)
  %5: f32[4,4] = aten::select_scatter(%x0, %3, dim=0, index=0)
  return %5",
            "`aten::zero` makes f32[4], the graph says f32[]",
        ),
        (
            "  %1: i64[4,4] = aten::relu(%x0)\n  return %1",
            "`aten::relu` makes f32[4, 4], the graph says i64[4, 4]",
        ),
        ("  %1: f32[4] = aten::select.int(%x0, dim=0, index=9)\n  return %1", "out of range"),
        (
            "  %1: f32[4,4] = aten::select_scatter(%x0, %x0, dim=0, index=0)\n  return %1",
            "select_scatter",
        ),
    ] {
        let e = lowered(body).expect_err(body);
        assert!(e.to_string().contains(said), "{e}\n{body}");
    }
    let copy = "graph(%x: f32[2,3], %y: f32[3,2,3]) {
  %1: f32[2,3] = aten::copy(%x, %y, non_blocking=false)\n  return %1\n}";
    assert!(Traced::from_graph(Graph::parse(copy).unwrap()).lower().is_err());
    lowered("  %1: f32[4,4] = aten::relu(%x0)\n  return %1").expect("a sound graph");
}
