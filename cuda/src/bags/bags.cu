// Bags of rows of a table: sums, means and largest elements. Before this stand the prelude and the types of the elements.
// A thread computes a column of a bag, of whose rows it takes one after another.

#define SUM 0
#define MEAN 1
#define MAX 2

struct Bags { long long bags, width, mode, padding, samples; };

// `begins` has the first sample of each bag, and where the last one ends. `factors` may be 0; `sizes` and `largest`, of
// how many rows count in a bag and which row an element is of, too.
extern "C" __global__ void bags(const Element* table, const long long* rows, const long long* begins, const Element* factors,
                                Element* out, long long* sizes, long long* largest, const Bags b) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < b.bags * b.width; i += step) {
        const long long bag = i / b.width, column = i % b.width, end = begins[bag + 1];
        Value sum = 0;
        long long size = 0, place = 0;
        for (long long j = begins[bag]; j < end; j++) {
            if (rows[j] == b.padding) continue;
            const Value x = value_of(table[rows[j] * b.width + column]);
            if (b.mode != MAX) sum += factors ? x * value_of(factors[j]) : x;
            else if (size == 0 || x > sum) {
                sum = x;
                place = rows[j];
            }
            size++;
        }
        if (b.mode == MEAN && size > 1) sum /= (Value)size;
        out[i] = element_of(sum);
        if (largest) largest[i] = place;
        if (sizes && column == 0) sizes[bag] = size;
    }
}

// How much of its bag's gradient comes to the row of each sample.
extern "C" __global__ void shares(const Element* grad, const long long* bag_of, const long long* sizes, const Element* factors,
                                  const long long* counts, Element* out, const Bags b) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < b.samples * b.width; i += step) {
        const long long j = i / b.width, bag = bag_of[j];
        // in double precision, as on the CPU, until it meets the gradient
        double factor = factors ? (double)value_of(factors[j]) : 1.0;
        if (counts) factor /= (double)counts[j];
        if (b.mode == MEAN && sizes[bag] != 0) factor /= (double)sizes[bag];
        out[i] = element_of(value_of(grad[bag * b.width + i % b.width]) * (Value)factor);
    }
}
