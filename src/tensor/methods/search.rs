//! Sets, searches, histograms, random numbers in place, joining, losses, comparisons of whole tensors.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Ints, Tensor, Tensors};
use straightline_passes::ir::Scalar;

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
    pub fn isin(&self, values: &Tensor) -> Result<Tensor> {
        aten::isin_tensor_tensor(self, values, false, false)
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
    pub fn searchsorted(&self, values: &Tensor) -> Result<Tensor> {
        aten::searchsorted_tensor(self, values, false, false, None, None)
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
    pub fn bucketize(&self, boundaries: &Tensor) -> Result<Tensor> {
        aten::bucketize_tensor(self, boundaries, false, false)
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
        bins: i64,
        min: impl Into<Scalar>,
        max: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::histc(self, bins, min.into(), max.into())
    }

    /// The differences of neighbours along a dimension. See [`aten::diff`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 4, 9])?.diff(-1)?.to_vec::<i64>()?, [3, 5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self, dim: i64) -> Result<Tensor> {
        aten::diff(self, 1, dim, None, None)
    }

    /// The logarithm of the sum of the exponentials so far along a dimension. See [`aten::logcumsumexp`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([0.0, 0.0])?.logcumsumexp(0)?.exp()?, &tensor([1.0, 2.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logcumsumexp(&self, dim: i64) -> Result<Tensor> {
        aten::logcumsumexp(self, dim)
    }

    /// The product along a dimension. See [`aten::prod_dim_int`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 3]])?.prod_dim(1, false)?.to_vec::<i64>()?, [6]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn prod_dim(&self, dim: i64, keepdim: bool) -> Result<Tensor> {
        aten::prod_dim_int(self, dim, keepdim, None)
    }

    /// Whether all elements along a dimension are non-zero. See [`aten::all_dim`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 0]])?.all_dim(1, false)?.to_vec::<bool>()?, [false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn all_dim(&self, dim: i64, keepdim: bool) -> Result<Tensor> {
        aten::all_dim(self, dim, keepdim)
    }

    /// Whether any element along a dimension is non-zero. See [`aten::any_dim`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[2, 0]])?.any_dim(1, false)?.to_vec::<bool>()?, [true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn any_dim(&self, dim: i64, keepdim: bool) -> Result<Tensor> {
        aten::any_dim(self, dim, keepdim)
    }

    /// The commonest elements along a dimension, and where they are. See [`aten::mode`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (values, _) = tensor([3, 1, 3])?.mode(0, false)?;
    /// assert_eq!(values.item::<i64>()?, 3);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mode(&self, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        aten::mode(self, dim, keepdim)
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

    /// Indices drawn with these probabilities, which need not sum to 1. See [`aten::multinomial`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([0.0, 1.0])?.multinomial(1, false)?.to_vec::<i64>()?, [1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&self, samples: i64, replacement: bool) -> Result<Tensor> {
        aten::multinomial(self, samples, replacement, None)
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
    pub fn normal_(&self, mean: f64, std: f64) -> Result<Tensor> {
        aten::normal_(self, mean, std, None)
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
    pub fn uniform_(&self, from: f64, to: f64) -> Result<Tensor> {
        aten::uniform_(self, from, to, None)
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

    /// The mean of the magnitudes of the differences. See [`aten::l1_loss`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([1.0, 2.0])?.l1_loss(&tensor([2.0, 5.0])?)?, &tensor(2.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor) -> Result<Tensor> {
        aten::l1_loss(self, target, 1)
    }

    /// The mean of the negative log-probabilities of the target classes. See [`aten::nll_loss_nd`].
    ///
    /// ```
    /// use straightline::tensor;
    /// straightline::assert_close(&tensor([[-1.0, -2.0]])?.nll_loss(&tensor([1])?)?, &tensor(2.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor) -> Result<Tensor> {
        aten::nll_loss_nd(self, target, None, 1, -100)
    }

    /// Where `|self - other| <= atol + rtol * |other|`, broadcasting; infinities are close to themselves, and
    /// NaN to nothing.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([1.0, 2.0])?, tensor([1.0, 2.1])?);
    /// assert_eq!(x.isclose(&y, 1e-5, 1e-8)?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isclose(&self, other: &Tensor, rtol: f64, atol: f64) -> Result<Tensor> {
        let same = self.eq(other)?;
        let difference = self.sub(other)?.abs()?;
        let near = difference.le(other.abs()?.mul(rtol)?.add(atol)?)?;
        // an infinity is close to itself only, whatever the tolerance makes of it
        same.logical_or(near.logical_and(difference.isfinite()?)?)
    }

    /// Whether all elements are close ([`Tensor::isclose`]). In tests [`assert_close`](crate::assert_close)
    /// says where not.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// assert!(x.exp()?.log()?.allclose(&x, 1e-5, 1e-8)?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64) -> Result<bool> {
        self.isclose(other, rtol, atol)?.all()?.item()
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
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        match self.sizes() == other.sizes() {
            true => self.eq(other)?.all()?.item(),
            false => Ok(false),
        }
    }
}
