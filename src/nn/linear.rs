//! Layers that are a matrix: linear maps and tables of vectors.

use super::init;
use super::module::Layer;
use super::parameter::Parameter;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};

/// `x W^T + b`, on the last dimension.
///
/// ```
/// use straightline::nn::{Layer, Linear};
/// use straightline::{Tensor, manual_seed};
/// manual_seed(0);
/// let layer = Linear::new(2, 3)?;
/// assert_eq!(layer.forward(&Tensor::ones([5, 2])?)?.sizes(), [5, 3]);
/// // what torch.nn.Linear(2, 3) begins with after torch.manual_seed(0)
/// assert_eq!(layer.weight.to_vec::<f32>()?[..2], [-0.005293981, 0.3793229]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub weight: Parameter,
    /// `[outputs]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// A layer with a bias. It begins as PyTorch's, uniform up to `1 / sqrt(inputs)`.
    #[track_caller]
    pub fn new(inputs: impl Int, outputs: impl Int) -> Result<Linear> {
        Linear::make(inputs.to_i64(), outputs.to_i64(), true)
    }

    /// A layer without one.
    #[track_caller]
    pub fn without_bias(inputs: impl Int, outputs: impl Int) -> Result<Linear> {
        Linear::make(inputs.to_i64(), outputs.to_i64(), false)
    }

    #[track_caller]
    fn make(inputs: i64, outputs: i64, bias: bool) -> Result<Linear> {
        let weight = Tensor::empty([outputs, inputs])?;
        let bias = bias.then(|| Tensor::empty([outputs])).transpose()?;
        init::affine(&weight, bias.as_ref())?;
        Ok(Linear {
            weight: Parameter::new(&weight)?,
            bias: bias.as_ref().map(Parameter::new).transpose()?,
        })
    }
}

impl Layer for Linear {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.linear(&self.weight, self.bias.as_deref())
    }
}

/// `x1 A x2 + b`: a bilinear form for each output.
///
/// ```
/// use straightline::{Tensor, nn::Bilinear};
/// let layer = Bilinear::new(2, 3, 4)?;
/// assert_eq!(layer.forward(&Tensor::ones([5, 2])?, &Tensor::ones([5, 3])?)?.sizes(), [5, 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Bilinear {
    /// `[outputs, first inputs, second inputs]`.
    pub weight: Parameter,
    /// `[outputs]`.
    pub bias: Parameter,
}

impl Bilinear {
    /// A layer of two inputs; uniform up to `1 / sqrt(first)`.
    #[track_caller]
    pub fn new(first: impl Int, second: impl Int, outputs: impl Int) -> Result<Bilinear> {
        let (first, second, outputs) = (first.to_i64(), second.to_i64(), outputs.to_i64());
        let weight = Tensor::empty([outputs, first, second])?;
        let bias = Tensor::empty([outputs])?;
        let bound = 1.0 / (first as f64).sqrt();
        init::uniform_(&weight, -bound, bound)?;
        init::uniform_(&bias, -bound, bound)?;
        Ok(Bilinear { weight: Parameter::new(&weight)?, bias: Parameter::new(&bias)? })
    }

    /// The layer on two tensors that agree in all dimensions but the last.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let products = Tensor::einsum("...i,oij,...j->...o", [a, self.weight.tensor(), b])?;
        products.add(self.bias.tensor())
    }
}

/// A table of vectors, looked up by number.
///
/// ```
/// use straightline::nn::{Embedding, Layer};
/// use straightline::tensor;
/// let words = Embedding::with_padding(10, 4, 0)?;
/// let x = words.forward(&tensor([[1, 0]])?)?;
/// assert_eq!(x.sizes(), [1, 2, 4]);
/// assert_eq!(x.i((0, 1))?.to_vec::<f32>()?, [0.0; 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Embedding {
    /// `[count, width]`.
    pub weight: Parameter,
    padding: Option<i64>,
}

impl Embedding {
    /// `count` vectors of `width` normally distributed numbers.
    #[track_caller]
    pub fn new(count: impl Int, width: impl Int) -> Result<Embedding> {
        Embedding::make(count.to_i64(), width.to_i64(), None)
    }

    /// The vector of number `padding` (from the end where negative) is zero and gets no gradient.
    ///
    /// # Errors
    /// There is no such vector.
    #[track_caller]
    pub fn with_padding(count: impl Int, width: impl Int, padding: impl Int) -> Result<Embedding> {
        let (count, padding) = (count.to_i64(), padding.to_i64());
        ensure_value!(
            (-count..count).contains(&padding),
            "padding_idx must be within num_embeddings"
        );
        Embedding::make(count, width.to_i64(), Some(padding.rem_euclid(count)))
    }

    /// A table of these vectors.
    #[track_caller]
    pub fn from_pretrained(weight: &Tensor) -> Result<Embedding> {
        Ok(Embedding { weight: Parameter::new(weight)?, padding: None })
    }

    #[track_caller]
    fn make(count: i64, width: i64, padding: Option<i64>) -> Result<Embedding> {
        let weight = init::normal_(&Tensor::empty([count, width])?, 0.0, 1.0)?;
        if let Some(padding) = padding {
            weight.select(0, padding)?.zero_()?;
        }
        Ok(Embedding { weight: Parameter::new(&weight)?, padding })
    }
}

impl Layer for Embedding {
    #[track_caller]
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        aten::embedding(&self.weight, indices, self.padding.unwrap_or(-1), false, false)
    }
}
