// run: rewrite decompose
// fires: mse_loss
// fires: smooth_l1_loss
// fires: huber_loss
// fires: nll_loss
graph(%x: f32[4,3], %t: f32[4,3], %c: i64[4]) {
  %0: f32[] = aten::mse_loss(%x, %t, reduction=1)
  %1: f32[4,3] = aten::smooth_l1_loss(%x, %t, reduction=0, beta=0.5)
  %2: f32[] = aten::huber_loss(%x, %t, reduction=2, delta=2.0)
  %3: f32[], %4: f32[] = aten::nll_loss_forward(%x, %c, weight=none, reduction=1, ignore_index=-100)
  return %0, %1, %2, %3, %4
}
// check: aten::div.Scalar(%4, other=12.0)
// check: aten::gather
// check: aten::div.Tensor

// weights, and losses of integers, stay
// run: rewrite decompose
// quiet: nll_loss
// quiet: mse_loss
// quiet: smooth_l1_loss
// quiet: huber_loss
graph(%x: f32[4,3], %w: f32[3], %c: i64[4], %i: i64[4]) {
  %0: i64[] = aten::mse_loss(%i, %c, reduction=1)
  %1: i64[] = aten::smooth_l1_loss(%i, %c, reduction=1, beta=1)
  %2: i64[] = aten::huber_loss(%i, %c, reduction=1, delta=1)
  %3: f32[], %4: f32[] = aten::nll_loss_forward(%x, %c, %w, reduction=1, ignore_index=-100)
  return %0, %1, %2, %3, %4
}

// run: rewrite decompose
// fires: soft_margin_loss
// fires: binary_cross_entropy
// fires: mse_loss_backward
// fires: smooth_l1_loss_backward
// fires: huber_loss_backward
// fires: soft_margin_loss_backward
// fires: binary_cross_entropy_backward
graph(%g: f32[], %x: f32[4], %t: f32[4]) {
  %0: f32[] = aten::soft_margin_loss(%x, %t, reduction=1)
  %1: f32[4] = aten::binary_cross_entropy(%x, %t, weight=none, reduction=0)
  %2: f32[4] = aten::mse_loss_backward(%g, %x, %t, reduction=1)
  %3: f32[4] = aten::smooth_l1_loss_backward(%g, %x, %t, reduction=2, beta=1.0)
  %4: f32[4] = aten::huber_loss_backward(%g, %x, %t, reduction=2, delta=1.0)
  %5: f32[4] = aten::soft_margin_loss_backward(%g, %x, %t, reduction=1)
  %6: f32[4] = aten::binary_cross_entropy_backward(%g, %x, %t, weight=none, reduction=1)
  return %0, %1, %2, %3, %4, %5, %6
}
// check: aten::log1p
// check: aten::sum.dim_IntList
// not: _backward
// not: cross_entropy

// run: rewrite simplify
// quiet: soft_margin_loss
// quiet: binary_cross_entropy
// quiet: mse_loss_backward
// quiet: smooth_l1_loss_backward
// quiet: huber_loss_backward
// quiet: soft_margin_loss_backward
// quiet: binary_cross_entropy_backward
graph(%g: f32[], %x: f32[4], %t: f32[4]) {
  %0: f32[4] = aten::mse_loss_backward(%g, %x, %t, reduction=1)
  return %0
}
// check: aten::mse_loss_backward
