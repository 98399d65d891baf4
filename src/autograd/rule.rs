//! What the formulas of an operator need and give: the types that generated code is written
//! against.

#![allow(dead_code, reason = "the language of formulas has more values than today's formulas use")]

use crate::dispatch::Value;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use smallvec::SmallVec;
use straightline_catalog::{DType, Device, MemoryFormat, Scalar};

/// The derivative of an operator.
pub(crate) struct Rule {
    /// The name of its nodes, `MulBackward0`.
    pub(crate) node: &'static str,
    /// The positions of the arguments with formulas, in order: the edges of a node.
    pub(crate) inputs: &'static [usize],
    /// Tensor arguments without a formula, which must not require a gradient.
    pub(crate) refused: &'static [(usize, &'static str)],
    /// Whether each result of the schema is differentiable.
    pub(crate) outputs: &'static [bool],
    /// What a node saves.
    pub(crate) saves: &'static [Save],
    /// Computes the gradients that are wanted.
    pub(crate) backward: fn(&Backward<'_>, &mut Grads) -> Result<()>,
    /// How tangents go through.
    pub(crate) forward: Forward,
}

/// What an operator's results are to autograd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Fresh tensors.
    Functional,
    /// Views of the first argument; `several` from one call.
    View { several: bool },
    /// The first argument, written.
    InPlace,
}

/// How the tangents of an operator's results follow from those of its operands.
#[derive(Clone, Copy)]
pub(crate) enum Forward {
    /// Nobody has said so: by the derivative of the gradients.
    ByGradient,
    /// Not at all, as in PyTorch.
    Refused,
    /// Each element by itself: by the formula of the gradient.
    ElementWise,
    /// The operator itself, of the tangents.
    Linear,
    /// A formula, and what it reads besides tangents.
    Formula { reads: &'static [What], push: fn(&Push<'_>, &mut Grads) -> Result<()> },
}

/// Something that a node saves.
pub(crate) struct Save {
    pub(crate) what: What,
    /// A bit for each of the `inputs` whose formula reads it.
    pub(crate) users: u64,
}

/// What is saved: an argument, a fact of one, or a result, by position in the schema.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum What {
    Argument(usize),
    Sizes(usize),
    Strides(usize),
    DType(usize),
    Dim(usize),
    StorageOffset(usize),
    Options(usize),
    AllSizes(usize),
    AllDTypes(usize),
    Result(usize),
}

/// The dtype and the device of a tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Options {
    pub(crate) dtype: DType,
    pub(crate) device: Device,
}

/// A saved value.
#[derive(Clone, Debug)]
pub(crate) enum Saved {
    None,
    Tensor(Tensor),
    Tensors(Vec<Tensor>),
    OptionalTensors(Vec<Option<Tensor>>),
    Int(i64),
    Ints(Vec<i64>),
    Float(f64),
    Floats(Vec<f64>),
    Bool(bool),
    Bools(Vec<bool>),
    Scalar(Scalar),
    Scalars(Vec<Scalar>),
    String(String),
    DType(DType),
    MemoryFormat(MemoryFormat),
    Options(Options),
    AllSizes(Vec<Vec<i64>>),
    AllDTypes(Vec<DType>),
}

/// What a formula reads in a backward pass.
pub(crate) struct Backward<'a> {
    pub(crate) grads: &'a [Option<Tensor>],
    pub(crate) saved: &'a [Saved],
    /// A bit for each of the rule's `inputs`.
    pub(crate) wanted: u64,
}

/// The getters of saved values: plain and optional.
macro_rules! getters {
    ($($name:ident $optional:ident $kind:ident $t:ty, $x:ident => $value:expr;)*) => {$(
        pub(crate) fn $name(&self, k: usize) -> Result<$t> {
            match self.saved.get(k) {
                Some(Saved::$kind($x)) => Ok($value),
                other => Err(misfit(k, stringify!($name), other)),
            }
        }

        pub(crate) fn $optional(&self, k: usize) -> Result<Option<$t>> {
            match self.saved.get(k) {
                Some(Saved::None) => Ok(None),
                Some(Saved::$kind($x)) => Ok(Some($value)),
                other => Err(misfit(k, stringify!($optional), other)),
            }
        }
    )*};
}

#[cold]
fn misfit(k: usize, wanted: &str, found: Option<&Saved>) -> Error {
    Error::runtime(format!("saved value {k} is read as `{wanted}` and is {found:?}"))
}

/// What a forward formula reads: saved values as the formulas of gradients do, and tangents.
pub(crate) struct Push<'a> {
    pub(crate) b: Backward<'a>,
    pub(crate) args: &'a [Value],
    pub(crate) tangents: &'a [Tangents],
}

/// The tangents of an argument.
pub(crate) enum Tangents {
    None,
    One(Tensor),
    /// Of a list, as long as that is.
    List(Vec<Option<Tensor>>),
}

impl Tangents {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Tangents::None)
    }
}

impl Push<'_> {
    /// Whether one of these arguments has a tangent.
    pub(crate) fn pushes(&self, arguments: &[usize]) -> bool {
        arguments.iter().any(|at| self.tangents.get(*at).is_some_and(|t| !t.is_none()))
    }

    /// The tangent of an argument: zeros where it has none.
    pub(crate) fn tangent(&self, at: usize) -> Result<Tensor> {
        match (self.tangents.get(at), self.args.get(at)) {
            (Some(Tangents::One(t)), _) => Ok(t.clone()),
            (_, Some(Value::Tensor(primal))) => {
                crate::ops::aten::zeros_like(primal, None, None, None, None, None)
            }
            _ => Err(Error::runtime(format!("argument {at} is no tensor and has no tangent"))),
        }
    }

    /// The tangent of an argument that may be missing.
    pub(crate) fn optional_tangent(&self, at: usize) -> Result<Option<Tensor>> {
        Ok(match self.tangents.get(at) {
            Some(Tangents::One(t)) => Some(t.clone()),
            _ => None,
        })
    }
}

/// A sum that begins with nothing.
#[derive(Default)]
pub(crate) struct Sum(pub(crate) Option<Tensor>);

impl Sum {
    pub(crate) fn add(&mut self, term: Tensor) -> Result<()> {
        self.0 = Some(match self.0.take() {
            Some(sum) => crate::ops::aten::add_tensor(&sum, &term, Scalar::Int(1))?,
            None => term,
        });
        Ok(())
    }

    pub(crate) fn sub(&mut self, term: Tensor) -> Result<()> {
        self.0 = Some(match self.0.take() {
            Some(sum) => crate::ops::aten::sub_tensor(&sum, &term, Scalar::Int(1))?,
            None => crate::ops::aten::neg(&term)?,
        });
        Ok(())
    }
}

impl Backward<'_> {
    /// The gradient of the only differentiable result.
    pub(crate) fn grad(&self) -> Option<&Tensor> {
        self.grads.first()?.as_ref()
    }

    /// The gradients of the differentiable results, those of a list one by one.
    pub(crate) fn grads(&self) -> &[Option<Tensor>] {
        self.grads
    }

    /// Whether the gradient of this input is wanted.
    pub(crate) fn wants(&self, slot: usize) -> bool {
        self.wanted & (1 << slot) != 0
    }

    /// Whether the gradients of these inputs are wanted.
    pub(crate) fn mask(&self, slots: &[usize]) -> SmallVec<[bool; 4]> {
        slots.iter().map(|slot| self.wants(*slot)).collect()
    }

    /// The tensors of a `Tensor?[]`.
    pub(crate) fn optional_tensors(&self, k: usize) -> Result<&[Option<Tensor>]> {
        match self.saved.get(k) {
            Some(Saved::OptionalTensors(all)) => Ok(all),
            other => Err(misfit(k, "optional_tensors", other)),
        }
    }

    getters! {
        tensor optional_tensor Tensor &Tensor, x => x;
        tensors optional_tensor_list Tensors &[Tensor], x => x;
        int optional_int Int i64, x => *x;
        ints optional_ints Ints &[i64], x => x;
        float optional_float Float f64, x => *x;
        floats optional_floats Floats &[f64], x => x;
        bool optional_bool Bool bool, x => *x;
        bools optional_bools Bools &[bool], x => x;
        scalar optional_scalar Scalar Scalar, x => *x;
        scalars optional_scalars Scalars &[Scalar], x => x;
        string optional_string String &str, x => x;
        dtype optional_dtype DType DType, x => *x;
        memory_format optional_memory_format MemoryFormat MemoryFormat, x => *x;
        options optional_options Options Options, x => *x;
        all_sizes optional_all_sizes AllSizes &[Vec<i64>], x => x;
        all_dtypes optional_all_dtypes AllDTypes &[DType], x => x;
    }
}

/// The gradients of one input: several where it is a list.
pub(crate) type InputGrads = SmallVec<[Option<Tensor>; 1]>;

/// The gradients that a node gives.
#[derive(Default)]
pub(crate) struct Grads {
    pub(crate) given: SmallVec<[(usize, InputGrads); 2]>,
}

impl Grads {
    /// Gives the gradient of an input, a list's one by one.
    pub(crate) fn give(&mut self, slot: usize, grads: impl IntoGrads) {
        let mut all = InputGrads::new();
        grads.each(&mut |grad| all.push(grad));
        self.given.push((slot, all));
    }

    /// Gives the gradients of several inputs, none of which is a list.
    pub(crate) fn give_all(&mut self, slots: &[usize], grads: impl IntoGrads) {
        let mut slots = slots.iter();
        grads.each(&mut |grad| {
            if let Some(slot) = slots.next() {
                self.given.push((*slot, [grad].into_iter().collect()));
            }
        });
    }
}

/// What a formula gives.
pub(crate) trait IntoGrads {
    /// Hands over each gradient.
    fn each(self, give: &mut dyn FnMut(Option<Tensor>));
}

impl IntoGrads for Tensor {
    fn each(self, give: &mut dyn FnMut(Option<Tensor>)) {
        give(Some(self));
    }
}

impl IntoGrads for Option<Tensor> {
    fn each(self, give: &mut dyn FnMut(Option<Tensor>)) {
        give(self);
    }
}

impl<T: Into<Option<Tensor>>> IntoGrads for Vec<T> {
    fn each(self, give: &mut dyn FnMut(Option<Tensor>)) {
        self.into_iter().for_each(|grad| give(grad.into()));
    }
}

impl<T: Into<Option<Tensor>>, const N: usize> IntoGrads for [T; N] {
    fn each(self, give: &mut dyn FnMut(Option<Tensor>)) {
        self.into_iter().for_each(|grad| give(grad.into()));
    }
}

macro_rules! tuples {
    ($($($t:ident)+;)*) => {$(
        impl<$($t: Into<Option<Tensor>>),+> IntoGrads for ($($t,)+) {
            #[allow(non_snake_case)]
            fn each(self, give: &mut dyn FnMut(Option<Tensor>)) {
                let ($($t,)+) = self;
                $(give($t.into());)+
            }
        }
    )*};
}

tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
}
