// Functions, calls through pointers, recursion, tables of branches, spaces, local arrays.
struct Point { float x; double y; int z[3]; };
__device__ __noinline__ Point move(Point point, float by) { point.x += by; point.y *= by; point.z[1] += int(by); return point; }
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negate(int x) { return -x; }
__constant__ float weights[4] = {1.5f, 2.5f, 3.5f, 4.5f};
__device__ int counter = 5;
__device__ const float* pointer_to_weights = weights;
extern "C" __global__ void structs(Point* out, Point by_value, float scale) { out[threadIdx.x] = move(by_value, scale * threadIdx.x); }
extern "C" __global__ void recursion(int* out) { if (threadIdx.x % 2) out[threadIdx.x] = fibonacci(threadIdx.x % 12); else out[threadIdx.x] = twice(fibonacci(3)); }
extern "C" __global__ void pointers(int* out, int which) {
    int (*function)(int) = (threadIdx.x + which) % 3 == 0 ? twice : (threadIdx.x + which) % 3 == 1 ? square : negate;
    out[threadIdx.x] = function(threadIdx.x);
}
extern "C" __global__ void table(int* out, const int* in) {
    int value = in[threadIdx.x];
    switch (value) {
        case 0: value = value * 3 + in[0]; break;
        case 1: value = in[1] - 7; break;
        case 2: value ^= in[2] << 3; break;
        case 3: value = in[3] / 3; break;
        case 4: value = in[4] % 5; break;
        case 5: value = -in[5]; break;
        case 6: value = in[6] * in[6]; break;
        default: value = 1000;
    }
    out[threadIdx.x] = value;
}
extern "C" __global__ void spaces(float* out, int pick, Point params) {
    __shared__ float shared[4];
    float local[4];
    if (threadIdx.x < 4) shared[threadIdx.x] = threadIdx.x * 10.0f;
    for (int i = 0; i < 4; i++) local[i] = i * 100.0f + threadIdx.x;
    __syncthreads();
    const float* from = pick == 0 ? shared : pick == 1 ? local : pick == 2 ? weights : pick == 3 ? out + 32 : &params.x;
    out[threadIdx.x] = from[pick == 4 ? 0 : threadIdx.x % 4] + pointer_to_weights[1];
    if (pick == 0) atomicAdd(&counter, 1);
    if (__isShared(from)) out[threadIdx.x] += 0.25f;
}
extern "C" __global__ void loops(int* out, int count) {
    int sum = 0;
    for (int i = 0; i < int(threadIdx.x); i++) {
        if (i % 5 == 4) continue;
        for (int j = i; j > 0; j /= 2) { sum += j; if (sum % 13 == 0) break; }
        if (sum > count) break;
    }
    // the threads have met again
    unsigned together = __ballot_sync(~0u, sum % 2);
    out[threadIdx.x] = sum * 2 + (__popc(together) & 1);
}
extern "C" __global__ void sizes(unsigned* out) {
    unsigned index = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + index] = threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z + 1000000 * block;
}
extern "C" __global__ void __launch_bounds__(64) bounded(int* out) { out[threadIdx.x] = 1; }
