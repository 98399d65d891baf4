//! `opcheck`: what it finds wrong, and that the operators of the crate are right.

use super::support::*;
use straightline::dispatch::{
    CheckFailure, DispatchKey as K, Kernel, Library, Value, all_operators, custom_op, opcheck,
};
use straightline::{DType, Scalar, Tensor};

fn failure(name: &str, test: &str, args: &[Value]) -> CheckFailure {
    let report = opcheck(op(name), args);
    match report.failure(test) {
        Some(e) => e.clone(),
        None => panic!("{report}"),
    }
}

fn x() -> Tensor {
    Tensor::from_slice(&[0.5f32, -1.0, 2.0, 3.0, -0.25, 4.0], [2, 3]).unwrap()
}

#[test]
fn lies_are_found_out() {
    let _turn = turn();
    let mut lib = Library::new("word").unwrap();
    let x = x();
    let args: [Value; 1] = [(&x).into()];

    lib.def("writes(Tensor x) -> Tensor").unwrap();
    lib.impl_at("writes", K::CPU, |x: &Tensor| {
        x.mul_(x)?;
        x.add(0.0)
    })
    .unwrap();
    let argument = "x".to_string();
    assert_eq!(
        failure("word::writes", "test_schema", &args),
        CheckFailure::UndeclaredMutation { argument }
    );
    // the sample itself was not touched
    assert_eq!(x.to_vec::<f32>().unwrap()[1], -1.0);

    lib.def("views(Tensor x) -> Tensor").unwrap();
    lib.impl_at("views", K::CPU, |x: &Tensor| x.t()).unwrap();
    let argument = "x".to_string();
    assert_eq!(
        failure("word::views", "test_schema", &args),
        CheckFailure::UndeclaredAlias { output: 0, argument }
    );

    lib.def("twins(Tensor x) -> (Tensor, Tensor)").unwrap();
    lib.impl_at("twins", K::CPU, |x: &Tensor| {
        let y = x.add(1.0)?;
        Ok((y.clone(), y))
    })
    .unwrap();
    assert_eq!(
        failure("word::twins", "test_schema", &args),
        CheckFailure::AliasedOutputs { first: 0, second: 1 }
    );

    lib.def("one_of_two(Tensor x) -> (Tensor, Tensor)").unwrap();
    let leaves_one = Kernel::boxed(|_, _, stack| {
        stack.pop();
        stack.push(Tensor::from_vec([1f32], 1)?.into());
        Ok(())
    });
    lib.impl_at("one_of_two", K::CPU, leaves_one).unwrap();
    assert!(
        matches!(failure("word::one_of_two", "test_schema", &args), CheckFailure::Call(e) if e.contains("should have left (Tensor, Tensor) on the stack and left (Tensor)"))
    );

    lib.def("no_meta(Tensor x) -> Tensor").unwrap();
    lib.impl_at("no_meta", K::CPU, |x: &Tensor| x.add(1.0)).unwrap();
    let report = opcheck(op("word::no_meta"), &args);
    assert!(report.failure("test_schema").is_none());
    assert!(
        matches!(report.failure("test_faketensor"), Some(CheckFailure::Call(e)) if e.contains("there is no Meta kernel"))
    );
    assert!(report.failure("test_aot_dispatch").is_some());
    assert!(report.clone().into_result().is_err());
    assert!(report.to_string().starts_with("opcheck(word::no_meta):\n  test_schema: SUCCESS\n  test_autograd_registration: SUCCESS\n  test_faketensor: the call failed: "), "{report}");

    // a custom operator that returns its input is stopped before opcheck looks
    let _alias = custom_op("word::alias", |x: &Tensor| Ok(x.clone())).register().unwrap();
    assert!(
        matches!(failure("word::alias", "test_schema", &args), CheckFailure::Call(e) if e.contains("may not alias any inputs"))
    );
}

#[test]
fn fake_kernels_that_differ_are_found_out() {
    let _turn = turn();
    let x = x();
    let args: [Value; 1] = [(&x).into()];
    let fake_says = |name: &'static str, fake: fn(&Tensor) -> straightline::Result<Tensor>| {
        let mut f = custom_op(name, |x: &Tensor| x.add(1.0)).register().unwrap();
        f.register_fake(move |x: &Tensor| fake(x)).unwrap();
        let report = opcheck(f.handle(), &args);
        match report.failure("test_faketensor") {
            Some(CheckFailure::FakeMismatch { what, .. }) => what.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fake_says("word::sizes", |x| x.t()?.zeros_like()), "sizes");
    assert_eq!(
        fake_says("word::dtype", |x| Tensor::with((DType::F64, x.device())).empty(x.sizes())),
        "dtype"
    );
    assert_eq!(
        fake_says("word::strides", |x| { Tensor::with(x.device()).empty([3, 2])?.t() }),
        "strides"
    );
}

#[test]
fn arguments_and_defaults() {
    let _turn = turn();
    let x = x();
    let wrong = failure("aten::add.Tensor", "test_schema", &[(&x).into()]);
    assert_eq!(wrong, CheckFailure::Arguments { want: 3, given: 1 });
    // alpha has a default
    let report = opcheck(op("aten::add.Tensor"), &[(&x).into(), (&x).into()]);
    assert!(report.is_success(), "{report}");
    assert_eq!(
        report.to_string(),
        "opcheck(aten::add.Tensor):\n  test_schema: SUCCESS\n  test_autograd_registration: SUCCESS\n  \
         test_faketensor: SUCCESS\n  test_aot_dispatch: SUCCESS\n"
    );
}

/// Every unary and binary operator of ATen on tensors, and others with arguments of their own.
#[test]
fn aten_keeps_its_word() {
    let _turn = turn();
    let x = Tensor::from_slice(&[0.5f32, 0.25, 0.75, 0.125, 0.625, 0.375], [2, 3]).unwrap();
    let y = &x + 0.5;
    let tall = x.t().unwrap();
    let (int, bool) = (
        Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], [2, 3]).unwrap(),
        Tensor::from_slice(&[true, false, true, true, false, false], [2, 3]).unwrap(),
    );
    let ints = |l: &[i64]| Value::IntList(l.to_vec());
    let v = |t: &Tensor| Value::from(t);
    let square = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("add_.Tensor", vec![v(&x), v(&y)]),
        ("clamp", vec![v(&x), 0.25.into(), 0.5.into()]),
        ("mul.Scalar", vec![v(&x), 2.5.into()]),
        ("copy_", vec![v(&x), v(&int)]),
        ("fill_.Scalar", vec![v(&x), 2.5.into()]),
        ("zero_", vec![v(&x)]),
        ("clone", vec![v(&tall)]),
        ("contiguous", vec![v(&tall)]),
        ("t", vec![v(&x)]),
        ("view", vec![v(&x), ints(&[3, 2])]),
        ("reshape", vec![v(&tall), ints(&[6])]),
        ("permute", vec![v(&x), ints(&[1, 0])]),
        ("transpose.int", vec![v(&x), 0i64.into(), 1i64.into()]),
        ("slice.Tensor", vec![v(&x), 1i64.into(), 1i64.into()]),
        ("select.int", vec![v(&x), 0i64.into(), 1i64.into()]),
        ("expand", vec![v(&x), ints(&[4, 2, 3])]),
        ("squeeze", vec![v(&x)]),
        ("unsqueeze", vec![v(&x), 1i64.into()]),
        ("split.Tensor", vec![v(&x), 2i64.into(), 1i64.into()]),
        ("cat", vec![vec![x.clone(), x.clone()].into()]),
        ("stack", vec![vec![x.clone(), x.clone()].into()]),
        ("sum", vec![v(&x)]),
        ("sum.dim_IntList", vec![v(&x), ints(&[1])]),
        ("mean", vec![v(&x)]),
        ("amax", vec![v(&x), ints(&[0])]),
        ("mm", vec![v(&x), v(&tall)]),
        ("matmul", vec![v(&x), v(&tall)]),
        ("addmm", vec![v(&square), v(&x), v(&tall)]),
        ("linear", vec![v(&x), v(&x)]),
        ("softmax.int", vec![v(&x), 1i64.into()]),
        ("relu", vec![v(&x)]),
        ("relu_", vec![v(&x)]),
        ("where.self", vec![v(&bool), v(&x), v(&tall.t().unwrap())]),
        ("tril", vec![v(&x)]),
        ("zeros", vec![ints(&[2, 2])]),
        ("full", vec![ints(&[2, 2]), 1.5.into()]),
        ("arange", vec![Scalar::Int(5).into()]),
        ("rand", vec![ints(&[2, 2])]),
        (
            "gather",
            vec![v(&square), 1i64.into(), v(&Tensor::from_slice(&[0i64, 1], [2, 1]).unwrap())],
        ),
    ];
    let mut names: Vec<String> = cases.iter().map(|(n, _)| format!("aten::{n}")).collect();
    // element-wise operators of one and of two tensors, whatever they are called
    let mut pointwise: Vec<(String, Vec<Value>)> = Vec::new();
    for op in all_operators() {
        let (name, tags) = (op.name().to_string(), op.tags());
        let Some(schema) = op.schema().filter(|_| name.starts_with("aten::")) else {
            continue;
        };
        if !tags.contains(&"pointwise") || names.contains(&name) || name.contains("clamp") {
            continue;
        }
        let required: Vec<String> = (schema.args.iter())
            .filter(|a| a.default.is_none())
            .map(|a| a.ty.to_string())
            .collect();
        let on_bits = name.contains("bitwise");
        // an in-place operator gets another tensor beside the one that it writes: `compile()`
        // refuses to write what it is given twice
        let (t, other) = if on_bits { (v(&int), v(&(&int + 1i64))) } else { (v(&x), v(&y)) };
        let args = match &required.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["Tensor"] => vec![t],
            ["Tensor", "Tensor"] => vec![t, other],
            ["Tensor", "Scalar"] => vec![t, 2i64.into()],
            _ => continue,
        };
        names.push(name.clone());
        pointwise.push((name, args));
    }
    let mut wrong = Vec::new();
    for (name, args) in cases {
        let report = opcheck(op(&format!("aten::{name}")), &args);
        if !report.is_success() {
            wrong.push(report.to_string());
        }
    }
    // PyTorch returns a real tensor itself, though the schema promises a new one; so do we
    pointwise.retain(|(name, _)| name != "aten::conj_physical");
    let mut checked = 0;
    for (name, args) in pointwise {
        let report = opcheck(op(&name), &args);
        // an operator that refuses the sample itself wants other arguments than most
        if matches!(report.failure("test_schema"), Some(CheckFailure::Call(_))) {
            continue;
        }
        checked += 1;
        if !report.is_success() {
            wrong.push(report.to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 60, "{checked}");
}
