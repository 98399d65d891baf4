//! The running state of reductions, as the loops carry it.

use super::lanes::Lanes;
use cranelift_codegen::ir::Value;
use smallvec::SmallVec;

/// The running state of a stage's reductions: for each repetition of the body, for each reduction,
/// its values (one; for an arg-reduction the extreme and its position).
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulators {
    pub(super) items: Vec<SmallVec<[Lanes; 2]>>,
}

impl Accumulators {
    /// The registers, as a loop carries them.
    pub(crate) fn values(&self) -> SmallVec<[Value; 8]> {
        self.items.iter().flatten().flat_map(|l| l.regs().iter().copied()).collect()
    }

    /// The same state in other registers.
    pub(crate) fn with(&self, values: &[Value]) -> Accumulators {
        let mut at = 0;
        let items = self
            .items
            .iter()
            .map(|acc| {
                acc.iter()
                    .map(|l| {
                        let n = l.regs().len();
                        at += n;
                        Lanes::new(l.kind, l.vector, &values[at - n..at])
                    })
                    .collect()
            })
            .collect();
        Accumulators { items }
    }
}
