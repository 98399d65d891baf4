//! Eager SIMD: the primitives on the vectors of the machine, chosen at run time.
//!
//! A kernel is written once over [`Simd`] and run through [`Lane::dispatch`], which picks the
//! widest instruction set and enters a function compiled for it. Everything between that function
//! and the intrinsics must be `#[inline(always)]`, or the intrinsics stay calls.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod table;
#[cfg(test)]
mod tests;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub use avx2::{Avx2F32, Avx2F64};
#[cfg(target_arch = "x86_64")]
pub use avx512::{Avx512F32, Avx512F64};
pub use isa::{Isa, isa};
#[cfg(target_arch = "aarch64")]
pub use neon::{NeonF32, NeonF64};
pub use portable::Portable;

pub use vector::{Lane, MAX_LANES, Simd, SimdTask};

/// Enters code compiled for AVX-512.
///
/// # Safety
/// The machine has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
)]
unsafe fn enter_avx512<S: Simd, T: SimdTask<S::Elem>>(s: S, task: T) -> T::Out {
    task.run(s)
}

/// Enters code compiled for AVX2 with FMA.
///
/// # Safety
/// The machine has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn enter_avx2<S: Simd, T: SimdTask<S::Elem>>(s: S, task: T) -> T::Out {
    task.run(s)
}

macro_rules! lane {
    ($elem:ty, $avx512:ident, $avx2:ident, $neon:ident, $portable:literal) => {
        impl Lane for $elem {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }

            #[inline]
            fn dispatch_on<T: SimdTask<Self>>(isa: Isa, task: T) -> T::Out {
                match isa.available() {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => {
                        // SAFETY: `available` has found the features of this set.
                        unsafe { enter_avx512($avx512::assume(), task) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => {
                        // SAFETY: `available` has found the features of this set.
                        unsafe { enter_avx2($avx2::assume(), task) }
                    }
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => task.run($neon),
                    Isa::Portable => task.run(Portable::<$elem, $portable>::new()),
                }
            }
        }
    };
}

lane!(f32, Avx512F32, Avx2F32, NeonF32, 4);
lane!(f64, Avx512F64, Avx2F64, NeonF64, 2);
