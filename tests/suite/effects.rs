//! What a call does besides giving results, in compiled functions: it happens, as often and in the
//! order as in eager execution, and a call that fails leaves nothing half written.

use crate::support::alone;
use std::sync::{Arc, Mutex};
use straightline::dispatch::{DispatchKey, Effects, Library, operator};
use straightline::ops::aten;
use straightline::{
    CompileOptions, DType, ErrorKind, Result, Tensor, compile, compile_with, manual_seed,
};

fn f(values: &[f32]) -> Tensor {
    Tensor::from_vec(values.to_vec(), -1).unwrap()
}

fn i(values: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), -1).unwrap()
}

type Log = Arc<Mutex<Vec<f32>>>;

/// An operator without results that notes the first element of its operand.
fn logger(namespace: &str, schema: &str, tags: &[&str]) -> (Library, Log) {
    let log = Log::default();
    let seen = log.clone();
    let mut lib = Library::new(namespace).unwrap();
    lib.def_with_tags(schema, tags).unwrap();
    lib.impl_at("log", DispatchKey::CPU, move |x: &Tensor| {
        seen.lock().unwrap().push(x.to_vec::<f32>()?[0]);
        Ok(())
    })
    .unwrap();
    lib.impl_at("log", DispatchKey::Meta, |_: &Tensor| Ok(())).unwrap();
    (lib, log)
}

fn taken(log: &Log) -> Vec<f32> {
    std::mem::take(&mut log.lock().unwrap())
}

#[test]
fn operators_without_results_are_called_at_every_replay_in_their_order() {
    let (lib, log) = logger("effects_order", "log(Tensor x) -> ()", &[]);
    let op = straightline::dispatch::operator("effects_order::log").unwrap();
    assert_eq!(op.effects(), Effects::EFFECT);
    let op = op.typed::<(&'static Tensor,), ()>().unwrap();
    let run = move |x: &Tensor| {
        // the second is ready before the first
        let slow = x.exp()?.sum()?.reshape(&[1])?;
        op.call((&slow,))?;
        op.call((x,))?;
        op.call((x,))?;
        op.call((&(x + x),))?;
        x.neg()
    };
    let x = f(&[0.0, 0.0]);
    run(&x).unwrap();
    let eager = taken(&log);
    assert_eq!(eager, [2.0, 0.0, 0.0, 0.0]);
    let compiled = compile(run.clone());
    for _ in 0..3 {
        assert_eq!(compiled.call(&x).unwrap().to_vec::<f32>().unwrap(), [-0.0, -0.0]);
        assert_eq!(taken(&log), eager);
    }
    // the graph's text has them, and parses back
    let traced = compiled.trace(&x).unwrap();
    let text = traced.to_string();
    assert_eq!(text.matches("  effects_order::log(").count(), 4, "{text}");
    let parsed = straightline_passes::ir::graph::Graph::parse(&text).unwrap();
    assert_eq!(parsed.to_string(), text);
    drop(lib);
}

#[test]
fn random_calls_and_effects_share_one_order() {
    alone("effects::random_calls_and_effects_share_one_order", || {
        let (_lib, log) = logger("effects_random", "log(Tensor x) -> ()", &[]);
        let op = straightline::dispatch::operator("effects_random::log").unwrap();
        let op = op.typed::<(&'static Tensor,), ()>().unwrap();
        let run = move |x: &Tensor| {
            let a = aten::bernoulli_p(x, 0.5, None)?;
            op.call((&a,))?;
            let b = aten::rand_like(x, None, None, None, None, None)?;
            op.call((&b,))?;
            a.add(&b)
        };
        let x = f(&[1.0; 4]);
        manual_seed(7);
        let want = run(&x).unwrap().to_vec::<f32>().unwrap();
        let eager = taken(&log);
        let compiled = compile(run);
        compiled.call(&x).unwrap();
        taken(&log);
        manual_seed(7);
        assert_eq!(compiled.call(&x).unwrap().to_vec::<f32>().unwrap(), want);
        assert_eq!(taken(&log), eager);
    });
}

#[test]
fn what_is_registered_decides_over_what_the_name_says() {
    let (_lib, log) = logger("effects_tags", "log(Tensor x) -> ()", &["may_fail"]);
    let op = straightline::dispatch::operator("effects_tags::log").unwrap();
    assert_eq!(op.effects(), Effects::MAY_FAIL);
    let op = op.typed::<(&'static Tensor,), ()>().unwrap();
    // a check may stand for two equal ones
    let compiled = compile(move |x: &Tensor| {
        op.call((x,))?;
        op.call((x,))?;
        x.neg()
    });
    let x = f(&[3.0]);
    compiled.call(&x).unwrap();
    assert_eq!(taken(&log), [3.0]);
    let text = compiled.trace(&x).unwrap().to_string();
    // what the operator is tagged with need not be said of its calls
    assert!(text.contains("effects_tags::log(%x0)\n"), "{text}");
    let parsed = straightline_passes::ir::graph::Graph::parse(&text).unwrap();
    assert_eq!(parsed.to_string(), text);
}

#[test]
fn an_operator_with_results_and_an_effect_is_called_though_nobody_uses_them() {
    let log = Log::default();
    let seen = log.clone();
    let mut lib = Library::new("effects_results").unwrap();
    for (name, tag) in [("counted", "effect"), ("read", "reads"), ("free", "pure")] {
        lib.def_with_tags(&format!("{name}(Tensor x) -> Tensor"), &[tag]).unwrap();
        let seen = seen.clone();
        let number = name.len() as f32 + if tag == "pure" { 0.5 } else { 0.0 };
        lib.impl_at(name, DispatchKey::CPU, move |x: &Tensor| {
            seen.lock().unwrap().push(number);
            x.neg()
        })
        .unwrap();
        lib.impl_at(name, DispatchKey::Meta, |x: &Tensor| x.neg()).unwrap();
    }
    let [counted, read, free] = ["counted", "read", "free"].map(|name| {
        let op = straightline::dispatch::operator(&format!("effects_results::{name}")).unwrap();
        op.typed::<(&'static Tensor,), Tensor>().unwrap()
    });
    let unused = compile(move |x: &Tensor| {
        counted.call((x,))?;
        read.call((x,))?;
        free.call((x,))?;
        x.exp()
    });
    let twice = compile(move |x: &Tensor| {
        let a = [counted.call((x,))?, read.call((x,))?, free.call((x,))?];
        let b = [counted.call((x,))?, read.call((x,))?, free.call((x,))?];
        let mut sum = x.neg()?;
        for t in a.iter().chain(&b) {
            sum = &sum + t;
        }
        Ok::<_, straightline::Error>(sum)
    });
    let x = f(&[1.0]);
    for _ in 0..2 {
        unused.call(&x).unwrap();
        assert_eq!(taken(&log), [7.0]);
    }
    twice.call(&x).unwrap();
    // the pure call stands for both of them, wherever it is made
    let made = taken(&log);
    assert_eq!(made.iter().filter(|n| **n == 4.5).count(), 1, "{made:?}");
    let ordered: Vec<f32> = made.into_iter().filter(|n| *n != 4.5).collect();
    assert_eq!(ordered, [7.0, 4.0, 7.0, 4.0]);
}

#[test]
fn an_effect_waits_for_the_checks_before_it() {
    let (_lib, log) = logger("effects_checks", "log(Tensor x) -> ()", &[]);
    let op = straightline::dispatch::operator("effects_checks::log").unwrap();
    let op = op.typed::<(&'static Tensor,), ()>().unwrap();
    let compiled = compile(move |(x, at): &(Tensor, Tensor)| {
        let y = aten::gather(x, 0, at, false)?;
        op.call((x,))?;
        let z = aten::floor_divide(at, &aten::add_scalar(at, 1.into(), 1.into())?)?;
        op.call((x,))?;
        Ok::<_, straightline::Error>((y, z))
    });
    let x = f(&[5.0, 6.0]);
    compiled.call(&(x.clone(), i(&[0, 1]))).unwrap();
    assert_eq!(taken(&log), [5.0, 5.0]);
    let e = compiled.call(&(x, i(&[0, 2]))).unwrap_err();
    assert_eq!(e.op(), Some("aten::gather"));
    assert!(taken(&log).is_empty(), "the check came first");
}

#[test]
fn a_call_that_fails_has_written_nothing() {
    // three writes, to an argument, a view of it and a closed-over tensor, with a check in the
    // middle
    let state = f(&[1.0, 2.0]);
    let kept = state.clone();
    let compiled = compile(move |(x, at): &(Tensor, Tensor)| {
        aten::add_scalar_(x, 1.into(), 1.into())?;
        aten::mul_scalar_(&kept, 2.into())?;
        let y = aten::index_select(x, 0, at)?;
        aten::neg_(&x.narrow(0, 0, 1)?)?;
        aten::add_tensor_(&kept, &y, 1.into())?;
        Ok::<_, straightline::Error>(y)
    });
    let x = f(&[1.0, 2.0]);
    let values = |t: &Tensor| t.to_vec::<f32>().unwrap();
    let (before, version) = ((values(&x), values(&state)), (x.version(), state.version()));
    // the first call, and then a replay
    for _ in 0..2 {
        let e = compiled.call(&(x.clone(), i(&[0, 2]))).unwrap_err();
        assert_eq!(e.op(), Some("aten::index_select"));
        assert_eq!((values(&x), values(&state)), before);
        assert_eq!((x.version(), state.version()), version);
    }
    let y = compiled.call(&(x.clone(), i(&[0, 1]))).unwrap();
    assert_eq!(values(&y), [2.0, 3.0]);
    assert_eq!(values(&x), [-2.0, 3.0]);
    assert_eq!(values(&state), [4.0, 7.0]);
    // and again after writes that went well
    let e = compiled.call(&(x.clone(), i(&[-1, 1]))).unwrap_err();
    assert_eq!(e.python_class(), "IndexError");
    assert_eq!(values(&x), [-2.0, 3.0]);
    assert_eq!(values(&state), [4.0, 7.0]);
}

#[test]
fn an_error_of_a_replay_names_operator_operands_and_line() {
    let run = |(x, by): &(Tensor, Tensor)| aten::remainder_tensor_(x, by);
    let eager = run(&(i(&[1, 2, 3]), i(&[1, 2, 0]))).unwrap_err();
    let compiled = compile(run);
    compiled.call(&(i(&[1, 2, 3]), i(&[1, 2, 3]))).unwrap();
    let e = compiled.call(&(i(&[1, 2, 3]), i(&[1, 2, 0]))).unwrap_err();
    assert_eq!(e.to_string(), eager.to_string());
    assert_eq!(e.op(), Some("aten::remainder_.Tensor"));
    assert_eq!(e.operands().len(), 2);
    assert_eq!(e.location(), eager.location());
    assert!(e.location().is_some_and(|at| at.file().ends_with("effects.rs")));
    assert!(matches!(e.kind(), ErrorKind::Kernel(_)), "{e}");
}

#[test]
fn what_draws_is_tagged_and_what_writes_says_so() {
    let mut random = 0;
    for op in straightline::dispatch::all_operators() {
        let name = op.name().to_string();
        let Some(schema) = op.schema().filter(|_| name.starts_with("aten::")) else {
            continue;
        };
        let tagged = op.tags().contains(&"nondeterministic_seeded");
        if schema.is_mutable() {
            assert!(tagged || op.effects() == Effects::WRITES, "{name}");
            continue;
        }
        let effects = op.effects();
        assert!(!tagged || effects == Effects::RANDOM, "{name}: {effects}");
        random += u32::from(tagged);
    }
    assert!(random > 30, "{random}");
}

#[test]
fn a_kernel_that_selects_a_backend_is_called_by_the_plan() -> Result<()> {
    let mut lib = Library::new("effects_select")?;
    lib.def("k(Tensor x) -> Tensor")?;
    lib.impl_at("k", DispatchKey::CPU, |x: &Tensor| x.add(1))?;
    lib.impl_at("k", DispatchKey::Meta, Tensor::zeros_like)?;
    let k = operator("effects_select::k")?.typed::<(&Tensor,), Tensor>()?;
    let f = compile(move |x: &Tensor| k.call((x,))?.mul(2));
    let x = &Tensor::ones([2])?;
    assert_eq!(f.call(x)?.to_vec::<f32>()?, [4.0, 4.0]);
    lib.impl_at("k", DispatchKey::BackendSelect, |x: &Tensor| x.mul(77))?;
    assert_eq!(f.eager(x)?.to_vec::<f32>()?, [154.0, 154.0]);
    assert_eq!(f.call(x)?.to_vec::<f32>()?, [154.0, 154.0]);
    assert_eq!(f.call(x)?.to_vec::<f32>()?, [154.0, 154.0]);
    Ok(())
}

#[test]
fn a_meta_kernel_that_panics_is_an_error_of_the_capture() -> Result<()> {
    let mut lib = Library::new("effects_meta_panic")?;
    lib.def("p(Tensor x) -> Tensor")?;
    lib.impl_at("p", DispatchKey::CPU, |x: &Tensor| x.add(1))?;
    lib.impl_at("p", DispatchKey::Meta, |x: &Tensor| -> Result<Tensor> {
        assert!(x.dim() == 1, "only vectors");
        x.zeros_like()
    })?;
    let p = operator("effects_meta_panic::p")?.typed::<(&Tensor,), Tensor>()?;
    let f = compile(move |x: &Tensor| p.call((x,))?.mul(2));
    let e = f.call(&Tensor::ones([2, 2])?).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Panic(text) if text.ends_with("only vectors")), "{e}");
    assert_eq!(e.op(), Some("effects_meta_panic::p"));
    assert_eq!(f.call(&Tensor::ones([2])?)?.to_vec::<f32>()?, [4.0, 4.0]);
    Ok(())
}

#[test]
fn what_capture_has_no_value_of_can_run_eagerly() -> Result<()> {
    let mut lib = Library::new("effects_number")?;
    lib.def("num(Tensor x) -> float")?;
    lib.impl_at("num", DispatchKey::CPU, |x: &Tensor| x.sum()?.item::<f64>())?;
    lib.impl_at("num", DispatchKey::Meta, |_: &Tensor| Ok(0.0))?;
    let num = operator("effects_number::num")?.typed::<(&Tensor,), f64>()?;
    let f = move |x: &Tensor| x.add(num.call((x,))?);
    let x = &Tensor::ones([2])?;
    let e = compile(f).call(x).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e:?}");
    let options = CompileOptions { eager_fallback: true, ..Default::default() };
    assert_eq!(compile_with(options.clone(), f).call(x)?.to_vec::<f32>()?, [3.0, 3.0]);
    // a write that capture does not know to make, and an operator without a Meta kernel
    let repeated = |x: &Tensor| x.i(..1)?.copied()?.expand([2])?.masked_fill_(&x.gt(0)?, 3);
    assert!(compile(repeated).call(x).is_err());
    let f = compile_with(options.clone(), repeated);
    assert_eq!(f.call(x)?.to_vec::<f32>()?, [3.0, 3.0]);
    lib.def("plain(Tensor x) -> Tensor")?;
    lib.impl_at("plain", DispatchKey::CPU, |x: &Tensor| x.add(1))?;
    let plain = operator("effects_number::plain")?.typed::<(&Tensor,), Tensor>()?;
    let f = move |x: &Tensor| plain.call((x,));
    assert!(compile(f).call(x).is_err());
    let f = compile_with(options.clone(), f);
    assert_eq!(f.call(x)?.to_vec::<f32>()?, [2.0, 2.0]);
    // a capture within a capture
    let inner = compile(|x: &Tensor| x.mul(2));
    let f = move |x: &Tensor| {
        inner.trace(x)?;
        x.mul(3)
    };
    let e = compile(f.clone()).call(x).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e:?}");
    let f = compile_with(options, f);
    assert_eq!(f.call(x)?.to_vec::<f32>()?, [3.0, 3.0]);
    Ok(())
}

#[test]
fn running_statistics_in_one_memory_move_one_after_the_other() -> Result<()> {
    let x = f(&[1.0, 2.0, 4.0, 8.0]).view([2, 2])?;
    // one tensor; two views of one
    let both: [fn(&Tensor) -> Result<(Tensor, Tensor)>; 2] =
        [|s| Ok((s.i(0)?, s.i(0)?)), |s| Ok((s.view(-1)?.i(0..2)?, s.view(-1)?.i(1..3)?))];
    for statistics in both {
        let normalize = move |x: &Tensor, s: &Tensor| {
            let (mean, var) = statistics(s)?;
            let (mean, var) = (Some(&mean), Some(&var));
            aten::batch_norm(x, None, None, mean, var, true, 0.1, 1e-5, false)
        };
        let compiled = compile(normalize);
        let (eager, s) = (Tensor::ones([2, 2])?, Tensor::ones([2, 2])?);
        for _ in 0..3 {
            let want = normalize(&x, &eager)?.to_vec::<f32>()?;
            assert_eq!(compiled.call((&x, &s))?.to_vec::<f32>()?, want);
            assert_eq!(s.to_vec::<f32>()?, eager.to_vec::<f32>()?);
        }
    }
    Ok(())
}

/// The answers of one function on arguments that lie otherwise from call to call, eager and
/// compiled.
fn alternate(
    f: fn(&Tensor, &Tensor) -> Result<Tensor>,
    arguments: &[fn() -> Result<(Tensor, Tensor)>],
) -> Result<()> {
    let compiled = compile(f);
    for (round, make) in arguments.iter().cycle().take(3 * arguments.len()).enumerate() {
        let ((a, b), (c, d)) = (make()?, make()?);
        let values = |t: &Tensor| t.to_vec::<f32>();
        let (want, got) = (f(&a, &b)?, compiled.call((&c, &d))?);
        assert_eq!(values(&got)?, values(&want)?, "call {round}");
        assert_eq!((values(&c)?, values(&d)?), (values(&a)?, values(&b)?), "call {round}");
    }
    assert!(compiled.variants() <= arguments.len());
    Ok(())
}

#[test]
fn a_write_refused_for_how_operands_lie_is_no_answer_for_others() -> Result<()> {
    let apart = || Ok((f(&[1.0, 2.0]), f(&[10.0, 20.0])));
    let over = || {
        let z = f(&[1.0, 2.0, 3.0]);
        Ok((z.i(..2)?, z.i(1..)?))
    };
    let under = || {
        let z = f(&[1.0, 2.0, 3.0]);
        Ok((z.i(1..)?, z.i(..2)?))
    };
    let same = || {
        let z = f(&[1.0, 2.0]);
        Ok((z.clone(), z))
    };
    let each: [fn() -> Result<(Tensor, Tensor)>; 4] = [over, apart, same, under];
    let in_place = |a: &Tensor, b: &Tensor| match a.add_(b) {
        Ok(_) => a.mul(1),
        Err(_) => a.mul(100),
    };
    alternate(in_place, &each)?;
    let by_index = |a: &Tensor, b: &Tensor| match a.index_add_(0, i(&[1, 0]), b) {
        Ok(_) => a.mul(1),
        Err(_) => a.mul(100),
    };
    alternate(by_index, &each)?;
    let out = |a: &Tensor, b: &Tensor| match aten::cumsum_out(b, 0, None, a) {
        Ok(_) => a.mul(1),
        Err(_) => a.mul(100),
    };
    alternate(out, &each)?;
    let one = |a: &Tensor, b: &Tensor| match aten::sigmoid_out(b, a) {
        Ok(_) => a.mul(1),
        Err(_) => a.mul(100),
    };
    alternate(one, &each)
}

#[test]
fn what_grows_within_its_memory_meets_what_lies_there() -> Result<()> {
    // the second argument begins somewhere in the memory behind the first
    let apart = || Ok((f(&[0.0; 9]).i(3..4)?, f(&[7.0, 8.0])));
    let behind = || {
        let s = f(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        Ok((s.i(3..4)?, s.i(5..7)?))
    };
    let beyond = || {
        let s = f(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        Ok((s.i(3..4)?, s.i(7..)?))
    };
    let grow = |a: &Tensor, b: &Tensor| {
        aten::resize_(a, &[4], None)?;
        a.add_(1)?;
        b.mul(1)
    };
    let each: [fn() -> Result<(Tensor, Tensor)>; 3] = [apart, behind, beyond];
    alternate(grow, &each)?;
    let out = |a: &Tensor, b: &Tensor| {
        let four = Tensor::full([4], 2.0)?;
        aten::add_out(&four, &four, 1.into(), a)?;
        b.mul(1)
    };
    alternate(out, &each)?;
    let look = |a: &Tensor, b: &Tensor| {
        b.add_(1)?;
        aten::as_strided(a, &[4], &[1], None)?.mul(1)
    };
    alternate(look, &each)
}

#[test]
fn a_view_refused_for_where_memory_ends_is_no_answer_for_others() -> Result<()> {
    let short = || Ok((f(&[1.0, 2.0]), f(&[0.0])));
    let long = || Ok((f(&[1.0, 2.0, 3.0, 4.0]).i(..2)?, f(&[0.0])));
    let later = || Ok((f(&[1.0, 2.0, 3.0, 4.0]).i(1..3)?, f(&[0.0])));
    let last = || Ok((f(&[1.0, 2.0, 3.0, 4.0]).i(2..)?, f(&[0.0])));
    let here = |a: &Tensor, b: &Tensor| match aten::as_strided(a, &[3], &[1], None) {
        Ok(v) => v.sum()?.add(b),
        Err(_) => a.mul(100),
    };
    alternate(here, &[short, long, later, last])?;
    // and for where it begins
    let wider = |a: &Tensor, b: &Tensor| match aten::view_dtype(a, DType::F64) {
        Ok(v) => v.view(-1)?.to(DType::F32)?.add(b),
        Err(_) => a.mul(100),
    };
    alternate(wider, &[later, short, long, last])?;
    let complex = |a: &Tensor, b: &Tensor| match aten::view_as_complex(a) {
        Ok(v) => aten::real(&v)?.add(b),
        Err(_) => a.mul(100),
    };
    alternate(complex, &[later, short, long, last])?;
    let there = |a: &Tensor, b: &Tensor| match aten::as_strided(&a.i(1..)?, &[3], &[1], Some(1)) {
        Ok(v) => v.sum()?.add(b),
        Err(_) => a.mul(100),
    };
    alternate(there, &[short, long, later, last])
}

#[test]
fn a_failed_check_keeps_later_draws_from_happening() {
    let check = || -> Result<()> {
        let draw = |x: &Tensor, at: &Tensor| x.gather(0, at)?.add(Tensor::rand([3])?);
        let compiled = compile(draw);
        let x = f(&[1.0, 2.0, 3.0]);
        compiled.call((&x, &i(&[0, 1, 2])))?;
        manual_seed(7);
        let first = Tensor::rand([3])?.to_vec::<f32>()?;
        manual_seed(7);
        assert!(compiled.call((&x, &i(&[0, 1, 9]))).is_err());
        assert_eq!(Tensor::rand([3])?.to_vec::<f32>()?, first);
        Ok(())
    };
    alone("effects::a_failed_check_keeps_later_draws_from_happening", || {
        check().unwrap();
    });
}

#[test]
fn a_thread_that_hides_backends_gets_the_errors_of_eager_code() -> Result<()> {
    use straightline::dispatch::{DispatchKeySet, ExcludeGuard};
    let relu = |x: &Tensor| x.relu();
    let compiled = compile(relu);
    let x = f(&[-1.0, 2.0]);
    compiled.call(&x)?;
    for key in [DispatchKey::CPU, DispatchKey::Dense] {
        let _guard = ExcludeGuard::new(DispatchKeySet::of(&[key]));
        let eager = relu(&x).err().map(|e| e.kind().to_string());
        assert_eq!(compiled.call(&x).err().map(|e| e.kind().to_string()), eager, "{key}");
    }
    Ok(())
}

#[test]
fn a_name_that_ends_in_an_underscore_writes_what_its_schema_says() -> Result<()> {
    let mut lib = Library::new("effects_underscore")?;
    lib.def("self_(Tensor x) -> Tensor")?;
    lib.impl_at("self_", DispatchKey::CPU, |x: &Tensor| x.add(1))?;
    lib.impl_at("self_", DispatchKey::Meta, |x: &Tensor| x.zeros_like())?;
    let plus = operator("effects_underscore::self_")?.typed::<(&Tensor,), Tensor>()?;
    let compiled = compile(move |x: &Tensor| plus.call((x,))?.mul(2));
    for _ in 0..2 {
        assert_eq!(compiled.call(f(&[1.0, 2.0]))?.to_vec::<f32>()?, [4.0, 6.0]);
    }
    Ok(())
}
