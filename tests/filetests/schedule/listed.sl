// Operators that copy listed positions are loads: what surrounds them shares their kernel.

// run: schedule
graph(%x: f32[4,33]) {
  %0: f32[4,50] = aten::reflection_pad1d(%x, padding=[9, 8])
  %1: f32[4,50] = aten::relu(%0)
  %2: f32[4] = aten::sum.dim_IntList(%1, dim=[1], keepdim=false, dtype=none)
  return %2
}
// check: i64[50] constant of 400 bytes
// check: kernel
// check: %0: i64 = load b1[i1]
// check: %1: f32 = load b0[33*i0 + %0]
// check: %2: f32 = relu %1
// check: reduce_sum %2
// not: call
// not: check_index

// run: schedule
graph(%x: f32[2,3,8,8], %y: f32[2,3,16,16]) {
  %0: f32[2,3,16,16] = aten::upsample_nearest2d(%x, output_size=[16, 16], scales_h=2.0, scales_w=2.0)
  %1: f32[2,3,16,16] = aten::add.Tensor(%0, %y, alpha=1)
  %2: f32[2,3,16,16] = aten::relu(%1)
  return %2
}
// check: kernel upsample_nearest2d_add_relu
// check: add
// check: relu
// check: store
// not: call
// not: check_index

// run: schedule
graph(%x: f32[6,5], %y: f32[6,5]) {
  %0: f32[6,5] = aten::flip(%x, dims=[0, 1])
  %1: f32[6,5] = aten::mul.Tensor(%0, %y)
  return %1
}
// check: load b0[-i0 + 29]
// check: mul
// not: call

// run: schedule
graph(%x: f32[2,6,5]) {
  %0: f32[2,9,5] = aten::replication_pad2d(%x, padding=[0, 0, 0, 3])
  %1: f32[2,9,5] = aten::exp(%0)
  return %1
}
// check: i64[9] constant
// check: exp
// not: call

// run: schedule
graph(%x: f32[4,60]) {
  %0: f32[6,81] = aten::constant_pad_nd(%x, pad=[10, 11, 1, 1], value=-1)
  %1: f32[6,81] = aten::exp(%0)
  %2: f32[6] = aten::sum.dim_IntList(%1, dim=[1], keepdim=false, dtype=none)
  return %2
}
// check: kernel constant_pad_nd_exp_sum
// check: select
// check: select
// check: exp
// check: reduce_sum
// not: call
// not: check_index

// run: schedule
graph(%x: f32[4,33]) {
  %0: f32[4,30] = aten::slice.Tensor(%x, dim=1, start=3, end=33, step=1)
  %1: f32[4,3] = aten::slice.Tensor(%x, dim=1, start=0, end=3, step=1)
  %2: f32[4,33] = aten::cat([%0, %1], dim=1)
  %3: f32[4,33] = aten::neg(%2)
  return %3
}
// check: i64[33] constant
// check: kernel cat_neg grid
// not: call

// run: schedule
graph(%x: f32[0,3]) {
  %0: f32[2,3] = aten::constant_pad_nd(%x, pad=[0, 0, 1, 1], value=5)
  %1: f32[2,3] = aten::neg(%0)
  return %1
}
// not: load
// not: call

// run: schedule
graph(%x: f32[4,20], %y: f32[4,30]) {
  %0: f32[4,50] = aten::cat([%x, %y], dim=1)
  %1: f32[4,50] = aten::relu(%0)
  %2: f32[4] = aten::sum.dim_IntList(%1, dim=[1], keepdim=false, dtype=none)
  return %2
}
// check: kernel cat_relu_sum
// check: select
// check: reduce_sum
// not: kernel cat grid
// not: call

// run: schedule
graph(%x: f32[4,20], %y: f32[4,30]) {
  %0: f32[4,20] = aten::exp(%x)
  %1: f32[4,50] = aten::cat([%0, %y], dim=1)
  %2: f32[4,50] = aten::relu(%1)
  return %2
}
// check: kernel exp
// check: relu
// not: select

// short rows are copied, not selected
// run: schedule
graph(%x: f32[64,5], %y: f32[64,3], %z: f32[9,6,3]) {
  %0: f32[64,8] = aten::cat([%x, %y], dim=1)
  %1: f32[64,8] = aten::relu(%0)
  %2: f32[11,6,3] = aten::constant_pad_nd(%z, pad=[0, 0, 0, 0, 1, 1], value=0)
  %3: f32[11,6,3] = aten::relu(%2)
  return %1, %3
}
// not: select
// not: call
