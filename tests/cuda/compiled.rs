//! `compile()` of functions on tensors of a GPU.

use super::{driver_calls, gpu};
use straightline::nn::{Linear, Module};
use straightline::optim::{AdamW, Optimizer};
use straightline::{
    DType, Device, Result, Tensor, assert_close, compile, dispatch, manual_seed, tensor,
};

pub(super) fn there(t: &Tensor, gpu: Device) -> Result<Tensor> {
    t.to_device(gpu)
}

pub(super) fn here(t: &Tensor) -> Result<Tensor> {
    t.to_device(Device::CPU)
}

/// Kernels and products, again and again: the first run is queued, the second one recorded, the others
/// are launches of a graph. None but the capture makes a call.
#[test]
fn kernels_and_products_replay_without_calls() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    manual_seed(1);
    let f = |(x, w, b): (&Tensor, &Tensor, &Tensor)| {
        x.matmul(w)?.add(b)?.gelu()?.softmax(-1)?.sum_dim([0])
    };
    let (x, w, b) = (Tensor::randn([7, 20])?, Tensor::randn([20, 33])?, Tensor::randn([33])?);
    let want = f((&x, &w, &b))?;
    let (x, w, b) = (there(&x, gpu)?, there(&w, gpu)?, there(&b, gpu)?);
    let compiled = compile(f);
    assert_close(&here(&compiled.call((&x, &w, &b))?)?, &want)?;
    let calls = dispatch::call_count();
    let results = (0..6).map(|_| compiled.call((&x, &w, &b))).collect::<Result<Vec<_>>>()?;
    for _ in 0..6 {
        compiled.call((&x, &w, &b))?;
    }
    assert_eq!(dispatch::call_count(), calls);
    // one after the other in the same places: one launch each
    let before = ["cuLaunchKernel", "cuGraphLaunch"].map(driver_calls);
    for _ in 0..10 {
        compiled.call((&x, &w, &b))?;
    }
    if let [Some(launches), Some(graphs)] = before {
        assert_eq!(driver_calls("cuLaunchKernel"), Some(launches));
        assert_eq!(driver_calls("cuGraphLaunch"), Some(graphs + 10));
    }
    for r in results {
        assert_eq!(r.device(), gpu);
        assert_close(&here(&r)?, &want)?;
    }
    Ok(())
}

/// Rows that as many threads share run one binary.
#[test]
fn sizes_share_programs() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = compile(|x: &Tensor| x.exp()?.log_softmax(1));
    for (n, codes) in [(40, 1), (41, 1), (50, 1), (63, 1), (77, 2), (101, 2), (127, 2)] {
        let x = Tensor::arange(3 * n)?.to_dtype(DType::F32)?.mul(0.01)?.sin()?.reshape([3, n])?;
        let want = x.exp()?.log_softmax(1)?;
        assert_close(&here(&f.call(&there(&x, gpu)?)?)?, &want)?;
        assert_eq!(f.codes(), codes, "{n}");
    }
    Ok(())
}

#[test]
fn arguments_are_written_in_place() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let state = Tensor::with(gpu).zeros([4])?;
    let count = Tensor::zeros(())?;
    let f = {
        let (state, count) = (state.clone(), count.clone());
        compile(move |x: &Tensor| {
            x.mul_(2.0)?;
            state.add_(x)?;
            count.add_(1.0)?;
            state.t()?.mul(&count)
        })
    };
    let x = Tensor::with(gpu).ones([4])?;
    let mut last = None;
    for _ in 0..4 {
        last = Some(f.call(&x)?);
    }
    assert_eq!(here(&x)?.to_vec::<f32>()?, [16.0; 4]);
    assert_eq!(here(&state)?.to_vec::<f32>()?, [30.0; 4]);
    // a number on the CPU is read and written there
    assert_eq!((count.device(), count.item::<f32>()?), (Device::CPU, 4.0));
    assert_eq!(here(&last.expect("called"))?.to_vec::<f32>()?, [120.0; 4]);
    Ok(())
}

#[test]
fn operators_without_loops_are_called() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |x: &Tensor| {
        let (values, order) = x.mul(3.0)?.sort(-1, true)?;
        values.add(&order)?.cumsum(-1)
    };
    let x = tensor([[3f32, 1.0, 2.0], [9.0, 8.0, 7.0]])?;
    let want = f(&x)?;
    let compiled = compile(f);
    for _ in 0..3 {
        assert_close(&here(&compiled.call(&there(&x, gpu)?)?)?, &want)?;
    }
    Ok(())
}

#[test]
fn an_index_out_of_range_is_the_eager_error() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |(x, at): (&Tensor, &Tensor)| x.mul(2.0)?.index_select(0, at)?.softmax(-1);
    let compiled = compile(f);
    let x = Tensor::with(gpu).ones([5, 3])?;
    let good = there(&tensor([0i64, 4])?, gpu)?;
    let bad = there(&tensor([0i64, 5])?, gpu)?;
    for _ in 0..3 {
        compiled.call((&x, &good))?;
        let e = compiled.call((&x, &bad)).unwrap_err();
        let eager = f((&here(&x)?, &here(&bad)?)).unwrap_err();
        let line = |e: &straightline::Error| {
            e.to_string().lines().next().map(|line| line.replace("@cuda:0", ""))
        };
        assert_eq!(line(&e), line(&eager));
    }
    compiled.call((&x, &good))?;
    Ok(())
}

#[test]
fn a_function_on_several_devices_is_refused_by_name() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = compile(|x: &Tensor| x.to_device(Device::CPU)?.add(1.0));
    let e = f.call(&Tensor::with(gpu).ones([3])?).unwrap_err();
    assert!(e.to_string().contains("one device"), "{e}");
    Ok(())
}

/// Forward, backward and the optimiser, captured as one function.
#[test]
fn a_training_step() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let train = |device: Device, compiled: bool| -> Result<Vec<f32>> {
        manual_seed(3);
        let (first, second) = (Linear::new(5, 16)?, Linear::new(16, 2)?);
        let (x, y) = (Tensor::randn([12, 5])?, Tensor::randn([12, 2])?);
        let all: Vec<Tensor> = [first.parameters(), second.parameters()].concat();
        let all = all.into_iter().map(|p| p.detach()?.to_device(device)?.requires_grad_(true));
        let all = all.collect::<Result<Vec<_>>>()?;
        let (x, y) = (x.to_device(device)?, y.to_device(device)?);
        let [w, b, v, c] = [0, 1, 2, 3].map(|i| all[i].clone());
        let optimizer = AdamW::new(all, 0.01)?;
        let step = move |(x, y): (&Tensor, &Tensor)| {
            let hidden = x.matmul(&w.t()?)?.add(&b)?.gelu()?;
            let loss = hidden.matmul(&v.t()?)?.add(&c)?.sub(y)?.square()?.mean()?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            loss.detach()
        };
        let mut losses = Vec::new();
        let run = compile(step);
        for _ in 0..6 {
            let loss = match compiled {
                true => run.call((&x, &y))?,
                false => run.eager((&x, &y))?,
            };
            losses.push(here(&loss)?.item::<f32>()?);
        }
        Ok(losses)
    };
    let want = train(Device::CPU, false)?;
    for compiled in [false, true] {
        for (a, b) in train(gpu, compiled)?.iter().zip(&want) {
            assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{a} {b} {compiled}");
        }
    }
    assert!(want[5] < want[0]);
    Ok(())
}
