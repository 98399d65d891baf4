//! The scheduler's own form of a graph: primitive definitions of one element each.
//!
//! Lowering turns each operator call into a few [`Value`]s. A value says how *one element* of it is
//! computed from elements of other values, so a kernel is made by asking for an element at a
//! symbolic index: views become index arithmetic and producers are inlined on the way.

use super::loops::{Activation, BinaryOp, CompareOp, Follow, ReduceOp, UnaryOp};
use super::prediction::Prediction;
use crate::ir::graph::NodeId;
use crate::ir::view::Affine;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Dims, Op, Scalar, layout};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Names a value of a [`Program`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct V(pub(crate) u32);

impl V {
    pub(crate) fn i(self) -> usize {
        self.0 as usize
    }
}

/// Memory that exists before the plan runs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Source {
    Input(u32),
    Parameter(u32),
    /// Little-endian elements.
    Constant(Arc<[u8]>),
}

/// Where the elements of a piece go in a value that is assembled from pieces.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Piece {
    pub(crate) src: V,
    /// First element of the piece, per dimension of the whole.
    pub(crate) start: Dims,
    /// Distance between neighbours, per dimension of the whole.
    pub(crate) step: Dims,
}

/// A product with what is applied to it before it is stored.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Product {
    pub(crate) a: V,
    pub(crate) b: V,
    /// Has the shape of the result, constant along all dimensions but the last.
    pub(crate) bias: Option<V>,
    pub(crate) activation: Activation,
    /// Has the shape of the result.
    pub(crate) residual: Option<V>,
    /// Strides of the product's own dimensions in the memory of the value, where those are not
    /// the value's: the value is a permuted copy of the product.
    pub(crate) strides: Option<Dims>,
}

/// What is known about the indices that a gather reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Bounds {
    /// They are listed in a constant and all in range: nothing is checked as they are read.
    Listed,
    /// One out of range is an error.
    Checked,
    /// As [`Bounds::Checked`], and negative ones count from the end.
    Wrapped,
}

/// Where a dimension of a scatter's result gets its position from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The position along this dimension of the sources.
    Along(usize),
    /// An index of the sources' sizes.
    Indexed(V),
}

/// A copy of a value in which elements are replaced, or combined with others, where indices say.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scatter {
    pub(crate) base: V,
    /// Per dimension of the result; each dimension of the sources that is not named here is run
    /// through in order.
    pub(crate) places: Vec<Place>,
    pub(crate) bounds: Bounds,
    /// Of the sources and the indices.
    pub(crate) sizes: Dims,
    /// One after the other: sources, and how they are combined with what is there; `None` replaces
    /// it.
    pub(crate) passes: SmallVec<[(V, Option<ReduceOp>); 1]>,
}

impl Scatter {
    pub(crate) fn operands(&self) -> SmallVec<[V; 4]> {
        let indices = self.places.iter().filter_map(|p| match p {
            Place::Indexed(v) => Some(*v),
            Place::Along(_) => None,
        });
        std::iter::once(self.base).chain(indices).chain(self.passes.iter().map(|p| p.0)).collect()
    }

    /// Per dimension of a result of these sizes, whether its positions may be worked on at the same
    /// time: the sources have all of them, and elements at different ones never meet. The last
    /// dimension is not, since it is run through fastest when it stays within one piece of work.
    pub(crate) fn parallel(&self, sizes: &[i64]) -> Vec<bool> {
        let last = sizes.iter().rposition(|n| *n != 1);
        (self.places.iter().zip(sizes).enumerate())
            .map(|(d, (place, n))| match place {
                Place::Along(p) => Some(d) != last && self.sizes[*p] == *n,
                Place::Indexed(_) => false,
            })
            .collect()
    }
}

/// How an element is computed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Def {
    /// Read from memory with these strides.
    Source {
        source: Source,
        strides: Dims,
    },
    /// A constant number.
    Const(Scalar),
    /// The position along a dimension, as `i64`.
    Position(usize),
    Unary(UnaryOp, V),
    Binary(BinaryOp, V, V),
    Compare(CompareOp, V, V),
    Select(V, V, V),
    Cast(V),
    /// The same element, in memory of its own where it is stored.
    Copy(V),
    /// One index per dimension of the source.
    View {
        src: V,
        map: Vec<Affine>,
    },
    /// The same elements in row-major order under other sizes.
    Reshape(V),
    /// Per dimension of `src`, the dimension of the result whose position is used, or `None` for
    /// the one indexed by `index` (a value of the result's sizes).
    Gather {
        src: V,
        index: V,
        dims: Vec<Option<usize>>,
        bounds: Bounds,
    },
    /// Dimensions `dims` of the source are folded and absent from the result.
    Reduce {
        op: ReduceOp,
        src: V,
        dims: SmallVec<[usize; 2]>,
    },
    ArgReduce {
        max: bool,
        src: V,
        dims: SmallVec<[usize; 2]>,
    },
    /// Written by pieces that cover it; a piece that overlaps earlier ones is written after them.
    Pieces {
        pieces: Vec<Piece>,
        overlap: bool,
        /// The same elements without an intermediate copy, if known.
        element: Option<V>,
    },
    /// Written at positions given by indices.
    Scatter(Box<Scatter>),
    /// A (batched) matrix product.
    Matmul(Box<Product>),
    /// A result of a call that has no definition here.
    Extern {
        call: u32,
        index: u32,
    },
}

impl Def {
    pub(crate) fn operands(&self, calls: &[OpaqueCall]) -> SmallVec<[V; 4]> {
        match self {
            Def::Source { .. } | Def::Const(_) | Def::Position(_) => SmallVec::new(),
            Def::Unary(_, a) | Def::Cast(a) | Def::Copy(a) | Def::Reshape(a) => smallvec![*a],
            Def::Binary(_, a, b) | Def::Compare(_, a, b) => smallvec![*a, *b],
            Def::Select(a, b, c) => smallvec![*a, *b, *c],
            Def::View { src, .. } | Def::Reduce { src, .. } | Def::ArgReduce { src, .. } => {
                smallvec![*src]
            }
            Def::Gather { src, index, .. } => smallvec![*src, *index],
            Def::Pieces { pieces, element, .. } => {
                (pieces.iter().map(|p| p.src)).chain(*element).collect()
            }
            Def::Scatter(s) => s.operands(),
            Def::Matmul(p) => {
                [Some(p.a), Some(p.b), p.bias, p.residual].into_iter().flatten().collect()
            }
            Def::Extern { call, .. } => calls[*call as usize].waits_for().collect(),
        }
    }

    /// Whether an element can be computed in place from elements of the operands.
    pub(crate) fn is_inlinable(&self) -> bool {
        match self {
            Def::Const(_)
            | Def::Position(_)
            | Def::Unary(..)
            | Def::Binary(..)
            | Def::Compare(..)
            | Def::Select(..)
            | Def::Cast(_)
            | Def::Copy(_)
            | Def::View { .. }
            | Def::Reshape(_)
            | Def::Gather { .. } => true,
            Def::Pieces { element, .. } => element.is_some(),
            Def::Source { .. }
            | Def::Reduce { .. }
            | Def::ArgReduce { .. }
            | Def::Scatter(_)
            | Def::Matmul(_)
            | Def::Extern { .. } => false,
        }
    }

    pub(crate) fn is_reduction(&self) -> bool {
        matches!(self, Def::Reduce { .. } | Def::ArgReduce { .. })
    }

    /// A view along which some position runs backwards: strides of kernels outside cannot say so.
    pub(crate) fn is_reversed(&self) -> bool {
        let backwards = |m: &Affine| m.terms.iter().any(|t| t.1 < 0);
        matches!(self, Def::View { map, .. } if map.iter().any(backwards))
    }

    pub(crate) fn is_view(&self) -> bool {
        matches!(self, Def::View { .. } | Def::Reshape(_))
    }
}

/// A tensor whose elements are defined.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Value {
    pub(crate) dtype: DType,
    pub(crate) sizes: Dims,
    pub(crate) def: Def,
    /// The graph node that it came from.
    pub(crate) node: Option<NodeId>,
    /// Must be stored, never recomputed (partial results of split reductions).
    pub(crate) barrier: bool,
}

/// A call that the runtime carries out by name.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct OpaqueCall {
    pub(crate) op: Op,
    pub(crate) args: Vec<Arg<u32>>,
    pub(crate) inputs: Vec<V>,
    /// Values that must exist before the call is made, without being read: for a call that keeps
    /// its order, a result of the ordered call before it.
    pub(crate) after: Vec<V>,
    /// For a call without results, a single value without elements that represents the call.
    pub(crate) results: Vec<V>,
    pub(crate) metas: Vec<TensorMeta>,
    /// For a convolution that the plan computes itself: what is done to the result.
    pub(crate) follow: Option<Vec<Follow<V>>>,
    /// Why it is called although it has loops.
    pub(crate) predicted: Option<Prediction>,
    /// The graph node that it came from.
    pub(crate) node: Option<NodeId>,
}

impl OpaqueCall {
    /// The values that must exist when the call is made.
    pub(crate) fn waits_for(&self) -> impl Iterator<Item = V> + '_ {
        let follow = self.follow.iter().flatten().filter_map(Follow::operand);
        self.inputs.iter().chain(&self.after).chain(follow).copied()
    }
}

/// A lowered graph. Operands have smaller ids than their users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) values: Vec<Value>,
    pub(crate) calls: Vec<OpaqueCall>,
    /// The node being lowered.
    pub(crate) node: Option<NodeId>,
}

impl Program {
    pub(crate) fn get(&self, v: V) -> &Value {
        &self.values[v.i()]
    }

    pub(crate) fn def(&self, v: V) -> &Def {
        &self.values[v.i()].def
    }

    pub(crate) fn sizes(&self, v: V) -> &[i64] {
        &self.values[v.i()].sizes
    }

    pub(crate) fn dtype(&self, v: V) -> DType {
        self.values[v.i()].dtype
    }

    pub(crate) fn numel(&self, v: V) -> i64 {
        layout::numel(self.sizes(v))
    }

    pub(crate) fn operands(&self, v: V) -> SmallVec<[V; 4]> {
        self.def(v).operands(&self.calls)
    }

    /// Of each value those that are live and read it, once for each time.
    pub(crate) fn uses(&self, live: &[bool]) -> Vec<Vec<V>> {
        let mut uses = vec![Vec::new(); self.values.len()];
        for v in (0..self.values.len() as u32).map(V).filter(|v| live[v.i()]) {
            for o in self.operands(v) {
                uses[o.i()].push(v);
            }
        }
        uses
    }

    pub(crate) fn push(&mut self, dtype: DType, sizes: &[i64], def: Def) -> V {
        self.values.push(Value {
            dtype,
            sizes: Dims::from_slice(sizes),
            def,
            node: self.node,
            barrier: false,
        });
        V(self.values.len() as u32 - 1)
    }

    pub(crate) fn constant(&mut self, number: Scalar, dtype: DType, sizes: &[i64]) -> V {
        self.push(dtype, sizes, Def::Const(number.cast(dtype)))
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, a: V) -> V {
        let dtype = match op {
            UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot => DType::Bool,
            _ => self.dtype(a),
        };
        let sizes = self.get(a).sizes.clone();
        self.push(dtype, &sizes, Def::Unary(op, a))
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, a: V, b: V) -> V {
        debug_assert_eq!(self.dtype(a), self.dtype(b));
        debug_assert_eq!(self.sizes(a), self.sizes(b));
        let sizes = self.get(a).sizes.clone();
        self.push(self.dtype(a), &sizes, Def::Binary(op, a, b))
    }

    pub(crate) fn compare(&mut self, op: CompareOp, a: V, b: V) -> V {
        let sizes = self.get(a).sizes.clone();
        self.push(DType::Bool, &sizes, Def::Compare(op, a, b))
    }

    pub(crate) fn select(&mut self, c: V, a: V, b: V) -> V {
        let sizes = self.get(a).sizes.clone();
        self.push(self.dtype(a), &sizes, Def::Select(c, a, b))
    }

    pub(crate) fn cast(&mut self, a: V, dtype: DType) -> V {
        if self.dtype(a) == dtype {
            return a;
        }
        let sizes = self.get(a).sizes.clone();
        match *self.def(a) {
            Def::Const(c) => self.constant(c, dtype, &sizes),
            _ => self.push(dtype, &sizes, Def::Cast(a)),
        }
    }

    pub(crate) fn view(&mut self, src: V, sizes: &[i64], map: Vec<Affine>) -> V {
        debug_assert_eq!(map.len(), self.sizes(src).len());
        self.push(self.dtype(src), sizes, Def::View { src, map })
    }

    /// The same elements under other sizes; of several reshapes in a row only the last counts.
    pub(crate) fn reshape(&mut self, mut src: V, sizes: &[i64]) -> V {
        while let Def::Reshape(below) = self.def(src) {
            src = *below;
        }
        if self.sizes(src) == sizes {
            return src;
        }
        debug_assert_eq!(self.numel(src), layout::numel(sizes));
        self.push(self.dtype(src), sizes, Def::Reshape(src))
    }

    /// Repeats along new leading dimensions and along dimensions of size 1.
    pub(crate) fn expand(&mut self, src: V, sizes: &[i64]) -> V {
        let from = self.get(src).sizes.clone();
        if &from[..] == sizes {
            return src;
        }
        if let Def::Const(c) = *self.def(src) {
            return self.constant(c, self.dtype(src), sizes);
        }
        let lead = sizes.len() - from.len();
        let map = (0..from.len())
            .map(|d| match from[d] == 1 && sizes[lead + d] != 1 {
                true => Affine::at(0),
                false => Affine::dim(lead + d),
            })
            .collect();
        self.view(src, sizes, map)
    }

    /// Inserts dimensions of size 1 so that the sizes become `sizes` (for kept reductions).
    pub(crate) fn keep_dims(&mut self, src: V, dims: &[usize]) -> V {
        let from = self.get(src).sizes.clone();
        let rank = from.len() + dims.len();
        let mut sizes = Dims::new();
        let mut map = Vec::new();
        for d in 0..rank {
            if dims.contains(&d) {
                sizes.push(1);
            } else {
                sizes.push(from[map.len()]);
                map.push(Affine::dim(d));
            }
        }
        self.view(src, &sizes, map)
    }
}
