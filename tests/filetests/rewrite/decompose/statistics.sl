// run: rewrite decompose
// fires: mean
graph(%x: f32[2,3,4]) {
  %0: f32[2,1,1] = aten::mean.dim(%x, dim=[-1, 1], keepdim=true, dtype=none)
  %1: f32[] = aten::mean(%x, dtype=none)
  return %0, %1
}
// check: aten::sum.dim_IntList(%x, dim=[1, 2], keepdim=true, dtype=none)
// check: aten::div.Scalar(%0, other=12.0)
// check: aten::sum.dim_IntList(%x, dim=[0, 1, 2], keepdim=false, dtype=none)

// the elements go straight to the type of computation: those beyond the result's are numbers still
// run: rewrite decompose
graph(%x: bf16[2,3]) {
  %0: f16[2] = aten::mean.dim(%x, dim=[1], keepdim=false, dtype=f16)
  return %0
}
// not: f16[2,3] =
// check: f32[2,3] = prims::convert_element_type(%x

// the sum of halves is kept in f32 until it is divided
// run: rewrite decompose
graph(%x: f16[2,3]) {
  %0: f16[2] = aten::mean.dim(%x, dim=[1], keepdim=false, dtype=none)
  return %0
}
// check: f32[2] = aten::div.Scalar
// check: f16[2] = prims::convert_element_type

// run: rewrite decompose
// fires: var
// fires: std
// fires: var_mean
// fires: std_mean
graph(%x: f32[2,5]) {
  %0: f32[2] = aten::var.correction(%x, dim=[1], correction=1, keepdim=false)
  %1: f32[2] = aten::std.dim(%x, dim=[1], unbiased=false, keepdim=false)
  %2: f32[2,1], %3: f32[2,1] = aten::var_mean.correction(%x, dim=[1], correction=none, keepdim=true)
  %4: f32[2], %5: f32[2] = aten::std_mean.correction(%x, dim=[1], correction=7, keepdim=false)
  return %0, %1, %2, %3, %4, %5
}
// check: other=5.0
// check: other=4.0
// check: aten::sqrt
// check: other=0.0

// run: rewrite decompose
// fires: sum_all
// fires: max_all
// fires: min_all
// fires: prod_all
// fires: any_all
// fires: all_all
// fires: vector_norm
graph(%x: f32[2,5], %b: bool[2,3]) {
  %0: f32[] = aten::sum(%x, dtype=none)
  %1: f32[] = aten::max(%x)
  %2: f32[] = aten::min(%x)
  %3: i64[] = aten::prod(%b, dtype=none)
  %4: bool[] = aten::any(%x)
  %5: bool[] = aten::all(%x)
  %6: f32[2] = aten::linalg_vector_norm(%x, ord=2, dim=[1], keepdim=false, dtype=none)
  %7: f32[] = aten::norm.Scalar(%x, p=inf)
  return %0, %1, %2, %3, %4, %5, %6, %7
}
// check: aten::sum.dim_IntList(%x, dim=[0, 1], keepdim=false, dtype=none)
// check: aten::amax(%x, dim=[0, 1], keepdim=false)
// check: aten::amin(%x, dim=[0, 1], keepdim=false)
// check: aten::prod.dim_int
// check: aten::any.dim
// check: aten::all.dim
// check: aten::sqrt

// the maximum of nothing, means and norms of integers
// run: rewrite decompose
// quiet: vector_norm
// quiet: max_all
// quiet: min_all
// quiet: mean
// quiet: sum_all
// quiet: prod_all
// quiet: any_all
// quiet: all_all
graph(%x: f32[2,5], %e: f32[0], %i: i64[4]) {
  %0: f32[] = aten::linalg_vector_norm(%e, ord=inf, dim=[0], keepdim=false, dtype=none)
  %1: f32[] = aten::max(%e)
  %2: f32[] = aten::min(%e)
  %3: i64[] = aten::mean(%i, dtype=none)
  %4: f32[] = aten::sum.dim_IntList(%x, dim=[0, 1], keepdim=false, dtype=none)
  %5: f32[2] = aten::prod.dim_int(%x, dim=1, keepdim=false, dtype=none)
  %6: bool[2] = aten::any.dim(%x, dim=1, keepdim=false)
  %7: bool[2] = aten::all.dim(%x, dim=1, keepdim=false)
  return %0, %1, %2, %3, %4, %5, %6, %7
}

// run: rewrite decompose
// fires: vector_norm
graph(%x: f32[2,5]) {
  %0: f32[2] = aten::linalg_vector_norm(%x, ord=3, dim=[1], keepdim=false, dtype=none)
  return %0
}
// check: aten::pow.Tensor_Scalar(%0, exponent=3.0)

// run: rewrite decompose
// quiet: var
// quiet: std
// quiet: var_mean
// quiet: std_mean
graph(%i: i64[4]) {
  %0: i64[] = aten::var.correction(%i, dim=none, correction=1, keepdim=false)
  %1: i64[] = aten::std.correction(%i, dim=none, correction=1, keepdim=false)
  %2: i64[], %3: i64[] = aten::var_mean.correction(%i, dim=none, correction=1, keepdim=false)
  %4: i64[], %5: i64[] = aten::std_mean.correction(%i, dim=none, correction=1, keepdim=false)
  return %0, %1, %2, %4
}
