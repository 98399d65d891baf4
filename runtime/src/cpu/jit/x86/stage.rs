//! A stage as a strip, if it qualifies: all values `f32` (or truth values computed from them), all
//! accesses of unit stride along the vectorised axis, nothing that needs a call.

use super::Strip;
use super::ir::{Body, Fold, Inst, Node, predicate};
use super::lower::{MAX_STREAMS, Shape, lower};
use super::vectors::Vectors;
use crate::cpu::jit::analyse::StageFacts;
use crate::cpu::jit::sizes::{Index, Kernel, Op, Size, Sizes, Stage};
use crate::cpu::math::{Fn1, Fn2, Prims};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{
    AxisId, BinaryOp, CompareOp, Mem, ReduceOp, UnaryOp, Val, Vectorize,
};

/// Shorter rows stay with Cranelift.
const MIN_EXTENT: i64 = 16;
/// How many vectors a step may have.
const UNROLL: [u32; 3] = [4, 2, 1];
/// Longer bodies do so too.
const MAX_BODY: usize = 1500;

/// The code of a stage's innermost loop and how to call it; `None` if the stage does not
/// qualify.
pub(crate) fn strip_of(
    kernel: &Kernel,
    s: usize,
    facts: &StageFacts,
    sizes: &Sizes,
    vectors: Vectors,
) -> Option<(Strip, Vec<u8>)> {
    let stage = &kernel.stages[s];
    let axis = match kernel.vectorize {
        Vectorize::Grid if kernel.stages.len() == 1 && stage.axes.is_empty() => {
            kernel.grid.last()?
        }
        Vectorize::Stage => stage.axes.last()?,
        _ => return None,
    };
    let extent = sizes.hint(axis.extent);
    if extent < MIN_EXTENT || facts.scalar_only || !in_place_only(stage) {
        return None;
    }
    let mut t = Translate {
        body: Body::new(vectors),
        stage,
        facts,
        lanes: axis.id,
        grid: kernel.vectorize == Vectorize::Grid,
        nodes: vec![None; stage.body.len()],
        strip: Strip {
            function: None,
            streams: Vec::new(),
            params: Vec::new(),
            folds: 0,
            chains: i64::from(UNROLL[0] * vectors.lanes()),
        },
    };
    for i in 0..stage.body.len() {
        if !facts.invariant[i] {
            t.inst(i)?;
        }
    }
    let Translate { mut body, strip, .. } = t;
    if body.unsupported
        || body.insts.len() > MAX_BODY
        || !body.insts.iter().any(Inst::is_effect)
        || strip.streams.len() > MAX_STREAMS
    {
        return None;
    }
    body.streams = strip.streams.len() as u32;
    body.params = strip.params.len() as u32;
    let work = body.insts.len();
    let wish = match work {
        0..=10 => 4,
        11..=24 => 2,
        _ => 1,
    };
    let lanes = i64::from(vectors.lanes());
    let shape = |unroll: u32| Shape {
        unroll,
        single: axis.extent.fixed().is_none_or(|n| n / lanes % i64::from(unroll) != 0),
        tail: axis.extent.fixed().is_none_or(|n| n % lanes != 0),
    };
    let fits = |u: &u32| *u == 1 || *u <= wish && extent >= lanes * i64::from(*u);
    // fewer copies where there are not enough registers
    let code = UNROLL.into_iter().filter(fits).find_map(|u| lower(&body, shape(u)).ok())?;
    Some((strip, code))
}

/// Whether memory that the stage both reads and writes is read only at the element that is written.
fn in_place_only(stage: &Stage) -> bool {
    let accesses = |store: bool| {
        stage.body.iter().filter_map(move |i| match &i.op {
            Op::Store { mem, index, .. } if store => Some((*mem, index)),
            Op::Load { mem, index } if !store => Some((*mem, index)),
            _ => None,
        })
    };
    accesses(true).all(|(mem, to)| {
        accesses(false).all(|(m, from)| m != mem || from == to)
            && accesses(true).filter(|(m, _)| *m == mem).count() == 1
    })
}

struct Translate<'k> {
    body: Body,
    stage: &'k Stage,
    facts: &'k StageFacts,
    lanes: AxisId,
    grid: bool,
    nodes: Vec<Option<Node>>,
    strip: Strip,
}

impl Translate<'_> {
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
                self.strip.params.push(v);
                let at = self.strip.params.len() as u32 - 1;
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

    fn stream(&mut self, i: usize, mem: Mem, index: &Index) -> Option<u32> {
        let uniform = index.dynamic.iter().all(|d| self.facts.invariant[d.0.0 as usize]);
        let lanes_apart = self.grid && matches!(mem, Mem::Scratch(_));
        if !uniform || lanes_apart || index.term(self.lanes) != Some(Size::Fixed(1)) {
            return None;
        }
        self.strip.streams.push(i);
        Some(self.strip.streams.len() as u32 - 1)
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
                let s = self.stream(i, *mem, index)?;
                self.body.push(Inst::Load(s))
            }
            Op::Store { mem, index, value } if float => {
                let v = self.float(*value)?;
                let s = self.stream(i, *mem, index)?;
                self.body.push(Inst::Store(s, v))
            }
            Op::Update { op, mem, index, value } if float => {
                let new = self.float(*value)?;
                let from = self.stream(i, *mem, index)?;
                let to = self.stream(i, *mem, index)?;
                let old = self.body.push(Inst::Load(from));
                let sum = self.updated(*op, old, new)?;
                self.body.push(Inst::Store(to, sum))
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
            Op::Reduce(op, v) if float => {
                let x = self.float(*v)?;
                let fold = match op {
                    ReduceOp::Sum => Fold::Sum,
                    ReduceOp::Max => Fold::Max,
                    ReduceOp::Min => Fold::Min,
                    _ => return None,
                };
                self.body.folds.push(fold);
                self.strip.folds += 1;
                let at = self.strip.folds as u32 - 1;
                self.body.push(Inst::Accumulate(at, fold, x))
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
