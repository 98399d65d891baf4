//! Means without NaN, and norms, of dimensions that a list names.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Ints, Tensor};
use straightline_catalog::Scalar;

impl Tensor {
    /// The mean of what is a number; NaN where nothing is.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1.0, f64::NAN, 2.0])?.nanmean()?.item::<f32>()?, 1.5);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmean(&self) -> Result<Tensor> {
        aten::nanmean(self, None, false, None)
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
        aten::nanmean(self, Some(&dims), keepdim, None)
    }

    /// [`Tensor::norm`] over dimensions, over all of them where the list is empty.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[3.0, 4.0], [0.0, -7.0]])?;
    /// assert_eq!(x.norm_dim(1)?.to_vec::<f32>()?, [5.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_dim(&self, dims: impl Ints) -> Result<Tensor> {
        self.norm_with(2, dims, false)
    }

    /// [`Tensor::norm_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[3.0, 4.0]])?.norm_keepdim(1)?.shape(), [1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_keepdim(&self, dims: impl Ints) -> Result<Tensor> {
        self.norm_with(2, dims, true)
    }

    /// The vector norm of an order over dimensions, over all of them where the list is empty.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[3.0, 4.0], [0.0, -7.0]])?;
    /// assert_eq!(x.norm_with(2, 1, false)?.to_vec::<f32>()?, [5.0, 7.0]);
    /// assert_eq!(x.norm_with(f64::INFINITY, (), false)?.item::<f32>()?, 7.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn norm_with(
        &self,
        ord: impl Into<Scalar>,
        dims: impl Ints,
        keepdim: bool,
    ) -> Result<Tensor> {
        let dims = dims.ints();
        let dims = (!dims.is_empty()).then_some(&dims[..]);
        aten::linalg_vector_norm(self, ord.into(), dims, keepdim, None)
    }
}
