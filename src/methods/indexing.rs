//! Indexing with tensors, scattering, masks.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, OptionalTensors, Tensor};

impl Tensor {
    /// Elements at the indices, one tensor (or none) for each dimension; negative indices count from the end, a mask
    /// stands for the places where it is true. See [`aten::index_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// let columns = Tensor::from_vec([-1i64, 0], 2)?;
    /// assert_eq!(x.index(&[None, Some(columns)])?.to_vec::<i64>()?, [3, 1, 6, 4]);
    /// assert_eq!(x.index(&[Tensor::from_vec([1i64], 1)?])?.to_vec::<i64>()?, [4, 5, 6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index(&self, indices: impl OptionalTensors) -> Result<Tensor> {
        aten::index_tensor(self, &indices.optional())
    }

    /// Writes values at the indices, one tensor (or none) for each dimension, or adds them to what is there where
    /// `accumulate` says so; [`Tensor::i_put_`] takes indices as one writes them. See [`aten::index_put_`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1, 2, 3])?;
    /// x.index_put_(&[tensor([0, 2])?], &tensor([7, 8])?, false)?;
    /// assert_eq!(x.to_vec::<i64>()?, [7, 2, 8]);
    /// let y = tensor([[1, 2], [3, 4]])?;
    /// y.index_put_(&[None, Some(tensor([0, 0])?)], &tensor(10)?, true)?;
    /// assert_eq!(y.to_vec::<i64>()?, [21, 2, 23, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_put_(
        &self,
        indices: impl OptionalTensors,
        values: impl AsRef<Tensor>,
        accumulate: bool,
    ) -> Result<Tensor> {
        aten::index_put_(self, &indices.optional(), values.as_ref(), accumulate)
    }

    /// A copy with `src` added where `index` says, along a dimension. See [`aten::scatter_add`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0], 2)?;
    /// let (index, src) = (Tensor::from_vec([1i64, 1], 2)?, Tensor::from_vec([10f32, 20.0], 2)?);
    /// assert_eq!(x.scatter_add(0, &index, &src)?.to_vec::<f32>()?, [1.0, 32.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_add(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        src: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::scatter_add(self, dim.to_i64(), index.as_ref(), src.as_ref())
    }

    /// The elements where a mask is true, as a vector. See [`aten::masked_select`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0, 3.0], 3)?;
    /// let mask = Tensor::from_vec([true, false, true], 3)?;
    /// assert_eq!(x.masked_select(&mask)?.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_select(&self, mask: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::masked_select(self, mask.as_ref())
    }

    /// The places of what is not zero, `[places, dimensions]`. See [`aten::nonzero`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([0f32, 2.0, 3.0], 3)?;
    /// assert_eq!(x.nonzero()?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        aten::nonzero(self)
    }
}
