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
use std::sync::{Arc, Mutex, PoisonError};
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
pub(crate) struct Recording {
    tape: Option<Tape>,
    forward: Option<Box<Pushing>>,
}

/// The part of it that is a node.
struct Tape {
    /// The call's node, which is nobody else's yet.
    node: Arc<Node<RuleFunction>>,
    /// The slots whose edges lead somewhere.
    active: u64,
    /// What an operator in place writes.
    written: Option<Tensor>,
}

impl Around for Recorder {
    type Kept = Recording;

    fn before(&self, op: OperatorHandle, given: &dyn Given<'_>) -> Result<Option<Recording>> {
        let recording = grad_enabled();
        let (mut wanted, mut dual) = (false, false);
        let mut refused = None;
        given.tensors(&mut |at, t| {
            dual |= t.may_be_dual();
            if recording && t.requires_grad() {
                match self.differentiable >> at & 1 == 1 {
                    true => wanted = true,
                    false => refused = refused.or(Some(at)),
                }
            }
        });
        if let Some(at) = refused {
            self.refuse(at)?;
        }
        let forward = match dual && forward_enabled() {
            true => forward::begin(&self.operator(op)?, given)?,
            false => None,
        };
        let tape = if wanted { Some(self.begin(given)?) } else { None };
        Ok((tape.is_some() || forward.is_some()).then_some(Recording { tape, forward }))
    }

    fn after(
        &self,
        op: OperatorHandle,
        recording: Recording,
        results: &mut dyn Results,
    ) -> Result<()> {
        let Recording { tape, forward } = recording;
        let saved = match tape {
            Some(tape) => self.end(tape, results)?,
            None => SavedResults::new(),
        };
        let Some(pushing) = forward else { return Ok(()) };
        forward::end(&self.operator(op)?, &pushing, results)?;
        // what the node keeps of its results has their tangents
        results.tensors(&mut |at, t| {
            let of = saved.iter().filter(|(of, kept)| *of == at && kept.shares_storage_with(t));
            of.for_each(|(_, kept)| kept.share_tangent(t));
        });
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

    fn begin(&self, given: &dyn Given<'_>) -> Result<Tape> {
        let mut written = None;
        if self.form == Form::InPlace
            && let Value::Tensor(t) = given.value(0)
        {
            view::check_write(&t)?;
            written = Some(t);
        }
        let mut edges = Edges::new();
        let (mut active, mut next) = (0u64, 0);
        let mut failed = None;
        let slots = self.rule.inputs.len();
        let mut lengths = (self.lists != 0).then(|| vec![0u32; slots].into_boxed_slice());
        given.tensors(&mut |at, t| {
            if self.differentiable >> at & 1 == 0 {
                return;
            }
            let slot = self.slot_of(at);
            self.fill(&mut edges, &mut lengths, next, slot);
            next = slot + 1;
            if let Some(lengths) = &mut lengths {
                lengths[slot] += 1;
            }
            if t.is_plain_leaf() {
                active |= 1 << slot;
                edges.push(Some(Edge::leaf(t.clone())));
                return;
            }
            match view::gradient_edge(t) {
                Ok(edge) => {
                    if edge.is_some() {
                        active |= 1 << slot;
                    }
                    edges.push(edge);
                }
                Err(e) => failed = failed.take().or(Some(e)),
            }
        });
        self.fill(&mut edges, &mut lengths, next, slots);
        if let Some(e) = failed {
            return Err(e);
        }
        let mut kept = SmallVec::new();
        for save in self.rule.saves {
            let needed = save.users & active != 0;
            kept.push(match save.what {
                _ if !needed => Kept::NOTHING,
                What::Argument(0) if self.saves_old => match &written {
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
        let function = RuleFunction {
            rule: self.rule,
            name: self.name,
            lengths,
            kept: Mutex::new(Some(kept)),
        };
        let node =
            Node::new(next_sequence(), edges, SmallVec::new(), Some(self.name), line(), function);
        Ok(Tape { node: super::anomaly::noted(node), active, written })
    }

    /// Edges that lead nowhere, for arguments that are missing between two slots.
    #[inline]
    fn fill(&self, edges: &mut Edges, lengths: &mut Option<Box<[u32]>>, from: usize, to: usize) {
        for slot in from..to {
            if self.lists >> slot & 1 == 0 {
                edges.push(None);
                if let Some(lengths) = lengths {
                    lengths[slot] = 1;
                }
            }
        }
    }

    fn slot_of(&self, at: usize) -> usize {
        self.rule.inputs.iter().position(|i| *i == at).unwrap_or(0)
    }

    /// Fills the node in; gives what that keeps of the results.
    fn end(&self, tape: Tape, results: &mut dyn Results) -> Result<SavedResults> {
        let Tape { mut node, active, written } = tape;
        let mut saved_results = SavedResults::new();
        let Some(Node { outputs, function, .. }) = Arc::get_mut(&mut node) else {
            return Err(Error::runtime("a node is known before its results are"));
        };
        let kept = function.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_mut().map_or(&mut [][..], |kept| &mut kept[..]);
        let differentiable = |at: usize| self.rule.outputs.get(at).copied().unwrap_or(false);
        // results that a mask leaves out have places all the same
        let lists = self.schema.returns.iter().any(|r| matches!(r.ty, SchemaType::List(..)));
        let place = |at: usize, running: u32| match lists {
            true => running,
            false => (0..at).filter(|before| differentiable(*before)).count() as u32,
        };
        results.tensors(&mut |at, t| {
            if differentiable(at) {
                while outputs.len() < place(at, 0) as usize {
                    outputs.push(None);
                }
                outputs.push(graph::is_differentiable(t).then(|| OutputMeta::of(t)));
            }
        });
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
                    let nr = place(at, nr);
                    let saved = match differentiable(at) && graph::is_differentiable(t) {
                        true => SavedTensor::result(t, nr),
                        false => SavedTensor::plain_result(t),
                    };
                    match saved {
                        Ok(saved) => {
                            saved_results.extend(saved.held().map(|held| (of, held.clone())));
                            *kept = Kept::Tensor(saved);
                        }
                        Err(e) => failed = Some(e),
                    }
                }
                if differentiable(at) {
                    nr += 1;
                }
            });
            if let Some(e) = failed {
                return Err(e);
            }
        }
        let node: Arc<Node> = node;
        if let Some(written) = written {
            view::rebase(&written, node)?;
            return Ok(saved_results);
        }
        let mut running = 0;
        results.tensors(&mut |at, t| {
            if !differentiable(at) {
                return;
            }
            let nr = place(at, running);
            if graph::is_differentiable(t) {
                if t.requires_grad() && t.base().is_none() {
                    // a kernel that gives its operand as it is
                    *t = graph::cut(t);
                }
                t.come_from(Edge::new(node.clone(), nr));
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
        Ok(saved_results)
    }
}

/// Results that a node keeps, by their positions.
type SavedResults = SmallVec<[(usize, Tensor); 1]>;

/// A node that a rule made.
pub(crate) struct RuleFunction {
    rule: &'static Rule,
    name: &'static str,
    lengths: Option<Box<[u32]>>,
    kept: Mutex<Option<SmallVec<[Kept; 3]>>>,
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
            let op = self.name.split('.').next().unwrap_or(self.name).to_string();
            let made = Some(graph::made(node));
            return Err(AutogradError::NotImplemented { op, made }.into());
        }
        let count = node.edges.len();
        if grads.iter().all(Option::is_none) {
            return Ok(std::iter::repeat_with(|| None).take(count).collect());
        }
        let unpacked: SmallVec<[super::rule::Saved; 3]> = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // a node that keeps nothing may run again
        if kept.as_ref().is_some_and(keeps) {
            let gone = kept.take();
            drop(kept);
            drop(gone);
        }
    }
}

fn keeps(kept: &SmallVec<[Kept; 3]>) -> bool {
    kept.iter().any(|k| !matches!(k, Kept::Plain(_)))
}
