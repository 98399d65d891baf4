// A call that is given graphs is a call of a runtime kernel, with schedules of its own inside.

// run: schedule
graph(%c: f32[3], %x: f32[4,3], %w: f32[3]) {
  %0: f32[4,3] = aten::exp(%x)
  %1: f32[3], %2: f32[4,3] = higher_order::scan(combine_fn=graph(%c: f32[3], %x: f32[3], %w: f32[3]) {
    %0: f32[3] = aten::mul.Tensor(%c, %w)
    %1: f32[3] = aten::add.Tensor(%0, %x)
    %2: f32[3] = aten::tanh(%1)
    return %1, %2
  }, [%c], [%0], [%w])
  return %1, %2
}
// check: kernel exp
// check: call
// check: combine_fn:
// check: kernel
