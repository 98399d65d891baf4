//! The sizes that the results of known operators must have.
//!
//! Calls that a person wrote may leave out arguments at their defaults and the names of tensors,
//! so arguments are looked up by name, then by their position in the schema.

use crate::ir::graph::{Call, Graph, NodeId};
use crate::ir::view::{ViewMap, wrap_dim};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Dims, Kind, MetaError, Op, layout};
use smallvec::SmallVec;

/// What does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are named by the messages
pub enum ShapeError {
    /// Result sizes that do not follow from the operands.
    #[error("expected sizes {expected:?}, found {found:?}")]
    Sizes { expected: Vec<i64>, found: Vec<i64> },
    /// A result dtype that the operator never gives.
    #[error("expected dtype {expected}, found {found}")]
    DType { expected: DType, found: DType },
    /// Operands that do not broadcast.
    #[error("the operand sizes {a:?} and {b:?} do not broadcast")]
    Broadcast { a: Vec<i64>, b: Vec<i64> },
    /// Matrices that cannot be multiplied.
    #[error("cannot multiply {a:?} by {b:?}")]
    Matmul { a: Vec<i64>, b: Vec<i64> },
    /// Operands or arguments that the operator does not take.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// An operand of another rank than the operator takes.
    #[error("expected an operand of {expected} dimensions, found {found}")]
    Rank { expected: usize, found: usize },
    /// A call without an argument that the operator needs.
    #[error("the argument `{0}` is missing or of another kind")]
    Argument(&'static str),
    /// Another number of results than the operator has.
    #[error("expected {expected} results, found {found}")]
    Results { expected: usize, found: usize },
    /// Operands of a concatenation that differ beside the dimension concatenated.
    #[error("cannot concatenate {a:?} and {b:?} along dimension {dim}")]
    Cat {
        a: Vec<i64>,
        b: Vec<i64>,
        dim: usize,
    },
}

type Result<T> = std::result::Result<T, ShapeError>;

/// Sizes after reducing `dims`; none, and an empty list, mean all dimensions.
pub fn reduced(sizes: &[i64], dims: &[usize], keepdim: bool) -> Dims {
    let mut out = Dims::new();
    for (i, &size) in sizes.iter().enumerate() {
        if !(dims.is_empty() || dims.contains(&i)) {
            out.push(size);
        } else if keepdim {
            out.push(1);
        }
    }
    out
}

/// A call with its operands' types.
struct Checked<'a> {
    call: &'a Call,
    operands: SmallVec<[&'a TensorMeta; 4]>,
    results: &'a [TensorMeta],
}

/// Checks one call's results. The graph's structure must be sound.
///
/// # Errors
///
/// What does not fit; operators that are not known here always fit.
pub fn check(graph: &Graph, id: NodeId, call: &Call) -> Result<()> {
    let operands = graph.operands(id);
    let c = Checked {
        call,
        operands: operands.iter().map(|v| graph.meta(*v)).collect(),
        results: &graph.node(id).results,
    };
    match call.op.facts().kind {
        Kind::Pointwise => c.pointwise(),
        Kind::Test => {
            c.pointwise()?;
            c.dtype(0, DType::Bool)
        }
        Kind::Reduction => c.reduction(),
        Kind::Any => {
            c.reduction()?;
            // they keep u8, as PyTorch does
            match c.results[0].dtype {
                DType::U8 => Ok(()),
                _ => c.dtype(0, DType::Bool),
            }
        }
        Kind::Arg => {
            c.reduction()?;
            c.dtype(0, DType::I64)
        }
        Kind::Reshape | Kind::Other => c.other(),
    }
}

impl<'a> Checked<'a> {
    fn arg(&self, name: &'static str) -> Option<&'a Arg<u32>> {
        let i = self.call.op.schema().arg_index(name)?;
        self.call.args.get(i).filter(|a| **a != Arg::None)
    }

    fn operand(&self, i: usize) -> Result<&'a TensorMeta> {
        (self.operands.get(i).copied()).ok_or(ShapeError::Argument("self"))
    }

    fn ranked(&self, i: usize, expected: usize) -> Result<&'a TensorMeta> {
        let m = self.operand(i)?;
        let found = m.sizes.len();
        if found == expected {
            Ok(m)
        } else {
            Err(ShapeError::Rank { expected, found })
        }
    }

    fn result(&self) -> Result<&'a TensorMeta> {
        match self.results {
            [m] => Ok(m),
            _ => Err(ShapeError::Results {
                expected: 1,
                found: self.results.len(),
            }),
        }
    }

    fn int(&self, name: &'static str) -> Result<i64> {
        (self.arg(name).and_then(Arg::as_int)).ok_or(ShapeError::Argument(name))
    }

    fn dim(&self, dim: i64, rank: usize) -> Result<usize> {
        Ok(wrap_dim(dim, rank)?)
    }

    fn sizes(&self, index: usize, expected: &[i64]) -> Result<()> {
        let found = self.results.get(index).ok_or(ShapeError::Results {
            expected: index + 1,
            found: self.results.len(),
        })?;
        if found.sizes[..] == *expected {
            Ok(())
        } else {
            Err(ShapeError::Sizes {
                expected: expected.to_vec(),
                found: found.sizes.to_vec(),
            })
        }
    }

    fn dtype(&self, index: usize, expected: DType) -> Result<()> {
        match self.results.get(index) {
            Some(m) if m.dtype != expected => Err(ShapeError::DType {
                expected,
                found: m.dtype,
            }),
            _ => Ok(()),
        }
    }

    fn pointwise(&self) -> Result<()> {
        self.result()?;
        let mut sizes = Dims::from_slice(&self.operand(0)?.sizes);
        for m in &self.operands[1..] {
            sizes = layout::broadcast(&sizes, &m.sizes).ok_or_else(|| ShapeError::Broadcast {
                a: sizes.to_vec(),
                b: m.sizes.to_vec(),
            })?;
        }
        self.sizes(0, &sizes)
    }

    fn dims(&self, rank: usize) -> Result<Vec<usize>> {
        let dims = match self.arg("dim") {
            Some(a) => a.as_ints().unwrap_or_default(),
            None => Vec::new(),
        };
        dims.into_iter().map(|d| self.dim(d, rank)).collect()
    }

    fn reduction(&self) -> Result<()> {
        self.result()?;
        let x = self.operand(0)?;
        let dims = self.dims(x.sizes.len())?;
        let keepdim = self.arg("keepdim").and_then(Arg::as_bool) == Some(true);
        self.sizes(0, &reduced(&x.sizes, &dims, keepdim))
    }

    fn matmul(a: &TensorMeta, b: &TensorMeta) -> Result<Dims> {
        let (x, y) = (&a.sizes, &b.sizes);
        let n = x.len();
        if x[..n - 2] != y[..n - 2] || x[n - 1] != y[n - 2] {
            return Err(ShapeError::Matmul {
                a: x.to_vec(),
                b: y.to_vec(),
            });
        }
        let mut out = x.clone();
        out[n - 1] = y[n - 1];
        Ok(out)
    }

    fn other(&self) -> Result<()> {
        if let Some(x) = self.operands.first()
            && let Some(map) = ViewMap::of(self.call.op, &self.call.args, &x.sizes)
        {
            return self.sizes(0, &map?.sizes(&x.sizes));
        }
        match self.call.op {
            Op::mm => self.sizes(0, &Self::matmul(self.ranked(0, 2)?, self.ranked(1, 2)?)?),
            Op::bmm => self.sizes(0, &Self::matmul(self.ranked(0, 3)?, self.ranked(1, 3)?)?),
            Op::addmm | Op::baddbmm => {
                let rank = if self.call.op == Op::addmm { 2 } else { 3 };
                let sizes = Self::matmul(self.ranked(1, rank)?, self.ranked(2, rank)?)?;
                let bias = &self.operand(0)?.sizes;
                if layout::broadcast(bias, &sizes).as_ref() != Some(&sizes) {
                    return Err(ShapeError::Broadcast {
                        a: bias.to_vec(),
                        b: sizes.to_vec(),
                    });
                }
                self.sizes(0, &sizes)
            }
            Op::max_dim | Op::min_dim => {
                let x = self.operand(0)?;
                let dim = self.dim(self.int("dim")?, x.sizes.len())?;
                let keepdim = self.arg("keepdim").and_then(Arg::as_bool) == Some(true);
                let sizes = reduced(&x.sizes, &[dim], keepdim);
                self.sizes(0, &sizes)?;
                self.sizes(1, &sizes)?;
                self.dtype(1, DType::I64)
            }
            Op::cat => self.cat(),
            Op::embedding => {
                let mut sizes = self.operand(1)?.sizes.clone();
                sizes.push(self.ranked(0, 2)?.sizes[1]);
                self.sizes(0, &sizes)
            }
            Op::gather => self.sizes(0, &self.operand(1)?.sizes),
            Op::index_select => {
                let mut sizes = self.operand(0)?.sizes.clone();
                let dim = self.dim(self.int("dim")?, sizes.len())?;
                if !sizes.is_empty() {
                    sizes[dim] = self.operand(1)?.numel();
                }
                self.sizes(0, &sizes)
            }
            _ => Ok(()),
        }
    }

    fn cat(&self) -> Result<()> {
        let dim = self.arg("dim").and_then(Arg::as_int).unwrap_or(0);
        // PyTorch skips one-dimensional empty operands whatever the others are
        let is_legacy_empty = |m: &&&TensorMeta| m.sizes[..] == [0];
        let mut parts = self.operands.iter().filter(|m| !is_legacy_empty(m));
        let Some(first) = parts.next() else {
            return Ok(());
        };
        let mut sizes = first.sizes.clone();
        if sizes.is_empty() {
            return Err(MetaError::Dim { dim, rank: 0 }.into());
        }
        let dim = self.dim(dim, sizes.len())?;
        for m in parts {
            let same = m.sizes.len() == sizes.len()
                && (0..sizes.len()).all(|i| i == dim || m.sizes[i] == sizes[i]);
            if !same {
                return Err(ShapeError::Cat {
                    a: sizes.to_vec(),
                    b: m.sizes.to_vec(),
                    dim,
                });
            }
            sizes[dim] = sizes[dim].saturating_add(m.sizes[dim]);
        }
        self.sizes(0, &sizes)
    }
}
