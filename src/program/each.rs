//! Calls over lists of tensors, `_foreach_add.List` and its kin, which compiled optimisers are made of:
//! each is the call of another operator for every element.

use super::arguments::by_schema;
use super::body::Term;
use super::error::ProgramError;
use super::node::{Given, GivenTerm, Node};
use crate::dispatch::schema::FunctionSchema;
use crate::dispatch::{self, OperatorHandle, Value};
use straightline_catalog::Scalar;
use straightline_catalog::schema::OperatorName;

/// What is called for each element, and its operands, each a list of as many.
pub(super) type Each = (OperatorHandle, &'static FunctionSchema, Vec<Term>);

/// The call for each element; `None` if it is not one over lists.
pub(super) fn resolve(
    node: Node<'_>,
    name: &OperatorName,
    given: &[Given],
) -> Result<Option<Each>, ProgramError> {
    let Some((op, schema)) = element(name) else { return Ok(None) };
    let size = given.first().and_then(|g| match &g.what {
        GivenTerm::Term(Term::List(all)) => Some(all.len()),
        _ => None,
    });
    let size = size.ok_or_else(|| node.error("its first argument is no list of tensors"))?;
    let mut operands: Vec<Vec<Term>> = vec![Vec::with_capacity(size); schema.args.len()];
    for at in 0..size {
        let one = given.iter().map(|g| {
            let GivenTerm::Term(term) = &g.what else { return Ok(g.clone()) };
            let term = picked(term, at, size).ok_or_else(|| {
                node.error(format!(
                    "argument `{}` has not {size} elements, as the first has",
                    g.name
                ))
            })?;
            Ok(Given { what: GivenTerm::Term(term), ..g.clone() })
        });
        let one = one.collect::<Result<Vec<_>, ProgramError>>()?;
        for (all, term) in operands.iter_mut().zip(by_schema(node, schema, one)?) {
            all.push(term);
        }
    }
    Ok(Some((op, schema, operands.into_iter().map(Term::List).collect())))
}

/// The element of a list; what is no list is there for all of them.
fn picked(term: &Term, at: usize, size: usize) -> Option<Term> {
    let scalar = |s: Scalar| match s {
        Scalar::Bool(b) => Value::Bool(b),
        Scalar::Int(n) => Value::Int(n),
        Scalar::Float(x) => Value::Double(x),
        Scalar::Complex(re, im) => Value::Complex(re, im),
    };
    let (length, one) = match term {
        Term::List(all) => (all.len(), all.get(at).cloned()),
        Term::Value(Value::IntList(all)) => {
            (all.len(), all.get(at).map(|n| Term::Value(Value::Int(*n))))
        }
        Term::Value(Value::DoubleList(all)) => {
            (all.len(), all.get(at).map(|x| Term::Value(Value::Double(*x))))
        }
        Term::Value(Value::ScalarList(all)) => {
            (all.len(), all.get(at).map(|s| Term::Value(scalar(*s))))
        }
        Term::Value(Value::Tuple(all)) => (all.len(), all.get(at).cloned().map(Term::Value)),
        other => return Some(other.clone()),
    };
    one.filter(|_| length == size)
}

/// The operator for one element.
fn element(name: &OperatorName) -> Option<(OperatorHandle, &'static FunctionSchema)> {
    let list = name.name.strip_prefix("aten::_foreach_")?;
    let (plain, in_place) = match list.strip_suffix('_') {
        Some(plain) => (plain, "_"),
        None => (list, ""),
    };
    let scalar = matches!(&*name.overload, "Scalar" | "ScalarList");
    let plain = match (plain, scalar) {
        ("maximum", true) => "clamp_min",
        ("minimum", true) => "clamp_max",
        ("norm", _) => "linalg_vector_norm",
        _ => plain,
    };
    let overloads: &[&str] = match &*name.overload {
        "" => &[""],
        "List" | "Tensor" => &["Tensor", "Tensor_Tensor", ""],
        "Scalar" | "ScalarList" => &["Scalar", "Tensor_Scalar", ""],
        "ScalarAndTensor" => &["Scalar"],
        _ => return None,
    };
    overloads.iter().find_map(|overload| {
        let name = OperatorName::new(format!("aten::{plain}{in_place}"), *overload);
        let handle = dispatch::find_schema(&name)?;
        Some((handle, handle.schema()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{InputKind, ProgramBuilder, ProgramCall, Term as Given};
    use crate::tensor;

    #[test]
    fn calls_over_lists_are_calls_of_their_elements() {
        let run = |target: &str, more: Vec<Given>| {
            let mut p = ProgramBuilder::new("each");
            let (a, b) = (p.input("a", InputKind::Any), p.input("b", InputKind::Any));
            let lists = Given::List(vec![Given::Of(a), Given::Of(b)]);
            let args = [vec![lists], more].concat();
            let both = p.call(ProgramCall { name: "y", target, args, ..Default::default() })?;
            let take = |p: &mut ProgramBuilder, at: i64| {
                p.call(ProgramCall {
                    name: "one",
                    target: "_operator.getitem",
                    args: vec![Given::Of(both), Given::Constant(Value::Int(at))],
                    ..Default::default()
                })
            };
            let (one, two) = (take(&mut p, 0)?, take(&mut p, 1)?);
            let program = p.finish(vec![Given::Of(one), Given::Of(two)])?;
            let results = program.run([&tensor([1.0, 2.0])?, &tensor([3.0])?])?;
            let values = results.iter().map(|r| r.tensor()?.to_vec::<f32>());
            values.collect::<crate::Result<Vec<_>>>()
        };
        let number = |x: f64| Given::Constant(Value::Double(x));
        let added = run("aten::_foreach_add.Scalar", vec![number(0.5)]).unwrap();
        assert_eq!(added, [vec![1.5, 2.5], vec![3.5]]);
        let each = Given::Constant(Value::DoubleList(vec![2.0, 10.0]));
        let scaled = run("aten::_foreach_mul.ScalarList", vec![each]).unwrap();
        assert_eq!(scaled, [vec![2.0, 4.0], vec![30.0]]);
        assert_eq!(run("aten::_foreach_neg", vec![]).unwrap()[1], [-3.0]);
        assert_eq!(run("aten::_foreach_maximum.Scalar", vec![number(1.5)]).unwrap()[0], [1.5, 2.0]);
        let short = Given::Constant(Value::DoubleList(vec![2.0]));
        let e = run("aten::_foreach_mul.ScalarList", vec![short]).unwrap_err();
        assert!(e.to_string().contains("has not 2 elements"), "{e}");
        assert!(run("aten::_foreach_frobnicate", vec![]).is_err());
    }
}
