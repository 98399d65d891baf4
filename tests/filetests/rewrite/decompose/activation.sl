// run: rewrite decompose
// fires: clamp
// fires: clamp_min
// fires: clamp_max
// fires: hardtanh
// fires: relu6
// fires: fmax
// fires: fmin
graph(%x: f32[4], %y: f32[4], %i: i64[4]) {
  %0: f32[4] = aten::clamp(%x, min=-1, max=2.5)
  %1: f32[4] = aten::clamp_min(%x, min=0)
  %2: f32[4] = aten::clamp_max.Tensor(%x, %y)
  %3: f32[4] = aten::hardtanh(%x, min_val=-1, max_val=1)
  %4: f32[4] = aten::relu6(%x)
  %5: f32[4] = aten::fmax(%x, %y)
  %6: i64[4] = aten::fmin(%i, %i)
  %7: f32[4] = aten::clamp(%i, min=0.5, max=none)
  return %0, %1, %2, %3, %4, %5, %6, %7
}
// check: f32[] = constant -1.0
// check: f32[4] = aten::maximum(%x,
// check: f32[4] = aten::minimum(%x, %y)
// check: aten::where.self
// check: i64[4] = aten::minimum(%i, %i)
// check: f32[4] = prims::convert_element_type(%i, dtype=f32)
// not: clamp

// run: rewrite simplify
// quiet: clamp
// quiet: clamp_min
// quiet: clamp_max
// quiet: hardtanh
// quiet: relu6
// quiet: fmax
// quiet: fmin
graph(%x: f32[4], %y: f32[4]) {
  %0: f32[4] = aten::clamp(%x, min=-1, max=2.5)
  %1: f32[4] = aten::clamp_min(%x, min=0)
  %2: f32[4] = aten::clamp_max.Tensor(%x, %y)
  %3: f32[4] = aten::hardtanh(%x, min_val=-1, max_val=1)
  %4: f32[4] = aten::relu6(%x)
  %5: f32[4] = aten::fmax(%x, %y)
  %6: f32[4] = aten::fmin(%x, %y)
  return %0, %1, %2, %3, %4, %5, %6
}

// run: rewrite decompose
// fires: leaky_relu
// fires: elu
// fires: softplus
// fires: hardsigmoid
// fires: hardswish
// fires: hardshrink
// fires: softshrink
// fires: threshold
// fires: log_sigmoid
// fires: log_sigmoid_forward
// fires: mish
// fires: glu
graph(%x: f32[4]) {
  %leaky: f32[4] = aten::leaky_relu(%x, negative_slope=0.1)
  %elu: f32[4] = aten::elu(%x, alpha=1, scale=1, input_scale=1)
  %selu: f32[4] = aten::selu(%x)
  %celu: f32[4] = aten::celu(%x, alpha=2.0)
  %softplus: f32[4] = aten::softplus(%x, beta=1, threshold=20)
  %hsig: f32[4] = aten::hardsigmoid(%x)
  %hswish: f32[4] = aten::hardswish(%x)
  %hshrink: f32[4] = aten::hardshrink(%x, lambd=0.5)
  %sshrink: f32[4] = aten::softshrink(%x, lambd=0.5)
  %thr: f32[4] = aten::threshold(%x, threshold=0.1, value=20)
  %lsig: f32[4] = aten::log_sigmoid(%x)
  %lsf: f32[4], %buf: f32[4] = aten::log_sigmoid_forward(%x)
  %mish: f32[4] = aten::mish(%x)
  %glu: f32[2] = aten::glu(%x, dim=-1)
  return %leaky, %elu, %selu, %celu, %softplus, %hsig, %hswish, %hshrink, %sshrink, %thr, %lsig, %lsf, %buf, %mish, %glu
}
// check: %leaky: f32[4] = aten::where.self
// check: %elu: f32[4] = aten::where.self
// check: %selu: f32[4] = aten::where.self
// check: aten::mul.Scalar(%x, other=0.5)
// check: %celu: f32[4] = aten::where.self
// check: %softplus: f32[4] = aten::where.self
// check: %hsig: f32[4] = aten::div.Scalar
// check: %hswish: f32[4] = aten::div.Scalar
// check: %hshrink: f32[4] = aten::where.self
// check: %sshrink: f32[4] = aten::where.self
// check: %thr: f32[4] = aten::where.self
// check: %mish: f32[4] = aten::mul.Tensor(%x
// check: %glu: f32[2] = aten::mul.Tensor

// half types round once
// run: rewrite decompose
graph(%x: bf16[4]) {
  %0: bf16[4] = aten::mish(%x)
  return %0
}
// check: f32[4] = prims::convert_element_type(%x, dtype=f32)
// check: f32[4] = aten::mul.Tensor
// check: bf16[4] = prims::convert_element_type

// primitives are no composites
// run: rewrite decompose
// quiet: leaky_relu
// quiet: elu
// quiet: softplus
// quiet: hardsigmoid
// quiet: hardswish
// quiet: hardshrink
// quiet: softshrink
// quiet: threshold
// quiet: log_sigmoid
// quiet: log_sigmoid_forward
// quiet: mish
// quiet: glu
graph(%x: f32[4]) {
  %0: f32[4] = aten::relu(%x)
  %1: f32[4] = aten::gelu(%0, approximate="none")
  %2: f32[4] = aten::silu(%1)
  %3: f32[4] = aten::sigmoid(%2)
  %4: f32[4] = aten::tanh(%3)
  return %4
}
// check: aten::relu
// check: aten::gelu
// check: aten::silu
// check: aten::sigmoid
// check: aten::tanh

// derivatives
// run: rewrite decompose
// fires: prelu
// fires: selu
// fires: celu
// fires: elu_backward
// fires: leaky_relu_backward
// fires: prelu_backward
// fires: hardtanh_backward
// fires: hardsigmoid_backward
// fires: hardswish_backward
// fires: hardshrink_backward
// fires: softshrink_backward
// fires: softplus_backward
// fires: mish_backward
// fires: threshold_backward
// fires: gelu_backward
// fires: silu_backward
// fires: sigmoid_backward
// fires: tanh_backward
// fires: log_sigmoid_backward
// fires: glu_backward
// fires: rrelu_backward
graph(%g: f32[4], %x: f32[4], %w: f32[1], %h: f32[2]) {
  %prelu: f32[4] = aten::_prelu_kernel(%x, %w)
  %selu: f32[4] = aten::selu(%x)
  %celu: f32[4] = aten::celu(%x, alpha=2.0)
  %elu: f32[4] = aten::elu_backward(%g, alpha=1, scale=1, input_scale=1, is_result=false, %x)
  %leaky: f32[4] = aten::leaky_relu_backward(%g, %x, negative_slope=0.1, self_is_result=false)
  %dx: f32[4], %dw: f32[4] = aten::_prelu_kernel_backward(%g, %x, %w)
  %htanh: f32[4] = aten::hardtanh_backward(%g, %x, min_val=-1, max_val=1)
  %hsig: f32[4] = aten::hardsigmoid_backward(%g, %x)
  %hswish: f32[4] = aten::hardswish_backward(%g, %x)
  %hshrink: f32[4] = aten::hardshrink_backward(%g, %x, lambd=0.5)
  %sshrink: f32[4] = aten::softshrink_backward(%g, %x, lambd=0.25)
  %softplus: f32[4] = aten::softplus_backward(%g, %x, beta=1, threshold=20)
  %mish: f32[4] = aten::mish_backward(%g, %x)
  %thr: f32[4] = aten::threshold_backward(%g, %x, threshold=0)
  %gelu: f32[4] = aten::gelu_backward(%g, %x, approximate="tanh")
  %silu: f32[4] = aten::silu_backward(%g, %x)
  %sig: f32[4] = aten::sigmoid_backward(%g, %x)
  %tanh: f32[4] = aten::tanh_backward(%g, %x)
  %lsig: f32[4] = aten::log_sigmoid_backward(%g, %x, %g)
  %glu: f32[4] = aten::glu_backward(%h, %x, dim=0)
  %rrelu: f32[4] = aten::rrelu_with_noise_backward(%g, %x, %g, lower=0.1, upper=0.3, training=true, self_is_result=false)
  return %prelu, %selu, %celu, %elu, %leaky, %dx, %dw, %htanh, %hsig, %hswish, %hshrink, %sshrink, %softplus, %mish, %thr, %gelu, %silu, %sig, %tanh, %lsig, %glu, %rrelu
}
// check: %glu: f32[4] = aten::cat
// not: _backward
// not: _prelu_kernel

// run: rewrite simplify
// quiet: prelu
// quiet: selu
// quiet: celu
// quiet: elu_backward
// quiet: leaky_relu_backward
// quiet: prelu_backward
// quiet: hardtanh_backward
// quiet: hardsigmoid_backward
// quiet: hardswish_backward
// quiet: hardshrink_backward
// quiet: softshrink_backward
// quiet: softplus_backward
// quiet: mish_backward
// quiet: threshold_backward
// quiet: gelu_backward
// quiet: silu_backward
// quiet: sigmoid_backward
// quiet: tanh_backward
// quiet: log_sigmoid_backward
// quiet: glu_backward
// quiet: rrelu_backward
graph(%g: f32[4], %x: f32[4]) {
  %0: f32[4] = aten::tanh_backward(%g, %x)
  return %0
}
// check: aten::tanh_backward
