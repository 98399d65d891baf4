// Coordinates of places, counts of integers, places in sorted rows: of 64 bits each.

struct Coordinates { long long count, dims, sizes[64]; };

// Places of a row-major tensor as coordinates, all of a dimension one after another.
extern "C" __global__ void coordinates(const long long* places, long long* out, const Coordinates c) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < c.count; i += step) {
        long long rest = places[i];
        for (int d = (int)c.dims - 1; d >= 0; d--) {
            const long long next = rest / c.sizes[d];
            out[d * c.count + i] = rest - next * c.sizes[d];
            rest = next;
        }
    }
}

struct Put { long long count; };

// Elements put at places, of which no two are one.
template <typename T>
__device__ __forceinline__ void put(const T* source, const long long* places, T* out, const Put& p) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) out[places[i]] = source[i];
}
#define PUT(NAME, T)                                                                                            \
    extern "C" __global__ void NAME(const T* source, const long long* places, T* out, const Put p) {            \
        put(source, places, out, p);                                                                            \
    }
PUT(put_1, unsigned char)
PUT(put_2, unsigned short)
PUT(put_4, unsigned int)
PUT(put_8, unsigned long long)
PUT(put_16, ulonglong2)

struct Counts { long long count, bins; };

// How often there is each of the integers below `bins`; others are not counted. Sums of integers are the same
// in any order.
extern "C" __global__ void count_integers(const long long* source, unsigned long long* counts, const Counts c) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < c.count; i += step) {
        const long long bin = source[i];
        if (bin >= 0 && bin < c.bins) atomicAdd(&counts[bin], 1ull);
    }
}

// `per_row` values are looked for in each row, or all in one if it is 0. `sorter` may be missing.
struct Search { long long count, length, per_row, right; };

template <typename T>
__device__ __forceinline__ void search(const T* rows, const long long* sorter, const T* values, long long* out, const Search& s) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.count; i += step) {
        const long long base = s.per_row ? i / s.per_row * s.length : 0;
        const T value = values[i];
        long long low = 0, high = s.length;
        while (low < high) {
            const long long middle = low + (high - low) / 2;
            const T there = rows[base + (sorter ? sorter[base + middle] : middle)];
            // what is not less comes behind, and so does what has no order
            if (s.right ? !(there > value) : !(there >= value)) low = middle + 1;
            else high = middle;
        }
        out[i] = low;
    }
}
extern "C" __global__ void search_floats(const double* rows, const long long* sorter, const double* values, long long* out, const Search s) {
    search(rows, sorter, values, out, s);
}
extern "C" __global__ void search_integers(const long long* rows, const long long* sorter, const long long* values, long long* out, const Search s) {
    search(rows, sorter, values, out, s);
}
