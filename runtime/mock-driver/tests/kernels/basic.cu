// NVRTC 13.0 compiled this as basic.cu with --gpu-architecture=compute_90 --std=c++17 --fmad=true;
// basic.ptx is the result, which tests/kernels.rs compares where NVRTC is installed.

extern "C" __global__ void store(int *out, int value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;
}

extern "C" __global__ void scale(float *x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}

extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

// each block: the sum of its part of the input; dynamic shared memory of blockDim.x floats
extern "C" __global__ void block_sums(float *out, const float *in, int n) {
  extern __shared__ float part[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void __launch_bounds__(128) bounded(int *out) {
  __shared__ int slots[128];
  slots[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = slots[127 - threadIdx.x];
}

// writes one float, wherever it is told to
extern "C" __global__ void wild(float *p, long long offset) { p[offset] = 1.0f; }

// four floats at an address that is a multiple of four bytes only
extern "C" __global__ void askew(float *p) {
  *reinterpret_cast<float4 *>(p + 1) = make_float4(1, 2, 3, 4);
}

// stops where a condition does not hold
extern "C" __global__ void asserts(int *out, int value) {
  assert(value == 1);
  *out = value;
}

__device__ int counter = 5;
extern "C" __global__ void count(int *out) {
  counter += 1;
  *out = counter;
}

struct Pair {
  char small;
  double large;
};
// parameters of several sizes
extern "C" __global__ void parameters(double *out, char a, short b, Pair c, float d) {
  *out = a + b + c.small + c.large + d;
}
