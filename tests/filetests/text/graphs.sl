// Graphs that a call is given.

// run: parse
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) {
    %0: f32[2] = aten::sin(%x)
    return %0
  }, false_fn=graph(%y: f32[2]) { return %y }, [%x])
  return %0
}
// check: %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) {
// check: %0: f32[2] = aten::sin(%x)
// check: }, false_fn=graph(%y: f32[2]) {
// check: return %y
// check: }, [%x])

// the values around it are not its own
// run: parse
// error: %x
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph() { return %x }, false_fn=graph() { return %x }, operands=[])
  return %0
}

// what a graph does is what the call does
// run: parse
graph(%p: bool[], %x: f32[2]) {
  %0: f32[2] = higher_order::cond(%p, true_fn=graph(%x: f32[2]) {
    %0: f32[2] = aten::bernoulli(%x)
    return %0
  }, false_fn=graph(%x: f32[2]) { return %x }, [%x]) !random
  return %x
}
// not: !random

// run: parse
// error: the argument `true_fn` of `higher_order::cond` is `Any`, found an integer
graph(%p: bool[]) {
  higher_order::cond(%p, true_fn=1, false_fn=graph() { return }, operands=[])
  return
}
