// A batch of products: tiles of 64 x 64 in shared memory, 4 x 4 sums in the registers of a thread. What follows a sum
// is `finished`, which is written for each use.

__device__ __forceinline__ wide finished(
    wide v, const Product& p, const element* bias, const element* residual, long long z, long long row, long long col);

extern "C" __global__ void __launch_bounds__(256) product(
    const element* a, const element* b, element* c, const element* bias, const element* residual, const Product p) {
    __shared__ __align__(16) wide left[16][68], right[16][68];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const long long col0 = (long long)blockIdx.x * 64;
    for (long long z = blockIdx.z; z < p.batch; z += gridDim.z)
    for (long long row0 = (long long)blockIdx.y * 64; row0 < p.m; row0 += (long long)gridDim.y * 64) {
        wide sums[4][4] = {};
        for (long long k0 = 0; k0 < p.k; k0 += 16) {
            for (int i = 0; i < 4; i++) {
                const int e = threadIdx.x + i * 256;
                const long long row = row0 + e / 16, k = k0 + e % 16;
                const long long kk = k0 + e / 64, col = col0 + e % 64;
                wide v = 0, w = 0;
                if (row < p.m && k < p.k) v = widened(a[z * p.a[0] + row * p.a[1] + k * p.a[2]]);
                if (kk < p.k && col < p.n) w = widened(b[z * p.b[0] + kk * p.b[1] + col * p.b[2]]);
                left[e % 16][e / 16] = v;
                right[e / 64][e % 64] = w;
            }
            __syncthreads();
            for (int s = 0; s < 16; s++) {
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) sums[i][j] = fused(left[s][y * 4 + i], right[s][x * 4 + j], sums[i][j]);
            }
            __syncthreads();
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                const long long row = row0 + y * 4 + i, col = col0 + x * 4 + j;
                if (row < p.m && col < p.n)
                    c[z * p.c[0] + row * p.c[1] + col * p.c[2]] = narrowed(finished(sums[i][j], p, bias, residual, z, row, col));
            }
    }
}

// What follows products that are in memory.
extern "C" __global__ void follow(element* c, const element* bias, const element* residual, const Product p) {
    const long long step = (long long)gridDim.x * blockDim.x, count = p.batch * p.m * p.n;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const long long line = i / p.n, col = i - line * p.n, z = line / p.m, row = line - z * p.m;
        element& at = c[z * p.c[0] + row * p.c[1] + col * p.c[2]];
        at = narrowed(finished(widened(at), p, bias, residual, z, row, col));
    }
}
