// Products whose left factor is gathered: c[row, col] = sum over inner of a[row, inner] b[inner, col], for each group.
// A row, and an inner index, is four digits: one of channels or of the batch, and one for each spatial dimension. The
// element of `a` is at the sum of what the digits of both say. There is none outside of the limits, and where a coordinate
// is no multiple of the divisor.
//
// ROWS_ALONG_INNER, COLS_ALONG_INNER: whether neighbouring threads load neighbours of the inner dimension.
// DIVIDES: whether a divisor is not 1.
// DIMENSIONS: spatial dimensions that are there; the others come first.
// offset: a number that all distances fit.
// SKIPS: what is not there is left out of a sum; else it is 0, as a margin is, times what may be NaN.

typedef long long num;

struct Gathered {
    num groups, rows, cols, inner;
    num row_sizes[4], inner_sizes[4], row_first_fastest, inner_first_fastest;
    num row_a, inner_a, a[3];
    num base[3], row_step[3], inner_step[3], divisor[3], limit[3];
    num inner_b[4], col_b;
    num row_c[4], col_c;
    num group_a, group_b, group_c;
    num splits, split;
    num vector[8];
};

struct Place {
    offset from, other;
    int z, y, x;
};

// What no coordinate makes up for.
#define OUTSIDE (-(1 << 29))

__device__ __forceinline__ wide finished(wide v, num channel, num at, const Gathered& p FOLLOW_PARAMETERS);

__device__ __forceinline__ void digits(num i, const num (&sizes)[4], bool first_fastest, num (&d)[4]) {
    num rest = i;
    if (first_fastest) {
        rest = i / sizes[0];
        d[0] = i - rest * sizes[0];
    }
    for (int s = 3; s > 0; s--) {
        const num next = rest / sizes[s];
        d[s] = rest - next * sizes[s];
        rest = next;
    }
    if (!first_fastest) d[0] = rest;
}

__device__ __forceinline__ num along(const num (&d)[4], const num (&strides)[4]) {
    return d[0] * strides[0] + d[1] * strides[1] + d[2] * strides[2] + d[3] * strides[3];
}

__device__ __forceinline__ Place row_place(const Gathered& p, num row) {
    Place at = {0, 0, 0, 0, OUTSIDE};
    if (row < p.rows) {
        num d[4];
        digits(row, p.row_sizes, p.row_first_fastest, d);
        at.from = (offset)(d[0] * p.row_a);
        at.other = (offset)along(d, p.row_c);
        at.z = (int)(p.base[0] + d[1] * p.row_step[0]);
        at.y = (int)(p.base[1] + d[2] * p.row_step[1]);
        at.x = (int)(p.base[2] + d[3] * p.row_step[2]);
    }
    return at;
}

__device__ __forceinline__ Place inner_place(const Gathered& p, num inner, num end) {
    Place at = {0, 0, 0, 0, OUTSIDE};
    if (inner < end) {
        num d[4];
        digits(inner, p.inner_sizes, p.inner_first_fastest, d);
        at.from = (offset)(d[0] * p.inner_a);
        at.other = (offset)along(d, p.inner_b);
        at.z = (int)(d[1] * p.inner_step[0]);
        at.y = (int)(d[2] * p.inner_step[1]);
        at.x = (int)(d[3] * p.inner_step[2]);
    }
    return at;
}

__device__ __forceinline__ bool within(int& at, int divisor, int limit) {
#if DIVIDES
    if (at < 0) return false;
    const int whole = at / divisor;
    if (whole * divisor != at) return false;
    at = whole;
#endif
    return (unsigned)at < (unsigned)limit;
}

// Whether there is an element, and which.
__device__ __forceinline__ bool gathered(
    const element* a, const Gathered& p, const Place& row, const Place& inner, wide& v) {
    int x = row.x + inner.x;
    bool is = within(x, (int)p.divisor[2], (int)p.limit[2]);
    offset at = row.from + inner.from + x * (offset)p.a[2];
#if DIMENSIONS > 1
    int y = row.y + inner.y;
    is = is && within(y, (int)p.divisor[1], (int)p.limit[1]);
    at += y * (offset)p.a[1];
#endif
#if DIMENSIONS > 2
    int z = row.z + inner.z;
    is = is && within(z, (int)p.divisor[0], (int)p.limit[0]);
    at += z * (offset)p.a[0];
#endif
    v = is ? widened(a[at]) : (wide)0;
    return is || !SKIPS;
}

// A tile is 64 x 64, of which a thread has 16 sums; these are their rows and columns. With CORES (halves) a warp has
// 16 x 32, in the layout of `mma`; else a thread has 4 x 4.
#if CORES
typedef element factor;
#define SLICE(rows) [rows][24]
#define AT(matrix, k, i) matrix[i][k]
#define TO_FACTOR(v) narrowed(v)
#define FROM_FACTOR(v) widened(v)
__device__ __forceinline__ int row_of(int i) { return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i % 4 / 2 * 8; }
__device__ __forceinline__ int col_of(int i) { return threadIdx.x / 128 * 32 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
#else
typedef wide factor;
#define SLICE(rows) [16][rows + 4]
#define AT(matrix, k, i) matrix[k][i]
#define TO_FACTOR(v) v
#define FROM_FACTOR(v) v
__device__ __forceinline__ int row_of(int i) { return threadIdx.x / 16 * 4 + i / 4; }
__device__ __forceinline__ int col_of(int i) { return threadIdx.x % 16 * 4 + i % 4; }
#endif

// Adds the products of a slice of 16.
__device__ __forceinline__ void add_slice(
    wide (&sums)[16], const factor (&left) SLICE(64), const factor (&right) SLICE(64)) {
#if CORES
    const int two = threadIdx.x % 4 * 2;
    const element *a = &left[row_of(0)][two], *b = &right[col_of(0) - two + threadIdx.x % 32 / 4][two];
    const unsigned of[4] = {*(const unsigned*)a, *(const unsigned*)(a + 8 * 24), *(const unsigned*)(a + 8),
                            *(const unsigned*)(a + 8 * 24 + 8)};
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const unsigned b0 = *(const unsigned*)(b + n * 8 * 24), b1 = *(const unsigned*)(b + n * 8 * 24 + 8);
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32." HALVES "." HALVES
            ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[4 * n]), "+f"(sums[4 * n + 1]), "+f"(sums[4 * n + 2]), "+f"(sums[4 * n + 3])
            : "r"(of[0]), "r"(of[1]), "r"(of[2]), "r"(of[3]), "r"(b0), "r"(b1));
    }
#else
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int s = 0; s < 16; s++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                sums[i * 4 + j] = fused(left[s][y * 4 + i], right[s][x * 4 + j], sums[i * 4 + j]);
#endif
}

// Sums of tiles. The inner dimension may be split: then the sums of each part are written to `parts`, and `add_parts`
// follows.
extern "C" __global__ void __launch_bounds__(256, sizeof(wide) == 8 ? 1 : 2) tiles(
    const element* a, const element* b, element* c, wide* parts, const Gathered p FOLLOW_PARAMETERS) {
    __shared__ __align__(16) factor left SLICE(64), right SLICE(64);
    __shared__ Place rows[64], inners[2][16];
#if SKIPS
    __shared__ bool there[16][64];
#endif
    const int t = threadIdx.x;
    const num row0 = (num)blockIdx.x * 64;
    if (t < 64) rows[t] = row_place(p, row0 + t);
    for (num z = blockIdx.z; z < p.groups * p.splits; z += gridDim.z)
    for (num col0 = (num)blockIdx.y * 64; col0 < p.cols; col0 += (num)gridDim.y * 64) {
        const num group = z / p.splits, first = (z - group * p.splits) * p.split;
        const num end = first + p.split < p.inner ? first + p.split : p.inner;
        const element* from_a = a + group * p.group_a;
        const element* from_b = b + group * p.group_b;
        wide sums[16] = {};
        if (t < 16) inners[0][t] = inner_place(p, first + t, end);
        __syncthreads();
        // a thread loads four elements of each factor: of one row or of one inner index
        Place mine[ROWS_ALONG_INNER ? 4 : 1];
        for (int i = 0; i < (ROWS_ALONG_INNER ? 4 : 1); i++) mine[i] = rows[ROWS_ALONG_INNER ? t / 16 + 16 * i : t % 64];
        wide next_a[4], next_b[4];
        bool has[4];
        const auto fetch = [&](num k0, const Place* inner) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int k = ROWS_ALONG_INNER ? t % 16 : t / 64 + 4 * i;
                has[i] = gathered(from_a, p, mine[ROWS_ALONG_INNER ? i : 0], inner[k], next_a[i]);
                const int kk = COLS_ALONG_INNER ? t % 16 : t / 64 + 4 * i;
                const num col = col0 + (COLS_ALONG_INNER ? t / 16 + 16 * i : t % 64);
                const bool is = k0 + kk < end && col < p.cols;
                next_b[i] = is ? widened(from_b[inner[kk].other + (offset)col * (offset)p.col_b]) : (wide)0;
            }
        };
        if (first < end) fetch(first, inners[0]);
        int turn = 0;
        for (num k0 = first; k0 < end; k0 += 16, turn ^= 1) {
            bool finite = true;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int e = t + i * 256;
                const int r = ROWS_ALONG_INNER ? e / 16 : e % 64, k = ROWS_ALONG_INNER ? e % 16 : e / 64;
                AT(left, k, r) = TO_FACTOR(next_a[i]);
#if SKIPS
                there[k][r] = has[i];
#endif
                const int j = COLS_ALONG_INNER ? e / 16 : e % 64, kk = COLS_ALONG_INNER ? e % 16 : e / 64;
                AT(right, kk, j) = TO_FACTOR(next_b[i]);
                finite &= next_b[i] - next_b[i] == 0;
            }
            if (t < 16) inners[turn ^ 1][t] = inner_place(p, k0 + 16 + t, end);
#if SKIPS
            const bool careful = __syncthreads_or(!finite);
#else
            __syncthreads();
#endif
            // the next slice is on its way while this one is added
            if (k0 + 16 < end) fetch(k0 + 16, inners[turn ^ 1]);
#if SKIPS
            // 0 times a finite number is left out as well
            if (careful) {
                for (int s = 0; s < 16; s++)
                    for (int i = 0; i < 16; i++)
                        if (there[s][row_of(i)]) {
                            const wide v = FROM_FACTOR(AT(left, s, row_of(i)));
                            sums[i] = fused(v, FROM_FACTOR(AT(right, s, col_of(i))), sums[i]);
                        }
                __syncthreads();
                continue;
            }
#endif
            add_slice(sums, left, right);
            __syncthreads();
        }
        for (int i = 0; i < 16; i++) {
            const num row = row0 + row_of(i), col = col0 + col_of(i);
            if (row >= p.rows || col >= p.cols) continue;
            if (p.splits > 1) {
                const num part = z - group * p.splits;
                parts[((part * p.groups + group) * p.rows + row) * p.cols + col] = sums[i];
            } else {
                const num at = group * p.group_c + rows[row_of(i)].other + col * p.col_c;
                c[at] = narrowed(finished(sums[i], group * p.cols + col, at, p FOLLOW_ARGUMENTS));
            }
        }
    }
}

// The result at an index of groups, rows and columns.
__device__ __forceinline__ void finish(
    wide v, num group, num row, num col, element* c, const Gathered& p FOLLOW_PARAMETERS) {
    num d[4];
    digits(row, p.row_sizes, p.row_first_fastest, d);
    const num at = group * p.group_c + along(d, p.row_c) + col * p.col_c;
    c[at] = narrowed(finished(v, group * p.cols + col, at, p FOLLOW_ARGUMENTS));
}

extern "C" __global__ void add_parts(const wide* parts, element* c, const Gathered p FOLLOW_PARAMETERS) {
    const num step = (num)gridDim.x * blockDim.x, count = p.groups * p.rows * p.cols;
    for (num i = (num)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        wide sum = 0;
        for (num part = 0; part < p.splits; part++) sum += parts[part * count + i];
        const num line = i / p.cols, group = line / p.rows;
        finish(sum, group, line - group * p.rows, i - line * p.cols, c, p FOLLOW_ARGUMENTS);
    }
}

// A thread for each result: for groups of few columns, which would leave tiles empty.
extern "C" __global__ void points(const element* a, const element* b, element* c, const Gathered p FOLLOW_PARAMETERS) {
    const num step = (num)gridDim.x * blockDim.x, count = p.groups * p.cols * p.rows;
    for (num i = (num)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const num line = i / p.rows, row = i - line * p.rows, group = line / p.cols, col = line - group * p.cols;
        const Place at = row_place(p, row);
        const element* from_a = a + group * p.group_a;
        const element* from_b = b + group * p.group_b + col * p.col_b;
        wide sum = 0;
        num d[4];
        for (d[0] = 0; d[0] < p.inner_sizes[0]; d[0]++)
        for (d[1] = 0; d[1] < p.inner_sizes[1]; d[1]++)
        for (d[2] = 0; d[2] < p.inner_sizes[2]; d[2]++)
        for (d[3] = 0; d[3] < p.inner_sizes[3]; d[3]++) {
            const Place inner = {(offset)(d[0] * p.inner_a), 0, (int)(d[1] * p.inner_step[0]),
                                 (int)(d[2] * p.inner_step[1]), (int)(d[3] * p.inner_step[2])};
            wide v;
            if (gathered(from_a, p, at, inner, v)) sum = fused(v, widened(from_b[along(d, p.inner_b)]), sum);
        }
        const num place = group * p.group_c + at.other + col * p.col_c;
        c[place] = narrowed(finished(sum, group * p.cols + col, place, p FOLLOW_ARGUMENTS));
    }
}

// A block for each result: for few results of long sums.
extern "C" __global__ void __launch_bounds__(256) blocks(
    const element* a, const element* b, element* c, const Gathered p FOLLOW_PARAMETERS) {
    for (num i = blockIdx.x; i < p.groups * p.cols * p.rows; i += gridDim.x) {
        const num line = i / p.rows, row = i - line * p.rows, group = line / p.cols, col = line - group * p.cols;
        const Place at = row_place(p, row);
        const element* from_a = a + group * p.group_a;
        const element* from_b = b + group * p.group_b + col * p.col_b;
        wide sum = 0;
        for (num k = threadIdx.x; k < p.inner; k += 256) {
            const Place inner = inner_place(p, k, p.inner);
            wide v;
            if (gathered(from_a, p, at, inner, v)) sum = fused(v, widened(from_b[inner.other]), sum);
        }
        sum = combined<256>(sum, [](const wide x, const wide y) -> wide { return x + y; });
        if (threadIdx.x == 0) finish(sum, group, row, col, c, p FOLLOW_ARGUMENTS);
    }
}
