//! NEON, which every AArch64 has. A value is two 128-bit registers: with 32 of them there is room,
//! and two independent halves keep the pipes of narrow cores busy. Masks are lanes of all ones and
//! all zeros.

use super::table::{functions, implement, scalar_calls, transpose_in_memory};
use super::vector::{MAX_LANES, Simd};
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};
use std::arch::aarch64::*;

/// The lower lanes, then the upper ones.
#[derive(Clone, Copy, Debug)]
pub struct Pair<T>(T, T);

/// A function on both registers.
macro_rules! both {
    ($module:ident, $op:ident, [$($arg:ident),+] $($n:ident)?) => {
        // SAFETY: every AArch64 has NEON.
        unsafe { Pair($module::$op($($arg.0,)+ $($n)?), $module::$op($($arg.1,)+ $($n)?)) }
    };
}

macro_rules! vectors {
    (
        $(#[$doc:meta])* $name:ident in $module:ident, $elem:ty as $int:ty, $lanes:literal, $width:expr,
        ($float:ty, $ints:ty, $mask:ty)
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        // `min_raw` and `max_raw` stay as the trait has them: `fmin` and `fmax` give NaN where an
        // operand is one.
        implement! {
            $module, both, $name, $elem as $int, $lanes, $width,
            (Pair<$float>, Pair<$ints>, Pair<$mask>),
            { scalar_calls!($elem, $lanes); }
        }
    };
}

vectors! {
    /// Eight lanes of `f32`.
    NeonF32 in f32x4, f32 as i32, 8, Width::W32, (float32x4_t, int32x4_t, uint32x4_t)
}
vectors! {
    /// Four lanes of `f64`.
    NeonF64 in f64x2, f64 as i64, 4, Width::W64, (float64x2_t, int64x2_t, uint64x2_t)
}

functions! {
    /// Some bit of either register is set.
    ///
    /// The halves meet in a pairwise maximum, not in an `or`: LLVM makes of `a >= c || b >= c` the
    /// single comparison `fmaxnm(a, b) >= c`, which is false where `a` is a signalling NaN and `b`
    /// large.
    fn any_bit(low: uint8x16_t, high: uint8x16_t) -> bool { vmaxvq_u8(vpmaxq_u8(low, high)) != 0 }
}

/// Functions without an intrinsic for these operands, the same for both widths. `$lanes` are those
/// of one register.
macro_rules! composed {
    (
        $elem:ty, $int:ty, $lanes:literal, $float:ty, $ints:ty, $mask:ty,
        set1 $set1:ident, iset1 $iset1:ident, uset1 $uset1:ident, fma $fma:ident, or_not $or_not:ident,
        shl $shl:ident, shl_u $shl_u:ident, unsigned $unsigned:ident, signed $signed:ident,
        load $load:ident, store $store:ident, bytes $bytes:ident
    ) => {
        functions! {
            fn fma(a: $float, b: $float, c: $float) -> $float { $fma(c, a, b) }
            fn ne(a: $float, b: $float) -> $mask { not(eq(a, b)) }
            fn not(a: $mask) -> $mask { $or_not($uset1(0), a) }
            fn ishl(a: $ints, n: u32) -> $ints { $shl(a, $iset1(n as $int)) }
            /// By a negative number to the left.
            fn ishr_u(a: $ints, n: u32) -> $ints {
                $signed($shl_u($unsigned(a), $iset1(-(n as $int))))
            }
            fn ishr_s(a: $ints, n: u32) -> $ints { $shl(a, $iset1(-(n as $int))) }
            fn splat(v: $elem) -> Pair<$float> {
                let v = $set1(v);
                Pair(v, v)
            }
            fn splat_i(v: $int) -> Pair<$ints> {
                let v = $iset1(v);
                Pair(v, v)
            }
            fn load(ptr: *const $elem) -> Pair<$float> { Pair($load(ptr), $load(ptr.add($lanes))) }
            fn store(ptr: *mut $elem, v: Pair<$float>) {
                $store(ptr, v.0);
                $store(ptr.add($lanes), v.1);
            }
            fn load_partial(ptr: *const $elem, n: usize) -> Pair<$float> {
                let mut lanes: [$elem; 2 * $lanes] = [0.0; 2 * $lanes];
                copy_pieces(lanes.as_mut_ptr(), ptr, n);
                load(lanes.as_ptr())
            }
            fn store_partial(ptr: *mut $elem, n: usize, v: Pair<$float>) {
                let mut lanes: [$elem; 2 * $lanes] = [0.0; 2 * $lanes];
                store(lanes.as_mut_ptr(), v);
                copy_pieces(ptr, lanes.as_ptr(), n);
            }
            fn any(m: Pair<$mask>) -> bool { any_bit($bytes(m.0), $bytes(m.1)) }
        }
        transpose_in_memory!(Pair<$float>, $elem, 2 * $lanes);
    };
}

mod f32x4 {
    use super::*;
    pub(super) use std::arch::aarch64::{
        vabsq_f32 as abs, vaddq_f32 as add, vaddq_s32 as iadd, vandq_s32 as iand, vandq_u32 as and,
        vbslq_f32 as select, vbslq_s32 as select_i, vceqq_f32 as eq, vceqq_s32 as ieq,
        vcleq_f32 as le, vcltq_f32 as lt, vcltq_s32 as ilt, vcvtq_f32_s32 as to_float,
        vcvtq_s32_f32 as to_int, vdivq_f32 as div, veorq_s32 as ixor, vmulq_f32 as mul,
        vnegq_f32 as neg, vorrq_s32 as ior, vorrq_u32 as or, vreinterpretq_f32_s32 as from_bits,
        vreinterpretq_s32_f32 as bits, vrndmq_f32 as floor, vrndnq_f32 as round_even,
        vrndpq_f32 as ceil, vrndq_f32 as trunc, vsqrtq_f32 as sqrt, vsubq_f32 as sub,
        vsubq_s32 as isub,
    };

    composed!(
        f32, i32, 4, float32x4_t, int32x4_t, uint32x4_t,
        set1 vdupq_n_f32, iset1 vdupq_n_s32, uset1 vdupq_n_u32, fma vfmaq_f32, or_not vornq_u32,
        shl vshlq_s32, shl_u vshlq_u32, unsigned vreinterpretq_u32_s32, signed vreinterpretq_s32_u32,
        load vld1q_f32, store vst1q_f32, bytes vreinterpretq_u8_u32
    );
    functions! {
        fn first(n: usize) -> Pair<uint32x4_t> {
            let order = vcombine_u32(vcreate_u32(0x1_0000_0000), vcreate_u32(0x3_0000_0002));
            let n = vdupq_n_u32(n as u32);
            Pair(vcltq_u32(order, n), vcltq_u32(vaddq_u32(order, vdupq_n_u32(4)), n))
        }
    }
}

mod f64x2 {
    use super::*;
    pub(super) use std::arch::aarch64::{
        vabsq_f64 as abs, vaddq_f64 as add, vaddq_s64 as iadd, vandq_s64 as iand, vandq_u64 as and,
        vbslq_f64 as select, vbslq_s64 as select_i, vceqq_f64 as eq, vceqq_s64 as ieq,
        vcleq_f64 as le, vcltq_f64 as lt, vcltq_s64 as ilt, vcvtq_f64_s64 as to_float,
        vcvtq_s64_f64 as to_int, vdivq_f64 as div, veorq_s64 as ixor, vmulq_f64 as mul,
        vnegq_f64 as neg, vorrq_s64 as ior, vorrq_u64 as or, vreinterpretq_f64_s64 as from_bits,
        vreinterpretq_s64_f64 as bits, vrndmq_f64 as floor, vrndnq_f64 as round_even,
        vrndpq_f64 as ceil, vrndq_f64 as trunc, vsqrtq_f64 as sqrt, vsubq_f64 as sub,
        vsubq_s64 as isub,
    };

    composed!(
        f64, i64, 2, float64x2_t, int64x2_t, uint64x2_t,
        set1 vdupq_n_f64, iset1 vdupq_n_s64, uset1 vdupq_n_u64, fma vfmaq_f64, or_not vornq_u64,
        shl vshlq_s64, shl_u vshlq_u64, unsigned vreinterpretq_u64_s64, signed vreinterpretq_s64_u64,
        load vld1q_f64, store vst1q_f64, bytes vreinterpretq_u8_u64
    );
    functions! {
        fn first(n: usize) -> Pair<uint64x2_t> {
            let order = vcombine_u64(vcreate_u64(0), vcreate_u64(1));
            let n = vdupq_n_u64(n as u64);
            Pair(vcltq_u64(order, n), vcltq_u64(vaddq_u64(order, vdupq_n_u64(2)), n))
        }
    }
}

/// Copies `n <= 8` elements in pieces of eight, four, two and one: a few moves where a copy of
/// unknown length is a call.
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
                // SAFETY: the pieces below `n`, one after another.
                unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), $piece) };
                at += $piece;
            }
        )*};
    }
    pieces!(8 4 2 1);
    debug_assert_eq!(at, n);
}
