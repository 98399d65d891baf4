//! Modules as functions of their parameters, and the options of normalisations.

use straightline::func::{
    FunctionalOptions, functional_call, functional_call_with, grad, hessian, stack_module_state,
    vmap,
};
use straightline::nn::{
    BatchNorm1d, BatchNormOptions, InstanceNorm, Layer, LayerNorm, Linear, Module, Sequential,
    StateDict, Tanh,
};
use straightline::ops::aten;
use straightline::optim::{
    AdagradOptions, AdamOptions, AdamWOptions, Optim, Optimizer, RmsPropOptions, Rule,
};
use straightline::{DType, Result, Tensor, assert_close, ones, randn, tensor, zeros};

fn refused<T>(outcome: Result<T>, words: &str) {
    let text = outcome.map(drop).unwrap_err().to_string();
    assert!(text.contains(words), "`{text}` does not say `{words}`");
}

#[test]
fn a_module_is_a_function_of_its_parameters() -> Result<()> {
    let net = Sequential::new().add(Linear::new(3, 4)?).add(Tanh).add(Linear::new(4, 1)?);
    let parameters: StateDict = net.named_parameters().into_iter().collect();
    let loss =
        |p: &StateDict, x: &Tensor| functional_call(&net, p, |net| net.forward(x)?.square()?.sum());
    let x = randn([5, 3])?;
    let g = grad(|p: &StateDict| loss(p, &x))(&net.state_dict()?)?;
    loss(&parameters, &x)?.backward()?;
    for (name, p) in &parameters {
        assert_close(&g[name], &p.grad().unwrap())?;
    }
    let own = net.state_dict()?;
    let samples = vmap(|x: &Tensor| grad(|p: &StateDict| loss(p, x))(&own))(&x)?;
    for (name, p) in &parameters {
        assert_eq!(samples[name].size(0)?, 5);
        assert_close(&samples[name].sum_dim(0)?, &p.grad().unwrap())?;
    }
    let second = hessian(|w: &Tensor| loss(&StateDict::from([("2.weight".into(), w.clone())]), &x));
    assert_eq!(second(&own["2.weight"])?.sizes(), [1, 4, 1, 4]);
    Ok(())
}

#[test]
fn what_is_missing_is_the_modules_own() -> Result<()> {
    let l = Linear::new(2, 2)?;
    let given = StateDict::from([("weight".into(), zeros([2, 2])?), ("x".into(), ones([2])?)]);
    let y = functional_call(&l, &given, |l| l.forward(&ones([2])?))?;
    assert_close(&y, l.bias.as_ref().unwrap())?;
    let strict = FunctionalOptions { strict: true, ..FunctionalOptions::default() };
    refused(
        functional_call_with(&l, &given, &strict, |l| l.forward(&ones([2])?)),
        "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'x'.\n\tMissing key(s): 'bias'.",
    );
    let norm = BatchNorm1d::new(2)?;
    let mean = zeros([2])?;
    let given = StateDict::from([("running_mean".into(), mean.clone())]);
    functional_call(&norm, &given, |n| n.forward(&ones([3, 2])?))?;
    assert_close(&mean, &tensor([0.1, 0.1])?)?;
    assert_close(norm.running_mean().unwrap(), &zeros([2])?)?;
    Ok(())
}

#[derive(Clone, straightline::nn::Module)]
struct Tied {
    a: Linear,
    b: Linear,
}

#[test]
fn tied_parameters_are_replaced_together() -> Result<()> {
    let mut net = Tied { a: Linear::without_bias(2, 2)?, b: Linear::without_bias(2, 2)? };
    net.b.weight = net.a.weight.clone();
    let run = |net: &Tied| {
        let x = ones([2])?;
        net.a.forward(&x)?.add(net.b.forward(&x)?.mul(10)?)
    };
    let one = StateDict::from([("a.weight".into(), ones([2, 2])?)]);
    assert_close(&functional_call(&net, &one, run)?, &tensor([22.0, 22.0])?)?;
    let apart = FunctionalOptions { tie_weights: false, ..FunctionalOptions::default() };
    let y = functional_call_with(&net, &one, &apart, run)?;
    let own = net.b.forward(&ones([2])?)?.mul(10)?.add(2)?;
    assert_close(&y, &own)?;
    let two =
        StateDict::from([("a.weight".into(), ones([2, 2])?), ("b.weight".into(), zeros([2, 2])?)]);
    refused(
        functional_call(&net, &two, run),
        "functional_call got multiple values for keys ['a.weight', 'b.weight'], which are tied. Consider using tie_weights=False",
    );
    Ok(())
}

#[test]
fn an_ensemble_is_stacked() -> Result<()> {
    let models = [BatchNorm1d::new(2)?, BatchNorm1d::new(2)?];
    let (p, b) = stack_module_state(&models)?;
    assert_eq!(p["weight"].sizes(), [2, 2]);
    assert!(p["weight"].requires_grad() && p["weight"].is_leaf());
    assert_eq!(b["num_batches_tracked"].sizes(), [2]);
    let mut other = BatchNorm1d::new(2)?;
    other.eval();
    refused(stack_module_state(&[models[0].clone(), other]), "the same training/eval mode.");
    refused(stack_module_state::<Linear>(&[]), "Expected at least one model, got 0.");
    Ok(())
}

#[test]
fn one_value_has_no_variance() -> Result<()> {
    let norm = BatchNorm1d::new(2)?;
    let words =
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 2])";
    refused(norm.forward(&ones([1, 2])?), words);
    assert_close(norm.running_var().unwrap(), &ones([2])?)?;
    let words =
        "Expected more than 1 spatial element when training, got input size torch.Size([1, 3, 1])";
    refused(InstanceNorm::new().forward(&ones([1, 3, 1])?), words);
    let mut norm = norm;
    norm.eval();
    norm.forward(&ones([1, 2])?)?;
    Ok(())
}

#[test]
fn statistics_that_all_samples_share_are_not_written() -> Result<()> {
    let norm = BatchNorm1d::new(3)?;
    let words = "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, \
                 were not batched.";
    let x = randn([2, 4, 3])?;
    refused(vmap(|x: &Tensor| norm.forward(x))(&x), words);
    assert_close(norm.running_mean().unwrap(), &zeros([3])?)?;
    let options = BatchNormOptions { track_running_stats: false, ..BatchNormOptions::default() };
    let norm = BatchNorm1d::with_options(3, options)?;
    let got = vmap(|x: &Tensor| norm.forward(x))(&x)?;
    assert_close(&got.select(0, 1)?, &norm.forward(&x.select(0, 1)?)?)?;
    let mut judge = norm.clone();
    judge.eval();
    assert_close(&judge.forward(&x.select(0, 1)?)?, &got.select(0, 1)?)?;
    Ok(())
}

#[test]
fn all_batches_count_alike_without_a_momentum() -> Result<()> {
    let options = BatchNormOptions { momentum: None, affine: false, ..BatchNormOptions::default() };
    let norm = BatchNorm1d::with_options(1, options)?;
    assert!(norm.parameters().is_empty());
    for mean in [1.0, 2.0, 6.0] {
        norm.forward(&tensor([[mean - 1.0], [mean + 1.0]])?)?;
    }
    assert_close(norm.running_mean().unwrap(), &tensor([3.0])?)?;
    assert_close(norm.running_var().unwrap(), &tensor([2.0])?)?;
    let plain = LayerNorm::without_affine(4, 1e-5);
    let x = randn([3, 4])?;
    assert_close(&plain.forward(&x)?, &LayerNorm::new(4)?.forward(&x)?)?;
    Ok(())
}

/// Three steps of 0.1 down `|c - 3|^2` from 1+1j and 2-1j.
fn complex_steps<R: Rule>(options: R) -> Result<Vec<f32>> {
    let pairs = tensor([[1.0f32, 1.0], [2.0, -1.0]])?;
    let c = aten::view_as_complex(&pairs)?.detach()?.requires_grad_(true)?;
    assert_eq!(c.dtype(), DType::C64);
    let optimizer = Optim::<R>::new([c.clone()], options)?;
    for _ in 0..3 {
        optimizer.zero_grad()?;
        c.sub(3.0)?.abs()?.square()?.sum()?.backward()?;
        optimizer.step()?;
    }
    aten::view_as_real(&c.detach()?)?.contiguous()?.view(-1)?.to_vec()
}

#[track_caller]
fn near(got: &[f32], want: [f32; 4]) {
    let near = got.iter().zip(want).all(|(g, w)| (g - w).abs() < 2e-4);
    assert!(near, "{got:?}, not {want:?}");
}

#[test]
fn complex_parameters_are_pairs_of_numbers() -> Result<()> {
    // what PyTorch 2.15 gives
    near(&complex_steps(AdamOptions::from(0.1))?, [1.2994, 0.7016, 2.2984, -0.7016]);
    near(&complex_steps(RmsPropOptions::from(0.1))?, [2.6903, 0.0, 3.0, 0.0]);
    near(&complex_steps(AdagradOptions::from(0.1))?, [1.2242, 0.7805, 2.2195, -0.7805]);
    let options = AdamWOptions::default().lr(0.1).amsgrad(true);
    near(&complex_steps::<AdamWOptions>(options)?[..2], [1.2961, 0.6989, 0.0, 0.0]);
    Ok(())
}
