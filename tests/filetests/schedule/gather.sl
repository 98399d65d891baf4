// Indices that are data: each is checked against its own dimension.

// run: schedule
graph(%x: f32[5,6,7], %i: i64[4,1], %j: i64[3]) {
  %0: f32[4,3,6] = aten::index.Tensor(%x, indices=[%i, none, %j])
  %1: f32[4,3,6] = aten::relu(%0)
  return %1
}
// check: wrap_index
// check: wrap_index
// check: relu
// not: call

// run: schedule
graph(%x: f32[5,6,7], %i: i64[4,1], %j: i64[3]) {
  %0: f32[5,4,3] = aten::index.Tensor(%x, indices=[none, %i, %j])
  %1: f32[5,4,3] = aten::relu(%0)
  return %1
}
// check: wrap_index
// check: wrap_index
// check: f32[5, 4, 3]:[12, 3, 1]
// not: call

// run: schedule
graph(%x: f32[5,6], %i: i64[5,2]) {
  %0: f32[5,2] = aten::gather(%x, dim=1, %i, sparse_grad=false)
  %1: f32[5,2] = aten::exp(%0)
  return %1
}
// check: check_index
// check: exp
// not: wrap_index
// not: call

// run: schedule
graph(%x: f32[4,5]) {
  %0: f32[4,5] = aten::eye.m(n=4, m=5, dtype=f32, layout=none, device=none, pin_memory=none)
  %1: f32[4,5] = aten::mul.Tensor(%x, %0)
  return %1
}
// check: eq
// check: select
// check: mul
// not: call
