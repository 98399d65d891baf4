//! The leaves of a module: tensors that are trained, and tensors that are only kept.

use crate::error::Result;
use crate::tensor::Tensor;
use std::ops::Deref;

/// A tensor that is trained: a leaf that requires a gradient. It can be used wherever a `&Tensor`
/// can.
///
/// A clone is another handle to the same tensor, which is how weights are tied:
///
/// ```
/// use straightline::nn::{Embedding, Linear, Module};
/// let words = Embedding::new(10, 4)?;
/// let mut head = Linear::without_bias(4, 10)?;
/// head.weight = words.weight.clone();
/// assert!(head.weight.is_same(&words.weight));
/// assert!(words.parameters()[0].is_same(&head.parameters()[0]));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parameter(Tensor);

impl Parameter {
    /// A parameter with the memory of a tensor, cut off from how it was computed.
    ///
    /// ```
    /// use straightline::{Tensor, nn::Parameter};
    /// let scale = Parameter::new(&Tensor::ones([3])?)?;
    /// assert!(scale.requires_grad());
    /// assert_eq!(scale.sizes(), [3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The dtype is not a floating-point or complex one.
    #[track_caller]
    pub fn new(tensor: &Tensor) -> Result<Parameter> {
        let leaf = tensor.detach()?;
        leaf.requires_grad_(true)?;
        Ok(Parameter(leaf))
    }

    /// Any tensor in the place of one.
    pub(super) fn standing_in(tensor: Tensor) -> Parameter {
        Parameter(tensor)
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
}

impl Deref for Parameter {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}

impl AsRef<Tensor> for Parameter {
    fn as_ref(&self) -> &Tensor {
        &self.0
    }
}

/// A tensor that belongs to a module and is not trained, such as a running mean.
///
/// ```
/// use straightline::Tensor;
/// use straightline::nn::{Buffer, Module};
///
/// #[derive(Module)]
/// struct Positions {
///     table: Buffer,
///     mask: Buffer,
/// }
///
/// let positions = Positions {
///     table: Buffer::new(Tensor::zeros([8, 4])?),
///     mask: Buffer::unsaved(Tensor::ones([8, 8])?),
/// };
/// assert_eq!(positions.named_buffers().len(), 2);
/// assert_eq!(positions.state_dict()?.into_keys().collect::<Vec<_>>(), ["table"]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer {
    tensor: Tensor,
    saved: bool,
}

impl Buffer {
    /// A buffer that is part of the state dict.
    pub fn new(tensor: Tensor) -> Buffer {
        Buffer { tensor, saved: true }
    }

    /// One that is not (PyTorch's `persistent=False`).
    pub fn unsaved(tensor: Tensor) -> Buffer {
        Buffer { tensor, saved: false }
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Whether it is part of the state dict.
    pub fn is_saved(&self) -> bool {
        self.saved
    }

    /// One like this with another tensor.
    pub(super) fn with_tensor(&self, tensor: Tensor) -> Buffer {
        Buffer { tensor, saved: self.saved }
    }
}

impl Deref for Buffer {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

impl AsRef<Tensor> for Buffer {
    fn as_ref(&self) -> &Tensor {
        &self.tensor
    }
}
