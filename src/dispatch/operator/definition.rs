//! A schema as it was registered, with what calls need to know about it.

use crate::dispatch::error::Site;
use straightline_catalog::Op;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// A schema as it was registered.
pub(in crate::dispatch) struct Definition {
    pub(in crate::dispatch) op: Op,
    pub(in crate::dispatch) schema: &'static FunctionSchema,
    pub(in crate::dispatch) site: Site,
    pub(in crate::dispatch) inferred: bool,
    /// Returns that are an argument which the operator writes: `(return, argument)`.
    pub(super) echoes: Vec<(usize, usize)>,
    /// Bit `i`: the `i`-th argument from the end takes part in dispatch.
    pub(super) relevant: u64,
}

impl Definition {
    pub(in crate::dispatch) fn new(op: Op, site: Site, inferred: bool) -> Definition {
        let schema = op.schema();
        let relevant = schema
            .args
            .iter()
            .rev()
            .take(64)
            .enumerate()
            .filter(|(_, a)| a.ty.is_dispatch_relevant())
            .fold(0, |bits, (i, _)| bits | 1 << i);
        let echoes = (0..schema.returns.len())
            .filter(|r| schema.returns[*r].alias.as_ref().is_some_and(|a| a.write))
            .filter(|r| schema.returns[*r].ty == SchemaType::Tensor)
            .filter_map(|r| Some((r, schema.aliased_argument(r)?)))
            .collect();
        Definition { op, schema, site, inferred, echoes, relevant }
    }
}
