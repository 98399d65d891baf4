// run: rewrite decompose
// fires: rsub
// fires: addcmul
// fires: addcdiv
// fires: lerp_scalar
// fires: lerp_tensor
// fires: square
// fires: masked_fill
// fires: where_scalar_self
// fires: logaddexp
// fires: xlogy
// fires: heaviside
// fires: isfinite
// fires: isposinf
// fires: isneginf
// fires: frac
graph(%x: f32[4], %y: f32[4], %z: f32[4], %m: bool[4]) {
  %rsub: f32[4] = aten::rsub.Scalar(%x, other=1, alpha=2)
  %addcmul: f32[4] = aten::addcmul(%x, %y, %z, value=0.5)
  %addcdiv: f32[4] = aten::addcdiv(%x, %y, %z, value=1)
  %lerp: f32[4] = aten::lerp.Scalar(%x, %y, weight=0.25)
  %lerp2: f32[4] = aten::lerp.Tensor(%x, %y, %z)
  %square: f32[4] = aten::square(%x)
  %fill: f32[4] = aten::masked_fill.Scalar(%x, %m, value=-inf)
  %where: f32[4] = aten::where.ScalarSelf(%m, self=1, %x)
  %lae: f32[4] = aten::logaddexp(%x, %y)
  %xlogy: f32[4] = aten::xlogy.Tensor(%x, %y)
  %step: f32[4] = aten::heaviside(%x, %y)
  %fin: bool[4] = aten::isfinite(%x)
  %pos: bool[4] = aten::isposinf(%x)
  %neg: bool[4] = aten::isneginf(%x)
  %frac: f32[4] = aten::frac(%x)
  return %rsub, %addcmul, %addcdiv, %lerp, %lerp2, %square, %fill, %where, %lae, %xlogy, %step, %fin, %pos, %neg, %frac
}
// check: %rsub: f32[4] = aten::sub.Tensor
// check: aten::mul.Scalar(%y, other=0.5)
// check: %addcmul: f32[4] = aten::add.Tensor(%x,
// check: %addcdiv: f32[4] = aten::add.Tensor(%x,
// check: %lerp: f32[4] = aten::add.Tensor(%x,
// check: %lerp2: f32[4] = aten::where.self
// check: %square: f32[4] = aten::mul.Tensor(%x, %x)
// check: %fill: f32[4] = aten::where.self(%m,
// check: %where: f32[4] = aten::where.self(%m,
// check: %lae: f32[4] = aten::where.self
// check: %xlogy: f32[4] = aten::where.self
// check: %step: f32[4] = aten::where.self
// check: %fin: bool[4] = aten::logical_not
// check: %pos: bool[4] = aten::eq.Scalar(%x, other=inf)
// check: %neg: bool[4] = aten::eq.Scalar(%x, other=-inf)
// check: %frac: f32[4] = aten::sub.Tensor(%x

// far from the start, lerp works from the end
// run: rewrite decompose
graph(%x: f32[4], %y: f32[4]) {
  %0: f32[4] = aten::lerp.Scalar(%x, %y, weight=0.75)
  return %0
}
// check: aten::sub.Tensor(%y, %x, alpha=1)
// check: aten::mul.Scalar(%0, other=0.25)
// check: aten::sub.Tensor(%y, %1, alpha=1)

// the result keeps the strides that it had
// run: rewrite decompose
graph(%x: f32[2,3]{1,2}, %y: f32[2,3], %z: f32[2,3]) {
  %0: f32[2,3]{1,2} = aten::addcmul(%x, %y, %z, value=1)
  return %0
}
// check: f32[2,3]{1,2} = aten::add.Tensor

// integers stay integers
// run: rewrite decompose
graph(%x: i32[4]) {
  %0: i32[4] = aten::rsub.Scalar(%x, other=1, alpha=2)
  %1: bool[4] = aten::isfinite(%x)
  return %0, %1
}
// check: bool[4] = constant true
// check: i32[4] = aten::mul.Scalar(%x, other=2)

// run: rewrite simplify,fast_math
// quiet: rsub
// quiet: addcmul
// quiet: addcdiv
// quiet: lerp_scalar
// quiet: lerp_tensor
// quiet: square
// quiet: masked_fill
// quiet: where_scalar_self
// quiet: logaddexp
// quiet: xlogy
// quiet: heaviside
// quiet: isfinite
// quiet: isposinf
// quiet: isneginf
// quiet: frac
graph(%x: f32[4], %y: f32[4], %z: f32[4], %m: bool[4]) {
  %rsub: f32[4] = aten::rsub.Scalar(%x, other=1, alpha=2)
  %addcmul: f32[4] = aten::addcmul(%x, %y, %z, value=0.5)
  %addcdiv: f32[4] = aten::addcdiv(%x, %y, %z, value=1)
  %lerp: f32[4] = aten::lerp.Scalar(%x, %y, weight=0.25)
  %lerp2: f32[4] = aten::lerp.Tensor(%x, %y, %z)
  %square: f32[4] = aten::square(%x)
  %fill: f32[4] = aten::masked_fill.Scalar(%x, %m, value=-inf)
  %where: f32[4] = aten::where.ScalarSelf(%m, self=1, %x)
  %lae: f32[4] = aten::logaddexp(%x, %y)
  %xlogy: f32[4] = aten::xlogy.Tensor(%x, %y)
  %step: f32[4] = aten::heaviside(%x, %y)
  %fin: bool[4] = aten::isfinite(%x)
  %pos: bool[4] = aten::isposinf(%x)
  %neg: bool[4] = aten::isneginf(%x)
  %frac: f32[4] = aten::frac(%x)
  return %rsub, %addcmul, %addcdiv, %lerp, %lerp2, %square, %fill, %where, %lae, %xlogy, %step, %fin, %pos, %neg, %frac
}

// run: rewrite decompose
// fires: sgn
// fires: floor_divide
// fires: shift_left
// fires: shift_right
graph(%x: f32[4], %y: f32[4], %i: i64[4]) {
  %0: f32[4] = aten::sgn(%x)
  %1: f32[4] = aten::floor_divide(%x, %y)
  %2: i64[4] = aten::__lshift__.Scalar(%i, other=2)
  %3: i64[4] = aten::__rshift__.Tensor(%i, %i)
  return %0, %1, %2, %3
}
// check: f32[4] = aten::sign(%x)
// check: f32[4] = aten::div.Tensor_mode(%x, %y, rounding_mode="floor")
// check: i64[4] = aten::bitwise_left_shift.Tensor(%i,
// check: i64[4] = aten::bitwise_right_shift.Tensor(%i, %i)

// floats have no bits to shift
// run: rewrite decompose
// quiet: sgn
// quiet: floor_divide
// quiet: shift_left
// quiet: shift_right
graph(%x: f32[4]) {
  %0: f32[4] = aten::__lshift__.Scalar(%x, other=2)
  %1: f32[4] = aten::__rshift__.Scalar(%0, other=2)
  return %1
}
// check: aten::__lshift__.Scalar

// run: rewrite decompose
// fires: xlog1py
// fires: nan_to_num
graph(%x: f32[4], %y: f32[4]) {
  %0: f32[4] = aten::special_xlog1py(%x, %y)
  %1: f32[4] = aten::special_xlog1py.self_scalar(self=2, %y)
  %2: f32[4] = aten::nan_to_num(%x, nan=1.5, posinf=none, neginf=none)
  return %0, %1, %2
}
// check: aten::log1p(%y)
// check: aten::isnan(%x)

// of integers nothing is infinite: there is no such formula
// run: rewrite decompose
// quiet: xlog1py
// quiet: nan_to_num
graph(%x: i64[4], %y: i64[4]) {
  %0: i64[4] = aten::nan_to_num(%x, nan=none, posinf=none, neginf=none)
  return %0
}
// check: aten::nan_to_num
