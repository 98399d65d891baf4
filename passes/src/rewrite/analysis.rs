//! What is known of each e-class: the types of its value, the number that all its elements are
//! where it is a constant, and the node of the graph it goes back to.

use super::language::{Interner, Term};
use crate::ir::Scalar;
use crate::ir::TensorMeta;
use egg::{Analysis, DidMerge, EGraph, Id};
use std::sync::Arc;

/// The e-graph of a rewrite.
pub(super) type Graph = EGraph<Term, Facts>;

/// Where an e-class comes from; smaller is preferred when two classes become one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Origin {
    /// `false`: the class holds that node's value itself. `true`: an intermediate that a rule made
    /// while replacing the node.
    pub derived: bool,
    /// The node's index in the original graph.
    pub node: u32,
    /// Which of its results.
    pub result: u32,
}

/// The analysis, with the tables that terms point into.
#[derive(Debug)]
pub(super) struct Facts {
    /// Calls and constants by number.
    pub interner: Interner,
    /// Types of the inputs.
    pub inputs: Vec<TensorMeta>,
    /// Types of the parameters.
    pub parameters: Vec<TensorMeta>,
    /// The origin of classes made from now on.
    pub origin: Origin,
}

/// The facts of one e-class.
#[derive(Clone, Debug)]
pub(super) struct ClassFacts {
    /// The types: one for a value, several for the tuple that a call with several results is.
    pub results: Arc<[TensorMeta]>,
    /// The number that all elements are.
    pub splat: Option<Scalar>,
    /// The node it goes back to.
    pub origin: Origin,
}

impl Analysis<Term> for Facts {
    type Data = ClassFacts;

    fn make(egraph: &mut Graph, term: &Term, _id: Id) -> ClassFacts {
        let facts = &egraph.analysis;
        let (results, splat): (Arc<[TensorMeta]>, _) = match term {
            Term::Input(i) => (Arc::new([facts.inputs[*i as usize].clone()]), None),
            Term::Parameter(i) => (Arc::new([facts.parameters[*i as usize].clone()]), None),
            Term::Constant(c) => {
                let c = facts.interner.constant(*c);
                (Arc::new([c.meta.clone()]), c.splat())
            }
            Term::Call(c, _) => (facts.interner.call(*c).results.clone(), None),
            Term::Result(i, [tuple]) => {
                let results = &egraph[*tuple].data.results;
                (Arc::new([results[*i as usize].clone()]), None)
            }
        };
        ClassFacts { results, splat, origin: egraph.analysis.origin }
    }

    fn merge(&mut self, a: &mut ClassFacts, b: ClassFacts) -> DidMerge {
        // rules only equate values of one type: see `Site::finish`
        debug_assert_eq!(a.results, b.results, "two types in one e-class");
        let (mut a_changed, mut b_changed) = (false, false);
        match (a.splat, b.splat) {
            (None, Some(s)) => {
                a.splat = Some(s);
                a_changed = true;
            }
            (Some(_), None) => b_changed = true,
            _ => {}
        }
        if b.origin < a.origin {
            a.origin = b.origin;
            a_changed = true;
        } else if a.origin < b.origin {
            b_changed = true;
        }
        DidMerge(a_changed, b_changed)
    }
}
