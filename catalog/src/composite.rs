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

use crate::{DType, MemoryFormat, Op};

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
    /// The call that the operator is, if the definition is a single one of the operator's own
    /// arguments and literals, with the same results.
    pub fn forwards(&self) -> Option<(Op, &'static [Expr])> {
        match self.results {
            [
                Expr::Call {
                    op,
                    args,
                    result: None,
                },
            ] if self.locals.is_empty() => {
                let plain = |e: &Expr| !matches!(e, Expr::Call { .. } | Expr::Local(..));
                let flat = |e: &Expr| match e {
                    Expr::List(all) => all.iter().all(plain),
                    e => plain(e),
                };
                args.iter().all(flat).then_some((*op, *args))
            }
            _ => None,
        }
    }
}
