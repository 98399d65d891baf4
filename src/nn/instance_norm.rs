//! Normalisation of each channel of each example, and of neighbouring channels.

use super::mode::Mode;
use super::module::Layer;
use super::norm::{Statistics, ones, torch_size, zeros};
use super::parameter::Parameter;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};

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
        ensure_value!(
            x.sizes().iter().skip(2).product::<i64>() != 1,
            "Expected more than 1 spatial element when training, got input size {}",
            torch_size(x)
        );
        aten::instance_norm(x, None, None, None, None, true, 0.1, self.eps, false)
    }
}

/// How an instance normalisation is made.
///
/// ```
/// use straightline::nn::{InstanceNorm2d, InstanceNormOptions, Module};
/// let options = InstanceNormOptions::default().affine(true).track_running_stats(true);
/// let names: Vec<String> = InstanceNorm2d::new_with(3, options)?.state_dict()?.into_keys().collect();
/// assert_eq!(names, ["bias", "num_batches_tracked", "running_mean", "running_var", "weight"]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstanceNormOptions {
    eps: f64,
    momentum: f64,
    affine: bool,
    track_running_stats: bool,
}

impl Default for InstanceNormOptions {
    fn default() -> Self {
        InstanceNormOptions { eps: 1e-5, momentum: 0.1, affine: false, track_running_stats: false }
    }
}

impl InstanceNormOptions {
    /// What is added to the variance; 1e-5.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// The part that a batch has of the next running statistics; 0.1.
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }

    /// Whether channels are scaled and shifted by parameters; no.
    #[must_use]
    pub fn affine(mut self, affine: bool) -> Self {
        self.affine = affine;
        self
    }

    /// Whether there are running statistics, by which evaluation mode normalises; no.
    #[must_use]
    pub fn track_running_stats(mut self, track: bool) -> Self {
        self.track_running_stats = track;
        self
    }
}

macro_rules! instance_norms {
    ($($(#[$doc:meta])* $name:ident, $dims:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            /// What normalised channels are multiplied by, at first 1; none unless it is wanted.
            pub weight: Option<Parameter>,
            /// What is then added, at first 0; none unless it is wanted.
            pub bias: Option<Parameter>,
            #[module(rename = "")]
            statistics: Option<Statistics>,
            channels: i64,
            #[module(skip)]
            options: InstanceNormOptions,
            #[module(training)]
            training: Mode,
        }

        impl $name {
            /// So many channels, without parameters and running statistics.
            #[track_caller]
            pub fn new(channels: impl Int) -> Result<$name> {
                $name::new_with(channels, InstanceNormOptions::default())
            }

            /// With [`InstanceNormOptions`].
            #[track_caller]
            pub fn new_with(channels: impl Int, options: InstanceNormOptions) -> Result<$name> {
                let channels = channels.to_i64();
                let tracks = options.track_running_stats;
                Ok($name {
                    weight: options.affine.then(|| ones(&[channels])).transpose()?,
                    bias: options.affine.then(|| zeros(&[channels])).transpose()?,
                    statistics: tracks.then(|| Statistics::new(channels)).transpose()?,
                    channels,
                    options,
                    training: Mode::training(),
                })
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let alone = x.dim() == $dims + 1;
                ensure_value!(
                    alone || x.dim() == $dims + 2,
                    "expected {}D or {}D input (got {}D input)",
                    $dims + 1,
                    $dims + 2,
                    x.dim()
                );
                if alone {
                    return self.forward(&x.unsqueeze(0)?)?.squeeze_dim(0);
                }
                // without parameters PyTorch only warns of another number of channels
                ensure_value!(
                    self.weight.is_none() || x.size(1)? == self.channels,
                    "expected input's size at dim=1 to match num_features ({}), but got: {}.",
                    self.channels,
                    x.size(1)?
                );
                let s = self.statistics.as_ref();
                let by_example = self.training.is_training() || s.is_none();
                ensure_value!(
                    !by_example || x.sizes()[2..].iter().product::<i64>() != 1,
                    "Expected more than 1 spatial element when training, got input size {}",
                    torch_size(x)
                );
                aten::instance_norm(
                    x,
                    self.weight.as_deref(),
                    self.bias.as_deref(),
                    s.map(|s| s.running_mean.tensor()),
                    s.map(|s| s.running_var.tensor()),
                    by_example,
                    self.options.momentum,
                    self.options.eps,
                    false,
                )
            }
        }
    )*};
}
instance_norms! {
    /// Normalises each channel of each example of `[batch, channels, length]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{InstanceNorm1d, Layer}};
    /// let y = InstanceNorm1d::new(3)?.forward(&Tensor::randn([2, 3, 16])?)?;
    /// straightline::assert_close(&y.mean_dim(-1)?, &Tensor::zeros([2, 3])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    InstanceNorm1d, 1;
    /// Normalises each channel of each example of `[batch, channels, height, width]`.
    InstanceNorm2d, 2;
    /// Normalises each channel of each example of `[batch, channels, depth, height, width]`.
    InstanceNorm3d, 3;
}

/// Divides each channel by what the squares of its neighbours sum up to: `x / (k + alpha * mean)^beta`,
/// where the mean is over `size` channels around.
///
/// ```
/// use straightline::{Tensor, nn::{Layer, LocalResponseNorm}};
/// assert_eq!(LocalResponseNorm::new(2).forward(&Tensor::ones([1, 4, 3])?)?.sizes(), [1, 4, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, straightline_derive::Module)]
pub struct LocalResponseNorm {
    size: i64,
    alpha: f64,
    beta: f64,
    k: f64,
}

impl LocalResponseNorm {
    /// Over so many channels, with an alpha of 1e-4, a beta of 0.75 and a `k` of 1.
    pub fn new(size: impl Int) -> LocalResponseNorm {
        LocalResponseNorm::new_with(size, 1e-4, 0.75, 1.0)
    }

    /// With all numbers.
    pub fn new_with(size: impl Int, alpha: f64, beta: f64, k: f64) -> LocalResponseNorm {
        LocalResponseNorm { size: size.to_i64(), alpha, beta, k }
    }
}

impl Layer for LocalResponseNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ensure_value!(
            x.dim() >= 3,
            "Expected 3D or higher dimensionality input (got {} dimensions)",
            x.dim()
        );
        ensure_value!(
            self.size > 0,
            "a local response norm has a positive size, not {}",
            self.size
        );
        // zeros around the channels, and windows over them
        let (before, after) = (self.size / 2, (self.size - 1) / 2);
        let mut pad = vec![0; 2 * (x.dim() - 1)];
        let at = 2 * (x.dim() - 2);
        (pad[at], pad[at + 1]) = (before, after);
        let windows = x.square()?.pad(pad)?.unfold(1, self.size, 1)?;
        let divisor = windows.mean_dim(-1)?.mul(self.alpha)?.add(self.k)?.pow(self.beta)?;
        x.div(divisor)
    }
}
