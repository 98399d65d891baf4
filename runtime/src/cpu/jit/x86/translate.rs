//! The instructions of a stage as a body.

use super::Stream;
use super::ir::{Body, Fold, Inst, Node, predicate};
use super::vectors::Vectors;
use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::sizes::{Index, Kernel, Op, Size, Stage};
use crate::cpu::math::{Fn1, Fn2, Prims};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{
    AxisId, BinaryOp, CompareOp, Mem, ReduceOp, UnaryOp, Val, Vectorize,
};

/// Where the results of reductions are.
#[derive(Clone, Debug)]
enum Results {
    /// In registers: one for each reduction, of lanes that are folded in the end.
    Folded,
    /// In memory, one for each column: what they are now, by the reduction's place in the stage.
    Columns(Vec<Node>),
}

/// A stage on its way to a body.
pub(super) struct Translate<'k> {
    pub(super) body: Body,
    pub(super) streams: Vec<Stream>,
    pub(super) params: Vec<Val>,
    stage: &'k Stage,
    facts: &'k StageFacts,
    lanes: AxisId,
    grid: bool,
    /// By instruction.
    nodes: Vec<Option<Node>>,
    results: Results,
    /// The row after the current one that is being translated.
    row: i64,
}

impl<'k> Translate<'k> {
    pub(super) fn new(
        kernel: &'k Kernel,
        s: usize,
        facts: &'k StageFacts,
        lanes: AxisId,
        vectors: Vectors,
    ) -> Translate<'k> {
        let stage = &kernel.stages[s];
        Translate {
            body: Body::new(vectors),
            streams: Vec::new(),
            params: Vec::new(),
            stage,
            facts,
            lanes,
            grid: kernel.vectorize == Vectorize::Grid,
            nodes: vec![None; stage.body.len()],
            results: Results::Folded,
            row: 0,
        }
    }

    /// All instructions once.
    pub(super) fn stage(&mut self) -> Option<()> {
        for i in 0..self.stage.body.len() {
            if !self.facts.invariant[i] {
                self.inst(i)?;
            }
        }
        Some(())
    }

    /// All instructions for each of some rows: each reduction goes on from the results in memory.
    pub(super) fn rows(&mut self, rows: i64) -> Option<()> {
        let places: Vec<u32> =
            (0..self.facts.reduces.len()).map(|k| self.open(Stream::Total(k))).collect();
        let totals = places.iter().map(|&s| self.body.push(Inst::Load(s))).collect();
        self.results = Results::Columns(totals);
        for row in 0..rows {
            self.row = row;
            for i in 0..self.stage.body.len() {
                if !self.facts.invariant[i] {
                    self.nodes[i] = None;
                }
            }
            self.stage()?;
        }
        if let Results::Columns(totals) = &self.results {
            for (&s, &v) in places.iter().zip(totals) {
                self.body.push(Inst::Store(s, v));
            }
        }
        Some(())
    }

    fn open(&mut self, stream: Stream) -> u32 {
        self.streams.push(stream);
        self.streams.len() as u32 - 1
    }

    fn dtype(&self, v: Val) -> DType {
        self.stage.body[v.0 as usize].dtype
    }

    /// A value of either dtype.
    fn get(&mut self, v: Val) -> Option<Node> {
        let i = v.0 as usize;
        if let Some(n) = self.nodes[i] {
            return Some(n);
        }
        // an invariant
        let inst = &self.stage.body[i];
        if inst.dtype != DType::F32 {
            return None;
        }
        let known = match inst.op {
            Op::Const(c) => c.number.fixed().map(|n| c.kind.join(n)),
            _ => None,
        };
        let n = match known {
            Some(c) => {
                let c = c.cast(DType::F32).as_f64();
                self.body.f(c)
            }
            None => {
                self.params.push(v);
                let at = self.params.len() as u32 - 1;
                self.body.push(Inst::Param(at))
            }
        };
        self.nodes[i] = Some(n);
        Some(n)
    }

    /// A value that must be `f32`.
    fn float(&mut self, v: Val) -> Option<Node> {
        (self.dtype(v) == DType::F32).then(|| self.get(v)).flatten()
    }

    /// A value that must be a truth value.
    fn truth(&mut self, v: Val) -> Option<Node> {
        (self.dtype(v) == DType::Bool).then(|| self.get(v)).flatten()
    }

    /// An access that runs along the lanes, or one that is the same in all of them.
    fn stream(&mut self, i: usize, mem: Mem, index: &Index) -> Option<(u32, bool)> {
        let uniform = index.dynamic.iter().all(|d| self.facts.invariant[d.0.0 as usize]);
        let lanes_apart = self.grid && matches!(mem, Mem::Scratch(_));
        let runs = match index.term(self.lanes) {
            Some(Size::Fixed(1)) => true,
            None => false,
            _ => return None,
        };
        if !uniform || lanes_apart {
            return None;
        }
        Some((self.open(Stream::Access { inst: i, row: self.row }), runs))
    }

    /// An access that runs along the lanes.
    fn running(&mut self, i: usize, mem: Mem, index: &Index) -> Option<u32> {
        self.stream(i, mem, index).filter(|s| s.1).map(|s| s.0)
    }

    fn inst(&mut self, i: usize) -> Option<()> {
        let stage = self.stage;
        let inst = &stage.body[i];
        if !matches!(inst.dtype, DType::F32 | DType::Bool) {
            return None;
        }
        let float = inst.dtype == DType::F32;
        let node = match &inst.op {
            Op::Load { mem, index } if float => {
                let (s, runs) = self.stream(i, *mem, index)?;
                self.body.push(if runs { Inst::Load(s) } else { Inst::Spread(s) })
            }
            Op::Store { mem, index, value } if float => {
                let v = self.float(*value)?;
                let s = self.running(i, *mem, index)?;
                self.body.push(Inst::Store(s, v))
            }
            Op::Update { op, mem, index, value } if float => {
                let new = self.float(*value)?;
                let s = self.running(i, *mem, index)?;
                let old = self.body.push(Inst::Load(s));
                let sum = self.updated(*op, old, new)?;
                self.body.push(Inst::Store(s, sum))
            }
            Op::Const(c) if float => {
                // one that varies does not change inside of the loop
                let c = c.kind.join(c.number.fixed()?).cast(DType::F32).as_f64();
                self.body.f(c)
            }
            Op::Cast(v) => match (self.dtype(*v), inst.dtype) {
                (DType::F32, DType::F32) => self.float(*v)?,
                (DType::Bool, DType::Bool) => self.truth(*v)?,
                (DType::F32, DType::Bool) => {
                    let x = self.float(*v)?;
                    let zero = self.body.f(0.0);
                    self.body.ne(x, zero)
                }
                (DType::Bool, DType::F32) => {
                    let m = self.truth(*v)?;
                    let (one, zero) = (self.body.f(1.0), self.body.f(0.0));
                    self.body.select(m, one, zero)
                }
                _ => return None,
            },
            Op::Unary(op, v) if self.dtype(*v) == DType::F32 => {
                let x = self.float(*v)?;
                self.unary(*op, x)?
            }
            Op::Unary(UnaryOp::LogicalNot | UnaryOp::BitwiseNot, v) => {
                let m = self.truth(*v)?;
                self.body.not(m)
            }
            Op::Binary(op, a, b) if float => {
                let (x, y) = (self.float(*a)?, self.float(*b)?);
                self.binary(*op, x, y)?
            }
            Op::Binary(op, a, b) => {
                let (x, y) = (self.truth(*a)?, self.truth(*b)?);
                match op {
                    BinaryOp::LogicalAnd | BinaryOp::BitwiseAnd => self.body.and(x, y),
                    BinaryOp::LogicalOr | BinaryOp::BitwiseOr => self.body.or(x, y),
                    BinaryOp::LogicalXor | BinaryOp::BitwiseXor => self.body.mask_xor(x, y),
                    _ => return None,
                }
            }
            Op::Fma(a, b, c) if float => {
                let (x, y, z) = (self.float(*a)?, self.float(*b)?, self.float(*c)?);
                self.body.fma(x, y, z)
            }
            Op::Compare(op, a, b) => {
                let (x, y) = (self.float(*a)?, self.float(*b)?);
                let p = match op {
                    CompareOp::Eq => predicate::EQ,
                    CompareOp::Ne => predicate::NE,
                    CompareOp::Lt => predicate::LT,
                    CompareOp::Le => predicate::LE,
                    CompareOp::Gt => predicate::GT,
                    CompareOp::Ge => predicate::GE,
                };
                self.body.compare(p, x, y)
            }
            Op::Select(m, a, b) if float => {
                let (m, x, y) = (self.truth(*m)?, self.float(*a)?, self.float(*b)?);
                self.body.select(m, x, y)
            }
            Op::Carry { stage, value } if float && self.grid => {
                let s = self.open(Stream::Carry { stage: *stage as usize, inst: value.0 as usize });
                self.body.push(Inst::Load(s))
            }
            Op::Reduce(op, v) if float => {
                let x = self.float(*v)?;
                let fold = fold_of(*op)?;
                let k = self.facts.reduces.iter().position(|r| *r == i)?;
                match &mut self.results {
                    Results::Folded => {
                        self.body.folds.push(fold);
                        self.body.push(Inst::Accumulate(k as u32, fold, x))
                    }
                    Results::Columns(totals) => {
                        totals[k] = self.body.folded(fold, totals[k], x);
                        totals[k]
                    }
                }
            }
            _ => return None,
        };
        self.nodes[i] = Some(node);
        Some(())
    }

    /// An element combined with a new one.
    fn updated(&mut self, op: ReduceOp, old: Node, new: Node) -> Option<Node> {
        let b = &mut self.body;
        let beyond = match op {
            ReduceOp::Sum => return Some(b.add(old, new)),
            ReduceOp::Prod => return Some(b.mul(old, new)),
            ReduceOp::Max => b.lt(old, new),
            ReduceOp::Min => b.gt(old, new),
            ReduceOp::Any | ReduceOp::All => return None,
        };
        let nan = b.is_nan(new);
        let takes = b.or(beyond, nan);
        Some(b.select(takes, new, old))
    }

    fn unary(&mut self, op: UnaryOp, x: Node) -> Option<Node> {
        let b = &mut self.body;
        if let Some(f) = Fn1::of(op) {
            return Some(f.build(b, x));
        }
        Some(match op {
            UnaryOp::Neg => b.neg(x),
            UnaryOp::Abs => b.abs(x),
            UnaryOp::Sqrt => b.sqrt(x),
            UnaryOp::Floor => b.floor(x),
            UnaryOp::Ceil => b.ceil(x),
            UnaryOp::Trunc => b.trunc(x),
            UnaryOp::Round => b.round_even(x),
            UnaryOp::Relu => {
                let zero = b.f(0.0);
                b.extreme(x, zero, true)
            }
            UnaryOp::IsNan => b.is_nan(x),
            UnaryOp::IsInf => {
                let a = b.abs(x);
                let inf = b.f(f64::INFINITY);
                b.eq(a, inf)
            }
            UnaryOp::LogicalNot => {
                let zero = b.f(0.0);
                b.eq(x, zero)
            }
            _ => return None,
        })
    }

    fn binary(&mut self, op: BinaryOp, x: Node, y: Node) -> Option<Node> {
        let b = &mut self.body;
        Some(match op {
            BinaryOp::Add => b.add(x, y),
            BinaryOp::Sub => b.sub(x, y),
            BinaryOp::Mul => b.mul(x, y),
            BinaryOp::Div => b.div(x, y),
            BinaryOp::TruncDiv => {
                let q = b.div(x, y);
                b.trunc(q)
            }
            BinaryOp::Maximum => b.extreme(x, y, true),
            BinaryOp::Minimum => b.extreme(x, y, false),
            BinaryOp::Atan2 => Fn2::Atan2.build(b, x, y),
            _ => return None,
        })
    }
}

/// How a reduction takes an element in.
pub(super) fn fold_of(op: ReduceOp) -> Option<Fold> {
    Some(match op {
        ReduceOp::Sum => Fold::Sum,
        ReduceOp::Prod => Fold::Prod,
        ReduceOp::Max => Fold::Max,
        ReduceOp::Min => Fold::Min,
        ReduceOp::Any | ReduceOp::All => return None,
    })
}
