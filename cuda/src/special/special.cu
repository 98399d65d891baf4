// Special functions of double precision, by the series, fractions and expansions that they have on the CPU
// (`runtime/src/cpu/math/special`), or from CUDA's library. Before this stand the prelude, the types of the elements,
// `Bits`, and the macro APPLY: what is computed of a pair of elements. A thread computes an element at a time.

#define PI 3.14159265358979323846
#define EULER 0.57721566490153286061
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000ll)
#define EXACT 1e-18

__device__ const double BERNOULLI[12] = {
    1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0,
    43867.0 / 798.0, -174611.0 / 330.0, 854513.0 / 138.0, -236364091.0 / 2730.0,
};

// ---- gamma and its kin ----

// What Stirling's formula leaves of ln(gamma(x)), for x >= 12.
static __device__ double stirling_rest(double x) {
    const double square = 1 / (x * x);
    double power = 1 / x, sum = 0;
    for (int k = 0; k < 9; k++) {
        const double n = 2.0 * (k + 1);
        sum += BERNOULLI[k] / (n * (n - 1)) * power;
        power *= square;
    }
    return sum;
}

static __device__ double digamma(double x) {
    if (x == 0) return copysign(INFINITE, -x);
    if (x != x || x == INFINITE) return x;
    double reflected = 0;
    if (x < 0) {
        if (x == floor(x)) return NOT_A_NUMBER;
        reflected = PI / tan(PI * (x - trunc(x)));
        x = 1 - x;
    }
    double sum = 0, y = x;
    for (; y < 12; y += 1) sum -= 1 / y;
    const double square = 1 / (y * y);
    double power = square, rest = 0;
    for (int k = 0; k < 9; k++) {
        rest += BERNOULLI[k] / (2.0 * (k + 1)) * power;
        power *= square;
    }
    return sum + log(y) - 0.5 / y - rest - reflected;
}

// Hurwitz's zeta function for x > 1 and q > 0, by Euler and Maclaurin.
static __device__ double zeta_above(double x, double q) {
    if (x != x || q != q) return NOT_A_NUMBER;
    double sum = 0, at = q;
    for (int terms = 0; terms < 10 || at <= 10; terms++) {
        const double term = pow(at, -x);
        sum += term;
        at += 1;
        if (term < 1e-17 * sum) return sum;
    }
    const double first = pow(at, -x);
    sum += first * at / (x - 1) + 0.5 * first;
    double factor = x * first / at, factorial = 2;
    for (int k = 0; k < 12; k++) {
        const double term = BERNOULLI[k] / factorial * factor;
        sum += term;
        if (fabs(term) < 1e-17 * fabs(sum)) break;
        const double n = 2.0 * (k + 1);
        factor *= (x + n - 1) * (x + n) / (at * at);
        factorial *= (n + 1) * (n + 2);
    }
    return sum;
}

static __device__ double zeta(double x, double q) {
    if (x == 1) return INFINITE;
    if (x < 1) return NOT_A_NUMBER;
    if (q <= 0) {
        if (q == floor(q)) return INFINITE;
        if (x != floor(x)) return NOT_A_NUMBER;
        // the terms below 0 are those of two series on the other side
        const double below = floor(q), fraction = q - below, sign = fmod(x, 2.0) == 0 ? 1 : -1;
        const double mirrored = zeta_above(x, 1 - fraction) - zeta_above(x, 1 - fraction - below);
        return zeta_above(x, fraction) + sign * mirrored;
    }
    return zeta_above(x, q);
}

// sin(pi x), with the multiple of the period taken off first.
static __device__ double sin_of_pi(double x) {
    const double r = x - 2 * round(x / 2);
    return sin(PI * (r > 0.5 ? 1 - r : r < -0.5 ? -1 - r : r));
}

static __device__ double trigamma(double x) {
    if (x == INFINITE) return 0;
    if (x < 0.5) {
        // at a pole PyTorch has the sine of a rounded multiple of pi, and so a finite number
        const double sine = x == trunc(x) ? sin(PI * x) : sin_of_pi(x);
        return (PI / sine) * (PI / sine) - zeta(2, 1 - x);
    }
    return zeta(2, x);
}

static __device__ double polygamma(long long n, double x) {
    if (n == 0) return digamma(x);
    if (n == 1) return trigamma(x);
    return (n % 2 ? 1.0 : -1.0) * exp(lgamma(n + 1.0)) * zeta(n + 1.0, x);
}

// As far as the bounds of single precision show.
static __device__ double polygamma_of_single(long long n, double x) {
    if (n == 1 && x <= 0 && x == trunc(x)) {
        const double sine = sinf(3.14159274101257324219f * (float)x);
        return (PI / sine) * (PI / sine) + zeta(2, 1 - x);
    }
    if (n < 2) return polygamma(n, x);
    const double factor = exp(lgamma(n + 1.0)), sum = zeta(n + 1.0, x);
    return (n % 2 ? 1.0 : -1.0) * (double)(float)factor * (double)(float)sum;
}

// ---- the regularised incomplete gamma functions ----

// ln(1 + m) - m without cancellation.
static __device__ double log1p_minus(double m) {
    if (fabs(m) > 0.1) return log1p(m) - m;
    double power = m, sum = 0;
    for (int k = 2; k < 40; k++) {
        power *= -m;
        const double term = power / k;
        sum += term;
        if (fabs(term) < EXACT * fabs(sum)) break;
    }
    return sum;
}

// x^a e^-x / gamma(a), without the cancellation that large a bring.
static __device__ double gamma_prefix(double a, double x) {
    if (a < 20) return exp(a * log(x) - x - lgamma(a));
    const double m = (x - a) / a;
    const double exponent = fabs(m) < 0.5 ? a * log1p_minus(m) : a * log(x / a) - (x - a);
    return exp(exponent - stirling_rest(a)) * sqrt(a / (2 * PI));
}

static __device__ double gamma_series(double a, double x) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 200000; n++) {
        term *= x / (a + n);
        sum += term;
        if (term < 1e-17 * sum) break;
    }
    return sum * gamma_prefix(a, x);
}

// Legendre's continued fraction, evaluated as Lentz does.
static __device__ double gamma_fraction(double a, double x) {
    const double tiny = 1e-300;
    double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
    for (int n = 1; n < 200000; n++) {
        const double an = -n * (n - a);
        b += 2;
        d = an * d + b;
        if (fabs(d) < tiny) d = tiny;
        c = b + an / c;
        if (fabs(c) < tiny) c = tiny;
        d = 1 / d;
        const double step = d * c;
        h *= step;
        if (fabs(step - 1) < 1e-16) break;
    }
    return h * gamma_prefix(a, x);
}

// For small x and a below 1 or so, where the upper one is a small difference.
static __device__ double upper_by_difference(double a, double x) {
    double term = 1, sum = 0;
    for (int n = 1; n < 200; n++) {
        term *= -x / n;
        const double step = term / (a + n);
        sum += step;
        if (fabs(step) < 1e-17 * fabs(sum)) break;
    }
    const double of = a * log(x) - lgamma(1 + a);
    return -expm1(of) - exp(of) * a * sum;
}

// The values at the borders of the domain; a border decides before NaN does.
static __device__ bool gamma_border(double a, double x, bool upper, double& result) {
    bool known = true, full = upper;
    if (a < 0 || x < 0) known = false;
    else if (a == 0) known = x > 0, full = !upper;
    else if (x == 0) ;
    else if (isinf(a)) known = !isinf(x);
    else if (isinf(x)) full = !upper;
    else if (a != a || x != x) known = false;
    else return false;
    result = !known ? NOT_A_NUMBER : full ? 1 : 0;
    return true;
}

static __device__ double igamma(double a, double x) {
    double result;
    if (gamma_border(a, x, false, result)) return result;
    if (x < a + 1) return fmin(gamma_series(a, x), 1.0);
    return 1 - gamma_fraction(a, x);
}

static __device__ double igammac(double a, double x) {
    double result;
    if (gamma_border(a, x, true, result)) return result;
    if (x >= a + 1) return gamma_fraction(a, x);
    if (x < 1.1 && a < 1) return upper_by_difference(a, x);
    return fmax(1 - gamma_series(a, x), 0.0);
}

// ---- of the error function and the normal distribution ----

static __device__ double log_ndtr(double x) {
    const double z = x / 1.41421356237309504880;
    return x < -1 ? log(erfcx(-z) / 2) - z * z : log1p(-erfc(z) / 2);
}

static __device__ double entr(double x) {
    return x != x ? x : x > 0 ? -x * log(x) : x == 0 ? 0 : -INFINITE;
}

// ---- Bessel functions ----

// The power series of I (sign 1) or J (sign -1).
static __device__ double bessel_series(int order, double x, double sign) {
    const double quarter = sign * x * x / 4;
    double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; k < 200; k++) {
        term *= quarter / ((double)k * (k + order));
        sum += term;
        if (fabs(term) < EXACT * fabs(sum)) break;
    }
    return sum;
}

// The sum of the expansion at infinity, with alternating signs or without.
static __device__ double far_sum(int order, double x, double sign) {
    const double m = 4.0 * order * order;
    double term = 1, sum = 0, alternating = 1;
    for (int k = 0; k < 40 && fabs(term) > EXACT; k++) {
        const double odd = 2.0 * k + 1;
        sum += alternating * term;
        alternating *= sign;
        term *= (m - odd * odd) / (8.0 * (k + 1) * x);
    }
    return sum;
}

// e^-x I(x) for x >= 0.
static __device__ double scaled_i(int order, double x) {
    if (x < 30) return bessel_series(order, x, 1) * exp(-x);
    return far_sum(order, x, -1) / sqrt(2 * PI * x);
}

// I(x) for x >= 0; NaN at infinity, as PyTorch's product of an infinity and 0 is.
static __device__ double unscaled_i(int order, double x) {
    if (isinf(x)) return NOT_A_NUMBER;
    if (x < 30) return bessel_series(order, x, 1);
    // in two steps, so that the result overflows no sooner than it must
    const double half = exp(x / 2);
    return scaled_i(order, x) * half * half;
}

static __device__ double odd_of(double x, double y) { return x < 0 ? -y : y; }

static __device__ double i0_of(double x) { return unscaled_i(0, fabs(x)); }
static __device__ double i1_of(double x) { return odd_of(x, unscaled_i(1, fabs(x))); }
static __device__ double i0e_of(double x) { return isinf(x) ? 0 : scaled_i(0, fabs(x)); }
static __device__ double i1e_of(double x) { return odd_of(x, isinf(x) ? 0 : scaled_i(1, fabs(x))); }
static __device__ double j0_of(double x) { return isinf(x) ? NOT_A_NUMBER : j0(x); }
static __device__ double j1_of(double x) { return isinf(x) ? NOT_A_NUMBER : j1(x); }
static __device__ double y0_of(double x) { return isinf(x) ? NOT_A_NUMBER : y0(x); }
static __device__ double y1_of(double x) { return isinf(x) ? NOT_A_NUMBER : y1(x); }

static __device__ double spherical_j0(double x) {
    if (isinf(x)) return 0;
    return fabs(x) < 1e-4 ? 1 - x * x / 6 : sin(x) / x;
}

// sum of (x^2 / 4)^k / (k! (k + order)!) with the harmonic numbers that belong to it.
static __device__ double harmonic_series(int order, double x) {
    const double quarter = x * x / 4;
    double term = 1, sum = 0, harmonic = 0, shifted = order;
    for (int k = 1; k < 40; k++) {
        sum += term * (harmonic + shifted);
        term *= quarter / ((double)k * (k + order));
        harmonic += 1.0 / k;
        shifted += 1.0 / (k + order);
    }
    return sum;
}

// e^x K(x) by the trapezoidal rule, which converges as fast as the integrand falls.
static __device__ double scaled_k_integral(double order, double x) {
    const double step = 0.1 / sqrt(fmax(x, 1.0));
    double sum = 0.5;
    for (int i = 1; i < 400; i++) {
        const double t = i * step, half = sinh(t / 2), term = exp(-2 * x * half * half) * cosh(order * t);
        sum += term;
        if (term < EXACT * sum) break;
    }
    return sum * step;
}

static __device__ double near_k(int order, double x) {
    const double of = log(x / 2) + EULER;
    if (order == 0) return harmonic_series(0, x) / 2 - of * i0_of(x);
    return 1 / x + of * i1_of(x) - x / 4 * harmonic_series(1, x);
}

static __device__ double scaled_k(int order, double x) {
    if (x == 0) return INFINITE;
    if (x < 0 || x != x) return NOT_A_NUMBER;
    if (x >= 30) return sqrt(PI / 2 / x) * far_sum(order, x, 1);
    return x >= 2 ? scaled_k_integral(order, x) : near_k(order, x) * exp(x);
}

static __device__ double unscaled_k(int order, double x) {
    return x > 0 && x < 2 ? near_k(order, x) : scaled_k(order, x) * exp(-x);
}

// Airy's function of the first kind; NaN at infinity, as PyTorch's.
static __device__ double airy_ai(double x) {
    if (!isfinite(x)) return NOT_A_NUMBER;
    const double zeta = 2.0 / 3.0 * fabs(x) * sqrt(fabs(x));
    if (x > 1) return sqrt(x / 3) / PI * scaled_k_integral(1.0 / 3.0, fmax(zeta, 2.0 / 3.0)) * exp(-zeta);
    if (x < -10) {
        double p = 0, q = 0, term = 1;
        for (int k = 0; k < 20; k++) {
            (k % 2 ? q : p) += k % 4 < 2 ? term : -term;
            const double n = k + 1;
            const double next = term * (6 * n - 5) * (6 * n - 3) * (6 * n - 1) / (216 * n * (2 * n - 1) * zeta);
            if (fabs(next) >= fabs(term) || fabs(next) < EXACT) break;
            term = next;
        }
        const double phase = zeta - PI / 4;
        return (cos(phase) * p + sin(phase) * q) / (sqrt(PI) * sqrt(sqrt(-x)));
    }
    // Taylor series of y'' = x y, in steps of at most 1 from 0
    double at = 0, value = 0.3550280538878172, slope = -0.2588194037928068;
    while (at != x) {
        const double to = x < 0 ? fmax(x, at - 1) : fmin(x, at + 1), h = to - at;
        double before = 0, here = value, next = slope, sum = value, derivative = 0, power = 1;
        for (int n = 0; n < 40; n++) {
            derivative += (n + 1.0) * next * power;
            power *= h;
            sum += next * power;
            const double after = (at * here + before) / ((n + 1.0) * (n + 2.0));
            before = here;
            here = next;
            next = after;
        }
        value = sum;
        slope = derivative;
        at = to;
    }
    return value;
}

// ---- small ones ----

static __device__ double sinc(double x) {
    return x == 0 ? 1 : isinf(x) ? NOT_A_NUMBER : sin_of_pi(x) / (PI * x);
}

static __device__ double logit(double x) { return log(x / (1 - x)); }

static __device__ double logaddexp2(double a, double b) {
    if (isinf(a) && a == b) return a;
    if (a != a || b != b) return NOT_A_NUMBER;
    return fmax(a, b) + log1p(exp2(-fabs(a - b))) * 1.44269504088896340736;
}

static __device__ unsigned long long size_of(long long a) { return a < 0 ? 0 - (unsigned long long)a : a; }

static __device__ unsigned long long gcd(long long a, long long b) {
    unsigned long long x = size_of(a), y = size_of(b);
    while (y) {
        const unsigned long long rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

static __device__ unsigned long long lcm(long long a, long long b) {
    const unsigned long long by = gcd(a, b);
    return by ? size_of((long long)(size_of(a) / by * size_of(b))) : 0;
}

#ifdef SIGN
// The next element from a towards b, by their bits.
static __device__ Element next_of(Element a, Element b) {
    const Value x = value_of(a), y = value_of(b);
    if (x != x || y != y) return element_of(x + y);
    if (x == y) return b;
    union { Element e; Bits bits; } of, to;
    of.e = a;
    to.e = b;
    if (x == 0) of.bits = (Bits)(1 | (to.bits & SIGN));
    else of.bits = (Bits)(of.bits + ((y > x) == (x > 0) ? 1 : -1));
    return of.e;
}

// A fraction of size 1/2 .. 1 and a power of 2; 0, infinities and NaN with the power 0.
static __device__ Element parts_of(Element e, int& power) {
    const double x = value_of(e);
    power = 0;
    if (x == 0 || !isfinite(x)) return e;
    return element_of((Value)frexp(x, &power));
}
#endif

struct Numbers { long long count, n; };

extern "C" __global__ void special(const Element* x, const Element* y, Element* out, int* second, const Numbers s) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.count; i += step) { APPLY; }
}
