//! The vector registers that strips use.

use crate::cpu::math::{Width, isa};

/// A width of vectors, and where truth values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// AVX2: sixteen registers of 256 bits. A truth value is all bits of a lane.
    Ymm,
    /// AVX-512: 32 registers of 512 bits. A truth value is a bit of a mask register.
    Zmm,
}

impl Vectors {
    /// Those of the instruction set in use, if it has any.
    pub(crate) fn in_use() -> Option<Vectors> {
        match isa().bits() {
            512 => Some(Vectors::Zmm),
            256 => Some(Vectors::Ymm),
            _ => None,
        }
    }

    /// Lanes of a register.
    pub(crate) const fn lanes(self, width: Width) -> u32 {
        match width {
            Width::W32 => self.bytes() as u32 / 4,
            Width::W64 => self.bytes() as u32 / 8,
        }
    }

    /// Bytes of a register.
    pub(crate) const fn bytes(self) -> i32 {
        match self {
            Vectors::Ymm => 32,
            Vectors::Zmm => 64,
        }
    }

    /// The number of registers.
    pub(crate) const fn count(self) -> usize {
        match self {
            Vectors::Ymm => 16,
            Vectors::Zmm => 32,
        }
    }

    /// What has them.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Vectors::Ymm => "AVX2",
            Vectors::Zmm => "AVX-512",
        }
    }
}
