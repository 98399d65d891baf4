// Places of what is not zero, coordinates of places, counts of integers, places in sorted rows. Before this
// stand the prelude and the types of the elements.

#define THREADS 256
#define ITEMS 8
#define TILE (THREADS * ITEMS)

struct Compact { long long count, tiles; };

// Which of a thread's elements are not zero, as bits.
__device__ __forceinline__ unsigned flags(const Element* source, long long begin, long long count) {
    unsigned bits = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const long long i = begin + k;
        if (i < count && value_of(source[i]) != 0) bits |= 1u << k;
    }
    return bits;
}

// How many there are in each tile.
extern "C" __global__ void __launch_bounds__(THREADS) count_true(const Element* source, long long* counts, const Compact c) {
    for (long long tile = blockIdx.x; tile < c.tiles; tile += gridDim.x) {
        const int mine = __popc(flags(source, tile * TILE + threadIdx.x * ITEMS, c.count));
        const int all = combined<THREADS>(mine, [](int a, int b) { return a + b; });
        if (threadIdx.x == 0) counts[tile] = all;
    }
}

// Their places, from how many there are up to the end of each tile.
extern "C" __global__ void __launch_bounds__(THREADS) write_true(const Element* source, const long long* ends, long long* places, const Compact c) {
    __shared__ int sums[THREADS];
    for (long long tile = blockIdx.x; tile < c.tiles; tile += gridDim.x) {
        const long long begin = tile * TILE + threadIdx.x * ITEMS;
        const unsigned bits = flags(source, begin, c.count);
        sums[threadIdx.x] = __popc(bits);
        __syncthreads();
        for (int far = 1; far < THREADS; far *= 2) {
            const int left = threadIdx.x >= far ? sums[threadIdx.x - far] : 0;
            __syncthreads();
            sums[threadIdx.x] += left;
            __syncthreads();
        }
        long long at = (tile ? ends[tile - 1] : 0) + sums[threadIdx.x] - __popc(bits);
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            if (bits >> k & 1) places[at++] = begin + k;
        }
        __syncthreads();
    }
}
