//! Which instructions for bf16 and for bytes this machine has, and may use.

#[cfg(not(target_arch = "x86_64"))]
use straightline_microkernels::bytes::{ByteKernels, PORTABLE_BYTES};
#[cfg(not(target_arch = "x86_64"))]
use straightline_microkernels::pairs::PairKernels;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::cpu::math::{Isa, isa};
    use std::arch::is_x86_feature_detected as has;
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::OnceLock;
    use straightline_microkernels::bytes::{ByteKernels, PORTABLE_BYTES};
    use straightline_microkernels::bytes_x86::{AMX_INT8, AVX2_BYTES, AVX512_VNNI};
    use straightline_microkernels::pairs::PairKernels;
    use straightline_microkernels::pairs_x86::{AMX_BF16, AVX512_BF16};

    /// The kernels that this machine can run, best first.
    pub(in super::super) fn available() -> &'static [&'static PairKernels] {
        static AVAILABLE: OnceLock<Vec<&'static PairKernels>> = OnceLock::new();
        AVAILABLE.get_or_init(|| {
            let mut all = Vec::new();
            if has!("avx512f") && has!("avx512bw") && has!("avx512bf16") {
                if tiles(AMX_OF_PAIRS) && permitted() {
                    all.push(&AMX_BF16);
                }
                all.push(&AVX512_BF16);
            }
            all
        })
    }

    /// The kernels that are best for any product, if the instruction set in use allows them.
    #[inline]
    pub(in super::super) fn chosen() -> Option<&'static PairKernels> {
        static CHOSEN: OnceLock<Option<&'static PairKernels>> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let best = available().first().copied()?;
            // On Intel's processors a dot product of pairs takes four times as long as a fused
            // multiply-add of f32, which does half of its work (measured on an Emerald Rapids).
            let slow = std::ptr::eq(best, &AVX512_BF16) && is_intel();
            (isa() == Isa::Avx512 && !slow).then_some(best)
        })
    }

    /// The kernels for bytes that this machine can run, best first.
    pub(in super::super) fn available_bytes() -> &'static [&'static ByteKernels] {
        static AVAILABLE: OnceLock<Vec<&'static ByteKernels>> = OnceLock::new();
        AVAILABLE.get_or_init(|| {
            let mut all = Vec::new();
            if has!("avx512f") && has!("avx512bw") {
                if tiles(AMX_OF_BYTES) && permitted() {
                    all.push(&AMX_INT8);
                }
                if has!("avx512vnni") {
                    all.push(&AVX512_VNNI);
                }
            }
            if has!("avx2") {
                all.push(&AVX2_BYTES);
            }
            all.push(&PORTABLE_BYTES);
            all
        })
    }

    /// The best of them that the instruction set in use allows.
    #[inline]
    pub(in super::super) fn chosen_bytes() -> &'static ByteKernels {
        static CHOSEN: OnceLock<&'static ByteKernels> = OnceLock::new();
        CHOSEN.get_or_init(|| {
            let all = available_bytes();
            let of = |kernels| all.iter().copied().find(|k| std::ptr::eq(*k, kernels));
            let best = match isa() {
                Isa::Avx512 => all.first().copied(),
                Isa::Avx2 => of(&AVX2_BYTES),
                Isa::Portable => None,
            };
            best.unwrap_or(&PORTABLE_BYTES)
        })
    }

    fn is_intel() -> bool {
        let vendor = __cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
    }

    /// The bits of the processor's features for products of tiles.
    const AMX_OF_PAIRS: u32 = 1 << 22;
    const AMX_OF_BYTES: u32 = 1 << 25;

    /// Whether the processor has AMX-TILE and this product of tiles, and the system keeps the
    /// tiles' state.
    fn tiles(product: u32) -> bool {
        const TILE: u32 = 1 << 24;
        /// The tiles' configuration and data.
        const STATE: u64 = 1 << 17 | 1 << 18;
        let needed = product | TILE;
        if __cpuid(0).eax < 7 || __cpuid_count(7, 0).edx & needed != needed {
            return false;
        }
        // SAFETY: the system keeps the state of AVX-512, which is detected by this very register.
        let kept = unsafe { enabled_state() };
        kept & STATE == STATE
    }

    /// # Safety
    ///
    /// The system has enabled XSAVE.
    #[target_feature(enable = "xsave")]
    unsafe fn enabled_state() -> u64 {
        // SAFETY: the caller's contract; register 0 is always there.
        unsafe { std::arch::x86_64::_xgetbv(0) }
    }

    /// Asks the system for the tiles, for the whole process. It refuses where it does not know
    /// them, or where a thread's signal stack is too small for their state.
    #[cfg(target_os = "linux")]
    fn permitted() -> bool {
        const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_ulong = 18;
        // SAFETY: the request touches no memory of ours.
        let refused =
            unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
        refused == 0
    }

    /// Other systems give the tiles on first use, or not at all; none was tried.
    #[cfg(not(target_os = "linux"))]
    fn permitted() -> bool {
        false
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{chosen, chosen_bytes};

#[cfg(all(test, target_arch = "x86_64"))]
pub(super) use x86::{available, available_bytes};

/// No other architecture has kernels of its own for bf16.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn chosen() -> Option<&'static PairKernels> {
    None
}

/// As for [`chosen`].
#[cfg(all(test, not(target_arch = "x86_64")))]
pub(super) fn available() -> &'static [&'static PairKernels] {
    &[]
}

/// The form that any machine runs.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn chosen_bytes() -> &'static ByteKernels {
    &PORTABLE_BYTES
}

/// As for [`chosen_bytes`].
#[cfg(all(test, not(target_arch = "x86_64")))]
pub(super) fn available_bytes() -> &'static [&'static ByteKernels] {
    &[&PORTABLE_BYTES]
}
