//! The autograd kernels: what happens around a call that records.
//!
//! Before the rest of the call, the edges of its node are collected and what the formulas need is
//! kept; after it, the results get the node. One kernel serves all operators; what is particular
//! to an operator is its [`Rule`].

use super::error::AutogradError;
use super::forward::{self, Operator, Pushing};
use super::graph;
use super::rule::{Backward, Form, Grads, Rule, What};
use super::saved::{self, Kept, SavedTensor, old_value};
use super::view;
use crate::dispatch::around::{Around, Given, Results};
use crate::dispatch::{
    BelowAutograd, LinePin, OperatorHandle, Value, forward_enabled, grad_enabled, handle_of, line,
};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Edges, Function, Node, OutputMeta, next_sequence};
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use straightline_catalog::Op;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// The autograd kernel of an operator.
pub(crate) struct Recorder {
    rule: &'static Rule,
    name: &'static str,
    schema: &'static FunctionSchema,
    form: Form,
    /// A bit for each argument with a formula.
    differentiable: u64,
    /// A bit for each slot of [`Rule::inputs`] that is a list.
    lists: u64,
    /// Some results are lists.
    gives_lists: bool,
    /// The old value of what is written is kept.
    saves_old: bool,
    /// Of an operator in place, the one that gives the same as a fresh tensor.
    functional: Option<Op>,
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
        let saves_old =
            form == Form::InPlace && rule.saves.iter().any(|s| s.what == What::Argument(0));
        let differentiable = rule.inputs.iter().fold(0, |bits, at| bits | 1 << at);
        let is_list =
            |at: usize| matches!(schema.args[at].ty.unwrap_optional(), SchemaType::List(..));
        let slots = rule.inputs.iter().enumerate();
        let lists =
            slots.filter(|(_, at)| is_list(**at)).fold(0, |bits, (slot, _)| bits | 1 << slot);
        let functional = match form {
            Form::InPlace => functional_of(op.name()),
            _ => None,
        };
        Recorder {
            rule,
            name: op.name(),
            schema,
            form,
            differentiable,
            lists,
            gives_lists: schema.returns.iter().any(|r| matches!(r.ty, SchemaType::List(..))),
            saves_old,
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
    /// What a node is made of, as far as it is known before the call.
    tape: Tape,
    forward: Option<Box<Pushing>>,
}

#[derive(Default)]
struct Tape {
    edges: Edges,
    /// The slots whose edges lead somewhere.
    active: u64,
    /// How many edges each slot has, where some are lists.
    lengths: Option<Box<[u32]>>,
    /// The first slot that has no edge yet.
    next: usize,
    sequence: u64,
    line: Option<&'static Location<'static>>,
    kept: AllKept,
    /// What an operator in place writes.
    written: Option<Tensor>,
}

impl Around for Recorder {
    type Kept = Recording;

    #[inline]
    fn before(
        &self,
        op: OperatorHandle,
        given: &dyn Given<'_>,
        recording: &mut Recording,
    ) -> Result<bool> {
        let Recording { tape, forward } = recording;
        let records = grad_enabled();
        if self.lists != 0 && records {
            tape.lengths = Some(vec![0u32; self.rule.inputs.len()].into_boxed_slice());
        }
        let mut dual = false;
        let (mut refused, mut failed) = (None, None);
        given.tensors(&mut |at, t| {
            dual |= t.may_be_dual();
            if !records {
                return;
            }
            if self.differentiable >> at & 1 == 1 {
                if let Err(e) = self.operand(tape, at, t) {
                    failed = failed.take().or(Some(e));
                }
            } else if t.requires_grad() {
                refused = refused.or(Some(at));
            }
        });
        if let Some(at) = refused {
            self.refuse(at)?;
        }
        if dual && forward_enabled() {
            *forward = forward::begin(&self.operator(op)?, given)?;
        }
        if tape.active != 0 || failed.is_some() {
            self.begin(given, tape, failed)?;
        }
        Ok(tape.active != 0 || forward.is_some())
    }

    #[inline]
    fn after(
        &self,
        op: OperatorHandle,
        recording: &mut Recording,
        results: &mut dyn Results,
    ) -> Result<()> {
        let Recording { tape, forward } = recording;
        let Some(pushing) = forward else {
            return match tape.active {
                0 => Ok(()),
                _ => self.end(tape, results, true).map(drop),
            };
        };
        // what the node keeps of its results has their tangents
        let node = match tape.active {
            0 => None,
            _ => self.end(tape, results, false)?,
        };
        forward::end(&self.operator(op)?, pushing, results)?;
        if let Some(node) = node {
            // not under the lock, since hooks may run
            let mut kept = node.function.kept().take();
            if let Some(kept) = &mut kept {
                self.save_results(kept, tape.active, results)?;
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

    /// Adds the edge of a tensor of argument `at`.
    #[inline]
    fn operand(&self, tape: &mut Tape, at: usize, t: &Tensor) -> Result<()> {
        let slot = self.rule.inputs.iter().position(|i| *i == at).unwrap_or(0);
        self.skip(tape, slot);
        tape.next = slot + 1;
        if let Some(lengths) = &mut tape.lengths {
            lengths[slot] += 1;
        }
        let (edge, failed) = match t.is_plain_leaf() {
            true => (Some(Edge::leaf(t.clone())), Ok(())),
            false => match view::gradient_edge(t) {
                Ok(edge) => (edge, Ok(())),
                Err(e) => (None, Err(e)),
            },
        };
        tape.active |= u64::from(edge.is_some()) << slot;
        tape.edges.push(edge);
        failed
    }

    /// Edges that lead nowhere, for arguments before a slot that are missing.
    #[inline]
    fn skip(&self, tape: &mut Tape, to: usize) {
        for slot in tape.next..to {
            if self.lists >> slot & 1 == 0 {
                tape.edges.push(None);
                if let Some(lengths) = &mut tape.lengths {
                    lengths[slot] = 1;
                }
            }
        }
    }

    fn begin(&self, given: &dyn Given<'_>, tape: &mut Tape, failed: Option<Error>) -> Result<()> {
        if self.form == Form::InPlace
            && let Value::Tensor(t) = given.value(0)
        {
            view::check_write(&t)?;
            tape.written = Some(t);
        }
        if let Some(e) = failed {
            return Err(e);
        }
        self.skip(tape, self.rule.inputs.len());
        for save in self.rule.saves {
            let needed = save.users & tape.active != 0;
            tape.kept.push(match save.what {
                _ if !needed => Kept::NOTHING,
                What::Argument(0) if self.saves_old => match &tape.written {
                    Some(t) => {
                        let _below = BelowAutograd::enter();
                        Kept::Tensor(SavedTensor::operand(&old_value(t)?, true)?)
                    }
                    None => Kept::NOTHING,
                },
                what @ What::Argument(at) => {
                    let arg = &self.schema.args[at];
                    let kept = saved::keep(what, given, arg.name.starts_with("running_"))?;
                    saved::as_declared(kept, &arg.ty)
                }
                what => saved::keep(what, given, false)?,
            });
        }
        (tape.sequence, tape.line) = (next_sequence(), line());
        Ok(())
    }

    /// Makes the node, with what it keeps of the results; gives it where that is to be kept later.
    fn end(
        &self,
        tape: &mut Tape,
        results: &mut dyn Results,
        saves: bool,
    ) -> Result<Option<Arc<Node<RuleFunction>>>> {
        let differentiable = |at: usize| self.differentiable_output(at);
        let place = |at: usize, running: u32| self.place(at, running);
        let mut outputs = SmallVec::<[Option<OutputMeta>; 1]>::new();
        let mut with_history = 0usize;
        results.tensors(&mut |at, t| {
            if differentiable(at) {
                while outputs.len() < place(at, 0) as usize {
                    outputs.push(None);
                }
                let flows = graph::is_differentiable(t);
                with_history += usize::from(flows);
                outputs.push(flows.then(|| OutputMeta::of(t)));
            }
        });
        if let Some(written) = &tape.written {
            tape.kept.iter_mut().for_each(|kept| kept.overwritten(written));
        }
        if saves {
            self.save_results(&mut tape.kept, tape.active, results)?;
        }
        let function = RuleFunction {
            rule: self.rule,
            lengths: tape.lengths.take(),
            kept: Mutex::new(Some(std::mem::take(&mut tape.kept))),
        };
        let edges = std::mem::take(&mut tape.edges);
        let node = Node::new(tape.sequence, edges, outputs, Some(self.name), tape.line, function);
        let node = super::anomaly::noted(node);
        let filled = (!saves).then(|| node.clone());
        let node: Arc<Node> = node;
        if let Some(written) = tape.written.take() {
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
        results.tensors(&mut |at, t| {
            if !differentiable(at) {
                return;
            }
            let nr = place(at, running);
            if graph::is_differentiable(t)
                && let Some(node) = take()
            {
                // a kernel that gives its operand as it is, or a view of what it has made itself
                let view = matches!(self.form, Form::View { .. });
                if t.requires_grad() && t.base().is_none() || t.base().is_some() && !view {
                    *t = graph::cut(t);
                }
                t.come_from(Edge::new(node, nr));
                if let Form::View { several } = self.form
                    && t.base().is_some()
                {
                    t.set_view_version(t.writes());
                    if several {
                        t.set_creation(crate::tensor::history::Creation::Several);
                    }
                }
            }
            running += 1;
        });
        Ok(filled)
    }

    fn differentiable_output(&self, at: usize) -> bool {
        self.rule.outputs.get(at).copied().unwrap_or(false)
    }

    /// The place of a result among the differentiable ones; results that a mask leaves out have
    /// places all the same.
    fn place(&self, at: usize, running: u32) -> u32 {
        match self.gives_lists {
            true => running,
            false => (0..at).filter(|before| self.differentiable_output(*before)).count() as u32,
        }
    }

    /// Keeps what the formulas need of the results.
    fn save_results(
        &self,
        kept: &mut AllKept,
        active: u64,
        results: &mut dyn Results,
    ) -> Result<()> {
        // own results are kept without their history, which is the node itself
        for (save, kept) in self.rule.saves.iter().zip(kept) {
            if let (What::Argument(at), Kept::Tensor(t)) = (save.what, &mut *kept)
                && at > 0
                && self.schema.args[at].is_write()
            {
                t.written();
            }
            let What::Result(of) = save.what else { continue };
            if save.users & active == 0 {
                continue;
            }
            let (mut nr, mut failed) = (0, None);
            results.tensors(&mut |at, t| {
                if at == of {
                    let nr = self.place(at, nr);
                    let saved = match self.differentiable_output(at) && graph::is_differentiable(t)
                    {
                        true => SavedTensor::result(t, nr),
                        false => SavedTensor::plain_result(t),
                    };
                    match saved {
                        Ok(saved) => *kept = Kept::Tensor(saved),
                        Err(e) => failed = Some(e),
                    }
                }
                if self.differentiable_output(at) {
                    nr += 1;
                }
            });
            if let Some(e) = failed {
                return Err(e);
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
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().is_some_and(keeps)
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
