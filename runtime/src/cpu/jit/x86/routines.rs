//! Scalar routines that strips call, and calls that are still to be placed.

use super::encode::Label;
use crate::cpu::math::{ScalarFn1, ScalarFn2};

/// A scalar routine, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Routine(usize);

impl Routine {
    pub(crate) fn of_one(f: ScalarFn1) -> Routine {
        Routine(f as usize)
    }

    pub(crate) fn of_two(f: ScalarFn2) -> Routine {
        Routine(f as usize)
    }

    pub(super) fn address(self) -> u64 {
        self.0 as u64
    }
}

/// What is called, and on which registers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Callee {
    /// On the lanes whose numbers are bits of `edx`: of one register, or two, into another.
    Some { x: u8, y: Option<u8> },
    /// On all lanes of two registers.
    All { x: u8, y: u8 },
}

/// A call behind the strip's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) callee: Callee,
    pub(super) routine: Routine,
    /// The register of the result.
    pub(super) to: u8,
    /// The vector and mask registers that keep what they have.
    pub(super) kept: (u32, u8),
    pub(super) begin: Label,
    pub(super) back: Label,
}
