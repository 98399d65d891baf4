//! Linear algebra: products of vectors, decompositions, systems of equations.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Ints, Tensor, Tensors};

impl Tensor {
    /// The inverses of square matrices. See [`aten::inverse`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[2.0, 0.0], [0.0, 4.0]])?;
    /// straightline::assert_close(&a.inverse()?, &tensor([[0.5, 0.0], [0.0, 0.25]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square, or have no inverse.
    #[track_caller]
    pub fn inverse(&self) -> Result<Tensor> {
        aten::inverse(self)
    }

    /// The determinants of square matrices. See [`aten::det`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// straightline::assert_close(&a.det()?, &tensor(8.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn det(&self) -> Result<Tensor> {
        aten::det(self)
    }

    /// The logarithms of the determinants of square matrices. See [`aten::logdet`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// straightline::assert_close(&a.logdet()?.exp()?, &tensor(8.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn logdet(&self) -> Result<Tensor> {
        aten::logdet(self)
    }

    /// Signs of the determinants of square matrices, and the logarithms of their magnitudes. See
    /// [`aten::slogdet`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// let (sign, log) = a.slogdet()?;
    /// assert_eq!(sign.item::<f32>()?, 1.0);
    /// straightline::assert_close(&log.exp()?, &tensor(8.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn slogdet(&self) -> Result<(Tensor, Tensor)> {
        aten::slogdet(self)
    }

    /// `x` with `self @ x = b`, of square matrices; `b` is a matrix or a vector. See [`aten::linalg_solve`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// let b = tensor([8.0, 7.0])?;
    /// straightline::assert_close(&a.solve(&b)?, &tensor([1.25, 1.5])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are singular, or do not fit.
    #[track_caller]
    pub fn solve(&self, b: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::linalg_solve(self, b.as_ref(), true)
    }

    /// Lower triangular `l` with `l @ l^H = self`. See [`aten::linalg_cholesky`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// let l = a.cholesky()?;
    /// straightline::assert_close(&l.matmul(&l.t()?)?, &a)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not positive definite.
    #[track_caller]
    pub fn cholesky(&self) -> Result<Tensor> {
        aten::linalg_cholesky(self, false)
    }

    /// Orthonormal `q` and upper triangular `r` with `q @ r = self`. See [`aten::linalg_qr`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// let (q, r) = a.qr()?;
    /// straightline::assert_close(&q.matmul(&r)?, &a)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn qr(&self) -> Result<(Tensor, Tensor)> {
        aten::linalg_qr(self, "reduced")
    }

    /// Singular values, greatest first. See [`aten::linalg_svdvals`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[0.0, 2.0], [1.0, 0.0]])?;
    /// straightline::assert_close(&a.svdvals()?, &tensor([2.0, 1.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn svdvals(&self) -> Result<Tensor> {
        aten::linalg_svdvals(self, None)
    }

    /// The sum of the diagonal of a matrix. See [`aten::trace`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// straightline::assert_close(&a.trace()?, &tensor(7.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn trace(&self) -> Result<Tensor> {
        aten::trace(self)
    }

    /// The diagonal of a matrix; of a vector, the matrix that has it as its diagonal. See [`aten::diag`].
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.diag()?.to_vec2::<i64>()?, [[1, 0], [0, 2]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diag(&self) -> Result<Tensor> {
        self.diag_with(0)
    }

    /// [`Tensor::diag`] of the diagonal that lies so far above the main one (below where negative).
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([1, 2])?.diag_with(0)?.to_vec2::<i64>()?, [[1, 0], [0, 2]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_with(&self, diagonal: impl Int) -> Result<Tensor> {
        aten::diag(self, diagonal.to_i64())
    }

    /// Sums of products over named dimensions. See [`aten::einsum`].
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// let x = tensor([1.0, 2.0])?;
    /// straightline::assert_close(&Tensor::einsum("ij,j->i", [&a, &x])?, &tensor([8.0, 8.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn einsum(equation: &str, tensors: impl Tensors) -> Result<Tensor> {
        aten::einsum(equation, &tensors.tensors(), None)
    }

    /// The inner product of two vectors. See [`aten::dot`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// straightline::assert_close(&x.dot(&x)?, &tensor(5.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn dot(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::dot(self, other.as_ref())
    }

    /// The inner product of two vectors, the first one conjugated. See [`aten::vdot`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// straightline::assert_close(&x.vdot(&x)?, &tensor(5.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn vdot(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::vdot(self, other.as_ref())
    }

    /// The product of a matrix and a vector. See [`aten::mv`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// straightline::assert_close(&a.mv(&tensor([1.0, 2.0])?)?, &tensor([8.0, 8.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mv(&self, vector: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::mv(self, vector.as_ref())
    }

    /// The products of each element of a vector with each of another one. See [`aten::outer`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1, 2])?;
    /// assert_eq!(x.outer(&x)?.to_vec2::<i64>()?, [[1, 2], [2, 4]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn outer(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::outer(self, other.as_ref())
    }

    /// The Kronecker product. See [`aten::kron`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1, 2])?;
    /// assert_eq!(x.kron(&x)?.to_vec::<i64>()?, [1, 2, 2, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn kron(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::kron(self, other.as_ref())
    }

    /// `self + matrix @ vector`. See [`aten::addmv`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// let x = tensor([1.0, 2.0])?;
    /// straightline::assert_close(&x.addmv(&a, &x)?, &tensor([9.0, 10.0])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addmv(&self, matrix: impl AsRef<Tensor>, vector: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::addmv(self, matrix.as_ref(), vector.as_ref(), 1.into(), 1.into())
    }

    /// `self + a @ b`, of batches of matrices. See [`aten::baddbmm`].
    ///
    /// ```
    /// use straightline::{Tensor, tensor};
    /// let x = Tensor::ones([1, 2, 2])?;
    /// straightline::assert_close(&x.baddbmm(&x, &x)?, &tensor([[[3.0, 3.0], [3.0, 3.0]]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn baddbmm(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::baddbmm(self, a.as_ref(), b.as_ref(), 1.into(), 1.into())
    }

    /// The sum of products over pairs of dimensions. See [`aten::tensordot`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    /// straightline::assert_close(&a.tensordot(&a, [0, 1], [0, 1])?, &tensor(33.0)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn tensordot(
        &self,
        other: impl AsRef<Tensor>,
        dims: impl Ints,
        other_dims: impl Ints,
    ) -> Result<Tensor> {
        aten::tensordot(self, other.as_ref(), &dims.ints(), &other_dims.ints())
    }

    /// The cosine of the angle between vectors along dimension 1. See [`aten::cosine_similarity`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([[3.0, 4.0]])?, tensor([[4.0, 3.0]])?);
    /// straightline::assert_close(&x.cosine_similarity(&y)?, &tensor([0.96])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        self.cosine_similarity_dim(other.as_ref(), 1)
    }

    /// [`Tensor::cosine_similarity`] along any dimension.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([3.0, 4.0])?, tensor([4.0, 3.0])?);
    /// straightline::assert_close(&x.cosine_similarity_dim(&y, 0)?, &tensor(0.96)?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity_dim(
        &self,
        other: impl AsRef<Tensor>,
        dim: impl Int,
    ) -> Result<Tensor> {
        aten::cosine_similarity(self, other.as_ref(), dim.to_i64(), 1e-8)
    }

    /// The Euclidean distances between each row and each row of another matrix. See [`aten::cdist`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([[0.0, 0.0]])?, tensor([[3.0, 4.0]])?);
    /// straightline::assert_close(&x.cdist(&y)?, &tensor([[5.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cdist(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        self.cdist_with(other.as_ref(), 2.0)
    }

    /// [`Tensor::cdist`] in the `p`-norm.
    ///
    /// ```
    /// use straightline::tensor;
    /// let (x, y) = (tensor([[0.0, 0.0]])?, tensor([[3.0, 4.0]])?);
    /// straightline::assert_close(&x.cdist_with(&y, 2.0)?, &tensor([[5.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn cdist_with(&self, other: impl AsRef<Tensor>, p: impl Into<f64>) -> Result<Tensor> {
        aten::cdist(self, other.as_ref(), p.into(), None)
    }
}
