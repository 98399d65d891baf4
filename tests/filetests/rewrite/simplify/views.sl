// run: rewrite simplify
// fires: whole_view
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::view(%x, size=[2, 3])
  %1: f32[2,3] = aten::expand(%0, size=[2, -1], implicit=false)
  %2: f32[2,3] = aten::slice.Tensor(%1, dim=1, start=0, end=9223372036854775807, step=1)
  return %2
}
// check: return %x

// run: rewrite simplify
// quiet: whole_view
graph(%x: f32[2,3]) {
  %0: f32[3,2] = aten::view(%x, size=[3, 2])
  %1: f32[2,2]{3,1} = aten::slice.Tensor(%x, dim=1, start=1, end=3, step=1)
  return %0, %1
}
// check: aten::view
// check: aten::slice

// run: rewrite simplify
// fires: view_back
graph(%x: f32[2,3]) {
  %0: f32[2,1,3] = aten::unsqueeze(%x, dim=1)
  %1: f32[2,3] = aten::squeeze.dim(%0, dim=1)
  return %1
}
// check: return %x

// the copy in between changed the strides
// run: rewrite simplify
// quiet: view_back
// quiet: view_of_view
graph(%x: f32[2,3]{1,2}) {
  %0: f32[6] = aten::reshape(%x, shape=[6])
  %1: f32[2,3] = aten::view(%0, size=[2, 3])
  return %1
}
// check: aten::reshape
// check: aten::view

// run: rewrite simplify
// fires: view_of_view
graph(%x: f32[2,3]) {
  %0: f32[6] = aten::view(%x, size=[6])
  %1: f32[3,2] = aten::view(%0, size=[3, 2])
  return %1
}
// check: %0: f32[3,2] = aten::view(%x, size=[3, 2])
// check: return %0

// run: rewrite simplify
// fires: permute_identity
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::permute(%x, dims=[0, 1])
  %1: f32[2,3] = aten::transpose.int(%0, dim0=1, dim1=-1)
  return %1
}
// check: return %x

// run: rewrite simplify
// fires: permute_of_permute
graph(%x: f32[2,3,4]) {
  %0: f32[3,2,4]{4,12,1} = aten::transpose.int(%x, dim0=0, dim1=1)
  %1: f32[3,4,2]{4,1,12} = aten::transpose.int(%0, dim0=1, dim1=2)
  %2: f32[2,3,4] = aten::permute(%1, dims=[2, 0, 1])
  return %1, %2
}
// check: aten::permute(%x, dims=[1, 2, 0])
// check: return %0, %x

// run: rewrite simplify
// fires: permute_of_permute
graph(%x: f32[2,3]) {
  %0: f32[3,2]{1,3} = aten::t(%x)
  %1: f32[2,3] = aten::t(%0)
  return %1
}
// check: return %x

// run: rewrite simplify
// quiet: permute_identity
// quiet: permute_of_permute
graph(%x: f32[2,2]) {
  %0: f32[2,2]{1,2} = aten::t(%x)
  %1: f32[2,2]{1,2} = aten::exp(%0)
  %2: f32[2,2] = aten::t(%1)
  return %2
}
// check: aten::t
// check: aten::exp
// check: aten::t

// run: rewrite simplify
// fires: expand_of_expand
graph(%x: f32[1,3]) {
  %0: f32[2,3]{0,1} = aten::expand(%x, size=[2, 3], implicit=false)
  %1: f32[4,2,3]{0,0,1} = aten::expand(%0, size=[4, 2, 3], implicit=false)
  return %1
}
// check: aten::expand(%x, size=[4, 2, 3]

// run: rewrite simplify
// quiet: expand_of_expand
graph(%x: f32[1,3]) {
  %0: f32[1,3] = aten::sin(%x)
  %1: f32[4,3]{0,1} = aten::expand(%0, size=[4, 3], implicit=false)
  return %1
}
// check: aten::expand(%0

// run: rewrite simplify
// fires: slice_of_slice
graph(%x: f32[10]) {
  %0: f32[6] = aten::slice.Tensor(%x, dim=0, start=2, end=8, step=1)
  %1: f32[3] = aten::slice.Tensor(%0, dim=0, start=-4, end=5, step=1)
  return %1
}
// check: aten::slice.Tensor(%x, dim=0, start=4, end=7, step=1)

// another dimension, or a step
// run: rewrite simplify
// quiet: slice_of_slice
graph(%x: f32[10,10]) {
  %0: f32[6,10] = aten::slice.Tensor(%x, dim=0, start=2, end=8, step=1)
  %1: f32[6,3]{10,1} = aten::slice.Tensor(%0, dim=1, start=2, end=5, step=1)
  %2: f32[3,10]{20,1} = aten::slice.Tensor(%0, dim=0, start=0, end=6, step=2)
  return %1, %2
}
// check: aten::slice.Tensor(%x
// check: aten::slice.Tensor(%0
// check: aten::slice.Tensor(%0

// run: rewrite simplify
// fires: cat_one
// fires: scatter_whole
graph(%x: f32[2,3], %y: f32[2,3]) {
  %0: f32[2,3] = aten::cat([%x], dim=0)
  %1: f32[2,3] = aten::slice_scatter(%0, %y, dim=0, start=0, end=2, step=1)
  return %0, %1
}
// check: return %x, %y

// run: rewrite simplify
// quiet: cat_one
// quiet: scatter_whole
graph(%x: f32[2,3], %y: f32[1,3]) {
  %0: f32[3,3] = aten::cat([%x, %y], dim=0)
  %1: f32[2,3] = aten::slice_scatter(%x, %y, dim=0, start=0, end=1, step=1)
  return %0, %1
}
// check: aten::cat
// check: aten::slice_scatter
