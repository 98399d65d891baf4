//! The vector registers that strips use.

use crate::cpu::math::{self, isa};

/// A width of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    /// Bytes and truth values, on which there is no arithmetic of floats, and no reductions.
    W8,
    /// 16-bit integers, and floats of 16 bits that are only moved.
    W16,
    /// `f32` and `i32`, and what is shorter in memory.
    W32,
    /// `f64` and `i64`.
    W64,
}

impl Width {
    /// Bytes of a lane, as a power of two.
    pub(crate) const fn shift(self) -> u8 {
        match self {
            Width::W8 => 0,
            Width::W16 => 1,
            Width::W32 => 2,
            Width::W64 => 3,
        }
    }

    /// Lanes are shorter than floats that can be computed with.
    pub(crate) const fn is_narrow(self) -> bool {
        matches!(self, Width::W8 | Width::W16)
    }

    /// The floats that lanes hold.
    pub(crate) const fn floats(self) -> math::Width {
        match self {
            Width::W64 => math::Width::W64,
            _ => math::Width::W32,
        }
    }
}

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
        self.bytes() as u32 >> width.shift()
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
