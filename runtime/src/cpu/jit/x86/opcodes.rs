//! The instructions that strips are made of.

use super::vectors::Width;

/// The opcode map, prefix and opcode of an instruction on lanes of each width. Most are the same in
/// EVEX and VEX; the others say which they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Opcode {
    /// On lanes of 8 and 16 bits; where there is none of its own, the one on 32 bits, which does the
    /// same if it is on all bits of a register.
    narrow: [Form; 2],
    short: Form,
    long: Form,
    /// In EVEX, `W` says that lanes have 16 bits.
    pub(super) wide_16: bool,
    /// In VEX, `W` says that lanes have 64 bits. In EVEX it always does.
    pub(super) w: bool,
}

/// `0F`, `0F38`, `0F3A`; no prefix, `66`, `F3`, `F2`; the opcode.
pub(super) type Form = (u8, u8, u8);

/// An instruction with one opcode for both.
const fn op(map: u8, pp: u8, code: u8) -> Opcode {
    two((map, pp, code), (map, pp, code))
}

/// A float instruction of the first map: the prefix says how long the lanes are.
const fn float(code: u8) -> Opcode {
    two((1, 0, code), (1, 1, code))
}

const fn two(short: Form, long: Form) -> Opcode {
    Opcode { narrow: [short; 2], short, long, wide_16: false, w: false }
}

/// An instruction whose lanes `W` gives in VEX too.
const fn by_w(map: u8, pp: u8, code: u8) -> Opcode {
    Opcode { w: true, ..op(map, pp, code) }
}

/// A move of bytes or of 16-bit lanes.
const fn narrow_move(code: u8) -> Opcode {
    Opcode { wide_16: true, ..op(1, 3, code) }
}

impl Opcode {
    /// The same on bytes and on 16-bit lanes.
    const fn narrow(self, byte: Form, word: Form) -> Opcode {
        Opcode { narrow: [byte, word], ..self }
    }

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
    pub(crate) const IADD: Opcode =
        two((1, 1, 0xfe), (1, 1, 0xd4)).narrow((1, 1, 0xfc), (1, 1, 0xfd));
    pub(crate) const ISUB: Opcode =
        two((1, 1, 0xfa), (1, 1, 0xfb)).narrow((1, 1, 0xf8), (1, 1, 0xf9));
    /// Of 64-bit lanes in EVEX only. On bytes, the low halves of products of 16-bit lanes.
    pub(crate) const IMUL: Opcode = op(2, 1, 0x40).narrow((1, 1, 0xd5), (1, 1, 0xd5));
    /// Of 64-bit lanes in EVEX only.
    pub(crate) const IMIN: Opcode = op(2, 1, 0x39).narrow((2, 1, 0x38), (1, 1, 0xea));
    /// Of 64-bit lanes in EVEX only.
    pub(crate) const IMAX: Opcode = op(2, 1, 0x3d).narrow((2, 1, 0x3c), (1, 1, 0xee));
    /// Of bytes without a sign.
    pub(crate) const UMIN: Opcode = op(1, 1, 0xda);
    pub(crate) const UMAX: Opcode = op(1, 1, 0xde);
    /// The product of the lower halves of 64-bit lanes.
    pub(crate) const LOW_MUL: Opcode = op(1, 1, 0xf4);
    pub(crate) const AND: Opcode = op(1, 1, 0xdb);
    pub(crate) const OR: Opcode = op(1, 1, 0xeb);
    pub(crate) const XOR: Opcode = op(1, 1, 0xef);
    /// Shifts by an immediate; the ModRM register field says which. Of bytes, 16-bit lanes are.
    pub(crate) const SHIFT: Opcode =
        two((1, 1, 0x72), (1, 1, 0x73)).narrow((1, 1, 0x71), (1, 1, 0x71));
    /// The one that fills with signs, of 64-bit lanes: EVEX.
    pub(crate) const SHIFT_SIGNED: Opcode = op(1, 1, 0x72);
    /// Shifts by lanes; zeros come in, as they do for all bits where the number is too large.
    pub(crate) const SHIFT_LEFT_BY: Opcode = by_w(2, 1, 0x47);
    pub(crate) const SHIFT_RIGHT_BY: Opcode = by_w(2, 1, 0x45);
    /// Signs come in; of 64-bit lanes in EVEX only.
    pub(crate) const SHIFT_SIGNED_BY: Opcode = by_w(2, 1, 0x46);
    pub(crate) const CMP: Opcode = float(0xc2);
    pub(crate) const IGT: Opcode =
        two((1, 1, 0x66), (2, 1, 0x37)).narrow((1, 1, 0x64), (1, 1, 0x65));
    pub(crate) const IEQ: Opcode =
        two((1, 1, 0x76), (2, 1, 0x29)).narrow((1, 1, 0x74), (1, 1, 0x75));
    /// EVEX: by a mask register.
    pub(crate) const BLEND: Opcode =
        Opcode { wide_16: true, ..op(2, 1, 0x65).narrow((2, 1, 0x66), (2, 1, 0x66)) };
    /// VEX: by the signs of the register that the immediate's upper half names.
    pub(crate) const BLEND_SIGNS: Opcode =
        two((3, 1, 0x4a), (3, 1, 0x4b)).narrow((3, 1, 0x4c), (3, 1, 0x4c));
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
    pub(crate) const BROADCAST: Opcode =
        two((2, 1, 0x18), (2, 1, 0x19)).narrow((2, 1, 0x78), (2, 1, 0x79));
    /// EVEX: narrow lanes under a mask.
    pub(crate) const LOAD_NARROW: Opcode = narrow_move(0x6f);
    pub(crate) const STORE_NARROW: Opcode = narrow_move(0x7f);
    /// VEX: the lanes with a sign in the second operand.
    pub(crate) const LOAD_PART: Opcode = two((2, 1, 0x2c), (2, 1, 0x2d));
    pub(crate) const STORE_PART: Opcode = two((2, 1, 0x2e), (2, 1, 0x2f));
    /// Lanes from addresses of their own: a vector of indices beside the base. The lanes are those of
    /// the mask, or in VEX of the signs of the second operand, which are cleared.
    pub(crate) const GATHER: Opcode = Opcode { w: true, ..two((2, 1, 0x92), (2, 1, 0x93)) };
    /// VEX: the lowest lane to all.
    pub(crate) const SPREAD: Opcode = two((2, 1, 0x58), (2, 1, 0x59));
    /// EVEX: an integer register to all lanes.
    pub(crate) const SPREAD_GPR: Opcode = op(2, 1, 0x7c);
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

    pub(super) fn form(self, width: Width) -> Form {
        match width {
            Width::W8 => self.narrow[0],
            Width::W16 => self.narrow[1],
            Width::W32 => self.short,
            Width::W64 => self.long,
        }
    }
}

/// An instruction between elements of different lengths, in EVEX of 512 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(super) form: Form,
    /// Bytes in memory, in EVEX.
    pub(super) part: i32,
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
    pub(crate) const SIGNED_BYTES_TO_64: Conversion = convert((2, 1, 0x22), 8);
    pub(crate) const SIGNED_WORDS_TO_64: Conversion = convert((2, 1, 0x24), 16);
    pub(crate) const SIGNED_INTS_TO_64: Conversion = convert((2, 1, 0x25), 32);
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
