// what has an effect, draws, or may fail stays, in its order, though nobody uses it; the rest goes
// run: rewrite decompose, simplify
graph(%x: f32[8], %i: i64[4], %n: i64[8]) {
  %late: f32[8] = aten::exp(%x)
  my::log(%late)
  %dead: f32[8] = aten::neg(%x)
  my::log(%x)
  %0: f32[4] = aten::gather(%x, dim=0, %i, sparse_grad=false)
  %1: f32[8] = aten::bernoulli(%x, generator=none)
  %2: i64[8] = aten::remainder.Tensor(%n, %n)
  %3: f32[8] = my::unknown(%x)
  %4: f32[8] = aten::relu(%x)
  aten::_assert_async(%4)
  return %4
}
// check: aten::exp
// check: my::log(%late)
// check: my::log(%x)
// check: aten::gather
// check: aten::bernoulli
// check: aten::remainder.Tensor
// check: aten::_assert_async
// not: aten::neg
// not: my::unknown

// equal checks are one; equal calls of what reads, draws or has an effect are not
// run: rewrite none
graph(%x: f32[8], %i: i64[4]) {
  %0: f32[4] = aten::gather(%x, dim=0, %i, sparse_grad=false)
  %1: f32[4] = aten::gather(%x, dim=0, %i, sparse_grad=false)
  %2: f32[8] = my::first(%x)
  %3: f32[8] = my::first(%x)
  %4: f32[8] = my::second(%x) !pure
  %5: f32[8] = my::second(%x) !pure
  my::log(%x)
  my::log(%x)
  my::test(%x) !may_fail
  my::test(%x) !may_fail
  return %1, %2, %3, %4, %5
}
// check: aten::gather
// check: my::first
// check: my::first
// check: my::second(%x) !pure
// check: my::log(%x)
// check: my::log(%x)
// check: my::test(%x) !may_fail
// check: return

// a loss of integers' targets may fail: what it falls apart into is there once
// run: rewrite decompose
// fires: nll_loss
graph(%x: f32[2,3], %t: i64[2]) {
  %0: f32[], %1: f32[] = aten::nll_loss_forward(%x, %t, weight=none, reduction=1, ignore_index=-100)
  %2: f32[2,3] = aten::neg(%x)
  return %2
}
// check: aten::gather
// not: nll_loss
// define: my::log(Tensor x) -> ()
// define: my::unknown(Tensor x) -> Tensor
// define: my::first(Tensor x) -> Tensor
// define: my::second(Tensor x) -> Tensor
// define: my::test(Tensor x) -> ()
