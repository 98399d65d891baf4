//! Operators that their entries in the catalogue define as one call of another operator.

use crate::ir::composite::Expr;
use crate::ir::schema::SchemaType;
use crate::ir::{Arg, Op, Scalar};
use crate::rewrite::rule::{Apply, Rule, RuleSet};
use crate::rewrite::site::Site;
use egg::Id;

pub(in crate::rewrite) const RULES: &[Rule] = &[Rule {
    name: "composite",
    law: "an operator that its entry defines as a call of another one is that call",
    ops: Op::composites(),
    set: RuleSet::Decompose,
    apply: Apply::One(forward),
}];

fn forward(s: &mut Site<'_>) -> Option<Id> {
    let (op, args) = s.op().composite()?.forwards()?;
    if s.op().facts().mutable {
        return None;
    }
    let args: Vec<Arg<Id>> = (args.iter().zip(&op.schema().args))
        .map(|(e, of)| argument(s, e, &of.ty))
        .collect::<Option<_>>()?;
    let meta = s.out().clone();
    Some(s.call_op(op, &args, &[meta]))
}

/// What a part of a definition is in this call, as an argument of a type.
fn argument(s: &Site<'_>, e: &Expr, of: &SchemaType) -> Option<Arg<Id>> {
    let of = of.unwrap_optional();
    Some(match e {
        Expr::Argument(i) => match (s.call.args.get(*i)?, of) {
            (Arg::Scalar(Scalar::Bool(b)), SchemaType::Scalar) => {
                Arg::Scalar(Scalar::Int(i64::from(*b)))
            }
            (n @ Arg::Scalar(_), SchemaType::List(..)) => Arg::Ints(vec![n.as_int()?]),
            (own, _) => own.map(|at| s.children[*at as usize]),
        },
        Expr::Sizes(i) => Arg::Ints(s.meta(s.tensor(*i)?).sizes.to_vec()),
        Expr::DTypeOf(i) => Arg::DType(s.dtype(s.tensor(*i)?)),
        Expr::None => Arg::None,
        Expr::Bool(b) => Arg::Scalar((*b).into()),
        Expr::Int(n) => match of {
            SchemaType::List(..) => Arg::Ints(vec![*n]),
            SchemaType::Float => Arg::Scalar(Scalar::Float(*n as f64)),
            _ => Arg::Scalar((*n).into()),
        },
        Expr::Float(x) => Arg::Scalar((*x).into()),
        Expr::Str(text) => Arg::Str((*text).to_string()),
        Expr::DType(dtype) => Arg::DType(*dtype),
        Expr::MemoryFormat(format) => Arg::MemoryFormat(*format),
        Expr::List(all) => {
            let each = all
                .iter()
                .map(|e| argument(s, e, &SchemaType::Int)?.as_int());
            Arg::Ints(each.collect::<Option<_>>()?)
        }
        Expr::Local(..) | Expr::Call { .. } => return None,
    })
}
