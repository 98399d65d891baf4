//! Writing at computed positions, into a copy.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Other, Tensor};
use straightline_catalog::Scalar;

impl Tensor {
    /// A copy with `src`, a tensor or a number, at the indices along a dimension. See [`aten::scatter_src`] and
    /// [`aten::scatter_value`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32; 3], &[3])?;
    /// let index = Tensor::from_slice(&[2i64, 0], &[2])?;
    /// let src = Tensor::from_slice(&[5f32, 6.0], &[2])?;
    /// assert_eq!(x.scatter(0, &index, &src)?.to_vec::<f32>()?, [6.0, 0.0, 5.0]);
    /// assert_eq!(x.scatter(0, &index, 1)?.to_vec::<f32>()?, [1.0, 0.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter<'a>(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        src: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        match src.into() {
            Other::Tensor(src) => aten::scatter_src(self, dim.to_i64(), index.as_ref(), src),
            Other::Owned(src) => aten::scatter_src(self, dim.to_i64(), index.as_ref(), &src),
            Other::Number(value) => aten::scatter_value(self, dim.to_i64(), index.as_ref(), value),
        }
    }

    /// A copy in which `src` is combined with what is at the indices: `"sum"`, `"prod"`, `"mean"`, `"amax"` or
    /// `"amin"`. See [`aten::scatter_reduce_two`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 1.0])?;
    /// let y = x.scatter_reduce(0, &tensor([0, 0])?, &tensor([5.0, 6.0])?, "amax")?;
    /// assert_eq!(y.to_vec::<f32>()?, [6.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        src: impl AsRef<Tensor>,
        reduce: &str,
    ) -> Result<Tensor> {
        self.scatter_reduce_with(dim.to_i64(), index.as_ref(), src.as_ref(), reduce, true)
    }

    /// [`Tensor::scatter_reduce`], where `include_self` says whether what is there takes part.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32; 2], &[2])?;
    /// let index = Tensor::from_slice(&[0i64, 0], &[2])?;
    /// let src = Tensor::from_slice(&[5f32, 6.0], &[2])?;
    /// assert_eq!(x.scatter_reduce_with(0, &index, &src, "amax", true)?.to_vec::<f32>()?, [6.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_reduce_with(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        src: impl AsRef<Tensor>,
        reduce: &str,
        include_self: bool,
    ) -> Result<Tensor> {
        aten::scatter_reduce_two(
            self,
            dim.to_i64(),
            index.as_ref(),
            src.as_ref(),
            reduce,
            include_self,
        )
    }

    /// A copy with the slices of `source` added at the indices of a dimension. See [`aten::index_add`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32; 3], &[3])?;
    /// let index = Tensor::from_slice(&[2i64, 2], &[2])?;
    /// let src = Tensor::from_slice(&[5f32, 6.0], &[2])?;
    /// assert_eq!(x.index_add(0, &index, &src)?.to_vec::<f32>()?, [1.0, 1.0, 12.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_add(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        source: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::index_add(
            self,
            dim.to_i64(),
            index.as_ref(),
            source.as_ref(),
            1.into(),
        )
    }

    /// A copy with the slices of `source` at the indices of a dimension. See [`aten::index_copy`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32; 3], &[3])?;
    /// let index = Tensor::from_slice(&[2i64, 0], &[2])?;
    /// let src = Tensor::from_slice(&[5f32, 6.0], &[2])?;
    /// assert_eq!(x.index_copy(0, &index, &src)?.to_vec::<f32>()?, [6.0, 0.0, 5.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_copy(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        source: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::index_copy(self, dim.to_i64(), index.as_ref(), source.as_ref())
    }

    /// A copy with a number in the slices at the indices of a dimension. See [`aten::index_fill_int_scalar`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32; 3], &[3])?;
    /// let index = Tensor::from_slice(&[2i64, 0], &[2])?;
    /// assert_eq!(x.index_fill(0, &index, 7.0)?.to_vec::<f32>()?, [7.0, 0.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_fill(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::index_fill_int_scalar(self, dim.to_i64(), index.as_ref(), value.into())
    }

    /// The elements at indices along a dimension, both broadcast elsewhere: what [`argsort`](Tensor::argsort) gives,
    /// sorts. See [`aten::take_along_dim`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[3f32, 1.0, 2.0], &[3])?;
    /// let order = x.argsort(0, false)?;
    /// assert_eq!(x.take_along_dim(&order, 0)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn take_along_dim(&self, indices: impl AsRef<Tensor>, dim: impl Int) -> Result<Tensor> {
        aten::take_along_dim(self, indices.as_ref(), Some(dim.to_i64()))
    }

    /// A copy with the elements of `source`, in order, where the mask is true. See [`aten::masked_scatter`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[0f32; 3], &[3])?;
    /// let mask = Tensor::from_slice(&[true, false, true], &[3])?;
    /// let src = Tensor::from_slice(&[5f32, 6.0], &[2])?;
    /// assert_eq!(x.masked_scatter(&mask, &src)?.to_vec::<f32>()?, [5.0, 0.0, 6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_scatter(
        &self,
        mask: impl AsRef<Tensor>,
        source: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::masked_scatter(self, mask.as_ref(), source.as_ref())
    }

    /// Integers as rows of zeros with a one; -1 classes: as many as the largest needs. See [`aten::one_hot`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1i64, 0], &[2])?;
    /// assert_eq!(x.one_hot(3)?.to_vec::<i64>()?, [0, 1, 0, 1, 0, 0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(&self, num_classes: impl Int) -> Result<Tensor> {
        aten::one_hot(self, num_classes.to_i64())
    }
}
