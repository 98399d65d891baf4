// run: rewrite decompose
// fires: addmm
graph(%b: f32[4], %x: f32[2,3], %w: f32[3,4]) {
  %y: f32[2,4] = aten::addmm(%b, %x, %w, beta=1, alpha=1)
  return %y
}
// check: %0: f32[2,4] = aten::mm(%x, %w)
// check: %y: f32[2,4] = aten::add.Tensor(%0, %b, alpha=1)

// the addend is not read where beta is 0, so its NaN stays away
// run: rewrite decompose
graph(%b: f32[4], %x: f32[2,3], %w: f32[3,4]) {
  %y: f32[2,4] = aten::addmm(%b, %x, %w, beta=0, alpha=2)
  return %y
}
// check: aten::mm(%x, %w)
// check: aten::mul.Scalar(%0, other=2.0)
// not: %b,

// BLAS reads no product where alpha is 0
// run: rewrite decompose
graph(%b: f32[4], %x: f32[2,3], %w: f32[3,4]) {
  %y: f32[2,4] = aten::addmm(%b, %x, %w, beta=2, alpha=0)
  return %y
}
// not: aten::mm
// check: aten::mul.Scalar(%b, other=2.0)

// which halves are not left to
// run: rewrite decompose
graph(%b: f16[4], %x: f16[2,3], %w: f16[3,4]) {
  %y: f16[2,4] = aten::addmm(%b, %x, %w, beta=2, alpha=0)
  return %y
}
// check: aten::mm

// multiplied and scaled in f32, and rounded once
// run: rewrite decompose
graph(%b: f16[4], %x: f16[2,3], %w: f16[3,4]) {
  %y: f16[2,4] = aten::addmm(%b, %x, %w, beta=0.5, alpha=2)
  return %y
}
// check: f32[2,3] = prims::convert_element_type(%x
// check: f32[2,4] = aten::mm(
// check: f32[2,4] = aten::mul.Scalar(%2, other=2.0)
// check: %y: f16[2,4] = prims::convert_element_type

// run: rewrite decompose,keep=aten::addmm
// quiet: addmm
graph(%b: f32[4], %x: f32[2,3], %w: f32[3,4]) {
  %y: f32[2,4] = aten::addmm(%b, %x, %w, beta=1, alpha=1)
  return %y
}
// check: %y: f32[2,4] = aten::addmm

// run: rewrite decompose
// fires: baddbmm
// fires: addbmm
// fires: mv
// fires: addmv
// fires: linear
graph(%b: f32[4], %x: f32[5,2,3], %w: f32[5,3,4], %v: f32[3], %m: f32[2,3], %k: f32[4,3]) {
  %0: f32[5,2,4] = aten::baddbmm(%b, %x, %w, beta=1, alpha=1)
  %1: f32[2,4] = aten::addbmm(%b, %x, %w, beta=1, alpha=1)
  %2: f32[2] = aten::mv(%m, %v)
  %3: f32[2] = aten::addmv(%2, %m, %v, beta=1, alpha=1)
  %4: f32[5,2,4] = aten::linear(%x, %k, %b)
  return %0, %1, %2, %3, %4
}
// check: aten::bmm(%x, %w)
// check: aten::sum.dim_IntList
// check: aten::unsqueeze(%v, dim=1)
// check: aten::squeeze.dim
// check: aten::view(%x, size=[10, 3])

// run: rewrite simplify
// quiet: baddbmm
// quiet: addbmm
// quiet: mv
// quiet: addmv
// quiet: linear
graph(%b: f32[4], %x: f32[5,2,3], %w: f32[5,3,4], %v: f32[3], %m: f32[2,3], %k: f32[4,3]) {
  %0: f32[5,2,4] = aten::baddbmm(%b, %x, %w, beta=1, alpha=1)
  %1: f32[2,4] = aten::addbmm(%b, %x, %w, beta=1, alpha=1)
  %2: f32[2] = aten::mv(%m, %v)
  %3: f32[2] = aten::addmv(%2, %m, %v, beta=1, alpha=1)
  %4: f32[5,2,4] = aten::linear(%x, %k, %b)
  return %0, %1, %2, %3, %4
}
