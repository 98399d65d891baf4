//! Convolutions, and what they can be told beside weights and bias.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};
use straightline_catalog::Dims;

/// What a convolution can be told: stride, padding, dilation, groups, and for a transposed one the
/// padding of the output. Each is one number for all dimensions or one for each.
///
/// ```
/// use straightline::{ConvOptions, Tensor};
/// let (image, weight) = (Tensor::ones([1, 2, 5, 5])?, Tensor::ones([4, 1, 3, 3])?);
/// let options = ConvOptions::default().stride(2).padding([1, 0]).groups(2);
/// assert_eq!(image.conv2d_with(&weight, None, options)?.shape(), [1, 4, 3, 2]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConvOptions {
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    output_padding: Dims,
    groups: i64,
}

impl Default for ConvOptions {
    fn default() -> Self {
        ConvOptions {
            stride: 1.ints(),
            padding: 0.ints(),
            dilation: 1.ints(),
            output_padding: 0.ints(),
            groups: 1,
        }
    }
}

impl ConvOptions {
    /// How far the kernel goes from one element of the result to the next; 1.
    #[must_use]
    pub fn stride(mut self, stride: impl Ints) -> Self {
        self.stride = stride.ints();
        self
    }

    /// How many zeros are in front of and behind each dimension (of a transposed convolution: left
    /// out of the result); 0.
    #[must_use]
    pub fn padding(mut self, padding: impl Ints) -> Self {
        self.padding = padding.ints();
        self
    }

    /// How far apart the elements are that neighbours in the kernel meet; 1.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Ints) -> Self {
        self.dilation = dilation.ints();
        self
    }

    /// How much larger the result of a transposed convolution is at the end; 0. Other convolutions
    /// have no use for it.
    #[must_use]
    pub fn output_padding(mut self, padding: impl Ints) -> Self {
        self.output_padding = padding.ints();
        self
    }

    /// Into how many parts the channels fall that do not see each other; 1.
    #[must_use]
    pub fn groups(mut self, groups: impl Int) -> Self {
        self.groups = groups.to_i64();
        self
    }

    /// What [`ConvOptions::groups`] has set.
    pub(crate) fn group_count(&self) -> i64 {
        self.groups
    }
}

/// One number for each dimension, where one stands for all.
pub(crate) fn each(numbers: &Dims, dims: usize) -> Dims {
    match numbers[..] {
        [n] => std::iter::repeat_n(n, dims).collect(),
        _ => numbers.clone(),
    }
}

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident, $(#[$with_doc:meta])* $with:ident, $dims:literal, |$x:ident, $w:ident, $b:ident, $o:ident| $call:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<'a>(
                &self,
                weight: impl AsRef<Tensor>,
                bias: impl Into<Option<&'a Tensor>>,
                stride: impl Ints,
                padding: impl Ints,
            ) -> Result<Tensor> {
                let options = ConvOptions::default().stride(stride).padding(padding);
                self.$with(weight, bias, options)
            }

            $(#[$with_doc])*
            #[track_caller]
            pub fn $with<'a>(
                &self,
                weight: impl AsRef<Tensor>,
                bias: impl Into<Option<&'a Tensor>>,
                options: ConvOptions,
            ) -> Result<Tensor> {
                let ($x, $w, $b) = (self, weight.as_ref(), bias.into());
                let $o = ConvOptions {
                    stride: each(&options.stride, $dims),
                    padding: each(&options.padding, $dims),
                    dilation: each(&options.dilation, $dims),
                    output_padding: each(&options.output_padding, $dims),
                    groups: options.groups,
                };
                $call
            }
        )*}
    };
}
convolutions! {
    /// The convolution of `[batch, in, length]` (or without the batch) with weights `[out, in /
    /// groups, kernel]`, a bias `[out]`, a stride and so many zeros on each side. See
    /// [`aten::conv1d`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, w) = (tensor([[[1.0, 2.0, 3.0, 4.0]]])?, tensor([[[1.0, -1.0]]])?);
    /// assert_eq!(x.conv1d(&w, None, 1, 0)?.to_vec::<f32>()?, [-1.0, -1.0, -1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv1d,
    /// [`Tensor::conv1d`] with dilation, groups and whatever else [`ConvOptions`] has.
    ///
    /// ```
    /// use straightline::{ConvOptions, tensor};
    /// let (x, w) = (tensor([[[1.0, 2.0, 4.0, 8.0]]])?, tensor([[[1.0, -1.0]]])?);
    /// let y = x.conv1d_with(&w, &tensor([10.0])?, ConvOptions::default().stride(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [9.0, 6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv1d_with, 1,
    |x, w, b, o| aten::conv1d(x, w, b, &o.stride, &o.padding, &o.dilation, o.groups);

    /// The convolution of `[batch, in, height, width]` (or without the batch) with weights `[out,
    /// in / groups, kernel height, kernel width]`, a bias `[out]`, a stride and so many zeros on
    /// each side, each one number for both dimensions or one for each. See [`aten::conv2d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (x, w) = (Tensor::ones([1, 1, 3, 4])?, Tensor::ones([1, 1, 3, 3])?);
    /// assert_eq!(x.conv2d(&w, None, 1, 0)?.to_vec::<f32>()?, [9.0, 9.0]);
    /// assert_eq!(x.conv2d(&w, &Tensor::ones(1)?, 1, 0)?.to_vec::<f32>()?, [10.0, 10.0]);
    /// assert_eq!(x.conv2d(&w, None, 2, (1, 0))?.to_vec::<f32>()?, [6.0, 6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv2d,
    /// [`Tensor::conv2d`] with dilation, groups and whatever else [`ConvOptions`] has.
    ///
    /// ```
    /// use straightline::{ConvOptions, Tensor};
    /// let (x, w) = (Tensor::ones([1, 1, 3, 3])?, Tensor::ones([1, 1, 3, 3])?);
    /// let y = x.conv2d_with(&w, None, ConvOptions::default().padding(1))?;
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv2d_with, 2,
    |x, w, b, o| aten::conv2d(x, w, b, &o.stride, &o.padding, &o.dilation, o.groups);

    /// The convolution of `[batch, in, depth, height, width]` (or without the batch) with weights
    /// `[out, in / groups, kernel depth, kernel height, kernel width]`, a bias `[out]`, a stride
    /// and so many zeros on each side, each one number for all dimensions or one for each. See
    /// [`aten::conv3d`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (x, w) = (Tensor::ones([1, 1, 2, 2, 3])?, Tensor::ones([1, 1, 2, 2, 2])?);
    /// assert_eq!(x.conv3d(&w, None, 1, 0)?.to_vec::<f32>()?, [8.0, 8.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv3d,
    /// [`Tensor::conv3d`] with dilation, groups and whatever else [`ConvOptions`] has.
    ///
    /// ```
    /// use straightline::{ConvOptions, Tensor};
    /// let (x, w) = (Tensor::ones([1, 1, 2, 2, 4])?, Tensor::ones([1, 1, 2, 2, 2])?);
    /// let y = x.conv3d_with(&w, None, ConvOptions::default().stride((1, 1, 2)))?;
    /// assert_eq!(y.to_vec::<f32>()?, [8.0, 8.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv3d_with, 3,
    |x, w, b, o| aten::conv3d(x, w, b, &o.stride, &o.padding, &o.dilation, o.groups);

    /// The transposed convolution of `[batch, in, length]` with weights `[in, out / groups,
    /// kernel]`: the gradient of [`Tensor::conv1d`] by its input. See [`aten::conv_transpose1d`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, w) = (tensor([[[1.0, 2.0]]])?, tensor([[[1.0, 10.0]]])?);
    /// assert_eq!(x.conv_transpose1d(&w, None, 1, 0)?.to_vec::<f32>()?, [1.0, 12.0, 20.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv_transpose1d,
    /// [`Tensor::conv_transpose1d`] with dilation, groups and whatever else [`ConvOptions`] has.
    ///
    /// ```
    /// use straightline::{ConvOptions, tensor};
    /// let (x, w) = (tensor([[[1.0, 2.0]]])?, tensor([[[1.0, 10.0]]])?);
    /// let y = x.conv_transpose1d_with(&w, None, ConvOptions::default().stride(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 10.0, 2.0, 20.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv_transpose1d_with, 1,
    |x, w, b, o| aten::conv_transpose1d(
        x, w, b, &o.stride, &o.padding, &o.output_padding, o.groups, &o.dilation,
    );

    /// The transposed convolution of `[batch, in, height, width]` with weights `[in, out / groups,
    /// kernel height, kernel width]`: the gradient of [`Tensor::conv2d`] by its input. See
    /// [`aten::conv_transpose2d_input`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, w) = (tensor([[[[1.0, 2.0]]]])?, tensor([[[[1.0, 10.0]]]])?);
    /// assert_eq!(x.conv_transpose2d(&w, None, 1, 0)?.to_vec::<f32>()?, [1.0, 12.0, 20.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv_transpose2d,
    /// [`Tensor::conv_transpose2d`] with dilation, groups and whatever else [`ConvOptions`] has.
    ///
    /// ```
    /// use straightline::{ConvOptions, tensor};
    /// let (x, w) = (tensor([[[[1.0, 2.0]]]])?, tensor([[[[1.0, 10.0]]]])?);
    /// let options = ConvOptions::default().stride((1, 2)).output_padding((0, 1));
    /// let y = x.conv_transpose2d_with(&w, None, options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 10.0, 2.0, 20.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv_transpose2d_with, 2,
    |x, w, b, o| aten::conv_transpose2d_input(
        x, w, b, &o.stride, &o.padding, &o.output_padding, o.groups, &o.dilation,
    );

    /// The transposed convolution of `[batch, in, depth, height, width]` with weights `[in, out /
    /// groups, kernel depth, kernel height, kernel width]`: the gradient of [`Tensor::conv3d`] by
    /// its input. See [`aten::conv_transpose3d_input`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (x, w) = (Tensor::ones([1, 1, 1, 1, 2])?, Tensor::ones([1, 1, 1, 1, 2])?);
    /// assert_eq!(x.conv_transpose3d(&w, None, 1, 0)?.to_vec::<f32>()?, [1.0, 2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv_transpose3d,
    /// [`Tensor::conv_transpose3d`] with dilation, groups and whatever else [`ConvOptions`] has.
    ///
    /// ```
    /// use straightline::{ConvOptions, Tensor};
    /// let (x, w) = (Tensor::ones([1, 1, 1, 1, 2])?, Tensor::ones([1, 1, 1, 1, 2])?);
    /// let y = x.conv_transpose3d_with(&w, None, ConvOptions::default().padding((0, 0, 1)))?;
    /// assert_eq!(y.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    conv_transpose3d_with, 3,
    |x, w, b, o| aten::conv_transpose3d_input(
        x, w, b, &o.stride, &o.padding, &o.output_padding, o.groups, &o.dilation,
    );
}
