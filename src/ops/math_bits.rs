//! The operators that make, ask for and resolve math bits, and what `clone`, `copy_` and `neg_` do
//! with tensors that carry one.
//!
//! A bit is a dispatch key on the tensor: `Negative`, `Conjugate` or `ZeroTensor`. The kernels at
//! those keys are in [`crate::modes::math_bits`] and [`crate::modes::zero_tensor`].

use crate::dispatch::{DispatchKey, DispatchKeySet, grad_enabled};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::ops::foreign::is_foreign;
use crate::ops::pointwise;
use crate::ops::pointwise::complex;
use crate::tensor::history::Kind;
use crate::tensor::storage::Storage;
use crate::tensor::{Tensor, access};
use std::borrow::Cow;
use straightline_catalog::prims::UnaryOp;
use straightline_catalog::{
    DType, Device, Dims, Layout, MemoryFormat, Scalar, default_dtype, layout,
};

pub(crate) fn neg_view(t: &Tensor) -> Result<Tensor> {
    let keys = t.key_set();
    let other = t.with_keys(if t.is_neg() {
        keys.remove(DispatchKey::Negative)
    } else {
        keys.add(DispatchKey::Negative)
    });
    Ok(other.into_view_of(t, Kind::Neg, grad_enabled()))
}

pub(crate) fn resolve_neg(t: &Tensor) -> Result<Tensor> {
    if t.is_neg() { aten::clone(t, None) } else { Ok(t.clone()) }
}

pub(crate) fn is_neg(t: &Tensor) -> Result<bool> {
    Ok(t.is_neg())
}

/// The conjugated tensor, without computing.
pub(crate) fn conj_view(t: &Tensor) -> Result<Tensor> {
    ensure_dtype!(
        t.dtype().is_complex(),
        "_conj is for complex tensors, and this one is {}: `conj` gives a real tensor itself",
        t.dtype()
    );
    let keys = t.key_set();
    let other = t.with_keys(if t.is_conj() {
        keys.remove(DispatchKey::Conjugate)
    } else {
        keys.add(DispatchKey::Conjugate)
    });
    Ok(other.into_view_of(t, Kind::Conj, grad_enabled()))
}

pub(crate) fn conj(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() { aten::_conj(t) } else { Ok(t.clone()) }
}

pub(crate) fn conj_physical(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() { aten::_conj_physical(t) } else { Ok(t.clone()) }
}

/// Conjugation in place: of the memory, whether it stands for itself or for its conjugate.
pub(crate) fn conj_physical_(t: &Tensor) -> Result<Tensor> {
    complex::conjugate_(&t.without_math_bits())?;
    Ok(t.clone())
}

/// The tensor for a kernel that reads memory: itself, or a copy where it is lazily conjugated or
/// negated.
pub(super) fn plain(t: &Tensor) -> Result<Cow<'_, Tensor>> {
    Ok(if t.is_conj() || t.is_neg() { Cow::Owned(clone(t, None)?) } else { Cow::Borrowed(t) })
}

pub(crate) fn resolve_conj(t: &Tensor) -> Result<Tensor> {
    if t.is_conj() { aten::clone(t, None) } else { Ok(t.clone()) }
}

pub(crate) fn is_conj(t: &Tensor) -> Result<bool> {
    Ok(t.is_conj())
}

pub(crate) fn conj_copy(t: &Tensor) -> Result<Tensor> {
    if t.is_conj() {
        return copy::clone(&t.without_math_bits(), None);
    }
    if t.dtype().is_complex() {
        return complex::conjugated(t);
    }
    copy::clone(t, None)
}

pub(crate) fn is_zero(t: &Tensor) -> Result<bool> {
    Ok(t.is_zerotensor())
}

pub(crate) fn efficient_zero(
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    crate::ops::common::check_sizes(size)?;
    let dtype = dtype.unwrap_or_else(default_dtype);
    let device = device.unwrap_or(Device::CPU);
    let bytes = usize::try_from(layout::numel(size))
        .ok()
        .and_then(|n| n.checked_mul(dtype.size()))
        .ok_or_else(|| Error::shape(format!("sizes {size:?} have too many bytes")))?;
    Ok(Tensor::build_with(
        Storage::without_data(bytes),
        dtype,
        device,
        Dims::from_slice(size),
        layout::contiguous_strides(size),
        0,
        DispatchKeySet::for_device(device.kind).add(DispatchKey::ZeroTensor),
        None,
    ))
}

pub(crate) const IMMUTABLE: &str = "ZeroTensors are immutable: they have no memory. Use `.clone()` for a zero tensor that can be \
     written";

/// [`copy::clone`] of a tensor that carries a bit: a copy that carries none.
pub(super) fn clone(t: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    let raw = t.without_math_bits();
    if t.is_zerotensor() {
        let strides = copy::format_strides(&raw, format)?;
        let sizes = Dims::from_slice(t.sizes());
        return copy::zero_(&Tensor::allocate(t.dtype(), t.device(), sizes, strides)?);
    }
    let out = copy::clone(&raw, format)?;
    if t.is_conj() {
        conjugate_memory(&out)?;
    }
    if t.is_neg() {
        negate_memory(&out)?;
    }
    Ok(out)
}

/// Conjugates what a tensor without a bit holds; where its backend alone knows that, by operators.
fn conjugate_memory(raw: &Tensor) -> Result<()> {
    match is_foreign(raw) || raw.storage().is_elsewhere() {
        true => aten::copy_(raw, &aten::_conj_physical(raw)?, false).map(drop),
        false => complex::conjugate_(raw),
    }
}

/// The same of negation.
fn negate_memory(raw: &Tensor) -> Result<()> {
    match is_foreign(raw) || raw.storage().is_elsewhere() {
        true => aten::neg_(raw).map(drop),
        false => pointwise::elementary_(UnaryOp::Neg, raw).map(drop),
    }
}

/// [`copy::copy_`] where one of the tensors carries a bit; the destination keeps its own.
pub(super) fn copy_(dst: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    if dst.is_zerotensor() {
        return Err(Error::runtime(IMMUTABLE));
    }
    if dst.same_handle(src) {
        return Ok(dst.clone());
    }
    let raw = dst.without_math_bits();
    let _whole = access::whole(&[dst], &[src])?;
    let values = if src.is_zerotensor() { clone(src, None)? } else { src.without_math_bits() };
    copy::copy_(&raw, &values, non_blocking)?;
    // of a real destination the imaginary part is dropped, whatever its sign
    if dst.is_conj() != src.is_conj() && raw.dtype().is_complex() {
        conjugate_memory(&raw)?;
    }
    if dst.is_neg() != src.is_neg() {
        negate_memory(&raw)?;
    }
    Ok(dst.clone())
}

/// Negation in place: of the memory, whether it stands for itself or for its negation.
pub(crate) fn neg_(t: &Tensor) -> Result<Tensor> {
    if t.is_neg() {
        negate_memory(&t.without_math_bits())?;
        return Ok(t.clone());
    }
    pointwise::elementary_(UnaryOp::Neg, t)
}

/// [`pointwise::add_scalar`], which `ZeroTensor` lets pass.
pub(crate) fn add_scalar(a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Tensor> {
    if a.is_zerotensor() {
        return aten::add_tensor(a, &Tensor::wrapped_number(b)?, alpha);
    }
    pointwise::add_scalar(a, b, alpha)
}

/// [`pointwise::mul_scalar`], which `ZeroTensor` lets pass.
pub(crate) fn mul_scalar(a: &Tensor, b: Scalar) -> Result<Tensor> {
    if a.is_zerotensor() {
        return aten::mul_tensor(a, &Tensor::wrapped_number(b)?);
    }
    pointwise::mul_scalar(a, b)
}

impl Tensor {
    /// [`Tensor::resolved`], with the tensor's strides.
    pub(crate) fn resolved_with_strides(&self) -> Result<Tensor> {
        crate::ops::copy::clone(self, None)
    }

    /// The tensor with memory that holds its values, past the dispatcher.
    pub(crate) fn resolved(&self) -> Result<Tensor> {
        if self.has_math_bits() {
            crate::ops::copy::clone(self, Some(MemoryFormat::Contiguous))
        } else {
            Ok(self.clone())
        }
    }
}
