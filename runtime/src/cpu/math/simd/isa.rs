//! Which vector instructions to use.

use std::sync::OnceLock;

/// A set of vector instructions that this architecture may have, the lesser first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// 128-bit vectors as the compiler makes them of arrays; runs anywhere.
    Portable,
    /// Pairs of 128-bit vectors: NEON, which every AArch64 has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// 256-bit vectors: AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors: AVX-512 F, DQ, VL and BW.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// All sets, the lesser first.
    pub const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "aarch64")]
        Self::Neon,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    /// The name that `STRAIGHTLINE_ISA` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
        }
    }

    /// The width of its registers.
    pub fn bits(self) -> usize {
        match self {
            Self::Portable => 128,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => 128,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 256,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 512,
        }
    }

    /// This set, or the best of this machine if that is less.
    #[inline]
    pub fn available(self) -> Self {
        self.min(best())
    }
}

/// The best set of this machine.
#[inline]
fn best() -> Isa {
    static BEST: OnceLock<Isa> = OnceLock::new();
    *BEST.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2")
        && has!("fma")
        && has!("f16c")
        && has!("bmi1")
        && has!("bmi2")
        && has!("lzcnt")
        && has!("popcnt");
    let avx512 = has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512bw");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        (false, _) => Isa::Portable,
    }
}

#[cfg(target_arch = "aarch64")]
fn detect() -> Isa {
    Isa::Neon
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Isa {
    Isa::Portable
}

/// The set in use: the best of this machine, or a lesser one named by the environment variable
/// `STRAIGHTLINE_ISA`. Decided once.
#[inline]
pub fn isa() -> Isa {
    static CHOSEN: OnceLock<Isa> = OnceLock::new();
    *CHOSEN.get_or_init(|| match std::env::var("STRAIGHTLINE_ISA") {
        Ok(name) => choose(&name),
        Err(_) => best(),
    })
}

/// The instruction set for an override, with a warning if it is not the requested one.
fn choose(name: &str) -> Isa {
    named(name).unwrap_or_else(|why| {
        tracing::warn!(using = best().name(), "{why}");
        best()
    })
}

/// The set of this name, if the machine has it.
fn named(name: &str) -> Result<Isa, String> {
    let here = Isa::ALL.iter().filter(|isa| **isa <= best());
    let names: Vec<&str> = here.clone().map(|isa| isa.name()).collect();
    here.copied().find(|isa| isa.name() == name).ok_or_else(|| {
        format!("STRAIGHTLINE_ISA is `{name}`, and this machine has {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_never_exceeds_the_machine() {
        for name in ["portable", "neon", "avx2", "avx512", "no such set"] {
            assert!(choose(name) <= best());
            match named(name) {
                Ok(isa) => assert_eq!((isa.name(), choose(name)), (name, isa)),
                Err(why) => {
                    assert_eq!(choose(name), best());
                    assert!(why.contains(name) && why.contains(best().name()), "{why}");
                }
            }
        }
        assert_eq!(named("portable"), Ok(Isa::Portable));
        assert_eq!(named(best().name()), Ok(best()));
        assert!(named("no such set").is_err());
        // a set of another architecture is not one of this machine's
        let foreign = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
        assert!(named(foreign).is_err());
    }
}
