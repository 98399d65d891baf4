//! Reductions of a strip: accumulators in registers, one for each lane until the end.

use super::encode::{Address, Assembler, Gpr, Mask, Opcode, Rm};
use super::ir::{Fold, FoldOp, Node, predicate};
use super::lower::{Lower, TAIL, TAIL_TRUTH};
use super::regalloc::{OutOfRegisters, Registers};
use super::vectors::Vectors;
use crate::cpu::math::Width;

impl Lower<'_> {
    /// The register of an accumulator.
    pub(super) fn accumulator(&self, copy: u32, fold: u32) -> u8 {
        (self.top as u32 + copy * self.body.folds.len() as u32 + fold) as u8
    }

    /// Takes a value into an accumulator.
    pub(super) fn accumulate(
        &mut self,
        regs: &mut Registers<'_>,
        acc: u8,
        fold: Fold,
        v: Node,
        tail: bool,
    ) -> Result<(), OutOfRegisters> {
        let asm = &mut self.asm;
        let rm = regs.source(asm, v)?;
        let lanes = if tail { Mask::Merge(TAIL) } else { Mask::None };
        match (asm.vectors, simple(fold, asm)) {
            (Vectors::Zmm, Some(op)) => asm.evex(op, lanes, acc, acc, rm, None),
            (Vectors::Zmm, None) => {
                let k = regs.define_mask(None)?;
                extreme_zmm(asm, fold, lanes, k, acc, rm);
            }
            (Vectors::Ymm, Some(op)) if !tail => asm.vector(op, acc, acc, rm, None),
            (Vectors::Ymm, Some(op)) if fold.op == FoldOp::Sum => {
                // the sum begins with a zero, which another one does not change
                let part = regs.fresh(asm)?;
                asm.vector(Opcode::AND_TRUTH, part, TAIL_TRUTH, rm, None);
                asm.vector(op, acc, acc, Rm::Reg(part), None);
                regs.give_back(part);
            }
            (Vectors::Ymm, Some(op)) => {
                let new = regs.fresh(asm)?;
                asm.vector(op, new, acc, rm, None);
                let changed = Some(TAIL_TRUTH << 4);
                asm.vector(Opcode::BLEND_SIGNS, acc, acc, Rm::Reg(new), changed);
                regs.give_back(new);
            }
            (Vectors::Ymm, None) => {
                let (a, b) = (regs.fresh(asm)?, regs.fresh(asm)?);
                let lanes = tail.then_some(TAIL_TRUTH);
                extreme_ymm(asm, fold, lanes, [a, b], acc, rm);
                regs.give_back(a);
                regs.give_back(b);
            }
        }
        Ok(())
    }

    /// Adds the accumulators' copies together, then their lanes, and stores the results.
    pub(super) fn fold_up(&mut self) {
        const TEMP: u8 = 0;
        let n = self.body.folds.len() as u32;
        for i in 0..n {
            let fold = self.body.folds[i as usize];
            let acc = self.accumulator(0, i);
            let mut width = self.shape.unroll;
            while width > 1 {
                width /= 2;
                for copy in 0..width {
                    let into = self.accumulator(copy, i);
                    let from = Rm::Reg(self.accumulator(copy + width, i));
                    combine(&mut self.asm, fold, into, from);
                }
            }
            let asm = &mut self.asm;
            // lanes that are far apart first
            let steps: &[(Opcode, u8)] = match (asm.vectors, asm.width) {
                (Vectors::Ymm, Width::W32) => {
                    &[(Opcode::HALVES, 1), (Opcode::PERMUTE, 0x4e), (Opcode::PERMUTE, 0xb1)]
                }
                (Vectors::Ymm, Width::W64) => &[(Opcode::HALVES, 1), (Opcode::PERMUTE, 0x05)],
                (Vectors::Zmm, Width::W32) => &[
                    (Opcode::QUARTERS, 0x4e),
                    (Opcode::QUARTERS, 0xb1),
                    (Opcode::PERMUTE, 0x4e),
                    (Opcode::PERMUTE, 0xb1),
                ],
                (Vectors::Zmm, Width::W64) => {
                    &[(Opcode::QUARTERS, 0x4e), (Opcode::QUARTERS, 0xb1), (Opcode::PERMUTE, 0x55)]
                }
            };
            for &(op, imm) in steps {
                let v = if op == Opcode::PERMUTE { 0 } else { acc };
                asm.vector(op, TEMP, v, Rm::Reg(acc), Some(imm));
                combine(asm, fold, acc, Rm::Reg(TEMP));
            }
            let at = (self.body.streams + self.body.params + i) as i32 * 8;
            let to = Rm::Lane(Address::Base(Gpr::RDI, at));
            match asm.vectors {
                Vectors::Ymm => asm.vex(Opcode::STORE_LANE, false, acc, 0, to, None),
                Vectors::Zmm => asm.evex(Opcode::STORE_LANE, Mask::None, acc, 0, to, None),
            }
        }
    }
}

/// `acc <- fold(acc, rm)` where no values are alive but accumulators and register 0.
fn combine(asm: &mut Assembler, fold: Fold, acc: u8, rm: Rm) {
    match (simple(fold, asm), asm.vectors) {
        (Some(op), _) => asm.vector(op, acc, acc, rm, None),
        (None, Vectors::Ymm) => extreme_ymm(asm, fold, None, [1, 2], acc, rm),
        (None, Vectors::Zmm) => extreme_zmm(asm, fold, Mask::None, 2, acc, rm),
    }
}

/// The instruction that a reduction is, if it is one.
fn simple(fold: Fold, asm: &Assembler) -> Option<Opcode> {
    let long = asm.vectors == Vectors::Ymm && asm.width == Width::W64;
    Some(match (fold.op, fold.int) {
        (FoldOp::Sum, false) => Opcode::ADD,
        (FoldOp::Sum, true) => Opcode::IADD,
        (FoldOp::Prod, false) => Opcode::MUL,
        (FoldOp::Prod, true) => Opcode::IMUL,
        (FoldOp::Max, true) if !long => Opcode::IMAX,
        (FoldOp::Min, true) if !long => Opcode::IMIN,
        (FoldOp::Max | FoldOp::Min, _) => return None,
    })
}

fn extreme_of(fold: Fold) -> Opcode {
    match fold.op {
        FoldOp::Max => Opcode::MAX,
        _ => Opcode::MIN,
    }
}

/// `acc <- extreme(acc, rm)`: a NaN in either stays.
fn extreme_zmm(asm: &mut Assembler, fold: Fold, lanes: Mask, k: u8, acc: u8, rm: Rm) {
    // the machine gives the second operand where one is NaN: a lane that has one already is left
    // alone
    let ordered = Some(predicate::ORDERED);
    asm.evex(Opcode::CMP, lanes, k, acc, Rm::Reg(acc), ordered);
    asm.evex(extreme_of(fold), Mask::Merge(k), acc, acc, rm, None);
}

/// The same; `lanes` has the truth values of those that change.
fn extreme_ymm(
    asm: &mut Assembler,
    fold: Fold,
    lanes: Option<u8>,
    [new, nan]: [u8; 2],
    acc: u8,
    rm: Rm,
) {
    if fold.int {
        // the truth value says where the old one stays
        let (large, small) = if fold.op == FoldOp::Max { (acc, new) } else { (new, acc) };
        let from = match rm {
            Rm::Reg(_) => Opcode::MOVE,
            _ => Opcode::LOAD,
        };
        asm.vector(from, new, 0, rm, None);
        asm.vector(Opcode::IGT, nan, large, Rm::Reg(small), None);
    } else {
        let unordered = Some(predicate::UNORDERED);
        asm.vector(extreme_of(fold), new, acc, rm, None);
        asm.vector(Opcode::CMP, nan, acc, Rm::Reg(acc), unordered);
    }
    let Some(lanes) = lanes else {
        return asm.vector(Opcode::BLEND_SIGNS, acc, new, Rm::Reg(acc), Some(nan << 4));
    };
    asm.vector(Opcode::BLEND_SIGNS, new, new, Rm::Reg(acc), Some(nan << 4));
    asm.vector(Opcode::BLEND_SIGNS, acc, acc, Rm::Reg(new), Some(lanes << 4));
}
