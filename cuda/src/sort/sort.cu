// Stable sorts of rows. Before this stand the prelude, `Key` and `key_of`.
//
// A block sorts a tile in shared memory: each thread its own few elements in registers, then runs are
// merged two by two, each thread finding by the merge path where its part of the result begins. Longer
// rows are tiles whose runs are merged in memory in the same way, a tile of the result for each block.
// What is sorted are keys with places; elements are fetched at the end.

typedef unsigned int Place;

struct Sort {
    // Rows, elements of each that are sorted, elements of each row of the source.
    long long rows, length, source;
    // Tiles of a row, how many of each are kept (of a merged row: of the whole), elements from one row
    // of the results to the next.
    long long tiles, keep, out;
    // All bits for a descending order.
    long long mask;
    // The length of the runs that are merged.
    long long width;
};

// So many of the first `n` results come from the first run: the merge path.
template <typename K> __device__ __forceinline__ int split(const K* a, int of_a, const K* b, int of_b, int n) {
    int low = n > of_b ? n - of_b : 0, high = n < of_a ? n : of_a;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a[middle] <= b[n - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}
__device__ __forceinline__ long long split_long(const Key* a, long long of_a, const Key* b, long long of_b, long long n) {
    long long low = n > of_b ? n - of_b : 0, high = n < of_a ? n : of_a;
    while (low < high) {
        const long long middle = (low + high) / 2;
        if (a[middle] <= b[n - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The next ITEMS of two runs in shared memory, from places `i` and `j` on; the runs end at their sizes.
template <int ITEMS>
__device__ __forceinline__ void take(const Key* keys, const Place* places, int i, int end_i, int j, int end_j, Key* key, Place* place) {
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const bool first = j >= end_j || (i < end_i && keys[i] <= keys[j]);
        const int at = first ? i : j;
        const bool there = at < (first ? end_i : end_j);
        key[k] = there ? keys[at] : (Key)~(Key)0;
        place[k] = there ? places[at] : (Place)~0u;
        if (first) i++;
        else j++;
    }
}

// Writes what a block has sorted, from the start of a row of results on.
template <int THREADS>
__device__ __forceinline__ void put(const Key* keys, const Place* places, long long count, const Sort& s, long long row, long long out,
                                    const Key* source, Key* out_keys, Place* out_places, Key* values, long long* indices) {
    for (long long i = threadIdx.x; i < count; i += THREADS) {
        const Place place = places[i];
        if (out_places) {
            out_keys[out + i] = keys[i];
            out_places[out + i] = place;
        } else {
            if (values) values[out + i] = source[row * s.source + place];
            if (indices) indices[out + i] = place;
        }
    }
}

template <int THREADS, int ITEMS>
__device__ __forceinline__ void sort_tile(const Key* source, const Key* in_keys, const Place* in_places, Key* out_keys, Place* out_places,
                                          Key* values, long long* indices, const Sort& s) {
    constexpr int TILE = THREADS * ITEMS;
    __shared__ Key keys[TILE];
    __shared__ Place places[TILE];
    for (long long block = blockIdx.x; block < s.rows * s.tiles; block += gridDim.x) {
        const long long row = block / s.tiles, tile = block % s.tiles, begin = tile * TILE;
        for (int i = threadIdx.x; i < TILE; i += THREADS) {
            const long long at = begin + i;
            const bool there = at < s.length;
            Key key = (Key)~(Key)0;
            Place place = (Place)at;
            if (there && in_places) {
                key = in_keys[row * s.length + at];
                place = in_places[row * s.length + at];
            } else if (there) {
                key = (Key)(key_of(source[row * s.source + at]) ^ (Key)s.mask);
            }
            keys[i] = key;
            places[i] = place;
        }
        __syncthreads();
        Key key[ITEMS];
        Place place[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            key[i] = keys[threadIdx.x * ITEMS + i];
            place[i] = places[threadIdx.x * ITEMS + i];
        }
        // neighbours change places only where one is greater, so equal ones keep their order
#pragma unroll
        for (int round = 0; round < ITEMS; round++) {
#pragma unroll
            for (int i = round % 2; i + 1 < ITEMS; i += 2) {
                if (key[i] > key[i + 1]) {
                    const Key k = key[i];
                    key[i] = key[i + 1];
                    key[i + 1] = k;
                    const Place p = place[i];
                    place[i] = place[i + 1];
                    place[i + 1] = p;
                }
            }
        }
        for (int width = ITEMS;; width *= 2) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                keys[threadIdx.x * ITEMS + i] = key[i];
                places[threadIdx.x * ITEMS + i] = place[i];
            }
            __syncthreads();
            if (width >= TILE) break;
            const int mine = threadIdx.x * ITEMS, first = mine / (2 * width) * (2 * width), second = first + width;
            const int n = mine - first, from = split(keys + first, width, keys + second, width, n);
            take<ITEMS>(keys, places, first + from, second, second + n - from, second + width, key, place);
        }
        const long long kept = s.keep < TILE ? s.keep : TILE, left = s.out - tile * s.keep;
        const long long count = left < kept ? left : kept;
        put<THREADS>(keys, places, count, s, row, row * s.out + tile * s.keep, source, out_keys, out_places, values, indices);
        __syncthreads();
    }
}

#define ARGUMENTS                                                                                                            \
    const Key *source, const Key *in_keys, const Place *in_places, Key *out_keys, Place *out_places, Key *values,            \
        long long *indices, const Sort s
#define PASSED source, in_keys, in_places, out_keys, out_places, values, indices, s

extern "C" __global__ void __launch_bounds__(32) sort_short(ARGUMENTS) { sort_tile<32, 4>(PASSED); }
extern "C" __global__ void __launch_bounds__(256) sort_tiles(ARGUMENTS) { sort_tile<256, 8>(PASSED); }

// Runs of `width`, merged two by two.
extern "C" __global__ void __launch_bounds__(256, 4) merge_runs(ARGUMENTS) {
    constexpr int THREADS = 256, ITEMS = 8, TILE = THREADS * ITEMS;
    __shared__ Key keys[TILE];
    __shared__ Place places[TILE];
    __shared__ long long bounds[2];
    for (long long block = blockIdx.x; block < s.rows * s.tiles; block += gridDim.x) {
        const long long row = block / s.tiles, begin = block % s.tiles * TILE, base = row * s.length;
        const long long first = begin / (2 * s.width) * (2 * s.width);
        const long long second = first + s.width < s.length ? first + s.width : s.length;
        const long long end = second + s.width < s.length ? second + s.width : s.length;
        const long long stop = begin + TILE < end ? begin + TILE : end;
        if (threadIdx.x < 2) {
            const long long n = (threadIdx.x ? stop : begin) - first;
            bounds[threadIdx.x] = split_long(in_keys + base + first, second - first, in_keys + base + second, end - second, n);
        }
        __syncthreads();
        const long long from = first + bounds[0], until = first + bounds[1];
        const int of_a = (int)(until - from), all = (int)(stop - begin);
        const long long other = second + (begin - first - bounds[0]) - of_a;
        for (int i = threadIdx.x; i < all; i += THREADS) {
            const long long at = base + (i < of_a ? from + i : other + i);
            keys[i] = in_keys[at];
            places[i] = in_places[at];
        }
        __syncthreads();
        Key key[ITEMS];
        Place place[ITEMS];
        const int mine = threadIdx.x * ITEMS < all ? threadIdx.x * ITEMS : all;
        const int i = split(keys, of_a, keys + of_a, all - of_a, mine);
        take<ITEMS>(keys, places, i, of_a, of_a + mine - i, all, key, place);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ITEMS; k++) {
            if (mine + k < all) {
                keys[mine + k] = key[k];
                places[mine + k] = place[k];
            }
        }
        __syncthreads();
        const long long left = s.keep - begin, count = left < 0 ? 0 : left < all ? left : all;
        put<THREADS>(keys, places, count, s, row, row * s.out + begin, source, out_keys, out_places, values, indices);
        __syncthreads();
    }
}

struct Choice { long long rows, length, which, kth; };

// One element of each row, whose places are sorted: the kth, or a median.
extern "C" __global__ void choose(const Key* source, const Key* sorted, const Place* places, Key* values, long long* indices, const Choice c) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x; row < c.rows; row += step) {
        const Key* keys = sorted + row * c.length;
        long long at = c.kth;
        if (c.which) {
            // NaN are at the end
            long long numbers = 0, high = c.length;
            while (HAS_NAN && numbers < high) {
                const long long middle = (numbers + high) / 2;
                if (keys[middle] == (Key)~(Key)0) high = middle;
                else numbers = middle + 1;
            }
            if (!HAS_NAN) numbers = c.length;
            if (c.which == 1 && numbers < c.length) at = numbers;
            else at = ((numbers ? numbers : c.length) - 1) / 2;
        }
        const Place place = places[row * c.length + at];
        values[row] = source[row * c.length + place];
        indices[row] = place;
    }
}

// The most frequent element of each row, the smallest of several, and the last place where it is; no
// NaN is equal to another.
extern "C" __global__ void most_frequent(const Key* source, const Key* sorted, const Place* places, Key* values, long long* indices, const Choice c) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x; row < c.rows; row += step) {
        const Key* keys = sorted + row * c.length;
        long long longest = 0, last = 0, begin = 0;
        for (long long i = 0; i < c.length; i++) {
            if (i && (keys[i] != keys[i - 1] || (HAS_NAN && keys[i] == (Key)~(Key)0))) begin = i;
            if (i + 1 - begin > longest) {
                longest = i + 1 - begin;
                last = i;
            }
        }
        const Place place = places[row * c.length + last];
        values[row] = source[row * c.length + place];
        indices[row] = place;
    }
}
