//! Sets, searches, histograms, random numbers in place, joining, losses, comparisons of whole tensors.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor, Tensors};
use straightline_catalog::Scalar;

impl Tensor {
    /// The different elements in order; [`aten::_unique2`] also gives where each went and how many there are.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([3, 1, 3])?.unique()?.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn unique(&self) -> Result<Tensor> {
        Ok(aten::_unique2(self, true, false, false)?.0)
    }

    /// The elements without those that equal the one before. See [`aten::unique_consecutive`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([3, 3, 1, 3])?.unique_consecutive()?.to_vec::<i64>()?, [3, 1, 3]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_consecutive(&self) -> Result<Tensor> {
        Ok(aten::unique_consecutive(self, false, false, None)?.0)
    }

    /// Where an element is among some values. See [`aten::isin_tensor_tensor`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1, 2, 3])?;
    /// assert_eq!(x.isin(&tensor([3, 1])?)?.to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isin(&self, values: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::isin_tensor_tensor(self, values.as_ref(), false, false)
    }

    /// Where values would have to be inserted into this sorted tensor to keep it sorted, before equal ones. See
    /// [`aten::searchsorted_tensor`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 3.0, 5.0])?;
    /// assert_eq!(x.searchsorted(&tensor([3.0, 4.0])?)?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::searchsorted_tensor(self, values.as_ref(), false, false, None, None)
    }

    /// Between which sorted boundaries each element lies. See [`aten::bucketize_tensor`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([0.5, 4.0])?;
    /// assert_eq!(x.bucketize(&tensor([1.0, 3.0])?)?.to_vec::<i64>()?, [0, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bucketize(&self, boundaries: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::bucketize_tensor(self, boundaries.as_ref(), false, false)
    }

    /// How many elements lie in each of so many equal parts of a range. See [`aten::histc`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([0.1, 0.2, 0.9])?;
    /// assert_eq!(x.histc(2, 0, 1)?.to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn histc(
        &self,
        bins: impl Int,
        min: impl Into<Scalar>,
        max: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::histc(self, bins.to_i64(), min.into(), max.into())
    }

    /// The differences of neighbours along the last dimension. See [`aten::diff`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 4, 9])?.diff()?.to_vec::<i64>()?, [3, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self) -> Result<Tensor> {
        self.diff_dim(-1)
    }

    /// [`Tensor::diff`] along a dimension.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 4, 9])?.diff_dim(-1)?.to_vec::<i64>()?, [3, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diff_dim(&self, dim: impl Int) -> Result<Tensor> {
        aten::diff(self, 1, dim.to_i64(), None, None)
    }

    /// The logarithm of the sum of the exponentials so far along a dimension. See [`aten::logcumsumexp`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([0.0, 0.0])?.logcumsumexp(0)?.exp()?, &tensor([1.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logcumsumexp(&self, dim: impl Int) -> Result<Tensor> {
        aten::logcumsumexp(self, dim.to_i64())
    }

    /// The product along a dimension. See [`aten::prod_dim_int`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 3]])?.prod_dim(1)?.to_vec::<i64>()?, [6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn prod_dim(&self, dim: impl Int) -> Result<Tensor> {
        aten::prod_dim_int(self, dim.to_i64(), false, None)
    }

    /// [`Tensor::prod_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 3]])?.prod_keepdim(1)?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn prod_keepdim(&self, dim: impl Int) -> Result<Tensor> {
        aten::prod_dim_int(self, dim.to_i64(), true, None)
    }

    /// Whether all elements along a dimension are non-zero. See [`aten::all_dim`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 0]])?.all_dim(1)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn all_dim(&self, dim: impl Int) -> Result<Tensor> {
        aten::all_dim(self, dim.to_i64(), false)
    }

    /// [`Tensor::all_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 0]])?.all_keepdim(1)?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn all_keepdim(&self, dim: impl Int) -> Result<Tensor> {
        aten::all_dim(self, dim.to_i64(), true)
    }

    /// Whether any element along a dimension is non-zero. See [`aten::any_dim`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 0]])?.any_dim(1)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn any_dim(&self, dim: impl Int) -> Result<Tensor> {
        aten::any_dim(self, dim.to_i64(), false)
    }

    /// [`Tensor::any_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 0]])?.any_keepdim(1)?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn any_keepdim(&self, dim: impl Int) -> Result<Tensor> {
        aten::any_dim(self, dim.to_i64(), true)
    }

    /// The commonest elements along the last dimension, and where they are. See [`aten::mode`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (values, _) = tensor([[3, 1, 3], [2, 2, 5]])?.mode()?;
    /// assert_eq!(values.to_vec::<i64>()?, [3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mode(&self) -> Result<(Tensor, Tensor)> {
        self.mode_dim(-1)
    }

    /// [`Tensor::mode`] along a dimension, which stays with size 1 where `keepdim` says so.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (values, _) = tensor([3, 1, 3])?.mode_dim(0)?;
    /// assert_eq!(values.item::<i64>()?, 3);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mode_dim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::mode(self, dim.to_i64(), false)
    }

    /// [`Tensor::mode_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([3, 1, 3])?.mode_keepdim(0)?.0.shape(), [1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mode_keepdim(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        aten::mode(self, dim.to_i64(), true)
    }

    /// A view with dimensions of size 1, and new ones in front, repeated. See [`aten::broadcast_to`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.broadcast_to([2, 2])?.to_vec::<i64>()?, [1, 2, 1, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, sizes: impl Ints) -> Result<Tensor> {
        aten::broadcast_to(self, &sizes.ints())
    }

    /// Tensors side by side: along the second dimension, and the first of vectors. See [`aten::hstack`].
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let x = tensor([1, 2])?;
    /// assert_eq!(Tensor::hstack([&x, &x])?.sizes(), [4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn hstack(tensors: impl Tensors) -> Result<Tensor> {
        aten::hstack(&tensors.tensors())
    }

    /// Tensors below each other: along the first dimension, vectors as rows. See [`aten::vstack`].
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let x = tensor([1, 2])?;
    /// assert_eq!(Tensor::vstack([&x, &x])?.sizes(), [2, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn vstack(tensors: impl Tensors) -> Result<Tensor> {
        aten::vstack(&tensors.tensors())
    }

    /// Vectors as coordinates of a grid: each repeated along the dimensions of the others. See
    /// [`aten::meshgrid_indexing`].
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let grid = Tensor::meshgrid([&tensor([1, 2])?, &tensor([3])?])?;
    /// assert_eq!(grid[0].to_vec2::<i64>()?, [[1], [2]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid(tensors: impl Tensors) -> Result<Vec<Tensor>> {
        aten::meshgrid_indexing(&tensors.tensors(), "ij")
    }

    /// So many indices drawn with these probabilities, which need not sum to 1; `replacement` says whether an index may be
    /// drawn again. See [`aten::multinomial`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([0.0, 1.0])?.multinomial(1, false)?.to_vec::<i64>()?, [1]);
    /// assert_eq!(tensor([0.0, 1.0])?.multinomial(2, true)?.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&self, samples: impl Int, replacement: bool) -> Result<Tensor> {
        aten::multinomial(self, samples.to_i64(), replacement, None)
    }

    /// Overwrites with random numbers of a normal distribution. See [`aten::normal_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::zeros([2])?;
    /// x.normal_(5.0, 0.0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [5.0, 5.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn normal_(&self, mean: impl Into<f64>, std: impl Into<f64>) -> Result<Tensor> {
        aten::normal_(self, mean.into(), std.into(), None)
    }

    /// Overwrites with random numbers, equally likely anywhere from one number up to another. See
    /// [`aten::uniform_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::zeros([2])?;
    /// x.uniform_(1.0, 2.0)?;
    /// assert!(x.min()?.item::<f32>()? >= 1.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn uniform_(&self, from: impl Into<f64>, to: impl Into<f64>) -> Result<Tensor> {
        aten::uniform_(self, from.into(), to.into(), None)
    }

    /// 1 with the probability that each element is, and 0 otherwise. See [`aten::bernoulli`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([0.0, 1.0])?.bernoulli()?.to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli(&self) -> Result<Tensor> {
        aten::bernoulli(self, None)
    }

    /// Where two tensors are close, as PyTorch has it: [`Tensor::isclose_with`] a relative tolerance of 1e-5 and an
    /// absolute one of 1e-8.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([1.0, 2.0])?, tensor([1.000001, 2.1])?);
    /// assert_eq!(x.isclose(&y)?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isclose(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        self.isclose_with(other.as_ref(), 1e-5, 1e-8)
    }

    /// Where `|self - other| <= atol + rtol * |other|`, broadcasting; infinities are close to themselves, and NaN to
    /// nothing.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([1.0, 2.0])?, tensor([1.0, 2.1])?);
    /// assert_eq!(x.isclose_with(&y, 1e-5, 1e-8)?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isclose_with(
        &self,
        other: impl AsRef<Tensor>,
        rtol: impl Into<f64>,
        atol: impl Into<f64>,
    ) -> Result<Tensor> {
        let other = other.as_ref();
        let same = self.eq(other)?;
        let difference = self.sub(other)?.abs()?;
        let near = difference.le(other.abs()?.mul(rtol.into())?.add(atol.into())?)?;
        // an infinity is close to itself only, whatever the tolerance makes of it
        same.logical_or(near.logical_and(difference.isfinite()?)?)
    }

    /// Whether all elements are close ([`Tensor::isclose`]). In tests [`assert_close`](crate::assert_close) says where
    /// not.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// assert!(x.exp()?.log()?.allclose(&x)?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn allclose(&self, other: impl AsRef<Tensor>) -> Result<bool> {
        self.isclose(other.as_ref())?.all()?.item()
    }

    /// [`Tensor::allclose`] with a relative and an absolute tolerance, [`Tensor::isclose_with`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// assert!(x.exp()?.log()?.allclose_with(&x, 1e-5, 1e-8)?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn allclose_with(
        &self,
        other: impl AsRef<Tensor>,
        rtol: impl Into<f64>,
        atol: impl Into<f64>,
    ) -> Result<bool> {
        self.isclose_with(other.as_ref(), rtol.into(), atol.into())?
            .all()?
            .item()
    }

    /// Whether two tensors have the same sizes and elements.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// assert!(x.equal(&x.copied()?)? && !x.equal(&tensor([1.0])?)?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn equal(&self, other: impl AsRef<Tensor>) -> Result<bool> {
        match self.sizes() == other.as_ref().sizes() {
            true => self.eq(other.as_ref())?.all()?.item(),
            false => Ok(false),
        }
    }
}
