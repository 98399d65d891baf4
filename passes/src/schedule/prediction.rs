//! How long an operator takes by itself, as loops and as a kernel of the runtime.

use std::fmt;

/// What generated loops take for an element that they read at a listed position or write among
/// others, in picoseconds: measured on an AVX-512 server at pads, rolls and concatenations of 10^6
/// elements of 1, 2 and 4 bytes, where it is the same, 230 to 500.
const LOOPS_PER_ELEMENT: u64 = 350;
/// What the kernels of these operators take for a byte, likewise: 60 to 140.
const KERNEL_PER_BYTE: u64 = 130;
/// What a kernel's call costs beside a loop's.
const CALL: u64 = 1_000_000;

/// Times of an operator by itself, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prediction {
    pub(crate) loops: u64,
    pub(crate) kernel: u64,
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |t: u64| t as f64 / 1e6;
        let (kernel, loops) = (micros(self.kernel), micros(self.loops));
        write!(f, "alone, for which {kernel:.1} us are predicted, and {loops:.1} us for loops")
    }
}

impl Prediction {
    /// Of an operator that moves so many elements of so many bytes.
    pub(crate) fn of_moves(elements: u64, bytes: u64) -> Prediction {
        Prediction {
            loops: elements.saturating_mul(LOOPS_PER_ELEMENT),
            kernel: (elements.saturating_mul(bytes))
                .saturating_mul(KERNEL_PER_BYTE)
                .saturating_add(CALL),
        }
    }
}
