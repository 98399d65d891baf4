//! Decompositions of matrices, and what is solved with them.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
use straightline_catalog::Scalar;

impl Tensor {
    /// Singular value decomposition: `u`, the singular values, greatest first, and the transposed `v`, with `u @
    /// diag(s) @ vh = self`. See [`aten::linalg_svd`]. As in `torch.linalg.svd`, `u` and `vh` are square;
    /// [`Tensor::svd_with`]`(false)` cuts them to the singular values.
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])?;
    /// let (u, s, vh) = a.svd()?;
    /// assert_eq!((u.shape(), s.shape(), vh.shape()), (&[3, 3][..], &[2][..], &[2, 2][..]));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn svd(&self) -> Result<(Tensor, Tensor, Tensor)> {
        self.svd_with(true)
    }

    /// Singular value decomposition: `u`, the singular values, greatest first, and the transposed `v`, with `u @
    /// diag(s) @ vh = self`. See [`aten::linalg_svd`]. Without `full_matrices` only as many vectors as there are
    /// singular values.
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])?;
    /// let (u, s, vh) = a.svd_with(false)?;
    /// assert_eq!((u.shape(), vh.shape()), (&[3, 2][..], &[2, 2][..]));
    /// straightline::assert_close(&s, &tensor([3.0, 2.0])?)?;
    /// straightline::assert_close(&u.mul(&s)?.matmul(&vh)?, &a)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices with infinities or NaN in them.
    #[track_caller]
    pub fn svd_with(&self, full_matrices: bool) -> Result<(Tensor, Tensor, Tensor)> {
        aten::linalg_svd(self, full_matrices, None)
    }

    /// Eigenvalues of symmetric matrices, in ascending order, and orthonormal eigenvectors as columns. The lower
    /// triangle is read. See [`aten::linalg_eigh`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[2.0, 1.0], [1.0, 2.0]])?;
    /// let (values, vectors) = a.eigh()?;
    /// straightline::assert_close(&values, &tensor([1.0, 3.0])?)?;
    /// straightline::assert_close(&a.matmul(&vectors)?, &vectors.mul(&values)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn eigh(&self) -> Result<(Tensor, Tensor)> {
        aten::linalg_eigh(self, "L")
    }

    /// Eigenvalues of symmetric matrices, in ascending order. See [`aten::linalg_eigvalsh`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[2.0, 1.0], [1.0, 2.0]])?;
    /// straightline::assert_close(&a.eigvalsh()?, &tensor([1.0, 3.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn eigvalsh(&self) -> Result<Tensor> {
        aten::linalg_eigvalsh(self, "L")
    }

    /// Eigenvalues of square matrices, in no order, and eigenvectors as columns, all complex. See [`aten::linalg_eig`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[2.0, 0.0], [0.0, 3.0]])?;
    /// let (values, vectors) = a.eig()?;
    /// assert!(values.dtype().is_complex() && vectors.shape() == [2, 2]);
    /// straightline::assert_close(&straightline::ops::aten::real(&values)?, &tensor([2.0, 3.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices with infinities or NaN in them.
    #[track_caller]
    pub fn eig(&self) -> Result<(Tensor, Tensor)> {
        aten::linalg_eig(self)
    }

    /// Eigenvalues of square matrices, in no order, complex. See [`aten::linalg_eigvals`].
    ///
    /// ```
    /// use straightline::{DType, tensor};
    /// assert_eq!(tensor([[0.0, -1.0], [1.0, 0.0]])?.eigvals()?.dtype(), DType::C64);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn eigvals(&self) -> Result<Tensor> {
        aten::linalg_eigvals(self)
    }

    /// The `x` for which `self @ x` is nearest to `b`, by least squares; [`aten::linalg_lstsq`] also gives residuals,
    /// rank and singular values.
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])?;
    /// let b = tensor([[1.0], [4.0], [9.0]])?;
    /// straightline::assert_close(&a.lstsq(&b)?, &tensor([[1.0], [2.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn lstsq(&self, b: impl AsRef<Tensor>) -> Result<Tensor> {
        Ok(aten::linalg_lstsq(self, b.as_ref(), None, None)?.0)
    }

    /// The pseudoinverses of matrices (Moore-Penrose). Singular values that are small beside the largest count as zero.
    /// See [`aten::linalg_pinv_atol_rtol_float`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[2.0, 0.0], [0.0, 0.0]])?;
    /// straightline::assert_close(&a.pinv()?, &tensor([[0.5, 0.0], [0.0, 0.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn pinv(&self) -> Result<Tensor> {
        aten::linalg_pinv_atol_rtol_float(self, None, None, false)
    }

    /// How many singular values are not zero, or nearly so. See [`aten::linalg_matrix_rank_atol_rtol_float`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 2.0], [2.0, 4.0]])?.matrix_rank()?.item::<i64>()?, 1);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_rank(&self) -> Result<Tensor> {
        aten::linalg_matrix_rank_atol_rtol_float(self, None, None, false)
    }

    /// The `n`-th power of square matrices, of their inverses where `n` is negative. See [`aten::matrix_power`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[1.0, 1.0], [0.0, 1.0]])?;
    /// assert_eq!(a.matrix_power(3)?.to_vec::<f32>()?, [1.0, 3.0, 0.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_power(&self, n: impl Int) -> Result<Tensor> {
        aten::matrix_power(self, n.to_i64())
    }

    /// The exponential of square matrices. See [`aten::matrix_exp`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[0.0, 1.0], [0.0, 0.0]])?;
    /// straightline::assert_close(&a.matrix_exp()?, &tensor([[1.0, 1.0], [0.0, 1.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_exp(&self) -> Result<Tensor> {
        aten::matrix_exp(self)
    }

    /// `x` with `self @ x = b`, of triangular matrices; `upper` says which triangle is read. See
    /// [`aten::linalg_solve_triangular`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[2.0, 0.0], [1.0, 1.0]])?;
    /// let b = tensor([[4.0], [5.0]])?;
    /// straightline::assert_close(&a.solve_triangular(&b, false)?, &tensor([[2.0], [3.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn solve_triangular(&self, b: impl AsRef<Tensor>, upper: bool) -> Result<Tensor> {
        aten::linalg_solve_triangular(self, b.as_ref(), upper, true, false)
    }

    /// A permutation, a lower and an upper triangular matrix with `p @ l @ u = self`. See [`aten::linalg_lu`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[0.0, 2.0], [1.0, 3.0]])?;
    /// let (p, l, u) = a.lu()?;
    /// straightline::assert_close(&p.matmul(&l)?.matmul(&u)?, &a)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn lu(&self) -> Result<(Tensor, Tensor, Tensor)> {
        aten::linalg_lu(self, true)
    }

    /// The Frobenius norm of matrices. [`Tensor::norm`] is that of vectors; see [`aten::linalg_matrix_norm_str_ord`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[3.0, 0.0], [4.0, 0.0]])?.matrix_norm()?.item::<f32>()?, 5.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_norm(&self) -> Result<Tensor> {
        aten::linalg_matrix_norm_str_ord(self, "fro", &[-2, -1], false, None)
    }

    /// The norm of matrices of an order: of 2 the greatest singular value, of 1 and infinity the greatest sum of
    /// magnitudes of a column or a row. See [`aten::linalg_matrix_norm`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[3.0, 0.0], [4.0, 1.0]])?;
    /// assert_eq!(a.matrix_norm_with(1)?.item::<f32>()?, 7.0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_norm_with(&self, ord: impl Into<Scalar>) -> Result<Tensor> {
        aten::linalg_matrix_norm(self, ord.into(), &[-2, -1], false, None)
    }

    /// The last two dimensions swapped, those of matrices in a batch: PyTorch's `mT`.
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::zeros([5, 2, 3])?.mt()?.shape(), [5, 3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two dimensions.
    #[track_caller]
    pub fn mt(&self) -> Result<Tensor> {
        aten::transpose_int(self, -2, -1)
    }

    /// [`Tensor::mt`], conjugated. See [`aten::adjoint`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// assert_eq!(Tensor::zeros([5, 2, 3])?.adjoint()?.shape(), [5, 3, 2]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn adjoint(&self) -> Result<Tensor> {
        aten::adjoint(self)
    }

    /// `self` plus the sum of the products of two batches of matrices. See [`aten::addbmm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let (c, a) = (Tensor::zeros([2, 2])?, Tensor::ones([3, 2, 2])?);
    /// assert_eq!(c.addbmm(&a, &a)?.to_vec::<f32>()?, [6.0; 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addbmm(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::addbmm(self, a.as_ref(), b.as_ref(), Scalar::Int(1), Scalar::Int(1))
    }

    /// `self` plus the outer product of two vectors. See [`aten::addr`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (c, v) = (tensor([[1.0, 1.0], [1.0, 1.0]])?, tensor([1.0, 2.0])?);
    /// assert_eq!(c.addr(&v, &v)?.to_vec::<f32>()?, [2.0, 3.0, 3.0, 5.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addr(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::addr(self, a.as_ref(), b.as_ref(), Scalar::Int(1), Scalar::Int(1))
    }
}
