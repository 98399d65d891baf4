//! Choices by masks and numbers.

use super::{Composer, Made};
use crate::ir::{DType, MetaError, args};

/// `condition ? number : other`.
///
/// # Errors
///
/// Sizes that do not broadcast.
pub fn where_ScalarSelf<C: Composer>(c: &mut C, a: args::where_ScalarSelf<&C::Value>) -> Made<C> {
    let number = c.number_beside(a.self_, a.other)?;
    c.select(a.condition, &number, a.other)
}

/// `condition ? self : number`.
///
/// # Errors
///
/// Sizes that do not broadcast.
pub fn where_ScalarOther<C: Composer>(c: &mut C, a: args::where_ScalarOther<&C::Value>) -> Made<C> {
    let number = c.number_beside(a.other, a.self_)?;
    c.select(a.condition, a.self_, &number)
}

/// The one element of `value` where the mask says so, in rows.
///
/// # Errors
///
/// A mask that is not `bool`; a value with dimensions; sizes that do not broadcast.
pub fn masked_fill_Tensor<C: Composer>(
    c: &mut C,
    a: args::masked_fill_Tensor<&C::Value>,
) -> Made<C> {
    let found = c.dtype(a.mask);
    if found != DType::Bool {
        return Err(MetaError::MaskDType { found }.into());
    }
    let rank = c.sizes(a.value).len();
    if rank != 0 {
        return Err(MetaError::FillRank { rank }.into());
    }
    let value = c.to(a.value, c.dtype(a.self_))?;
    let filled = c.select(a.mask, &value, a.self_)?;
    c.contiguous(&filled)
}
