//! Blocks: matrices on a diagonal, chunks side by side, the coordinates of triangles, selections by
//! clamped indices.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{check_sizes, promote, wrap_dim};
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Device, Layout, Scalar};

/// Matrices one after another along the diagonal of zeros; a vector is one row.
pub(crate) fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        let float = Some(DType::F32);
        return aten::empty_memory_format(&[1, 0], float, None, Some(Device::CPU), None, None);
    };
    for (i, t) in tensors.iter().enumerate() {
        ensure_device!(
            t.device() == first.device(),
            "torch.block_diag: input tensors must all be on the same device. Input 0 is on \
                 device {} and input {i} is on device {}",
            first.device(),
            t.device()
        );
        ensure!(
            t.dim() <= 2,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} dimensions",
            t.dim()
        );
    }
    let shape = |t: &Tensor| match *t.sizes() {
        [m, n] => (m, n),
        [n] => (1, n),
        _ => (1, 1),
    };
    let sum = |f: &dyn Fn((i64, i64)) -> i64| {
        (tensors.iter()).fold(0i64, |n, t| n.saturating_add(f(shape(t))))
    };
    let sizes = [sum(&|s| s.0), sum(&|s| s.1)];
    let dtype = promote(&tensors.iter().collect::<Vec<_>>())?;
    let out = aten::zeros(&sizes, Some(dtype), None, Some(first.device()), None)?;
    let (mut row, mut column) = (0, 0);
    for t in tensors {
        let (m, n) = shape(t);
        let rows = aten::slice_tensor(&out, 0, Some(row), Some(row + m), 1)?;
        let block = aten::slice_tensor(&rows, 1, Some(column), Some(column + n), 1)?;
        aten::copy_(&block, t, false)?;
        (row, column) = (row + m, column + n);
    }
    Ok(out)
}

/// Each tensor in `num_chunks` chunks along a dimension, padded with zeros so that they are equal;
/// the first chunks of all side by side, then the second ones.
pub(crate) fn chunk_cat(tensors: &[Tensor], dim: i64, num_chunks: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(Error::runtime("_chunk_cat expects a non-empty input tensor list"));
    };
    ensure!(num_chunks >= 1, "_chunk_cat expects positive num_chunks");
    let dim = wrap_dim(dim, first.dim())?;
    let mut parts = Vec::with_capacity(tensors.len());
    for t in tensors {
        ensure!(t.numel() != 0, "_chunk_cat expects non-empty tensor");
        ensure!(t.dim() > dim, "_chunk_cat expects dim < ndim for all input tensors");
        ensure_dtype!(
            t.dtype() == first.dtype(),
            "_chunk_cat expects all input tensors with the same dtype"
        );
        ensure_device!(
            t.device() == first.device(),
            "_chunk_cat expects all inputs tensors on the same device"
        );
        ensure_shape!(
            t.sizes()[..dim] == first.sizes()[..dim],
            "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
        );
        let n = t.sizes()[dim];
        let padded = ((n - 1) / num_chunks + 1).saturating_mul(num_chunks);
        let t = if padded == n {
            t.clone()
        } else {
            let mut pads = vec![0; 2 * (t.dim() - dim)];
            if let Some(end) = pads.last_mut() {
                *end = padded - n;
            }
            aten::constant_pad_nd(t, &pads, Scalar::Int(0))?
        };
        let sizes = [&t.sizes()[..dim], &[num_chunks, -1]].concat();
        parts.push(aten::reshape(&t, &sizes)?);
    }
    aten::cat(&parts, dim as i64 + 1)
}

// ---- coordinates of triangles ------------------------------------------------------------------

/// How many elements of row `r` come before the diagonal ends: `0..=col`.
fn before(r: i64, col: i64, offset: i64) -> i64 {
    r.saturating_add(offset).saturating_add(1).clamp(0, col)
}

/// The sum of [`before`] over all rows.
fn below(row: i64, col: i64, offset: i64) -> i128 {
    let (row, col, offset) = (i128::from(row), i128::from(col), i128::from(offset));
    // rows before `start` have nothing, rows from `full` on everything
    let start = (-offset).clamp(0, row);
    let full = (col - offset - 1).clamp(start, row);
    let (n, first) = (full - start, start + offset + 1);
    n * first + n * (n - 1) / 2 + (row - full) * col
}

#[derive(Clone, Copy, PartialEq)]
enum Triangle {
    Lower,
    Upper,
}

fn indices(
    of: Triangle,
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
) -> Result<Tensor> {
    for (name, n) in [("row", row), ("col", col)] {
        ensure!(n >= 0, "{name} must be non-negative, got{n}");
    }
    ensure!(layout.is_none_or(|l| l == Layout::Strided), "only support layout=torch.strided");
    let (dtype, device) = (dtype.unwrap_or(DType::I64), device.unwrap_or(Device::CPU));
    ensure_not_implemented!(
        dtype.is_integral() && dtype != DType::Bool,
        "\"tril_indices\" not implemented for {}",
        dtype.torch_name()
    );
    // the diagonal of the elements above it ends one earlier
    let mut count = below(row, col, offset.saturating_sub(i64::from(of == Triangle::Upper)));
    if of == Triangle::Upper {
        count = i128::from(row) * i128::from(col) - count;
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    check_sizes(&[2, count])?;
    let mut out = Tensor::allocate_contiguous(DType::I64, device, &[2, count])?;
    launch::run(&mut out, (), |out, ()| {
        let places = out.slice::<i64>()?;
        let (rows, columns) = places.split_at_mut(count as usize);
        let mut places = rows.iter_mut().zip(columns);
        // the rows above a lower triangle are empty, and may be many
        let first = match of {
            Triangle::Lower => offset.saturating_neg().clamp(0, row),
            Triangle::Upper => 0,
        };
        for r in first..row {
            if places.len() == 0 {
                break;
            }
            let range = match of {
                Triangle::Lower => 0..before(r, col, offset),
                Triangle::Upper => before(r, col, offset.saturating_sub(1))..col,
            };
            for c in range {
                if let Some((i, j)) = places.next() {
                    (*i, *j) = (r, c);
                }
            }
        }
        Ok(())
    })?;
    crate::ops::copy::to_dtype(&out, dtype)
}

pub(crate) fn tril_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    indices(Triangle::Lower, row, col, offset, dtype, layout, device)
}

pub(crate) fn triu_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    indices(Triangle::Upper, row, col, offset, dtype, layout, device)
}

// ---- indices that may be beyond the ends -------------------------------------------------------

fn clamped(t: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let sizes = t.sizes().iter().copied().chain(std::iter::repeat(0));
    (indices.iter().zip(sizes))
        .map(|(index, size)| {
            let Some(index) = index else {
                return Ok(None);
            };
            ensure!(
                matches!(index.dtype(), DType::I64 | DType::I32),
                "_unsafe_masked_index found unexpected index type {}",
                index.dtype().torch_name()
            );
            let (min, max) = (Scalar::Int(-size), Scalar::Int(size - 1));
            aten::clamp(index, Some(min), Some(max)).map(Some)
        })
        .collect()
}

/// Elements at the indices, which count as the nearest that there are; `fill` where the mask is
/// false.
pub(crate) fn masked_index(
    t: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
    fill: Scalar,
) -> Result<Tensor> {
    if t.numel() == 0 {
        // one element along each dimension that is indexed, so that the indices find something
        let sizes: Vec<i64> = (t.sizes().iter().enumerate())
            .map(|(d, n)| match indices.get(d) {
                Some(Some(_)) if *n == 0 => 1,
                _ => *n,
            })
            .collect();
        let filled = aten::new_full(t, &sizes, fill, None, None, None, None)?;
        return aten::_unsafe_index_tensor(&filled, &clamped(&filled, indices)?);
    }
    let found = aten::_unsafe_index_tensor(t, &clamped(t, indices)?)?;
    aten::masked_fill_scalar(&found, &aten::logical_not(mask)?, fill)
}

/// Adds where the mask is true.
pub(crate) fn masked_index_put_accumulate(
    t: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
) -> Result<Tensor> {
    if t.numel() == 0 {
        return aten::clone(t, None);
    }
    let values = aten::masked_fill_scalar(values, &aten::logical_not(mask)?, Scalar::Int(0))?;
    aten::_unsafe_index_put(t, &clamped(t, indices)?, &values, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triangles_are_counted_without_their_rows() {
        for (row, col) in [(0, 3), (3, 0), (1, 1), (4, 3), (3, 5)] {
            for offset in -6..7 {
                let slow: i64 = (0..row).map(|r| before(r, col, offset)).sum();
                assert_eq!(below(row, col, offset), i128::from(slow), "{row} {col} {offset}");
            }
        }
        assert_eq!(below(i64::MAX, 1, i64::MIN), 0);
        assert!(tril_indices(i64::MAX, i64::MAX, 0, None, None, None, None).is_err());
    }

    #[test]
    fn blocks_on_a_diagonal() {
        let a = Tensor::from_vec([1i64, 2], 2).unwrap();
        let b = Tensor::from_vec([3f32], 1).unwrap().view(&[1, 1]).unwrap();
        let y = aten::block_diag(&[a, b]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0, 0.0, 0.0, 0.0, 3.0]);
    }
}
