//! The gradient of each sample of a batch, and an ensemble of models as one: `vmap` of `grad`.
//!
//! ```sh
//! cargo run --example per_sample_gradients
//! ```

use std::collections::BTreeMap;
use straightline::func::{grad, stack_parameters, vmap};
use straightline::{Result, Tensor, assert_close, manual_seed, randint, randn};

type Parameters = BTreeMap<String, Tensor>;

/// A classifier of two layers.
fn model(p: &Parameters, x: &Tensor) -> Result<Tensor> {
    let hidden = x.matmul(&p["w1"])?.add(&p["b1"])?.tanh()?;
    hidden.matmul(&p["w2"])?.add(&p["b2"])
}

fn parameters() -> Result<Parameters> {
    Ok(BTreeMap::from([
        ("w1".into(), randn([5, 8])?),
        ("b1".into(), randn([8])?),
        ("w2".into(), randn([8, 3])?),
        ("b2".into(), randn([3])?),
    ]))
}

/// The cross entropy of one sample.
fn loss(p: &Parameters, x: &Tensor, label: &Tensor) -> Result<Tensor> {
    let scores = model(p, x)?.log_softmax(0)?;
    scores.gather(0, label.unsqueeze(0)?)?.neg()?.sum()
}

fn main() -> Result<()> {
    manual_seed(0);
    let (x, labels) = (randn([16, 5])?, randint(0, 3, [16])?);
    let p = parameters()?;

    // all gradients at once: the parameters are closed over, the samples are mapped
    let of_sample = |(x, label): &(Tensor, Tensor)| grad(|p: &Parameters| loss(p, x, label))(&p);
    let gradients = vmap(of_sample)(&(x.clone(), labels.clone()))?;
    for i in 0..16 {
        let alone = of_sample(&(x.select(0, i)?, labels.select(0, i)?))?;
        for (name, g) in &alone {
            assert_close(&gradients[name].select(0, i)?, g)?;
        }
    }
    let flat = gradients["w1"].view([16, -1])?;
    let norms = flat.mul(&flat)?.sum_dim(1)?.sqrt()?;
    println!("norms of the gradients of w1: {:?}", norms.to_vec::<f32>()?);

    // three models in one call
    let models = [parameters()?, parameters()?, parameters()?];
    let outputs = vmap(|p: &Parameters| model(p, &x))(&stack_parameters(&models)?)?;
    for (i, p) in models.iter().enumerate() {
        assert_close(&outputs.select(0, i as i64)?, &model(p, &x)?)?;
    }
    println!("the ensemble's outputs: {:?}", outputs.sizes());
    Ok(())
}
