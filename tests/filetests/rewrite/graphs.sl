// Graphs that a call is given are rewritten with the one around, and equal calls are one.

// run: rewrite simplify
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) {
    %0: f32[2] = aten::mul.Scalar(%x, other=1)
    %1: f32[2] = aten::sin(%0)
    return %1
  }, false_fn=graph(%x: f32[2]) { return %x }, [%x])
  %1: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) {
    %0: f32[2] = aten::mul.Scalar(%x, other=1)
    %1: f32[2] = aten::sin(%0)
    return %1
  }, false_fn=graph(%x: f32[2]) { return %x }, [%x])
  %2: f32[2] = aten::add.Tensor(%0, %1, alpha=1)
  return %2
}
// check: %0: f32[2] = higher_order::cond
// check: %0: f32[2] = aten::sin(%x)
// check: %1: f32[2] = aten::add.Tensor(%0, %0, alpha=1)
// not: aten::mul

// those that draw numbers are not one
// run: rewrite simplify
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) {
    %0: f32[2] = aten::bernoulli(%x)
    return %0
  }, false_fn=graph(%x: f32[2]) { return %x }, [%x])
  %1: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) {
    %0: f32[2] = aten::bernoulli(%x)
    return %0
  }, false_fn=graph(%x: f32[2]) { return %x }, [%x])
  return %0
}
// check: %0: f32[2] = higher_order::cond
// check: %1: f32[2] = higher_order::cond
