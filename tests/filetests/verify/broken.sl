// run: verify
// error: sizes [2, 3] and [4] do not broadcast
// error: in: %0: f32[2,3] = aten::add.Tensor(%x, %y, alpha=1)
graph(%x: f32[2,3], %y: f32[4]) {
  %0: f32[2,3] = aten::add.Tensor(%x, %y, alpha=1)
  return %0
}

// run: verify
// error: `aten::add_.Tensor` writes to its arguments: a captured graph is functional
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::add_.Tensor(%x, %x, alpha=1)
  return %0
}

// run: verify
// error: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::mm(%x, %x)
  return %0
}

// run: verify
// error: expected dtype bool, found f32
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::isnan(%x)
  return %0
}

// run: verify
graph(%x: f32[2,3]) {
  %0: i8[9] = mine::anything(%x)
  return %0
}
// check: mine::anything
// define: mine::anything(Tensor x) -> Tensor
