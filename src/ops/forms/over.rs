//! Which operands may share memory with an `out`: one rule for eager calls and for functionalization,
//! whose functional form of a call sees only values.

use crate::dispatch::{DispatchKey, OperatorHandle};
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::access::{self, Overlap, overlap};
use std::collections::HashSet;
use std::sync::LazyLock;
use straightline_catalog::Op;
use straightline_catalog::entry::ENTRIES;
use straightline_catalog::rules::OutOverlap;

/// What an operator accepts of an operand in the memory of its `out`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// Anything: the result is known before `out` is written.
    Anything,
    /// An operand that is `out` itself, but none that lies partly over it: PyTorch's iterator reads
    /// while it writes.
    Itself,
    /// Nothing: the operator reads positions other than the one it writes.
    Nothing,
}

impl Over {
    /// The rule of an operator: its entry's `out_overlap`, or that of pointwise operators.
    pub(crate) fn of(op: OperatorHandle) -> Over {
        static REFUSED: LazyLock<HashSet<Op>> = LazyLock::new(|| {
            let refused = ENTRIES.iter().filter(|e| e.out.overlap == OutOverlap::Refused);
            refused.map(|e| e.op).collect()
        });
        if op.op().is_some_and(|op| REFUSED.contains(&op)) {
            return Over::Nothing;
        }
        match op.tags().contains(&"pointwise") && op.registers(DispatchKey::CPU) {
            true => Over::Itself,
            false => Over::Anything,
        }
    }

    /// Refuses an operand, in PyTorch's words.
    pub(crate) fn check(self, out: &Tensor, operand: &Tensor) -> Result<()> {
        let refused = match self {
            Over::Anything => false,
            Over::Itself => overlap(out, operand) == Overlap::Partial,
            Over::Nothing => matches!(overlap(out, operand), Overlap::Partial | Overlap::Full),
        };
        match refused {
            true => Err(access::partial_overlap()),
            false => Ok(()),
        }
    }
}
