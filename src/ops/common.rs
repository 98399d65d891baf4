//! What operator kernels share: promotion, result layout, dimensions.

use crate::error::{Error, Result};
use crate::ops::nn::channels::{Order, is_channels_last_contiguous};
use crate::tensor::Tensor;
pub(crate) use crate::tensor::check_sizes;
use smallvec::SmallVec;
use straightline_catalog::promote::{Operand, result_type};
use straightline_catalog::{DType, Device, Dims, Scalar, layout};
use straightline_catalog::{meta, view};

fn operand(t: &Tensor) -> Operand {
    Operand { dtype: t.dtype(), dims: t.dim(), wrapped_number: t.is_wrapped_number() }
}

fn scalar_operand(s: Scalar) -> Operand {
    Operand {
        // a bare float promotes by category; its own dtype is the default float type
        dtype: s.default_dtype(),
        dims: 0,
        wrapped_number: true,
    }
}

/// PyTorch's `result_type` of tensors.
pub(crate) fn promote(tensors: &[&Tensor]) -> Result<DType> {
    if let [a, b] = tensors
        && a.dtype() == b.dtype()
        && !(a.is_wrapped_number() && b.is_wrapped_number())
    {
        return Ok(a.dtype());
    }
    result_type(tensors.iter().map(|t| operand(t)))
        .ok_or_else(|| Error::dtype("no operand to take a dtype from"))
}

/// PyTorch's `result_type` of a tensor and a number.
pub(crate) fn promote_scalar(t: &Tensor, s: Scalar) -> DType {
    result_type([operand(t), scalar_operand(s)]).unwrap_or(t.dtype())
}

/// Operators that compute in floating point turn integers into the default float type.
pub(crate) fn float_of(dtype: DType) -> DType {
    straightline_catalog::promote::int_to_float(dtype)
}

/// The sizes that tensors broadcast to.
pub(crate) fn broadcast(tensors: &[&Tensor]) -> Result<Dims> {
    let mut sizes = Dims::from_slice(tensors[0].sizes());
    for t in &tensors[1..] {
        if sizes.as_slice() != t.sizes() {
            sizes = meta::broadcast(&sizes, t.sizes())?;
        }
    }
    Ok(sizes)
}

/// The strides that an element-wise result of `sizes` gets: row-major when the operands are, else
/// the operands' own order of dimensions (PyTorch's TensorIterator).
pub(crate) fn result_strides(sizes: &[i64], operands: &[&Tensor]) -> Dims {
    if sizes.len() <= 1 {
        return layout::contiguous_strides(sizes);
    }
    let all = |holds: &dyn Fn(&Tensor) -> bool| operands.iter().all(|t| holds(t));
    if all(&|t| t.sizes() == sizes) {
        if all(&|t| t.is_contiguous()) {
            return layout::contiguous_strides(sizes);
        }
        if sizes.len() == 4 && all(&|t| is_channels_last_contiguous(sizes, t.strides())) {
            return Order::ChannelsLast.strides(sizes);
        }
        let first = operands[0].strides();
        if all(&|t| t.strides() == first) && layout::is_non_overlapping_and_dense(sizes, first) {
            return Dims::from_slice(first);
        }
    }
    sorted_strides(sizes, operands)
}

/// [`result_strides`] of tensors and a number. PyTorch's iterator takes a number as a tensor
/// without dimensions, an operand of other sizes than the result, and then does not ask whether the
/// tensors are row-major or dense.
pub(crate) fn result_strides_with_number(sizes: &[i64], operands: &[&Tensor]) -> Dims {
    let row_major = layout::contiguous_strides(sizes);
    let plain = |t: &&Tensor| t.sizes() == sizes && t.strides() == row_major.as_slice();
    if sizes.len() <= 1 || (!sizes.contains(&0) && operands.iter().all(plain)) {
        return row_major;
    }
    sorted_strides(sizes, operands)
}

/// Whether strides reach the elements of a tensor in the same places.
pub(crate) fn reaches_the_same(t: &Tensor, strides: &[i64]) -> bool {
    t.numel() == 0 || (0..t.dim()).all(|d| t.sizes()[d] == 1 || t.strides()[d] == strides[d])
}

/// A tensor under strides that reach the same elements: others for dimensions of size 1, or where
/// there are no elements.
pub(crate) fn restrided(t: Tensor, strides: Dims) -> Tensor {
    debug_assert!(reaches_the_same(&t, &strides));
    if t.strides() == strides.as_slice() {
        return t;
    }
    t.with_geometry(Dims::from_slice(t.sizes()), strides, t.storage_offset())
}

/// Dense strides in the operands' order of dimensions in memory, as PyTorch's iterator sorts them.
pub(crate) fn sorted_strides(sizes: &[i64], operands: &[&Tensor]) -> Dims {
    let strides: SmallVec<[Dims; 4]> =
        operands.iter().map(|t| layout::broadcast_strides(t.sizes(), t.strides(), sizes)).collect();
    let order = layout::memory_order(sizes, &strides);
    if order.iter().copied().eq((0..sizes.len()).rev()) {
        return layout::contiguous_strides(sizes);
    }
    let mut out = layout::filled(0, sizes.len());
    let mut next: i64 = 1;
    for d in order {
        out[d] = next;
        // a dimension without elements leaves strides of 0 behind it
        next = next.saturating_mul(sizes[d]);
    }
    out
}

/// A dimension counted from the front, `-rank <= dim < rank`; a 0-dim tensor counts as one-dim.
pub(crate) fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    Ok(view::wrap_dim(dim, rank)?)
}

/// Several dimensions, none twice; none given (or an empty list) means all. Sorted.
pub(crate) fn wrap_dims(dims: Option<&[i64]>, rank: usize) -> Result<view::Axes> {
    Ok(meta::dims(dims, rank)?)
}

/// Whether computing in `from` and storing in `to` is allowed for in-place operators: never from a
/// higher category to a lower one.
pub(crate) fn check_can_cast(from: DType, to: DType) -> Result<()> {
    if from.category() > to.category() {
        return Err(Error::dtype(format!(
            "result type {} can't be cast to the desired output type {}",
            from.torch_name(),
            to.torch_name()
        )));
    }
    Ok(())
}

/// A number must be within the range of the type that shall hold it; its fraction may be lost. As
/// in PyTorch, the unsigned type takes a negative integer whose magnitude it could hold.
pub(crate) fn check_fits(value: Scalar, dtype: DType) -> Result<()> {
    if value.fits(dtype) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "value cannot be converted to type {} without overflow",
        dtype.torch_name()
    )))
}

/// Both on one device, 0-dim CPU tensors mixing with any.
pub(crate) fn check_devices(tensors: &[&Tensor]) -> Result<()> {
    let mut device = None;
    for t in tensors {
        if t.dim() == 0 && t.device().is_cpu() {
            continue;
        }
        match device {
            None => device = Some(t.device()),
            Some(d) if d != t.device() => {
                return Err(Error::device(format!(
                    "Expected all tensors to be on the same device, but found at least two devices, {d} and {}!",
                    t.device()
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses what memory has no room for, before something else allocates as much.
pub(crate) fn check_room(dtype: DType, device: Device, sizes: &[i64]) -> Result<()> {
    Tensor::allocate_contiguous(dtype, device, sizes).map(drop)
}

/// An error where an operator whose result's shape depends on data is given a tensor without: a
/// Meta tensor, or one that stands for a value while a function is captured.
pub(crate) fn needs_data(op: &str, x: &Tensor) -> Result<()> {
    // a stand-in without elements has all its data, and what is made of it here would be no
    // stand-in
    let stands_in = crate::tensor::watcher::is_stand_in(x);
    let has_data = x.storage().has_data() || x.storage().is_elsewhere();
    if has_data && !stands_in || crate::ops::foreign::is_foreign(x) {
        return Ok(());
    }
    Err(if crate::ops::copy::lacks_data() {
        Error::new(crate::error::ErrorKind::DataDependent { what: op.into() })
    } else {
        Error::not_implemented(format!(
            "{op}: the shape of the result depends on the data, which a meta tensor does not have"
        ))
    })
}

/// A number as Python writes a `float`.
pub(crate) fn python_float(x: f64) -> String {
    let text = format!("{x:?}");
    match text.split_once('e') {
        None => text,
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
    }
}
