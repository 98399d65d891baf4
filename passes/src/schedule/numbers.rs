//! The numbers of a schedule, apart from its structure.
//!
//! Code is generated from kernels. Two schedules of one [`Structure`] differ in sizes, strides,
//! offsets and literals alone, all of which generated code can read from a table: code that is made
//! for one of them can serve the other.

use super::loops::{
    Axis, BufferKind, Index, Inst, Kernel, Op, Schedule, Scratch, Stage, Step, Vectorize,
};
use crate::ir::{DType, Scalar};

/// What takes the place of the numbers of a kernel.
pub trait Numbers<N, C> {
    /// In place of a size, a stride or an offset.
    fn number(&mut self, number: i64) -> N;
    /// In place of a constant.
    fn literal(&mut self, literal: Scalar) -> C;
}

impl Kernel {
    /// The same kernel with other numbers, which are asked for in an order that depends on the
    /// structure alone.
    ///
    /// ```
    /// use straightline_passes::ir::Scalar;
    /// use straightline_passes::schedule::loops::{Axis, AxisId, Kernel, Numbers, Vectorize};
    ///
    /// /// Writes the numbers down.
    /// struct Listed(Vec<i64>);
    /// impl Numbers<(), ()> for Listed {
    ///     fn number(&mut self, number: i64) {
    ///         self.0.push(number);
    ///     }
    ///     fn literal(&mut self, _: Scalar) {}
    /// }
    /// let kernel: Kernel = Kernel {
    ///     name: "nothing".into(),
    ///     grid: [Axis { id: AxisId(0), extent: 16 }].into_iter().collect(),
    ///     stages: vec![],
    ///     vectorize: Vectorize::Grid,
    ///     scratch: vec![],
    ///     work_per_point: 0,
    ///     in_any_order: false,
    ///     ops: vec![],
    /// };
    /// let mut listed = Listed(Vec::new());
    /// kernel.with_numbers(&mut listed);
    /// assert_eq!(listed.0, [16]);
    /// ```
    pub fn with_numbers<N, C>(&self, to: &mut impl Numbers<N, C>) -> Kernel<N, C> {
        Kernel {
            name: self.name.clone(),
            grid: self.grid.iter().map(|a| axis(a, to)).collect(),
            stages: self.stages.iter().map(|s| stage(s, to)).collect(),
            vectorize: self.vectorize,
            scratch: (self.scratch.iter())
                .map(|s| Scratch { dtype: s.dtype, len: to.number(s.len) })
                .collect(),
            work_per_point: self.work_per_point,
            in_any_order: self.in_any_order,
            ops: self.ops.clone(),
        }
    }
}

fn axis<N, C>(axis: &Axis, to: &mut impl Numbers<N, C>) -> Axis<N> {
    Axis { id: axis.id, extent: to.number(axis.extent) }
}

fn index<N, C>(index: &Index, to: &mut impl Numbers<N, C>) -> Index<N> {
    Index {
        base: to.number(index.base),
        terms: index.terms.iter().map(|(axis, n)| (*axis, to.number(*n))).collect(),
        dynamic: index.dynamic.iter().map(|(v, n)| (*v, to.number(*n))).collect(),
    }
}

fn stage<N, C>(stage: &Stage, to: &mut impl Numbers<N, C>) -> Stage<N, C> {
    Stage {
        axes: stage.axes.iter().map(|a| axis(a, to)).collect(),
        body: stage.body.iter().map(|i| inst(i, to)).collect(),
    }
}

fn inst<N, C>(inst: &Inst, to: &mut impl Numbers<N, C>) -> Inst<N, C> {
    let op = match &inst.op {
        Op::Load { mem, index: i } => Op::Load { mem: *mem, index: index(i, to) },
        Op::Const(c) => Op::Const(to.literal(*c)),
        Op::AxisIndex(axis) => Op::AxisIndex(*axis),
        Op::Cast(v) => Op::Cast(*v),
        Op::Unary(op, v) => Op::Unary(*op, *v),
        Op::Binary(op, a, b) => Op::Binary(*op, *a, *b),
        Op::Fma(a, b, c) => Op::Fma(*a, *b, *c),
        Op::Compare(op, a, b) => Op::Compare(*op, *a, *b),
        Op::Select(c, a, b) => Op::Select(*c, *a, *b),
        Op::CheckIndex { index, size, wrap } => {
            Op::CheckIndex { index: *index, size: to.number(*size), wrap: *wrap }
        }
        Op::Reduce(op, v) => Op::Reduce(*op, *v),
        Op::ArgReduce { max, value } => Op::ArgReduce { max: *max, value: *value },
        Op::Carry { stage, value } => Op::Carry { stage: *stage, value: *value },
        Op::Store { mem, index: i, value } => {
            Op::Store { mem: *mem, index: index(i, to), value: *value }
        }
        Op::Update { op, mem, index: i, value } => {
            Op::Update { op: *op, mem: *mem, index: index(i, to), value: *value }
        }
    };
    Inst { op, dtype: inst.dtype, site: inst.site }
}

/// A literal without its number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LiteralKind {
    /// A truth value has no number.
    Bool(bool),
    /// An integer.
    Int,
    /// A float, whose number is its bits.
    Float,
    /// No loop has one.
    Complex(f64, f64),
}

impl LiteralKind {
    /// A literal, apart.
    pub fn split(literal: Scalar) -> (LiteralKind, i64) {
        match literal {
            Scalar::Bool(b) => (LiteralKind::Bool(b), 0),
            Scalar::Int(n) => (LiteralKind::Int, n),
            Scalar::Float(x) => (LiteralKind::Float, x.to_bits() as i64),
            Scalar::Complex(re, im) => (LiteralKind::Complex(re, im), 0),
        }
    }

    /// The literal of a number.
    pub fn join(self, number: i64) -> Scalar {
        match self {
            LiteralKind::Bool(b) => Scalar::Bool(b),
            LiteralKind::Int => Scalar::Int(number),
            LiteralKind::Float => Scalar::Float(f64::from_bits(number as u64)),
            LiteralKind::Complex(re, im) => Scalar::Complex(re, im),
        }
    }
}

/// Where a buffer is, without numbers.
#[derive(Clone, PartialEq, Debug)]
enum Home {
    Input(u32),
    Parameter(u32),
    Output(u32),
    /// What is in it is a number.
    Constant,
    /// In the arena or in an output, which is a number.
    Temporary,
}

/// A kernel without numbers.
type Bare = Kernel<(), LiteralKind>;

/// What the code of a schedule depends on, numbers aside: of runtime kernels only where they are
/// called.
#[derive(Clone, PartialEq, Debug)]
pub struct Structure {
    buffers: Vec<(DType, Home)>,
    steps: Vec<Option<Bare>>,
}

impl Structure {
    /// Where two structures differ first, in words.
    pub fn difference(&self, other: &Structure) -> Option<String> {
        if self.steps.len() != other.steps.len() {
            return Some(format!("{} steps, were {}", other.steps.len(), self.steps.len()));
        }
        for (i, (a, b)) in self.steps.iter().zip(&other.steps).enumerate() {
            match (a, b) {
                (Some(a), Some(b)) if a != b => {
                    let (is, was) = (outline(b), outline(a));
                    return Some(match is == was {
                        true => format!("step {i}, {is}, has other axes in its indices"),
                        false => format!("step {i} is {is}, was {was}"),
                    });
                }
                (Some(_), None) => return Some(format!("step {i} calls a runtime kernel")),
                (None, Some(_)) => return Some(format!("step {i} is generated code")),
                _ => {}
            }
        }
        let mut buffers = self.buffers.iter().zip(&other.buffers);
        match buffers.position(|(a, b)| a != b) {
            Some(i) => Some(format!("buffer {i} is of another kind")),
            None => (self.buffers.len() != other.buffers.len())
                .then(|| format!("{} buffers, were {}", other.buffers.len(), self.buffers.len())),
        }
    }
}

/// `sum_exp (grid of 2, stages of 1 and 3 instructions)`.
fn outline(kernel: &Bare) -> String {
    let bodies: Vec<String> = kernel.stages.iter().map(|s| s.body.len().to_string()).collect();
    let lanes = match kernel.vectorize {
        Vectorize::Grid => "along the grid",
        Vectorize::Stage => "along the stages",
        Vectorize::None => "scalar",
    };
    format!(
        "{} (grid of {}, {lanes}, stages of {} instructions)",
        kernel.name,
        kernel.grid.len(),
        bodies.join(", ")
    )
}

struct Apart<'a>(&'a mut Vec<i64>);

impl Numbers<(), LiteralKind> for Apart<'_> {
    fn number(&mut self, number: i64) {
        self.0.push(number);
    }

    fn literal(&mut self, literal: Scalar) -> LiteralKind {
        let (kind, number) = LiteralKind::split(literal);
        self.0.push(number);
        kind
    }
}

impl Schedule {
    /// The structure and the numbers: first two of each buffer, which say where a temporary lies or
    /// a constant is ([`BufferKind::place`]), then those of each kernel in the order of
    /// [`Kernel::with_numbers`].
    ///
    /// ```
    /// use straightline_passes::schedule::loops::Schedule;
    /// let (structure, numbers) = Schedule::default().apart();
    /// assert_eq!(structure.difference(&structure), None);
    /// assert!(numbers.is_empty());
    /// ```
    pub fn apart(&self) -> (Structure, Vec<i64>) {
        let mut numbers = Vec::new();
        let mut buffers = Vec::with_capacity(self.buffers.len());
        for b in &self.buffers {
            let home = match &b.kind {
                BufferKind::Input(i) => Home::Input(*i),
                BufferKind::Parameter(i) => Home::Parameter(*i),
                BufferKind::Output(i) => Home::Output(*i),
                BufferKind::Constant(_) => Home::Constant,
                BufferKind::Arena { .. } | BufferKind::Within { .. } => Home::Temporary,
            };
            buffers.push((b.dtype, home));
            numbers.extend(b.kind.place().unwrap_or_default());
        }
        let step = |step: &Step| match step {
            Step::Kernel(k) => {
                let mut bare = k.with_numbers(&mut Apart(&mut numbers));
                bare.work_per_point = 0;
                Some(bare)
            }
            Step::Extern(_) => None,
        };
        let steps = self.steps.iter().map(step).collect();
        (Structure { buffers, steps }, numbers)
    }

    /// What the number at a place of [`Schedule::apart`] belongs to, in words.
    ///
    /// ```
    /// use straightline_passes::schedule::loops::Schedule;
    /// assert_eq!(Schedule::default().place_of(7), "no number of it");
    /// ```
    pub fn place_of(&self, at: usize) -> String {
        if let Some(b) = self.buffers.get(at / 2) {
            return format!("the place of buffer {} (`{}`)", at / 2, b.name);
        }
        let mut end = 2 * self.buffers.len();
        for (i, step) in self.steps.iter().enumerate() {
            let Step::Kernel(k) = step else { continue };
            let mut numbers = Vec::new();
            k.with_numbers(&mut Apart(&mut numbers));
            if at < end + numbers.len() {
                return format!("number {} of step {i}, {}", at - end, k.name);
            }
            end += numbers.len();
        }
        "no number of it".to_string()
    }
}
