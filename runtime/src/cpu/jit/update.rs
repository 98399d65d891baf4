//! Values combined with elements in memory: the stores of a scatter that accumulates.

use super::JitError;
use super::body::Place;
use super::emit::Emit;
use super::lanes::{LANES, Lanes};
use super::nest::Nest;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

impl Nest<'_, '_, '_, '_> {
    /// `memory = op(memory, v)`, lane after lane where lanes are not neighbours: several may hit
    /// one element.
    pub(crate) fn update(
        &mut self,
        op: ReduceOp,
        dtype: DType,
        place: &Place,
        v: Lanes,
    ) -> Result<(), JitError> {
        let e = &mut *self.e;
        if self.vector && place.is_row() {
            let (base, offset) = (place.base, place.offset as i32);
            let old = e.load_vector(dtype, base, offset);
            let new = e.combined(op, old, v, dtype)?;
            e.store_vector(dtype, new, base, offset);
            return Ok(());
        }
        for k in 0..if self.vector { LANES } else { 1 } {
            let (base, offset) = place.lane(e, k);
            let new = match self.vector {
                true => Lanes::scalar(v.kind, e.lane(v, k)),
                false => v,
            };
            let old = e.load_scalar(dtype, base, offset);
            let sum = e.combined(op, old, new, dtype)?;
            e.store_scalar(dtype, sum.one(), base, offset);
        }
        Ok(())
    }
}

impl Emit<'_, '_> {
    /// What an element becomes.
    fn combined(
        &mut self,
        op: ReduceOp,
        old: Lanes,
        new: Lanes,
        dtype: DType,
    ) -> Result<Lanes, JitError> {
        let beyond = match op {
            ReduceOp::Max => CompareOp::Lt,
            _ => CompareOp::Gt,
        };
        let op = match op {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Prod => BinaryOp::Mul,
            ReduceOp::Max | ReduceOp::Min if dtype.is_floating() => {
                let takes = self.compare(beyond, old, new);
                let nan = self.unary(UnaryOp::IsNan, new, dtype)?;
                let takes = self.logical(BinaryOp::LogicalOr, takes, nan)?;
                return Ok(self.select(takes, new, old));
            }
            ReduceOp::Max => BinaryOp::Maximum,
            ReduceOp::Min => BinaryOp::Minimum,
            ReduceOp::Any | ReduceOp::All => {
                return Err(JitError::Unsupported { what: format!("an update by {op:?}") });
            }
        };
        self.binary(op, old, new, dtype, &mut |_, _| {})
    }

    fn logical(&mut self, op: BinaryOp, a: Lanes, b: Lanes) -> Result<Lanes, JitError> {
        self.binary(op, a, b, DType::Bool, &mut |_, _| {})
    }
}
