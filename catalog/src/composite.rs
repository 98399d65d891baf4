//! Composites: operators that an entry defines by other operators.
//!
//! The field `composite` of an entry is an expression: calls of operators, of the entry's own
//! arguments, of literals and of lists, and before it, one to a line, names for what several calls
//! need. It is all there is of the operator: its eager kernel is made of it, capture goes through
//! that kernel, and the rewriter takes a call in a graph apart by it.
//!
//! ```
//! use straightline_catalog::Op;
//! use straightline_catalog::composite::Expr;
//! let swapaxes = Op::swapaxes.composite().unwrap();
//! assert_eq!(swapaxes.text, "transpose.int(self, axis0, axis1)");
//! assert!(matches!(swapaxes.results, [Expr::Call { op: Op::transpose_int, .. }]));
//! ```

use crate::schema::SchemaType;
use crate::{Arg, DType, MemoryFormat, Op, Scalar, TensorMeta};

/// The definition of an operator by others.
#[derive(Debug)]
pub struct Composite {
    /// The definition as the entry has it.
    pub text: &'static str,
    /// The values that it names, in their order.
    pub locals: &'static [Expr],
    /// The results; of several one call may give all.
    pub results: &'static [Expr],
}

/// A part of a definition.
#[derive(Clone, Copy, Debug)]
pub enum Expr {
    /// The argument at this position of the operator's schema.
    Argument(usize),
    /// A value that the definition names, or one of its parts where a call gives several.
    Local(usize, Option<usize>),
    /// A call.
    Call {
        /// The operator.
        op: Op,
        /// All arguments of its schema.
        args: &'static [Expr],
        /// The one of its results that is meant, where it has several; `None` for all.
        result: Option<usize>,
    },
    /// The sizes of the tensor that is the argument at this position.
    Sizes(usize),
    /// The dtype of the tensor that is the argument at this position.
    DTypeOf(usize),
    /// Several values.
    List(&'static [Expr]),
    /// An argument that is not given.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A string.
    Str(&'static str),
    /// An element type.
    DType(DType),
    /// An order of dimensions in memory.
    MemoryFormat(MemoryFormat),
}

include!(concat!(env!("OUT_DIR"), "/composites.rs"));

impl Op {
    /// The operators that are defined by others.
    pub const fn composites() -> &'static [Op] {
        COMPOSITES
    }

    /// The definition of the operator by others, if its entry has one.
    pub fn composite(self) -> Option<&'static Composite> {
        let at = COMPOSITES.binary_search(&self).ok()?;
        Some(&DEFINITIONS[at])
    }
}

impl Composite {
    /// The call that a call of the operator is, if the definition is a single one of the operator's
    /// own arguments and literals, with the same results.
    ///
    /// ```
    /// use straightline_catalog::{Arg, Op, TensorMeta};
    /// let definition = Op::swapdims.composite().unwrap();
    /// let call = [Arg::Tensor(7), Arg::Scalar(0.into()), Arg::Scalar(1.into())];
    /// let (op, args) = definition.call(&call, |_| None::<&TensorMeta>).unwrap();
    /// assert_eq!(op, Op::transpose_int);
    /// assert_eq!(args, call);
    /// ```
    pub fn call<'m, V: Clone>(
        &self,
        args: &[Arg<V>],
        meta: impl Fn(&V) -> Option<&'m TensorMeta>,
    ) -> Option<(Op, Vec<Arg<V>>)> {
        let [Expr::Call { op, args: wanted, result: None }] = self.results else {
            return None;
        };
        if !self.locals.is_empty() {
            return None;
        }
        let tensor = |i: &usize| match args.get(*i)? {
            Arg::Tensor(v) => meta(v),
            _ => None,
        };
        let each = wanted.iter().zip(&op.schema().args);
        let args = each.map(|(e, of)| argument(e, &of.ty, args, &tensor));
        Some((*op, args.collect::<Option<_>>()?))
    }
}

/// What a part of a definition is in a call, as an argument of a type.
fn argument<'m, V: Clone>(
    e: &Expr,
    of: &SchemaType,
    args: &[Arg<V>],
    tensor: &impl Fn(&usize) -> Option<&'m TensorMeta>,
) -> Option<Arg<V>> {
    let of = of.unwrap_optional();
    Some(match e {
        Expr::Argument(i) => match (args.get(*i)?, of) {
            (Arg::Scalar(Scalar::Bool(b)), SchemaType::Scalar) => {
                Arg::Scalar(Scalar::Int(i64::from(*b)))
            }
            (n @ Arg::Scalar(_), SchemaType::List(..)) => Arg::Ints(vec![n.as_int()?]),
            (own, _) => own.clone(),
        },
        Expr::Sizes(i) => Arg::Ints(tensor(i)?.sizes.to_vec()),
        Expr::DTypeOf(i) => Arg::DType(tensor(i)?.dtype),
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
            let each = all.iter().map(|e| argument(e, &SchemaType::Int, args, tensor)?.as_int());
            Arg::Ints(each.collect::<Option<_>>()?)
        }
        Expr::Local(..) | Expr::Call { .. } => return None,
    })
}
