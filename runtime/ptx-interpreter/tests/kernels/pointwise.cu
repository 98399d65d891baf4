// Vectors of 16 bytes.
#include <cuda_bf16.h>
extern "C" __global__ void axpy_f32x4(float4* __restrict__ y, const float4* __restrict__ x, float a, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    float4 left = x[index], right = y[index];
    y[index] = make_float4(a * left.x + right.x, a * left.y + right.y, a * left.z + right.z, a * left.w + right.w);
}
extern "C" __global__ void silu_bf16x8(uint4* __restrict__ out, const uint4* __restrict__ in, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    uint4 value = in[index];
    unsigned* word = &value.x;
    #pragma unroll
    for (int part = 0; part < 4; part++) {
        float low = __uint_as_float(word[part] << 16), high = __uint_as_float(word[part] & 0xffff0000u);
        low = low / (1.0f + __expf(-low));
        high = high / (1.0f + __expf(-high));
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word[part]) : "f"(high), "f"(low));
    }
    out[index] = value;
}
extern "C" __global__ void gelu_f32(float* out, const float* in, int count) {
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += gridDim.x * blockDim.x)
        out[index] = in[index] * 0.5f * (1.0f + erff(in[index] * 0.70710678f));
}
extern "C" __global__ void compare_where_u8(unsigned char* mask, float* out, const float* a, const float* b, long long count) {
    long long index = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (index >= count) return;
    bool less = a[index] < b[index];
    mask[index] = less;
    out[index] = less ? a[index] : __fdividef(b[index], 2.0f);
}
extern "C" __global__ void add_bf16x2(__nv_bfloat162* out, const __nv_bfloat162* a, const __nv_bfloat162* b, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) out[index] = __hfma2(a[index], b[index], __hadd2(a[index], __hmul2(b[index], b[index])));
}
