//! Views, copies, splitting and joining.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::ints::Split;
use crate::tensor::{Int, Ints, Sections, Tensor, Tensors};
use straightline_catalog::{MemoryFormat, Scalar};

impl Tensor {
    /// The same elements in other sizes, one of which may be -1; never copies. See [`aten::view`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.view(&[3, -1])?.sizes(), [3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn view(&self, sizes: impl Ints) -> Result<Tensor> {
        aten::view(self, &sizes.ints())
    }

    /// [`Tensor::view`] in the sizes of another tensor. See [`aten::view_as`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::arange(6)?.view_as(&Tensor::zeros([2, 3])?)?.sizes(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn view_as(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::view_as(self, other.as_ref())
    }

    /// [`Tensor::view`] where strides allow it, else a copy. See [`aten::reshape`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.t()?.reshape(&[6])?.to_vec::<i64>()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(&self, sizes: impl Ints) -> Result<Tensor> {
        aten::reshape(self, &sizes.ints())
    }

    /// All dimensions merged into one. See [`aten::flatten_using_ints`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.flatten()?.to_vec::<i64>()?, [1, 2, 3, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "flatten_all")]
    #[track_caller]
    pub fn flatten(&self) -> Result<Tensor> {
        self.flatten_dims(0, -1)
    }

    /// [`Tensor::flatten`] of a range of dimensions, the last of them included.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.flatten_dims(0, -1)?.sizes(), [6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "flatten_from")]
    #[doc(alias = "flatten_to")]
    #[track_caller]
    pub fn flatten_dims(&self, start: impl Int, end: impl Int) -> Result<Tensor> {
        aten::flatten_using_ints(self, start.to_i64(), end.to_i64())
    }

    /// The dimensions in another order. See [`aten::permute`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.permute(&[1, 0])?.sizes(), [3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn permute(&self, dims: impl Ints) -> Result<Tensor> {
        aten::permute(self, &dims.ints())
    }

    /// Two dimensions exchanged. See [`aten::transpose_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.transpose(0, 1)?.sizes(), [3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose(&self, a: impl Int, b: impl Int) -> Result<Tensor> {
        aten::transpose_int(self, a.to_i64(), b.to_i64())
    }

    /// The transpose of a matrix. See [`aten::t`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.t()?.sizes(), [3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn t(&self) -> Result<Tensor> {
        aten::t(self)
    }

    /// Dimensions of size 1 repeated without copying. See [`aten::expand`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.unsqueeze(0)?.expand(&[4, 2, 3])?.sizes(), [4, 2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "broadcast_as")]
    #[track_caller]
    pub fn expand(&self, sizes: impl Ints) -> Result<Tensor> {
        aten::expand(self, &sizes.ints(), false)
    }

    /// A range of a dimension; ends beyond the size are cut. See [`aten::slice_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.slice(1, 1, 3, 1)?.to_vec::<i64>()?, [2, 3, 5, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(
        &self,
        dim: impl Int,
        start: impl Int,
        end: impl Int,
        step: impl Int,
    ) -> Result<Tensor> {
        aten::slice_tensor(
            self,
            dim.to_i64(),
            Some(start.to_i64()),
            Some(end.to_i64()),
            step.to_i64(),
        )
    }

    /// A range of a dimension by its length. See [`aten::narrow`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.narrow(1, 0, 1)?.to_vec::<i64>()?, [1, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn narrow(&self, dim: impl Int, start: impl Int, length: impl Int) -> Result<Tensor> {
        aten::narrow(self, dim.to_i64(), start.to_i64(), length.to_i64())
    }

    /// One position of a dimension, which goes away. See [`aten::select_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.select(0, -1)?.to_vec::<i64>()?, [4, 5, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, dim: impl Int, index: impl Int) -> Result<Tensor> {
        aten::select_int(self, dim.to_i64(), index.to_i64())
    }

    /// Without the dimensions of size 1. See [`aten::squeeze`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.unsqueeze(0)?.squeeze()?.sizes(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze(&self) -> Result<Tensor> {
        aten::squeeze(self)
    }

    /// Without this dimension if its size is 1. See [`aten::squeeze_dim`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.unsqueeze(0)?.squeeze_dim(0)?.sizes(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze_dim(&self, dim: impl Int) -> Result<Tensor> {
        aten::squeeze_dim(self, dim.to_i64())
    }

    /// With a new dimension of size 1. See [`aten::unsqueeze`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.unsqueeze(1)?.sizes(), [2, 1, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "unsqueeze_dim")]
    #[track_caller]
    pub fn unsqueeze(&self, dim: impl Int) -> Result<Tensor> {
        aten::unsqueeze(self, dim.to_i64())
    }

    /// The diagonal of the first two dimensions, as a view. See [`aten::diagonal`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.diagonal()?.to_vec::<i64>()?, [1, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self) -> Result<Tensor> {
        self.diagonal_with(0, 0, 1)
    }

    /// [`Tensor::diagonal`] of any two dimensions, so far above the main one (below where negative).
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.diagonal_with(0, 0, 1)?.to_vec::<i64>()?, [1, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_with(
        &self,
        offset: impl Int,
        dim1: impl Int,
        dim2: impl Int,
    ) -> Result<Tensor> {
        aten::diagonal(self, offset.to_i64(), dim1.to_i64(), dim2.to_i64())
    }

    /// The same data apart from the autograd graph. See [`aten::detach`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.detach()?.sizes(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn detach(&self) -> Result<Tensor> {
        aten::detach(self)
    }

    /// The tensor if it is row-major, else a row-major copy. See [`aten::contiguous`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.t()?.contiguous()?.strides(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn contiguous(&self) -> Result<Tensor> {
        aten::contiguous(self, MemoryFormat::Contiguous)
    }

    /// A copy with memory of its own (PyTorch's `clone`; `Clone::clone` shares the data). See [`aten::clone`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.copied()?.shares_storage_with(&x), false);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "deepcopy")]
    #[doc(alias = "copy")]
    #[track_caller]
    pub fn copied(&self) -> Result<Tensor> {
        aten::clone(self, None)
    }

    /// The elements on and below the diagonal, zero elsewhere. See [`aten::tril`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.tril()?.to_vec::<i64>()?, [1, 0, 3, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tril(&self) -> Result<Tensor> {
        self.tril_with(0)
    }

    /// [`Tensor::tril`] from the diagonal that lies so far above the main one (below where negative).
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.tril_with(0)?.to_vec::<i64>()?, [1, 0, 0, 4, 5, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tril_with(&self, diagonal: impl Int) -> Result<Tensor> {
        aten::tril(self, diagonal.to_i64())
    }

    /// The elements on and above the diagonal, zero elsewhere. See [`aten::triu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.triu()?.to_vec::<i64>()?, [1, 2, 0, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn triu(&self) -> Result<Tensor> {
        self.triu_with(0)
    }

    /// [`Tensor::triu`] from the diagonal that lies so far above the main one (below where negative).
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.triu_with(0)?.to_vec::<i64>()?, [1, 2, 3, 0, 5, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn triu_with(&self, diagonal: impl Int) -> Result<Tensor> {
        aten::triu(self, diagonal.to_i64())
    }

    /// Writes the elements of `src`, broadcast and converted. See [`aten::copy_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32, 0.0], 2)?;
    /// x.copy_(&Tensor::from_vec([7i64], 1)?)?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_(&self, src: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::copy_(self, src.as_ref(), false)
    }

    /// Writes one number everywhere. See [`aten::fill_scalar_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32], 1)?;
    /// x.fill_(3)?;
    /// assert_eq!(x.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn fill_(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::fill_scalar_(self, value.into())
    }

    /// Writes zeros. See [`aten::zero_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([5f32], 1)?;
    /// x.zero_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn zero_(&self) -> Result<Tensor> {
        aten::zero_(self)
    }

    /// Views of parts of a dimension: of a number of positions each, the last of which may be shorter, or of the sizes in a
    /// list. See [`aten::split_tensor`] and [`aten::split_with_sizes`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::arange(6)?.reshape([2, 3])?;
    /// assert_eq!(x.split(2, 1)?.len(), 2);
    /// let parts = x.split([1, 2], 1)?;
    /// assert_eq!((parts[0].shape(), parts[1].shape()), (&[2, 1][..], &[2, 2][..]));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Sizes that do not add up to that of the dimension.
    #[track_caller]
    pub fn split(&self, parts: impl Sections, dim: impl Int) -> Result<Vec<Tensor>> {
        match parts.sections() {
            Split::Each(size) => aten::split_tensor(self, size, dim.to_i64()),
            Split::Sizes(sizes) => aten::split_with_sizes(self, &sizes, dim.to_i64()),
        }
    }

    /// At most this many views of equal size. See [`aten::chunk`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.chunk(3, 1)?.len(), 3);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn chunk(&self, chunks: impl Int, dim: impl Int) -> Result<Vec<Tensor>> {
        aten::chunk(self, chunks.to_i64(), dim.to_i64())
    }

    /// One view for each position of a dimension. See [`aten::unbind_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.unbind(0)?.len(), 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "rows")]
    #[doc(alias = "iter_dim")]
    #[track_caller]
    pub fn unbind(&self, dim: impl Int) -> Result<Vec<Tensor>> {
        aten::unbind_int(self, dim.to_i64())
    }

    /// Tensors one after another along a dimension. See [`aten::cat`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1i64], 1)?;
    /// assert_eq!(Tensor::cat(&[x.clone(), x], 0)?.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "concat")]
    #[doc(alias = "concatenate")]
    #[track_caller]
    pub fn cat(tensors: impl Tensors, dim: impl Int) -> Result<Tensor> {
        aten::cat(&tensors.tensors(), dim.to_i64())
    }

    /// Tensors of equal sizes along a new dimension. See [`aten::stack`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1i64], 1)?;
    /// assert_eq!(Tensor::stack(&[x.clone(), x], 0)?.sizes(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn stack(tensors: impl Tensors, dim: impl Int) -> Result<Tensor> {
        aten::stack(&tensors.tensors(), dim.to_i64())
    }
}
