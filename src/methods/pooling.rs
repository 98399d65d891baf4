//! Pooling over windows, and what it can be told beside the size of the windows.

use super::convolution::each;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Ints, Tensor};
use straightline_catalog::Dims;

/// What pooling can be told beside the size of its windows: stride, padding, dilation, whether
/// windows may hang over the end, and whether a mean counts padding. Each is one number for all
/// dimensions or one for each.
///
/// ```
/// use straightline::{PoolOptions, Tensor};
/// let image = Tensor::ones([1, 2, 7, 7])?;
/// assert_eq!(image.max_pool2d(2)?.shape(), [1, 2, 3, 3]);
/// assert_eq!(image.max_pool2d_with(3, PoolOptions::default().stride(2).padding(1))?.shape(), [1, 2, 4, 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    stride: Option<Dims>,
    padding: Option<Dims>,
    dilation: Option<Dims>,
    ceil_mode: bool,
    count_include_pad: Option<bool>,
}

impl PoolOptions {
    /// How far it is from one window to the next; the size of a window, so that none overlap.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> Self {
        self.stride = Some(stride.ints());
        self
    }

    /// How many elements are added in front of and behind each dimension, none of which is the
    /// largest; 0.
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> Self {
        self.padding = Some(padding.ints());
        self
    }

    /// How far apart the elements of a window are; 1. For maxima only.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> Self {
        self.dilation = Some(dilation.ints());
        self
    }

    /// Whether a last window may hang over the end; it may not.
    #[must_use]
    pub fn ceil_mode(mut self, ceil: bool) -> Self {
        self.ceil_mode = ceil;
        self
    }

    /// Whether a mean counts padding as zeros; it does. For means only.
    #[must_use]
    pub fn count_include_pad(mut self, count: bool) -> Self {
        self.count_include_pad = Some(count);
        self
    }

    /// The numbers for each dimension, the sizes of windows before them.
    fn spread(&self, kernel: &Dims, dims: usize) -> Spread {
        let or = |numbers: &Option<Dims>, n: i64| match numbers {
            Some(numbers) => each(numbers, dims),
            None => each(&n.ints(), dims),
        };
        let kernel = each(kernel, dims);
        Spread {
            stride: self.stride.as_ref().map_or_else(|| kernel.clone(), |s| each(s, dims)),
            padding: or(&self.padding, 0),
            dilation: or(&self.dilation, 1),
            ceil: self.ceil_mode,
            count: self.count_include_pad.unwrap_or(true),
            kernel,
        }
    }

    /// Fails where an option was given that the operator does not have.
    #[track_caller]
    fn refuse(&self, operator: &str, mean: bool) -> Result<()> {
        let given = match mean {
            true => self.dilation.as_ref().map(|_| "dilation"),
            false => self.count_include_pad.map(|_| "count_include_pad"),
        };
        match given {
            Some(option) => Err(Error::value(format!("{operator}() takes no `{option}`"))
                .with_location(std::panic::Location::caller())),
            None => Ok(()),
        }
    }
}

struct Spread {
    kernel: Dims,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    ceil: bool,
    count: bool,
}

macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident, $(#[$with_doc:meta])* $with:ident, $dims:literal, mean: $mean:literal, |$x:ident, $o:ident| $call:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, kernel: impl Ints) -> Result<Tensor> {
                self.$with(kernel, PoolOptions::default())
            }

            $(#[$with_doc])*
            #[track_caller]
            pub fn $with(&self, kernel: impl Ints, options: PoolOptions) -> Result<Tensor> {
                options.refuse(stringify!($name), $mean)?;
                let ($x, $o) = (self, options.spread(&kernel.ints(), $dims));
                $call
            }
        )*}
    };
}
pools! {
    /// The largest element of each window of `[batch, channels, length]`, windows beside each
    /// other. See [`aten::max_pool1d`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[[1.0, 3.0, 2.0, 0.0]]])?.max_pool1d(2)?.to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    max_pool1d,
    /// [`Tensor::max_pool1d`] with [`PoolOptions`].
    ///
    /// ```
    /// use straightline::{PoolOptions, tensor};
    /// let x = tensor([[[1.0, 3.0, 2.0, 0.0]]])?;
    /// assert_eq!(x.max_pool1d_with(2, PoolOptions::default().stride(1))?.to_vec::<f32>()?, [3.0, 3.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `count_include_pad`, which maxima do not have.
    max_pool1d_with, 1, mean: false,
    |x, o| aten::max_pool1d(x, &o.kernel, &o.stride, &o.padding, &o.dilation, o.ceil);

    /// The largest element of each window of `[batch, channels, height, width]`, windows beside
    /// each other. See [`aten::max_pool2d`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[[[1.0, 2.0], [3.0, 4.0]]]])?.max_pool2d(2)?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    max_pool2d,
    /// [`Tensor::max_pool2d`] with [`PoolOptions`].
    ///
    /// ```
    /// use straightline::{PoolOptions, tensor};
    /// let x = tensor([[[[1.0, 2.0], [3.0, 4.0]]]])?;
    /// let y = x.max_pool2d_with([1, 2], PoolOptions::default().padding((0, 1)))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `count_include_pad`, which maxima do not have.
    max_pool2d_with, 2, mean: false,
    |x, o| aten::max_pool2d(x, &o.kernel, &o.stride, &o.padding, &o.dilation, o.ceil);

    /// The largest element of each window of `[batch, channels, depth, height, width]`, windows
    /// beside each other. See [`aten::max_pool3d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::arange(8)?.float()?.reshape([1, 1, 2, 2, 2])?;
    /// assert_eq!(x.max_pool3d(2)?.to_vec::<f32>()?, [7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    max_pool3d,
    /// [`Tensor::max_pool3d`] with [`PoolOptions`].
    ///
    /// ```
    /// use straightline::{PoolOptions, Tensor};
    /// let x = Tensor::arange(8)?.float()?.reshape([1, 1, 2, 2, 2])?;
    /// let y = x.max_pool3d_with((2, 2, 1), PoolOptions::default().stride(1))?;
    /// assert_eq!(y.to_vec::<f32>()?, [6.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `count_include_pad`, which maxima do not have.
    max_pool3d_with, 3, mean: false,
    |x, o| aten::max_pool3d(x, &o.kernel, &o.stride, &o.padding, &o.dilation, o.ceil);

    /// The mean of each window of `[batch, channels, length]`, windows beside each other. See
    /// [`aten::avg_pool1d`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[[1.0, 3.0, 2.0, 0.0]]])?.avg_pool1d(2)?.to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    avg_pool1d,
    /// [`Tensor::avg_pool1d`] with [`PoolOptions`].
    ///
    /// ```
    /// use straightline::{PoolOptions, tensor};
    /// let x = tensor([[[1.0, 3.0, 2.0]]])?;
    /// let options = PoolOptions::default().padding(1).count_include_pad(false);
    /// assert_eq!(x.avg_pool1d_with(2, options)?.to_vec::<f32>()?, [1.0, 2.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `dilation`, which means do not have.
    avg_pool1d_with, 1, mean: true,
    |x, o| aten::avg_pool1d(x, &o.kernel, &o.stride, &o.padding, o.ceil, o.count);

    /// The mean of each window of `[batch, channels, height, width]`, windows beside each other.
    /// See [`aten::avg_pool2d`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[[[1.0, 2.0], [3.0, 4.0]]]])?.avg_pool2d(2)?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    avg_pool2d,
    /// [`Tensor::avg_pool2d`] with [`PoolOptions`].
    ///
    /// ```
    /// use straightline::{PoolOptions, tensor};
    /// let x = tensor([[[[1.0, 2.0], [3.0, 4.0]]]])?;
    /// assert_eq!(x.avg_pool2d_with((1, 2), PoolOptions::default().stride(1))?.to_vec::<f32>()?, [1.5, 3.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `dilation`, which means do not have.
    avg_pool2d_with, 2, mean: true,
    |x, o| aten::avg_pool2d(x, &o.kernel, &o.stride, &o.padding, o.ceil, o.count, None);

    /// The mean of each window of `[batch, channels, depth, height, width]`, windows beside each
    /// other. See [`aten::avg_pool3d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::arange(8)?.float()?.reshape([1, 1, 2, 2, 2])?;
    /// assert_eq!(x.avg_pool3d(2)?.to_vec::<f32>()?, [3.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    avg_pool3d,
    /// [`Tensor::avg_pool3d`] with [`PoolOptions`].
    ///
    /// ```
    /// use straightline::{PoolOptions, Tensor};
    /// let x = Tensor::arange(8)?.float()?.reshape([1, 1, 2, 2, 2])?;
    /// let y = x.avg_pool3d_with((2, 2, 1), PoolOptions::default().stride(1))?;
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `dilation`, which means do not have.
    avg_pool3d_with, 3, mean: true,
    |x, o| aten::avg_pool3d(x, &o.kernel, &o.stride, &o.padding, o.ceil, o.count, None);
}
