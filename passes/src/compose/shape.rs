//! Joining.

use super::{Composer, Made};
use crate::ir::args;
use crate::ir::view::wrap_dim;
use crate::ir::{MetaError, Op};

/// The concatenation along a new dimension.
///
/// # Errors
///
/// An empty list, or tensors of different sizes.
pub fn stack<C: Composer>(c: &mut C, a: args::stack<&C::Value>) -> Made<C> {
    let op = Op::stack;
    let first = a.tensors.first().ok_or(MetaError::EmptyList { op })?;
    let mut sizes = c.sizes(first);
    for (position, part) in a.tensors.iter().enumerate() {
        let other = c.sizes(part);
        if other != sizes {
            let first = sizes;
            return Err(MetaError::Stacked { first, other, position }.into());
        }
    }
    let dim = wrap_dim(a.dim, sizes.len() + 1)?;
    if dim < sizes.len() {
        // as PyTorch, so that the result lies as that of `cat` does
        sizes.insert(dim, a.tensors.len() as i64);
        let parts: Vec<C::Value> = a.tensors.into_iter().cloned().collect();
        let all = c.cat(&parts, dim as i64)?;
        return c.view(&all, &sizes);
    }
    let parts = (a.tensors.into_iter())
        .map(|part| c.unsqueeze(part, dim as i64))
        .collect::<Result<Vec<_>, _>>()?;
    c.cat(&parts, dim as i64)
}
