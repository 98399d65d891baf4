//! What a program says about its inputs, weights and results.

use super::Leaf;
use super::sizes::{Size, Symbol};
use crate::tensor::Tensor;
use straightline_catalog::DType;

/// What an input is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InputKind {
    /// A tensor of this dtype, whose sizes are as described.
    Tensor {
        /// Its elements.
        dtype: DType,
        /// Its sizes.
        sizes: Vec<Size>,
    },
    /// A number that stands for a size.
    Size(Size),
    /// A value that is part of the program: a call gives the same.
    Constant(Leaf),
    /// Something whose description is not known: it is taken as it is.
    Any,
}

/// An input of a program.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
}

impl Input {
    /// `x: f32[s77, 8]`, given the program's symbols.
    ///
    /// ```
    /// use straightline::pt2;
    /// let program = pt2::load("tests/data/pt2/transformer_encoder.pt2")?;
    /// assert_eq!(program.inputs()[0].text(program.symbols()), "src: f32[2, s98, 32]");
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn text(&self, symbols: &[Symbol]) -> String {
        let Input { name, kind } = self;
        format!("{name}: {}", kind.text(symbols))
    }
}

impl InputKind {
    pub(super) fn text(&self, symbols: &[Symbol]) -> String {
        match self {
            InputKind::Tensor { dtype, sizes } => {
                let sizes: Vec<String> = sizes.iter().map(|s| s.text(symbols)).collect();
                format!("{dtype}[{}]", sizes.join(", "))
            }
            InputKind::Size(size) => size.text(symbols),
            InputKind::Constant(value) => format!("the constant {value}"),
            InputKind::Any => "anything".to_owned(),
        }
    }
}

/// What a weight is to the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WeightKind {
    /// What is trained.
    Parameter,
    /// State that is no parameter, such as running statistics.
    Buffer {
        /// Whether a state dict has it.
        persistent: bool,
    },
    /// A tensor that the model's code made.
    Constant,
}

/// A tensor that belongs to a program.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Its name in the model: `encoder.layers.0.weight`.
    pub name: String,
    /// What it is.
    pub kind: WeightKind,
    /// Its values. Where they lie in a mapped file, they can only be read.
    pub tensor: Tensor,
}

/// A result of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The value's name, or the text of a constant.
    pub name: String,
    /// Whether it is a tensor.
    pub is_tensor: bool,
}
