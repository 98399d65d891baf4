//! x86-64 machine code: the EVEX, VEX and integer instructions that strips are made of.

use super::opcodes::Form;
pub(crate) use super::opcodes::{Conversion, Opcode};
use super::vectors::{Vectors, Width};

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
            Width::W8 => &[u32::from(bits as u8) * 0x0101_0101][..],
            Width::W16 => &[u32::from(bits as u16) * 0x0001_0001],
            Width::W32 => &lane[..1],
            Width::W64 => &lane[..],
        };
        match self.vectors {
            Vectors::Zmm => self.words(lane),
            Vectors::Ymm => self.words(&lane.repeat(8 / lane.len())),
        }
    }

    /// The numbers from one on, in the lanes of a vector.
    pub(crate) fn numbers_from(&mut self, first: u32) -> u32 {
        let lanes = first..first + self.vectors.lanes(self.width);
        let lanes: Vec<i64> = lanes.map(i64::from).collect();
        self.lane_words(&lanes)
    }

    /// A vector of integers.
    pub(crate) fn lane_words(&mut self, lanes: &[i64]) -> u32 {
        let words: Vec<u32> = match self.width {
            Width::W32 => lanes.iter().map(|n| *n as u32).collect(),
            Width::W64 => lanes.iter().flat_map(|n| [*n as u32, (n >> 32) as u32]).collect(),
            Width::W8 | Width::W16 => unreachable!("numbers have longer lanes"),
        };
        self.words(&words)
    }

    /// Where words are in the pool.
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
        let scale = match rm {
            Rm::Mem(_) => 64,
            _ => 1 << self.width.shift(),
        };
        let wide = self.width == Width::W64 || self.width == Width::W16 && op.wide_16;
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

    /// `k <- a op b` on the mask bits of all lanes: 0x41 and, 0x45 or, 0x46 equal, 0x47 xor.
    pub(crate) fn mask_op(&mut self, code: u8, k: u8, a: u8, b: u8) {
        let form = (1, 0, code);
        self.vex_form(form, self.width.is_narrow(), true, k, a, Rm::Reg(b), None);
    }

    /// `k <- !a` on the mask bits of all lanes.
    pub(crate) fn mask_not(&mut self, k: u8, a: u8) {
        self.vex_form((1, 0, 0x44), self.width.is_narrow(), false, k, 0, Rm::Reg(a), None);
    }

    /// `k <- rdx`, or `edx`, which has the bits of up to 32 lanes.
    pub(crate) fn mask_from_rdx(&mut self, k: u8) {
        self.vex_form((1, 3, 0x92), self.width.is_narrow(), false, k, 0, Rm::Reg(2), None);
    }

    /// `edx <- k`, the bits of all lanes of floats.
    pub(crate) fn edx_from_mask(&mut self, k: u8) {
        let pp = u8::from(self.width == Width::W64);
        self.vex_form((1, pp, 0x93), false, false, 2, 0, Rm::Reg(k), None);
    }

    /// `edx <- ` the signs of the lanes of a 256-bit register.
    pub(crate) fn edx_from_signs(&mut self, v: u8) {
        let pp = u8::from(self.width == Width::W64);
        self.vex_form((1, pp, 0x50), false, true, 2, 0, Rm::Reg(v), None);
    }

    /// Sets the zero flag if `edx` is 0.
    pub(crate) fn test_edx(&mut self) {
        self.bytes.extend([0x85, 0xd2]);
    }

    /// `[at] <- k`, 64 bits.
    pub(crate) fn store_mask(&mut self, k: u8, at: Address) {
        self.vex_form((1, 0, 0x91), true, false, k, 0, Rm::Lane(at), None);
    }

    /// `k <- [at]`, 64 bits.
    pub(crate) fn load_mask(&mut self, k: u8, at: Address) {
        self.vex_form((1, 0, 0x90), true, false, k, 0, Rm::Lane(at), None);
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

    /// `to <- ` so many bytes in memory, as a power of two: up to four.
    pub(crate) fn load_part(&mut self, to: Gpr, at: Address, shift: u8) {
        match shift {
            0 => self.integer(false, &[0x0f, 0xb6], to, at),
            1 => self.integer(false, &[0x0f, 0xb7], to, at),
            _ => self.integer(false, &[0x8b], to, at),
        }
    }

    /// `to <- ` 64 bits in memory.
    pub(crate) fn load_word(&mut self, to: Gpr, at: Address) {
        self.integer(true, &[0x8b], to, at);
    }

    /// As many of the lowest bytes of `from`, which is one of the first four registers, to memory.
    pub(crate) fn store_part(&mut self, from: Gpr, at: Address, shift: u8) {
        if shift == 1 {
            self.bytes.push(0x66);
        }
        self.integer(false, &[if shift == 0 { 0x88 } else { 0x89 }], from, at);
    }

    /// Asks for the cache line at an address, which need not be valid.
    pub(crate) fn prefetch(&mut self, at: Address) {
        self.integer(false, &[0x0f, 0x18], Gpr(1), at);
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

    /// `to <- [base + disp]`
    pub(crate) fn load(&mut self, to: Gpr, base: Gpr, disp: i32) {
        self.rex(true, to.0, base.0);
        self.bytes.push(0x8b);
        self.modrm(to.0, Rm::Lane(Address::Base(base, disp)), 1, 0);
    }

    /// `[at] <- from`
    pub(crate) fn store(&mut self, from: Gpr, at: Address) {
        self.integer(true, &[0x89], from, at);
    }

    /// `to <- address`, 64 bits.
    pub(crate) fn mov_address(&mut self, to: Gpr, address: u64) {
        self.rex(true, 0, to.0);
        self.bytes.push(0xb8 | (to.0 & 7));
        self.bytes.extend(address.to_le_bytes());
    }

    /// Calls the address in `rax`.
    pub(crate) fn call_rax(&mut self) {
        self.bytes.extend([0xff, 0xd0]);
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

    /// `rdx <- rdx << cl`
    pub(crate) fn shl_rdx_cl(&mut self) {
        self.bytes.extend([0x48, 0xd3, 0xe2]);
    }

    /// `r <- r - 1`; sets the zero flag.
    pub(crate) fn dec(&mut self, r: Gpr) {
        self.rex(true, 0, r.0);
        self.bytes.extend([0xff, 0xc8 | (r.0 & 7)]);
    }

    pub(crate) fn jump_zero(&mut self, l: Label) {
        self.jump_by(&[0x0f, 0x84], l);
    }

    pub(crate) fn jump_not_zero(&mut self, l: Label) {
        self.jump_by(&[0x0f, 0x85], l);
    }

    /// A jump in any case.
    pub(crate) fn jump(&mut self, l: Label) {
        self.jump_by(&[0xe9], l);
    }

    fn jump_by(&mut self, code: &[u8], l: Label) {
        self.bytes.extend(code);
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
