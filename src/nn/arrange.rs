//! Layers that move elements: margins, other sizes, channels and space.

use super::module::Layer;
use crate::error::Result;
use crate::methods::InterpolateOptions;
use crate::methods::convolution::each;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};
use straightline_catalog::Dims;

macro_rules! pads {
    ($($(#[$doc:meta])* $name:ident, $mode:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            padding: Dims,
        }

        impl $name {
            /// So many elements before and behind, a pair for the last dimension, then for the one
            /// before it, and so on. One number is for all sides of all dimensions behind batch and
            /// channels.
            pub fn new(padding: impl Ints) -> $name {
                $name { padding: padding.ints() }
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.pad_with(around(&self.padding, x), $mode, None)
            }
        }
    )*};
}
pads! {
    /// Zeros around `[batch, channels, ..]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Layer, ZeroPad}};
    /// assert_eq!(ZeroPad::new(1).forward(&Tensor::ones([1, 2, 3, 4])?)?.sizes(), [1, 2, 5, 6]);
    /// assert_eq!(ZeroPad::new((1, 2)).forward(&Tensor::ones([1, 2, 3, 4])?)?.sizes(), [1, 2, 3, 7]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ZeroPad, "constant";
    /// Elements as in a mirror around `[batch, channels, ..]`, without those at the edge.
    ///
    /// ```
    /// use straightline::{nn::{Layer, ReflectionPad}, tensor};
    /// let y = ReflectionPad::new(2).forward(&tensor([[[1.0, 2.0, 3.0]]])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ReflectionPad, "reflect";
    /// The elements at the edge, again and again, around `[batch, channels, ..]`.
    ReplicationPad, "replicate";
    /// The elements from the other side around `[batch, channels, ..]`.
    CircularPad, "circular";
}

/// One number around `[batch, channels, ..]`.
///
/// ```
/// use straightline::{nn::{ConstantPad, Layer}, tensor};
/// let y = ConstantPad::new((1, 0), 9.0).forward(&tensor([[[1.0, 2.0]]])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [9.0, 1.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct ConstantPad {
    padding: Dims,
    value: f64,
}

impl ConstantPad {
    /// So many elements, as [`ZeroPad`] has them, of this value.
    pub fn new(padding: impl Ints, value: f64) -> ConstantPad {
        ConstantPad { padding: padding.ints(), value }
    }
}

impl Layer for ConstantPad {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.pad_with(around(&self.padding, x), "constant", self.value)
    }
}

/// The numbers for all sides.
fn around(padding: &Dims, x: &Tensor) -> Dims {
    match padding.as_slice() {
        [all] => std::iter::repeat_n(*all, 2 * x.dim().saturating_sub(2)).collect(),
        _ => padding.clone(),
    }
}

/// `[batch, channels, ..]` in another size, as [`Tensor::interpolate_with`] does it.
///
/// ```
/// use straightline::{InterpolateOptions, Tensor, nn::{Layer, Upsample}};
/// let layer = Upsample::new(InterpolateOptions::default().scale(2).mode("bilinear"));
/// assert_eq!(layer.forward(&Tensor::ones([1, 3, 4, 5])?)?.sizes(), [1, 3, 8, 10]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Upsample {
    #[module(skip)]
    options: InterpolateOptions,
}

impl Upsample {
    /// With a size or a scale, and a mode.
    pub fn new(options: InterpolateOptions) -> Upsample {
        Upsample { options }
    }
}

impl Layer for Upsample {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.interpolate_with(self.options.clone())
    }
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident, $call:path;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, straightline_derive::Module)]
        pub struct $name(pub i64);

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                $call(x, self.0)
            }
        }
    )*};
}
shuffles! {
    /// `[.., channels * r * r, height, width]` as `[.., channels, height * r, width * r]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Layer, PixelShuffle}};
    /// assert_eq!(PixelShuffle(2).forward(&Tensor::ones([1, 8, 3, 3])?)?.sizes(), [1, 2, 6, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    PixelShuffle, aten::pixel_shuffle;
    /// What [`PixelShuffle`] takes back.
    PixelUnshuffle, aten::pixel_unshuffle;
    /// Channels of so many groups, one of each group after the other.
    ChannelShuffle, aten::channel_shuffle;
}

/// One dimension as several.
///
/// ```
/// use straightline::{Tensor, nn::{Layer, Unflatten}};
/// assert_eq!(Unflatten::new(1, (2, 3)).forward(&Tensor::ones([4, 6])?)?.sizes(), [4, 2, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Unflatten {
    dim: i64,
    sizes: Dims,
}

impl Unflatten {
    /// This dimension in these sizes.
    pub fn new(dim: impl Int, sizes: impl Ints) -> Unflatten {
        Unflatten { dim: dim.to_i64(), sizes: sizes.ints() }
    }
}

impl Layer for Unflatten {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.unflatten(self.dim, self.sizes.as_slice())
    }
}

/// How windows lie, for [`Unfold`] and [`Fold`]: beside each other, every element of them, without
/// zeros around, unless told otherwise.
///
/// ```
/// use straightline::{Tensor, nn::{Layer, Unfold, WindowOptions}};
/// let layer = Unfold::new(3, WindowOptions::default().stride(1).padding(1));
/// assert_eq!(layer.forward(&Tensor::ones([1, 2, 4, 5])?)?.sizes(), [1, 18, 20]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowOptions {
    stride: Dims,
    padding: Dims,
    dilation: Dims,
}

impl Default for WindowOptions {
    fn default() -> Self {
        WindowOptions { stride: 1.ints(), padding: 0.ints(), dilation: 1.ints() }
    }
}

impl WindowOptions {
    /// From one window to the next; 1.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> Self {
        self.stride = stride.ints();
        self
    }

    /// Zeros on each side; 0.
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> Self {
        self.padding = padding.ints();
        self
    }

    /// From one element of a window to the next; 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> Self {
        self.dilation = dilation.ints();
        self
    }
}

/// The windows of `[batch, channels, height, width]`: `[batch, channels * window, windows]`.
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Unfold {
    kernel: Dims,
    #[module(skip)]
    options: WindowOptions,
}

impl Unfold {
    /// Windows of this size.
    pub fn new(kernel: impl Ints, options: WindowOptions) -> Unfold {
        Unfold { kernel: kernel.ints(), options }
    }
}

impl Layer for Unfold {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (kernel, o) = (each(&self.kernel, 2), &self.options);
        aten::im2col(x, &kernel, &each(&o.dilation, 2), &each(&o.padding, 2), &each(&o.stride, 2))
    }
}

/// Sums windows up to `[batch, channels, height, width]`: what [`Unfold`] takes apart.
///
/// ```
/// use straightline::{Tensor, nn::{Fold, Layer, WindowOptions}};
/// let layer = Fold::new((4, 4), 2, WindowOptions::default().stride(2));
/// assert_eq!(layer.forward(&Tensor::ones([1, 12, 4])?)?.sizes(), [1, 3, 4, 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Fold {
    sizes: Dims,
    kernel: Dims,
    #[module(skip)]
    options: WindowOptions,
}

impl Fold {
    /// A result of these sizes from windows of this size.
    pub fn new(sizes: impl Ints, kernel: impl Ints, options: WindowOptions) -> Fold {
        Fold { sizes: sizes.ints(), kernel: kernel.ints(), options }
    }
}

impl Layer for Fold {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (sizes, kernel, o) = (each(&self.sizes, 2), each(&self.kernel, 2), &self.options);
        let (dilation, padding) = (each(&o.dilation, 2), each(&o.padding, 2));
        aten::col2im(x, &sizes, &kernel, &dilation, &padding, &each(&o.stride, 2))
    }
}
