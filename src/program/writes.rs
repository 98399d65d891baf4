//! Which inputs of a graph it may write. What lies in a mapped file and is written has to be copied.

use super::body::{Action, Body, Scope, Slot, Step, Term};
use crate::dispatch::schema::{AliasInfo, FunctionSchema};
use std::collections::BTreeSet;

/// Inputs, by position.
type Inputs = BTreeSet<usize>;

/// What a graph does to its inputs.
#[derive(Default)]
struct Found {
    written: Inputs,
    /// For each output the inputs that may be it, or that it may be a view of.
    outputs: Vec<Inputs>,
}

impl Body {
    /// The inputs that a run may write, by position.
    pub(crate) fn written_inputs(&self) -> BTreeSet<usize> {
        self.look().written
    }

    fn look(&self) -> Found {
        let mut of: Vec<Inputs> = vec![Inputs::new(); self.names.len()];
        for (at, slot) in self.inputs.iter().enumerate() {
            of[*slot as usize].insert(at);
        }
        let mut written = Inputs::new();
        for step in &self.steps {
            let operands: Vec<Inputs> = step.operands.iter().map(|t| union(t, &of)).collect();
            let shared = match &step.action {
                Action::Operator(_, schema) | Action::Each(_, schema) => {
                    for (arg, inputs) in schema.args.iter().zip(&operands) {
                        // kernels of normalisation write running statistics where they train
                        if arg.is_write() || arg.name.starts_with("running_") {
                            written.extend(inputs);
                        }
                    }
                    aliased(schema, &operands)
                }
                Action::Number(_) => operands.iter().flatten().copied().collect(),
                _ => given_graphs(step, &operands, &mut written),
            };
            for slot in step.results.slots() {
                of[slot as usize] = shared.clone();
            }
        }
        Found { written, outputs: self.outputs.iter().map(|t| union(t, &of)).collect() }
    }
}

fn union(term: &Term, of: &[Inputs]) -> Inputs {
    let mut all = Inputs::new();
    term.slots(&mut |slot: Slot| all.extend(&of[slot as usize]));
    all
}

/// The inputs that results of an operator may share memory with.
pub(super) fn aliased(schema: &FunctionSchema, operands: &[Inputs]) -> Inputs {
    let marked = |alias: &Option<AliasInfo>| alias.as_ref().is_some_and(|a| !a.is_empty());
    // without training they are their argument
    let passes = schema.name.name.contains("dropout");
    let result = schema.returns.iter().any(|r| marked(&r.alias));
    let shares = schema.args.iter().map(|arg| passes || result && marked(&arg.alias));
    operands
        .iter()
        .zip(shares)
        .filter(|(_, shares)| *shares)
        .flat_map(|(i, _)| i)
        .copied()
        .collect()
}

/// The same of a call that is given graphs.
fn given_graphs(step: &Step, operands: &[Inputs], written: &mut Inputs) -> Inputs {
    let first = match &step.action {
        Action::Cond(..) => 1,
        _ => 0,
    };
    let mut shared = Inputs::new();
    for body in Body::graphs(step) {
        let found = body.look();
        let outer = |inner: usize| operands.get(first + inner).into_iter().flatten().copied();
        written.extend(found.written.iter().flat_map(|i| outer(*i)));
        // the results of branches and loops are copies
        if matches!(
            step.action,
            Action::Graph(Scope::Plain | Scope::Grad(_) | Scope::Autocast { .. }, _)
        ) {
            shared.extend(found.outputs.iter().flatten().flat_map(|i| outer(*i)));
        }
    }
    shared
}
