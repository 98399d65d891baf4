//! Compares the results of calls with what follows from their operands ([`Op::shapes`]).
//!
//! [`Op::shapes`]: crate::ir::Op::shapes

use crate::ir::graph::{Call, Graph, NodeId};
use crate::ir::{DType, Dims, MetaError};

/// What does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are named by the messages
pub enum ShapeError {
    /// Result sizes that do not follow from the operands.
    #[error("expected sizes {expected:?}, found {found:?}")]
    Sizes { expected: Dims, found: Dims },
    /// A result dtype that the operator never gives.
    #[error("expected dtype {expected}, found {found}")]
    DType { expected: DType, found: DType },
    /// Operands or arguments that the operator does not take.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// A wrong number of results.
    #[error("expected {expected} results, found {found}")]
    Results { expected: usize, found: usize },
}

/// Checks one call's results. The graph's structure must be sound.
///
/// # Errors
///
/// The first mismatch. An operator whose results only its kernel knows always passes.
pub fn check(graph: &Graph, id: NodeId, call: &Call) -> Result<(), ShapeError> {
    let operands = graph.operands(id);
    let shapes = (call.op).shapes(&call.args, |i| graph.meta(operands[*i as usize]));
    let Some(shapes) = shapes.transpose()? else {
        return Ok(());
    };
    let results = &graph.node(id).results;
    if results.len() != shapes.len() {
        return Err(ShapeError::Results { expected: shapes.len(), found: results.len() });
    }
    for (shape, result) in shapes.into_iter().zip(results) {
        if shape.sizes != result.sizes {
            return Err(ShapeError::Sizes { expected: shape.sizes, found: result.sizes.clone() });
        }
        if let Some(expected) = shape.dtype
            && expected != result.dtype
        {
            return Err(ShapeError::DType { expected, found: result.dtype });
        }
    }
    Ok(())
}
