// Attention of halves, and its gradients, by tensor cores. A block has four warps, and each of them 16 of the 64 rows of
// scores, in the layout of `mma`: of eight tiles of 16 x 8 a thread has two neighbours in each of two rows. Weights stay
// in registers, where they are the left operand of the next product.
//
// FEATURES is a multiple of 16; rows in shared memory have 8 elements more, so that neighbouring rows lie in other banks.

#define PITCH (FEATURES + 8)
#define TILE (64 * PITCH)
#define STEPS (FEATURES / 16)
#define TILES (FEATURES / 8)

extern __shared__ __align__(16) element shared[];

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32." HALVES "." HALVES
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pair(float low, float high) {
    return (unsigned)narrowed(low) | (unsigned)narrowed(high) << 16;
}

__device__ __forceinline__ unsigned pair_at(const element* at) { return *(const unsigned*)at; }

// 64 rows to shared memory, zeros where there are none; 16 bytes at once where they lie so.
__device__ __forceinline__ void load(element* tile, const Rows& rows, num features) {
    const int t = threadIdx.x;
    if (rows.feature == 1 && rows.row % 8 == 0 && features % 8 == 0 && (size_t)rows.first % 16 == 0) {
        for (int e = t; e < 64 * TILES; e += 128) {
            const int r = e / TILES, f = e % TILES * 8;
            uint4 v = make_uint4(0, 0, 0, 0);
            if (r < rows.count && f < features) v = *(const uint4*)(rows.first + r * rows.row + f);
            *(uint4*)(tile + r * PITCH + f) = v;
        }
    } else {
        for (int e = t; e < 64 * FEATURES; e += 128) {
            const int r = e / FEATURES, f = e % FEATURES;
            tile[r * PITCH + f] = r < rows.count && f < features ? rows.first[r * rows.row + f * rows.feature] : (element)0;
        }
    }
}

// The products of a warp's 16 rows of a tile with the 64 of another.
__device__ __forceinline__ void products(float (&sums)[8][4], const element* a, const element* b) {
    const int lane = threadIdx.x % 32, row = lane / 4, two = lane % 4 * 2;
    const element* left = a + (threadIdx.x / 32 * 16 + row) * PITCH + two;
    for (int n = 0; n < 8; n++)
        for (int i = 0; i < 4; i++) sums[n][i] = 0;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const element* at = left + s * 16;
        const unsigned of[4] = {pair_at(at), pair_at(at + 8 * PITCH), pair_at(at + 8), pair_at(at + 8 * PITCH + 8)};
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const element* right = b + (n * 8 + row) * PITCH + s * 16 + two;
            mma(sums[n], of, pair_at(right), pair_at(right + 8));
        }
    }
}

// Weights as left operands: of each 16 columns two neighbours in two rows, and those eight columns further.
struct Weights {
    unsigned of[4][4];
    __device__ __forceinline__ void set(int n, int half, float low, float high) { of[n / 2][n % 2 * 2 + half] = pair(low, high); }
};

// Adds the 64 rows of a tile by weights.
__device__ __forceinline__ void weigh(float (&sums)[TILES][4], const Weights& weights, const element* b) {
    const int lane = threadIdx.x % 32;
    // lanes name the rows of four 8 x 8 matrices: two below one another, and the two beside them
    const element* first = b + lane % 16 * PITCH + lane / 16 * 8;
    unsigned long long begin;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(begin) : "l"(first));
#pragma unroll
    for (int s = 0; s < 4; s++) {
#pragma unroll
        for (int n = 0; n < TILES; n += 2) {
            unsigned m[4];
            const unsigned at = (unsigned)begin + (s * 16 * PITCH + n * 8) * 2;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                         : "r"(at)
                         : "memory");
            mma(sums[n], weights.of[s], m[0], m[1]);
            mma(sums[n + 1], weights.of[s], m[2], m[3]);
        }
    }
}

// Of the four threads that have a row, in each of them.
__device__ __forceinline__ float largest_of(float v) {
    for (int far = 2; far; far >>= 1) v = larger(v, (float)__shfl_xor_sync(0xffffffffu, v, far));
    return v;
}
__device__ __forceinline__ float sum_of(float v) {
    for (int far = 2; far; far >>= 1) v += __shfl_xor_sync(0xffffffffu, v, far);
    return v;
}

// Where a thread's values are in the block: the row of the first two of each tile, the column of the first.
__device__ __forceinline__ int row_of() { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4; }
__device__ __forceinline__ int col_of() { return threadIdx.x % 4 * 2; }

// The sums of a thread times a factor for each of its two rows.
__device__ __forceinline__ void store(
    element* to, const num (&s)[4], const float (&sums)[TILES][4], const float (&factor)[2], num b, num h, num begin,
    num end, num features) {
    for (int half = 0; half < 2; half++) {
        const num row = begin + row_of() + 8 * half;
        if (row >= end) continue;
        element* at = to + b * s[0] + h * s[1] + row * s[2];
#pragma unroll
        for (int n = 0; n < TILES; n++)
            for (int i = 0; i < 2; i++) {
                const num f = n * 8 + col_of() + i;
                if (f < features) at[f * s[3]] = narrowed(factor[half] == 0 ? 0.0f : sums[n][2 * half + i] * factor[half]);
            }
    }
}

extern "C" __global__ void __launch_bounds__(128) forward(
    const element* q, const element* k, const element* v, const mask_element* mask, element* out, wide* log,
    const Attention p) {
    element *queries = shared, *others = shared + TILE;
    const num q0 = (num)blockIdx.x * 64;
    for (num bh = blockIdx.y; bh < p.batch * p.heads; bh += gridDim.y) {
        const num b = bh / p.heads, h = bh - b * p.heads, kv = h / (p.heads / p.kv_heads);
        load(queries, rows_of(q, p.q, b, h, q0, p.queries), p.features);
        float sums[TILES][4] = {}, most[2] = {LOWEST, LOWEST}, total[2] = {0, 0};
        const num seen = p.causal ? until(q0, 64, p.keys) : p.keys;
        for (num k0 = 0; k0 < seen; k0 += 64) {
            const num end = until(k0, 64, p.keys);
            load(others, rows_of(k, p.k, b, kv, k0, end), p.features);
            __syncthreads();
            float s[8][4];
            products(s, queries, others);
            __syncthreads();
            load(others, rows_of(v, p.v, b, kv, k0, end), p.features);
            float factor[2];
            Weights weights;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const num row = q0 + row_of() + 8 * half;
                float next = most[half], sum = 0;
#pragma unroll
                for (int n = 0; n < 8; n++)
                    for (int i = 2 * half; i < 2 * half + 2; i++) {
                        s[n][i] = score(s[n][i], mask, p, b, h, row, k0 + n * 8 + col_of() + i % 2);
                        next = larger(next, s[n][i]);
                    }
                next = largest_of(next);
                // nothing has been seen yet: any shift will do
                const float shift = next == LOWEST ? 0.0f : next;
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    const float low = exp_of(s[n][2 * half] - shift), high = exp_of(s[n][2 * half + 1] - shift);
                    weights.set(n, half, low, high);
                    sum += low + high;
                }
                factor[half] = exp_of(most[half] - shift);
                total[half] = fused(total[half], factor[half], sum_of(sum));
                most[half] = next;
            }
#pragma unroll
            for (int n = 0; n < TILES; n++)
                for (int i = 0; i < 4; i++) sums[n][i] *= factor[i / 2];
            __syncthreads();
            weigh(sums, weights, others);
            __syncthreads();
        }
        float factor[2];
        for (int half = 0; half < 2; half++) {
            const bool hidden = total[half] == 0;
            const num row = q0 + row_of() + 8 * half;
            factor[half] = hidden ? 0.0f : 1 / total[half];
            if (log && col_of() == 0 && row < p.queries)
                log[b * p.log[0] + h * p.log[1] + row * p.log[2]] = hidden ? 0.0f : most[half] + log_of(total[half]);
        }
        store(out, p.out, sums, factor, b, h, q0, p.queries, p.features);
        __syncthreads();
    }
}

#if FEATURES <= 128

extern "C" __global__ void __launch_bounds__(128) backward_q(
    const element* q, const element* k, const element* v, const mask_element* mask, const wide* log,
    const element* grad, const wide* delta, element* grad_q, const Attention p) {
    element *queries = shared, *grads = shared + TILE, *keys = shared + 2 * TILE, *values = shared + 3 * TILE;
    const num q0 = (num)blockIdx.x * 64;
    const float scale = (float)__longlong_as_double(p.scale), ones[2] = {1, 1};
    for (num bh = blockIdx.y; bh < p.batch * p.heads; bh += gridDim.y) {
        const num b = bh / p.heads, h = bh - b * p.heads, kv = h / (p.heads / p.kv_heads);
        load(queries, rows_of(q, p.q, b, h, q0, p.queries), p.features);
        load(grads, rows_of(grad, p.grad, b, h, q0, p.queries), p.features);
        float sums[TILES][4] = {}, common[2];
        for (int half = 0; half < 2; half++) {
            const num row = q0 + row_of() + 8 * half;
            common[half] = row < p.queries ? delta[bh * p.queries + row] : 0.0f;
        }
        const num seen = p.causal ? until(q0, 64, p.keys) : p.keys;
        for (num k0 = 0; k0 < seen; k0 += 64) {
            const num end = until(k0, 64, p.keys);
            load(keys, rows_of(k, p.k, b, kv, k0, end), p.features);
            load(values, rows_of(v, p.v, b, kv, k0, end), p.features);
            __syncthreads();
            float s[8][4], d[8][4];
            products(s, queries, keys);
            products(d, grads, values);
            Weights weights;
#pragma unroll
            for (int n = 0; n < 8; n++)
                for (int half = 0; half < 2; half++) {
                    float w[2];
                    for (int i = 0; i < 2; i++) {
                        const num query = q0 + row_of() + half * 8, key = k0 + n * 8 + col_of() + i;
                        const float of = score(s[n][2 * half + i], mask, p, b, h, query, key);
                        w[i] = weight(of, log, p, b, h, query) * (d[n][2 * half + i] - common[half]) * scale;
                    }
                    weights.set(n, half, w[0], w[1]);
                }
            weigh(sums, weights, keys);
            __syncthreads();
        }
        store(grad_q, p.grad_q, sums, ones, b, h, q0, p.queries, p.features);
        __syncthreads();
    }
}

// Rows of scores are keys here, and columns queries, of all heads that share the keys.
extern "C" __global__ void __launch_bounds__(128) backward_kv(
    const element* q, const element* k, const element* v, const mask_element* mask, const wide* log,
    const element* grad, const wide* delta, element* grad_k, element* grad_v, const Attention p) {
    element *keys = shared, *values = shared + TILE, *queries = shared + 2 * TILE, *grads = shared + 3 * TILE;
    const num k0 = (num)blockIdx.x * 64, group = p.heads / p.kv_heads;
    const float scale = (float)__longlong_as_double(p.scale), ones[2] = {1, 1};
    for (num bh = blockIdx.y; bh < p.batch * p.kv_heads; bh += gridDim.y) {
        const num b = bh / p.kv_heads, kv = bh - b * p.kv_heads;
        load(keys, rows_of(k, p.k, b, kv, k0, p.keys), p.features);
        load(values, rows_of(v, p.v, b, kv, k0, p.keys), p.features);
        float sums_k[TILES][4] = {}, sums_v[TILES][4] = {};
        for (num h = kv * group; h < (kv + 1) * group; h++)
        for (num q0 = p.causal ? k0 : 0; q0 < p.queries; q0 += 64) {
            const num end = until(q0, 64, p.queries);
            load(queries, rows_of(q, p.q, b, h, q0, end), p.features);
            load(grads, rows_of(grad, p.grad, b, h, q0, end), p.features);
            __syncthreads();
            float s[8][4], d[8][4];
            products(s, keys, queries);
            products(d, values, grads);
            Weights of_v, of_k;
#pragma unroll
            for (int n = 0; n < 8; n++)
                for (int half = 0; half < 2; half++) {
                    float w[2], e[2];
                    for (int i = 0; i < 2; i++) {
                        const num query = q0 + n * 8 + col_of() + i, key = k0 + row_of() + half * 8;
                        const float of = score(s[n][2 * half + i], mask, p, b, h, query, key);
                        const float common = query < p.queries ? delta[(b * p.heads + h) * p.queries + query] : 0.0f;
                        w[i] = weight(of, log, p, b, h, query);
                        e[i] = w[i] * (d[n][2 * half + i] - common) * scale;
                    }
                    of_v.set(n, half, w[0], w[1]);
                    of_k.set(n, half, e[0], e[1]);
                }
            weigh(sums_v, of_v, grads);
            weigh(sums_k, of_k, queries);
            __syncthreads();
        }
        store(grad_k, p.grad_k, sums_k, ones, b, kv, k0, p.keys, p.features);
        store(grad_v, p.grad_v, sums_v, ones, b, kv, k0, p.keys, p.features);
        __syncthreads();
    }
}

#endif
