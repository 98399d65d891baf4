// Fourier transforms of rows of complex numbers, as stages of Stockham's. Before this stand the prelude and the type Real.
//
// Before a stage there are transforms of `done` elements: those of every `rest * radix`-th element, one after another.
// A stage makes `radix` of them one. A thread computes one element, whose parts it adds up in order.

struct Complex { Real re, im; };
struct Stage { long long rows, length, done, radix; double sign, scale; };

__device__ __forceinline__ void turn(double part, double& cosine, double& sine) { sincospi(2 * part, &sine, &cosine); }
__device__ __forceinline__ void turn(float part, float& cosine, float& sine) { sincospif(2 * part, &sine, &cosine); }

#define EACH(COUNT)                                                                                                        \
    const long long step = (long long)gridDim.x * blockDim.x, count = COUNT;                                               \
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)

extern "C" __global__ void stage(const Complex* x, Complex* y, const Stage s) {
    const long long whole = s.done * s.radix, rest = s.length / whole;
    EACH(s.rows * s.length) {
        const long long row = at / s.length, place = at % s.length;
        const long long column = place / whole, frequency = place % whole, i = frequency % s.done;
        const Complex* of = x + row * s.length + column * s.done + i;
        Complex sum = {0, 0};
        long long turned = 0;
        for (long long k = 0; k < s.radix; k++) {
            const Complex e = of[k * rest * s.done];
            Real c, d;
            turn((Real)turned / (Real)whole, c, d);
            d *= (Real)s.sign;
            sum.re += e.re * c - e.im * d;
            sum.im += e.re * d + e.im * c;
            turned += frequency;
            if (turned >= whole) turned -= whole;
        }
        y[at].re = sum.re * (Real)s.scale;
        y[at].im = sum.im * (Real)s.scale;
    }
}

// The whole rows of frequencies of which there is one half: the others are conjugates. So rows of a real signal are real.
extern "C" __global__ void whole_of_half(const Complex* x, Complex* y, const Stage s) {
    const long long half = s.length / 2 + 1;
    EACH(s.rows * s.length) {
        const long long row = at / s.length, place = at % s.length, there = place < half ? place : s.length - place;
        Complex e = x[row * half + there];
        // what can not be of a real signal does not count
        if (there == 0 || 2 * there == s.length) e.im = 0;
        if (place >= half) e.im = -e.im;
        y[at] = e;
    }
}
