// run: rewrite simplify
// fires: fold_arithmetic
// fires: fold_sign
// fires: fold_convert
// fires: fold_view
// fires: fold_factory
graph(%x: f32[2]) {
  %a: f32[2] = aten::full(size=[2], fill_value=3, dtype=f32, layout=none, device=cpu, pin_memory=none)
  %b: f32[2] = aten::mul.Scalar(%a, other=0.5)
  %c: f32[2] = aten::neg(%b)
  %d: f64[2] = prims::convert_element_type(%c, dtype=f64)
  %e: f64[1,2] = aten::unsqueeze(%d, dim=0)
  return %e
}
// check: f64[1,2] = constant -1.5

// integers wrap, floats round to their own precision
// run: rewrite simplify
// fires: fold_arithmetic
graph(%x: f32[2]) {
  %a: i8[] = constant 100
  %b: i8[] = aten::add.Scalar(%a, other=100, alpha=1)
  %c: f32[] = constant 0.1
  %d: f32[] = aten::add.Tensor(%c, %c, alpha=1)
  return %b, %d
}
// check: i8[] = constant -56
// check: f32[] = constant 0.20000000298023224

// a list of elements is no single number
// run: rewrite simplify
// quiet: fold_arithmetic
// quiet: fold_sign
// quiet: fold_convert
// quiet: fold_view
// quiet: fold_factory
graph(%x: f32[2]) {
  %l: f32[2] = constant [1.0, 2.0]
  %a: f32[2] = aten::neg(%l)
  %b: f32[2] = aten::mul.Scalar(%l, other=2.0)
  %c: f64[2] = prims::convert_element_type(%l, dtype=f64)
  %d: f32[1,2] = aten::unsqueeze(%l, dim=0)
  %e: f32[2] = aten::empty.memory_format(size=[2], dtype=f32, layout=none, device=cpu, pin_memory=none, memory_format=none)
  return %a, %b, %c, %d, %e
}
// check: aten::neg
// check: aten::mul
// check: prims
// check: aten::unsqueeze
// check: aten::empty

// run: rewrite simplify
// fires: scalar_operand
graph(%x: f32[2,3]) {
  %c: f32[] = constant 2.0
  %0: f32[2,3] = aten::mul.Tensor(%c, %x)
  %1: f32[2,3] = aten::sub.Tensor(%0, %c, alpha=1)
  %2: bool[2,3] = aten::lt.Tensor(%1, %c)
  return %2
}
// check: aten::mul.Scalar(%x, other=2.0)
// check: aten::sub.Scalar(%0, other=2.0, alpha=1)
// check: aten::lt.Scalar(%1, other=2.0)
// not: constant

// the number would be on the left, promote, or broadcast
// run: rewrite simplify
// quiet: scalar_operand
graph(%x: f32[2], %i: i64[2]) {
  %c: f32[] = constant 2.5
  %0: f32[2] = aten::sub.Tensor(%c, %x, alpha=1)
  %1: bool[2] = aten::lt.Tensor(%i, %c)
  %2: f32[2] = aten::mul.Tensor(%i, %c)
  %k: f32[3,2] = constant 2.0
  %3: f32[3,2] = aten::mul.Tensor(%x, %k)
  return %0, %1, %2, %3
}
// check: aten::sub.Tensor
// check: aten::lt.Tensor
// check: aten::mul.Tensor
// check: aten::mul.Tensor
