//! Tensors made from numbers and positions.

use super::{CallView, Lowerer};
use crate::ir::Op;
use crate::ir::{DType, Scalar};
use crate::schedule::loops::{BinaryOp, CompareOp};
use crate::schedule::program::{Def, V};

impl Lowerer<'_> {
    pub(super) fn create(&mut self, c: &CallView) -> Option<V> {
        let number = match c.op {
            Op::full | Op::full_like => c.scalar("fill_value")?,
            Op::new_full => c.scalar("fill_value")?,
            Op::fill_Scalar => c.scalar("value")?,
            Op::scalar_tensor => c.scalar("s")?,
            Op::zero | Op::zeros | Op::zeros_like | Op::new_zeros => Scalar::Int(0),
            Op::ones | Op::ones_like | Op::new_ones => Scalar::Int(1),
            Op::arange => return self.arange(c, Scalar::Int(0), Scalar::Int(1)),
            Op::arange_start => return self.arange(c, c.scalar("start")?, Scalar::Int(1)),
            Op::arange_start_step => {
                let step = c.scalar("step").unwrap_or(Scalar::Int(1));
                return self.arange(c, c.scalar("start")?, step);
            }
            Op::eye | Op::eye_m => return self.eye(c),
            Op::tril => return self.triangle(c, CompareOp::Le),
            Op::triu => return self.triangle(c, CompareOp::Ge),
            _ => return None,
        };
        Some(self.p.constant(number, c.dtype(), c.sizes()))
    }

    fn arange(&mut self, c: &CallView, start: Scalar, step: Scalar) -> Option<V> {
        let sizes = c.sizes();
        // integers exactly, floats through f64 as PyTorch's CPU kernel does
        let compute = match c.dtype().is_floating() {
            true => DType::F64,
            false => DType::I64,
        };
        let at = self.p.push(DType::I64, sizes, Def::Position(0));
        let mut x = self.p.cast(at, compute);
        if step.as_f64() != 1.0 {
            let step = self.p.constant(step, compute, sizes);
            x = self.p.binary(BinaryOp::Mul, x, step);
        }
        if start.as_f64() != 0.0 {
            let start = self.p.constant(start, compute, sizes);
            x = self.p.binary(BinaryOp::Add, x, start);
        }
        Some(self.p.cast(x, c.dtype()))
    }

    fn eye(&mut self, c: &CallView) -> Option<V> {
        let sizes = c.sizes();
        let row = self.p.push(DType::I64, sizes, Def::Position(0));
        let col = self.p.push(DType::I64, sizes, Def::Position(1));
        let same = self.p.compare(CompareOp::Eq, row, col);
        let one = self.p.constant(Scalar::Int(1), c.dtype(), sizes);
        let zero = self.p.constant(Scalar::Int(0), c.dtype(), sizes);
        (sizes.len() == 2).then(|| self.p.select(same, one, zero))
    }

    /// Keeps the elements for which this comparison of column with row + diagonal holds.
    fn triangle(&mut self, c: &CallView, keep: CompareOp) -> Option<V> {
        let x = self.tensor(c, 0)?;
        let sizes = c.sizes();
        let row = sizes.len().checked_sub(2)?;
        // clamped, so that adding positions cannot overflow; beyond the corners nothing changes
        let diagonal = c.int("diagonal").unwrap_or(0);
        let diagonal = diagonal.clamp(-sizes[row], sizes[row + 1]);
        let r = self.p.push(DType::I64, sizes, Def::Position(row));
        let col = self.p.push(DType::I64, sizes, Def::Position(row + 1));
        let k = self.p.constant(Scalar::Int(diagonal), DType::I64, sizes);
        let r = self.p.binary(BinaryOp::Add, r, k);
        let inside = self.p.compare(keep, col, r);
        let zero = self.p.constant(Scalar::Int(0), self.p.dtype(x), sizes);
        Some(self.p.select(inside, x, zero))
    }
}
