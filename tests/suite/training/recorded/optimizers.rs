//! The optimiser of a run, by its settings.

use super::facts::{Run, number, numbers};
use super::trouble::Trouble;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use straightline::Tensor;
use straightline::optim::{
    AdagradOptions, AdamOptions, AdamWOptions, Optim, Optimizer, RmsPropOptions, Rule, SgdOptions,
};

pub(super) type Shared = Arc<dyn Optimizer + Send + Sync>;

/// An optimiser, and the norm that gradients are clipped to.
pub(super) struct Made {
    pub(super) optimizer: Shared,
    pub(super) clip: Option<f64>,
}

/// How much each parameter decays.
enum Decay {
    All(f64),
    /// Parameters of so many dimensions, and the others.
    By {
        dims: usize,
        above: f64,
        below: f64,
    },
}

/// Settings by name; each has to be asked for.
struct Settings<'a> {
    all: &'a Map<String, Value>,
    left: BTreeSet<&'a str>,
}

impl<'a> Settings<'a> {
    fn take(&mut self, key: &str) -> Option<&'a Value> {
        self.left.remove(key);
        self.all.get(key).filter(|v| !v.is_null())
    }

    /// A number, or what PyTorch takes for it.
    fn number(&mut self, key: &str, default: f64) -> Result<f64, Trouble> {
        self.take(key).map_or(Ok(default), |v| number(key, v))
    }

    fn flag(&mut self, key: &str) -> Result<bool, Trouble> {
        let Some(value) = self.take(key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| Trouble::malformed(key, value, "true or false"))
    }

    fn betas(&mut self) -> Result<(f64, f64), Trouble> {
        let Some(value) = self.take("betas") else { return Ok((0.9, 0.999)) };
        match numbers("betas", value)?[..] {
            [a, b] => Ok((a, b)),
            _ => Err(Trouble::malformed("betas", value, "two numbers")),
        }
    }

    /// A number, or `0.1 for dim>=2 else 0`.
    fn decay(&mut self, default: f64) -> Result<Decay, Trouble> {
        let Some(value) = self.take("weight_decay") else { return Ok(Decay::All(default)) };
        if let Ok(all) = number("weight_decay", value) {
            return Ok(Decay::All(all));
        }
        let words: Vec<&str> = value.as_str().unwrap_or("").split_whitespace().collect();
        let by = match words[..] {
            [above, "for", dims, "else", below] => (|| {
                let dims = dims.strip_prefix("dim>=")?.parse().ok()?;
                Some(Decay::By { dims, above: above.parse().ok()?, below: below.parse().ok()? })
            })(),
            _ => None,
        };
        by.ok_or_else(|| Trouble::malformed("weight_decay", value, "`X for dim>=N else Y`"))
    }

    /// That nothing is left that would change the rule.
    fn finish(&mut self) -> Result<(), Trouble> {
        // how PyTorch computes a step, not what
        for how in ["foreach", "fused", "capturable", "differentiable"] {
            self.left.remove(how);
        }
        match self.left.first() {
            None => Ok(()),
            Some(key) => Err(Trouble::Settings(format!("`{key}` is not known"))),
        }
    }
}

fn grouped<R>(
    parameters: Vec<Tensor>,
    decay: &Decay,
    options: impl Fn(f64) -> R,
) -> Result<Shared, Trouble>
where
    R: Rule + Send + Sync + 'static,
{
    Ok(match *decay {
        Decay::All(decay) => Arc::new(Optim::<R>::new(parameters, options(decay))?),
        Decay::By { dims, above, below } => {
            let (first, others): (Vec<_>, Vec<_>) =
                parameters.into_iter().partition(|p| p.dim() >= dims);
            let mut optimizer = Optim::<R>::new(first, options(above))?;
            optimizer.add_group(others, options(below))?;
            Arc::new(optimizer)
        }
    })
}

/// The run's optimiser of these parameters.
pub(super) fn optimizer(run: &Run, parameters: Vec<Tensor>) -> Result<Made, Trouble> {
    let all = run.object("optimizer")?;
    let mut s = Settings { all, left: all.keys().map(String::as_str).collect() };
    let name = s.take("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| Trouble::Missing("optimizer.name".into()))?;
    let clip = match s.take("clip_grad_norm") {
        Some(value) => Some(number("clip_grad_norm", value)?),
        None => None,
    };
    let maximize = s.flag("maximize")?;
    let optimizer = match name {
        "SGD" => {
            let options = SgdOptions::default()
                .lr(s.number("lr", 1e-3)?)
                .momentum(s.number("momentum", 0.0)?)
                .dampening(s.number("dampening", 0.0)?)
                .nesterov(s.flag("nesterov")?)
                .maximize(maximize);
            grouped(parameters, &s.decay(0.0)?, |d| options.weight_decay(d))
        }
        "Adam" | "AdamW" => {
            let (lr, eps, betas) = (s.number("lr", 1e-3)?, s.number("eps", 1e-8)?, s.betas()?);
            let amsgrad = s.flag("amsgrad")?;
            if s.flag("decoupled_weight_decay")? || name == "AdamW" {
                let options = AdamWOptions::default().lr(lr).betas(betas.0, betas.1).eps(eps);
                let options = options.amsgrad(amsgrad).maximize(maximize);
                let default = if name == "AdamW" { 0.01 } else { 0.0 };
                grouped(parameters, &s.decay(default)?, |d| options.weight_decay(d))
            } else {
                let options = AdamOptions::default().lr(lr).betas(betas.0, betas.1).eps(eps);
                let options = options.amsgrad(amsgrad).maximize(maximize);
                grouped(parameters, &s.decay(0.0)?, |d| options.weight_decay(d))
            }
        }
        "RMSprop" => {
            let options = RmsPropOptions::default()
                .lr(s.number("lr", 1e-2)?)
                .alpha(s.number("alpha", 0.99)?)
                .eps(s.number("eps", 1e-8)?)
                .momentum(s.number("momentum", 0.0)?)
                .centered(s.flag("centered")?)
                .maximize(maximize);
            grouped(parameters, &s.decay(0.0)?, |d| options.weight_decay(d))
        }
        "Adagrad" => {
            let options = AdagradOptions::default()
                .lr(s.number("lr", 1e-2)?)
                .lr_decay(s.number("lr_decay", 0.0)?)
                .initial_accumulator_value(s.number("initial_accumulator_value", 0.0)?)
                .eps(s.number("eps", 1e-10)?)
                .maximize(maximize);
            grouped(parameters, &s.decay(0.0)?, |d| options.weight_decay(d))
        }
        other => return Err(Trouble::Settings(format!("no optimiser is called `{other}`"))),
    }?;
    s.finish()?;
    Ok(Made { optimizer, clip })
}
