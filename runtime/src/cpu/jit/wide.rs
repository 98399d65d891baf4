//! Calls of strips (see [`super::x86`]) from generated code.

use super::JitError;
use super::body::Values;
use super::emit::mem;
use super::nest::{Invariant, Nest};
use super::sizes::Op;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use smallvec::SmallVec;

impl Nest<'_, '_, '_, '_> {
    /// Runs the strip of stage `s` over `n` elements from the lane axis' current value on, and
    /// returns its reductions.
    pub(crate) fn call_strip(
        &mut self,
        s: usize,
        invariants: &[Option<Invariant>],
        n: Value,
    ) -> Result<SmallVec<[Value; 2]>, JitError> {
        let kernel = self.kernel;
        let strip = self.facts.stages[s].strip.as_ref().expect("asked of stages that have one");
        let function = self.strips[s].expect("declared with the strip");
        let entries = strip.streams.len() + strip.params.len() + strip.folds;
        let slot = self.e.b.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            entries as u32 * 8,
            3,
        ));
        let table = self.e.b.ins().stack_addr(types::I64, slot, 0);
        let was = std::mem::replace(&mut self.vector, false);
        let mut at = 0;
        for &i in &strip.streams {
            let (Op::Load { mem: m, index }
            | Op::Store { mem: m, index, .. }
            | Op::Update { mem: m, index, .. }) = &kernel.stages[s].body[i].op
            else {
                unreachable!("streams are accesses")
            };
            let values = Values::uniform_only(kernel.stages[s].body.len(), invariants);
            let address = self.first_address(s, i, *m, index, &values);
            self.e.b.ins().store(mem(), address, table, at);
            at += 8;
        }
        for v in &strip.params {
            let invariant = invariants[v.0 as usize].expect("parameters are invariant");
            let x = invariant.scalar.one();
            self.e.b.ins().store(mem(), x, table, at);
            at += 8;
        }
        self.vector = was;
        self.e.b.ins().call(function, &[table, n]);
        Ok((0..strip.folds)
            .map(|k| {
                let at = at + k as i32 * 8;
                self.e.b.ins().load(types::F32, mem(), table, at)
            })
            .collect())
    }
}
