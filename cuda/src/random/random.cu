// Random numbers of Philox-4x32-10. Before this stand the prelude, the types of the elements, and for the
// distribution: `Raw` (what it is made of), UNROLL (how many a block of four words makes), `raws` and
// `Element drawn(Raw, const Draws&)`.
//
// A thread is a subsequence; each step takes the next four words of it, for elements that are a whole grid
// apart.

struct Words { unsigned x, y, z, w; };

__device__ __forceinline__ Words philox(unsigned long long seed, unsigned long long low, unsigned long long high) {
    Words c = {(unsigned)low, (unsigned)(low >> 32), (unsigned)high, (unsigned)(high >> 32)};
    unsigned key = (unsigned)seed, other = (unsigned)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned a = __umulhi(0xd2511f53u, c.x), b = 0xd2511f53u * c.x;
        const unsigned e = __umulhi(0xcd9e8d57u, c.z), f = 0xcd9e8d57u * c.z;
        c = {e ^ c.y ^ key, f, a ^ c.w ^ other, b};
        key += 0x9e3779b9u;
        other += 0xbb67ae85u;
    }
    return c;
}

struct Draws {
    long long count;
    unsigned long long seed, counter;
    // Of the distribution.
    double a, b;
    unsigned long long integers;
    long long base;
    // Null, or where seed and offset are: the counter is what comes behind that offset.
    const unsigned long long* state;
};

__device__ __forceinline__ unsigned long long seed_of(const Draws& d) { return d.state ? d.state[0] : d.seed; }
__device__ __forceinline__ unsigned long long counter_of(const Draws& d) {
    return d.state ? d.counter + d.state[1] / 4 : d.counter;
}

// In (0, 1].
__device__ __forceinline__ float unit(unsigned x) { return fmaf((float)x, 2.3283064e-10f, 2.3283064e-10f / 2.0f); }
__device__ __forceinline__ double unit(unsigned x, unsigned y) {
    const unsigned long long z = (unsigned long long)x ^ ((unsigned long long)y << 21);
    return fma((double)z, 1.1102230246251565e-16, 1.1102230246251565e-16 / 2.0);
}
__device__ __forceinline__ void units(Words w, float* to) {
    to[0] = unit(w.x);
    to[1] = unit(w.y);
    to[2] = unit(w.z);
    to[3] = unit(w.w);
}
__device__ __forceinline__ void units(Words w, double* to) {
    to[0] = unit(w.x, w.y);
    to[1] = unit(w.z, w.w);
}

// By Box and Muller, from two numbers each.
__device__ __forceinline__ void normals(unsigned x, unsigned y, float* to) {
    const float turn = 2.3283064e-10f * 6.2831855f;
    const float length = sqrtf(-2.0f * logf(unit(x))), angle = fmaf((float)y, turn, turn / 2.0f);
    to[0] = __sinf(angle) * length;
    to[1] = __cosf(angle) * length;
}
__device__ __forceinline__ void normals(Words w, float* to) {
    normals(w.x, w.y, to);
    normals(w.z, w.w, to + 2);
}
__device__ __forceinline__ void normals(Words w, double* to) {
    const unsigned long long z = (unsigned long long)w.z ^ ((unsigned long long)w.w << 21);
    const double length = sqrt(-2.0 * log(unit(w.x, w.y)));
    const double angle = fma((double)z, 2.0 * 1.1102230246251565e-16, 1.1102230246251565e-16);
    double sine, cosine;
    sincospi(angle, &sine, &cosine);
    to[0] = sine * length;
    to[1] = cosine * length;
}

__device__ __forceinline__ void integers(Words w, unsigned* to) {
    to[0] = w.x;
    to[1] = w.y;
    to[2] = w.z;
    to[3] = w.w;
}
__device__ __forceinline__ void integers(Words w, unsigned long long* to) {
    to[0] = (unsigned long long)w.x << 32 | w.y;
    to[1] = (unsigned long long)w.z << 32 | w.w;
}
__device__ __forceinline__ long long in_range(unsigned x, const Draws& d) {
    return d.base + (long long)(x % d.integers);
}
__device__ __forceinline__ long long in_range(unsigned long long x, const Draws& d) {
    // 0 stands for all of them
    return (long long)((unsigned long long)d.base + (d.integers ? x % d.integers : x));
}

// Logarithms, exponentials and tangents of a `float` are the device's quick ones, as in PyTorch.
__device__ __forceinline__ float log_of(float x) { return __logf(x); }
__device__ __forceinline__ double log_of(double x) { return log(x); }
__device__ __forceinline__ float exp_of(float x) { return __expf(x); }
__device__ __forceinline__ double exp_of(double x) { return exp(x); }
__device__ __forceinline__ float tan_of(float x) { return __tanf(x); }
__device__ __forceinline__ double tan_of(double x) { return tan(x); }
__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
