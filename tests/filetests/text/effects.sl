// what a call does besides is written where its name does not say it
// run: parse
graph(%x: f32[2]) {
  my::log(%x)
  my::log(%x) !effect
  my::check(%x) !may_fail
  %0: f32[2] = my::draw(%x) !random !may_fail
  %1: f32[2] = my::same(%x) !pure
  %2: f32[2] = aten::bernoulli(%x, generator=none) !random
  return %0, %1, %2
}
// check: my::log(%x)
// check: my::log(%x)
// not: !effect
// check: my::check(%x) !may_fail
// check: my::draw(%x) !random !may_fail
// check: my::same(%x) !pure
// check: aten::bernoulli(%x, generator=none)
// check: return

// run: parse
// error: expected an effect: `pure`, `reads`, `writes`, `random`, `effect`, `may_fail`
graph(%x: f32[2]) {
  my::log(%x) !effects
  return %x
}

// run: verify
// error: `my::log` has no results, and its effects (`pure`) say that nothing else comes of it
graph(%x: f32[2]) {
  my::log(%x) !pure
  return %x
}

// run: verify
// error: `my::inc` writes to its arguments
graph(%x: f32[2]) {
  %0: f32[2] = my::inc(%x) !writes
  return %0
}
// define: my::log(Tensor x) -> ()
// define: my::check(Tensor x) -> ()
// define: my::draw(Tensor x) -> Tensor
// define: my::same(Tensor x) -> Tensor
// define: my::inc(Tensor x) -> Tensor
