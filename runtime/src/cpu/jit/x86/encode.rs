//! x86-64 machine code: the EVEX, VEX and integer instructions that strips are made of.

use super::vectors::Vectors;

/// The opcode map, prefix, and opcode of an instruction on 32-bit lanes. Most are the same in EVEX
/// and VEX; the others say which they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Opcode {
    map: u8,
    pp: u8,
    code: u8,
}

const fn op(map: u8, pp: u8, code: u8) -> Opcode {
    Opcode { map, pp, code }
}

/// `0F`, `0F38`, `0F3A`; no prefix, `66`, `F3`.
impl Opcode {
    pub(crate) const ADD: Opcode = op(1, 0, 0x58);
    pub(crate) const MUL: Opcode = op(1, 0, 0x59);
    pub(crate) const SUB: Opcode = op(1, 0, 0x5c);
    pub(crate) const MIN: Opcode = op(1, 0, 0x5d);
    pub(crate) const DIV: Opcode = op(1, 0, 0x5e);
    pub(crate) const MAX: Opcode = op(1, 0, 0x5f);
    pub(crate) const SQRT: Opcode = op(1, 0, 0x51);
    pub(crate) const ROUND: Opcode = op(3, 1, 0x08);
    /// EVEX.
    pub(crate) const SCALEF: Opcode = op(2, 1, 0x2c);
    pub(crate) const IADD: Opcode = op(1, 1, 0xfe);
    pub(crate) const ISUB: Opcode = op(1, 1, 0xfa);
    pub(crate) const AND: Opcode = op(1, 1, 0xdb);
    pub(crate) const OR: Opcode = op(1, 1, 0xeb);
    pub(crate) const XOR: Opcode = op(1, 1, 0xef);
    /// Shifts by an immediate; the ModRM register field says which.
    pub(crate) const SHIFT: Opcode = op(1, 1, 0x72);
    pub(crate) const CMP: Opcode = op(1, 0, 0xc2);
    pub(crate) const IGT: Opcode = op(1, 1, 0x66);
    pub(crate) const IEQ: Opcode = op(1, 1, 0x76);
    /// EVEX: by a mask register.
    pub(crate) const BLEND: Opcode = op(2, 1, 0x65);
    /// VEX: by the signs of the register that the immediate's upper half names.
    pub(crate) const BLEND_SIGNS: Opcode = op(3, 1, 0x4a);
    /// VEX: truth values, which are floats of all ones or all zeros.
    pub(crate) const AND_TRUTH: Opcode = op(1, 0, 0x54);
    pub(crate) const OR_TRUTH: Opcode = op(1, 0, 0x56);
    pub(crate) const XOR_TRUTH: Opcode = op(1, 0, 0x57);
    pub(crate) const FMA132: Opcode = op(2, 1, 0x98);
    pub(crate) const FMA213: Opcode = op(2, 1, 0xa8);
    pub(crate) const FMA231: Opcode = op(2, 1, 0xb8);
    pub(crate) const TO_INT: Opcode = op(1, 2, 0x5b);
    pub(crate) const TO_FLOAT: Opcode = op(1, 0, 0x5b);
    pub(crate) const LOAD: Opcode = op(1, 0, 0x10);
    pub(crate) const STORE: Opcode = op(1, 0, 0x11);
    pub(crate) const MOVE: Opcode = op(1, 0, 0x28);
    pub(crate) const BROADCAST: Opcode = op(2, 1, 0x18);
    /// VEX: the lanes with a sign in the second operand.
    pub(crate) const LOAD_PART: Opcode = op(2, 1, 0x2c);
    pub(crate) const STORE_PART: Opcode = op(2, 1, 0x2e);
    /// VEX: the lowest 32-bit lane to all.
    pub(crate) const SPREAD: Opcode = op(2, 1, 0x58);
    /// VEX: a 32-bit register to the lowest lane.
    pub(crate) const FROM_GPR: Opcode = op(1, 1, 0x6e);
    /// VEX: moves 128-bit halves.
    pub(crate) const HALVES: Opcode = op(3, 1, 0x06);
    /// EVEX: moves 128-bit quarters.
    pub(crate) const QUARTERS: Opcode = op(3, 1, 0x23);
    /// Moves lanes inside each quarter.
    pub(crate) const PERMUTE: Opcode = op(3, 1, 0x04);
    /// The lowest lane to memory (`vmovss`).
    pub(crate) const STORE_LANE: Opcode = op(1, 2, 0x11);
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
    /// `[base + index + disp]`
    Indexed(Gpr, Gpr, i32),
    /// The constant pool from this word on.
    Pool(u32),
}

impl Address {
    /// The fourth bits of index and base.
    fn extensions(self) -> (u8, u8) {
        match self {
            Address::Pool(_) => (0, 0),
            Address::Base(base, _) => (0, base.0 >> 3),
            Address::Indexed(base, index, _) => (index.0 >> 3, base.0 >> 3),
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
    /// One 32-bit element in memory, repeated in all lanes.
    Bcst(Address),
    /// One 32-bit element, of an instruction that reads or writes only that.
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
    bytes: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// Positions of 32-bit displacements relative to their end plus an immediate's length, and
    /// their labels.
    jumps: Vec<(usize, Label)>,
    pool_uses: Vec<(usize, usize, u32)>,
    pool: Vec<u32>,
}

impl Assembler {
    pub(crate) fn new(vectors: Vectors) -> Assembler {
        Assembler {
            vectors,
            bytes: Vec::new(),
            labels: Vec::new(),
            jumps: Vec::new(),
            pool_uses: Vec::new(),
            pool: Vec::new(),
        }
    }

    /// Where a constant is in the pool: one word where instructions repeat it in all lanes
    /// themselves, as many as there are lanes otherwise.
    pub(crate) fn constant(&mut self, bits: u32) -> u32 {
        match self.vectors {
            Vectors::Zmm => self.words(&[bits]),
            Vectors::Ymm => self.words(&[bits; Vectors::Ymm.lanes() as usize]),
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
                Address::Indexed(b, i, d) => (b.0, Some(i.0), d),
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
            Some(i) => self.bytes.extend([mode | reg | 4, (i & 7) << 3 | (base & 7)]),
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
        debug_assert!(reg < 16 && v < 16 && !matches!(rm, Rm::Bcst(_)), "VEX has no such operand");
        let (x, b) = match rm {
            Rm::Reg(r) => (0, r >> 3),
            Rm::Mem(a) | Rm::Bcst(a) | Rm::Lane(a) => a.extensions(),
        };
        let not = |bit: u8| (bit & 1) ^ 1;
        let last = (!v & 15) << 3 | u8::from(long) << 2 | op.pp;
        if op.map == 1 && x == 0 && b == 0 {
            self.bytes.extend([0xc5, not(reg >> 3) << 7 | last]);
        } else {
            let first = not(reg >> 3) << 7 | not(x) << 6 | not(b) << 5 | op.map;
            self.bytes.extend([0xc4, first, last]);
        }
        self.bytes.push(op.code);
        self.modrm(reg, rm, 1, usize::from(imm.is_some()));
        self.bytes.extend(imm);
    }

    /// A 512-bit instruction: `reg <- v, rm`. `v` is 0 if there is no such operand.
    pub(crate) fn evex(&mut self, op: Opcode, mask: Mask, reg: u8, v: u8, rm: Rm, imm: Option<u8>) {
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
            not(reg >> 3) << 7 | not(x) << 6 | not(b) << 5 | not(reg >> 4) << 4 | op.map,
            (!v & 15) << 3 | 4 | op.pp,
            z | 0x40 | u8::from(broadcast) << 4 | not(v >> 4) << 3 | k,
            op.code,
        ]);
        let scale = if matches!(rm, Rm::Mem(_)) { 64 } else { 4 };
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
