//! The autograd kernels: what happens around a call that records.
//!
//! Before the rest of the call, the edges of its node are collected and what the formulas need is
//! kept; after it, the results get the node. One kernel serves all operators; what is particular
//! to an operator is its [`Rule`].

use super::error::AutogradError;
use super::forward::{self, Operator, Pushing};
use super::graph;
use super::rule::{Backward, Form, Grads, Rule, Save, What};
use super::saved::{self, Kept, SavedTensor, old_value};
use super::view;
use crate::dispatch::around::{Around, Call};
use crate::dispatch::{
    BelowAutograd, LinePin, OperatorHandle, Value, forward_enabled, grad_enabled, handle_of, line,
};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Fresh, Function, Node, OutputMeta, next_sequence};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use straightline_catalog::Op;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// The autograd kernel of an operator.
pub(crate) struct Recorder {
    rule: &'static Rule,
    name: &'static str,
    schema: &'static FunctionSchema,
    form: Form,
    /// For each argument, which of [`Rule::inputs`] it is.
    slots: Box<[Option<u8>]>,
    /// For each result, which of the differentiable ones it is. Results that a mask leaves out have
    /// places all the same.
    places: Box<[Option<u32>]>,
    /// A bit for each slot of [`Rule::inputs`] that is a list.
    lists: u64,
    /// Some results are lists.
    gives_lists: bool,
    savers: Box<[Saver]>,
    /// Something is kept after the call.
    saves_after: bool,
    /// Of an operator in place, the one that gives the same as a fresh tensor.
    functional: Option<Op>,
}

/// How one of [`Rule::saves`] is kept.
struct Saver {
    what: What,
    users: u64,
    how: How,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    /// A tensor argument itself; if `unchecked`, its memory may be written later.
    Operand { at: usize, unchecked: bool },
    /// The old value of what the call writes.
    Old,
    /// A fact of a tensor argument.
    Fact { at: usize },
    /// An argument of another type.
    Other { at: usize, unchecked: bool },
    /// A result.
    Result,
}

impl Saver {
    /// `old`: the first argument is written, and its old value is what the formula reads.
    fn new(save: &Save, schema: &FunctionSchema, old: bool) -> Saver {
        // running statistics, as in PyTorch
        let unchecked = |at: usize| schema.args[at].name.starts_with("running_");
        let how = match save.what {
            What::Argument(0) if old => How::Old,
            What::Argument(at) => match schema.args[at].ty.unwrap_optional() {
                SchemaType::Tensor => How::Operand { at, unchecked: unchecked(at) },
                _ => How::Other { at, unchecked: unchecked(at) },
            },
            What::AllSizes(at) | What::AllDTypes(at) => How::Other { at, unchecked: false },
            What::Result(_) => How::Result,
            What::Sizes(at)
            | What::Strides(at)
            | What::DType(at)
            | What::Dim(at)
            | What::StorageOffset(at)
            | What::Options(at) => How::Fact { at },
        };
        Saver { what: save.what, users: save.users, how }
    }
}

impl Recorder {
    pub(crate) fn new(op: Op, rule: &'static Rule) -> Recorder {
        let schema = op.schema();
        let form = if schema.is_inplace() {
            Form::InPlace
        } else if schema.is_view() {
            let list = |ty: &SchemaType| matches!(ty, SchemaType::List(..));
            Form::View { several: schema.returns.iter().any(|r| list(&r.ty)) }
        } else {
            Form::Functional
        };
        let is_list =
            |at: usize| matches!(schema.args[at].ty.unwrap_optional(), SchemaType::List(..));
        let inputs = rule.inputs.iter().enumerate();
        let lists =
            inputs.filter(|(_, at)| is_list(**at)).fold(0, |bits, (slot, _)| bits | 1 << slot);
        let slot_of = |at: usize| rule.inputs.iter().position(|i| *i == at).map(|slot| slot as u8);
        let place_of = |at: usize| {
            let before = || rule.outputs[..at].iter().filter(|o| **o).count() as u32;
            rule.outputs[at].then(before)
        };
        let functional = match form {
            Form::InPlace => functional_of(op.name()),
            _ => None,
        };
        let saver = |save| Saver::new(save, schema, form == Form::InPlace);
        let savers: Box<[Saver]> = rule.saves.iter().map(saver).collect();
        let of_written = |how| matches!(how, How::Operand { at, .. } if schema.args[at].is_write());
        Recorder {
            rule,
            name: op.name(),
            schema,
            form,
            slots: (0..schema.args.len()).map(slot_of).collect(),
            places: (0..rule.outputs.len()).map(place_of).collect(),
            lists,
            gives_lists: schema.returns.iter().any(|r| matches!(r.ty, SchemaType::List(..))),
            saves_after: savers.iter().any(|s| s.how == How::Result || of_written(s.how)),
            savers,
            functional,
        }
    }
}

/// What changes a tensor's sizes and strides in place.
const RESHAPE: [&str; 5] = ["as_strided_", "squeeze_", "t_", "transpose_", "unsqueeze_"];

/// `aten::mul.Tensor` of `aten::mul_.Tensor`.
fn functional_of(name: &str) -> Option<Op> {
    let (base, overload) = match name.split_once('.') {
        Some((base, overload)) => (base, Some(overload)),
        None => (name, None),
    };
    let base = base.strip_suffix('_')?;
    match overload {
        Some(overload) => Op::named(&format!("{base}.{overload}")),
        None => Op::named(base),
    }
}

/// From before a call to after it.
#[derive(Default)]
pub(crate) struct Recording {
    /// The node, with its edges and what it keeps of the arguments; none where nothing is recorded.
    node: Option<Fresh<RuleFunction>>,
    /// The slots whose edges lead somewhere.
    active: u64,
    /// What an operator in place writes.
    written: Option<Tensor>,
    forward: Option<Box<Pushing>>,
}

/// What the tensors of a call say before it.
#[derive(Default)]
struct Seen {
    active: u64,
    dual: bool,
    /// An argument without a formula wants a gradient.
    refused: Option<usize>,
    failed: Option<Error>,
}

impl Around for Recorder {
    type Kept = Recording;

    #[inline]
    fn before(&self, call: &Call<'_>, recording: &mut Recording) -> Result<bool> {
        let mut node = grad_enabled().then(|| self.fresh());
        let mut seen = Seen::default();
        for (at, t) in call.operands {
            seen.dual |= t.may_be_dual();
            let Some(node) = &mut node else { continue };
            match self.slots[*at] {
                Some(slot) => self.operand(node, &mut seen, usize::from(slot), t),
                None if t.requires_grad() => seen.refused = seen.refused.or(Some(*at)),
                None => {}
            }
        }
        let Seen { active, dual, refused, failed } = seen;
        if let Some(at) = refused {
            self.refuse(at)?;
        }
        if dual && forward_enabled() {
            recording.forward = forward::begin(&self.operator(call.op)?, call)?;
        }
        if let Some(mut node) = node
            && (active != 0 || failed.is_some())
        {
            self.check_write(call, recording)?;
            if let Some(e) = failed {
                return Err(e);
            }
            self.no_edges(&mut node, self.rule.inputs.len());
            self.save(call, &mut node, active, recording.written.as_ref())?;
            (recording.node, recording.active) = (Some(node), active);
        }
        Ok(active != 0 || recording.forward.is_some())
    }

    #[inline]
    fn after(
        &self,
        op: OperatorHandle,
        recording: &mut Recording,
        results: &mut [(usize, &mut Tensor)],
    ) -> Result<()> {
        let Some(pushing) = recording.forward.take() else {
            return self.end(recording, results, true).map(drop);
        };
        // what the node keeps of its results has their tangents
        let node = self.end(recording, results, false)?;
        forward::end(&self.operator(op)?, &pushing, results)?;
        if let Some(node) = node {
            // not under the lock, since hooks may run
            let mut kept = node.function.kept().take();
            if let Some(kept) = &mut kept {
                self.save_results(kept, recording.active, results)?;
            }
            *node.function.kept() = kept;
        }
        Ok(())
    }
}

impl Recorder {
    #[cold]
    fn refuse(&self, at: usize) -> Result<()> {
        match self.rule.refused.iter().find(|(position, _)| *position == at) {
            Some((_, argument)) => Err(AutogradError::NotDifferentiable {
                function: self.schema.name.base().to_string(),
                argument,
            }
            .into()),
            None => Ok(()),
        }
    }

    /// What the forward half asks of an operator.
    fn operator(&self, op: OperatorHandle) -> Result<Operator> {
        Ok(Operator {
            rule: self.rule,
            schema: self.schema,
            form: self.form,
            functional: self.functional.map(handle_of).transpose()?,
            op,
            reshapes: RESHAPE.contains(&self.schema.name.base()),
        })
    }

    /// The node of a call, with nothing in it yet.
    #[inline]
    fn fresh(&self) -> Fresh<RuleFunction> {
        let lengths = match self.lists {
            0 => None,
            _ => Some(vec![0u32; self.rule.inputs.len()].into_boxed_slice()),
        };
        let kept = Mutex::new(Some(AllKept::new()));
        let function = RuleFunction { rule: self.rule, lengths, kept };
        let mut node = Fresh::new(next_sequence(), Some(self.name), line(), function);
        node.during = super::anomaly::during();
        node
    }

    /// Adds the edge of a tensor in a slot.
    #[inline]
    fn operand(&self, node: &mut Fresh<RuleFunction>, seen: &mut Seen, slot: usize, t: &Tensor) {
        if node.edges.len() != slot || self.lists != 0 {
            self.no_edges(node, slot);
        }
        if let Some(lengths) = &mut node.function.lengths {
            lengths[slot] += 1;
        }
        if t.is_plain_leaf() {
            seen.active |= 1 << slot;
            return node.lead_to_leaf(t.clone());
        }
        match view::gradient_edge(t) {
            Ok(edge) => {
                seen.active |= u64::from(edge.is_some()) << slot;
                node.lead_to(edge);
            }
            Err(e) => {
                seen.failed.get_or_insert(e);
            }
        }
    }

    /// Edges that lead nowhere, for arguments before slot `to` that are missing.
    #[inline]
    fn no_edges(&self, node: &mut Fresh<RuleFunction>, to: usize) {
        let Some(lengths) = &mut node.function.lengths else {
            while node.edges.len() < to {
                node.lead_to(None);
            }
            return;
        };
        // an empty list has no edges, a missing tensor has one
        let missing = (0..to).filter(|slot| self.lists >> slot & 1 == 0 && lengths[*slot] == 0);
        let missing: SmallVec<[usize; 4]> = missing.collect();
        missing.iter().for_each(|slot| lengths[*slot] = 1);
        missing.iter().for_each(|_| node.lead_to(None));
    }

    /// What an operator in place writes, if it may.
    #[inline]
    fn check_write(&self, call: &Call<'_>, recording: &mut Recording) -> Result<()> {
        if self.form == Form::InPlace
            && let Value::Tensor(t) = call.value(0)
        {
            view::check_write(&t)?;
            recording.written = Some(t);
        }
        Ok(())
    }

    /// Keeps what formulas need of the arguments.
    fn save(
        &self,
        call: &Call<'_>,
        node: &mut Fresh<RuleFunction>,
        active: u64,
        written: Option<&Tensor>,
    ) -> Result<()> {
        let Some(all) = node.function.kept_mut() else { return Ok(()) };
        for saver in &self.savers {
            let kept = match saver.how {
                _ if saver.users & active == 0 => None,
                How::Fact { at } => {
                    call.tensor(at).map(|t| Kept::Plain(saved::fact(saver.what, t)))
                }
                How::Operand { at, unchecked } => match call.tensor(at) {
                    Some(t) => Some(Kept::Tensor(SavedTensor::operand(t, unchecked)?)),
                    None => None,
                },
                How::Other { at, unchecked } => {
                    Some(saved::keep(saver.what, call, &self.schema.args[at].ty, unchecked)?)
                }
                How::Old => match written {
                    Some(t) => {
                        let _below = BelowAutograd::enter();
                        Some(Kept::Tensor(SavedTensor::operand(&old_value(t)?, true)?))
                    }
                    None => None,
                },
                // it does not exist yet
                How::Result => None,
            };
            all.push(kept.unwrap_or(Kept::NOTHING));
        }
        Ok(())
    }

    /// Gives the results the node, with what it keeps of them; gives it where that is to be kept
    /// later.
    fn end(
        &self,
        recording: &mut Recording,
        results: &mut [(usize, &mut Tensor)],
        saves: bool,
    ) -> Result<Option<Arc<Node<RuleFunction>>>> {
        let Some(mut node) = recording.node.take() else { return Ok(None) };
        let (mut running, mut with_history) = (0, 0usize);
        for (at, t) in results.iter() {
            if let Some(place) = self.place(*at, running) {
                while node.outputs.len() < place as usize {
                    node.outputs.push(None);
                }
                let flows = graph::is_differentiable(t);
                with_history += usize::from(flows);
                node.outputs.push(flows.then(|| OutputMeta::of(t)));
                running += 1;
            }
        }
        if let Some(kept) = node.function.kept_mut() {
            if let Some(written) = &recording.written {
                kept.iter_mut().for_each(|kept| kept.overwritten(written));
            }
            if saves {
                self.save_results(kept, recording.active, results)?;
            }
        }
        let node = node.share();
        let filled = (!saves).then(|| node.clone());
        let node: Arc<Node> = node;
        if let Some(written) = recording.written.take() {
            view::rebase(&written, node)?;
            return Ok(filled);
        }
        // the last result takes the handle itself
        let mut node = Some(node);
        let mut take = || {
            with_history = with_history.saturating_sub(1);
            if with_history == 0 { node.take() } else { node.clone() }
        };
        let mut running = 0;
        for (at, t) in results {
            let Some(nr) = self.place(*at, running) else { continue };
            running += 1;
            if graph::is_differentiable(t)
                && let Some(node) = take()
            {
                self.attach(t, Edge::new(node, nr));
            }
        }
        Ok(filled)
    }

    /// Says of a result that it came from a node.
    #[inline]
    fn attach(&self, t: &mut Tensor, edge: Edge) {
        let Form::View { several } = self.form else {
            // a kernel that gives its operand as it is, or a view of what it has made itself
            if t.requires_grad() || t.base().is_some() {
                *t = graph::cut(t);
            }
            return t.come_from(edge);
        };
        if t.base().is_none() {
            if t.requires_grad() {
                *t = graph::cut(t);
            }
            return t.come_from(edge);
        }
        t.come_from(edge);
        t.set_view_version(t.writes());
        if several {
            t.set_creation(crate::tensor::history::Creation::Several);
        }
    }

    /// The place of a result among the differentiable ones, of which `running` came before.
    #[inline]
    fn place(&self, at: usize, running: u32) -> Option<u32> {
        let place = self.places.get(at).copied().flatten()?;
        Some(if self.gives_lists { running } else { place })
    }

    /// Keeps what the formulas need of the results.
    fn save_results(
        &self,
        kept: &mut AllKept,
        active: u64,
        results: &mut [(usize, &mut Tensor)],
    ) -> Result<()> {
        if !self.saves_after {
            return Ok(());
        }
        // own results are kept without their history, which is the node itself
        for (saver, kept) in self.savers.iter().zip(kept) {
            if let (How::Operand { at, .. }, Kept::Tensor(t)) = (saver.how, &mut *kept)
                && self.schema.args[at].is_write()
            {
                t.written();
            }
            let What::Result(of) = saver.what else { continue };
            if saver.users & active == 0 {
                continue;
            }
            let mut running = 0;
            for (at, t) in results.iter() {
                let place = self.place(*at, running);
                running += u32::from(place.is_some());
                if *at == of {
                    *kept = Kept::Tensor(match place.filter(|_| graph::is_differentiable(t)) {
                        Some(nr) => SavedTensor::result(t, nr)?,
                        None => SavedTensor::plain_result(t)?,
                    });
                }
            }
        }
        Ok(())
    }
}

/// What a node keeps, for each of [`Rule::saves`].
type AllKept = SmallVec<[Kept; 3]>;

/// A node that a rule made.
pub(crate) struct RuleFunction {
    rule: &'static Rule,
    lengths: Option<Box<[u32]>>,
    kept: Mutex<Option<AllKept>>,
}

impl RuleFunction {
    fn kept(&self) -> MutexGuard<'_, Option<AllKept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_mut(&mut self) -> Option<&mut AllKept> {
        self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

impl Function for RuleFunction {
    fn name(&self) -> &str {
        self.rule.node
    }

    fn apply(
        &self,
        node: &Arc<Node>,
        grads: Vec<Option<Tensor>>,
        wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        if self.rule.node == "NotImplemented" {
            let name = node.op.unwrap_or_default();
            let op = name.split('.').next().unwrap_or(name).to_string();
            let made = Some(graph::made(node));
            return Err(AutogradError::NotImplemented { op, made }.into());
        }
        let count = node.edges.len();
        if grads.iter().all(Option::is_none) {
            return Ok(std::iter::repeat_with(|| None).take(count).collect());
        }
        let unpacked: SmallVec<[super::rule::Saved; 3]> = {
            let kept = self.kept();
            let Some(kept) = &*kept else { return Err(graph::twice(node)) };
            kept.iter().map(|k| k.unpack(node)).collect::<Result<_>>()?
        };
        let mut first = SmallVec::<[usize; 4]>::new();
        let mut bits = 0u64;
        let mut at = 0;
        for slot in 0..self.rule.inputs.len() {
            first.push(at);
            let length = self.lengths.as_ref().map_or(1, |l| l[slot] as usize);
            if (at..at + length).any(wanted) {
                bits |= 1 << slot;
            }
            at += length;
        }
        let _line = LinePin::set(node.line);
        let mut out = Grads::default();
        let b = Backward { grads: &grads, saved: &unpacked, wanted: bits };
        (self.rule.backward)(&b, &mut out)?;
        let mut all: Vec<Option<Tensor>> = std::iter::repeat_with(|| None).take(count).collect();
        for (slot, given) in out.given {
            for (i, grad) in given.into_iter().enumerate() {
                if let Some(place) = all.get_mut(first[slot] + i) {
                    *place = grad;
                }
            }
        }
        Ok(all)
    }

    fn holds(&mut self) -> bool {
        self.kept_mut().is_some_and(|kept| keeps(kept))
    }

    fn release(&self) {
        let mut kept = self.kept();
        // a node that keeps nothing may run again
        if kept.as_ref().is_some_and(keeps) {
            let gone = kept.take();
            drop(kept);
            drop(gone);
        }
    }
}

fn keeps(kept: &AllKept) -> bool {
    kept.iter().any(|k| !matches!(k, Kept::Plain(_)))
}
