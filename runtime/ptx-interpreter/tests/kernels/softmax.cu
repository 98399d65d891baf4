// Rows of bfloat16 through shared memory and shuffles.
__device__ __forceinline__ float widen(unsigned short bits) { return __uint_as_float(unsigned(bits) << 16); }
__device__ __forceinline__ unsigned short narrow(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
__device__ float reduce(float value, bool maximum, float* partial) {
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = maximum ? fmaxf(value, other) : value + other;
    }
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = partial[0];
    for (int index = 1; index < warps; index++)
        value = maximum ? fmaxf(value, partial[index]) : value + partial[index];
    __syncthreads();
    return value;
}
extern "C" __global__ void __launch_bounds__(256)
softmax_bf16(unsigned short* out, const unsigned short* __restrict__ in, int columns) {
    __shared__ float partial[8];
    const unsigned short* row = in + size_t(blockIdx.x) * columns;
    float most = __int_as_float(0xff800000), sum = 0.0f;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) most = fmaxf(most, widen(row[column]));
    most = reduce(most, true, partial);
    for (int column = threadIdx.x; column < columns; column += blockDim.x) sum += expf(widen(row[column]) - most);
    sum = reduce(sum, false, partial);
    for (int column = threadIdx.x; column < columns; column += blockDim.x)
        out[size_t(blockIdx.x) * columns + column] = narrow(expf(widen(row[column]) - most) / sum);
}
extern "C" __global__ void softmax_f32(float* out, const float* __restrict__ in, int columns) {
    extern __shared__ float values[];
    __shared__ float partial[32];
    const float* row = in + size_t(blockIdx.x) * columns;
    float most = __int_as_float(0xff800000), sum = 0.0f;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) {
        values[column] = row[column];
        most = fmaxf(most, values[column]);
    }
    most = reduce(most, true, partial);
    for (int column = threadIdx.x; column < columns; column += blockDim.x) {
        values[column] = expf(values[column] - most);
        sum += values[column];
    }
    sum = reduce(sum, false, partial);
    for (int column = threadIdx.x; column < columns; column += blockDim.x)
        out[size_t(blockIdx.x) * columns + column] = values[column] / sum;
}
