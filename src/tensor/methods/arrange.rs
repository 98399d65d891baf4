//! Elements in another arrangement: repeated, reversed, moved, padded.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Ints, Tensor};

impl Tensor {
    /// Copies of the tensor along each dimension, and along new ones in front. See [`aten::repeat`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[2])?;
    /// assert_eq!(x.repeat(&[2, 2])?.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(&self, repeats: impl Ints) -> Result<Tensor> {
        aten::repeat(self, &repeats.ints())
    }

    /// Each element (or slice of a dimension) so many times in a row; without a dimension, of the flattened tensor.
    /// See [`aten::repeat_interleave_self_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[2])?;
    /// assert_eq!(x.repeat_interleave(2, Some(0))?.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, repeats: i64, dim: impl Into<Option<i64>>) -> Result<Tensor> {
        aten::repeat_interleave_self_int(self, repeats, dim.into(), None)
    }

    /// As [`repeat`](Tensor::repeat), for fewer counts than dimensions too: those in front stay as they are. See
    /// [`aten::tile`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[2, 1])?;
    /// assert_eq!(x.tile(&[2])?.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, dims: impl Ints) -> Result<Tensor> {
        aten::tile(self, &dims.ints())
    }

    /// The elements in reverse order along dimensions. See [`aten::flip`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3])?;
    /// assert_eq!(x.flip(&[0])?.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn flip(&self, dims: impl Ints) -> Result<Tensor> {
        aten::flip(self, &dims.ints())
    }

    /// The elements moved along dimensions, the last ones coming in at the front; without dimensions, of the
    /// flattened tensor. See [`aten::roll`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3])?;
    /// assert_eq!(x.roll(&[1], &[0])?.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Ints, dims: impl Ints) -> Result<Tensor> {
        aten::roll(self, &shifts.ints(), &dims.ints())
    }

    /// A view with one dimension moved to another place. See [`aten::movedim_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32; 24], &[2, 3, 4])?;
    /// assert_eq!(x.movedim(0, -1)?.sizes(), [3, 4, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn movedim(&self, source: i64, destination: i64) -> Result<Tensor> {
        aten::movedim_int(self, source, destination)
    }

    /// A view with one dimension as several; one size may be -1. See [`aten::unflatten_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32; 12], &[2, 6])?;
    /// assert_eq!(x.unflatten(1, &[3, -1])?.sizes(), [2, 3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn unflatten(&self, dim: i64, sizes: impl Ints) -> Result<Tensor> {
        aten::unflatten_int(self, dim, &sizes.ints())
    }

    /// A view in the sizes of another tensor. See [`aten::expand_as`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[2])?;
    /// let y = Tensor::from_slice(&[0f32; 6], &[3, 2])?;
    /// assert_eq!(x.expand_as(&y)?.sizes(), [3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        aten::expand_as(self, other)
    }

    /// A view of all windows of a size along a dimension, in a new last dimension. See [`aten::unfold`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3])?;
    /// assert_eq!(x.unfold(0, 2, 1)?.to_vec::<f32>()?, [1.0, 2.0, 2.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn unfold(&self, dim: i64, size: i64, step: i64) -> Result<Tensor> {
        aten::unfold(self, dim, size, step)
    }

    /// Elements before and after those of each dimension, the last dimension first: `"constant"` (`value`, or 0),
    /// `"reflect"`, `"replicate"` or `"circular"`. See [`aten::pad`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// assert_eq!(x.pad(&[1, 1], "constant", Some(9.0))?.to_vec::<f32>()?, [9.0, 1.0, 2.0, 9.0]);
    /// assert_eq!(x.pad(&[1, 1], "reflect", None)?.to_vec::<f32>()?, [2.0, 1.0, 2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, pad: impl Ints, mode: &str, value: Option<f64>) -> Result<Tensor> {
        aten::pad(self, &pad.ints(), mode, value)
    }
}
