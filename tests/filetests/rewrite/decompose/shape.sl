// run: rewrite decompose
// fires: stack
// fires: split
// fires: unbind
// fires: squeeze
graph(%x: f32[2,3], %y: f32[2,3], %z: f32[1,3,1]) {
  %0: f32[2,2,3] = aten::stack([%x, %y], dim=-2)
  %1: f32[2,2]{3,1}, %2: f32[2,1]{3,1} = aten::split.Tensor(%x, split_size=2, dim=1)
  %3: f32[3], %4: f32[3] = aten::unbind.int(%x, dim=0)
  %5: f32[3] = aten::squeeze(%z)
  return %0, %1, %2, %3, %4, %5
}
// check: aten::cat([%x, %y], dim=1)
// check: f32[2,2,3] = aten::view(
// check: f32[2,2]{3,1} = aten::slice.Tensor(%x, dim=1, start=0, end=2, step=1)
// check: f32[2,1]{3,1} = aten::slice.Tensor(%x, dim=1, start=2, end=3, step=1)
// check: f32[3] = aten::select.int(%x, dim=0, index=0)
// check: f32[3] = aten::squeeze.dims(%z, dim=[0, 2])

// run: rewrite simplify
// quiet: stack
// quiet: split
// quiet: unbind
// quiet: squeeze
graph(%x: f32[2,3], %y: f32[2,3], %z: f32[1,3,1]) {
  %0: f32[2,2,3] = aten::stack([%x, %y], dim=-2)
  %1: f32[2,2]{3,1}, %2: f32[2,1]{3,1} = aten::split.Tensor(%x, split_size=2, dim=1)
  %3: f32[3], %4: f32[3] = aten::unbind.int(%x, dim=0)
  %5: f32[3] = aten::squeeze(%z)
  return %0, %1, %2, %3, %4, %5
}
