//! What tensors have to do with gradients.

use super::backward::{BackwardOptions, backward};
use super::error::AutogradError;
use super::grad_fn::GradFn;
use super::graph;
use super::leaf;
use super::view;
use crate::error::Result;
use crate::tensor::Tensor;

impl Tensor {
    /// Asks for a gradient, or no longer; gives the tensor itself.
    ///
    /// # Errors
    ///
    /// The tensor has no floating or complex numbers; it was computed, and cannot stop wanting one.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    /// assert!(x.requires_grad() && x.is_leaf());
    /// assert!(tensor([1, 2])?.requires_grad_(true).is_err());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn requires_grad_(&self, on: bool) -> Result<Tensor> {
        let included = crate::dispatch::TlsKeySets::current().included;
        if included.has(crate::dispatch::DispatchKey::FuncTorchDynamicLayerFrontMode) {
            return Err(AutogradError::Setting(
                "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of a \
                 function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch \
                 transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being \
                 transformed instead."
                    .into(),
            )
            .into());
        }
        graph::set_requires_grad(self, on)?;
        Ok(self.clone())
    }

    /// Whether the tensor was not computed from others that want a gradient.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?.requires_grad_(true)?;
    /// assert!(x.is_leaf() && !x.mul(2)?.is_leaf());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn is_leaf(&self) -> bool {
        !matches!(view::grad_fn(self), Ok(Some(_)) | Err(_))
    }

    /// The node that the tensor came out of; `None` of leaves.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?.requires_grad_(true)?;
    /// assert!(x.grad_fn().is_none() && x.exp()?.grad_fn().is_some());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn grad_fn(&self) -> Option<GradFn> {
        view::grad_fn(self).ok().flatten().map(|e| GradFn(leaf::node_of(&e)))
    }

    /// Which of its node's outputs the tensor is.
    pub fn output_nr(&self) -> u32 {
        view::grad_fn(self).ok().flatten().map_or(0, |e| e.nr)
    }

    /// The gradient that backward passes have added up: of a leaf, or of a tensor that was asked
    /// to retain it ([`Tensor::retain_grad`]).
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    /// assert!(x.grad().is_none());
    /// x.mul(&x)?.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn grad(&self) -> Option<Tensor> {
        leaf::grad(self)
    }

    /// Sets the gradient, or forgets it (`None`), as optimisers do before each step.
    ///
    /// # Errors
    ///
    /// The gradient has other sizes, another dtype or another device than the tensor, or is it.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    /// x.sum()?.backward()?;
    /// x.set_grad(None)?;
    /// assert!(x.grad().is_none());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn set_grad<'g>(&self, grad: impl Into<Option<&'g Tensor>>) -> Result<()> {
        leaf::assign_grad(self, grad.into())
    }

    /// Adds the gradient of this tensor, a scalar, to `.grad` of each leaf that it was computed
    /// from.
    ///
    /// # Errors
    ///
    /// The tensor is no scalar, or was not computed from any leaf that wants a gradient; what was
    /// saved is gone, since a pass used it, or was written meanwhile; an operator has no formula.
    ///
    /// ```
    /// use straightline::tensor;
    /// let w = tensor([0.5, -1.0])?.requires_grad_(true)?;
    /// let x = tensor([3.0, 4.0])?;
    /// w.mul(&x)?.sum()?.backward()?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        self.backward_with(None, &BackwardOptions::default())
    }

    /// [`Tensor::backward`] with the gradient to begin with, and options.
    ///
    /// # Errors
    ///
    /// As [`Tensor::backward`].
    ///
    /// ```
    /// use straightline::{autograd::BackwardOptions, tensor};
    /// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    /// x.mul(2)?.backward_with(&tensor([1.0, 10.0])?, &BackwardOptions::default())?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 20.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn backward_with<'g>(
        &self,
        gradient: impl Into<Option<&'g Tensor>>,
        options: &BackwardOptions,
    ) -> Result<()> {
        let at = std::panic::Location::caller();
        let outputs = [self.clone()];
        let done = match gradient.into() {
            Some(g) => backward(&outputs, &[Some(g.clone())], options),
            None => backward(&outputs, &[], options),
        };
        done.map_err(|e| e.with_location(at))
    }
}
