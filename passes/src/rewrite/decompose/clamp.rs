//! Clamping, by its formulas.

use crate::formula::clamp as f;
use crate::rewrite::rule::rules;

rules! { Decompose:
    "clamp", "clamp(x, lo, hi) = min(max(x, lo), hi); a missing bound does nothing",
        ["aten::clamp", "aten::clamp.Tensor"] => One(|s| f::clamp(s));
    "clamp_min", "clamp_min(x, lo) = max(x, lo)",
        ["aten::clamp_min", "aten::clamp_min.Tensor"] => One(|s| f::clamp_min(s));
    "clamp_max", "clamp_max(x, hi) = min(x, hi)",
        ["aten::clamp_max", "aten::clamp_max.Tensor"] => One(|s| f::clamp_max(s));
    "hardtanh", "hardtanh(x, lo, hi) = min(max(x, lo), hi)",
        ["aten::hardtanh"] => One(|s| f::hardtanh(s));
    "relu6", "relu6(x) = min(max(x, 0), 6)",
        ["aten::relu6"] => One(|s| f::relu6(s));
    "fmax", "fmax(a, b) = max(a, b), but the other where one is NaN",
        ["aten::fmax"] => One(|s| f::fmax(s));
    "fmin", "fmin(a, b) = min(a, b), but the other where one is NaN",
        ["aten::fmin"] => One(|s| f::fmin(s));
}
