//! Methods that write in place, of those in other files.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Other, Tensor};
use straightline_passes::ir::Scalar;

impl Tensor {
    /// [`Tensor::scatter`] in place.
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let x = Tensor::zeros([3])?;
    /// x.scatter_(0, &tensor([0, 2])?, 1)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 0.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_<'a>(
        &self,
        dim: i64,
        index: &Tensor,
        src: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        match src.into() {
            Other::Tensor(src) => aten::scatter_src_(self, dim, index, src),
            Other::Owned(src) => aten::scatter_src_(self, dim, index, &src),
            Other::Number(value) => aten::scatter_value_(self, dim, index, value),
        }
    }

    /// [`Tensor::scatter_add`] in place.
    #[track_caller]
    pub fn scatter_add_(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        aten::scatter_add_(self, dim, index, src)
    }

    /// [`Tensor::index_add`] in place.
    #[track_caller]
    pub fn index_add_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        aten::index_add_(self, dim, index, source, Scalar::Int(1))
    }

    /// [`Tensor::index_copy`] in place.
    #[track_caller]
    pub fn index_copy_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        aten::index_copy_(self, dim, index, source)
    }

    /// [`Tensor::index_fill`] in place.
    #[track_caller]
    pub fn index_fill_(
        &self,
        dim: i64,
        index: &Tensor,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::index_fill_int_scalar_(self, dim, index, value.into())
    }

    /// [`Tensor::masked_scatter`] in place.
    #[track_caller]
    pub fn masked_scatter_(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        aten::masked_scatter_(self, mask, source)
    }

    /// [`Tensor::lerp`] in place.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([0.0, 2.0])?;
    /// x.lerp_(&tensor([4.0, 4.0])?, 0.5)?;
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn lerp_<'a>(&self, end: &Tensor, weight: impl Into<Other<'a>>) -> Result<Tensor> {
        match weight.into() {
            Other::Tensor(weight) => aten::lerp_tensor_(self, end, weight),
            Other::Owned(weight) => aten::lerp_tensor_(self, end, &weight),
            Other::Number(weight) => aten::lerp_scalar_(self, end, weight),
        }
    }

    /// [`Tensor::addcmul`] in place.
    #[track_caller]
    pub fn addcmul_(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::addcmul_(self, a, b, value.into())
    }

    /// [`Tensor::addcdiv`] in place: the step of an optimiser.
    ///
    /// ```
    /// use straightline::tensor;
    /// let w = tensor([1.0])?;
    /// w.addcdiv_(&tensor([4.0])?, &tensor([2.0])?, -0.1)?;
    /// straightline::assert_close(&w, &tensor([0.8])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv_(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        aten::addcdiv_(self, a, b, value.into())
    }

    /// [`Tensor::addmm`] in place.
    #[track_caller]
    pub fn addmm_(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        aten::addmm_(self, a, b, Scalar::Int(1), Scalar::Int(1))
    }

    /// [`Tensor::cumsum`] in place.
    #[track_caller]
    pub fn cumsum_(&self, dim: i64) -> Result<Tensor> {
        aten::cumsum_(self, dim, None)
    }

    /// [`Tensor::cumprod`] in place.
    #[track_caller]
    pub fn cumprod_(&self, dim: i64) -> Result<Tensor> {
        aten::cumprod_(self, dim, None)
    }

    /// [`Tensor::tril`] in place.
    #[track_caller]
    pub fn tril_(&self, diagonal: i64) -> Result<Tensor> {
        aten::tril_(self, diagonal)
    }

    /// [`Tensor::triu`] in place.
    #[track_caller]
    pub fn triu_(&self, diagonal: i64) -> Result<Tensor> {
        aten::triu_(self, diagonal)
    }

    /// [`Tensor::square`] in place.
    #[track_caller]
    pub fn square_(&self) -> Result<Tensor> {
        aten::square_(self)
    }

    /// [`Tensor::logical_not`] in place.
    #[track_caller]
    pub fn logical_not_(&self) -> Result<Tensor> {
        aten::logical_not_(self)
    }

    /// Ones with this probability, and zeros otherwise, drawn in place. See [`aten::bernoulli_float_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::zeros([2])?.bernoulli_(1.0)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli_(&self, p: f64) -> Result<Tensor> {
        aten::bernoulli_float_(self, p, None)
    }

    /// Numbers of the exponential distribution of rate `lambda`, drawn in place. See [`aten::exponential_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert!(Tensor::zeros([8])?.exponential_(1.0)?.ge(0)?.all()?.item::<bool>()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn exponential_(&self, lambda: f64) -> Result<Tensor> {
        aten::exponential_(self, lambda, None)
    }

    /// Integers from `low` to below `high`, drawn in place. See [`aten::random_from_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert!(Tensor::zeros([8])?.random_(2, 5)?.lt(5)?.all()?.item::<bool>()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn random_(&self, low: i64, high: i64) -> Result<Tensor> {
        aten::random_from_(self, low, Some(high), None)
    }
}
