//! Losses: averaged over the elements, or as a [`Reduction`] says.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
pub use straightline_runtime::cpu::kernels::class_loss::Reduction;

/// As PyTorch numbers ways to reduce.
pub(crate) fn number(reduction: Reduction) -> i64 {
    match reduction {
        Reduction::None => 0,
        Reduction::Mean => 1,
        Reduction::Sum => 2,
    }
}

/// What [`Tensor::cross_entropy_with`] can be told: weights of the classes, which target does not
/// count, how the losses are put together, and how much of the target is spread over all classes.
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
    /// The mean cross-entropy of logits `[batch, classes, ..]` against class numbers (or
    /// probabilities); targets of -100 do not count. See [`aten::cross_entropy_loss`].
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
}
