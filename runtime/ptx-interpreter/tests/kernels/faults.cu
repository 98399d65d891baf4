// Kernels with a mistake that a parameter switches on.
extern "C" __global__ void past_the_end(float* out, int count, int by) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) out[i + by] = i; }
extern "C" __global__ void read_past(float* out, const float* __restrict__ in, int by) { out[threadIdx.x] = in[int(threadIdx.x) + by]; }
extern "C" __global__ void misaligned(float4* out, const char* in, int by) { out[threadIdx.x] = *reinterpret_cast<const float4*>(in + by + 16 * threadIdx.x); }
extern "C" __global__ void shared_overrun(float* out, int by) { extern __shared__ float s[]; s[threadIdx.x + by] = threadIdx.x; __syncthreads(); out[threadIdx.x] = s[threadIdx.x + by]; }
extern "C" __global__ void neighbours(int* out, int synchronize) {
    __shared__ int s[256];
    s[threadIdx.x] = threadIdx.x;
    if (synchronize) __syncthreads();
    out[threadIdx.x] = s[(threadIdx.x + 64) % blockDim.x];
}
extern "C" __global__ void reused(int* out, int synchronize) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int read = s[63 - threadIdx.x];
    if (synchronize) __syncthreads();
    s[threadIdx.x] = read + 1;
    out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void one_writes(int* out, int differ) { __shared__ int s; s = differ ? threadIdx.x : 7; __syncthreads(); out[threadIdx.x] = s; }
extern "C" __global__ void within_a_warp(int* out, int synchronize) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    if (synchronize) __syncwarp();
    out[threadIdx.x] = s[31 - threadIdx.x];
}
extern "C" __global__ void divergent_barrier(int* out, int limit) {
    __shared__ int s[64];
    if (threadIdx.x < limit) { s[threadIdx.x] = 1; __syncthreads(); out[threadIdx.x] = s[63 - threadIdx.x]; }
}
extern "C" __global__ void two_barriers(int* out, int limit) {
    if (threadIdx.x < limit) { out[0] = 1; __syncthreads(); out[1] = 1; } else { out[2] = 1; __syncthreads(); out[3] = 2; }
}
extern "C" __global__ void divergent_shuffle(int* out, int limit) {
    int value = threadIdx.x;
    if (threadIdx.x < limit) value = __shfl_xor_sync(~0u, value, 1);
    out[threadIdx.x] = value;
}
extern "C" __global__ void inactive_lane(int* out, int limit) {
    int value = threadIdx.x;
    if (threadIdx.x < 16) value = __shfl_sync(0xffff, value, limit);
    out[threadIdx.x] = value;
}
extern "C" __global__ void endless(volatile int* flag) { while (*flag == 0) { } }
extern "C" __global__ void async_copy(int* out, const int* in, int wait) {
    __shared__ alignas(16) int s[128];
    unsigned to = unsigned(__cvta_generic_to_shared(s + 4 * threadIdx.x));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(in + 4 * threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (wait) asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = s[127 - threadIdx.x];
}
extern "C" __global__ void local_overrun(int* out, int by) {
    int values[4];
    for (int i = 0; i < 4; i++) values[(i + by) & 1023] = i;
    out[threadIdx.x] = values[by & 1023];
}
extern "C" __global__ void stopped(int* out, int stop) { if (stop && threadIdx.x == 3) __trap(); out[threadIdx.x] = 1; }
extern "C" __global__ void deep(int* out, int depth);
__device__ __noinline__ int descend(int depth) { volatile int here[64]; here[depth % 64] = depth; return depth == 0 ? 0 : descend(depth - 1) * 3 + here[depth % 64]; }
extern "C" __global__ void deep(int* out, int depth) { out[threadIdx.x] = descend(depth); }
extern "C" __global__ void exotic(int* out, int reach) { if (reach) asm volatile("wgmma.fence.sync.aligned;"); out[threadIdx.x] = 1; }
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, unsigned long);
extern "C" __global__ void asserted(int* out, int most) {
    if (int(threadIdx.x) >= most) __assertfail("thread < most", "faults.cu", 77, "asserted", 1);
    out[threadIdx.x] = 1;
}
extern "C" __global__ void overwritten(int* out, int synchronize) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 32) out[threadIdx.x] = s[threadIdx.x + 32];
    if (synchronize) __syncthreads();
    if (threadIdx.x >= 32) s[threadIdx.x] = 0;
}
extern "C" __global__ void early_exit(int* out, int limit) {
    asm volatile("{ .reg .pred p; setp.ge.s32 p, %0, %1; @p exit; }" :: "r"(threadIdx.x), "r"(limit));
    __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void guarded_barrier(int* out, int limit) {
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, %1; @p bar.sync 0; }" :: "r"(threadIdx.x), "r"(limit));
    out[threadIdx.x] = 1;
}
extern "C" __global__ void half_written(float* out, int written) {
    __shared__ float s[64];
    if (threadIdx.x < written) s[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x] + s[63 - threadIdx.x];
}
