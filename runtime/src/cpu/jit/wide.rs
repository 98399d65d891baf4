//! Calls of strips (see [`super::x86`]) from generated code.

use super::JitError;
use super::arith::accumulator;
use super::body::Values;
use super::emit::mem;
use super::lanes::Kind;
use super::nest::{Invariant, Nest};
use super::sizes::{Axis, Inst, Op, Size};
use super::x86::{Param, Stream, Strip};
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Type, Value, types};
use smallvec::{SmallVec, smallvec};

impl<'k> Nest<'_, '_, '_, 'k> {
    /// Runs a strip of stage `s` over `n` elements from the lane axis' current value on, and
    /// returns its reductions, those of one row after those of another.
    pub(crate) fn call_strip(
        &mut self,
        strip: &'k Strip,
        s: usize,
        invariants: &[Option<Invariant>],
        n: Value,
    ) -> Result<SmallVec<[Value; 2]>, JitError> {
        self.call(strip, s, invariants, n, &mut |nest, stream| {
            let Stream::Access { inst, row } = stream else {
                unreachable!("strips along a stage's axis read and write elements")
            };
            let first = nest.access(s, inst, invariants);
            // rows that are neighbours in memory
            let rows = nest.kernel.grid.iter().rev().find(|a| row != 0 && !a.extent.is(1));
            let Some(axis) = rows else {
                return first;
            };
            let offset = nest.e.sizes.times(nest.bytes_along(s, inst, axis), Size::Fixed(row));
            nest.e.plus_size(first, offset)
        })
    }

    /// Runs a strip over `n` elements whose streams are at the addresses that `address` gives.
    pub(crate) fn call(
        &mut self,
        strip: &'k Strip,
        s: usize,
        invariants: &[Option<Invariant>],
        n: Value,
        address: &mut dyn FnMut(&mut Self, Stream) -> Value,
    ) -> Result<SmallVec<[Value; 2]>, JitError> {
        let results: SmallVec<[Type; 4]> =
            (0..strip.folds).flat_map(|k| self.result_types(s, k)).collect();
        let entries = strip.streams.len() + strip.params.len() + results.len();
        let slot = self.e.b.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            entries as u32 * 8,
            3,
        ));
        let table = self.e.b.ins().stack_addr(types::I64, slot, 0);
        let was = std::mem::replace(&mut self.vector, false);
        let mut at = 0;
        for &stream in &strip.streams {
            let address = address(self, stream);
            self.e.b.ins().store(mem(), address, table, at);
            at += 8;
        }
        for param in &strip.params {
            let x = match param {
                Param::Begin => {
                    let axis = self.lane_axis.expect("a strip runs along an axis");
                    self.axis[&axis]
                }
                Param::Value(v) => {
                    let invariant = invariants[v.0 as usize].expect("parameters are invariant");
                    let x = invariant.scalar.one();
                    match invariant.scalar.kind {
                        Kind::Bit => self.e.b.ins().uextend(types::I64, x),
                        _ => x,
                    }
                }
            };
            self.e.b.ins().store(mem(), x, table, at);
            at += 8;
        }
        self.vector = was;
        let zero = self.e.i64(0);
        // a position may be written as 32 bits
        let places = (at..).step_by(8).zip(&results);
        for (at, _) in places.clone().filter(|p| *p.1 == types::I64) {
            self.e.b.ins().store(mem(), zero, table, at);
        }
        self.e.b.ins().call(self.strips[strip.number], &[table, n]);
        Ok(places.map(|(at, ty)| self.e.b.ins().load(*ty, mem(), table, at)).collect())
    }

    /// What a strip returns of a reduction: the result, and its position if that is asked for.
    fn result_types(&self, s: usize, k: usize) -> SmallVec<[Type; 2]> {
        let value = self.total_kind(s, k).ty(false);
        match self.reduction(s, k).op {
            Op::ArgReduce { .. } => smallvec![value, types::I64],
            _ => smallvec![value],
        }
    }

    /// A reduction of a strip of one row or several, which has as many for each as the stage.
    pub(crate) fn reduction(&self, s: usize, k: usize) -> &'k Inst {
        let reduces = &self.facts.stages[s].reduces;
        &self.kernel.stages[s].body[reduces[k % reduces.len()]]
    }

    /// What holds the running result of a stage's reduction, of any row; or the extreme whose
    /// position it is.
    pub(crate) fn total_kind(&self, s: usize, k: usize) -> Kind {
        let inst = self.reduction(s, k);
        let dtype = match inst.op {
            Op::ArgReduce { value, .. } => self.kernel.stages[s].body[value.0 as usize].dtype,
            _ => inst.dtype,
        };
        Kind::of(accumulator(dtype), false)
    }

    /// The address of a load or store at the current values of the axes.
    pub(crate) fn access(&mut self, s: usize, i: usize, invariants: &[Option<Invariant>]) -> Value {
        let kernel = self.kernel;
        let (Op::Load { mem: m, index }
        | Op::Store { mem: m, index, .. }
        | Op::Update { mem: m, index, .. }) = &kernel.stages[s].body[i].op
        else {
            unreachable!("streams are accesses")
        };
        let mut values = Values::uniform_only(kernel.stages[s].body.len(), invariants);
        self.same_in_part(s, index, &mut values);
        self.first_address(s, i, *m, index, &values)
    }

    /// How many bytes a load or store moves from one value of an axis to the next.
    pub(crate) fn bytes_along(&self, s: usize, i: usize, axis: &Axis) -> Size {
        let stage = &self.kernel.stages[s];
        let (Op::Load { mem: m, index }
        | Op::Store { mem: m, index, .. }
        | Op::Update { mem: m, index, .. }) = &stage.body[i].op
        else {
            unreachable!("streams are accesses")
        };
        let stride = index.term(axis.id).unwrap_or(Size::Fixed(0));
        self.e.sizes.times(stride, Size::Fixed(self.element_bytes(*m)))
    }
}
