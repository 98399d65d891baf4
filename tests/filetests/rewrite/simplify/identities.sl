// run: rewrite simplify
// fires: mul_one
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::mul.Scalar(%x, other=1)
  return %0
}
// check: return %x

// run: rewrite simplify
// fires: mul_one
graph(%x: f32[2,3]) {
  %c: f32[] = constant 1.0
  %0: f32[2,3] = aten::mul.Tensor(%c, %x)
  return %0
}
// check: return %x

// not where the product is larger, or of another dtype
// run: rewrite simplify
// quiet: mul_one
graph(%x: f32[2,3], %i: i64[2]) {
  %c: f32[4,2,3] = constant 1.0
  %0: f32[4,2,3] = aten::mul.Tensor(%x, %c)
  %1: f32[2] = aten::mul.Scalar(%i, other=1.0)
  return %0, %1
}
// check: aten::mul
// check: aten::mul

// an expanded operand has other strides than the result
// run: rewrite simplify
// quiet: mul_one
graph(%x: f32[2,3]{0,1}) {
  %0: f32[2,3] = aten::mul.Scalar(%x, other=1)
  return %0
}
// check: aten::mul.Scalar

// run: rewrite simplify
// fires: div_one
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::div.Scalar(%x, other=1)
  return %0
}
// check: return %x

// true division makes floats of integers
// run: rewrite simplify
// quiet: div_one
graph(%i: i64[2]) {
  %0: f32[2] = aten::div.Scalar(%i, other=1)
  return %0
}
// check: aten::div.Scalar

// run: rewrite simplify
// fires: sub_zero
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::sub.Scalar(%x, other=0, alpha=1)
  return %0
}
// check: return %x

// -0 - (-0) is +0
// run: rewrite simplify
// quiet: sub_zero
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::sub.Scalar(%x, other=0.0, alpha=-1)
  %1: f32[2,3] = aten::sub.Scalar(%x, other=-0.0, alpha=1)
  return %0, %1
}
// check: aten::sub.Scalar
// check: aten::sub.Scalar

// run: rewrite simplify
// fires: add_negative_zero
graph(%x: f32[2], %i: i32[2]) {
  %0: f32[2] = aten::add.Scalar(%x, other=-0.0, alpha=1)
  %1: i32[2] = aten::add.Scalar(%i, other=0, alpha=1)
  return %0, %1
}
// check: return %x, %i

// -0 + 0 is +0
// run: rewrite simplify
// quiet: add_negative_zero
// quiet: add_zero
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::add.Scalar(%x, other=0.0, alpha=1)
  return %0
}
// check: aten::add.Scalar

// run: rewrite simplify
// fires: add_neg
// fires: sub_neg
graph(%x: f32[2,3], %y: f32[2,3]) {
  %n: f32[2,3] = aten::neg(%y)
  %0: f32[2,3] = aten::add.Tensor(%x, %n, alpha=1)
  %1: f32[2,3] = aten::sub.Tensor(%x, %n, alpha=1)
  return %0, %1
}
// check: aten::sub.Tensor(%x, %y, alpha=1)
// check: aten::add.Tensor(%x, %y, alpha=1)
// not: aten::neg

// run: rewrite simplify
// quiet: add_neg
// quiet: sub_neg
graph(%x: f32[2,3], %y: f32[2,3]) {
  %n: f32[2,3] = aten::neg(%y)
  %0: f32[2,3] = aten::add.Tensor(%x, %n, alpha=2)
  %1: f32[2,3] = aten::sub.Tensor(%x, %n, alpha=2)
  return %0, %1
}
// check: aten::neg

// run: rewrite simplify
// fires: pow_one
// fires: pow_two
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::pow.Tensor_Scalar(%x, exponent=1)
  %1: f32[2,3] = aten::pow.Tensor_Scalar(%x, exponent=2)
  return %0, %1
}
// check: aten::mul.Tensor(%x, %x)
// check: return %x,

// the square root of -inf is NaN and its power 0.5 is inf
// run: rewrite simplify
// quiet: pow_one
// quiet: pow_two
// quiet: pow_half
graph(%x: f32[2], %i: i64[2]) {
  %0: f32[2] = aten::pow.Tensor_Scalar(%x, exponent=0.5)
  %1: f32[2] = aten::pow.Tensor_Scalar(%i, exponent=1.0)
  %2: f32[2] = aten::pow.Tensor_Scalar(%i, exponent=2.0)
  return %0, %1, %2
}
// check: exponent=0.5
// check: exponent=1.0
// check: exponent=2.0

// run: rewrite simplify
// fires: involution
graph(%x: f32[2], %b: bool[2]) {
  %0: f32[2] = aten::neg(%x)
  %1: f32[2] = aten::neg(%0)
  %2: bool[2] = aten::logical_not(%b)
  %3: bool[2] = aten::logical_not(%2)
  return %1, %3
}
// check: return %x, %b

// not not of a number is a bool; 1 / (1 / x) rounds twice
// run: rewrite simplify
// quiet: involution
graph(%x: f32[2]) {
  %0: bool[2] = aten::logical_not(%x)
  %1: bool[2] = aten::logical_not(%0)
  %2: f32[2] = aten::reciprocal(%x)
  %3: f32[2] = aten::reciprocal(%2)
  return %1, %3
}
// check: aten::logical_not
// check: aten::logical_not

// run: rewrite simplify
// fires: idempotent
// fires: abs_neg
graph(%x: f32[2]) {
  %0: f32[2] = aten::relu(%x)
  %1: f32[2] = aten::relu(%0)
  %2: f32[2] = aten::neg(%x)
  %3: f32[2] = aten::abs(%2)
  return %1, %3
}
// check: %0: f32[2] = aten::relu(%x)
// check: %1: f32[2] = aten::abs(%x)
// check: return %0, %1

// what is unsigned has no sign to lose: -1 is 255
// run: rewrite simplify
// quiet: abs_neg
graph(%x: u8[2]) {
  %0: u8[2] = aten::neg(%x)
  %1: u8[2] = aten::abs(%0)
  return %1
}
// check: aten::neg

// run: rewrite simplify
// quiet: idempotent
// quiet: abs_neg
graph(%x: f32[2]) {
  %0: f32[2] = aten::exp(%x)
  %1: f32[2] = aten::exp(%0)
  %2: f32[2] = aten::floor(%x)
  %3: f32[2] = aten::ceil(%2)
  %4: f32[2] = aten::abs(%3)
  return %1, %4
}
// check: aten::exp
// check: aten::exp

// run: rewrite simplify
// fires: where_same
// fires: where_known
// fires: both_same
graph(%c: bool[2], %x: f32[2], %y: f32[2]) {
  %t: bool[] = constant true
  %0: f32[2] = aten::where.self(%c, %x, %x)
  %1: f32[2] = aten::where.self(%t, %x, %y)
  %2: f32[2] = aten::maximum(%y, %y)
  return %0, %1, %2
}
// check: return %x, %x, %y

// run: rewrite simplify
// quiet: where_same
// quiet: where_known
// quiet: both_same
graph(%c: bool[2], %k: bool[3,2], %x: f32[2], %y: f32[2]) {
  %0: f32[2] = aten::where.self(%c, %x, %y)
  %1: f32[3,2] = aten::where.self(%k, %x, %x)
  %2: f32[2] = aten::maximum(%x, %y)
  return %0, %1, %2
}
// check: aten::where.self
// check: aten::where.self

// run: rewrite simplify
// fires: dropout_off
graph(%x: f32[2]) {
  %0: f32[2] = aten::dropout(%x, p=0.5, train=false)
  return %0
}
// check: return %x

// run: rewrite simplify
// quiet: dropout_off
graph(%x: f32[2]) {
  %0: f32[2] = aten::dropout(%x, p=0.5, train=true)
  %1: f32[2] = aten::dropout(%x, p=0.5, train=true)
  return %0, %1
}
// check: aten::dropout
// check: aten::dropout
