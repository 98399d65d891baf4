//! Whether tensors are the same, or nearly.

use crate::error::Result;
use crate::tensor::Tensor;

impl Tensor {
    /// Where two tensors are close, as PyTorch has it: [`Tensor::isclose_with`] a relative
    /// tolerance of 1e-5 and an absolute one of 1e-8.
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

    /// Where `|self - other| <= atol + rtol * |other|`, broadcasting; infinities are close to
    /// themselves, and NaN to nothing.
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

    /// Whether all elements are close ([`Tensor::isclose`]). In tests
    /// [`assert_close`](crate::assert_close) says where not.
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
        self.isclose_with(other.as_ref(), rtol.into(), atol.into())?.all()?.item()
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
