//! Pointwise arithmetic with several steps, by its formulas; masks.

use crate::formula::arithmetic as f;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "rsub", "rsub(x, y) = y - alpha x",
        ["aten::rsub.Tensor", "aten::rsub.Scalar"] => One(|s| f::rsub(s));
    "addcmul", "addcmul(x, a, b) = x + value a b",
        ["aten::addcmul"] => One(|s| f::addcmul(s));
    "addcdiv", "addcdiv(x, a, b) = x + value a / b",
        ["aten::addcdiv"] => One(|s| f::addcdiv(s));
    "lerp_scalar", "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5",
        ["aten::lerp.Scalar"] => One(|s| f::lerp_scalar(s));
    "lerp_tensor", "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5, elementwise",
        ["aten::lerp.Tensor"] => One(|s| f::lerp_tensor(s));
    "square", "the square of x is x x",
        ["aten::square"] => One(|s| f::square(s));
    "masked_fill", "masked_fill(x, m, v) = where(m, v, x)",
        ["aten::masked_fill.Scalar", "aten::masked_fill.Tensor"] => One(masked_fill);
    "where_scalar", "where with numbers is where with constants",
        ["aten::where.ScalarSelf", "aten::where.ScalarOther", "aten::where.Scalar"] => One(where_scalar);
    "logaddexp", "logaddexp(a, b) = max(a, b) + log1p(exp(-|a - b|)), and a where both are one infinity",
        ["aten::logaddexp"] => One(|s| f::logaddexp(s));
    "xlogy", "xlogy(x, y) = x log y, 0 where x is 0, and NaN where y is NaN",
        [
            "aten::xlogy.Tensor", "aten::xlogy.Scalar_Other", "aten::xlogy.Scalar_Self",
        ] => One(|s| f::xlogy(s));
    "xlog1py", "xlog1py(x, y) = x log(1 + y), 0 where x is 0, and NaN where y is NaN",
        [
            "aten::special_xlog1py", "aten::special_xlog1py.other_scalar",
            "aten::special_xlog1py.self_scalar",
        ] => One(|s| f::xlog1py(s));
    "nan_to_num", "nan_to_num(x) is x with finite numbers for NaN and the infinities",
        ["aten::nan_to_num"] => One(|s| f::nan_to_num(s));
    "heaviside", "heaviside(x, v) is v where x is 0, else whether x is positive",
        ["aten::heaviside"] => One(|s| f::heaviside(s));
    "isfinite", "finite is neither infinite nor NaN; every integer is",
        ["aten::isfinite"] => One(|s| f::isfinite(s));
    "isposinf", "isposinf(x) = (x == inf)",
        ["aten::isposinf"] => One(|s| f::isposinf(s));
    "isneginf", "isneginf(x) = (x == -inf)",
        ["aten::isneginf"] => One(|s| f::isneginf(s));
    "frac", "frac(x) = x - trunc(x)",
        ["aten::frac"] => One(|s| f::frac(s));
    "sgn", "sgn of real numbers is sign",
        ["aten::sgn"] => One(|s| f::sgn(s));
    "floor_divide", "floor_divide(x, y) = floor(x / y)",
        ["aten::floor_divide", "aten::floor_divide.Scalar"] => One(|s| f::floor_divide(s));
    "shift_left", "shifting left by y multiplies by 2^y",
        ["aten::__lshift__.Tensor", "aten::__lshift__.Scalar", "aten::bitwise_left_shift.Tensor_Scalar"]
            => One(|s| f::shift_left(s));
    "shift_right", "shifting right by y divides by 2^y and rounds down",
        ["aten::__rshift__.Tensor", "aten::__rshift__.Scalar", "aten::bitwise_right_shift.Tensor_Scalar"]
            => One(|s| f::shift_right(s));
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
