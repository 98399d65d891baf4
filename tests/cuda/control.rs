//! Branches and loops of compiled functions on a GPU, and operators that no kernel computes.

use super::compiled::{here, there};
use super::{driver_calls, gpu};
use straightline::control_flow::{cond, map, scan, while_loop};
use straightline::ops::aten;
use straightline::{DType, Device, Result, Tensor, assert_close, compile, manual_seed, tensor};

#[test]
fn a_branch_is_chosen_by_data() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |x: &Tensor| {
        let y = x.exp()?.softmax(-1)?;
        let yes = |y: &Tensor| y.matmul(&y.t()?)?.gelu();
        let no = |y: &Tensor| y.mul(2.0)?.matmul(&y.t()?);
        let chosen = cond(&x.sum()?.gt(0.0)?, yes, no, &y)?;
        chosen.sum_dim([0])?.tanh()
    };
    let compiled = compile(f);
    let x = tensor([[1f32, -2.0, 3.0], [0.5, 0.25, -1.0]])?;
    let (x, minus) = (x.clone(), x.neg()?);
    let given = [(f(&x)?, there(&x, gpu)?), (f(&minus)?, there(&minus, gpu)?)];
    for round in 0..5 {
        for (want, x) in &given {
            assert_close(&here(&compiled.call(x)?)?, want)?;
        }
        assert_eq!(compiled.variants(), 1, "{round}");
    }
    Ok(())
}

#[test]
fn loops_carry_their_values() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let halves = |x: &Tensor| {
        let x = x.mul(1.5)?;
        while_loop(
            |x: &Tensor| x.sum()?.gt(1.0),
            |x: &Tensor| x.matmul(&x.t()?)?.softmax(-1)?.matmul(x)?.div(3.0),
            &x,
        )
    };
    let sums = |x: &Tensor| {
        let first = Tensor::with(x.device()).zeros([3])?;
        let step = |sum: &Tensor, row: &Tensor| {
            let next = sum.mul(0.5)?.add(row)?;
            let y = next.exp()?;
            Ok((next, y))
        };
        let (last, all) = scan(step, &first, x, 0, false)?;
        let each =
            map(|row: &Tensor, w: &Tensor| row.mul(w)?.softmax(0)?.cumsum(0), x, &first.add(2.0)?)?;
        all.add(&each)?.add(&last)
    };
    let x = tensor([[1f32, 2.0, 3.0], [0.5, 0.25, 1.0], [2.0, 0.125, 1.0]])?;
    let (a, b) = (halves(&x)?, sums(&x)?);
    let x = there(&x, gpu)?;
    let (halves, sums) = (compile(halves), compile(sums));
    for _ in 0..4 {
        assert_close(&here(&halves.call(&x)?)?, &a)?;
        assert_close(&here(&sums.call(&x)?)?, &b)?;
    }
    // what a loop calls again and again is a graph
    if let Some(before) = driver_calls("cuGraphLaunch") {
        halves.call(&x)?;
        assert!(driver_calls("cuGraphLaunch").is_some_and(|now| now > before));
    }
    Ok(())
}

#[test]
fn gradients_go_through_branches() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let train = |device: Device| -> Result<Vec<Vec<f32>>> {
        let w = tensor([0.5f32, -0.25, 1.0])?.to_device(device)?.requires_grad_(true)?;
        let step = {
            let w = w.clone();
            compile(move |x: &Tensor| {
                let y = x.mul(&w)?;
                cond(&y.sum()?.gt(0.0)?, |y| y.exp()?.sum(), |y| y.square()?.sum(), &y)
            })
        };
        let mut all = Vec::new();
        for scale in [1.0, -1.0, 2.0, -3.0] {
            let x = tensor([1f32, 2.0, 3.0])?.mul(scale)?.to_device(device)?;
            step.call(&x)?.backward()?;
            all.push(here(&w.grad().expect("a gradient"))?.to_vec::<f32>()?);
        }
        Ok(all)
    };
    let (want, got) = (train(Device::CPU)?, train(gpu)?);
    for (want, got) in want.iter().flatten().zip(got.iter().flatten()) {
        assert!((want - got).abs() <= 1e-5 * want.abs().max(1.0), "{got} {want}");
    }
    Ok(())
}

/// What fails in a branch has the line of the call there; what is drawn there is what eager code draws.
#[test]
fn branches_fail_and_draw_as_eager_ones_do() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |(x, at): (&Tensor, &Tensor)| {
        let yes = |(x, at): &(Tensor, Tensor)| x.index_select(0, at)?.softmax(-1);
        let no = |(x, _): &(Tensor, Tensor)| x.narrow(0, 0, 2)?.add(1.0);
        cond(&x.sum()?.gt(0.0)?, yes, no, (x, at))
    };
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
    let noisy = |x: &Tensor| {
        let draw = |x: &Tensor| aten::dropout(x, 0.5, true)?.exp();
        cond(&x.sum()?.gt(0.0)?, draw, |x| x.mul(2.0), x)
    };
    manual_seed(4);
    let want = (0..4).map(|_| here(&noisy(&x)?)).collect::<Result<Vec<_>>>()?;
    let compiled = compile(noisy);
    manual_seed(4);
    for want in &want {
        assert_close(&here(&compiled.call(&x)?)?, want)?;
    }
    Ok(())
}

/// Truth values without elements, and convolutions of integers.
#[test]
fn what_no_kernel_computes_is_made_of_operators() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let a = Tensor::with(DType::Bool).zeros([3, 0])?;
    let b = Tensor::with(DType::Bool).zeros([0, 5])?;
    let product = |(a, b): (&Tensor, &Tensor)| a.matmul(b)?.logical_not();
    let want = product((&a, &b))?;
    let (a, b) = (there(&a, gpu)?, there(&b, gpu)?);
    let compiled = compile(product);
    for _ in 0..4 {
        let got = compiled.call((&a, &b))?;
        assert_eq!(got.dtype(), DType::Bool);
        assert_close(&here(&got)?, &want)?;
    }
    let image = Tensor::arange(2 * 3 * 6 * 5)?.remainder(11)?.reshape([2, 3, 6, 5])?;
    let weight = Tensor::arange(4 * 3 * 3 * 3)?.remainder(5)?.reshape([4, 3, 3, 3])?;
    let bias = tensor([1i64, -2, 3, 4])?;
    let convolution = |(x, w, b): (&Tensor, &Tensor, &Tensor)| {
        let one = [1, 1];
        let y = aten::conv2d(x, w, Some(b), &one, &one, &one, 1)?;
        aten::relu(&y.sub(100)?)?.sum_dim([3])
    };
    let want = convolution((&image, &weight, &bias))?;
    let [image, weight, bias] = [&image, &weight, &bias].map(|t| there(t, gpu));
    let (image, weight, bias) = (image?, weight?, bias?);
    let compiled = compile(convolution);
    for _ in 0..4 {
        assert_close(&here(&compiled.call((&image, &weight, &bias))?)?, &want)?;
    }
    Ok(())
}
