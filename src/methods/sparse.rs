//! Sparse and nested tensors, made of their parts.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Ints, Tensor};
use straightline_catalog::Layout;

impl Tensor {
    /// A tensor in coordinate form: element `i` of `values` is at column `i` of `indices`, which
    /// has a row for each sparse dimension. Equal coordinates count as their sum. See
    /// [`aten::sparse_coo_tensor_indices_size`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let indices = Tensor::from_slice(&[0i64, 1, 2, 0], &[2, 2])?; // (0, 2) and (1, 0)
    /// let s = Tensor::sparse_coo(&indices, &Tensor::from_vec([3f32, 4.0], 2)?, &[2, 3])?;
    /// assert_eq!(s.to_dense()?.to_vec::<f32>()?, [0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index outside of the sizes, or parts that do not fit together. Unlike PyTorch's, the
    /// check is always on.
    #[track_caller]
    pub fn sparse_coo(
        indices: impl AsRef<Tensor>,
        values: impl AsRef<Tensor>,
        sizes: impl Ints,
    ) -> Result<Tensor> {
        let (indices, values) = (indices.as_ref(), values.as_ref());
        let layout = Some(Layout::Sparse);
        aten::sparse_coo_tensor_indices_size(
            indices,
            values,
            &sizes.ints(),
            None,
            layout,
            None,
            None,
            None,
        )
    }

    /// A matrix in compressed-row form: row `r` has the elements `crow[r]..crow[r + 1]` of `col`
    /// and `values`. See [`aten::sparse_csr_tensor_crow_col_value_size`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let crow = Tensor::from_vec([0i64, 1, 2], 3)?;
    /// let col = Tensor::from_vec([2i64, 0], 2)?;
    /// let m = Tensor::sparse_csr(&crow, &col, &Tensor::from_vec([3f32, 4.0], 2)?, &[2, 3])?;
    /// let x = Tensor::from_slice(&[1f32, 1.0, 1.0], &[3, 1])?;
    /// assert_eq!(m.mm(&x)?.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Row bounds that do not rise from 0 to the number of values, or columns that are not sorted,
    /// different and in range within each row.
    #[track_caller]
    pub fn sparse_csr(
        crow: impl AsRef<Tensor>,
        col: impl AsRef<Tensor>,
        values: impl AsRef<Tensor>,
        sizes: impl Ints,
    ) -> Result<Tensor> {
        let (crow, col, values) = (crow.as_ref(), col.as_ref(), values.as_ref());
        let layout = Some(Layout::SparseCsr);
        aten::sparse_csr_tensor_crow_col_value_size(
            crow,
            col,
            values,
            &sizes.ints(),
            None,
            layout,
            None,
            Some(false),
        )
    }

    /// A batch of tensors of different sizes. [`sizes`](Tensor::sizes) has -1 where they differ.
    /// See [`aten::_nested_tensor_from_tensor_list`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let batch = Tensor::nested(&[Tensor::from_vec([1f32, 2.0], 2)?, Tensor::from_vec([3f32], 1)?])?;
    /// assert_eq!(batch.sizes(), [2, -1]);
    /// assert_eq!(batch.to_padded(0.0)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn nested(components: &[Tensor]) -> Result<Tensor> {
        aten::_nested_tensor_from_tensor_list(components, None, None, None, None)
    }
}
