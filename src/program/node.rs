//! A node of a graph, before it is known what its target is.

use super::body::{Body, Term};
use super::error::ProgramError;
use std::sync::Arc;

/// An argument of a node, by position or by name.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Empty, or a name of the schema's.
    pub(crate) name: String,
    pub(crate) is_keyword: bool,
    pub(crate) what: GivenTerm,
}

/// What is given: a value, or a graph.
#[derive(Clone, Debug)]
pub(crate) enum GivenTerm {
    Term(Term),
    Graph(Arc<Body>),
}

/// Of a node, what errors say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) name: &'a str,
    pub(crate) target: &'a str,
    /// The line of the model.
    pub(crate) line: Option<&'a str>,
}

impl Node<'_> {
    pub(crate) fn error(&self, reason: impl Into<String>) -> ProgramError {
        ProgramError::Node {
            node: self.name.to_owned(),
            target: self.target.to_owned(),
            reason: reason.into(),
            line: self.line.map(str::to_owned),
        }
    }

    pub(super) fn site(&self) -> Arc<str> {
        match self.line {
            Some(line) => format!("node `{}`, {line}", self.name).into(),
            None => format!("node `{}`", self.name).into(),
        }
    }
}

/// Arguments in order, without names and graphs.
pub(super) fn plain(node: Node<'_>, given: Vec<Given>) -> Result<Vec<Term>, ProgramError> {
    let term = |g: Given| match g.what {
        GivenTerm::Term(term) => Ok(term),
        GivenTerm::Graph(_) => Err(node.error("a graph is given where a value is expected")),
    };
    given.into_iter().map(term).collect()
}
