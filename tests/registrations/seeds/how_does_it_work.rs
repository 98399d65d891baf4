//! The forum post that builds a dispatcher in nine problems. Each problem is solved here by the
//! real one.

use super::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use straightline::dispatch::{
    DispatchKey as K, DispatchKeySet, ExcludeGuard, ForceKeySetGuard, IncludeGuard, Kernel,
    Library, TlsKeySets, Value, capture,
};
use straightline::ops::aten;
use straightline::{DType, Device, DeviceType, Result, Scalar, Tensor, compile};

fn call(name: &str, args: Vec<Value>) -> Result<Vec<Value>> {
    let mut stack = args;
    straightline::dispatch::operator(name)?.call_boxed(&mut stack)?;
    Ok(stack)
}

fn first_words(lines: Vec<String>) -> Vec<String> {
    let word = |l: &String| l.split(' ').next().unwrap_or_default().to_string();
    lines.iter().map(word).collect()
}

/// "We want to be able to call operators for each backend."
#[test]
fn problem_1_one_operator_many_backends() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("post1").unwrap();
    lib.def("mm(Tensor a, Tensor b) -> Tensor").unwrap();
    let backends =
        [(K::CPU, DeviceType::Cpu), (K::CUDA, DeviceType::Cuda), (K::XLA, DeviceType::Xla)];
    for (key, _) in backends {
        lib.impl_at("mm", key, answers(&log, key.name())).unwrap();
    }
    for (key, device) in backends {
        call("post1::mm", vec![on(device).into(), on(device).into()]).unwrap();
        assert_eq!(first_words(log.take()), [key.name()]);
    }
}

/// "A core set of operators that backends MUST implement with default implementations for the
/// others."
#[test]
fn problem_2_default_implementations() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("post2").unwrap();
    let mm = lib.def("mm(Tensor a, Tensor b) -> Tensor").unwrap();
    lib.def("bmm(Tensor a, Tensor b, int n) -> Tensor").unwrap();
    // the default serves every backend, and is made of the core
    lib.impl_("bmm", move |a: &Tensor, b: &Tensor, n: i64| {
        let mm = mm.typed::<(&Tensor, &Tensor), Tensor>()?;
        let mut last = mm.call((a, b))?;
        for _ in 1..n {
            last = mm.call((&last, b))?;
        }
        Ok(last)
    })
    .unwrap();
    let mut cuda = Library::implementation("post2", K::CUDA).unwrap();
    cuda.impl_("mm", answers(&log, "mm")).unwrap();
    let x: Value = on(DeviceType::Cuda).into();
    call("post2::bmm", vec![x.clone(), x.clone(), 3i64.into()]).unwrap();
    assert_eq!(first_words(log.take()), ["mm", "mm", "mm"]);
    // a backend that has nothing of the core cannot run the rest either, and hears which operator
    // it lacks
    let y: Value = on(DeviceType::Xla).into();
    let error = message(call("post2::bmm", vec![y.clone(), y, 3i64.into()]));
    assert!(
        error.contains("Could not run 'post2::mm' with arguments from the 'XLA' backend."),
        "{error}"
    );
    // one that can do better does
    cuda.impl_("bmm", answers(&log, "bmm")).unwrap();
    call("post2::bmm", vec![x.clone(), x, 3i64.into()]).unwrap();
    assert_eq!(first_words(log.take()), ["bmm"]);
}

/// "We also want to be able to implement NEW operators without having to rebuild the system."
#[test]
fn problem_3_new_operators_by_name() {
    let _turn = turn();
    assert!(call("post3::new", vec![]).is_err());
    let mut lib = Library::new("post3").unwrap();
    // the name is only known when the program runs
    let name = ["n", "e", "w"].concat();
    lib.def_with(&format!("{name}(int n) -> int"), |n: i64| Ok(n + 1)).unwrap();
    let out = call(&format!("post3::{name}"), vec![41i64.into()]).unwrap();
    assert!(matches!(out[..], [Value::Int(42)]));
}

/// "We need to look at the args and determine which backend to call." All of them, where the post
/// looks at the first.
#[test]
fn problem_4_the_arguments_choose() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("post4").unwrap();
    lib.def("f(Tensor a, Tensor[] others) -> Tensor").unwrap();
    for key in [K::CPU, K::CUDA] {
        lib.impl_at("f", key, answers(&log, key.name())).unwrap();
    }
    let (cpu, cuda) = (on(DeviceType::Cpu), on(DeviceType::Cuda));
    let run = |a: &Tensor, others: Vec<Tensor>| {
        call("post4::f", vec![a.into(), others.into()]).unwrap();
        first_words(log.take()).remove(0)
    };
    assert_eq!(run(&cpu, vec![]), "CPU");
    assert_eq!(run(&cuda, vec![]), "CUDA");
    assert_eq!(run(&cpu, vec![cpu.clone(), cuda.clone()]), "CUDA");
}

/// "I want to be able to dynamically add new backends."
#[test]
fn problem_5_backends_come_and_go() {
    let _turn = turn();
    let log = Log::default();
    let x: Value = on(DeviceType::PrivateUse1).into();
    assert!(call("aten::neg", vec![x.clone()]).is_err());
    {
        let mut backend = Library::implementation("aten", K::PrivateUse1).unwrap();
        backend.impl_("neg", answers(&log, "mine")).unwrap();
        call("aten::neg", vec![x.clone()]).unwrap();
        assert_eq!(first_words(log.take()), ["mine"]);
    }
    assert!(call("aten::neg", vec![x]).is_err());
}

/// What a tensor of the toy backend holds.
struct Held(Tensor);

fn held(t: Tensor) -> Result<Value> {
    let sizes = t.sizes().to_vec();
    let device = Device::new(DeviceType::PrivateUse1);
    let t = Tensor::opaque(Held(t), &sizes, DType::F32, device).build()?;
    Ok(t.into())
}

fn holding(v: &Value) -> &Tensor {
    &v.as_tensor().unwrap().payload::<Held>().unwrap().0
}

/// "If a backend doesn't handle an operator I still want to run it using a more generic backend
/// (like CPU)": a fallback at the backend's key serves whatever the backend has no kernel for.
#[test]
fn problem_6_a_more_generic_backend() {
    let _turn = turn();
    let log = Log::default();
    let mut generic = Library::fallbacks(K::PrivateUse1).unwrap();
    let noted = log.clone();
    generic
        .fallback(Kernel::boxed(move |op, _, stack| {
            noted.push(format!("fallback {}", op.name()));
            let mut inner: Vec<Value> = (arguments(op, stack).into_iter())
                .map(|v| match v.as_tensor().and_then(Tensor::payload::<Held>) {
                    Some(Held(t)) => t.into(),
                    None => v,
                })
                .collect();
            op.redispatch_boxed(K::CPU.into(), &mut inner)?;
            for v in inner {
                stack.push(match v {
                    Value::Tensor(t) => held(t)?,
                    other => other,
                });
            }
            Ok(())
        }))
        .unwrap();
    let mut lib = Library::new("post6").unwrap();
    for name in ["abs", "neg"] {
        lib.def(&format!("{name}(Tensor x) -> Tensor")).unwrap();
    }
    lib.impl_at("abs", K::CPU, |x: &Tensor| x.abs()).unwrap();
    lib.impl_at("neg", K::CPU, |x: &Tensor| x.neg()).unwrap();
    lib.impl_at("neg", K::PrivateUse1, answers(&log, "own")).unwrap();
    let x = held(Tensor::from_vec([1f32, -2.0], 2).unwrap()).unwrap();
    let out = call("post6::abs", vec![x.clone()]).unwrap();
    assert_eq!(holding(&out[0]).to_vec::<f32>().unwrap(), [1.0, 2.0]);
    call("post6::neg", vec![x]).unwrap();
    let lines = log.take();
    assert_eq!(lines[0], "fallback post6::abs");
    assert!(lines.len() == 2 && lines[1].starts_with("own"), "{lines:?}");
    // composites win over the fallback (one of the documents has it the other way round): linear
    // falls apart first
    assert_eq!(row(op("aten::linear"), K::PrivateUse1).unwrap(), "[math kernel]");
    assert_eq!(row(op("post6::abs"), K::PrivateUse1).unwrap(), "[backend fallback]");
}

/// "My backend may not know if it supports an operator": the post tries the next backend when one
/// returns NotImplemented. A kernel of c10 can not decline, and its error is the caller's; what it
/// can do is send the call on itself.
#[test]
fn problem_7_not_implemented() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("post7").unwrap();
    let f = lib.def("f(Tensor x) -> Tensor").unwrap();
    lib.impl_at("f", K::CPU, answers(&log, "cpu")).unwrap();
    let mut cuda = Library::implementation("post7", K::CUDA).unwrap();
    cuda.impl_("f", |x: &Tensor| x.to_vec::<f32>().map(|_| x.clone())).unwrap();
    let both = || {
        Tensor::opaque((), &[3], DType::F32, Device::new(DeviceType::Cuda))
            .keys(DispatchKeySet::of(&[K::CPU, K::CUDA]))
    };
    // nobody else is asked
    assert!(call("post7::f", vec![both().build().unwrap().into()]).is_err());
    assert!(log.take().is_empty());
    // a kernel that finds out late that it cannot do it goes on below itself: here to the next
    // backend of the set
    cuda.impl_(
        "f",
        Kernel::boxed(move |_, keys, stack| {
            let supported = matches!(&stack[..], [Value::Tensor(t)] if t.numel() == 2);
            assert!(!supported);
            let others = keys.remove_backend(K::CUDA.backend());
            f.redispatch_boxed(others, stack)
        }),
    )
    .unwrap();
    call("post7::f", vec![both().build().unwrap().into()]).unwrap();
    assert_eq!(first_words(log.take()), ["cpu"]);
    // and "no backend supports this operator" lists those that there are
    let error = message(call("post7::f", vec![on(DeviceType::Xla).into()]));
    assert!(error.contains("is only available for these backends: [CPU, CUDA"), "{error}");
}

/// An operator at `key` whose kernel calls the operator again, under a guard or not, `depth` times
/// at most.
fn recursive(lib: &mut Library, name: &str, guarded: bool) -> Arc<AtomicUsize> {
    let op = lib.def(&format!("{name}(Tensor x) -> Tensor")).unwrap();
    lib.impl_at(name, K::CPU, |x: &Tensor| Ok(x.clone())).unwrap();
    let entered = Arc::new(AtomicUsize::new(0));
    let count = entered.clone();
    let kernel = Kernel::boxed(move |_, _, stack| {
        if count.fetch_add(1, Relaxed) >= 10 {
            stack.clear();
            return Err(straightline::Error::new(straightline::ErrorKind::Runtime(
                "forever".into(),
            )));
        }
        let _guard = guarded.then(|| ExcludeGuard::new(K::TESTING_ONLY_GenericMode));
        op.call_boxed(stack)
    });
    lib.impl_at(name, K::TESTING_ONLY_GenericMode, kernel).unwrap();
    entered
}

/// "My backend looped forever": the post disables what runs. c10 disables nothing by itself: a
/// kernel that calls from the top excludes its key.
#[test]
fn problem_8_reentrancy() {
    let _turn = turn();
    let mut lib = Library::new("post8").unwrap();
    let entered = recursive(&mut lib, "loops", false);
    let guarded = recursive(&mut lib, "stops", true);
    let _on = IncludeGuard::new(K::TESTING_ONLY_GenericMode);
    let x: Value = on(DeviceType::Cpu).into();
    assert!(message(call("post8::loops", vec![x.clone()])).contains("forever"));
    assert_eq!(entered.load(Relaxed), 11);
    call("post8::stops", vec![x]).unwrap();
    assert_eq!(guarded.load(Relaxed), 1);
    // the guard ended with the kernel
    assert!(TlsKeySets::current().included.has(K::TESTING_ONLY_GenericMode));
    assert!(!TlsKeySets::current().excluded.has(K::TESTING_ONLY_GenericMode));
}

/// "My decomposition isn't working because it relies on calling operators in my own backend
/// recursively": opt in again, for a while.
#[test]
fn problem_9_opt_in_reentrancy() {
    let _turn = turn();
    let log = Log::default();
    let key = K::TESTING_ONLY_GenericMode;
    let mut lib = Library::new("post9").unwrap();
    let mm = lib.def("mm(Tensor a) -> Tensor").unwrap();
    lib.def("bmm(Tensor a, int n) -> Tensor").unwrap();
    lib.impl_at("mm", K::CPU, answers(&log, "cpu")).unwrap();
    lib.impl_at("mm", key, passes_on(&log, "mine", key)).unwrap();
    let noted = log.clone();
    lib.impl_at(
        "bmm",
        key,
        Kernel::boxed(move |op, _, stack| {
            let callers = TlsKeySets::current();
            let _disabled = ExcludeGuard::new(key);
            let args = arguments(op, stack);
            noted.push("without");
            mm.call_boxed(&mut vec![args[0].clone()])?;
            // enable_recursion(): the thread's sets as the caller had them
            let _enabled = ForceKeySetGuard::new(callers);
            noted.push("with");
            mm.call_boxed(&mut vec![args[0].clone()])?;
            stack.push(args[0].clone());
            Ok(())
        }),
    )
    .unwrap();
    let _on = IncludeGuard::new(key);
    call("post9::bmm", vec![on(DeviceType::Cpu).into(), 2i64.into()]).unwrap();
    assert_eq!(first_words(log.take()), ["without", "cpu", "with", "mine", "cpu"]);
}

/// "If a dispatch key handles all tensor types and always redispatches after doing its work, it
/// acts as a mode." The post's autocast: mm in half precision, sum in single, through the front
/// door again with the key disabled.
#[test]
fn a_mode_autocast() {
    let _turn = turn();
    let key = K::TESTING_ONLY_GenericMode;
    let mut mode = Library::fallbacks(key).unwrap();
    mode.fallback(Kernel::boxed(move |op, _, stack| {
        // t.to() goes through the dispatcher as well, and must not come here again
        let _disabled = ExcludeGuard::new(key);
        let dtype = match op.name().base() {
            "mm" => Some(DType::F16),
            "sum" => Some(DType::F32),
            _ => None,
        };
        let mut args = arguments(op, stack);
        if let Some(dtype) = dtype {
            for v in &mut args {
                if let Value::Tensor(t) = v {
                    *t = t.to_dtype(dtype)?;
                }
            }
        }
        stack.extend(args);
        op.call_boxed(stack)
    }))
    .unwrap();
    let x = Tensor::ones([2, 2]).unwrap();
    let mm = |x: &Tensor| aten::mm(x, x).unwrap().dtype();
    assert_eq!(mm(&x), DType::F32);
    let _on = IncludeGuard::new(key);
    assert_eq!(mm(&x), DType::F16);
    assert_eq!(x.to_dtype(DType::F16).unwrap().sum().unwrap().dtype(), DType::F32);
    assert_eq!(aten::abs(&x).unwrap().dtype(), DType::F32);
}

/// "We convert t.add_(5) to t2 = t.add(5), and then copy the values back."
#[test]
fn a_mode_functionalization() {
    let _turn = turn();
    let f = compile(|t: &Tensor| {
        aten::add_scalar_(t, Scalar::Int(5), Scalar::Int(1))?;
        Ok(t * 2.0)
    });
    let t = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let graph = f.trace(&t).unwrap().to_string();
    assert!(graph.contains("aten::add.Scalar(") && !graph.contains("aten::add_"), "{graph}");
    assert_eq!(f.call(&t).unwrap().to_vec::<f32>().unwrap(), [12.0, 14.0]);
    assert_eq!(t.to_vec::<f32>().unwrap(), [6.0, 7.0]);
}

/// A large virtual tensor, divided: what the post says of DTensor. Its operators run on the parts,
/// by one kernel at the Python key.
#[test]
fn a_sharded_tensor() {
    let _turn = turn();
    struct Shards(Vec<Tensor>);
    fn sharded(parts: Vec<Tensor>) -> Result<Tensor> {
        let rows = parts.iter().map(|p| p.sizes()[0]).sum();
        let sizes = [rows, parts[0].sizes()[1]];
        let keys = on(DeviceType::Cpu).key_set().add(K::Python);
        Tensor::opaque(Shards(parts), &sizes, DType::F32, Device::CPU).keys(keys).build()
    }
    let mut python = Library::implementation("aten", K::Python).unwrap();
    python
        .impl_("mm", |a: &Tensor, b: &Tensor| {
            // rows are divided, columns whole: each part is multiplied where it is
            let Some(Shards(parts)) = a.payload::<Shards>() else {
                return aten::mm(a, b);
            };
            let products: Result<Vec<Tensor>> = parts.iter().map(|p| aten::mm(p, b)).collect();
            sharded(products?)
        })
        .unwrap();
    let part = |v: f32| Tensor::from_slice(&[v, v], [1, 2]).unwrap();
    let a = sharded(vec![part(1.0), part(2.0)]).unwrap();
    let b = Tensor::ones([2, 3]).unwrap();
    let (c, lines) = capture(|| aten::mm(&a, &b).unwrap());
    assert_eq!(c.sizes(), [2, 3]);
    assert_eq!(c.payload::<Shards>().unwrap().0[1].to_vec::<f32>().unwrap(), [4.0; 3]);
    let mm: Vec<&String> = lines.iter().filter(|l| l.contains("aten::mm")).collect();
    assert!(mm[0].ends_with("key=[Python]") || mm[1].ends_with("key=[Python]"), "{lines:?}");
    assert!(lines.len() >= 3);
}

/// "The active key set for a given op call is: (tensor keys | TLS included) - TLS excluded."
#[test]
fn the_internal_state() {
    let _turn = turn();
    let mut lib = Library::new("post_state").unwrap();
    let f = lib.def("f(Tensor x) -> int").unwrap().typed::<(&Tensor,), i64>().unwrap();
    for key in [K::CPU, K::TESTING_ONLY_GenericMode] {
        lib.impl_at("f", key, |keys: DispatchKeySet, _: &Tensor| Ok(keys.raw() as i64)).unwrap();
    }
    let x = on(DeviceType::Cpu);
    let seen = || DispatchKeySet::from_raw(f.call((&x,)).unwrap() as u64);
    let expected = || {
        let thread = TlsKeySets::current();
        let active = (x.key_set() | thread.included) - thread.excluded;
        op("post_state::f").masked(active)
    };
    let _below = ExcludeGuard::below_autograd();
    assert_eq!(seen(), expected());
    let _mode = IncludeGuard::new(K::TESTING_ONLY_GenericMode);
    assert_eq!(seen(), expected());
    assert_eq!(seen().highest_priority_key(), K::TESTING_ONLY_GenericMode);
    let _off = ExcludeGuard::new(K::TESTING_ONLY_GenericMode);
    assert_eq!(seen(), expected());
    assert_eq!(seen().to_string(), "DispatchKeySet(CPU)");
    // per thread: another one knows nothing of it
    let other = std::thread::spawn(TlsKeySets::current).join().unwrap();
    assert_eq!(other.included, DispatchKeySet::DEFAULT_INCLUDED);
}
