//! A formula as a straight-line program, for execution without compiling.

use super::Builder;
use crate::ir::{DType, Scalar};
use crate::schedule::loops::{BinaryOp, CompareOp, UnaryOp};
use smallvec::SmallVec;

/// The result of the instruction at this position of a program's body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Val(pub u16);

/// An instruction's operation: those of the loop IR that look at one element.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Op {
    /// The element of the i-th input.
    Input(u8),
    /// A number, the same everywhere.
    Const(Scalar),
    /// Conversion to the instruction's dtype.
    Cast(Val),
    /// One operand.
    Unary(UnaryOp, Val),
    /// Two operands of the instruction's dtype.
    Binary(BinaryOp, Val, Val),
    /// Two operands of one dtype; the instruction's dtype is `bool`.
    Compare(CompareOp, Val, Val),
    /// `condition ? a : b`.
    Select(Val, Val, Val),
}

impl Op {
    /// The values that the operation reads.
    pub fn operands(&self) -> SmallVec<[Val; 3]> {
        match *self {
            Op::Input(_) | Op::Const(_) => SmallVec::new(),
            Op::Cast(a) | Op::Unary(_, a) => SmallVec::from_slice(&[a]),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => SmallVec::from_slice(&[a, b]),
            Op::Select(c, a, b) => SmallVec::from_slice(&[c, a, b]),
        }
    }
}

/// An operation with the dtype of its result. A half-precision result is rounded to its own
/// precision after each operation, integers wrap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// The dtype of the result.
    pub dtype: DType,
}

/// What one element of the results is, given one element of each input.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// The instructions; operands come before their users.
    pub body: SmallVec<[Inst; 16]>,
    /// The results.
    pub outputs: SmallVec<[Val; 2]>,
}

impl Program {
    /// The instruction of a value.
    pub fn inst(&self, v: Val) -> &Inst {
        &self.body[usize::from(v.0)]
    }
}

/// An argument of a call that is no tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Attribute {
    /// A number or a truth value.
    Number(Scalar),
    /// A string.
    Text(&'static str),
}

impl<T: Into<Scalar>> From<T> for Attribute {
    fn from(x: T) -> Self {
        Attribute::Number(x.into())
    }
}

/// Writes the program of a call.
#[derive(Debug)]
pub struct Recorder {
    result: DType,
    operands: SmallVec<[(usize, DType); 4]>,
    attributes: SmallVec<[(&'static str, Attribute); 4]>,
    body: SmallVec<[Inst; 16]>,
}

/// The program of a formula for a call with these operands (positions in the schema, and dtypes),
/// attributes and result dtype. `None` where the formula is not defined for them.
///
/// ```
/// use straightline_passes::formula::{self, record};
/// use straightline_passes::ir::{DType, Op};
/// let program = record(
///     DType::F32,
///     &[(0, DType::F32)],
///     &[("negative_slope", 0.1.into())],
///     formula::of(Op::leaky_relu).unwrap().record,
/// )
/// .unwrap();
/// assert_eq!(program.outputs.len(), 1);
/// ```
pub fn record(
    result: DType,
    operands: &[(usize, DType)],
    attributes: &[(&'static str, Attribute)],
    formula: impl FnOnce(&mut Recorder) -> Option<SmallVec<[Val; 2]>>,
) -> Option<Program> {
    let mut recorder = Recorder {
        result,
        operands: SmallVec::from_slice(operands),
        attributes: SmallVec::from_slice(attributes),
        body: SmallVec::new(),
    };
    let outputs = formula(&mut recorder)?;
    Some(Program { body: recorder.body, outputs })
}

impl Recorder {
    fn push(&mut self, op: Op, dtype: DType) -> Val {
        self.body.push(Inst { op, dtype });
        Val(self.body.len() as u16 - 1)
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        (self.attributes.iter()).find_map(|(n, a)| (*n == name).then_some(a))
    }
}

impl Builder for Recorder {
    type Value = Val;

    fn result_dtype(&self) -> DType {
        self.result
    }

    fn operand(&mut self, at: usize) -> Option<Val> {
        let i = self.operands.iter().position(|(n, _)| *n == at)?;
        let op = Op::Input(i as u8);
        match self.body.iter().position(|inst| inst.op == op) {
            Some(at) => Some(Val(at as u16)),
            None => Some(self.push(op, self.operands[i].1)),
        }
    }

    fn number(&self, name: &str) -> Option<Scalar> {
        match self.attribute(name)? {
            Attribute::Number(n) => Some(*n),
            Attribute::Text(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.attribute(name)? {
            Attribute::Text(t) => Some(t),
            Attribute::Number(_) => None,
        }
    }

    fn mean_of(&self) -> Option<f64> {
        self.number("mean_of").map(Scalar::as_f64)
    }

    fn dtype_of(&self, x: Val) -> DType {
        self.body[usize::from(x.0)].dtype
    }

    fn constant_value(&mut self, value: Scalar, dtype: DType) -> Val {
        self.push(Op::Const(value.cast(dtype)), dtype)
    }

    fn converted(&mut self, x: Val, dtype: DType) -> Val {
        if self.dtype_of(x) == dtype {
            return x;
        }
        match self.body[usize::from(x.0)].op {
            Op::Const(value) => self.constant_value(value, dtype),
            _ => self.push(Op::Cast(x), dtype),
        }
    }

    fn unary_op(&mut self, op: UnaryOp, x: Val) -> Val {
        let tests = matches!(op, UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot);
        let dtype = if tests { DType::Bool } else { self.dtype_of(x) };
        self.push(Op::Unary(op, x), dtype)
    }

    fn binary_op(&mut self, op: BinaryOp, a: Val, b: Val) -> Val {
        debug_assert_eq!(self.dtype_of(a), self.dtype_of(b), "{op:?}");
        self.push(Op::Binary(op, a, b), self.dtype_of(a))
    }

    fn compare_op(&mut self, op: CompareOp, a: Val, b: Val) -> Val {
        debug_assert_eq!(self.dtype_of(a), self.dtype_of(b), "{op:?}");
        self.push(Op::Compare(op, a, b), DType::Bool)
    }

    fn choose(&mut self, condition: Val, a: Val, b: Val) -> Val {
        debug_assert_eq!(self.dtype_of(a), self.dtype_of(b));
        self.push(Op::Select(condition, a, b), self.dtype_of(a))
    }
}
