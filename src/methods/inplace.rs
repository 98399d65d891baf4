//! Methods that write in place, of those in other files.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Other, Tensor};
use straightline_catalog::Scalar;

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
        dim: impl Int,
        index: impl AsRef<Tensor>,
        src: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        match src.into() {
            Other::Tensor(src) => aten::scatter_src_(self, dim.to_i64(), index.as_ref(), src),
            Other::Owned(src) => aten::scatter_src_(self, dim.to_i64(), index.as_ref(), &src),
            Other::Number(value) => aten::scatter_value_(self, dim.to_i64(), index.as_ref(), value),
        }
    }

    /// [`Tensor::scatter_add`] in place.
    #[track_caller]
    pub fn scatter_add_(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        src: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::scatter_add_(self, dim.to_i64(), index.as_ref(), src.as_ref())
    }

    /// [`Tensor::index_add`] in place.
    #[track_caller]
    pub fn index_add_(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        source: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::index_add_(
            self,
            dim.to_i64(),
            index.as_ref(),
            source.as_ref(),
            Scalar::Int(1),
        )
    }

    /// [`Tensor::index_copy`] in place.
    #[track_caller]
    pub fn index_copy_(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        source: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::index_copy_(self, dim.to_i64(), index.as_ref(), source.as_ref())
    }

    /// [`Tensor::index_fill`] in place.
    #[track_caller]
    pub fn index_fill_(
        &self,
        dim: impl Int,
        index: impl AsRef<Tensor>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::index_fill_int_scalar_(self, dim.to_i64(), index.as_ref(), value.into())
    }

    /// [`Tensor::masked_scatter`] in place.
    #[track_caller]
    pub fn masked_scatter_(
        &self,
        mask: impl AsRef<Tensor>,
        source: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        aten::masked_scatter_(self, mask.as_ref(), source.as_ref())
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
    pub fn lerp_<'a>(
        &self,
        end: impl AsRef<Tensor>,
        weight: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        match weight.into() {
            Other::Tensor(weight) => aten::lerp_tensor_(self, end.as_ref(), weight),
            Other::Owned(weight) => aten::lerp_tensor_(self, end.as_ref(), &weight),
            Other::Number(weight) => aten::lerp_scalar_(self, end.as_ref(), weight),
        }
    }

    /// [`Tensor::addcmul`] in place.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, a, b) = (tensor(2.0)?, tensor(3.0)?, tensor(4.0)?);
    /// assert_eq!(x.addcmul_(&a, &b)?.item::<f32>()?, 14.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul_(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        self.addcmul_with_(a.as_ref(), b.as_ref(), 1)
    }

    /// [`Tensor::addcmul_with`] in place.
    #[track_caller]
    pub fn addcmul_with_(
        &self,
        a: impl AsRef<Tensor>,
        b: impl AsRef<Tensor>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::addcmul_(self, a.as_ref(), b.as_ref(), value.into())
    }

    /// [`Tensor::addcdiv`] in place.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, a, b) = (tensor(2.0)?, tensor(3.0)?, tensor(4.0)?);
    /// assert_eq!(x.addcdiv_(&a, &b)?.item::<f32>()?, 2.75);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv_(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        self.addcdiv_with_(a.as_ref(), b.as_ref(), 1)
    }

    /// [`Tensor::addcdiv_with`] in place: the step of an optimiser.
    ///
    /// ```
    /// use straightline::tensor;
    /// let w = tensor([1.0])?;
    /// w.addcdiv_with_(&tensor([4.0])?, &tensor([2.0])?, -0.1)?;
    /// straightline::assert_close(&w, &tensor([0.8])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv_with_(
        &self,
        a: impl AsRef<Tensor>,
        b: impl AsRef<Tensor>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        aten::addcdiv_(self, a.as_ref(), b.as_ref(), value.into())
    }

    /// [`Tensor::addmm`] in place.
    #[track_caller]
    pub fn addmm_(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::addmm_(self, a.as_ref(), b.as_ref(), Scalar::Int(1), Scalar::Int(1))
    }

    /// [`Tensor::cumsum`] in place.
    #[track_caller]
    pub fn cumsum_(&self, dim: impl Int) -> Result<Tensor> {
        aten::cumsum_(self, dim.to_i64(), None)
    }

    /// [`Tensor::cumprod`] in place.
    #[track_caller]
    pub fn cumprod_(&self, dim: impl Int) -> Result<Tensor> {
        aten::cumprod_(self, dim.to_i64(), None)
    }

    /// [`Tensor::tril`] in place.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.tril_()?.to_vec::<i64>()?, [1, 0, 3, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tril_(&self) -> Result<Tensor> {
        self.tril_with_(0)
    }

    /// [`Tensor::tril_with`] in place.
    #[track_caller]
    pub fn tril_with_(&self, diagonal: impl Int) -> Result<Tensor> {
        aten::tril_(self, diagonal.to_i64())
    }

    /// [`Tensor::triu`] in place.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1, 2], [3, 4]])?.triu_()?.to_vec::<i64>()?, [1, 2, 0, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn triu_(&self) -> Result<Tensor> {
        self.triu_with_(0)
    }

    /// [`Tensor::triu_with`] in place.
    #[track_caller]
    pub fn triu_with_(&self, diagonal: impl Int) -> Result<Tensor> {
        aten::triu_(self, diagonal.to_i64())
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
    pub fn bernoulli_(&self, p: impl Into<f64>) -> Result<Tensor> {
        aten::bernoulli_float_(self, p.into(), None)
    }

    /// Numbers of the exponential distribution of rate `lambda`, drawn in place. See [`aten::exponential_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert!(Tensor::zeros([8])?.exponential_(1.0)?.ge(0)?.all()?.item::<bool>()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn exponential_(&self, lambda: impl Into<f64>) -> Result<Tensor> {
        aten::exponential_(self, lambda.into(), None)
    }

    /// Integers from `low` to below `high`, drawn in place. See [`aten::random_from_`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert!(Tensor::zeros([8])?.random_(2, 5)?.lt(5)?.all()?.item::<bool>()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn random_(&self, low: impl Int, high: impl Int) -> Result<Tensor> {
        aten::random_from_(self, low.to_i64(), Some(high.to_i64()), None)
    }
}
