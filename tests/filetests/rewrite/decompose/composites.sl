// functions over calls, which eager kernels and capture run too
// run: rewrite decompose
// fires: matmul
// fires: where_scalar_other
// fires: masked_fill_tensor
// fires: softmax_int
// fires: log_softmax_int
graph(%x: f32[5,2,3], %k: f32[3,4], %m: bool[2,3], %f: f64[]) {
  %0: f32[5,2,4] = aten::matmul(%x, %k)
  %1: f32[5,2,3] = aten::where.ScalarOther(%m, %x, other=2)
  %2: f32[5,2,3] = aten::masked_fill.Tensor(%x, %m, %f)
  %3: f32[5,2,3] = aten::softmax.int(%x, dim=-1, dtype=none)
  %4: f64[5,2,3] = aten::log_softmax.int(%x, dim=-1, dtype=f64)
  return %0, %1, %2, %3, %4
}
// check: aten::view(%x, size=[10, 3])
// check: aten::mm(
// check: aten::where.self(%m, %x,
// check: f32[] = prims::convert_element_type(%f, dtype=f32)
// check: aten::amax(%x, dim=[2], keepdim=true)
// check: f64[5,2,3] = prims::convert_element_type(%x, dtype=f64)

// batches of matrices with leading dimensions that broadcast; a vector on the left
// run: rewrite decompose
// fires: matmul
graph(%x: f32[5,1,2,3], %y: f32[4,3,6], %v: f32[3]) {
  %0: f32[5,4,2,6] = aten::matmul(%x, %y)
  %1: f32[4,6] = aten::matmul(%v, %y)
  return %0, %1
}
// check: aten::bmm(
// check: f32[5,4,2,6]
// not: aten::matmul

// what does not fit is left to its kernel
// run: rewrite decompose
// quiet: matmul
// quiet: stack
// quiet: masked_fill_tensor
graph(%x: f32[2,3], %y: f32[2], %m: bool[2,3], %f: f32[1]) {
  %0: f32[2,2] = aten::matmul(%x, %x)
  %1: f32[2,2] = aten::stack([%x, %y], dim=0)
  %2: f32[2,3] = aten::masked_fill.Tensor(%x, %m, %f)
  return %0, %1, %2
}

// run: rewrite simplify
// quiet: where_scalar_other
graph(%x: f32[2,3], %m: bool[2,3]) {
  %0: f32[2,3] = aten::where.ScalarOther(%m, %x, other=2)
  return %0
}

// run: rewrite decompose,keep=aten::softmax.int,keep=aten::log_softmax.int
// quiet: softmax_int
// quiet: log_softmax_int
graph(%x: f32[5,2,3]) {
  %0: f32[5,2,3] = aten::softmax.int(%x, dim=-1, dtype=none)
  %1: f32[5,2,3] = aten::log_softmax.int(%x, dim=-1, dtype=none)
  return %0, %1
}
