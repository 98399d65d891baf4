// run: parse
graph(%x: f32[2,3]{1,2} @cuda:0, param %w: bf16[4]) { // an input on another device
  %c: i64[2] = constant [1, -2]
  %v: f32[2], %i: i64[2] = aten::max.dim(%x, dim=1, keepdim=false)
  %3: f32[] = mine::f([%v, none], a=none, b=[1.0, inf], c=bools[], d="s", e=f16, g=cuda:1)
  return %3, %i, %c
}
// check: graph(%x: f32[2,3]{1,2} @cuda:0, param %w: bf16[4]) {
// check: %c: i64[2] = constant [1, -2]
// check: %v: f32[2], %v.1: i64[2] = aten::max.dim(%x, dim=1, keepdim=false)
// check: %0: f32[] = mine::f([%v, none], a=none, b=[1.0, inf], c=bools[], d="s", e=f16, g=cuda:1)
// check: return %0, %v.1, %c
// define: mine::f(Tensor?[] list, int? a, float[] b, bool[] c, str d, ScalarType e, Device g) -> Tensor
