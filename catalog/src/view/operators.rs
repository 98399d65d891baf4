//! The map of each view operator: its arguments checked against the sizes of the source, and
//! brought into normal form.

use super::*;

/// The maps of view operators for a source of these sizes. In line, where the map is taken apart at
/// once: put into memory in parts and read back whole, it would take longer than the view.
impl ViewMap {
    /// `permute`.
    ///
    /// # Errors
    ///
    /// The list does not name each dimension of the source once.
    #[inline(always)]
    pub fn permute(sizes: &[i64], dims: &[i64]) -> Result<ViewMap, MetaError> {
        let (op, rank) = (Op::permute, sizes.len());
        if dims.len() != rank {
            return Err(MetaError::Count { op, expected: rank, found: dims.len() });
        }
        let mut axes = Axes::new();
        for d in dims {
            let dim = wrap_dim(*d, rank)?;
            if axes.contains(&dim) {
                let dims = dims.to_vec();
                return Err(MetaError::RepeatedDim { op, dim, dims });
            }
            axes.push(dim);
        }
        Ok(ViewMap::Permute(axes))
    }

    /// `transpose`.
    ///
    /// # Errors
    ///
    /// A dimension out of range.
    #[inline(always)]
    pub fn transpose(sizes: &[i64], a: i64, b: i64) -> Result<ViewMap, MetaError> {
        let rank = sizes.len();
        let (a, b) = (wrap_dim(a, rank)?, wrap_dim(b, rank)?);
        let mut axes: Axes = match rank <= 5 {
            true => Axes::from_buf_and_len([0, 1, 2, 3, 4], rank),
            false => (0..rank).collect(),
        };
        if rank > 0 {
            axes.swap(a, b);
        }
        Ok(ViewMap::Permute(axes))
    }

    /// `t`.
    ///
    /// # Errors
    ///
    /// The source has more than two dimensions.
    #[inline(always)]
    pub fn t(sizes: &[i64]) -> Result<ViewMap, MetaError> {
        match sizes.len() {
            0 | 1 => Ok(ViewMap::Identity),
            2 => Ok(ViewMap::Permute(smallvec![1, 0])),
            found => Err(MetaError::Rank { op: Op::t, expected: "at most 2", found }),
        }
    }

    /// `slice`.
    ///
    /// # Errors
    ///
    /// The dimension is out of range, or the step is not positive.
    #[inline(always)]
    pub fn slice(
        sizes: &[i64],
        dim: i64,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<ViewMap, MetaError> {
        let op = Op::slice_Tensor;
        if sizes.is_empty() {
            return Err(MetaError::Rank { op, expected: "at least 1", found: 0 });
        }
        if step <= 0 {
            return Err(MetaError::Value { op, name: "step", expected: "positive", found: step });
        }
        let dim = wrap_dim(dim, sizes.len())?;
        let (start, len) = slice_range(sizes[dim], start, end, step);
        Ok(ViewMap::Slice { dim, start, len, step })
    }

    /// `select`.
    ///
    /// # Errors
    ///
    /// The dimension or the index is out of range.
    #[inline(always)]
    pub fn select(sizes: &[i64], dim: i64, index: i64) -> Result<ViewMap, MetaError> {
        let op = Op::select_int;
        if sizes.is_empty() {
            return Err(MetaError::Rank { op, expected: "at least 1", found: 0 });
        }
        let dim = wrap_dim(dim, sizes.len())?;
        let n = sizes[dim];
        if index < -n || index >= n {
            return Err(MetaError::Position { op, index, sizes: Dims::from_slice(sizes), dim });
        }
        let index = if index < 0 { index + n } else { index };
        Ok(ViewMap::Select { dim, index })
    }

    /// `expand`.
    ///
    /// # Errors
    ///
    /// A size differs from the source's where that is not 1.
    #[inline(always)]
    pub fn expand(sizes: &[i64], to: &[i64]) -> Result<ViewMap, MetaError> {
        let fail = |why| MetaError::Expand {
            from: Dims::from_slice(sizes),
            to: Dims::from_slice(to),
            why,
        };
        let Some(lead) = to.len().checked_sub(sizes.len()) else {
            return Err(fail("these are fewer dimensions"));
        };
        let mut out = Dims::from_slice(to);
        for (i, want) in to.iter().enumerate() {
            let own = i.checked_sub(lead).map(|k| sizes[k]);
            out[i] = match (own, *want) {
                (None, -1) => {
                    return Err(fail("a leading dimension that does not exist cannot be -1"));
                }
                (_, w) if w < -1 => return Err(fail("a size is negative")),
                (Some(s), -1) => s,
                (None | Some(1), w) => w,
                (Some(s), w) if s == w => w,
                _ => return Err(fail("only dimensions of size 1 are repeated")),
            };
        }
        let count = out.iter().try_fold(1i64, |n, s| n.checked_mul((*s).max(1)));
        match count {
            Some(_) => Ok(ViewMap::Expand(out)),
            None => Err(MetaError::Sizes(out)),
        }
    }

    /// `squeeze`: removes the dimensions of size 1 among those named, or all of them if none are.
    ///
    /// # Errors
    ///
    /// A dimension out of range, or named twice.
    #[inline]
    pub fn squeeze(sizes: &[i64], dims: Option<&[i64]>) -> Result<ViewMap, MetaError> {
        let rank = sizes.len();
        let mut named = Axes::new();
        for d in dims.unwrap_or_default() {
            let dim = wrap_dim(*d, rank)?;
            if named.contains(&dim) {
                return Err(MetaError::RepeatedDim {
                    op: Op::squeeze_dims,
                    dim,
                    dims: dims.unwrap_or_default().to_vec(),
                });
            }
            named.push(dim);
        }
        let gone = |d: &usize| sizes[*d] == 1 && (dims.is_none() || named.contains(d));
        Ok(ViewMap::Squeeze((0..rank).filter(gone).collect()))
    }

    /// `unsqueeze`.
    ///
    /// # Errors
    ///
    /// The dimension is out of range for the view.
    #[inline(always)]
    pub fn unsqueeze(sizes: &[i64], dim: i64) -> Result<ViewMap, MetaError> {
        Ok(ViewMap::Unsqueeze(wrap_dim(dim, sizes.len() + 1)?))
    }

    /// `diagonal`.
    ///
    /// # Errors
    ///
    /// A dimension out of range, or the same one twice.
    pub fn diagonal(sizes: &[i64], offset: i64, a: i64, b: i64) -> Result<ViewMap, MetaError> {
        let (dim1, dim2) = (wrap_dim(a, sizes.len())?, wrap_dim(b, sizes.len())?);
        if dim1 == dim2 {
            return Err(MetaError::RepeatedDim { op: Op::diagonal, dim: dim1, dims: vec![a, b] });
        }
        // beyond the corners there is nothing, however far
        let corner = |d: usize| sizes.get(d).copied().unwrap_or(1);
        let offset = offset.clamp(-corner(dim1), corner(dim2));
        Ok(ViewMap::Diagonal { offset, dim1, dim2 })
    }

    /// `unfold`. A tensor without dimensions counts as one element along one dimension.
    ///
    /// # Errors
    ///
    /// A dimension out of range, a window longer than the dimension, or a step that is not
    /// positive.
    pub fn unfold(sizes: &[i64], dim: i64, size: i64, step: i64) -> Result<ViewMap, MetaError> {
        let op = Op::unfold;
        let dim = wrap_dim(dim, sizes.len())?;
        let n = sizes.get(dim).copied().unwrap_or(1);
        let value = |name, expected, found| MetaError::Value { op, name, expected, found };
        if size < 0 {
            return Err(value("size", "0 or more", size));
        }
        if size > n {
            return Err(value("size", "no longer than the dimension", size));
        }
        if step <= 0 {
            return Err(value("step", "positive", step));
        }
        Ok(ViewMap::Unfold { dim, size, step })
    }

    /// `view` and `reshape`.
    ///
    /// # Errors
    ///
    /// The sizes do not have the source's number of elements.
    #[inline(always)]
    pub fn reshape(sizes: &[i64], to: &[i64]) -> Result<ViewMap, MetaError> {
        Ok(ViewMap::Reshape(infer_sizes(to, numel(sizes))?))
    }
}
