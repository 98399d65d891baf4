// run: rewrite decompose
// fires: native_layer_norm
graph(%x: f32[2,64], %w: f32[64], %b: f32[64]) {
  %y: f32[2,64], %m: f32[2,1], %r: f32[2,1] = aten::native_layer_norm(%x, normalized_shape=[64], %w, %b, eps=1e-05)
  return %y, %m, %r
}
// check: aten::sum.dim_IntList(%x, dim=[1], keepdim=true, dtype=none)
// check: %y.1: f32[2,1] = aten::div.Scalar(%0, other=64.0)
// check: aten::sub.Tensor(%x, %y.1, alpha=1)
// check: aten::add.Scalar
// check: %y.2: f32[2,1] = aten::rsqrt
// check: return %y, %y.1, %y.2

// only what is used is computed; statistics have the dtype of their result
// run: rewrite decompose
graph(%x: f16[2,64]) {
  %y: f16[2,64], %m: f32[2,1], %r: f16[2,1] = aten::native_layer_norm(%x, normalized_shape=[64], weight=none, bias=none, eps=1e-05)
  return %m, %r
}
// check: f32[2,64] = prims::convert_element_type(%x, dtype=f32)
// check: f32[2,1] = aten::div.Scalar
// check: f16[2,1] = prims::convert_element_type
// not: aten::mul.Tensor(%4, %8)

// run: rewrite decompose
// fires: native_layer_norm_backward
graph(%g: f32[2,64], %x: f32[2,64], %m: f32[2,1], %r: f32[2,1], %w: f32[64], %b: f32[64]) {
  %dx: f32[2,64], %dw: f32[64], %db: f32[64] = aten::native_layer_norm_backward(%g, %x, normalized_shape=[64], %m, %r, %w, %b, output_mask=[true, true, true])
  return %dx, %dw, %db
}
// check: aten::sum.dim_IntList(%g, dim=[0], keepdim=false, dtype=none)
// check: aten::sub.Tensor(%x, %m, alpha=1)
// check: aten::mul.Tensor(%g, %w)
// not: native_layer_norm_backward

// run: rewrite decompose
// fires: layer_norm
// fires: native_group_norm
// fires: batch_norm_inference
graph(%x: f32[2,6,5], %w: f32[6], %b: f32[6], %n: f32[5]) {
  %l: f32[2,6,5] = aten::layer_norm(%x, normalized_shape=[5], %n, bias=none, eps=1e-05, cudnn_enable=true)
  %g: f32[2,6,5], %gm: f32[2,3], %gr: f32[2,3] = aten::native_group_norm(%x, %w, %b, N=2, C=6, HxW=5, group=3, eps=1e-05)
  %n0: f32[2,6,5], %n1: f32[0], %n2: f32[0] = aten::native_batch_norm(%x, %w, %b, %w, %b, training=false, momentum=0.1, eps=1e-05)
  return %l, %g, %gm, %gr, %n0, %n1
}
// check: aten::view(%x, size=[2, 3, 10])
// check: aten::view(%w, size=[1, 3, 2])
// not: norm

// statistics of the batch itself are another matter, and so is what has no elements
// run: rewrite decompose
// quiet: batch_norm_inference
// quiet: native_layer_norm
// quiet: native_layer_norm_backward
// quiet: layer_norm
// quiet: native_group_norm
graph(%x: f32[2,6,5], %w: f32[6], %e: f32[0,6], %z: f32[0,6,5], %s: f32[0,1]) {
  %n0: f32[2,6,5], %n1: f32[6], %n2: f32[6] = aten::native_batch_norm(%x, %w, %w, %w, %w, training=true, momentum=0.1, eps=1e-05)
  %l0: f32[0,6], %l1: f32[0,1], %l2: f32[0,1] = aten::native_layer_norm(%e, normalized_shape=[6], weight=none, bias=none, eps=1e-05)
  %l: f32[0,6] = aten::layer_norm(%e, normalized_shape=[6], weight=none, bias=none, eps=1e-05, cudnn_enable=true)
  %g: f32[0,6,5], %gm: f32[0,3], %gr: f32[0,3] = aten::native_group_norm(%z, %w, %w, N=0, C=6, HxW=5, group=3, eps=1e-05)
  %d0: f32[0,6], %d1: f32[6], %d2: f32[6] = aten::native_layer_norm_backward(%e, %e, normalized_shape=[6], %s, %s, %w, %w, output_mask=[true, true, true])
  return %n0, %l0, %l, %g, %d1
}
