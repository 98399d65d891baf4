//! Clamping, by its formulas.

use crate::formula::clamp as f;
use crate::ir::Op;
use crate::rewrite::rule::rules;

rules! { Decompose:
    "clamp", "clamp(x, lo, hi) = min(max(x, lo), hi); a missing bound does nothing",
        [Op::clamp, Op::clamp_Tensor] => One(|s| f::clamp(s));
    "clamp_min", "clamp_min(x, lo) = max(x, lo)",
        [Op::clamp_min, Op::clamp_min_Tensor] => One(|s| f::clamp_min(s));
    "clamp_max", "clamp_max(x, hi) = min(x, hi)",
        [Op::clamp_max, Op::clamp_max_Tensor] => One(|s| f::clamp_max(s));
    "hardtanh", "hardtanh(x, lo, hi) = min(max(x, lo), hi)",
        [Op::hardtanh] => One(|s| f::hardtanh(s));
    "relu6", "relu6(x) = min(max(x, 0), 6)",
        [Op::relu6] => One(|s| f::relu6(s));
    "fmax", "fmax(a, b) = max(a, b), but the other where one is NaN",
        [Op::fmax] => One(|s| f::fmax(s));
    "fmin", "fmin(a, b) = min(a, b), but the other where one is NaN",
        [Op::fmin] => One(|s| f::fmin(s));
}
