//! What follows for an operator's results without data, and why operands and arguments may not be
//! those of an operator.

mod shapes;
#[cfg(test)]
mod tests;

pub use shapes::{
    Shape, broadcast, dims, embedded, is_skipped_by_cat, joined, product, reduced, selected,
};

use crate::{DType, Dims, Op};

/// The class of PyTorch's error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// `RuntimeError`.
    Runtime,
    /// `IndexError`.
    Index,
}

/// What does not fit. The texts are PyTorch's where people know them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// A dimension that the tensor does not have.
    #[error(
        "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
        -(*rank.max(&1) as i64), *rank.max(&1) as i64 - 1
    )]
    Dim {
        /// The dimension.
        dim: i64,
        /// How many there are.
        rank: usize,
    },
    /// A dimension that is named twice.
    #[error("dimension {dim} appears twice in {dims:?}")]
    RepeatedDim {
        /// The operator.
        op: Op,
        /// The dimension.
        dim: usize,
        /// All of them.
        dims: Vec<i64>,
    },
    /// A tensor of more, or of fewer, dimensions than the operator takes.
    #[error("expected a tensor of {expected} dimensions, but it has {found}")]
    Rank {
        /// The operator.
        op: Op,
        /// How many it takes.
        expected: &'static str,
        /// How many there are.
        found: usize,
    },
    /// An operator that takes one number for each dimension.
    #[error("expected {expected} dimensions, one for each of the tensor's, but got {found}")]
    Count {
        /// The operator.
        op: Op,
        /// The dimensions.
        expected: usize,
        /// The numbers.
        found: usize,
    },
    /// An argument whose value makes no sense.
    #[error("{name} must be {expected}, but got {found}")]
    Value {
        /// The operator.
        op: Op,
        /// The argument.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: i64,
    },
    /// A position beyond a dimension.
    #[error("index {index} out of range for tensor of size {sizes:?} at dimension {dim}")]
    Position {
        /// The operator.
        op: Op,
        /// The position.
        index: i64,
        /// The tensor's sizes.
        sizes: Dims,
        /// The dimension.
        dim: usize,
    },
    /// Sizes with another number of elements.
    #[error("shape '{to:?}' is invalid for input of size {numel}")]
    ViewCount {
        /// The sizes asked for.
        to: Dims,
        /// The number of elements.
        numel: i64,
    },
    /// A size of -1 that could be any.
    #[error(
        "cannot reshape tensor of 0 elements into shape {to:?} because the unspecified dimension size -1 can be any \
         value and is ambiguous"
    )]
    Ambiguous {
        /// The sizes asked for.
        to: Dims,
    },
    /// More than one size of -1.
    #[error("only one dimension can be inferred, found {to:?}")]
    TwoInferred {
        /// The sizes asked for.
        to: Dims,
    },
    /// A negative size, or more elements than can be counted.
    #[error("the sizes {0:?} are not those of a tensor")]
    Sizes(Dims),
    /// Sizes that do not broadcast.
    #[error(
        "sizes {a:?} and {b:?} do not broadcast: each pair of dimensions, counted from the last, must be equal or \
         one of them 1"
    )]
    Broadcast {
        /// The sizes of one operand, or of several together.
        a: Dims,
        /// Those of the next one.
        b: Dims,
    },
    /// Matrices, or batches of them, that cannot be multiplied.
    #[error("{}", product_text(a, b))]
    Product {
        /// The operator.
        op: Op,
        /// The sizes of the first factor.
        a: Dims,
        /// Those of the second.
        b: Dims,
    },
    /// Tensors that cannot be concatenated.
    #[error(
        "Sizes of tensors must match except in dimension {dim}: {first:?} and {other:?} (tensor number {position} in \
         the list)"
    )]
    Joined {
        /// The dimension along which they are.
        dim: usize,
        /// The sizes of the first one that is not skipped.
        first: Dims,
        /// The sizes of the one that differs.
        other: Dims,
        /// The place of that one in the list.
        position: usize,
    },
    /// A dimension that a reduction is told twice.
    #[error("dim {dim} appears multiple times in the list of dims")]
    DimTwice {
        /// The dimension, counted from the front.
        dim: usize,
    },
    /// More dimensions than a reduction can name.
    #[error("only tensors with up to 64 dims are supported")]
    TooManyDims {
        /// How many there are.
        rank: usize,
    },
    /// A list of tensors without a tensor.
    #[error("{} expects a non-empty TensorList", op.unqualified())]
    EmptyList {
        /// The operator.
        op: Op,
    },
    /// Tensors of different sizes, which make no stack.
    #[error(
        "stack expects each tensor to be equal size, but got {first:?} at entry 0 and {other:?} at entry {position}"
    )]
    Stacked {
        /// The sizes of the first one.
        first: Dims,
        /// The sizes of the one that differs.
        other: Dims,
        /// The place of that one in the list.
        position: usize,
    },
    /// A factor without dimensions.
    #[error("both arguments to {} need to be at least 1D, but they are {a}D and {b}D", op.unqualified())]
    NoDimensions {
        /// The operator.
        op: Op,
        /// How many dimensions the first factor has.
        a: usize,
        /// How many the second one has.
        b: usize,
    },
    /// A mask that is not of truth values.
    #[error("masked_fill only supports boolean masks, but got dtype {}", found.torch_name())]
    MaskDType {
        /// The mask's dtype.
        found: DType,
    },
    /// A bias that would make the result of a layer larger.
    #[error("output with shape {sizes:?} doesn't match the broadcast shape {broadcast:?}")]
    Enlarged {
        /// The sizes without the bias.
        sizes: Dims,
        /// The sizes that both broadcast to.
        broadcast: Dims,
    },
    /// A value to fill with that has dimensions.
    #[error(
        "masked_fill only supports a 0-dimensional value tensor, but got tensor with {rank} dimension(s)."
    )]
    FillRank {
        /// How many it has.
        rank: usize,
    },
    /// Strides under which the elements cannot be seen in these sizes.
    #[error(
        "view size is not compatible with input tensor's size and stride (at least one dimension of {sizes:?} with strides \
         {strides:?} spans across two contiguous subspaces). Use .reshape(...) instead."
    )]
    Strides {
        /// The tensor's sizes.
        sizes: Dims,
        /// Its strides.
        strides: Dims,
    },
    /// Sizes that a tensor cannot be expanded to.
    #[error("a tensor of sizes {from:?} cannot be expanded to {to:?}: {why}")]
    Expand {
        /// The tensor's sizes.
        from: Dims,
        /// The sizes asked for.
        to: Dims,
        /// What is the matter.
        why: &'static str,
    },
}

fn product_text(a: &Dims, b: &Dims) -> String {
    match (&a[..], &b[..]) {
        ([m, k], [l, n]) => {
            format!("mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {l}x{n})")
        }
        ([g, .., k], [..]) => format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{g}, {k}] but got: {:?}.",
            &b[..b.len() - 1]
        ),
        _ => format!("tensors of sizes {a:?} and {b:?} cannot be multiplied"),
    }
}

impl MetaError {
    /// The class of PyTorch's error.
    pub fn class(&self) -> ErrorClass {
        match self {
            MetaError::Dim { .. } | MetaError::Position { .. } => ErrorClass::Index,
            MetaError::Rank { op: Op::slice_Tensor | Op::select_int, found: 0, .. } => {
                ErrorClass::Index
            }
            _ => ErrorClass::Runtime,
        }
    }
}
