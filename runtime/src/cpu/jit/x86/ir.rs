//! The body of a strip: straight-line SSA on vectors of `f32` (or `i32`) lanes and on masks.

use super::encode::Opcode;
use super::vectors::Vectors;
use crate::cpu::math::prims::scale_in_steps;
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};
use std::collections::HashMap;

/// The result of the node at this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node(pub(crate) u32);

/// How lanes are accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    Sum,
    Prod,
    /// NaN propagates.
    Max,
    /// NaN propagates.
    Min,
}

impl Fold {
    /// What a reduction begins with.
    pub(crate) fn start(self) -> f32 {
        match self {
            Fold::Sum => 0.0,
            Fold::Prod => 1.0,
            Fold::Max => f32::NEG_INFINITY,
            Fold::Min => f32::INFINITY,
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
    Const(u32),
    /// A float that the caller passes, in every lane.
    Param(u32),
    /// The next elements of a stream.
    Load(u32),
    /// The one element of a stream, in every lane.
    Spread(u32),
    /// Writes a stream's elements.
    Store(u32, Node),
    /// One operand, with an immediate.
    Unary(Opcode, Option<u8>, Node),
    /// Two operands; whether they may be exchanged.
    Binary(Opcode, bool, Node, Node),
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
        matches!(self, Inst::Store(..) | Inst::Accumulate(..))
    }

    pub(crate) fn operands(&self) -> impl Iterator<Item = Node> + use<> {
        let list = match *self {
            Inst::Const(_) | Inst::Param(_) | Inst::Load(_) | Inst::Spread(_) => [None; 3],
            Inst::Store(_, a)
            | Inst::Unary(_, _, a)
            | Inst::Shift(_, _, a)
            | Inst::MaskNot(a)
            | Inst::Accumulate(_, _, a) => [Some(a), None, None],
            Inst::Binary(_, _, a, b)
            | Inst::Compare(_, a, b)
            | Inst::CompareInt(_, a, b)
            | Inst::MaskOp(_, a, b) => [Some(a), Some(b), None],
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) => [Some(a), Some(b), Some(c)],
        };
        list.into_iter().flatten()
    }
}

/// A body under construction. As an implementation of [`Prims`] it records the math functions.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) vectors: Vectors,
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
    pub(crate) const ORDERED: u8 = 0x07;
    pub(crate) const GE: u8 = 0x1d;
    pub(crate) const GT: u8 = 0x1e;
}

impl Body {
    pub(crate) fn new(vectors: Vectors) -> Body {
        Body {
            vectors,
            insts: Vec::new(),
            streams: 0,
            params: 0,
            folds: Vec::new(),
            unsupported: false,
            seen: HashMap::new(),
        }
    }

    /// Appends an instruction, or finds the same one.
    pub(crate) fn push(&mut self, inst: Inst) -> Node {
        let pure = !inst.is_effect() && !matches!(inst, Inst::Load(_) | Inst::Spread(_));
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
        let commutes =
            [Opcode::ADD, Opcode::MUL, Opcode::IADD, Opcode::AND, Opcode::OR, Opcode::XOR]
                .contains(&op);
        self.push(Inst::Binary(op, commutes, a, b))
    }

    pub(crate) fn bits_const(&mut self, bits: u32) -> Node {
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
        match fold {
            Fold::Sum => self.add(total, x),
            Fold::Prod => self.mul(total, x),
            Fold::Max => self.extreme(total, x, true),
            Fold::Min => self.extreme(total, x, false),
        }
    }

    pub(crate) fn is_nan(&mut self, a: Node) -> Node {
        self.push(Inst::Compare(predicate::UNORDERED, a, a))
    }

    pub(crate) fn compare(&mut self, p: u8, a: Node, b: Node) -> Node {
        self.push(Inst::Compare(p, a, b))
    }

    pub(crate) fn mask_xor(&mut self, a: Node, b: Node) -> Node {
        self.push(Inst::MaskOp(Logic::Xor, a, b))
    }
}

impl Prims for Body {
    type F = Node;
    type I = Node;
    type M = Node;

    fn width(&self) -> Width {
        Width::W32
    }
    fn f(&mut self, v: f64) -> Node {
        self.bits_const((v as f32).to_bits())
    }
    fn i(&mut self, v: i64) -> Node {
        self.bits_const(v as u32)
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
        let sign = self.bits_const(1 << 31);
        self.binary(Opcode::XOR, a, sign)
    }
    fn abs(&mut self, a: Node) -> Node {
        let rest = self.bits_const(!(1 << 31));
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
        self.push(Inst::Shift(4, n as u8, a))
    }
    fn ilt(&mut self, a: Node, b: Node) -> Node {
        self.push(Inst::CompareInt(Opcode::IGT, b, a))
    }
    fn ieq(&mut self, a: Node, b: Node) -> Node {
        self.push(Inst::CompareInt(Opcode::IEQ, a, b))
    }
    fn to_int(&mut self, a: Node) -> Node {
        self.unary(Opcode::TO_INT, None, a)
    }
    fn to_float(&mut self, a: Node) -> Node {
        self.unary(Opcode::TO_FLOAT, None, a)
    }
    fn call1(&mut self, _: ScalarFn1, x: Node) -> Node {
        self.unsupported = true;
        x
    }
    fn call2(&mut self, _: ScalarFn2, x: Node, _: Node) -> Node {
        self.unsupported = true;
        x
    }
    fn scale(&mut self, x: Node, n: Node) -> Node {
        match self.vectors {
            Vectors::Zmm => self.binary(Opcode::SCALEF, x, n),
            Vectors::Ymm => scale_in_steps(self, x, n),
        }
    }
}
