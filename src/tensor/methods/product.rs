//! Matrix products, attention, and reading at computed positions.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_passes::ir::Scalar;

const ONE: Scalar = Scalar::Int(1);

impl Tensor {
    /// The product of two matrices. See [`aten::mm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let a = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// let b = Tensor::from_slice(&[3f32, 4.0], &[2, 1])?;
    /// assert_eq!(a.mm(&b)?.to_vec::<f32>()?, [11.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn mm(&self, other: &Tensor) -> Result<Tensor> {
        aten::mm(self, other)
    }

    /// The products of two batches of matrices. See [`aten::bmm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let a = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// let b = Tensor::from_slice(&[3f32, 4.0], &[2, 1])?;
    /// let (a, b) = (a.unsqueeze(0)?, b.unsqueeze(0)?);
    /// assert_eq!(a.bmm(&b)?.to_vec::<f32>()?, [11.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn bmm(&self, other: &Tensor) -> Result<Tensor> {
        aten::bmm(self, other)
    }

    /// The matrix product with vectors and broadcast batches. See [`aten::matmul`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let a = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// let b = Tensor::from_slice(&[3f32, 4.0], &[2, 1])?;
    /// assert_eq!(a.matmul(&b)?.to_vec::<f32>()?, [11.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        aten::matmul(self, other)
    }

    /// `self + a @ b`. See [`aten::addmm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let a = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// let b = Tensor::from_slice(&[3f32, 4.0], &[2, 1])?;
    /// assert_eq!(Tensor::from_vec([1f32])?.addmm(&a, &b)?.to_vec::<f32>()?, [12.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        aten::addmm(self, a, b, ONE, ONE)
    }

    /// `self @ weight.T + bias`. See [`aten::linear`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let a = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// let b = Tensor::from_slice(&[3f32, 4.0], &[2, 1])?;
    /// assert_eq!(a.linear(&a, None)?.to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        aten::linear(self, weight, bias)
    }

    /// `softmax(q k^T / sqrt(d) + mask) v` with `self` as the query. See [`aten::scaled_dot_product_attention`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let q = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// assert_eq!(q.scaled_dot_product_attention(&q, &q, None, false)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
    ) -> Result<Tensor> {
        aten::scaled_dot_product_attention(self, key, value, mask, 0.0, causal, None, false)
    }

    /// Rows of this table at the indices. See [`aten::embedding`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let w = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(w.embedding(&Tensor::from_vec([1i64])?)?.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor) -> Result<Tensor> {
        aten::embedding(self, indices, -1, false, false)
    }

    /// Slices of a dimension at the indices. See [`aten::index_select`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0])?;
    /// assert_eq!(x.index_select(0, &Tensor::from_vec([1i64, 0])?)?.to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_select(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        aten::index_select(self, dim, index)
    }

    /// Elements of a dimension at the indices. See [`aten::gather`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0])?;
    /// assert_eq!(x.gather(0, &Tensor::from_vec([1i64])?)?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn gather(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        aten::gather(self, dim, index, false)
    }
}
