//! Choices by masks and numbers.

use crate::ir::Op;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "masked_fill", "masked_fill(x, m, v) = where(m, v, x)",
        [Op::masked_fill_Scalar, Op::masked_fill_Tensor] => One(masked_fill);
    "where_scalar", "where with numbers is where with constants",
        [Op::where_ScalarSelf, Op::where_ScalarOther] => One(where_scalar);
}

fn masked_fill(s: &mut Site<'_>) -> Option<Id> {
    let (x, mask) = (s.tensor(0)?, s.tensor(1)?);
    let dtype = s.dtype(x);
    let value = match s.scalar("value") {
        Some(v) => s.constant(v, dtype),
        None => {
            let v = s.tensor(2)?;
            s.convert(v, dtype)
        }
    };
    // the mask broadcasts to the tensor, and a mask may also enlarge it
    Some(s.select(mask, value, x))
}

fn where_scalar(s: &mut Site<'_>) -> Option<Id> {
    let condition = s.tensor(0)?;
    let dtype = s.out().dtype;
    let mut value = |name, position| match s.scalar(name) {
        Some(v) => Some(s.constant(v, dtype)),
        None => {
            let v = s.tensor(position)?;
            Some(s.convert(v, dtype))
        }
    };
    let (a, b) = (value("self", 1)?, value("other", 2)?);
    Some(s.select(condition, a, b))
}
