//! x86-64 machine code: the EVEX, VEX and integer instructions that strips are made of.

use super::vectors::Vectors;
use crate::cpu::math::Width;

/// The opcode map, prefix and opcode of an instruction on 32-bit lanes and on 64-bit ones. Most are
/// the same in EVEX and VEX; the others say which they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Opcode {
    short: Form,
    long: Form,
    /// In VEX, `W` says that lanes have 64 bits. In EVEX it always does.
    w: bool,
}

/// `0F`, `0F38`, `0F3A`; no prefix, `66`, `F3`, `F2`; the opcode.
type Form = (u8, u8, u8);

/// An instruction with one opcode for both.
const fn op(map: u8, pp: u8, code: u8) -> Opcode {
    two((map, pp, code), (map, pp, code))
}

/// A float instruction of the first map: the prefix says how long the lanes are.
const fn float(code: u8) -> Opcode {
    two((1, 0, code), (1, 1, code))
}

const fn two(short: Form, long: Form) -> Opcode {
    Opcode { short, long, w: false }
}

/// An instruction whose lanes `W` gives in VEX too.
const fn by_w(map: u8, pp: u8, code: u8) -> Opcode {
    Opcode { w: true, ..op(map, pp, code) }
}

impl Opcode {
    pub(crate) const ADD: Opcode = float(0x58);
    pub(crate) const MUL: Opcode = float(0x59);
    pub(crate) const SUB: Opcode = float(0x5c);
    pub(crate) const MIN: Opcode = float(0x5d);
    pub(crate) const DIV: Opcode = float(0x5e);
    pub(crate) const MAX: Opcode = float(0x5f);
    pub(crate) const SQRT: Opcode = float(0x51);
    pub(crate) const ROUND: Opcode = two((3, 1, 0x08), (3, 1, 0x09));
    /// EVEX.
    pub(crate) const SCALEF: Opcode = op(2, 1, 0x2c);
    pub(crate) const IADD: Opcode = two((1, 1, 0xfe), (1, 1, 0xd4));
    pub(crate) const ISUB: Opcode = two((1, 1, 0xfa), (1, 1, 0xfb));
    /// Of 64-bit lanes in EVEX only.
    pub(crate) const IMUL: Opcode = op(2, 1, 0x40);
    /// Of 64-bit lanes in EVEX only.
    pub(crate) const IMIN: Opcode = op(2, 1, 0x39);
    /// Of 64-bit lanes in EVEX only.
    pub(crate) const IMAX: Opcode = op(2, 1, 0x3d);
    /// The product of the lower halves of 64-bit lanes.
    pub(crate) const LOW_MUL: Opcode = op(1, 1, 0xf4);
    pub(crate) const AND: Opcode = op(1, 1, 0xdb);
    pub(crate) const OR: Opcode = op(1, 1, 0xeb);
    pub(crate) const XOR: Opcode = op(1, 1, 0xef);
    /// Shifts by an immediate; the ModRM register field says which.
    pub(crate) const SHIFT: Opcode = two((1, 1, 0x72), (1, 1, 0x73));
    /// The one that fills with signs, of 64-bit lanes: EVEX.
    pub(crate) const SHIFT_SIGNED: Opcode = op(1, 1, 0x72);
    /// Shifts by lanes; zeros come in, as they do for all bits where the number is too large.
    pub(crate) const SHIFT_LEFT_BY: Opcode = by_w(2, 1, 0x47);
    pub(crate) const SHIFT_RIGHT_BY: Opcode = by_w(2, 1, 0x45);
    /// Signs come in; of 64-bit lanes in EVEX only.
    pub(crate) const SHIFT_SIGNED_BY: Opcode = by_w(2, 1, 0x46);
    pub(crate) const CMP: Opcode = float(0xc2);
    pub(crate) const IGT: Opcode = two((1, 1, 0x66), (2, 1, 0x37));
    pub(crate) const IEQ: Opcode = two((1, 1, 0x76), (2, 1, 0x29));
    /// EVEX: by a mask register.
    pub(crate) const BLEND: Opcode = op(2, 1, 0x65);
    /// VEX: by the signs of the register that the immediate's upper half names.
    pub(crate) const BLEND_SIGNS: Opcode = two((3, 1, 0x4a), (3, 1, 0x4b));
    /// VEX: truth values, which are floats of all ones or all zeros.
    pub(crate) const AND_TRUTH: Opcode = float(0x54);
    pub(crate) const OR_TRUTH: Opcode = float(0x56);
    pub(crate) const XOR_TRUTH: Opcode = float(0x57);
    pub(crate) const FMA132: Opcode = by_w(2, 1, 0x98);
    pub(crate) const FMA213: Opcode = by_w(2, 1, 0xa8);
    pub(crate) const FMA231: Opcode = by_w(2, 1, 0xb8);
    /// Of 64-bit lanes in EVEX only.
    pub(crate) const TO_INT: Opcode = two((1, 2, 0x5b), (1, 1, 0x7a));
    /// Of 64-bit lanes in EVEX only.
    pub(crate) const TO_FLOAT: Opcode = two((1, 0, 0x5b), (1, 2, 0xe6));
    pub(crate) const LOAD: Opcode = float(0x10);
    pub(crate) const STORE: Opcode = float(0x11);
    pub(crate) const MOVE: Opcode = float(0x28);
    pub(crate) const BROADCAST: Opcode = two((2, 1, 0x18), (2, 1, 0x19));
    /// VEX: the lanes with a sign in the second operand.
    pub(crate) const LOAD_PART: Opcode = two((2, 1, 0x2c), (2, 1, 0x2d));
    pub(crate) const STORE_PART: Opcode = two((2, 1, 0x2e), (2, 1, 0x2f));
    /// VEX: the lowest lane to all.
    pub(crate) const SPREAD: Opcode = two((2, 1, 0x58), (2, 1, 0x59));
    /// VEX: an integer register to the lowest lane.
    pub(crate) const FROM_GPR: Opcode = by_w(1, 1, 0x6e);
    /// VEX: moves 128-bit halves.
    pub(crate) const HALVES: Opcode = op(3, 1, 0x06);
    /// EVEX: moves 128-bit quarters.
    pub(crate) const QUARTERS: Opcode = op(3, 1, 0x23);
    /// Moves lanes inside each quarter.
    pub(crate) const PERMUTE: Opcode = two((3, 1, 0x04), (3, 1, 0x05));
    /// The lowest lane to memory.
    pub(crate) const STORE_LANE: Opcode = two((1, 2, 0x11), (1, 3, 0x11));

    fn form(self, width: Width) -> Form {
        match width {
            Width::W32 => self.short,
            Width::W64 => self.long,
        }
    }
}

/// An instruction between elements of different lengths, in EVEX of 512 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    form: Form,
    /// Bytes in memory, in EVEX.
    part: i32,
}

const fn convert(form: Form, part: i32) -> Conversion {
    Conversion { form, part }
}

impl Conversion {
    pub(crate) const BYTES_TO_32: Conversion = convert((2, 1, 0x31), 16);
    pub(crate) const SIGNED_BYTES_TO_32: Conversion = convert((2, 1, 0x21), 16);
    pub(crate) const WORDS_TO_32: Conversion = convert((2, 1, 0x33), 32);
    pub(crate) const SIGNED_WORDS_TO_32: Conversion = convert((2, 1, 0x23), 32);
    pub(crate) const BYTES_TO_64: Conversion = convert((2, 1, 0x32), 8);
    pub(crate) const FROM_HALF: Conversion = convert((2, 1, 0x13), 32);
    /// The immediate 0 rounds to nearest. The source is the ModRM register.
    pub(crate) const TO_HALF: Conversion = convert((3, 1, 0x1d), 32);
    /// EVEX: the low bits of lanes. The source is the ModRM register.
    pub(crate) const BYTES_OF_32: Conversion = convert((2, 2, 0x31), 16);
    pub(crate) const WORDS_OF_32: Conversion = convert((2, 2, 0x33), 32);
    pub(crate) const BYTES_OF_64: Conversion = convert((2, 2, 0x32), 8);
    /// VEX: the half that the immediate says. The source is the ModRM register.
    pub(crate) const HALF_OF: Conversion = convert((3, 1, 0x39), 0);
    /// VEX, as the ones below: 32-bit lanes of two registers to 16 bits.
    pub(crate) const PACK_32: Conversion = convert((1, 1, 0x6b), 0);
    pub(crate) const PACK_32_UNSIGNED: Conversion = convert((2, 1, 0x2b), 0);
    /// 16-bit lanes of two registers to 8 bits.
    pub(crate) const PACK_16: Conversion = convert((1, 1, 0x63), 0);
    pub(crate) const PACK_16_UNSIGNED: Conversion = convert((1, 1, 0x67), 0);
    /// Two 32-bit lanes of each of two registers.
    pub(crate) const SHUFFLE: Conversion = convert((1, 0, 0xc6), 0);
    /// The lowest 32, 64 and 128 bits to memory.
    pub(crate) const STORE_4: Conversion = convert((1, 1, 0x7e), 0);
    pub(crate) const STORE_8: Conversion = convert((1, 1, 0xd6), 0);
    pub(crate) const STORE_16: Conversion = convert((1, 2, 0x7f), 0);
}

/// A 64-bit integer register by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(pub(crate) u8);

impl Gpr {
    pub(crate) const RAX: Gpr = Gpr(0);
    pub(crate) const RCX: Gpr = Gpr(1);
    pub(crate) const RDX: Gpr = Gpr(2);
    pub(crate) const RSP: Gpr = Gpr(4);
    pub(crate) const RSI: Gpr = Gpr(6);
    pub(crate) const RDI: Gpr = Gpr(7);
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `[base + disp]`
    Base(Gpr, i32),
    /// `[base + index * scale + disp]`, the scale as a power of two.
    Indexed(Gpr, Gpr, u8, i32),
    /// The constant pool from this word on.
    Pool(u32),
}

impl Address {
    /// The fourth bits of index and base.
    fn extensions(self) -> (u8, u8) {
        match self {
            Address::Pool(_) => (0, 0),
            Address::Base(base, _) => (0, base.0 >> 3),
            Address::Indexed(base, index, ..) => (index.0 >> 3, base.0 >> 3),
        }
    }
}

/// The last source (or the destination in memory) of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rm {
    /// A vector or mask register.
    Reg(u8),
    /// A full vector in memory.
    Mem(Address),
    /// One element in memory, repeated in all lanes.
    Bcst(Address),
    /// One element, of an instruction that reads or writes only that.
    Lane(Address),
}

/// How a write mask treats inactive lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    /// All lanes are on.
    None,
    /// They keep their value (or are not stored).
    Merge(u8),
    /// They become zero.
    Zero(u8),
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Machine code under construction.
#[derive(Debug)]
pub(crate) struct Assembler {
    pub(crate) vectors: Vectors,
    /// The lanes of vector instructions.
    pub(crate) width: Width,
    bytes: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Positions of 32-bit displacements relative to their end plus an immediate's length, and
    /// their labels.
    jumps: Vec<(usize, Label)>,
    pool_uses: Vec<(usize, usize, u32)>,
    pool: Vec<u32>,
}

impl Assembler {
    pub(crate) fn new(vectors: Vectors, width: Width) -> Assembler {
        Assembler {
            vectors,
            width,
            bytes: Vec::new(),
            labels: Vec::new(),
            jumps: Vec::new(),
            pool_uses: Vec::new(),
            pool: Vec::new(),
        }
    }

    /// Where a constant is in the pool: one lane where instructions repeat it in all lanes
    /// themselves, as many as there are otherwise.
    pub(crate) fn constant(&mut self, bits: u64) -> u32 {
        let lane = [bits as u32, (bits >> 32) as u32];
        let lane = match self.width {
            Width::W32 => &lane[..1],
            Width::W64 => &lane[..],
        };
        match self.vectors {
            Vectors::Zmm => self.words(lane),
            Vectors::Ymm => self.words(&lane.repeat(Vectors::Ymm.lanes(self.width) as usize)),
        }
    }

    /// The numbers of the lanes, in all lanes of a vector of AVX2.
    pub(crate) fn lane_numbers(&mut self) -> u32 {
        match self.width {
            Width::W32 => self.words(&[0, 1, 2, 3, 4, 5, 6, 7]),
            Width::W64 => self.words(&[0, 0, 1, 0, 2, 0, 3, 0]),
        }
    }

    /// Where words are in the pool, all of whose entries have one length.
    pub(crate) fn words(&mut self, words: &[u32]) -> u32 {
        let at = match self.pool.chunks_exact(words.len()).position(|w| w == words) {
            Some(i) => i * words.len(),
            None => {
                self.pool.extend(words);
                self.pool.len() - words.len()
            }
        };
        at as u32
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(crate) fn bind(&mut self, l: Label) {
        self.labels[l.0] = Some(self.bytes.len());
    }

    /// ModRM with what follows. `scale`: bytes that an 8-bit displacement counts in. `tail`: bytes
    /// after it.
    fn modrm(&mut self, reg: u8, rm: Rm, scale: i32, tail: usize) {
        let reg = (reg & 7) << 3;
        let (base, index, disp) = match rm {
            Rm::Reg(r) => {
                self.bytes.push(0xc0 | reg | (r & 7));
                return;
            }
            Rm::Mem(a) | Rm::Bcst(a) | Rm::Lane(a) => match a {
                Address::Pool(word) => {
                    self.bytes.push(reg | 5);
                    self.pool_uses.push((self.bytes.len(), tail, word));
                    self.bytes.extend([0; 4]);
                    return;
                }
                Address::Base(b, d) => (b.0, None, d),
                Address::Indexed(b, i, scale, d) => (b.0, Some((i.0, scale)), d),
            },
        };
        let small = (disp % scale == 0).then(|| i8::try_from(disp / scale).ok()).flatten();
        let mode = match small {
            // without a displacement, rbp and r13 mean something else
            Some(0) if base & 7 != 5 => 0x00,
            Some(_) => 0x40,
            None => 0x80,
        };
        match index {
            None if base & 7 != 4 => self.bytes.push(mode | reg | (base & 7)),
            None => self.bytes.extend([mode | reg | 4, 0x20 | (base & 7)]),
            Some((i, scale)) => {
                self.bytes.extend([mode | reg | 4, scale << 6 | (i & 7) << 3 | (base & 7)]);
            }
        }
        match (mode, small) {
            (0x40, Some(d)) => self.bytes.push(d as u8),
            (0x80, _) => self.bytes.extend(disp.to_le_bytes()),
            _ => {}
        }
    }

    /// An instruction on whole vectors: `reg <- v, rm`. `v` is 0 if there is no such operand.
    pub(crate) fn vector(&mut self, op: Opcode, reg: u8, v: u8, rm: Rm, imm: Option<u8>) {
        match self.vectors {
            Vectors::Ymm => self.vex(op, true, reg, v, rm, imm),
            Vectors::Zmm => self.evex(op, Mask::None, reg, v, rm, imm),
        }
    }

    /// A 256-bit (`long`) or 128-bit instruction: `reg <- v, rm`. `v` is 0 if there is no such
    /// operand.
    pub(crate) fn vex(&mut self, op: Opcode, long: bool, reg: u8, v: u8, rm: Rm, imm: Option<u8>) {
        let w = op.w && self.width == Width::W64;
        self.vex_form(op.form(self.width), w, long, reg, v, rm, imm);
    }

    #[allow(clippy::too_many_arguments)]
    fn vex_form(
        &mut self,
        (map, pp, code): Form,
        w: bool,
        long: bool,
        reg: u8,
        v: u8,
        rm: Rm,
        imm: Option<u8>,
    ) {
        debug_assert!(reg < 16 && v < 16 && !matches!(rm, Rm::Bcst(_)), "VEX has no such operand");
        let (x, b) = match rm {
            Rm::Reg(r) => (0, r >> 3),
            Rm::Mem(a) | Rm::Bcst(a) | Rm::Lane(a) => a.extensions(),
        };
        let not = |bit: u8| (bit & 1) ^ 1;
        let last = (!v & 15) << 3 | u8::from(long) << 2 | pp;
        if map == 1 && x == 0 && b == 0 && !w {
            self.bytes.extend([0xc5, not(reg >> 3) << 7 | last]);
        } else {
            let first = not(reg >> 3) << 7 | not(x) << 6 | not(b) << 5 | map;
            self.bytes.extend([0xc4, first, u8::from(w) << 7 | last]);
        }
        self.bytes.push(code);
        self.modrm(reg, rm, 1, usize::from(imm.is_some()));
        self.bytes.extend(imm);
    }

    /// A 512-bit instruction: `reg <- v, rm`. `v` is 0 if there is no such operand.
    pub(crate) fn evex(&mut self, op: Opcode, mask: Mask, reg: u8, v: u8, rm: Rm, imm: Option<u8>) {
        let scale = match (rm, self.width) {
            (Rm::Mem(_), _) => 64,
            (_, Width::W32) => 4,
            (_, Width::W64) => 8,
        };
        let wide = self.width == Width::W64;
        self.evex_form(op.form(self.width), wide, scale, mask, reg, v, rm, imm);
    }

    #[allow(clippy::too_many_arguments)]
    fn evex_form(
        &mut self,
        (map, pp, code): Form,
        wide: bool,
        scale: i32,
        mask: Mask,
        reg: u8,
        v: u8,
        rm: Rm,
        imm: Option<u8>,
    ) {
        let (x, b) = match rm {
            Rm::Reg(r) => (r >> 4 & 1, r >> 3 & 1),
            Rm::Mem(a) | Rm::Bcst(a) | Rm::Lane(a) => a.extensions(),
        };
        let not = |bit: u8| (bit & 1) ^ 1;
        let (k, z) = match mask {
            Mask::None => (0, 0),
            Mask::Merge(k) => (k, 0),
            Mask::Zero(k) => (k, 0x80),
        };
        let broadcast = matches!(rm, Rm::Bcst(_));
        self.bytes.extend([
            0x62,
            not(reg >> 3) << 7 | not(x) << 6 | not(b) << 5 | not(reg >> 4) << 4 | map,
            u8::from(wide) << 7 | (!v & 15) << 3 | 4 | pp,
            z | 0x40 | u8::from(broadcast) << 4 | not(v >> 4) << 3 | k,
            code,
        ]);
        self.modrm(reg, rm, scale, usize::from(imm.is_some()));
        self.bytes.extend(imm);
    }

    /// `k <- a op b` on 16 mask bits: 0x41 and, 0x45 or, 0x47 xor.
    pub(crate) fn mask_op(&mut self, code: u8, k: u8, a: u8, b: u8) {
        let prefix = 0x80 | (!a & 15) << 3 | 4;
        self.bytes.extend([0xc5, prefix, code, 0xc0 | k << 3 | b]);
    }

    /// `k <- !a` on 16 mask bits.
    pub(crate) fn mask_not(&mut self, k: u8, a: u8) {
        self.bytes.extend([0xc5, 0xf8, 0x44, 0xc0 | k << 3 | a]);
    }

    /// `k <- edx`.
    pub(crate) fn mask_from_edx(&mut self, k: u8) {
        self.bytes.extend([0xc5, 0xfb, 0x92, 0xc0 | k << 3 | 2]);
    }

    /// Clears the upper halves.
    pub(crate) fn zero_upper(&mut self) {
        self.bytes.extend([0xc5, 0xf8, 0x77]);
    }

    /// A vector instruction on elements of other lengths, which says itself how long the memory is
    /// that it reads or writes; `long`: of a whole register, in VEX not of 128 bits.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn convert(
        &mut self,
        c: Conversion,
        long: bool,
        mask: Mask,
        reg: u8,
        v: u8,
        rm: Rm,
        imm: Option<u8>,
    ) {
        match self.vectors {
            Vectors::Ymm => self.vex_form(c.form, false, long, reg, v, rm, imm),
            Vectors::Zmm => {
                let scale = if matches!(rm, Rm::Mem(_)) { c.part } else { 1 };
                self.evex_form(c.form, false, scale, mask, reg, v, rm, imm);
            }
        }
    }

    /// `to <- base + index * scale`
    pub(crate) fn lea(&mut self, to: Gpr, at: Address) {
        self.integer(true, &[0x8d], to, at);
    }

    /// `to <- ` the byte, or the 16 bits, in memory.
    pub(crate) fn load_part(&mut self, to: Gpr, at: Address, word: bool) {
        self.integer(false, &[0x0f, if word { 0xb7 } else { 0xb6 }], to, at);
    }

    /// The lowest byte, or 16 bits, of `from` (one of the first four registers) to memory.
    pub(crate) fn store_part(&mut self, from: Gpr, at: Address, word: bool) {
        if word {
            self.bytes.push(0x66);
        }
        self.integer(false, &[if word { 0x89 } else { 0x88 }], from, at);
    }

    fn integer(&mut self, wide: bool, code: &[u8], reg: Gpr, at: Address) {
        let (x, b) = at.extensions();
        self.bytes.push(0x40 | u8::from(wide) << 3 | (reg.0 >> 3) << 2 | x << 1 | b);
        self.bytes.extend(code);
        self.modrm(reg.0, Rm::Lane(at), 1, 0);
    }

    fn rex(&mut self, wide: bool, reg: u8, rm: u8) {
        self.bytes.push(0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | rm >> 3);
    }

    pub(crate) fn push(&mut self, r: Gpr) {
        self.rex(false, 0, r.0);
        self.bytes.push(0x50 | (r.0 & 7));
    }

    pub(crate) fn pop(&mut self, r: Gpr) {
        self.rex(false, 0, r.0);
        self.bytes.push(0x58 | (r.0 & 7));
    }

    pub(crate) fn ret(&mut self) {
        self.bytes.push(0xc3);
    }

    /// `to <- from`
    pub(crate) fn mov(&mut self, to: Gpr, from: Gpr) {
        self.rex(true, from.0, to.0);
        self.bytes.extend([0x89, 0xc0 | (from.0 & 7) << 3 | (to.0 & 7)]);
    }

    /// `to <- [base + disp]`; the base is not rsp or r12.
    pub(crate) fn load(&mut self, to: Gpr, base: Gpr, disp: i32) {
        self.rex(true, to.0, base.0);
        self.bytes.push(0x8b);
        self.modrm(to.0, Rm::Lane(Address::Base(base, disp)), 1, 0);
    }

    /// `to <- value`, 32 bits.
    pub(crate) fn mov_imm(&mut self, to: Gpr, value: u32) {
        self.rex(false, 0, to.0);
        self.bytes.push(0xb8 | (to.0 & 7));
        self.bytes.extend(value.to_le_bytes());
    }

    fn group(&mut self, digit: u8, r: Gpr, imm: i32) {
        self.rex(true, 0, r.0);
        self.bytes.extend([0x81, 0xc0 | digit << 3 | (r.0 & 7)]);
        self.bytes.extend(imm.to_le_bytes());
    }

    pub(crate) fn add_imm(&mut self, r: Gpr, imm: i32) {
        self.group(0, r, imm);
    }

    /// Sets the zero flag.
    pub(crate) fn and_imm(&mut self, r: Gpr, imm: i32) {
        self.group(4, r, imm);
    }

    pub(crate) fn sub_imm(&mut self, r: Gpr, imm: i32) {
        self.group(5, r, imm);
    }

    /// Sets the zero flag.
    pub(crate) fn shr_imm(&mut self, r: Gpr, n: u8) {
        self.rex(true, 0, r.0);
        self.bytes.extend([0xc1, 0xe8 | (r.0 & 7), n]);
    }

    /// `edx <- edx << cl`
    pub(crate) fn shl_edx_cl(&mut self) {
        self.bytes.extend([0xd3, 0xe2]);
    }

    /// `r <- r - 1`; sets the zero flag.
    pub(crate) fn dec(&mut self, r: Gpr) {
        self.rex(true, 0, r.0);
        self.bytes.extend([0xff, 0xc8 | (r.0 & 7)]);
    }

    pub(crate) fn jump_zero(&mut self, l: Label) {
        self.jump(0x84, l);
    }

    pub(crate) fn jump_not_zero(&mut self, l: Label) {
        self.jump(0x85, l);
    }

    fn jump(&mut self, code: u8, l: Label) {
        self.bytes.extend([0x0f, code]);
        self.jumps.push((self.bytes.len(), l));
        self.bytes.extend([0; 4]);
    }

    /// Resolves jumps and appends the constant pool.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let patch = |bytes: &mut Vec<u8>, at: usize, end: usize, target: usize| {
            let distance = target as i64 - end as i64;
            bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        };
        for (at, l) in std::mem::take(&mut self.jumps) {
            let target = self.labels[l.0].expect("every label is bound");
            patch(&mut self.bytes, at, at + 4, target);
        }
        let start = self.bytes.len().next_multiple_of(64);
        self.bytes.resize(start, 0xcc);
        for (at, tail, word) in std::mem::take(&mut self.pool_uses) {
            let target = start + word as usize * 4;
            patch(&mut self.bytes, at, at + 4 + tail, target);
        }
        for word in &self.pool {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes
    }
}
