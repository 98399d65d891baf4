// run: rewrite simplify
// fires: copy
graph(%x: f32[2]) {
  %0: f32[2] = aten::clone(%x, memory_format=none)
  %1: f32[2] = aten::detach(%0)
  %2: f32[2] = prims::convert_element_type(%1, dtype=f32)
  return %2
}
// check: return %x

// a copy to other strides is a copy
// run: rewrite simplify
// quiet: copy
graph(%x: f32[2,3]{1,2}, %h: f16[2]) {
  %0: f32[2,3] = aten::clone(%x, memory_format=contiguous_format)
  %1: f32[2] = prims::convert_element_type(%h, dtype=f32)
  return %0, %1
}
// check: prims::convert_element_type

// run: rewrite simplify
// fires: convert_chain
graph(%h: f16[2], %i: i16[2]) {
  %0: f32[2] = prims::convert_element_type(%h, dtype=f32)
  %1: f16[2] = prims::convert_element_type(%0, dtype=f16)
  %2: f64[2] = prims::convert_element_type(%0, dtype=f64)
  %3: f32[2] = prims::convert_element_type(%i, dtype=f32)
  %4: i64[2] = prims::convert_element_type(%3, dtype=i64)
  return %1, %2, %4
}
// check: f64[2] = prims::convert_element_type(%h, dtype=f64)
// check: i64[2] = prims::convert_element_type(%i, dtype=i64)
// check: return %h,

// a narrowing on the way rounds
// run: rewrite simplify
// quiet: convert_chain
graph(%x: f32[2], %i: i64[2], %h: f16[2]) {
  %0: f16[2] = prims::convert_element_type(%x, dtype=f16)
  %1: f32[2] = prims::convert_element_type(%0, dtype=f32)
  %2: f32[2] = prims::convert_element_type(%i, dtype=f32)
  %3: i64[2] = prims::convert_element_type(%2, dtype=i64)
  %4: bf16[2] = prims::convert_element_type(%h, dtype=bf16)
  %5: f32[2] = prims::convert_element_type(%4, dtype=f32)
  return %1, %3, %5
}
// check: %0: f16
// check: %1: f32
// check: %2: f32
// check: %3: i64
// check: %4: bf16
// check: %5: f32

// run: rewrite simplify
// fires: to_copy
graph(%x: f32[2]) {
  %0: f64[2] = aten::_to_copy(%x, dtype=f64, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none)
  return %0
}
// check: prims::convert_element_type(%x, dtype=f64)

// to another device
// run: rewrite simplify
// quiet: to_copy
graph(%x: f32[2]) {
  %0: f64[2] @cuda:0 = aten::_to_copy(%x, dtype=f64, layout=none, device=cuda:0, pin_memory=none, non_blocking=false, memory_format=none)
  return %0
}
// check: aten::_to_copy

// run: rewrite simplify
// fires: overwritten
graph(%x: f32[2,3]) {
  %0: f32[2,3] = aten::empty_strided(size=[2, 3], stride=[3, 1], dtype=f32, layout=none, device=cpu, pin_memory=none)
  %1: f32[2,3] = aten::copy(%0, %x, non_blocking=false)
  return %1
}
// check: return %x

// values of another type, or fewer that are repeated, are converted and spread
// run: rewrite simplify
// quiet: overwritten
graph(%to: f32[2,3], %h: f16[2,3], %row: f32[3]) {
  %0: f32[2,3] = aten::copy(%to, %h, non_blocking=false)
  %1: f32[2,3] = aten::copy(%to, %row, non_blocking=false)
  return %0, %1
}
// check: %0: f32[2,3] = aten::copy(%to, %h
// check: %1: f32[2,3] = aten::copy(%to, %row
