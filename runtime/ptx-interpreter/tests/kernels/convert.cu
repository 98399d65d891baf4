// Conversions between types, and arithmetic of 16 bits.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define EACH(name, T, U, expression) \
    extern "C" __global__ void name(U* out, const T* in, int count) { \
        int index = blockIdx.x * blockDim.x + threadIdx.x; \
        if (index < count) { T x = in[index]; out[index] = expression; } }
EACH(half_to_float, __half, float, __half2float(x))
EACH(bfloat_to_float, __nv_bfloat16, float, __bfloat162float(x))
EACH(float_to_half, float, __half, __float2half_rn(x))
EACH(float_to_half_rz, float, __half, __float2half_rz(x))
EACH(float_to_half_ru, float, __half, __float2half_ru(x))
EACH(float_to_bfloat, float, __nv_bfloat16, __float2bfloat16_rn(x))
EACH(float_to_bfloat_rz, float, __nv_bfloat16, __float2bfloat16_rz(x))
EACH(double_to_half, double, __half, __double2half(x))
EACH(half_to_int, __half, int, __half2int_rn(x) + __half2int_rd(x) * 3 + __half2short_rz(x) * 7)
EACH(int_to_half, int, __half, __int2half_rn(x))
EACH(int_to_bfloat, int, __nv_bfloat16, __int2bfloat16_rn(x))
EACH(long_to_float, long long, float, __ll2float_rn(x))
EACH(long_to_float_rz, long long, float, __ll2float_rz(x))
EACH(long_to_double_ru, long long, double, __ll2double_ru(x))
EACH(float_to_int, float, int, (int)x)
EACH(float_to_uint, float, unsigned, (unsigned)x)
EACH(float_to_long, float, long long, (long long)x)
EACH(float_to_byte, float, unsigned char, (unsigned char)fminf(fmaxf(x, 0.0f), 255.0f))
EACH(double_to_float_rd, double, float, __double2float_rd(x))
EACH(signed_bytes, signed char, int, int(x) * 2 + (unsigned short)(short)x)
EACH(float_pair, float2, __half2, __float22half2_rn(x))
EACH(float_pair_bfloat, float2, __nv_bfloat162, __float22bfloat162_rn(x))
#define HALVES(T, name, expression) \
    extern "C" __global__ void name(T* out, const T* a, const T* b, int count) { \
        int index = blockIdx.x * blockDim.x + threadIdx.x; \
        if (index < count) { T x = a[index], y = b[index]; out[index] = expression; } }
HALVES(__half, add_f16, x + y)
HALVES(__half, mul_f16, x * y)
HALVES(__half, fma_f16, __hfma(x, y, x))
HALVES(__half, div_f16, x / y)
HALVES(__half, max_f16, __hmax(x, y))
HALVES(__half, select_f16, x < y ? __habs(x) : __hneg(y))
HALVES(__nv_bfloat16, add_bf16, x + y)
HALVES(__nv_bfloat16, mul_bf16, x * y)
HALVES(__nv_bfloat16, fma_bf16, __hfma(x, y, x))
HALVES(__nv_bfloat16, min_bf16, __hmin_nan(x, y))
HALVES(__half2, sat_f16x2, __hadd2_sat(x, y))
HALVES(__half2, relu_f16x2, __hfma2_relu(x, y, y))
HALVES(__half2, compare_f16x2, __hgt2(x, y))
HALVES(__nv_bfloat162, compare_bf16x2, __hle2(x, y))
HALVES(__half2, exp_f16x2, h2exp(__hmin2(x, y)))
HALVES(__half, tanh_f16, htanh_approx(x))
HALVES(__half, sin_f16, hsin(x))
// inline PTX that no function of CUDA C gives
extern "C" __global__ void fp8(unsigned short* packed, unsigned* half2, const float* in, int count) {
    int index = threadIdx.x;
    if (index >= count) return;
    unsigned short e4m3, e5m2; unsigned back;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(e4m3) : "f"(in[2 * index + 1]), "f"(in[2 * index]));
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(e5m2) : "f"(in[2 * index + 1]), "f"(in[2 * index]));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(back) : "h"(e4m3));
    packed[2 * index] = e4m3; packed[2 * index + 1] = e5m2; half2[index] = back;
}
extern "C" __global__ void odd_ones(unsigned* out, unsigned a, unsigned b, float f) {
    unsigned r; float g; unsigned short h;
    asm("bfe.s32 %0, %1, 4, 7;" : "=r"(r) : "r"(a)); out[0] = r;
    asm("bfi.b32 %0, %1, %2, 28, 9;" : "=r"(r) : "r"(a), "r"(b)); out[1] = r;
    asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a)); out[2] = r;
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(b)); out[3] = r;
    asm("lop3.b32 %0, %1, %2, 0x0f0f0f0f, 0x96;" : "=r"(r) : "r"(a), "r"(b)); out[4] = r;
    asm("{ .reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, 0, 0; }" : "=r"(r) : "r"(a), "r"(b)); out[5] = r;
    asm("{ .reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, 0, 0; }" : "=r"(r) : "r"(a), "r"(b)); out[6] = r;
    asm("slct.u32.s32 %0, %1, %2, %1;" : "=r"(r) : "r"(a), "r"(b)); out[7] = r;
    asm("set.lt.u32.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); out[8] = r;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); out[9] = r;
    asm("{ .reg .pred p, q; setp.lt.u32 p|q, %1, %2; @p mov.u32 %0, 1; @q mov.u32 %0, 2; }" : "=r"(r) : "r"(a), "r"(b)); out[10] = r;
    asm("prmt.b32.ecl %0, %1, %2, 2;" : "=r"(r) : "r"(a), "r"(b)); out[11] = r;
    asm("szext.wrap.s32 %0, %1, 12;" : "=r"(r) : "r"(a)); out[12] = r;
    asm("bmsk.clamp.b32 %0, 4, 9;" : "=r"(r)); out[13] = r;
    asm("{ .reg .pred p; testp.infinite.f32 p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "f"(f)); out[14] = r;
    asm("min.xorsign.abs.f32 %0, %1, 0f40000000;" : "=f"(g) : "f"(f)); out[15] = __float_as_uint(g);
    asm("fma.rz.ftz.sat.f32 %0, %1, %1, 0f3F000000;" : "=f"(g) : "f"(f)); out[16] = __float_as_uint(g);
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(f)); out[17] = r;
    asm("cvt.sat.u8.s32 %0, %1;" : "=r"(r) : "r"(a)); out[18] = r;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, 0f3F800000;" : "=r"(r) : "f"(f)); out[19] = r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(f)); out[20] = r;
    asm("tanh.approx.f32 %0, %1;" : "=f"(g) : "f"(f)); out[21] = __float_as_uint(g);
    asm("mad.wide.u16 %0, %1, %1, 5;" : "=r"(r) : "h"((unsigned short)a)); out[22] = r;
    asm("cnot.b16 %0, %1;" : "=h"(h) : "h"((unsigned short)a)); out[23] = h;
    asm("{ .reg .pred p; elect.sync %0|p, 0xffffffff; }" : "=r"(r)); out[24] = r;
    asm("shf.r.wrap.b32 %0, %1, %2, 36;" : "=r"(r) : "r"(a), "r"(b)); out[25] = r;
    asm("fns.b32 %0, %1, 3, 2;" : "=r"(r) : "r"(a)); out[26] = r;
    asm("dp2a.lo.s32.u32 %0, %1, %2, 9;" : "=r"(r) : "r"(a), "r"(b)); out[27] = r;
}
