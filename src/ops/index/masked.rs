//! Masks: what is not zero, selecting and filling where a mask is true.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{broadcast, needs_data};
use crate::ops::copy;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels;

/// The places that are not zero, in row-major order of the flat tensor.
fn true_places(x: &Tensor) -> Result<Vec<i64>> {
    let truth = copy::to_contiguous(&copy::to_dtype(x, DType::Bool)?)?;
    launch::read(&truth, |truth| Ok(kernels::true_places(truth)?))
}

/// Coordinates `[places, rank]` of flat places, column by column in memory as PyTorch has them.
fn coordinates(places: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let (n, rank) = (places.len(), sizes.len());
    let mut data = vec![0; n * rank];
    for (i, place) in places.iter().enumerate() {
        let mut rest = *place;
        for d in (0..rank).rev() {
            data[d * n + i] = rest % sizes[d];
            rest /= sizes[d];
        }
    }
    let columns = Tensor::from_slice(&data, &[rank as i64, n as i64])?;
    // of no places, too, the step from one to the next coordinate is their number
    let sizes = Dims::from_slice(&[n as i64, rank as i64]);
    Ok(columns.with_geometry(sizes, Dims::from_slice(&[1, n as i64]), 0))
}

pub(crate) fn nonzero(x: &Tensor) -> Result<Tensor> {
    needs_data("nonzero", x)?;
    coordinates(&true_places(x)?, x.sizes())
}

pub(crate) fn nonzero_numpy(x: &Tensor) -> Result<Vec<Tensor>> {
    let x = if x.dim() == 0 { aten::unsqueeze(x, 0)? } else { x.clone() };
    aten::unbind_int(&aten::nonzero(&x)?, 1)
}

/// `nonzero` cut or filled up to a number of rows.
pub(crate) fn nonzero_static(x: &Tensor, size: i64, fill: i64) -> Result<Tensor> {
    ensure!(size >= 0, "nonzero_static: 'size' must be an non-negative integer, got {size}");
    let sizes = [size, x.dim() as i64];
    let out = Tensor::allocate_contiguous(DType::I64, x.device(), &sizes)?;
    if !out.storage().has_data() || !x.storage().has_data() {
        return Ok(out);
    }
    let mut places = true_places(x)?;
    places.truncate(size as usize);
    copy::fill_(&out, Scalar::Int(fill))?;
    let found = coordinates(&places, x.sizes())?;
    let head = crate::ops::view::slice(&out, 0, Some(0), Some(places.len() as i64), 1)?;
    copy::copy_(&head, &found, false)?;
    Ok(out)
}

pub(crate) fn check_mask(mask: &Tensor, name: &str) -> Result<()> {
    if mask.dtype() == DType::Bool {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name} only supports boolean masks, but got mask with dtype {}",
        mask.dtype().torch_name()
    )))
}

fn expanded(x: &Tensor, sizes: &[i64]) -> Tensor {
    let strides = layout::broadcast_strides(x.sizes(), x.strides(), sizes);
    x.with_geometry(Dims::from_slice(sizes), strides, x.storage_offset())
}

fn vector(numbers: &[i64]) -> Result<Tensor> {
    Tensor::from_slice(numbers, &[numbers.len() as i64])
}

fn flat(x: &Tensor) -> Result<Tensor> {
    let x = copy::to_contiguous(x)?;
    Ok(x.with_geometry(Dims::from_slice(&[x.numel()]), Dims::from_slice(&[1]), x.storage_offset()))
}

pub(crate) fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    check_mask(mask, "masked_select")?;
    let sizes = broadcast(&[x, mask])?;
    needs_data("masked_select", mask)?;
    needs_data("masked_select", x)?;
    let x = copy::to_contiguous(&expanded(x, &sizes))?;
    let mask = copy::to_contiguous(&expanded(mask, &sizes))?;
    let count = launch::read(&mask, |mask| Ok(kernels::count_true(mask)?))?;
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), &[count as i64])?;
    if count > 0 {
        launch::run(&mut out, [&x, &mask], |out, [x, mask]| {
            Ok(kernels::masked_select(out, x, mask)?)
        })?;
    }
    Ok(out)
}

pub(crate) fn masked_select_backward(
    grad: &Tensor,
    input: &Tensor,
    mask: &Tensor,
) -> Result<Tensor> {
    ensure!(
        grad.dtype() == input.dtype(),
        "masked_scatter: expected self and source to have same dtypes but got {} and {}",
        input.dtype().torch_name(),
        grad.dtype().torch_name()
    );
    let sizes = broadcast(&[input, mask])?;
    let like = aten::expand(input, &sizes, false)?;
    let zeros = aten::zeros_like(&like, None, None, None, None, None)?;
    // in place: the result keeps the input's layout
    aten::masked_scatter_(&zeros, mask, grad)
}

/// `x` with the elements of `source`, in order, where the mask is true.
pub(crate) fn masked_scatter(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    ensure!(
        x.dtype() == source.dtype(),
        "masked_scatter: expected self and source to have same dtypes but got {} and {}",
        x.dtype().torch_name(),
        source.dtype().torch_name()
    );
    check_mask(mask, "masked_scatter_")?;
    let sizes = broadcast(&[x, mask])?;
    let out = copy::clone_contiguous(&expanded(x, &sizes))?;
    if out.storage().has_data() {
        let places = true_places(&expanded(mask, &sizes))?;
        ensure!(
            places.len() as i64 <= source.numel(),
            "Number of elements of source < number of ones in mask"
        );
        if !places.is_empty() {
            let values = flat(source)?;
            let values =
                crate::ops::view::slice(&values, 0, Some(0), Some(places.len() as i64), 1)?;
            crate::ops::index::scatter::scatter_src_(&flat(&out)?, 0, &vector(&places)?, &values)?;
        }
    }
    Ok(out)
}

pub(crate) fn masked_scatter_(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    ensure_shape!(
        broadcast(&[x, mask])?.as_slice() == x.sizes(),
        "output with shape {:?} doesn't match the mask's {:?}",
        x.sizes(),
        mask.sizes()
    );
    copy::copy_(x, &masked_scatter(x, mask, source)?, false)
}

/// The elements where the mask is true, then zeros, in the sizes of the source that was scattered.
pub(crate) fn masked_scatter_backward(
    grad: &Tensor,
    mask: &Tensor,
    sizes: &[i64],
) -> Result<Tensor> {
    crate::ops::common::check_sizes(sizes)?;
    let out = Tensor::allocate_contiguous(grad.dtype(), grad.device(), sizes)?;
    copy::zero_(&out)?;
    if out.storage().has_data() {
        let taken = masked_select(grad, mask)?;
        let n = taken.numel().min(out.numel());
        let head = crate::ops::view::slice(&flat(&out)?, 0, Some(0), Some(n), 1)?;
        copy::copy_(&head, &crate::ops::view::slice(&taken, 0, Some(0), Some(n), 1)?, false)?;
    }
    Ok(out)
}

pub(crate) fn masked_fill_tensor_(x: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure_shape!(
        value.dim() == 0,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    check_mask(mask, "masked_fill")?;
    ensure_shape!(
        broadcast(&[x, mask])?.as_slice() == x.sizes(),
        "output with shape {:?} doesn't match the broadcast shape of the mask's {:?}",
        x.sizes(),
        mask.sizes()
    );
    if !x.storage().has_data() || !value.storage().has_data() {
        return Ok(x.clone());
    }
    crate::ops::pointwise::masked_fill_(x, mask, value.read_item()?)
}
