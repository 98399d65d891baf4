//! Tensors made from numbers and positions.

use super::{CallView, Lowerer};
use crate::ir::Op;
use crate::ir::args;
use crate::ir::{DType, Scalar};
use crate::schedule::loops::{BinaryOp, CompareOp};
use crate::schedule::program::{Def, V};

impl Lowerer<'_> {
    pub(super) fn create(&mut self, c: &CallView) -> Option<V> {
        let number = match c.op {
            Op::full => self.args::<args::full>(c)?.fill_value,
            Op::full_like => self.args::<args::full_like<V>>(c)?.fill_value,
            Op::new_full => self.args::<args::new_full<V>>(c)?.fill_value,
            Op::fill_Scalar => self.args::<args::fill_Scalar<V>>(c)?.value,
            Op::scalar_tensor => self.args::<args::scalar_tensor>(c)?.s,
            Op::zero | Op::zeros | Op::zeros_like | Op::new_zeros => Scalar::Int(0),
            Op::ones | Op::ones_like | Op::new_ones => Scalar::Int(1),
            Op::arange => return self.arange(c, Scalar::Int(0), Scalar::Int(1)),
            Op::arange_start => {
                let a: args::arange_start = self.args(c)?;
                return self.arange(c, a.start, Scalar::Int(1));
            }
            Op::arange_start_step => {
                let a: args::arange_start_step = self.args(c)?;
                return self.arange(c, a.start, a.step);
            }
            Op::eye | Op::eye_m => return self.eye(c),
            Op::tril => {
                let a: args::tril<V> = self.args(c)?;
                return self.triangle(a.self_, a.diagonal, CompareOp::Le, c.sizes());
            }
            Op::triu => {
                let a: args::triu<V> = self.args(c)?;
                return self.triangle(a.self_, a.diagonal, CompareOp::Ge, c.sizes());
            }
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
    fn triangle(&mut self, x: V, diagonal: i64, keep: CompareOp, sizes: &[i64]) -> Option<V> {
        let row = sizes.len().checked_sub(2)?;
        // clamped, so that adding positions cannot overflow; beyond the corners nothing changes
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
