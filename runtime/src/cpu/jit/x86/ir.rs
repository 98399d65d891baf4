//! The body of a strip: straight-line SSA on vectors of lanes of one width, floats and integers, and
//! on masks.

use super::encode::Opcode;
use super::routines::Routine;
use super::vectors::{Vectors, Width};
use crate::cpu::math::prims::scale_in_steps;
use crate::cpu::math::{self, Prims, ScalarFn1, ScalarFn2};
use std::collections::HashMap;

/// The result of the node at this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node(pub(crate) u32);

/// How lanes are accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fold {
    pub(crate) op: FoldOp,
    /// Lanes are integers.
    pub(crate) int: bool,
    /// The bits that a reduction begins with.
    pub(crate) start: u64,
}

/// What a reduction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FoldOp {
    Sum,
    Prod,
    /// NaN propagates.
    Max,
    /// NaN propagates.
    Min,
    /// Of truth values as 0 and 1.
    Or,
    And,
    /// The largest with the position where it is first; NaN is larger than all others.
    ArgMax,
    /// The same of the smallest.
    ArgMin,
}

impl Fold {
    /// The results, which are also the accumulators: an extreme, and its position.
    pub(crate) fn results(&self) -> usize {
        match self.op {
            FoldOp::ArgMax | FoldOp::ArgMin => 2,
            _ => 1,
        }
    }
}

/// How elements are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// As they are in lanes.
    Lanes,
    /// 8 bits, not negative.
    Byte,
    SignedByte,
    /// 16 bits, not negative.
    Word,
    SignedWord,
    /// 32 bits, of 64-bit lanes.
    SignedInt,
    /// `f16`, of `f32` lanes.
    Half,
}

impl Format {
    /// Bytes of an element, as a power of two.
    pub(crate) fn shift(self, width: Width) -> u8 {
        match (self, width) {
            (Format::Byte | Format::SignedByte, _) => 0,
            (Format::Word | Format::SignedWord | Format::Half, _) => 1,
            (Format::SignedInt, _) => 2,
            (Format::Lanes, width) => width.shift(),
        }
    }
}

/// What becomes of two truth values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Inst {
    /// The same bits in every lane.
    Const(u64),
    /// A number that the caller passes, in every lane.
    Param(u32),
    /// How many elements the strip has gone over, in each lane those before it included.
    Position,
    /// The next elements of a stream.
    Load(u32, Format),
    /// The next elements of a stream that lie so many elements apart, as long as lanes.
    Gather(u32, i32),
    /// The one element of a stream, in every lane.
    Spread(u32),
    /// Writes a stream's elements.
    Store(u32, Format, Node),
    /// One operand, with an immediate.
    Unary(Opcode, Option<u8>, Node),
    /// Two operands; whether they may be exchanged.
    Binary(Opcode, bool, Node, Node),
    /// The nearest `f16` of an `f32`, as that.
    RoundHalf(Node),
    /// A shift by an immediate: which (the opcode's extension), how far.
    Shift(u8, u8, Node),
    /// `a * b + c`
    Fma(Node, Node, Node),
    /// A float comparison by its predicate: a mask.
    Compare(u8, Node, Node),
    /// An integer comparison: a mask.
    CompareInt(Opcode, Node, Node),
    /// An operation on masks.
    MaskOp(Logic, Node, Node),
    MaskNot(Node),
    /// `mask ? a : b`
    Select(Node, Node, Node),
    /// Takes a value into an accumulator.
    Accumulate(u32, Fold, Node),
    /// `mask ? f(a) : b`, of masks that are rarely set.
    CallWhere(Routine, Node, Node, Node),
    /// `mask ? f(a, b) : c`, likewise.
    CallBothWhere(Routine, [Node; 4]),
    /// `f(a, b)`
    CallBoth(Routine, Node, Node),
    /// Asks the memory for a stream's next elements.
    Ask(u32, Format),
}

impl Inst {
    /// The result is a mask.
    pub(crate) fn is_mask(&self) -> bool {
        matches!(
            self,
            Inst::Compare(..) | Inst::CompareInt(..) | Inst::MaskOp(..) | Inst::MaskNot(_)
        )
    }

    /// Has an effect besides its result.
    pub(crate) fn is_effect(&self) -> bool {
        matches!(self, Inst::Store(..) | Inst::Accumulate(..) | Inst::Ask(..))
    }

    pub(crate) fn operands(&self) -> impl Iterator<Item = Node> + use<> {
        let list = match *self {
            Inst::Const(_)
            | Inst::Param(_)
            | Inst::Position
            | Inst::Load(..)
            | Inst::Gather(..)
            | Inst::Ask(..)
            | Inst::Spread(_) => [None; 4],
            Inst::Store(_, _, a)
            | Inst::RoundHalf(a)
            | Inst::Unary(_, _, a)
            | Inst::Shift(_, _, a)
            | Inst::MaskNot(a)
            | Inst::Accumulate(_, _, a) => [Some(a), None, None, None],
            Inst::Binary(_, _, a, b)
            | Inst::Compare(_, a, b)
            | Inst::CompareInt(_, a, b)
            | Inst::MaskOp(_, a, b)
            | Inst::CallBoth(_, a, b) => [Some(a), Some(b), None, None],
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) | Inst::CallWhere(_, a, b, c) => {
                [Some(a), Some(b), Some(c), None]
            }
            Inst::CallBothWhere(_, all) => all.map(Some),
        };
        list.into_iter().flatten()
    }
}

/// A body under construction. As an implementation of [`Prims`] it records the math functions.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) vectors: Vectors,
    /// The width of all lanes.
    pub(crate) width: Width,
    pub(crate) insts: Vec<Inst>,
    pub(crate) streams: u32,
    pub(crate) params: u32,
    pub(crate) folds: Vec<Fold>,
    /// Something was asked for that strips do not have.
    pub(crate) unsupported: bool,
    seen: HashMap<Inst, Node>,
}

/// Predicates of float comparisons that do not signal.
pub(crate) mod predicate {
    pub(crate) const EQ: u8 = 0x00;
    pub(crate) const LT: u8 = 0x11;
    pub(crate) const LE: u8 = 0x12;
    pub(crate) const UNORDERED: u8 = 0x03;
    pub(crate) const NE: u8 = 0x04;
    /// Greater, or one is NaN.
    pub(crate) const NOT_LE: u8 = 0x16;
    /// Less, or one is NaN.
    pub(crate) const NOT_GE: u8 = 0x19;
    pub(crate) const ORDERED: u8 = 0x07;
    pub(crate) const GE: u8 = 0x1d;
    pub(crate) const GT: u8 = 0x1e;
}

impl Body {
    pub(crate) fn new(vectors: Vectors, width: Width) -> Body {
        Body {
            vectors,
            width,
            insts: Vec::new(),
            streams: 0,
            params: 0,
            folds: Vec::new(),
            unsupported: false,
            seen: HashMap::new(),
        }
    }

    /// The lanes of a vector.
    pub(crate) fn lanes(&self) -> u32 {
        self.vectors.lanes(self.width)
    }

    /// Whether all that it does is to find extremes of floats, each of which takes two instructions
    /// that wait for each other.
    pub(super) fn finds_extremes(&self) -> bool {
        let extreme = |f: &Fold| !f.int && matches!(f.op, FoldOp::Max | FoldOp::Min);
        let stores = self.insts.iter().any(|i| matches!(i, Inst::Store(..)));
        !stores && !self.folds.is_empty() && self.folds.iter().all(extreme)
    }

    /// The results of all reductions.
    pub(crate) fn results(&self) -> usize {
        self.folds.iter().map(Fold::results).sum()
    }

    /// Appends an instruction, or finds the same one.
    pub(crate) fn push(&mut self, inst: Inst) -> Node {
        let reads = matches!(inst, Inst::Load(..) | Inst::Gather(..) | Inst::Spread(_));
        let pure = !inst.is_effect() && !reads;
        if pure && let Some(&n) = self.seen.get(&inst) {
            return n;
        }
        let n = Node(self.insts.len() as u32);
        self.insts.push(inst);
        if pure {
            self.seen.insert(inst, n);
        }
        n
    }

    fn unary(&mut self, op: Opcode, imm: Option<u8>, a: Node) -> Node {
        self.push(Inst::Unary(op, imm, a))
    }

    fn binary(&mut self, op: Opcode, a: Node, b: Node) -> Node {
        let commutes = [
            Opcode::ADD,
            Opcode::MUL,
            Opcode::IADD,
            Opcode::IMUL,
            Opcode::LOW_MUL,
            Opcode::IMIN,
            Opcode::IMAX,
            Opcode::UMIN,
            Opcode::UMAX,
            Opcode::AND,
            Opcode::OR,
            Opcode::XOR,
        ]
        .contains(&op);
        self.push(Inst::Binary(op, commutes, a, b))
    }

    pub(crate) fn bits_const(&mut self, bits: u64) -> Node {
        self.push(Inst::Const(bits))
    }

    /// The larger (smaller) of two; NaN if either is.
    pub(crate) fn extreme(&mut self, a: Node, b: Node, max: bool) -> Node {
        let op = if max { Opcode::MAX } else { Opcode::MIN };
        let raw = self.binary(op, a, b);
        let nan = self.is_nan(a);
        self.push(Inst::Select(nan, a, raw))
    }

    /// What a reduction becomes with one more element.
    pub(crate) fn folded(&mut self, fold: Fold, total: Node, x: Node) -> Node {
        match (fold.op, fold.int) {
            (FoldOp::Sum, false) => self.add(total, x),
            (FoldOp::Sum, true) => self.iadd(total, x),
            (FoldOp::Prod, false) => self.mul(total, x),
            (FoldOp::Prod, true) => self.imul(total, x),
            (FoldOp::Max, false) => self.extreme(total, x, true),
            (FoldOp::Max, true) => self.iextreme(total, x, true),
            (FoldOp::Min, false) => self.extreme(total, x, false),
            (FoldOp::Min, true) => self.iextreme(total, x, false),
            (FoldOp::Or, _) => self.ior(total, x),
            (FoldOp::And, _) => self.iand(total, x),
            (FoldOp::ArgMax | FoldOp::ArgMin, _) => unreachable!("positions are in registers"),
        }
    }

    fn sign_bit(&self) -> i64 {
        match self.width {
            Width::W8 => 1 << 7,
            Width::W16 => 1 << 15,
            Width::W32 => 1 << 31,
            Width::W64 => i64::MIN,
        }
    }

    /// AVX2 has fewer instructions on 64-bit integers.
    pub(crate) fn short_of_integers(&self) -> bool {
        self.vectors == Vectors::Ymm && self.width == Width::W64
    }

    /// The low bits of a product.
    pub(crate) fn imul(&mut self, a: Node, b: Node) -> Node {
        if self.width == Width::W8 {
            return self.imul_bytes(a, b);
        }
        if !self.short_of_integers() {
            return self.binary(Opcode::IMUL, a, b);
        }
        let low = self.binary(Opcode::LOW_MUL, a, b);
        let (high_a, high_b) = (self.ishr_u(a, 32), self.ishr_u(b, 32));
        let x = self.binary(Opcode::LOW_MUL, high_a, b);
        let y = self.binary(Opcode::LOW_MUL, a, high_b);
        let sum = self.iadd(x, y);
        let high = self.ishl(sum, 32);
        self.iadd(low, high)
    }

    /// The same of bytes, by products of 16-bit lanes: of the lower bytes of each two, and of the upper
    /// ones.
    fn imul_bytes(&mut self, a: Node, b: Node) -> Node {
        let low = self.binary(Opcode::IMUL, a, b);
        let (upper_a, upper_b) = (self.ishr_u(a, 8), self.ishr_u(b, 8));
        let high = self.binary(Opcode::IMUL, upper_a, upper_b);
        let (low, high) = (self.ishl(low, 8), self.ishl(high, 8));
        let low = self.ishr_u(low, 8);
        self.ior(low, high)
    }

    /// The larger (smaller) of two bytes without a sign.
    pub(crate) fn uextreme(&mut self, a: Node, b: Node, max: bool) -> Node {
        self.binary(if max { Opcode::UMAX } else { Opcode::UMIN }, a, b)
    }

    /// `a < b` of bytes without a sign.
    pub(crate) fn ult(&mut self, a: Node, b: Node) -> Node {
        let larger = self.uextreme(a, b, true);
        let not_less = self.ieq(larger, a);
        self.not(not_less)
    }

    /// The larger (smaller) of two signed integers.
    pub(crate) fn iextreme(&mut self, a: Node, b: Node, max: bool) -> Node {
        if !self.short_of_integers() {
            return self.binary(if max { Opcode::IMAX } else { Opcode::IMIN }, a, b);
        }
        let m = if max { self.ilt(b, a) } else { self.ilt(a, b) };
        self.select(m, a, b)
    }

    /// A shift by lanes: by a number of bits that is negative, or as large as the lanes, all of them
    /// go. `None` where there is no instruction.
    pub(crate) fn shift_by(&mut self, op: Opcode, a: Node, n: Node) -> Option<Node> {
        if op == Opcode::SHIFT_SIGNED_BY && self.short_of_integers() {
            return None;
        }
        Some(self.binary(op, a, n))
    }

    /// An integer of less than 51 bits as a float.
    pub(crate) fn small_to_float(&mut self, a: Node) -> Node {
        if !self.short_of_integers() {
            return self.to_float(a);
        }
        // beside a number so large that its last place is one
        let large = self.f(6_755_399_441_055_744.0);
        let sum = self.iadd(a, large);
        self.sub(sum, large)
    }

    /// The nearest `bf16` of an `f32` (ties to even, NaN stays NaN), as that.
    pub(crate) fn round_bf16(&mut self, v: Node) -> Node {
        let odd = self.ishr_u(v, 16);
        let one = self.i(1);
        let odd = self.iand(odd, one);
        let half = self.i(0x7fff);
        let sum = self.iadd(v, half);
        let sum = self.iadd(sum, odd);
        let quiet = self.i(0x0040_0000);
        let quiet = self.ior(v, quiet);
        let nan = self.is_nan(v);
        let r = self.select(nan, quiet, sum);
        let high = self.i(0xffff_0000);
        self.iand(r, high)
    }

    pub(crate) fn is_nan(&mut self, a: Node) -> Node {
        self.push(Inst::Compare(predicate::UNORDERED, a, a))
    }

    pub(crate) fn compare(&mut self, p: u8, a: Node, b: Node) -> Node {
        self.push(Inst::Compare(p, a, b))
    }

    pub(crate) fn mask_op(&mut self, op: Logic, a: Node, b: Node) -> Node {
        self.push(Inst::MaskOp(op, a, b))
    }
}

impl Prims for Body {
    type F = Node;
    type I = Node;
    type M = Node;

    fn width(&self) -> math::Width {
        self.width.floats()
    }
    fn f(&mut self, v: f64) -> Node {
        self.bits_const(match self.width {
            Width::W64 => v.to_bits(),
            _ => (v as f32).to_bits().into(),
        })
    }
    fn i(&mut self, v: i64) -> Node {
        self.bits_const(match self.width {
            Width::W8 => (v as u8).into(),
            Width::W16 => (v as u16).into(),
            Width::W32 => (v as u32).into(),
            Width::W64 => v as u64,
        })
    }
    fn add(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::ADD, a, b)
    }
    fn sub(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::SUB, a, b)
    }
    fn mul(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::MUL, a, b)
    }
    fn div(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::DIV, a, b)
    }
    fn fma(&mut self, a: Node, b: Node, c: Node) -> Node {
        self.push(Inst::Fma(a, b, c))
    }
    fn neg(&mut self, a: Node) -> Node {
        let sign = self.i(self.sign_bit());
        self.binary(Opcode::XOR, a, sign)
    }
    fn abs(&mut self, a: Node) -> Node {
        let rest = self.i(!self.sign_bit());
        self.binary(Opcode::AND, a, rest)
    }
    fn sqrt(&mut self, a: Node) -> Node {
        self.unary(Opcode::SQRT, None, a)
    }
    fn min_raw(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::MIN, a, b)
    }
    fn max_raw(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::MAX, a, b)
    }
    fn floor(&mut self, a: Node) -> Node {
        self.unary(Opcode::ROUND, Some(9), a)
    }
    fn ceil(&mut self, a: Node) -> Node {
        self.unary(Opcode::ROUND, Some(10), a)
    }
    fn trunc(&mut self, a: Node) -> Node {
        self.unary(Opcode::ROUND, Some(11), a)
    }
    fn round_even(&mut self, a: Node) -> Node {
        self.unary(Opcode::ROUND, Some(8), a)
    }
    fn lt(&mut self, a: Node, b: Node) -> Node {
        self.compare(predicate::LT, a, b)
    }
    fn le(&mut self, a: Node, b: Node) -> Node {
        self.compare(predicate::LE, a, b)
    }
    fn eq(&mut self, a: Node, b: Node) -> Node {
        self.compare(predicate::EQ, a, b)
    }
    fn ne(&mut self, a: Node, b: Node) -> Node {
        self.compare(predicate::NE, a, b)
    }
    fn gt(&mut self, a: Node, b: Node) -> Node {
        self.compare(predicate::GT, a, b)
    }
    fn ge(&mut self, a: Node, b: Node) -> Node {
        self.compare(predicate::GE, a, b)
    }
    fn and(&mut self, a: Node, b: Node) -> Node {
        self.push(Inst::MaskOp(Logic::And, a, b))
    }
    fn or(&mut self, a: Node, b: Node) -> Node {
        self.push(Inst::MaskOp(Logic::Or, a, b))
    }
    fn not(&mut self, a: Node) -> Node {
        self.push(Inst::MaskNot(a))
    }
    fn select(&mut self, m: Node, a: Node, b: Node) -> Node {
        self.push(Inst::Select(m, a, b))
    }
    fn select_i(&mut self, m: Node, a: Node, b: Node) -> Node {
        self.push(Inst::Select(m, a, b))
    }
    fn bits(&mut self, a: Node) -> Node {
        a
    }
    fn from_bits(&mut self, a: Node) -> Node {
        a
    }
    fn iadd(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::IADD, a, b)
    }
    fn isub(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::ISUB, a, b)
    }
    fn iand(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::AND, a, b)
    }
    fn ior(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::OR, a, b)
    }
    fn ixor(&mut self, a: Node, b: Node) -> Node {
        self.binary(Opcode::XOR, a, b)
    }
    fn ishl(&mut self, a: Node, n: u32) -> Node {
        self.push(Inst::Shift(6, n as u8, a))
    }
    fn ishr_u(&mut self, a: Node, n: u32) -> Node {
        self.push(Inst::Shift(2, n as u8, a))
    }
    fn ishr_s(&mut self, a: Node, n: u32) -> Node {
        self.unsupported |= self.short_of_integers();
        self.push(Inst::Shift(4, n as u8, a))
    }
    fn ilt(&mut self, a: Node, b: Node) -> Node {
        self.push(Inst::CompareInt(Opcode::IGT, b, a))
    }
    fn ieq(&mut self, a: Node, b: Node) -> Node {
        self.push(Inst::CompareInt(Opcode::IEQ, a, b))
    }
    fn to_int(&mut self, a: Node) -> Node {
        self.unsupported |= self.short_of_integers();
        self.unary(Opcode::TO_INT, None, a)
    }
    fn to_float(&mut self, a: Node) -> Node {
        self.unsupported |= self.short_of_integers();
        self.unary(Opcode::TO_FLOAT, None, a)
    }
    fn call1(&mut self, _: ScalarFn1, x: Node) -> Node {
        self.unsupported = true;
        x
    }
    fn call2(&mut self, f: ScalarFn2, x: Node, y: Node) -> Node {
        self.push(Inst::CallBoth(Routine::of_two(f), x, y))
    }
    fn call1_where(&mut self, m: Node, f: ScalarFn1, x: Node, fast: Node) -> Node {
        self.push(Inst::CallWhere(Routine::of_one(f), m, x, fast))
    }
    fn call2_where(&mut self, m: Node, f: ScalarFn2, x: Node, y: Node, fast: Node) -> Node {
        self.push(Inst::CallBothWhere(Routine::of_two(f), [m, x, y, fast]))
    }
    fn scale(&mut self, x: Node, n: Node) -> Node {
        match self.vectors {
            Vectors::Zmm => self.binary(Opcode::SCALEF, x, n),
            Vectors::Ymm => scale_in_steps(self, x, n),
        }
    }
}
