//! Order statistics, norms, running extremes, counts.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor};
use straightline_catalog::Scalar;

impl Tensor {
    /// The lower median of all elements. See [`aten::median`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[3f32, 1.0, 2.0], &[3])?;
    /// assert_eq!(x.median()?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn median(&self) -> Result<Tensor> {
        aten::median(self)
    }

    /// The lower medians along a dimension, and where they are. See [`aten::median_dim`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[3f32, 1.0, 2.0], &[3])?;
    /// let (value, index) = x.median_dim(0)?;
    /// assert_eq!((value.item::<f64>()?, index.item::<i64>()?), (2.0, 2));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn median_dim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::median_dim(self, dim.to_i64(), false)
    }

    /// [`Tensor::median_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([3.0, 1.0, 2.0])?.median_keepdim(0)?.0.shape(), [1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn median_keepdim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::median_dim(self, dim.to_i64(), true)
    }

    /// The `k`-th smallest elements along the last dimension (from 1 on), and where they are. See [`aten::kthvalue`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (value, index) = tensor([3.0, 1.0, 2.0])?.kthvalue(2)?;
    /// assert_eq!((value.item::<f32>()?, index.item::<i64>()?), (2.0, 2));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue(&self, k: impl Int) -> Result<(Tensor, Tensor)> {
        self.kthvalue_dim(k.to_i64(), -1)
    }

    /// [`Tensor::kthvalue`] along a dimension, which stays with size 1 where `keepdim` says so.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[3f32, 1.0, 2.0], &[3])?;
    /// let (value, _) = x.kthvalue_dim(3, 0)?;
    /// assert_eq!(value.item::<f64>()?, 3.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue_dim(&self, k: impl Int, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::kthvalue(self, k.to_i64(), dim.to_i64(), false)
    }

    /// [`Tensor::kthvalue_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([3.0, 1.0, 2.0])?.kthvalue_keepdim(2, 0)?.0.shape(), [1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue_keepdim(&self, k: impl Int, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::kthvalue(self, k.to_i64(), dim.to_i64(), true)
    }

    /// The length of all elements as one vector: the root of the sum of their squares. See
    /// [`aten::linalg_vector_norm`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([3.0, 4.0])?.norm()?.item::<f32>()?, 5.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn norm(&self) -> Result<Tensor> {
        aten::linalg_vector_norm(self, Scalar::Int(2), None, false, None)
    }

    /// [`Tensor::norm`] over dimensions, over all of them where the list is empty.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[3.0, 4.0], [0.0, -7.0]])?;
    /// assert_eq!(x.norm_dim(1)?.to_vec::<f32>()?, [5.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_dim(&self, dims: impl Ints) -> Result<Tensor> {
        self.norm_with(2, dims, false)
    }

    /// [`Tensor::norm_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[3.0, 4.0]])?.norm_keepdim(1)?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        self.norm_with(2, dims, true)
    }

    /// The vector norm of an order over dimensions, over all of them where the list is empty.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[3.0, 4.0], [0.0, -7.0]])?;
    /// assert_eq!(x.norm_with(2, 1, false)?.to_vec::<f32>()?, [5.0, 7.0]);
    /// assert_eq!(x.norm_with(f64::INFINITY, (), false)?.item::<f32>()?, 7.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_with(
        &self,
        ord: impl Into<Scalar>,
        dims: impl Ints,
        keepdim: bool,
    ) -> Result<Tensor> {
        let dims = dims.ints();
        let dims = (!dims.is_empty()).then_some(&dims[..]);
        aten::linalg_vector_norm(self, ord.into(), dims, keepdim, None)
    }

    /// The largest elements so far along a dimension, and where they are. See [`aten::cummax`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 3.0, 2.0], &[3])?;
    /// let (values, indices) = x.cummax(0)?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 3.0, 3.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cummax(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::cummax(self, dim.to_i64())
    }

    /// The smallest elements so far along a dimension, and where they are. See [`aten::cummin`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[3f32, 1.0, 2.0], &[3])?;
    /// assert_eq!(x.cummin(0)?.0.to_vec::<f32>()?, [3.0, 1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cummin(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::cummin(self, dim.to_i64())
    }

    /// How many elements are not zero. See [`aten::count_nonzero`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 0, 2]])?.count_nonzero()?.item::<i64>()?, 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn count_nonzero(&self) -> Result<Tensor> {
        aten::count_nonzero(self, None)
    }

    /// [`Tensor::count_nonzero`] over dimensions.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 0, 2], &[3])?;
    /// assert_eq!(x.count_nonzero_dim(0)?.item::<i64>()?, 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn count_nonzero_dim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::count_nonzero_dim_int_list(self, &dims.ints())
    }

    /// The smallest and the largest element. See [`aten::aminmax`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (low, high) = tensor([3.0, 1.0, 2.0])?.aminmax()?;
    /// assert_eq!((low.item::<f32>()?, high.item::<f32>()?), (1.0, 3.0));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax(&self) -> Result<(Tensor, Tensor)> {
        aten::aminmax(self, None, false)
    }

    /// [`Tensor::aminmax`] along a dimension.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (low, high) = tensor([[3.0, 1.0], [2.0, 4.0]])?.aminmax_dim(1)?;
    /// assert_eq!(low.to_vec::<f32>()?, [1.0, 2.0]);
    /// assert_eq!(high.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax_dim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::aminmax(self, Some(dim.to_i64()), false)
    }

    /// [`Tensor::aminmax_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[3.0, 1.0]])?.aminmax_keepdim(1)?.0.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax_keepdim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::aminmax(self, Some(dim.to_i64()), true)
    }

    /// How often each of 0, 1, 2, ... occurs. See [`aten::bincount`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 3, 1])?.bincount()?.to_vec::<i64>()?, [0, 2, 0, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self) -> Result<Tensor> {
        self.bincount_with(0)
    }

    /// [`Tensor::bincount`] with at least so many counts.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 3, 1], &[3])?;
    /// assert_eq!(x.bincount_with(0)?.to_vec::<i64>()?, [0, 2, 0, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount_with(&self, minlength: impl Int) -> Result<Tensor> {
        aten::bincount(self, None, minlength.to_i64())
    }
}
