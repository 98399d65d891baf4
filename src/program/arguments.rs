//! The arguments of a call, as a schema wants them.

use super::body::Term;
use super::coerce::coerce;
use super::error::ProgramError;
use super::node::{Given, GivenTerm, Node};
use crate::dispatch::Value;
use crate::dispatch::schema::{Argument, FunctionSchema};

/// The arguments of a schema, in order, with its defaults where nothing is given.
pub(super) fn by_schema(
    node: Node<'_>,
    schema: &'static FunctionSchema,
    given: Vec<Given>,
) -> Result<Vec<Term>, ProgramError> {
    let mut all: Vec<Option<Term>> = vec![None; schema.args.len()];
    for (position, g) in given.into_iter().enumerate() {
        let named = schema.arg_index(&g.name);
        let at = match (named, g.is_keyword || !g.name.is_empty()) {
            (Some(at), _) => at,
            (None, true) if g.is_keyword => {
                return Err(node.error(format!("the operator has no argument `{}`", g.name)));
            }
            // the name that another release of PyTorch had for it
            _ if position < all.len() => position,
            _ => {
                let takes = all.len();
                return Err(
                    node.error(format!("the operator takes {takes} arguments, and more are given"))
                );
            }
        };
        let GivenTerm::Term(term) = g.what else {
            return Err(node.error(format!("argument `{}` is a graph", schema.args[at].name)));
        };
        if all[at].replace(fixed(node, &schema.args[at], term)?).is_some() {
            return Err(node.error(format!("argument `{}` is given twice", schema.args[at].name)));
        }
    }
    let filled = all.into_iter().zip(&schema.args).map(|(term, arg)| match (term, &arg.default) {
        (Some(term), _) => Ok(term),
        (None, Some(default)) => Ok(Term::Value(Value::from_default(default, &arg.ty))),
        (None, None) => Err(node.error(format!("argument `{}` is missing", arg.name))),
    });
    filled.collect()
}

/// A constant argument as the schema wants it, once for all calls.
fn fixed(node: Node<'_>, arg: &Argument, term: Term) -> Result<Term, ProgramError> {
    if !term.is_fixed() {
        return Ok(term);
    }
    let value = coerce(constant(term), &arg.ty)
        .map_err(|why| node.error(format!("argument `{}`: {why}", arg.name)))?;
    Ok(Term::Value(value))
}

fn constant(term: Term) -> Value {
    match term {
        Term::Value(value) => value,
        Term::List(all) => Value::Tuple(all.into_iter().map(constant).collect()),
        Term::Slot(_) => Value::None,
    }
}
