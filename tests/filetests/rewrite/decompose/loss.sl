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
