// run: rewrite decompose
// fires: softmax
graph(%x: f32[2,3]) {
  %y: f32[2,3] = aten::_softmax(%x, dim=-1, half_to_float=false)
  return %y
}
// check: %0: f32[2,1] = aten::amax(%x, dim=[1], keepdim=true)
// check: %1: f32[2,3] = aten::sub.Tensor(%x, %0, alpha=1)
// check: %2: f32[2,3] = aten::exp(%1)
// check: %3: f32[2,1] = aten::sum.dim_IntList(%2, dim=[1], keepdim=true, dtype=none)
// check: f32[2,1] = aten::reciprocal(%3)
// check: %y: f32[2,3] = aten::mul.Tensor(

// half types compute in f32 and round once
// run: rewrite decompose
graph(%x: bf16[2,3]) {
  %y: bf16[2,3] = aten::softmax.int(%x, dim=1, dtype=none)
  return %y
}
// check: f32[2,3] = prims::convert_element_type(%x, dtype=f32)
// check: f32[2,3] = aten::mul.Tensor
// check: %y: bf16[2,3] = prims::convert_element_type
// not: bf16[2,1]

// the dtype argument converts the operand first, the computation is still in f32
// run: rewrite decompose
graph(%x: f32[2,3]) {
  %y: f16[2,3] = aten::softmax.int(%x, dim=1, dtype=f16)
  return %y
}
// check: f16[2,3] = prims::convert_element_type(%x, dtype=f16)
// check: f32[2,3] = prims::convert_element_type
// check: %y: f16[2,3]

// run: rewrite decompose
graph(%x: f32[]) {
  %y: f32[] = aten::_softmax(%x, dim=0, half_to_float=false)
  return %y
}
// check: aten::amax(%x, dim=[], keepdim=true)

// there is no maximum of nothing; its sum is 0
// run: rewrite decompose
// quiet: softmax
// quiet: log_softmax
// fires: logsumexp
graph(%x: f32[0,3], %e: f32[3,0]) {
  %0: f32[0,3] = aten::_softmax(%x, dim=0, half_to_float=false)
  %1: f32[0,3] = aten::_log_softmax(%x, dim=0, half_to_float=false)
  %2: f32[3] = aten::logsumexp(%e, dim=[1], keepdim=false)
  return %0, %1, %2
}
// check: aten::exp(%e)
// not: aten::amax

// run: rewrite simplify
// quiet: logsumexp
graph(%x: f32[2,3]) {
  %1: f32[2] = aten::logsumexp(%x, dim=[1], keepdim=false)
  return %1
}

// run: rewrite decompose
// fires: log_softmax
// fires: logsumexp
// fires: softmax_backward
// fires: log_softmax_backward
graph(%x: f32[2,3], %g: f32[2,3]) {
  %0: f32[2,3] = aten::_log_softmax(%x, dim=1, half_to_float=false)
  %1: f32[2] = aten::logsumexp(%x, dim=[1], keepdim=false)
  %2: f32[2,3] = aten::_softmax_backward_data(%g, %x, dim=1, input_dtype=f32)
  %3: f32[2,3] = aten::_log_softmax_backward_data(%g, %x, dim=1, input_dtype=f32)
  return %0, %1, %2, %3
}
// check: aten::log(
// not: softmax
// not: logsumexp

// run: rewrite decompose,keep=aten::_softmax_backward_data,keep=aten::_log_softmax_backward_data
// quiet: softmax_backward
// quiet: log_softmax_backward
graph(%x: f32[2,3], %g: f32[2,3]) {
  %2: f32[2,3] = aten::_softmax_backward_data(%g, %x, dim=1, input_dtype=f32)
  %3: f32[2,3] = aten::_log_softmax_backward_data(%g, %x, dim=1, input_dtype=f32)
  return %2, %3
}
