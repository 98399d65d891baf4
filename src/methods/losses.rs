//! Losses: averaged over the elements, or as a [`Reduction`] says.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
pub use straightline_runtime::cpu::kernels::class_loss::Reduction;

/// As PyTorch numbers ways to reduce.
fn number(reduction: Reduction) -> i64 {
    match reduction {
        Reduction::None => 0,
        Reduction::Mean => 1,
        Reduction::Sum => 2,
    }
}

/// What [`Tensor::cross_entropy_with`] can be told: weights of the classes, which target does not count, how the losses
/// are put together, and how much of the target is spread over all classes.
///
/// ```
/// use straightline::{CrossEntropyOptions, Reduction, tensor};
/// let (logits, target) = (tensor([[0.0, 0.0], [0.0, 0.0]])?, tensor([1, 0])?);
/// let options = CrossEntropyOptions::default().ignore_index(0).reduction(Reduction::Sum);
/// let loss = logits.cross_entropy_with(&target, options)?;
/// straightline::assert_close(&loss, &tensor(2f64.ln())?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CrossEntropyOptions {
    weight: Option<Tensor>,
    ignore_index: i64,
    reduction: Reduction,
    label_smoothing: f64,
}

impl Default for CrossEntropyOptions {
    fn default() -> Self {
        CrossEntropyOptions {
            weight: None,
            ignore_index: -100,
            reduction: Reduction::Mean,
            label_smoothing: 0.0,
        }
    }
}

impl CrossEntropyOptions {
    /// A weight for each class; 1.
    #[must_use]
    pub fn weight(mut self, weight: &Tensor) -> Self {
        self.weight = Some(weight.clone());
        self
    }

    /// The target that does not count; -100.
    #[must_use]
    pub fn ignore_index(mut self, index: impl Int) -> Self {
        self.ignore_index = index.to_i64();
        self
    }

    /// How the losses are put together; their mean.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// How much of each target is spread over all classes, 0 to 1; 0.
    #[must_use]
    pub fn label_smoothing(mut self, smoothing: impl Into<f64>) -> Self {
        self.label_smoothing = smoothing.into();
        self
    }
}

impl Tensor {
    /// The mean cross-entropy of logits `[batch, classes, ..]` against class numbers (or probabilities); targets of
    /// -100 do not count. See [`aten::cross_entropy_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let loss = tensor([[0.0, 0.0]])?.cross_entropy(&tensor([1])?)?;
    /// straightline::assert_close(&loss, &tensor(2f64.ln())?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cross_entropy(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.cross_entropy_with(target.as_ref(), CrossEntropyOptions::default())
    }

    /// [`Tensor::cross_entropy`] with [`CrossEntropyOptions`].
    ///
    /// ```
    /// use straightline::{CrossEntropyOptions, Reduction, tensor};
    /// let (x, target) = (tensor([[0.0, 0.0], [0.0, 0.0]])?, tensor([1, 0])?);
    /// let options = CrossEntropyOptions::default().weight(&tensor([3.0, 1.0])?).reduction(Reduction::None);
    /// straightline::assert_close(&x.cross_entropy_with(&target, options)?, &tensor([2f64.ln(), 8f64.ln()])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cross_entropy_with(
        &self,
        target: impl AsRef<Tensor>,
        options: CrossEntropyOptions,
    ) -> Result<Tensor> {
        aten::cross_entropy_loss(
            self,
            target.as_ref(),
            options.weight.as_ref(),
            number(options.reduction),
            options.ignore_index,
            options.label_smoothing,
        )
    }

    /// The mean of the negative log-probabilities `[batch, classes, ..]` of the target classes; targets of -100 do not
    /// count. See [`aten::nll_loss_nd`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([[-1.0, -2.0]])?.nll_loss(&tensor([1])?)?, &tensor(2.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.nll_loss_with(target.as_ref(), None, -100, Reduction::Mean)
    }

    /// [`Tensor::nll_loss`] with a weight for each class, the target that does not count, and a [`Reduction`].
    ///
    /// ```
    /// use straightline::{Reduction, tensor};
    /// let (x, target) = (tensor([[-1.0, -2.0], [-3.0, -4.0]])?, tensor([1, 0])?);
    /// let loss = x.nll_loss_with(&target, &tensor([1.0, 10.0])?, -100, Reduction::Sum)?;
    /// assert_eq!(loss.item::<f32>()?, 23.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss_with<'a>(
        &self,
        target: impl AsRef<Tensor>,
        weight: impl Into<Option<&'a Tensor>>,
        ignore_index: impl Int,
        reduction: Reduction,
    ) -> Result<Tensor> {
        aten::nll_loss_nd(
            self,
            target.as_ref(),
            weight.into(),
            number(reduction),
            ignore_index.to_i64(),
        )
    }

    /// The mean of the squared differences. See [`aten::mse_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, 2.0])?.mse_loss(&tensor([1.0, 4.0])?)?.item::<f32>()?, 2.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.mse_loss_with(target.as_ref(), Reduction::Mean)
    }

    /// [`Tensor::mse_loss`] with a [`Reduction`].
    ///
    /// ```
    /// use straightline::{Reduction, tensor};
    /// let loss = tensor([1.0, 2.0])?.mse_loss_with(&tensor([1.0, 4.0])?, Reduction::Sum)?;
    /// assert_eq!(loss.item::<f32>()?, 4.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss_with(
        &self,
        target: impl AsRef<Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        aten::mse_loss(self, target.as_ref(), number(reduction))
    }

    /// The mean of the magnitudes of the differences. See [`aten::l1_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, 2.0])?.l1_loss(&tensor([2.0, 5.0])?)?.item::<f32>()?, 2.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn l1_loss(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.l1_loss_with(target.as_ref(), Reduction::Mean)
    }

    /// [`Tensor::l1_loss`] with a [`Reduction`].
    ///
    /// ```
    /// use straightline::{Reduction, tensor};
    /// let loss = tensor([1.0, 2.0])?.l1_loss_with(&tensor([2.0, 5.0])?, Reduction::None)?;
    /// assert_eq!(loss.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn l1_loss_with(&self, target: impl AsRef<Tensor>, reduction: Reduction) -> Result<Tensor> {
        aten::l1_loss(self, target.as_ref(), number(reduction))
    }

    /// The mean of half the squared differences where they are below 1, and of the magnitudes less a half above.
    /// See [`aten::smooth_l1_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let loss = tensor([0.0, 3.0])?.smooth_l1_loss(&tensor([0.0, 1.0])?)?;
    /// assert_eq!(loss.item::<f32>()?, 0.75);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.smooth_l1_loss_with(target.as_ref(), Reduction::Mean, 1.0)
    }

    /// [`Tensor::smooth_l1_loss`] with a [`Reduction`]: the squared error below `beta`, divided by twice as much, and
    /// the absolute error less half of it above.
    ///
    /// ```
    /// use straightline::{Reduction, tensor};
    /// let loss = tensor([0.0, 3.0])?.smooth_l1_loss_with(&tensor([1.0, 1.0])?, Reduction::Sum, 2.0)?;
    /// assert_eq!(loss.item::<f32>()?, 1.25);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss_with(
        &self,
        target: impl AsRef<Tensor>,
        reduction: Reduction,
        beta: impl Into<f64>,
    ) -> Result<Tensor> {
        aten::smooth_l1_loss(self, target.as_ref(), number(reduction), beta.into())
    }

    /// The mean of half the squared differences where they are below 1, and of the magnitudes less a half above.
    /// See [`aten::huber_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let loss = tensor([0.0, 3.0])?.huber_loss(&tensor([0.0, 1.0])?)?;
    /// assert_eq!(loss.item::<f32>()?, 0.75);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.huber_loss_with(target.as_ref(), Reduction::Mean, 1.0)
    }

    /// [`Tensor::huber_loss`] with a [`Reduction`]: [`Tensor::smooth_l1_loss_with`], times `delta`.
    ///
    /// ```
    /// use straightline::{Reduction, tensor};
    /// let loss = tensor([0.0, 3.0])?.huber_loss_with(&tensor([1.0, 1.0])?, Reduction::Sum, 2.0)?;
    /// assert_eq!(loss.item::<f32>()?, 2.5);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss_with(
        &self,
        target: impl AsRef<Tensor>,
        reduction: Reduction,
        delta: impl Into<f64>,
    ) -> Result<Tensor> {
        aten::huber_loss(self, target.as_ref(), number(reduction), delta.into())
    }

    /// The mean cross entropy of probabilities and targets, both between 0 and 1. See [`aten::binary_cross_entropy`].
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
    pub fn binary_cross_entropy(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.binary_cross_entropy_with(target.as_ref(), None, Reduction::Mean)
    }

    /// [`Tensor::binary_cross_entropy`] with weights that broadcast and a [`Reduction`].
    ///
    /// ```
    /// use straightline::{Reduction, tensor};
    /// let (p, target) = (tensor([0.5, 0.5])?, tensor([1.0, 0.0])?);
    /// let loss = p.binary_cross_entropy_with(&target, &tensor([1.0, 2.0])?, Reduction::Sum)?;
    /// straightline::assert_close(&loss, &tensor(8f64.ln())?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Probabilities beyond 0 and 1.
    #[track_caller]
    pub fn binary_cross_entropy_with<'a>(
        &self,
        target: impl AsRef<Tensor>,
        weight: impl Into<Option<&'a Tensor>>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        aten::binary_cross_entropy(self, target.as_ref(), weight.into(), number(reduction))
    }

    /// The mean cross-entropy of the sigmoid against probabilities. See [`aten::binary_cross_entropy_with_logits`],
    /// which has weights too.
    ///
    /// ```
    /// use straightline::tensor;
    /// let loss = tensor([0.0])?.binary_cross_entropy_with_logits(&tensor([1.0])?)?;
    /// straightline::assert_close(&loss, &tensor(2f64.ln())?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::binary_cross_entropy_with_logits(
            self,
            target.as_ref(),
            None,
            None,
            number(Reduction::Mean),
        )
    }

    /// The divergence of log probabilities from the probabilities `target`, the mean over all elements. See
    /// [`aten::kl_div`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let p = tensor([0.5, 0.5])?;
    /// assert_eq!(p.log()?.kl_div(&p)?.item::<f32>()?, 0.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div(&self, target: impl AsRef<Tensor>) -> Result<Tensor> {
        self.kl_div_with(target.as_ref(), Reduction::Mean, false)
    }

    /// [`Tensor::kl_div`] with a [`Reduction`], where `log_target` says whether the target is of log probabilities, too.
    ///
    /// ```
    /// use straightline::{Reduction, tensor};
    /// let (p, q) = (tensor([0.5, 0.5])?.log()?, tensor([1.0, 0.0])?);
    /// straightline::assert_close(&p.kl_div_with(&q, Reduction::Sum, false)?, &tensor(2f64.ln())?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn kl_div_with(
        &self,
        target: impl AsRef<Tensor>,
        reduction: Reduction,
        log_target: bool,
    ) -> Result<Tensor> {
        aten::kl_div(self, target.as_ref(), number(reduction), log_target)
    }
}
