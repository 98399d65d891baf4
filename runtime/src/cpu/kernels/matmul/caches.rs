//! Sizes of the caches that blocks are made for.

use std::sync::OnceLock;

/// Bytes of the caches of one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caches {
    /// The first one for data.
    pub(super) first: usize,
    /// The second one.
    pub(super) second: usize,
}

/// Where the machine does not say.
const USUAL: Caches = Caches { first: 32 << 10, second: 512 << 10 };

/// Those of this machine.
pub(super) fn caches() -> Caches {
    static CACHES: OnceLock<Caches> = OnceLock::new();
    *CACHES.get_or_init(|| {
        let Caches { first, second } = asked().unwrap_or(USUAL);
        // a size that no processor has would be that of an emulator
        Caches {
            first: first.clamp(16 << 10, 256 << 10),
            second: second.clamp(128 << 10, 16 << 20),
        }
    })
}

#[cfg(target_arch = "x86_64")]
fn asked() -> Option<Caches> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    /// What Intel's processors list caches under, and AMD's.
    const LEAVES: [(u32, u32); 2] = [(0, 4), (0x8000_0000, 0x8000_001d)];
    let list = |leaf: u32| {
        let mut found = [None; 2];
        for index in 0..8 {
            let entry = __cpuid_count(leaf, index);
            let (kind, level) = (entry.eax & 31, entry.eax >> 5 & 7);
            if kind == 0 {
                break;
            }
            let field = |low: u32, bits: u32| (entry.ebx >> low & ((1 << bits) - 1)) as usize + 1;
            let bytes = field(0, 12) * field(12, 10) * field(22, 10) * (entry.ecx as usize + 1);
            // of instructions alone
            if kind != 2 && matches!(level, 1 | 2) {
                found[level as usize - 1].get_or_insert(bytes);
            }
        }
        Some(Caches { first: found[0]?, second: found[1]? })
    };
    LEAVES.into_iter().filter(|&(base, leaf)| __cpuid(base).eax >= leaf).find_map(|(_, l)| list(l))
}

/// Most of what runs this has at least so much.
#[cfg(not(target_arch = "x86_64"))]
fn asked() -> Option<Caches> {
    cfg!(target_arch = "aarch64").then_some(Caches { first: 64 << 10, second: 1 << 20 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_cache_is_the_larger_one() {
        let Caches { first, second } = caches();
        assert!(first < second && first.is_multiple_of(1 << 10), "{first} {second}");
    }
}
