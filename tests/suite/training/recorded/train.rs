//! A training, step by step.

use super::compare;
use super::facts::Run;
use super::models::{Forward, Program, Shared};
use super::optimizers::{self, Made};
use super::trouble::Trouble;
use super::{Mode, compiled_only};
use std::collections::HashMap;
use std::sync::Arc;
use straightline::nn::StateDict;
use straightline::optim::{clip_grad_norm_, get_total_norm};
use straightline::{DType, Result, Tensor, compile};

/// What a step gives: what is recorded as `out0`, the loss, and the norm of the gradients.
type Step = (Tensor, Tensor, Tensor);

/// A whole step.
fn step(forward: &Forward, made: &Made, net: &Shared, batch: &StateDict) -> Result<Step> {
    made.optimizer.zero_grad()?;
    let (out, loss) = forward(batch)?;
    loss.backward()?;
    let parameters = net.parameters();
    let norm = match made.clip {
        Some(most) => clip_grad_norm_(&parameters, most)?,
        None => {
            let grads: Vec<Tensor> = parameters.iter().filter_map(Tensor::grad).collect();
            get_total_norm(&grads, 2.0, false)?
        }
    };
    made.optimizer.step()?;
    Ok((out.detach()?, loss.detach()?, norm))
}

/// A run in one dtype and mode.
struct Training<'a> {
    run: &'a Run,
    dtype: DType,
    mode: Mode,
    program: Program,
}

/// Trains as the run did, and compares.
pub(super) fn follow(
    run: &Run,
    dtype: DType,
    mode: Mode,
    make: fn(&Run, DType) -> std::result::Result<Program, Trouble>,
) -> std::result::Result<(), Trouble> {
    let training = Training { run, dtype, mode, program: make(run, dtype)? };
    training.first()?;
    training.steps()
}

/// The loss of each step, and all parameters after the last one.
#[cfg(test)]
#[allow(dead_code, reason = "the tool shares this file, and has no tests of its own")]
pub(super) fn losses(
    run: &Run,
    dtype: DType,
    mode: Mode,
    make: fn(&Run, DType) -> std::result::Result<Program, Trouble>,
) -> std::result::Result<(Vec<f64>, Vec<Vec<f64>>), Trouble> {
    let training = Training { run, dtype, mode, program: make(run, dtype)? };
    let mut losses = Vec::new();
    training.train(|_, loss, _| {
        losses.push(loss);
        Ok(())
    })?;
    let last = training.program.net.parameters();
    Ok((losses, last.iter().map(compare::values).collect::<std::result::Result<_, _>>()?))
}

impl Training<'_> {
    fn recorded(&self, fact: &str) -> String {
        let bits = if self.dtype == DType::F64 { "f64" } else { "f32" };
        format!("{fact}_{bits}")
    }

    /// What is allowed, as recorded or, in `f64`, hardly anything.
    fn allowed(&self, key: &str) -> std::result::Result<f64, Trouble> {
        if self.dtype == DType::F64 { Ok(1e-10) } else { self.run.allowed(key) }
    }

    /// The gradients of the first step, before they are clipped; compiled, the backward pass is
    /// asked for outside of the function.
    fn first(&self) -> std::result::Result<(), Trouble> {
        let Program { net, forward } = &self.program;
        let batch = self.run.part("batch0.", self.dtype)?;
        let (out, loss) = match self.mode {
            Mode::Eager => forward(&batch)?,
            Mode::Compiled => {
                let forward = forward.clone();
                let f = compile(move |batch: &StateDict| forward(batch));
                let got = f.call(&batch)?;
                compiled_only(&f)?;
                got
            }
        };
        loss.backward()?;
        let out0 = self.run.tensor("out0")?;
        // recorded in f32, whatever this run is in
        let allowed = self.run.allowed("grad0_max_over_max")?;
        let of_largest = |largest: f64| (allowed * largest).max(1e-7);
        compare::tensor("the first output", &out, out0, of_largest)?;
        let mut recorded = self.run.part("grad0.", DType::F64)?;
        for (name, p) in net.named_parameters() {
            let at = format!("the first gradient of {name}");
            match (p.grad(), recorded.remove(&name)) {
                (None, None) => {}
                (Some(found), Some(expected)) => {
                    compare::tensor(&at, &found, &expected, |largest| {
                        // one that is zero in theory is rounding
                        if largest <= 1e-6 { 1e-6 } else { of_largest(largest) }
                    })?;
                }
                (found, _) => {
                    let has = if found.is_some() { "PyTorch has none" } else { "there is none" };
                    return Err(Trouble::Shape(format!("{at}: {has}")));
                }
            }
        }
        if let Some(name) = recorded.keys().next() {
            return Err(Trouble::Shape(format!("the model has no `{name}`")));
        }
        net.zero_grad()?;
        // a forward pass changes running statistics
        net.load_state_dict(&self.run.part("init.", self.dtype)?, true)?;
        Ok(())
    }

    /// All steps; `see` gets the number of each, the loss and the norm of the gradients.
    fn train(
        &self,
        mut see: impl FnMut(usize, f64, f64) -> std::result::Result<(), Trouble>,
    ) -> std::result::Result<Arc<Made>, Trouble> {
        let (run, Program { net, forward }) = (self.run, &self.program);
        let count = run.count("batches")?;
        let batches = (0..count).map(|i| run.part(&format!("batch{i}."), self.dtype));
        let batches: Vec<StateDict> = batches.collect::<std::result::Result<_, _>>()?;
        let made = Arc::new(optimizers::optimizer(run, net.parameters())?);
        let optimizer = made.optimizer.clone();
        let (own, parts) = (made.clone(), (net.clone(), forward.clone()));
        let f = compile(move |batch: &StateDict| step(&*parts.1, &own, &parts.0, batch));
        for (at, rates) in run.rates()?.iter().enumerate() {
            if rates.len() != optimizer.groups() {
                return Err(Trouble::Settings(format!(
                    "{} learning rates of {} groups",
                    rates.len(),
                    optimizer.groups()
                )));
            }
            for (group, rate) in rates.iter().enumerate() {
                optimizer.set_lr(group, *rate)?;
            }
            let batch = &batches[at % count];
            let (_, loss, norm) = match self.mode {
                Mode::Eager => f.eager(batch)?,
                Mode::Compiled => f.call(batch)?,
            };
            let one = |t: &Tensor| t.to_dtype(DType::F64)?.item::<f64>();
            see(at, one(&loss)?, one(&norm)?)?;
        }
        if self.mode == Mode::Compiled {
            compiled_only(&f)?;
        }
        Ok(made)
    }

    fn steps(&self) -> std::result::Result<(), Trouble> {
        let run = self.run;
        let losses = run.numbers(&self.recorded("loss"))?;
        let norms = run.numbers(&self.recorded("grad_norm"))?;
        let (rates, steps) = (run.rates()?, run.count("steps")?);
        if [losses.len(), norms.len(), rates.len()] != [steps; 3] {
            return Err(Trouble::Shape(format!(
                "{steps} steps, {} losses, {} norms and {} learning rates",
                losses.len(),
                norms.len(),
                rates.len()
            )));
        }
        let made = self.train(|at, loss, norm| {
            let key = if at == 0 { "loss_step0_rel" } else { "loss_max_rel" };
            let allowed = self.allowed(key)? * losses[at].abs();
            compare::number(|| format!("the loss of step {at}"), loss, losses[at], allowed)?;
            let allowed = run.allowed("grad0_max_over_max")?.max(1e-4) * norms[at];
            compare::number(|| format!("the norm of step {at}"), norm, norms[at], allowed)?;
            match at {
                0 => self.statistics("after_step1_f32", run.allowed("final_value_abs")?),
                _ => Ok(()),
            }
        })?;
        let absolute = self.allowed("final_value_abs")?;
        self.statistics(&self.recorded("final"), absolute)?;
        self.statistics(&self.recorded("final_buffers"), absolute)?;
        self.last_values()?;
        self.state(&made)
    }

    /// Parameters or buffers against their statistics.
    fn statistics(&self, key: &str, absolute: f64) -> std::result::Result<(), Trouble> {
        let state = self.program.net.state_dict()?;
        let same_dtype = key.ends_with("f64") == (self.dtype == DType::F64);
        let relative = match same_dtype {
            true => self.allowed("final_param_l2_rel")?,
            false => self.run.allowed("final_param_l2_rel")?,
        };
        for (name, expected) in self.run.statistics(key)? {
            let found = state.get(&name).ok_or_else(|| Trouble::Missing(name.clone()))?;
            compare::statistics(&format!("{name} of {key}"), found, &expected, relative, absolute)?;
        }
        Ok(())
    }

    /// All elements of what is small enough to be recorded.
    fn last_values(&self) -> std::result::Result<(), Trouble> {
        let state = self.program.net.state_dict()?;
        let allowed = self.run.allowed("final_value_abs")?;
        for (name, expected) in self.run.part("final.", DType::F64)? {
            let found = state.get(&name).ok_or_else(|| Trouble::Missing(name.clone()))?;
            compare::tensor(&format!("the last {name}"), found, &expected, |_| allowed)?;
        }
        Ok(())
    }

    /// The optimiser's state. What moves in it is not recorded: a part in 10,000, or as much as
    /// gradients may.
    fn state(&self, made: &Made) -> std::result::Result<(), Trouble> {
        let state = made.optimizer.state_dict()?;
        let parameters = made.optimizer.parameters();
        let place = |p: &Tensor| parameters.iter().position(|other| other.is_same(p));
        let named: HashMap<String, usize> = (self.program.net.named_parameters().into_iter())
            .filter_map(|(name, p)| Some((name, place(&p)?)))
            .collect();
        let relative = self.run.allowed("grad0_max_over_max")?.max(1e-4);
        for (parameter, name, expected) in self.run.state()? {
            let place = named.get(&parameter).ok_or_else(|| Trouble::Missing(parameter.clone()))?;
            let at = format!("{name} of {parameter}");
            let found = state.get(&format!("state.{place}.{name}"));
            let found = found.ok_or_else(|| Trouble::Missing(at.clone()))?;
            let absolute = relative * expected.l2.max(1e-3);
            compare::statistics(&at, found, &expected, relative, absolute)?;
        }
        Ok(())
    }
}
