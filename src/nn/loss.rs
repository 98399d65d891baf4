//! Losses as values, for code that is told which one to use, and those losses that are no method
//! of one tensor.

use crate::autograd::no_grad;
use crate::error::Result;
use crate::methods::losses::number;
use crate::methods::{CrossEntropyOptions, Reduction};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// How far a prediction is from a target.
///
/// ```
/// use straightline::nn::{L1Loss, Loss, MseLoss};
/// use straightline::tensor;
/// let losses: [(&str, Box<dyn Loss>); 2] = [("l1", Box::new(L1Loss::new())), ("mse", Box::new(MseLoss::new()))];
/// let (x, y) = (tensor([1.0, 2.0])?, tensor([1.0, 4.0])?);
/// let found: Vec<f32> = losses.iter().map(|(_, l)| l.forward(&x, &y)?.item()).collect::<Result<_, _>>()?;
/// assert_eq!(found, [1.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait Loss {
    /// The loss of a prediction.
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor>;
}

macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident |$x:ident, $y:ident, $reduction:ident| $call:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            reduction: Reduction,
        }

        impl $name {
            /// The mean over all elements.
            pub fn new() -> $name {
                $name { reduction: Reduction::Mean }
            }

            /// Put together as told.
            pub fn new_with(reduction: Reduction) -> $name {
                $name { reduction }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new()
            }
        }

        impl Loss for $name {
            #[track_caller]
            fn forward(&self, $x: &Tensor, $y: &Tensor) -> Result<Tensor> {
                let $reduction = self.reduction;
                $call
            }
        }
    )*};
}
losses! {
    /// The absolute difference.
    L1Loss |x, y, r| x.l1_loss_with(y, r);
    /// The squared difference.
    ///
    /// ```
    /// use straightline::{Reduction, nn::{Loss, MseLoss}, tensor};
    /// let loss = MseLoss::new_with(Reduction::Sum).forward(&tensor([1.0, 2.0])?, &tensor([0.0, 0.0])?)?;
    /// assert_eq!(loss.item::<f32>()?, 5.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    MseLoss |x, y, r| x.mse_loss_with(y, r);
    /// Half the squared difference where it is below 1, the absolute one beyond, less a half.
    SmoothL1Loss |x, y, r| x.smooth_l1_loss_with(y, r, 1.0);
    /// [`SmoothL1Loss`] in Huber's scale, which is the same for a delta of 1.
    HuberLoss |x, y, r| x.huber_loss_with(y, r, 1.0);
    /// The cross-entropy of probabilities and targets between 0 and 1.
    BceLoss |x, y, r| x.binary_cross_entropy_with(y, None, r);
    /// [`BceLoss`] of logits.
    BceWithLogitsLoss |x, y, r| {
        aten::binary_cross_entropy_with_logits(x, y, None, None, number(r))
    };
    /// Minus the log-probability `[batch, classes, ..]` of the right class; -100 does not count.
    NllLoss |x, y, r| aten::nll_loss_nd(x, y, None, number(r), -100);
    /// The Kullback-Leibler divergence of log-probabilities from probabilities, by element.
    KlDivLoss |x, y, r| x.kl_div_with(y, r, false);
    /// `ln(1 + exp(-y x))` of targets -1 and 1.
    SoftMarginLoss |x, y, r| aten::soft_margin_loss(x, y, number(r));
    /// `exp(x) - y x`, the loss of a logarithm of a Poisson distribution's mean.
    PoissonNllLoss |x, y, r| aten::poisson_nll_loss(x, y, true, false, 1e-8, number(r));
    /// How far other classes come within 1 of the right one.
    MultiMarginLoss |x, y, r| {
        aten::multi_margin_loss(x, y, Scalar::Int(1), Scalar::Float(1.0), None, number(r))
    };
    /// [`MultiMarginLoss`] of several right classes, listed up to -1.
    MultilabelMarginLoss |x, y, r| aten::multilabel_margin_loss(x, y, number(r));
    /// The cross-entropy of logits `[batch, classes]` and several right classes, 1 where one is: the
    /// mean of [`BceWithLogitsLoss`] over the classes.
    MultilabelSoftMarginLoss |x, y, r| {
        let each = x.log_sigmoid()?.mul(y)?.add(x.neg()?.log_sigmoid()?.mul(y.neg()?.add(1.0)?)?)?;
        let each = each.neg()?.mean_dim(-1)?;
        match r {
            Reduction::None => Ok(each),
            Reduction::Mean => each.mean(),
            Reduction::Sum => each.sum(),
        }
    };
    /// `x` of targets 1, `max(0, 1 - x)` of targets -1.
    HingeEmbeddingLoss |x, y, r| aten::hinge_embedding_loss(x, y, 1.0, number(r));
}

/// The cross-entropy of logits, with [`CrossEntropyOptions`].
///
/// ```
/// use straightline::{CrossEntropyOptions, nn::{CrossEntropyLoss, Loss}, tensor};
/// let loss = CrossEntropyLoss::new_with(CrossEntropyOptions::default().label_smoothing(0.1));
/// let found = loss.forward(&tensor([[0.0, 0.0]])?, &tensor([1])?)?;
/// straightline::assert_close(&found, &tensor(2f64.ln())?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CrossEntropyLoss {
    options: CrossEntropyOptions,
}

impl CrossEntropyLoss {
    /// The mean over all targets.
    pub fn new() -> CrossEntropyLoss {
        CrossEntropyLoss::default()
    }

    /// With class weights, smoothing and what else there is.
    pub fn new_with(options: CrossEntropyOptions) -> CrossEntropyLoss {
        CrossEntropyLoss { options }
    }
}

impl Loss for CrossEntropyLoss {
    #[track_caller]
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        input.cross_entropy_with(target, self.options.clone())
    }
}

/// How far `a` fails to be above `b` by a margin where the target is 1, or below where it is -1.
///
/// ```
/// use straightline::{Reduction, nn::margin_ranking_loss, tensor};
/// let (a, b, y) = (tensor([1.0, 0.0])?, tensor([0.0, 1.0])?, tensor([1.0, 1.0])?);
/// assert_eq!(margin_ranking_loss(&a, &b, &y, 0.5, Reduction::Sum)?.item::<f32>()?, 1.5);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn margin_ranking_loss(
    a: &Tensor,
    b: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    aten::margin_ranking_loss(a, b, target, margin, number(reduction))
}

/// One minus the cosine of vectors whose target is 1, and the cosine above a margin of those whose
/// target is -1.
///
/// ```
/// use straightline::{Reduction, nn::cosine_embedding_loss, tensor};
/// let (a, b) = (tensor([[1.0, 0.0]])?, tensor([[0.0, 1.0]])?);
/// let loss = cosine_embedding_loss(&a, &b, &tensor([1.0])?, 0.0, Reduction::Mean)?;
/// assert_eq!(loss.item::<f32>()?, 1.0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn cosine_embedding_loss(
    a: &Tensor,
    b: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    aten::cosine_embedding_loss(a, b, target, margin, number(reduction))
}

/// How far a vector fails to be nearer, by a margin, to one vector than to another.
///
/// ```
/// use straightline::{Reduction, nn::triplet_margin_loss, tensor};
/// let (a, near, far) = (tensor([[0.0, 0.0]])?, tensor([[1.0, 0.0]])?, tensor([[3.0, 0.0]])?);
/// assert_eq!(triplet_margin_loss(&a, &near, &far, 1.0, Reduction::Mean)?.item::<f32>()?, 0.0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    let reduction = number(reduction);
    aten::triplet_margin_loss(anchor, positive, negative, margin, 2.0, 1e-6, false, reduction)
}

/// Minus the log-likelihood of targets under normal distributions of these means and variances, but
/// for a constant, which `full` adds. Variances below `eps` count as `eps`.
///
/// ```
/// use straightline::{Reduction, nn::gaussian_nll_loss, tensor};
/// let (x, y, var) = (tensor([1.0, 2.0])?, tensor([1.0, 4.0])?, tensor([1.0, 2.0])?);
/// let loss = gaussian_nll_loss(&x, &y, &var, false, 1e-6, Reduction::Sum)?;
/// straightline::assert_close(&loss, &tensor(1.0 + 0.5 * 2f32.ln())?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// Sizes that do not fit, or a negative variance.
#[track_caller]
pub fn gaussian_nll_loss(
    input: &Tensor,
    target: &Tensor,
    var: &Tensor,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    // one variance for all of the last dimension
    let var = if var.dim() + 1 == input.dim() { var.unsqueeze(-1)? } else { var.clone() };
    aten::_assert_async_msg(&var.ge(0)?.all()?, "var has negative entry/entries")?;
    // the clamp has no gradient of its own
    let lacks = no_grad(|| var.clamp_min(eps)?.sub(&var))?;
    let var = var.add(lacks)?;
    let loss = input.sub(target)?.square()?.div(&var)?.add(var.log()?)?.mul(0.5)?;
    let loss = if full { loss.add(0.5 * (2.0 * std::f64::consts::PI).ln())? } else { loss };
    match reduction {
        Reduction::None => Ok(loss),
        Reduction::Mean => loss.mean(),
        Reduction::Sum => loss.sum(),
    }
}

/// Connectionist temporal classification: log-probabilities `[time, batch, classes]` against target
/// sequences `[batch, longest]`, with the lengths of both; class `blank` stands for no class.
///
/// ```
/// use straightline::{Reduction, Tensor, nn::ctc_loss, tensor};
/// let x = Tensor::zeros([2, 1, 2])?.log_softmax(-1)?;
/// let loss = ctc_loss(&x, &tensor([[1]])?, &tensor([2])?, &tensor([1])?, 0, Reduction::Sum)?;
/// straightline::assert_close(&loss, &tensor((4.0f32 / 3.0).ln())?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn ctc_loss(
    log_probabilities: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    blank: i64,
    reduction: Reduction,
) -> Result<Tensor> {
    let lengths = (input_lengths, target_lengths);
    let reduction = number(reduction);
    aten::ctc_loss_tensor(log_probabilities, targets, lengths.0, lengths.1, blank, reduction, false)
}
