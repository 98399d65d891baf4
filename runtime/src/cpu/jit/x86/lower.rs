//! A body to machine code: loops, masked tail, hoisted constants, accumulators.

use super::encode::{Address, Assembler, Gpr, Mask, Opcode, Rm};
use super::ir::{Body, Format, Inst, Logic, Node};
use super::regalloc::{Liveness, OutOfRegisters, Registers, Uniform, is_uniform};
use super::routines::Call;
use super::vectors::{Vectors, Width};

/// Registers that hold the streams' addresses; the last six are the caller's.
pub(super) const STREAMS: [Gpr; 10] =
    [Gpr(8), Gpr(9), Gpr(10), Gpr(11), Gpr(3), Gpr(5), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
/// How many of them the caller does not expect to find again.
const SCRATCH: usize = 4;

/// The lanes that a partial vector has, as a mask register.
pub(super) const TAIL: u8 = 1;
/// And as a truth value in a vector register.
pub(super) const TAIL_TRUTH: u8 = 15;

/// Bytes of a cache line.
const LINE: i32 = 64;

/// The most streams of a strip.
pub(crate) const MAX_STREAMS: usize = STREAMS.len();

/// The loops that a strip has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Vectors per iteration of the main loop: a power of two.
    pub(crate) unroll: u32,
    /// The number of vectors need not be a multiple of that.
    pub(crate) single: bool,
    /// The number of elements need not be a multiple of the lanes.
    pub(crate) tail: bool,
}

/// Generates a strip: `extern "sysv64" fn(table: *mut u64, n: i64)`.
pub(crate) fn lower(body: &Body, shape: Shape) -> Result<Vec<u8>, OutOfRegisters> {
    lower_pairs(body, None, shape)
}

/// The same; the main loop, if it has an even number of vectors, by a body for two of them.
pub(crate) fn lower_pairs(
    body: &Body,
    pair: Option<&Body>,
    shape: Shape,
) -> Result<Vec<u8>, OutOfRegisters> {
    let lives = Liveness::of(body);
    let pair_lives = pair.map(Liveness::of);
    let pair = pair.zip(pair_lives.as_ref());
    let draft = Lower::new((body, &lives), pair, shape, 0)?;
    let (code, slots) = draft.strip()?;
    if slots == 0 {
        return Ok(code);
    }
    Ok(Lower::new((body, &lives), pair, shape, slots)?.strip()?.0)
}

pub(super) struct Lower<'b> {
    pub(super) asm: Assembler,
    pub(super) body: &'b Body,
    lives: &'b Liveness,
    /// The body for two vectors.
    pair: Option<(&'b Body, &'b Liveness)>,
    pub(super) shape: Shape,
    /// Stack slots that the frame has.
    pub(super) frame: u32,
    pub(super) slots: u32,
    pub(super) fixed: Vec<(Node, u8)>,
    pub(super) uniform: Vec<Uniform>,
    /// The first register that holds no values: there are the accumulators.
    pub(super) top: usize,
    /// What is called from the code so far.
    pub(super) calls: Vec<Call>,
}

impl<'b> Lower<'b> {
    fn new(
        (body, lives): (&'b Body, &'b Liveness),
        pair: Option<(&'b Body, &'b Liveness)>,
        shape: Shape,
        frame: u32,
    ) -> Result<Self, OutOfRegisters> {
        let vectors = body.vectors;
        let finds = body.folds.iter().any(|f| f.results() > 1);
        let accumulators = body.results() * shape.unroll as usize + usize::from(finds);
        // an instruction may need registers besides the live values: for uniform operands, and for
        // what takes more than one instruction
        let (more, most) = match vectors {
            Vectors::Ymm => (5, 9),
            Vectors::Zmm if body.width.is_narrow() => (5, 20),
            Vectors::Zmm => (3, 20),
        };
        let pressure = pair.map_or(lives.pressure, |p| p.1.pressure);
        let taken = accumulators + pressure + more;
        if pair.is_some() && taken >= vectors.count() {
            // what goes to the stack costs more than waiting
            return Err(OutOfRegisters);
        }
        if body.streams as usize > MAX_STREAMS || accumulators > most {
            return Err(OutOfRegisters);
        }
        let mut asm = Assembler::new(vectors, body.width);
        let mut uniform = Vec::new();
        // instructions repeat one element in all lanes
        let repeated = !body.width.is_narrow();
        for (i, inst) in body.insts.iter().enumerate() {
            if !lives.live[i] {
                continue;
            }
            let value = Node(i as u32);
            match *inst {
                Inst::Const(bits) => {
                    let element = Address::Pool(asm.constant(bits));
                    let operand = match vectors {
                        Vectors::Ymm => Some(Rm::Mem(element)),
                        Vectors::Zmm => repeated.then_some(Rm::Bcst(element)),
                    };
                    uniform.push(Uniform { value, element, operand });
                }
                Inst::Param(p) => {
                    let at = (body.streams + p) as i32 * 8;
                    let element = Address::Base(Gpr::RDI, at);
                    let operand = match vectors {
                        Vectors::Ymm => None,
                        Vectors::Zmm => repeated.then_some(Rm::Bcst(element)),
                    };
                    uniform.push(Uniform { value, element, operand });
                }
                _ => {}
            }
        }
        // parameters that cannot be operands first
        let mut order: Vec<&Uniform> = uniform.iter().collect();
        let uses = |u: &Uniform| lives.uses[u.value.0 as usize].len();
        order.sort_by_key(|u| (u.operand.is_some(), std::cmp::Reverse(uses(u))));
        // accumulators are at the upper end, hoisted values below them
        let truth = usize::from(shape.tail && vectors == Vectors::Ymm);
        let top = vectors.count() - truth - accumulators;
        let hoisted = order.len().min((top + accumulators).saturating_sub(taken));
        let fixed = order[..hoisted]
            .iter()
            .enumerate()
            .map(|(i, u)| (u.value, (top - 1 - i) as u8))
            .collect();
        Ok(Lower {
            asm,
            body,
            lives,
            pair,
            shape,
            frame,
            slots: 0,
            fixed,
            uniform,
            top,
            calls: Vec::new(),
        })
    }

    fn strip(mut self) -> Result<(Vec<u8>, u32), OutOfRegisters> {
        let streams = &STREAMS[..self.body.streams as usize];
        let saved = &streams[SCRATCH.min(streams.len())..];
        for &r in saved {
            self.asm.push(r);
        }
        let (lanes, bytes) = (self.body.lanes() as i32, self.body.vectors.bytes());
        if self.frame > 0 {
            self.asm.sub_imm(Gpr::RSP, self.frame as i32 * bytes);
        }
        for (i, &r) in streams.iter().enumerate() {
            self.asm.load(r, Gpr::RDI, i as i32 * 8);
        }
        for &(v, r) in &self.fixed {
            let from = self.uniform.iter().find(|u| u.value == v);
            let at = from.expect("only uniform values are hoisted").element;
            self.asm.vector(Opcode::BROADCAST, r, 0, Rm::Lane(at), None);
        }
        self.begin_folds();
        self.asm.mov_imm(Gpr::RAX, 0);
        self.counted(self.shape.unroll)?;
        if self.shape.single && self.shape.unroll > 1 {
            self.asm.and_imm(Gpr::RSI, self.shape.unroll as i32 * lanes - 1);
            self.counted(1)?;
        }
        if self.shape.tail {
            let done = self.asm.label();
            self.asm.and_imm(Gpr::RSI, lanes - 1);
            self.asm.jump_zero(done);
            self.mark_tail();
            self.begin_tail();
            self.pass(0, true)?;
            self.asm.bind(done);
        }
        self.fold_up();
        self.asm.zero_upper();
        if self.frame > 0 {
            self.asm.add_imm(Gpr::RSP, self.frame as i32 * bytes);
        }
        for &r in saved.iter().rev() {
            self.asm.pop(r);
        }
        self.asm.ret();
        self.place_calls();
        let slots = self.slots + u32::from(self.copies_tail());
        Ok((self.asm.finish(), slots))
    }

    /// The lanes of the last `rsi` elements.
    fn mark_tail(&mut self) {
        let asm = &mut self.asm;
        match self.body.vectors {
            Vectors::Zmm => {
                asm.mov(Gpr::RCX, Gpr::RSI);
                asm.mov_imm(Gpr::RDX, 1);
                asm.shl_rdx_cl();
                asm.dec(Gpr::RDX);
                asm.mask_from_rdx(TAIL);
            }
            // the rest is copied
            Vectors::Ymm if self.body.width.is_narrow() => {}
            Vectors::Ymm => {
                let numbers = Address::Pool(asm.numbers_from(0));
                let t = TAIL_TRUTH;
                asm.vex(Opcode::FROM_GPR, false, t, 0, Rm::Reg(Gpr::RSI.0), None);
                asm.vex(Opcode::SPREAD, true, t, 0, Rm::Reg(t), None);
                asm.vex(Opcode::IGT, true, t, t, Rm::Mem(numbers), None);
            }
        }
    }

    /// A loop over groups of `u` vectors, as many as fit into `rsi` elements.
    fn counted(&mut self, u: u32) -> Result<(), OutOfRegisters> {
        let (head, done) = (self.asm.label(), self.asm.label());
        self.asm.mov(Gpr::RCX, Gpr::RSI);
        let lanes = self.body.lanes();
        self.asm.shr_imm(Gpr::RCX, (lanes * u).trailing_zeros() as u8);
        self.asm.jump_zero(done);
        self.asm.bind(head);
        let pair = self.pair.filter(|_| u.is_multiple_of(2));
        for copy in (0..u).step_by(1 + usize::from(pair.is_some())) {
            match pair {
                Some(pair) => self.pair(pair, copy)?,
                None => self.pass(copy, false)?,
            }
        }
        self.advance(lanes * u);
        self.asm.add_imm(Gpr::RAX, (lanes * u) as i32);
        self.advance_gathers(lanes * u);
        self.asm.dec(Gpr::RCX);
        self.asm.jump_not_zero(head);
        self.asm.bind(done);
        Ok(())
    }

    /// The body once, for the vector `copy` places after the position.
    fn pass(&mut self, copy: u32, tail: bool) -> Result<(), OutOfRegisters> {
        let lives = self.lives;
        let reserved = !(((1u64 << self.top) - 1) as u32);
        let mut regs = Registers::new(lives, &self.fixed, &self.uniform, reserved);
        for (i, inst) in self.body.insts.iter().enumerate() {
            if lives.live[i] && !is_uniform(inst) {
                regs.begin(i as u32);
                self.inst(&mut regs, Node(i as u32), *inst, copy, tail)?;
            }
        }
        self.slots = self.slots.max(regs.slots);
        Ok(())
    }

    pub(super) fn inst(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        inst: Inst,
        copy: u32,
        tail: bool,
    ) -> Result<(), OutOfRegisters> {
        let (lanes, width) = (self.body.lanes() as i32, self.body.width);
        let place = |s: u32, format: Format| {
            let shift = format.shift(width);
            let offset = (copy as i32 * lanes) << shift;
            Rm::Mem(Address::Indexed(STREAMS[s as usize], Gpr::RAX, shift, offset))
        };
        let asm = &mut self.asm;
        match inst {
            Inst::Const(_) | Inst::Param(_) => {}
            Inst::Load(s, format) if format != Format::Lanes || width.is_narrow() => {
                let r = regs.define(asm, me, inst.operands())?;
                self.load_converted(r, s, place(s, format), format, tail);
            }
            Inst::Store(s, format, v) if format != Format::Lanes || width.is_narrow() => {
                let r = regs.read(asm, v)?;
                let temporary = regs.fresh(asm)?;
                self.store_converted([r, temporary], s, place(s, format), format, tail);
                regs.give_back(temporary);
                regs.release(inst.operands());
            }
            Inst::RoundHalf(a) => {
                let x = regs.read(asm, a)?;
                let r = regs.define(asm, me, inst.operands())?;
                self.round_half(r, x);
            }
            Inst::Load(s, format) => {
                let r = regs.define(asm, me, inst.operands())?;
                match (tail, asm.vectors) {
                    (false, _) => asm.vector(Opcode::LOAD, r, 0, place(s, format), None),
                    (true, Vectors::Ymm) => {
                        asm.vector(Opcode::LOAD_PART, r, TAIL_TRUTH, place(s, format), None);
                    }
                    (true, Vectors::Zmm) => {
                        asm.evex(Opcode::LOAD, Mask::Zero(TAIL), r, 0, place(s, format), None);
                    }
                }
            }
            Inst::Position => self.position(regs, me, copy, tail)?,
            Inst::Gather(s, stride) => self.gather(regs, me, (s, stride), copy, tail)?,
            Inst::Spread(s) => {
                let r = regs.define(asm, me, inst.operands())?;
                let at = Address::Base(STREAMS[s as usize], 0);
                asm.vector(Opcode::BROADCAST, r, 0, Rm::Lane(at), None);
            }
            Inst::Store(s, format, v) => {
                let r = regs.read(asm, v)?;
                match (tail, asm.vectors) {
                    (false, _) => asm.vector(Opcode::STORE, r, 0, place(s, format), None),
                    (true, Vectors::Ymm) => {
                        asm.vector(Opcode::STORE_PART, r, TAIL_TRUTH, place(s, format), None);
                    }
                    (true, Vectors::Zmm) => {
                        asm.evex(Opcode::STORE, Mask::Merge(TAIL), r, 0, place(s, format), None);
                    }
                }
                regs.release(inst.operands());
            }
            Inst::Unary(op, imm, a) => {
                let rm = regs.source(asm, a)?;
                let r = regs.define(asm, me, inst.operands())?;
                asm.vector(op, r, 0, rm, imm);
            }
            Inst::Shift(which, n, a) => {
                let rm = match asm.vectors {
                    Vectors::Ymm => Rm::Reg(regs.read(asm, a)?),
                    Vectors::Zmm => regs.source(asm, a)?,
                };
                let r = regs.define(asm, me, inst.operands())?;
                // 64-bit lanes have another opcode where signs come in
                let op = match which {
                    4 if width == Width::W64 => Opcode::SHIFT_SIGNED,
                    _ => Opcode::SHIFT,
                };
                asm.vector(op, which, r, rm, Some(n));
            }
            Inst::Binary(op, commutes, a, b) => {
                let (ra, rb) = (regs.held(a), regs.held(b));
                let (a, b) = match (ra, rb) {
                    (None, Some(_)) if commutes => (b, a),
                    _ => (a, b),
                };
                let x = regs.read(asm, a)?;
                let y = regs.source(asm, b)?;
                let r = regs.define(asm, me, inst.operands())?;
                asm.vector(op, r, x, y, None);
            }
            Inst::Fma(a, b, c) => self.fma(regs, me, [a, b, c])?,
            Inst::CallWhere(f, m, x, y) => self.call_where(regs, me, f, [m, x, y], None)?,
            Inst::CallBothWhere(f, [m, x, y, z]) => {
                self.call_where(regs, me, f, [m, x, z], Some(y))?;
            }
            Inst::CallBoth(f, x, y) => self.call_both(regs, me, f, [x, y])?,
            Inst::Ask(s, format) => {
                // once for each line; the last elements of a row are in a line of their own or begin
                // one that others are in
                let before = (copy as i32 * lanes) << format.shift(width);
                if let Rm::Mem(at) = place(s, format)
                    && before % LINE == 0
                    && !tail
                {
                    asm.prefetch(at);
                }
            }
            Inst::Accumulate(i, fold, v) => {
                let acc = self.accumulator(copy, i);
                self.accumulate(regs, acc, fold, v, tail)?;
                regs.release(inst.operands());
            }
            _ => match asm.vectors {
                Vectors::Ymm => self.truth_ymm(regs, me, inst)?,
                Vectors::Zmm => self.truth_zmm(regs, me, inst)?,
            },
        }
        Ok(())
    }

    /// `me <- ` the numbers of the elements of a vector.
    fn position(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        copy: u32,
        tail: bool,
    ) -> Result<(), OutOfRegisters> {
        if tail && self.copies_tail() {
            // the index begins anew there
            return Err(OutOfRegisters);
        }
        let asm = &mut self.asm;
        let r = regs.define(asm, me, std::iter::empty())?;
        let index = Rm::Reg(Gpr::RAX.0);
        match asm.vectors {
            Vectors::Zmm => asm.vector(Opcode::SPREAD_GPR, r, 0, index, None),
            Vectors::Ymm => {
                asm.vex(Opcode::FROM_GPR, false, r, 0, index, None);
                asm.vex(Opcode::SPREAD, true, r, 0, Rm::Reg(r), None);
            }
        }
        let numbers = Address::Pool(asm.numbers_from(copy * asm.vectors.lanes(asm.width)));
        asm.vector(Opcode::IADD, r, r, Rm::Mem(numbers), None);
        Ok(())
    }

    /// What makes or takes a truth value, in mask registers.
    fn truth_zmm(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        inst: Inst,
    ) -> Result<(), OutOfRegisters> {
        let asm = &mut self.asm;
        match inst {
            Inst::Compare(p, a, b) => {
                let x = regs.read(asm, a)?;
                let y = regs.source(asm, b)?;
                let k = regs.define_mask(Some(me))?;
                asm.vector(Opcode::CMP, k, x, y, Some(p));
                regs.release(inst.operands());
            }
            Inst::CompareInt(op, a, b) => {
                let x = regs.read(asm, a)?;
                let y = regs.source(asm, b)?;
                let k = regs.define_mask(Some(me))?;
                asm.vector(op, k, x, y, None);
                regs.release(inst.operands());
            }
            Inst::MaskOp(logic, a, b) => {
                let (x, y) = (regs.mask(a), regs.mask(b));
                regs.release_masks(inst.operands());
                let k = regs.define_mask(Some(me))?;
                let code = match logic {
                    Logic::And => 0x41,
                    Logic::Or => 0x45,
                    Logic::Xor => 0x47,
                };
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
                let x = regs.source(asm, a)?;
                regs.release_masks([m].into_iter());
                let r = regs.define(asm, me, [a, b].into_iter())?;
                asm.evex(Opcode::BLEND, Mask::Merge(k), r, y, x, None);
            }
            _ => unreachable!("the others have no truth values"),
        }
        Ok(())
    }

    /// What makes or takes a truth value, in vector registers.
    fn truth_ymm(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        inst: Inst,
    ) -> Result<(), OutOfRegisters> {
        let asm = &mut self.asm;
        for v in inst.operands() {
            regs.held(v);
        }
        let (op, x, y, imm) = match inst {
            Inst::Compare(p, a, b) => {
                (Opcode::CMP, regs.read(asm, a)?, regs.source(asm, b)?, Some(p))
            }
            Inst::CompareInt(op, a, b) => (op, regs.read(asm, a)?, regs.source(asm, b)?, None),
            Inst::MaskOp(logic, a, b) => {
                let op = match logic {
                    Logic::And => Opcode::AND_TRUTH,
                    Logic::Or => Opcode::OR_TRUTH,
                    Logic::Xor => Opcode::XOR_TRUTH,
                };
                (op, regs.read(asm, a)?, regs.source(asm, b)?, None)
            }
            Inst::MaskNot(a) => {
                let ones = Rm::Mem(Address::Pool(asm.constant(u64::MAX)));
                (Opcode::XOR_TRUTH, regs.read(asm, a)?, ones, None)
            }
            Inst::Select(m, a, b) => {
                let k = regs.read(asm, m)?;
                let y = regs.read(asm, b)?;
                (Opcode::BLEND_SIGNS, y, regs.source(asm, a)?, Some(k << 4))
            }
            _ => unreachable!("the others have no truth values"),
        };
        let r = regs.define(asm, me, inst.operands())?;
        asm.vector(op, r, x, y, imm);
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
            (Opcode::FMA231, r, x, regs.source(asm, b)?)
        } else {
            let (a, b) = if !over(regs, a) && over(regs, b) { (b, a) } else { (a, b) };
            if over(regs, a) {
                let r = regs.read(asm, a)?;
                if regs.held(c).is_none() {
                    let x = regs.read(asm, b)?;
                    (Opcode::FMA213, r, x, regs.source(asm, c)?)
                } else {
                    let x = regs.read(asm, c)?;
                    (Opcode::FMA132, r, x, regs.source(asm, b)?)
                }
            } else {
                let x = regs.read(asm, a)?;
                let r = regs.fresh(asm)?;
                let (op, from) = match regs.source(asm, c)? {
                    Rm::Reg(s) => (Opcode::MOVE, Rm::Reg(s)),
                    Rm::Bcst(at) => (Opcode::BROADCAST, Rm::Lane(at)),
                    other => (Opcode::LOAD, other),
                };
                asm.vector(op, r, 0, from, None);
                (Opcode::FMA231, r, x, regs.source(asm, b)?)
            }
        };
        asm.vector(op, r, x, y, None);
        regs.release(operands.into_iter());
        regs.own(me, r);
        Ok(())
    }
}
