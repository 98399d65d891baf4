//! NEON, which every AArch64 has. A value is two 128-bit registers: with 32 of them there is room, and two independent
//! halves keep the pipes of narrow cores busy. Masks are lanes of all ones and all zeros.

use std::arch::aarch64::*;

use super::Simd;
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};

/// Eight lanes of `f32`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeonF32;

/// Four lanes of `f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeonF64;

/// The lower lanes, then the upper ones.
#[derive(Clone, Copy, Debug)]
pub struct Pair<T>(T, T);

/// Runs intrinsics on values.
macro_rules! arm {
    ($e:expr) => {
        // SAFETY: every AArch64 has NEON.
        unsafe { $e }
    };
}

/// An intrinsic on both registers.
macro_rules! both {
    ($f:ident($($x:expr),+)) => {
        arm!(Pair($f($($x.0),+), $f($($x.1),+)))
    };
    ($f:ident($($x:expr),+; $all:expr)) => {
        arm!(Pair($f($($x.0,)+ $all), $f($($x.1,)+ $all)))
    };
}

/// Some bit of either register is set.
///
/// The halves meet in a pairwise maximum, not in an `or`: LLVM makes of `a >= c || b >= c` the single comparison
/// `fmaxnm(a, b) >= c`, which is false where `a` is a signalling NaN and `b` large.
#[inline(always)]
fn any_bit(m: Pair<uint8x16_t>) -> bool {
    arm!(vmaxvq_u8(vpmaxq_u8(m.0, m.1)) != 0)
}

/// The first `n` of eight lanes.
#[inline(always)]
fn first_32(n: usize) -> Pair<uint32x4_t> {
    arm!({
        let order = vcombine_u32(vcreate_u32(0x1_0000_0000), vcreate_u32(0x3_0000_0002));
        let n = vdupq_n_u32(n as u32);
        Pair(
            vcltq_u32(order, n),
            vcltq_u32(vaddq_u32(order, vdupq_n_u32(4)), n),
        )
    })
}

/// The first `n` of four lanes.
#[inline(always)]
fn first_64(n: usize) -> Pair<uint64x2_t> {
    arm!({
        let order = vcombine_u64(vcreate_u64(0), vcreate_u64(1));
        let n = vdupq_n_u64(n as u64);
        Pair(
            vcltq_u64(order, n),
            vcltq_u64(vaddq_u64(order, vdupq_n_u64(2)), n),
        )
    })
}

macro_rules! neon {
    (
        $name:ident, $elem:ty, $int:ty, $lanes:literal, $float_register:ty, $int_register:ty, $mask_register:ty,
        $width:expr,
        set1 $set1:ident, iset1 $iset1:ident, add $add:ident, sub $sub:ident, mul $mul:ident, div $div:ident,
        fma $fma:ident, neg $neg:ident, abs $abs:ident, sqrt $sqrt:ident, floor $floor:ident, ceil $ceil:ident,
        trunc $trunc:ident, round $round:ident, lt $lt:ident, le $le:ident, eq $eq:ident, and $and:ident, or $or:ident,
        uset1 $uset1:ident, or_not $or_not:ident, select $select:ident, iselect $iselect:ident, bits $bits:ident, from_bits $from_bits:ident,
        iadd $iadd:ident, isub $isub:ident, iand $iand:ident, ior $ior:ident, ixor $ixor:ident, shl $shl:ident,
        shl_u $shl_u:ident, unsigned $unsigned:ident, signed $signed:ident, ilt $ilt:ident, ieq $ieq:ident,
        to_int $to_int:ident, to_float $to_float:ident, load $load:ident, store $store:ident, first $first:ident,
        bytes $bytes:ident
    ) => {
        impl Prims for $name {
            type F = Pair<$float_register>;
            type I = Pair<$int_register>;
            type M = Pair<$mask_register>;

            #[inline(always)]
            fn width(&self) -> Width {
                $width
            }
            #[inline(always)]
            fn f(&mut self, v: f64) -> Self::F {
                self.splat(v as $elem)
            }
            #[inline(always)]
            fn i(&mut self, v: i64) -> Self::I {
                let v = arm!($iset1(v as $int));
                Pair(v, v)
            }
            #[inline(always)]
            fn add(&mut self, a: Self::F, b: Self::F) -> Self::F {
                both!($add(a, b))
            }
            #[inline(always)]
            fn sub(&mut self, a: Self::F, b: Self::F) -> Self::F {
                both!($sub(a, b))
            }
            #[inline(always)]
            fn mul(&mut self, a: Self::F, b: Self::F) -> Self::F {
                both!($mul(a, b))
            }
            #[inline(always)]
            fn div(&mut self, a: Self::F, b: Self::F) -> Self::F {
                both!($div(a, b))
            }
            #[inline(always)]
            fn fma(&mut self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
                both!($fma(c, a, b))
            }
            #[inline(always)]
            fn neg(&mut self, a: Self::F) -> Self::F {
                both!($neg(a))
            }
            #[inline(always)]
            fn abs(&mut self, a: Self::F) -> Self::F {
                both!($abs(a))
            }
            #[inline(always)]
            fn sqrt(&mut self, a: Self::F) -> Self::F {
                both!($sqrt(a))
            }
            // `min_raw` and `max_raw` stay as the trait has them: `fmin` and `fmax` give NaN where an operand is one.
            #[inline(always)]
            fn floor(&mut self, a: Self::F) -> Self::F {
                both!($floor(a))
            }
            #[inline(always)]
            fn ceil(&mut self, a: Self::F) -> Self::F {
                both!($ceil(a))
            }
            #[inline(always)]
            fn trunc(&mut self, a: Self::F) -> Self::F {
                both!($trunc(a))
            }
            #[inline(always)]
            fn round_even(&mut self, a: Self::F) -> Self::F {
                both!($round(a))
            }
            #[inline(always)]
            fn lt(&mut self, a: Self::F, b: Self::F) -> Self::M {
                both!($lt(a, b))
            }
            #[inline(always)]
            fn le(&mut self, a: Self::F, b: Self::F) -> Self::M {
                both!($le(a, b))
            }
            #[inline(always)]
            fn eq(&mut self, a: Self::F, b: Self::F) -> Self::M {
                both!($eq(a, b))
            }
            #[inline(always)]
            fn ne(&mut self, a: Self::F, b: Self::F) -> Self::M {
                let equal = self.eq(a, b);
                self.not(equal)
            }
            #[inline(always)]
            fn and(&mut self, a: Self::M, b: Self::M) -> Self::M {
                both!($and(a, b))
            }
            #[inline(always)]
            fn or(&mut self, a: Self::M, b: Self::M) -> Self::M {
                both!($or(a, b))
            }
            #[inline(always)]
            fn not(&mut self, a: Self::M) -> Self::M {
                let zero = arm!($uset1(0));
                both!($or_not(Pair(zero, zero), a))
            }
            #[inline(always)]
            fn select(&mut self, m: Self::M, a: Self::F, b: Self::F) -> Self::F {
                both!($select(m, a, b))
            }
            #[inline(always)]
            fn select_i(&mut self, m: Self::M, a: Self::I, b: Self::I) -> Self::I {
                both!($iselect(m, a, b))
            }
            #[inline(always)]
            fn bits(&mut self, a: Self::F) -> Self::I {
                both!($bits(a))
            }
            #[inline(always)]
            fn from_bits(&mut self, a: Self::I) -> Self::F {
                both!($from_bits(a))
            }
            #[inline(always)]
            fn iadd(&mut self, a: Self::I, b: Self::I) -> Self::I {
                both!($iadd(a, b))
            }
            #[inline(always)]
            fn isub(&mut self, a: Self::I, b: Self::I) -> Self::I {
                both!($isub(a, b))
            }
            #[inline(always)]
            fn iand(&mut self, a: Self::I, b: Self::I) -> Self::I {
                both!($iand(a, b))
            }
            #[inline(always)]
            fn ior(&mut self, a: Self::I, b: Self::I) -> Self::I {
                both!($ior(a, b))
            }
            #[inline(always)]
            fn ixor(&mut self, a: Self::I, b: Self::I) -> Self::I {
                both!($ixor(a, b))
            }
            #[inline(always)]
            fn ishl(&mut self, a: Self::I, n: u32) -> Self::I {
                both!($shl(a; $iset1(n as $int)))
            }
            #[inline(always)]
            fn ishr_u(&mut self, a: Self::I, n: u32) -> Self::I {
                // by a negative number to the left
                let a = both!($unsigned(a));
                let shifted = both!($shl_u(a; $iset1(-(n as $int))));
                both!($signed(shifted))
            }
            #[inline(always)]
            fn ishr_s(&mut self, a: Self::I, n: u32) -> Self::I {
                both!($shl(a; $iset1(-(n as $int))))
            }
            #[inline(always)]
            fn ilt(&mut self, a: Self::I, b: Self::I) -> Self::M {
                both!($ilt(a, b))
            }
            #[inline(always)]
            fn ieq(&mut self, a: Self::I, b: Self::I) -> Self::M {
                both!($ieq(a, b))
            }
            #[inline(always)]
            fn to_int(&mut self, a: Self::F) -> Self::I {
                both!($to_int(a))
            }
            #[inline(always)]
            fn to_float(&mut self, a: Self::I) -> Self::F {
                both!($to_float(a))
            }
            #[inline(always)]
            fn call1(&mut self, f: ScalarFn1, x: Self::F) -> Self::F {
                let mut lanes = self.to_array(x);
                for v in &mut lanes[..$lanes] {
                    *v = f(f64::from(*v)) as $elem;
                }
                // SAFETY: the array has room for all lanes.
                unsafe { self.load(lanes.as_ptr()) }
            }
            #[inline(always)]
            fn call2(&mut self, f: ScalarFn2, x: Self::F, y: Self::F) -> Self::F {
                let mut lanes = self.to_array(x);
                let others = self.to_array(y);
                for (v, w) in lanes[..$lanes].iter_mut().zip(others) {
                    *v = f(f64::from(*v), f64::from(w)) as $elem;
                }
                // SAFETY: the array has room for all lanes.
                unsafe { self.load(lanes.as_ptr()) }
            }
            #[inline(always)]
            fn call1_where(
                &mut self,
                m: Self::M,
                f: ScalarFn1,
                x: Self::F,
                fast: Self::F,
            ) -> Self::F {
                if !self.any(m) {
                    return fast;
                }
                let slow = self.call1(f, x);
                self.select(m, slow, fast)
            }
        }

        impl Simd for $name {
            type Elem = $elem;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(&mut self, v: $elem) -> Self::F {
                let v = arm!($set1(v));
                Pair(v, v)
            }
            #[inline(always)]
            unsafe fn load(&mut self, ptr: *const $elem) -> Self::F {
                // SAFETY: the caller vouches for all lanes.
                unsafe { Pair($load(ptr), $load(ptr.add($lanes / 2))) }
            }
            #[inline(always)]
            unsafe fn store(&mut self, ptr: *mut $elem, v: Self::F) {
                // SAFETY: the caller vouches for all lanes.
                unsafe {
                    $store(ptr, v.0);
                    $store(ptr.add($lanes / 2), v.1);
                }
            }
            #[inline(always)]
            unsafe fn load_partial(&mut self, ptr: *const $elem, n: usize) -> Self::F {
                let mut lanes: [$elem; $lanes] = [0.0; $lanes];
                // SAFETY: the caller vouches for `n` elements; the array has room for all lanes.
                unsafe {
                    copy_pieces(lanes.as_mut_ptr(), ptr, n);
                    self.load(lanes.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store_partial(&mut self, ptr: *mut $elem, n: usize, v: Self::F) {
                let mut lanes: [$elem; $lanes] = [0.0; $lanes];
                // SAFETY: as for `load_partial`.
                unsafe {
                    self.store(lanes.as_mut_ptr(), v);
                    copy_pieces(ptr, lanes.as_ptr(), n);
                }
            }
            #[inline(always)]
            fn first(&mut self, n: usize) -> Self::M {
                $first(n)
            }
            #[inline(always)]
            fn any(&mut self, m: Self::M) -> bool {
                any_bit(both!($bytes(m)))
            }
        }
    };
}

/// Copies `n <= 8` elements in pieces of eight, four, two and one: a few moves where a copy of unknown length is a call.
///
/// # Safety
///
/// `n` elements on both sides, which do not overlap.
#[inline(always)]
unsafe fn copy_pieces<T: Copy>(to: *mut T, from: *const T, n: usize) {
    debug_assert!(n <= 8);
    let mut at = 0;
    macro_rules! pieces {
        ($($piece:literal)*) => {$(
            if n & $piece != 0 {
                // SAFETY: the pieces below `n`, one after the other.
                unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), $piece) };
                at += $piece;
            }
        )*};
    }
    pieces!(8 4 2 1);
    debug_assert_eq!(at, n);
}

neon!(
    NeonF32, f32, i32, 8, float32x4_t, int32x4_t, uint32x4_t, Width::W32,
    set1 vdupq_n_f32, iset1 vdupq_n_s32, add vaddq_f32, sub vsubq_f32, mul vmulq_f32, div vdivq_f32,
    fma vfmaq_f32, neg vnegq_f32, abs vabsq_f32, sqrt vsqrtq_f32, floor vrndmq_f32, ceil vrndpq_f32,
    trunc vrndq_f32, round vrndnq_f32, lt vcltq_f32, le vcleq_f32, eq vceqq_f32, and vandq_u32, or vorrq_u32,
    uset1 vdupq_n_u32, or_not vornq_u32, select vbslq_f32, iselect vbslq_s32, bits vreinterpretq_s32_f32, from_bits vreinterpretq_f32_s32,
    iadd vaddq_s32, isub vsubq_s32, iand vandq_s32, ior vorrq_s32, ixor veorq_s32, shl vshlq_s32,
    shl_u vshlq_u32, unsigned vreinterpretq_u32_s32, signed vreinterpretq_s32_u32, ilt vcltq_s32, ieq vceqq_s32,
    to_int vcvtq_s32_f32, to_float vcvtq_f32_s32, load vld1q_f32, store vst1q_f32, first first_32,
    bytes vreinterpretq_u8_u32
);

neon!(
    NeonF64, f64, i64, 4, float64x2_t, int64x2_t, uint64x2_t, Width::W64,
    set1 vdupq_n_f64, iset1 vdupq_n_s64, add vaddq_f64, sub vsubq_f64, mul vmulq_f64, div vdivq_f64,
    fma vfmaq_f64, neg vnegq_f64, abs vabsq_f64, sqrt vsqrtq_f64, floor vrndmq_f64, ceil vrndpq_f64,
    trunc vrndq_f64, round vrndnq_f64, lt vcltq_f64, le vcleq_f64, eq vceqq_f64, and vandq_u64, or vorrq_u64,
    uset1 vdupq_n_u64, or_not vornq_u64, select vbslq_f64, iselect vbslq_s64, bits vreinterpretq_s64_f64, from_bits vreinterpretq_f64_s64,
    iadd vaddq_s64, isub vsubq_s64, iand vandq_s64, ior vorrq_s64, ixor veorq_s64, shl vshlq_s64,
    shl_u vshlq_u64, unsigned vreinterpretq_u64_s64, signed vreinterpretq_s64_u64, ilt vcltq_s64, ieq vceqq_s64,
    to_int vcvtq_s64_f64, to_float vcvtq_f64_s64, load vld1q_f64, store vst1q_f64, first first_64,
    bytes vreinterpretq_u8_u64
);
