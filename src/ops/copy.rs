//! Copies: `copy_`, `clone`, `contiguous`, conversion, `fill_`.

use crate::error::{Error, ErrorKind, Result};
use crate::ops::aten;
use crate::ops::common::{check_devices, reaches_the_same, restrided};
use crate::ops::nn::channels::{Order, is_channels_last_contiguous, suggested, suggested_format};
use crate::tensor::launch;
pub(crate) use crate::tensor::launch::clone_contiguous;
use crate::tensor::{Tensor, access};
#[cfg(feature = "cuda")]
use crate::tensor::{on_device, watcher};
use smallvec::SmallVec;
#[cfg(feature = "cuda")]
use straightline_catalog::DeviceType;
use straightline_catalog::{DType, Device, Dims, Layout, MemoryFormat, Scalar, layout, meta};
use straightline_runtime::cpu::kernels::{self, Triangle};

/// Copies element by element into fresh memory of the same sizes, converting.
pub(super) fn copy_into_fresh(out: &mut Tensor, src: &Tensor) -> Result<()> {
    launch::run(out, src, |out, src| Ok(kernels::copy(out, src)?))
}

/// A fresh result of an operator on `x`, dense in x's order of dimensions, in exactly the layout
/// that `empty_like` gives: many of PyTorch's operators allocate so, and the strides of dimensions
/// of size 1 and of tensors without elements tell.
pub(crate) fn laid_out_like(result: Tensor, x: &Tensor) -> Result<Tensor> {
    if result.sizes() != x.sizes() {
        return Ok(result); // the other operands made it larger
    }
    let strides = layout::preserved_strides(x.sizes(), x.strides());
    if reaches_the_same(&result, &strides) {
        return Ok(restrided(result, strides));
    }
    // the other operands have another order of dimensions
    let sizes = Dims::from_slice(x.sizes());
    let mut out = Tensor::allocate(result.dtype(), result.device(), sizes, strides)?;
    copy_into_fresh(&mut out, &result)?;
    Ok(out)
}

/// The tensor itself where it is row-major, else a row-major copy. For kernels: not dispatched.
pub(crate) fn to_contiguous(t: &Tensor) -> Result<Tensor> {
    if t.is_contiguous() { Ok(t.clone()) } else { clone_contiguous(t) }
}

/// The tensor itself where it is row-major and aligned for its dtype, else a copy that is.
pub(crate) fn to_aligned(t: &Tensor) -> Result<Tensor> {
    let t = to_contiguous(t)?;
    if t.storage().has_data() && t.data_ptr()?.addr() % t.dtype().size() != 0 {
        return clone_contiguous(&t);
    }
    Ok(t)
}

/// A converted copy in the tensor's own dimension order, or the tensor where nothing changes.
pub(crate) fn to_dtype(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype {
        return Ok(t.clone());
    }
    let strides = layout::preserved_strides(t.sizes(), t.strides());
    let mut out = Tensor::allocate(dtype, t.device(), Dims::from_slice(t.sizes()), strides)?;
    copy_into_fresh(&mut out, t)?;
    Ok(if t.is_wrapped_number() { out.into_wrapped_number() } else { out })
}

/// The strides of a fresh tensor in a memory format.
pub(crate) fn format_strides(t: &Tensor, format: Option<MemoryFormat>) -> Result<Dims> {
    match format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => Ok(layout::preserved_strides(t.sizes(), t.strides())),
        MemoryFormat::Contiguous => Ok(layout::contiguous_strides(t.sizes())),
        MemoryFormat::ChannelsLast => channels_last(t.sizes(), 4),
        MemoryFormat::ChannelsLast3d => channels_last(t.sizes(), 5),
    }
}

fn channels_last(sizes: &[i64], rank: usize) -> Result<Dims> {
    ensure_shape!(
        sizes.len() == rank,
        "required rank {rank} tensor to use this channels-last format, got sizes {sizes:?}"
    );
    let mut out = Dims::from_elem(0, rank);
    let mut next = 1;
    let order = std::iter::once(1).chain((2..rank).rev()).chain([0]);
    for d in order {
        out[d] = next;
        next *= sizes[d].max(1);
    }
    Ok(out)
}

pub(crate) fn clone(t: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    if t.has_math_bits() {
        return crate::ops::math_bits::clone(t, format);
    }
    if !has_memory_of_ours(t.device()) {
        let out = aten::empty_like(t, None, None, None, None, format)?;
        return aten::copy_(&out, t, false);
    }
    let strides = format_strides(t, format)?;
    let mut out = Tensor::allocate(t.dtype(), t.device(), Dims::from_slice(t.sizes()), strides)?;
    copy_into_fresh(&mut out, t)?;
    Ok(out)
}

pub(crate) fn contiguous(t: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    ensure!(
        format != MemoryFormat::Preserve,
        "preserve memory format is unsupported by the contiguous operator"
    );
    if t.strides() == format_strides(t, Some(format))?.as_slice()
        || (format == MemoryFormat::Contiguous && t.is_contiguous())
        || (format != MemoryFormat::Contiguous
            && is_channels_last_contiguous(t.sizes(), t.strides()))
    {
        return Ok(t.clone());
    }
    aten::clone(t, Some(format))
}

/// Whether the kernels here can reach the elements of tensors on a device: those of other devices
/// are their backend's.
pub(super) fn has_memory_of_ours(device: Device) -> bool {
    device.is_cpu() || device.is_meta()
}

pub(crate) fn copy_(dst: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    if dst.has_math_bits() || src.has_math_bits() {
        return crate::ops::math_bits::copy_(dst, src, non_blocking);
    }
    if dst.same_handle(src) {
        return Ok(dst.clone());
    }
    let fits = layout::broadcast(dst.sizes(), src.sizes()).is_some_and(|s| s[..] == *dst.sizes());
    ensure_shape!(
        fits,
        "the source of sizes {:?} does not broadcast to the destination's {:?}",
        src.sizes(),
        dst.sizes()
    );
    if let Some(t) = [dst, src].into_iter().find(|t| t.kind_without_memory().is_some()) {
        if dst.dtype().is_quantized() && src.kind_without_memory().is_none() {
            crate::ops::quantized::copy_from_float(dst, src)?;
            return Ok(dst.clone());
        }
        return Err(t.no_memory_error("copy_()"));
    }
    let known = has_memory_of_ours(dst.device()) && has_memory_of_ours(src.device());
    if !known && !dst.device().is_meta() {
        // dispatched: to the backend of either, which knows both
        aten::_copy_from(src, dst, non_blocking)?;
        return Ok(dst.clone());
    }
    ensure_not_implemented!(
        !src.device().is_meta() || dst.device().is_meta(),
        "Cannot copy out of meta tensor; no data!"
    );
    if dst.device().is_meta() {
        access::check_no_internal_overlap(dst)?;
    } else {
        let _whole =
            access::is_detached(dst, src).then(|| access::whole(&[dst], &[])).transpose()?;
        let src = access::detach_overlap(dst, src)?;
        launch::elementwise(launch::Written(dst), [&src], |dst, [src]| {
            Ok(kernels::copy(dst, src)?)
        })?;
    }
    Ok(dst.clone())
}

/// The functional form of `copy_`: the values of `src` in the shape and dtype of `dst`.
pub(crate) fn copy(dst: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    copy_(&like_with_strides(dst)?, src, non_blocking)
}

/// Fresh memory with exactly the strides and offset of a tensor, gaps included, unless its elements
/// overlap.
fn like_with_strides(t: &Tensor) -> Result<Tensor> {
    let sizes = Dims::from_slice(t.sizes());
    if layout::repeats(t.sizes(), t.strides()) {
        let strides = layout::preserved_strides(t.sizes(), t.strides());
        return Tensor::allocate(t.dtype(), t.device(), sizes, strides);
    }
    let strides = Dims::from_slice(t.strides());
    let offset = t.storage_offset();
    if offset == 0 {
        return Tensor::allocate(t.dtype(), t.device(), sizes, strides);
    }
    let reach = layout::storage_extent(t.sizes(), t.strides(), offset);
    let row = Tensor::allocate_contiguous(t.dtype(), t.device(), &[reach])?;
    Ok(row.with_geometry(sizes, strides, offset))
}

/// A copy that a scatter writes into.
pub(crate) fn clone_with_strides(t: &Tensor) -> Result<Tensor> {
    let mut out = like_with_strides(t)?;
    copy_into_fresh(&mut out, t)?;
    Ok(out)
}

pub(crate) fn to_copy(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if t.is_sparse() || t.is_sparse_csr() {
        return crate::ops::sparse::to_copy(t, dtype, layout, device, format);
    }
    let strides = format_strides(t, format)?;
    let out = aten::empty_strided(
        t.sizes(),
        &strides,
        Some(dtype.unwrap_or(t.dtype())),
        layout,
        Some(device.unwrap_or(t.device())),
        pin_memory,
    )?;
    aten::copy_(&out, t, non_blocking)
}

pub(crate) fn to_dtype_op(
    t: &Tensor,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let stays = |f| f == MemoryFormat::Preserve || f == suggested_format(t);
    if !copy && t.dtype() == dtype && format.is_none_or(stays) {
        return Ok(t.clone());
    }
    aten::_to_copy(t, Some(dtype), None, None, None, non_blocking, format)
}

pub(crate) fn to_device_op(
    t: &Tensor,
    device: Device,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = (Some(dtype), Some(device));
    to_dtype_layout(t, dtype, None, device, None, non_blocking, copy, format)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn to_dtype_layout(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let stays = dtype.is_none_or(|d| d == t.dtype())
        && device.is_none_or(|d| d.is_same_as(t.device()))
        && format.is_none_or(|f| f == MemoryFormat::Preserve || f == suggested_format(t));
    if stays && !copy {
        return Ok(t.clone());
    }
    #[cfg(feature = "cuda")]
    if dtype.is_none_or(|d| d == t.dtype())
        && let Some(device) = device
        && let Some(there) = constant_there(t, device)?
    {
        return Ok(there);
    }
    aten::_to_copy(t, dtype, layout, device, pin_memory, non_blocking, format)
}

/// What a captured function has made from data, on a GPU: a constant there too, which no replay copies.
#[cfg(feature = "cuda")]
fn constant_there(t: &Tensor, device: Device) -> Result<Option<Tensor>> {
    let moves = t.device().is_cpu() && device.kind == DeviceType::Cuda;
    if !moves || !watcher::is_constant(t) || !t.is_contiguous() {
        return Ok(None);
    }
    Ok(Some(on_device::copy_of(t, device)?.mark_made_during_capture()))
}

pub(crate) fn item(t: &Tensor) -> Result<Scalar> {
    ensure!(t.numel() == 1, "a Tensor with {} elements cannot be converted to Scalar", t.numel());
    aten::_local_scalar_dense(t)
}

/// The first element: that there is no other is for `item` to see to.
pub(crate) fn local_scalar_dense(t: &Tensor) -> Result<Scalar> {
    match t.numel() {
        0 | 1 => t.read_item(),
        _ => t.with_geometry(Dims::new(), Dims::new(), t.offset()).read_item(),
    }
}

/// Whether Meta tensors stand for tensors that would have data elsewhere.
pub(crate) fn lacks_data() -> bool {
    crate::tensor::watcher::lacks_data()
}

pub(crate) fn local_scalar_dense_meta(_: &Tensor) -> Result<Scalar> {
    Err(if lacks_data() {
        // what stands for a value while a function is captured, or for a fake tensor
        Error::new(ErrorKind::DataDependent { what: "item()".into() })
    } else {
        Error::device("item() on a meta tensor: it has a shape and no data")
    })
}

pub(crate) fn fill_(t: &Tensor, value: Scalar) -> Result<Tensor> {
    crate::ops::common::check_fits(value, t.dtype())?;
    // PyTorch fills an expanded tensor too: all of its elements are to be the same
    let cells = access::distinct(t);
    launch::run(launch::Written(&cells), (), |cells, ()| {
        kernels::fill(cells, value);
        Ok(())
    })?;
    Ok(t.clone())
}

pub(crate) fn zero_(t: &Tensor) -> Result<Tensor> {
    fill_(t, Scalar::Int(0))
}

/// The functional form of `fill_`.
pub(crate) fn fill(t: &Tensor, value: Scalar) -> Result<Tensor> {
    let out = Tensor::allocate(
        t.dtype(),
        t.device(),
        Dims::from_slice(t.sizes()),
        layout::preserved_strides(t.sizes(), t.strides()),
    )?;
    fill_(&out, value)
}

/// `tril` and `triu`: the elements on one side of a diagonal, zero elsewhere.
fn triangle(t: &Tensor, diagonal: i64, which: Triangle) -> Result<Tensor> {
    ensure_shape!(
        t.dim() >= 2,
        "{} expects a tensor with at least 2 dimensions, got sizes {:?}",
        match which {
            Triangle::Lower => "tril",
            Triangle::Upper => "triu",
        },
        t.sizes()
    );
    let mut out = Tensor::allocate_contiguous(t.dtype(), t.device(), t.sizes())?;
    launch::run(&mut out, t, |out, t| Ok(kernels::triangle(which, out, t, diagonal)?))?;
    Ok(out)
}

pub(crate) fn tril(t: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(t, diagonal, Triangle::Lower)
}

pub(crate) fn triu(t: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(t, diagonal, Triangle::Upper)
}

/// Tensors one after another along a dimension.
pub(crate) fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(Error::value("torch.cat(): expected a non-empty list of Tensors"));
    };
    let skip = |t: &Tensor| meta::is_skipped_by_cat(t.sizes());
    let shaped = tensors.iter().find(|t| !skip(t)).unwrap_or(first);
    if let Some(t) = tensors.iter().find(|t| t.dim() == 0) {
        return Err(Error::runtime(format!(
            "zero-dimensional tensor (dtype {}) cannot be concatenated",
            t.dtype()
        )));
    }
    let (dim, sizes) = meta::joined(tensors.iter().map(|t| t.sizes()), dim)?;
    let all: Vec<&Tensor> = tensors.iter().collect();
    check_devices(&all)?;
    let dtype = crate::ops::common::promote(&all)?;
    let last = |t: &Tensor| !skip(t) && suggested(t) == Order::ChannelsLast;
    let order = match tensors.iter().all(last) {
        true => Order::ChannelsLast,
        false => Order::Contiguous,
    };
    let strides = order.strides(&sizes);
    let mut out = Tensor::allocate(dtype, shaped.device(), sizes, strides)?;
    let parts: SmallVec<[&Tensor; 4]> = tensors.iter().filter(|t| !skip(t)).collect();
    launch::run(&mut out, &parts[..], |mut out, parts| {
        let mut at = 0;
        for part in parts {
            kernels::copy(out.part(dim, at, part.sizes())?, part)?;
            at += part.sizes()[dim];
        }
        Ok(())
    })?;
    Ok(out)
}
