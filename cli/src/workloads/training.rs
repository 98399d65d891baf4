//! W11: steps of trainings. Whole ones are compiled: forward, loss, backward, and the update.

use super::data::{ids, uniform};
use super::networks::{Mlp, gpt_weight};
use super::program::{Built, function, training};
use super::workload::{SUMS, Workload};
use straightline::autograd::no_grad;
use straightline::nn::Module;
use straightline::optim::{Optimizer, Sgd};
use straightline::{Result, Tensor};
use straightline_models::minigpt::{Config, MiniGpt};

/// The losses that are compared with those of other programs.
const LOSSES: usize = 10;
const RATE: f64 = 0.05;

/// `mean((f(x) - t)^2)`, its gradients, and `w -= 0.05 grad`.
fn mlp(batch: i64, width: i64) -> Built {
    let mut parameters = Vec::new();
    let mlp = Mlp::made_up(width, |w| {
        parameters.push(w.requires_grad_(true)?);
        Ok(w)
    })?;
    let data = |name| uniform(&format!("w5.h{width}.{name}"), &[batch, width], 1.0, 0.0);
    let initial: Vec<Tensor> =
        parameters.iter().map(|p| p.detach()?.copied()).collect::<Result<_>>()?;
    let optimizer = Sgd::new(parameters.clone(), RATE)?;
    let start = move || {
        no_grad(|| {
            for (p, initial) in parameters.iter().zip(&initial) {
                p.copy_(initial)?;
            }
            Ok(())
        })
    };
    training((data("x")?, data("t")?), LOSSES, start, move |(x, t): &(Tensor, Tensor)| {
        optimizer.zero_grad()?;
        let loss = mlp.forward(x)?.mse_loss(t)?;
        loss.backward()?;
        optimizer.step()?;
        loss.detach()
    })
}

/// The mean cross-entropy and its gradients; of these the embeddings' is compared.
fn minigpt(batch: i64) -> Built {
    let gpt = MiniGpt::load(Config::SMALL, &mut gpt_weight)?;
    gpt.requires_grad_(true)?;
    let data = |name| ids(name, &[batch, 16], 0, 600);
    let inputs = (data("w6.tok")?, data("w6.tgt")?);
    function(inputs, move |(tokens, targets): &(Tensor, Tensor)| {
        gpt.zero_grad()?;
        let loss = gpt.loss(tokens, targets)?;
        loss.backward()?;
        Ok((loss.detach()?, gpt.embeddings().grad()))
    })
}

pub(super) fn workloads() -> Vec<Workload> {
    let mut suite = Vec::new();
    for (batch, width) in [(8, 256), (64, 1024)] {
        let name = format!("w11.train_mlp_{batch}x{width}");
        suite.push(Workload::new(name, SUMS, move |_| mlp(batch, width)));
    }
    suite.push(Workload::new("w11.train_minigpt_b8", SUMS, |_| minigpt(8)));
    suite
}
