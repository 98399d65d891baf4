// What attention and its gradients have in common, however their blocks are computed.

typedef long long num;

struct Attention {
    num batch, heads, kv_heads, queries, keys, features;
    num q[4], k[4], v[4], mask[4], out[4], log[3];
    num grad[4], grad_q[4], grad_k[4], grad_v[4];
    num causal, scale;
};

// Rows of one head: elements from one row, and from one feature, to the next; rows that there are.
struct Rows {
    const element* first;
    num row, feature, count;
};

__device__ __forceinline__ Rows rows_of(const element* t, const num (&s)[4], num b, num h, num begin, num end) {
    return {t + b * s[0] + h * s[1] + begin * s[2], s[2], s[3], end - begin};
}

__device__ __forceinline__ float exp_of(float x) { return expf(x); }
__device__ __forceinline__ double exp_of(double x) { return exp(x); }
__device__ __forceinline__ float log_of(float x) { return logf(x); }
__device__ __forceinline__ double log_of(double x) { return log(x); }
#define LOWEST ((wide)__int_as_float(0xff800000))

// What is left of a score; hidden ones are the lowest.
__device__ __forceinline__ wide score(
    wide sum, const mask_element* mask, const Attention& p, num b, num h, num query, num key) {
    if (query >= p.queries || key >= p.keys || (p.causal && key > query)) return LOWEST;
    wide v = sum * (wide)__longlong_as_double(p.scale);
#if MASKED
    v += mask_value(mask[b * p.mask[0] + h * p.mask[1] + query * p.mask[2] + key * p.mask[3]]);
#endif
    return v;
}

__device__ __forceinline__ num until(num begin, num step, num end) { return begin + step < end ? begin + step : end; }

// What each row's gradient and result have in common: a warp for a row.
extern "C" __global__ void __launch_bounds__(256) dots(
    const element* grad, const element* out, wide* delta, const Attention p) {
    const num step = (num)gridDim.x * 8, count = p.batch * p.heads * p.queries;
    for (num i = (num)blockIdx.x * 8 + threadIdx.x / 32; i < count; i += step) {
        const num bh = i / p.queries, row = i - bh * p.queries, b = bh / p.heads, h = bh - b * p.heads;
        wide sum = 0;
        for (num f = threadIdx.x % 32; f < p.features; f += 32) {
            const wide g = widened(grad[b * p.grad[0] + h * p.grad[1] + row * p.grad[2] + f * p.grad[3]]);
            sum = fused(g, widened(out[b * p.out[0] + h * p.out[1] + row * p.out[2] + f * p.out[3]]), sum);
        }
        sum = combined<32>(sum, [](const wide a, const wide b) -> wide { return a + b; });
        if (threadIdx.x % 32 == 0) delta[i] = sum;
    }
}

// The weight of a score, from the logarithm of its row's sum.
__device__ __forceinline__ wide weight(wide score, const wide* log, const Attention& p, num b, num h, num query) {
    if (query >= p.queries) return 0;
    return exp_of(score - log[b * p.log[0] + h * p.log[1] + query * p.log[2]]);
}
