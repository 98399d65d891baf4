//! What is not a number, and functions that are special.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Other, Tensor};

impl Tensor {
    /// Zero in place of each NaN, and the greatest and the least finite number in place of the infinities. See
    /// [`aten::nan_to_num`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, f64::NAN, f64::NEG_INFINITY])?;
    /// assert_eq!(x.nan_to_num()?.to_vec::<f32>()?, [1.0, 0.0, f32::MIN]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num(&self) -> Result<Tensor> {
        self.nan_to_num_with(0.0)
    }

    /// [`Tensor::nan_to_num`] with another number in place of NaN. See [`aten::nan_to_num`], which takes numbers for
    /// the infinities too.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, f64::NAN, f64::NEG_INFINITY])?;
    /// assert_eq!(x.nan_to_num_with(0.0)?.to_vec::<f32>()?, [1.0, 0.0, f32::MIN]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num_with(&self, nan: impl Into<f64>) -> Result<Tensor> {
        aten::nan_to_num(self, Some(nan.into()), None, None)
    }

    /// [`Tensor::nan_to_num`] in place.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, f64::NAN])?;
    /// assert_eq!(x.nan_to_num_()?.to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num_(&self) -> Result<Tensor> {
        self.nan_to_num_with_(0.0)
    }

    /// [`Tensor::nan_to_num_with`] in place.
    #[track_caller]
    pub fn nan_to_num_with_(&self, nan: impl Into<f64>) -> Result<Tensor> {
        aten::nan_to_num_(self, Some(nan.into()), None, None)
    }

    /// What comes after the point, with the number's sign. See [`aten::frac`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.5, -2.25])?.frac()?.to_vec::<f32>()?, [0.5, -0.25]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn frac(&self) -> Result<Tensor> {
        aten::frac(self)
    }

    /// [`Tensor::frac`] in place.
    #[track_caller]
    pub fn frac_(&self) -> Result<Tensor> {
        aten::frac_(self)
    }

    /// The sum of what is a number. See [`aten::nansum`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, f64::NAN, 2.0])?.nansum()?.item::<f32>()?, 3.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nansum(&self) -> Result<Tensor> {
        aten::nansum(self, None, false, None)
    }

    /// [`Tensor::nansum`] along dimensions.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, f64::NAN], [2.0, 3.0]])?;
    /// assert_eq!(x.nansum_dim(1)?.to_vec::<f32>()?, [1.0, 5.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nansum_dim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::nansum(self, Some(&dims.ints()), false, None)
    }

    /// [`Tensor::nansum_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, f64::NAN]])?.nansum_keepdim(1)?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nansum_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        aten::nansum(self, Some(&dims.ints()), true, None)
    }

    /// The mean of what is a number; NaN where nothing is.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, f64::NAN, 2.0])?.nanmean()?.item::<f32>()?, 1.5);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmean(&self) -> Result<Tensor> {
        self.nansum()?.div(self.isnan()?.logical_not()?.sum()?)
    }

    /// [`Tensor::nanmean`] along dimensions.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, f64::NAN], [2.0, 3.0]])?;
    /// assert_eq!(x.nanmean_dim(1)?.to_vec::<f32>()?, [1.0, 2.5]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmean_dim(&self, dims: impl Ints) -> Result<Tensor> {
        self.nanmean_over(dims, false)
    }

    /// [`Tensor::nanmean_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, f64::NAN]])?.nanmean_keepdim(1)?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmean_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        self.nanmean_over(dims, true)
    }

    #[track_caller]
    fn nanmean_over(&self, dims: impl Ints, keepdim: bool) -> Result<Tensor> {
        let dims = dims.ints();
        let numbers = self.isnan()?.logical_not()?;
        let numbers = aten::sum_dim_int_list(&numbers, Some(&dims), keepdim, None)?;
        aten::nansum(self, Some(&dims), keepdim, None)?.div(&numbers)
    }

    /// The median of what is a number. See [`aten::nanmedian`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, f64::NAN, 2.0, 3.0])?.nanmedian()?.item::<f32>()?, 2.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmedian(&self) -> Result<Tensor> {
        aten::nanmedian(self)
    }

    /// Where there is positive infinity. See [`aten::isposinf`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([f64::INFINITY, 1.0])?.isposinf()?.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isposinf(&self) -> Result<Tensor> {
        aten::isposinf(self)
    }

    /// Where there is negative infinity. See [`aten::isneginf`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([f64::INFINITY, f64::NEG_INFINITY])?.isneginf()?.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn isneginf(&self) -> Result<Tensor> {
        aten::isneginf(self)
    }

    /// Rounded to so many decimal places, half to even; to tens where the number is negative. See
    /// [`aten::round_decimals`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.234, 17.0])?.round_decimals(1)?.to_vec::<f32>()?, [1.2, 17.0]);
    /// assert_eq!(tensor([1.234, 17.0])?.round_decimals(-1)?.to_vec::<f32>()?, [0.0, 20.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn round_decimals(&self, decimals: impl Int) -> Result<Tensor> {
        aten::round_decimals(self, decimals.to_i64())
    }

    /// The `n`-th derivative of [`Tensor::digamma`]. See [`aten::polygamma`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?;
    /// assert_eq!(x.polygamma(0)?.to_vec::<f32>()?, x.digamma()?.to_vec::<f32>()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn polygamma(&self, n: impl Int) -> Result<Tensor> {
        aten::polygamma(n.to_i64(), self)
    }

    /// The modified Bessel function of the first kind of order 0. See [`aten::i0`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([0.0])?.i0()?.to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn i0(&self) -> Result<Tensor> {
        aten::i0(self)
    }

    /// `log2(2^self + 2^other)`, without overflow. See [`aten::logaddexp2`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0])?.logaddexp2(&tensor([1.0])?)?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp2<'a>(&self, other: impl Into<Other<'a>>) -> Result<Tensor> {
        aten::logaddexp2(self, &other.into().into_tensor()?)
    }

    /// `self * 2^other`. See [`aten::ldexp_tensor`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.5])?.ldexp(3)?.to_vec::<f32>()?, [12.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn ldexp<'a>(&self, other: impl Into<Other<'a>>) -> Result<Tensor> {
        aten::ldexp_tensor(self, &other.into().into_tensor()?)
    }

    /// The next number after each in the direction of `other`. See [`aten::nextafter`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?;
    /// assert_eq!(x.nextafter(&tensor([2.0])?)?.to_vec::<f32>()?, [1.0 + f32::EPSILON]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nextafter(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::nextafter(self, other.as_ref())
    }
}
