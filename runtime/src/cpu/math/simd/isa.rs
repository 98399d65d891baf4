//! Which vector instructions to use.

use std::sync::OnceLock;

/// A set of vector instructions, the lesser first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// 128-bit vectors as the compiler makes them of arrays; runs anywhere.
    Portable,
    /// 256-bit vectors: AVX2 with FMA and F16C.
    Avx2,
    /// 512-bit vectors: AVX-512 F, DQ, VL and BW.
    Avx512,
}

impl Isa {
    /// All sets, the lesser first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The name that `STRAIGHTLINE_ISA` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
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

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Portable
}

/// The set in use: the best of this machine, or a lesser one named by the environment variable `STRAIGHTLINE_ISA`.
/// Decided once.
#[inline]
pub fn isa() -> Isa {
    static CHOSEN: OnceLock<Isa> = OnceLock::new();
    *CHOSEN.get_or_init(|| match std::env::var("STRAIGHTLINE_ISA") {
        Ok(name) => choose(&name),
        Err(_) => best(),
    })
}

/// The set that an override leads to, with a warning where that is not what was asked.
fn choose(name: &str) -> Isa {
    let Some(asked) = Isa::ALL.into_iter().find(|isa| isa.name() == name) else {
        tracing::warn!(
            name,
            "STRAIGHTLINE_ISA is not one of portable, avx2, avx512"
        );
        return best();
    };
    let got = asked.available();
    if got != asked {
        tracing::warn!(
            asked = name,
            using = got.name(),
            "this machine lacks the instructions that STRAIGHTLINE_ISA asks for"
        );
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_never_exceeds_the_machine() {
        assert_eq!(choose("portable"), Isa::Portable);
        assert_eq!(choose("no such set"), best());
        assert!(choose("avx512") <= best());
        assert_eq!(choose("avx2"), Isa::Avx2.min(best()));
    }
}
