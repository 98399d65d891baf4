// Functions of the CUDA math library, one kernel each.
#define UNARY(T, name, expression) \
    extern "C" __global__ void name(T* out, const T* in, int count) { \
        int index = blockIdx.x * blockDim.x + threadIdx.x; \
        if (index < count) { T x = in[index]; out[index] = expression; } }
#define BINARY(T, name, expression) \
    extern "C" __global__ void name(T* out, const T* a, const T* b, int count) { \
        int index = blockIdx.x * blockDim.x + threadIdx.x; \
        if (index < count) { T x = a[index], y = b[index]; out[index] = expression; } }
UNARY(float, exp_f32, expf(x))
UNARY(float, log_f32, logf(x))
UNARY(float, log1p_f32, log1pf(x))
UNARY(float, sin_f32, sinf(x))
UNARY(float, cos_f32, cosf(x))
UNARY(float, tan_f32, tanf(x))
UNARY(float, tanh_f32, tanhf(x))
UNARY(float, erf_f32, erff(x))
UNARY(float, gamma_f32, tgammaf(x))
UNARY(float, cbrt_f32, cbrtf(x))
UNARY(float, rsqrt_f32, rsqrtf(x))
UNARY(float, atan_f32, atanf(x))
UNARY(float, round_f32, rintf(x) + 10.0f * floorf(x) + 100.0f * truncf(x))
UNARY(float, fast_f32, __expf(x) + __sinf(x) + __logf(fabsf(x) + 1.0f))
UNARY(float, directed_f32, __fadd_rd(x, 0.1f) + 2.0f * __fmul_ru(x, 0.1f) + 4.0f * __fdiv_rz(x, 3.0f) + 8.0f * __fsqrt_rd(fabsf(x)))
BINARY(float, pow_f32, powf(x, y))
BINARY(float, mod_f32, fmodf(x, y))
BINARY(float, div_f32, x / y)
BINARY(float, atan2_f32, atan2f(x, y))
BINARY(float, hypot_f32, hypotf(x, y))
BINARY(float, extremes_f32, fminf(x, y) + 3.0f * fmaxf(x, y) + copysignf(1.0f, x))
UNARY(double, exp_f64, exp(x))
UNARY(double, log_f64, log(x))
UNARY(double, sin_f64, sin(x))
UNARY(double, erf_f64, erf(x))
UNARY(double, sqrt_f64, sqrt(x))
UNARY(double, tanh_f64, tanh(x))
UNARY(double, cast_f64, double(float(x)) + double((long long)x) + double((int)x) + __double2int_rn(x))
BINARY(double, pow_f64, pow(x, y))
BINARY(double, div_f64, x / y)
BINARY(double, mod_f64, fmod(x, y))
BINARY(double, fma_f64, fma(x, y, 1.0) - __dadd_rd(x, y) + __dmul_ru(x, y))
BINARY(int, div_i32, y == 0 ? 0 : x / y)
BINARY(int, rem_i32, y == 0 ? 0 : x % y)
BINARY(unsigned, div_u32, y == 0 ? 0 : x / y + x % y)
BINARY(long long, div_i64, y == 0 ? 0 : x / y)
BINARY(long long, rem_i64, y == 0 ? 0 : x % y)
BINARY(unsigned long long, div_u64, y == 0 ? 0 : x / y ^ x % y)
BINARY(int, high_i32, __mulhi(x, y) + __mul24(x, y) + __hadd(x, y) + __rhadd(x, y) + abs(x) + min(x, y) * 3 + max(x, y) * 5)
BINARY(unsigned, bits_u32, __popc(x) + 64 * __clz(x) + 4096 * __ffs(x) + __brev(y) + __byte_perm(x, y, 0x5241) + __funnelshift_l(x, y, y & 31) + __funnelshift_rc(x, y, y & 63) + __umulhi(x, y) + __sad(int(x), int(y), x))
BINARY(unsigned long long, bits_u64, __popcll(x) + 128 * __clzll(x) + __brevll(y) + __umul64hi(x, y) + (x << (y & 63)) + (x >> (y & 63)) + (unsigned long long)((long long)x >> (y & 63)))
BINARY(unsigned, simd_u32, __vaddus2(x, y) ^ __vabsdiffu4(x, y) ^ __dp4a(x, y, 7u) ^ __vmaxs2(x, y) ^ __vcmpgtu4(x, y))
BINARY(unsigned long long, wide_u64, (unsigned long long)(((unsigned __int128)x * y + x) >> 64) + (unsigned long long)((unsigned __int128)x * y - y))
extern "C" __global__ void remainder_and_frexp(float* out, const float* a, const float* b, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, exponent;
    if (index >= count) return;
    float mantissa = frexpf(a[index], &exponent), whole;
    out[index * 4] = mantissa; out[index * 4 + 1] = exponent;
    out[index * 4 + 2] = remainderf(a[index], b[index]); out[index * 4 + 3] = modff(a[index], &whole) + whole;
}
