// Pools and resampling. Before this stand the prelude and the types of the elements. All have three
// dimensions; what has fewer has ones in front. A thread computes an element of its result and adds up in the
// order of the other tensor's elements: gradients are gathered, not scattered.

struct Plane { long long planes, in[3], out[3]; };

__device__ __forceinline__ long long low_of(long long a, long long b) { return a < b ? a : b; }
__device__ __forceinline__ long long high_of(long long a, long long b) { return a > b ? a : b; }
__device__ __forceinline__ long long ceil_of(long long a, long long b) { return (a + b - 1) / b; }

// The coordinates of an element of a plane.
__device__ __forceinline__ void at(long long i, const long long* sizes, long long& plane, long long* c) {
    for (int d = 2; d >= 0; d--) {
        const long long next = i / sizes[d];
        c[d] = i - next * sizes[d];
        i = next;
    }
    plane = i;
}

#define EACH(COUNT)                                                                                                        \
    const long long step = (long long)gridDim.x * blockDim.x, count = COUNT;                                               \
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)

// ---- windows of one size ----

struct Windows { Plane p; long long kernel[3], stride[3], pad[3], dilation[3], with_pad, divisor; };

extern "C" __global__ void max_pool(const Element* x, Element* out, long long* places, const Windows w) {
    const Plane& p = w.p;
    EACH(p.planes * p.out[0] * p.out[1] * p.out[2]) {
        long long plane, o[3], from[3], end[3];
        at(i, p.out, plane, o);
        for (int d = 0; d < 3; d++) {
            const long long begin = o[d] * w.stride[d] - w.pad[d];
            end[d] = low_of(begin + (w.kernel[d] - 1) * w.dilation[d] + 1, p.in[d]);
            from[d] = begin < 0 ? begin + ceil_of(-begin, w.dilation[d]) * w.dilation[d] : begin;
        }
        long long place = (from[0] * p.in[1] + from[1]) * p.in[2] + from[2];
        Value best = LEAST;
        const Element* of = x + plane * p.in[0] * p.in[1] * p.in[2];
        for (long long a = from[0]; a < end[0]; a += w.dilation[0])
            for (long long b = from[1]; b < end[1]; b += w.dilation[1])
                for (long long c = from[2]; c < end[2]; c += w.dilation[2]) {
                    const long long here = (a * p.in[1] + b) * p.in[2] + c;
                    const Value v = value_of(of[here]);
                    if (v > best || v != v) {
                        best = v;
                        place = here;
                    }
                }
        out[i] = element_of(best);
        places[i] = place;
    }
}

// What the elements of a window are divided by, and where it lies.
__device__ __forceinline__ long long window(const Windows& w, const long long* o, long long* from, long long* end) {
    long long whole = 1, inside = 1;
    for (int d = 0; d < 3; d++) {
        const long long begin = o[d] * w.stride[d] - w.pad[d], stop = low_of(begin + w.kernel[d], w.p.in[d] + w.pad[d]);
        whole *= stop - begin;
        from[d] = high_of(begin, 0);
        end[d] = low_of(stop, w.p.in[d]);
        inside *= high_of(end[d] - from[d], 0);
    }
    return w.divisor ? w.divisor : w.with_pad ? whole : inside;
}

extern "C" __global__ void avg_pool(const Element* x, Element* out, const Windows w) {
    const Plane& p = w.p;
    EACH(p.planes * p.out[0] * p.out[1] * p.out[2]) {
        long long plane, o[3], from[3], end[3];
        at(i, p.out, plane, o);
        const long long by = window(w, o, from, end);
        Value sum = 0;
        bool some = false;
        for (long long a = from[0]; a < end[0]; a++)
            for (long long b = from[1]; b < end[1]; b++)
                for (long long c = from[2]; c < end[2]; c++) {
                    sum += value_of(x[((plane * p.in[0] + a) * p.in[1] + b) * p.in[2] + c]);
                    some = true;
                }
        out[i] = element_of(some ? sum / (Value)by : (Value)0);
    }
}

extern "C" __global__ void avg_pool_gradient(const Element* grad, Element* dx, const Windows w) {
    const Plane& p = w.p;
    EACH(p.planes * p.in[0] * p.in[1] * p.in[2]) {
        long long plane, c[3], first[3], last[3];
        at(i, p.in, plane, c);
        for (int d = 0; d < 3; d++) {
            const long long reach = c[d] + w.pad[d];
            first[d] = reach < w.kernel[d] ? 0 : (reach - w.kernel[d]) / w.stride[d] + 1;
            last[d] = low_of(reach / w.stride[d] + 1, p.out[d]);
        }
        Value sum = 0;
        for (long long a = first[0]; a < last[0]; a++)
            for (long long b = first[1]; b < last[1]; b++)
                for (long long e = first[2]; e < last[2]; e++) {
                    const long long o[3] = {a, b, e};
                    long long from[3], end[3];
                    const long long by = window(w, o, from, end);
                    sum += value_of(grad[((plane * p.out[0] + a) * p.out[1] + b) * p.out[2] + e]) / (Value)by;
                }
        dx[i] = element_of(sum);
    }
}

// ---- windows that share the elements among the results ----

__device__ __forceinline__ void share(const Plane& p, const long long* o, long long* from, long long* end) {
    for (int d = 0; d < 3; d++) {
        from[d] = o[d] * p.in[d] / p.out[d];
        end[d] = ceil_of((o[d] + 1) * p.in[d], p.out[d]);
    }
}

extern "C" __global__ void adaptive_avg_pool(const Element* x, Element* out, const Plane p) {
    EACH(p.planes * p.out[0] * p.out[1] * p.out[2]) {
        long long plane, o[3], from[3], end[3];
        at(i, p.out, plane, o);
        share(p, o, from, end);
        Value sum = 0;
        for (long long a = from[0]; a < end[0]; a++)
            for (long long b = from[1]; b < end[1]; b++)
                for (long long c = from[2]; c < end[2]; c++) sum += value_of(x[((plane * p.in[0] + a) * p.in[1] + b) * p.in[2] + c]);
        out[i] = element_of(sum / (Value)((end[0] - from[0]) * (end[1] - from[1]) * (end[2] - from[2])));
    }
}

extern "C" __global__ void adaptive_max_pool(const Element* x, Element* out, long long* places, const Plane p) {
    EACH(p.planes * p.out[0] * p.out[1] * p.out[2]) {
        long long plane, o[3], from[3], end[3];
        at(i, p.out, plane, o);
        share(p, o, from, end);
        long long place = (from[0] * p.in[1] + from[1]) * p.in[2] + from[2];
        Value best = LEAST;
        for (long long a = from[0]; a < end[0]; a++)
            for (long long b = from[1]; b < end[1]; b++)
                for (long long c = from[2]; c < end[2]; c++) {
                    const long long here = (a * p.in[1] + b) * p.in[2] + c;
                    const Value v = value_of(x[plane * p.in[0] * p.in[1] * p.in[2] + here]);
                    if (v > best || v != v) {
                        best = v;
                        place = here;
                    }
                }
        out[i] = element_of(best);
        places[i] = place;
    }
}

extern "C" __global__ void adaptive_gradient(const Element* grad, Element* dx, const Plane p) {
    EACH(p.planes * p.in[0] * p.in[1] * p.in[2]) {
        long long plane, c[3], first[3], last[3];
        at(i, p.in, plane, c);
        for (int d = 0; d < 3; d++) {
            first[d] = c[d] * p.out[d] / p.in[d];
            last[d] = ceil_of((c[d] + 1) * p.out[d], p.in[d]);
        }
        Value sum = 0;
        for (long long a = first[0]; a < last[0]; a++)
            for (long long b = first[1]; b < last[1]; b++)
                for (long long e = first[2]; e < last[2]; e++) {
                    const long long o[3] = {a, b, e};
                    long long from[3], end[3];
                    share(p, o, from, end);
                    const long long all = (end[0] - from[0]) * (end[1] - from[1]) * (end[2] - from[2]);
                    sum += value_of(grad[((plane * p.out[0] + a) * p.out[1] + b) * p.out[2] + e]) / (Value)all;
                }
        dx[i] = element_of(sum);
    }
}

// ---- padding ----

struct Padded { Plane p; long long pad[3]; };

// The results of a dimension that a mirrored element is, in ascending order.
__device__ __forceinline__ int mirrored(const Padded& w, int d, long long c, long long* places) {
    const long long last = w.p.in[d] - 1, all[3] = {w.pad[d] - c, w.pad[d] + c, w.pad[d] + 2 * last - c};
    const bool there[3] = {c > 0, true, c < last};
    int count = 0;
    for (int k = 0; k < 3; k++)
        if (there[k] && all[k] >= 0 && all[k] < w.p.out[d]) places[count++] = all[k];
    return count;
}

extern "C" __global__ void reflection_gradient(const Element* grad, Element* dx, const Padded w) {
    const Plane& p = w.p;
    EACH(p.planes * p.in[0] * p.in[1] * p.in[2]) {
        long long plane, c[3], places[3][3];
        int count[3];
        at(i, p.in, plane, c);
        for (int d = 0; d < 3; d++) count[d] = mirrored(w, d, c[d], places[d]);
        Value sum = 0;
        for (int a = 0; a < count[0]; a++)
            for (int b = 0; b < count[1]; b++)
                for (int e = 0; e < count[2]; e++)
                    sum += value_of(grad[((plane * p.out[0] + places[0][a]) * p.out[1] + places[1][b]) * p.out[2] + places[2][e]]);
        dx[i] = element_of(sum);
    }
}

extern "C" __global__ void replication_gradient(const Element* grad, Element* dx, const Padded w) {
    const Plane& p = w.p;
    EACH(p.planes * p.in[0] * p.in[1] * p.in[2]) {
        long long plane, c[3], from[3], end[3];
        at(i, p.in, plane, c);
        for (int d = 0; d < 3; d++) {
            const long long place = c[d] + w.pad[d];
            from[d] = c[d] == 0 ? 0 : high_of(place, 0);
            end[d] = c[d] == p.in[d] - 1 ? p.out[d] : low_of(place + 1, p.out[d]);
        }
        Value sum = 0;
        for (long long a = from[0]; a < end[0]; a++)
            for (long long b = from[1]; b < end[1]; b++)
                for (long long e = from[2]; e < end[2]; e++)
                    sum += value_of(grad[((plane * p.out[0] + a) * p.out[1] + b) * p.out[2] + e]);
        dx[i] = element_of(sum);
    }
}

// ---- columns ----

// The sums of the columns that windows were laid out in: the results' sizes are how many windows there are.
extern "C" __global__ void fold(const Element* x, Element* image, const Windows w) {
    const Plane& p = w.p;
    const long long blocks = p.out[0] * p.out[1] * p.out[2];
    EACH(p.planes * p.in[0] * p.in[1] * p.in[2]) {
        long long plane, c[3];
        at(i, p.in, plane, c);
        Value sum = 0;
        long long k[3];
        for (k[0] = 0; k[0] < w.kernel[0]; k[0]++)
            for (k[1] = 0; k[1] < w.kernel[1]; k[1]++)
                for (k[2] = 0; k[2] < w.kernel[2]; k[2]++) {
                    long long block = 0;
                    bool inside = true;
                    for (int d = 0; d < 3; d++) {
                        const long long begin = c[d] + w.pad[d] - k[d] * w.dilation[d], o = begin / w.stride[d];
                        inside = inside && begin >= 0 && begin == o * w.stride[d] && o < p.out[d];
                        block = block * p.out[d] + o;
                    }
                    if (!inside) continue;
                    const long long row = ((plane * w.kernel[0] + k[0]) * w.kernel[1] + k[1]) * w.kernel[2] + k[2];
                    sum += value_of(x[row * blocks + block]);
                }
        image[i] = element_of(sum);
    }
}

// ---- resampling ----

#define NEAREST 0
#define NEAREST_EXACT 1
#define LINEAR 2
#define CUBIC 3

struct Resample { Plane p; double scale[3]; long long mode, aligned; };

// Where a result lies among the elements of a dimension.
__device__ __forceinline__ Value source(const Resample& r, int d, long long o) {
    const Value scale = (Value)r.scale[d];
    if (r.mode == NEAREST) return scale * (Value)o;
    if (r.mode == NEAREST_EXACT) return ((Value)o + (Value)0.5) * scale;
    if (r.aligned) return scale * (Value)o;
    const Value at = scale * ((Value)o + (Value)0.5) - (Value)0.5;
    return r.mode == LINEAR && at < 0 ? (Value)0 : at;
}

// The weights of cubic convolution with -0.75.
__device__ __forceinline__ Value near_one(Value x) { return (((Value)1.25 * x - (Value)2.25) * x) * x + (Value)1; }
__device__ __forceinline__ Value near_two(Value x) { return (((Value)-0.75 * x + (Value)3.75) * x - (Value)6) * x + (Value)3; }

// ---- with means over what a result covers ----

#define ANTIALIASED 4
#define CUBIC_ANTIALIASED 5

// Where a result's elements begin, how many they are, and how far from its middle the first one's is.
struct Covered { long long first, count; Value center, shrink; };

__device__ __forceinline__ Covered covered(const Resample& r, int d, long long o) {
    const Value scale = (Value)r.scale[d], half = (Value)0.5, reach = r.mode == CUBIC_ANTIALIASED ? (Value)2 : (Value)1;
    const Value support = scale >= 1 ? reach * scale : reach;
    Covered c;
    c.shrink = scale >= 1 ? (Value)1 / scale : (Value)1;
    c.center = scale * ((Value)o + half);
    c.first = high_of((long long)(c.center - support + half), 0);
    c.count = high_of(low_of((long long)(c.center + support + half), r.p.in[d]) - c.first, 0);
    return c;
}

// The weight of an element among those that a result covers, by its distance: a triangle, or Keys' cubic with -1/2.
__device__ __forceinline__ Value filter(const Resample& r, const Covered& c, long long k) {
    Value x = ((Value)(k + c.first) - c.center + (Value)0.5) * c.shrink;
    if (x < 0) x = -x;
    if (r.mode == ANTIALIASED) return x < 1 ? (Value)1 - x : (Value)0;
    const Value a = (Value)-0.5;
    if (x < 1) return ((a + (Value)2) * x - (a + (Value)3)) * x * x + (Value)1;
    return x < 2 ? (((x - (Value)5) * x + (Value)8) * x - (Value)4) * a : (Value)0;
}

__device__ __forceinline__ Value total(const Resample& r, const Covered& c) {
    Value sum = 0;
    for (long long k = 0; k < c.count; k++) sum += filter(r, c, k);
    return sum == 0 ? (Value)1 : sum;
}

extern "C" __global__ void antialias(const Element* x, Element* out, const Resample r) {
    const Plane& p = r.p;
    EACH(p.planes * p.out[0] * p.out[1] * p.out[2]) {
        long long plane, o[3];
        Covered c[3];
        Value by[3];
        at(i, p.out, plane, o);
        for (int d = 0; d < 3; d++) {
            c[d] = covered(r, d, o[d]);
            by[d] = total(r, c[d]);
        }
        Value sum = 0;
        for (long long a = 0; a < c[0].count; a++)
            for (long long b = 0; b < c[1].count; b++) {
                const Value w = filter(r, c[0], a) / by[0] * (filter(r, c[1], b) / by[1]);
                const Element* row = x + ((plane * p.in[0] + c[0].first + a) * p.in[1] + c[1].first + b) * p.in[2] + c[2].first;
                Value of = 0;
                for (long long e = 0; e < c[2].count; e++) of += filter(r, c[2], e) / by[2] * value_of(row[e]);
                sum += w * of;
            }
        out[i] = element_of(sum);
    }
}

// The weight of an element in a result of a dimension.
__device__ __forceinline__ Value covering(const Resample& r, int d, long long o, long long at) {
    const Covered c = covered(r, d, o);
    return at < c.first || at >= c.first + c.count ? (Value)0 : filter(r, c, at - c.first) / total(r, c);
}

extern "C" __global__ void antialias_gradient(const Element* grad, Element* dx, const Resample r) {
    const Plane& p = r.p;
    EACH(p.planes * p.in[0] * p.in[1] * p.in[2]) {
        long long plane, c[3], first[3], end[3];
        at(i, p.in, plane, c);
        for (int d = 0; d < 3; d++) {
            const double scale = r.scale[d], reach = r.mode == CUBIC_ANTIALIASED ? 2 : 1, wide = reach * (scale > 1 ? scale : 1) + 1;
            first[d] = 0;
            end[d] = p.out[d];
            if (scale <= 0) continue;
            first[d] = high_of((long long)floor(((double)c[d] - wide) / scale) - 1, 0);
            end[d] = low_of((long long)ceil(((double)c[d] + wide) / scale) + 2, end[d]);
        }
        Value sum = 0;
        for (long long a = first[0]; a < end[0]; a++) {
            const Value wa = covering(r, 0, a, c[0]);
            if (wa == 0) continue;
            for (long long b = first[1]; b < end[1]; b++) {
                const Value wb = wa * covering(r, 1, b, c[1]);
                if (wb == 0) continue;
                for (long long e = first[2]; e < end[2]; e++) {
                    const Value w = wb * covering(r, 2, e, c[2]);
                    if (w != 0) sum += w * value_of(grad[((plane * p.out[0] + a) * p.out[1] + b) * p.out[2] + e]);
                }
            }
        }
        dx[i] = element_of(sum);
    }
}

// ---- with a few elements ----

// The elements that a result is made of, and their weights.
__device__ __forceinline__ int taps(const Resample& r, int d, long long o, long long* places, Value* weights) {
    const long long last = r.p.in[d] - 1;
    const Value at = source(r, d, o), low = floor(at);
    const long long first = (long long)low;
    if (r.mode <= NEAREST_EXACT) {
        places[0] = low_of(first, last);
        weights[0] = 1;
        return 1;
    }
    const Value part = at - low;
    if (r.mode == LINEAR) {
        places[0] = low_of(first, last);
        places[1] = low_of(first + 1, last);
        weights[0] = (Value)1 - part;
        weights[1] = part;
        return 2;
    }
    for (int k = 0; k < 4; k++) places[k] = high_of(low_of(first - 1 + k, last), 0);
    weights[0] = near_two(part + (Value)1);
    weights[1] = near_one(part);
    weights[2] = near_one((Value)1 - part);
    weights[3] = near_two((Value)2 - part);
    return 4;
}

extern "C" __global__ void resample(const Element* x, Element* out, const Resample r) {
    const Plane& p = r.p;
    EACH(p.planes * p.out[0] * p.out[1] * p.out[2]) {
        long long plane, o[3], places[3][4];
        Value weights[3][4];
        int count[3];
        at(i, p.out, plane, o);
        for (int d = 0; d < 3; d++) count[d] = taps(r, d, o[d], places[d], weights[d]);
        Value sum = 0;
        for (int a = 0; a < count[0]; a++)
            for (int b = 0; b < count[1]; b++) {
                Value row = 0;
                for (int c = 0; c < count[2]; c++)
                    row += weights[2][c] * value_of(x[((plane * p.in[0] + places[0][a]) * p.in[1] + places[1][b]) * p.in[2] + places[2][c]]);
                sum += weights[0][a] * (weights[1][b] * row);
            }
        out[i] = element_of(sum);
    }
}

// The results of a dimension that an element may be part of.
__device__ __forceinline__ void reach(const Resample& r, int d, long long c, long long& first, long long& end) {
    first = 0;
    end = r.p.out[d];
    if (r.scale[d] <= 0) return;
    const double wide = r.mode == CUBIC ? 3 : 2;
    first = high_of((long long)floor(((double)c - wide) / r.scale[d]) - 1, 0);
    end = low_of((long long)ceil(((double)c + wide) / r.scale[d]) + 2, end);
    // what lies beyond the ends is the last element's
    if (c == r.p.in[d] - 1) end = r.p.out[d];
}

__device__ __forceinline__ Value weight_of(const Resample& r, int d, long long o, long long c) {
    long long places[4];
    Value weights[4], sum = 0;
    const int count = taps(r, d, o, places, weights);
    for (int k = 0; k < count; k++) sum += places[k] == c ? weights[k] : (Value)0;
    return sum;
}

extern "C" __global__ void resample_gradient(const Element* grad, Element* dx, const Resample r) {
    const Plane& p = r.p;
    EACH(p.planes * p.in[0] * p.in[1] * p.in[2]) {
        long long plane, c[3], first[3], end[3];
        at(i, p.in, plane, c);
        for (int d = 0; d < 3; d++) reach(r, d, c[d], first[d], end[d]);
        Value sum = 0;
        for (long long a = first[0]; a < end[0]; a++) {
            const Value wa = weight_of(r, 0, a, c[0]);
            if (wa == 0) continue;
            for (long long b = first[1]; b < end[1]; b++) {
                const Value wb = wa * weight_of(r, 1, b, c[1]);
                if (wb == 0) continue;
                for (long long e = first[2]; e < end[2]; e++) {
                    const Value w = wb * weight_of(r, 2, e, c[2]);
                    if (w != 0) sum += w * value_of(grad[((plane * p.out[0] + a) * p.out[1] + b) * p.out[2] + e]);
                }
            }
        }
        dx[i] = element_of(sum);
    }
}
