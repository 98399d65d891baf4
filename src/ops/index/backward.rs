//! Derivatives of selections: zeros with the gradient at the selected places.

use crate::dispatch::watcher::in_place_of;
use crate::dispatch::{Value, handle_of};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::watcher;
use straightline_catalog::{DType, MemoryFormat, Op, Scalar};

fn zeros(like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    aten::zeros(sizes, Some(like.dtype()), None, Some(like.device()), None)
}

pub(crate) fn select_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    index: i64,
) -> Result<Tensor> {
    let zeros = zeros(grad, sizes)?;
    let part = aten::select_int(&zeros, dim, index)?;
    aten::select_scatter(&zeros, &spread(grad, &part)?, dim, index)
}

/// A gradient in the shape of the part that it goes to: PyTorch copies it there, and copies
/// broadcast.
fn spread(grad: &Tensor, part: &Tensor) -> Result<Tensor> {
    if grad.sizes() == part.sizes() {
        return Ok(grad.clone());
    }
    aten::expand(grad, part.sizes(), false)
}

pub(crate) fn slice_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: i64,
    end: i64,
    step: i64,
) -> Result<Tensor> {
    let zeros = zeros(grad, sizes)?;
    let part = aten::slice_tensor(&zeros, dim, Some(start), Some(end), step)?;
    let grad = spread(grad, &part)?;
    aten::slice_scatter(&zeros, &grad, dim, Some(start), Some(end), step)
}

pub(crate) fn diagonal_backward(
    grad: &Tensor,
    sizes: &[i64],
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    let zeros = zeros(grad, sizes)?;
    let part = aten::diagonal(&zeros, offset, dim1, dim2)?;
    aten::diagonal_scatter(&zeros, &spread(grad, &part)?, offset, dim1, dim2)
}

/// The same three outside of captures, which see values and not writes: the gradient is written into
/// its part of zeros, so that these are filled once and never copied.
pub(crate) fn select_backward_written(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    index: i64,
) -> Result<Tensor> {
    let zeros = zeros(grad, sizes)?;
    aten::copy_(&aten::select_int(&zeros, dim, index)?, grad, false)?;
    Ok(zeros)
}

pub(crate) fn slice_backward_written(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: i64,
    end: i64,
    step: i64,
) -> Result<Tensor> {
    let zeros = zeros(grad, sizes)?;
    let part = aten::slice_tensor(&zeros, dim, Some(start), Some(end), step)?;
    aten::copy_(&part, grad, false)?;
    Ok(zeros)
}

pub(crate) fn diagonal_backward_written(
    grad: &Tensor,
    sizes: &[i64],
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    let zeros = zeros(grad, sizes)?;
    aten::copy_(&aten::diagonal(&zeros, offset, dim1, dim2)?, grad, false)?;
    Ok(zeros)
}

pub(crate) fn index_select_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    index: &Tensor,
) -> Result<Tensor> {
    aten::index_add(&zeros(grad, sizes)?, dim, index, grad, Scalar::Int(1))
}

pub(crate) fn gather_backward(
    grad: &Tensor,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    sparse: bool,
) -> Result<Tensor> {
    ensure_not_implemented!(
        !sparse,
        "gather_backward: sparse gradients are not supported; use sparse_grad=False"
    );
    aten::scatter_add(&zeros(grad, x.sizes())?, dim, index, grad)
}

pub(crate) fn value_selecting_reduction_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let base = zeros(grad, sizes)?;
    if keepdim || sizes.is_empty() {
        return aten::scatter_src(&base, dim, indices, grad);
    }
    let (grad, indices) = (aten::unsqueeze(grad, dim)?, aten::unsqueeze(indices, dim)?);
    aten::scatter_src(&base, dim, &indices, &grad)
}

/// The error of a number that is no class.
pub(crate) fn no_class(index: i64) -> Error {
    Error::runtime(match index {
        ..0 => "Class values must be non-negative.",
        _ => "Class values must be smaller than num_classes.",
    })
}

/// 1 where the class is the element's, 0 elsewhere.
pub(crate) fn one_hot(x: &Tensor, num_classes: i64) -> Result<Tensor> {
    ensure_dtype!(
        x.dtype() == DType::I64,
        "one_hot is only applicable to index tensor of type LongTensor."
    );
    ensure!(
        x.numel() != 0 || num_classes > 0,
        "Can not infer total number of classes from empty tensor."
    );
    let mut classes = num_classes;
    // what is read of tensors with data is read here; a captured function must say how many classes
    // there are
    if classes == -1 {
        let what = "one_hot without a number of classes";
        crate::ops::common::needs_data(what, x)?;
        if watcher::capture().is_some() {
            let what = what.into();
            return Err(Error::new(ErrorKind::DataDependent { what }));
        }
    } else if classes < 1 {
        return Err(Error::runtime("num_classes should be positive"));
    }
    // one that a captured function closes over is no more read than one that it is given
    let read = classes == -1 || watcher::capture().is_none();
    // read by operators, not in memory of the host
    let foreign = crate::ops::foreign::is_foreign(x) || x.storage().is_elsewhere();
    if read && (foreign || x.storage().has_data()) && x.numel() > 0 {
        let item = |t: Tensor| match foreign {
            true => aten::_local_scalar_dense(&t).map(Scalar::as_i64),
            false => Ok(t.read_item()?.as_i64()),
        };
        let least = item(if foreign { aten::min(x)? } else { crate::ops::reduce::min(x)? });
        let low = match least {
            // of a batch nobody asks, and a class that there is not is nowhere 1
            Err(e) if classes != -1 && matches!(e.kind(), ErrorKind::Transform(_)) => {
                return one_hot_of(x, classes);
            }
            low => low?,
        };
        let high = item(if foreign { aten::max(x)? } else { crate::ops::reduce::max(x)? })?;
        if low < 0 {
            return Err(no_class(low));
        }
        if classes == -1 {
            classes = (high.checked_add(1)).ok_or_else(|| {
                Error::runtime(format!("one_hot: class {high} is more than there can be"))
            })?;
        } else if high >= classes {
            return Err(no_class(high));
        }
    }
    let all = aten::arange(Scalar::Int(classes), Some(DType::I64), None, Some(x.device()), None)?;
    // the result is row-major, whatever the operand's layout
    let mut x = aten::contiguous(x, MemoryFormat::Contiguous)?;
    if watcher::capture().is_some() && x.numel() > 0 {
        // a class is read from the list of all of them, which checks it as an index
        let args = [Value::Tensor(x.clone()), Value::Int(num_classes)];
        let sizes = x.sizes().to_vec();
        let read = || {
            let read = aten::index_select(&all, 0, &aten::reshape(&x, &[-1])?)?;
            aten::reshape(&read, &sizes)
        };
        let checked = in_place_of(handle_of(Op::one_hot)?, &args, read).transpose()?;
        x = checked.unwrap_or(x);
    }
    hits(&x, &all)
}

fn one_hot_of(x: &Tensor, classes: i64) -> Result<Tensor> {
    let all = aten::arange(Scalar::Int(classes), Some(DType::I64), None, Some(x.device()), None)?;
    hits(x, &all)
}

/// Where the class is that of the place.
fn hits(x: &Tensor, all: &Tensor) -> Result<Tensor> {
    let hit = aten::eq_tensor(&aten::unsqueeze(x, -1)?, all)?;
    aten::to_dtype(&hit, DType::I64, false, false, None)
}
