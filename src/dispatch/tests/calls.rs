//! Calls: which keys count, boxed and unboxed, redispatch, errors and the trace.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use straightline_catalog::key::DispatchKey as K;

type Unary = (&'static Tensor,);

fn add_like(a: &Tensor, b: &Tensor, alpha: Scalar) -> crate::Result<Tensor> {
    Ok(if alpha.as_bool() { a } else { b }.clone())
}

fn keys_seen(keys: DispatchKeySet, _x: &Tensor) -> crate::Result<i64> {
    Ok(keys.raw() as i64)
}

#[test]
fn functions_and_closures_are_kernels() {
    let mut lib = Library::new("t_calls").unwrap();
    let op = lib.def("f(Tensor a, Tensor b, *, Scalar alpha=1) -> Tensor").unwrap();
    lib.impl_at("f", K::CPU, add_like).unwrap();
    let typed = op.typed::<(&'static Tensor, &'static Tensor, Scalar), Tensor>().unwrap();
    let (a, b) = (cpu(), cpu());
    assert!(typed.call((&a, &b, Scalar::Int(1))).unwrap().is_same(&a));
    assert!(typed.call((&a, &b, Scalar::Int(0))).unwrap().is_same(&b));
    // boxed, with the scalar as the kind it is
    let mut stack: Stack = vec![Value::Int(7), (&a).into(), (&b).into(), Value::Double(0.0)];
    op.call_boxed(&mut stack).unwrap();
    assert!(matches!(&stack[..], [Value::Int(7), Value::Tensor(t)] if t.is_same(&b)));

    let counter = Arc::new(AtomicI64::new(0));
    let seen = counter.clone();
    lib.def("g(Tensor? x, Tensor[] l, Tensor?[] o, int[] n, str s, float? y, bool b) -> (Tensor[], float)")
        .unwrap();
    lib.impl_at(
        "g",
        K::CPU,
        move |x: Option<&Tensor>,
              l: &[Tensor],
              o: &[Option<Tensor>],
              n: &[i64],
              s: &str,
              y: Option<f64>,
              b: bool| {
            seen.fetch_add(n.iter().sum::<i64>() + s.len() as i64, Ordering::Relaxed);
            let all = x.into_iter().chain(l).chain(o.iter().flatten()).cloned().collect::<Vec<_>>();
            Ok((all, if b { y.unwrap_or(-1.0) } else { 0.0 }))
        },
    )
    .unwrap();
    let mut stack = vec![
        Value::None,
        Value::TensorList(vec![a.clone()]),
        // `Tensor[]` does for `Tensor?[]`, and an int for a float
        Value::TensorList(vec![b.clone()]),
        Value::IntList(vec![1, 2]),
        "abc".into(),
        Value::Int(4),
        true.into(),
    ];
    operator("t_calls::g").unwrap().call_boxed(&mut stack).unwrap();
    assert_eq!(counter.load(Ordering::Relaxed), 6);
    match &stack[..] {
        [Value::TensorList(l), Value::Double(y)] => {
            assert!(l[0].is_same(&a) && l[1].is_same(&b));
            assert_eq!(*y, 4.0);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn kernels_see_the_masked_key_set() {
    let mut lib = Library::new("t_keys").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, keys_seen).unwrap();
    lib.impl_at("f", K::AutogradCPU, keys_seen).unwrap();
    let typed = op.typed::<Unary, i64>().unwrap();
    let seen = |x: &Tensor| DispatchKeySet::from_raw(typed.call((x,)).unwrap() as u64);
    // BackendSelect and ADInplaceOrView are included by the thread and fall through
    assert_eq!(seen(&cpu()).to_string(), "DispatchKeySet(CPU, AutogradCPU)");
    let _below = ExcludeGuard::below_autograd();
    assert_eq!(seen(&cpu()).to_string(), "DispatchKeySet(CPU)");
}

#[test]
fn backends_of_several_arguments() {
    let mut lib = Library::new("t_multi").unwrap();
    let op = lib.def("f(Tensor x, Tensor y) -> int").unwrap();
    for (id, key) in [K::CPU, K::Meta, K::SparseCPU].into_iter().enumerate() {
        lib.impl_at("f", key, says(id as i64)).unwrap();
    }
    let run = |a: K, b: K| {
        let mut stack = vec![tensor(&[a]).into(), tensor(&[b]).into()];
        op.call_boxed(&mut stack).map(|()| int(&stack))
    };
    assert_eq!(run(K::CPU, K::CPU).unwrap(), 0);
    assert_eq!(run(K::CPU, K::Meta).unwrap(), 1);
    assert_eq!(run(K::CPU, K::SparseCPU).unwrap(), 2);
    // the highest functionality on the highest backend, though no argument is SparseMeta
    assert!(message(run(K::SparseCPU, K::Meta)).contains("from the 'SparseMeta' backend"));
}

#[test]
fn fallthrough_of_one_backend() {
    let _turn = turn();
    let mut lib = Library::new("t_fall").unwrap();
    let op = lib.def("f(Tensor x, Tensor y) -> int").unwrap();
    lib.impl_at("f", K::CPU, says(0)).unwrap();
    lib.impl_at("f", K::CUDA, says(1)).unwrap();
    lib.impl_at("f", K::SparseCPU, Kernel::fallthrough()).unwrap();
    lib.impl_at("f", K::SparseCUDA, says(2)).unwrap();
    let run = |a: K, b: K| {
        let mut stack = vec![tensor(&[a]).into(), tensor(&[b]).into()];
        op.call_boxed(&mut stack).map(|()| int(&stack))
    };
    assert_eq!(run(K::CPU, K::SparseCPU).unwrap(), 0);
    assert_eq!(run(K::CUDA, K::SparseCUDA).unwrap(), 2);
    assert_eq!(run(K::CPU, K::SparseCUDA).unwrap(), 2);
    // nothing is left of a call whose only functionality falls through
    assert!(message(run(K::SparseCPU, K::SparseCPU)).contains("There were no tensor arguments"));
    // a redispatch does not mask
    let mut stack = vec![Value::None, Value::None];
    let error = message(op.redispatch_boxed(K::SparseCPU.into(), &mut stack));
    assert!(error.contains("the fallthrough kernel of SparseCPU was called"), "{error}");
}

#[test]
fn lists_of_tensors_count_optional_lists_do_not() {
    let mut lib = Library::new("t_lists").unwrap();
    for (name, ty, found) in
        [("a", "Tensor[]", true), ("b", "Tensor?[]", true), ("c", "Tensor[]?", false)]
    {
        lib.def(&format!("{name}({ty} x) -> int")).unwrap();
        lib.impl_at(name, K::CPU, says(1)).unwrap();
        let op = operator(&format!("t_lists::{name}")).unwrap();
        let value = if name == "b" {
            Value::OptionalTensorList(vec![None, Some(cpu())])
        } else {
            Value::TensorList(vec![cpu()])
        };
        assert_eq!(op.call_boxed(&mut vec![value]).is_ok(), found, "{ty}");
        let empty = op.call_boxed(&mut vec![Value::TensorList(vec![])]);
        assert!(message(empty).contains("There were no tensor arguments"));
    }
}

#[test]
fn redispatch_takes_the_set_as_it_is() {
    let mut lib = Library::new("t_redispatch").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, |_: &Tensor| Ok(1i64)).unwrap();
    lib.impl_at("f", K::Meta, |_: &Tensor| Ok(2i64)).unwrap();
    let typed = op.typed::<Unary, i64>().unwrap();
    lib.impl_at("f", K::Autograd, move |keys: DispatchKeySet, x: &Tensor| {
        Ok(10 + typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,))?)
    })
    .unwrap();
    let meta = tensor(&[K::Meta, K::AutogradMeta]);
    assert_eq!(typed.call((&meta,)).unwrap(), 12);
    let _tracer = IncludeGuard::new(K::Tracer); // not looked at
    assert_eq!(typed.redispatch(K::CPU.into(), (&meta,)).unwrap(), 1);
}

#[test]
fn typed_calls_reach_boxed_kernels() {
    let mut lib = Library::new("t_boxed").unwrap();
    lib.def("f(Tensor x, int[] n) -> (Tensor, int)").unwrap();
    let op = operator("t_boxed::f").unwrap();
    lib.impl_at(
        "f",
        K::CPU,
        Kernel::boxed(|_, _, stack| {
            let Some(Value::IntList(n)) = stack.pop() else { panic!("no list") };
            stack.push(Value::Int(n.len() as i64));
            Ok(())
        }),
    )
    .unwrap();
    let typed = op.typed::<(&'static Tensor, &'static [i64]), (Tensor, i64)>().unwrap();
    let x = cpu();
    let (y, n) = typed.call((&x, &[4, 5, 6])).unwrap();
    assert!(y.is_same(&x));
    assert_eq!(n, 3);

    // an in-place operator returns the caller's tensor, no matter what the kernel leaves
    lib.def("g_(Tensor(a!) self) -> Tensor(a!)").unwrap();
    lib.impl_at(
        "g_",
        K::CPU,
        Kernel::boxed(|_, _, stack| {
            stack.clear();
            stack.push(cpu().into());
            Ok(())
        }),
    )
    .unwrap();
    let typed = operator("t_boxed::g_").unwrap().typed::<Unary, Tensor>().unwrap();
    assert!(typed.call((&x,)).unwrap().is_same(&x));

    // and a kernel that leaves the wrong thing is found out
    lib.impl_at("f", K::CPU, says(1)).unwrap();
    let typed = op.typed::<(&'static Tensor, &'static [i64]), (Tensor, i64)>().unwrap();
    let error = message(typed.call((&x, &[])));
    assert!(
        error.contains("should have left (Tensor, int) on the stack and left (int)"),
        "{error}"
    );
}

#[test]
fn a_handle_must_ask_for_the_right_types() {
    let mut lib = Library::new("t_handle").unwrap();
    let op = lib.def("f(Tensor x, SymInt n) -> Tensor").unwrap();
    assert!(op.typed::<(&'static Tensor, i64), Tensor>().is_ok());
    let error = message(op.typed::<(&'static Tensor, f64), Tensor>());
    assert!(error.contains("with a wrong signature"), "{error}");
    assert!(error.contains("accessed/called as: (Tensor _0, float _1) -> Tensor _0"), "{error}");
    let error = message(op.typed::<Unary, Tensor>());
    assert!(error.contains("t_handle::f(Tensor x, SymInt n) -> Tensor"), "{error}");

    static MISSING: TypedOp<Unary, Tensor> = TypedOp::new("t_handle::nothing", "ov");
    assert!(message(MISSING.get()).contains("Could not find schema for t_handle::nothing.ov"));
}

#[test]
fn wrong_arguments_are_named_where_there_is_no_kernel_either() {
    let mut lib = Library::new("t_wrong_arguments").unwrap();
    let op = lib.def("f(Tensor x, int n=3) -> Tensor").unwrap();
    let x: Value = Tensor::from_vec([1f32], 1).unwrap().into();
    let says = |mut stack: Stack| message(op.call_boxed(&mut stack));
    let few = says(vec![x.clone()]);
    assert!(
        few.contains("t_wrong_arguments::f() takes 2 arguments, but the stack holds 1"),
        "{few}"
    );
    let mistaken = says(vec![2i64.into(), 3i64.into()]);
    let want = "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'";
    assert!(mistaken.contains(want), "{mistaken}");
    assert!(says(vec![x, 3i64.into()]).contains("Could not run 't_wrong_arguments::f'"));
}

#[test]
fn missing_kernels_list_what_there_is() {
    let _turn = turn();
    let mut lib = Library::new("t_missing").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CUDA, says(0)).unwrap();
    let typed = op.typed::<Unary, i64>().unwrap();
    let error = message(typed.call((&cpu(),)));
    for want in [
        "Could not run 't_missing::f' with arguments from the 'CPU' backend.",
        "Library::implementation(\"t_missing\", DispatchKey::CPU)",
        "'t_missing::f' is only available for these backends: [CUDA].",
        "dump_table",
    ] {
        assert!(error.contains(want), "{error}");
    }
    assert!(!error.contains("This build has no CPU") && error.lines().count() == 3, "{error}");
    let mps = message(typed.call((&tensor(&[K::MPS]),)));
    assert!(mps.contains("This build has no MPS: no operator has a kernel for it."), "{mps}");
    let meta = tensor(&[K::Meta]);
    assert!(message(typed.call((&meta,))).contains("t_missing::f: there is no Meta kernel"));
    lib.impl_at("f", K::CompositeImplicitAutograd, says(1)).unwrap();
    lib.impl_at("f", K::SparseCPU, says(2)).unwrap();
    let other = tensor(&[K::AutogradOther]);
    assert!(message(typed.call((&other,))).contains("ambiguous"));
    let none = typed.call((&tensor(&[]),)).unwrap();
    assert_eq!(none, 1);
}

#[test]
fn boxed_arguments_are_checked() {
    let mut lib = Library::new("t_args").unwrap();
    let op = lib.def("f(Tensor x, int n) -> int").unwrap();
    lib.impl_at("f", K::CPU, |_: &Tensor, n: i64| Ok(n)).unwrap();
    let error = op.call_boxed(&mut vec![cpu().into(), "two".into()]).unwrap_err();
    assert_eq!((error.op(), error.location().is_some()), (Some("t_args::f"), true));
    let error = error.kind().to_string();
    assert_eq!(
        error.lines().collect::<Vec<_>>()[..3],
        [
            "t_args::f() Expected a value of type 'int' for argument 'n' but instead found type 'str'.",
            "Position: 1",
            "Declaration: t_args::f(Tensor x, int n) -> int",
        ]
    );
    let error = message(op.redispatch_boxed(K::CPU.into(), &mut vec![cpu().into()]));
    assert!(error.contains("takes 2 arguments, but the stack holds 1"), "{error}");
}

#[test]
fn the_trace_is_indented_by_depth() {
    let mut lib = Library::new("t_trace").unwrap();
    let f = lib.def("f.ov(Tensor x) -> int").unwrap();
    let g = lib.def("g(Tensor x) -> int").unwrap();
    let typed = f.typed::<Unary, i64>().unwrap();
    lib.impl_at("f.ov", K::AutogradCPU, move |keys: DispatchKeySet, x: &Tensor| {
        typed.redispatch(keys & DispatchKeySet::AFTER_AUTOGRAD, (x,))
    })
    .unwrap();
    lib.impl_at("f.ov", K::CPU, move |x: &Tensor| {
        let _below = ExcludeGuard::below_autograd();
        let mut stack = vec![x.into()];
        g.call_boxed(&mut stack)?;
        Ok(int(&stack))
    })
    .unwrap();
    lib.impl_at("g", K::Functionalize, says(0)).unwrap();
    lib.impl_at("g", K::CPU, says(3)).unwrap();
    let x = cpu();
    let before = call_count();
    let (out, lines) = capture(|| {
        let first = typed.call((&x,)).unwrap();
        g.redispatch_boxed(K::CPU.into(), &mut vec![(&x).into()]).unwrap();
        first
    });
    assert_eq!(out, 3);
    assert_eq!(
        lines,
        [
            " [call] op=[t_trace::f.ov], key=[AutogradCPU]",
            "  [redispatch] op=[t_trace::f.ov], key=[CPU]",
            "   [callBoxed] op=[t_trace::g], key=[CPU]",
            " [redispatchBoxed] op=[t_trace::g], key=[CPU]",
        ]
    );
    assert_eq!(call_count() - before, 4);
    // nothing is collected outside
    let ((), lines) = capture(|| ());
    assert!(lines.is_empty());
}

#[test]
fn a_kernel_for_one_key_of_an_operator() {
    let _turn = turn();
    let mut wild = Library::fallbacks(K::TESTING_ONLY_GenericWrapper).unwrap();
    wild.fallback(says(8)).unwrap();
    let mut lib = Library::new("t_for_key").unwrap();
    let op = lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, says(1)).unwrap();
    let run = |key| {
        let mut stack = vec![cpu().into()];
        op.call_boxed_for_key(key, &mut stack).map(|()| int(&stack))
    };
    assert_eq!(run(K::CPU).unwrap(), 1);
    assert_eq!(run(K::TESTING_ONLY_GenericWrapper).unwrap(), 8);
    assert!(run(K::CUDA).is_err());
}

#[test]
fn defaults_become_values() {
    let schema: straightline_catalog::FunctionSchema =
        "f(int[2] k=1, ScalarType? d=float, Device v=\"cpu\", float[] w=[1, 2], Tensor? t=None, int[2]? q=3) -> ()"
            .parse()
            .unwrap();
    let values: Vec<Value> = schema
        .args
        .iter()
        .map(|a| Value::from_default(a.default.as_ref().unwrap(), &a.ty))
        .collect();
    assert!(matches!(
        &values[..],
        [
            Value::IntList(k),
            Value::DType(DType::F32),
            Value::Device(Device::CPU),
            Value::DoubleList(w),
            Value::None,
            Value::IntList(q),
        ] if k == &[1, 1] && w == &[1.0, 2.0] && q == &[3, 3]
    ));
}

#[test]
fn a_name_without_an_overload_is_its_default() {
    use crate::dispatch::operator;
    let _turn = turn();
    let means = |name: &str| operator(name).map(|op| op.name().to_string());
    for (name, full) in [
        ("aten::add", "aten::add.Tensor"),
        ("aten::add_", "aten::add_.Tensor"),
        ("aten::slice", "aten::slice.Tensor"),
        ("aten::transpose", "aten::transpose.int"),
        ("aten::where", "aten::where.self"),
        ("aten::empty", "aten::empty.memory_format"),
        ("aten::sum", "aten::sum"),
    ] {
        assert_eq!(means(name).unwrap(), full);
    }
    let e = means("aten::scatter").unwrap_err().to_string();
    assert!(e.contains("aten::scatter.src"), "{e}");

    let mut lib = Library::new("t_default").unwrap();
    lib.def("f.Tensor(Tensor x, Tensor y) -> int").unwrap();
    lib.def("f.Scalar(Tensor x, Scalar y) -> int").unwrap();
    lib.impl_at("f", K::CPU, |_: &Tensor, _: &Tensor| Ok(7i64)).unwrap();
    assert!(operator("t_default::f.Tensor").unwrap().has_kernel(K::CPU));
    // a name that an operator has is that operator
    lib.def("f(Tensor x) -> int").unwrap();
    lib.impl_at("f", K::CPU, says(1)).unwrap();
    assert_eq!(means("t_default::f").unwrap(), "t_default::f");
    assert!(operator("t_default::f").unwrap().has_kernel(K::CPU));
}
