//! What can be said about a program without running it: what it writes, which integers are positions
//! in its weights.

use super::body::{Action, Body, Slot, Step, Term};
use super::writes::aliased;
use super::{Fate, Program, Source, Weight};
use crate::dispatch::Value;
use crate::dispatch::schema::Argument;
use std::collections::{BTreeMap, BTreeSet};
use straightline_catalog::Op;

/// Weights and inputs of a call, by number.
#[derive(Clone, Default, Debug)]
pub(crate) struct Written {
    pub(crate) weights: BTreeSet<usize>,
    pub(crate) inputs: BTreeSet<usize>,
}

/// What a run may write, by its calls or by what the signature says of its outputs.
pub(crate) fn written(body: &Body, sources: &[Source], fates: &[Fate]) -> Written {
    let mut all = Written::default();
    for at in body.written_inputs() {
        match sources.get(at) {
            Some(Source::Weight(at)) => all.weights.insert(*at),
            Some(Source::User(at)) => all.inputs.insert(*at),
            _ => false,
        };
    }
    for fate in fates {
        match fate {
            Fate::Weight(at) => all.weights.insert(*at),
            Fate::User(at) => all.inputs.insert(*at),
            _ => false,
        };
    }
    all
}

impl Program {
    /// The weights that a run may write, such as running statistics.
    ///
    /// ```
    /// use straightline::pt2;
    /// let program = pt2::load("tests/data/pt2/batchnorm_train.pt2")?;
    /// let names: Vec<&str> = program.written_weights().map(|w| w.name.as_str()).collect();
    /// assert_eq!(names, ["1.running_mean", "1.running_var", "1.num_batches_tracked"]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn written_weights(&self) -> impl Iterator<Item = &Weight> {
        let parts = &*self.0;
        let all = written(&parts.body, &parts.sources, &parts.fates).weights;
        all.into_iter().filter_map(|at| parts.weights.get(at))
    }

    /// The inputs that a run may write, by position.
    ///
    /// ```
    /// use straightline::pt2;
    /// let program = pt2::load("tests/data/pt2/batchnorm_train.pt2")?;
    /// assert_eq!(program.written_inputs().count(), 0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn written_inputs(&self) -> impl Iterator<Item = usize> {
        let parts = &*self.0;
        written(&parts.body, &parts.sources, &parts.fates).inputs.into_iter()
    }

    /// Where the elements of an input are positions in weights (token ids), a number that all of them
    /// have to be below: of these weights the fewest rows. `None` where they are not, and where the
    /// program computes with them first.
    ///
    /// ```
    /// use straightline::pt2;
    /// let program = pt2::load("tests/data/pt2/lstm.pt2")?;
    /// let rows = program.weight("e.weight").unwrap().tensor.sizes()[0];
    /// assert_eq!(program.positions_below(0), Some(rows));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn positions_below(&self, input: usize) -> Option<i64> {
        let parts = &*self.0;
        let known = parts.sources.iter().map(|source| match source {
            Source::User(at) => Known::Input(*at),
            Source::Weight(at) => {
                let sizes = parts.weights.get(*at).map(|w| w.tensor.sizes().to_vec());
                sizes.map_or(Known::Nothing, Known::Sizes)
            }
            Source::Nothing => Known::Nothing,
        });
        let mut found = BTreeMap::new();
        parts.body.positions(known.collect(), &mut found);
        found.get(&input).copied()
    }
}

/// What is known of a value.
#[derive(Clone, Default, Debug)]
enum Known {
    #[default]
    Nothing,
    /// Its elements are some of this input's.
    Input(usize),
    /// A weight, or a view of one that has these sizes.
    Sizes(Vec<i64>),
}

impl Body {
    /// Notes for each input the bound of what its elements are positions in. Which arguments these are,
    /// and in what, PyTorch's names of arguments say: `weight` and `indices`; `self`, `dim` and
    /// `index`; `self` and a list of `indices`.
    fn positions(&self, inputs: Vec<Known>, found: &mut BTreeMap<usize, i64>) {
        let mut values: Vec<Known> = vec![Known::Nothing; self.names.len()];
        for (slot, known) in self.inputs.iter().zip(inputs) {
            if let Some(value) = values.get_mut(*slot as usize) {
                *value = known;
            }
        }
        let of = |values: &[Known], slot: Slot| values.get(slot as usize).cloned();
        for step in &self.steps {
            let known = |term: &Term| match term {
                Term::Slot(slot) => of(&values, *slot).unwrap_or_default(),
                _ => Known::Nothing,
            };
            let mut note = |input: &Known, bound: Option<i64>| {
                if let (Known::Input(input), Some(bound)) = (input, bound) {
                    let least = found.entry(*input).or_insert(bound);
                    *least = bound.min(*least);
                }
            };
            match &step.action {
                Action::Operator(_, schema) => {
                    let operand = |name: &str| step.operands.get(schema.arg_index(name)?);
                    let size = |name: &str, dim: i64| match operand(name).map(known) {
                        Some(Known::Sizes(sizes)) => {
                            let dim = if dim < 0 { dim + sizes.len() as i64 } else { dim };
                            sizes.get(usize::try_from(dim).ok()?).copied()
                        }
                        _ => None,
                    };
                    match (operand("indices"), operand("index"), operand("dim")) {
                        (Some(Term::List(all)), ..) => {
                            for (dim, term) in (0..).zip(all) {
                                note(&known(term), size("self", dim));
                            }
                        }
                        (Some(term), ..) => note(&known(term), size("weight", 0)),
                        (_, Some(term), Some(Term::Value(Value::Int(dim)))) => {
                            note(&known(term), size("self", *dim));
                        }
                        _ => {}
                    }
                }
                Action::Graph(_, body) => {
                    body.positions(step.operands.iter().map(known).collect(), found);
                }
                Action::Cond(one, other) => {
                    let given: Vec<Known> = step.operands.iter().skip(1).map(known).collect();
                    one.positions(given.clone(), found);
                    other.positions(given, found);
                }
                _ => {}
            }
            let passed = passed_on(step).map(known);
            if let Action::Operator(_, schema) = &step.action {
                // what is written has other elements from then on
                for (term, arg) in step.operands.iter().zip(&schema.args) {
                    if arg.is_write()
                        && let Term::Slot(slot) = term
                        && let Some(value) = values.get_mut(*slot as usize)
                    {
                        *value = Known::Nothing;
                    }
                }
            }
            if let Some(passed) = passed
                && matches!(passed, Known::Input(_))
            {
                for slot in step.results.slots() {
                    if let Some(value) = values.get_mut(slot as usize) {
                        *value = passed.clone();
                    }
                }
            }
        }
    }
}

/// The operand whose elements the results have, and no others: that of a view or of a copy.
fn passed_on(step: &Step) -> Option<&Term> {
    let Action::Operator(op, schema) = &step.action else { return None };
    if op.is(Op::clone) || op.is(Op::_to_copy) {
        return step.operands.first();
    }
    if schema.args.iter().any(Argument::is_write) {
        return None;
    }
    let operands: Vec<BTreeSet<usize>> =
        (0..step.operands.len()).map(|at| BTreeSet::from([at])).collect();
    let shared = aliased(schema, &operands);
    match (shared.len(), shared.first()) {
        (1, Some(at)) => step.operands.get(*at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::pt2;

    fn of(name: &str) -> crate::program::Program {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pt2");
        pt2::load(format!("{folder}/{name}.pt2")).unwrap()
    }

    #[test]
    fn token_ids_are_below_the_rows_of_their_weight() {
        // the ids pass through views and a graph that a call is given
        for (name, rows) in [("lstm", 50), ("gpt2_dynamic_batch", 96), ("llama", 96)] {
            assert_eq!(of(name).positions_below(0), Some(rows), "{name}");
        }
        let floats = of("mlp_tree");
        assert!((0..9).all(|at| floats.positions_below(at).is_none()));
    }

    #[test]
    fn what_is_written_by_calls_and_by_signatures() {
        let expected = ["1.running_mean", "1.running_var", "1.num_batches_tracked"];
        for name in ["batchnorm_train", "batchnorm_train_functional"] {
            let program = of(name);
            let mut names: Vec<&str> = program.written_weights().map(|w| w.name.as_str()).collect();
            names.sort_by_key(|n| expected.iter().position(|e| e == n));
            assert_eq!(names, expected, "{name}");
            assert_eq!(program.written_inputs().count(), 0);
        }
        assert_eq!(of("lstm").written_weights().count(), 0);
    }

    #[test]
    fn inputs_are_checked_without_a_run() {
        let program = of("lstm");
        assert!(program.check([&crate::tensor([[1i64; 7]; 2]).unwrap()]).is_ok());
        let e = program.check([&crate::tensor([[1i64; 8]; 2]).unwrap()]).unwrap_err();
        assert!(e.to_string().contains("`t`"), "{e}");
    }
}
