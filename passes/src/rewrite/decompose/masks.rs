//! Choices by masks.

use crate::ir::{Op, args};
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "masked_fill", "masked_fill(x, m, v) = where(m, v, x)",
        [Op::masked_fill_Scalar] => One(masked_fill);
}

fn masked_fill(s: &mut Site<'_>) -> Option<Id> {
    let a: args::masked_fill_Scalar<Id> = s.args()?;
    let value = s.constant(a.value, s.dtype(a.self_));
    // the mask broadcasts to the tensor, and a mask may also enlarge it
    Some(s.select(a.mask, value, a.self_))
}
