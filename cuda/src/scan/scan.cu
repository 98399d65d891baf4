// Scans of rows: reduce, then scan. Before this stand the prelude, the types of the elements and, for the
// operation, `Sum` (what is carried along), `none()`, `of(element, place)`, `join(left, right)` and
// `put(sum, at, values, indices)`.
//
// A tile is a block's; each thread has neighbouring elements. `join` is only ever applied to neighbours,
// the left one first, and in an order that the sizes alone decide: results do not vary from run to run.

#define THREADS 256
#define ITEMS 8
#define TILE (THREADS * ITEMS)

struct Scan { long long rows, length, tiles; };

// The sum of all that is left of each thread, and of all together.
__device__ __forceinline__ Sum left_of(Sum mine, Sum* all, Sum& whole) {
    const int i = threadIdx.x;
    all[i] = mine;
    __syncthreads();
    for (int far = 1; far < THREADS; far *= 2) {
        Sum sum = all[i];
        if (i >= far) sum = join(all[i - far], sum);
        __syncthreads();
        all[i] = sum;
        __syncthreads();
    }
    whole = all[THREADS - 1];
    const Sum left = i ? all[i - 1] : none();
    __syncthreads();
    return left;
}

// A tile in shared memory, whose elements threads have in turns.
__device__ __forceinline__ int fetch(const Element* row, long long begin, long long length, Element* tile) {
    const long long rest = length - begin;
    const int count = rest < TILE ? (int)rest : TILE;
    for (int i = threadIdx.x; i < count; i += THREADS) tile[i] = row[begin + i];
    __syncthreads();
    return count;
}

// The sum of each tile.
extern "C" __global__ void __launch_bounds__(THREADS) tile_sums(const Element* source, Sum* sums, const Scan s) {
    __shared__ Element tile[TILE];
    __shared__ Sum all[THREADS];
    for (long long block = blockIdx.x; block < s.rows * s.tiles; block += gridDim.x) {
        const long long row = block / s.tiles, begin = block % s.tiles * TILE;
        const int count = fetch(source + row * s.length, begin, s.length, tile);
        Sum sum = none();
        for (int k = 0; k < ITEMS; k++) {
            const int i = threadIdx.x * ITEMS + k;
            if (i < count) sum = join(sum, of(tile[i], begin + i));
        }
        Sum whole;
        left_of(sum, all, whole);
        if (threadIdx.x == 0) sums[block] = whole;
    }
}

// The sums of the tiles of a row become the sums of all that is left of them.
extern "C" __global__ void __launch_bounds__(THREADS) scan_sums(Sum* sums, const Scan s) {
    __shared__ Sum all[THREADS];
    for (long long row = blockIdx.x; row < s.rows; row += gridDim.x) {
        Sum carried = none();
        for (long long begin = 0; begin < s.tiles; begin += THREADS) {
            const long long i = begin + threadIdx.x;
            Sum whole;
            const Sum left = left_of(i < s.tiles ? sums[row * s.tiles + i] : none(), all, whole);
            if (i < s.tiles) sums[row * s.tiles + i] = join(carried, left);
            carried = join(carried, whole);
        }
    }
}

// The results of a tile, from the sums of what is left of it (where there is more than one).
extern "C" __global__ void __launch_bounds__(THREADS) scan_tiles(const Element* source, const Sum* sums, Element* values, long long* indices, const Scan s) {
    __shared__ Element tile[TILE];
    __shared__ Sum all[THREADS];
    for (long long block = blockIdx.x; block < s.rows * s.tiles; block += gridDim.x) {
        const long long row = block / s.tiles, begin = block % s.tiles * TILE;
        const int count = fetch(source + row * s.length, begin, s.length, tile);
        Sum own[ITEMS], sum = none();
        for (int k = 0; k < ITEMS; k++) {
            const int i = threadIdx.x * ITEMS + k;
            if (i < count) sum = join(sum, of(tile[i], begin + i));
            own[k] = sum;
        }
        Sum whole, left = left_of(sum, all, whole);
        if (sums) left = join(sums[block], left);
        for (int k = 0; k < ITEMS; k++) {
            const int i = threadIdx.x * ITEMS + k;
            if (i < count) put(join(left, own[k]), row * s.length + begin + i, values, indices);
        }
        __syncthreads();
    }
}

// Rows that lie beside one another: a thread for each, which goes through it in order. `s.tiles` is how
// many are beside one another.
extern "C" __global__ void scan_columns(const Element* source, Element* values, long long* indices, const Scan s) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long c = (long long)blockIdx.x * blockDim.x + threadIdx.x; c < s.rows; c += step) {
        long long at = c / s.tiles * s.tiles * s.length + c % s.tiles;
        Sum sum = none();
        for (long long i = 0; i < s.length; i++, at += s.tiles) {
            sum = join(sum, of(source[at], i));
            put(sum, at, values, indices);
        }
    }
}
