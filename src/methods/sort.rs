//! Sorting, selecting, running sums.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};

impl Tensor {
    /// The elements along a dimension in order, the largest first where `descending`, and where each was. NaN is the
    /// largest. See [`aten::sort`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (values, indices) = tensor([3.0, 1.0, 2.0])?.sort(-1, false)?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "sort_last_dim")]
    #[track_caller]
    pub fn sort(&self, dim: impl Int, descending: bool) -> Result<(Tensor, Tensor)> {
        aten::sort(self, dim.to_i64(), descending)
    }

    /// The places of the elements along a dimension in order, that of the largest first where `descending`. See
    /// [`aten::argsort`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([3.0, 1.0, 2.0])?;
    /// assert_eq!(x.argsort(-1, false)?.to_vec::<i64>()?, [1, 2, 0]);
    /// assert_eq!(x.argsort(0, true)?.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "arg_sort")]
    #[track_caller]
    pub fn argsort(&self, dim: impl Int, descending: bool) -> Result<Tensor> {
        aten::argsort(self, dim.to_i64(), descending)
    }

    /// The `k` largest elements along the last dimension in order, and where they are. See [`aten::topk`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (values, indices) = tensor([3.0, 1.0, 2.0])?.topk(2)?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: impl Int) -> Result<(Tensor, Tensor)> {
        self.topk_dim(k.to_i64(), -1, true)
    }

    /// [`Tensor::topk`] along a dimension, of the largest elements or of the smallest.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (values, indices) = Tensor::from_vec([3f32, 1.0, 2.0], 3)?.topk_dim(2, -1, true)?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn topk_dim(&self, k: impl Int, dim: impl Int, largest: bool) -> Result<(Tensor, Tensor)> {
        aten::topk(self, k.to_i64(), dim.to_i64(), largest, true)
    }

    /// The sum of the elements so far along a dimension. See [`aten::cumsum`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1i32, 2, 3], 3)?;
    /// assert_eq!(x.cumsum(0)?.to_vec::<i64>()?, [1, 3, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, dim: impl Int) -> Result<Tensor> {
        aten::cumsum(self, dim.to_i64(), None)
    }

    /// The product of the elements so far along a dimension. See [`aten::cumprod`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0, 3.0], 3)?;
    /// assert_eq!(x.cumprod(0)?.to_vec::<f32>()?, [1.0, 2.0, 6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(&self, dim: impl Int) -> Result<Tensor> {
        aten::cumprod(self, dim.to_i64(), None)
    }
}
