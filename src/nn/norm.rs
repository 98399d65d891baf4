//! Normalisations: by batch, by layer, by group.

use super::mode::Mode;
use super::module::Layer;
use super::parameter::{Buffer, Parameter};
use crate::autograd::no_grad;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};
use straightline_catalog::{DType, Dims};

pub(super) fn ones(sizes: &[i64]) -> Result<Parameter> {
    Parameter::new(&Tensor::ones(sizes)?)
}

pub(super) fn zeros(sizes: &[i64]) -> Result<Parameter> {
    Parameter::new(&Tensor::zeros(sizes)?)
}

/// What batch and instance normalisations have in common: statistics of each channel.
#[derive(Clone, Debug, straightline_derive::Module)]
pub(super) struct Statistics {
    pub(super) running_mean: Buffer,
    pub(super) running_var: Buffer,
    pub(super) num_batches_tracked: Buffer,
}

impl Statistics {
    #[track_caller]
    pub(super) fn new(channels: i64) -> Result<Statistics> {
        Ok(Statistics {
            running_mean: Buffer::new(Tensor::zeros([channels])?),
            running_var: Buffer::new(Tensor::ones([channels])?),
            num_batches_tracked: Buffer::new(Tensor::with(DType::I64).literal(0)?),
        })
    }
}

/// Refuses what has not one of these numbers of dimensions, as PyTorch's layers do.
#[track_caller]
fn check_dims(x: &Tensor, dims: &[usize]) -> Result<()> {
    let known: Vec<String> = dims.iter().map(|d| format!("{d}D")).collect();
    ensure_value!(
        dims.contains(&x.dim()),
        "expected {} input (got {}D input)",
        known.join(" or "),
        x.dim()
    );
    Ok(())
}

/// How a batch normalisation is made.
///
/// ```
/// use straightline::nn::{BatchNorm1d, BatchNormOptions, Layer, Module};
/// use straightline::{Tensor, func::vmap};
/// let options = BatchNormOptions { track_running_stats: false, affine: false, ..Default::default() };
/// let layer = BatchNorm1d::with_options(3, options)?;
/// assert!(layer.parameters().is_empty() && layer.named_buffers().is_empty());
/// // without running statistics, that all samples would share, it can be batched
/// let y = vmap(|x: &Tensor| layer.forward(x))(&Tensor::randn([2, 4, 3])?)?;
/// assert_eq!(y.sizes(), [2, 4, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormOptions {
    /// What is added to the variance; 1e-5.
    pub eps: f64,
    /// The part that a batch has of the next running statistics; 0.1. `None` averages all batches
    /// alike.
    pub momentum: Option<f64>,
    /// Whether channels are scaled and shifted by parameters; yes.
    pub affine: bool,
    /// Whether there are running statistics, by which evaluation mode normalises; yes. Without,
    /// it normalises by the batch's own.
    pub track_running_stats: bool,
}

impl Default for BatchNormOptions {
    fn default() -> Self {
        BatchNormOptions { eps: 1e-5, momentum: Some(0.1), affine: true, track_running_stats: true }
    }
}

/// PyTorch's words for sizes.
pub(super) fn torch_size(x: &Tensor) -> String {
    let sizes: Vec<String> = x.sizes().iter().map(ToString::to_string).collect();
    format!("torch.Size([{}])", sizes.join(", "))
}

/// A batch normalisation of a tensor.
#[track_caller]
fn batch_norm(
    x: &Tensor,
    (weight, bias): (Option<&Tensor>, Option<&Tensor>),
    statistics: Option<&Statistics>,
    o: &BatchNormOptions,
    training: bool,
) -> Result<Tensor> {
    let by_batch = training || statistics.is_none();
    if by_batch {
        let values = x.sizes()[0] * x.sizes()[2..].iter().product::<i64>();
        ensure_value!(
            values != 1,
            "Expected more than 1 value per channel when training, got input size {}",
            torch_size(x)
        );
    }
    let Some(s) = statistics else {
        return aten::batch_norm(x, weight, bias, None, None, true, 0.0, o.eps, false);
    };
    let (mean, var) = (s.running_mean.tensor(), s.running_var.tensor());
    if training {
        no_grad(|| s.num_batches_tracked.add_(1))?;
    }
    if let (true, None) = (training, o.momentum) {
        // the statistics of this batch alone, of which the running ones get an equal part
        let (own_mean, own_var) = (mean.zeros_like()?, var.zeros_like()?);
        let (m, v) = (Some(&own_mean), Some(&own_var));
        let y = aten::batch_norm(x, weight, bias, m, v, true, 1.0, o.eps, false)?;
        no_grad(|| {
            let part = s.num_batches_tracked.to_dtype(mean.dtype())?.reciprocal()?;
            let rest = part.neg()?.add(1.0)?;
            mean.mul_(&rest)?.add_(own_mean.mul(&part)?)?;
            var.mul_(&rest)?.add_(own_var.mul(&part)?)
        })?;
        return Ok(y);
    }
    let momentum = o.momentum.unwrap_or(0.0);
    aten::batch_norm(x, weight, bias, Some(mean), Some(var), training, momentum, o.eps, false)
}

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $name:ident, [$($dims:literal),+];)*) => {$(
        $(#[$doc])*
        ///
        /// In training mode by the mean and variance of the batch, which are also averaged into
        /// running ones; in evaluation mode by these.
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            /// What normalised channels are multiplied by, at first 1.
            pub weight: Option<Parameter>,
            /// What is then added, at first 0.
            pub bias: Option<Parameter>,
            #[module(rename = "")]
            statistics: Option<Statistics>,
            #[module(skip)]
            options: BatchNormOptions,
            #[module(training)]
            training: Mode,
        }

        impl $name {
            /// So many channels, with an epsilon of 1e-5 and a momentum of 0.1.
            #[track_caller]
            pub fn new(channels: impl Int) -> Result<$name> {
                $name::with_options(channels, BatchNormOptions::default())
            }

            /// With what is added to the variance, and with the part that a batch has of the next
            /// running statistics.
            #[track_caller]
            pub fn new_with(channels: impl Int, eps: f64, momentum: f64) -> Result<$name> {
                let momentum = Some(momentum);
                let options = BatchNormOptions { eps, momentum, ..BatchNormOptions::default() };
                $name::with_options(channels, options)
            }

            /// With all options.
            #[track_caller]
            pub fn with_options(channels: impl Int, options: BatchNormOptions) -> Result<$name> {
                let channels = channels.to_i64();
                let tracks = options.track_running_stats;
                Ok($name {
                    weight: options.affine.then(|| ones(&[channels])).transpose()?,
                    bias: options.affine.then(|| zeros(&[channels])).transpose()?,
                    statistics: tracks.then(|| Statistics::new(channels)).transpose()?,
                    options,
                    training: Mode::training(),
                })
            }

            /// The running mean of each channel, where it is tracked.
            pub fn running_mean(&self) -> Option<&Tensor> {
                self.statistics.as_ref().map(|s| s.running_mean.tensor())
            }

            /// The running variance of each channel, where it is tracked.
            pub fn running_var(&self) -> Option<&Tensor> {
                self.statistics.as_ref().map(|s| s.running_var.tensor())
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                check_dims(x, &[$($dims),+])?;
                let parameters = (self.weight.as_deref(), self.bias.as_deref());
                let statistics = self.statistics.as_ref();
                batch_norm(x, parameters, statistics, &self.options, self.training.is_training())
            }
        }
    )*};
}
batch_norms! {
    /// Normalises each channel of `[batch, channels]` or `[batch, channels, length]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{BatchNorm1d, Layer}};
    /// let layer = BatchNorm1d::new(3)?;
    /// let y = layer.forward(&Tensor::randn([64, 3])?.mul(5.0)?)?;
    /// straightline::assert_close(&y.mean_dim(0)?, &Tensor::zeros([3])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    BatchNorm1d, [2, 3];

    /// Normalises each channel of `[batch, channels, height, width]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{BatchNorm2d, Layer, Module}};
    /// let mut layer = BatchNorm2d::new(3)?;
    /// layer.forward(&Tensor::randn([4, 3, 5, 5])?)?;
    /// layer.eval();
    /// assert_eq!(layer.forward(&Tensor::randn([1, 3, 5, 5])?)?.sizes(), [1, 3, 5, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    BatchNorm2d, [4];

    /// Normalises each channel of `[batch, channels, depth, height, width]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{BatchNorm3d, Layer}};
    /// assert!(BatchNorm3d::new(3)?.forward(&Tensor::ones([4, 3])?).is_err());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    BatchNorm3d, [5];
}

/// Normalises the last dimensions, those of the given sizes, then scales and shifts.
///
/// ```
/// use straightline::{Tensor, nn::{Layer, LayerNorm}};
/// let layer = LayerNorm::new(8)?;
/// let y = layer.forward(&Tensor::randn([2, 3, 8])?)?;
/// straightline::assert_close(&y.mean_dim(-1)?, &Tensor::zeros([2, 3])?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct LayerNorm {
    /// Of the sizes of what is normalised; at first 1.
    pub weight: Option<Parameter>,
    /// Of the same sizes; at first 0.
    pub bias: Option<Parameter>,
    shape: Dims,
    eps: f64,
}

impl LayerNorm {
    /// With scale, shift and an epsilon of 1e-5.
    #[track_caller]
    pub fn new(shape: impl Ints) -> Result<LayerNorm> {
        LayerNorm::new_with(shape, 1e-5, true)
    }

    /// With what is added to the variance, and a shift if one is wanted.
    #[track_caller]
    pub fn new_with(shape: impl Ints, eps: f64, bias: bool) -> Result<LayerNorm> {
        let shape = shape.ints();
        let bias = bias.then(|| zeros(&shape)).transpose()?;
        Ok(LayerNorm { weight: Some(ones(&shape)?), bias, shape, eps })
    }

    /// Without scale and shift, with what is added to the variance.
    ///
    /// ```
    /// use straightline::nn::{LayerNorm, Module};
    /// assert!(LayerNorm::without_affine(8, 1e-5).parameters().is_empty());
    /// ```
    pub fn without_affine(shape: impl Ints, eps: f64) -> LayerNorm {
        LayerNorm { weight: None, bias: None, shape: shape.ints(), eps }
    }
}

impl Layer for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        aten::layer_norm(x, &self.shape, weight, bias, self.eps, false)
    }
}

/// Divides the last dimensions by the root of their mean square, then scales.
///
/// ```
/// use straightline::{Tensor, nn::{Layer, RmsNorm}};
/// let y = RmsNorm::new(8)?.forward(&Tensor::randn([3, 8])?)?;
/// straightline::assert_close(&y.square()?.mean_dim(-1)?, &Tensor::ones([3])?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct RmsNorm {
    /// Of the sizes of what is normalised; at first 1.
    pub weight: Parameter,
    shape: Dims,
    eps: Option<f64>,
}

impl RmsNorm {
    /// With the epsilon of the dtype.
    #[track_caller]
    pub fn new(shape: impl Ints) -> Result<RmsNorm> {
        RmsNorm::new_with(shape, None)
    }

    /// With what is added to the mean square.
    #[track_caller]
    pub fn new_with(shape: impl Ints, eps: impl Into<Option<f64>>) -> Result<RmsNorm> {
        let shape = shape.ints();
        Ok(RmsNorm { weight: ones(&shape)?, shape, eps: eps.into() })
    }
}

impl Layer for RmsNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        aten::rms_norm(x, &self.shape, Some(&self.weight), self.eps)
    }
}

/// Normalises groups of channels of `[batch, channels, ..]`, then scales and shifts each channel.
///
/// ```
/// use straightline::{Tensor, nn::{GroupNorm, Layer}};
/// let layer = GroupNorm::new(2, 6)?;
/// assert_eq!(layer.forward(&Tensor::randn([4, 6, 5])?)?.sizes(), [4, 6, 5]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct GroupNorm {
    /// `[channels]`; at first 1.
    pub weight: Parameter,
    /// `[channels]`; at first 0.
    pub bias: Parameter,
    groups: i64,
    eps: f64,
}

impl GroupNorm {
    /// With an epsilon of 1e-5.
    ///
    /// # Errors
    /// The groups do not divide the channels.
    #[track_caller]
    pub fn new(groups: impl Int, channels: impl Int) -> Result<GroupNorm> {
        GroupNorm::new_with(groups, channels, 1e-5)
    }

    /// With what is added to the variance.
    ///
    /// # Errors
    /// As [`GroupNorm::new`].
    #[track_caller]
    pub fn new_with(groups: impl Int, channels: impl Int, eps: f64) -> Result<GroupNorm> {
        let (groups, channels) = (groups.to_i64(), channels.to_i64());
        ensure_value!(
            groups > 0 && channels % groups == 0,
            "num_channels must be divisible by num_groups"
        );
        Ok(GroupNorm { weight: ones(&[channels])?, bias: zeros(&[channels])?, groups, eps })
    }
}

impl Layer for GroupNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.group_norm_with(self.groups, self.weight.tensor(), self.bias.tensor(), self.eps)
    }
}
