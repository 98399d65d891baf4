//! Views, copies, splitting and joining.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::ints::Split;
use crate::tensor::{Ints, Sections, Tensor, Tensors};
use straightline_passes::ir::{DType, Device, MemoryFormat, Scalar};

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

    /// A range of dimensions merged into one. See [`aten::flatten_using_ints`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.flatten(0, -1)?.sizes(), [6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> Result<Tensor> {
        aten::flatten_using_ints(self, start, end)
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
    pub fn transpose(&self, a: i64, b: i64) -> Result<Tensor> {
        aten::transpose_int(self, a, b)
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
    pub fn slice(&self, dim: i64, start: i64, end: i64, step: i64) -> Result<Tensor> {
        aten::slice_tensor(self, dim, Some(start), Some(end), step)
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
    pub fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor> {
        aten::narrow(self, dim, start, length)
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
    pub fn select(&self, dim: i64, index: i64) -> Result<Tensor> {
        aten::select_int(self, dim, index)
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
    pub fn squeeze_dim(&self, dim: i64) -> Result<Tensor> {
        aten::squeeze_dim(self, dim)
    }

    /// With a new dimension of size 1. See [`aten::unsqueeze`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.unsqueeze(1)?.sizes(), [2, 1, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        aten::unsqueeze(self, dim)
    }

    /// A diagonal of two dimensions. See [`aten::diagonal`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.diagonal(0, 0, 1)?.to_vec::<i64>()?, [1, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        aten::diagonal(self, offset, dim1, dim2)
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
    #[track_caller]
    pub fn copied(&self) -> Result<Tensor> {
        aten::clone(self, None)
    }

    /// Converted elements; the tensor itself where nothing changes. See [`aten::to_dtype`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.to_dtype(straightline::DType::F32)?.dtype(), straightline::DType::F32);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        aten::to_dtype(self, dtype, false, false, None)
    }

    /// On another device; the tensor itself where it is there already. See
    /// [`aten::to_dtype_layout`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.to_device(straightline::Device::META)?.sizes(), [2, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn to_device(&self, device: Device) -> Result<Tensor> {
        aten::to_dtype_layout(self, None, None, Some(device), None, false, false, None)
    }

    /// The elements on and below a diagonal, zero elsewhere. See [`aten::tril`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.tril(0)?.to_vec::<i64>()?, [1, 0, 0, 4, 5, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tril(&self, diagonal: i64) -> Result<Tensor> {
        aten::tril(self, diagonal)
    }

    /// The elements on and above a diagonal, zero elsewhere. See [`aten::triu`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.triu(0)?.to_vec::<i64>()?, [1, 2, 3, 0, 5, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn triu(&self, diagonal: i64) -> Result<Tensor> {
        aten::triu(self, diagonal)
    }

    /// Writes the elements of `src`, broadcast and converted. See [`aten::copy_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32, 0.0])?;
    /// x.copy_(&Tensor::from_vec([7i64])?)?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_(&self, src: &Tensor) -> Result<Tensor> {
        aten::copy_(self, src, false)
    }

    /// Writes one number everywhere. See [`aten::fill_scalar_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32])?;
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
    /// let x = Tensor::from_vec([5f32])?;
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
    pub fn split(&self, parts: impl Sections, dim: i64) -> Result<Vec<Tensor>> {
        match parts.sections() {
            Split::Each(size) => aten::split_tensor(self, size, dim),
            Split::Sizes(sizes) => aten::split_with_sizes(self, &sizes, dim),
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
    pub fn chunk(&self, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
        aten::chunk(self, chunks, dim)
    }

    /// One view for each position of a dimension. See [`aten::unbind_int`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(x.unbind(0)?.len(), 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn unbind(&self, dim: i64) -> Result<Vec<Tensor>> {
        aten::unbind_int(self, dim)
    }

    /// Tensors one after another along a dimension. See [`aten::cat`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1i64])?;
    /// assert_eq!(Tensor::cat(&[x.clone(), x], 0)?.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cat(tensors: impl Tensors, dim: i64) -> Result<Tensor> {
        aten::cat(&tensors.tensors(), dim)
    }

    /// Tensors of equal sizes along a new dimension. See [`aten::stack`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1i64])?;
    /// assert_eq!(Tensor::stack(&[x.clone(), x], 0)?.sizes(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn stack(tensors: impl Tensors, dim: i64) -> Result<Tensor> {
        aten::stack(&tensors.tensors(), dim)
    }
}
