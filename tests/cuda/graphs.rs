//! What of a compiled function is one launch: graphs of runs of steps, and what is queued between them.

use super::compiled::{here, there};
use super::{driver_calls, gpu};
use std::sync::{Arc, OnceLock};
use straightline::dispatch::{DispatchKey, Library, TypedOp};
use straightline::ops::aten;
use straightline::optim::{Optimizer, Sgd, SgdOptions};
use straightline::{DType, Device, Generator, Result, Tensor, assert_close, compile, manual_seed};

/// How often each was called, where the driver counts.
fn counted<const N: usize>(
    names: [&str; N],
    f: impl FnOnce() -> Result<()>,
) -> Result<Option<[u64; N]>> {
    let now = || names.map(driver_calls);
    let before = now();
    f()?;
    let after = now();
    let counts = before.iter().zip(&after).map(|(b, a)| Some(a.as_ref()? - b.as_ref()?));
    Ok(counts.collect::<Option<Vec<u64>>>().and_then(|all| all.try_into().ok()))
}

const CALLS: [&str; 3] = ["cuGraphLaunch", "cuLaunchKernel", "cuMemcpyHtoDAsync"];

fn numbers(sizes: &[i64]) -> Result<Tensor> {
    let count: i64 = sizes.iter().product();
    Tensor::arange(count)?.to_dtype(DType::F32)?.mul(0.37)?.sin()?.reshape(sizes)
}

/// A step on the CPU stands between two graphs.
#[test]
fn what_can_not_be_recorded_is_queued_between_graphs() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |x: &Tensor| {
        let square = x.matmul(&x.t()?)?.add(&Tensor::with(x.device()).full([1], 0.5)?)?;
        let positive = square.matmul(&square.t()?)?.add(&aten::eye(
            6,
            Some(DType::F32),
            None,
            Some(x.device()),
            None,
        )?)?;
        let factor = aten::linalg_cholesky(&positive, false)?;
        factor.matmul(x)?.softmax(-1)?.matmul(&x.t()?)?.gelu()
    };
    let x = numbers(&[6, 4])?;
    let want = f(&x)?;
    let x = there(&x, gpu)?;
    let compiled = compile(f);
    for _ in 0..6 {
        assert_close(&here(&compiled.call(&x)?)?, &want)?;
    }
    let calls = counted(CALLS, || {
        for _ in 0..4 {
            compiled.call(&x)?;
        }
        Ok(())
    })?;
    if let Some([graphs, launches, _]) = calls {
        assert_eq!((graphs, launches), (8, 0), "a graph before the step, and one behind it");
    }
    assert_close(&here(&compiled.call(&x)?)?, &want)?;
    Ok(())
}

/// All kinds of draws, in graphs and eagerly, in turn: the numbers are those of eager execution.
#[test]
fn graphs_draw_what_eager_calls_draw() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = move |x: &Tensor| {
        let u = Tensor::with(gpu).rand([300])?;
        let n = Tensor::with((DType::F64, gpu)).randn([70])?;
        let dropped = aten::dropout(x, 0.3, true)?;
        let (kept, mask) = aten::native_dropout(x, 0.4, Some(true))?;
        let order = aten::randperm(40, Some(DType::I64), None, Some(gpu), None)?;
        let whole = aten::randint_low(3, 900, &[50], Some(DType::I64), None, Some(gpu), None)?;
        let e = aten::exponential(&u, 2.0, None)?;
        Ok([u, n, dropped, kept, mask, order, whole, e])
    };
    let x = there(&numbers(&[40, 9])?, gpu)?;
    let bytes = |all: &[Tensor]| -> Result<Vec<Vec<f64>>> {
        all.iter().map(|t| here(t)?.to_dtype(DType::F64)?.reshape([-1])?.to_vec()).collect()
    };
    let between = || Tensor::with(gpu).rand([7])?.to_vec::<f32>();
    manual_seed(11);
    let mut want = Vec::new();
    for _ in 0..6 {
        want.push((bytes(&f(&x)?)?, between()?));
    }
    let compiled = compile(f);
    manual_seed(11);
    let mut calls = None;
    for want in &want {
        calls = counted(CALLS, || {
            let got = bytes(&compiled.call(&x)?)?;
            assert_eq!(&got, &want.0);
            Ok(())
        })?;
        assert_eq!(between()?, want.1);
    }
    if let Some([graphs, launches, _]) = calls {
        assert_eq!((graphs, launches), (1, 0));
    }
    // another seed is another one for the graph that is there
    manual_seed(12);
    let eager = bytes(&f(&x)?)?;
    manual_seed(12);
    assert_eq!(bytes(&compiled.call(&x)?)?, eager);
    assert_ne!(eager, want[0].0);
    // and so is a state
    let generator = Generator::default_of(gpu);
    let state = generator.state()?;
    let first = bytes(&compiled.call(&x)?)?;
    generator.set_state(&state)?;
    assert_eq!(bytes(&compiled.call(&x)?)?, first);
    Ok(())
}

/// The generator of the device may be named; one of one's own is refused, since a graph has none.
#[test]
fn generators_of_devices_may_be_named() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let draw =
        |g: Generator| move |x: &Tensor| aten::uniform(x, 0.0, 1.0, Some(&g))?.add(x)?.cumsum(0);
    let x = Tensor::with(gpu).ones([20])?;
    let f = draw(Generator::default_of(gpu));
    manual_seed(9);
    let want = (0..4).map(|_| here(&f(&x)?)).collect::<Result<Vec<_>>>()?;
    manual_seed(9);
    let compiled = compile(f);
    for want in &want {
        assert_close(&here(&compiled.call(&x)?)?, want)?;
    }
    for other in [Generator::philox(9), Generator::default_cpu().clone()] {
        let e = compile(draw(other)).call(&x).unwrap_err();
        assert!(e.to_string().contains("a generator of one's own"), "{e}");
    }
    Ok(())
}

/// A training step with dropout: one launch, and sixteen bytes in front of it.
#[test]
fn a_training_step_with_dropout_is_one_launch() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let train = |compiled: bool| -> Result<(Vec<f32>, Option<[u64; 3]>)> {
        manual_seed(5);
        let put = |t: Tensor| t.to_device(gpu);
        let (x, y) = (put(numbers(&[8, 5])?)?, put(numbers(&[8, 3])?)?);
        let w = put(numbers(&[5, 16])?)?.requires_grad_(true)?;
        let v = put(numbers(&[16, 3])?)?.requires_grad_(true)?;
        let optimizer = Sgd::new(vec![w.clone(), v.clone()], SgdOptions::default().lr(0.1))?;
        let step = compile(move |(x, y): (&Tensor, &Tensor)| {
            let hidden = aten::dropout(&x.matmul(&w)?.gelu()?, 0.5, true)?;
            let loss = hidden.matmul(&v)?.sub(y)?.square()?.mean()?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            loss.detach()
        });
        let (mut losses, mut calls) = (Vec::new(), None);
        for _ in 0..10 {
            let mut loss = None;
            calls = counted(CALLS, || {
                loss = Some(match compiled {
                    true => step.call((&x, &y))?,
                    false => step.eager((&x, &y))?,
                });
                Ok(())
            })?;
            losses.push(here(&loss.expect("a loss"))?.item::<f32>()?);
        }
        Ok((losses, calls))
    };
    let (want, _) = train(false)?;
    let (got, calls) = train(true)?;
    for (a, b) in got.iter().zip(&want) {
        assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{got:?} {want:?}");
    }
    if let Some(calls) = calls {
        assert_eq!(calls, [1, 0, 1]);
    }
    Ok(())
}

static AGAIN: TypedOp<(&Tensor,), Tensor> = TypedOp::new("graphs_test::again", "");

/// Somebody's operator, which calls a compiled function while its own caller's room is in use, also on
/// another thread that it waits for.
#[test]
fn a_step_may_call_compiled_functions() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    type Inner = straightline::compile::Compiled<Tensor, Tensor>;
    static INNER: OnceLock<Arc<Inner>> = OnceLock::new();
    fn again(x: &Tensor) -> Result<Tensor> {
        let Some(inner) = INNER.get() else { return x.add(1.0) };
        let y = inner.call(x)?;
        let there = inner.clone();
        std::thread::spawn(move || there.call(&y)).join().expect("it does not panic")
    }
    let mut library = Library::new("graphs_test")?;
    library.def("again(Tensor self) -> Tensor")?;
    library.impl_at("again", DispatchKey::CPU, again)?;
    library.impl_at("again", DispatchKey::CUDA, again)?;
    library.impl_at("again", DispatchKey::Meta, |x: &Tensor| x.add(1.0))?;
    let f = |x: &Tensor| {
        let y = x.matmul(&x.t()?)?.softmax(-1)?.matmul(x)?;
        AGAIN.call((&y,))?.matmul(&x.t()?)?.tanh()?.sum_dim([0])
    };
    let inner = |x: &Tensor| x.softmax(0)?.matmul(&x.t()?)?.matmul(x)?.sin();
    _ = INNER.set(Arc::new(compile(inner)));
    let x = numbers(&[5, 3])?;
    let want = f(&x)?;
    let x = there(&x, gpu)?;
    let compiled = compile(f);
    for _ in 0..8 {
        assert_close(&here(&compiled.call(&x)?)?, &want)?;
    }
    drop(library);
    Ok(())
}

/// Several threads run one program with steps between its graphs on one stream.
#[test]
fn threads_do_not_meet_in_a_room() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |x: &Tensor| {
        let y = x.matmul(&x.t()?)?.softmax(-1)?;
        let sure = y.mul(0.0)?.add(1.0)?.bernoulli()?;
        y.mul(&sure)?.matmul(x)?.gelu()?.matmul(&x.t()?)
    };
    let (a, b) = (numbers(&[6, 3])?, numbers(&[6, 3])?.mul(2.0)?);
    let compiled = compile(f);
    std::thread::scope(|s| {
        let run = |x: &Tensor| -> Result<()> {
            let (want, x) = (f(x)?, there(x, gpu)?);
            for _ in 0..12 {
                assert_close(&here(&compiled.call(&x)?)?, &want)?;
            }
            Ok(())
        };
        let all = [&a, &b, &a].map(|x| s.spawn(move || run(x)));
        all.into_iter().try_for_each(|t| t.join().expect("it does not panic"))
    })
}

#[test]
fn a_device_of_its_own_has_graphs_of_its_own() -> Result<()> {
    let Some((_, _alone)) = gpu() else { return Ok(()) };
    if straightline::cuda::device_count() < 2 {
        return Ok(());
    }
    let f = |x: &Tensor| aten::dropout(&x.exp()?, 0.5, true)?.softmax(-1)?.matmul(&x.t()?);
    let draw = |device: Device, compiled: bool| -> Result<Vec<Tensor>> {
        let x = there(&numbers(&[4, 6])?, device)?;
        let g = compile(f);
        (0..5).map(|_| here(&if compiled { g.call(&x)? } else { f(&x)? })).collect()
    };
    for device in [0, 1].map(straightline::cuda::device) {
        manual_seed(2);
        let want = draw(device, false)?;
        manual_seed(2);
        for (got, want) in draw(device, true)?.iter().zip(&want) {
            assert_close(got, want)?;
        }
    }
    Ok(())
}
