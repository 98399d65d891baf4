// Writing where indices say: one kernel, which copies, computes and writes.

// run: schedule
graph(%x: f32[6,16], %i: i64[4], %y: f32[4,16]) {
  %0: f32[4,16] = aten::gelu(%y, approximate="none")
  %1: f32[6,16] = aten::index_add(%x, dim=0, %i, %0, alpha=1)
  return %1
}
// check: store
// check: check_index
// check: gelu_erf
// check: update_sum
// not: call
// not: wrap_index

// run: schedule
graph(%x: f32[6,7], %i: i64[4,1], %j: i64[3], %v: f32[]) {
  %0: f32[6,7] = aten::index_put(%x, indices=[%i, %j], %v, accumulate=false)
  return %0
}
// check: wrap_index
// check: wrap_index
// check: store
// not: call
// not: update

// run: schedule
graph(%x: f16[6,7], %i: i64[6,3], %y: f16[6,7]) {
  %0: f16[6,7] = aten::scatter_add(%x, dim=1, %i, %y)
  return %0
}
// check: update_sum
// not: call

// what is not included is replaced first
// run: schedule
graph(%x: f32[5,6], %i: i64[3,6], %y: f32[3,6]) {
  %0: f32[5,6] = aten::scatter_reduce.two(%x, dim=0, %i, %y, reduce="amax", include_self=false)
  return %0
}
// check: stage0
// check: stage1
// check: store
// check: stage2
// check: update_max
// not: call

// positions that a mask has are not known
// run: schedule
graph(%x: f32[6,7], %m: bool[6,7], %v: f32[]) {
  %0: f32[6,7] = aten::masked_scatter(%x, %m, %x)
  return %0
}
// check: call
