// Products of matrices: tiles in shared memory, and tensor cores.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
constexpr int TILE = 16;
extern "C" __global__ void gemm_f32(float* c, const float* __restrict__ a, const float* __restrict__ b, int m, int n, int k) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        int at = start + threadIdx.x, down = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && at < k ? a[row * k + at] : 0.0f;
        right[threadIdx.y][threadIdx.x] = column < n && down < k ? b[down * n + column] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int index = 0; index < TILE; index++) sum += left[threadIdx.y][index] * right[index][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
__device__ __forceinline__ unsigned shared_address(const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); }
// One warp for a tile of 16x8; a is m x k, b is n x k: both with k in rows. Two stages of cp.async.
extern "C" __global__ void gemm_mma_bf16(float* c, const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, int n, int k) {
    __shared__ alignas(16) __nv_bfloat16 left[2][16 * 16], right[2][8 * 16];
    int lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 8;
    auto fetch = [&](int stage, int start) {
        const __nv_bfloat16* from = a + (row + lane / 2) * k + start + lane % 2 * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(&left[stage][lane * 8])), "l"(from));
        if (lane < 16) {
            from = b + (column + lane / 2) * k + start + lane % 2 * 8;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(&right[stage][lane * 8])), "l"(from), "r"(16));
        }
        asm volatile("cp.async.commit_group;");
    };
    float sum[4] = {};
    fetch(0, 0);
    for (int start = 0, stage = 0; start < k; start += 16, stage ^= 1) {
        if (start + 16 < k) {
            fetch(stage ^ 1, start + 16);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        __syncwarp();
        unsigned fa[4], fb[2];
        unsigned at = shared_address(&left[stage][(lane % 16) * 16 + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(at));
        at = shared_address(&right[stage][(lane % 8) * 16 + lane / 8 % 2 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(at));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        __syncwarp();
    }
    int quarter = lane % 4 * 2, group = lane / 4;
    float2* out = reinterpret_cast<float2*>(c + (row + group) * n + column + quarter);
    out[0] = make_float2(sum[0], sum[1]);
    out[8 * n / 2] = make_float2(sum[2], sum[3]);
}
// Fragments from global memory. a is 16 x 8, b is 8 x 8 with k in rows (column-major), c is 16 x 8.
extern "C" __global__ void mma_tf32(float* c, const float* a, const float* b) {
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned fa[4], fb[2];
    float values[6] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4], b[g * 8 + t], b[g * 8 + t + 4]};
    for (int i = 0; i < 4; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(fa[i]) : "f"(values[i]));
    for (int i = 0; i < 2; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(fb[i]) : "f"(values[4 + i]));
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
}
// a is 16 x 16, b is 16 x 8 in rows: transposed by ldmatrix. The sum is of half precision.
extern "C" __global__ void mma_f16_trans(__half* c, const __half* a, const __half* b) {
    __shared__ alignas(16) __half left[256], right[128];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) left[i] = a[i];
    for (int i = lane; i < 128; i += 32) right[i] = b[i];
    __syncwarp();
    unsigned fa[4], fb[2], d[2] = {};
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(shared_address(left + lane % 16 * 16 + lane / 16 * 8)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_address(right + lane % 16 * 8)));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
        : "+r"(d[0]), "+r"(d[1]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" :: "r"(shared_address(left + lane % 16 * 8)), "r"(d[0]), "r"(d[1]) : "memory");
    __syncwarp();
    for (int i = lane; i < 128; i += 32) c[i] = left[i];
}
extern "C" __global__ void mma_s8(int* c, const unsigned* a, const unsigned* b) {
    int lane = threadIdx.x, g = lane / 4, t = lane % 4, d[4] = {};
    unsigned fa[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]}, fb[2] = {b[g * 8 + t], b[g * 8 + t + 4]};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
}
