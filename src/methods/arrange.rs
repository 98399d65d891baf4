//! Elements in another arrangement: repeated, reversed, moved, padded.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};

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

    /// Each element of the flattened tensor so many times in a row. See [`aten::repeat_interleave_self_int`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.repeat_interleave(2)?.to_vec::<i64>()?, [1, 1, 2, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, repeats: impl Int) -> Result<Tensor> {
        aten::repeat_interleave_self_int(self, repeats.to_i64(), None, None)
    }

    /// Each slice of a dimension so many times in a row.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[2])?;
    /// assert_eq!(x.repeat_interleave_dim(2, 0)?.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave_dim(&self, repeats: impl Int, dim: impl Int) -> Result<Tensor> {
        aten::repeat_interleave_self_int(self, repeats.to_i64(), Some(dim.to_i64()), None)
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

    /// The elements of the flattened tensor moved, the last ones coming in at the front, in its sizes. See
    /// [`aten::roll`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.roll(1)?.to_vec::<i64>()?, [4, 1, 2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl Ints) -> Result<Tensor> {
        self.roll_dims(shifts, ())
    }

    /// The elements moved along dimensions, the last ones coming in at the front. See [`aten::roll`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3])?;
    /// assert_eq!(x.roll_dims(&[1], &[0])?.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn roll_dims(&self, shifts: impl Ints, dims: impl Ints) -> Result<Tensor> {
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
    pub fn movedim(&self, source: impl Int, destination: impl Int) -> Result<Tensor> {
        aten::movedim_int(self, source.to_i64(), destination.to_i64())
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
    pub fn unflatten(&self, dim: impl Int, sizes: impl Ints) -> Result<Tensor> {
        aten::unflatten_int(self, dim.to_i64(), &sizes.ints())
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
    pub fn expand_as(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::expand_as(self, other.as_ref())
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
    pub fn unfold(&self, dim: impl Int, size: impl Int, step: impl Int) -> Result<Tensor> {
        aten::unfold(self, dim.to_i64(), size.to_i64(), step.to_i64())
    }

    /// Zeros in front and behind: a pair of numbers for the last dimension, then for the one before it, and so on. See
    /// [`aten::pad`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.pad([1, 2])?.to_vec::<i64>()?, [0, 1, 2, 0, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, pad: impl Ints) -> Result<Tensor> {
        self.pad_with(pad, "constant", None)
    }

    /// Elements in front and behind, as [`Tensor::pad`] takes their numbers: `"constant"` (`value`, or 0), `"reflect"`,
    /// `"replicate"` or `"circular"`. See [`aten::pad`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// assert_eq!(x.pad_with(&[1, 1], "constant", 9.0)?.to_vec::<f32>()?, [9.0, 1.0, 2.0, 9.0]);
    /// assert_eq!(x.pad_with(&[1, 1], "reflect", None)?.to_vec::<f32>()?, [2.0, 1.0, 2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn pad_with(
        &self,
        pad: impl Ints,
        mode: &str,
        value: impl Into<Option<f64>>,
    ) -> Result<Tensor> {
        aten::pad(self, &pad.ints(), mode, value.into())
    }
}
