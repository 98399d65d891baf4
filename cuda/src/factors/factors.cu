// Factors of matrices, row by row in memory, and equations that they solve. Before this stand the prelude and the types of
// the elements. A block factors a matrix; a thread solves for a column.

struct Matrices { long long batch, rows, cols, upper, unit, transposed; };

#define EACH_MATRIX                                                                                                        \
    for (long long b = blockIdx.x; b < s.batch; b += gridDim.x)

__device__ __forceinline__ Element size_of(Element x) { return x < 0 ? -x : x; }

// What the columns before leave of an element.
__device__ __forceinline__ Element rest_of(const Element* a, long long n, long long i, long long j) {
    Element sum = a[i * n + j];
    for (long long k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
    return sum;
}

// The lower factor in place of each matrix, of which the lower triangle is read, zeros above it. `info` is 0, or the number
// of the first row that is none of a positive definite matrix.
extern "C" __global__ void __launch_bounds__(THREADS) cholesky(Element* all, int* info, const Matrices s) {
    __shared__ Element pivot;
    const long long n = s.rows;
    EACH_MATRIX {
        Element* a = all + b * n * n;
        int failed = 0;
        for (long long e = threadIdx.x; e < n * n; e += THREADS)
            if (e % n > e / n) a[e] = 0;
        __syncthreads();
        // column by column, so that what is behind a failure stays as it was
        for (long long j = 0; j < n; j++) {
            const long long mine = j + threadIdx.x;
            const Element sum = mine < n ? rest_of(a, n, mine, j) : (Element)0;
            if (threadIdx.x == 0) pivot = sum;
            __syncthreads();
            const Element d = pivot;
            // all threads have the same number
            if (!(d > 0)) {
                failed = (int)(j + 1);
                if (threadIdx.x == 0) a[j * n + j] = d;
                break;
            }
            const Element root = sqrt(d);
            if (mine < n) a[mine * n + j] = mine == j ? root : sum / root;
            for (long long i = mine + THREADS; i < n; i += THREADS) a[i * n + j] = rest_of(a, n, i, j) / root;
            __syncthreads();
        }
        if (threadIdx.x == 0) info[b] = failed;
        __syncthreads();
    }
}

// Both triangular factors in place of each matrix, by the largest pivot of each column. `pivots` says with which row, counted
// from 1, each one was swapped; `info` is 0, or the number of the first pivot that is 0.
extern "C" __global__ void __launch_bounds__(THREADS) lu(Element* all, int* pivots, int* info, const Matrices s) {
    __shared__ Element sizes[THREADS];
    __shared__ long long places[THREADS];
    const long long m = s.rows, n = s.cols, least = m < n ? m : n;
    EACH_MATRIX {
        Element* a = all + b * m * n;
        int failed = 0;
        for (long long j = 0; j < least; j++) {
            Element best = -1;
            long long place = j;
            for (long long i = j + threadIdx.x; i < m; i += THREADS) {
                const Element size = size_of(a[i * n + j]);
                // NaN is larger than all
                if (size > best || (size != size && best == best)) {
                    best = size;
                    place = i;
                }
            }
            sizes[threadIdx.x] = best;
            places[threadIdx.x] = place;
            __syncthreads();
            for (int half = THREADS / 2; half; half /= 2) {
                if (threadIdx.x < half) {
                    const Element x = sizes[threadIdx.x], y = sizes[threadIdx.x + half];
                    const long long p = places[threadIdx.x], q = places[threadIdx.x + half];
                    const bool nan = y != y && x == x, both = x != x && y != y;
                    // of equal ones the first
                    if (y > x || nan || ((y == x || both) && q < p)) {
                        sizes[threadIdx.x] = y;
                        places[threadIdx.x] = q;
                    }
                }
                __syncthreads();
            }
            const long long pivot = places[0];
            const Element largest = sizes[0];
            __syncthreads();
            if (threadIdx.x == 0) pivots[b * least + j] = (int)(pivot + 1);
            if (pivot != j)
                for (long long c = threadIdx.x; c < n; c += THREADS) {
                    const Element e = a[j * n + c];
                    a[j * n + c] = a[pivot * n + c];
                    a[pivot * n + c] = e;
                }
            __syncthreads();
            if (largest == 0) {
                if (!failed) failed = (int)(j + 1);
                continue;
            }
            const Element by = a[j * n + j];
            for (long long i = j + 1 + threadIdx.x; i < m; i += THREADS) a[i * n + j] /= by;
            __syncthreads();
            const long long below = m - j - 1, right = n - j - 1;
            for (long long e = threadIdx.x; e < below * right; e += THREADS) {
                const long long i = j + 1 + e / right, c = j + 1 + e % right;
                a[i * n + c] -= a[i * n + j] * a[j * n + c];
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) info[b] = failed;
        __syncthreads();
    }
}

// Solves a x = b in place of b, whose rows are the matrices' and of which there are `cols` columns: a triangle of a, or of
// its transpose, of which `upper` says which one it is.
extern "C" __global__ void triangular(const Element* all, Element* bs, const Matrices s) {
    const long long n = s.rows, step = (long long)gridDim.x * blockDim.x;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < s.batch * s.cols; at += step) {
        const Element* a = all + at / s.cols * n * n;
        Element* x = bs + at / s.cols * n * s.cols + at % s.cols;
        for (long long k = 0; k < n; k++) {
            const long long i = s.upper ? n - 1 - k : k, from = s.upper ? i + 1 : 0, end = s.upper ? n : i;
            Element sum = x[i * s.cols];
            for (long long j = from; j < end; j++) sum -= (s.transposed ? a[j * n + i] : a[i * n + j]) * x[j * s.cols];
            x[i * s.cols] = s.unit ? sum : sum / a[i * n + i];
        }
    }
}

// Swaps rows as the pivots say, or back where `transposed`.
extern "C" __global__ void swaps(const int* pivots, Element* bs, const Matrices s) {
    const long long n = s.rows, step = (long long)gridDim.x * blockDim.x;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < s.batch * s.cols; at += step) {
        const int* of = pivots + at / s.cols * n;
        Element* x = bs + at / s.cols * n * s.cols + at % s.cols;
        for (long long k = 0; k < n; k++) {
            const long long i = s.transposed ? n - 1 - k : k, j = of[i] - 1;
            if (j < 0 || j >= n) continue;
            const Element e = x[i * s.cols];
            x[i * s.cols] = x[j * s.cols];
            x[j * s.cols] = e;
        }
    }
}
