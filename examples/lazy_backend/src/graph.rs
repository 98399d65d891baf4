//! What has been recorded and not run yet: nodes that point to their operands.

use std::sync::Arc;
use straightline::Tensor;
use straightline::dispatch::{OperatorHandle, Value};

/// The elements of a storage: there, or to be computed.
#[derive(Clone)]
pub(crate) enum Content {
    /// A CPU tensor that is never written: a write makes another content.
    Ready(Tensor),
    /// A result of a node.
    Pending(Arc<Node>, usize),
}

/// One recorded call.
pub(crate) struct Node {
    /// Its place in the order of recording; what a node needs has smaller numbers.
    pub(crate) number: u64,
    pub(crate) op: OperatorHandle,
    pub(crate) operands: Vec<Operand<Content>>,
}

/// One argument of a recorded call, over contents while it is pending and over [`Slot`]s in a
/// program.
#[derive(Clone, Debug)]
pub(crate) enum Operand<T> {
    /// Anything but a tensor; devices are the CPU.
    Plain(Value),
    Tensor(Read<T>),
    List(Vec<Read<T>>),
    OptionalList(Vec<Option<Read<T>>>),
}

/// A tensor as an operator sees it: a whole storage, through views.
#[derive(Clone, Debug)]
pub(crate) struct Read<T> {
    pub(crate) base: T,
    pub(crate) views: Vec<ViewStep>,
    /// The operator writes it: the call has the new base as a further result.
    pub(crate) written: bool,
}

/// One view operator with its arguments after the tensor.
#[derive(Clone, Debug)]
pub(crate) struct ViewStep {
    pub(crate) op: OperatorHandle,
    pub(crate) args: Vec<Value>,
    /// Which of its results, where it has a list of them.
    pub(crate) index: usize,
}

impl<T> Operand<T> {
    /// The tensors of the argument.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &Read<T>> {
        let (one, list, optional): (_, &[Read<T>], &[Option<Read<T>>]) = match self {
            Operand::Plain(_) => (None, &[], &[]),
            Operand::Tensor(r) => (Some(r), &[], &[]),
            Operand::List(l) => (None, l, &[]),
            Operand::OptionalList(l) => (None, &[], l),
        };
        one.into_iter().chain(list).chain(optional.iter().flatten())
    }

    /// The same argument with other bases.
    pub(crate) fn map<U>(&self, f: &mut impl FnMut(&T) -> U) -> Operand<U> {
        let mut read =
            |r: &Read<T>| Read { base: f(&r.base), views: r.views.clone(), written: r.written };
        match self {
            Operand::Plain(v) => Operand::Plain(v.clone()),
            Operand::Tensor(r) => Operand::Tensor(read(r)),
            Operand::List(l) => Operand::List(l.iter().map(read).collect()),
            Operand::OptionalList(l) => {
                Operand::OptionalList(l.iter().map(|r| r.as_ref().map(&mut read)).collect())
            }
        }
    }
}
