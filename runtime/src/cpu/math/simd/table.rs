//! The one table of primitives that every kind of vector gives lane by lane, and their one
//! implementation.
//!
//! A kind of vector is a module with a function of each name in the table, most of them intrinsics
//! under that name, and the functions of whole vectors that [`Simd`](super::vector::Simd) needs. A
//! new primitive is a row here and a name in each module.
//!
//! Why not crate `pulp`: the vectors of its 0.22 have no rounding to integral values, no conversion
//! between floats and integers and no shift of 64-bit lanes, so that a third of this table would be
//! intrinsics beside it all the same.

/// Implements `Prims` and `Simd` for a type.
///
/// `$call!` applies a function of `$module` to the lanes of its operands; `{ ... }` are methods of
/// `Prims` besides.
macro_rules! implement {
    ($module:ident, $call:ident, $($head:tt)*) => {
        implement! { @rows $module, $call, $($head)*
            add(a: F, b: F) -> F;
            sub(a: F, b: F) -> F;
            mul(a: F, b: F) -> F;
            div(a: F, b: F) -> F;
            fma(a: F, b: F, c: F) -> F;
            neg(a: F) -> F;
            abs(a: F) -> F;
            sqrt(a: F) -> F;
            floor(a: F) -> F;
            ceil(a: F) -> F;
            trunc(a: F) -> F;
            round_even(a: F) -> F;
            lt(a: F, b: F) -> M;
            le(a: F, b: F) -> M;
            eq(a: F, b: F) -> M;
            ne(a: F, b: F) -> M;
            and(a: M, b: M) -> M;
            or(a: M, b: M) -> M;
            not(a: M) -> M;
            select(m: M, a: F, b: F) -> F;
            select_i(m: M, a: I, b: I) -> I;
            bits(a: F) -> I;
            from_bits(a: I) -> F;
            iadd(a: I, b: I) -> I;
            isub(a: I, b: I) -> I;
            iand(a: I, b: I) -> I;
            ior(a: I, b: I) -> I;
            ixor(a: I, b: I) -> I;
            ishl(a: I; n) -> I;
            ishr_u(a: I; n) -> I;
            ishr_s(a: I; n) -> I;
            ilt(a: I, b: I) -> M;
            ieq(a: I, b: I) -> M;
            to_int(a: F) -> I;
            to_float(a: I) -> F;
        }
    };
    (
        @rows $module:ident, $call:ident, $name:ty $(where const $n:ident: usize)?,
        $elem:ty as $int:ty, $lanes:expr, $width:expr, ($float:ty, $ints:ty, $mask:ty),
        { $($more:tt)* }
        $($op:ident($($arg:ident: $t:ident),+ $(; $uniform:ident)?) -> $out:ident;)+
    ) => {
        impl $(<const $n: usize>)? Prims for $name {
            type F = $float;
            type I = $ints;
            type M = $mask;

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
                // SAFETY: a value of this type exists only where the machine has the instructions.
                unsafe { $module::splat_i(v as $int) }
            }
            $(
                #[inline(always)]
                fn $op(&mut self, $($arg: Self::$t,)+ $($uniform: u32)?) -> Self::$out {
                    $call!($module, $op, [$($arg),+] $($uniform)?)
                }
            )+
            $($more)*
        }

        impl $(<const $n: usize>)? Simd for $name {
            type Elem = $elem;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn splat(&mut self, v: $elem) -> Self::F {
                // SAFETY: a value of this type exists only where the machine has the instructions.
                unsafe { $module::splat(v) }
            }
            #[inline(always)]
            unsafe fn load(&mut self, ptr: *const $elem) -> Self::F {
                // SAFETY: the caller vouches for all lanes.
                unsafe { $module::load(ptr) }
            }
            #[inline(always)]
            unsafe fn store(&mut self, ptr: *mut $elem, v: Self::F) {
                // SAFETY: the caller vouches for all lanes.
                unsafe { $module::store(ptr, v) }
            }
            #[inline(always)]
            unsafe fn load_partial(&mut self, ptr: *const $elem, n: usize) -> Self::F {
                // SAFETY: the caller vouches for `n` elements.
                unsafe { $module::load_partial(ptr, n) }
            }
            #[inline(always)]
            unsafe fn store_partial(&mut self, ptr: *mut $elem, n: usize, v: Self::F) {
                // SAFETY: the caller vouches for `n` elements.
                unsafe { $module::store_partial(ptr, n, v) }
            }
            #[inline(always)]
            fn first(&mut self, n: usize) -> Self::M {
                // SAFETY: a value of this type exists only where the machine has the instructions.
                unsafe { $module::first(n) }
            }
            #[inline(always)]
            fn any(&mut self, m: Self::M) -> bool {
                // SAFETY: as for `first`.
                unsafe { $module::any(m) }
            }
            #[inline(always)]
            fn transpose(&mut self, rows: &mut [Self::F; MAX_LANES]) {
                // SAFETY: as for `first`.
                unsafe { $module::transpose(rows) }
            }
        }
    };
}
pub(super) use implement;

/// Exchanges rows and columns of vectors in memory, for vectors without shuffles of their own.
macro_rules! transpose_in_memory {
    ($float:ty, $elem:ty, $lanes:expr $(, $n:ident)?) => {
        functions! {
            fn transpose $([$n])? (rows: &mut [$float; MAX_LANES]) {
                let mut lanes = [[0.0 as $elem; MAX_LANES]; MAX_LANES];
                for (lanes, row) in lanes.iter_mut().zip(rows.iter()).take($lanes) {
                    store(lanes.as_mut_ptr(), *row);
                }
                for (i, row) in rows.iter_mut().enumerate().take($lanes) {
                    let column: [$elem; MAX_LANES] = std::array::from_fn(|k| lanes[k][i]);
                    *row = load(column.as_ptr());
                }
            }
        }
    };
}
pub(super) use transpose_in_memory;

/// The methods of `Prims` that call scalar functions lane by lane.
macro_rules! scalar_calls {
    ($elem:ty, $lanes:expr) => {
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
        fn call1_where(&mut self, m: Self::M, f: ScalarFn1, x: Self::F, fast: Self::F) -> Self::F {
            if !self.any(m) {
                return fast;
            }
            let slow = self.call1(f, x);
            self.select(m, slow, fast)
        }
        #[inline(always)]
        fn call2_where(
            &mut self,
            m: Self::M,
            f: ScalarFn2,
            x: Self::F,
            y: Self::F,
            fast: Self::F,
        ) -> Self::F {
            if !self.any(m) {
                return fast;
            }
            let slow = self.call2(f, x, y);
            self.select(m, slow, fast)
        }
    };
}
pub(super) use scalar_calls;

/// Functions of a vector module. They are unsafe because the caller guarantees that the machine has
/// the instructions.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident $([$n:ident])? ($($arg:ident: $t:ty),*) $(-> $out:ty)? $body:block)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[allow(unused_unsafe, reason = "some bodies are safe on some machines")]
        pub(super) unsafe fn $name $(<const $n: usize>)? ($($arg: $t),*) $(-> $out)? {
            // SAFETY: the caller vouches for the instructions, and for the memory that a pointer
            // leads to.
            unsafe { $body }
        }
    )*};
}
pub(super) use functions;
