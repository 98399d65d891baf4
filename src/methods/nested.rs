//! Nested tensors: making them, and back to plain ones.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

impl Tensor {
    /// A batch of tensors of different sizes. [`sizes`](Tensor::sizes) has -1 where they differ. See
    /// [`aten::_nested_tensor_from_tensor_list`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let batch = Tensor::nested(&[Tensor::from_vec([1f32, 2.0], 2)?, Tensor::from_vec([3f32], 1)?])?;
    /// assert_eq!(batch.sizes(), [2, -1]);
    /// assert_eq!(batch.to_padded(0.0)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nested(components: &[Tensor]) -> Result<Tensor> {
        aten::_nested_tensor_from_tensor_list(components, None, None, None, None)
    }

    /// A plain tensor as large as the largest component, with `padding` where the others end. See
    /// [`aten::to_padded_tensor`].
    #[track_caller]
    pub fn to_padded(&self, padding: impl Into<f64>) -> Result<Tensor> {
        aten::to_padded_tensor(self, padding.into(), None)
    }

    /// The size of each component, a row for each. See [`aten::_nested_tensor_size`].
    #[track_caller]
    pub fn nested_sizes(&self) -> Result<Tensor> {
        aten::_nested_tensor_size(self)
    }
}
