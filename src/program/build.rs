//! Making a program: names become places, targets what is called, arguments what a schema wants.

use super::arguments::by_schema;
use super::body::{Action, Body, Results, Slot, Step, Term};
use super::error::ProgramError;
use super::node::{Given, GivenTerm, Node, plain};
use super::numbers::NumberOp;
use crate::dispatch::{self, Value};
use std::collections::{BTreeMap, HashMap};
use straightline_catalog::schema::OperatorName;

/// The targets of a program that are not there, each with how often it is called.
#[derive(Default, Debug)]
pub(crate) struct Missing(BTreeMap<String, usize>);

impl Missing {
    /// Those of a graph that is given to a call.
    pub(super) fn add(&mut self, other: &Missing) {
        for (target, times) in &other.0 {
            *self.0.entry(target.clone()).or_default() += times;
        }
    }

    /// # Errors
    /// There are some.
    pub(crate) fn check(self) -> Result<(), ProgramError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(ProgramError::Unsupported { targets: self.0.into_iter().collect() }),
        }
    }
}

/// A graph in the making.
#[derive(Default, Debug)]
pub(crate) struct BodyBuilder {
    body: Body,
    defined: HashMap<String, Slot>,
}

impl BodyBuilder {
    /// A place for a value of this name, which calls after this one may read.
    pub(crate) fn define(&mut self, name: &str) -> Slot {
        let slot = self.reserve(name);
        self.defined.insert(name.to_owned(), slot);
        slot
    }

    /// A place for a value that no other call finds by its name.
    pub(super) fn reserve(&mut self, name: &str) -> Slot {
        self.body.names.push(name.to_owned());
        (self.body.names.len() - 1) as Slot
    }

    /// An input.
    pub(crate) fn input(&mut self, name: &str) -> Slot {
        let slot = self.define(name);
        self.body.inputs.push(slot);
        slot
    }

    /// The place of a value.
    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.defined.get(name).copied()
    }

    /// The graph is done.
    pub(crate) fn finish(mut self, outputs: Vec<Term>) -> Body {
        self.body.outputs = outputs;
        self.body.note_last_uses();
        self.body
    }

    /// A call.
    ///
    /// # Errors
    /// Arguments that do not fit. A target that is not there is noted in `missing`.
    pub(crate) fn call(
        &mut self,
        node: Node<'_>,
        given: Vec<Given>,
        results: Results,
        missing: &mut Missing,
    ) -> Result<(), ProgramError> {
        let action = match resolve(node, given)? {
            Some(Resolved { action, operands }) => (action, operands),
            None => {
                *missing.0.entry(node.target.to_owned()).or_default() += 1;
                return Ok(());
            }
        };
        let (action, operands) = action;
        self.body.steps.push(Step {
            site: node.site(),
            name: node.name.to_owned(),
            target: node.target.to_owned(),
            action,
            operands,
            results,
            last: Vec::new(),
        });
        Ok(())
    }
}

struct Resolved {
    action: Action,
    operands: Vec<Term>,
}

/// What a target does with what it is given; `None` if nobody knows it.
fn resolve(node: Node<'_>, mut given: Vec<Given>) -> Result<Option<Resolved>, ProgramError> {
    let target = node.target.strip_prefix("torch.ops.").unwrap_or(node.target);
    let target = match target {
        "prims.convert_element_type.default" | "prims::convert_element_type" => {
            // its dtype is positional
            if let Some(dtype) = given.get_mut(1) {
                (dtype.name, dtype.is_keyword) = ("dtype".to_owned(), true);
            }
            "aten._to_copy.default"
        }
        other => other,
    };
    if let Some(op) = NumberOp::named(node.target) {
        let operands = plain(node, given)?;
        if operands.len() != op.arity() {
            return Err(node.error(format!(
                "expected {} arguments, and got {}",
                op.arity(),
                operands.len()
            )));
        }
        return Ok(Some(Resolved { action: Action::Number(op), operands }));
    }
    if let Some(name) = target.strip_prefix("higher_order.") {
        return super::higher::resolve(node, name, given)
            .map(|found| found.map(|(action, operands)| Resolved { action, operands }));
    }
    if let Some(check) = check_of(node, target, &given)? {
        return Ok(Some(check));
    }
    let Some(name) = operator_name(target) else { return Ok(None) };
    let found = dispatch::find_schema(&name)
        .or_else(|| dispatch::find_schema(&super::names::canonical(&name)?));
    let Some(handle) = found else {
        return super::each::resolve(node, &name, &given).map(|found| {
            found.map(|(op, schema, operands)| Resolved {
                action: Action::Each(op, schema),
                operands,
            })
        });
    };
    let Some(schema) = handle.schema() else { return Ok(None) };
    let operands = by_schema(node, schema, given)?;
    Ok(Some(Resolved { action: Action::Operator(handle, schema), operands }))
}

/// `aten.add.Tensor` or `aten::add.Tensor`.
fn operator_name(target: &str) -> Option<OperatorName> {
    let text = match target.contains("::") {
        true => target.to_owned(),
        false => {
            let (namespace, rest) = target.split_once('.')?;
            format!("{namespace}::{}", rest.strip_suffix(".default").unwrap_or(rest))
        }
    };
    text.parse().ok()
}

/// Checks of sizes, which PyTorch makes of `torch._check`.
fn check_of(
    node: Node<'_>,
    target: &str,
    given: &[Given],
) -> Result<Option<Resolved>, ProgramError> {
    let bare = target.replace("::", ".");
    let int = |name: &str| {
        given.iter().find(|g| g.name == name).and_then(|g| match &g.what {
            GivenTerm::Term(Term::Value(Value::Int(n))) => Some(*n),
            _ => None,
        })
    };
    let action = match bare.trim_end_matches(".default") {
        "aten._assert_scalar" => {
            let text = given.get(1).map(|g| &g.what);
            Action::Check(match text {
                Some(GivenTerm::Term(Term::Value(Value::String(s)))) => s.clone(),
                _ => "a condition on sizes does not hold".to_owned(),
            })
        }
        "aten.sym_constrain_range" => Action::Bounds(int("min"), int("max")),
        "aten.sym_constrain_range_for_size" => Action::Bounds(int("min").or(Some(0)), int("max")),
        _ => return Ok(None),
    };
    let operands = plain(node, given.iter().take(1).cloned().collect())?;
    Ok(Some(Resolved { action, operands }))
}
