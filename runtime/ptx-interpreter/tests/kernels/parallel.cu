// Reductions, scans, histograms, transposes: what threads do together.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ unsigned finished;
extern "C" __global__ void sum_last_block(float* out, float* partial, const float* __restrict__ in, int count) {
    __shared__ float warps[32];
    __shared__ bool last;
    float sum = 0.0f;
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += gridDim.x * blockDim.x) sum += in[index];
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.0f;
        for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(~0u, sum, offset);
        if (threadIdx.x == 0) {
            partial[blockIdx.x] = sum;
            __threadfence();
            last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
        }
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float total = 0.0f;
        for (int index = 0; index < gridDim.x; index++) total += ((volatile float*)partial)[index];
        out[0] = total;
    }
}
extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, __half2* h, __nv_bfloat162* b) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], index); atomicSub(&i[1], index); atomicMin(&i[2], -index); atomicMax(&i[3], index);
    atomicAnd(&u[0], ~(1u << index % 32)); atomicOr(&u[1], 1u << index % 32); atomicXor(&u[2], index);
    atomicExch(&u[3], 7u); atomicDec(&u[4], 5u); atomicMax(&u[5], unsigned(index)); atomicMin(&u[6], unsigned(index));
    atomicAdd(&l[0], (unsigned long long)index << 32); atomicMax(&l[1], (unsigned long long)index);
    atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
    atomicAdd(h, __floats2half2_rn(1.0f, 2.0f)); atomicAdd(b, __floats2bfloat162_rn(1.0f, -1.0f));
    // compare and swap until it holds
    unsigned old = u[7], assumed;
    do { assumed = old; old = atomicCAS(&u[7], assumed, assumed + 3); } while (old != assumed);
    unsigned long long was = l[2], thought;
    do { thought = was; was = atomicCAS(&l[2], thought, thought + 5); } while (was != thought);
}
extern "C" __global__ void histogram(unsigned* bins, const unsigned char* __restrict__ in, int count) {
    __shared__ unsigned local[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) local[bin] = 0;
    __syncthreads();
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += gridDim.x * blockDim.x) atomicAdd(&local[in[index]], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) atomicAdd(&bins[bin], local[bin]);
}
extern "C" __global__ void scan_inclusive(int* out, const int* in, int count) {
    extern __shared__ int buffer[];
    int index = threadIdx.x, from = 0;
    buffer[index] = index < count ? in[index] : 0;
    for (int offset = 1; offset < blockDim.x; offset *= 2) {
        __syncthreads();
        int value = buffer[from * blockDim.x + index];
        if (index >= offset) value += buffer[from * blockDim.x + index - offset];
        from ^= 1;
        buffer[from * blockDim.x + index] = value;
    }
    if (index < count) out[index] = buffer[from * blockDim.x + index];
}
extern "C" __global__ void transpose(float* out, const float* __restrict__ in, int rows, int columns) {
    __shared__ float tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8) if (column < columns && row + step < rows) tile[threadIdx.y + step][threadIdx.x] = in[(row + step) * columns + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x; row = blockIdx.x * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8) if (column < rows && row + step < columns) out[(row + step) * rows + column] = tile[threadIdx.x][threadIdx.y + step];
}
extern "C" __global__ void warp_functions(unsigned* out, const unsigned* in) {
    unsigned lane = threadIdx.x, value = in[lane], *mine = out + lane * 16, below;
    mine[0] = __shfl_sync(~0u, value, lane * 7, 16);
    mine[1] = __shfl_up_sync(~0u, value, 3, 8);
    mine[2] = __shfl_down_sync(~0u, value, 5);
    mine[3] = __shfl_xor_sync(~0u, value, 9, 16);
    mine[4] = __ballot_sync(~0u, value & 1);
    mine[5] = __any_sync(~0u, value == in[5]) + 2 * __all_sync(~0u, value != 0xffffffffu);
    mine[6] = __match_any_sync(~0u, value % 5);
    int all; mine[7] = __match_all_sync(~0u, value | 0xffffffffu, &all) + all;
    mine[8] = __reduce_add_sync(~0u, value);
    mine[9] = __reduce_max_sync(~0u, int(value));
    mine[10] = __reduce_xor_sync(~0u, value);
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    mine[11] = below;
    mine[12] = 0;
    if (lane % 3 == 0) mine[12] = __activemask();
    unsigned team = __match_any_sync(~0u, lane % 3);
    mine[13] = __reduce_add_sync(team, lane);
    mine[14] = __shfl_sync(team, lane, __ffs(team) - 1);
    mine[15] = 0;
    if (lane < 20) mine[15] = __shfl_sync(0xfffff, value, 19 - lane);
}
extern "C" __global__ void barrier_reductions(int* out) {
    int thread = threadIdx.x;
    out[thread * 3] = __syncthreads_count(thread % 3 == 0);
    out[thread * 3 + 1] = __syncthreads_and(thread < 1000) + 10 * __syncthreads_and(thread < 5);
    out[thread * 3 + 2] = __syncthreads_or(thread == 77) + 10 * __syncthreads_or(thread == 777);
}
// A producer and a consumer with named barriers.
extern "C" __global__ void named_barriers(int* out) {
    __shared__ int box[32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int round = 0; round < 4; round++) {
            box[lane] = round * 100 + lane;
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    } else {
        for (int round = 0; round < 4; round++) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[round * 32 + lane] = box[31 - lane];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}
// Threads of one warp that wait for each other, and warps that do.
extern "C" __global__ void spin(int* lock, int* counter, int* flag) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int*)counter += 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
    if (threadIdx.x == 0) while (*(volatile int*)flag == 0) { }
    if (threadIdx.x == 95) atomicExch(flag, 1);
}
extern "C" __global__ void atomic_vectors(float2* pair, float4* four) {
    atomicAdd(pair, make_float2(1.0f, 2.0f));
    float4 old = atomicAdd(four, make_float4(1.0f, 2.0f, 3.0f, 4.0f));
    if (old.x == 7.0f) pair[1] = make_float2(old.y, old.w);
}
// One warp fills two buffers in turns, three warps empty them; objects in shared memory say when.
extern "C" __global__ void barrier_objects(int* out, int rounds, int acquire) {
    __shared__ unsigned long long full[2], empty[2];
    __shared__ int buffer[2][32];
    auto address = [](const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); };
    auto arrive = [&](unsigned long long* object) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address(object)) : "memory"); };
    auto wait = [&](unsigned long long* object, int parity) {
        int done;
        do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(address(object)), "r"(parity) : "memory");
        while (!done);
    };
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 2) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" :: "r"(address(&full[threadIdx.x])) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 96;" :: "r"(address(&empty[threadIdx.x])) : "memory");
    }
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        int stage = round % 2, parity = round / 2 % 2;
        if (threadIdx.x < 32) {
            wait(&empty[stage], parity ^ 1);
            buffer[stage][lane] = round * 1000 + lane;
            arrive(&full[stage]);
        } else {
            if (acquire) wait(&full[stage], parity);
            atomicAdd(&out[round], buffer[stage][31 - lane]);
            arrive(&empty[stage]);
        }
    }
}
