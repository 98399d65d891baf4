//! Normalisations: by batch, by layer, by group.

use super::module::Layer;
use super::parameter::{Buffer, Parameter};
use crate::autograd::no_grad;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};
use straightline_catalog::{DType, Dims};

fn ones(sizes: &[i64]) -> Result<Parameter> {
    Parameter::new(&Tensor::ones(sizes)?)
}

fn zeros(sizes: &[i64]) -> Result<Parameter> {
    Parameter::new(&Tensor::zeros(sizes)?)
}

/// What batch and instance normalisations have in common: statistics of each channel.
#[derive(Clone, Debug, straightline_derive::Module)]
struct Statistics {
    running_mean: Buffer,
    running_var: Buffer,
    num_batches_tracked: Buffer,
}

impl Statistics {
    #[track_caller]
    fn new(channels: i64) -> Result<Statistics> {
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

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $name:ident, [$($dims:literal),+];)*) => {$(
        $(#[$doc])*
        ///
        /// In training mode by the mean and variance of the batch, which are also averaged into
        /// running ones; in evaluation mode by these.
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            /// What normalised channels are multiplied by, at first 1.
            pub weight: Parameter,
            /// What is then added, at first 0.
            pub bias: Parameter,
            #[module(rename = "")]
            statistics: Statistics,
            eps: f64,
            momentum: f64,
            #[module(training)]
            training: bool,
        }

        impl $name {
            /// So many channels, with an epsilon of 1e-5 and a momentum of 0.1.
            #[track_caller]
            pub fn new(channels: impl Int) -> Result<$name> {
                $name::new_with(channels, 1e-5, 0.1)
            }

            /// With what is added to the variance, and with the part that a batch has of the next
            /// running statistics.
            #[track_caller]
            pub fn new_with(channels: impl Int, eps: f64, momentum: f64) -> Result<$name> {
                let channels = channels.to_i64();
                Ok($name {
                    weight: ones(&[channels])?,
                    bias: zeros(&[channels])?,
                    statistics: Statistics::new(channels)?,
                    eps,
                    momentum,
                    training: true,
                })
            }

            /// The running mean of each channel.
            pub fn running_mean(&self) -> &Tensor {
                self.statistics.running_mean.tensor()
            }

            /// The running variance of each channel.
            pub fn running_var(&self) -> &Tensor {
                self.statistics.running_var.tensor()
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                check_dims(x, &[$($dims),+])?;
                let s = &self.statistics;
                if self.training {
                    no_grad(|| s.num_batches_tracked.add_(1))?;
                }
                aten::batch_norm(
                    x,
                    Some(&self.weight),
                    Some(&self.bias),
                    Some(&s.running_mean),
                    Some(&s.running_var),
                    self.training,
                    self.momentum,
                    self.eps,
                    false,
                )
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
    pub weight: Parameter,
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
        Ok(LayerNorm { weight: ones(&shape)?, bias, shape, eps })
    }
}

impl Layer for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.layer_norm_with(&self.shape, self.weight.tensor(), self.bias.as_deref(), self.eps)
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

/// Normalises each channel of each example of `[batch, channels, ..]`, without parameters and
/// running statistics.
///
/// ```
/// use straightline::{Tensor, nn::{InstanceNorm, Layer}};
/// let y = InstanceNorm::new().forward(&Tensor::randn([2, 3, 16])?)?;
/// straightline::assert_close(&y.mean_dim(-1)?, &Tensor::zeros([2, 3])?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct InstanceNorm {
    eps: f64,
}

impl InstanceNorm {
    /// With an epsilon of 1e-5.
    pub fn new() -> InstanceNorm {
        InstanceNorm { eps: 1e-5 }
    }
}

impl Default for InstanceNorm {
    fn default() -> Self {
        InstanceNorm::new()
    }
}

impl Layer for InstanceNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        aten::instance_norm(x, None, None, None, None, true, 0.1, self.eps, false)
    }
}
