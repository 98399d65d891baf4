//! The place where a rule applies: reading the call that it may replace.
//!
//! What a rule builds there is in the module `build`.

use super::analysis::Graph;
use super::language::{CallInfo, Children, Term};
use crate::ir::args::Arguments;
use crate::ir::view::{ViewMap, wrap_dim};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Op, Scalar};
use egg::Id;
use std::cell::Cell;
use std::sync::Arc;

/// A call in the e-graph that a rule looks at.
pub struct Site<'a> {
    pub(super) egraph: &'a mut Graph,
    /// The call.
    pub(super) call: Arc<CallInfo>,
    /// Its operands.
    pub(super) children: Children,
    /// Set when operands do not fit what a rule builds of them: the call is malformed in a way that
    /// the verifier does not know of its operator, and the rule is not applied.
    pub(super) misfit: Cell<bool>,
}

/// A call that a rule found as the producer of an operand.
pub struct Producer {
    /// The call.
    pub(super) call: Arc<CallInfo>,
    /// Its operands.
    pub(super) children: Children,
}

impl Producer {
    /// The tensor argument at a position of the schema.
    pub fn tensor(&self, position: usize) -> Option<Id> {
        tensor_at(&self.call, &self.children, position)
    }

    /// An argument that is no tensor, by its name.
    pub fn arg(&self, name: &str) -> Option<&Arg<u32>> {
        arg_named(&self.call, name)
    }

    /// The view that the call is of a source of these sizes, if it is one.
    pub fn view_of(&self, sizes: &[i64]) -> Option<ViewMap> {
        ViewMap::of(self.call.op, &self.call.args, sizes)?.ok()
    }
}

fn tensor_at(call: &CallInfo, children: &[Id], position: usize) -> Option<Id> {
    match call.args.get(position) {
        Some(Arg::Tensor(i)) => children.get(*i as usize).copied(),
        _ => None,
    }
}

fn arg_named<'c>(call: &'c CallInfo, name: &str) -> Option<&'c Arg<u32>> {
    let i = call.op.schema().arg_index(name)?;
    call.args.get(i).filter(|a| **a != Arg::None)
}

impl Site<'_> {
    /// The operator.
    pub fn op(&self) -> Op {
        self.call.op
    }

    /// The type of the call's first result.
    pub fn out(&self) -> &TensorMeta {
        &self.call.results[0]
    }

    /// All arguments of the call, by their names in the operator's schema; `None` where the call is
    /// one of another operator.
    pub fn args<A: Arguments<Id>>(&self) -> Option<A> {
        (self.call.op == A::OP).then_some(())?;
        A::read(&self.call.args, |at| self.children[*at as usize])
    }

    /// The arguments of the call and its operands, which the arguments count.
    pub(crate) fn given(&self) -> (Vec<Arg<u32>>, Vec<Id>) {
        (self.call.args.to_vec(), self.children.to_vec())
    }

    /// Whether what a rule has built so far does not fit.
    pub(crate) fn is_misfit(&self) -> bool {
        self.misfit.get()
    }

    /// The tensor argument at a position of the schema, where it is given.
    pub fn tensor(&self, position: usize) -> Option<Id> {
        tensor_at(&self.call, &self.children, position)
    }

    /// The tensor arguments that are given, lists aside.
    pub fn tensors_given(&self) -> impl Iterator<Item = Id> + '_ {
        (0..self.call.args.len()).filter_map(|position| self.tensor(position))
    }

    /// The tensors of the list at a position of the schema; `None` where one is missing.
    pub fn tensors(&self, position: usize) -> Option<Vec<Id>> {
        match self.call.args.get(position) {
            Some(Arg::Tensors(v)) => {
                v.iter().map(|i| Some(self.children[(*i)? as usize])).collect()
            }
            _ => None,
        }
    }

    /// An argument that is no tensor, by its name; `None` where it is absent or `none`.
    pub fn arg(&self, name: &str) -> Option<&Arg<u32>> {
        arg_named(&self.call, name)
    }

    /// The view that the call is, if it is one.
    pub fn view(&self) -> Option<ViewMap> {
        let sizes = &self.meta(self.tensor(0)?).sizes;
        ViewMap::of(self.op(), &self.call.args, sizes)?.ok()
    }

    /// A number.
    pub fn scalar(&self, name: &str) -> Option<Scalar> {
        self.arg(name).and_then(Arg::as_scalar)
    }

    /// A number as `f64`, or the default of the schema.
    pub fn float(&self, name: &str, default: f64) -> f64 {
        self.scalar(name).map_or(default, Scalar::as_f64)
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.arg(name).and_then(Arg::as_int)
    }

    /// A truth value, or the default of the schema.
    pub fn bool(&self, name: &str, default: bool) -> bool {
        self.arg(name).and_then(Arg::as_bool).unwrap_or(default)
    }

    /// A dtype; as a number it is a `ScalarType`.
    pub fn dtype_arg(&self, name: &str) -> Option<DType> {
        match self.arg(name)? {
            Arg::DType(d) => Some(*d),
            Arg::Scalar(Scalar::Int(n)) => DType::from_scalar_type(*n),
            _ => None,
        }
    }

    /// The integers of a list.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.arg(name).and_then(Arg::as_ints)
    }

    /// A dimension argument of a tensor of `rank`, counted from 0.
    pub fn dim(&self, name: &str, rank: usize) -> Option<usize> {
        wrap_dim(self.int(name)?, rank).ok()
    }

    /// Dimensions to reduce, counted from 0 and sorted; all where the argument is absent or empty.
    pub fn dims(&self, name: &str, rank: usize) -> Option<Vec<usize>> {
        let given = self.ints(name).unwrap_or_default();
        if given.is_empty() {
            return Some((0..rank).collect());
        }
        let mut dims: Vec<usize> =
            (given.into_iter()).map(|d| wrap_dim(d, rank).ok()).collect::<Option<_>>()?;
        dims.sort_unstable();
        dims.dedup();
        // a tensor without dimensions takes dimension 0, and has nothing to reduce
        dims.retain(|d| *d < rank);
        Some(dims)
    }

    /// The type of a value.
    pub fn meta(&self, id: Id) -> &TensorMeta {
        &self.egraph[id].data.results[0]
    }

    /// The element type of a value.
    pub fn dtype(&self, id: Id) -> DType {
        self.meta(id).dtype
    }

    /// The number that all elements of a value are.
    pub fn splat(&self, id: Id) -> Option<Scalar> {
        self.egraph[id].data.splat
    }

    /// The value, where it has exactly the type of the call's result, strides and device included:
    /// what a rule returns that replaces a call by one of its operands.
    pub fn exactly(&self, id: Id) -> Option<Id> {
        (self.meta(id) == self.out()).then_some(id)
    }

    /// The second operand of an arithmetic operator as a number: its `Scalar`, or the number that
    /// all elements of its tensor are.
    pub fn number_operand(&self) -> Option<Scalar> {
        self.scalar("other").or_else(|| self.splat(self.tensor(1)?))
    }

    /// Whether two values are known to be the same.
    pub fn same(&self, a: Id, b: Id) -> bool {
        self.egraph.find(a) == self.egraph.find(b)
    }

    /// A call of one of `ops` among the forms of a value.
    pub fn producer(&self, id: Id, ops: &[Op]) -> Option<Producer> {
        self.egraph[id].nodes.iter().find_map(|term| match term {
            Term::Call(c, children) => {
                let call = self.egraph.analysis.interner.call(*c);
                ops.contains(&call.op)
                    .then(|| Producer { call: call.clone(), children: children.clone() })
            }
            _ => None,
        })
    }
}
