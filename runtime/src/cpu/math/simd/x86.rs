//! What the vectors of AVX2 and AVX-512 have in common.

/// A function on whole registers.
macro_rules! register {
    ($module:ident, $op:ident, [$($arg:ident),+] $($n:ident)?) => {
        // SAFETY: a value of these types exists only where the machine has the instructions, see
        // `assume`.
        unsafe { $module::$op($($arg,)+ $($n)?) }
    };
}
pub(super) use register;

/// A type of vectors with its implementation.
macro_rules! vectors {
    (
        $(#[$doc:meta])* $name:ident in $module:ident, $isa:ident,
        $elem:ty as $int:ty, $lanes:literal, $width:expr, $registers:tt, { $($more:tt)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(());

        impl $name {
            /// Vectors of this kind.
            ///
            /// # Safety
            /// The machine has the features of the instruction set.
            #[inline(always)]
            pub unsafe fn assume() -> Self {
                Self(())
            }

            /// Vectors of this kind if the machine has them.
            pub fn detect() -> Option<Self> {
                (Isa::$isa.available() == Isa::$isa).then_some(Self(()))
            }
        }

        implement! {
            $module, register, $name, $elem as $int, $lanes, $width, $registers,
            {
                #[inline(always)]
                fn min_raw(&mut self, a: Self::F, b: Self::F) -> Self::F {
                    register!($module, min_raw, [a, b])
                }
                #[inline(always)]
                fn max_raw(&mut self, a: Self::F, b: Self::F) -> Self::F {
                    register!($module, max_raw, [a, b])
                }
                scalar_calls!($elem, $lanes);
                $($more)*
            }
        }
    };
}
pub(super) use vectors;

/// Rounding, comparisons and shifts, whose intrinsics take a constant or a register for the mode or
/// the count.
macro_rules! with_modes {
    ($float:ty, $ints:ty, $mask:ty, $round:ident, $cmp:ident, $shl:ident, $shr_u:ident) => {
        functions! {
            fn floor(a: $float) -> $float { $round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a) }
            fn ceil(a: $float) -> $float { $round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(a) }
            fn trunc(a: $float) -> $float { $round::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a) }
            fn round_even(a: $float) -> $float {
                $round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
            }
            fn lt(a: $float, b: $float) -> $mask { $cmp::<_CMP_LT_OQ>(a, b) }
            fn le(a: $float, b: $float) -> $mask { $cmp::<_CMP_LE_OQ>(a, b) }
            fn eq(a: $float, b: $float) -> $mask { $cmp::<_CMP_EQ_OQ>(a, b) }
            fn ne(a: $float, b: $float) -> $mask { $cmp::<_CMP_NEQ_UQ>(a, b) }
            fn ishl(a: $ints, n: u32) -> $ints { $shl(a, _mm_cvtsi32_si128(n as i32)) }
            fn ishr_u(a: $ints, n: u32) -> $ints { $shr_u(a, _mm_cvtsi32_si128(n as i32)) }
        }
    };
}
pub(super) use with_modes;
