//! Operators that are called as they are, because the runtime's kernel is predicted to be quicker
//! than generated loops.
//!
//! Loops gain by fusion. Where nothing is fused with an operator that moves short elements, they take
//! an element at a time what the kernel moves in runs of bytes. (PyTorch's Inductor has a like list of
//! fallbacks, chosen by hand; XLA compiles everything.)

use super::{CallView, Lowerer};
use crate::ir::graph::{NodeId, NodeKind};
use crate::ir::{Kind, layout};
use crate::schedule::Target;
use crate::schedule::prediction::Prediction;
use crate::schedule::program::{Def, V};

/// So many views of a result are looked at.
const NEAR: usize = 16;

impl Lowerer<'_> {
    /// The times of a call whose kernel is quicker than loops, if nothing is fused with it.
    pub(super) fn predicted(&self, c: &CallView) -> Option<Prediction> {
        if self.target != Target::Cpu || c.op.facts().kind != Kind::Movement {
            return None;
        }
        let elements = layout::numel(c.sizes()).max(0) as u64;
        let prediction = Prediction::of_moves(elements, c.dtype().size() as u64);
        (prediction.kernel < prediction.loops && self.is_alone()).then_some(prediction)
    }

    /// Whether the call being lowered reads what lies in memory anyway, and nothing but views is made
    /// of its results.
    fn is_alone(&self) -> bool {
        self.p.node.is_some_and(|id| {
            self.graph.operands(id).iter().all(|v| self.lies(self.get(*v))) && self.ends(id, &mut 0)
        })
    }

    fn lies(&self, mut v: V) -> bool {
        while let Def::View { src, .. } | Def::Reshape(src) = self.p.def(v) {
            v = *src;
        }
        matches!(self.p.def(v), Def::Source { .. } | Def::Extern { .. } | Def::Matmul(_))
    }

    fn ends(&self, id: NodeId, seen: &mut usize) -> bool {
        *seen += 1;
        *seen < NEAR
            && self.graph.uses(id).all(|(user, ..)| match &self.graph.node(user).kind {
                NodeKind::Output => true,
                NodeKind::Call(call) => call.op.facts().view && self.ends(user, seen),
                _ => false,
            })
    }
}
