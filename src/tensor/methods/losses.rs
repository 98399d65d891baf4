//! Losses, each averaged over the elements.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

/// The mean, as PyTorch numbers ways to reduce.
const MEAN: i64 = 1;

impl Tensor {
    /// The squared error below `beta`, divided by twice as much, and the absolute error less half of it above. See
    /// [`aten::smooth_l1_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let loss = tensor([0.0, 3.0])?.smooth_l1_loss(&tensor([0.0, 1.0])?, 1.0)?;
    /// assert_eq!(loss.item::<f32>()?, 0.75);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64) -> Result<Tensor> {
        aten::smooth_l1_loss(self, target, MEAN, beta)
    }

    /// [`Tensor::smooth_l1_loss`], times `delta`. See [`aten::huber_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let loss = tensor([0.0, 3.0])?.huber_loss(&tensor([0.0, 1.0])?, 1.0)?;
    /// assert_eq!(loss.item::<f32>()?, 0.75);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64) -> Result<Tensor> {
        aten::huber_loss(self, target, MEAN, delta)
    }

    /// The cross entropy of probabilities and targets, both between 0 and 1. See [`aten::binary_cross_entropy`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let loss = tensor([0.5])?.binary_cross_entropy(&tensor([1.0])?)?;
    /// straightline::assert_close(&loss, &tensor(2f64.ln())?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Probabilities beyond 0 and 1.
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor) -> Result<Tensor> {
        aten::binary_cross_entropy(self, target, None, MEAN)
    }

    /// The divergence of log probabilities from the probabilities `target`. See [`aten::kl_div`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let p = tensor([0.5, 0.5])?;
    /// assert_eq!(p.log()?.kl_div(&p)?.item::<f32>()?, 0.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor) -> Result<Tensor> {
        aten::kl_div(self, target, MEAN, false)
    }
}
