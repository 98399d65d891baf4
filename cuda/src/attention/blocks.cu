// Attention without the matrix of scores, and its gradients. 256 threads compute blocks of ROWS x COLS scores, R x C of
// them each, from slices of 16 features in shared memory; their weights meet slices of SLICE rows of another operand,
// of which a thread has every sixteenth feature. 16 neighbouring threads have a row of scores.

#define ROWS (16 * R)
#define COLS (16 * C)
#define EACH (FEATURES / 16)

// Of 16 neighbouring threads, in each of them.
__device__ __forceinline__ wide largest_of(wide v) {
    for (int far = 8; far; far >>= 1) v = larger(v, (wide)__shfl_xor_sync(0xffffffffu, v, far));
    return v;
}
__device__ __forceinline__ wide sum_of(wide v) {
    for (int far = 8; far; far >>= 1) v += (wide)__shfl_xor_sync(0xffffffffu, v, far);
    return v;
}

struct Shared {
    __align__(16) wide left[16][ROWS + 4];
    __align__(16) wide right[16][COLS + 4];
    wide weights[ROWS][COLS + 1];
    wide slice[SLICE][FEATURES];
};

// The products of rows with rows.
__device__ __forceinline__ void products(wide (&sums)[R][C], const Rows& a, const Rows& b, num features, Shared& shared) {
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++) sums[i][j] = 0;
    for (num f0 = 0; f0 < features; f0 += 16) {
        for (int i = 0; i < R; i++) {
            const bool is = y + 16 * i < a.count && f0 + x < features;
            shared.left[x][y + 16 * i] = is ? widened(a.first[(y + 16 * i) * a.row + (f0 + x) * a.feature]) : (wide)0;
        }
        for (int i = 0; i < C; i++) {
            const bool is = y + 16 * i < b.count && f0 + x < features;
            shared.right[x][y + 16 * i] = is ? widened(b.first[(y + 16 * i) * b.row + (f0 + x) * b.feature]) : (wide)0;
        }
        __syncthreads();
        for (int s = 0; s < 16; s++)
            for (int i = 0; i < R; i++)
                for (int j = 0; j < C; j++)
                    sums[i][j] = fused(shared.left[s][y * R + i], shared.right[s][x * C + j], sums[i][j]);
        __syncthreads();
    }
}

// Adds rows by the weights.
__device__ __forceinline__ void weigh(wide (&sums)[R][EACH], const Rows& b, num features, Shared& shared) {
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    for (int k0 = 0; k0 < COLS && k0 < b.count; k0 += SLICE) {
        for (int e = t; e < SLICE * FEATURES; e += 256) {
            const int k = e / FEATURES, f = e % FEATURES;
            const bool is = k0 + k < b.count && f < features;
            shared.slice[k][f] = is ? widened(b.first[(k0 + k) * b.row + f * b.feature]) : (wide)0;
        }
        __syncthreads();
        for (int s = 0; s < SLICE; s++)
            for (int i = 0; i < R; i++) {
                const wide w = shared.weights[y * R + i][k0 + s];
                for (int j = 0; j < EACH; j++) sums[i][j] = fused(w, shared.slice[s][x + 16 * j], sums[i][j]);
            }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(256) forward(
    const element* q, const element* k, const element* v, const mask_element* mask, element* out, wide* log,
    const Attention p) {
    __shared__ Shared shared;
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    const num q0 = (num)blockIdx.x * ROWS;
    for (num bh = blockIdx.y; bh < p.batch * p.heads; bh += gridDim.y) {
        const num b = bh / p.heads, h = bh - b * p.heads, kv = h / (p.heads / p.kv_heads);
        const Rows queries = rows_of(q, p.q, b, h, q0, p.queries);
        wide sums[R][EACH] = {}, most[R], total[R];
        for (int i = 0; i < R; i++) {
            most[i] = LOWEST;
            total[i] = 0;
        }
        const num seen = p.causal ? until(q0, ROWS, p.keys) : p.keys;
        for (num k0 = 0; k0 < seen; k0 += COLS) {
            const num end = until(k0, COLS, p.keys);
            wide s[R][C];
            products(s, queries, rows_of(k, p.k, b, kv, k0, end), p.features, shared);
            for (int i = 0; i < R; i++) {
                wide next = most[i], sum = 0;
                for (int j = 0; j < C; j++) {
                    s[i][j] = score(s[i][j], mask, p, b, h, q0 + y * R + i, k0 + x * C + j);
                    next = larger(next, s[i][j]);
                }
                next = largest_of(next);
                // nothing has been seen yet: any shift will do
                const wide shift = next == LOWEST ? (wide)0 : next;
                for (int j = 0; j < C; j++) {
                    const wide w = exp_of(s[i][j] - shift);
                    shared.weights[y * R + i][x * C + j] = w;
                    sum += w;
                }
                const wide factor = exp_of(most[i] - shift);
                total[i] = fused(total[i], factor, sum_of(sum));
                most[i] = next;
                for (int j = 0; j < EACH; j++) sums[i][j] *= factor;
            }
            __syncthreads();
            weigh(sums, rows_of(v, p.v, b, kv, k0, end), p.features, shared);
        }
        for (int i = 0; i < R; i++) {
            const num row = q0 + y * R + i;
            if (row >= p.queries) continue;
            const bool hidden = total[i] == 0;
            const wide factor = hidden ? (wide)0 : 1 / total[i];
            for (int j = 0; j < EACH; j++) {
                const num f = x + 16 * j;
                const num at = b * p.out[0] + h * p.out[1] + row * p.out[2] + f * p.out[3];
                if (f < p.features) out[at] = narrowed(hidden ? (wide)0 : sums[i][j] * factor);
            }
            if (log && x == 0)
                log[b * p.log[0] + h * p.log[1] + row * p.log[2]] = hidden ? (wide)0 : most[i] + log_of(total[i]);
        }
    }
}

__device__ __forceinline__ void store(
    element* to, const num (&s)[4], const wide (&sums)[R][EACH], num b, num h, num begin, num end, num features) {
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int i = 0; i < R; i++) {
        const num row = begin + y * R + i;
        for (int j = 0; j < EACH; j++) {
            const num f = x + 16 * j;
            if (row < end && f < features) to[b * s[0] + h * s[1] + row * s[2] + f * s[3]] = narrowed(sums[i][j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) backward_q(
    const element* q, const element* k, const element* v, const mask_element* mask, const wide* log,
    const element* grad, const wide* delta, element* grad_q, const Attention p) {
    __shared__ Shared shared;
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    const num q0 = (num)blockIdx.x * ROWS;
    const wide scale = (wide)__longlong_as_double(p.scale);
    for (num bh = blockIdx.y; bh < p.batch * p.heads; bh += gridDim.y) {
        const num b = bh / p.heads, h = bh - b * p.heads, kv = h / (p.heads / p.kv_heads);
        const Rows queries = rows_of(q, p.q, b, h, q0, p.queries), grads = rows_of(grad, p.grad, b, h, q0, p.queries);
        wide sums[R][EACH] = {};
        const num seen = p.causal ? until(q0, ROWS, p.keys) : p.keys;
        for (num k0 = 0; k0 < seen; k0 += COLS) {
            const num end = until(k0, COLS, p.keys);
            const Rows keys = rows_of(k, p.k, b, kv, k0, end);
            wide s[R][C], d[R][C];
            products(s, queries, keys, p.features, shared);
            products(d, grads, rows_of(v, p.v, b, kv, k0, end), p.features, shared);
            for (int i = 0; i < R; i++) {
                const num query = q0 + y * R + i;
                const wide common = query < p.queries ? delta[bh * p.queries + query] : (wide)0;
                for (int j = 0; j < C; j++) {
                    const wide v = score(s[i][j], mask, p, b, h, query, k0 + x * C + j);
                    const wide w = weight(v, log, p, b, h, query);
                    shared.weights[y * R + i][x * C + j] = w * (d[i][j] - common) * scale;
                }
            }
            __syncthreads();
            weigh(sums, keys, p.features, shared);
        }
        store(grad_q, p.grad_q, sums, b, h, q0, p.queries, p.features);
    }
}

// Rows of scores are keys here, and columns queries, of all heads that share the keys.
extern "C" __global__ void __launch_bounds__(256) backward_kv(
    const element* q, const element* k, const element* v, const mask_element* mask, const wide* log,
    const element* grad, const wide* delta, element* grad_k, element* grad_v, const Attention p) {
    __shared__ Shared shared;
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    const num k0 = (num)blockIdx.x * ROWS, group = p.heads / p.kv_heads;
    const wide scale = (wide)__longlong_as_double(p.scale);
    for (num bh = blockIdx.y; bh < p.batch * p.kv_heads; bh += gridDim.y) {
        const num b = bh / p.kv_heads, kv = bh - b * p.kv_heads;
        const Rows keys = rows_of(k, p.k, b, kv, k0, p.keys), values = rows_of(v, p.v, b, kv, k0, p.keys);
        wide sums_k[R][EACH] = {}, sums_v[R][EACH] = {};
        for (num h = kv * group; h < (kv + 1) * group; h++)
        for (num q0 = p.causal ? k0 / COLS * COLS : 0; q0 < p.queries; q0 += COLS) {
            const num end = until(q0, COLS, p.queries);
            const Rows queries = rows_of(q, p.q, b, h, q0, end), grads = rows_of(grad, p.grad, b, h, q0, end);
            wide s[R][C], d[R][C];
            products(s, keys, queries, p.features, shared);
            products(d, values, grads, p.features, shared);
            for (int i = 0; i < R; i++)
                for (int j = 0; j < C; j++) {
                    const num query = q0 + x * C + j;
                    const wide v = score(s[i][j], mask, p, b, h, query, k0 + y * R + i);
                    const wide w = weight(v, log, p, b, h, query);
                    const wide common = query < p.queries ? delta[(b * p.heads + h) * p.queries + query] : (wide)0;
                    shared.weights[y * R + i][x * C + j] = w;
                    s[i][j] = w * (d[i][j] - common) * scale;
                }
            __syncthreads();
            weigh(sums_v, grads, p.features, shared);
            for (int i = 0; i < R; i++)
                for (int j = 0; j < C; j++) shared.weights[y * R + i][x * C + j] = s[i][j];
            __syncthreads();
            weigh(sums_k, queries, p.features, shared);
        }
        store(grad_k, p.grad_k, sums_k, b, kv, k0, p.keys, p.features);
        store(grad_v, p.grad_v, sums_v, b, kv, k0, p.keys, p.features);
    }
}
