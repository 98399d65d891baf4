//! Activations and other layers without parameters, as layers for [`Sequential`](super::Sequential).

use super::mode::Mode;
use super::module::Layer;
use super::parameter::Parameter;
use crate::error::Result;
use crate::methods::PoolOptions;
use crate::methods::convolution::each;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};
use straightline_catalog::Dims;

/// Layers that are one method.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident |$x:ident| $call:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, straightline_derive::Module)]
        pub struct $name;

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                $call
            }
        }
    )*};
}
functions! {
    /// Gives what it gets.
    Identity |x| Ok(x.clone());
    /// `max(x, 0)`.
    ///
    /// ```
    /// use straightline::{nn::{Layer, Relu}, tensor};
    /// assert_eq!(Relu.forward(&tensor([-1.0, 2.0])?)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    Relu |x| x.relu();
    /// `min(max(x, 0), 6)`.
    Relu6 |x| x.relu6();
    /// `x` where it is positive, a hundredth of it elsewhere.
    LeakyRelu |x| x.leaky_relu();
    /// `x Φ(x)`, exactly.
    Gelu |x| x.gelu();
    /// `x Φ(x)`, by a tanh.
    GeluTanh |x| x.gelu_tanh();
    /// `x / (1 + exp(-x))`.
    Silu |x| x.silu();
    /// `x tanh(ln(1 + exp(x)))`.
    Mish |x| x.mish();
    /// `tanh(x)`.
    Tanh |x| x.tanh();
    /// `1 / (1 + exp(-x))`.
    Sigmoid |x| x.sigmoid();
    /// `ln(sigmoid(x))`.
    LogSigmoid |x| x.log_sigmoid();
    /// `ln(1 + exp(x))`.
    Softplus |x| x.softplus();
    /// `x / (1 + |x|)`.
    Softsign |x| x.div(x.abs()?.add(1.0)?);
    /// `x - tanh(x)`.
    Tanhshrink |x| x.sub(x.tanh()?);
    /// `x` where it is positive, `exp(x) - 1` elsewhere.
    Elu |x| x.elu();
    /// ELU that keeps mean and variance.
    Selu |x| x.selu();
    /// CELU with an alpha of 1.
    Celu |x| x.celu();
    /// Clamped to -1 and 1.
    Hardtanh |x| x.hardtanh();
    /// Sigmoid, piecewise linear.
    Hardsigmoid |x| x.hardsigmoid();
    /// SiLU, piecewise quadratic.
    Hardswish |x| x.hardswish();
    /// The first half of the last dimension times the sigmoid of the second.
    Glu |x| x.glu();
    /// 0 between -0.5 and 0.5, `x` elsewhere.
    Hardshrink |x| x.hardshrink();
    /// What of `x` is beyond -0.5 and 0.5.
    Softshrink |x| x.softshrink();
}

/// Exponentials that sum to 1 along a dimension.
///
/// ```
/// use straightline::{nn::{Layer, Softmax}, tensor};
/// assert_eq!(Softmax(-1).forward(&tensor([0.0, 0.0])?)?.to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, straightline_derive::Module)]
pub struct Softmax(pub i64);

impl Layer for Softmax {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.softmax(self.0)
    }
}

/// [`Softmax`] of `-x`.
#[derive(Clone, Copy, Debug, straightline_derive::Module)]
pub struct Softmin(pub i64);

impl Layer for Softmin {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.neg()?.softmax(self.0)
    }
}

/// `x` where it is above a threshold, a value elsewhere.
///
/// ```
/// use straightline::{nn::{Layer, Threshold}, tensor};
/// let layer = Threshold { threshold: 1.0, value: 9.0 };
/// assert_eq!(layer.forward(&tensor([1.0, 2.0])?)?.to_vec::<f32>()?, [9.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, straightline_derive::Module)]
pub struct Threshold {
    /// What `x` has to be above.
    pub threshold: f64,
    /// What is there otherwise.
    pub value: f64,
}

impl Layer for Threshold {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.threshold(self.threshold, self.value)
    }
}

/// The logarithm of [`Softmax`].
#[derive(Clone, Copy, Debug, straightline_derive::Module)]
pub struct LogSoftmax(pub i64);

impl Layer for LogSoftmax {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.log_softmax(self.0)
    }
}

/// A leaky ReLU whose slope is trained, one for all channels or one for each.
///
/// ```
/// use straightline::{nn::{Layer, Prelu}, tensor};
/// assert_eq!(Prelu::new(1)?.forward(&tensor([-4.0, 2.0])?)?.to_vec::<f32>()?, [-1.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Prelu {
    /// `[channels]` or `[1]`; at first 0.25.
    pub weight: Parameter,
}

impl Prelu {
    /// So many slopes.
    #[track_caller]
    pub fn new(slopes: impl Int) -> Result<Prelu> {
        let weight = Tensor::ones([slopes.to_i64()])?.mul(0.25)?;
        Ok(Prelu { weight: Parameter::new(&weight)? })
    }
}

impl Layer for Prelu {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.prelu(&self.weight)
    }
}

/// All dimensions but the first as one.
///
/// ```
/// use straightline::{Tensor, nn::{Flatten, Layer}};
/// assert_eq!(Flatten::new().forward(&Tensor::ones([2, 3, 4])?)?.sizes(), [2, 12]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, straightline_derive::Module)]
pub struct Flatten {
    start: i64,
    end: i64,
}

impl Flatten {
    /// From dimension 1 to the last.
    pub fn new() -> Flatten {
        Flatten { start: 1, end: -1 }
    }

    /// From one dimension to another, both included.
    pub fn dims(start: impl Int, end: impl Int) -> Flatten {
        Flatten { start: start.to_i64(), end: end.to_i64() }
    }
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten::new()
    }
}

impl Layer for Flatten {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten_dims(self.start, self.end)
    }
}

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident |$x:ident, $p:ident, $training:ident| $call:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            p: f64,
            #[module(training)]
            training: Mode,
        }

        impl $name {
            /// With the part that becomes zero, 0 to 1.
            ///
            /// # Errors
            /// It is not between 0 and 1.
            #[track_caller]
            pub fn new(p: impl Into<f64>) -> Result<$name> {
                let p = p.into();
                ensure_value!(
                    (0.0..=1.0).contains(&p),
                    "dropout probability has to be between 0 and 1, but got {p}"
                );
                Ok($name { p, training: Mode::training() })
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let ($p, $training) = (self.p, self.training.is_training());
                $call
            }
        }
    )*};
}
dropouts! {
    /// In training mode each element becomes zero with probability `p`, and the others are divided
    /// by `1 - p`; in evaluation mode nothing happens.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Dropout, Layer}};
    /// let y = Dropout::new(0.5)?.forward(&Tensor::ones([100])?)?.to_vec::<f32>()?;
    /// assert!(y.iter().all(|v| *v == 0.0 || *v == 2.0));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    Dropout |x, p, training| aten::dropout(x, p, training);
    /// [`Dropout`] of whole channels, of `[batch, channels, ..]`.
    ChannelDropout |x, p, training| aten::feature_dropout(x, p, training);
    /// [`Dropout`] that keeps mean and variance, for [`Selu`].
    AlphaDropout |x, p, training| aten::alpha_dropout(x, p, training);
    /// [`AlphaDropout`] of whole channels, of `[batch, channels, ..]`.
    FeatureAlphaDropout |x, p, training| aten::feature_alpha_dropout(x, p, training);
}

macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident, $forward:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            kernel: Dims,
            #[module(skip)]
            options: PoolOptions,
        }

        impl $name {
            /// Windows beside each other, without padding.
            pub fn new(kernel: impl Ints) -> $name {
                $name::new_with(kernel, PoolOptions::default())
            }

            /// With [`PoolOptions`].
            pub fn new_with(kernel: impl Ints, options: PoolOptions) -> $name {
                $name { kernel: kernel.ints(), options }
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$forward(&self.kernel, self.options.clone())
            }
        }
    )*};
}
pools! {
    /// The largest element of each window of `[batch, channels, length]`.
    MaxPool1d, max_pool1d_with;
    /// The largest element of each window of `[batch, channels, height, width]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Layer, MaxPool2d}};
    /// assert_eq!(MaxPool2d::new(2).forward(&Tensor::ones([1, 3, 8, 8])?)?.sizes(), [1, 3, 4, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    MaxPool2d, max_pool2d_with;
    /// The mean of each window of `[batch, channels, length]`.
    AvgPool1d, avg_pool1d_with;
    /// The mean of each window of `[batch, channels, height, width]`.
    AvgPool2d, avg_pool2d_with;
    /// The largest element of each window of `[batch, channels, depth, height, width]`.
    MaxPool3d, max_pool3d_with;
    /// The mean of each window of `[batch, channels, depth, height, width]`.
    AvgPool3d, avg_pool3d_with;
}

macro_rules! adaptive {
    ($($(#[$doc:meta])* $name:ident |$x:ident, $sizes:ident| $call:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            sizes: Dims,
        }

        impl $name {
            /// With the sizes of the result.
            pub fn new(sizes: impl Ints) -> $name {
                $name { sizes: sizes.ints() }
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, $x: &Tensor) -> Result<Tensor> {
                let $sizes = &self.sizes;
                $call
            }
        }
    )*};
}
adaptive! {
    /// Means of windows that give a result of this length.
    AdaptiveAvgPool1d |x, sizes| x.adaptive_avg_pool1d(sizes);
    /// Means of windows that give a result of these sizes.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{AdaptiveAvgPool2d, Layer}};
    /// assert_eq!(AdaptiveAvgPool2d::new(1).forward(&Tensor::ones([1, 3, 8, 8])?)?.sizes(), [1, 3, 1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    AdaptiveAvgPool2d |x, sizes| x.adaptive_avg_pool2d(sizes);
    /// Means of windows that give a result of these three sizes.
    AdaptiveAvgPool3d |x, sizes| x.adaptive_avg_pool3d(sizes);
    /// The largest elements of windows that give a result of this length.
    AdaptiveMaxPool1d |x, sizes| Ok(aten::adaptive_max_pool1d(x, &each(sizes, 1))?.0);
    /// The largest elements of windows that give a result of these sizes.
    AdaptiveMaxPool2d |x, sizes| Ok(x.adaptive_max_pool2d(sizes)?.0);
    /// The largest elements of windows that give a result of these three sizes.
    AdaptiveMaxPool3d |x, sizes| Ok(aten::adaptive_max_pool3d(x, &each(sizes, 3))?.0);
}
