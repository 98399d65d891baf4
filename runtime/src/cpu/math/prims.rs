//! The vector primitives that every math function is built from.
//!
//! A function of [`super`] is written once, as a sequence of these operations. The scalar reference
//! and the eager SIMD types run the sequence, a code emitter records it. Each primitive is either
//! exact or rounded once as IEEE 754 says, so that all of them agree bit for bit; only the payload
//! and sign of a NaN are left open.

/// Which float the vectors hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// `f32` lanes, with `i32` integer lanes beside them.
    W32,
    /// `f64` lanes, with `i64` integer lanes beside them.
    W64,
}

/// A scalar routine that is applied lane by lane. Under [`Width::W32`] a lane is widened first and
/// the result rounded.
pub type ScalarFn1 = extern "C" fn(f64) -> f64;

/// The same for two operands.
pub type ScalarFn2 = extern "C" fn(f64, f64) -> f64;

/// Vector primitives over one float width.
///
/// Provided methods state their meaning as a sequence of the required ones; an implementation may
/// replace one by a faster instruction that gives the same bits.
// `from_bits` needs the emitter it writes to.
#[allow(clippy::wrong_self_convention)]
pub trait Prims {
    /// A vector of floats.
    type F: Copy;
    /// A vector of integers as wide as the floats.
    type I: Copy;
    /// The outcome of a comparison per lane.
    type M: Copy;

    /// The float width.
    fn width(&self) -> Width;
    /// Every lane the same constant, rounded to nearest under W32.
    fn f(&mut self, v: f64) -> Self::F;
    /// Every lane the same integer, its low 32 bits under W32.
    fn i(&mut self, v: i64) -> Self::I;

    /// `a + b`.
    fn add(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`.
    fn sub(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`.
    fn mul(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`.
    fn div(&mut self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c` with one rounding.
    fn fma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The sign bit flipped.
    fn neg(&mut self, a: Self::F) -> Self::F;
    /// The sign bit cleared.
    fn abs(&mut self, a: Self::F) -> Self::F;
    /// The correctly rounded square root.
    fn sqrt(&mut self, a: Self::F) -> Self::F;

    /// `a < b ? a : b`: the second operand where they are equal or unordered (the rule of x86
    /// `min`).
    #[inline(always)]
    fn min_raw(&mut self, a: Self::F, b: Self::F) -> Self::F {
        let m = self.lt(a, b);
        self.select(m, a, b)
    }
    /// `a > b ? a : b`: the second operand where they are equal or unordered (the rule of x86
    /// `max`).
    #[inline(always)]
    fn max_raw(&mut self, a: Self::F, b: Self::F) -> Self::F {
        let m = self.gt(a, b);
        self.select(m, a, b)
    }

    /// The largest integral value not above `a`.
    fn floor(&mut self, a: Self::F) -> Self::F;
    /// The smallest integral value not below `a`.
    fn ceil(&mut self, a: Self::F) -> Self::F;
    /// `a` without its fraction.
    fn trunc(&mut self, a: Self::F) -> Self::F;
    /// The nearest integral value, ties to even.
    fn round_even(&mut self, a: Self::F) -> Self::F;

    /// `a < b`, false when unordered.
    fn lt(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `a <= b`, false when unordered.
    fn le(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `a == b`, false when unordered.
    fn eq(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `a != b`, true when unordered.
    fn ne(&mut self, a: Self::F, b: Self::F) -> Self::M;
    /// `a > b`, false when unordered.
    #[inline(always)]
    fn gt(&mut self, a: Self::F, b: Self::F) -> Self::M {
        self.lt(b, a)
    }
    /// `a >= b`, false when unordered.
    #[inline(always)]
    fn ge(&mut self, a: Self::F, b: Self::F) -> Self::M {
        self.le(b, a)
    }

    /// Both masks set.
    fn and(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// Either mask set.
    fn or(&mut self, a: Self::M, b: Self::M) -> Self::M;
    /// The mask inverted.
    fn not(&mut self, a: Self::M) -> Self::M;
    /// `a` where the mask is set, else `b`.
    fn select(&mut self, m: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// `a` where the mask is set, else `b`, on integers.
    fn select_i(&mut self, m: Self::M, a: Self::I, b: Self::I) -> Self::I;

    /// The bits of a float as an integer.
    fn bits(&mut self, a: Self::F) -> Self::I;
    /// The float with these bits.
    fn from_bits(&mut self, a: Self::I) -> Self::F;
    /// Wrapping sum.
    fn iadd(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Wrapping difference.
    fn isub(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn iand(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn ior(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn ixor(&mut self, a: Self::I, b: Self::I) -> Self::I;
    /// Shift left by less than the width.
    fn ishl(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Shift right by less than the width, filling with zeros.
    fn ishr_u(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Shift right by less than the width, filling with the sign. The math functions do without it.
    fn ishr_s(&mut self, a: Self::I, n: u32) -> Self::I;
    /// Signed `a < b`.
    fn ilt(&mut self, a: Self::I, b: Self::I) -> Self::M;
    /// `a == b`.
    fn ieq(&mut self, a: Self::I, b: Self::I) -> Self::M;

    /// A float truncated to an integer. Defined for magnitudes below 2^31 (W32) or 2^51 (W64), any
    /// value elsewhere. The math functions do without it.
    fn to_int(&mut self, a: Self::F) -> Self::I;
    /// An integer as a float, rounded to nearest. Defined for magnitudes below 2^51 under W64.
    /// The math functions do without it.
    fn to_float(&mut self, a: Self::I) -> Self::F;

    /// `f` applied to every lane.
    fn call1(&mut self, f: ScalarFn1, x: Self::F) -> Self::F;
    /// `f` applied to every pair of lanes.
    fn call2(&mut self, f: ScalarFn2, x: Self::F, y: Self::F) -> Self::F;

    /// `f(x)` in the lanes of `m`, `fast` in the others. The mask is almost always empty, so an
    /// implementation does well to test it and branch around the calls; calling `f` on the other
    /// lanes does no harm.
    #[inline(always)]
    fn call1_where(&mut self, m: Self::M, f: ScalarFn1, x: Self::F, fast: Self::F) -> Self::F {
        let slow = self.call1(f, x);
        self.select(m, slow, fast)
    }

    /// [`Prims::call1_where`] for two operands.
    #[inline(always)]
    fn call2_where(
        &mut self,
        m: Self::M,
        f: ScalarFn2,
        x: Self::F,
        y: Self::F,
        fast: Self::F,
    ) -> Self::F {
        let slow = self.call2(f, x, y);
        self.select(m, slow, fast)
    }

    /// `x * 2^n` with one rounding, for integral `n` in [-252, 254] (W32) or [-2044, 2046] (W64)
    /// and `x` in [0.5, 2).
    ///
    /// The power is split in two factors, so that a result which overflows or is subnormal rounds
    /// properly. Adding a large constant puts `n` plus twice the exponent bias into the low bits of
    /// a float, from where shifts bring it into place. AVX-512 has one instruction for this
    /// (`vscalef`).
    #[inline(always)]
    fn scale(&mut self, x: Self::F, n: Self::F) -> Self::F {
        scale_in_steps(self, x, n)
    }
}

/// [`Prims::scale`] of other primitives.
#[inline(always)]
pub(crate) fn scale_in_steps<P: Prims + ?Sized>(p: &mut P, x: P::F, n: P::F) -> P::F {
    let (magic, shift) = match p.width() {
        Width::W32 => (12_582_912.0 + 254.0, 23),
        Width::W64 => (6_755_399_441_055_744.0 + 2046.0, 52),
    };
    let magic = p.f(magic);
    let t = p.add(n, magic);
    let sum = p.bits(t);
    let low = p.ishr_u(sum, 1);
    let high = p.isub(sum, low);
    let low = p.ishl(low, shift);
    let high = p.ishl(high, shift);
    let low = p.from_bits(low);
    let high = p.from_bits(high);
    let x = p.mul(x, low);
    p.mul(x, high)
}
