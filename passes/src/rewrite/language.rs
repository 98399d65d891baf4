//! The e-graph's language: what an e-node is.
//!
//! An operator call is one interned number (operator, attributes and result types together) plus
//! children, so that e-nodes hash and compare in a few instructions. Two calls are the same e-node
//! only if operator, attributes, result types and children agree; common subexpressions therefore
//! merge by themselves. A call whose result is not a function of its operands, as its effects say
//! ([`Effects::is_mergeable`]), carries a tag of its own and never merges.

use crate::ir::Effects;
use crate::ir::graph::Constant;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{Op, Scalar, layout};
use egg::{Id, Language};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The children of a term.
pub(super) type Children = SmallVec<[Id; 3]>;

/// An e-node. The numbers of calls and constants are those of the [`Interner`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Term {
    /// The i-th input.
    Input(u32),
    /// The i-th parameter.
    Parameter(u32),
    /// An interned constant.
    Constant(u32),
    /// An interned call and its operands.
    Call(u32, Children),
    /// One result of a call that has several.
    Result(u32, [Id; 1]),
}

impl Language for Term {
    type Discriminant = (u8, u32);

    fn discriminant(&self) -> (u8, u32) {
        match self {
            Term::Input(i) => (0, *i),
            Term::Parameter(i) => (1, *i),
            Term::Constant(i) => (2, *i),
            Term::Call(i, _) => (3, *i),
            Term::Result(i, _) => (4, *i),
        }
    }

    fn matches(&self, other: &Self) -> bool {
        self.discriminant() == other.discriminant()
            && self.children().len() == other.children().len()
    }

    fn children(&self) -> &[Id] {
        match self {
            Term::Call(_, c) => c,
            Term::Result(_, c) => c,
            _ => &[],
        }
    }

    fn children_mut(&mut self) -> &mut [Id] {
        match self {
            Term::Call(_, c) => c,
            Term::Result(_, c) => c,
            _ => &mut [],
        }
    }
}

/// Everything of a call but its operands.
#[derive(Clone, Debug)]
pub(super) struct CallInfo {
    /// The operator.
    pub op: Op,
    /// Arguments; tensors are positions among the children.
    pub args: Vec<Arg<u32>>,
    /// Types of the results.
    pub results: Arc<[TensorMeta]>,
    /// Not 0 for a call that must not merge with an equal one.
    pub tag: u32,
    /// What it does besides giving results. Not part of the identity.
    pub effects: Effects,
}

/// A constant with its type.
#[derive(Clone, Debug)]
pub(super) struct ConstantInfo {
    /// The elements.
    pub value: Constant,
    /// The type.
    pub meta: TensorMeta,
}

impl ConstantInfo {
    /// The number that all elements are, where they are equal.
    pub(super) fn splat(&self) -> Option<Scalar> {
        match &self.value {
            Constant::Splat(s) => Some(*s),
            Constant::Elements(v) if layout::numel(&self.meta.sizes) == 1 => v.first().copied(),
            Constant::Elements(_) => None,
        }
    }
}

/// Gives numbers to calls and constants, equal numbers to equal ones.
#[derive(Debug, Default)]
pub(super) struct Interner {
    calls: Vec<Arc<CallInfo>>,
    call_ids: HashMap<u64, SmallVec<[u32; 1]>>,
    constants: Vec<Arc<ConstantInfo>>,
    constant_ids: HashMap<u64, SmallVec<[u32; 1]>>,
}

impl Interner {
    /// The call with this number.
    pub(super) fn call(&self, id: u32) -> &Arc<CallInfo> {
        &self.calls[id as usize]
    }

    /// The constant with this number.
    pub(super) fn constant(&self, id: u32) -> &Arc<ConstantInfo> {
        &self.constants[id as usize]
    }

    /// Interns a call.
    pub(super) fn intern_call(
        &mut self,
        op: Op,
        args: Vec<Arg<u32>>,
        results: &[TensorMeta],
        (tag, effects): (u32, Effects),
    ) -> u32 {
        let mut h = DefaultHasher::new();
        (op, results, tag, args.len()).hash(&mut h);
        args.iter().for_each(|a| hash_arg(a, &mut h));
        let candidates = self.call_ids.entry(h.finish()).or_default();
        for &id in candidates.iter() {
            let c = &self.calls[id as usize];
            let same_args = || {
                c.args.len() == args.len() && c.args.iter().zip(&args).all(|(a, b)| same_arg(a, b))
            };
            if c.op == op && c.tag == tag && c.results[..] == *results && same_args() {
                return id;
            }
        }
        let id = self.calls.len() as u32;
        candidates.push(id);
        self.calls.push(Arc::new(CallInfo { op, args, results: results.into(), tag, effects }));
        id
    }

    /// Interns a constant.
    pub(super) fn intern_constant(&mut self, value: Constant, meta: TensorMeta) -> u32 {
        let elements = match &value {
            Constant::Splat(s) => std::slice::from_ref(s),
            Constant::Elements(v) => v,
        };
        let mut h = DefaultHasher::new();
        (&meta, elements.len()).hash(&mut h);
        elements.iter().for_each(|s| hash_scalar(*s, &mut h));
        let candidates = self.constant_ids.entry(h.finish()).or_default();
        for &id in candidates.iter() {
            let c = &self.constants[id as usize];
            let same_value = match (&c.value, &value) {
                (Constant::Splat(a), Constant::Splat(b)) => a.same(*b),
                (Constant::Elements(a), Constant::Elements(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(*y))
                }
                _ => false,
            };
            if same_value && c.meta == meta {
                return id;
            }
        }
        let id = self.constants.len() as u32;
        candidates.push(id);
        self.constants.push(Arc::new(ConstantInfo { value, meta }));
        id
    }
}

fn hash_scalar(s: Scalar, h: &mut DefaultHasher) {
    match s {
        Scalar::Bool(b) => (0u8, u64::from(b)).hash(h),
        Scalar::Int(i) => (1u8, i as u64).hash(h),
        Scalar::Float(x) => (2u8, x.to_bits()).hash(h),
        Scalar::Complex(re, im) => (3u8, re.to_bits(), im.to_bits()).hash(h),
    }
}

fn hash_arg(a: &Arg<u32>, h: &mut DefaultHasher) {
    std::mem::discriminant(a).hash(h);
    match a {
        Arg::None => {}
        Arg::Tensor(v) => v.hash(h),
        Arg::Tensors(v) => v.hash(h),
        Arg::Scalar(s) => hash_scalar(*s, h),
        Arg::Ints(v) => v.hash(h),
        Arg::Floats(v) => v.iter().for_each(|x| x.to_bits().hash(h)),
        Arg::Bools(v) => v.hash(h),
        Arg::Str(s) => s.hash(h),
        Arg::DType(d) => d.hash(h),
        Arg::Device(d) => d.hash(h),
        Arg::Layout(l) => l.hash(h),
        Arg::MemoryFormat(m) => m.hash(h),
        Arg::Graph(g) => g.hash(h),
    }
}

/// Equal as bits: NaN is NaN, and -0.0 is not 0.0.
fn same_arg(a: &Arg<u32>, b: &Arg<u32>) -> bool {
    match (a, b) {
        (Arg::Scalar(x), Arg::Scalar(y)) => x.same(*y),
        (Arg::Floats(x), Arg::Floats(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(p, q)| p.to_bits() == q.to_bits())
        }
        (a, b) => a == b,
    }
}
