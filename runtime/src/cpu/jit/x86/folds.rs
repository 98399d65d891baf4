//! Reductions of a strip: accumulators in registers, one for each lane until the end.

use super::encode::{Address, Assembler, Gpr, Mask, Opcode, Rm};
use super::ir::{Fold, FoldOp, Node, predicate};
use super::lower::{Lower, TAIL, TAIL_TRUTH};
use super::regalloc::{OutOfRegisters, Registers};
use super::vectors::{Vectors, Width};

impl Lower<'_> {
    /// The register of an accumulator; that of a position follows.
    pub(super) fn accumulator(&self, copy: u32, fold: u32) -> u8 {
        let folds = &self.body.folds;
        let before: usize = folds[..fold as usize].iter().map(Fold::results).sum();
        (self.top + copy as usize * self.body.results() + before) as u8
    }

    /// The register that has the position of the current step in all lanes, if any is asked for.
    fn now(&self) -> Option<u8> {
        let finds = self.body.folds.iter().any(|f| f.results() > 1);
        let after = self.top + self.shape.unroll as usize * self.body.results();
        finds.then_some(after as u8)
    }

    /// Sets the accumulators to what reductions begin with.
    pub(super) fn begin_folds(&mut self) {
        let mut begin = |r: u8, bits: u64| {
            let at = Address::Pool(self.asm.constant(bits));
            self.asm.vector(Opcode::BROADCAST, r, 0, Rm::Lane(at), None);
        };
        let mut r = self.top as u8;
        for _ in 0..self.shape.unroll {
            for fold in &self.body.folds {
                begin(r, fold.start);
                if fold.results() > 1 {
                    begin(r + 1, 0);
                }
                r += fold.results() as u8;
            }
        }
        if let Some(now) = self.now() {
            self.begin_at_zero(now);
        }
    }

    fn begin_at_zero(&mut self, r: u8) {
        let at = Address::Pool(self.asm.constant(0));
        self.asm.vector(Opcode::BROADCAST, r, 0, Rm::Lane(at), None);
    }

    /// Counts the elements of a step.
    pub(super) fn advance(&mut self, elements: u32) {
        if let Some(now) = self.now() {
            let by = self.repeated(elements.into());
            self.asm.vector(Opcode::IADD, now, now, by, None);
        }
    }

    /// A number in all lanes, as an operand.
    fn repeated(&mut self, bits: u64) -> Rm {
        let at = Address::Pool(self.asm.constant(bits));
        match self.asm.vectors {
            Vectors::Ymm => Rm::Mem(at),
            Vectors::Zmm => Rm::Bcst(at),
        }
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
        if fold.results() > 1 {
            return self.accumulate_position(regs, acc, fold, v, tail);
        }
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

    /// Takes a value and its position into a pair of accumulators, where it comes before the one
    /// that is there.
    fn accumulate_position(
        &mut self,
        regs: &mut Registers<'_>,
        acc: u8,
        fold: Fold,
        v: Node,
        tail: bool,
    ) -> Result<(), OutOfRegisters> {
        let now = self.now().expect("a position is asked for");
        let asm = &mut self.asm;
        let (index, max) = (acc + 1, fold.op == FoldOp::ArgMax);
        let ordered = Some(predicate::ORDERED);
        let beyond = Some(if max { predicate::NOT_GE } else { predicate::NOT_LE });
        // of integers, the larger one comes first
        let x = if fold.int { Some(regs.read(asm, v)?) } else { None };
        let rm = regs.source(asm, v)?;
        let (op, left, right) = match x {
            Some(x) if max => (Opcode::IGT, x, Rm::Reg(acc)),
            Some(x) => (Opcode::IGT, acc, Rm::Reg(x)),
            None => (Opcode::CMP, acc, rm),
        };
        let imm = beyond.filter(|_| !fold.int);
        match asm.vectors {
            Vectors::Zmm => {
                let k = regs.define_mask(None)?;
                let lanes = if tail { Mask::Merge(TAIL) } else { Mask::None };
                asm.evex(op, lanes, k, left, right, imm);
                if !fold.int {
                    asm.evex(Opcode::CMP, Mask::Merge(k), k, acc, Rm::Reg(acc), ordered);
                }
                asm.evex(Opcode::BLEND, Mask::Merge(k), acc, acc, rm, None);
                asm.evex(Opcode::BLEND, Mask::Merge(k), index, index, Rm::Reg(now), None);
            }
            Vectors::Ymm => {
                let (first, other) = (regs.fresh(asm)?, regs.fresh(asm)?);
                asm.vector(op, first, left, right, imm);
                if !fold.int {
                    asm.vector(Opcode::CMP, other, acc, Rm::Reg(acc), ordered);
                    asm.vector(Opcode::AND_TRUTH, first, first, Rm::Reg(other), None);
                }
                if tail {
                    asm.vector(Opcode::AND_TRUTH, first, first, Rm::Reg(TAIL_TRUTH), None);
                }
                let by = Some(first << 4);
                asm.vector(Opcode::BLEND_SIGNS, acc, acc, rm, by);
                asm.vector(Opcode::BLEND_SIGNS, index, index, Rm::Reg(now), by);
                regs.give_back(first);
                regs.give_back(other);
            }
        }
        Ok(())
    }

    /// Adds the accumulators' copies together, then their lanes, and stores the results.
    pub(super) fn fold_up(&mut self) {
        let mut at = (self.body.streams + self.body.params) as i32 * 8;
        for i in 0..self.body.folds.len() as u32 {
            let fold = self.body.folds[i as usize];
            let acc = self.accumulator(0, i);
            if fold.results() > 1 {
                self.fold_positions(fold, i);
                self.store_result(EXTREME, at);
                self.store_result(POSITION, at + 8);
                at += 16;
                continue;
            }
            let mut width = self.shape.unroll;
            while width > 1 {
                width /= 2;
                for copy in 0..width {
                    let into = self.accumulator(copy, i);
                    let from = Rm::Reg(self.accumulator(copy + width, i));
                    combine(&mut self.asm, fold, into, from);
                }
            }
            fold_lanes(&mut self.asm, fold, acc);
            self.store_result(acc, at);
            at += 8;
        }
    }

    /// The lowest lane of a register to the table.
    fn store_result(&mut self, r: u8, at: i32) {
        let to = Rm::Lane(Address::Base(Gpr::RDI, at));
        match self.asm.vectors {
            Vectors::Ymm => self.asm.vex(Opcode::STORE_LANE, false, r, 0, to, None),
            Vectors::Zmm => self.asm.evex(Opcode::STORE_LANE, Mask::None, r, 0, to, None),
        }
    }

    /// The extreme of all lanes of all copies, and the first of the positions where it is: a lane
    /// that has the extreme has the first position among its own.
    fn fold_positions(&mut self, fold: Fold, i: u32) {
        let op = if fold.op == FoldOp::ArgMax { FoldOp::Max } else { FoldOp::Min };
        let value = Fold { op, ..fold };
        self.asm.vector(Opcode::MOVE, EXTREME, 0, Rm::Reg(self.accumulator(0, i)), None);
        for copy in 1..self.shape.unroll {
            let from = Rm::Reg(self.accumulator(copy, i));
            combine(&mut self.asm, value, EXTREME, from);
        }
        fold_lanes(&mut self.asm, value, EXTREME);
        let (lanes, int) = (self.body.lanes(), fold.int);
        let last = match self.asm.width {
            Width::W32 => i32::MAX as u64,
            _ => i64::MAX as u64,
        };
        let first = Fold { op: FoldOp::Min, int: true, start: last };
        let at = Address::Pool(self.asm.constant(last));
        self.asm.vector(Opcode::BROADCAST, POSITION, 0, Rm::Lane(at), None);
        for copy in 0..self.shape.unroll {
            let acc = self.accumulator(copy, i);
            let asm = &mut self.asm;
            let numbers = Address::Pool(asm.numbers_from(copy * lanes));
            asm.vector(Opcode::IADD, PLACE, acc + 1, Rm::Mem(numbers), None);
            let same = Some(predicate::EQ);
            let nan = Some(predicate::UNORDERED);
            match asm.vectors {
                Vectors::Zmm => {
                    let (k, other) = (2, 3);
                    if int {
                        asm.vector(Opcode::IEQ, k, acc, Rm::Reg(EXTREME), None);
                    } else {
                        asm.vector(Opcode::CMP, k, acc, Rm::Reg(EXTREME), same);
                        asm.vector(Opcode::CMP, other, acc, Rm::Reg(acc), nan);
                        asm.mask_op(0x45, k, k, other);
                    }
                    asm.evex(
                        Opcode::IMIN,
                        Mask::Merge(k),
                        POSITION,
                        POSITION,
                        Rm::Reg(PLACE),
                        None,
                    );
                }
                Vectors::Ymm => {
                    let (t, other) = (0, 1);
                    if int {
                        asm.vector(Opcode::IEQ, t, acc, Rm::Reg(EXTREME), None);
                    } else {
                        asm.vector(Opcode::CMP, t, acc, Rm::Reg(EXTREME), same);
                        asm.vector(Opcode::CMP, other, acc, Rm::Reg(acc), nan);
                        asm.vector(Opcode::OR_TRUTH, t, t, Rm::Reg(other), None);
                    }
                    let by = Some(t << 4);
                    asm.vector(Opcode::BLEND_SIGNS, PLACE, POSITION, Rm::Reg(PLACE), by);
                    combine(asm, first, POSITION, Rm::Reg(PLACE));
                }
            }
        }
        fold_lanes(&mut self.asm, first, POSITION);
    }
}

/// Registers of the end, when no values are alive: 0 to 2 are temporary.
const EXTREME: u8 = 3;
const POSITION: u8 = 4;
const PLACE: u8 = 5;

/// The fold of all lanes, in all lanes.
fn fold_lanes(asm: &mut Assembler, fold: Fold, acc: u8) {
    const TEMP: u8 = 0;
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
        (_, Width::W8 | Width::W16) => unreachable!("reductions have longer lanes"),
    };
    for &(op, imm) in steps {
        let v = if op == Opcode::PERMUTE { 0 } else { acc };
        asm.vector(op, TEMP, v, Rm::Reg(acc), Some(imm));
        combine(asm, fold, acc, Rm::Reg(TEMP));
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
        (FoldOp::Or, _) => Opcode::OR,
        (FoldOp::And, _) => Opcode::AND,
        (FoldOp::Max | FoldOp::Min | FoldOp::ArgMax | FoldOp::ArgMin, _) => return None,
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
