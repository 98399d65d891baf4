// an entry of the catalogue that is one call of another operator is that call in a graph as well
// run: rewrite decompose
// fires: composite
graph(%x: f32[2,3], %y: f32[2,3]) {
  %0: f32[3,2] = aten::swapaxes(%x, axis0=0, axis1=-1)
  %1: f32[2,3] = aten::max.other(%x, %y)
  %2: f32[2,3] = aten::square(%x)
  %3: f32[2] = aten::var.dim(%y, dim=[1], unbiased=false, keepdim=false)
  return %0, %1, %2, %3
}
// not: aten::swapaxes
// check: aten::maximum(%x, %y)
// not: aten::square
// not: aten::var

// one made of several calls is left to the operator
// run: rewrite decompose
// quiet: composite
graph(%x: f32[2,3], %y: f32[2,3]) {
  %0: f32[] = aten::dist(%x, %y, p=2)
  return %0
}
// check: aten::dist
