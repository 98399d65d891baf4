//! Changes of dtype, and copies.

use super::identities::widens;
use crate::ir::Arg;
use crate::ir::Op;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

const CONVERT: Op = Op::prims_convert_element_type;

rules! { Simplify:
    "copy", "a copy, an alias or a conversion to the dtype it has already is the value itself",
        [Op::clone, Op::alias, Op::detach, Op::contiguous, Op::lift_fresh_copy,
         Op::_to_copy, Op::prims_convert_element_type] => One(copy);
    "overwritten", "values copied over all of a tensor of their own type are themselves",
        [Op::copy] => One(overwritten);
    "convert_chain", "a conversion after one that lost nothing converts what was before",
        [Op::prims_convert_element_type] => One(convert_chain);
    "to_copy", "a copy to another dtype on the same device is a conversion",
        [Op::_to_copy] => One(to_copy);
}

fn copy(s: &mut Site<'_>) -> Option<Id> {
    s.exactly(s.tensor(0)?)
}

fn overwritten(s: &mut Site<'_>) -> Option<Id> {
    s.exactly(s.tensor(1)?)
}

fn convert_chain(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let base = s.producer(x, &[CONVERT])?.tensor(0)?;
    if !widens(s.dtype(base), s.dtype(x)) {
        return None;
    }
    let to = s.out().dtype;
    if s.dtype(base) == to {
        return s.exactly(base);
    }
    Some(s.convert(base, to))
}

fn to_copy(s: &mut Site<'_>) -> Option<Id> {
    let x = s.tensor(0)?;
    let (m, out) = (s.meta(x), s.out().clone());
    if m.device != out.device || m.strides != out.strides || m.dtype == out.dtype {
        return None;
    }
    let args = [Arg::Tensor(x), Arg::DType(out.dtype)];
    Some(s.call_op(CONVERT, &args, &[out]))
}
