// Graphs that a call is given fit the call.

// run: verify
graph(%n: i64[], %x: f32[2], %w: f32[2]) {
  %0: i64[], %1: f32[2] = higher_order::while_loop(cond_fn=graph(%n: i64[], %x: f32[2], %w: f32[2]) {
    %0: bool[] = aten::gt.Scalar(%n, other=0)
    return %0
  }, body_fn=graph(%n: i64[], %x: f32[2], %w: f32[2]) {
    %0: i64[] = aten::sub.Scalar(%n, other=1, alpha=1)
    %1: f32[2] = aten::mul.Tensor(%x, %w)
    return %0, %1
  }, [%n, %x], [%w])
  return %0, %1
}
// check: higher_order::while_loop

// run: verify
// error: a predicate is one element of dtype bool, found f32[2]
graph(%p: f32[2], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) { return %x }, false_fn=graph(%x: f32[2]) { return %x }, [%x])
  return %0
}

// run: verify
// error: input 0 of the graph `false_fn` is f32[3], expected f32[2]
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) { return %x }, false_fn=graph(%x: f32[3]) { return %x }, [%x])
  return %0
}

// run: verify
// error: the graph `true_fn` has 2 results, expected 1
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) { return %x, %x }, false_fn=graph(%x: f32[2]) { return %x }, [%x])
  return %0
}

// run: verify
// error: the graph `true_fn` has parameters; whatever it uses has to be an operand
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(param %x: f32[2]) { return %x }, false_fn=graph(%x: f32[2]) { return %x }, [%x])
  return %0
}

// run: verify
// error: sizes [2] and [3] do not broadcast
graph(%p: bool[], %x: f32[2], %y: f32[3]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2], %y: f32[3]) {
    %0: f32[2] = aten::add.Tensor(%x, %y)
    return %0
  }, false_fn=graph(%x: f32[2], %y: f32[3]) { return %x }, [%x, %y])
  return %0
}

// run: verify
// error: the tensors to scan have no first dimension of one size
graph(%c: f32[], %x: f32[4,2], %y: f32[3,2]) {
  %0: f32[] = higher_order::scan(combine_fn=graph(%c: f32[], %x: f32[2], %y: f32[2]) { return %c }, [%c], [%x, %y], additional_inputs=[])
  return %0
}

// run: verify
// error: result 0 of the graph `combine_fn` is f32[2], expected f32[]
graph(%c: f32[], %x: f32[4,2]) {
  %0: f32[] = higher_order::scan(combine_fn=graph(%c: f32[], %x: f32[2]) { return %x }, [%c], [%x], additional_inputs=[])
  return %0
}
