//! Matrix products, attention, and reading at computed positions.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
use straightline_catalog::Scalar;

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
    pub fn mm(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::mm(self, other.as_ref())
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
    pub fn bmm(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::bmm(self, other.as_ref())
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
    pub fn matmul(&self, other: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::matmul(self, other.as_ref())
    }

    /// `self + a @ b`. See [`aten::addmm`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let a = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// let b = Tensor::from_slice(&[3f32, 4.0], &[2, 1])?;
    /// assert_eq!(Tensor::from_vec([1f32], 1)?.addmm(&a, &b)?.to_vec::<f32>()?, [12.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn addmm(&self, a: impl AsRef<Tensor>, b: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::addmm(self, a.as_ref(), b.as_ref(), ONE, ONE)
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
    pub fn linear<'a>(
        &self,
        weight: impl AsRef<Tensor>,
        bias: impl Into<Option<&'a Tensor>>,
    ) -> Result<Tensor> {
        aten::linear(self, weight.as_ref(), bias.into())
    }

    /// `softmax(q k^T / sqrt(d)) v` with `self` as the query. See [`aten::scaled_dot_product_attention`].
    ///
    /// ```
    /// use straightline::tensor;
    /// let q = tensor([[1.0, 2.0]])?;
    /// assert_eq!(q.scaled_dot_product_attention(&q, &q)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        key: impl AsRef<Tensor>,
        value: impl AsRef<Tensor>,
    ) -> Result<Tensor> {
        self.scaled_dot_product_attention_with(key.as_ref(), value.as_ref(), None, false)
    }

    /// [`Tensor::scaled_dot_product_attention`] with a mask that is added before the softmax (or says where to look),
    /// or a causal one.
    ///
    /// ```
    /// use straightline::Tensor;
    /// let q = Tensor::from_slice(&[1f32, 2.0], &[1, 2])?;
    /// assert_eq!(q.scaled_dot_product_attention_with(&q, &q, None, false)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention_with<'a>(
        &self,
        key: impl AsRef<Tensor>,
        value: impl AsRef<Tensor>,
        mask: impl Into<Option<&'a Tensor>>,
        causal: bool,
    ) -> Result<Tensor> {
        aten::scaled_dot_product_attention(
            self,
            key.as_ref(),
            value.as_ref(),
            mask.into(),
            0.0,
            causal,
            None,
            false,
        )
    }

    /// Rows of this table at the indices. See [`aten::embedding`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let w = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(w.embedding(&Tensor::from_vec([1i64], 1)?)?.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(&self, indices: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::embedding(self, indices.as_ref(), -1, false, false)
    }

    /// Slices of a dimension at the indices. See [`aten::index_select`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0], 2)?;
    /// assert_eq!(x.index_select(0, &Tensor::from_vec([1i64, 0], 2)?)?.to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn index_select(&self, dim: impl Int, index: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::index_select(self, dim.to_i64(), index.as_ref())
    }

    /// Elements of a dimension at the indices. See [`aten::gather`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32, 2.0], 2)?;
    /// assert_eq!(x.gather(0, &Tensor::from_vec([1i64], 1)?)?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn gather(&self, dim: impl Int, index: impl AsRef<Tensor>) -> Result<Tensor> {
        aten::gather(self, dim.to_i64(), index.as_ref(), false)
    }
}
