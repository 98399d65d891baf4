//! Shapes made of other shapes: stacking, broadcasting, repeating, flipping, rolling, diagonals;
//! checks of shapes.

pub(crate) mod blocks;
pub(crate) mod combine;
pub(crate) mod diagonal;
pub(crate) mod repeat_interleave;

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{wrap_dim, wrap_dims};
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use smallvec::SmallVec;
use straightline_catalog::view::{chunk_sizes, infer_sizes};
use straightline_catalog::{DType, Device, Dims, Layout, MemoryFormat, Scalar};
use straightline_runtime::cpu::kernels;

// ---- at least so many dimensions --------------------------------------------------------------

pub(crate) fn atleast_1d(t: &Tensor) -> Result<Tensor> {
    match t.dim() {
        0 => aten::reshape(t, &[1]),
        _ => Ok(t.clone()),
    }
}

pub(crate) fn atleast_2d(t: &Tensor) -> Result<Tensor> {
    match t.dim() {
        0 => aten::reshape(t, &[1, 1]),
        1 => aten::unsqueeze(t, 0),
        _ => Ok(t.clone()),
    }
}

pub(crate) fn atleast_3d(t: &Tensor) -> Result<Tensor> {
    match t.dim() {
        0 => aten::reshape(t, &[1, 1, 1]),
        1 => aten::unsqueeze(&aten::unsqueeze(t, 0)?, -1),
        2 => aten::unsqueeze(t, -1),
        _ => Ok(t.clone()),
    }
}

pub(crate) fn atleast_1d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(aten::atleast_1d).collect()
}

pub(crate) fn atleast_2d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(aten::atleast_2d).collect()
}

pub(crate) fn atleast_3d_sequence(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(aten::atleast_3d).collect()
}

// ---- stacking ---------------------------------------------------------------------------------

fn check_some(tensors: &[Tensor], op: &str) -> Result<()> {
    ensure!(!tensors.is_empty(), "{op} expects a non-empty TensorList");
    Ok(())
}

pub(crate) fn hstack(tensors: &[Tensor]) -> Result<Tensor> {
    check_some(tensors, "hstack")?;
    let parts = aten::atleast_1d_sequence(tensors)?;
    let dim = if parts[0].dim() == 1 { 0 } else { 1 };
    aten::cat(&parts, dim)
}

pub(crate) fn vstack(tensors: &[Tensor]) -> Result<Tensor> {
    check_some(tensors, "vstack")?;
    aten::cat(&aten::atleast_2d_sequence(tensors)?, 0)
}

pub(crate) fn dstack(tensors: &[Tensor]) -> Result<Tensor> {
    check_some(tensors, "dstack")?;
    aten::cat(&aten::atleast_3d_sequence(tensors)?, 2)
}

pub(crate) fn column_stack(tensors: &[Tensor]) -> Result<Tensor> {
    check_some(tensors, "column_stack")?;
    let columns = tensors
        .iter()
        .map(|t| match t.dim() {
            0 | 1 => aten::reshape(t, &[t.numel(), 1]),
            _ => Ok(t.clone()),
        })
        .collect::<Result<Vec<_>>>()?;
    aten::hstack(&columns)
}

// ---- broadcasting and repeating ---------------------------------------------------------------

pub(crate) fn broadcast_tensors(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    let all: Vec<&Tensor> = tensors.iter().collect();
    let sizes = crate::ops::common::broadcast(&all)?;
    let expand = |t: &Tensor| match t.sizes() == sizes.as_slice() {
        true => Ok(t.clone()),
        false => aten::expand(t, &sizes, false),
    };
    tensors.iter().map(expand).collect()
}

/// The tensor several times over along each dimension: a new dimension per repeated one, expanded,
/// and copied.
pub(crate) fn repeat(t: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    let Some(lead) = repeats.len().checked_sub(t.dim()) else {
        return Err(Error::runtime(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
        ));
    };
    let mut target = Dims::from_elem(1, lead);
    target.extend_from_slice(t.sizes());
    for (size, n) in target.iter_mut().zip(repeats) {
        *size = size.saturating_mul(*n);
    }
    crate::ops::common::check_sizes(&target)?;
    if target.contains(&0) {
        // of a dimension without elements any number of copies has none, a negative one as well
        return aten::new_zeros(t, &target, None, None, None, None);
    }
    // each dimension as (copies, elements); a dimension of 1 is its own copies
    let mut x = t.clone();
    let mut expanded = Dims::new();
    let mut at = 0;
    for (i, &n) in repeats.iter().enumerate() {
        let size = if i < lead { 1 } else { t.sizes()[i - lead] };
        if i < lead || (size != 1 && n != 1) {
            x = aten::unsqueeze(&x, at)?;
        }
        expanded.push(if size == 1 || n != 1 { n } else { size });
        if size != 1 && n != 1 {
            expanded.push(size);
        }
        at = expanded.len() as i64;
    }
    let x = aten::expand(&x, &expanded, false)?;
    let x = aten::clone(&x, Some(MemoryFormat::Contiguous))?;
    if expanded == target {
        return Ok(x);
    }
    aten::_unsafe_view(&x, &target)
}

pub(crate) fn tile(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut repeats = Dims::from_elem(1, t.dim().saturating_sub(dims.len()));
    repeats.extend_from_slice(dims);
    aten::repeat(t, &repeats)
}

pub(crate) fn meshgrid(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    check_some(tensors, "meshgrid")?;
    for t in tensors {
        ensure!(
            t.dim() <= 1,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got sizes {:?}",
            t.sizes()
        );
        ensure!(
            t.dtype() == tensors[0].dtype(),
            "meshgrid expects all tensors to have the same dtype"
        );
        ensure!(
            t.device() == tensors[0].device(),
            "meshgrid expects all tensors to have the same device"
        );
    }
    let shape: Dims = tensors.iter().map(Tensor::numel).collect();
    tensors
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let mut own = Dims::from_elem(1, shape.len());
            own[i] = -1;
            aten::expand(&aten::view(t, &own)?, &shape, false)
        })
        .collect()
}

pub(crate) fn meshgrid_indexing(tensors: &[Tensor], indexing: &str) -> Result<Vec<Tensor>> {
    check_some(tensors, "meshgrid")?;
    let swap = match indexing {
        "ij" => false,
        "xy" => tensors.len() >= 2,
        other => {
            return Err(Error::runtime(format!(
                "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
            )));
        }
    };
    if !swap {
        return aten::meshgrid(tensors);
    }
    let mut turned = tensors.to_vec();
    turned.swap(0, 1);
    let mut grids = aten::meshgrid(&turned)?;
    grids.swap(0, 1);
    Ok(grids)
}

// ---- order of dimensions ----------------------------------------------------------------------

fn matrices(t: &Tensor, what: &str) -> Result<Option<Tensor>> {
    match t.dim() {
        0 => Ok(None),
        1 => Err(Error::runtime(format!(
            "tensor.{what} is only supported on matrices or batches of matrices. Got 1-D tensor."
        ))),
        _ => aten::transpose_int(t, -2, -1).map(Some),
    }
}

pub(crate) fn m_t(t: &Tensor) -> Result<Tensor> {
    Ok(matrices(t, "mT")?.unwrap_or_else(|| t.clone()))
}

pub(crate) fn m_h(t: &Tensor) -> Result<Tensor> {
    match matrices(t, "mH")? {
        Some(turned) => aten::conj(&turned),
        None => Ok(t.clone()),
    }
}

pub(crate) fn adjoint(t: &Tensor) -> Result<Tensor> {
    match matrices(t, "adjoint()")? {
        Some(turned) => aten::conj(&turned),
        None => aten::conj(t),
    }
}

pub(crate) fn matrix_h(t: &Tensor) -> Result<Tensor> {
    match t.dim() {
        0 => Ok(t.clone()),
        2 => aten::conj(&aten::transpose_int(t, 0, 1)?),
        n => Err(Error::runtime(format!(
            "tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor. For batches of matrices, consider using tensor.mH"
        ))),
    }
}

pub(crate) fn numpy_t(t: &Tensor) -> Result<Tensor> {
    let dims: SmallVec<[i64; 5]> = (0..t.dim() as i64).rev().collect();
    aten::permute(t, &dims)
}

pub(crate) fn unflatten(t: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    ensure!(
        t.dim() != 0,
        "unflatten got an unexpected error:\nDimension specified as 0 but tensor has no dimensions"
    );
    let d = wrap_dim(dim, t.dim())?;
    ensure!(!sizes.is_empty(), "unflatten: sizes must be non-empty");
    let size = t.sizes()[d];
    let inferred = infer_sizes(sizes, size).map_err(|_| {
        Error::runtime(format!(
            "unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {d} ({size}) in the input tensor"
        ))
    })?;
    let mut shape = Dims::from_slice(&t.sizes()[..d]);
    shape.extend_from_slice(&inferred);
    shape.extend_from_slice(&t.sizes()[d + 1..]);
    aten::view(t, &shape)
}

/// Their results are no views by their schemas, so that math bits are carried out first.
pub(crate) fn unsafe_split(t: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    let parts = aten::split_tensor(&t.resolve_conj()?.resolve_neg()?, size, dim)?;
    Ok(parts.into_iter().map(Tensor::into_no_view).collect())
}

pub(crate) fn unsafe_split_with_sizes(t: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let parts = aten::split_with_sizes(&t.resolve_conj()?.resolve_neg()?, sizes, dim)?;
    Ok(parts.into_iter().map(Tensor::into_no_view).collect())
}

pub(crate) fn unsafe_chunk(t: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(t.dim() != 0, "chunk expects at least a 1-dimensional tensor");
    let n = t.sizes()[wrap_dim(dim, t.dim())?];
    let sizes = chunk_sizes(n, chunks)?;
    match n {
        0 => aten::unsafe_split_with_sizes(t, &sizes, dim),
        _ => aten::unsafe_split_tensor(t, sizes[0], dim),
    }
}

// ---- flipping and rolling ---------------------------------------------------------------------

pub(crate) fn flip(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let wrapped = match dims {
        [] => SmallVec::new(),
        _ => wrap_dims(Some(dims), t.dim())?,
    };
    let strides = copy::format_strides(t, None)?;
    let mut out = Tensor::allocate(t.dtype(), t.device(), Dims::from_slice(t.sizes()), strides)?;
    let flipped: SmallVec<[bool; 5]> = (0..t.dim()).map(|d| wrapped.contains(&d)).collect();
    launch::run(&mut out, t, |out, t| Ok(kernels::flip(out, t, &flipped)?))?;
    Ok(out)
}

pub(crate) fn fliplr(t: &Tensor) -> Result<Tensor> {
    ensure!(t.dim() >= 2, "Input must be >= 2-d.");
    aten::flip(t, &[1])
}

pub(crate) fn flipud(t: &Tensor) -> Result<Tensor> {
    ensure!(t.dim() >= 1, "Input must be >= 1-d.");
    aten::flip(t, &[0])
}

pub(crate) fn rot90(t: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let &[a, b] = dims else {
        return Err(Error::runtime(format!(
            "expected total rotation dims == 2, but got dims = {}",
            dims.len()
        )));
    };
    ensure!(t.dim() >= 2, "expected total dims >= 2, but got total dims = {}", t.dim());
    ensure!(
        wrap_dim(a, t.dim())? != wrap_dim(b, t.dim())?,
        "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
    );
    match k.rem_euclid(4) {
        1 => aten::transpose_int(&aten::flip(t, &[b])?, a, b),
        2 => aten::flip(t, dims),
        3 => aten::transpose_int(&aten::flip(t, &[a])?, a, b),
        _ => aten::clone(t, Some(MemoryFormat::Contiguous)),
    }
}

pub(crate) fn roll(t: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    ensure!(!shifts.is_empty(), "`shifts` required");
    if let ([shift], []) = (shifts, dims) {
        let flat = aten::clone(t, Some(MemoryFormat::Contiguous))?;
        let flat = aten::view(&flat, &[t.numel()])?;
        return aten::view(&roll_one(&flat, *shift, 0)?, t.sizes());
    }
    ensure!(
        shifts.len() == dims.len(),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let mut out = t.clone();
    for (shift, dim) in shifts.iter().zip(dims) {
        out = roll_one(&out, *shift, *dim)?;
    }
    Ok(out)
}

fn roll_one(t: &Tensor, shift: i64, dim: i64) -> Result<Tensor> {
    if t.numel() == 0 {
        return aten::clone(t, Some(MemoryFormat::Preserve));
    }
    ensure_index!(t.dim() != 0, "Dimension specified as 0 but tensor has no dimensions");
    let d = wrap_dim(dim, t.dim())?;
    let n = t.sizes()[d];
    let start = n.wrapping_sub(shift % n).rem_euclid(n);
    let dim = d as i64;
    let parts = [
        aten::slice_tensor(t, dim, Some(start), Some(n), 1)?,
        aten::slice_tensor(t, dim, Some(0), Some(start), 1)?,
    ];
    aten::cat(&parts, dim)
}

// ---- dtypes and checks ------------------------------------------------------------------------

pub(crate) fn type_as(t: &Tensor, other: &Tensor) -> Result<Tensor> {
    aten::to_dtype_layout(
        t,
        Some(other.dtype()),
        None,
        Some(other.device()),
        None,
        false,
        false,
        None,
    )
}

pub(crate) fn lift_fresh(t: &Tensor) -> Result<Tensor> {
    Ok(t.clone())
}

pub(crate) fn lift(t: &Tensor) -> Result<Tensor> {
    Ok(t.clone())
}

pub(crate) fn result_type_scalar(t: &Tensor, s: Scalar) -> Result<DType> {
    Ok(crate::ops::common::promote_scalar(t, s))
}

pub(crate) fn result_type_scalar_tensor(s: Scalar, t: &Tensor) -> Result<DType> {
    Ok(crate::ops::common::promote_scalar(t, s))
}

pub(crate) fn result_type_scalar_scalar(a: Scalar, b: Scalar) -> Result<DType> {
    Ok(DType::promote(a.default_dtype(), b.default_dtype()))
}

/// How many elements are not zero (NaN is not).
pub(crate) fn count_nonzero(t: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    match dim {
        Some(d) => aten::count_nonzero_dim_int_list(t, &[d]),
        None => aten::count_nonzero_dim_int_list(t, &[]),
    }
}

pub(crate) fn assert_tensor_metadata(
    t: &Tensor,
    size: Option<&[i64]>,
    stride: Option<&[i64]>,
    dtype: Option<DType>,
    device: Option<Device>,
    layout: Option<Layout>,
) -> Result<()> {
    fn check<T: PartialEq + std::fmt::Debug>(what: &str, want: Option<T>, got: T) -> Result<()> {
        match want {
            Some(want) if want != got => Err(Error::runtime(format!(
                "Tensor {what} mismatch! Expected: {want:?}, Got: {got:?}"
            ))),
            _ => Ok(()),
        }
    }
    check("sizes", size, t.sizes())?;
    check("strides", stride, t.strides())?;
    check("dtype", dtype, t.dtype())?;
    if device.is_some_and(|d| !d.is_same_as(t.device())) {
        check("device", device, t.device())?;
    }
    let strided = !(t.is_sparse() || t.is_sparse_csr());
    match layout {
        Some(want) if (want == Layout::Strided) != strided => {
            Err(Error::runtime(format!("Tensor layout mismatch! Expected: {want:?}")))
        }
        _ => Ok(()),
    }
}

fn truth(t: &Tensor) -> Result<bool> {
    match t.numel() {
        1 => Ok(t.read_item()?.as_bool()),
        0 => Err(Error::runtime("Boolean value of Tensor with no values is ambiguous")),
        _ => Err(Error::runtime("Boolean value of Tensor with more than one value is ambiguous")),
    }
}

pub(crate) fn assert_async(t: &Tensor) -> Result<()> {
    if truth(t)? {
        return Ok(());
    }
    Err(Error::runtime("Expected Tensor with single nonzero value, but got zero"))
}

pub(crate) fn assert_async_msg(t: &Tensor, message: &str) -> Result<()> {
    if truth(t)? {
        return Ok(());
    }
    Err(Error::runtime(message))
}

/// Without memory there is nothing to look at.
pub(crate) fn assert_async_meta(_: &Tensor) -> Result<()> {
    Ok(())
}

pub(crate) fn assert_async_msg_meta(_: &Tensor, _: &str) -> Result<()> {
    Ok(())
}

pub(crate) fn assert_scalar(s: Scalar, message: &str) -> Result<()> {
    if s.as_bool() {
        return Ok(());
    }
    Err(Error::runtime(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: i64) -> Tensor {
        let x: Vec<i64> = (0..n).collect();
        Tensor::from_vec(x, -1).unwrap()
    }

    #[test]
    fn repeats_and_rolls() {
        let x = numbers(6).view(&[2, 3]).unwrap();
        let r = aten::repeat(&x, &[2, 1, 2]).unwrap();
        assert_eq!(r.sizes(), [2, 2, 6]);
        assert_eq!(r.to_vec::<i64>().unwrap()[..12], [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
        assert!(aten::repeat(&x, &[2]).is_err());
        let r = aten::roll(&x, &[-1], &[1]).unwrap();
        assert_eq!(r.to_vec::<i64>().unwrap(), [1, 2, 0, 4, 5, 3]);
        let r = aten::roll(&x, &[7], &[]).unwrap();
        assert_eq!(r.to_vec::<i64>().unwrap(), [5, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn checks_say_what_differs() {
        let x = numbers(3);
        aten::_assert_tensor_metadata(&x, Some(&[3]), None, Some(DType::I64), None, None).unwrap();
        let wrong = aten::_assert_tensor_metadata(&x, Some(&[2]), None, None, None, None);
        assert!(wrong.unwrap_err().to_string().contains("sizes mismatch"));
        assert!(aten::_assert_async(&Tensor::from_vec([0i64], 1).unwrap()).is_err());
    }
}
