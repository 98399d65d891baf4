// What every program begins with. It includes nothing: headers cost NVRTC 12 ms each.

typedef unsigned short half_bits;

__device__ __forceinline__ float from_bf16(half_bits x) { return __uint_as_float((unsigned)x << 16); }
__device__ __forceinline__ half_bits to_bf16(float x) {
    half_bits r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ float from_f16(half_bits x) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
}
__device__ __forceinline__ half_bits to_f16(float x) {
    half_bits r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ float round_bf16(float x) { return from_bf16(to_bf16(x)); }
__device__ __forceinline__ float round_f16(float x) { return from_f16(to_f16(x)); }

// Sizes, strides and constants of a kernel.
template <int N> struct Arguments { long long at[N]; };

// So many elements that are loaded and stored at once.
template <typename T, int N> struct __align__(sizeof(T) * N) Pack { T at[N]; };
template <typename T, int N> __device__ __forceinline__ Pack<T, N> load_pack(const T* from, bool whole) {
    if (whole) return *(const Pack<T, N>*)from;
    Pack<T, N> r;
#pragma unroll
    for (int i = 0; i < N; i++) r.at[i] = from[i];
    return r;
}
template <typename T, int N> __device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack, bool whole) {
    if (whole) {
        *(Pack<T, N>*)to = pack;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = pack.at[i];
}

// An element is replaced by a function of it, whatever other threads do.
template <int BYTES> struct Word { typedef unsigned type; };
template <> struct Word<2> { typedef unsigned short type; };
template <> struct Word<8> { typedef unsigned long long type; };
template <typename T, typename F> __device__ __forceinline__ void update(T* place, F f) {
    if (sizeof(T) == 1) {
        // a byte of the word that it is in
        unsigned* const word = (unsigned*)((unsigned long long)place & ~3ull);
        const int shift = ((unsigned long long)place & 3) * 8;
        unsigned old = *(volatile unsigned*)word, seen;
        do {
            seen = old;
            const T next = f((T)(seen >> shift));
            const unsigned with = (seen & ~(0xffu << shift)) | ((unsigned)(unsigned char)next << shift);
            if (with == seen) return;
            old = atomicCAS(word, seen, with);
        } while (old != seen);
        return;
    }
    typedef typename Word<sizeof(T)>::type W;
    union Both { T element; W word; } seen, next, old;
    old.element = *(volatile T*)place;
    do {
        seen.word = old.word;
        next.element = f(seen.element);
        if (next.word == seen.word) return;
        old.word = atomicCAS((W*)place, seen.word, next.word);
    } while (old.word != seen.word);
}

// NaN propagates, and comes first.
template <typename T> __device__ __forceinline__ T larger(T a, T b) { return a > b ? a : b; }
template <typename T> __device__ __forceinline__ T smaller(T a, T b) { return a < b ? a : b; }
#define NAN_FIRST(T)                                                                                            \
    template <> __device__ __forceinline__ T larger<T>(T a, T b) { return a != a || a > b ? a : b; }            \
    template <> __device__ __forceinline__ T smaller<T>(T a, T b) { return a != a || a < b ? a : b; }
NAN_FIRST(float)
NAN_FIRST(double)

template <typename T> __device__ __forceinline__ T sign_of(T x) { return (T)((x > 0) - (x < 0)); }
__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ double sigmoid_of(double x) { return 1.0 / (1.0 + exp(-x)); }
__device__ __forceinline__ float gelu_erf(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f)); }
__device__ __forceinline__ double gelu_erf(double x) { return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440)); }
template <typename T> __device__ __forceinline__ T gelu_tanh(T x) {
    const T inner = (T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x);
    return (T)0.5 * x * ((T)1 + tanh(inner));
}

// Integer division by zero is reported before; the least number by -1 wraps.
template <typename T> __device__ __forceinline__ T trunc_div(T a, T b) { return b == -1 ? (T)(0 - (unsigned long long)a) : b == 0 ? (T)0 : a / b; }
template <typename T> __device__ __forceinline__ T trunc_rem(T a, T b) { return b == -1 || b == 0 ? (T)0 : a % b; }
template <typename T> __device__ __forceinline__ T floor_div_int(T a, T b) {
    const T r = trunc_rem(a, b);
    return trunc_div(a, b) - (T)(r != 0 && (r < 0) != (b < 0));
}
template <typename T> __device__ __forceinline__ T floor_rem_int(T a, T b) {
    const T r = trunc_rem(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <typename T> __device__ __forceinline__ T floor_div_float(T a, T b) {
    if (b == 0) return a / b;
    const T m = fmod(a, b);
    T div = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) div = div - (T)1;
    if (div == 0) return copysign((T)0, a / b);
    const T f = floor(div);
    return div - f > (T)0.5 ? f + (T)1 : f;
}
template <typename T> __device__ __forceinline__ T remainder_float(T a, T b) {
    const T m = fmod(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
template <typename T> __device__ __forceinline__ T power_int(T a, T b) {
    if (b < 0) return a == 1 ? (T)1 : a == -1 ? (b & 1 ? (T)-1 : (T)1) : (T)0;
    unsigned long long r = 1, x = (unsigned long long)a;
    for (; b; b >>= 1, x *= x)
        if (b & 1) r *= x;
    return (T)r;
}
__device__ __forceinline__ long long multiply_add(long long a, long long b, long long c) {
    return (long long)((unsigned long long)a * (unsigned long long)b + (unsigned long long)c);
}
template <typename T> __device__ __forceinline__ T shift_left(T a, T b, int bits) {
    return b >= 0 && b < bits ? (T)((unsigned long long)a << b) : (T)0;
}
template <typename T> __device__ __forceinline__ T shift_right(T a, T b, int bits, bool is_signed) {
    return b >= 0 && b < bits ? a >> b : is_signed && a < 0 ? (T)-1 : (T)0;
}

// The first failure of a program: 1 and the index that was out of range, or 2 for a division by zero.
struct Status { unsigned failed; unsigned site; long long what; long long size; };
__device__ __noinline__ void fail(Status* status, unsigned kind, unsigned site, long long what, long long size) {
    if (atomicCAS(&status->failed, 0u, kind) == 0u) {
        status->site = site;
        status->what = what;
        status->size = size;
    }
}
__device__ __forceinline__ long long checked(Status* status, unsigned site, long long i, long long size, bool wrap) {
    if (i < (wrap ? -size : 0) || i >= size) {
        fail(status, 1u, site, i, size);
        return 0;
    }
    return i < 0 ? i + size : i;
}
template <typename T> __device__ __forceinline__ void divides(Status* status, unsigned site, T by) {
    if (by == 0) fail(status, 2u, site, 0, 0);
}

// Kahan's sum: `lost` is what the additions so far have added too much.
template <typename T> __device__ __forceinline__ void add_up(T& total, T& lost, T v) {
    const T y = v - lost, sum = total + y;
    const T more = (sum - total) - y;
    lost = more == more && !isinf(sum) ? more : (T)0;
    total = sum;
}

template <typename T> __device__ __forceinline__ void add_to(T* place, T v) { atomicAdd(place, v); }
__device__ __forceinline__ void add_to(long long* place, long long v) {
    atomicAdd((unsigned long long*)place, (unsigned long long)v);
}

// The total of a group of neighbouring threads, in each of them: a part of a warp, a warp, or a block.
template <int THREADS, typename T, typename F> __device__ __forceinline__ T combined(T v, F f) {
#pragma unroll
    for (int far = (THREADS < 32 ? THREADS : 32) / 2; far; far >>= 1) v = f(v, (T)__shfl_xor_sync(0xffffffffu, v, far));
    if (THREADS > 32) {
        __shared__ T parts[THREADS / 32 + 1];
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
        __syncthreads();
        v = parts[0];
#pragma unroll
        for (int warp = 1; warp < THREADS / 32; warp++) v = f(v, parts[warp]);
        __syncthreads();
    }
    return v;
}
// The total of the threads of a block that have one place among LANES.
template <int LANES, int MEMBERS, typename T, typename F> __device__ __forceinline__ T combined_columns(T v, F f) {
    __shared__ T parts[MEMBERS][LANES];
    const int lane = threadIdx.x % LANES, member = threadIdx.x / LANES;
    parts[member][lane] = v;
#pragma unroll
    for (int far = MEMBERS / 2; far; far >>= 1) {
        __syncthreads();
        if (member < far) parts[member][lane] = f(parts[member][lane], parts[member + far][lane]);
    }
    __syncthreads();
    v = parts[0][lane];
    __syncthreads();
    return v;
}

// The first of the largest (or smallest) values; a place below 0 stands for none.
template <bool MAX, typename T> __device__ __forceinline__ void take_place(T& best, long long& place, T v, long long at) {
    const bool nan = v != v, had_nan = best != best;
    const bool beyond = nan || had_nan ? nan && !had_nan : MAX ? v > best : v < best;
    const bool level = nan == had_nan && (nan || v == best);
    if (at >= 0 && (place < 0 || beyond || (level && at < place))) {
        best = v;
        place = at;
    }
}
template <int THREADS, bool MAX, typename T> __device__ __forceinline__ void combined_place(T& best, long long& place) {
#pragma unroll
    for (int far = (THREADS < 32 ? THREADS : 32) / 2; far; far >>= 1) {
        const T v = (T)__shfl_xor_sync(0xffffffffu, best, far);
        const long long at = __shfl_xor_sync(0xffffffffu, place, far);
        take_place<MAX>(best, place, v, at);
    }
    if (THREADS > 32) {
        __shared__ T values[THREADS / 32 + 1];
        __shared__ long long places[THREADS / 32 + 1];
        if (threadIdx.x % 32 == 0) {
            values[threadIdx.x / 32] = best;
            places[threadIdx.x / 32] = place;
        }
        __syncthreads();
        for (int warp = 0; warp < THREADS / 32; warp++) take_place<MAX>(best, place, values[warp], places[warp]);
        __syncthreads();
    }
}
template <int LANES, int MEMBERS, bool MAX, typename T> __device__ __forceinline__ void combined_place_columns(T& best, long long& place) {
    __shared__ T values[MEMBERS][LANES];
    __shared__ long long places[MEMBERS][LANES];
    const int lane = threadIdx.x % LANES, member = threadIdx.x / LANES;
    values[member][lane] = best;
    places[member][lane] = place;
    __syncthreads();
    for (int i = 0; i < MEMBERS; i++) take_place<MAX>(best, place, values[i][lane], places[i][lane]);
    __syncthreads();
}
