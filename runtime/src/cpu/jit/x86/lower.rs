//! A body to machine code: loops, masked tail, hoisted constants, accumulators.

use super::encode::{Address, Assembler, Gpr, Mask, Opcode, Rm};
use super::ir::{Body, Fold, Inst, Node, predicate};
use super::regalloc::{Liveness, OutOfRegisters, Registers, is_uniform};

/// Registers that hold the streams' addresses; the last six are the caller's.
const STREAMS: [Gpr; 10] =
    [Gpr(8), Gpr(9), Gpr(10), Gpr(11), Gpr(3), Gpr(5), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
/// How many of them the caller does not expect to find again.
const SCRATCH: usize = 4;

/// The lanes that a partial vector has.
const TAIL: u8 = 1;

/// The most streams of a strip.
pub(crate) const MAX_STREAMS: usize = STREAMS.len();

/// The loops that a strip has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Vectors per iteration of the main loop: 1, 2 or 4.
    pub(crate) unroll: u32,
    /// The number of vectors need not be a multiple of that.
    pub(crate) single: bool,
    /// The number of elements need not be a multiple of 16.
    pub(crate) tail: bool,
}

/// Generates a strip: `extern "sysv64" fn(table: *mut u64, n: i64)`.
pub(crate) fn lower(body: &Body, shape: Shape) -> Result<Vec<u8>, OutOfRegisters> {
    let lives = Liveness::of(body);
    let draft = Lower::new(body, &lives, shape, 0)?;
    let (code, slots) = draft.strip()?;
    if slots == 0 {
        return Ok(code);
    }
    Ok(Lower::new(body, &lives, shape, slots)?.strip()?.0)
}

struct Lower<'b> {
    asm: Assembler,
    body: &'b Body,
    lives: &'b Liveness,
    shape: Shape,
    /// Stack slots that the frame has.
    frame: u32,
    slots: u32,
    fixed: Vec<(Node, u8)>,
    uniform: Vec<(Node, Address)>,
    /// Vector registers of accumulators.
    reserved: u32,
}

impl<'b> Lower<'b> {
    fn new(
        body: &'b Body,
        lives: &'b Liveness,
        shape: Shape,
        frame: u32,
    ) -> Result<Self, OutOfRegisters> {
        let accumulators = body.folds.len() * shape.unroll as usize;
        // an instruction may need three registers besides the live values, for uniform operands
        let taken = accumulators + lives.pressure + 3;
        if body.streams as usize > MAX_STREAMS || accumulators > 20 {
            return Err(OutOfRegisters);
        }
        let mut asm = Assembler::default();
        let mut uniform = Vec::new();
        for (i, inst) in body.insts.iter().enumerate() {
            if !lives.live[i] {
                continue;
            }
            match *inst {
                Inst::Const(bits) => {
                    let word = asm.constant(bits);
                    uniform.push((Node(i as u32), Address::Pool(word)));
                }
                Inst::Param(p) => {
                    let at = (body.streams + p) as i32 * 8;
                    uniform.push((Node(i as u32), Address::Base(Gpr::RDI, at)));
                }
                _ => {}
            }
        }
        let mut order: Vec<Node> = uniform.iter().map(|u| u.0).collect();
        order.sort_by_key(|v| std::cmp::Reverse(lives.uses[v.0 as usize].len()));
        let hoisted = order.len().min(32usize.saturating_sub(taken));
        // accumulators are at the upper end, hoisted values below them
        let top = 32 - accumulators;
        let fixed =
            order[..hoisted].iter().enumerate().map(|(i, &v)| (v, (top - 1 - i) as u8)).collect();
        Ok(Lower {
            asm,
            body,
            lives,
            shape,
            frame,
            slots: 0,
            fixed,
            uniform,
            reserved: !(((1u64 << top) - 1) as u32),
        })
    }

    /// The register of an accumulator.
    fn accumulator(&self, copy: u32, fold: u32) -> u8 {
        let n = self.body.folds.len() as u32;
        (32 - n * self.shape.unroll + copy * n + fold) as u8
    }

    fn strip(mut self) -> Result<(Vec<u8>, u32), OutOfRegisters> {
        let streams = &STREAMS[..self.body.streams as usize];
        let saved = &streams[SCRATCH.min(streams.len())..];
        for &r in saved {
            self.asm.push(r);
        }
        if self.frame > 0 {
            self.asm.sub_imm(Gpr::RSP, self.frame as i32 * 64);
        }
        for (i, &r) in streams.iter().enumerate() {
            self.asm.load(r, Gpr::RDI, i as i32 * 8);
        }
        for &(v, r) in &self.fixed {
            let from = self.uniform.iter().find(|u| u.0 == v);
            let at = from.expect("only uniform values are hoisted").1;
            let asm = &mut self.asm;
            asm.evex(Opcode::BROADCAST, Mask::None, r, 0, Rm::Lane(at), None);
        }
        for copy in 0..self.shape.unroll {
            for (i, fold) in self.body.folds.iter().enumerate() {
                let r = self.accumulator(copy, i as u32);
                let start = match fold {
                    Fold::Sum => 0.0,
                    Fold::Max => f32::NEG_INFINITY,
                    Fold::Min => f32::INFINITY,
                };
                let at = Address::Pool(self.asm.constant(start.to_bits()));
                let asm = &mut self.asm;
                asm.evex(Opcode::BROADCAST, Mask::None, r, 0, Rm::Lane(at), None);
            }
        }
        self.asm.mov_imm(Gpr::RAX, 0);
        self.counted(self.shape.unroll)?;
        if self.shape.single && self.shape.unroll > 1 {
            let vectors = self.shape.unroll as i32 * 16;
            self.asm.and_imm(Gpr::RSI, vectors - 1);
            self.counted(1)?;
        }
        if self.shape.tail {
            let done = self.asm.label();
            self.asm.and_imm(Gpr::RSI, 15);
            self.asm.jump_zero(done);
            self.asm.mov(Gpr::RCX, Gpr::RSI);
            self.asm.mov_imm(Gpr::RDX, 1);
            self.asm.shl_edx_cl();
            self.asm.dec(Gpr::RDX);
            self.asm.mask_from_edx(TAIL);
            self.pass(0, true)?;
            self.asm.bind(done);
        }
        self.fold_up();
        self.asm.zero_upper();
        if self.frame > 0 {
            self.asm.add_imm(Gpr::RSP, self.frame as i32 * 64);
        }
        for &r in saved.iter().rev() {
            self.asm.pop(r);
        }
        self.asm.ret();
        Ok((self.asm.finish(), self.slots))
    }

    /// A loop over `rsi / (16 u)` groups of `u` vectors.
    fn counted(&mut self, u: u32) -> Result<(), OutOfRegisters> {
        let (head, done) = (self.asm.label(), self.asm.label());
        self.asm.mov(Gpr::RCX, Gpr::RSI);
        self.asm.shr_imm(Gpr::RCX, (4 + u.trailing_zeros()) as u8);
        self.asm.jump_zero(done);
        self.asm.bind(head);
        for copy in 0..u {
            self.pass(copy, false)?;
        }
        self.asm.add_imm(Gpr::RAX, 64 * u as i32);
        self.asm.dec(Gpr::RCX);
        self.asm.jump_not_zero(head);
        self.asm.bind(done);
        Ok(())
    }

    /// The body once, for the vector `copy` places after the position.
    fn pass(&mut self, copy: u32, tail: bool) -> Result<(), OutOfRegisters> {
        let lives = self.lives;
        let mut regs = Registers::new(lives, &self.fixed, &self.uniform, self.reserved);
        for (i, inst) in self.body.insts.iter().enumerate() {
            if lives.live[i] && !is_uniform(inst) {
                regs.begin(i as u32);
                self.inst(&mut regs, Node(i as u32), *inst, copy, tail)?;
            }
        }
        self.slots = self.slots.max(regs.slots);
        Ok(())
    }

    fn inst(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        inst: Inst,
        copy: u32,
        tail: bool,
    ) -> Result<(), OutOfRegisters> {
        let place = |s: u32| {
            let at = Address::Indexed(STREAMS[s as usize], Gpr::RAX, copy as i32 * 64);
            Rm::Mem(at)
        };
        let partial = |mask: Mask| if tail { mask } else { Mask::None };
        let asm = &mut self.asm;
        match inst {
            Inst::Const(_) | Inst::Param(_) => {}
            Inst::Load(s) => {
                let r = regs.define(asm, me, inst.operands())?;
                let mask = partial(Mask::Zero(TAIL));
                asm.evex(Opcode::LOAD, mask, r, 0, place(s), None);
            }
            Inst::Store(s, v) => {
                let r = regs.read(asm, v)?;
                let mask = partial(Mask::Merge(TAIL));
                asm.evex(Opcode::STORE, mask, r, 0, place(s), None);
                regs.release(inst.operands());
            }
            Inst::Unary(op, imm, a) => {
                let rm = regs.source(a);
                let r = regs.define(asm, me, inst.operands())?;
                asm.evex(op, Mask::None, r, 0, rm, imm);
            }
            Inst::Shift(which, n, a) => {
                let rm = regs.source(a);
                let r = regs.define(asm, me, inst.operands())?;
                asm.evex(Opcode::SHIFT, Mask::None, which, r, rm, Some(n));
            }
            Inst::Binary(op, commutes, a, b) => {
                let (ra, rb) = (regs.held(a), regs.held(b));
                let (a, b) = match (ra, rb) {
                    (None, Some(_)) if commutes => (b, a),
                    _ => (a, b),
                };
                let x = regs.read(asm, a)?;
                let y = regs.source(b);
                let r = regs.define(asm, me, inst.operands())?;
                asm.evex(op, Mask::None, r, x, y, None);
            }
            Inst::Fma(a, b, c) => self.fma(regs, me, [a, b, c])?,
            Inst::Compare(p, a, b) => {
                let x = regs.read(asm, a)?;
                let y = regs.source(b);
                let k = regs.define_mask(Some(me))?;
                asm.evex(Opcode::CMP, Mask::None, k, x, y, Some(p));
                regs.release(inst.operands());
            }
            Inst::CompareInt(op, a, b) => {
                let x = regs.read(asm, a)?;
                let y = regs.source(b);
                let k = regs.define_mask(Some(me))?;
                asm.evex(op, Mask::None, k, x, y, None);
                regs.release(inst.operands());
            }
            Inst::MaskOp(code, a, b) => {
                let (x, y) = (regs.mask(a), regs.mask(b));
                regs.release_masks(inst.operands());
                let k = regs.define_mask(Some(me))?;
                asm.mask_op(code, k, x, y);
            }
            Inst::MaskNot(a) => {
                let x = regs.mask(a);
                regs.release_masks(inst.operands());
                let k = regs.define_mask(Some(me))?;
                asm.mask_not(k, x);
            }
            Inst::Select(m, a, b) => {
                let k = regs.mask(m);
                // the other one stays where it is while this one is read
                regs.held(a);
                let y = regs.read(asm, b)?;
                let x = regs.source(a);
                regs.release_masks([m].into_iter());
                let r = regs.define(asm, me, [a, b].into_iter())?;
                asm.evex(Opcode::BLEND, Mask::Merge(k), r, y, x, None);
            }
            Inst::Accumulate(i, fold, v) => {
                let n = self.body.folds.len() as u32;
                let acc = (32 - n * self.shape.unroll + copy * n + i) as u8;
                let rm = regs.source(v);
                match fold {
                    Fold::Sum => {
                        let mask = partial(Mask::Merge(TAIL));
                        asm.evex(Opcode::ADD, mask, acc, acc, rm, None);
                    }
                    Fold::Max | Fold::Min => {
                        let k = regs.define_mask(None)?;
                        extreme(asm, fold, partial(Mask::Merge(TAIL)), k, acc, rm);
                    }
                }
                regs.release(inst.operands());
            }
        }
        Ok(())
    }

    /// Multiply and add overwrite one of their operands: one that ends here, or a copy of the
    /// addend.
    fn fma(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        [a, b, c]: [Node; 3],
    ) -> Result<(), OutOfRegisters> {
        let asm = &mut self.asm;
        let operands = [a, b, c];
        for v in operands {
            regs.held(v);
        }
        let over = |regs: &mut Registers<'_>, v: Node| regs.dies(v) && regs.held(v).is_some();
        // the factor in a register first, the one that may come from memory second
        let (a, b) = if regs.held(a).is_none() { (b, a) } else { (a, b) };
        let (op, r, x, y) = if over(regs, c) {
            let x = regs.read(asm, a)?;
            let r = regs.read(asm, c)?;
            (Opcode::FMA231, r, x, regs.source(b))
        } else {
            let (a, b) = if !over(regs, a) && over(regs, b) { (b, a) } else { (a, b) };
            if over(regs, a) {
                let r = regs.read(asm, a)?;
                if regs.held(c).is_none() {
                    let x = regs.read(asm, b)?;
                    (Opcode::FMA213, r, x, regs.source(c))
                } else {
                    let x = regs.read(asm, c)?;
                    (Opcode::FMA132, r, x, regs.source(b))
                }
            } else {
                let x = regs.read(asm, a)?;
                let r = regs.fresh(asm)?;
                let (op, from) = match regs.source(c) {
                    Rm::Reg(s) => (Opcode::MOVE, Rm::Reg(s)),
                    Rm::Bcst(at) => (Opcode::BROADCAST, Rm::Lane(at)),
                    other => (Opcode::LOAD, other),
                };
                asm.evex(op, Mask::None, r, 0, from, None);
                (Opcode::FMA231, r, x, regs.source(b))
            }
        };
        asm.evex(op, Mask::None, r, x, y, None);
        regs.release(operands.into_iter());
        regs.own(me, r);
        Ok(())
    }

    /// Adds the accumulators' copies together, then their lanes, and stores the results.
    fn fold_up(&mut self) {
        const K: u8 = 2;
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
                    combine(&mut self.asm, fold, K, into, from);
                }
            }
            let asm = &mut self.asm;
            for (op, imm) in [
                (Opcode::QUARTERS, 0x4e),
                (Opcode::QUARTERS, 0xb1),
                (Opcode::PERMUTE, 0x4e),
                (Opcode::PERMUTE, 0xb1),
            ] {
                let v = if op == Opcode::QUARTERS { acc } else { 0 };
                asm.evex(op, Mask::None, TEMP, v, Rm::Reg(acc), Some(imm));
                combine(asm, fold, K, acc, Rm::Reg(TEMP));
            }
            let at = (self.body.streams + self.body.params + i) as i32 * 8;
            let to = Rm::Lane(Address::Base(Gpr::RDI, at));
            asm.evex(Opcode::STORE_LANE, Mask::None, acc, 0, to, None);
        }
    }
}

fn combine(asm: &mut Assembler, fold: Fold, k: u8, acc: u8, rm: Rm) {
    match fold {
        Fold::Sum => asm.evex(Opcode::ADD, Mask::None, acc, acc, rm, None),
        Fold::Max | Fold::Min => extreme(asm, fold, Mask::None, k, acc, rm),
    }
}

/// `acc <- extreme(acc, rm)`: a NaN in either stays.
fn extreme(asm: &mut Assembler, fold: Fold, lanes: Mask, k: u8, acc: u8, rm: Rm) {
    let op = match fold {
        Fold::Max => Opcode::MAX,
        _ => Opcode::MIN,
    };
    // the machine gives the second operand where one is NaN: a lane that has one already is left
    // alone
    let ordered = Some(predicate::ORDERED);
    asm.evex(Opcode::CMP, lanes, k, acc, Rm::Reg(acc), ordered);
    asm.evex(op, Mask::Merge(k), acc, acc, rm, None);
}
