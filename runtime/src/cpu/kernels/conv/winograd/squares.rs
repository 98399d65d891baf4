//! The matrices of Winograd's algorithm, by the size of a square, on vectors.

use crate::cpu::math::Prims;
use crate::cpu::math::simd::Simd;

/// Most rows of a square of inputs.
pub(super) const MOST: usize = 6;

/// A column: of inputs, products or outputs. What a size has less than [`MOST`] of is not looked at.
pub(super) type Column<S> = [<S as Prims>::F; MOST];

/// A size of squares.
pub(super) trait Squares: Copy {
    /// Rows of outputs.
    const OUTPUTS: usize;
    /// Rows of inputs that they see.
    const INPUTS: usize = Self::OUTPUTS + 2;
    /// `Bᵀ d` for a column of inputs.
    fn seen<S: Simd<Elem = f32>>(self, s: &mut S, d: Column<S>) -> Column<S>;
    /// `Aᵀ m` for a column of products.
    fn sums<S: Simd<Elem = f32>>(self, s: &mut S, m: Column<S>) -> Column<S>;
    /// `G g` for a column of taps.
    fn taps<S: Simd<Elem = f32>>(self, s: &mut S, g: [S::F; 3]) -> Column<S>;
}

/// F(2x2, 3x3): the points 0, 1, -1 and infinity.
#[derive(Clone, Copy)]
pub(super) struct Two;

impl Squares for Two {
    const OUTPUTS: usize = 2;

    #[inline(always)]
    fn seen<S: Simd<Elem = f32>>(self, s: &mut S, d: Column<S>) -> Column<S> {
        let zero = s.splat(0.0);
        let (first, last) = (s.sub(d[0], d[2]), s.sub(d[1], d[3]));
        [first, s.add(d[1], d[2]), s.sub(d[2], d[1]), last, zero, zero]
    }

    #[inline(always)]
    fn sums<S: Simd<Elem = f32>>(self, s: &mut S, m: Column<S>) -> Column<S> {
        let zero = s.splat(0.0);
        let (front, back) = (s.add(m[0], m[1]), s.sub(m[1], m[2]));
        [s.add(front, m[2]), s.sub(back, m[3]), zero, zero, zero, zero]
    }

    #[inline(always)]
    fn taps<S: Simd<Elem = f32>>(self, s: &mut S, g: [S::F; 3]) -> Column<S> {
        let (zero, half) = (s.splat(0.0), s.f(0.5));
        let ends = s.add(g[0], g[2]);
        let (plus, minus) = (s.add(ends, g[1]), s.sub(ends, g[1]));
        [g[0], s.mul(plus, half), s.mul(minus, half), g[2], zero, zero]
    }
}

/// F(4x4, 3x3): the points 0, 1, -1, 2, -2 and infinity.
#[derive(Clone, Copy)]
pub(super) struct Four;

impl Squares for Four {
    const OUTPUTS: usize = 4;

    #[inline(always)]
    fn seen<S: Simd<Elem = f32>>(self, s: &mut S, d: Column<S>) -> Column<S> {
        let (two, four, five) = (s.f(2.0), s.f(4.0), s.f(5.0));
        let (above, below) = (s.mul(d[0], four), s.mul(d[2], five));
        let front = s.sub(above, below);
        let first = s.add(front, d[4]);
        let (above, below) = (s.mul(d[1], four), s.mul(d[3], five));
        let front = s.sub(above, below);
        let last = s.add(front, d[5]);
        // at 1 and -1
        let (near, far) = (s.mul(d[2], four), s.mul(d[1], four));
        let (even, odd) = (s.sub(d[4], near), s.sub(d[3], far));
        let ones = [s.add(even, odd), s.sub(even, odd)];
        // at 2 and -2
        let (even, odd) = (s.sub(d[4], d[2]), s.sub(d[3], d[1]));
        let odd = s.mul(odd, two);
        [first, ones[0], ones[1], s.add(even, odd), s.sub(even, odd), last]
    }

    #[inline(always)]
    fn sums<S: Simd<Elem = f32>>(self, s: &mut S, m: Column<S>) -> Column<S> {
        let (zero, two, four, eight) = (s.splat(0.0), s.f(2.0), s.f(4.0), s.f(8.0));
        let (even, odd) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
        let (even_2, odd_2) = (s.add(m[3], m[4]), s.sub(m[3], m[4]));
        let first = s.add(m[0], even);
        let (twice, fourfold, eightfold) =
            (s.mul(odd_2, two), s.mul(even_2, four), s.mul(odd_2, eight));
        let last = s.add(odd, eightfold);
        [
            s.add(first, even_2),
            s.add(odd, twice),
            s.add(even, fourfold),
            s.add(last, m[5]),
            zero,
            zero,
        ]
    }

    #[inline(always)]
    fn taps<S: Simd<Elem = f32>>(self, s: &mut S, g: [S::F; 3]) -> Column<S> {
        let (quarter, sixth) = (s.f(0.25), s.f(-1.0 / 6.0));
        let (twelfth, small, large) = (s.f(1.0 / 12.0), s.f(1.0 / 24.0), s.f(1.0 / 6.0));
        let first = s.mul(g[0], quarter);
        let ends = s.add(g[0], g[2]);
        let (even, odd) = (s.mul(ends, sixth), s.mul(g[1], sixth));
        let ones = [s.add(even, odd), s.sub(even, odd)];
        let (low, high) = (s.mul(g[0], small), s.mul(g[2], large));
        let (even, odd) = (s.add(low, high), s.mul(g[1], twelfth));
        [first, ones[0], ones[1], s.add(even, odd), s.sub(even, odd), g[2]]
    }
}
