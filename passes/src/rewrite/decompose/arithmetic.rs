//! Pointwise arithmetic with several steps, by its formulas; masks.

use crate::formula::arithmetic as f;
use crate::ir::Op;
use crate::rewrite::rule::rules;
use crate::rewrite::site::Site;
use egg::Id;

rules! { Decompose:
    "rsub", "rsub(x, y) = y - alpha x",
        [Op::rsub_Tensor, Op::rsub_Scalar] => One(|s| f::rsub(s));
    "addcmul", "addcmul(x, a, b) = x + value a b",
        [Op::addcmul] => One(|s| f::addcmul(s));
    "addcdiv", "addcdiv(x, a, b) = x + value a / b",
        [Op::addcdiv] => One(|s| f::addcdiv(s));
    "lerp_scalar", "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5",
        [Op::lerp_Scalar] => One(|s| f::lerp_scalar(s));
    "lerp_tensor", "lerp(x, y, w) = x + w (y - x), or y - (y - x)(1 - w) where |w| >= 0.5, elementwise",
        [Op::lerp_Tensor] => One(|s| f::lerp_tensor(s));
    "square", "the square of x is x x",
        [Op::square] => One(|s| f::square(s));
    "masked_fill", "masked_fill(x, m, v) = where(m, v, x)",
        [Op::masked_fill_Scalar, Op::masked_fill_Tensor] => One(masked_fill);
    "where_scalar", "where with numbers is where with constants",
        [Op::where_ScalarSelf, Op::where_ScalarOther] => One(where_scalar);
    "logaddexp", "logaddexp(a, b) = max(a, b) + log1p(exp(-|a - b|)), and a where both are one infinity",
        [Op::logaddexp] => One(|s| f::logaddexp(s));
    "xlogy", "xlogy(x, y) = x log y, 0 where x is 0, and NaN where y is NaN",
        [
            Op::xlogy_Tensor, Op::xlogy_Scalar_Other, Op::xlogy_Scalar_Self,
        ] => One(|s| f::xlogy(s));
    "xlog1py", "xlog1py(x, y) = x log(1 + y), 0 where x is 0, and NaN where y is NaN",
        [
            Op::special_xlog1py, Op::special_xlog1py_other_scalar,
            Op::special_xlog1py_self_scalar,
        ] => One(|s| f::xlog1py(s));
    "nan_to_num", "nan_to_num(x) is x with finite numbers for NaN and the infinities",
        [Op::nan_to_num] => One(|s| f::nan_to_num(s));
    "heaviside", "heaviside(x, v) is v where x is 0, else whether x is positive",
        [Op::heaviside] => One(|s| f::heaviside(s));
    "isfinite", "finite is neither infinite nor NaN; every integer is",
        [Op::isfinite] => One(|s| f::isfinite(s));
    "isposinf", "isposinf(x) = (x == inf)",
        [Op::isposinf] => One(|s| f::isposinf(s));
    "isneginf", "isneginf(x) = (x == -inf)",
        [Op::isneginf] => One(|s| f::isneginf(s));
    "frac", "frac(x) = x - trunc(x)",
        [Op::frac] => One(|s| f::frac(s));
    "sgn", "sgn of real numbers is sign",
        [Op::sgn] => One(|s| f::sgn(s));
    "floor_divide", "floor_divide(x, y) = floor(x / y)",
        [Op::floor_divide, Op::floor_divide_Scalar] => One(|s| f::floor_divide(s));
    "shift_left", "shifting left by y multiplies by 2^y",
        [Op::__lshift___Tensor, Op::__lshift___Scalar, Op::bitwise_left_shift_Tensor_Scalar]
            => One(|s| f::shift_left(s));
    "shift_right", "shifting right by y divides by 2^y and rounds down",
        [Op::__rshift___Tensor, Op::__rshift___Scalar, Op::bitwise_right_shift_Tensor_Scalar]
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
