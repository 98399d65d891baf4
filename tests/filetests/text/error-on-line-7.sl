// run: parse
// error: line 7, column 25: `%z` is not defined above this line
// error: 7 |  %1: f32[2] = aten::exp(%z)
// the error is two lines below
graph(%x: f32[2]) {
  %0: f32[2] = aten::log(%x)
 %1: f32[2] = aten::exp(%z)
  return %1
}
