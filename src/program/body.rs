//! A program's graph: calls one after the other, over numbered places for values.

use super::numbers::NumberOp;
use crate::dispatch::schema::FunctionSchema;
use crate::dispatch::{Effects, OperatorHandle, Value};
use std::fmt;
use std::sync::Arc;
use straightline_catalog::{DType, DeviceType};

/// The number of a value's place.
pub(crate) type Slot = u32;

/// An argument of a call.
#[derive(Clone, Debug)]
pub(crate) enum Term {
    Slot(Slot),
    Value(Value),
    List(Vec<Term>),
}

impl Term {
    /// Calls `f` with each place that it reads.
    pub(super) fn slots(&self, f: &mut impl FnMut(Slot)) {
        match self {
            Term::Slot(slot) => f(*slot),
            Term::Value(_) => {}
            Term::List(all) => all.iter().for_each(|t| t.slots(f)),
        }
    }

    /// Whether no place is read.
    pub(super) fn is_fixed(&self) -> bool {
        let mut fixed = true;
        self.slots(&mut |_| fixed = false);
        fixed
    }
}

/// Where the results of a call go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Results {
    /// All of it into one place: a value, or a tuple of several.
    One(Slot),
    /// A tuple of all of it into one place, even of a single value.
    Tuple(Slot),
    /// Each result, or each element of the list that is the only one, into its own; those that nobody
    /// reads into none.
    Each(Vec<Option<Slot>>),
}

impl Results {
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let (one, each) = match self {
            Results::One(slot) | Results::Tuple(slot) => (Some(*slot), &[][..]),
            Results::Each(all) => (None, &all[..]),
        };
        one.into_iter().chain(each.iter().copied().flatten())
    }
}

/// How the graph of a call runs.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// As the calls around it.
    Plain,
    /// With grad mode on or off.
    Grad(bool),
    /// Under autocast.
    Autocast { device: DeviceType, dtype: Option<DType>, enabled: bool, cache: Option<bool> },
}

/// What a call does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Operator(OperatorHandle, &'static FunctionSchema),
    /// For each element of its operands, which are lists.
    Each(OperatorHandle, &'static FunctionSchema),
    Number(NumberOp),
    /// Its operands are the graph's inputs.
    Graph(Scope, Arc<Body>),
    /// A predicate, then the operands of either graph.
    Cond(Arc<Body>, Arc<Body>),
    /// What is carried and what is only read; the condition's graph and the body's.
    WhileLoop {
        cond: Arc<Body>,
        body: Arc<Body>,
        carried: usize,
    },
    /// Slices of the first operands, and all of the others.
    Map {
        body: Arc<Body>,
        sliced: usize,
    },
    /// What is carried, slices of what follows, and all of the others.
    Scan {
        body: Arc<Body>,
        carried: usize,
        sliced: usize,
    },
    /// A check of a number: it has to be true; the text of the error.
    Check(String),
    /// A number within bounds.
    Bounds(Option<i64>, Option<i64>),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Its name, and the line of the model that it came from: what errors say.
    pub(super) site: Arc<str>,
    pub(super) name: String,
    /// What it calls, as the file says it.
    pub(super) target: String,
    pub(super) action: Action,
    pub(super) operands: Vec<Term>,
    pub(super) results: Results,
    /// Places that nobody reads after it.
    pub(super) last: Vec<Slot>,
}

/// A graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    /// The name of the value in each place.
    pub(super) names: Vec<String>,
    /// Where the inputs go.
    pub(super) inputs: Vec<Slot>,
    pub(super) steps: Vec<Step>,
    pub(super) outputs: Vec<Term>,
}

impl Body {
    /// Its graphs, in the order of the steps that are given them.
    pub(super) fn graphs(step: &Step) -> Vec<&Arc<Body>> {
        match &step.action {
            Action::Graph(_, body) | Action::Map { body, .. } | Action::Scan { body, .. } => {
                vec![body]
            }
            Action::Cond(one, other) => vec![one, other],
            Action::WhileLoop { cond, body, .. } => vec![cond, body],
            _ => Vec::new(),
        }
    }

    /// How many calls there are, in graphs that calls are given, too.
    pub(super) fn calls(&self) -> usize {
        let inner = |s: &Step| Body::graphs(s).iter().map(|b| b.calls()).sum::<usize>();
        self.steps.iter().map(|s| 1 + inner(s)).sum()
    }

    /// Whether a call of it draws random numbers.
    pub(super) fn draws(&self) -> bool {
        self.steps.iter().any(|step| {
            let random = match &step.action {
                Action::Operator(op, _) => op.effects().has(Effects::RANDOM),
                _ => false,
            };
            random || Body::graphs(step).iter().any(|b| b.draws())
        })
    }

    /// Notes where each value is read last.
    pub(super) fn note_last_uses(&mut self) {
        let mut later = vec![false; self.names.len()];
        let mut keep = |slot: Slot, f: &mut dyn FnMut(Slot)| {
            if let Some(seen) = later.get_mut(slot as usize)
                && !std::mem::replace(seen, true)
            {
                f(slot);
            }
        };
        self.outputs.iter().for_each(|t| t.slots(&mut |s| keep(s, &mut |_| {})));
        for step in self.steps.iter_mut().rev() {
            let mut last = Vec::new();
            let all = step.results.slots().collect::<Vec<_>>();
            for slot in all {
                keep(slot, &mut |s| last.push(s));
            }
            step.operands.iter().for_each(|t| t.slots(&mut |s| keep(s, &mut |s| last.push(s))));
            step.last = last;
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        let pad = " ".repeat(indent);
        for step in &self.steps {
            let results: Vec<&str> = match &step.results {
                Results::One(slot) | Results::Tuple(slot) => vec![self.name(*slot)],
                Results::Each(all) => all.iter().map(|s| s.map_or("_", |s| self.name(s))).collect(),
            };
            write!(f, "{pad}")?;
            if !results.is_empty() {
                write!(f, "{} = ", results.join(", "))?;
            }
            let operands = step.operands.iter().map(|t| self.term(t)).collect::<Vec<_>>();
            writeln!(f, "{}({})", step.shown_target(), operands.join(", "))?;
            for body in Body::graphs(step) {
                let inputs = body.inputs.iter().map(|s| body.name(*s)).collect::<Vec<_>>();
                writeln!(f, "{pad}  graph({}) {{", inputs.join(", "))?;
                body.write(f, indent + 4)?;
                writeln!(f, "{pad}  }}")?;
            }
        }
        let outputs = self.outputs.iter().map(|t| self.term(t)).collect::<Vec<_>>();
        writeln!(f, "{pad}return {}", outputs.join(", "))
    }

    fn name(&self, slot: Slot) -> &str {
        self.names.get(slot as usize).map_or("?", String::as_str)
    }

    /// A term's text.
    pub(super) fn term(&self, term: &Term) -> String {
        match term {
            Term::Slot(slot) => self.name(*slot).to_owned(),
            Term::Value(value) => shown(value),
            Term::List(all) => {
                format!("[{}]", all.iter().map(|t| self.term(t)).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Step {
    /// `aten::add.Tensor` for operators; other functions by their name.
    fn shown_target(&self) -> String {
        match &self.action {
            Action::Operator(op, _) => op.name().to_string(),
            _ => self.target.trim_start_matches("torch.ops.").to_owned(),
        }
    }
}

/// A constant's text.
fn shown(value: &Value) -> String {
    match value {
        Value::None => "None".into(),
        Value::Tensor(t) => match t.read_item() {
            Ok(n) if t.is_wrapped_number() => n.to_string(),
            _ => format!("{}{:?}", t.dtype(), t.sizes()),
        },
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Double(x) => format!("{x:?}"),
        Value::String(s) => format!("{s:?}"),
        Value::IntList(l) => format!("{l:?}"),
        Value::DoubleList(l) => format!("{l:?}"),
        Value::BoolList(l) => format!("{l:?}"),
        Value::DType(d) => d.to_string(),
        Value::Device(d) => d.to_string(),
        Value::Tuple(l) => format!("({})", l.iter().map(shown).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 2)
    }
}
