//! Indexing with tensors, scattering, masks.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};

impl Tensor {
    /// Elements at the indices, one tensor (or none) for each dimension; negative indices count from the end, a mask
    /// stands for the places where it is true. See [`aten::index_tensor`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// let columns = Tensor::from_vec([-1i64, 0])?;
    /// assert_eq!(x.index(&[None, Some(columns)])?.to_vec::<i64>()?, [3, 1, 6, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index(&self, indices: &[Option<Tensor>]) -> Result<Tensor> {
        aten::index_tensor(self, indices)
    }

    /// Writes values at the indices, one tensor (or none) for each dimension; [`Tensor::i_put_`] takes them as one
    /// writes them. See [`aten::index_put_`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1, 2, 3])?;
    /// x.index_put_(&[Some(tensor([0, 2])?)], &tensor([7, 8])?)?;
    /// assert_eq!(x.to_vec::<i64>()?, [7, 2, 8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_put_(
        &self,
        indices: &[Option<Tensor>],
        values: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        self.index_put_with_(indices, values.as_ref(), false)
    }

    /// [`Tensor::index_put_`], which adds the values to what is there where `accumulate` says so.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0, 3.0])?;
    /// let places = Tensor::from_vec([0i64, 0])?;
    /// x.index_put_with_(&[Some(places)], &Tensor::from_vec([10f32, 20.0])?, true)?;
    /// assert_eq!(x.to_vec::<f32>()?, [31.0, 2.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_put_with_(
        &self,
        indices: &[Option<Tensor>],
        values: impl AsRef<Tensor>,
        accumulate: bool,
    ) -> Result<Tensor> {
        aten::index_put_(self, indices, values.as_ref(), accumulate)
    }

    /// A copy with `src` added where `index` says, along a dimension. See [`aten::scatter_add`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0])?;
    /// let (index, src) = (Tensor::from_vec([1i64, 1])?, Tensor::from_vec([10f32, 20.0])?);
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
    /// let x = Tensor::from_vec([1f32, 2.0, 3.0])?;
    /// let mask = Tensor::from_vec([true, false, true])?;
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
    /// let x = Tensor::from_vec([0f32, 2.0, 3.0])?;
    /// assert_eq!(x.nonzero()?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        aten::nonzero(self)
    }
}
