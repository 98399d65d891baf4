//! Elements in memory that are not as long as lanes (bytes, 16-bit integers, `f16`), or as long as
//! narrow ones; and those that are not neighbours.

use super::encode::{Address, Conversion, Gpr, Mask, Opcode, Rm};
use super::ir::{Format, Inst, Node};
use super::lower::{Lower, STREAMS, TAIL, TAIL_TRUTH};
use super::regalloc::{OutOfRegisters, Registers};
use super::vectors::{Vectors, Width};

impl Lower<'_> {
    /// AVX2 reads and writes no parts of vectors of such elements: those of the tail are copied to
    /// the stack and from there.
    pub(super) fn copies_tail(&self) -> bool {
        let short = |i: &Inst| match i {
            Inst::Load(_, format) | Inst::Store(_, format, _) => {
                *format != Format::Lanes || self.body.width.is_narrow()
            }
            _ => false,
        };
        self.body.vectors == Vectors::Ymm && self.shape.tail && self.body.insts.iter().any(short)
    }

    /// Where the tail begins, streams begin if elements are copied.
    pub(super) fn begin_tail(&mut self) {
        if !self.copies_tail() {
            return;
        }
        let mut shifts = vec![None; self.body.streams as usize];
        for inst in &self.body.insts {
            if let Inst::Load(s, format) | Inst::Store(s, format, _) = inst {
                shifts[*s as usize] = Some(format.shift(self.body.width));
            }
        }
        for (&stream, shift) in STREAMS.iter().zip(shifts) {
            // a stream of one element stays where it is
            if let Some(shift) = shift {
                self.asm.lea(stream, Address::Indexed(stream, Gpr::RAX, shift, 0));
            }
        }
        self.asm.mov_imm(Gpr::RAX, 0);
    }

    /// `me <- ` elements of a stream that lie apart. Its register is at the first of a step.
    pub(super) fn gather(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        (stream, stride): (u32, i32),
        copy: u32,
        tail: bool,
    ) -> Result<(), OutOfRegisters> {
        let lanes = self.body.lanes();
        let shift = Format::Lanes.shift(self.body.width);
        let asm = &mut self.asm;
        let places: Vec<i64> = (0..lanes).map(|k| i64::from(k) * i64::from(stride)).collect();
        let places = Address::Pool(asm.lane_words(&places));
        let index = regs.fresh(asm)?;
        asm.vector(Opcode::LOAD, index, 0, Rm::Mem(places), None);
        let offset = (copy * lanes) as i32 * stride * (1 << shift);
        let at =
            |i: u8| Rm::Lane(Address::Indexed(STREAMS[stream as usize], Gpr(i), shift, offset));
        match asm.vectors {
            Vectors::Zmm => {
                let r = regs.define(asm, me, std::iter::empty())?;
                let k = regs.define_mask(None)?;
                match tail {
                    true => asm.mask_op(0x41, k, TAIL, TAIL),
                    false => asm.mask_op(0x46, k, k, k),
                }
                asm.vector(Opcode::XOR, r, r, Rm::Reg(r), None);
                asm.evex(Opcode::GATHER, Mask::Merge(k), r, index & 16, at(index & 15), None);
            }
            Vectors::Ymm => {
                let lanes = regs.fresh(asm)?;
                let r = regs.define(asm, me, std::iter::empty())?;
                match tail {
                    true => asm.vector(Opcode::MOVE, lanes, 0, Rm::Reg(TAIL_TRUTH), None),
                    false => asm.vector(Opcode::IEQ, lanes, lanes, Rm::Reg(lanes), None),
                }
                asm.vector(Opcode::XOR, r, r, Rm::Reg(r), None);
                asm.vex(Opcode::GATHER, true, r, lanes, at(index), None);
                regs.give_back(lanes);
            }
        }
        regs.give_back(index);
        Ok(())
    }

    /// Moves the registers of such streams past the elements of a step.
    pub(super) fn advance_gathers(&mut self, elements: u32) {
        let shift = Format::Lanes.shift(self.body.width);
        for inst in &self.body.insts {
            if let Inst::Gather(s, stride) = *inst {
                self.asm.add_imm(STREAMS[s as usize], elements as i32 * stride * (1 << shift));
            }
        }
    }

    /// Where elements of the tail are on the stack.
    fn copy_slot(&self) -> i32 {
        (self.frame.max(1) as i32 - 1) * self.body.vectors.bytes()
    }

    /// Copies `rsi` elements between a stream and the stack.
    fn copy(&mut self, stream: u32, format: Format, out: bool) {
        let shift = format.shift(self.body.width);
        let size = 1 << shift;
        let memory = Address::Indexed(STREAMS[stream as usize], Gpr::RCX, shift, -size);
        let slot = Address::Indexed(Gpr::RSP, Gpr::RCX, shift, self.copy_slot() - size);
        let (from, to) = if out { (slot, memory) } else { (memory, slot) };
        // the last ones one by one, the others in words of 64 bits
        let per_word = 8 >> shift;
        let wide = |at: Address| match at {
            Address::Indexed(base, index, _, offset) => {
                Address::Indexed(base, index, 3, offset + size - 8)
            }
            other => other,
        };
        let asm = &mut self.asm;
        let (single, words, head, done) = (asm.label(), asm.label(), asm.label(), asm.label());
        asm.mov(Gpr::RCX, Gpr::RSI);
        asm.bind(single);
        asm.mov(Gpr::RDX, Gpr::RCX);
        asm.and_imm(Gpr::RDX, per_word - 1);
        asm.jump_zero(words);
        asm.load_part(Gpr::RDX, from, shift);
        asm.store_part(Gpr::RDX, to, shift);
        asm.dec(Gpr::RCX);
        asm.jump(single);
        asm.bind(words);
        asm.shr_imm(Gpr::RCX, per_word.trailing_zeros() as u8);
        asm.jump_zero(done);
        asm.bind(head);
        asm.load_word(Gpr::RDX, wide(from));
        asm.store(Gpr::RDX, wide(to));
        asm.dec(Gpr::RCX);
        asm.jump_not_zero(head);
        asm.bind(done);
    }

    /// `r <- ` elements of a stream as lanes.
    pub(super) fn load_converted(
        &mut self,
        r: u8,
        stream: u32,
        mut place: Rm,
        format: Format,
        tail: bool,
    ) {
        let mut mask = Mask::None;
        match (tail, self.body.vectors) {
            (true, Vectors::Ymm) => {
                self.copy(stream, format, false);
                place = Rm::Mem(Address::Base(Gpr::RSP, self.copy_slot()));
            }
            (true, Vectors::Zmm) => mask = Mask::Zero(TAIL),
            _ => {}
        }
        if format == Format::Lanes {
            return match mask {
                Mask::None => self.asm.vector(Opcode::LOAD, r, 0, place, None),
                mask => self.asm.evex(Opcode::LOAD_NARROW, mask, r, 0, place, None),
            };
        }
        let conversion = match (format, self.body.width) {
            (Format::Byte, Width::W32) => Conversion::BYTES_TO_32,
            (Format::Byte, Width::W64) => Conversion::BYTES_TO_64,
            (Format::SignedByte, Width::W64) => Conversion::SIGNED_BYTES_TO_64,
            (Format::SignedWord, Width::W64) => Conversion::SIGNED_WORDS_TO_64,
            (Format::SignedInt, Width::W64) => Conversion::SIGNED_INTS_TO_64,
            (Format::SignedByte, Width::W32) => Conversion::SIGNED_BYTES_TO_32,
            (Format::Word, Width::W32) => Conversion::WORDS_TO_32,
            (Format::SignedWord, Width::W32) => Conversion::SIGNED_WORDS_TO_32,
            (Format::Half, Width::W32) => Conversion::FROM_HALF,
            _ => unreachable!("translated to 32-bit lanes"),
        };
        self.asm.convert(conversion, true, mask, r, 0, place, None);
    }

    /// Writes lanes as elements of a stream.
    pub(super) fn store_converted(
        &mut self,
        [r, t]: [u8; 2],
        stream: u32,
        mut place: Rm,
        format: Format,
        tail: bool,
    ) {
        let width = self.body.width;
        if self.body.vectors == Vectors::Zmm {
            let mask = if tail { Mask::Merge(TAIL) } else { Mask::None };
            if format == Format::Lanes {
                let op = if tail { Opcode::STORE_NARROW } else { Opcode::STORE };
                return self.asm.evex(op, mask, r, 0, place, None);
            }
            let (conversion, imm) = match (format, width) {
                (Format::Byte | Format::SignedByte, Width::W32) => (Conversion::BYTES_OF_32, None),
                (Format::Byte | Format::SignedByte, Width::W64) => (Conversion::BYTES_OF_64, None),
                (Format::Half, _) => (Conversion::TO_HALF, Some(0)),
                _ => (Conversion::WORDS_OF_32, None),
            };
            return self.asm.convert(conversion, true, mask, r, 0, place, imm);
        }
        if tail {
            place = Rm::Mem(Address::Base(Gpr::RSP, self.copy_slot()));
        }
        let asm = &mut self.asm;
        let none = Mask::None;
        if format == Format::Lanes {
            asm.vector(Opcode::STORE, r, 0, place, None);
        } else if format == Format::Half {
            asm.convert(Conversion::TO_HALF, true, none, r, 0, place, Some(0));
        } else {
            // the upper half beside the lower one, in lanes of half the length
            asm.convert(Conversion::HALF_OF, true, none, r, 0, Rm::Reg(t), Some(1));
            if width == Width::W64 {
                asm.convert(Conversion::SHUFFLE, false, none, t, r, Rm::Reg(t), Some(0x88));
                asm.convert(Conversion::PACK_32, false, none, t, t, Rm::Reg(t), None);
            } else {
                let pack = match format {
                    Format::Word => Conversion::PACK_32_UNSIGNED,
                    _ => Conversion::PACK_32,
                };
                asm.convert(pack, false, none, t, r, Rm::Reg(t), None);
            }
            let pack = match format {
                Format::Byte => Some(Conversion::PACK_16_UNSIGNED),
                Format::SignedByte => Some(Conversion::PACK_16),
                _ => None,
            };
            if let Some(pack) = pack {
                asm.convert(pack, false, none, t, t, Rm::Reg(t), None);
            }
            let store = match (pack.is_some(), width) {
                (false, _) => Conversion::STORE_16,
                (true, Width::W32) => Conversion::STORE_8,
                (true, _) => Conversion::STORE_4,
            };
            asm.convert(store, false, none, t, 0, place, None);
        }
        if tail {
            self.copy(stream, format, true);
        }
    }

    /// `r <- ` the nearest `f16` of each lane of `x`.
    pub(super) fn round_half(&mut self, r: u8, x: u8) {
        let none = Mask::None;
        self.asm.convert(Conversion::TO_HALF, true, none, x, 0, Rm::Reg(r), Some(0));
        self.asm.convert(Conversion::FROM_HALF, true, none, r, 0, Rm::Reg(r), None);
    }
}
