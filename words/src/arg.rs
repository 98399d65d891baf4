//! Arguments of calls.

use crate::{DType, Device, Layout, MemoryFormat, Scalar, Subgraph};

/// An argument of a call, in schema order (positional ones, then keyword-only ones).
///
/// `V` is what a tensor argument is: an operand position inside a call that a graph stores, a value
/// where one builds or reads a call.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg<V> {
    /// `None`.
    None,
    /// A tensor.
    Tensor(V),
    /// `Tensor[]` and `Tensor?[]`.
    Tensors(Vec<Option<V>>),
    /// A number: `int`, `float`, `bool` and `Scalar` arguments alike.
    Scalar(Scalar),
    /// `int[]`.
    Ints(Vec<i64>),
    /// `float[]`.
    Floats(Vec<f64>),
    /// `bool[]`.
    Bools(Vec<bool>),
    /// `str`.
    Str(String),
    /// `ScalarType`.
    DType(DType),
    /// `Device`.
    Device(Device),
    /// `Layout`.
    Layout(Layout),
    /// `MemoryFormat`.
    MemoryFormat(MemoryFormat),
    /// A graph that the operator calls; `Any` in its schema.
    Graph(Subgraph),
}

impl<V> Arg<V> {
    /// The same argument with each tensor replaced.
    pub fn map<W>(&self, mut f: impl FnMut(&V) -> W) -> Arg<W> {
        match self {
            Arg::None => Arg::None,
            Arg::Tensor(v) => Arg::Tensor(f(v)),
            Arg::Tensors(vs) => Arg::Tensors(vs.iter().map(|v| v.as_ref().map(&mut f)).collect()),
            Arg::Scalar(s) => Arg::Scalar(*s),
            Arg::Ints(v) => Arg::Ints(v.clone()),
            Arg::Floats(v) => Arg::Floats(v.clone()),
            Arg::Bools(v) => Arg::Bools(v.clone()),
            Arg::Str(s) => Arg::Str(s.clone()),
            Arg::DType(d) => Arg::DType(*d),
            Arg::Device(d) => Arg::Device(*d),
            Arg::Layout(l) => Arg::Layout(*l),
            Arg::MemoryFormat(m) => Arg::MemoryFormat(*m),
            Arg::Graph(g) => Arg::Graph(g.clone()),
        }
    }

    /// The integer, where this is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Arg::Scalar(s @ (Scalar::Int(_) | Scalar::Bool(_))) => Some(s.as_i64()),
            _ => None,
        }
    }

    /// The number, where this is one.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match self {
            Arg::Scalar(s) => Some(*s),
            _ => None,
        }
    }

    /// The integers, where this is a list of them (or a single one).
    pub fn as_ints(&self) -> Option<Vec<i64>> {
        match self {
            Arg::Ints(v) => Some(v.clone()),
            Arg::Scalar(Scalar::Int(i)) => Some(vec![*i]),
            _ => None,
        }
    }

    /// The truth value, where this is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Arg::Scalar(Scalar::Bool(b)) => Some(*b),
            _ => None,
        }
    }

    /// The tensor, where this is one.
    pub fn as_tensor(&self) -> Option<&V> {
        match self {
            Arg::Tensor(v) => Some(v),
            _ => None,
        }
    }
}
