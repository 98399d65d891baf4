//! Sorting, selecting, running sums.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

impl Tensor {
    /// The elements along a dimension in order, and where each was. NaN is the largest. See [`aten::sort`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (values, indices) = Tensor::from_vec([3f32, 1.0, 2.0])?.sort(-1, false)?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
        aten::sort(self, dim, descending)
    }

    /// The places of the elements along a dimension in order. See [`aten::argsort`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([3f32, 1.0, 2.0])?;
    /// assert_eq!(x.argsort(0, true)?.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, dim: i64, descending: bool) -> Result<Tensor> {
        aten::argsort(self, dim, descending)
    }

    /// The `k` largest (or smallest) elements along a dimension in order, and where they are. See [`aten::topk`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (values, indices) = Tensor::from_vec([3f32, 1.0, 2.0])?.topk(2, -1, true)?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: i64, dim: i64, largest: bool) -> Result<(Tensor, Tensor)> {
        aten::topk(self, k, dim, largest, true)
    }

    /// The sum of the elements so far along a dimension. See [`aten::cumsum`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1i32, 2, 3])?;
    /// assert_eq!(x.cumsum(0)?.to_vec::<i64>()?, [1, 3, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, dim: i64) -> Result<Tensor> {
        aten::cumsum(self, dim, None)
    }

    /// The product of the elements so far along a dimension. See [`aten::cumprod`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0, 3.0])?;
    /// assert_eq!(x.cumprod(0)?.to_vec::<f32>()?, [1.0, 2.0, 6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(&self, dim: i64) -> Result<Tensor> {
        aten::cumprod(self, dim, None)
    }
}
