//! Convolutions with their weights.

use super::init;
use super::module::Layer;
use super::parameter::Parameter;
use crate::error::Result;
use crate::methods::ConvOptions;
use crate::methods::convolution::each;
use crate::tensor::{Int, Ints, Tensor};

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident, $dims:literal, $forward:ident, transposed: $transposed:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, straightline_derive::Module)]
        pub struct $name {
            /// `[outputs, inputs / groups, kernel]`; of a transposed one `[inputs, outputs / groups,
            /// kernel]`.
            pub weight: Parameter,
            /// `[outputs]`.
            pub bias: Option<Parameter>,
            #[module(skip)]
            options: ConvOptions,
        }

        impl $name {
            /// A layer with a bias, stride 1 and no padding. The kernel's size is one number for all
            /// dimensions or one for each.
            #[track_caller]
            pub fn new(inputs: impl Int, outputs: impl Int, kernel: impl Ints) -> Result<$name> {
                $name::new_with(inputs, outputs, kernel, ConvOptions::default(), true)
            }

            /// A layer with [`ConvOptions`], and a bias if one is wanted. It begins as PyTorch's.
            ///
            /// # Errors
            /// The groups do not divide the channels.
            #[track_caller]
            pub fn new_with(
                inputs: impl Int,
                outputs: impl Int,
                kernel: impl Ints,
                options: ConvOptions,
                bias: bool,
            ) -> Result<$name> {
                let (inputs, outputs) = (inputs.to_i64(), outputs.to_i64());
                let groups = options.group_count();
                ensure_value!(groups > 0, "groups must be a positive integer");
                ensure_value!(inputs % groups == 0, "in_channels must be divisible by groups");
                ensure_value!(outputs % groups == 0, "out_channels must be divisible by groups");
                let (first, second) = match $transposed {
                    true => (inputs, outputs / groups),
                    false => (outputs, inputs / groups),
                };
                let mut sizes = vec![first, second];
                sizes.extend(each(&kernel.ints(), $dims));
                let weight = Tensor::empty(sizes)?;
                let bias = bias.then(|| Tensor::empty([outputs])).transpose()?;
                init::affine(&weight, bias.as_ref())?;
                Ok($name {
                    weight: Parameter::new(&weight)?,
                    bias: bias.as_ref().map(Parameter::new).transpose()?,
                    options,
                })
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                x.$forward(&self.weight, self.bias.as_deref(), self.options.clone())
            }
        }
    )*};
}
convolutions! {
    /// A convolution of `[batch, inputs, length]`, with or without the batch.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Conv1d, Layer}};
    /// let layer = Conv1d::new(2, 4, 3)?;
    /// assert_eq!(layer.forward(&Tensor::ones([1, 2, 8])?)?.sizes(), [1, 4, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    Conv1d, 1, conv1d_with, transposed: false;

    /// A convolution of `[batch, inputs, height, width]`, with or without the batch.
    ///
    /// ```
    /// use straightline::{ConvOptions, Tensor, nn::{Conv2d, Layer}};
    /// let layer = Conv2d::new_with(3, 8, 3, ConvOptions::default().stride(2).padding(1), false)?;
    /// assert_eq!(layer.forward(&Tensor::ones([1, 3, 8, 8])?)?.sizes(), [1, 8, 4, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    Conv2d, 2, conv2d_with, transposed: false;

    /// A convolution of `[batch, inputs, depth, height, width]`, with or without the batch.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Conv3d, Layer}};
    /// let layer = Conv3d::new(1, 2, (1, 2, 2))?;
    /// assert_eq!(layer.forward(&Tensor::ones([1, 1, 2, 4, 4])?)?.sizes(), [1, 2, 2, 3, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    Conv3d, 3, conv3d_with, transposed: false;

    /// A transposed convolution of `[batch, inputs, length]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{ConvTranspose1d, Layer}};
    /// let layer = ConvTranspose1d::new(2, 4, 3)?;
    /// assert_eq!(layer.forward(&Tensor::ones([1, 2, 6])?)?.sizes(), [1, 4, 8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ConvTranspose1d, 1, conv_transpose1d_with, transposed: true;

    /// A transposed convolution of `[batch, inputs, height, width]`.
    ///
    /// ```
    /// use straightline::{ConvOptions, Tensor, nn::{ConvTranspose2d, Layer}};
    /// let layer = ConvTranspose2d::new_with(8, 3, 2, ConvOptions::default().stride(2), true)?;
    /// assert_eq!(layer.forward(&Tensor::ones([1, 8, 4, 4])?)?.sizes(), [1, 3, 8, 8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ConvTranspose2d, 2, conv_transpose2d_with, transposed: true;

    /// A transposed convolution of `[batch, inputs, depth, height, width]`.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{ConvTranspose3d, Layer}};
    /// let layer = ConvTranspose3d::new(2, 3, 2)?;
    /// assert_eq!(layer.forward(&Tensor::ones([1, 2, 2, 3, 4])?)?.sizes(), [1, 3, 3, 4, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ConvTranspose3d, 3, conv_transpose3d_with, transposed: true;
}
