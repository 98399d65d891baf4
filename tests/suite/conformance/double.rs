//! Second derivatives of recorded calls.
//!
//! PyTorch's vectors have first derivatives only. Of those, which are compared with PyTorch's, a weighted
//! sum is taken, in `f64`, and its derivative in one direction is compared with a central difference.
//! Compiled, the second derivatives are compared with those of eager code.

use super::case::Case;
use super::compare::{Tolerance, same_values};
use super::grads::{self, Leaves};
use super::run::Mode;
use straightline::autograd::{AutogradError, GradOptions, grad_with, no_grad};
use straightline::dispatch::{Value, operator};
use straightline::{CompileEvent, CompileOptions, DType, ErrorKind, Result, Tensor, compile_with};

/// What came of a case that does not differ.
pub(crate) enum Outcome {
    Agrees,
    /// There is nothing to compare, and why.
    Nothing(String),
}

/// The second derivatives of the case, in a mode that computes.
pub(crate) fn check(case: &Case, mode: Mode) -> Result<Outcome, String> {
    if let Some(why) = is_other(case) {
        return Ok(Outcome::Nothing(why.to_owned()));
    }
    let outcome = Double::of(case).map_err(|e| e.to_string())?.compare(mode);
    match outcome {
        Ok(outcome) => outcome,
        Err(e) => match e.kind() {
            // as the formula says: PyTorch has none either
            ErrorKind::Autograd(why) if matches!(**why, AutogradError::NotImplemented { .. }) => {
                Ok(Outcome::Nothing(e.to_string()))
            }
            ErrorKind::NotImplemented(why) if why.starts_with("the derivative for '") => {
                Ok(Outcome::Nothing(e.to_string()))
            }
            _ => Err(e.to_string()),
        },
    }
}

/// Why a case is not compared, where a rule is not the derivative.
fn is_other(case: &Case) -> Option<&'static str> {
    match case.op.as_str() {
        // the derivative of the gradient leaves `scale_grad_by_freq` out
        "aten::embedding" if matches!(case.stack.get(3), Some(Value::Bool(true))) => {
            Some("PyTorch's formula leaves out the scale")
        }
        "aten::cosine_embedding_loss" => Some("the target is compared with 1"),
        _ => None,
    }
}

/// Operators that read one triangle of a matrix, and whose formulas are those of symmetric ones.
const SYMMETRIC: [&str; 1] = ["aten::linalg_cholesky"];

/// Numbers between -1 and 1, others for another `by`.
fn wave(like: &Tensor, by: f64) -> Result<Tensor> {
    let n = straightline::arange(like.numel())?.to_dtype(DType::F64)?;
    n.add(1.0)?.mul(by)?.cos()?.reshape(like.sizes())
}

struct Double {
    op: String,
    stack: Vec<Value>,
    /// All tensors that are given, and then the gradients of the results.
    given: Vec<Tensor>,
    /// How many are arguments.
    arguments: usize,
    /// Which results have a gradient.
    roots: Vec<bool>,
    /// The places of those that are differentiated: real ones.
    variables: Vec<usize>,
}

impl Double {
    fn of(case: &Case) -> Result<Double, String> {
        let leaves = Leaves::of(case).map_err(|e| e.to_string())?;
        let mut given = leaves.given;
        let (arguments, mut roots) = (given.len(), Vec::new());
        let leads: Vec<bool> = given.iter().map(Tensor::requires_grad).collect();
        for g in grads::recorded(case)? {
            roots.push(g.is_some());
            given.extend(g);
        }
        let wide = |t: &Tensor| match t.dtype().is_floating() {
            true => t.detach()?.to_dtype(DType::F64),
            false => t.detach(),
        };
        let given = given.iter().map(wide).collect::<Result<Vec<_>>>();
        let given = given.map_err(|e| e.to_string())?;
        let real = |at: &usize| {
            given[*at].dtype() == DType::F64 && leads.get(*at).copied().unwrap_or(true)
        };
        let variables = (0..given.len()).filter(real).collect();
        let (op, stack) = (case.op.clone(), case.stack.clone());
        Ok(Double { op, stack, given, arguments, roots, variables })
    }

    /// The weighted sum of the first derivatives; none if nothing has one.
    fn first(&self, given: &[Tensor]) -> Result<Option<Tensor>> {
        let (arguments, cotangents) = given.split_at(self.arguments);
        let mut stack = grads::arguments_of(&self.op, &self.stack, arguments)?;
        operator(&self.op)?.call_boxed(&mut stack)?;
        let results = stack.iter().flat_map(Value::tensors);
        let pairs = results.zip(&self.roots).filter(|(_, root)| **root).map(|(t, _)| t);
        let pairs = pairs.zip(cotangents).filter(|(t, _)| t.requires_grad());
        let (outputs, grads): (Vec<Tensor>, Vec<Option<Tensor>>) =
            pairs.map(|(t, g)| (t.clone(), Some(g.clone()))).unzip();
        let inputs: Vec<Tensor> =
            arguments.iter().filter(|t| t.requires_grad() && t.is_leaf()).cloned().collect();
        if outputs.is_empty() {
            return Ok(None);
        }
        let options = GradOptions {
            grad_outputs: grads,
            create_graph: true,
            allow_unused: Some(true),
            ..GradOptions::default()
        };
        let mut total: Option<Tensor> = None;
        for (i, g) in grad_with(&outputs, &inputs, &options)?.into_iter().enumerate() {
            let Some(g) = g else { continue };
            let part = g.mul(wave(&g, 1.3 + i as f64)?)?.sum()?;
            total = Some(match total {
                Some(sum) => sum.add(part)?,
                None => part,
            });
        }
        Ok(total)
    }

    /// Fresh leaves.
    fn leaves(&self, moved: impl Fn(usize, &Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
        let each = |(at, t): (usize, &Tensor)| {
            let t = moved(at, t)?.detach()?;
            if self.variables.contains(&at) { t.requires_grad_(true) } else { Ok(t) }
        };
        self.given.iter().enumerate().map(each).collect()
    }

    /// The second derivatives; none where nothing depends on the variables.
    fn second(&self, given: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let Some(first) = self.first(given)? else { return Ok(None) };
        if !first.requires_grad() {
            return Ok(None);
        }
        let variables: Vec<Tensor> = self.variables.iter().map(|at| given[*at].clone()).collect();
        let options = GradOptions { materialize_grads: true, ..GradOptions::default() };
        let grads = grad_with(&[first], &variables, &options)?;
        Ok(Some(grads.into_iter().flatten().collect()))
    }

    /// Whether a result has fewer bits than the operands.
    fn is_narrow(&self) -> Result<bool> {
        let leaves = no_grad(|| self.leaves(|_, t| Ok(t.clone())))?;
        let mut stack = grads::arguments_of(&self.op, &self.stack, &leaves[..self.arguments])?;
        no_grad(|| operator(&self.op)?.call_boxed(&mut stack))?;
        let narrow = |t: &Tensor| t.dtype().is_floating() && t.dtype() != DType::F64;
        Ok(stack.iter().flat_map(Value::tensors).any(narrow))
    }

    fn compare(self, mode: Mode) -> Result<Result<Outcome, String>> {
        let nothing = |why: &str| Ok(Ok(Outcome::Nothing(why.to_owned())));
        let leaves = self.leaves(|_, t| Ok(t.clone()))?;
        let Some(second) = self.second(&leaves)? else { return nothing("nothing to derive") };
        if mode == Mode::Compiled {
            return self.compiled(&second);
        }
        if self.is_narrow()? {
            return nothing("the result is narrower than f64");
        }
        let symmetric = SYMMETRIC.iter().any(|op| self.op.starts_with(op));
        let matrix = &self.given[0];
        if symmetric && !matrix.eq(matrix.transpose(-2, -1)?)?.all()?.item::<bool>()? {
            return nothing("the matrix is not symmetric");
        }
        let direction = |at: usize, t: &Tensor| -> Result<Tensor> {
            let straight = wave(t, 0.7 + at as f64)?;
            if !symmetric || t.dim() < 2 {
                return Ok(straight);
            }
            straight.add(straight.transpose(-2, -1)?)
        };
        let mut found = 0.0;
        for (at, g) in self.variables.iter().zip(&second) {
            found += g.detach()?.mul(direction(*at, g)?)?.sum()?.item::<f64>()?;
        }
        let at = |by: f64| {
            let moved = |at: usize, t: &Tensor| match self.variables.contains(&at) {
                true => t.add(direction(at, t)?.mul(by)?),
                false => Ok(t.clone()),
            };
            let leaves = no_grad(|| self.leaves(moved))?;
            self.first(&leaves)?.map_or(Ok(0.0), |s| s.detach()?.item::<f64>())
        };
        let here = at(0.0)?;
        // the slope, and how far the value here is off the line through both
        let difference = |step: f64| {
            let (before, after) = (at(-step)?, at(step)?);
            let (slope, bend) = ((after - before) / (2.0 * step), before + after - 2.0 * here);
            Ok::<(f64, f64), straightline::Error>((slope, bend.abs()))
        };
        let ((coarse, far), (fine, near)) = (difference(1e-4)?, difference(5e-5)?);
        if !(found.is_finite() && coarse.is_finite() && fine.is_finite()) {
            return nothing("not finite");
        }
        let scale = 1.0 + found.abs().max(fine.abs());
        // a bend is a quarter at half the distance, unless there is a corner or a jump
        if (coarse - fine).abs() > 1e-4 * scale || near > 0.4 * far + 1e-9 * scale {
            return nothing("not smooth here");
        }
        let off = (found - fine).abs();
        Ok(match off <= 2e-4 * scale {
            true => Ok(Outcome::Agrees),
            false => Err(format!("the second derivative is {found}, the difference {fine}")),
        })
    }

    fn compiled(self, eager: &[Tensor]) -> Result<Result<Outcome, String>> {
        let leaves = self.leaves(|_, t| Ok(t.clone()))?;
        let options = CompileOptions { eager_fallback: true, ..CompileOptions::default() };
        let f = compile_with(options, move |given: &Vec<Tensor>| {
            Ok(self.second(given)?.unwrap_or_default())
        });
        let got = f.call(&leaves)?;
        for e in &f.events() {
            if let CompileEvent::EagerFallback { reason } = e {
                return Ok(Ok(Outcome::Nothing(format!("runs eagerly: {reason}"))));
            }
        }
        if got.len() != eager.len() {
            return Ok(Err(format!("{} second derivatives, eagerly {}", got.len(), eager.len())));
        }
        for (i, (got, want)) in got.iter().zip(eager).enumerate() {
            let (got, want) = (got.detach()?, want.detach()?);
            let same = same_values(&got, &want, Tolerance::coarse(&want));
            if let Err(e) = same {
                return Ok(Err(format!("second derivative {i}: {e}")));
            }
        }
        Ok(Ok(Outcome::Agrees))
    }
}
