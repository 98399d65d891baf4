//! Calls of higher order: graphs among their arguments.

use super::body::{Action, Body, Scope, Term};
use super::error::ProgramError;
use super::node::{Given, GivenTerm, Node, plain};
use crate::dispatch::Value;
use std::sync::Arc;
use straightline_catalog::{DType, Device, DeviceType};

/// Arguments that are taken one after the other.
struct Arguments<'a> {
    node: Node<'a>,
    left: std::vec::IntoIter<Given>,
}

impl Arguments<'_> {
    fn next(&mut self, what: &str) -> Result<GivenTerm, ProgramError> {
        let next = self.left.next().map(|g| g.what);
        next.ok_or_else(|| self.node.error(format!("{what} is missing")))
    }

    fn graph(&mut self, what: &str) -> Result<Arc<Body>, ProgramError> {
        match self.next(what)? {
            GivenTerm::Graph(body) => Ok(body),
            GivenTerm::Term(_) => Err(self.node.error(format!("{what} is no graph"))),
        }
    }

    fn term(&mut self, what: &str) -> Result<Term, ProgramError> {
        match self.next(what)? {
            GivenTerm::Term(term) => Ok(term),
            GivenTerm::Graph(_) => Err(self.node.error(format!("{what} is a graph"))),
        }
    }

    fn value(&mut self, what: &str) -> Result<Value, ProgramError> {
        match self.term(what)? {
            Term::Value(value) => Ok(value),
            _ => Err(self.node.error(format!("{what} is no constant"))),
        }
    }

    fn flag(&mut self, what: &str) -> Result<bool, ProgramError> {
        match self.value(what)? {
            Value::Bool(flag) => Ok(flag),
            other => Err(self.node.error(format!("{what} is no flag but {}", other.type_name()))),
        }
    }

    /// The elements of a list.
    fn list(&mut self, what: &str) -> Result<Vec<Term>, ProgramError> {
        Ok(match self.term(what)? {
            Term::List(all) => all,
            Term::Value(Value::IntList(all)) => {
                all.into_iter().map(|n| Term::Value(Value::Int(n))).collect()
            }
            Term::Value(Value::None) => Vec::new(),
            one => vec![one],
        })
    }

    fn rest(self) -> Result<Vec<Term>, ProgramError> {
        plain(self.node, self.left.collect())
    }

    fn check(&self, body: &Body, takes: usize, what: &str) -> Result<(), ProgramError> {
        match body.inputs.len() == takes {
            true => Ok(()),
            false => Err(self.node.error(format!(
                "{what} takes {} inputs, and {takes} are given",
                body.inputs.len()
            ))),
        }
    }
}

/// The call of a name in `higher_order`; `None` if it is not known.
pub(super) fn resolve(
    node: Node<'_>,
    name: &str,
    given: Vec<Given>,
) -> Result<Option<(Action, Vec<Term>)>, ProgramError> {
    let mut args = Arguments { node, left: given.into_iter() };
    let in_scope = |mut args: Arguments<'_>, scope, skip: bool| {
        let body = args.graph("the graph")?;
        if skip {
            args.next("the identifier")?;
        }
        let takes = args.left.len();
        args.check(&body, takes, "the graph")?;
        Ok(Some((Action::Graph(scope, body), args.rest()?)))
    };
    match name {
        "wrap_with_set_grad_enabled" => {
            let on = args.flag("the grad mode")?;
            in_scope(args, Scope::Grad(on), false)
        }
        "wrap_with_autocast" => {
            let scope = autocast(&mut args)?;
            in_scope(args, scope, false)
        }
        "invoke_subgraph" => in_scope(args, Scope::Plain, true),
        "wrap" | "tag_activation_checkpoint" | "hints_wrapper" => {
            in_scope(args, Scope::Plain, false)
        }
        "cond" => {
            let pred = args.term("the predicate")?;
            let (yes, no) = (args.graph("the true graph")?, args.graph("the false graph")?);
            let operands = args.list("the operands")?;
            args.check(&yes, operands.len(), "the true graph")?;
            args.check(&no, operands.len(), "the false graph")?;
            Ok(Some((Action::Cond(yes, no), std::iter::once(pred).chain(operands).collect())))
        }
        "while_loop" => {
            let (cond, body) = (args.graph("the condition")?, args.graph("the body")?);
            let mut operands = args.list("the carried operands")?;
            let carried = operands.len();
            operands.extend(args.list("the other operands")?);
            args.check(&cond, operands.len(), "the condition")?;
            args.check(&body, operands.len(), "the body")?;
            Ok(Some((Action::WhileLoop { cond, body, carried }, operands)))
        }
        "map_impl" | "map" => {
            let body = args.graph("the body")?;
            let mut operands = args.list("the mapped operands")?;
            let sliced = operands.len();
            operands.extend(args.list("the other operands")?);
            args.check(&body, operands.len(), "the body")?;
            Ok(Some((Action::Map { body, sliced }, operands)))
        }
        "scan" => {
            let body = args.graph("the body")?;
            let mut operands = args.list("the first values")?;
            let carried = operands.len();
            let slices = args.list("the scanned operands")?;
            let sliced = slices.len();
            operands.extend(slices);
            operands.extend(args.list("the other operands")?);
            args.check(&body, operands.len(), "the body")?;
            Ok(Some((Action::Scan { body, carried, sliced }, operands)))
        }
        _ => Ok(None),
    }
}

fn autocast(args: &mut Arguments<'_>) -> Result<Scope, ProgramError> {
    let device = match args.value("the device")? {
        Value::String(name) => {
            name.parse::<Device>().map_err(|e| args.node.error(format!("the device: {e}")))?.kind
        }
        Value::Device(device) => device.kind,
        Value::None => DeviceType::Cpu,
        other => return Err(args.node.error(format!("the device is a {}", other.type_name()))),
    };
    let dtype = match args.value("the dtype")? {
        Value::DType(dtype) => Some(dtype),
        Value::Int(n) => DType::from_scalar_type(n),
        Value::None => None,
        other => return Err(args.node.error(format!("the dtype is a {}", other.type_name()))),
    };
    let enabled = args.flag("whether it is on")?;
    let cache = match args.value("the cache's setting")? {
        Value::Bool(on) => Some(on),
        _ => None,
    };
    Ok(Scope::Autocast { device, dtype, enabled, cache })
}
