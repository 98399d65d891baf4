// Distances between the rows of matrices, in any norm, and their gradients. Before this stand the prelude and the types
// of the elements. A thread computes a distance, or an element of a gradient, of which it takes the parts in order.

// Which norm: the number of what differs, the sum, the root of the sum of squares, the largest, or by the power p.
#define COUNT 0
#define ONE 1
#define TWO 2
#define LARGEST 3
#define POWER 4

struct Pairs { long long batch, rows, cols, width, norm; double p; };

#define EACH(COUNT_OF)                                                                                                     \
    const long long step = (long long)gridDim.x * blockDim.x, count = COUNT_OF;                                            \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)

__device__ __forceinline__ Value distance(const Pairs& s, const Element* x, const Element* y) {
    Value sum = 0;
    for (long long e = 0; e < s.width; e++) {
        Value d = value_of(x[e]) - value_of(y[e]);
        if (d < 0) d = -d;
        if (s.norm == COUNT) sum += d != 0 ? (Value)1 : (Value)0;
        else if (s.norm == ONE) sum += d;
        else if (s.norm == TWO) sum += d * d;
        else if (s.norm == LARGEST) sum = d > sum || d != d ? d : sum;
        else sum += pow(d, (Value)s.p);
    }
    return s.norm == TWO ? sqrt(sum) : s.norm == POWER ? pow(sum, (Value)(1 / s.p)) : sum;
}

// The derivative by an element of x that differs by d from that of y, times g. d is rounded as the distance is, which
// it is compared with.
__device__ __forceinline__ Value derivative(const Pairs& s, Value x, Value y, Value g, Value distance) {
    const Value d = value_of(element_of(x - y)), size = d < 0 ? -d : d;
    const Value sign = d == 0 ? (Value)0 : d < 0 ? (Value)-1 : d > 0 ? (Value)1 : d;
    if (s.norm == COUNT) return 0;
    if (s.norm == ONE) return g * sign;
    if (distance == 0) return 0;
    if (s.norm == TWO) return g * d / distance;
    if (s.norm == LARGEST) return size == distance ? g * sign : (Value)0;
    if (d == 0) return 0;
    const Value far = pow(distance, (Value)(s.p - 1));
    return s.p < 2 ? sign * pow(size, (Value)(s.p - 1)) * g / far : d * pow(size, (Value)(s.p - 2)) * g / far;
}

extern "C" __global__ void pairs(const Element* x, const Element* y, Element* out, const Pairs s) {
    EACH(s.batch * s.rows * s.cols) {
        const long long row = i / s.cols, b = row / s.rows;
        out[i] = element_of(distance(s, x + row * s.width, y + (b * s.cols + i % s.cols) * s.width));
    }
}

extern "C" __global__ void pairs_gradient(const Element* grad, const Element* x, const Element* y, const Element* distances,
                                          Element* out, const Pairs s) {
    EACH(s.batch * s.rows * s.width) {
        const long long row = i / s.width, b = row / s.rows, e = i % s.width;
        const Value here = value_of(x[i]);
        Value sum = 0;
        for (long long j = 0; j < s.cols; j++) {
            const long long pair = row * s.cols + j;
            sum += derivative(s, here, value_of(y[(b * s.cols + j) * s.width + e]), value_of(grad[pair]), value_of(distances[pair]));
        }
        out[i] = element_of(sum);
    }
}

// Where the distance of two rows of one matrix is, of which the first one comes first.
__device__ __forceinline__ long long place_of(const Pairs& s, long long a, long long b) {
    return a * s.rows - a * (a + 1) / 2 + b - a - 1;
}

extern "C" __global__ void among(const Element* x, Element* out, const Pairs s) {
    EACH(s.rows * s.rows) {
        const long long a = i / s.rows, b = i % s.rows;
        if (a < b) out[place_of(s, a, b)] = element_of(distance(s, x + a * s.width, x + b * s.width));
    }
}

extern "C" __global__ void among_gradient(const Element* grad, const Element* x, const Element* distances, Element* out, const Pairs s) {
    EACH(s.rows * s.width) {
        const long long row = i / s.width, e = i % s.width;
        const Value here = value_of(x[i]);
        Value sum = 0;
        for (long long j = 0; j < s.rows; j++) {
            if (j == row) continue;
            const long long pair = j < row ? place_of(s, j, row) : place_of(s, row, j);
            const Value there = value_of(x[j * s.width + e]), g = value_of(grad[pair]), far = value_of(distances[pair]);
            if (j < row) sum -= derivative(s, there, here, g, far);
            else sum += derivative(s, here, there, g, far);
        }
        out[i] = element_of(sum);
    }
}
