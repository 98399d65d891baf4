// run: rewrite fast_math
// fires: add_zero
// fires: mul_zero
// fires: sub_self
// fires: exp_log
// fires: log_exp
graph(%x: f32[2], %y: f32[2]) {
  %c: f32[2] = constant 0.0
  %0: f32[2] = aten::add.Scalar(%x, other=0.0, alpha=1)
  %1: f32[2] = aten::mul.Scalar(%x, other=0)
  %2: f32[2] = aten::sub.Tensor(%x, %x, alpha=1)
  %3: f32[2] = aten::log(%x)
  %4: f32[2] = aten::exp(%3)
  %5: f32[2] = aten::exp(%y)
  %6: f32[2] = aten::log(%5)
  return %0, %1, %2, %4, %6
}
// check: return %x, %c, %c, %x, %y

// none of it by default
// run: rewrite simplify
// quiet: add_zero
// quiet: mul_zero
// quiet: sub_self
// quiet: exp_log
// quiet: log_exp
graph(%x: f32[2], %y: f32[2]) {
  %c: f32[2] = constant 0.0
  %0: f32[2] = aten::add.Scalar(%x, other=0.0, alpha=1)
  %1: f32[2] = aten::mul.Scalar(%x, other=0)
  %2: f32[2] = aten::sub.Tensor(%x, %x, alpha=1)
  %3: f32[2] = aten::log(%x)
  %4: f32[2] = aten::exp(%3)
  %5: f32[2] = aten::exp(%y)
  %6: f32[2] = aten::log(%5)
  return %0, %1, %2, %4, %6
}
// check: aten::exp

// run: rewrite fast_math
// fires: mul_chain
// fires: add_chain
// fires: div_constant
// fires: factor
graph(%x: f32[2], %y: f32[2], %z: f32[2]) {
  %0: f32[2] = aten::mul.Scalar(%x, other=3.0)
  %1: f32[2] = aten::mul.Scalar(%0, other=0.5)
  %2: f32[2] = aten::add.Scalar(%x, other=3.0, alpha=1)
  %3: f32[2] = aten::add.Scalar(%2, other=0.5, alpha=2)
  %4: f32[2] = aten::div.Scalar(%x, other=4.0)
  %5: f32[2] = aten::mul.Tensor(%x, %y)
  %6: f32[2] = aten::mul.Tensor(%x, %z)
  %7: f32[2] = aten::add.Tensor(%5, %6, alpha=1)
  return %1, %3, %4, %7
}
// check: aten::mul.Scalar(%x, other=1.5)
// check: aten::add.Scalar(%x, other=4.0, alpha=1)
// check: aten::mul.Scalar(%x, other=0.25)
// check: aten::add.Tensor(%y, %z, alpha=1)
// not: aten::div

// run: rewrite simplify
// quiet: mul_chain
// quiet: add_chain
// quiet: div_constant
// quiet: factor
graph(%x: f32[2], %y: f32[2], %z: f32[2]) {
  %0: f32[2] = aten::mul.Scalar(%x, other=3.0)
  %1: f32[2] = aten::mul.Scalar(%0, other=0.5)
  %2: f32[2] = aten::add.Scalar(%x, other=3.0, alpha=1)
  %3: f32[2] = aten::add.Scalar(%2, other=0.5, alpha=2)
  %4: f32[2] = aten::div.Scalar(%x, other=4.0)
  %5: f32[2] = aten::mul.Tensor(%x, %y)
  %6: f32[2] = aten::mul.Tensor(%x, %z)
  %7: f32[2] = aten::add.Tensor(%5, %6, alpha=1)
  return %1, %3, %4, %7
}
// check: aten::mul.Scalar

// run: rewrite fast_math
// fires: pow_half
// fires: rsqrt
// fires: div_sqrt
graph(%x: f32[2], %y: f32[2]) {
  %0: f32[2] = aten::pow.Tensor_Scalar(%x, exponent=0.5)
  %1: f32[2] = aten::pow.Tensor_Scalar(%x, exponent=3)
  %2: f32[2] = aten::sqrt(%y)
  %3: f32[2] = aten::reciprocal(%2)
  %4: f32[2] = aten::div.Tensor(%x, %2)
  return %0, %1, %3, %4
}
// check: aten::sqrt(%x)
// check: aten::rsqrt(%y)
// not: aten::pow
// not: aten::div
// not: aten::reciprocal

// integers wrap, so their chains stay too
// run: rewrite fast_math
// quiet: pow_half
// quiet: rsqrt
// quiet: div_sqrt
// quiet: factor
// quiet: mul_chain
// quiet: add_chain
// quiet: div_constant
graph(%x: f32[2], %i: i64[2]) {
  %0: f32[2] = aten::pow.Tensor_Scalar(%x, exponent=2.5)
  %1: i64[2] = aten::mul.Scalar(%i, other=3)
  %2: i64[2] = aten::mul.Scalar(%1, other=3)
  %3: f32[2] = aten::reciprocal(%x)
  %4: f32[2] = aten::div.Tensor(%x, %3)
  return %0, %2, %4
}
// check: aten::pow
