//! Which microkernels serve an element type on this machine.

pub(super) use straightline_microkernels::{Dot, Kernels, Tile};

use super::element::Float;
use crate::cpu::math::{Isa, isa};
#[cfg(target_arch = "aarch64")]
use straightline_microkernels::neon;
use straightline_microkernels::portable;
#[cfg(target_arch = "x86_64")]
use straightline_microkernels::x86;

/// The instruction sets, best first.
pub(super) trait Native: Float {
    /// The kernels that this machine can run, best first, with the instruction set's name.
    #[cfg(test)]
    fn available() -> Vec<(&'static str, &'static Kernels<Self>)>;
    /// The best kernels of this machine.
    fn kernels() -> &'static Kernels<Self>;
}

macro_rules! native {
    ($t:ty, $wide:ident, $middle:ident, $neon:ident, $portable:ident) => {
        impl Native for $t {
            #[cfg(test)]
            fn available() -> Vec<(&'static str, &'static Kernels<Self>)> {
                let mut all = Vec::new();
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx512f") {
                        all.push(("avx512", &x86::$wide));
                    }
                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        all.push(("avx2", &x86::$middle));
                    }
                }
                #[cfg(target_arch = "aarch64")]
                all.push(("neon", &neon::$neon));
                all.push(("portable", &portable::$portable));
                all
            }
            #[inline]
            fn kernels() -> &'static Kernels<Self> {
                match isa() {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => &x86::$wide,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => &x86::$middle,
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => &neon::$neon,
                    Isa::Portable => &portable::$portable,
                }
            }
        }
    };
}
native!(f32, AVX512_F32, AVX2_F32, NEON_F32, PORTABLE_F32);
native!(f64, AVX512_F64, AVX2_F64, NEON_F64, PORTABLE_F64);
