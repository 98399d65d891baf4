//! Elements turned, embedded, split; parts of a tensor replaced; tensors like another one.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor, Tensors};
use straightline_catalog::Scalar;

impl Tensor {
    /// The same as [`Tensor::transpose`], by NumPy's name. See [`aten::swapaxes`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4])?.swapaxes(0, -1)?.shape(), [4, 3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn swapaxes(&self, a: impl Int, b: impl Int) -> Result<Tensor> {
        aten::swapaxes(self, a.to_i64(), b.to_i64())
    }

    /// Matrices with the last dimension on the diagonal and zeros elsewhere. See [`aten::diag_embed`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.diag_embed()?.to_vec2::<i64>()?, [[1, 0], [0, 2]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed(&self) -> Result<Tensor> {
        self.diag_embed_with(0)
    }

    /// [`Tensor::diag_embed`] on the diagonal that lies so far above the main one (below where negative).
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.diag_embed_with(0)?.to_vec2::<i64>()?, [[1, 0], [0, 2]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed_with(&self, offset: impl Int) -> Result<Tensor> {
        aten::diag_embed(self, offset.to_i64(), -2, -1)
    }

    /// Turned by a right angle, from the first dimension towards the second. See [`aten::rot90`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.rot90()?.to_vec2::<i64>()?, [[2, 4], [1, 3]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rot90(&self) -> Result<Tensor> {
        self.rot90_dims(1, [0, 1])
    }

    /// Turned by `k` right angles in the plane of two dimensions, from the first towards the second. See
    /// [`aten::rot90`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.rot90_dims(1, [0, 1])?.to_vec2::<i64>()?, [[2, 4], [1, 3]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn rot90_dims(&self, k: impl Int, dims: impl Ints) -> Result<Tensor> {
        aten::rot90(self, k.to_i64(), &dims.ints())
    }

    /// Columns in reverse order. See [`aten::fliplr`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.fliplr()?.to_vec2::<i64>()?, [[2, 1], [4, 3]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn fliplr(&self) -> Result<Tensor> {
        aten::fliplr(self)
    }

    /// Rows in reverse order. See [`aten::flipud`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.flipud()?.to_vec2::<i64>()?, [[3, 4], [1, 2]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn flipud(&self) -> Result<Tensor> {
        aten::flipud(self)
    }

    /// So many views of parts of a dimension, the first ones longer by one where it does not come out even. See
    /// [`aten::tensor_split_sections`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let parts = Tensor::arange(5)?.tensor_split(2, 0)?;
    /// assert_eq!(parts[0].to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tensor_split(&self, sections: impl Int, dim: impl Int) -> Result<Vec<Tensor>> {
        aten::tensor_split_sections(self, sections.to_i64(), dim.to_i64())
    }

    /// The positions of what is not zero, a row each. See [`aten::argwhere`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[0, 2], [3, 0]])?.argwhere()?.to_vec2::<i64>()?, [[0, 1], [1, 0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn argwhere(&self) -> Result<Tensor> {
        aten::argwhere(self)
    }

    /// A copy with `src` in place of what [`Tensor::select`] gives. See [`aten::select_scatter`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1, 2], [3, 4]])?;
    /// assert_eq!(x.select_scatter(&tensor([0, 0])?, 0, 1)?.to_vec2::<i64>()?, [[1, 2], [0, 0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn select_scatter(
        &self,
        src: impl AsRef<Tensor>,
        dim: impl Int,
        index: impl Int,
    ) -> Result<Tensor> {
        aten::select_scatter(self, src.as_ref(), dim.to_i64(), index.to_i64())
    }

    /// A copy with `src` in place of what [`Tensor::slice`] gives. See [`aten::slice_scatter`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1, 2, 3, 4])?;
    /// assert_eq!(x.slice_scatter(&tensor([0, 0])?, 0, 0, 4, 2)?.to_vec::<i64>()?, [0, 2, 0, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_scatter(
        &self,
        src: impl AsRef<Tensor>,
        dim: impl Int,
        start: impl Int,
        end: impl Int,
        step: impl Int,
    ) -> Result<Tensor> {
        aten::slice_scatter(
            self,
            src.as_ref(),
            dim.to_i64(),
            Some(start.to_i64()),
            Some(end.to_i64()),
            step.to_i64(),
        )
    }

    /// A copy with `src` in place of what [`Tensor::diagonal`] gives. See [`aten::diagonal_scatter`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1, 2], [3, 4]])?;
    /// assert_eq!(x.diagonal_scatter(&tensor([0, 0])?)?.to_vec2::<i64>()?, [[0, 2], [3, 0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_scatter(&self, src: impl AsRef<Tensor>) -> Result<Tensor> {
        self.diagonal_scatter_with(src.as_ref(), 0, 0, 1)
    }

    /// A copy with `src` in place of what [`Tensor::diagonal_with`] gives. See [`aten::diagonal_scatter`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1, 2], [3, 4]])?;
    /// assert_eq!(x.diagonal_scatter_with(&tensor([0, 0])?, 0, 0, 1)?.to_vec2::<i64>()?, [[0, 2], [3, 0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_scatter_with(
        &self,
        src: impl AsRef<Tensor>,
        offset: impl Int,
        dim1: impl Int,
        dim2: impl Int,
    ) -> Result<Tensor> {
        aten::diagonal_scatter(
            self,
            src.as_ref(),
            offset.to_i64(),
            dim1.to_i64(),
            dim2.to_i64(),
        )
    }

    /// [`Tensor::reshape`] to the sizes of another tensor.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::arange(6)?.reshape_as(&Tensor::zeros([2, 3])?)?.shape(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape_as(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        self.reshape(other.as_ref().sizes())
    }

    /// One dimension of all elements in row-major order; a view where that is possible.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3])?.ravel()?.shape(), [6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ravel(&self) -> Result<Tensor> {
        self.contiguous()?.view(-1)
    }

    /// In the dtype of another tensor. See [`aten::type_as`].
    ///
    /// ```
    /// use straightline::{DType, Tensor};
    /// assert_eq!(Tensor::arange(6)?.type_as(&Tensor::zeros(1)?)?.dtype(), DType::F32);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn type_as(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::type_as(self, other.as_ref())
    }

    /// Zeros of this tensor's dtype and device. See [`aten::new_zeros`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.new_zeros([3])?.to_vec::<i64>()?, [0; 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn new_zeros(&self, sizes: impl Ints) -> Result<Tensor> {
        aten::new_zeros(self, &sizes.ints(), None, None, None, None)
    }

    /// Ones of this tensor's dtype and device. See [`aten::new_ones`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.new_ones([3])?.to_vec::<i64>()?, [1; 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn new_ones(&self, sizes: impl Ints) -> Result<Tensor> {
        aten::new_ones(self, &sizes.ints(), None, None, None, None)
    }

    /// One number everywhere, in this tensor's dtype and on its device. See [`aten::new_full`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0])?.new_full([2], 7)?.to_vec::<f32>()?, [7.0; 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn new_full(&self, sizes: impl Ints, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::new_full(self, &sizes.ints(), value.into(), None, None, None, None)
    }

    /// A matrix with these matrices along its diagonal, and zeros elsewhere. See [`aten::block_diag`].
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let (a, b) = (tensor([[1, 2]])?, tensor([[3]])?);
    /// assert_eq!(Tensor::block_diag([&a, &b])?.to_vec2::<i64>()?, [[1, 2, 0], [0, 0, 3]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn block_diag(tensors: impl Tensors) -> Result<Tensor> {
        aten::block_diag(&tensors.tensors())
    }

    /// Vectors as columns beside each other, and matrices. See [`aten::column_stack`].
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let (a, b) = (tensor([1, 2])?, tensor([3, 4])?);
    /// assert_eq!(Tensor::column_stack([&a, &b])?.to_vec2::<i64>()?, [[1, 3], [2, 4]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn column_stack(tensors: impl Tensors) -> Result<Tensor> {
        aten::column_stack(&tensors.tensors())
    }
}
