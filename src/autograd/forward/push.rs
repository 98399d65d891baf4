//! The autograd kernel's part: from the tangents of a call's operands to those of its results.

use super::super::graph;
use super::super::rule::{
    Backward, Form, Forward, Grads, InputGrads, Push, Rule, Save, Saved, Sum, Tangents, What,
};
use super::super::saved::{self, old_value};
use super::by_gradient::{Pulled, through};
use super::refusal::{explained, refusal};
use super::tangent::{self, Carrying};
use crate::dispatch::around::Call;
use crate::dispatch::{BelowAutograd, OperatorHandle, Value};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::tangent::Level;
use smallvec::SmallVec;
use std::sync::Arc;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// A call with dual operands, from before it to after it.
pub(crate) struct Pushing {
    args: Vec<Value>,
    /// For each argument.
    tangents: Vec<Tangents>,
    level: Arc<Level>,
    /// Tangents have the dtypes of their primals, and those of results get theirs.
    fitting: bool,
}

/// An operator, as far as tangents care.
pub(crate) struct Operator {
    pub(crate) rule: &'static Rule,
    pub(crate) schema: &'static FunctionSchema,
    pub(crate) form: Form,
    /// The operator that a linear one is of the tangents: the functional form.
    pub(crate) functional: Option<OperatorHandle>,
    pub(crate) op: OperatorHandle,
    /// Of an operator in place: it writes no element.
    pub(crate) reshapes: bool,
}

/// Collects the tangents of the operands. `None` if there are none that matter.
pub(crate) fn begin(operator: &Operator, call: &Call<'_>) -> Result<Option<Box<Pushing>>> {
    let Operator { rule, schema, .. } = operator;
    let mut args: Vec<Value> = (0..schema.args.len()).map(|at| call.value(at)).collect();
    let (mut level, mut fitting) = (None, true);
    let mut tangents = Vec::with_capacity(args.len());
    for (at, value) in args.iter().enumerate() {
        let mut each = |t: &Tensor| -> Result<Option<Tensor>> {
            if !graph::is_differentiable(t) {
                return Ok(None);
            }
            let Some((tangent, of)) = tangent::of(t)? else { return Ok(None) };
            fitting &= tangent.dtype() == t.dtype();
            level.get_or_insert(of);
            Ok(Some(tangent))
        };
        let all = match value {
            Value::Tensor(t) => each(t)?.map_or(Tangents::None, Tangents::One),
            Value::TensorList(l) => list(l.iter().map(each).collect::<Result<_>>()?),
            Value::OptionalTensorList(l) => {
                let each = |t: &Option<Tensor>| t.as_ref().map_or(Ok(None), &mut each);
                list(l.iter().map(each).collect::<Result<_>>()?)
            }
            _ => Tangents::None,
        };
        if !all.is_none() && !rule.inputs.contains(&at) {
            if rule.refused.iter().any(|(refused, _)| *refused == at) {
                return Err(refusal(schema.name.base()));
            }
            tangents.push(Tangents::None);
            continue;
        }
        tangents.push(all);
    }
    let Some(level) = level.filter(|_| tangents.iter().any(|t| !t.is_none())) else {
        return Ok(None);
    };
    if matches!(rule.forward, Forward::Refused) || rule.node == "NotImplemented" {
        return Err(refusal(schema.name.base()));
    }
    if operator.form == Form::InPlace
        && let Some(Value::Tensor(t)) = args.first()
        && reads_old(rule)
    {
        let _below = BelowAutograd::enter();
        args[0] = Value::Tensor(old_value(t)?);
    }
    Ok(Some(Box::new(Pushing { args, tangents, level, fitting })))
}

fn list(all: Vec<Option<Tensor>>) -> Tangents {
    match all.iter().all(Option::is_none) {
        true => Tangents::None,
        false => Tangents::List(all),
    }
}

/// Whether a formula may read what an operator in place has written over.
fn reads_old(rule: &Rule) -> bool {
    let old = What::Argument(0);
    match rule.forward {
        Forward::Formula { reads, .. } => reads.contains(&old),
        Forward::Linear => false,
        _ => rule.saves.iter().any(|s| s.what == old),
    }
}

/// Gives the results of a call their tangents.
pub(crate) fn end(
    operator: &Operator,
    pushing: &Pushing,
    results: &mut [(usize, &mut Tensor)],
) -> Result<()> {
    let Operator { rule, form, .. } = operator;
    // what a formula may read, and what gets a tangent
    let whole: Vec<(usize, Tensor)> = results.iter().map(|(at, t)| (*at, (*t).clone())).collect();
    let differentiable = |at: &usize| rule.outputs.get(*at).copied().unwrap_or(false);
    let all: Vec<(usize, Tensor)> =
        whole.iter().filter(|(at, _)| differentiable(at)).cloned().collect();
    let rest = Carrying::set(false);
    let pushed = pushing.pushed(operator, &all, &whole);
    let op = operator.schema.name.base();
    let pushed = pushed.map_err(|e| explained(e, op))?;
    let mut fitted = Vec::with_capacity(all.len());
    for ((_, t), tangent) in all.iter().zip(pushed) {
        if !graph::is_differentiable(t) {
            fitted.push(None);
            continue;
        }
        let tangent = match tangent {
            Some(tangent) => pushing.fit(tangent, t, *form)?,
            None => zeros_like(t)?,
        };
        if *form == Form::InPlace && operator.reshapes {
            t.set_tangent(tangent, &pushing.level);
            fitted.push(None);
            continue;
        }
        if *form == Form::InPlace {
            tangent::write(t, tangent, &pushing.level)?;
            fitted.push(None);
            continue;
        }
        fitted.push(Some(match form {
            Form::Functional => tangent::laid_out(tangent, t)?,
            _ => tangent,
        }));
    }
    drop(rest);
    let mut fitted = fitted.into_iter();
    for (at, t) in results {
        if !rule.outputs.get(*at).copied().unwrap_or(false) {
            continue;
        }
        let Some(tangent) = fitted.next().flatten() else { continue };
        if pushing.args.iter().flat_map(Value::tensors).any(|a| a.same_handle(t)) {
            // a kernel that gives its operand as it is
            let own = graph::cut(t);
            if t.requires_grad()
                && let Some(edge) = t.own_grad_fn()
            {
                graph::set_edge(&own, edge);
            }
            **t = own;
        }
        t.set_tangent(tangent, &pushing.level);
    }
    Ok(())
}

fn zeros_like(t: &Tensor) -> Result<Tensor> {
    aten::zeros_like(t, None, None, None, None, None)
}

impl Pushing {
    /// The tangents of the differentiable results, one by one.
    fn pushed(
        &self,
        operator: &Operator,
        results: &[(usize, Tensor)],
        whole: &[(usize, Tensor)],
    ) -> Result<Vec<Option<Tensor>>> {
        match operator.rule.forward {
            Forward::Linear => self.linear(operator, results),
            Forward::ElementWise => self.element_wise(operator, results, whole),
            Forward::Formula { reads, push: formula } => {
                let read = |what: &What| saved::plain(*what, &self.args, whole, operator.schema);
                let saved: Vec<Saved> = reads.iter().map(read).collect::<Result<_>>()?;
                let push = Push {
                    b: Backward { grads: &[], saved: &saved, wanted: u64::MAX },
                    args: &self.args,
                    tangents: &self.tangents,
                };
                let mut out = Grads::default();
                formula(&push, &mut out)?;
                Ok(by_place(operator, results, out))
            }
            Forward::ByGradient => {
                let rule = operator.rule;
                let active = self.active(rule);
                let saved = self.saved(operator, whole, active)?;
                let places = places(operator, results);
                let pull = |grads: &[Option<Tensor>]| {
                    let mut out = Grads::default();
                    let b = Backward { grads, saved: &saved, wanted: active };
                    (rule.backward)(&b, &mut out)?;
                    let mut pulled = Pulled::new();
                    for (slot, given) in out.given {
                        let tangents = &self.tangents[rule.inputs[slot]];
                        pair(given, tangents, &mut pulled);
                    }
                    Ok(pulled)
                };
                let found = through(&places, &pull);
                let found = found?;
                Ok(match has_lists(operator.schema) {
                    true => found,
                    false => {
                        let at = |at: usize| place(operator.rule, at);
                        results.iter().map(|(i, _)| found.get(at(*i)).cloned().flatten()).collect()
                    }
                })
            }
            Forward::Refused => Err(refusal(operator.schema.name.base())),
        }
    }

    /// A bit for each slot with a tangent.
    fn active(&self, rule: &Rule) -> u64 {
        let slots = rule.inputs.iter().enumerate();
        slots
            .filter(|(_, at)| !self.tangents[**at].is_none())
            .fold(0, |bits, (slot, _)| bits | 1 << slot)
    }

    fn saved(
        &self,
        operator: &Operator,
        results: &[(usize, Tensor)],
        active: u64,
    ) -> Result<Vec<Saved>> {
        let each = |save: &Save| match save.users & active == 0 {
            true => Ok(Saved::None),
            false => saved::plain(save.what, &self.args, results, operator.schema),
        };
        operator.rule.saves.iter().map(each).collect()
    }

    /// The operator, of the tangents.
    fn linear(
        &self,
        operator: &Operator,
        results: &[(usize, Tensor)],
    ) -> Result<Vec<Option<Tensor>>> {
        let mut stack = Vec::with_capacity(self.args.len());
        for (at, value) in self.args.iter().enumerate() {
            stack.push(match operator.rule.inputs.contains(&at) {
                true => self.tangents_of(at, value)?,
                false => value.clone(),
            });
        }
        let op = match (operator.form, operator.functional) {
            (Form::InPlace, Some(functional)) if !operator.reshapes => functional,
            (Form::InPlace, _) => {
                // of another handle of the tangent
                if let Some(Value::Tensor(t)) = stack.first_mut() {
                    *t = aten::alias(t)?;
                }
                operator.op
            }
            _ => operator.op,
        };
        op.call_boxed(&mut stack)?;
        let found: Vec<Tensor> = stack.iter().flat_map(Value::tensors).cloned().collect();
        if found.len() == results.len() {
            return Ok(found.into_iter().map(Some).collect());
        }
        Ok(results.iter().map(|(at, _)| found.get(*at).cloned()).collect())
    }

    fn tangents_of(&self, at: usize, primal: &Value) -> Result<Value> {
        let fill = |(tangent, primal): (&Option<Tensor>, &Tensor)| match tangent {
            Some(t) => Ok(t.clone()),
            None => zeros_like(primal),
        };
        Ok(match (&self.tangents[at], primal) {
            (Tangents::One(t), _) => Value::Tensor(t.clone()),
            (Tangents::List(l), Value::TensorList(all)) => {
                Value::TensorList(l.iter().zip(all).map(fill).collect::<Result<_>>()?)
            }
            (Tangents::None, Value::Tensor(t)) => Value::Tensor(zeros_like(t)?),
            (Tangents::None, Value::TensorList(all)) => {
                Value::TensorList(all.iter().map(zeros_like).collect::<Result<_>>()?)
            }
            (_, value) => value.clone(),
        })
    }

    /// By the formulas of gradients, of an operator whose derivative is diagonal.
    fn element_wise(
        &self,
        operator: &Operator,
        results: &[(usize, Tensor)],
        whole: &[(usize, Tensor)],
    ) -> Result<Vec<Option<Tensor>>> {
        let Some((_, out)) = results.first() else { return Ok(Vec::new()) };
        let rule = operator.rule;
        let active = self.active(rule);
        let saved = self.saved(operator, whole, active)?;
        let mut sum = Sum::default();
        for (slot, at) in rule.inputs.iter().enumerate() {
            let Tangents::One(t) = &self.tangents[*at] else { continue };
            let t = match t.sizes() == out.sizes() {
                true => t.clone(),
                false => aten::expand(t, out.sizes(), false)?,
            };
            let t = match out.dtype().is_complex() && !t.dtype().is_complex() {
                true => cast(&t, out)?,
                false => t,
            };
            let grads = [Some(conj(&t)?)];
            let mut given = Grads::default();
            let b = Backward { grads: &grads, saved: &saved, wanted: 1 << slot };
            (rule.backward)(&b, &mut given)?;
            for (of, all) in given.given {
                if of == slot
                    && let Some(Some(g)) = all.into_iter().next()
                {
                    let term = conj(&g)?;
                    let real = term.dtype().is_complex() && !out.dtype().is_complex();
                    sum.add(if real { aten::real(&term)? } else { term })?;
                }
            }
        }
        Ok(vec![sum.0])
    }

    /// A tangent of the sizes and the kind of numbers of its primal.
    fn fit(&self, tangent: Tensor, t: &Tensor, form: Form) -> Result<Tensor> {
        let mut tangent = tangent;
        if tangent.dtype().is_complex() && !t.dtype().is_complex() {
            tangent = aten::real(&tangent)?;
        }
        let other = tangent.dtype() != t.dtype();
        if other && (self.fitting || t.dtype().is_complex()) {
            tangent = cast(&tangent, t)?;
        }
        if tangent.sizes() != t.sizes() {
            tangent = aten::expand(&tangent, t.sizes(), false)?;
            if form == Form::Functional {
                tangent = aten::clone(&tangent, None)?;
            }
        }
        if form == Form::Functional {
            tangent = tangent::with_bits_of(tangent, t)?;
        }
        let shares = |l: &Tensor| l.shares_storage_with(&tangent);
        let shared = self.tangents.iter().any(|all| match all {
            Tangents::One(l) => shares(l),
            Tangents::List(l) => l.iter().flatten().any(shares),
            Tangents::None => false,
        });
        match form == Form::Functional && shared {
            true => aten::clone(&tangent, None),
            false => Ok(tangent),
        }
    }
}

fn conj(t: &Tensor) -> Result<Tensor> {
    match t.dtype().is_complex() {
        true => aten::conj(t),
        false => Ok(t.clone()),
    }
}

fn cast(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    aten::_to_copy(t, Some(like.dtype()), None, None, None, false, None)
}

fn has_lists(schema: &FunctionSchema) -> bool {
    schema.returns.iter().any(|r| matches!(r.ty, SchemaType::List(..)))
}

/// The place of a result among the differentiable ones.
fn place(rule: &Rule, at: usize) -> usize {
    (0..at).filter(|before| rule.outputs.get(*before).copied().unwrap_or(false)).count()
}

/// The differentiable results by place; results that a mask leaves out have places all the same.
fn places(operator: &Operator, results: &[(usize, Tensor)]) -> Vec<Option<Tensor>> {
    let one = |t: &Tensor| graph::is_differentiable(t).then(|| t.clone());
    if has_lists(operator.schema) {
        return results.iter().map(|(_, t)| one(t)).collect();
    }
    let mut all = Vec::new();
    for (at, t) in results {
        let place = place(operator.rule, *at);
        all.resize_with(all.len().max(place), || None);
        all.push(one(t));
    }
    all
}

/// What a formula gave for the differentiable results, by result.
fn by_place(operator: &Operator, results: &[(usize, Tensor)], out: Grads) -> Vec<Option<Tensor>> {
    let mut flat: SmallVec<[Option<Tensor>; 2]> = SmallVec::new();
    for (_, given) in out.given {
        flat.extend(given);
    }
    if has_lists(operator.schema) {
        flat.resize_with(results.len(), || None);
        return flat.into_vec();
    }
    let at = |at: usize| place(operator.rule, at);
    results.iter().map(|(i, _)| flat.get(at(*i)).cloned().flatten()).collect()
}

/// The gradients of an input beside its tangents.
fn pair(given: InputGrads, tangents: &Tangents, to: &mut Pulled) {
    match tangents {
        Tangents::One(t) => {
            if let Some(Some(g)) = given.into_iter().next() {
                to.push((g, t.clone()));
            }
        }
        Tangents::List(l) => {
            for (g, t) in given.into_iter().zip(l) {
                if let (Some(g), Some(t)) = (g, t) {
                    to.push((g, t.clone()));
                }
            }
        }
        Tangents::None => {}
    }
}
