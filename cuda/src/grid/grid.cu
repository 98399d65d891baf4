// Sampling images and volumes at the points of a grid. Before this stand the prelude and the types of the elements.
// Coordinates and weights are rounded to the elements' precision after each operation, as on the CPU: where a point
// falls between two positions decides which elements are taken.

#define LINEAR 0
#define NEAREST 1
#define CUBIC 2
#define ZEROS 0
#define BORDER 1
#define REFLECTION 2
#define TAPS 16

struct Grid { long long batch, channels, in[3], points, spatial, mode, padding, aligned; };

// An element that takes part in a point's value: its weight, and the derivatives of that by the coordinates, x first.
struct Tap { long long place; Value weight, slope[3]; };

__device__ __forceinline__ Value rounded(Value x) { return value_of(element_of(x)); }
__device__ __forceinline__ bool finite(Value x) { return x - x == 0; }

#define EACH(COUNT)                                                                                                        \
    const long long step = (long long)gridDim.x * blockDim.x, count = COUNT;                                               \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)

// A coordinate of the grid in elements, and how many elements one unit of the grid is.
__device__ Value unnormalized(const Grid& g, Value x, long long size, Value& unit) {
    const Value n = (Value)size, half = (Value)0.5;
    const Value up = rounded(x + (Value)1);
    if (g.aligned) {
        unit = rounded((n - (Value)1) / (Value)2);
        return g.spatial == 2 ? rounded(up * unit) : rounded(rounded(up / (Value)2) * rounded(n - (Value)1));
    }
    unit = rounded(n / (Value)2);
    if (g.spatial == 2) return rounded(rounded(up * unit) - half);
    return rounded(rounded(rounded(up * n) - (Value)1) / (Value)2);
}

// The nearest coordinate inside; NaN becomes 0. The derivative is 0 at and beyond the ends.
__device__ Value clipped(Value x, long long size, Value& slope) {
    const Value last = (Value)(size - 1);
    slope = x > 0 && x < last ? (Value)1 : (Value)0;
    return x > 0 ? x >= last ? last : x : (Value)0;
}

__device__ Value mirrored(const Grid& g, Value x, long long size, Value& slope) {
    const Value low = g.aligned ? (Value)0 : (Value)-0.5, span = (Value)(g.aligned ? size - 1 : size);
    slope = 0;
    if (span <= 0) return 0;
    const Value from = rounded(x - low), far = from < 0 ? -from : from, twice = (Value)2 * span;
    const Value extra = rounded(far - rounded(rounded(trunc(rounded(far / twice))) * twice));
    const Value back = rounded(twice - extra);
    slope = (from < 0) != (back < extra) ? (Value)-1 : (Value)1;
    // as the smaller of both, whatever is no number
    const Value least = extra != extra ? back : back != back ? extra : extra < back ? extra : back;
    return rounded(least + low);
}

// A coordinate brought inside of the input as the padding says, and the derivative of that.
__device__ Value inside(const Grid& g, Value x, long long size, Value& slope) {
    slope = 1;
    if (g.padding == ZEROS) return x;
    if (g.padding == BORDER) return clipped(x, size, slope);
    Value first, second;
    const Value at = clipped(mirrored(g, x, size, first), size, second);
    slope = first * second;
    return at;
}

// The place in a plane of whole coordinates, x first, or -1.
__device__ long long place_of(const Grid& g, const long long* at) {
    for (int a = 0; a < 3; a++)
        if (at[a] < 0 || at[a] >= g.in[2 - a]) return -1;
    return (at[2] * g.in[1] + at[1]) * g.in[2] + at[0];
}

// The weights of four neighbours, and their derivatives.
__device__ void cubic(Value t, Value* weights, Value* slopes) {
    const Value A = (Value)-0.75;
    for (int k = 0; k < 4; k++) {
        const Value x = k == 0 ? t + (Value)1 : k == 1 ? t : k == 2 ? (Value)1 - t : (Value)2 - t;
        const bool near = k == 1 || k == 2;
        weights[k] = rounded(near ? ((A + (Value)2) * x - (A + (Value)3)) * x * x + (Value)1
                                  : ((A * x - (Value)5 * A) * x + (Value)8 * A) * x - (Value)4 * A);
        const Value slope = near ? ((Value)3 * (A + (Value)2) * x - (Value)2 * (A + (Value)3)) * x
                                 : ((Value)3 * A * x - (Value)10 * A) * x + (Value)8 * A;
        slopes[k] = k < 2 ? slope : -slope;
    }
}

// The elements of a point; true where its coordinates are no numbers.
__device__ bool taps_of(const Grid& g, const Element* point, Tap* taps, int& count) {
    Value at[3] = {0, 0, 0}, factor[3] = {0, 0, 0};
    count = 0;
    for (int a = 0; a < g.spatial; a++) {
        const long long size = g.in[2 - a];
        Value unit, slope = 1;
        at[a] = unnormalized(g, value_of(point[a]), size, unit);
        if (g.mode != CUBIC) at[a] = inside(g, at[a], size, slope);
        factor[a] = slope * unit;
    }
    if (g.mode == NEAREST) {
        long long whole[3];
        for (int a = 0; a < 3; a++) whole[a] = finite(at[a]) && fabs(at[a]) < (Value)1e18 ? (long long)rint(at[a]) : -1;
        taps[0].place = place_of(g, whole);
        taps[0].weight = 1;
        for (int a = 0; a < 3; a++) taps[0].slope[a] = 0;
        count = taps[0].place >= 0;
        return false;
    }
    for (int a = 0; a < g.spatial; a++)
        if (!finite(at[a])) return true;
    Value low[3], part[3];
    for (int a = 0; a < 3; a++) {
        low[a] = floor(at[a]);
        part[a] = rounded(at[a] - low[a]);
    }
    if (g.mode == CUBIC) {
        Value wx[4], wy[4], sx[4], sy[4];
        cubic(part[0], wx, sx);
        cubic(part[1], wy, sy);
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 4; k++) {
                Value unused;
                const Value x = inside(g, low[0] + (Value)(k - 1), g.in[2], unused);
                const Value y = inside(g, low[1] + (Value)(j - 1), g.in[1], unused);
                const bool far = fabs(x) > (Value)1e18 || fabs(y) > (Value)1e18;
                const long long whole[3] = {far ? -1 : (long long)x, far ? -1 : (long long)y, 0};
                Tap& t = taps[count];
                t.place = place_of(g, whole);
                t.weight = rounded(wx[k] * wy[j]);
                t.slope[0] = sx[k] * wy[j] * factor[0];
                t.slope[1] = wx[k] * sy[j] * factor[1];
                t.slope[2] = 0;
                if (t.place >= 0) count++;
            }
        return false;
    }
    for (int corner = 0; corner < 1 << g.spatial; corner++) {
        long long whole[3];
        Value side[3];
        for (int a = 0; a < 3; a++) {
            const int up = corner >> a & 1;
            // what is so far out is outside anyway
            whole[a] = fabs(low[a]) > (Value)1e18 ? -1 : (long long)low[a] + up;
            // PyTorch takes the distance to the upper neighbour of volumes, which rounds differently
            side[a] = a >= g.spatial ? (Value)1 : up ? part[a]
                      : g.spatial == 3 ? rounded(low[a] + (Value)1 - at[a]) : rounded((Value)1 - part[a]);
        }
        Tap& t = taps[count];
        t.place = place_of(g, whole);
        t.weight = rounded(rounded(side[0] * side[1]) * side[2]);
        for (int a = 0; a < 3; a++) {
            const Value others = a == 0 ? side[1] * side[2] : a == 1 ? side[0] * side[2] : side[0] * side[1];
            t.slope[a] = a < g.spatial ? (corner >> a & 1 ? others : -others) * factor[a] : (Value)0;
        }
        if (t.place >= 0) count++;
    }
    return false;
}

__device__ __forceinline__ long long plane_of(const Grid& g) { return g.in[0] * g.in[1] * g.in[2]; }

extern "C" __global__ void sample(const Element* x, const Element* grid, Element* out, const Grid g) {
    EACH(g.batch * g.points) {
        Tap taps[TAPS];
        int used;
        const bool poison = taps_of(g, grid + i * g.spatial, taps, used);
        const long long n = i / g.points, p = i % g.points;
        for (long long c = 0; c < g.channels; c++) {
            const long long channel = n * g.channels + c;
            Value sum = 0;
            for (int k = 0; k < used; k++)
                sum = rounded(sum + rounded(value_of(x[channel * plane_of(g) + taps[k].place]) * taps[k].weight));
            out[channel * g.points + p] = element_of(poison ? number_of(__longlong_as_double(0x7ff8000000000000ll)) : sum);
        }
    }
}

extern "C" __global__ void grid_gradient(const Element* grad, const Element* x, const Element* grid, Element* out, const Grid g) {
    EACH(g.batch * g.points) {
        Tap taps[TAPS];
        int used;
        const bool poison = taps_of(g, grid + i * g.spatial, taps, used);
        const long long n = i / g.points, p = i % g.points;
        Value slopes[3] = {0, 0, 0};
        for (long long c = 0; c < g.channels; c++) {
            const long long channel = n * g.channels + c;
            const Value by = value_of(grad[channel * g.points + p]);
            for (int k = 0; k < used; k++) {
                const Value e = value_of(x[channel * plane_of(g) + taps[k].place]);
                for (int a = 0; a < g.spatial; a++) slopes[a] += e * taps[k].slope[a] * by;
            }
        }
        const Value nan = number_of(__longlong_as_double(0x7ff8000000000000ll));
        for (int a = 0; a < g.spatial; a++) out[i * g.spatial + a] = element_of(poison ? nan : slopes[a]);
    }
}

// Where each of a point's elements is, as a key that counts all planes of the batch, one beyond all where there is no
// element; and its weight.
extern "C" __global__ void places(const Element* grid, long long* keys, Element* weights, const Grid g, const long long taps_each) {
    EACH(g.batch * g.points) {
        Tap taps[TAPS];
        int used;
        taps_of(g, grid + i * g.spatial, taps, used);
        for (int k = 0; k < taps_each; k++) {
            keys[i * taps_each + k] = k < used ? i / g.points * plane_of(g) + taps[k].place : g.batch * plane_of(g);
            weights[i * taps_each + k] = element_of(k < used ? taps[k].weight : (Value)0);
        }
    }
}

// What comes to each element from the points that it takes part in, in their order.
extern "C" __global__ void input_gradient(const Element* grad, const Element* weights, const long long* order, const long long* begins,
                                          Element* out, const Grid g, const long long taps_each) {
    EACH(g.batch * g.channels * plane_of(g)) {
        const long long channel = i / plane_of(g), key = channel / g.channels * plane_of(g) + i % plane_of(g);
        const long long end = begins[key + 1];
        Value sum = 0;
        for (long long j = begins[key]; j < end; j++) {
            const long long item = order[j], p = item / taps_each % g.points;
            sum = rounded(sum + rounded(value_of(weights[item]) * value_of(grad[channel * g.points + p])));
        }
        out[i] = element_of(sum);
    }
}
